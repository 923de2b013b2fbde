//! Handles end in any order and on any thread; what the headers call free from any thread is, and the rest is not.

mod common;
use common::*;
use quire::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn send<T: Send>() {}
fn send_and_sync<T: Send + Sync>() {}

#[test]
fn threads_as_the_headers_say() {
    send_and_sync::<Runtime>();
    send_and_sync::<Model>();
    send_and_sync::<Config>();
    send_and_sync::<CacheReader>();
    send_and_sync::<Device>();
    send_and_sync::<Memory>();
    send_and_sync::<DeviceTensor>();
    send_and_sync::<Error>();
    send_and_sync::<Connector>();
    send::<Cache>();
    send::<Stream>();
    send::<ManagedTensor>();
    send::<Op>();
    send_and_sync::<Batch>();
}

#[test]
fn every_order_of_dropping_is_allowed() {
    let n = one_of_each(0).len();
    (0..2 * n).for_each(|round| drop_in_order(one_of_each(0), round));
}

#[test]
fn what_outlives_the_runtime_still_works() {
    let runtime = runtime("cpu");
    let device = Device::open(&runtime, 0).unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    drop((runtime, config));
    let memory = Memory::new(&device, cache.config(), 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    drop(device);
    stream.scope(|queue| queue.poison(&memory, 3)).unwrap();
    let tensor = memory.export(&Export { as_bytes: true, ..Export::layer(0, 0, 0) }).unwrap();
    drop(memory);
    let bytes = stream.read::<u8>(&tensor).unwrap();
    assert!(bytes.contains(&3) && bytes.contains(&0), "poisoned but for the null page");
    serve(&cache, cache.create_sequence(None).unwrap(), &[1, 2, 3], 4);
}

#[test]
fn a_cache_moves_to_another_thread_and_readers_run_beside_it() {
    let cache = Cache::new(None, &plan(&[full_layer(0)], 33, 256), &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..64).collect();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = cache.reader().clone();
            let (prompt, done) = (&prompt, &done);
            scope.spawn(move || {
                let mut most = 0;
                while done.load(Ordering::Acquire) == 0 {
                    most = most.max(reader.probe(&Identity::default(), prompt).unwrap().hit_tokens);
                    assert!(reader.stats().unwrap().num_sequences <= 1);
                }
                assert!(reader.probe(&Identity::default(), prompt).unwrap().hit_tokens >= most.min(48));
            });
        }
        let (prompt, done) = (&prompt, &done);
        scope.spawn(move || {
            for _ in 0..200 {
                let sequence = cache.create_sequence(None).unwrap();
                serve(&cache, sequence, prompt, 7);
                cache.finish_sequence(sequence).unwrap();
            }
            done.store(1, Ordering::Release);
            cache.verify().unwrap();
        });
    });
}

static DELETED: AtomicUsize = AtomicUsize::new(0);

/// A tensor of somebody else's making whose deleter counts.
fn counted(bytes: usize) -> ManagedTensor {
    use quire_sys::dlpack::*;
    unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
        DELETED.fetch_add(1, Ordering::SeqCst);
        drop(Box::from_raw((*tensor).manager_ctx.cast::<(i64, Vec<u64>)>()));
        drop(Box::from_raw(tensor));
    }
    let owner = Box::into_raw(Box::new((bytes as i64, vec![0_u64; bytes / 8])));
    let tensor = DLTensor {
        data: unsafe { (*owner).1.as_mut_ptr().cast() },
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: 1,
        dtype: DLDataType { code: 1, bits: 8, lanes: 1 },
        shape: unsafe { std::ptr::addr_of_mut!((*owner).0) },
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx: owner.cast(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor: tensor,
    };
    unsafe { Owned::new(Box::into_raw(Box::new(managed))) }.unwrap().into()
}

#[test]
fn a_deleter_runs_once_whatever_happens() {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    drop(counted(64));
    assert_eq!(DELETED.load(Ordering::SeqCst), 1);
    let tensor = device.import(counted(64), false).unwrap();
    let again = tensor.buffer().clone();
    drop(tensor);
    assert_eq!(DELETED.load(Ordering::SeqCst), 1, "somebody still has it");
    drop(again);
    assert_eq!(DELETED.load(Ordering::SeqCst), 2);
    let refused = Memory::bind(&device, &config, 0, vec![counted(64)]).unwrap_err();
    assert_eq!((refused.given.len(), DELETED.load(Ordering::SeqCst)), (1, 2));
    drop(refused);
    assert_eq!(DELETED.load(Ordering::SeqCst), 3, "refused: given back, and dropped");
}

static LINES: AtomicUsize = AtomicUsize::new(0);

#[test]
fn log_lines_arrive_and_a_receiver_that_panics_stops_nothing() {
    fn receive(_: LogLevel, component: &str, message: &str) {
        assert!(!component.is_empty() || !message.is_empty());
        LINES.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a receiver that panics"));
    }
    let options =
        RuntimeOptions { driver: "cpu".into(), log: Some(LogFn(receive)), log_level: Some(LogLevel::Trace), ..Default::default() };
    let runtime = Runtime::new(&options).unwrap();
    Device::open(&runtime, 0).unwrap();
    assert!(LINES.load(Ordering::SeqCst) > 0);
}

#[test]
fn one_streams_scope_uses_a_memory_at_a_time() {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let memory = Memory::new(&device, &plan(&[full_layer(0)], 9, 64), 0).unwrap();
    let again = memory.clone();
    let (one, other) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    one.scope(|queue| {
        queue.poison(&memory, 1)?;
        queue.poison(&again, 2)?; // the same stream's: in order
        let refused = other.scope(|second| second.poison(&again, 3)).unwrap_err();
        assert!(refused.code == Code::FailedPrecondition && refused.message.contains("another stream"), "{}", refused);
        std::thread::scope(|threads| {
            let elsewhere = threads.spawn(|| Stream::new(&device).unwrap().scope(|third| third.poison(&again, 4)).unwrap_err().code);
            assert_eq!(elsewhere.join().unwrap(), Code::FailedPrecondition);
        });
        Ok(())
    })
    .unwrap();
    let bytes: Vec<u8> = one.read(&memory.export(&Export { as_bytes: true, ..Export::layer(0, 0, 0) }).unwrap()).unwrap();
    assert!(bytes.contains(&2) && !bytes.contains(&1) && !bytes.contains(&3) && !bytes.contains(&4));
    other.scope(|queue| queue.poison(&again, 3)).unwrap(); // the scope has ended
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        other.scope(|queue| -> Result<()> {
            queue.poison(&again, 3)?;
            std::panic::resume_unwind(Box::new("a body that panics"))
        })
    }));
    assert!(panicked.is_err());
    one.scope(|queue| queue.poison(&memory, 1)).unwrap();
    let shared = unsafe { memory.shared_by_streams() }; // what follows waits for one before the other writes
    one.scope(|queue| {
        queue.poison(&memory, 1)?;
        one.synchronize(None)?;
        other.scope(|second| second.poison(&shared, 5))
    })
    .unwrap();
}

/// A buffer that does not like to be dropped.
struct Grim(Vec<f32>, &'static AtomicUsize);

impl AsMut<[f32]> for Grim {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Grim {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a buffer that panics when it is dropped"));
    }
}

#[test]
fn a_buffer_that_cannot_be_lent_stays_the_callers() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let mut buffer = Grim(vec![1.0; 4], &DROPPED);
    let cases: [(&[u64], Option<&[i64]>); 7] = [
        (&[5], None),
        (&[2, 3], Some(&[2, 1])),
        (&[4], Some(&[1, 1])),
        (&[0, u64::MAX], Some(&[1, 1])),
        (&[0, 2], Some(&[1, -1])),
        (&[0, 2], Some(&[i64::MIN, 1])),
        (&[2, 0], Some(&[-1, 1])),
    ];
    for (shape, strides) in cases {
        buffer = match ManagedTensor::lend::<f32, _>(buffer, shape, strides, false) {
            Ok(tensor) => panic!("shape {:?} with strides {:?} was lent: {:?}", shape, strides, tensor),
            Err(refused) => {
                assert_eq!(refused.error.code, Code::InvalidArgument);
                refused.given
            }
        };
    }
    assert_eq!(DROPPED.load(Ordering::SeqCst), 0);
    drop(ManagedTensor::lend::<f32, _>(buffer, &[0, 4], Some(&[4, 1]), false).map_err(|refused| refused.error).unwrap());
    assert_eq!(DROPPED.load(Ordering::SeqCst), 1, "lent, and dropped by its deleter");
}
