//! Every published configuration of samples/models: planned by one of two policies in turn, a prompt served chunk by chunk, a decode, and the arrays of every
//! step in a `Batch` that was made once.

mod common;
use quire::*;

fn serve_with_arrays(name: &str, config: &Config, cache: &Cache, batch: &mut Batch, prompt: &[Symbol]) {
    let sequence = cache.create_sequence(None).unwrap();
    let end = prompt.len() as u64 + 3; // three tokens of decoding
    let mut done = 0;
    while done < end {
        let left = (prompt.len() as u64).saturating_sub(done) as u32;
        let flags = if done == 0 { Want::MATCH | Want::PROMPT_END } else { Want::PROMPT_END };
        let decode = Want { sequence, num_tokens: 1, ..Want::default() };
        let (symbols_position, symbols_offset) = (done, done);
        let prefill = Want { sequence, symbols_position, symbols_offset, num_symbols: left, num_tokens: left, flags, ..Want::default() };
        let mut got = [Got::default()];
        let want = if left == 0 { decode } else { prefill };
        let mut step = cache.reserve(&[want], prompt, &mut got).unwrap().ok_or_else(|| got[0].error()).unwrap();
        step.fill_batch(batch).unwrap_or_else(|error| panic!("{}: {}", name, error));
        done = got[0].end();
        assert_eq!(batch.kv_len(), [done as i32], "{}", name);
        assert_eq!(batch.positions().last(), Some(&(done as i32 - 1)), "{}", name);
        let num_symbols = u32::from(done >= prompt.len() as u64);
        let num_accepted = got[0].num_tokens;
        let row = Outcome { sequence, num_accepted, symbols_position: done, num_symbols, ..Outcome::default() };
        step.commit(&[row], &[5][..num_symbols as usize]).unwrap();
    }
    assert_eq!(cache.sequence_info(sequence).unwrap().committed, end);
    cache.finish_sequence(sequence).unwrap();
    cache.verify().unwrap();
    assert!(config.info().unwrap().num_groups > 0);
}

#[test]
fn every_model_is_planned_and_served() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../samples/models");
    let prompt: Vec<Symbol> = (0..700).collect();
    let (mut planned, mut served) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let model = if text.contains("\"specs\"") { Model::from_layers(&text) } else { Model::from_json(&text) };
        let model = model.unwrap_or_else(|error| panic!("{}: {}", name, error));
        assert!(model.describe().unwrap().lines().count() > 1);
        planned += 1;
        for policy in &["vllm", "auto"][planned % 2..][..1] {
            let options =
                PlanOptions { policy: policy.to_string(), memory_bytes: vec![8 << 30], max_model_len: 1024, ..PlanOptions::default() };
            let config = match Config::new(&model, &options) {
                Ok(config) => config,
                Err(error) => {
                    assert!(
                        matches!(error.code, Code::Unimplemented | Code::NotRepresentable | Code::ResourceExhausted),
                        "{}: {}",
                        name,
                        error
                    );
                    continue;
                }
            };
            let cache = Cache::new(None, &config, &CacheOptions { max_sequences: 2, ..CacheOptions::default() }).unwrap();
            let mut batch = Batch::new(&config, 0).unwrap();
            serve_with_arrays(&name, &config, &cache, &mut batch, &prompt);
            serve_with_arrays(&name, &config, &cache, &mut batch, &prompt);
            served += 1;
        }
    }
    assert!(served >= 30, "{} plans were served", served);
    println!("{} plans served", served);
}
