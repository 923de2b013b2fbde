//! A layer with the states of Mamba2, its convolution and its scan, against plain arithmetic over a prompt and the tokens behind it.

mod common;
use common::*;
use quire::*;

const CHANNELS: usize = 6;
const WIDTH: usize = 4;
const SCAN_DIM: usize = 4;
const STATE: usize = 8;
const TOKENS: usize = 8;
const ROW: usize = HEADS * SCAN_DIM;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What the layer reads for all tokens.
struct Inputs {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    x: Vec<f32>,
    dt: Vec<f32>,
    a: [f32; HEADS],
    b: Vec<f32>,
    c: Vec<f32>,
    skip: [f32; HEADS],
    dt_bias: [f32; HEADS],
    z: Vec<f32>,
}

const LIMITS: (f32, f32) = (0.55, 0.9);

fn inputs() -> Inputs {
    Inputs {
        input: noise(11, TOKENS * CHANNELS),
        weight: noise(12, CHANNELS * WIDTH),
        bias: noise(13, CHANNELS),
        x: noise(14, TOKENS * ROW),
        dt: noise(15, TOKENS * HEADS),
        a: [-0.5, -1.25],
        b: noise(16, TOKENS * STATE),
        c: noise(17, TOKENS * STATE),
        skip: [0.75, -0.25],
        dt_bias: [0.125, -0.375],
        z: noise(18, TOKENS * ROW),
    }
}

fn plain_convolution(i: &Inputs, token: usize, channel: usize) -> f64 {
    let taps = (0..WIDTH).filter(|tap| token + tap + 1 >= WIDTH);
    let of = |tap: usize| f64::from(i.weight[channel * WIDTH + tap]) * f64::from(i.input[(token + tap + 1 - WIDTH) * CHANNELS + channel]);
    let sum = f64::from(i.bias[channel]) + taps.map(of).sum::<f64>();
    sum * sigmoid(sum)
}

/// `[tokens][heads][head_dim]`, and how many dt the limits changed.
fn plain_scan(i: &Inputs) -> (Vec<f64>, usize) {
    let (mut out, mut limited) = (vec![0.0; TOKENS * ROW], 0);
    for head in 0..HEADS {
        let mut state = [[0.0_f64; STATE]; SCAN_DIM];
        for token in 0..TOKENS {
            let free = (f64::from(i.dt[token * HEADS + head]) + f64::from(i.dt_bias[head])).exp().ln_1p();
            let d = free.max(f64::from(LIMITS.0)).min(f64::from(LIMITS.1));
            limited += usize::from(d != free);
            for (row, cells) in state.iter_mut().enumerate() {
                let at = token * ROW + head * SCAN_DIM + row;
                let x = f64::from(i.x[at]);
                let mut sum = f64::from(i.skip[head]) * x;
                for (n, cell) in cells.iter_mut().enumerate() {
                    *cell = (d * f64::from(i.a[head])).exp() * *cell + d * x * f64::from(i.b[token * STATE + n]);
                    sum += *cell * f64::from(i.c[token * STATE + n]);
                }
                let z = f64::from(i.z[at]);
                out[at] = sum * z * sigmoid(z);
            }
        }
    }
    (out, limited)
}

/// Tokens `from..from + n` of a tensor whose tokens have `shape`.
fn part<'a>(data: &'a [f32], from: usize, n: usize, shape: &[usize]) -> Result<View<'a>> {
    let all: Vec<usize> = std::iter::once(n).chain(shape.iter().copied()).collect();
    View::new(&data[from * shape.iter().product::<usize>()..], &all)
}

#[test]
fn a_convolution_and_a_scan_equal_plain_arithmetic_over_steps() {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let config = plan(&[mamba_layer(0)], 33, 64);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let memory = Memory::new(&device, &config, 0).unwrap();
    stream.scope(|queue| queue.poison(&memory, 0x7b)).unwrap();
    let (kept, state) = (memory.paged_state(0, 0, 0).unwrap().transposed(), memory.paged_state(0, 0, 1).unwrap());
    assert_eq!((kept.shape(), state.shape()), (&[3, 6][..], &[2, 4, 8][..]));
    let sequence = cache.create_sequence(None).unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    let i = inputs();
    let (mut convolved, mut out) = (vec![0.0_f32; TOKENS * CHANNELS], vec![0.0_f32; TOKENS * ROW]);
    let prompt: Vec<Symbol> = (0..5).collect();
    let mut from = 0;
    while from < TOKENS {
        let want = if from == 0 { prompt_want(sequence, 5) } else { Want { sequence, num_tokens: 1, ..Want::default() } };
        let mut got = [Got::default()];
        let mut step = cache.reserve(&[want], if from == 0 { &prompt } else { &[] }, &mut got).unwrap().unwrap();
        let n = got[0].num_tokens as usize;
        assert_eq!(n, if from == 0 { 5 } else { 1 });
        step.fill_batch(&mut batch).unwrap();
        stream
            .scope(|queue| {
                queue.prepare_step(&memory, &step)?;
                let (weight, bias) = (View::new(&i.weight, &[CHANNELS, WIDTH])?, View::new(&i.bias, &[CHANNELS])?);
                let to = ViewMut::new(&mut convolved[from * CHANNELS..], &[n, CHANNELS])?;
                queue.conv1d(&kept, &batch, part(&i.input, from, n, &[CHANNELS])?, weight, Some(bias), to, true)?;
                let scan = SelectiveScan {
                    x: part(&i.x, from, n, &[HEADS, SCAN_DIM])?,
                    dt: part(&i.dt, from, n, &[HEADS])?,
                    a: View::new(&i.a, &[HEADS])?,
                    b: part(&i.b, from, n, &[1, STATE])?,
                    c: part(&i.c, from, n, &[1, STATE])?,
                    skip: Some(View::new(&i.skip, &[HEADS])?),
                    dt_bias: Some(View::new(&i.dt_bias, &[HEADS])?),
                    z: Some(part(&i.z, from, n, &[HEADS, SCAN_DIM])?),
                    softplus: true,
                    dt_min: LIMITS.0,
                    dt_max: LIMITS.1,
                };
                queue.selective_scan(&state, &batch, &scan, ViewMut::new(&mut out[from * ROW..], &[n, HEADS, SCAN_DIM])?)
            })
            .unwrap();
        let symbols_position = got[0].end();
        let row = Outcome { sequence, num_accepted: n as u32, symbols_position, num_symbols: 1, ..Outcome::default() };
        step.commit(&[row], &[9]).unwrap();
        from += n;
    }
    for (at, found) in convolved.iter().enumerate() {
        let wanted = plain_convolution(&i, at / CHANNELS, at % CHANNELS);
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "convolution {}: {} instead of {}", at, found, wanted);
    }
    let (wanted, limited) = plain_scan(&i);
    assert!(limited > 0 && limited < TOKENS * HEADS, "{} of {} dt are limited", limited, TOKENS * HEADS);
    for (at, (found, wanted)) in out.iter().zip(&wanted).enumerate() {
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "scan {}: {} instead of {}", at, found, wanted);
    }
}
