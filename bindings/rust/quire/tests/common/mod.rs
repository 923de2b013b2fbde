//! A small model and what a test needs around it.
#![allow(dead_code)]

use quire::*;

pub const HEADS: usize = 2;
pub const DIM: usize = 16;

pub fn full_layer(layer: u32) -> Layer {
    Layer {
        kind: LayerKind::Full,
        layer,
        num_kv_heads: HEADS as u32,
        num_q_heads: 2 * HEADS as u32,
        head_dim_k: DIM as u32,
        head_dim_v: DIM as u32,
        dtype: DType::F32,
        ..Layer::default()
    }
}

pub fn state_layer(layer: u32) -> Layer {
    Layer {
        kind: LayerKind::State,
        layer,
        state: vec![StateTensor { dtype: DType::F32, shape: vec![2, 16, 16], shard: None }],
        ..Layer::default()
    }
}

/// The states of Mamba2: inputs of a convolution over 6 channels, and 2 heads of 4 by 8.
pub fn mamba_layer(layer: u32) -> Layer {
    let tensor = |shape: &[u64]| StateTensor { dtype: DType::F32, shape: shape.to_vec(), shard: None };
    Layer { kind: LayerKind::State, layer, state: vec![tensor(&[6, 3]), tensor(&[2, 4, 8])], ..Layer::default() }
}

pub fn plan(layers: &[Layer], pages: u64, length: u64) -> Config {
    let model = Model::new(layers, length).unwrap();
    Config::new(&model, &PlanOptions { num_pages: pages, ..PlanOptions::default() }).unwrap()
}

pub fn runtime(driver: &str) -> Runtime {
    Runtime::new(&RuntimeOptions { driver: driver.into(), ..RuntimeOptions::default() }).unwrap()
}

pub fn prompt_want(sequence: SequenceId, symbols: usize) -> Want {
    Want { sequence, num_symbols: symbols as u32, num_tokens: symbols as u32, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() }
}

/// Serves a whole prompt and one symbol behind it; the last answer.
pub fn serve(cache: &Cache, sequence: SequenceId, prompt: &[Symbol], next: Symbol) -> Got {
    let mut want = prompt_want(sequence, prompt.len());
    let mut got = [Got::default()];
    let mut first = None;
    loop {
        let mut step = cache.reserve(&[want], prompt, &mut got).unwrap().expect("room");
        let end = got[0].end();
        let last = end as usize == prompt.len();
        first.get_or_insert(got[0]);
        let (num_accepted, num_symbols) = (got[0].num_tokens, u32::from(last));
        let row = Outcome { sequence, num_accepted, symbols_position: end, num_symbols, ..Outcome::default() };
        step.commit(&[row], if last { std::slice::from_ref(&next) } else { &[] }).unwrap();
        if last {
            return first.unwrap();
        }
        want.symbols_position = end;
        want.symbols_offset = end;
        want.num_symbols = (prompt.len() as u64 - end) as u32;
        want.num_tokens = want.num_symbols;
        want.flags = Want::PROMPT_END;
    }
}

/// Numbers in (-1, 1) that look random.
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32) / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// One of each handle, made from one another, with a sequence that was served and a ticket in flight; `threads` of the driver.
pub fn one_of_each(threads: u32) -> Vec<Box<dyn Send>> {
    let options = RuntimeOptions { driver: "cpu".into(), num_threads: threads, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&options).unwrap();
    let model = Model::new(&[full_layer(0)], 64).unwrap();
    let config = Config::new(&model, &PlanOptions { num_pages: 9, ..PlanOptions::default() }).unwrap();
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let memory = Memory::new(&device, &config, 0).unwrap();
    let tensor = memory.export(&Export::layer(0, 0, 0)).unwrap();
    let legacy = memory.export(&Export { legacy: true, ..Export::layer(0, 0, 1) }).unwrap();
    let imported = device.import(memory.export(&Export::layer(0, 0, 0)).unwrap(), false).unwrap();
    let connector = Connector::open(&runtime, "null", "").unwrap();
    let load = Ticket::load(1, b"k", Payload::Bytes(vec![0; 8]), vec![]);
    assert!(connector.submit(vec![load]).unwrap().is_empty());
    let reader = cache.reader().clone();
    let batch = Batch::new(&config, 0).unwrap();
    serve(&cache, cache.create_sequence(None).unwrap(), &[1, 2, 3], 4);
    vec![
        Box::new(runtime),
        Box::new(model),
        Box::new(config),
        Box::new(cache),
        Box::new(device),
        Box::new(stream),
        Box::new(memory),
        Box::new(tensor),
        Box::new(legacy),
        Box::new(imported),
        Box::new(connector),
        Box::new(reader),
        Box::new(batch),
    ]
}

/// Drops the handles beginning with the `round`-th, forwards and then backwards, half of them on another thread.
pub fn drop_in_order(mut handles: Vec<Box<dyn Send>>, round: usize) {
    let n = handles.len();
    handles.rotate_left(round % n);
    if round / n % 2 == 1 {
        handles.reverse();
    }
    let elsewhere = handles.split_off(n / 2);
    let thread = std::thread::spawn(move || drop(elsewhere));
    drop(handles);
    thread.join().unwrap();
}
