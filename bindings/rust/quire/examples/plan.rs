//! A plan: what the layers of a model need, and how long sequences may get. No driver and no memory is needed.
//!
//!     cargo run --example plan                      a small hybrid model
//!     cargo run --example plan -- config.json 24    a model's config.json, and GiB of memory for its cache
use quire::*;

/// Every fourth layer attends; the others keep a state of fixed size.
fn hybrid() -> Result<Model> {
    let layer = |layer| match layer % 4 {
        3 => Layer {
            kind: LayerKind::Full,
            layer,
            num_kv_heads: 2,
            num_q_heads: 16,
            head_dim_k: 256,
            head_dim_v: 256,
            dtype: DType::BF16,
            ..Layer::default()
        },
        _ => Layer {
            kind: LayerKind::State,
            layer,
            state: vec![StateTensor { dtype: DType::F32, shape: vec![32, 128, 128], shard: None }],
            ..Layer::default()
        },
    };
    Model::new(&(0..8).map(layer).collect::<Vec<_>>(), 32768)
}

fn story(model: &Model, gib: u64) -> Result<()> {
    let options = PlanOptions { memory_bytes: vec![gib << 30], ..PlanOptions::default() };
    let config = Config::new(model, &options)?;
    let info = config.info()?;
    println!("{} groups, {} pages, {:.1} % of a page is padding at worst", info.num_groups, info.num_pages, 100.0 * info.padding_share);
    for index in 0..info.num_groups {
        let group = config.group(index)?;
        let kind = if group.is_state == 1 { "states" } else { "attention" };
        println!("group {}: {}, {} caches, {} bytes per block", index, kind, group.num_caches, group.payload_bytes_per_block);
    }
    let capacity = config.capacity(&CacheOptions::default(), 4096, 1)?;
    println!("{} sequences of 4096 tokens can decode together; a single one may get {} tokens", capacity.decoding, capacity.longest);
    Ok(())
}

fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let model = match arguments.first() {
        Some(path) => Model::from_json(&std::fs::read_to_string(path).map_err(|error| format!("{}: {}", path, error))?)?,
        None => hybrid()?,
    };
    let gib = match arguments.get(1) {
        Some(text) => text.parse().map_err(|error| format!("GiB of memory: {:?}: {}", text, error))?,
        None => 1,
    };
    Ok(story(&model, gib)?)
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{}", error);
        std::process::exit(1);
    }
}
