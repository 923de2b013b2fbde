//! Tiers: what a prompt cached goes to host memory, is forgotten by the cache, and comes back without being computed. A second thread writes
//! metrics meanwhile.
use quire::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TOKENS: usize = 64;

fn layer() -> Layer {
    let kind = LayerKind::Full;
    Layer { kind, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 16, head_dim_v: 16, dtype: DType::F32, ..Layer::default() }
}

/// Stands for a model: computes a prompt in one step and commits it.
fn compute(cache: &Cache, memory: &Memory, stream: &Stream, prompt: &[Symbol]) -> Result<()> {
    let sequence = Sequence::new(cache, None)?; // finished at the end, and after an error, too
    let n = prompt.len() as u32;
    let want = Want { sequence: sequence.id(), num_symbols: n, num_tokens: n, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
    let mut got = [Got::default()];
    let mut step = cache.reserve(&[want], prompt, &mut got)?.ok_or_else(|| got[0].error())?;
    let mut batch = Batch::new(cache.config(), 0)?;
    step.fill_batch(&mut batch)?;
    let values: Vec<f32> = (0..TOKENS * 16).map(|i| i as f32).collect();
    let (kv, shape) = (memory.paged_kv(0, 0)?, [TOKENS, 1, 16]);
    stream.scope(|queue| {
        queue.prepare_step(memory, &step)?;
        queue.kv_append(&kv, &batch, View::new(&values, &shape)?, Some(View::new(&values, &shape)?))
    })?;
    let row = Outcome { sequence: sequence.id(), num_accepted: got[0].num_tokens, symbols_position: u64::from(n), ..Outcome::default() };
    step.commit(&[row], &[])?;
    println!("computed {} tokens", got[0].num_tokens);
    Ok(())
}

/// Runs the tiers until `done` answers; nothing here takes long.
fn until<T>(tiers: &Tiers<'_>, mut done: impl FnMut(Vec<Fetched>) -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if let Some(found) = done(tiers.run(Duration::from_millis(1))?)? {
            return Ok(found);
        }
    }
    panic!("the tiers did not end within 30 seconds");
}

fn story() -> Result<()> {
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let config = Config::new(&Model::new(&[layer()], 256)?, &PlanOptions { num_pages: 33, ..PlanOptions::default() })?;
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions { max_load_tokens: 256, ..CacheOptions::default() })?;
    let device = Device::open(&runtime, 0)?;
    let (stream, memory) = (Stream::new(&device)?, Memory::new(&device, &config, 0)?);
    let host = Tier::new(Connector::open(&runtime, "host", r#"{"bytes": "64MiB"}"#)?);
    let options = TiersOptions { weights: "org/model@revision", unit_tokens: 16, ..TiersOptions::default() };
    let tiers = Tiers::new(&cache, std::slice::from_ref(&memory), &[&stream], vec![host], &options)?;

    let (over, reader, counts) = (AtomicBool::new(false), tiers.reader().clone(), cache.reader().clone());
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let mut texts = 0;
            loop {
                let source = MetricsSource { cache: Some(&counts), tiers: Some(&reader), ..MetricsSource::default() };
                write_metrics(&[source], MetricsFormat::Prometheus)?;
                texts += 1; // at least once, however late this thread begins
                if over.load(Ordering::Acquire) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok::<u32, Error>(texts)
        });
        let ended = engine(&cache, &memory, &stream, &tiers);
        over.store(true, Ordering::Release);
        let texts = scraper.join().expect("the thread of metrics")?;
        ended?;
        println!("metrics were written meanwhile: {}", texts > 0);
        Ok(())
    })
}

fn engine(cache: &Cache, memory: &Memory, stream: &Stream, tiers: &Tiers<'_>) -> Result<()> {
    let prompt: Vec<Symbol> = (0..=TOKENS as u32).collect();
    compute(cache, memory, stream, &prompt[..TOKENS])?;
    let stored = until(tiers, |_| Ok(Some(tiers.tier_stats(0)?.units_stored).filter(|units| *units == 4)))?;
    println!("{} units are in tier `{}`", stored, tiers.tier_name(0)?);
    cache.reset()?;

    let sequence = Sequence::new(cache, None)?;
    tiers.begin_fetch(sequence.id(), &prompt, None)?;
    let ended = until(tiers, |ended| Ok(ended.first().copied()))?;
    println!("fetched: {:?}, {} tokens", ended.outcome, ended.committed);
    Ok(())
}

fn main() {
    if let Err(error) = story() {
        eprintln!("{}", error);
        std::process::exit(1);
    }
}
