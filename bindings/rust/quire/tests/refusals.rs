//! What the C ABI refuses arrives as an error with code and message, and nothing has changed.

mod common;
use common::*;
use quire::*;

#[track_caller]
fn refused<T, E: Into<Error>>(answer: std::result::Result<T, E>, code: Code, word: &str) {
    match answer.map_err(E::into) {
        Ok(_) => panic!("was accepted, wanted {}", code),
        Err(error) => {
            assert_eq!(error.code, code, "{}", error);
            assert!(error.message.contains(word), "'{}' does not name '{}'", error.message, word);
        }
    }
}

#[test]
fn runtimes_models_and_plans() {
    refused(Runtime::new(&RuntimeOptions { driver: "no such/driver".into(), ..Default::default() }), Code::InvalidArgument, "driver");
    refused(Runtime::new(&RuntimeOptions { driver_path: "relative".into(), ..Default::default() }), Code::InvalidArgument, "driver_path");
    let none = runtime("none");
    refused(Device::open(&none, 0), Code::Unavailable, "none");
    refused(Device::open(&runtime("nosuch"), 0), Code::NotFound, "nosuch");
    refused(Device::open(&runtime("cpu"), 77), Code::OutOfRange, "77");

    refused(Model::from_json(""), Code::InvalidArgument, "json");
    refused(Model::from_json("{\"architectures\": [\"Nobody\"]}"), Code::Unimplemented, "Nobody");
    refused(Model::from_layers("{}"), Code::InvalidArgument, "specs");
    refused(Model::new(&[], 16), Code::InvalidArgument, "count");
    refused(Model::new(&[Layer { kind: LayerKind::Other(99), ..full_layer(0) }], 16), Code::InvalidArgument, "kind");
    refused(Model::new(&[Layer { num_kv_heads: 0, ..full_layer(0) }], 16), Code::InvalidArgument, "num_kv_heads");
    let states = vec![StateTensor::default(); 5];
    refused(Model::new(&[Layer { state: states, ..state_layer(0) }], 16), Code::InvalidArgument, "5 state tensors");

    let model = Model::new(&[full_layer(0)], 64).unwrap();
    refused(model.layer(1), Code::OutOfRange, "index");
    refused(Config::new(&model, &PlanOptions::default()), Code::InvalidArgument, "memory_bytes");
    refused(Config::new(&model, &PlanOptions { num_pages: 1, ..Default::default() }), Code::ResourceExhausted, "page");
    let policy = PlanOptions { num_pages: 9, policy: "nonsense".into(), ..Default::default() };
    assert!(Config::new(&model, &policy).unwrap_err().message.contains("policy"));
    let config = plan(&[full_layer(0)], 9, 64);
    refused(config.group(1), Code::OutOfRange, "group");
    refused(config.place(3, 0), Code::NotFound, "layer");
    refused(config.regions(1), Code::OutOfRange, "shard");
    refused(config.kv_view(0, 1, 0), Code::NotFound, "layer");
    refused(config.segments(&Select::default(), &[1_000_000]), Code::OutOfRange, "id");
    refused(Batch::new(&config, 1), Code::OutOfRange, "shard");
}

#[test]
fn caches_sequences_and_steps() {
    let config = plan(&[full_layer(0)], 9, 64);
    refused(Cache::new(None, &config, &CacheOptions { step_depth: 9, ..Default::default() }), Code::InvalidArgument, "step_depth");
    let cache = Cache::new(None, &config, &CacheOptions { max_sequences: 1, ..Default::default() }).unwrap();
    let salt = "x".repeat(4097);
    refused(cache.create_sequence(Some(&Identity { salt: &salt, ..Default::default() })), Code::InvalidArgument, "4096");
    let sequence = cache.create_sequence(None).unwrap();
    refused(cache.create_sequence(None), Code::ResourceExhausted, "max_sequences");
    refused(cache.finish_sequence(SequenceId(77)), Code::NotFound, "sequence");
    refused(cache.truncate_sequence(sequence, 5), Code::OutOfRange, "5");
    refused(cache.fork_sequence(sequence), Code::ResourceExhausted, "max_sequences");
    refused(cache.add_media(&[1; 32], 0), Code::InvalidArgument, "length");
    refused(cache.step(StepId(5)), Code::NotFound, "step");
    refused(cache.forget_blocks(4, &[1]), Code::OutOfRange, "group");

    let mut got = [Got::default()];
    let want = prompt_want(sequence, 20);
    refused(cache.reserve(&[want], &[1, 2], &mut got), Code::OutOfRange, "symbols");
    refused(cache.reserve(&[want, want], &[0; 20], &mut got), Code::InvalidArgument, "results");
    refused(cache.reserve(&[Want { flags: 0x8000, ..want }], &[0; 20], &mut got), Code::InvalidArgument, "flags");
    let stale = Want { sequence: SequenceId(99), ..want };
    assert!(cache.reserve(&[stale], &[0; 20], &mut got).unwrap().is_none());
    assert_eq!((got[0].refused(), got[0].refusal()), (Some(Code::NotFound), Refusal::Stale));
    assert!(cache.reserve(&[Want { num_tokens: 0, ..want }], &[0; 20], &mut got).unwrap().is_none());
    assert_eq!((got[0].refused(), got[0].refusal()), (Some(Code::InvalidArgument), Refusal::NoTokens));
    assert!(cache.reserve(&[Want { symbols_position: 1, ..want }], &[0; 20], &mut got).unwrap().is_none());
    assert_eq!((got[0].refused(), got[0].refusal()), (Some(Code::InvalidArgument), Refusal::Position));
    assert!(got[0].error().message == Refusal::Position.text() && !Refusal::Position.text().is_empty(), "{}", got[0].error());

    let prompt: Vec<Symbol> = (0..20).collect();
    let mut step = cache.reserve(&[want], &prompt, &mut got).unwrap().unwrap();
    let row = Outcome { sequence, num_accepted: 20, symbols_position: 20, num_symbols: 1, ..Default::default() };
    refused(step.commit(&[], &[1]), Code::InvalidArgument, "n");
    refused(step.commit(&[Outcome { num_accepted: 21, ..row }], &[1]), Code::OutOfRange, "21");
    refused(step.commit(&[Outcome { symbols_position: 19, ..row }], &[1]), Code::InvalidArgument, "symbols_position");
    refused(step.commit(&[Outcome { num_symbols: 5, ..row }], &[1]), Code::OutOfRange, "symbols");
    refused(step.fill(FillKind::Table, &Fill { group: 7, pitch: 16, ..Default::default() }, &mut [0; 16]), Code::OutOfRange, "group");
    refused(step.fill(FillKind::Table, &Fill { pitch: 1, ..Default::default() }, &mut [0; 16]), Code::OutOfRange, "pitch");
    step.fill(FillKind::Table, &Fill { pitch: u64::MAX, ..Default::default() }, &mut [0; 16]).unwrap_err();
    let mut small = Batch::fixed(&config, 0, 1, 19).unwrap();
    refused(step.fill_batch(&mut small), Code::OutOfRange, "19");
    let mut foreign = Batch::new(&plan(&[full_layer(0)], 9, 64), 0).unwrap();
    refused(step.fill_batch(&mut foreign), Code::InvalidArgument, "another plan");
    refused(cache.reset(), Code::FailedPrecondition, "flight");
    step.commit(&[row], &[1]).unwrap();
    refused(step.commit(&[row], &[1]), Code::NotFound, "step");
    cache.verify().unwrap();
}

#[test]
fn memories_tensors_and_ops() {
    let runtime = runtime("cpu");
    let device = Device::open(&runtime, 0).unwrap();
    let stream = Stream::new(&device).unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    refused(Memory::new(&device, &config, 4), Code::OutOfRange, "shard");
    refused(Memory::bind(&device, &config, 0, vec![]), Code::InvalidArgument, "n");
    let short = AlignedBytes::new(64, 4096).unwrap().into_dlpack().unwrap();
    refused(Memory::bind(&device, &config, 0, vec![short]), Code::InvalidArgument, "64");
    refused(AlignedBytes::new(64, 3), Code::InvalidArgument, "3");
    refused(Shaped { data: vec![0_u8; 5], shape: vec![2, 3] }.into_dlpack(), Code::InvalidArgument, "5");
    let memory = Memory::new(&device, &config, 0).unwrap();
    refused(memory.paged_kv(1, 0), Code::NotFound, "layer");
    refused(memory.paged_state(0, 0, 0), Code::NotFound, "layer");
    refused(memory.region(9), Code::OutOfRange, "region");
    refused(memory.export(&Export::layer(0, 0, 2)), Code::OutOfRange, "item");
    refused(memory.export(&Export { legacy: true, read_only: true, ..Export::layer(0, 0, 0) }), Code::FailedPrecondition, "read-only");
    refused(device.create_tensor(DType::F32, &[1; 6]), Code::InvalidArgument, "6");
    refused(device.create_tensor(DType::F32, &[u64::MAX]), Code::InvalidArgument, "63 bits");

    refused(View::new(&[0.0_f32; 3], &[2, 2]), Code::OutOfRange, "4 elements");
    refused(View::new(&[0.0_f32; 3], &[usize::MAX, 2]), Code::OutOfRange, "63 bits");
    refused(View::new(&[0.0_f32; 3], &[1; 6]), Code::InvalidArgument, "6 dimensions");

    let kv = memory.paged_kv(0, 0).unwrap();
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let step = cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut [Got::default()]).unwrap().unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    let data = vec![0.0_f32; 1024];
    let mut out = vec![0.5_f32; 1024];
    let attend = |shape: &[usize], out: &mut [f32], options: &AttentionOptions<'_>| {
        stream.scope(|queue| queue.attention(&kv, &batch, View::new(&data, shape)?, ViewMut::new(out, shape)?, None, options))
    };
    refused(attend(&[2, 4, DIM], &mut out, &AttentionOptions::default()), Code::OutOfRange, "query_indptr");
    refused(attend(&[3, 3, DIM], &mut out, &AttentionOptions::default()), Code::InvalidArgument, "heads");
    let sinks = AttentionOptions { sink_logits: Some(&data[..3]), ..AttentionOptions::default() };
    refused(attend(&[3, 4, DIM], &mut out, &sinks), Code::InvalidArgument, "sink_logits");
    assert!(out.iter().all(|value| *value == 0.5), "a refused op writes nothing");
    let append = stream.scope(|queue| queue.kv_append(&kv, &batch, View::new(&data, &[3, 2, DIM])?, None));
    refused(append, Code::InvalidArgument, "value");
    let foreign = Batch::new(&plan(&[full_layer(0)], 9, 64), 0).unwrap();
    let append = stream.scope(|queue| queue.kv_append(&kv, &foreign, View::new(&data, &[3, 2, DIM])?, None));
    refused(append, Code::InvalidArgument, "another plan");

    let null = Device::open(&self::runtime("null"), 0).unwrap();
    let nowhere = Stream::new(&null).unwrap();
    let key = nowhere.scope(|queue| queue.kv_append(&kv, &batch, View::new(&data, &[3, 2, DIM])?, Some(View::new(&data, &[3, 2, DIM])?)));
    refused(key, Code::InvalidArgument, "driver null");
}

/// A rig for ops over one token of a layer with attention and one with a state.
fn with_ops(body: impl FnOnce(&Stream, &Memory, &Batch)) {
    let device = Device::open(&runtime("cpu"), 0).unwrap();
    let config = plan(&[full_layer(0), state_layer(1)], 33, 64);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let step = cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut [Got::default()]).unwrap().unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    body(&Stream::new(&device).unwrap(), &Memory::new(&device, &config, 0).unwrap(), &batch);
}

#[test]
fn tensors_of_wrong_shapes_or_types() {
    with_ops(|stream, memory, batch| {
        let (kv, state) = (memory.paged_kv(0, 0).unwrap(), memory.paged_state(1, 0, 0).unwrap());
        let data = vec![0.25_f32; 1024];
        let other = vec![0_i32; 1024];
        let mut out = vec![0.5_f32; 1024];
        let view = |shape: &[usize]| View::new(&data, shape).unwrap();
        let good = [3, 2, DIM];
        for (key, value) in [
            (view(&[2, 2, DIM]), view(&good)),
            (view(&good), view(&[3, 2, 8])),
            (view(&[3, 1, DIM]), view(&good)),
            (view(&[3, 32]), view(&good)),
            (View::new(&other, &good).unwrap(), view(&good)),
        ] {
            let answer = stream.scope(|queue| queue.kv_append(&kv, batch, key, Some(value)));
            assert!(matches!(answer.unwrap_err().code, Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented));
        }
        for shape in [[3, 4, 8], [1, 4, DIM], [3, 1, DIM]] {
            let answer = stream.scope(|queue| {
                let out = ViewMut::new(&mut out, &shape)?;
                queue.attention(&kv, batch, view(&[3, 4, DIM]), out, None, &AttentionOptions::default())
            });
            refused(answer, Code::InvalidArgument, "");
        }
        let mut lse = vec![0.5_f32; 16];
        let answer = stream.scope(|queue| {
            let (out, lse) = (ViewMut::new(&mut out, &[3, 4, DIM])?, ViewMut::new(&mut lse, &[3, 3])?);
            queue.attention(&kv, batch, view(&[3, 4, DIM]), out, Some(lse), &AttentionOptions::default())
        });
        refused(answer, Code::InvalidArgument, "lse");
        let fine = GatedDelta {
            query: view(&good),
            key: view(&good),
            value: view(&good),
            gate: view(&[3, 2]),
            beta: view(&[3, 2]),
            flags: 0,
            scale: 0.0,
        };
        for wrong in [
            GatedDelta { query: view(&[3, 2, 8]), ..fine },
            GatedDelta { key: view(&[3, 1, DIM]), ..fine },
            GatedDelta { value: view(&[3, 1, DIM]), ..fine },
            GatedDelta { gate: view(&[3, 1]), ..fine },
            GatedDelta { gate: view(&[2, 2]), ..fine },
            GatedDelta { beta: view(&[3]), ..fine },
            GatedDelta { beta: View::new(&other, &[3, 2]).unwrap(), ..fine },
            GatedDelta { flags: 0x8000, ..fine },
        ] {
            let answer = stream.scope(|queue| queue.gated_delta(&state, batch, &wrong, ViewMut::new(&mut out, &good)?));
            let error = answer.unwrap_err();
            assert!(matches!(error.code, Code::InvalidArgument | Code::OutOfRange | Code::Unimplemented), "{}", error);
        }
        let answer =
            stream.scope(|queue| queue.conv1d(&state, batch, view(&[3, 6]), view(&[6, 4]), None, ViewMut::new(&mut out, &[3, 6])?, true));
        refused(answer, Code::InvalidArgument, "");
        let (parts, weights) = ([view(&[1, 1, 4]), view(&[1, 1, 4])], [view(&[1, 1]), view(&[1, 1])]);
        let short = stream.scope(|queue| queue.attention_merge(&parts, &weights[..1], ViewMut::new(&mut out, &[1, 1, 4])?, None));
        refused(short, Code::InvalidArgument, "partial_lse");
        let uneven = [view(&[1, 1, 4]), view(&[1, 1, 8])];
        let answer = stream.scope(|queue| queue.attention_merge(&uneven, &weights, ViewMut::new(&mut out, &[1, 1, 4])?, None));
        refused(answer, Code::InvalidArgument, "");
        let wide = stream.scope(|queue| queue.attention_merge(&parts, &weights, ViewMut::new(&mut out, &[2, 1, 4])?, None));
        refused(wide, Code::InvalidArgument, "");
        assert!(out.iter().chain(&lse).all(|value| *value == 0.5), "a refused op writes nothing");
    });
}

#[test]
fn names_and_paths_with_a_nul_inside() {
    let with = |change: fn(&mut RuntimeOptions)| {
        let mut options = RuntimeOptions { driver: "cpu".into(), ..RuntimeOptions::default() };
        change(&mut options);
        Runtime::new(&options)
    };
    refused(with(|options| options.driver = "cpu\0x".into()), Code::InvalidArgument, "options.driver: byte 3");
    refused(with(|options| options.driver_path = "/nonexistent\0/x".into()), Code::InvalidArgument, "options.driver_path: byte 12");
    refused(with(|options| options.connector_path = "/a\0".into()), Code::InvalidArgument, "options.connector_path: byte 2");
    refused(with(|options| options.cpus = "0\0-3".into()), Code::InvalidArgument, "options.cpus: byte 1");
    let runtime = runtime("cpu");
    refused(Connector::open(&runtime, "null\0", ""), Code::InvalidArgument, "name: byte 4");
    refused(Op::find(&runtime, "", "own\0.blend", 0, OpForm::Any), Code::InvalidArgument, "name: byte 3");
    refused(Op::find(&runtime, "null\0", "x", 0, OpForm::Any), Code::InvalidArgument, "connector: byte 4");
    refused(Op::list(&runtime, "\0"), Code::InvalidArgument, "connector: byte 0");
}
