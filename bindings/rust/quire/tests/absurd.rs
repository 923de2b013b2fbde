//! Numbers that no machine has room for are ordinary errors with code and message: nothing panics, nothing aborts, nothing wraps.

mod common;
use common::*;
use quire::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers at which sums and products leave the machine, and some that merely are too many.
const ABSURD: [usize; 6] = [usize::MAX, usize::MAX - 1, usize::MAX / 2, usize::MAX / 8 + 1, 1 << 61, 1 << 46];

#[track_caller]
fn too_much<T, E: Into<Error>>(answer: std::result::Result<T, E>) {
    let error: Error = answer.err().expect("was accepted").into();
    assert!(matches!(error.code, Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument), "{}", error);
    assert!(!error.message.is_empty());
}

#[test]
fn batches() {
    for layers in [&[full_layer(0)][..], &[state_layer(0)], &[full_layer(0), state_layer(1)]] {
        let config = plan(layers, 33, 64);
        let mut batch = Batch::new(&config, 0).unwrap();
        let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
        let sequence = cache.create_sequence(None).unwrap();
        let step = cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut [Got::default()]).unwrap().unwrap();
        step.fill_batch(&mut batch).unwrap();
        for many in ABSURD {
            too_much(batch.reserve(many as u64));
            assert_eq!((batch.rows(), batch.kv_len().len(), batch.query_indptr().len()), (0, 0, 0));
            step.fill_batch(&mut batch).unwrap();
            assert_eq!((batch.rows(), batch.kv_len()), (1, &[3][..]));
        }
    }
}

#[test]
fn polls_take_room_for_what_is_in_flight() {
    let connector = Connector::open(&runtime("none"), "null", "").unwrap();
    for many in ABSURD {
        let tickets = (1..=3).map(|number| Ticket::look_up(number, vec![vec![1]]));
        assert!(connector.submit(tickets.collect()).unwrap().is_empty());
        let mut ended = 0;
        while ended < 3 {
            ended += connector.poll(None, many).unwrap().len();
        }
        assert_eq!(connector.poll(None, many).unwrap_err().code, Code::FailedPrecondition);
    }
}

#[test]
fn tensors_of_others_that_say_they_are_huge() {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    // One element, seen again and again by a stride of 0: as many reads as the shape says.
    for shape in [&[1_u64 << 40][..], &[1 << 50], &[1 << 31, 1 << 31], &[1 << 62], &[i64::MAX as u64], &[3, 1 << 61]] {
        let tensor = ManagedTensor::lend::<f32, _>(vec![1.0], shape, Some(&vec![0; shape.len()]), true).unwrap();
        too_much(stream.read::<f32>(&tensor));
    }
    too_much(ManagedTensor::lend::<f32, _>(vec![1.0], &[u64::MAX], Some(&[0]), true));
    too_much(ManagedTensor::lend::<f32, _>(vec![1.0], &[u64::MAX, u64::MAX], None, true));
    too_much(ManagedTensor::lend::<f32, _>(vec![1.0], &[2, 2], Some(&[i64::MAX, i64::MAX]), true));
    let empty = ManagedTensor::lend::<f32, _>(vec![1.0], &[0, i64::MAX as u64], Some(&[0, 1]), true).unwrap();
    assert!(stream.read::<f32>(&empty).unwrap().is_empty());
    let broadcast = ManagedTensor::lend::<f32, _>(vec![3.5, 4.5], &[2, 3], Some(&[1, 0]), true).unwrap();
    assert_eq!(stream.read::<f32>(&broadcast).unwrap(), [3.5, 3.5, 3.5, 4.5, 4.5, 4.5]);
    for extents in [[1_u64 << 40, 1 << 40], [u64::MAX, 1], [1 << 62, 1]] {
        too_much(device.create_tensor(DType::F32, &extents));
    }
    too_much(AlignedBytes::new(u64::MAX, 64).map(drop));
    too_much(AlignedBytes::new(1 << 60, 64).map(drop));
    too_much(AlignedBytes::new(1, u64::MAX).map(drop));
    too_much(AlignedBytes::new(1, 1 << 63).map(drop));
}

/// A tensor as another library may hand it over, with an extent below 0.
#[test]
fn tensors_of_others_with_extents_below_zero() {
    use quire_sys::dlpack::*;
    unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
        drop(Box::from_raw((*tensor).manager_ctx.cast::<([i64; 2], [f32; 4])>()));
        drop(Box::from_raw(tensor));
    }
    let owner = Box::into_raw(Box::new(([-2_i64, -2], [0.5_f32; 4])));
    let tensor = DLTensor {
        data: unsafe { std::ptr::addr_of_mut!((*owner).1).cast() },
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: 2,
        dtype: DLDataType { code: 2, bits: 32, lanes: 1 },
        shape: unsafe { std::ptr::addr_of_mut!((*owner).0).cast() },
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let version = DLPackVersion { major: 1, minor: 0 };
    let managed = DLManagedTensorVersioned { version, manager_ctx: owner.cast(), deleter: Some(delete), flags: 0, dl_tensor: tensor };
    let tensor = ManagedTensor::from(unsafe { Owned::new(Box::into_raw(Box::new(managed))) }.unwrap());
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let error = Stream::new(&device).unwrap().read::<f32>(&tensor).unwrap_err();
    assert!(error.code == Code::InvalidArgument && error.message.contains("-2"), "{}", error);
    assert_eq!(device.import(tensor, false).unwrap_err().error.code, Code::InvalidArgument);
}

#[test]
fn buffers_of_events_and_plans_of_attention() {
    for many in ABSURD {
        too_much(EventBuffer::new(many, 1));
        too_much(EventBuffer::new(1, many));
        too_much(AttentionPlan::new(many as u64));
    }
    let buffer = EventBuffer::new(0, 9).unwrap();
    let foreign = Event {
        num_hashes: u32::MAX,
        hash_bytes: u32::MAX,
        hashes_offset: u64::MAX,
        parent_offset: u64::MAX,
        parent_bytes: 1,
        tokens_offset: u64::MAX - 7,
        num_tokens: u64::MAX,
        keys_offset: 1,
        keys_bytes: u64::MAX,
        adapter_offset: u64::MAX,
        adapter_bytes: u32::MAX,
        kind_offset: 1 << 40,
        kind_bytes: 1,
        ..Event::default()
    };
    assert!(buffer.hashes(&foreign).is_empty() && buffer.parent(&foreign).is_empty() && buffer.tokens(&foreign).is_empty());
    assert!(buffer.keys(&foreign).is_empty() && buffer.adapter(&foreign).is_empty() && buffer.kind(&foreign).is_empty());
}

#[test]
fn models_plans_caches_and_steps() {
    let huge = u64::MAX;
    let layer = Layer { num_kv_heads: u32::MAX, num_q_heads: u32::MAX, head_dim_k: u32::MAX, head_dim_v: u32::MAX, ..full_layer(0) };
    too_much(Model::new(&[layer], 64).and_then(|model| Config::new(&model, &PlanOptions { num_pages: huge, ..PlanOptions::default() })));
    let model = Model::new(&[full_layer(0)], 64).unwrap();
    too_much(Config::new(&model, &PlanOptions { num_pages: huge, ..PlanOptions::default() }));
    let config = plan(&[full_layer(0)], 9, 64);
    too_much(Cache::new(None, &config, &CacheOptions { max_index_units: huge, max_media: huge, ..CacheOptions::default() }));
    let (a, b) = (config.kv_view(0, 0, 0).unwrap(), config.kv_view(0, 0, 0).unwrap());
    too_much(kv_runs((&a, &[1]), (&b, &[1]), 0..huge));
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let want =
        Want { num_symbols: u32::MAX, num_tokens: u32::MAX, num_look_ahead: u32::MAX, symbols_offset: huge, ..prompt_want(sequence, 1) };
    match cache.reserve(&[want], &[1], &mut [Got::default()]) {
        Ok(step) => assert!(step.is_none()),
        Err(error) => assert!(matches!(error.code, Code::OutOfRange | Code::InvalidArgument), "{}", error),
    }
    too_much(cache.truncate_sequence(sequence, huge));
    let fill = Fill { pitch: huge, column_pitch: huge, first_column: u32::MAX, num_columns: u32::MAX, ..Fill::default() };
    let step = cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut [Got::default()]).unwrap().unwrap();
    too_much(step.fill(FillKind::Table, &fill, &mut [0; 4]));
}

static DROPS: AtomicUsize = AtomicUsize::new(0);

/// Panics when it is dropped: what a careless panic may carry.
struct Careless;

impl Drop for Careless {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a payload that panics"));
    }
}

#[test]
fn callbacks_that_panic_with_payloads_that_panic_stop_nothing() {
    fn log(_: LogLevel, _: &str, _: &str) {
        std::panic::resume_unwind(Box::new(Careless));
    }
    fn clock() -> i64 {
        std::panic::resume_unwind(Box::new(Careless));
    }
    let options = RuntimeOptions {
        driver: "cpu".into(),
        log: Some(LogFn(log)),
        log_level: Some(LogLevel::Trace),
        clock: Some(ClockFn(clock)),
        ..Default::default()
    };
    let runtime = Runtime::new(&options).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    assert!(DROPS.load(Ordering::SeqCst) > 0);

    #[derive(Debug)]
    struct Bytes([u8; 4]);
    impl AsMut<[u8]> for Bytes {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
    impl Drop for Bytes {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(Careless));
        }
    }
    let before = DROPS.load(Ordering::SeqCst);
    drop(device.import(ManagedTensor::lend::<u8, _>(Bytes([0; 4]), &[4], None, false).unwrap(), false).unwrap());
    assert!(DROPS.load(Ordering::SeqCst) > before);
}
