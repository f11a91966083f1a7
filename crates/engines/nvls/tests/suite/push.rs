//! Pushes by themselves: what the unit adds up, when it writes and answers, who waits when it has no room, and what it refuses.

use crate::multicast::held;
use quincunx_collective::{DataType, Numbers, ReduceOp, Reduction};
use quincunx_design::UnitOutput;
use quincunx_engine::PortId;
use quincunx_nvls::{Multicast, MulticastConfig, MulticastDrop};
use quincunx_wire::flit::*;

const NODE: NodeId = NodeId(9);
const CHANNEL: Channel = Channel::new(Class::Write, false);
const PUSH: Transaction = Transaction::MultimemReduce;

/// A unit with so many members and room for so many sums, of `i32` or of `f32`.
fn unit_of(members: u16, sums: u16, data_type: DataType) -> Multicast<Numbers> {
    let reduction = Reduction { op: ReduceOp::Sum, data_type };
    Multicast::new(MulticastConfig {
        node: NODE,
        members,
        entries: 1,
        sums,
        format: FlitFormat::DGX,
        reduction,
        mutation: None,
    })
}

fn unit(members: u16, sums: u16) -> Multicast<Numbers> {
    unit_of(members, sums, DataType::I32)
}

fn from(member: u16, address: u64, tag: u32, transaction: Transaction) -> FlitHeader {
    FlitHeader::new(NodeId(member), NODE, false, address, tag, transaction)
}

/// Gives a packet, and takes what comes of it: packets by port, and buffers that are free.
fn give(
    unit: &mut Multicast<Numbers>,
    header: &FlitHeader,
    payload: &[u8],
) -> (Vec<(u16, FlitHeader, Vec<u8>)>, usize) {
    unit.handle_packet(PortId(header.source.0), header, payload).expect("a packet that makes sense");
    let (mut packets, mut released) = (Vec::new(), 0);
    while let Some(output) = unit.next_output() {
        match output {
            UnitOutput::Packet(port, header, payload) => {
                packets.push((port.0, header, payload.into_bytes()));
            }
            UnitOutput::Release(..) => released += 1,
            UnitOutput::Forward { .. } => unreachable!("it forwards nothing"),
        }
    }
    unit.assert_invariants();
    (packets, released)
}

/// Pushes a number.
fn push(
    unit: &mut Multicast<Numbers>,
    member: u16,
    address: u64,
    number: i32,
) -> Vec<(u16, FlitHeader, Vec<u8>)> {
    give(unit, &from(member, address, 4, PUSH), &number.to_le_bytes()).0
}

/// Answers all of these writes, and returns what the last answer causes.
fn answer(
    unit: &mut Multicast<Numbers>,
    writes: &[(u16, FlitHeader, Vec<u8>)],
) -> Vec<(u16, FlitHeader, Vec<u8>)> {
    let mut last = Vec::new();
    for (_, write, _) in writes {
        assert_eq!(last, [], "an answer before all members have answered");
        last = give(unit, &write.response(Transaction::WriteResponse), &[]).0;
    }
    last
}

#[test]
fn the_sum_is_written_at_all_members_when_the_last_has_pushed_and_answered_when_all_have_it() {
    let mut unit = unit(3, 1);
    let pushes = [2, 0, 1].map(|member| from(member, 64, 40 + u32::from(member), PUSH));
    assert_eq!(give(&mut unit, &pushes[0], &[3, 0, 0, 0]), (vec![], 1));
    assert_eq!(give(&mut unit, &pushes[1], &[1, 0, 0, 0]), (vec![], 1));
    let (writes, _) = give(&mut unit, &pushes[2], &[2, 0, 0, 0]);
    let seen: Vec<_> =
        writes.iter().map(|(port, header, data)| (*port, header.address, data.clone())).collect();
    assert_eq!(seen, [0, 1, 2].map(|member| (member, 64, vec![6, 0, 0, 0])));
    assert!(writes.iter().all(|(_, header, _)| header.transaction == Transaction::Write));
    let answers = answer(&mut unit, &writes);
    let seen: Vec<_> =
        answers.iter().map(|(port, header, _)| (*port, header.tag, header.transaction)).collect();
    assert_eq!(seen, [0, 1, 2].map(|member| (member, 40 + u32::from(member), Transaction::WriteResponse)));
}

#[test]
fn floats_are_added_in_the_order_of_ranks_whatever_order_they_come_in() {
    let values = [1.0e8_f32, 1.0, -1.0e8];
    let sum_of = |order: [u16; 3]| {
        let mut unit = unit_of(3, 1, DataType::F32);
        let pushed = order.map(|member| {
            give(&mut unit, &from(member, 0, 4, PUSH), &values[usize::from(member)].to_le_bytes()).0
        });
        pushed[2][0].2.clone()
    };
    // As a tree adds: the second is lost beside the first.
    let right = ((values[0] + values[1]) + values[2]).to_le_bytes().to_vec();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        assert_eq!(sum_of(order), right, "{order:?}");
    }
}

#[test]
fn an_address_is_free_for_the_next_sum_once_all_members_have_answered() {
    let mut unit = unit(2, 1);
    for round in 1..4 {
        assert_eq!(push(&mut unit, 0, 0, round), []);
        let writes = push(&mut unit, 1, 0, round);
        assert_eq!(writes[0].2, (2 * round).to_le_bytes());
        assert_eq!(answer(&mut unit, &writes).len(), 2);
    }
}

#[test]
fn a_push_without_an_entry_keeps_its_buffer_and_those_to_known_addresses_pass_it() {
    let mut unit = unit(2, 1);
    push(&mut unit, 0, 0, 1);
    let (packets, released) = give(&mut unit, &from(0, 4, 4, PUSH), &[2, 0, 0, 0]);
    assert_eq!((packets, released, held(&unit, PortId(0), CHANNEL)), (vec![], 0, 1));
    let writes = push(&mut unit, 1, 0, 10);
    assert_eq!(writes[0].2, [11, 0, 0, 0]);
    // The other contribution waits, too; both are taken in with the entry.
    push(&mut unit, 1, 4, 20);
    assert_eq!(held(&unit, PortId(1), CHANNEL), 1);
    give(&mut unit, &writes[0].1.response(Transaction::WriteResponse), &[]);
    let (packets, released) = give(&mut unit, &writes[1].1.response(Transaction::WriteResponse), &[]);
    assert_eq!(released, 3, "two contributions and the answer");
    let sums: Vec<_> =
        packets.iter().filter(|(_, header, _)| header.transaction == Transaction::Write).collect();
    assert!(
        sums.len() == 2 && sums.iter().all(|(_, header, data)| header.address == 4 && data == &[22, 0, 0, 0])
    );
    assert_eq!(held(&unit, PortId(0), CHANNEL) + held(&unit, PortId(1), CHANNEL), 0);
}

#[test]
fn addresses_get_entries_in_the_order_in_which_they_came() {
    let mut unit = unit(2, 1);
    for address in [0, 8, 4] {
        push(&mut unit, 0, address, 1);
    }
    for expected in [0, 8, 4] {
        let writes = push(&mut unit, 1, expected, 1);
        assert_eq!(writes[0].1.address, expected, "the entry is that of the address that came first");
        answer(&mut unit, &writes);
    }
}

#[test]
fn sums_and_stores_take_no_room_from_each_other() {
    let mut unit = unit(2, 1);
    push(&mut unit, 0, 0, 1);
    let (writes, released) = give(&mut unit, &from(0, 64, 9, Transaction::MultimemStore), &[7]);
    assert_eq!((writes.len(), released), (2, 1));
    let sums = push(&mut unit, 1, 0, 1);
    assert!(sums.iter().all(|(_, header, _)| header.tag != writes[0].1.tag), "answers tell them apart");
    assert_eq!(
        answer(&mut unit, &writes),
        [(0, from(0, 64, 9, PUSH).response(Transaction::WriteResponse), vec![])]
    );
    assert_eq!(answer(&mut unit, &sums).len(), 2);
}

#[test]
fn contributions_that_make_no_sense_are_dropped_and_change_nothing() {
    let mut unit = unit(2, 1);
    push(&mut unit, 0, 0, 1);
    push(&mut unit, 0, 8, 1);
    let before = unit.clone();
    let mut reason = |member: u16, address: u64, payload: &[u8]| {
        unit.handle_packet(PortId(member), &from(member, address, 4, PUSH), payload).expect_err("a drop")
    };
    for address in [0, 8] {
        assert_eq!(reason(0, address, &[0; 4]), MulticastDrop::Contribution, "twice");
        assert_eq!(reason(1, address, &[0; 8]), MulticastDrop::Contribution, "another length");
    }
    for length in [0, 2, 132] {
        assert_eq!(reason(1, 0, &vec![0; length]), MulticastDrop::BadLength);
    }
    assert_eq!(reason(2, 0, &[0; 4]), MulticastDrop::Source);
    assert_eq!(unit, before);
}

#[test]
fn a_push_to_a_sum_that_is_being_written_is_dropped_and_so_are_answers_nobody_waits_for() {
    let mut unit = unit(2, 1);
    push(&mut unit, 0, 0, 1);
    let early = from(1, 0, 1, Transaction::WriteResponse);
    assert_eq!(unit.handle_packet(PortId(1), &early, &[]), Err(MulticastDrop::UnexpectedResponse));
    let writes = push(&mut unit, 1, 0, 1);
    let again = from(0, 0, 4, PUSH);
    assert_eq!(unit.handle_packet(PortId(0), &again, &[0; 4]), Err(MulticastDrop::Contribution));
    let right = writes[0].1.response(Transaction::WriteResponse);
    let data = FlitHeader { transaction: Transaction::ReadResponse, ..right };
    let unknown = FlitHeader { tag: right.tag + 1, ..right };
    for wrong in [data, unknown] {
        assert_eq!(unit.handle_packet(PortId(0), &wrong, &[]), Err(MulticastDrop::UnexpectedResponse));
    }
    give(&mut unit, &right, &[]);
    assert_eq!(unit.handle_packet(PortId(0), &right, &[]), Err(MulticastDrop::UnexpectedResponse), "twice");
}

#[test]
fn a_unit_without_room_for_sums_takes_no_pushes() {
    let mut unit = unit(2, 0);
    let refused = unit.handle_packet(PortId(0), &from(0, 0, 4, PUSH), &[0; 4]);
    assert_eq!(refused, Err(MulticastDrop::UnexpectedTransaction));
}
