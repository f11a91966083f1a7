//! EPIC's control messages, as a peer may send them.

use crate::harness::Input;
use quincunx_collective::Rank;
use quincunx_epic::{Agreement, ControlMessage, Pattern};
use quincunx_wire::Operation;

/// A control message of a collective of a few packets, with a root below `roots`.
pub fn message(input: &mut Input<'_>, roots: u16) -> Operation {
    let reduction = input.reduction();
    let root = Rank(u16::from(input.below(roots as u8)));
    let (pattern, agreement) = match input.below(4) {
        0 | 1 => (Pattern::AllReduce, Agreement::Detail(0)),
        2 => (Pattern::Reduce { root }, Agreement::Follows),
        _ => (Pattern::Broadcast { root }, Agreement::Follows),
    };
    let message = ControlMessage { pattern, reduction, data_packets: u16::from(input.below(9)), agreement };
    Operation::SendOnlyImmediate(message.encode())
}
