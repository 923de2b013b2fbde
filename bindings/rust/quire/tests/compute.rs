//! Kernels of the CPU driver through Rust, against sums written down naively, and tensors of others in and out.

mod common;
use common::*;
use quire::*;

struct Rig {
    runtime: Runtime,
    config: Config,
    cache: Cache,
    device: Device,
    stream: Stream,
    memory: Memory,
}

fn rig(layers: &[Layer]) -> Rig {
    let runtime = runtime("cpu");
    let config = plan(layers, 33, 256);
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default()).unwrap();
    let device = Device::open(&runtime, 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let memory = Memory::new(&device, &config, 0).unwrap();
    stream.scope(|queue| queue.poison(&memory, 0x7b)).unwrap();
    Rig { runtime, config, cache, device, stream, memory }
}

/// softmax(q k^T / sqrt(d)) v of one query token and head over `keys` tokens.
fn naive(query: &[f32], keys: &[f32], values: &[f32], token: usize, head: usize) -> Vec<f64> {
    let kv_head = head / 2;
    let q = &query[(token * 2 * HEADS + head) * DIM..][..DIM];
    let row = |from: &[f32], t: usize| from[(t * HEADS + kv_head) * DIM..][..DIM].to_vec();
    let logits: Vec<f64> = (0..=token)
        .map(|t| row(keys, t).iter().zip(q).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() / (DIM as f64).sqrt())
        .collect();
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (0..DIM).map(|d| (0..=token).map(|t| weights[t] / sum * f64::from(row(values, t)[d])).sum()).collect()
}

#[test]
fn attention_over_a_prompt_and_a_decode_equals_the_naive_sum() {
    let r = rig(&[full_layer(0), full_layer(1)]);
    let kv = r.memory.paged_kv(1, 0).unwrap();
    assert_eq!((kv.num_heads(), kv.head_dim(0), kv.head_dim(1), kv.dtype()), (2, 16, 16, DType::F32));
    let mut batch = Batch::new(&r.config, 0).unwrap();
    let sequence = r.cache.create_sequence(None).unwrap();
    let tokens = 38;
    let (query, key, value) = (noise(1, tokens * 4 * DIM), noise(2, tokens * 2 * DIM), noise(3, tokens * 2 * DIM));
    let prompt: Vec<Symbol> = (0..37).collect();
    let mut out = vec![0.0_f32; tokens * 4 * DIM];
    let mut lse = vec![0.0_f32; tokens * 4];
    let mut from = 0;
    let wants = [prompt_want(sequence, 37), Want { sequence, num_tokens: 1, ..Want::default() }];
    for (want, symbols) in wants.iter().zip([&prompt[..], &[]]) {
        let mut got = [Got::default()];
        let mut step = r.cache.reserve(&[*want], symbols, &mut got).unwrap().unwrap();
        let n = got[0].num_tokens as usize;
        step.fill_batch(&mut batch).unwrap();
        r.stream
            .scope(|queue| {
                queue.prepare_step(&r.memory, &step)?;
                let kv_at = from * 2 * DIM;
                let value = View::new(&value[kv_at..], &[n, 2, DIM])?;
                queue.kv_append(&kv, &batch, View::new(&key[kv_at..], &[n, 2, DIM])?, Some(value))?;
                let query = View::new(&query[from * 4 * DIM..], &[n, 4, DIM])?;
                let out = ViewMut::new(&mut out[from * 4 * DIM..], &[n, 4, DIM])?;
                let lse = ViewMut::new(&mut lse[from * 4..], &[n, 4])?;
                queue.attention(&kv, &batch, query, out, Some(lse), &AttentionOptions::default())
            })
            .unwrap();
        let row = Outcome { sequence, num_accepted: n as u32, symbols_position: got[0].end(), num_symbols: 1, ..Outcome::default() };
        step.commit(&[row], &[7]).unwrap();
        from += n;
    }
    assert_eq!(from, tokens);
    for token in 0..tokens {
        for head in 0..4 {
            let wanted = naive(&query, &key, &value, token, head);
            for (d, wanted) in wanted.iter().enumerate() {
                let found = f64::from(out[(token * 4 + head) * DIM + d]);
                assert!((found - wanted).abs() < 1e-5, "token {} head {} d {}: {} instead of {}", token, head, d, found, wanted);
            }
        }
    }
    assert!(lse.iter().all(|value| value.is_finite() && *value != 0.0));
}

#[test]
fn a_state_is_updated_and_carried_to_the_next_step() {
    let r = rig(&[state_layer(0)]);
    let state = r.memory.paged_state(0, 0, 0).unwrap();
    assert_eq!((state.shape(), state.dtype()), (&[2, 16, 16][..], DType::F32));
    let sequence = r.cache.create_sequence(None).unwrap();
    let mut batch = Batch::new(&r.config, 0).unwrap();
    let (key, value) = (noise(4, 2 * 2 * DIM), noise(5, 2 * 2 * DIM));
    let (gate, beta) = ([-0.5_f32; 4], [0.75_f32; 4]);
    let mut out = vec![0.0_f32; 2 * 2 * DIM];
    for token in 0..2_usize {
        let want = if token == 0 { prompt_want(sequence, 1) } else { Want { sequence, num_tokens: 1, ..Want::default() } };
        let mut got = [Got::default()];
        let mut step = r.cache.reserve(&[want], &[3][..1 - token], &mut got).unwrap().unwrap();
        step.fill_batch(&mut batch).unwrap();
        let rows = token * 2 * DIM;
        r.stream
            .scope(|queue| {
                queue.prepare_step(&r.memory, &step)?;
                let inputs = GatedDelta {
                    query: View::new(&key[rows..], &[1, 2, DIM])?,
                    key: View::new(&key[rows..], &[1, 2, DIM])?,
                    value: View::new(&value[rows..], &[1, 2, DIM])?,
                    gate: View::new(&gate, &[1, 2])?,
                    beta: View::new(&beta, &[1, 2])?,
                    flags: 0,
                    scale: 1.0,
                };
                queue.gated_delta(&state, &batch, &inputs, ViewMut::new(&mut out[rows..], &[1, 2, DIM])?)
            })
            .unwrap();
        let row = Outcome { sequence, num_accepted: 1, symbols_position: got[0].end(), num_symbols: 1, ..Outcome::default() };
        step.commit(&[row], &[9]).unwrap();
    }
    for head in 0..2 {
        let mut memory = vec![vec![0.0_f64; DIM]; DIM]; // [dim_k][dim_v]
        for token in 0..2 {
            let at = (token * 2 + head) * DIM;
            let row = |from: &[f32], d: usize| f64::from(from[at + d]);
            memory.iter_mut().flatten().for_each(|cell| *cell *= (-0.5_f64).exp());
            let seen: Vec<f64> = (0..DIM).map(|v| (0..DIM).map(|k| memory[k][v] * row(&key, k)).sum()).collect();
            for (k, cells) in memory.iter_mut().enumerate() {
                for (v, cell) in cells.iter_mut().enumerate() {
                    *cell += 0.75 * row(&key, k) * (row(&value, v) - seen[v]);
                }
            }
            for v in 0..DIM {
                let wanted: f64 = (0..DIM).map(|k| memory[k][v] * row(&key, k)).sum();
                let found = f64::from(out[at + v]);
                assert!((found - wanted).abs() < 1e-4, "token {} head {} v {}: {} instead of {}", token, head, v, found, wanted);
            }
        }
    }
}

#[test]
fn an_engines_bytes_are_bound_and_a_layer_comes_out_as_a_tensor() {
    let r = rig(&[full_layer(0)]);
    let regions = r.config.regions(0).unwrap();
    let buffers = regions.iter().map(|region| AlignedBytes::new(region.bytes, region.alignment).unwrap().into_dlpack().unwrap()).collect();
    let memory = Memory::bind(&r.device, &r.config, 0, buffers).unwrap();
    let kv = memory.paged_kv(0, 0).unwrap();
    let mut batch = Batch::new(&r.config, 0).unwrap();
    let sequence = r.cache.create_sequence(None).unwrap();
    let mut got = [Got::default()];
    let step = r.cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut got).unwrap().unwrap();
    step.fill_batch(&mut batch).unwrap();
    let (key, value) = (noise(6, 3 * 2 * DIM), noise(7, 3 * 2 * DIM));
    r.stream
        .scope(|queue| {
            queue.prepare_step(&memory, &step)?;
            queue.kv_append(&kv, &batch, View::new(&key, &[3, 2, DIM])?, Some(View::new(&value, &[3, 2, DIM])?))
        })
        .unwrap();
    let mut table = [0_i32; 16];
    step.fill(FillKind::Table, &Fill { pitch: 16, ..Fill::default() }, &mut table).unwrap();
    let tensor = memory.export(&Export { read_only: true, ..Export::layer(0, 0, 1) }).unwrap();
    assert!(tensor.is_read_only());
    assert_eq!((tensor.shape(), tensor.dtype(), tensor.device()), (&[33, 1, 16, 2, 16][..], DType::F32, (1, 0)));
    let read: Vec<f32> = Vec::from_dlpack(tensor, &r.stream).unwrap();
    assert_eq!(read[table[0] as usize * 16 * 2 * DIM..][..3 * 2 * DIM], value[..]);
    let lowered = memory.export(&Export { of: ExportOf::Lowered, ..Export::layer(0, 0, 1) }).unwrap();
    assert_eq!(lowered.shape(), [33, 16, 2, 16]);
    assert_eq!(r.stream.read::<f32>(&lowered).unwrap()[table[0] as usize * 16 * 2 * DIM..][..3 * 2 * DIM], value[..]);
    let legacy = memory.export(&Export { legacy: true, ..Export::layer(0, 0, 0) }).unwrap();
    assert_eq!(r.stream.read::<f32>(&legacy).unwrap()[table[0] as usize * 16 * 2 * DIM..][..3 * 2 * DIM], key[..]);
    drop((step, memory));
    assert_eq!(legacy.shape()[0], 33, "the tensor keeps the memory");
}

#[test]
fn tensors_are_imported_written_and_read_back() {
    let r = rig(&[full_layer(0)]);
    let data = noise(8, 24);
    let shaped = Shaped { data: data.clone(), shape: vec![2, 3, 4] };
    let mut tensor = DeviceTensor::from_dlpack(shaped.into_dlpack().unwrap(), &r.device).unwrap();
    assert_eq!((tensor.shape(), tensor.strides(), tensor.dtype()), (&[2, 3, 4][..], &[48, 16, 4][..], DType::F32));
    assert_eq!(r.stream.read::<f32>(&tensor).unwrap(), data);
    let other = noise(9, 24);
    r.stream.write(&other, &mut tensor).unwrap();
    assert_eq!(r.stream.read::<f32>(&tensor).unwrap(), other);
    assert_eq!(r.stream.read::<i32>(&tensor).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(r.stream.write(&other[1..], &mut tensor).unwrap_err().code, Code::InvalidArgument);
    let mut read_only = r.device.import(data.into_dlpack().unwrap(), true).unwrap();
    assert_eq!(read_only.view_mut().unwrap_err().code, Code::PermissionDenied);
    assert_eq!(r.stream.write(&other, &mut read_only).unwrap_err().code, Code::PermissionDenied);
    let mut own = r.device.create_tensor(DType::BF16, &[3, 5]).unwrap();
    r.stream.scope(|queue| queue.fill(&mut own, 0)).unwrap();
    assert_eq!(r.stream.read::<Bf16>(&own).unwrap(), [Bf16(0); 15]);
    let info = r.device.info().unwrap();
    assert_eq!((info.driver.as_str(), info.device_type), ("cpu", 1));
    assert!(r.runtime.probe().unwrap().iter().any(|each| each.is_driver && each.name == "cpu" && each.code.is_none()));
}

#[test]
fn cross_attention_sees_the_encoders_tokens_in_every_step() {
    const ENCODER: usize = 20;
    let cross = Layer { kind: LayerKind::Cross, sub: 1, encoder_tokens: 24, ..full_layer(0) };
    let options = AttentionOptions::of_layer(&cross).unwrap();
    assert!(!options.causal && AttentionOptions::of_layer(&full_layer(0)).unwrap().causal);
    assert_eq!(AttentionOptions::of_layer(&state_layer(0)).unwrap_err().code, Code::InvalidArgument);
    let r = rig(&[full_layer(0), cross]);
    let (kv, group) = (r.memory.paged_kv(0, 1).unwrap(), r.config.place(0, 1).unwrap().group);
    let mut batch = Batch::new(&r.config, 0).unwrap();
    let sequence = r.cache.create_sequence(None).unwrap();
    let (query, key, value) = (noise(11, 4 * DIM), noise(12, ENCODER * 2 * DIM), noise(13, ENCODER * 2 * DIM));
    // Query token 0 of naive() sees key 0 alone: the last of as many rows sees all.
    let last = [vec![0.0; (ENCODER - 1) * 4 * DIM], query.clone()].concat();
    for (tokens, slots) in [(3_usize, ENCODER), (1, 0)] {
        let begins = Want { flags: 0, encoder_tokens: ENCODER as u64, ..prompt_want(sequence, 3) };
        let want = if slots > 0 { begins } else { Want { sequence, num_tokens: 1, ..Want::default() } };
        let mut got = [Got::default()];
        let mut step = r.cache.reserve(&[want], &[1, 2, 3], &mut got).unwrap().unwrap();
        step.fill_batch(&mut batch).unwrap();
        assert_eq!((batch.tokens(), batch.num_slots(group), batch.kv_len()[0] as u64), (tokens, slots, got[0].end()));
        let queries = query.repeat(tokens);
        let mut out = vec![0.0_f32; tokens * 4 * DIM];
        r.stream
            .scope(|queue| {
                queue.prepare_step(&r.memory, &step)?;
                let rows = [slots, 2, DIM];
                queue.kv_append(&kv, &batch, View::new(&key, &rows)?, Some(View::new(&value, &rows)?))?;
                let shape = [tokens, 4, DIM];
                queue.attention(&kv, &batch, View::new(&queries, &shape)?, ViewMut::new(&mut out, &shape)?, None, &options)
            })
            .unwrap();
        let rope = Some(Rope { cos: &query, sin: &query, dim: 2, interleaved: false });
        let turned = r.stream.scope(|queue| {
            let rows = View::new(&key, &[slots, 2, DIM])?;
            queue.kv_append_with(&kv, &batch, rows, Some(rows), &AppendOptions { rope, ..AppendOptions::default() })
        });
        assert_eq!(turned.unwrap_err().code, Code::InvalidArgument);
        for (i, found) in out.iter().enumerate() {
            let wanted = naive(&last, &key, &value, ENCODER - 1, i / DIM % 4)[i % DIM];
            assert!((f64::from(*found) - wanted).abs() < 1e-5, "number {} of {} tokens: {} instead of {}", i, tokens, found, wanted);
        }
        let num_accepted = tokens as u32;
        step.commit(&[Outcome { sequence, num_accepted, symbols_position: got[0].end(), num_symbols: 1, ..Outcome::default() }], &[7])
            .unwrap();
    }
}
