//! Where a bridge sends a frame: it learns from each frame behind which port its sender is, for each VLAN by itself, and forgets who has not
//! been heard for long (IEEE 802.1D, 7.8). No clock and no socket: the time is an argument.

use crate::counts::PortDrop;
use crate::ethernet::{EthernetHead, is_group, is_link_local};
use quincunx_sockets::MacAddress;
use quincunx_units::{Duration, Instant};
use std::collections::BTreeMap;

/// How many addresses are known at most, and for how long one that is not heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableLimits {
    pub(crate) addresses: usize,
    pub(crate) age: Duration,
}

/// The address of the machine that the bridge is in, and its port: known from the start, and nobody else's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Own {
    pub(crate) address: MacAddress,
    pub(crate) port: usize,
}

/// Who is behind which port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BridgeTable {
    own: Own,
    limits: TableLimits,
    /// By VLAN and address.
    heard: BTreeMap<(u16, MacAddress), Heard>,
}

/// Where and when somebody was heard the last time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Heard {
    port: usize,
    at: Instant,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// It leaves by this port.
    Forward(usize),
    /// It leaves by all ports but the one that it came by.
    Flood,
    /// It goes no further.
    Drop(PortDrop),
}

impl BridgeTable {
    pub(crate) fn new(own: Own, limits: TableLimits) -> Self {
        Self { own, limits, heard: BTreeMap::new() }
    }

    /// Decides over a frame that came by the port `from`, and learns from it.
    pub(crate) fn decide(&mut self, now: Instant, from: usize, head: &EthernetHead) -> Decision {
        let is_own = head.source == self.own.address;
        if is_group(head.source) || (is_own && from != self.own.port) {
            return Decision::Drop(PortDrop::ForeignSource);
        }
        if is_link_local(head.destination) {
            return Decision::Drop(PortDrop::LinkLocal);
        }
        if !is_own {
            self.learn(now, from, head);
        }
        match self.find(now, head.vlan, head.destination) {
            None => Decision::Flood,
            Some(port) if port == from => Decision::Drop(PortDrop::SamePort),
            Some(port) => Decision::Forward(port),
        }
    }

    /// The port behind which an address is, if that is known.
    pub(crate) fn find(&self, now: Instant, vlan: u16, address: MacAddress) -> Option<usize> {
        if address == self.own.address {
            return Some(self.own.port);
        }
        let heard = self.heard.get(&(vlan, address))?;
        (now.since(heard.at) < self.limits.age).then_some(heard.port)
    }

    /// Whoever is new finds a full table as it is: strangers with ever new addresses do not push out who is known, and their frames are flooded.
    fn learn(&mut self, now: Instant, from: usize, head: &EthernetHead) {
        let has_room = self.heard.len() < self.limits.addresses;
        let key = (head.vlan, head.source);
        let heard = Heard { port: from, at: now };
        match self.heard.get_mut(&key) {
            Some(known) => *known = heard,
            None if has_room => _ = self.heard.insert(key, heard),
            None => {}
        }
    }

    /// Makes room: who has not been heard for long is forgotten. To be called now and then.
    pub(crate) fn age(&mut self, now: Instant) {
        self.heard.retain(|_, heard| now.since(heard.at) < self.limits.age);
    }

    /// Forgets who was behind a port: its link is down.
    pub(crate) fn forget_port(&mut self, port: usize) {
        self.heard.retain(|_, heard| heard.port != port);
    }

    /// Addresses that it remembers.
    pub(crate) fn addresses(&self) -> usize {
        self.heard.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Own = Own { address: MacAddress([2, 0, 0, 0, 0, 0xff]), port: 3 };
    const AGE: Duration = Duration::from_millis(100);
    const LIMITS: TableLimits = TableLimits { addresses: 4, age: AGE };
    const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    fn host(number: u8) -> MacAddress {
        MacAddress([2, 0, 0, 0, 0, number])
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn head(source: MacAddress, destination: MacAddress, vlan: u16) -> EthernetHead {
        EthernetHead { destination, source, vlan, is_tagged: vlan > 0 }
    }

    fn table() -> BridgeTable {
        BridgeTable::new(OWN, LIMITS)
    }

    #[test]
    fn who_is_not_known_is_sought_everywhere_and_who_was_heard_is_sent_to() {
        let mut table = table();
        assert_eq!(table.decide(at(0), 0, &head(host(1), host(2), 0)), Decision::Flood);
        assert_eq!(table.decide(at(1), 1, &head(host(2), host(1), 0)), Decision::Forward(0));
        assert_eq!(table.decide(at(2), 0, &head(host(1), host(2), 0)), Decision::Forward(1));
        assert_eq!(table.decide(at(2), 0, &head(host(1), BROADCAST, 0)), Decision::Flood);
        assert_eq!(
            table.decide(at(2), 0, &head(host(1), MacAddress([0x33, 0x33, 0, 0, 0, 1]), 0)),
            Decision::Flood
        );
    }

    #[test]
    fn what_comes_by_the_port_that_it_would_leave_by_stays() {
        let mut table = table();
        table.decide(at(0), 0, &head(host(1), BROADCAST, 0));
        let stays = table.decide(at(0), 0, &head(host(2), host(1), 0));
        assert_eq!(stays, Decision::Drop(PortDrop::SamePort));
    }

    #[test]
    fn a_host_that_moves_is_found_at_its_new_port_at_once() {
        let mut table = table();
        table.decide(at(0), 0, &head(host(1), BROADCAST, 0));
        table.decide(at(1), 2, &head(host(1), BROADCAST, 0));
        assert_eq!(table.decide(at(1), 1, &head(host(2), host(1), 0)), Decision::Forward(2));
    }

    #[test]
    fn vlans_know_nothing_of_each_other() {
        let mut table = table();
        table.decide(at(0), 0, &head(host(1), BROADCAST, 7));
        table.decide(at(0), 1, &head(host(1), BROADCAST, 8));
        assert_eq!(table.find(at(0), 7, host(1)), Some(0));
        assert_eq!(table.find(at(0), 8, host(1)), Some(1));
        assert_eq!(table.find(at(0), 0, host(1)), None);
    }

    #[test]
    fn who_is_silent_for_long_is_forgotten_whether_or_not_somebody_makes_room() {
        let mut table = table();
        table.decide(at(0), 0, &head(host(1), BROADCAST, 0));
        table.decide(at(50), 1, &head(host(2), BROADCAST, 0));
        assert_eq!(table.find(at(99), 0, host(1)), Some(0));
        assert_eq!(table.find(at(100), 0, host(1)), None);
        assert_eq!(table.addresses(), 2);
        table.age(at(100));
        assert_eq!((table.addresses(), table.find(at(100), 0, host(2))), (1, Some(1)));
    }

    #[test]
    fn a_full_table_keeps_whom_it_knows_and_takes_new_ones_when_there_is_room() {
        let mut table = table();
        (0..10).for_each(|number| _ = table.decide(at(0), 0, &head(host(number), BROADCAST, 0)));
        let known: Vec<u8> = (0..10).filter(|&number| table.find(at(0), 0, host(number)).is_some()).collect();
        assert_eq!(known, [0, 1, 2, 3]);
        // Whom it knows it follows.
        table.decide(at(50), 2, &head(host(1), BROADCAST, 0));
        assert_eq!(table.find(at(50), 0, host(1)), Some(2));
        table.age(at(100));
        table.decide(at(100), 1, &head(host(9), BROADCAST, 0));
        assert_eq!((table.addresses(), table.find(at(100), 0, host(9))), (2, Some(1)));
    }

    #[test]
    fn the_machines_own_address_is_known_in_every_vlan_and_nobody_elses() {
        let mut table = table();
        assert_eq!(table.decide(at(0), 0, &head(host(1), OWN.address, 0)), Decision::Forward(OWN.port));
        assert_eq!(table.decide(at(0), 0, &head(host(1), OWN.address, 5)), Decision::Forward(OWN.port));
        let forged = table.decide(at(0), 0, &head(OWN.address, host(1), 0));
        assert_eq!(forged, Decision::Drop(PortDrop::ForeignSource));
        assert_eq!(table.decide(at(1), OWN.port, &head(OWN.address, host(1), 0)), Decision::Forward(0));
        assert_eq!(table.addresses(), 2, "host 1 in two VLANs");
    }

    #[test]
    fn frames_from_several_and_those_that_stay_on_their_link_teach_nothing() {
        let mut table = table();
        let from_several = head(BROADCAST, host(1), 0);
        assert_eq!(table.decide(at(0), 0, &from_several), Decision::Drop(PortDrop::ForeignSource));
        for last in 1..=15 {
            let pause = head(host(1), MacAddress([0x01, 0x80, 0xc2, 0, 0, last]), 0);
            assert_eq!(table.decide(at(0), 0, &pause), Decision::Drop(PortDrop::LinkLocal));
        }
        assert_eq!(table.addresses(), 0);
        let spanning_tree = head(host(1), MacAddress([0x01, 0x80, 0xc2, 0, 0, 0]), 0);
        assert_eq!(table.decide(at(0), 0, &spanning_tree), Decision::Flood);
    }

    #[test]
    fn who_was_behind_a_link_that_is_down_is_sought_again() {
        let mut table = table();
        table.decide(at(0), 0, &head(host(1), BROADCAST, 0));
        table.decide(at(0), 1, &head(host(2), BROADCAST, 0));
        table.forget_port(0);
        assert_eq!([1, 2].map(|number| table.find(at(0), 0, host(number))), [None, Some(1)]);
    }

    /// Frames of a few hosts in two VLANs at ports that they change, with time between them.
    fn frames() -> impl Strategy<Value = Vec<(u64, usize, u8, u8, u16)>> {
        proptest::collection::vec((0..60_u64, 0..4_usize, 0..7_u8, 0..7_u8, 0..2_u16), 1..60)
    }

    proptest! {
        /// Against the whole history: with room for all, a host is where it was heard the last time, if that is not long ago.
        #[test]
        fn with_room_for_all_a_frame_goes_where_its_receiver_was_heard_last(frames in frames()) {
            let mut table = BridgeTable::new(OWN, TableLimits { addresses: 14, age: AGE });
            let (mut now, mut history) = (0, Vec::new());
            for (pause, from, source, destination, vlan) in frames {
                now += pause;
                if pause > 40 {
                    table.age(at(now));
                }
                history.push((source, vlan, from, now));
                let heard = history.iter().rev().find(|(host, at, ..)| (*host, *at) == (destination, vlan));
                let expected = match heard {
                    Some((.., then)) if now - then >= 100 => Decision::Flood,
                    Some((_, _, port, _)) if *port == from => Decision::Drop(PortDrop::SamePort),
                    Some((_, _, port, _)) => Decision::Forward(*port),
                    None => Decision::Flood,
                };
                prop_assert_eq!(table.decide(at(now), from, &head(host(source), host(destination), vlan)), expected);
            }
        }

        #[test]
        fn it_never_grows_past_its_limit_and_never_sends_back(frames in frames()) {
            let mut table = table();
            let mut now = 0;
            for (pause, from, source, destination, vlan) in frames {
                now += pause;
                let decision = table.decide(at(now), from, &head(host(source), host(destination), vlan));
                prop_assert_ne!(decision, Decision::Forward(from));
                prop_assert!(table.addresses() <= LIMITS.addresses);
            }
        }
    }
}
