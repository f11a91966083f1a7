//! A manager as an engine: its connections, what it has kept itself or has a store keep, and the requests of clients.

use super::message::{ControlCommand, ControlDrop, ControlEvent, ControlTimer, Message, Pair, Session};
use super::sink::{ControlSink, say};
use super::store::StoredState;
use crate::mutation::Mutation;
use crate::{Action, Change, GroupRecord, Journal, Manager, ManagerConfig, ManagerTimer, RequestId};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::Catalog;
use quincunx_engine::PortId;
use quincunx_units::{ByteCount, Instant};

/// The manager and its connections; what it has kept survives a restart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ManagerNode {
    manager: Manager,
    /// By name: port and session.
    connections: BTreeMap<String, (PortId, Session)>,
    /// By port, the connection that was given last.
    given: BTreeMap<PortId, Session>,
    /// Its how-manieth life; kept.
    epoch: u32,
    next_request: u64,
    waiting: usize,
    journal: Journal,
    /// What it has kept itself.
    stored: StoredState,
    /// If it is one of two.
    pair: Option<Pair>,
    /// All its nodes have been there.
    was_complete: bool,
    /// It has the lease, as far as it knows.
    serves: bool,
    /// Clients who wait for a group, and for a group's end.
    askers: BTreeMap<RequestId, (PortId, u128)>,
    enders: BTreeMap<RequestId, (PortId, GroupId)>,
    /// What was last told of [`ControlEvent::Manages`].
    told: (usize, usize, ByteCount),
    mutation: Option<Mutation>,
}

impl ManagerNode {
    pub(super) fn new(
        catalog: Catalog,
        config: ManagerConfig,
        pair: Option<Pair>,
        mutation: Option<Mutation>,
    ) -> Self {
        Self {
            manager: Manager::new(catalog, config).breaking(mutation),
            connections: BTreeMap::new(),
            given: BTreeMap::new(),
            epoch: 1,
            next_request: 0,
            waiting: 0,
            journal: Journal::default(),
            stored: StoredState::new(),
            pair,
            was_complete: false,
            serves: pair.is_none_or(|pair| !pair.stands_by),
            askers: BTreeMap::new(),
            enders: BTreeMap::new(),
            told: (0, 0, ByteCount::new(0)),
            mutation,
        }
    }

    fn keep(&mut self, change: Change, out: &mut impl ControlSink) {
        let Some(pair) = self.pair else {
            self.stored.change(change);
            return self.journal.kept(true);
        };
        say(PortId(pair.agents), Message::Keep { term: self.epoch, change }, out);
        if self.mutation == Some(Mutation::SpeaksBeforeKept) {
            self.journal.kept(true);
        }
    }

    /// The store is another's: nothing is done any more.
    fn stop(&mut self, out: &mut impl ControlSink) {
        for timer in self.manager.timers() {
            out.cancel_timer(ControlTimer::Manager(timer));
        }
        self.journal.close();
        self.serves = false;
        out.emit(ControlEvent::Serves(false));
        self.connections.clear();
        self.given.clear();
        self.askers.clear();
        self.enders.clear();
        self.manager = self.manager.again(1, Vec::new(), &mut Vec::new());
        self.perform(Vec::new(), out);
    }

    /// It has the lease, and goes on with what was kept.
    fn begin(&mut self, term: u32, numbers: u32, records: &[GroupRecord], out: &mut impl ControlSink) {
        (self.epoch, self.serves) = (term, true);
        let (numbers, records) = match self.mutation {
            // It has looked before anything was kept.
            Some(Mutation::ReadsBeforeItsLease) => (1, Vec::new()),
            _ => (numbers, records.to_vec()),
        };
        let mut actions = Vec::new();
        self.manager = self.manager.again(numbers, records, &mut actions);
        self.perform(actions, out);
        out.emit(ControlEvent::Serves(true));
        let agents = self.pair.map_or(0, |pair| pair.agents);
        (0..agents).chain([agents + 1]).for_each(|port| say(PortId(port), Message::Serves, out));
        say(PortId(agents + 2), Message::Over, out);
    }

    pub(super) fn expire(&mut self, now: Instant, timer: ManagerTimer, out: &mut impl ControlSink) {
        self.step(now, out, |own, actions| own.manager.handle_timer(timer, actions));
    }

    pub(super) fn assert_invariants(&self) {
        self.manager.assert_invariants();
    }

    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    fn perform(&mut self, actions: Vec<Action>, out: &mut impl ControlSink) {
        self.journal.add(actions);
        while let Some(action) = self.journal.next() {
            match action {
                Action::Keep(change) => self.keep(change, out),
                Action::Instruct { node, instruction } => {
                    if let Some(&(port, session)) = self.connections.get(&node) {
                        say(port, Message::Instruct { session, instruction }, out);
                    }
                }
                Action::Answer { request, answer } => match self.askers.remove(&request) {
                    Some((port, key)) => {
                        let group = answer.ok().map(|made| made.group);
                        say(port, Message::Answer { key, group }, out);
                    }
                    None => {
                        self.waiting -= 1;
                        out.emit(ControlEvent::Answered(Box::new(answer)));
                    }
                },
                Action::Destroyed { request, .. } => {
                    if let Some((port, group)) = self.enders.remove(&request) {
                        say(port, Message::Ended { group, was_known: true }, out);
                    }
                }
                Action::Begin { .. } | Action::Recreate { .. } | Action::GivenBack { .. } => {}
                Action::SetTimer { timer, after } => out.set_timer(ControlTimer::Manager(timer), after),
                Action::CancelTimer { timer } => out.cancel_timer(ControlTimer::Manager(timer)),
            }
        }
        let groups = self.manager.groups().filter(|group| !group.state.is_over()).count();
        let names: Vec<String> = self.manager.nodes().map(|node| node.name.clone()).collect();
        let of = |name: &String| self.manager.holdings(name).into_iter().map(|(_, held)| held.memory).sum();
        let taken: ByteCount = names.iter().map(of).sum::<ByteCount>();
        let nodes = names.len();
        if core::mem::replace(&mut self.told, (nodes, groups, taken)) != (nodes, groups, taken) {
            out.emit(ControlEvent::Manages { nodes, groups, taken });
        }
        if let Some(Pair { stands_by: false, agents }) = self.pair
            && nodes == usize::from(agents)
            && !core::mem::replace(&mut self.was_complete, true)
        {
            // To the client; and time may pass.
            [agents + 1, agents + 2].into_iter().for_each(|port| say(PortId(port), Message::Serves, out));
        }
    }

    fn step(
        &mut self,
        now: Instant,
        out: &mut impl ControlSink,
        act: impl FnOnce(&mut Self, &mut Vec<Action>),
    ) {
        self.manager.advance(now);
        let mut actions = Vec::new();
        act(self, &mut actions);
        self.perform(actions, out);
    }

    pub(super) fn hear(&mut self, now: Instant, port: PortId, message: &Message, out: &mut impl ControlSink) {
        match message {
            Message::Lease { term, numbers, records } => self.begin(*term, *numbers, records, out),
            Message::KeepReply { is_kept: false } | Message::Over if self.serves => self.stop(out),
            Message::Serves if !self.serves => {
                let store = self.pair.map_or(0, |pair| pair.agents);
                say(PortId(store), Message::Take, out);
            }
            // Who stands by is not there for anybody.
            _ if !self.serves => out.drop_frame(port, ControlDrop::NotAttached),
            Message::KeepReply { is_kept: true } => {
                self.journal.kept(true);
                self.perform(Vec::new(), out);
            }
            Message::Ask { wanted } => {
                let request = self.request();
                self.askers.insert(request, (port, wanted.key.unwrap_or_default()));
                self.step(now, out, |own, actions| own.manager.init_group(request, wanted, actions));
            }
            Message::End { group } => {
                let request = self.request();
                self.enders.insert(request, (port, *group));
                let mut is_known = true;
                self.step(now, out, |own, actions| {
                    is_known = own.manager.destroy_group(request, *group, actions).is_ok();
                });
                if !is_known {
                    self.enders.remove(&request);
                    say(port, Message::Ended { group: *group, was_known: false }, out);
                }
            }
            Message::Connect { attempt } => {
                let number = self.given.get(&port).map_or(1, |given| given.number + 1);
                let session = Session { epoch: self.epoch, number };
                self.given.insert(port, session);
                say(port, Message::Welcome { attempt: *attempt, session }, out);
            }
            Message::Attach { session, node, held } => {
                let is_copy = self.connections.get(&node.name) == Some(&(port, *session));
                let is_old = self.given.get(&port) != Some(session);
                if is_copy || is_old && self.mutation != Some(Mutation::TakesOldWords) {
                    return out.drop_frame(port, ControlDrop::OldSession);
                }
                let held = if self.mutation == Some(Mutation::ForgetsWhatNodesHave) { &[][..] } else { held };
                let mut attached = true;
                self.step(now, out, |own, actions| {
                    own.manager.disconnect(&node.name, "its connection is gone", actions);
                    own.connections.insert(node.name.clone(), (port, *session));
                    attached = own.manager.attach((**node).clone(), held, actions).is_ok();
                });
                if attached {
                    say(port, Message::Attached { session: *session }, out);
                } else {
                    out.drop_frame(port, ControlDrop::NotAttached);
                }
            }
            Message::Report { session, group, report } => {
                let name = self.connections.iter().find(|(_, known)| known.0 == port);
                let Some((name, &(_, known))) = name else {
                    return out.drop_frame(port, ControlDrop::NotAttached);
                };
                if known != *session && self.mutation != Some(Mutation::TakesOldWords) {
                    return out.drop_frame(port, ControlDrop::OldSession);
                }
                let name = name.clone();
                let mut is_heard = true;
                self.step(now, out, |own, actions| {
                    let heard = own.manager.handle_report(&name, *group, report.clone(), actions);
                    is_heard = heard.is_ok();
                });
                if !is_heard {
                    out.drop_frame(port, ControlDrop::NotAttached);
                }
            }
            Message::Gone { session } => {
                let name = self.connections.iter().find(|(_, known)| **known == (port, *session));
                let Some(name) = name.map(|(name, _)| name.clone()) else {
                    return out.drop_frame(port, ControlDrop::OldSession);
                };
                self.connections.remove(&name);
                self.step(now, out, |own, actions| {
                    own.manager.disconnect(&name, "its connection is gone", actions);
                });
            }
            _ => out.drop_frame(port, ControlDrop::ProtocolViolation),
        }
    }

    pub(super) fn obey(&mut self, now: Instant, command: ControlCommand, out: &mut impl ControlSink) {
        match command {
            ControlCommand::Init(wanted) => self.step(now, out, |own, actions| {
                own.waiting += 1;
                let request = own.request();
                own.manager.init_group(request, &wanted, actions);
            }),
            ControlCommand::EndAll => self.step(now, out, |own, actions| {
                let groups: Vec<_> = own.manager.groups().map(|group| group.group).collect();
                for group in groups {
                    let request = own.request();
                    own.manager.destroy_group(request, group, actions).expect("it has just been listed");
                }
            }),
            ControlCommand::Restart => {
                for timer in self.manager.timers() {
                    out.cancel_timer(ControlTimer::Manager(timer));
                }
                let forgotten = core::mem::take(&mut self.waiting);
                self.connections.clear();
                self.given.clear();
                self.epoch += 1;
                let (numbers, records) = self.stored.all();
                let numbers = if self.mutation == Some(Mutation::ReusesNumbers) { 1 } else { numbers };
                let mut actions = Vec::new();
                self.manager = self.manager.again(numbers, records, &mut actions);
                self.perform(actions, out);
                out.emit(ControlEvent::Forgotten(forgotten));
            }
            _ => {}
        }
    }
}
