//! The multicast unit by itself: what it asks the members, when it answers, and what it refuses.

use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_design::UnitOutput;
use quincunx_engine::PortId;
use quincunx_nvls::{Multicast, MulticastConfig, MulticastDrop};
use quincunx_wire::flit::*;

const NODE: NodeId = NodeId(9);

fn unit(members: u16, entries: u16) -> Multicast<Numbers> {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
    Multicast::new(MulticastConfig {
        node: NODE,
        members,
        entries,
        sums: entries,
        format: FlitFormat::DGX,
        reduction,
        mutation: None,
    })
}

fn from(member: u16, address: u64, tag: u32, transaction: Transaction) -> FlitHeader {
    FlitHeader::new(NodeId(member), NODE, false, address, tag, transaction)
}

fn outputs(unit: &mut Multicast<Numbers>) -> Vec<UnitOutput<Numbers>> {
    let outputs = std::iter::from_fn(|| unit.next_output()).collect();
    unit.assert_invariants();
    outputs
}

fn packets(unit: &mut Multicast<Numbers>) -> Vec<(u16, FlitHeader, Vec<u8>)> {
    let packet = |output: UnitOutput<Numbers>| match output {
        UnitOutput::Packet(port, header, payload) => Some((port.0, header, payload.into_bytes())),
        UnitOutput::Release(..) | UnitOutput::Forward { .. } => None,
    };
    outputs(unit).into_iter().filter_map(packet).collect()
}

fn give(unit: &mut Multicast<Numbers>, header: &FlitHeader, payload: &[u8]) {
    unit.handle_packet(PortId(header.source.0), header, payload).expect("a packet that makes sense");
}

/// Packets that the unit holds in buffers of a port's channel.
pub(crate) fn held(unit: &Multicast<Numbers>, port: PortId, channel: Channel) -> usize {
    let mut count = 0;
    unit.each_held(&mut |at, of| count += usize::from((at, of) == (port, channel)));
    count
}

#[test]
fn a_reduced_load_reads_all_members_and_is_answered_when_all_have() {
    let mut unit = unit(3, 1);
    let load = from(1, 64, 77, Transaction::MultimemLoadReduce { length: 4 });
    give(&mut unit, &load, &[]);
    let reads = packets(&mut unit);
    assert_eq!(reads.iter().map(|(port, ..)| *port).collect::<Vec<_>>(), [0, 1, 2]);
    for (member, read, _) in &reads {
        assert_eq!((read.address, read.transaction), (64, Transaction::Read { length: 4 }));
        assert_eq!(packets(&mut unit), []);
        give(&mut unit, &read.response(Transaction::ReadResponse), &[*member as u8 + 1, 0, 0, 0]);
    }
    assert_eq!(packets(&mut unit), [(1, load.response(Transaction::ReadResponse), vec![6, 0, 0, 0])]);
}

#[test]
fn a_store_goes_to_all_members_and_is_answered_when_all_have() {
    let mut unit = unit(2, 1);
    let store = from(0, 8, 5, Transaction::MultimemStore);
    give(&mut unit, &store, &[1, 2]);
    let writes = packets(&mut unit);
    assert!(
        writes.iter().all(|(_, header, data)| header.transaction == Transaction::Write && data == &[1, 2])
    );
    give(&mut unit, &writes[1].1.response(Transaction::WriteResponse), &[]);
    assert_eq!(packets(&mut unit), []);
    give(&mut unit, &writes[0].1.response(Transaction::WriteResponse), &[]);
    assert_eq!(packets(&mut unit), [(0, store.response(Transaction::WriteResponse), vec![])]);
}

#[test]
fn an_addition_goes_to_all_members_at_once() {
    let mut unit = unit(2, 1);
    give(&mut unit, &from(1, word_address(0), 0, Transaction::MultimemAdd { operand: 7 }), &[]);
    let adds: Vec<_> =
        packets(&mut unit).iter().map(|(port, header, _)| (*port, header.transaction)).collect();
    assert_eq!(adds, [(0, Transaction::Add { operand: 7 }), (1, Transaction::Add { operand: 7 })]);
}

#[test]
fn requests_without_an_entry_keep_their_buffer_until_there_is_one() {
    let mut unit = unit(1, 1);
    let store = |tag| from(0, 0, tag, Transaction::MultimemStore);
    give(&mut unit, &store(1), &[1]);
    let first = packets(&mut unit);
    give(&mut unit, &store(2), &[2]);
    let channel = Channel::new(Class::Write, false);
    assert_eq!((outputs(&mut unit), held(&unit, PortId(0), channel)), (vec![], 1));
    give(&mut unit, &first[0].1.response(Transaction::WriteResponse), &[]);
    let released = outputs(&mut unit);
    assert!(released.contains(&UnitOutput::Release(PortId(0), channel)));
    assert_eq!(held(&unit, PortId(0), channel), 0);
}

#[test]
fn what_makes_no_sense_is_dropped_for_a_reason() {
    let mut unit = unit(2, 1);
    let load = Transaction::MultimemLoadReduce { length: 4 };
    give(&mut unit, &from(0, 0, 0, load), &[]);
    let reads = packets(&mut unit);
    let mut reason = |port: u16, header: FlitHeader, payload: &[u8]| {
        unit.handle_packet(PortId(port), &header, payload).expect_err("a drop")
    };
    assert_eq!(reason(0, from(1, 0, 0, load), &[]), MulticastDrop::Source);
    assert_eq!(reason(2, from(2, 0, 0, load), &[]), MulticastDrop::Source);
    for length in [0, 2, 129] {
        let load = Transaction::MultimemLoadReduce { length };
        assert_eq!(reason(0, from(0, 0, 0, load), &[]), MulticastDrop::BadLength);
    }
    let right = reads[0].1.response(Transaction::ReadResponse);
    assert_eq!(reason(0, right, &[0; 3]), MulticastDrop::UnexpectedResponse);
    assert_eq!(reason(0, FlitHeader { tag: 1, ..right }, &[0; 4]), MulticastDrop::UnexpectedResponse);
    let other = FlitHeader { transaction: Transaction::WriteResponse, ..right };
    assert_eq!(reason(0, other, &[]), MulticastDrop::UnexpectedResponse);
    assert_eq!(reason(0, from(0, 0, 0, Transaction::Write), &[1]), MulticastDrop::UnexpectedTransaction);
}

#[test]
fn an_answer_that_comes_twice_is_dropped() {
    let mut unit = unit(2, 1);
    give(&mut unit, &from(0, 0, 0, Transaction::MultimemLoadReduce { length: 4 }), &[]);
    let answer = packets(&mut unit)[0].1.response(Transaction::ReadResponse);
    give(&mut unit, &answer, Numbers::zeroed(4).bytes());
    outputs(&mut unit);
    assert_eq!(unit.handle_packet(PortId(0), &answer, &[0; 4]), Err(MulticastDrop::UnexpectedResponse));
}

#[test]
fn a_store_longer_than_a_packet_is_dropped() {
    let mut unit = unit(2, 1);
    let store = from(0, 0, 0, Transaction::MultimemStore);
    assert_eq!(unit.handle_packet(PortId(0), &store, &[0; 129]), Err(MulticastDrop::BadLength));
    assert_eq!(unit.handle_packet(PortId(0), &store, &[]), Err(MulticastDrop::BadLength));
}
