//! Every number that weights would have given is a function of h(p), a hash of the salt and of all symbols up to position p: a wrong block, order
//! or salt gives other numbers.
use quire::*;

pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const STATE_HEADS: usize = 2;
pub const DIM: usize = 16;
pub const WINDOW: u64 = 32;
pub const MAX_LEN: usize = 256;

/// What a number is for.
pub const QUERY: u64 = 0;
pub const KEY: u64 = 1;
pub const VALUE: u64 = 2;
pub const GATE: u64 = 3;
pub const BETA: u64 = 4;

pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub fn next(h: u64, symbol: Symbol) -> u64 {
    mix(h ^ u64::from(symbol).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub fn sampled(h: u64, sample: u64) -> Symbol {
    (mix(h ^ (sample + 1)) % 1000) as Symbol
}

/// A number in [-1, 1), exact in 24 bits.
pub fn number(h: u64, layer: usize, what: u64, index: usize) -> f32 {
    let bits = mix(h ^ ((layer as u64) << 40) ^ (what << 32) ^ index as u64) >> 40;
    (bits as i64 - (1 << 23)) as f32 / (1 << 23) as f32
}

/// The decay's logarithm in (-0.5, 0].
pub fn gate(h: u64, layer: usize, head: usize) -> f32 {
    (number(h, layer, GATE, head) - 1.0) / 4.0
}

/// In [0, 1).
pub fn beta(h: u64, layer: usize, head: usize) -> f32 {
    (number(h, layer, BETA, head) + 1.0) / 2.0
}

/// The model: attention over everything, a recurrent layer, attention over a window.
pub fn layers() -> [Layer; 3] {
    let (kv, q, dim) = (KV_HEADS as u32, HEADS as u32, DIM as u32);
    let heads = Layer { num_kv_heads: kv, num_q_heads: q, head_dim_k: dim, head_dim_v: dim, dtype: DType::F32, ..Layer::default() };
    let state = StateTensor { dtype: DType::F32, shape: vec![STATE_HEADS as u64, DIM as u64, DIM as u64], shard: None };
    [
        Layer { kind: LayerKind::Full, ..heads.clone() },
        Layer { kind: LayerKind::State, layer: 1, state_kind: 3, dtype: DType::F32, state: vec![state], ..Layer::default() },
        Layer { kind: LayerKind::SlidingWindow, layer: 2, window: WINDOW, ..heads },
    ]
}

/// One request: prompts of a pair are equal but for their tail, and every third request has a second sample.
#[derive(Clone)]
pub struct Request {
    pub salt: u64,
    pub prompt: Vec<Symbol>,
    pub output: usize,
    pub samples: u32,
}

pub fn workload() -> Vec<Request> {
    let request = |i: u32| Request {
        salt: u64::from(i % 2),
        prompt: (1..49).chain((0..24 + 8 * (i % 5)).map(|p| 2000 + 100 * (i / 4) + p)).collect(), // 48 that all have in common
        output: 12 + i as usize % 7,
        samples: if i % 3 == 0 { 2 } else { 1 },
    };
    (0..10).map(request).collect()
}
