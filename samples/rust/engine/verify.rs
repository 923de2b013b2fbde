//! The results of one sequence, recomputed from its hashes alone, in double precision and without quire.
use crate::serve::Live;
use crate::values::*;

/// One row of attention at a position.
fn attended(hashes: &[u64], layer: usize, position: usize, window: usize) -> Vec<f64> {
    let mut out = vec![0.0; HEADS * DIM];
    let from = if window != 0 { (position + 1).saturating_sub(window) } else { 0 };
    for head in 0..HEADS {
        let kv = head / (HEADS / KV_HEADS);
        let mut sum = 0.0;
        for p in from..=position {
            // logits are small: no maximum is needed
            let product = |d: usize| {
                let q = f64::from(number(hashes[position + 1], layer, QUERY, head * DIM + d));
                q * f64::from(number(hashes[p + 1], layer, KEY, kv * DIM + d))
            };
            let logit: f64 = (0..DIM).map(product).sum();
            let weight = (logit / (DIM as f64).sqrt()).exp();
            sum += weight;
            for d in 0..DIM {
                out[head * DIM + d] += weight * f64::from(number(hashes[p + 1], layer, VALUE, kv * DIM + d));
            }
        }
        out[head * DIM..][..DIM].iter_mut().for_each(|number| *number /= sum);
    }
    out
}

fn unit(h: u64, layer: usize, what: u64, head: usize) -> Vec<f64> {
    let v: Vec<f64> = (0..DIM).map(|d| f64::from(number(h, layer, what, head * DIM + d))).collect();
    let length = (v.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
    v.iter().map(|x| x / length).collect()
}

/// All rows of the gated delta rule, from the first position on.
fn updated(hashes: &[u64], layer: usize, n: usize) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; STATE_HEADS * DIM]; n];
    for head in 0..STATE_HEADS {
        let mut state = [[0.0_f64; DIM]; DIM]; // [k][v]
        for (p, row) in rows.iter_mut().enumerate() {
            let h = hashes[p + 1];
            let (q, k, decay) = (unit(h, layer, QUERY, head), unit(h, layer, KEY, head), f64::from(gate(h, layer, head)).exp());
            state.iter_mut().flatten().for_each(|cell| *cell *= decay);
            for v in 0..DIM {
                let seen: f64 = (0..DIM).map(|i| state[i][v] * k[i]).sum();
                let learnt = f64::from(beta(h, layer, head)) * (f64::from(number(h, layer, VALUE, head * DIM + v)) - seen);
                for (cells, k) in state.iter_mut().zip(&k) {
                    cells[v] += learnt * k;
                }
                row[head * DIM + v] = (0..DIM).map(|i| state[i][v] * q[i]).sum::<f64>() / (DIM as f64).sqrt();
            }
        }
    }
    rows
}

/// Compares what the kernels gave for a sample, row by row (relative L2 at most 1e-4): rows compared, and rows that differ.
pub fn verify(l: &Live) -> (usize, usize) {
    let recurrent = updated(&l.hashes, 1, l.symbols.len());
    let (mut rows, mut mismatches) = (0, 0);
    for (layer, what) in layers().iter().enumerate() {
        for (p, row) in l.out[layer].iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let wanted = if layer == 1 { recurrent[p].clone() } else { attended(&l.hashes, layer, p, what.window as usize) };
            let apart: f64 = row.iter().zip(&wanted).map(|(found, wanted)| (f64::from(*found) - wanted).powi(2)).sum();
            let size: f64 = wanted.iter().map(|x| x * x).sum();
            let equal = apart.sqrt() <= 1e-4 * size.sqrt();
            rows += 1;
            mismatches += usize::from(!equal);
        }
    }
    (rows, mismatches)
}
