//! Tiers and sessions over the connectors `host` and `null`: what was computed once comes back with its bytes, and what is wrong is refused.

mod common;
use common::*;
use quire::*;
use std::io::{Read, Write};
use std::time::Duration;

const WEIGHTS: &str = "test/model@1";

/// A cache with bytes, whose kernels write a number for each token: 1000 times its layer and the symbol.
struct Engine {
    runtime: Runtime,
    config: Config,
    cache: Cache,
    stream: Stream,
    memory: Memory,
}

impl Engine {
    fn new(block: u32) -> Engine {
        let runtime = runtime("cpu");
        let model = Model::new(&[full_layer(0), full_layer(1)], 256).unwrap();
        let config = Config::new(&model, &PlanOptions { num_pages: 65, block_tokens: block, ..PlanOptions::default() }).unwrap();
        let cache = Cache::new(Some(&runtime), &config, &CacheOptions { max_load_tokens: 256, ..CacheOptions::default() }).unwrap();
        let device = Device::open(&runtime, 0).unwrap();
        let stream = Stream::new(&device).unwrap();
        let memory = Memory::new(&device, &config, 0).unwrap();
        Engine { runtime, config, cache, stream, memory }
    }

    fn connector(&self, name: &str, config: &str) -> Connector {
        Connector::open(&self.runtime, name, config).unwrap()
    }

    fn tiers(&self, connector: Connector) -> Tiers<'_> {
        let options = TiersOptions { weights: WEIGHTS, unit_tokens: 16, ..TiersOptions::default() };
        Tiers::new(&self.cache, std::slice::from_ref(&self.memory), &[&self.stream], vec![Tier::new(connector)], &options).unwrap()
    }

    fn place<'a>(&'a self, streams: &'a [&'a Stream]) -> SessionOptions<'a> {
        SessionOptions { weights: WEIGHTS, memories: std::slice::from_ref(&self.memory), streams }
    }

    /// Computes what a sequence lacks of a prompt, and one symbol after it. Returns the tokens that it hit.
    fn compute(&self, sequence: SequenceId, prompt: &[Symbol]) -> u64 {
        let info = self.cache.sequence_info(sequence).unwrap();
        let (from, known) = (info.committed, info.known);
        let mut want = prompt_want(sequence, prompt.len());
        want.symbols_position = known;
        want.symbols_offset = known;
        want.num_symbols = prompt.len() as u32 - known as u32;
        want.num_tokens = prompt.len() as u32 - from as u32;
        if from > 0 {
            want.flags &= !Want::MATCH;
        }
        let mut got = [Got::default()];
        let mut step = self.cache.reserve(&[want], prompt, &mut got).unwrap().expect("room");
        assert_eq!(got[0].end(), prompt.len() as u64);
        let mut batch = Batch::new(&self.config, 0).unwrap();
        step.fill_batch(&mut batch).unwrap();
        let rows = got[0].num_tokens as usize;
        let first = prompt.len() - rows;
        for layer in 0..2 {
            let value = |i: usize| layer as f32 * 1000.0 + prompt[first + i / (HEADS * DIM)] as f32;
            let keys: Vec<f32> = (0..rows * HEADS * DIM).map(value).collect();
            let shape = [rows, HEADS, DIM];
            let kv = self.memory.paged_kv(layer, 0).unwrap();
            self.stream
                .scope(|queue| {
                    if layer == 0 {
                        queue.prepare_step(&self.memory, &step)?;
                    }
                    queue.kv_append(&kv, &batch, View::new(&keys, &shape)?, Some(View::new(&keys, &shape)?))
                })
                .unwrap();
        }
        let num_accepted = got[0].num_tokens;
        let row = Outcome { sequence, num_accepted, symbols_position: prompt.len() as u64, num_symbols: 1, ..Outcome::default() };
        step.commit(&[row], &[9]).unwrap();
        got[0].hit_tokens.into()
    }

    /// Attention with equal weights gives the mean of what the sequence has: of this prompt, and of the symbol after it.
    fn check(&self, sequence: SequenceId, prompt: &[Symbol]) {
        let want = Want { sequence, num_tokens: 1, ..Want::default() };
        let mut got = [Got::default()];
        let step = self.cache.reserve(&[want], &[], &mut got).unwrap().expect("room");
        let mut batch = Batch::new(&self.config, 0).unwrap();
        step.fill_batch(&mut batch).unwrap();
        let (zeroes, shape) = (vec![0.0_f32; 2 * HEADS * DIM], [1, 2 * HEADS, DIM]);
        let sum: f32 = prompt.iter().map(|symbol| *symbol as f32).sum::<f32>() + 9.0;
        let mean = sum / (prompt.len() as f32 + 1.0);
        for layer in 0..2 {
            let kv = self.memory.paged_kv(layer, 0).unwrap();
            let value = vec![layer as f32 * 1000.0 + 9.0; HEADS * DIM];
            let mut out = vec![0.0_f32; 2 * HEADS * DIM];
            let own = [1, HEADS, DIM];
            self.stream
                .scope(|queue| {
                    queue.kv_append(&kv, &batch, View::new(&value, &own)?, Some(View::new(&value, &own)?))?;
                    let query = View::new(&zeroes, &shape)?;
                    queue.attention(&kv, &batch, query, ViewMut::new(&mut out, &shape)?, None, &AttentionOptions::default())
                })
                .unwrap();
            let wanted = mean + layer as f32 * 1000.0;
            assert!(out.iter().all(|found| (found - wanted).abs() < 1e-2), "layer {}: {:?} instead of {}", layer, out, wanted);
        }
        step.abort().unwrap();
    }

    fn open(&self) -> SequenceId {
        self.cache.create_sequence(None).unwrap()
    }
}

fn text(seed: u32, tokens: u32) -> Vec<Symbol> {
    (0..tokens).map(|i| 10 + (seed * 31 + i * 7) % 97).collect()
}

fn settle(tiers: &Tiers<'_>) {
    for _ in 0..1000 {
        assert!(tiers.run(Duration::from_millis(1)).unwrap().is_empty());
        if tiers.stats().unwrap().units_in_flight == 0 {
            return;
        }
    }
    panic!("stores do not end");
}

fn fetch(tiers: &Tiers<'_>, sequence: SequenceId, prompt: &[Symbol]) -> Fetched {
    let id = tiers.begin_fetch(sequence, prompt, None).unwrap();
    for _ in 0..1000 {
        if let Some(ended) = tiers.run(Duration::from_millis(10)).unwrap().first() {
            assert_eq!((ended.fetch, ended.sequence), (id, sequence));
            return *ended;
        }
    }
    panic!("a fetch does not end");
}

#[test]
fn events_of_a_tier_are_those_of_the_cache() {
    let e = Engine::new(16);
    e.cache.enable_events(HashAlgorithm::Sha256Cbor, "7", 0).unwrap();
    let connector = e.connector("host", r#"{"bytes": "4MiB"}"#);
    let options = TiersOptions { weights: WEIGHTS, unit_tokens: 16, event_ring_bytes: 1 << 20, ..TiersOptions::default() };
    let tiers = Tiers::new(&e.cache, std::slice::from_ref(&e.memory), &[&e.stream], vec![Tier::new(connector)], &options).unwrap();
    let sequence = e.cache.create_sequence(None).unwrap();
    e.compute(sequence, &(100..150).collect::<Vec<Symbol>>());
    settle(&tiers);
    let (mut cached, mut kept) = (EventBuffer::new(16, 4096).unwrap(), EventBuffer::new(16, 4096).unwrap());
    e.cache.reader().read_events(0, &mut cached).unwrap();
    let batch = tiers.read_events(0, 0, &mut kept).unwrap();
    assert_eq!(batch.num_events, 3); // one of each unit
    let names = |buffer: &EventBuffer| buffer.events().iter().flat_map(|event| buffer.hashes(event).to_vec()).collect::<Vec<u8>>();
    assert_eq!(names(&kept), names(&cached));
    assert_eq!(tiers.read_events(1, 0, &mut kept).unwrap_err().code, Code::OutOfRange);
    assert_eq!(tiers.read_events(0, 4, &mut kept).unwrap_err().code, Code::OutOfRange);
}

#[test]
fn what_was_computed_comes_back_from_a_tier() {
    let engine = Engine::new(16);
    let tiers = engine.tiers(engine.connector("host", r#"{"bytes": "16MiB"}"#));
    assert_eq!(tiers.tier_name(0).unwrap(), "host");
    let prompt = text(1, 100);
    let first = engine.open();
    assert_eq!(engine.compute(first, &prompt), 0);
    settle(&tiers);
    engine.cache.finish_sequence(first).unwrap();
    let stats = tiers.tier_stats(0).unwrap();
    assert_eq!((stats.is_open, stats.units_stored, stats.objects_stored), (1, 6, 6));
    assert_eq!(tiers.tier_health(0).unwrap().num_objects, 6);
    engine.cache.reset().unwrap();

    let second = engine.open();
    let ended = fetch(&tiers, second, &prompt);
    assert_eq!((ended.outcome, ended.tier, ended.committed, ended.hit_tokens), (FetchOutcome::Done, Some(0), 96, 0));
    assert!(ended.bytes > 6 * 16 * 2 * 2 * (HEADS * DIM * 4) as u64 && ended.elapsed_ns > 0);
    assert_eq!(engine.compute(second, &prompt), 0, "what was fetched is no hit of the step");
    engine.check(second, &prompt);
    let stats = tiers.stats().unwrap();
    assert_eq!((stats.unit_tokens, stats.fetches, stats.fetches_in_progress, stats.tokens_fetched), (16, 1, 0, 96));
    assert_eq!((stats.outcomes[1], stats.quarantined), (1, 0));
    assert_eq!((stats.tokens_asked, stats.fetch_latency.iter().sum::<u64>()), (prompt.len() as u64 - 1, 1));
    let reader = engine.cache.reader();
    let source = MetricsSource { cache: Some(reader), tiers: Some(tiers.reader()), labels: "engine=\"0\"", ..Default::default() };
    let text = write_metrics(&[source], MetricsFormat::OpenMetrics).unwrap();
    assert!(text.contains("\nquire_external_prefix_cache_hits_total{engine=\"0\"} 96\n") && text.ends_with("# EOF\n"), "{text}");
    assert_eq!(write_metrics(&[source, source], MetricsFormat::Prometheus).unwrap_err().code, Code::InvalidArgument);
    engine.cache.verify().unwrap();
}

#[test]
fn fetches_that_bring_nothing_say_why() {
    let engine = Engine::new(16);
    let tiers = engine.tiers(engine.connector("null", ""));
    let prompt = text(2, 50);
    let sequence = engine.open();
    let ended = fetch(&tiers, sequence, &prompt);
    assert_eq!((ended.outcome, ended.tier, ended.committed, ended.bytes), (FetchOutcome::Nothing, None, 0, 0));
    assert_eq!(engine.compute(sequence, &prompt), 0);
    assert_eq!(tiers.begin_fetch(sequence, &prompt, None).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(tiers.cancel_fetch(FetchId(77)).unwrap_err().code, Code::NotFound);
    let other = engine.open();
    let id = tiers.begin_fetch(other, &prompt, Some(Duration::from_secs(1))).unwrap();
    match tiers.cancel_fetch(id) {
        Ok(()) => assert_eq!(tiers.run(Duration::ZERO).unwrap()[0].outcome, FetchOutcome::Cancelled),
        Err(error) => assert_eq!(error.code, Code::NotFound), // it had ended
    }
    for tier in [1, u32::MAX] {
        assert_eq!(tiers.tier_stats(tier).unwrap_err().code, Code::OutOfRange);
        assert_eq!(tiers.tier_name(tier).unwrap_err().code, Code::OutOfRange);
        assert_eq!(tiers.tier_health(tier).unwrap_err().code, Code::OutOfRange);
    }
}

#[test]
fn offers_are_held_until_they_end() {
    let engine = Engine::new(16);
    let peers = Tier { max_store_bytes: 1 << 20, ..Tier::of_peers(engine.connector("null", "")) }; // it ends an offer at once
    let options = TiersOptions { weights: WEIGHTS, unit_tokens: 16, ..TiersOptions::default() };
    let tiers = Tiers::new(&engine.cache, std::slice::from_ref(&engine.memory), &[&engine.stream], vec![peers], &options).unwrap();
    let (sequence, prompt) = (engine.open(), text(7, 100));
    engine.compute(sequence, &prompt);
    let offers = [tiers.begin_offer(sequence, &prompt, None, 0).unwrap(), tiers.begin_offer(sequence, &prompt, None, 0).unwrap()];
    assert_eq!((offers[0].end_token, offers[1].end_token), (96, 96));
    assert!(offers[0].num_bytes > 96 * 2 * 2 * (HEADS * DIM * 4) as u64 && offers[0].handle != offers[1].handle);
    assert_eq!(tiers.offer_info(&offers[0].handle).map(|info| (info.is_ready, info.num_records)).unwrap(), (0, 6));
    let open = || tiers.stats().map(|s| (s.offers, s.offers_in_progress)).unwrap();
    assert_eq!((open(), engine.cache.reader().stats().unwrap().holds), ((2, 2), 2));
    tiers.end_offer(&offers[1].handle).unwrap();
    assert_eq!((open(), engine.cache.reader().stats().unwrap().holds), ((2, 1), 1));
    assert!((0..1000).any(|_| tiers.run(Duration::from_millis(1)).unwrap().is_empty() && open().1 == 0), "the offer does not end");
    assert_eq!((open(), engine.cache.reader().stats().unwrap().holds), ((2, 0), 0));
    assert!(offers.iter().all(|o| tiers.offer_info(&o.handle).unwrap_err().code == Code::NotFound));
    assert!(offers.iter().all(|o| tiers.end_offer(&o.handle).unwrap_err().code == Code::NotFound));
    assert_eq!(tiers.begin_offer(sequence, &prompt, None, 1).unwrap_err().code, Code::OutOfRange);
    assert_eq!(tiers.begin_offer(sequence, &prompt[..50], None, 0).unwrap_err().code, Code::OutOfRange);

    // The null connector has nothing, and is asked.
    let peer =
        Peer { tier: 0, address: "peer:1", handle: offers[0].handle, end_token: offers[0].end_token, grows: false, encoder_tokens: 0 };
    let (other, strange) = (engine.open(), text(8, 100));
    let fetch = tiers.begin_fetch_from(&peer, other, &strange, Some(Duration::from_secs(5))).unwrap();
    let ended = (0..1000).find_map(|_| tiers.run(Duration::from_millis(10)).unwrap().first().copied()).unwrap();
    assert_eq!((ended.fetch, ended.outcome), (fetch, FetchOutcome::Nothing));
    assert!(tiers.tier_stats(0).unwrap().keys_looked_up > 0);
    assert_eq!(tiers.refusal(fetch).unwrap_err().code, Code::NotFound); // there is no offer
    let nowhere = Peer { tier: 1, ..peer };
    assert_eq!(tiers.begin_fetch_from(&nowhere, other, &strange, None).unwrap_err().code, Code::OutOfRange);
}

#[test]
fn offers_need_a_tier_of_peers() {
    let engine = Engine::new(16);
    let tiers = engine.tiers(engine.connector("null", ""));
    let (sequence, prompt) = (engine.open(), text(9, 100));
    engine.compute(sequence, &prompt);
    assert_eq!(tiers.begin_offer(sequence, &prompt, None, 0).unwrap_err().code, Code::FailedPrecondition);
    let peer = Peer { tier: 0, address: "peer:1", handle: [1; 16], end_token: 96, grows: false, encoder_tokens: 0 };
    assert_eq!(tiers.begin_fetch_from(&peer, engine.open(), &prompt, None).unwrap_err().code, Code::FailedPrecondition);
}

#[test]
fn tiers_that_are_refused_come_back() {
    let engine = Engine::new(16);
    let memories = [engine.memory.clone()];
    let options = TiersOptions { weights: WEIGHTS, unit_tokens: 16, ..TiersOptions::default() };
    let refused = |memories: &[Memory], options: &TiersOptions<'_>, tiers: Vec<Tier>| {
        let n = tiers.len();
        let refused = Tiers::new(&engine.cache, memories, &[&engine.stream], tiers, options).unwrap_err();
        assert_eq!(refused.given.len(), n);
        refused.error.code
    };
    let tier = || vec![Tier { name: "far".into(), reasons: 0, ..Tier::new(engine.connector("null", "")) }];
    assert_eq!(refused(&memories, &TiersOptions::default(), tier()), Code::InvalidArgument);
    assert_eq!(refused(&memories, &TiersOptions { unit_tokens: 5, ..options }, tier()), Code::InvalidArgument);
    assert_eq!(refused(&memories, &TiersOptions { ns_per_token: -1.0, ..options }, tier()), Code::InvalidArgument);
    assert_eq!(refused(&memories, &options, vec![]), Code::InvalidArgument);
    assert_eq!(refused(&memories, &TiersOptions { tensor_parallel: &[2, 0], ..options }, tier()), Code::InvalidArgument);
    assert_eq!(refused(&[], &options, tier()), Code::InvalidArgument);
    let writes = Tier { peers: true, ..Tier::new(engine.connector("null", "")) };
    assert_eq!(refused(&memories, &options, vec![writes]), Code::InvalidArgument, "peers are stored nothing");
    let strange = Engine::new(32);
    assert_eq!(refused(std::slice::from_ref(&strange.memory), &options, tier()), Code::InvalidArgument);
    let busy = engine.connector("null", "");
    assert!(busy.submit(vec![Ticket::load(1, b"k", Payload::Bytes(vec![0; 8]), vec![])]).unwrap().is_empty());
    assert_eq!(refused(&memories, &options, vec![Tier::new(busy)]), Code::FailedPrecondition);

    let one = TiersOptions { max_fetches: 1, tensor_parallel: &[2, 4], ..options };
    let tiers = Tiers::new(&engine.cache, &memories, &[&engine.stream], tier(), &one).unwrap();
    assert_eq!(tiers.tier_name(0).unwrap(), "far");
    assert_eq!(refused(&memories, &options, tier()), Code::FailedPrecondition);
    let units = UnitOptions { reasons: UnitOptions::COMMITTED, unit_tokens: 16, ..UnitOptions::default() };
    assert_eq!(engine.cache.watch_units(Some(&units)).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(engine.cache.take_units(1).unwrap_err().code, Code::FailedPrecondition);
    // Another stream's scope has the memory.
    let other = Stream::new(&Device::open(&engine.runtime, 0).unwrap()).unwrap();
    let kv = engine.memory.paged_kv(0, 0).unwrap();
    let sequence = engine.open();
    let mut got = [Got::default()];
    let want = prompt_want(sequence, 3);
    let step = engine.cache.reserve(&[want], &[1, 2, 3], &mut got).unwrap().expect("room");
    let mut batch = Batch::new(&engine.config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    let (keys, shape) = (vec![0.0_f32; 3 * HEADS * DIM], [3, HEADS, DIM]);
    other
        .scope(|queue| {
            queue.kv_append(&kv, &batch, View::new(&keys, &shape)?, Some(View::new(&keys, &shape)?))?;
            assert_eq!(tiers.run(Duration::ZERO).unwrap_err().code, Code::FailedPrecondition);
            Ok(())
        })
        .unwrap();
    assert!(tiers.run(Duration::ZERO).unwrap().is_empty());
    // Within a scope of their own stream they may run.
    engine
        .stream
        .scope(|queue| {
            queue.kv_append(&kv, &batch, View::new(&keys, &shape)?, Some(View::new(&keys, &shape)?))?;
            assert!(tiers.run(Duration::ZERO)?.is_empty());
            let elsewhere = other.scope(|queue| queue.kv_append(&kv, &batch, View::new(&keys, &shape)?, None));
            assert_eq!(elsewhere.unwrap_err().code, Code::FailedPrecondition, "the turn is still this scope's");
            Ok(())
        })
        .unwrap();
}

#[test]
fn records_say_what_they_are() {
    let engine = Engine::new(16);
    let sequence = engine.open();
    let prompt = text(3, 40);
    engine.compute(sequence, &prompt);
    assert_eq!(read_record(b"no record").unwrap_err().code, Code::NotFound);
    assert_eq!(read_record(&[]).unwrap_err().code, Code::NotFound);

    // A session has records as tiers have them: they begin where the magic stands.
    let mut session = Vec::new();
    engine.cache.save_session(sequence, &engine.place(&[&engine.stream]), &prompt, &mut session).unwrap();
    let found: Vec<usize> = (0..session.len()).filter(|at| read_record(&session[*at..]).is_ok()).collect();
    assert!(!found.is_empty(), "no record in {} bytes", session.len());
    let info = read_record(&session[found[0]..]).unwrap();
    let record = &session[found[0]..];
    assert_eq!((info.block_tokens, info.is_state, info.num_caches, info.first_layer, info.last_layer), (16, 0, 2, 0, 1));
    assert_eq!((info.first_head, info.num_heads), (0, HEADS as u32));
    let (header, blocks) = record.split_at(info.header_bytes as usize);
    let block = info.block_bytes as usize;
    assert_eq!(check_record(header, 0, &blocks[..block]).unwrap(), 0);
    let mut damaged = blocks[..block].to_vec();
    damaged[block / 2] ^= 1;
    assert_eq!(check_record(header, 0, &damaged).unwrap(), 1);
    assert_eq!(check_record(header, 0, &damaged[1..]).unwrap_err().code, Code::OutOfRange);
    assert_eq!(read_record(&header[..200]).unwrap_err().code, Code::OutOfRange);
}

#[test]
fn a_session_goes_on_under_another_plan() {
    let engine = Engine::new(16);
    let prompt = text(4, 75);
    let sequence = engine.open();
    engine.compute(sequence, &prompt);
    let mut session = Vec::new();
    let saved = engine.cache.save_session(sequence, &engine.place(&[&engine.stream]), &prompt, &mut session).unwrap();
    assert_eq!((saved.num_tokens, saved.bytes), (75, session.len() as u64));
    engine.check(sequence, &prompt);

    let other = Engine::new(32);
    let (to, streams) = (other.open(), [&other.stream]);
    session.extend_from_slice(b"what comes after it");
    let mut rest = &session[..];
    let (symbols, info) = other.cache.restore_session(to, &other.place(&streams), &mut rest).unwrap();
    assert_eq!(rest, b"what comes after it");
    assert_eq!(symbols, prompt);
    assert_eq!((info.num_tokens, info.committed, info.hit_tokens, info.num_damaged), (75, 75, 0, 0));
    let mut longer = prompt;
    longer.extend(text(5, 30));
    other.compute(to, &longer);
    other.check(to, &longer);
    let again = other.open();
    let strange = SessionOptions { weights: "another", ..other.place(&streams) };
    match other.cache.restore_session(again, &strange, &mut &session[..]) {
        Err(SessionError::Quire(error)) => assert_eq!(error.code, Code::FailedPrecondition),
        answer => panic!("{:?}", answer),
    }
    assert_eq!(other.cache.sequence_info(again).unwrap().committed, 0);
    other.cache.verify().unwrap();
}

/// Fails at the n-th byte, or panics there.
struct Fails {
    at: usize,
    panics: bool,
}

impl Fails {
    fn pass(&mut self, bytes: usize) -> std::io::Result<usize> {
        if self.at < bytes {
            if self.panics {
                std::panic::resume_unwind(Box::new(1));
            }
            return Err(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the other end is gone"));
        }
        self.at -= bytes;
        Ok(bytes)
    }
}

impl Write for Fails {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.pass(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Read for Fails {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.pass(bytes.len())
    }
}

fn io_kind<T: std::fmt::Debug>(answer: std::result::Result<T, SessionError>) -> std::io::ErrorKind {
    match answer {
        Err(SessionError::Io(error)) => error.kind(),
        answer => panic!("{:?}", answer),
    }
}

#[test]
fn errors_of_writers_and_readers_come_back() {
    let engine = Engine::new(16);
    let streams = [&engine.stream];
    let place = engine.place(&streams);
    let prompt = text(6, 75);
    let sequence = engine.open();
    engine.compute(sequence, &prompt);
    let mut session = Vec::new();
    engine.cache.save_session(sequence, &place, &prompt, &mut session).unwrap();
    for at in [0, 10, session.len() / 2, session.len() - 1] {
        for (panics, kind) in [(false, std::io::ErrorKind::BrokenPipe), (true, std::io::ErrorKind::Other)] {
            let mut writer = Fails { at, panics };
            assert_eq!(io_kind(engine.cache.save_session(sequence, &place, &prompt, &mut writer)), kind);
            let to = engine.open();
            let mut reader = (&session[..at]).chain(Fails { at: 0, panics });
            assert_eq!(io_kind(engine.cache.restore_session(to, &place, &mut reader)), kind);
            let cut = io_kind(engine.cache.restore_session(to, &place, &mut &session[..at]));
            assert_eq!(cut, std::io::ErrorKind::UnexpectedEof);
            assert_eq!(engine.cache.sequence_info(to).unwrap().committed, 0);
            engine.cache.finish_sequence(to).unwrap();
        }
    }
    let short = engine.cache.save_session(sequence, &place, &prompt[..70], &mut Vec::new());
    assert!(matches!(short, Err(SessionError::Quire(ref error)) if error.code == Code::InvalidArgument), "{:?}", short);
    assert!(short.unwrap_err().to_string().contains("num_symbols"));
    let nowhere = SessionOptions { streams: &[], ..place };
    assert!(engine.cache.save_session(sequence, &nowhere, &prompt, &mut Vec::new()).is_err());
    engine.cache.verify().unwrap();
}

#[test]
fn a_reader_of_tiers_is_for_other_threads_and_keeps_nothing() {
    fn for_any_thread<T: Send + Sync + Clone + 'static>(_: &T) {}
    let engine = Engine::new(16);
    let tiers = engine.tiers(engine.connector("null", ""));
    let reader = tiers.reader().clone();
    for_any_thread(&reader);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let source = MetricsSource { tiers: Some(&reader), ..Default::default() };
            let mut texts = 0;
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                match write_metrics(&[source], MetricsFormat::Prometheus) {
                    Ok(text) => texts += u32::from(text.contains("quire_external_prefix_cache_queries_total")),
                    Err(error) => return (texts, Some(error)),
                }
                let _ = reader.stats();
            }
            (texts, None)
        });
        for i in 0..20 {
            let sequence = engine.open();
            fetch(&tiers, sequence, &text(i, 50));
        }
        std::thread::sleep(Duration::from_millis(20));
        drop(tiers); // waits for a call of the reader
        std::thread::sleep(Duration::from_millis(20));
        over.store(true, std::sync::atomic::Ordering::Release);
        let (texts, error) = scraper.join().unwrap();
        assert!(texts > 0, "metrics while the tiers run");
        assert_eq!(error.expect("metrics of tiers that are gone").code, Code::FailedPrecondition);
    });
    assert_eq!(reader.stats().unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(reader.tier_stats(0).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(reader.tier_name(0).unwrap_err().code, Code::FailedPrecondition);
    let _again = engine.tiers(engine.connector("null", "")); // nothing of the first ones is left
}
