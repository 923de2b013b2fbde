//! The step loop: reserve, tables, append, attention on the driver that QUIRE_DRIVER names, commit. A plain loop checks every number.
mod plain;
use plain::{element, plain, DIM, HEADS, KV_HEADS};
use quire::*;

const SEQUENCES: usize = 2;
const STEPS: usize = 6;
const TOKENS: usize = 32;
const ROW: usize = HEADS * DIM;
const KV_ROW: usize = KV_HEADS * DIM;

/// What the model computes for the tokens of a step; allocated once.
struct Rows {
    query: [f32; TOKENS * ROW],
    key: [f32; TOKENS * KV_ROW],
    value: [f32; TOKENS * KV_ROW],
    out: [f32; TOKENS * ROW],
}

/// The tokens of a step: (index, sequence, position).
fn tokens_of(batch: &Batch) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let rows = batch.query_indptr().windows(2).enumerate();
    rows.flat_map(move |(s, ends)| (ends[0] as usize..ends[1] as usize).map(move |i| (i, s, batch.positions()[i] as usize)))
}

fn forward(memory: &Memory, stream: &Stream, step: &Step<'_>, batch: &Batch, rows: &mut Rows) -> Result<()> {
    for (i, s, p) in tokens_of(batch) {
        (0..ROW).for_each(|x| rows.query[i * ROW + x] = element(0, s, p, x));
        (0..KV_ROW).for_each(|x| rows.key[i * KV_ROW + x] = element(1, s, p, x));
        (0..KV_ROW).for_each(|x| rows.value[i * KV_ROW + x] = element(2, s, p, x));
    }
    let kv = memory.paged_kv(0, 0)?;
    let n = batch.tokens();
    let (key, value) = (View::new(&rows.key, &[n, KV_HEADS, DIM])?, View::new(&rows.value, &[n, KV_HEADS, DIM])?);
    let (query, out) = (View::new(&rows.query, &[n, HEADS, DIM])?, ViewMut::new(&mut rows.out, &[n, HEADS, DIM])?);
    stream.scope(|queue| {
        queue.prepare_step(memory, step)?;
        queue.kv_append(&kv, batch, key, Some(value))?;
        queue.attention(&kv, batch, query, out, None, &AttentionOptions::default())
    })
}

fn run(cache: &Cache, memory: &Memory, stream: &Stream) -> Result<()> {
    let mut batch = Batch::new(cache.config(), 0)?;
    let mut rows =
        Rows { query: [0.0; TOKENS * ROW], key: [0.0; TOKENS * KV_ROW], value: [0.0; TOKENS * KV_ROW], out: [0.0; TOKENS * ROW] };
    let symbols: Vec<Symbol> = (1000..1000 + TOKENS as u32).collect();
    let mut want = [
        Want { num_symbols: 20, num_tokens: 20, ..Want::default() },
        Want { symbols_offset: 20, num_symbols: 7, num_tokens: 7, ..Want::default() },
    ];
    for each in &mut want {
        each.sequence = cache.create_sequence(None)?;
    }
    let mut got = [Got::default(); SEQUENCES];
    let mut row = [Outcome::default(); SEQUENCES];
    for _ in 0..STEPS {
        let mut step = cache.reserve(&want, &symbols, &mut got)?.ok_or_else(|| got[0].error())?;
        step.fill_batch(&mut batch)?;
        forward(memory, stream, &step, &batch, &mut rows)?;
        let (mut worst, mut sum) = (0.0_f64, 0.0);
        for (i, s, p) in tokens_of(&batch) {
            for x in 0..ROW {
                let found = f64::from(rows.out[i * ROW + x]);
                sum += found.abs();
                worst = worst.max((found - plain(s, p, x)).abs());
            }
        }
        let verdict = if worst < 1e-5 { "equal to plain attention" } else { "WRONG" };
        println!("{} tokens, lengths {} {}, checksum {:.2}, {}", batch.tokens(), batch.kv_len()[0], batch.kv_len()[1], sum, verdict);
        for s in 0..SEQUENCES {
            let sequence = want[s].sequence; // here an engine samples: symbols[s]
            let (symbols_position, symbols_offset, num_accepted) = (got[s].end(), s as u64, got[s].num_tokens);
            row[s] = Outcome { sequence, symbols_position, symbols_offset, num_symbols: 1, num_accepted };
            want[s] = Want { sequence, num_tokens: 1, ..Want::default() };
        }
        step.commit(&row, &symbols[..SEQUENCES])?;
    }
    Ok(())
}

fn story() -> Result<()> {
    let (kv, q, dim) = (KV_HEADS as u32, HEADS as u32, DIM as u32);
    let kind = LayerKind::Full;
    let layer = Layer { kind, num_kv_heads: kv, num_q_heads: q, head_dim_k: dim, head_dim_v: dim, dtype: DType::F32, ..Layer::default() };
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let config = Config::new(&Model::new(&[layer], 64)?, &PlanOptions { num_pages: 9, ..PlanOptions::default() })?;
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default())?;
    let device = Device::open(&runtime, 0)?;
    run(&cache, &Memory::new(&device, &config, 0)?, &Stream::new(&device)?)
}

fn main() {
    if let Err(error) = story() {
        println!("{}: {}", error.code, error.message);
        std::process::exit(1);
    }
}
