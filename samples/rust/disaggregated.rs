//! Two processes, one sequence: this one offers a prompt and computes it, a second one fetches it meanwhile over the connector `ucx` and decodes. Every row
//! that the second one computes reads all of the prompt, and is compared with plain attention. With `fault` one row of the prompt is wrong.
use quire::*;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 8;
const CHUNK: usize = 100;
const UNIT: u64 = 32;
const PROMPT: usize = 300;
const LENGTH: usize = PROMPT + 8;

/// The "model": element x of the query (0), key (1) or value (2) of a position.
fn element(which: usize, p: usize, x: usize) -> f32 {
    let h = ((which * 10007 + p) as u64 * 101 + x as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 58) as f32 / 32.0 - 1.0
}

/// softmax(q k / sqrt(DIM)) v over the positions up to p.
fn plain(p: usize, x: usize) -> f64 {
    let shared = x / DIM / (HEADS / KV_HEADS) * DIM; // where the head's keys and values start
    let (mut total, mut sum) = (0.0, 0.0);
    for t in 0..=p {
        let products = (0..DIM).map(|i| f64::from(element(0, p, x / DIM * DIM + i)) * f64::from(element(1, t, shared + i)));
        let weight = (products.sum::<f64>() / (DIM as f64).sqrt()).exp();
        total += weight;
        sum += weight * f64::from(element(2, t, shared + x % DIM));
    }
    sum / total
}

struct Engine {
    cache: Cache,
    memory: Memory,
    stream: Stream,
    wrong: bool, // the fault
}

/// A cache with its memory, and a connector that leads to the other process.
fn open(settings: &str, wrong: bool) -> Result<(Engine, Connector)> {
    let (kv, q, dim) = (KV_HEADS as u32, HEADS as u32, DIM as u32);
    let kind = LayerKind::Full;
    let layer = Layer { kind, num_kv_heads: kv, num_q_heads: q, head_dim_k: dim, head_dim_v: dim, dtype: DType::F32, ..Layer::default() };
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let config = Config::new(&Model::new(&[layer], 1024)?, &PlanOptions { num_pages: 101, ..PlanOptions::default() })?;
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions { max_load_tokens: 1024, ..CacheOptions::default() })?;
    let device = Device::open(&runtime, 0)?;
    let engine = Engine { memory: Memory::new(&device, &config, 0)?, stream: Stream::new(&device)?, cache, wrong };
    Ok((engine, Connector::open(&runtime, "ucx", settings)?))
}

impl Engine {
    fn tiers(&self, link: Connector) -> Result<Tiers<'_>> {
        let options = TiersOptions { weights: "org/model@revision", unit_tokens: UNIT, ..TiersOptions::default() };
        Ok(Tiers::new(&self.cache, std::slice::from_ref(&self.memory), &[&self.stream], vec![Tier::of_peers(link)], &options)?)
    }

    /// One step: what the layer gives for the tokens from `begin` on.
    fn forward(&self, step: &Step<'_>, batch: &Batch, begin: usize) -> Result<Vec<f32>> {
        let n = batch.tokens();
        let rows = |which: usize, heads: usize| -> Vec<f32> {
            (begin..begin + n).flat_map(|p| (0..heads * DIM).map(move |x| element(which, p, x))).collect()
        };
        let (query, mut key, value) = (rows(0, HEADS), rows(1, KV_HEADS), rows(2, KV_HEADS));
        if self.wrong && begin == 0 {
            key.iter_mut().take(KV_HEADS * DIM).for_each(|number| *number += 4.0);
        }
        let mut out = vec![0.0; n * HEADS * DIM];
        let kv = self.memory.paged_kv(0, 0)?;
        let (query, key) = (View::new(&query, &[n, HEADS, DIM])?, View::new(&key, &[n, KV_HEADS, DIM])?);
        let (value, out_view) = (View::new(&value, &[n, KV_HEADS, DIM])?, ViewMut::new(&mut out, &[n, HEADS, DIM])?);
        self.stream.scope(|queue| {
            queue.prepare_step(&self.memory, step)?;
            queue.kv_append(&kv, batch, key, Some(value))?;
            queue.attention(&kv, batch, query, out_view, None, &AttentionOptions::default())
        })?;
        Ok(out)
    }

    /// Computes the tokens that the sequence lacks, in chunks, and compares each row. Answers rows, and rows that differ.
    fn go_on(&self, tiers: &Tiers<'_>, sequence: SequenceId, symbols: &[Symbol], chunk: usize) -> Result<(usize, usize)> {
        let mut batch = Batch::new(self.cache.config(), 0)?;
        let (mut rows, mut mismatches) = (0, 0);
        loop {
            let now = self.cache.sequence_info(sequence)?;
            let (begin, known) = (now.committed as usize, now.known as usize);
            if begin == symbols.len() {
                return Ok((rows, mismatches));
            }
            let end = symbols.len().min(begin + chunk);
            let want = Want {
                sequence,
                symbols_position: now.known,
                symbols_offset: now.known,
                num_symbols: end.saturating_sub(known) as u32,
                num_tokens: (end - begin) as u32,
                flags: if begin == 0 { Want::MATCH } else { 0 },
                ..Want::default()
            };
            let mut got = [Got::default()];
            let mut step = self.cache.reserve(&[want], symbols, &mut got)?.ok_or_else(|| got[0].error())?;
            step.fill_batch(&mut batch)?;
            for (i, row) in self.forward(&step, &batch, begin)?.chunks(HEADS * DIM).enumerate() {
                let is_right = row.iter().enumerate().all(|(x, found)| (f64::from(*found) - plain(begin + i, x)).abs() < 1e-5);
                rows += 1;
                mismatches += usize::from(!is_right);
            }
            step.commit(&[Outcome { sequence, num_accepted: got[0].num_tokens, ..Outcome::default() }], &[])?;
            tiers.run(Duration::ZERO)?; // in each iteration of an engine; no fetch is in progress here
        }
    }
}

/// Runs the tiers until `done` answers.
fn until<T>(tiers: &Tiers<'_>, mut done: impl FnMut(Vec<Fetched>) -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if let Some(found) = done(tiers.run(Duration::from_millis(1))?)? {
            return Ok(found);
        }
    }
    panic!("the tiers did not end within 30 seconds");
}

/// The first process. It ends with the status of the second one.
fn prefill(symbols: &[Symbol], wrong: bool) -> Result<i32> {
    let port_file = std::env::temp_dir().join(format!("quire-disaggregated-{}", std::process::id()));
    let settings = format!(r#"{{"trusted": true, "lease": "5s", "listen": "127.0.0.1:0", "port_file": "{}"}}"#, port_file.display());
    let (engine, link) = open(&settings, wrong)?;
    let address = std::fs::read_to_string(&port_file).expect("the connector writes where it serves");
    std::fs::remove_file(&port_file).expect("the port file is there");
    let tiers = engine.tiers(link)?;
    let sequence = Sequence::new(&engine.cache, None)?;
    let end = (PROMPT as u64 - 1) / UNIT * UNIT; // the second process computes at least one token
    let prompt = &symbols[..end as usize];
    let offer = tiers.begin_offer(sequence.id(), prompt, Some(end), 0)?;
    until(&tiers, |_| tiers.offer_info(&offer.handle).map(|info| Some(()).filter(|()| info.is_ready != 0)))?;

    println!("prefill: offers {} tokens, and computes them", offer.end_token);

    // A router would pass this on, with the prompt.
    let handle: String = offer.handle.iter().map(|byte| format!("{:02x}", byte)).collect();
    let mut other = Command::new(std::env::current_exe().expect("this program has a path"));
    let mut other = other.arg("decode").stdin(Stdio::piped()).spawn().expect("the second process starts");
    let mut line = other.stdin.take().expect("its standard input is a pipe");
    write!(line, "{} {} {}", address.trim(), handle, offer.end_token).expect("the second process reads");
    drop(line);
    // Its reader loads each chunk when it is there. When the offer is complete, it keeps the blocks, and the sequence may finish.
    let is_complete = || tiers.offer_info(&offer.handle).map_or(true, |info| info.num_tokens == end);
    let computed = engine
        .go_on(&tiers, sequence.id(), prompt, CHUNK)
        .and_then(|_| until(&tiers, |_| Ok(Some(()).filter(|()| is_complete()))))
        .and_then(|()| sequence.finish());
    // The connector sends on a thread of its own; the offer ends when the second process is done with it, whatever came.
    until(&tiers, |_| Ok(Some(()).filter(|()| matches!(other.try_wait(), Ok(Some(_))))))?;
    let status = other.wait().expect("the second process has ended").code().unwrap_or(1);
    computed?;
    until(&tiers, |_| Ok(Some(()).filter(|()| tiers.stats().map_or(false, |stats| stats.offers_in_progress == 0))))?;
    println!("prefill: the offer has ended");
    Ok(status)
}

/// The second process.
fn decode(symbols: &[Symbol]) -> Result<i32> {
    let mut line = String::new();
    std::io::stdin().read_to_string(&mut line).expect("standard input");
    let mut words = line.split(' ');
    let mut word = || words.next().expect("ADDRESS HANDLE END");
    let (address, hex, end) = (word(), word(), word());
    let mut handle = OfferHandle::default();
    for (i, byte) in handle.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("a handle");
    }
    let (engine, link) = open(r#"{"trusted": true}"#, false)?;
    let tiers = engine.tiers(link)?;
    let sequence = Sequence::new(&engine.cache, None)?;
    let peer = Peer { tier: 0, address, handle, end_token: end.parse().expect("a number"), grows: true, encoder_tokens: 0 };
    tiers.begin_fetch_from(&peer, sequence.id(), &symbols[..PROMPT], Some(Duration::from_secs(10)))?;
    let ended = until(&tiers, |ended| Ok(ended.first().copied()))?;
    println!("decode: {:?}, {} tokens came", ended.outcome, ended.committed);

    let rest = engine.go_on(&tiers, sequence.id(), &symbols[..PROMPT], CHUNK)?;
    let decoded = engine.go_on(&tiers, sequence.id(), symbols, 1)?;
    let (rows, mismatches) = (rest.0 + decoded.0, rest.1 + decoded.1);
    println!("decode: verified {} rows, {} mismatches", rows, mismatches);
    Ok(i32::from(mismatches != 0))
}

fn main() {
    let symbols: Vec<Symbol> = (1000..1000 + LENGTH as u32).collect();
    let argument = std::env::args().nth(1).unwrap_or_default();
    let status = if argument == "decode" { decode(&symbols) } else { prefill(&symbols, argument == "fault") };
    std::process::exit(status.unwrap_or_else(|error| {
        println!("{}: {}", error.code, error.message);
        1
    }));
}
