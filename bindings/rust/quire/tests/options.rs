//! What ops and calls can do beside the plain case arrives as it was asked for: against sums written down naively, or against the plain call.

mod common;
use common::*;
use quire::*;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

const TOKENS: usize = 5;

struct Rig {
    stream: Stream,
    device: Device,
    memory: Memory,
    batch: Batch,
}

/// One sequence of five tokens whose tables are filled; layer 0 caches them.
fn rig() -> Rig {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let step = cache.reserve(&[prompt_want(sequence, TOKENS)], &[1, 2, 3, 4, 5], &mut [Got::default()]).unwrap().unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    Rig { stream: Stream::new(&device).unwrap(), memory: Memory::new(&device, &config, 0).unwrap(), device, batch }
}

impl Rig {
    /// The five rows of side 0 or 1 that the layer has now.
    fn rows(&self, side: u32) -> Vec<f32> {
        let all: Vec<f32> = self.stream.read(&self.memory.export(&Export::layer(0, 0, side)).unwrap()).unwrap();
        let kv = self.memory.paged_kv(0, 0).unwrap();
        assert_eq!(kv.dtype(), DType::F32);
        let page = 16 * HEADS * DIM;
        let used = (1..9).find(|page_of| all[page_of * page..][..page].iter().any(|value| *value != 0.0)).unwrap();
        all[used * page..][..TOKENS * HEADS * DIM].to_vec()
    }

    fn append(&self, key: &[f32], value: &[f32], options: &AppendOptions<'_>) -> Result<()> {
        let kv = self.memory.paged_kv(0, 0)?;
        let shape = [TOKENS, HEADS, DIM];
        self.stream.scope(|queue| queue.kv_append_with(&kv, &self.batch, View::new(key, &shape)?, Some(View::new(value, &shape)?), options))
    }

    fn attend(&self, query: &[f32], options: &AttentionOptions<'_>) -> Result<Vec<f32>> {
        let kv = self.memory.paged_kv(0, 0)?;
        let shape = [TOKENS, 2 * HEADS, DIM];
        let mut out = vec![0.0_f32; TOKENS * 2 * HEADS * DIM];
        self.stream
            .scope(|queue| queue.attention(&kv, &self.batch, View::new(query, &shape)?, ViewMut::new(&mut out, &shape)?, None, options))?;
        Ok(out)
    }
}

#[test]
fn keys_are_rotated_by_position() {
    let r = rig();
    let (key, value) = (noise(1, TOKENS * HEADS * DIM), noise(2, TOKENS * HEADS * DIM));
    let half = DIM / 2;
    let angle = |position: usize, i: usize| 0.3 * position as f32 / (1.0 + i as f32);
    let table = |f: fn(f32) -> f32| -> Vec<f32> { (0..TOKENS * half).map(|n| f(angle(n / half, n % half))).collect() };
    let (cos, sin) = (table(f32::cos), table(f32::sin));
    for interleaved in [false, true] {
        let rope = Rope { cos: &cos, sin: &sin, dim: DIM as u32, interleaved };
        r.append(&key, &value, &AppendOptions { rope: Some(rope), ..AppendOptions::default() }).unwrap();
        let (found, plain) = (r.rows(0), r.rows(1));
        assert_eq!(plain, value, "values are not rotated");
        for row in 0..TOKENS * HEADS {
            let token = row / HEADS;
            for i in 0..half {
                let (x, y) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + half) };
                let (a, b) = (key[row * DIM + x], key[row * DIM + y]);
                let (c, s) = (angle(token, i).cos(), angle(token, i).sin());
                let wanted = [a * c - b * s, a * s + b * c];
                let found = [found[row * DIM + x], found[row * DIM + y]];
                assert!((found[0] - wanted[0]).abs() < 1e-5 && (found[1] - wanted[1]).abs() < 1e-5, "row {} pair {}", row, i);
            }
        }
    }
    let short = Rope { cos: &cos[..cos.len() - 1], sin: &sin, dim: DIM as u32, interleaved: false };
    let error = r.append(&key, &value, &AppendOptions { rope: Some(short), ..AppendOptions::default() }).unwrap_err();
    assert!(error.code == Code::OutOfRange && error.message.contains("rope.cos has 39 numbers"), "{}", error);
    let odd = Rope { cos: &cos, sin: &sin, dim: u32::MAX, interleaved: false };
    assert!(r.append(&key, &value, &AppendOptions { rope: Some(odd), ..AppendOptions::default() }).is_err());
}

#[test]
fn scales_reach_the_driver() {
    let r = rig();
    let (key, value) = (noise(1, TOKENS * HEADS * DIM), noise(2, TOKENS * HEADS * DIM));
    let wrong = AppendOptions { scale_k: -1.0, ..AppendOptions::default() };
    assert_eq!(r.append(&key, &value, &wrong).unwrap_err().code, Code::InvalidArgument);
    r.append(&key, &value, &AppendOptions { scale_k: 2.0, scale_v: 4.0, ..AppendOptions::default() }).unwrap();
    let stored = |side: u32, scale: f32, wanted: &[f32]| r.rows(side).iter().zip(wanted).all(|(a, b)| (a * scale - b).abs() < 1e-6);
    assert!(stored(0, 2.0, &key) && stored(1, 4.0, &value), "stored is value / scale");
}

#[test]
fn a_tree_mask_hides_what_is_not_set() {
    let r = rig();
    let (key, value, query) = (noise(1, TOKENS * HEADS * DIM), noise(2, TOKENS * HEADS * DIM), noise(3, TOKENS * 2 * HEADS * DIM));
    r.append(&key, &value, &AppendOptions::default()).unwrap();
    // Three bits before the row are nobody's; token t sees itself alone.
    let mut bits = [0_u8; 4];
    for token in 0..TOKENS {
        let bit = 3 + token * TOKENS + token;
        bits[bit / 8] |= 1 << (bit % 8);
    }
    let indptr = [3, 28];
    let mask = Some(TreeMask { bits: &bits, indptr: &indptr });
    for causal in [true, false] {
        let out = r.attend(&query, &AttentionOptions { mask, causal, ..AttentionOptions::default() }).unwrap();
        for token in 0..TOKENS {
            for head in 0..2 * HEADS {
                let found = &out[(token * 2 * HEADS + head) * DIM..][..DIM];
                let own = &value[(token * HEADS + head / 2) * DIM..][..DIM];
                assert!(found.iter().zip(own).all(|(a, b)| (a - b).abs() < 1e-6), "token {} head {} sees itself alone", token, head);
            }
        }
    }
    for (bits, indptr) in [(&bits[..3], &indptr[..]), (&bits[..], &indptr[..1]), (&bits[..], &[-1, 28]), (&bits[..], &[i64::MAX, i64::MAX])]
    {
        let mask = Some(TreeMask { bits, indptr });
        let error = r.attend(&query, &AttentionOptions { mask, ..AttentionOptions::default() }).unwrap_err();
        assert!(error.code == Code::OutOfRange && error.message.contains("mask.indptr"), "{}", error);
    }
}

#[test]
fn a_plan_made_ahead_and_a_workspace_change_nothing() {
    let r = rig();
    let (key, value, query) = (noise(1, TOKENS * HEADS * DIM), noise(2, TOKENS * HEADS * DIM), noise(3, TOKENS * 2 * HEADS * DIM));
    r.append(&key, &value, &AppendOptions::default()).unwrap();
    let wanted = r.attend(&query, &AttentionOptions::default()).unwrap();
    let need = r.stream.attention_workspace(2, 8, 64, 2 * HEADS as u32, DIM as u32).unwrap();
    assert!(need.plan > 0);
    let mut plan = AttentionPlan::new(need.plan).unwrap();
    let tensor = r.device.create_tensor(DType::U8, &[need.workspace.max(1)]).unwrap();
    let workspace = Workspace::new(&r.stream, tensor).unwrap();
    let kv = r.memory.paged_kv(0, 0).unwrap();
    let shape = [TOKENS, 2 * HEADS, DIM];
    let mut out = vec![0.0_f32; query.len()];
    let (view, to) = (View::new(&query, &shape).unwrap(), ViewMut::new(&mut out, &shape).unwrap());
    r.stream.plan_attention(&kv, &r.batch, view, &to, &AttentionOptions::default(), &mut plan).unwrap();
    let planned = AttentionOptions { plan: Some(&plan), workspace: Some(&workspace), ..AttentionOptions::default() };
    assert_eq!(r.attend(&query, &planned).unwrap(), wanted);
    let error = r.attend(&query, &AttentionOptions { window: 2, ..planned }).unwrap_err();
    assert!(error.code == Code::InvalidArgument && error.message.contains("plan"), "{}", error);
    let blank = AttentionPlan::new(need.plan).unwrap();
    assert_eq!(r.attend(&query, &AttentionOptions { plan: Some(&blank), ..planned }).unwrap_err().code, Code::InvalidArgument);
    let other = Workspace::new(&Stream::new(&r.device).unwrap(), workspace.into_tensor()).unwrap();
    let error = r.attend(&query, &AttentionOptions { workspace: Some(&other), ..AttentionOptions::default() }).unwrap_err();
    assert!(error.code == Code::InvalidArgument && error.message.contains("another stream"), "{}", error);
    let mut small = AttentionPlan::new(8).unwrap();
    let answer = r.stream.plan_attention(&kv, &r.batch, view, &to, &AttentionOptions::default(), &mut small);
    assert_eq!(answer.unwrap_err().code, Code::OutOfRange);
    assert_eq!(r.stream.attention_workspace(2, u64::MAX, 64, 4, 16).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn runs_of_bytes_are_copied_between_tensors() {
    let r = rig();
    let (mut from, mut to) = (r.device.create_tensor(DType::U8, &[4, 4]).unwrap(), r.device.create_tensor(DType::U8, &[16]).unwrap());
    r.stream.write(&(0..16).collect::<Vec<u8>>(), &mut from).unwrap();
    r.stream.write(&[99_u8; 16], &mut to).unwrap();
    let run = CopyRun { from_at: 3, to_at: 10, bytes: 5 };
    r.stream.copy_runs(&from, &mut to, &[run, CopyRun { from_at: 0, to_at: 0, bytes: 1 }]).unwrap();
    let wanted = [0, 99, 99, 99, 99, 99, 99, 99, 99, 99, 3, 4, 5, 6, 7, 99];
    assert_eq!(r.stream.read::<u8>(&to).unwrap(), wanted);
    for bad in [CopyRun { from_at: 12, ..run }, CopyRun { to_at: u64::MAX, ..run }, CopyRun { bytes: u64::MAX, ..run }] {
        assert_eq!(r.stream.copy_runs(&from, &mut to, &[bad]).unwrap_err().code, Code::OutOfRange);
    }
    let lent = ManagedTensor::lend::<u8, _>(vec![0; 16], &[16], None, true).unwrap();
    let mut read_only = r.device.import(lent, true).unwrap();
    assert_eq!(r.stream.copy_runs(&from, &mut read_only, &[run]).unwrap_err().code, Code::PermissionDenied);
    let twice = [CopyRun { from_at: 0, to_at: 14, bytes: 2 }, CopyRun { bytes: 0, ..run }, run];
    assert_eq!(r.stream.copy_runs(&from, &mut to, &twice).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(r.stream.read::<u8>(&to).unwrap(), wanted);
}

#[test]
fn a_load_is_prepared_and_filled_like_a_step() {
    let r = rig();
    let config = plan(&[full_layer(0)], 9, 64);
    let memory = Memory::new(&r.device, &config, 0).unwrap();
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let prompt: Vec<Symbol> = (0..32).collect();
    let mut got = Got::default();
    let mut load = cache.begin_load(&Want { flags: 0, ..prompt_want(sequence, 32) }, &prompt, &mut got).unwrap().unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    load.fill_batch(&mut batch).unwrap();
    assert_eq!((batch.rows(), batch.tokens(), batch.kv_len()), (1, 32, &[32][..]));
    let (mut table, mut slots) = ([0; 4], [0_i64; 32]);
    load.fill(FillKind::Table, &Fill { pitch: 4, ..Fill::default() }, &mut table).unwrap();
    load.fill_slots(&Fill { pitch: 32, ..Fill::default() }, &mut slots).unwrap();
    assert_eq!((slots[0], slots[17]), (i64::from(table[0]) * 16, i64::from(table[1]) * 16 + 1));
    let zeroes = load.zeroes().unwrap();
    assert!(load.copies().unwrap().is_empty() && !zeroes.is_empty());
    r.stream.scope(|queue| queue.poison(&memory, 0x7b)).unwrap();
    r.stream.scope(|queue| queue.prepare_step(&memory, &load)).unwrap();
    let page = |page: u64| -> Vec<u8> {
        let of = ExportOf::Page { page, region: 0 };
        r.stream.read(&memory.export(&Export { of, ..Export::layer(0, 0, 0) }).unwrap()).unwrap()
    };
    for zero in zeroes {
        assert_eq!(zero.group, u32::MAX, "a whole page");
        assert!(page(zero.id as u64).iter().all(|byte| *byte == 0));
    }
    assert!(page(8).iter().all(|byte| *byte == 0x7b), "nobody's page");
    assert_eq!(load.end(&[]).unwrap(), 32);
    assert_eq!(r.stream.scope(|queue| queue.prepare_step(&memory, &load)).unwrap_err().code, Code::NotFound);
}

static NOW: AtomicI64 = AtomicI64::new(1_000);
static GIVEN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn time_is_the_clocks_that_was_given() {
    let options = RuntimeOptions { driver: "none".into(), clock: Some(ClockFn(|| NOW.load(Ordering::SeqCst))), ..Default::default() };
    let cache = Cache::new(Some(&Runtime::new(&options).unwrap()), &plan(&[full_layer(0)], 9, 64), &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..40).collect();
    serve(&cache, cache.create_sequence(None).unwrap(), &prompt, 9);
    let options = PinOptions { duration_ns: 500, ..PinOptions::default() };
    let (pin, _) = cache.pin(&Identity::default(), &prompt, &options).unwrap();
    assert_eq!(cache.pin_info(pin).unwrap().deadline_ns, 1_500);
    NOW.store(1_501, Ordering::SeqCst);
    assert_eq!(cache.unpin(pin).unwrap_err().code, Code::NotFound);
}

#[test]
fn modules_take_their_memory_where_they_were_told() {
    use std::alloc::{GlobalAlloc, Layout, System};
    struct Counting;
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            GIVEN.fetch_add(1, Ordering::SeqCst);
            System.alloc(layout)
        }
        unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
            GIVEN.fetch_sub(1, Ordering::SeqCst);
            System.dealloc(address, layout)
        }
    }
    static COUNTING: Counting = Counting;
    static MEMORY: &(dyn GlobalAlloc + Sync) = &COUNTING;
    let options = RuntimeOptions { driver: "cpu".into(), memory: Some(HostMemory(&MEMORY)), ..Default::default() };
    let runtime = Runtime::new(&options).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    let tensor = device.create_tensor(DType::F32, &[64]).unwrap();
    assert!(GIVEN.load(Ordering::SeqCst) > 0, "nothing was taken");
    drop((tensor, device, runtime));
    assert_eq!(GIVEN.load(Ordering::SeqCst), 0, "what was given came back");
}

#[test]
fn hashes_know_parents_media_and_embeddings() {
    let tokens: Vec<i64> = (0..48).collect();
    let plain = HashOptions { seed: "0", ..HashOptions::new(HashAlgorithm::Sha256Cbor) };
    let whole = hash_blocks_with(&plain, &tokens).unwrap();
    assert_eq!(whole, hash_blocks(HashAlgorithm::Sha256Cbor, "0", 16, "", "", &tokens).unwrap());
    let behind = HashOptions { parent: &whole[..32], first_token: 16, ..plain };
    assert_eq!(hash_blocks_with(&behind, &tokens[16..]).unwrap(), whole[32..]);
    let media = [
        HashMedia { position: 2, length: 3, identifier_offset: 0, identifier_bytes: 1 },
        HashMedia { position: 20, length: 3, identifier_offset: 1, identifier_bytes: 1 },
    ];
    let seen = hash_blocks_with(&HashOptions { media: &media, identifiers: "ab", ..plain }, &tokens).unwrap();
    assert!(seen[..32] != whole[..32] && seen[32..64] != whole[32..64]);
    let last = hash_blocks_with(&HashOptions { media: &media, identifiers: "ab", last_media_only: true, ..plain }, &tokens).unwrap();
    assert!(last[..32] == whole[..32] && last != whole, "the first item is not looked at");
    let rows = [1_u8; 48 * 4];
    let embedded = hash_blocks_with(&HashOptions { embeds: &rows, embed_rows: 48, ..plain }, &tokens).unwrap();
    assert_ne!(embedded, whole);
    for wrong in [
        HashOptions { parent: &whole[..31], first_token: 16, ..plain },
        HashOptions { embeds: &rows, embed_rows: 47, ..plain },
        HashOptions { embeds: &rows, embed_rows: 0, ..plain },
        HashOptions { media: &media, identifiers: "a", ..plain },
    ] {
        assert_eq!(hash_blocks_with(&wrong, &tokens).unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn events_tell_their_parts_and_types_without_a_name_are_opaque() {
    let cache = Cache::new(None, &plan(&[full_layer(0)], 9, 64), &CacheOptions::default()).unwrap();
    cache.enable_events(HashAlgorithm::Sha256Cbor, "0", 0).unwrap();
    let who = Identity { adapter: "lora", adapter_number: 7, ..Identity::default() };
    let prompt: Vec<Symbol> = (0..40).collect();
    serve(&cache, cache.create_sequence(Some(&who)).unwrap(), &prompt, 9);
    let mut buffer = EventBuffer::new(16, 4096).unwrap();
    cache.reader().read_events(0, &mut buffer).unwrap();
    let tokens: Vec<i64> = buffer.events().iter().flat_map(|event| buffer.tokens(event).to_vec()).collect();
    assert_eq!(tokens, (0..32).collect::<Vec<i64>>());
    let first = &buffer.events()[0];
    assert!(buffer.parent(first).is_empty() && buffer.adapter(first) == "lora" && buffer.kind(first) == "full_attention");
    assert!(!buffer.keys(first).is_empty());

    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let odd = || {
        use quire_sys::dlpack::*;
        unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
            drop(Box::from_raw((*tensor).manager_ctx.cast::<(i64, [u64; 2])>()));
            drop(Box::from_raw(tensor));
        }
        let owner = Box::into_raw(Box::new((4_i64, [0_u64; 2])));
        let tensor = DLTensor {
            data: unsafe { std::ptr::addr_of_mut!((*owner).1).cast() },
            device: DLDevice { device_type: 1, device_id: 0 },
            ndim: 1,
            dtype: DLDataType { code: 2, bits: 24, lanes: 1 },
            shape: unsafe { std::ptr::addr_of_mut!((*owner).0) },
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let version = DLPackVersion { major: 1, minor: 0 };
        let made = DLManagedTensorVersioned { version, manager_ctx: owner.cast(), deleter: Some(delete), flags: 0, dl_tensor: tensor };
        ManagedTensor::from(unsafe { Owned::new(Box::into_raw(Box::new(made))) }.unwrap())
    };
    assert_eq!(device.import(odd(), false).unwrap_err().error.code, Code::InvalidArgument);
    assert_eq!(device.import_with(odd(), false, true).unwrap().dtype().bytes(), 3);
}

#[test]
fn a_follower_answers_like_its_leader() {
    let config = plan(&[full_layer(0), state_layer(1)], 33, 64);
    let leader = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let follower = Follower::new(&config, &CacheOptions::default()).unwrap();
    let sequence = leader.create_sequence(None).unwrap();
    let step = leader.reserve(&[prompt_want(sequence, 20)], &(0..20).collect::<Vec<_>>(), &mut [Got::default()]).unwrap().unwrap();
    let mut bytes = Vec::new();
    step.export(&mut bytes).unwrap();
    let there = follower.import(&bytes).unwrap();
    assert_eq!((there.id(), follower.step(step.id()).unwrap().id()), (step.id(), step.id()));
    assert_eq!(there.info().unwrap(), step.info().unwrap());
    let (mut here, mut seen) = (Batch::new(&config, 0).unwrap(), Batch::new(&config, 0).unwrap());
    step.fill_batch(&mut here).unwrap();
    there.fill_batch(&mut seen).unwrap();
    assert_eq!((here.kv_len(), here.query_indptr(), here.positions()), (seen.kv_len(), seen.query_indptr(), seen.positions()));
    let (mut table, mut other) = ([0; 16], [1; 16]);
    let group = (0..2).find(|group| config.group(*group).unwrap().is_state == 0).unwrap();
    let fill = Fill { group, pitch: 16, ..Fill::default() };
    step.fill(FillKind::Table, &fill, &mut table).unwrap();
    there.fill(FillKind::Table, &fill, &mut other).unwrap();
    assert!(table == other && table[0] > 0);
    assert_eq!(there.export(&mut Vec::new()).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(follower.import(&bytes[1..]).unwrap_err().code, Code::DataLoss);
    assert_eq!(follower.import(&[]).unwrap_err().code, Code::DataLoss);
    assert_eq!(follower.step(StepId(99)).unwrap_err().code, Code::NotFound);
    assert_eq!(step.info().unwrap().num_tokens, 16, "cut where a state is kept");
}
