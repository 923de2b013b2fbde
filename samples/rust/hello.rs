//! Hello: a cache without a device. A prompt is computed, then asked for again: its full blocks are found.
use quire::*;

/// Computes a prompt and finishes its sequence, so that what it published can be found.
fn serve(cache: &Cache, prompt: &[Symbol]) -> Result<SequenceId> {
    let n = prompt.len() as u32;
    let sequence = cache.create_sequence(None)?;
    let want = Want { sequence, num_symbols: n, num_tokens: n, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
    let mut got = [Got::default()];
    let mut step = cache.reserve(&[want], prompt, &mut got)?.ok_or_else(|| got[0].error())?;
    print!("prompt of {} tokens: {} reused, {} to compute, blocks", n, got[0].hit_tokens, got[0].num_tokens);

    // Here an engine fills its tables and runs its layers over the tokens from got.position on.
    let mut ids = [0_i32; 8];
    step.fill(FillKind::RawTable, &Fill { pitch: 8, fill_value: -1, ..Fill::default() }, &mut ids)?;
    ids.iter().filter(|id| **id >= 0).for_each(|id| print!(" {}", id));
    println!();

    step.commit(&[Outcome { sequence, num_accepted: got[0].num_tokens, ..Outcome::default() }], &[])?;
    cache.finish_sequence(sequence)?;
    Ok(sequence)
}

fn story() -> Result<()> {
    let layer = |layer| Layer {
        kind: LayerKind::Full,
        layer,
        num_kv_heads: 2,
        num_q_heads: 4,
        head_dim_k: 64,
        head_dim_v: 64,
        dtype: DType::BF16,
        ..Layer::default()
    };
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let model = Model::new(&[layer(0), layer(1)], 512)?;
    let config = Config::new(&model, &PlanOptions { num_pages: 33, ..PlanOptions::default() })?; // page 0 is the null page
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default())?;
    let info = config.info()?;
    let block = config.group(0)?.block_tokens;
    println!("plan: {} group, {} pages, blocks of {} tokens", info.num_groups, info.num_pages, block);

    let mut prompt: Vec<Symbol> = (1000..1040).collect();
    serve(&cache, &prompt)?;
    serve(&cache, &prompt)?;
    prompt[20] = 7; // parts in the second block
    let last = serve(&cache, &prompt)?;
    let stats = cache.reader().stats()?;
    print!("reused {} of {} tokens; ", stats.hit_tokens, stats.matched_prompt_tokens);
    println!("pages: {} free, {} cached, {} used", stats.pages_free, stats.pages_evictable, stats.pages_used);
    if let Err(error) = cache.finish_sequence(last) {
        println!("finished twice: {}: {}", error.code, error.message);
    }
    Ok(())
}

fn main() {
    if let Err(error) = story() {
        println!("{}: {}", error.code, error.message);
        std::process::exit(1);
    }
}
