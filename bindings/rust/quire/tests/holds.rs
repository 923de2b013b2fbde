//! Holds, units and loads that leave something behind: what is held is counted by the cache, and ends with its object.

mod common;
use common::*;
use quire::*;

fn cache_of(pages: u64, options: &CacheOptions) -> Cache {
    Cache::new(None, &plan(&[full_layer(0)], pages, 256), options).unwrap()
}

fn prompt(tokens: u32) -> Vec<Symbol> {
    (0..tokens).collect()
}

#[test]
fn a_hold_ends_when_it_is_dropped_and_a_detached_one_does_not() {
    let cache = cache_of(33, &CacheOptions::default());
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &prompt(50), 99);
    let held = || cache.reader().stats().unwrap().holds;
    {
        let hold = cache.hold(sequence, 16, 50).unwrap();
        let info = hold.info().unwrap();
        assert_eq!((info.first_token, info.end_token, info.num_parts), (16, 50, 3));
        assert_eq!(hold.ids(0).unwrap().len(), 3);
        assert!(hold.ids(0).unwrap().iter().all(|id| *id != 0));
        assert_eq!(hold.ids(9).unwrap_err().code, Code::OutOfRange);
        cache.finish_sequence(sequence).unwrap();
        assert_eq!((held(), cache.reader().stats().unwrap().held_parts), (1, 3));
        assert_eq!(cache.reader().stats().unwrap().pages_used, 3);
    }
    assert_eq!(held(), 0);
    let other = cache.create_sequence(None).unwrap();
    serve(&cache, other, &prompt(20), 99);
    assert_eq!(cache.hold(other, 0, 21).unwrap_err().code, Code::OutOfRange);
    let id = cache.hold(other, 0, 20).unwrap().detach();
    assert_eq!(held(), 1);
    let hold = cache.held(id).unwrap();
    assert_eq!(hold.id(), id);
    hold.end().unwrap();
    assert_eq!(held(), 0);
    assert_eq!(cache.held(id).unwrap_err().code, Code::NotFound);
    cache.verify().unwrap();
}

#[test]
fn units_bring_their_holds_and_names() {
    let cache = cache_of(33, &CacheOptions::default());
    let wrong = UnitOptions { reasons: UnitOptions::COMMITTED, unit_tokens: 5, ..UnitOptions::default() };
    assert_eq!(cache.watch_units(Some(&wrong)).unwrap_err().code, Code::InvalidArgument);
    let options = UnitOptions { unit_tokens: 16, reasons: UnitOptions::COMMITTED | UnitOptions::FINISHED, max_waiting: 4 };
    cache.watch_units(Some(&options)).unwrap();
    let tenant = Identity { salt: "tenant", ..Identity::default() };
    let sequence = cache.create_sequence(Some(&tenant)).unwrap();
    let prompt = prompt(40);
    serve(&cache, sequence, &prompt, 99);
    let names = cache.reader().prefix_digests(&tenant, &prompt, &[16, 32]).unwrap();
    {
        let units = cache.take_units(8).unwrap();
        assert_eq!(units.len(), 2);
        for (unit, (end, name)) in units.iter().zip([(16, names[0]), (32, names[1])]) {
            assert_eq!((unit.sequence, unit.first_token, unit.end_token), (sequence, end - 16, end));
            assert_eq!((unit.reason, unit.has_state), (UnitOptions::COMMITTED, false));
            assert_eq!((unit.digest, unit.ahead_digest), (name, name));
            assert_eq!(unit.hold.ids(0).unwrap().len(), 1);
        }
        assert_eq!(cache.reader().stats().unwrap().holds, 2);
        assert!(cache.take_units(8).unwrap().is_empty());
    }
    assert_eq!(cache.reader().stats().unwrap().holds, 0);
    cache.finish_sequence(sequence).unwrap();
    assert_eq!(cache.take_units(1).unwrap()[0].reason, UnitOptions::FINISHED);
    cache.watch_units(None).unwrap();
    assert_eq!(cache.reader().stats().unwrap().units_given_up, 1);
    let other = cache.reader().prefix_digests(&Identity::default(), &prompt, &[32]).unwrap();
    assert_ne!(other[0], names[1]);
    assert_eq!(cache.reader().prefix_digests(&tenant, &prompt, &[41]).unwrap_err().code, Code::OutOfRange);
    assert!(cache.reader().prefix_digests(&tenant, &prompt, &[]).unwrap().is_empty());
}

#[test]
fn a_load_leaves_what_may_still_be_written() {
    let cache = cache_of(33, &CacheOptions { max_loads: 1, max_load_tokens: 40, ..CacheOptions::default() });
    let sequence = cache.create_sequence(None).unwrap();
    let want = Want { sequence, num_symbols: 50, num_tokens: 49, flags: Want::MATCH, ..Want::default() };
    let mut got = Got::default();
    let mut load = cache.begin_load(&want, &prompt(50), &mut got).unwrap().expect("there is room");
    assert_eq!(got.num_tokens, 40, "max_load_tokens");
    assert_eq!(load.have().unwrap(), [0]);
    assert_eq!(cache.reader().stats().unwrap().loads, 1);
    let second = Want { sequence: cache.create_sequence(None).unwrap(), ..want };
    assert_eq!(cache.begin_load(&second, &prompt(50), &mut got).unwrap_err().code, Code::ResourceExhausted);
    let wrong = LoadFailure { group: 9, ..LoadFailure::default() };
    assert_eq!(load.end_late(&[wrong]).unwrap_err().code, Code::OutOfRange);
    let lost = LoadFailure { first_token: 20, num_tokens: 4, ..LoadFailure::default() };
    let (committed, late) = load.end_late(&[lost]).unwrap();
    assert_eq!(committed, 20);
    let late = late.expect("something may be written");
    let ids = late.ids(0).unwrap();
    assert_eq!((ids.len(), ids[0], ids[2]), (3, 0, 0));
    assert_ne!(ids[1], 0);
    assert_eq!(load.have().unwrap_err().code, Code::NotFound);
    drop(late);
    assert_eq!(cache.reader().stats().unwrap().holds, 0);
    let mut load = cache.begin_load(&second, &prompt(50), &mut got).unwrap().expect("there is room");
    assert_eq!(got.hit_tokens, 16);
    assert!(load.end_late(&[]).unwrap().1.is_none());
    cache.verify().unwrap();
}
