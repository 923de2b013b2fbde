//! A decode step of 256 sequences (reserve, all arrays, commit) through this crate and by direct calls of quire-kv-sys, in one process over one
//! cache: block by block in turn, so that both see every position of a block and the same lengths. Prints microseconds and their ratio.
//!   cargo bench --offline -p quire [-- BLOCKS]

use quire::*;
use quire_sys as sys;
use std::time::Instant;

const ROWS: usize = 256;
const BLOCK: usize = 16;

struct Direct {
    cache: *mut sys::quire_cache,
    wants: Vec<sys::quire_reserve_entry>,
    got: Vec<sys::quire_reserve_result>,
    rows: Vec<sys::quire_commit_entry>,
    symbols: Vec<u32>,
    memory: Vec<[f64; 2]>,
}

impl Direct {
    /// What a C program does.
    unsafe fn step(&mut self) {
        let mut err = sys::quire_error { struct_size: 512, ..Default::default() };
        let err: *mut sys::quire_error = &mut err;
        let (mut step, rows, size) = (sys::quire_step::default(), ROWS as u64, std::mem::size_of::<sys::quire_batch>());
        let ok = sys::quire_reserve(self.cache, self.wants.as_ptr(), rows, std::ptr::null(), 0, self.got.as_mut_ptr(), &mut step, err);
        assert!(ok == 0 && step.id != 0);
        let options = sys::quire_batch_options {
            struct_size: std::mem::size_of::<sys::quire_batch_options>() as u32,
            memory: self.memory.as_mut_ptr().cast(),
            bytes: self.memory.len() as u64 * 16,
            ..Default::default()
        };
        let (mut batch, mut bytes) = (sys::quire_batch { struct_size: size as u32, ..Default::default() }, 0);
        assert_eq!(sys::quire_step_get_batch(step, &options, &mut batch, size as u64, 1, &mut bytes, err), 0);
        for (row, got) in self.rows.iter_mut().zip(&self.got) {
            row.symbols_position = got.position + 1;
        }
        assert_eq!(sys::quire_commit(step, self.rows.as_ptr(), rows, self.symbols.as_ptr(), rows, err), 0);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let blocks = std::env::args().filter_map(|text| text.parse().ok()).next().unwrap_or(120_usize);
    let length = (blocks + 2) * BLOCK;
    let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 64, head_dim_v: 64, ..Layer::default() };
    let model = Model::new(&[Layer { dtype: DType::BF16, ..layer }], length as u64)?;
    let pages = (ROWS * (blocks + 2)) as u64 + 2;
    let config = Config::new(&model, &PlanOptions { num_pages: pages, ..PlanOptions::default() })?;
    let cache = Cache::new(None, &config, &CacheOptions { max_sequences: ROWS as u32, ..CacheOptions::default() })?;
    let mut batch = Batch::new(&config, 0)?;

    let mut wants = vec![Want { num_tokens: 1, ..Want::default() }; ROWS];
    let mut rows = vec![Outcome { num_accepted: 1, num_symbols: 1, ..Outcome::default() }; ROWS];
    let mut got = vec![Got::default(); ROWS];
    let symbols: Vec<Symbol> = (0..ROWS as u32).collect();
    for (i, (want, row)) in wants.iter_mut().zip(&mut rows).enumerate() {
        want.sequence = cache.create_sequence(None)?;
        row.sequence = want.sequence;
        row.symbols_offset = i as u64;
    }
    let first: Vec<Want> = wants.iter().enumerate().map(|(i, want)| Want { symbols_offset: i as u64, num_symbols: 1, ..*want }).collect();
    rows.iter_mut().for_each(|row| row.symbols_position = 1);
    cache.reserve(&first, &symbols, &mut got)?.ok_or_else(|| got[0].error())?.commit(&rows, &symbols)?;

    // The same cache by its C handle: a reader lends it, since a Cache does not show it.
    let mut direct = Direct {
        cache: cache.reader().as_raw(),
        wants: wants
            .iter()
            .map(|want| sys::quire_reserve_entry { sequence: want.sequence.0, num_tokens: 1, ..Default::default() })
            .collect(),
        got: vec![sys::quire_reserve_result::default(); ROWS],
        rows: rows
            .iter()
            .map(|row| sys::quire_commit_entry {
                sequence: row.sequence.0,
                symbols_offset: row.symbols_offset,
                num_symbols: 1,
                num_accepted: 1,
                ..Default::default()
            })
            .collect(),
        symbols: symbols.clone(),
        memory: vec![[0.0; 2]; ROWS * (length / BLOCK + 8)],
    };
    let mut through_rust = || -> Result<()> {
        let mut step = cache.reserve(&wants, &[], &mut got)?.ok_or_else(|| got[0].error())?;
        step.fill_batch(&mut batch)?;
        rows.iter_mut().zip(&got).for_each(|(row, got)| row.symbols_position = got.end());
        step.commit(&rows, &symbols)
    };
    let (mut by_c, mut by_rust) = (Vec::new(), Vec::new());
    for block in 0..blocks {
        let start = Instant::now();
        let rust = block % 4 == 1 || block % 4 == 2; // C R R C: lengths grow, and both see the same on average
        for _ in 0..BLOCK {
            if rust {
                through_rust()?;
            } else {
                unsafe { direct.step() };
            }
        }
        let microseconds = start.elapsed().as_secs_f64() * 1e6 / BLOCK as f64;
        if rust { &mut by_rust } else { &mut by_c }.push(microseconds);
    }
    cache.verify()?;
    let ratios = by_rust.iter().zip(&by_c).map(|(rust, c)| rust / c).collect();
    println!("decode step of {} sequences: C {:.1} us, Rust {:.1} us, ratio {:.3}", ROWS, median(by_c), median(by_rust), median(ratios));
    Ok(())
}
