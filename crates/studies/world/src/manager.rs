//! A manager's process: the [`Manager`] and [`Journal`] that ship, with connections, timers and a store around them. It stands for
//! `control/grpc/src/{state,service,server}.rs`, which do the same in threads and over gRPC; who may ask for what, quotas and rates are theirs alone.

use crate::connection::{CallId, Code, ConnectionId, Message, Reply, Request, Status};
use crate::effects::{ControlEffect, Effects, TimerName};
use crate::facts::Fact;
use crate::store::{LEASE, OPENING, StoreReply, StoreRequest};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, AttachError, GroupRequest, InitGroupError, Instruction, Journal, Manager, ManagerConfig,
    ManagerTimer, Mutation, ReportError, RequestId,
};
use quincunx_design::Catalog;
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// How often a manager that stands by looks whether the store is free, and another whether its nodes have settled.
const POLL: Duration = Duration::from_millis(100);
const SETTLING: Duration = Duration::from_millis(25);

/// After so long without a node that attaches those of an earlier manager are taken to be there.
const QUIET: Duration = Duration::from_millis(250);

/// What its groups hear of a node that has ended.
const GONE: &str = "its connection to the manager is gone";

/// A call for a group that waits until nodes have settled.
#[derive(Clone, Debug)]
struct Unsettled {
    connection: ConnectionId,
    call: CallId,
    wanted: GroupRequest,
}

pub(crate) struct ManagerProcess {
    catalog: Catalog,
    config: ManagerConfig,
    mutation: Option<Mutation>,
    manager: Manager,
    journal: Journal,
    /// It has the store, with this lease.
    term: Option<u64>,
    /// A change is on its way to the store: nothing else is done meanwhile.
    is_keeping: bool,
    asks_store: bool,
    /// By node name, who is attached by which connection.
    streams: BTreeMap<String, ConnectionId>,
    /// Who waits for a group.
    callers: BTreeMap<RequestId, (ConnectionId, CallId, String)>,
    unsettled: Vec<Unsettled>,
    next_request: u64,
    settles_until: Option<Instant>,
    last_attach: Instant,
}

impl ManagerProcess {
    pub(crate) fn new(
        catalog: Catalog,
        config: ManagerConfig,
        mutation: Option<Mutation>,
        out: &mut Effects,
    ) -> Self {
        out.set(TimerName::Poll, Duration::ZERO);
        Self {
            catalog,
            config,
            mutation,
            manager: Manager::new(catalog, config).breaking(mutation),
            journal: Journal::default(),
            term: None,
            is_keeping: false,
            asks_store: false,
            streams: BTreeMap::new(),
            callers: BTreeMap::new(),
            unsettled: Vec::new(),
            next_request: 0,
            settles_until: None,
            last_attach: out.now,
        }
    }

    pub(crate) const fn serves(&self) -> bool {
        self.term.is_some()
    }

    /// Whether its one thread waits for the store.
    pub(crate) const fn is_keeping(&self) -> bool {
        self.is_keeping
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    pub(crate) fn expire(&mut self, timer: TimerName, out: &mut Effects) {
        match timer {
            TimerName::Poll if self.term.is_none() && !self.asks_store => {
                self.asks_store = true;
                out.control.push(ControlEffect::Store { request: StoreRequest::Take, patience: OPENING });
            }
            TimerName::Settle => self.take_settled(out),
            TimerName::Renew => {
                if let Some(term) = self.term {
                    let request = StoreRequest::Renew { term, sent: out.now };
                    out.control.push(ControlEffect::Store { request, patience: LEASE });
                    out.set(TimerName::Renew, LEASE / 4);
                }
            }
            TimerName::LeaseEnd => {
                out.fact(Fact::Met("manager: lease over"));
                self.stop("its lease is over", out);
            }
            TimerName::Manager(timer) => {
                self.step(out, |manager, actions| manager.handle_timer(timer, actions))
            }
            _ => {}
        }
    }

    /// It stops: the nodes that it loses thereby are not lost to the next one.
    fn stop(&mut self, reason: &str, out: &mut Effects) {
        self.journal.close();
        if let Some(term) = self.term {
            let request = StoreRequest::GiveBack { term };
            out.control.push(ControlEffect::Store { request, patience: Duration::from_millis(500) });
        }
        out.end(reason);
    }

    pub(crate) fn hear_store(&mut self, reply: StoreReply, out: &mut Effects) {
        match reply {
            StoreReply::Taken(taken) => {
                self.asks_store = false;
                match taken {
                    Some((term, numbers, records)) if self.term.is_none() => {
                        self.begin(term, numbers, records, out)
                    }
                    _ => out.set(TimerName::Poll, POLL),
                }
            }
            StoreReply::Kept(kept) => {
                if std::mem::take(&mut self.is_keeping) {
                    self.journal.kept(kept.is_ok());
                }
                match kept {
                    Ok(()) => self.perform(Vec::new(), out),
                    Err(reason) => {
                        out.fact(Fact::Met("manager: change not kept"));
                        self.stop(reason, out);
                    }
                }
            }
            StoreReply::Renewed(Some(sent)) => {
                let until = sent + LEASE;
                let left = if until > out.now { until.since(out.now) } else { Duration::ZERO };
                out.set(TimerName::LeaseEnd, left);
            }
            StoreReply::Renewed(None) => {}
            StoreReply::Silent if self.is_keeping => {
                self.is_keeping = false;
                self.journal.kept(false);
                out.fact(Fact::Met("manager: store silent"));
                self.stop("the store does not answer", out);
            }
            StoreReply::Silent => {
                if std::mem::take(&mut self.asks_store) {
                    out.set(TimerName::Poll, POLL);
                }
            }
        }
    }

    /// It has the store.
    fn begin(
        &mut self,
        term: u64,
        numbers: u32,
        records: Vec<quincunx_control::GroupRecord>,
        out: &mut Effects,
    ) {
        let (numbers, records) = match self.mutation {
            Some(Mutation::ReusesNumbers) => (1, records),
            Some(Mutation::ReadsBeforeItsLease) => (1, Vec::new()),
            _ => (numbers, records),
        };
        self.term = Some(term);
        out.set(TimerName::Renew, LEASE / 4);
        out.set(TimerName::LeaseEnd, LEASE);
        out.fact(Fact::Serves { records: records.len() });
        if numbers > 1 {
            self.settles_until = Some(out.now + self.config.restart_timeout);
        }
        let mut actions = Vec::new();
        let manager = Manager::restore(self.catalog, self.config, numbers, records, &mut actions);
        self.manager = manager.breaking(self.mutation);
        self.manager.advance(out.now);
        self.perform(actions, out);
    }

    fn step(&mut self, out: &mut Effects, act: impl FnOnce(&mut Manager, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        self.manager.advance(out.now);
        act(&mut self.manager, &mut actions);
        self.perform(actions, out);
    }

    /// As `Shared::perform`.
    fn perform(&mut self, actions: Vec<Action>, out: &mut Effects) {
        self.journal.add(actions);
        while let Some(action) = self.journal.next() {
            match action {
                Action::Keep(change) => {
                    let Some(term) = self.term else { continue };
                    let request = StoreRequest::Keep { term, change };
                    out.control.push(ControlEffect::Store { request, patience: LEASE });
                    // One that speaks before a change is kept waits for nothing.
                    self.is_keeping = self.mutation != Some(Mutation::SpeaksBeforeKept);
                    if !self.is_keeping {
                        self.journal.kept(true);
                    }
                }
                Action::Instruct { node, instruction } => {
                    if let Instruction::Failed { group, failure } = &instruction {
                        self.tell_end(*group, &failure.to_string(), out);
                    }
                    if let Some(&connection) = self.streams.get(&node) {
                        out.say(connection, Message::Instruct(Box::new(instruction)));
                    }
                }
                Action::Answer { request, answer } => {
                    if let Some((connection, call, _)) = self.callers.remove(&request) {
                        let reply = match answer {
                            Ok(summary) => Reply::Made(Box::new(summary)),
                            Err(error) => Reply::Refused(refusal(&error)),
                        };
                        out.say(connection, Message::Answer(call, reply));
                    }
                }
                Action::Recreate { .. } => out.fact(Fact::Met("manager: group made anew")),
                Action::GivenBack { .. } => out.fact(Fact::Met("manager: group given back")),
                Action::Begin { .. } => out.fact(Fact::Met("manager: group begun")),
                Action::Destroyed { .. } => {}
                Action::SetTimer { timer, after } => {
                    out.fact(Fact::Met(met(timer)));
                    out.set(TimerName::Manager(timer), after);
                }
                Action::CancelTimer { timer } => out.cancel(TimerName::Manager(timer)),
            }
        }
    }

    /// Tells the checker that a group is over.
    fn tell_end(&self, group: GroupId, reason: &str, out: &mut Effects) {
        let Some(summary) = self.manager.group(group) else { return };
        let switches = summary.switches.iter().map(|held| held.node.clone());
        let nodes: BTreeSet<String> = summary.members.iter().cloned().chain(switches).collect();
        out.fact(Fact::GroupEnded { group, owner: summary.owner, nodes, reason: reason.to_owned() });
    }

    /// A connection is at its end.
    pub(crate) fn lose(&mut self, connection: ConnectionId, out: &mut Effects) {
        self.unsettled.retain(|waiting| waiting.connection != connection);
        let gone =
            self.callers.iter().filter(|(_, (own, ..))| *own == connection).map(|(request, _)| *request);
        for request in gone.collect::<Vec<_>>() {
            self.callers.remove(&request);
            self.step(out, |manager, actions| manager.abandon(request, actions));
        }
        let node = self.streams.iter().find(|(_, own)| **own == connection).map(|(node, _)| node.clone());
        if let Some(node) = node {
            self.streams.remove(&node);
            self.step(out, |manager, actions| manager.disconnect(&node, GONE, actions));
        }
    }

    /// A call of node `node`, whose host belongs to `tenant`.
    pub(crate) fn take(
        &mut self,
        (connection, call): (ConnectionId, CallId),
        (node, tenant): (&str, &str),
        request: Request,
        out: &mut Effects,
    ) {
        let reply = match request {
            Request::Attach { node: description, held } => {
                let name = description.name.clone();
                let mut attached = Ok(());
                self.last_attach = out.now;
                let held =
                    if self.mutation == Some(Mutation::ForgetsWhatNodesHave) { Vec::new() } else { held };
                // The stream is there before what the manager says through it.
                let earlier = self.streams.get(&name).copied();
                let mut actions = Vec::new();
                self.manager.advance(out.now);
                if let Err(error) = self.manager.attach(*description, &held, &mut actions) {
                    attached = Err(refusal_of_attach(&error));
                    out.fact(Fact::Met("manager: node refused"));
                }
                match attached {
                    Ok(()) => {
                        debug_assert!(earlier.is_none(), "an attached node has been taken again");
                        self.streams.insert(name, connection);
                        out.fact(Fact::Met(if held.is_empty() {
                            "manager: node attached"
                        } else {
                            "manager: node came back"
                        }));
                        out.say(connection, Message::Answer(call, Reply::Done));
                        return self.perform(actions, out);
                    }
                    Err(status) => Reply::Refused(status),
                }
            }
            Request::Report { .. } | Request::Links(_)
                if self.mutation != Some(Mutation::TakesOldWords)
                    && self.streams.get(node).is_some_and(|own| *own != connection) =>
            {
                let text = "expected the report on the connection that the node attached by".to_owned();
                Reply::Refused(Status { code: Code::PermissionDenied, text })
            }
            Request::Report { group, report } => {
                let mut heard = Ok(());
                self.step(out, |manager, actions| {
                    heard = manager.handle_report(node, group, report, actions);
                });
                heard.map_or_else(|error| Reply::Refused(refusal_of_report(&error)), |()| Reply::Done)
            }
            Request::Links(links) => {
                let mut heard = Ok(());
                self.step(out, |manager, actions| heard = manager.update_links(node, links, actions));
                heard.map_or_else(|error| Reply::Refused(refusal_of_report(&error)), |()| Reply::Done)
            }
            Request::Renew(group) => {
                let mut renewed = Ok(());
                self.step(out, |manager, actions| renewed = manager.renew(group, actions));
                let gone = |error: quincunx_control::UnknownGroup| Status {
                    code: Code::NotFound,
                    text: error.to_string(),
                };
                renewed.map_or_else(|error| Reply::Refused(gone(error)), |()| Reply::Done)
            }
            Request::Init(wanted) => {
                let wanted = GroupRequest { owner: tenant.to_owned(), ..*wanted };
                self.unsettled.push(Unsettled { connection, call, wanted });
                return self.take_settled(out);
            }
        };
        out.say(connection, Message::Answer(call, reply));
    }

    /// Who decides before nodes have come back knows neither members nor switches.
    fn take_settled(&mut self, out: &mut Effects) {
        let now = out.now;
        let is_settled = |own: &Self, wanted: &GroupRequest| {
            let Some(until) = own.settles_until.filter(|until| now < *until) else { return true };
            let are_there = wanted.members.iter().all(|member| own.streams.contains_key(member));
            are_there && now.since(own.last_attach) >= QUIET.min(until.since(now))
        };
        for waiting in std::mem::take(&mut self.unsettled) {
            if !is_settled(self, &waiting.wanted) {
                self.unsettled.push(waiting);
                continue;
            }
            let Unsettled { connection, call, wanted } = waiting;
            self.next_request += 1;
            let request = RequestId(self.next_request);
            self.callers.insert(request, (connection, call, wanted.owner.clone()));
            self.step(out, |manager, actions| manager.init_group(request, &wanted, actions));
        }
        if !self.unsettled.is_empty() {
            out.set(TimerName::Settle, SETTLING);
        }
    }

    /// What it still knows of groups, when there should be none.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let living = self.manager.groups().filter(|group| !group.state.is_over());
        let mut left: Vec<String> = living
            .map(|group| format!("the manager has group {} ({:?})", group.group, group.state))
            .collect();
        let names: Vec<&String> = self.manager.nodes().map(|node| &node.name).collect();
        for name in names {
            for (group, held) in self.manager.holdings(name) {
                if held.memory > ByteCount::new(0) || held.endpoints > 0 {
                    let (memory, count) = (held.memory, held.endpoints);
                    left.push(format!("group {group} holds {memory} and {count} queue pairs of {name}"));
                }
            }
        }
        left
    }
}

fn met(timer: ManagerTimer) -> &'static str {
    match timer {
        ManagerTimer::Install(_) => "manager: waits for installs",
        ManagerTimer::End(_) => "manager: waits for ends",
        ManagerTimer::Lease(_) => "manager: lease of a group",
        ManagerTimer::Delay(_) => "manager: request waits for room",
        ManagerTimer::Return(_) => "manager: waits for nodes to return",
        ManagerTimer::Cables => "manager: words of cables end",
        ManagerTimer::Inquiry(_) => "manager: asks ranks for their calls",
    }
}

fn refusal(error: &InitGroupError) -> Status {
    Status { code: Code::FailedPrecondition, text: error.to_string() }
}

fn refusal_of_attach(error: &AttachError) -> Status {
    let code = match error {
        AttachError::NoName => Code::InvalidArgument,
        AttachError::NameTaken { .. } | AttachError::AddressTaken { .. } => Code::AlreadyExists,
    };
    Status { code, text: error.to_string() }
}

fn refusal_of_report(error: &ReportError) -> Status {
    let code = match error {
        ReportError::UnknownGroup { .. } => Code::NotFound,
        ReportError::NotAttached { .. } | ReportError::NotInGroup { .. } => Code::FailedPrecondition,
    };
    Status { code, text: error.to_string() }
}
