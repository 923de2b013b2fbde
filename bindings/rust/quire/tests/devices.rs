//! Two devices in one process: memory of one with a stream of another is an error that names both, and nothing is touched.

mod common;
use common::*;
use quire::*;

/// Devices beside the CPU driver's: the null driver's, and one of another kind where the environment says in which folder its driver lies.
fn others() -> Vec<Device> {
    let mut all = vec![Device::open(&runtime("null"), 0).unwrap()];
    match std::env::var("QUIRE_OWN_DRIVER") {
        Ok(folder) => {
            let options = RuntimeOptions { driver: "far".into(), driver_path: folder, trust_paths: true, ..RuntimeOptions::default() };
            all.push(Device::open(&Runtime::new(&options).unwrap(), 0).unwrap());
            assert_eq!(all[1].info().unwrap().device_type, 2);
        }
        Err(_) => println!("skipped: QUIRE_OWN_DRIVER names no folder with a driver of another kind of device"),
    }
    all
}

fn refused<T>(answer: Result<T>, what: &str, other: &Device) {
    let error = answer.err().expect("memory of another device was taken");
    assert_eq!(error.code, Code::InvalidArgument, "{}", error);
    let info = other.info().unwrap();
    let there = format!("({}, {}) of driver {}", info.device_type, info.device_id, info.driver);
    for part in [what, &there, "(1, 0) of driver cpu"] {
        assert!(error.message.contains(part), "{} does not name {}", error, part);
    }
}

#[test]
fn tensors_of_another_device_are_refused() {
    let near = Device::open(&runtime("cpu"), 0).unwrap();
    let stream = Stream::new(&near).unwrap();
    for other in others() {
        let mut here = near.create_tensor(DType::U8, &[64]).unwrap();
        let mut there = other.create_tensor(DType::U8, &[64]).unwrap();
        stream.write(&[1_u8; 64], &mut here).unwrap();
        refused(stream.scope(|queue| queue.fill(&mut there, 7)), "tensor", &other);
        refused(stream.read::<u8>(&there), "tensor", &other);
        refused(stream.write(&[7_u8; 64], &mut there), "tensor", &other);
        let run = [CopyRun { from_at: 0, to_at: 0, bytes: 64 }];
        refused(stream.copy_runs(&there, &mut here, &run), "from", &other);
        refused(stream.copy_runs(&here, &mut there, &run), "to", &other);
        let away = Stream::new(&other).unwrap();
        refused(away.scope(|queue| queue.fill(&mut here, 7)), "tensor", &other);
        assert_eq!(stream.read::<u8>(&here).unwrap(), [1; 64]);
    }
}

#[test]
fn layers_and_workspaces_of_another_device_are_refused() {
    let near = Device::open(&runtime("cpu"), 0).unwrap();
    let stream = Stream::new(&near).unwrap();
    let config = plan(&[full_layer(0), state_layer(1)], 33, 64);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let step = cache.reserve(&[prompt_want(sequence, 3)], &[1, 2, 3], &mut [Got::default()]).unwrap().unwrap();
    let mut batch = Batch::new(&config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    let data = noise(1, 3 * 4 * DIM);
    let view = |shape: &[usize]| View::new(&data, shape).unwrap();
    let near_memory = Memory::new(&near, &config, 0).unwrap();
    for other in others() {
        let memory = Memory::new(&other, &config, 0).unwrap();
        let (kv, state) = (memory.paged_kv(0, 0).unwrap(), memory.paged_state(1, 0, 0).unwrap());
        let options = AttentionOptions::default();
        refused(stream.scope(|queue| queue.prepare_step(&memory, &step)), "memory", &other);
        refused(stream.scope(|queue| queue.poison(&memory, 1)), "memory", &other);
        let rows = [3, 2, DIM];
        refused(stream.scope(|queue| queue.kv_append(&kv, &batch, view(&rows), Some(view(&rows)))), "layer's memory", &other);
        let mut out = vec![0.5_f32; 3 * 4 * DIM];
        let wide = [3, 4, DIM];
        let answer = stream.scope(|queue| queue.attention(&kv, &batch, view(&wide), ViewMut::new(&mut out, &wide)?, None, &options));
        refused(answer, "layer's memory", &other);
        let to = ViewMut::new(&mut out, &wide).unwrap();
        let mut planned = AttentionPlan::new(4096).unwrap();
        refused(stream.plan_attention(&kv, &batch, view(&wide), &to, &options, &mut planned), "layer's memory", &other);
        let inputs = GatedDelta {
            query: view(&rows),
            key: view(&rows),
            value: view(&rows),
            gate: view(&[3, 2]),
            beta: view(&[3, 2]),
            flags: 0,
            scale: 0.0,
        };
        let answer = stream.scope(|queue| queue.gated_delta(&state, &batch, &inputs, ViewMut::new(&mut out, &rows)?));
        refused(answer, "layer's memory", &other);

        let workspace = other.create_tensor(DType::U8, &[4096]).unwrap();
        refused(Workspace::new(&stream, workspace).map_err(|refused| refused.error), "workspace", &other);
        assert!(out.iter().all(|value| *value == 0.5), "a refused op writes nothing");
    }
    stream.scope(|queue| queue.prepare_step(&near_memory, &step)).unwrap();
    let again = Stream::new(&Device::open(&runtime("cpu"), 0).unwrap()).unwrap();
    again.scope(|queue| queue.kv_append(&near_memory.paged_kv(0, 0)?, &batch, view(&[3, 2, DIM]), Some(view(&[3, 2, DIM])))).unwrap();
}
