//! `multimem.red` of data: the switch adds up what all members push to an address, and writes the sum at all of them (CAIS II-C: the push
//! mode of AllReduce).
//!
//! An address under accumulation has an entry from its first contribution until every member has answered the write of the sum. The same
//! entry serves both, so that an address whose contributions are complete waits for nobody. A contribution to an address without an entry,
//! when all are taken, stays in the buffer of its port; contributions to known addresses pass it.
//!
//! **Why this ends.** Members push their addresses in the same order over a link, and a link keeps the order of its channel. Addresses that
//! wait get entries in the order in which they came, before any that comes later. So when an address has an entry, each address before it
//! had one first, at every member: a member that still owes a contribution to an address with an entry has nothing in its port's buffers
//! that came before it, and one buffer is enough. Members that push in different orders need an entry for every address
//! that lies between those orders; with fewer they wait for each other. `NvlsKernel` pushes in the same order everywhere.
//!
//! Answers come from members alone and take none of what contributions wait for.

use crate::{MulticastConfig, MulticastDrop, Mutation};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Payload, accumulate_in_tree};
use quincunx_design::UnitOutput;
use quincunx_engine::PortId;
use quincunx_wire::flit::{Channel, Class, FlitHeader, NodeId, Transaction};

/// Where contributions are, and the answers to their sums.
const CHANNEL: Channel = Channel::new(Class::Write, false);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Free,
    /// Members, a bit each, that have contributed.
    Adding(u64),
    /// Members that have not answered the write of the sum.
    Writing(u64),
}

/// An address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sum<P> {
    state: State,
    address: u64,
    length: usize,
    /// What each member knows its contribution by.
    tags: Vec<u32>,
    contributions: Vec<P>,
}

/// A contribution that waits in the buffer of its port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Parked<P> {
    member: u16,
    tag: u32,
    payload: P,
}

/// The addresses that are added up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sums<P> {
    config: MulticastConfig,
    sums: Vec<Sum<P>>,
    free: Vec<u16>,
    by_address: BTreeMap<u64, u16>,
    parked: BTreeMap<u64, Vec<Parked<P>>>,
    /// Addresses that wait for an entry, in the order in which they came.
    order: VecDeque<u64>,
}

impl<P: Payload> Sums<P> {
    pub(crate) const fn new(config: MulticastConfig) -> Self {
        Self {
            config,
            sums: Vec::new(),
            free: Vec::new(),
            by_address: BTreeMap::new(),
            parked: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Takes a contribution from a member, of a length that a packet may have.
    pub(crate) fn contribute(
        &mut self,
        header: &FlitHeader,
        payload: P::View<'_>,
        outputs: &mut VecDeque<UnitOutput<P>>,
    ) -> Result<(), MulticastDrop> {
        let FlitHeader { address, tag, source: NodeId(member), .. } = *header;
        let length = P::view_length(P::reborrow(payload));
        if let Some(&entry) = self.by_address.get(&address) {
            let sum = &self.sums[usize::from(entry)];
            match sum.state {
                State::Adding(contributors) if contributors & 1 << member == 0 && length == sum.length => {}
                _ => return Err(MulticastDrop::Contribution),
            }
            self.add(entry, member, tag, payload, outputs);
            return Ok(());
        }
        if self.has_room() {
            let entry = self.take_entry(address, length);
            self.add(entry, member, tag, payload, outputs);
            return Ok(());
        }
        let parked = self.parked.entry(address).or_default();
        if parked.iter().any(|other| other.member == member || other.payload.length() != length) {
            return Err(MulticastDrop::Contribution);
        }
        if parked.is_empty() {
            self.order.push_back(address);
        }
        parked.push(Parked { member, tag, payload: P::from_view(payload) });
        Ok(())
    }

    /// Takes a member's answer to the write of a sum. `entry` is what the write's tag said.
    pub(crate) fn take_answer(
        &mut self,
        entry: usize,
        header: &FlitHeader,
        length: usize,
        outputs: &mut VecDeque<UnitOutput<P>>,
    ) -> Result<(), MulticastDrop> {
        let sum = self.sums.get_mut(entry).ok_or(MulticastDrop::UnexpectedResponse)?;
        let member = header.source.0;
        let missing = match sum.state {
            State::Writing(missing) if missing & 1 << member != 0 => missing & !(1 << member),
            _ => return Err(MulticastDrop::UnexpectedResponse),
        };
        if header.transaction != Transaction::WriteResponse || length != 0 {
            return Err(MulticastDrop::UnexpectedResponse);
        }
        let is_early = missing.is_power_of_two() && self.config.mutation == Some(Mutation::AnswersPushEarly);
        if missing != 0 && !is_early {
            sum.state = State::Writing(missing);
            return Ok(());
        }
        sum.state = State::Free;
        let address = sum.address;
        for (member, &tag) in (0..).zip(&sum.tags) {
            let answer = FlitHeader::new(
                self.config.node,
                NodeId(member),
                false,
                address,
                tag,
                Transaction::WriteResponse,
            );
            outputs.push_back(UnitOutput::Packet(PortId(member), answer, P::zeroed(0)));
        }
        self.by_address.remove(&address);
        self.free.push(entry as u16);
        self.admit(outputs);
        Ok(())
    }

    /// Tells of each contribution that waits in a buffer of a port which port and which channel that is.
    pub(crate) fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        self.parked.values().flatten().for_each(|parked| tell(PortId(parked.member), CHANNEL));
    }

    /// Gives the entry that has become free to the address that has waited longest. All that waits for it is taken in.
    fn admit(&mut self, outputs: &mut VecDeque<UnitOutput<P>>) {
        while self.has_room()
            && let Some(address) = self.order.pop_front()
        {
            let parked = self.parked.remove(&address).expect("an address waits with what it waits for");
            let entry = self.take_entry(address, parked[0].payload.length());
            for Parked { member, tag, payload } in parked {
                self.add(entry, member, tag, payload.view(0..payload.length()), outputs);
            }
        }
    }

    fn has_room(&self) -> bool {
        !self.free.is_empty() || self.sums.len() < usize::from(self.config.sums)
    }

    fn take_entry(&mut self, address: u64, length: usize) -> u16 {
        let members = usize::from(self.config.members);
        let entry = self.free.pop().unwrap_or_else(|| {
            self.sums.push(Sum {
                state: State::Free,
                address: 0,
                length: 0,
                tags: vec![0; members],
                contributions: (0..members).map(|_| P::zeroed(self.config.format.max_payload)).collect(),
            });
            self.sums.len() as u16 - 1
        });
        let sum = &mut self.sums[usize::from(entry)];
        (sum.state, sum.address, sum.length) = (State::Adding(0), address, length);
        self.by_address.insert(address, entry);
        entry
    }

    /// Keeps a contribution. The last one completes the sum, which is of all members in the order of their ranks, whatever order they came
    /// in; its write goes out at once.
    fn add(
        &mut self,
        entry: u16,
        member: u16,
        tag: u32,
        payload: P::View<'_>,
        outputs: &mut VecDeque<UnitOutput<P>>,
    ) {
        let MulticastConfig { node, members, entries, reduction, mutation, .. } = self.config;
        let sum = &mut self.sums[usize::from(entry)];
        let State::Adding(contributors) = sum.state else { panic!("a sum that takes contributions") };
        let contributors = contributors | 1 << member;
        sum.contributions[usize::from(member)].write(0, payload);
        sum.tags[usize::from(member)] = tag;
        sum.state = State::Adding(contributors);
        outputs.push_back(UnitOutput::Release(PortId(member), CHANNEL));
        let all = u64::MAX >> (64 - members);
        let is_early = mutation == Some(Mutation::SumsEarly) && (all & !contributors).is_power_of_two();
        if contributors != all && !is_early {
            return;
        }
        let spared = u16::from(mutation == Some(Mutation::ReducesOneLess));
        let counted = (0..usize::from(members - spared)).filter(|&member| contributors & 1 << member != 0);
        let range = 0..sum.length;
        let at = accumulate_in_tree(&mut sum.contributions, counted, range.clone(), reduction);
        sum.state = State::Writing(all);
        // Entries of loads and stores have the tags below.
        let tag = u32::from(entries) + u32::from(entry);
        for member in 0..members {
            let header = FlitHeader::new(node, NodeId(member), false, sum.address, tag, Transaction::Write);
            let payload = P::from_view(sum.contributions[at].view(range.clone()));
            outputs.push_back(UnitOutput::Packet(PortId(member), header, payload));
        }
    }

    pub(crate) fn assert_invariants(&self) {
        let all = u64::MAX >> (64 - self.config.members);
        assert!(self.sums.len() <= usize::from(self.config.sums), "no more sums than there is room for");
        let busy = self.sums.iter().filter(|sum| sum.state != State::Free).count();
        assert_eq!(busy + self.free.len(), self.sums.len(), "an entry is free or has an address");
        assert_eq!(busy, self.by_address.len(), "an address has one entry");
        for (address, &entry) in &self.by_address {
            let sum = &self.sums[usize::from(entry)];
            assert_eq!(sum.address, *address, "an entry is found by its address");
            match sum.state {
                State::Free => panic!("an entry that is free has no address"),
                State::Adding(contributors) => {
                    assert!(contributors != 0 && contributors != all, "a complete sum is written at once");
                }
                State::Writing(missing) => assert!(missing != 0, "an entry is free when all have answered"),
            }
        }
        assert_eq!(self.order.len(), self.parked.len(), "an address waits once");
        assert!(self.order.is_empty() || !self.has_room(), "contributions wait for an entry alone");
        for (address, parked) in &self.parked {
            assert!(!self.by_address.contains_key(address), "nothing waits for an entry that is there");
            assert!(!parked.is_empty() && self.order.contains(address), "an address waits for a reason");
        }
    }
}
