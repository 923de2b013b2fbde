//! Nothing is left behind: rounds of everything, drops in every order on two threads and refusals included, and the bytes that malloc has given out, those of the library's C++ as well.

mod common;
use common::*;
use quire::*;

#[repr(C)]
#[derive(Default)]
struct Mallinfo {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

extern "C" {
    fn mallinfo2() -> Mallinfo;
}

fn bytes_in_use() -> usize {
    let info = unsafe { mallinfo2() };
    info.uordblks + info.hblkhd
}

/// What 100 rounds may differ by. One allocation that every round forgets is at least 100 times malloc's smallest piece, 3200 bytes.
const NOTHING: i64 = 1600;

/// Bytes more after 100 rounds than before, the least of up to ten times: a leak grows every time, malloc's own caches fill up once.
fn growth(mut round: impl FnMut()) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..10 {
        let before = bytes_in_use() as i64;
        (0..100).for_each(|_| round());
        least = least.min(bytes_in_use() as i64 - before);
        if least < NOTHING {
            break;
        }
    }
    least
}

fn serve_and_drop() {
    let one_thread = RuntimeOptions { driver: "cpu".into(), num_threads: 1, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&one_thread).unwrap();
    let config = plan(&[full_layer(0), state_layer(1)], 33, 256);
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..50).collect();
    let a = cache.create_sequence(Some(&Identity { salt: "a", ..Identity::default() })).unwrap();
    serve(&cache, a, &prompt, 9);
    let left = cache.reserve(&[Want { sequence: a, num_tokens: 1, ..Want::default() }], &[], &mut [Got::default()]).unwrap().unwrap();
    let _ = left.detach(); // a step in flight when the cache ends
    let device = Device::open(&runtime, 0).unwrap();
    let memory = Memory::new(&device, &config, 0).unwrap();
    let tensor = memory.export(&Export::layer(0, 0, 0)).unwrap();
    drop((memory, runtime, cache));
    let imported = DeviceTensor::from_dlpack(tensor, &device).unwrap();
    let stream = Stream::new(&device).unwrap();
    assert_eq!(stream.read::<f32>(&imported).unwrap().len(), 33 * 16 * HEADS * DIM);
    let lent = ManagedTensor::lend::<f32, _>(vec![0.0; 4], &[2, 2], None, true).unwrap();
    let refused = device.import(lent, false).unwrap_err();
    assert_eq!(refused.error.code, Code::PermissionDenied);
}

/// Tiers with a fetch in progress, and sessions that come and go.
fn store_and_drop() {
    let one_thread = RuntimeOptions { driver: "cpu".into(), num_threads: 1, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&one_thread).unwrap();
    let config = plan(&[full_layer(0), full_layer(1)], 33, 256);
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    let (memory, stream) = (Memory::new(&device, &config, 0).unwrap(), Stream::new(&device).unwrap());
    let prompt: Vec<Symbol> = (0..50).collect();
    let (memories, streams) = ([memory], [&stream]);
    let options = TiersOptions { weights: "model", unit_tokens: 16, ..TiersOptions::default() };
    let tier = Tier { name: "a name".into(), ..Tier::new(Connector::open(&runtime, "null", "").unwrap()) };
    let tiers = Tiers::new(&cache, &memories, &streams, vec![tier], &options).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &prompt, 9);
    tiers.run(std::time::Duration::ZERO).unwrap();
    tiers.begin_fetch(cache.create_sequence(None).unwrap(), &prompt, None).unwrap();
    let refused = Tiers::new(&cache, &memories, &streams, vec![], &options);
    assert_eq!(refused.unwrap_err().error.code, Code::InvalidArgument);
    let place = SessionOptions { weights: "model", memories: &memories, streams: &streams };
    let mut session = Vec::new();
    cache.save_session(sequence, &place, &prompt, &mut session).unwrap();
    let to = cache.create_sequence(None).unwrap();
    assert!(cache.restore_session(to, &place, &mut &session[..session.len() - 1]).is_err());
    cache.restore_session(to, &place, &mut &session[..]).unwrap();
}

fn refuse_and_drop() {
    let model = Model::new(&[full_layer(0)], 64).unwrap();
    assert!(Model::from_json("{\"architectures\": [\"Nobody\"]}").is_err());
    assert!(Config::new(&model, &PlanOptions { num_pages: 9, policy: "nonsense".into(), ..PlanOptions::default() }).is_err());
    let cache = Cache::new(None, &plan(&[full_layer(0)], 9, 64), &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    assert!(cache.reserve(&[prompt_want(sequence, 20)], &[1], &mut [Got::default()]).is_err());
    assert!(cache.finish_sequence(SequenceId(9)).is_err());
    assert!(Device::open(&runtime("nosuch"), 0).is_err());
    assert!(ManagedTensor::lend::<u8, _>(vec![0; 3], &[4], None, false).is_err());
}

#[test]
fn rounds_of_everything_leave_nothing_and_a_leak_would_show() {
    let left = growth(|| std::mem::forget(vec![0_u8; 100]));
    assert!(left >= 10_000, "{} bytes: this measure sees leaks", left);
    let left = growth(serve_and_drop);
    assert!(left < NOTHING, "{} bytes after 100 rounds of serving", left);
    let left = growth(store_and_drop);
    assert!(left < NOTHING, "{} bytes after 100 rounds of tiers and sessions", left);
    let mut round = 0;
    let left = growth(|| {
        drop_in_order(one_of_each(1), round);
        round += 1;
    });
    assert!(left < NOTHING, "{} bytes after 100 rounds of dropping in every order on two threads", left);
    let left = growth(refuse_and_drop);
    assert!(left < NOTHING, "{} bytes after 100 rounds of refusals", left);
}
