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
        let end = got[0].position + u64::from(got[0].num_tokens);
        let last = end as usize == prompt.len();
        first.get_or_insert(got[0]);
        let row = Outcome { sequence, num_accepted: got[0].num_tokens, num_symbols: u32::from(last), ..Outcome::default() };
        step.commit(&[row], if last { std::slice::from_ref(&next) } else { &[] }).unwrap();
        if last {
            return first.unwrap();
        }
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
