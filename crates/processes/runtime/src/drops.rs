//! What a node has dropped, by reason in words: for who operates it.

use quincunx_driver_net::Dropped;
use quincunx_nodes::NodeDrop;
use quincunx_ports::{PortCounts, PortDrop};
use quincunx_sockets::reverse_path_drops;
use quincunx_wire::ParseError;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Frames dropped since the start, by reason: `foreign-port`, `duplicate`, `wrong-icrc`.
pub type Drops = BTreeMap<String, u64>;

/// What the kernel drops before a node sees it: its sender is behind another interface than the one that it came in by.
const REVERSE_PATH: &str = "reverse-path";

/// By reason in words. Which port it was, and which layer found out, is left out.
pub(crate) fn named(dropped: &BTreeMap<Dropped<NodeDrop, ParseError>, u64>) -> Drops {
    let mut drops = Drops::new();
    for (dropped, frames) in dropped {
        let name = match dropped {
            Dropped::Engine(_, NodeDrop::QueuePair(reason)) => words(reason),
            Dropped::Engine(_, NodeDrop::Datapath(reason)) => reason.replace(' ', "-"),
            Dropped::Engine(_, reason) => words(reason),
            Dropped::Codec(reason) => words(reason),
            other => words(other),
        };
        *drops.entry(name).or_default() += frames;
    }
    drops
}

/// `drops`, and with them what went no further than a port of the switch, added up over all ports. What every switch keeps to the link that it
/// came by is left out.
pub(crate) fn with_ports(mut drops: Drops, ports: &BTreeMap<String, PortCounts>) -> Drops {
    let all = ports.values().flat_map(|port| &port.dropped);
    for (reason, frames) in
        all.filter(|(reason, _)| !matches!(reason, PortDrop::SamePort | PortDrop::LinkLocal))
    {
        *drops.entry(format!("port-{}", words(reason))).or_default() += frames;
    }
    drops
}

/// The name of a reason why a frame went no further than a port: `too-long`.
pub fn port_drop_name(reason: PortDrop) -> String {
    words(&reason)
}

/// The name of a variant with hyphens: `ForeignPort` is `foreign-port`.
fn words(reason: &impl Debug) -> String {
    let mut words = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// What the kernel has dropped in this process's network namespace since this was made, in the same words: of all traffic there, not of the
/// node's alone.
pub(crate) struct KernelDrops {
    before: u64,
}

impl KernelDrops {
    pub(crate) fn new() -> Self {
        Self { before: reverse_path_drops() }
    }

    /// `drops`, and with them what the kernel has dropped.
    pub(crate) fn with(&self, mut drops: Drops) -> Drops {
        let since = reverse_path_drops().saturating_sub(self.before);
        if since > 0 {
            drops.insert(REVERSE_PATH.to_owned(), since);
        }
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_engine::PortId;

    #[test]
    fn reasons_are_words_whatever_layer_has_them_and_ports_are_added_up() {
        let dropped = BTreeMap::from([
            (Dropped::Engine(PortId(0), NodeDrop::ForeignPort), 1),
            (Dropped::Engine(PortId(3), NodeDrop::ForeignPort), 2),
            (Dropped::Engine(PortId(0), NodeDrop::Datapath("no slot")), 4),
            (Dropped::Codec(ParseError::Truncated), 5),
            (Dropped::SendBufferFull, 6),
        ]);
        let expected = [("foreign-port", 3), ("no-slot", 4), ("send-buffer-full", 6), ("truncated", 5)];
        assert_eq!(named(&dropped), expected.map(|(name, frames)| (name.to_owned(), frames)).into());
    }

    #[test]
    fn drops_of_ports_are_added_up_but_for_those_of_every_switch() {
        let port = |drops: &[(PortDrop, u64)]| PortCounts {
            dropped: drops.iter().copied().collect(),
            ..PortCounts::default()
        };
        let ports = BTreeMap::from([
            ("eth1".to_owned(), port(&[(PortDrop::TooLong, 2), (PortDrop::SamePort, 9)])),
            ("eth2".to_owned(), port(&[(PortDrop::TooLong, 3), (PortDrop::LinkLocal, 9)])),
        ]);
        let before = Drops::from([("duplicate".to_owned(), 1)]);
        let expected = [("duplicate", 1), ("port-too-long", 5)];
        assert_eq!(
            with_ports(before, &ports),
            expected.map(|(name, frames)| (name.to_owned(), frames)).into()
        );
    }
}
