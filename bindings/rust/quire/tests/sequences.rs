//! A `Sequence` ends where its owner drops it, and a step with it.

mod common;
use common::*;
use quire::*;
use std::rc::Rc;

fn cache() -> Cache {
    Cache::new(None, &plan(&[full_layer(0)], 33, 256), &CacheOptions::default()).unwrap()
}

fn open(cache: &Cache) -> u32 {
    cache.reader().stats().unwrap().num_sequences
}

#[test]
fn dropping_finishes_and_what_was_published_stays() {
    let cache = cache();
    let prompt: Vec<Symbol> = (0..40).collect();
    let sequence = Sequence::new(&cache, None).unwrap();
    serve(&cache, sequence.id(), &prompt, 7);
    assert_eq!((open(&cache), sequence.info().unwrap().committed), (1, 40));
    drop(sequence);
    assert_eq!(open(&cache), 0);
    assert_eq!(cache.reader().probe(&Identity::default(), &prompt).unwrap().hit_tokens, 32);
    cache.verify().unwrap();
}

#[test]
fn an_error_on_the_way_leaves_neither_step_nor_sequence() {
    let cache = cache();
    let fails = || -> Result<()> {
        let sequence = Sequence::new(&cache, None)?;
        let mut got = [Got::default()];
        let mut step = cache.reserve(&[prompt_want(sequence.id(), 3)], &[1, 2, 3], &mut got)?.expect("room");
        step.commit(&[Outcome { sequence: SequenceId(77), ..Outcome::default() }], &[])
    };
    assert_eq!(fails().unwrap_err().code, Code::InvalidArgument);
    let stats = cache.reader().stats().unwrap();
    assert_eq!((stats.num_sequences, stats.aborted_steps, stats.pages_used), (0, 1, 0));
    cache.verify().unwrap();
}

#[test]
fn a_sequence_goes_before_its_step() {
    let cache = cache();
    let sequence = Sequence::new(&cache, None).unwrap();
    let mut got = [Got::default()];
    let step = cache.reserve(&[prompt_want(sequence.id(), 3)], &[1, 2, 3], &mut got).unwrap();
    drop(sequence);
    drop(step);
    assert_eq!((open(&cache), cache.reader().stats().unwrap().pages_used), (0, 0));
    cache.verify().unwrap();
}

#[test]
fn owners_may_share_the_cache() {
    let cache = Rc::new(cache());
    let first = Sequence::new(Rc::clone(&cache), None).unwrap();
    serve(&cache, first.id(), &(0..20).collect::<Vec<_>>(), 7);
    let second = first.fork().unwrap();
    second.truncate(16).unwrap();
    assert_eq!((first.info().unwrap().committed, second.info().unwrap().committed, open(second.cache())), (20, 16, 2));
    second.preempt().unwrap();
    assert_eq!(second.info().unwrap().committed, 0);
    let kept = second.detach();
    let last = cache;
    first.finish().unwrap();
    assert_eq!(open(&last), 1, "what is detached has no owner");
    last.finish_sequence(kept).unwrap();
}

#[test]
fn ends_are_reported_where_they_are_asked_for() {
    let cache = cache();
    let sequence = Sequence::new(&cache, None).unwrap();
    cache.finish_sequence(sequence.id()).unwrap();
    assert_eq!(sequence.info().unwrap_err().code, Code::NotFound);
    assert_eq!(sequence.finish().unwrap_err().code, Code::NotFound);
    let refused =
        Cache::new(None, &plan(&[full_layer(0)], 33, 256), &CacheOptions { max_sequences: 1, ..CacheOptions::default() }).unwrap();
    let _only = Sequence::new(&refused, None).unwrap();
    assert_eq!(Sequence::new(&refused, None).unwrap_err().code, Code::ResourceExhausted);
}
