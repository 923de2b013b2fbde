//! Sequences, prefixes and steps, by example.

mod common;
use common::*;
use quire::*;

#[test]
fn a_second_prompt_hits_what_the_first_left() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..50).collect();
    let a = cache.create_sequence(None).unwrap();
    assert_eq!(serve(&cache, a, &prompt, 99).hit_tokens, 0);
    let b = cache.create_sequence(None).unwrap();
    let got = serve(&cache, b, &prompt, 99);
    assert_eq!((got.hit_tokens, got.position, got.num_tokens), (48, 48, 2));
    assert_eq!(got.refused(), None);
    let stats = cache.reader().stats().unwrap();
    assert_eq!((stats.num_sequences, stats.matches, stats.hit_tokens), (2, 2, 48));
    cache.finish_sequence(a).unwrap();
    cache.finish_sequence(b).unwrap();
    assert_eq!(cache.finish_sequence(b).unwrap_err().code, Code::NotFound);
    cache.verify().unwrap();
}

#[test]
fn other_salts_share_nothing() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..50).collect();
    let a = cache.create_sequence(None).unwrap();
    serve(&cache, a, &prompt, 99);
    let other = Identity { salt: "other", ..Identity::default() };
    let b = cache.create_sequence(Some(&other)).unwrap();
    let got = serve(&cache, b, &prompt, 99);
    assert_eq!((got.hit_tokens, got.miss()), (0, Miss::UnknownPrefix));
    let probe = cache.reader().probe(&other, &prompt).unwrap();
    assert_eq!(probe.hit_tokens, 48);
}

#[test]
fn states_are_hit_where_one_was_kept() {
    let config = plan(&[full_layer(0), state_layer(1)], 65, 256);
    let block = u64::from(config.group(config.place(1, 0).unwrap().group).unwrap().block_tokens);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..block as u32 * 2 + 3).collect();
    let a = cache.create_sequence(None).unwrap();
    serve(&cache, a, &prompt, 99);
    let b = cache.create_sequence(None).unwrap();
    let got = serve(&cache, b, &prompt, 99);
    assert_eq!(u64::from(got.hit_tokens), 2 * block);
    let mut shorter = prompt[..block as usize + 3].to_vec();
    shorter.extend(500..500 + block as u32);
    let c = cache.create_sequence(None).unwrap();
    let got = serve(&cache, c, &shorter, 99);
    assert!(got.hit_tokens <= got.full_hit_tokens);
    cache.verify().unwrap();
}

#[test]
fn a_pin_holds_a_prefix_until_it_is_unpinned() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions { max_pins: 1, ..CacheOptions::default() }).unwrap();
    let prompt: Vec<Symbol> = (0..50).collect();
    let nobody = Identity::default();
    let hard = PinOptions { priority: PinOptions::HARD, ..PinOptions::default() };
    assert_eq!(cache.pin(&nobody, &prompt, &hard).unwrap_err().code, Code::NotFound);
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &prompt, 99);
    cache.finish_sequence(sequence).unwrap();
    let (pin, tokens) = cache.pin(&nobody, &prompt, &hard).unwrap();
    assert_eq!(tokens, 48);
    let info = cache.pin_info(pin).unwrap();
    assert_eq!((info.priority, info.tokens, info.num_parts, info.deadline_ns), (PinOptions::HARD, 48, 3, i64::MAX));
    assert_eq!(cache.pin(&nobody, &prompt, &hard).unwrap_err().code, Code::ResourceExhausted, "max_pins");
    let stats = cache.reader().stats().unwrap();
    assert_eq!((stats.pins, stats.pinned_tokens, stats.pins_given_up, stats.pages_used), (1, 48, 0, 3));
    cache.unpin(pin).unwrap();
    assert_eq!(cache.unpin(pin).unwrap_err().code, Code::NotFound);
    assert_eq!(cache.pin_info(pin).unwrap_err().code, Code::NotFound);
    assert_eq!(cache.reader().stats().unwrap().pages_used, 0);
    assert_eq!(cache.reader().group_stats(0).unwrap().pages_used, 0);
    assert_eq!(cache.reader().group_stats(99).unwrap_err().code, Code::OutOfRange);
    cache.verify().unwrap();
}

#[test]
fn two_steps_are_in_flight_and_commit_in_order() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &[1, 2, 3], 4);
    let want = Want { sequence, num_tokens: 1, ..Want::default() };
    let mut got = [Got::default()];
    let mut first = cache.reserve(&[want], &[], &mut got).unwrap().unwrap();
    let mut second = cache.reserve(&[want], &[], &mut got).unwrap().unwrap();
    assert_eq!(got[0].position, 4);
    assert_eq!(cache.reserve(&[want], &[], &mut got).unwrap_err().code, Code::FailedPrecondition);
    let row = Outcome { sequence, num_accepted: 1, symbols_position: 4, num_symbols: 1, ..Outcome::default() };
    assert_eq!(second.commit(&[row], &[6]).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(second.info().unwrap().num_rows, 1, "a refused commit leaves the step in flight");
    first.commit(&[row], &[5]).unwrap();
    assert_eq!(first.info().unwrap_err().code, Code::NotFound);
    second.commit(&[Outcome { symbols_position: 5, ..row }], &[6]).unwrap();
    assert_eq!(cache.sequence_info(sequence).unwrap().committed, 5);
    cache.verify().unwrap();
}

#[test]
fn a_step_that_is_dropped_is_aborted_and_a_detached_one_is_not() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let want = prompt_want(sequence, 20);
    let prompt: Vec<Symbol> = (0..20).collect();
    let mut got = [Got::default()];
    drop(cache.reserve(&[want], &prompt, &mut got).unwrap());
    assert_eq!(cache.sequence_info(sequence).unwrap().reserved, 0);
    let id = cache.reserve(&[want], &prompt, &mut got).unwrap().unwrap().detach();
    assert_eq!(cache.sequence_info(sequence).unwrap().reserved, 20);
    let step = cache.step(id).unwrap();
    assert_eq!(step.id(), id);
    step.abort_not_launched().unwrap();
    assert_eq!(cache.step(id).unwrap_err().code, Code::NotFound);
    let step = cache.reserve(&[want], &prompt, &mut got).unwrap().unwrap();
    step.abort().unwrap();
    assert_eq!(cache.reader().stats().unwrap().aborted_steps, 3);
    cache.verify().unwrap();
}

#[test]
fn arrays_of_a_step_are_written_into_slices() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let sequence = cache.create_sequence(None).unwrap();
    let prompt: Vec<Symbol> = (0..20).collect();
    let mut got = [Got::default()];
    let step = cache.reserve(&[prompt_want(sequence, 20)], &prompt, &mut got).unwrap().unwrap();
    let mut indptr = [7_i32; 2];
    let flat = Fill { pitch: 1, ..Fill::default() };
    assert_eq!(step.fill(FillKind::QueryIndptr, &flat, &mut indptr).unwrap(), 2);
    assert_eq!(indptr, [0, 20]);
    let mut short = [7_i32; 1];
    let refused = step.fill(FillKind::QueryIndptr, &flat, &mut short);
    assert!(refused.is_err() || short == [7], "nothing is written where there is no room");
    let mut slots = [0_i64; 20];
    step.fill_slots(&Fill { pitch: 20, ..Fill::default() }, &mut slots).unwrap();
    assert_eq!(slots[15] + 1, slots[0] + 16);
    let mut batch = Batch::new(&config, 0).unwrap();
    step.fill_batch(&mut batch).unwrap();
    assert_eq!((batch.rows(), batch.tokens(), batch.kv_len(), batch.query_indptr()), (1, 20, &[20][..], &[0, 20][..]));
    assert_eq!(batch.positions()[19], 19);
    assert_eq!(step.copies().unwrap().len() as u64, step.info().unwrap().num_copies);
    assert_eq!(step.zeroes().unwrap().len() as u64, step.info().unwrap().num_zeroes);
}

#[test]
fn a_batch_grows_with_its_steps_and_one_of_a_fixed_shape_is_padded() {
    let config = plan(&[full_layer(0), state_layer(1)], 65, 512);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let (mut batch, mut fixed) = (Batch::new(&config, 0).unwrap(), Batch::fixed(&config, 0, 3, 200).unwrap());
    assert_eq!((batch.rows(), batch.tokens(), batch.kv_len(), batch.query_indptr(), batch.bytes()), (0, 0, &[][..], &[][..], 0));
    let (group, mut size) = (config.place(0, 0).unwrap().group, 0);
    for tokens in (1..200).step_by(9) {
        let sequence = cache.create_sequence(None).unwrap();
        let prompt: Vec<Symbol> = (0..tokens).collect();
        let want = Want { flags: Want::NO_STOP, ..prompt_want(sequence, prompt.len()) };
        let step = cache.reserve(&[want], &prompt, &mut [Got::default()]).unwrap().unwrap();
        let before = batch.bytes();
        step.fill_batch(&mut batch).unwrap();
        assert!(batch.bytes() == before || batch.bytes() >= 2 * before, "seldom");
        step.fill_batch(&mut fixed).unwrap();
        let lengths = [tokens as i32];
        assert_eq!((batch.tokens(), batch.kv_len(), batch.num_slots(group)), (tokens as usize, &lengths[..], tokens as usize));
        assert_eq!((fixed.rows(), fixed.tokens(), fixed.kv_len()), (3, 200, &[lengths[0], 0, 0][..]));
        assert_eq!((&fixed.positions()[..tokens as usize], fixed.query_indptr()[3]), (batch.positions(), lengths[0]));
        assert!(size == 0 || size == fixed.bytes(), "one size for all");
        size = fixed.bytes();
        drop(step);
        cache.finish_sequence(sequence).unwrap();
    }
}

#[test]
fn forks_share_and_truncated_sequences_are_shorter() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let a = cache.create_sequence(None).unwrap();
    serve(&cache, a, &(0..20).collect::<Vec<_>>(), 99);
    let b = cache.fork_sequence(a).unwrap();
    assert_eq!(cache.sequence_info(b).unwrap().committed, 20);
    cache.truncate_sequence(b, 10).unwrap();
    assert_eq!(cache.sequence_info(b).unwrap().committed, 10);
    cache.preempt_sequence(a).unwrap();
    assert_eq!(cache.sequence_info(a).unwrap().committed, 0);
    cache.verify().unwrap();
}

#[test]
fn a_load_that_is_dropped_brought_nothing_and_one_that_ends_is_found() {
    let config = plan(&[full_layer(0)], 33, 256);
    let cache = Cache::new(None, &config, &CacheOptions::default()).unwrap();
    let prompt: Vec<Symbol> = (0..50).collect();
    let sequence = cache.create_sequence(None).unwrap();
    let want = Want { num_tokens: 48, ..prompt_want(sequence, 50) };
    let mut got = Got::default();
    assert_eq!(cache.begin_load(&Want { flags: 0, num_symbols: 40, ..want }, &prompt, &mut got).unwrap_err().code, Code::InvalidArgument);
    drop(cache.begin_load(&want, &prompt, &mut got).unwrap().expect("room"));
    assert_eq!(cache.sequence_info(sequence).unwrap().committed, 0);
    let mut load = cache.begin_load(&want, &prompt, &mut got).unwrap().expect("room");
    assert_eq!(load.end(&[]).unwrap(), 48);
    drop(load);
    assert_eq!(cache.reader().probe(&Identity::default(), &prompt).unwrap().hit_tokens, 48);
    cache.verify().unwrap();
}
