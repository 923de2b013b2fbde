//! Where bytes lie: segments, fields and runs between two plans of one model.

mod common;
use common::*;
use quire::*;

fn blocks_of(tokens: u32) -> Config {
    let model = Model::new(&[full_layer(0), state_layer(1)], 128).unwrap();
    Config::new(&model, &PlanOptions { num_pages: 17, block_tokens: tokens, ..PlanOptions::default() }).unwrap()
}

#[test]
fn segments_of_a_layer_are_its_payload() {
    let config = plan(&[full_layer(0), full_layer(1)], 9, 64);
    let all = config.segments(&Select::default(), &[3]).unwrap();
    let one = config.segments(&Select { one_layer: Some((1, 0)), ..Select::default() }, &[3]).unwrap();
    let bytes = |segments: &[Segment]| segments.iter().map(|segment| segment.bytes).sum::<u64>();
    assert_eq!((bytes(&all), bytes(&one)), (2 * 2 * 16 * 2 * 16 * 4, 2 * 16 * 2 * 16 * 4));
    assert_eq!(bytes(&config.segments(&Select::default(), &[3, 4]).unwrap()), 2 * bytes(&all));
    let half = Select { one_layer: Some((1, 0)), head_shard: 1, num_head_shards: 2, ..Select::default() };
    assert_eq!(bytes(&config.segments(&half, &[3]).unwrap()), bytes(&one) / 2);
    let thirds = Select { num_head_shards: 3, ..half };
    assert_eq!(config.segments(&thirds, &[3]).unwrap_err().code, Code::NotRepresentable);
    let fields = config.fields(0, 0, 0).unwrap();
    assert_eq!(fields.iter().map(|field| (field.side, field.num_items)).collect::<Vec<_>>(), [(0, 16), (1, 16)]);
    assert_eq!(config.lowering(0, 0).unwrap().kernel_blocks_per_part, 1);
    assert!(config.describe_json().unwrap().starts_with('{'));
    assert!(config.capacity(&CacheOptions::default(), 0, 0).unwrap().longest > 0);
}

#[test]
fn runs_carry_tokens_from_one_plan_to_another() {
    let (small, large) = (blocks_of(16), blocks_of(32));
    let (from, to) = (small.kv_view(0, 0, 0).unwrap(), large.kv_view(0, 0, 0).unwrap());
    let ids: Vec<i32> = (1..9).collect();
    let runs = kv_runs((&from, &ids), (&to, &ids), 0..40).unwrap();
    let bytes: u64 = runs.iter().map(|run| run.bytes * run.count).sum();
    assert_eq!(bytes, 2 * 40 * 2 * 16 * 4, "K and V of 40 tokens");
    assert_eq!(kv_runs((&from, &ids), (&to, &[1]), 0..40).unwrap_err().code, Code::OutOfRange);
    let broken = KvView { num_heads: u32::MAX, ..from };
    assert_eq!(kv_runs((&broken, &ids), (&to, &ids), 0..40).unwrap_err().code, Code::InvalidArgument);
    let state = small.state_view(0, 1, 0, 0).unwrap();
    let runs = state_runs((&state, 1), (&state, 2)).unwrap();
    assert_eq!(runs.iter().map(|run| run.bytes * run.count).sum::<u64>(), 2 * 16 * 16 * 4);
    assert_eq!(state_runs((&state, 1), (&state, i32::MAX)).unwrap_err().code, Code::OutOfRange);
    let (level, reason) = small.compare(&large).unwrap();
    assert!(level == 1 && !reason.is_empty() || level == 0, "{} {}", level, reason);
}

#[test]
fn views_are_read_no_further_than_they_are() {
    let config = blocks_of(16);
    let (tokens, state) = (config.kv_view(0, 0, 0).unwrap(), config.state_view(0, 1, 0, 0).unwrap());
    let wanted = kv_runs((&tokens, &[1]), (&tokens, &[2]), 0..4).unwrap();
    let carried = state_runs((&state, 1), (&state, 2)).unwrap();
    for struct_size in [0, 8, std::mem::size_of::<KvView>() as u32 * 2, 4096, u32::MAX] {
        // Behind each view lies another one, which is not part of it.
        let longer = [KvView { struct_size, ..tokens }, tokens];
        assert_eq!(kv_runs((&longer[0], &[1]), (&tokens, &[2]), 0..4).unwrap().len(), wanted.len());
        assert_eq!(kv_runs((&tokens, &[1]), (&longer[0], &[2]), 0..4).unwrap().len(), wanted.len());
        let longer = [StateView { struct_size, ..state }, state];
        assert_eq!(state_runs((&longer[0], 1), (&state, 2)).unwrap().len(), carried.len());
        assert_eq!(state_runs((&state, 1), (&longer[0], 2)).unwrap().len(), carried.len());
    }
}
