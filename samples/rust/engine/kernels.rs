//! The layers of a step on the driver.
use crate::values::*;
use quire::*;

/// Tensors of one step, reused by all layers.
#[derive(Default)]
struct Tensors {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    gate: Vec<f32>,
    beta: Vec<f32>,
    out: Vec<f32>,
}

pub struct Kernels<'m> {
    memory: &'m Memory,
    stream: &'m Stream,
    tensors: Tensors,
}

fn fill(to: &mut Vec<f32>, hashes: &[u64], width: usize, number: impl Fn(u64, usize) -> f32) {
    to.clear();
    to.extend(hashes.iter().flat_map(|h| (0..width).map(move |i| (*h, i))).map(|(h, i)| number(h, i)));
}

impl<'m> Kernels<'m> {
    pub fn new(memory: &'m Memory, stream: &'m Stream) -> Kernels<'m> {
        Kernels { memory, stream, tensors: Tensors::default() }
    }

    pub fn prepare(&self, step: &Step<'_>) -> Result<()> {
        self.stream.scope(|queue| queue.prepare_step(self.memory, step))
    }

    fn attend(&mut self, layer: usize, window: u64, batch: &Batch, hashes: &[u64]) -> Result<()> {
        let t = &mut self.tensors;
        fill(&mut t.query, hashes, HEADS * DIM, |h, i| number(h, layer, QUERY, i));
        fill(&mut t.key, hashes, KV_HEADS * DIM, |h, i| number(h, layer, KEY, i));
        fill(&mut t.value, hashes, KV_HEADS * DIM, |h, i| number(h, layer, VALUE, i));
        t.out.resize(hashes.len() * HEADS * DIM, 0.0);
        let n = hashes.len();
        let (key, value) = (View::new(&t.key, &[n, KV_HEADS, DIM])?, View::new(&t.value, &[n, KV_HEADS, DIM])?);
        let (query, out) = (View::new(&t.query, &[n, HEADS, DIM])?, ViewMut::new(&mut t.out, &[n, HEADS, DIM])?);
        let kv = self.memory.paged_kv(layer as u32, 0)?;
        let options = AttentionOptions { window: window as u32, ..AttentionOptions::default() };
        self.stream.scope(|queue| {
            queue.kv_append(&kv, batch, key, Some(value))?;
            queue.attention(&kv, batch, query, out, None, &options)
        })
    }

    fn recur(&mut self, layer: usize, batch: &Batch, hashes: &[u64]) -> Result<()> {
        let t = &mut self.tensors;
        fill(&mut t.query, hashes, STATE_HEADS * DIM, |h, i| number(h, layer, QUERY, i));
        fill(&mut t.key, hashes, STATE_HEADS * DIM, |h, i| number(h, layer, KEY, i));
        fill(&mut t.value, hashes, STATE_HEADS * DIM, |h, i| number(h, layer, VALUE, i));
        fill(&mut t.gate, hashes, STATE_HEADS, |h, i| gate(h, layer, i));
        fill(&mut t.beta, hashes, STATE_HEADS, |h, i| beta(h, layer, i));
        t.out.resize(hashes.len() * STATE_HEADS * DIM, 0.0);
        let (n, normalised) = (hashes.len(), 2);
        let inputs = GatedDelta {
            query: View::new(&t.query, &[n, STATE_HEADS, DIM])?,
            key: View::new(&t.key, &[n, STATE_HEADS, DIM])?,
            value: View::new(&t.value, &[n, STATE_HEADS, DIM])?,
            gate: View::new(&t.gate, &[n, STATE_HEADS])?,
            beta: View::new(&t.beta, &[n, STATE_HEADS])?,
            flags: normalised,
            scale: 0.0,
        };
        let out = ViewMut::new(&mut t.out, &[n, STATE_HEADS, DIM])?;
        let state = self.memory.paged_state(layer as u32, 0, 0)?;
        self.stream.scope(|queue| queue.gated_delta(&state, batch, &inputs, out))
    }

    /// Computes all layers; `done` receives the results of each: `[tokens][width]` numbers.
    pub fn run(&mut self, batch: &Batch, hashes: &[u64], mut done: impl FnMut(usize, usize, &[f32])) -> Result<()> {
        for (l, layer) in layers().iter().enumerate() {
            if layer.kind == LayerKind::State {
                self.recur(l, batch, hashes)?;
                done(l, STATE_HEADS * DIM, &self.tensors.out);
            } else {
                self.attend(l, layer.window, batch, hashes)?;
                done(l, HEADS * DIM, &self.tensors.out);
            }
        }
        Ok(())
    }
}
