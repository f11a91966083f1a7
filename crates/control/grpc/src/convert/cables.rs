//! What machines tell of their ports, and the links that follow, as messages.

use super::decoding::{Decoded, each, present, wrong};
use crate::proto;
use quincunx_control::{HeardNeighbour, LinkEnd, LinkRow, LinkState, PortReport};

pub(crate) fn encode_port(port: &PortReport) -> proto::MachinePort {
    let neighbour = |heard: &HeardNeighbour| proto::PortNeighbour {
        chassis: heard.chassis.clone(),
        port: heard.port.clone(),
        name: heard.name.clone(),
    };
    proto::MachinePort {
        interface: port.interface.clone(),
        is_up: port.is_up,
        addresses: port.addresses.iter().map(ToString::to_string).collect(),
        neighbours: port.heard.iter().map(neighbour).collect(),
    }
}

pub(crate) fn decode_ports(ports: Vec<proto::MachinePort>) -> Decoded<Vec<PortReport>> {
    let address = |text: String| text.parse().or_else(|_| wrong("ports.addresses", "an IP address", &text));
    let heard = |neighbour: proto::PortNeighbour| {
        let proto::PortNeighbour { chassis, port, name } = neighbour;
        HeardNeighbour { chassis, port, name }
    };
    each(ports, |port| {
        Ok(PortReport {
            interface: port.interface,
            is_up: port.is_up,
            addresses: each(port.addresses, address)?,
            heard: port.neighbours.into_iter().map(heard).collect(),
        })
    })
}

pub(crate) fn encode_row(row: &LinkRow) -> proto::Link {
    let end = |end: &LinkEnd| {
        let LinkEnd { name, port, nodes } = end.clone();
        Some(proto::LinkEnd { name, port, nodes })
    };
    let state = match row.state {
        LinkState::Found => proto::LinkState::Found,
        LinkState::Declared => proto::LinkState::Declared,
        LinkState::Denied => proto::LinkState::Denied,
        LinkState::Down => proto::LinkState::Down,
        LinkState::Silent => proto::LinkState::Silent,
        LinkState::OneEnd => proto::LinkState::OneEnd,
    };
    let [a, b] = &row.ends;
    proto::Link { a: end(a), b: end(b), state: state.into(), reason: row.reason.clone() }
}

pub(crate) fn decode_row(row: proto::Link) -> Decoded<LinkRow> {
    let end = |end: Option<proto::LinkEnd>| -> Decoded<LinkEnd> {
        let proto::LinkEnd { name, port, nodes } = present("links.end", end)?;
        Ok(LinkEnd { name, port, nodes })
    };
    let state = match row.state() {
        proto::LinkState::Unspecified => return wrong("links.state", "a state of links", "none"),
        proto::LinkState::Found => LinkState::Found,
        proto::LinkState::Declared => LinkState::Declared,
        proto::LinkState::Denied => LinkState::Denied,
        proto::LinkState::Down => LinkState::Down,
        proto::LinkState::Silent => LinkState::Silent,
        proto::LinkState::OneEnd => LinkState::OneEnd,
    };
    Ok(LinkRow { ends: [end(row.a)?, end(row.b)?], state, reason: row.reason })
}
