//! What step_loop computes on: numbers in place of a model, and attention over them as it is defined.

pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const DIM: usize = 8;

/// The "model": element x of query (0), key (1) or value (2) of position p of sequence s, a multiple of 1/16.
pub fn element(which: usize, s: usize, p: usize, x: usize) -> f32 {
    (((which * 5 + s * 3 + p * 7 + x * 11) % 23) as f32 - 11.0) / 16.0
}

/// softmax(q k / sqrt(DIM)) v over the positions up to p.
pub fn plain(s: usize, p: usize, x: usize) -> f64 {
    let shared = x / DIM / (HEADS / KV_HEADS) * DIM; // where the head's keys and values start
    let (mut total, mut sum) = (0.0, 0.0);
    for t in 0..=p {
        let products = (0..DIM).map(|i| f64::from(element(0, s, p, x / DIM * DIM + i)) * f64::from(element(1, s, t, shared + i)));
        let weight = (products.sum::<f64>() / (DIM as f64).sqrt()).exp();
        total += weight;
        sum += weight * f64::from(element(2, s, t, shared + x % DIM));
    }
    sum / total
}
