//! Tickets of the connector `null`: each ends once and gives its payload back, and what is wrong is refused with everything given back.

mod common;
use common::*;
use quire::*;
use std::time::Duration;

fn ticket(number: u64, kind: TicketKind, payload: Payload) -> Ticket {
    Ticket { number, kind, key: vec![b'k'; 3], payload, deadline: None, checksum: 0 }
}

#[test]
fn tickets_end_once_and_give_their_payload_back() {
    let runtime = runtime("cpu");
    assert_eq!(Connector::open(&runtime, "nosuch", "").unwrap_err().code, Code::NotFound);
    let mut connector = Connector::open(&runtime, "null", "").unwrap();
    let config = plan(&[full_layer(0)], 9, 64);
    let memory = Memory::new(&Device::open(&runtime, 0).unwrap(), &config, 0).unwrap();
    drop(runtime);
    assert!(connector.info().unwrap().max_key_bytes > 0);
    let segments = config.segments(&Select::default(), &[1]).unwrap();
    let bytes = segments.iter().map(|segment| segment.bytes).sum::<u64>();
    let tickets = vec![
        ticket(1, TicketKind::Store, Payload::Memory(memory.clone(), segments)),
        ticket(2, TicketKind::Load, Payload::Bytes(vec![7; 40])),
        ticket(3, TicketKind::Exists, Payload::None),
        ticket(4, TicketKind::Remove, Payload::None),
    ];
    assert!(connector.submit(tickets).unwrap().is_empty());
    let mut ended = Vec::new();
    while ended.len() < 4 {
        ended.extend(connector.poll(None, 3).unwrap());
    }
    ended.sort_by_key(|each| each.number);
    let codes: Vec<Option<Code>> = ended.iter().map(|each| each.code).collect();
    assert_eq!(codes, [None, Some(Code::NotFound), Some(Code::NotFound), None]);
    assert_eq!(ended[0].bytes, bytes);
    assert!(matches!(&ended[0].payload, Payload::Memory(_, segments) if !segments.is_empty()));
    assert!(matches!(&ended[1].payload, Payload::Bytes(bytes) if bytes[..] == [7; 40]));
    let stats = connector.stats().unwrap();
    assert_eq!((stats.num_submitted, stats.num_in_flight, stats.num_missing), (4, 0, 2));
    assert_eq!(connector.cancel(1).unwrap_err().code, Code::NotFound);
    assert_eq!(connector.poll(None, 1).unwrap_err().code, Code::FailedPrecondition);
    assert!(connector.poll(Some(Duration::from_secs(0)), 1).unwrap().is_empty());
}

#[test]
fn what_is_refused_comes_back() {
    let runtime = runtime("cpu");
    let mut connector = Connector::open(&runtime, "null", "").unwrap();
    let memory = Memory::new(&Device::open(&runtime, 0).unwrap(), &plan(&[full_layer(0)], 9, 64), 0).unwrap();
    let far = Segment { offset: 1 << 40, bytes: 8, ..Segment::default() };
    let refused = connector.submit(vec![ticket(1, TicketKind::Store, Payload::Memory(memory.clone(), vec![far]))]).unwrap_err();
    assert!(refused.error.code == Code::OutOfRange && refused.given.len() == 1, "{}", refused.error);
    let twice = vec![ticket(1, TicketKind::Exists, Payload::None), ticket(1, TicketKind::Exists, Payload::Bytes(vec![1]))];
    let refused = connector.submit(twice).unwrap_err();
    assert!(refused.error.code == Code::InvalidArgument && refused.given.len() == 2, "{}", refused.error);
    assert_eq!(connector.unregister(&memory).unwrap_err().code, Code::NotFound);
    connector.register(&memory).unwrap();
    connector.unregister(&memory).unwrap();
    connector.register(&memory).unwrap();
    drop(memory);
    assert!(connector.submit(vec![ticket(5, TicketKind::Load, Payload::Bytes(vec![0; 8]))]).unwrap().is_empty());
    drop(connector); // with a ticket in flight and a registration
}
