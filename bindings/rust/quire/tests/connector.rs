//! Tickets of the connector `null`: each ends once and gives its payload back, and what is wrong is refused with everything given back.

mod common;
use common::*;
use quire::*;
use std::time::Duration;

#[test]
fn tickets_end_once_and_give_their_payload_back() {
    let runtime = runtime("cpu");
    assert_eq!(Connector::open(&runtime, "nosuch", "").unwrap_err().code, Code::NotFound);
    let connector = Connector::open(&runtime, "null", "").unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    let memory = Memory::new(&Device::open(&runtime, 0).unwrap(), &config, 0).unwrap();
    drop(runtime);
    assert!(connector.info().unwrap().max_in_flight > 0);
    let segments = config.segments(&Select::default(), &[1]).unwrap();
    let bytes = segments.iter().map(|segment| segment.bytes).sum::<u64>();
    let strided = Pieces { count: 4, stride: -10, object_stride: 10, ..Pieces::one(30, 10, 0) };
    let tickets = vec![
        Ticket { priority: 3, ..Ticket::store(1, b"one", Payload::Memory(memory), Pieces::of(&segments)) },
        Ticket { deadline: Some(u64::MAX), ..Ticket::load(2, b"two", Payload::Bytes(vec![7; 40]), vec![strided]) },
        Ticket { lease: Duration::from_secs(1), ..Ticket::look_up(3, vec![b"three".to_vec(), b"fourt".to_vec()]) },
        Ticket::remove(4, b"four"),
    ];
    assert!(connector.submit(tickets).unwrap().is_empty());
    let stats = connector.stats().unwrap();
    assert_eq!((stats.num_in_flight, stats.bytes_in_flight), (4, bytes + 40));
    let mut ended = Vec::new();
    while ended.len() < 4 {
        ended.extend(connector.poll(None, 3).unwrap());
    }
    ended.sort_by_key(|each| each.number);
    let codes: Vec<Option<Code>> = ended.iter().map(|each| each.code).collect();
    assert_eq!(codes, [None, Some(Code::NotFound), None, Some(Code::NotFound)]);
    assert_eq!(ended[0].bytes, bytes);
    assert!(matches!(&ended[0].payload, Payload::Memory(_)));
    assert!(matches!(&ended[1].payload, Payload::Bytes(bytes) if bytes[..] == [7; 40]));
    assert_eq!((ended[2].num_found, &ended[2].sizes[..], ended[2].flags), (0, &[0, 0][..], 0));
    let stats = connector.stats().unwrap();
    assert_eq!((stats.num_submitted, stats.num_in_flight, stats.num_missing, stats.keys_looked_up), (4, 0, 2, 2));
    assert_eq!(stats.store_latency.iter().sum::<u64>(), 1);
    assert_eq!(connector.cancel(1).unwrap_err().code, Code::NotFound);
    assert_eq!(connector.poll(None, 1).unwrap_err().code, Code::FailedPrecondition);
    assert!(connector.poll(Some(Duration::from_secs(0)), 1).unwrap().is_empty());
}

#[test]
fn it_says_how_it_is_and_what_it_has() {
    let connector = Connector::open(&runtime("none"), "null", "").unwrap();
    assert_eq!(connector.health().unwrap().state, flags::QUIRE_CONNECTOR_UP);
    assert!(connector.fd().unwrap() >= 0);
    assert_eq!(connector.list(0, 10).unwrap(), (vec![], 0));
    assert_eq!(connector.list(3, 10).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(connector.list(0, 0).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn what_is_refused_comes_back() {
    let runtime = runtime("cpu");
    let connector = Connector::open(&runtime, "null", "").unwrap();
    let memory = Memory::new(&Device::open(&runtime, 0).unwrap(), &plan(&[full_layer(0)], 9, 64), 0).unwrap();
    let refused = |tickets: Vec<Ticket>, code: Code, says: &str| {
        let n = tickets.len();
        let refused = connector.submit(tickets).unwrap_err();
        assert!(refused.error.code == code && refused.given.len() == n, "{}", refused.error);
        assert!(refused.error.message.contains(says), "{}", refused.error);
        refused.given
    };
    refused(vec![Ticket::store(1, b"k", Payload::Memory(memory.clone()), vec![Pieces::one(1 << 40, 8, 0)])], Code::OutOfRange, "pieces");
    let bytes = || Payload::Bytes(vec![1; 40]);
    let wrong = [
        Pieces::one(0, 41, 0),
        Pieces::one(u64::MAX, 2, 0),
        Pieces { count: 0, ..Pieces::one(0, 4, 0) },
        Pieces { count: 2, stride: -10, ..Pieces::one(9, 4, 0) },
        Pieces { count: 5, stride: 10, ..Pieces::one(1, 10, 0) },
        Pieces { count: u64::MAX, stride: i64::MAX, ..Pieces::one(0, 1, 0) },
        Pieces { count: u64::MAX, stride: i64::MIN, ..Pieces::one(0, 1, 0) },
    ];
    for pieces in wrong {
        let given = refused(vec![Ticket::load(1, b"k", bytes(), vec![pieces])], Code::OutOfRange, "pieces");
        assert!(matches!(&given[0].payload, Payload::Bytes(bytes) if bytes.len() == 40));
    }
    let overlapping = Pieces { count: 3, stride: 3, object_stride: 4, ..Pieces::one(0, 4, 0) };
    refused(vec![Ticket::load(1, b"k", bytes(), vec![overlapping])], Code::InvalidArgument, "stride is 3");
    refused(vec![Ticket::load(1, b"k", Payload::None, vec![Pieces::one(0, 1, 0)])], Code::InvalidArgument, "no payload");
    refused(vec![Ticket::look_up(1, vec![vec![1], vec![1, 2]])], Code::InvalidArgument, "of one length");
    refused(vec![Ticket::look_up(1, vec![])], Code::InvalidArgument, "num_keys is 0");
    let twice = vec![Ticket::remove(1, b"k"), Ticket::load(1, b"k", bytes(), vec![])];
    let given = refused(twice, Code::InvalidArgument, "in flight already");
    assert!(matches!(&given[1].payload, Payload::Bytes(bytes) if bytes[..] == [1; 40]));
    // One that is in flight keeps its payload.
    assert!(connector.submit(vec![Ticket::load(5, b"k", Payload::Bytes(vec![5; 8]), vec![])]).unwrap().is_empty());
    refused(vec![Ticket::load(6, b"k", bytes(), vec![]), Ticket::load(5, b"k", bytes(), vec![])], Code::InvalidArgument, "ticket 5");
    let ended = connector.poll(None, 4).unwrap();
    assert!(ended.len() == 1 && matches!(&ended[0].payload, Payload::Bytes(bytes) if bytes[..] == [5; 8]));
    assert_eq!(connector.unregister(&memory).unwrap_err().code, Code::NotFound);
    connector.register(&memory).unwrap();
    let load = Ticket::load(7, b"k", Payload::Memory(memory.clone()), vec![Pieces::one(0, 8, 0)]);
    assert!(connector.submit(vec![load]).unwrap().is_empty());
    assert_eq!(connector.unregister(&memory).unwrap_err().code, Code::FailedPrecondition);
    assert_eq!(connector.poll(None, 4).unwrap().len(), 1);
    connector.unregister(&memory).unwrap();
    connector.register(&memory).unwrap();
    drop(memory);
    assert!(connector.submit(vec![Ticket::load(8, b"k", bytes(), vec![])]).unwrap().is_empty());
    drop(connector); // with a ticket in flight and a registration
}

#[test]
fn threads_submit_while_one_polls() {
    let connector = Connector::open(&runtime("none"), "null", "").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let connector = &connector;
            scope.spawn(move || {
                for number in 0..500 {
                    let mut left = vec![Ticket::load(thread << 32 | number, b"k", Payload::Bytes(vec![thread as u8; 16]), vec![])];
                    while !left.is_empty() {
                        left = connector.submit(left).unwrap();
                    }
                }
            });
        }
        let mut ended = 0;
        while ended < 1500 {
            for end in connector.poll(Some(Duration::from_millis(1)), 100).unwrap() {
                assert!(matches!(&end.payload, Payload::Bytes(bytes) if bytes[..] == [(end.number >> 32) as u8; 16]));
                ended += 1;
            }
        }
    });
    assert_eq!(connector.stats().unwrap().num_in_flight, 0);
}
