//! The unit of a switch that reduces over the members of a multicast region, and writes at all of them (SCIN 2.2).

use crate::push::Sums;
use crate::{MulticastConfig, MulticastDrop, Mutation};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{Payload, accumulate_in_tree};
use quincunx_design::UnitOutput;
use quincunx_engine::PortId;
use quincunx_wire::flit::{Channel, FlitHeader, NodeId, Transaction};

/// A transaction of an accelerator that waits for the members' answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry<P> {
    request: FlitHeader,
    length: usize,
    /// Members that have not answered; an entry for which this is empty is free.
    missing: u64,
    /// What the members have answered, to be reduced.
    answers: Vec<P>,
}

/// A request without an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting<P> {
    port: PortId,
    header: FlitHeader,
    payload: P,
}

/// The unit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Multicast<P> {
    config: MulticastConfig,
    entries: Vec<Entry<P>>,
    free: Vec<u16>,
    waiting: VecDeque<Waiting<P>>,
    sums: Sums<P>,
    outputs: VecDeque<UnitOutput<P>>,
}

impl<P: Payload> Multicast<P> {
    /// A unit that is idle.
    ///
    /// # Panics
    /// If there is no entry, no member, or more than 64.
    pub fn new(config: MulticastConfig) -> Self {
        assert!(config.entries > 0, "room for a transaction");
        assert!((1..=64).contains(&config.members), "1 to 64 members, not {}", config.members);
        Self {
            config,
            entries: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            sums: Sums::new(config),
            outputs: VecDeque::new(),
        }
    }

    /// Takes a packet that is for this switch. On success its buffer is freed by an [`UnitOutput`], perhaps later; on
    /// failure it is the owner's to free.
    pub fn handle_packet(
        &mut self,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<(), MulticastDrop> {
        if header.source != NodeId(port.0) || header.source.0 >= self.config.members {
            return Err(MulticastDrop::Source);
        }
        let channel = header.channel().ok_or(MulticastDrop::UnexpectedTransaction)?;
        match header.transaction {
            Transaction::MultimemLoadReduce { .. } | Transaction::MultimemStore => {
                let (length, granule) = match header.transaction {
                    Transaction::MultimemLoadReduce { length } => {
                        (usize::from(length), self.config.reduction.data_type.size())
                    }
                    _ => (P::view_length(P::reborrow(payload)), 1),
                };
                self.check_length(length, granule)?;
                let payload = P::from_view(payload);
                self.waiting.push_back(Waiting { port, header: *header, payload });
                self.begin();
            }
            Transaction::MultimemReduce if self.config.sums > 0 => {
                let length = P::view_length(P::reborrow(payload));
                self.check_length(length, self.config.reduction.data_type.size())?;
                self.sums.contribute(header, payload, &mut self.outputs)?;
            }
            Transaction::MultimemAdd { operand } => {
                self.send_to_all(header.address, 0, Transaction::Add { operand }, &P::zeroed(0));
                self.outputs.push_back(UnitOutput::Release(port, channel));
            }
            Transaction::ReadResponse | Transaction::WriteResponse => {
                match (header.tag as usize).checked_sub(usize::from(self.config.entries)) {
                    Some(entry) => {
                        let length = P::view_length(P::reborrow(payload));
                        self.sums.take_answer(entry, header, length, &mut self.outputs)?;
                    }
                    None => self.take_answer(header, payload)?,
                }
                self.outputs.push_back(UnitOutput::Release(port, channel));
                self.begin();
            }
            _ => return Err(MulticastDrop::UnexpectedTransaction),
        }
        Ok(())
    }

    /// The switch that it is in.
    pub(crate) const fn node(&self) -> NodeId {
        self.config.node
    }

    /// Bytes that it has room for: the members' answers to as many transactions as it takes at once, and their contributions to as many
    /// sums.
    pub fn buffer_bytes(&self) -> usize {
        let MulticastConfig { members, entries, sums, format, .. } = self.config;
        usize::from(members) * (usize::from(entries) + usize::from(sums)) * format.max_payload
    }

    /// What is to be done, in order.
    pub fn next_output(&mut self) -> Option<UnitOutput<P>> {
        self.outputs.pop_front()
    }

    /// Tells of each request that waits in a buffer of a port which port and which channel that is.
    pub fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        for Waiting { port, header, .. } in &self.waiting {
            header.channel().into_iter().for_each(|channel| tell(*port, channel));
        }
        self.sums.each_held(tell);
    }

    /// What is reduced is whole elements.
    const fn check_length(&self, length: usize, granule: usize) -> Result<(), MulticastDrop> {
        if length == 0 || length > self.config.format.max_payload || !length.is_multiple_of(granule) {
            return Err(MulticastDrop::BadLength);
        }
        Ok(())
    }

    /// Gives entries to those that wait, and sends their transactions to the members.
    fn begin(&mut self) {
        while self.has_room()
            && let Some(Waiting { port, header, payload }) = self.waiting.pop_front()
        {
            let entry = self.take_entry();
            let (length, transaction) = match header.transaction {
                Transaction::MultimemLoadReduce { length } => {
                    (usize::from(length), Transaction::Read { length })
                }
                _ => (payload.length(), Transaction::Write),
            };
            let place = &mut self.entries[usize::from(entry)];
            place.request = header;
            place.length = length;
            place.missing = u64::MAX >> (64 - self.config.members);
            self.send_to_all(header.address, u32::from(entry), transaction, &payload);
            let channel = header.channel().expect("a request has a channel");
            self.outputs.push_back(UnitOutput::Release(port, channel));
        }
    }

    fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < usize::from(self.config.entries)
    }

    fn take_entry(&mut self) -> u16 {
        self.free.pop().unwrap_or_else(|| {
            let answer = || P::zeroed(self.config.format.max_payload);
            self.entries.push(Entry {
                request: FlitHeader::new(NodeId(0), NodeId(0), false, 0, 0, Transaction::Credit),
                length: 0,
                missing: 0,
                answers: (0..self.config.members).map(|_| answer()).collect(),
            });
            self.entries.len() as u16 - 1
        })
    }

    fn send_to_all(&mut self, address: u64, tag: u32, transaction: Transaction, payload: &P) {
        for member in 0..self.config.members {
            let header = FlitHeader::new(self.config.node, NodeId(member), false, address, tag, transaction);
            let payload = P::from_view(payload.view(0..payload.length()));
            self.outputs.push_back(UnitOutput::Packet(PortId(member), header, payload));
        }
    }

    fn take_answer(&mut self, header: &FlitHeader, payload: P::View<'_>) -> Result<(), MulticastDrop> {
        let member = header.source.0;
        let entry = self.entries.get_mut(header.tag as usize).ok_or(MulticastDrop::UnexpectedResponse)?;
        let (expected, length) = match entry.request.transaction {
            Transaction::MultimemLoadReduce { .. } => (Transaction::ReadResponse, entry.length),
            _ => (Transaction::WriteResponse, 0),
        };
        let found = P::view_length(P::reborrow(payload));
        if entry.missing & 1 << member == 0 || header.transaction != expected || found != length {
            return Err(MulticastDrop::UnexpectedResponse);
        }
        entry.missing &= !(1 << member);
        entry.answers[usize::from(member)].write(0, payload);
        let is_load = expected == Transaction::ReadResponse;
        let is_early = entry.missing.is_power_of_two()
            && match self.config.mutation {
                Some(Mutation::AnswersLoadEarly) => is_load,
                Some(Mutation::AnswersStoreEarly) => !is_load,
                _ => false,
            };
        if entry.missing != 0 && !is_early {
            return Ok(());
        }
        entry.missing = 0;
        let reduced = match expected {
            Transaction::ReadResponse => {
                let spared = u16::from(self.config.mutation == Some(Mutation::ReducesOneLess));
                let members = 0..usize::from(self.config.members - spared);
                let at = accumulate_in_tree(&mut entry.answers, members, 0..length, self.config.reduction);
                P::from_view(entry.answers[at].view(0..length))
            }
            _ => P::zeroed(0),
        };
        let answer = entry.request.response(expected);
        self.outputs.push_back(UnitOutput::Packet(PortId(answer.destination.0), answer, reduced));
        self.free.push(header.tag as u16);
        Ok(())
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        let busy = self.entries.iter().filter(|entry| entry.missing != 0).count();
        assert_eq!(busy + self.free.len(), self.entries.len(), "an entry is free or awaits answers");
        assert!(
            self.entries.len() <= usize::from(self.config.entries),
            "no more entries than there is room for"
        );
        assert!(self.waiting.is_empty() || !self.has_room(), "requests wait for an entry alone");
        self.sums.assert_invariants();
        assert!(self.outputs.is_empty(), "outputs are taken after every call");
    }
}
