//! What is stored and removed is told, with the names that hashing the tokens gives.

mod common;
use common::*;
use quire::*;

fn cache_with_events() -> Cache {
    let cache = Cache::new(None, &plan(&[full_layer(0)], 9, 64), &CacheOptions::default()).unwrap();
    cache.enable_events(HashAlgorithm::Sha256Cbor, "0", 0).unwrap();
    cache
}

#[test]
fn stored_blocks_are_told_with_their_hashes() {
    let cache = cache_with_events();
    let prompt: Vec<Symbol> = (0..40).collect();
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &prompt, 9);
    let mut buffer = EventBuffer::new(16, 4096).unwrap();
    let batch = cache.reader().read_events(0, &mut buffer).unwrap();
    assert!(batch.num_events >= 1 && batch.next == batch.num_events);
    let tokens: Vec<i64> = (0..40).collect();
    let wanted = hash_blocks(HashAlgorithm::Sha256Cbor, "0", 16, "", "", &tokens).unwrap();
    let told: Vec<u8> = buffer.events().iter().flat_map(|event| buffer.hashes(event).to_vec()).collect();
    assert_eq!(told, wanted);
    assert!(!buffer.encode(&EventEncoding { time: 1.5, whole_hashes: true, medium: "CPU", ..Default::default() }).unwrap().is_empty());
    let mut snapshot = EventBuffer::new(16, 4096).unwrap();
    let found = cache.reader().snapshot_events(&mut snapshot).unwrap();
    assert_eq!((found.num_events, found.next), (2, batch.next));
    cache.finish_sequence(sequence).unwrap();
    cache.reset().unwrap();
    let after = cache.reader().read_events(batch.next, &mut buffer).unwrap();
    assert!(after.num_events >= 1, "what was forgotten is told");
}

#[test]
fn events_that_cannot_be_had_are_refused() {
    let cache = cache_with_events();
    assert_eq!(cache.enable_events(HashAlgorithm::Sha256Cbor, "0", 0).unwrap_err().code, Code::AlreadyExists);
    let mut buffer = EventBuffer::new(1, 0).unwrap();
    assert_eq!(cache.reader().read_events(7, &mut buffer).unwrap_err().code, Code::OutOfRange);
    let sequence = cache.create_sequence(None).unwrap();
    serve(&cache, sequence, &(0..40).collect::<Vec<_>>(), 9);
    let error = cache.reader().snapshot_events(&mut buffer).unwrap_err();
    assert!(error.code == Code::OutOfRange && error.message.contains("needed: 2 events"), "{}", error);
    assert!(buffer.events().is_empty() && buffer.data().is_empty());
    let silent = Cache::new(None, &plan(&[full_layer(0)], 9, 64), &CacheOptions::default()).unwrap();
    assert_eq!(silent.reader().read_events(0, &mut buffer).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(silent.name_media(5, "x", 0).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(hash_blocks(HashAlgorithm::Sha256Cbor, "0", 0, "", "", &[1]).unwrap_err().code, Code::InvalidArgument);
}
