//! A step allocates nothing in Rust: counted by Rust's allocator, on the thread that steps. What the library allocates in C++ is counted by
//! tests of its own.

mod common;
use common::*;
use quire::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        System.dealloc(address, layout)
    }
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        System.realloc(address, layout, size)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        System.alloc_zeroed(layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    body();
    COUNT.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(vec![1_u8; 7])), 1);
    assert_eq!(allocations(|| {}), 0);
}

#[test]
fn a_step_with_tables_and_kernels_allocates_nothing() {
    const ROWS: usize = 8;
    let runtime = Runtime::new(&RuntimeOptions { driver: "cpu".into(), num_threads: 1, ..RuntimeOptions::default() }).unwrap();
    let config = plan(&[full_layer(0), state_layer(1), mamba_layer(2)], 257, 256);
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let memory = Memory::new(&device, &config, 0).unwrap();
    let (inputs, scanned) = (memory.paged_state(2, 0, 0).unwrap().transposed(), memory.paged_state(2, 0, 1).unwrap());
    let (kv, state) = (memory.paged_kv(0, 0).unwrap(), memory.paged_state(1, 0, 0).unwrap());
    let mut batch = Batch::new(&config, 0).unwrap();
    batch.reserve(1 << 16).unwrap(); // for all steps
    let mut fixed = Batch::fixed(&config, 0, ROWS as u32, ROWS as u32).unwrap();
    let data = noise(1, ROWS * 4 * DIM);
    let mut out = vec![0.0_f32; ROWS * 4 * DIM];
    let (mut convolved, mut scan_out) = (vec![0.0_f32; ROWS * 6], vec![0.0_f32; ROWS * 8]);
    let mut wants = [Want { num_tokens: 1, ..Want::default() }; ROWS];
    let mut rows = [Outcome { num_accepted: 1, num_symbols: 1, ..Outcome::default() }; ROWS];
    let mut got = [Got::default(); ROWS];
    for (i, (want, row)) in wants.iter_mut().zip(&mut rows).enumerate() {
        want.sequence = cache.create_sequence(None).unwrap();
        row.sequence = want.sequence;
        row.symbols_offset = i as u64;
        serve(&cache, want.sequence, &[i as u32, 2, 3], 4);
    }
    let symbols = [5; ROWS];
    let mut step_once = |batch: &mut Batch| -> Result<()> {
        let mut step = cache.reserve(&wants, &[], &mut got)?.ok_or_else(|| got[0].error())?;
        step.fill_batch(batch)?;
        let batch = &*batch;
        let (q, k) = ([ROWS, 4, DIM], [ROWS, 2, DIM]);
        stream.scope(|queue| {
            queue.prepare_step(&memory, &step)?;
            queue.kv_append(&kv, batch, View::new(&data, &k)?, Some(View::new(&data, &k)?))?;
            queue.attention(&kv, batch, View::new(&data, &q)?, ViewMut::new(&mut out, &q)?, None, &AttentionOptions::default())
        })?;
        stream.scope(|queue| {
            let rows = View::new(&data, &k)?;
            let scalars = View::new(&data, &[ROWS, 2])?;
            let inputs = GatedDelta { query: rows, key: rows, value: rows, gate: scalars, beta: scalars, flags: 0, scale: 0.0 };
            queue.gated_delta(&state, batch, &inputs, ViewMut::new(&mut out, &k)?)
        })?;
        stream.scope(|queue| {
            let rows = [ROWS, 6];
            let to = ViewMut::new(&mut convolved, &rows)?;
            queue.conv1d(&inputs, batch, View::new(&data, &rows)?, View::new(&data, &[6, 4])?, None, to, true)?;
            let (x, dt) = (View::new(&data, &[ROWS, 2, 4])?, View::new(&data, &[ROWS, 2])?);
            let b = View::new(&data, &[ROWS, 1, 8])?;
            let a = View::new(&[-1.0_f32; 2], &[2])?;
            let scan = SelectiveScan { x, dt, a, b, c: b, skip: None, dt_bias: None, z: None, softplus: true, dt_min: 0.0, dt_max: 0.0 };
            queue.selective_scan(&scanned, batch, &scan, ViewMut::new(&mut scan_out, &[ROWS, 2, 4])?)
        })?;
        cache.reader().stats()?;
        rows.iter_mut().zip(&got).for_each(|(row, got)| row.symbols_position = got.end());
        step.commit(&rows, &symbols)
    };
    for batch in [&mut batch, &mut fixed] {
        step_once(batch).unwrap(); // what is made once, such as a thread's own variables
        let counted = allocations(|| (0..100).for_each(|_| step_once(batch).unwrap()));
        assert_eq!(counted, 0, "allocations of 100 steps");
    }
    for written in [&out, &convolved, &scan_out] {
        assert!(written.iter().any(|value| *value != 0.0));
    }
    cache.verify().unwrap();
}
