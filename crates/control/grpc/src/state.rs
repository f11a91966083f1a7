//! The manager behind its lock, and what carries its actions out. An attached node is its instruction stream: when the
//! connection drops the stream, whatever the cause, the node is detached.

use crate::audit::{Audit, Entry};
use crate::bereaved::Bereaved;
use crate::events::Events;
use crate::metrics::ManagerMetrics;
use crate::passed::{Passed, PassedOn};
use crate::questions::Questions;
use crate::quota::{Quotas, Rates};
use crate::records::{Held, NameError, Record, Records};
use crate::revoked::{Revoked, refusal};
use crate::status::{Explanation, GroupName, GroupStatus, Holder, NodeStatus, OTHERS};
use crate::store::{Store, StoreError};
use crate::{CallRecord, Identity, NodePaths, RankArrivals, convert, proto};
use quincunx_collective::GroupId;
use quincunx_control::{
    Action, Call, Change, DeniedLink, GroupState, GroupSummary, Holding, InitGroupError, Instruction,
    Journal, Manager, ManagerTimer, RequestId, Role, Standing,
};
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// A group in which ranks wait for long, as they tell.
#[derive(Debug)]
struct Stall {
    since: std::time::Instant,
    told: std::time::Instant,
}

impl Stall {
    /// What is told of.
    const LONG: Duration = Duration::from_secs(5);

    /// Whoever waits tells it again after ten seconds at the latest.
    const TOLD_AGAIN: std::time::Duration = std::time::Duration::from_secs(12);

    /// For how long, if it goes on.
    fn lasts(&self) -> Option<Duration> {
        (self.told.elapsed() < Self::TOLD_AGAIN).then(|| self.since.elapsed().into())
    }
}

/// The manager, what is kept beside it, and the other ends of its nodes, callers and timers.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) manager: Manager,
    /// What the manager has decided, and is not yet done.
    journal: Journal,
    /// What else is known of its groups.
    pub(crate) records: Records,
    /// By node name.
    pub(crate) streams: BTreeMap<String, Stream>,
    /// Who waits for a group.
    pub(crate) callers: BTreeMap<RequestId, oneshot::Sender<Result<GroupSummary, InitGroupError>>>,
    /// Who waits for a group's end.
    pub(crate) enders: BTreeMap<RequestId, oneshot::Sender<Vec<String>>>,
    timers: BTreeMap<ManagerTimer, tokio::task::AbortHandle>,
    next_request: u64,
    started: std::time::Instant,
    stalls: BTreeMap<GroupId, Stall>,
    /// Who asks what ranks have called.
    pub(crate) questions: Questions<(Vec<Call>, Standing)>,
    /// The same, with times; the rank's clock with its answer, and whose clock that is.
    pub(crate) questions_of_times: Questions<(CallRecord, u64, u64)>,
    pub(crate) questions_of_arrivals: Questions<Vec<RankArrivals>>,
    /// What switches have told last of when ranks come, by group and switch, and when all were asked, as long as somebody looks.
    arrivals: BTreeMap<GroupId, BTreeMap<String, Vec<RankArrivals>>>,
    arrivals_asked: Option<std::time::Instant>,
    pub(crate) questions_of_paths: Questions<(NodePaths, u64, u64), u64>,
    pub(crate) quotas: Quotas,
    pub(crate) rates: Rates,
    pub(crate) metrics: Arc<ManagerMetrics>,
    pub(crate) events: Events,
    /// Links that cables deny, as was told.
    denials: Vec<DeniedLink>,
    pub(crate) revoked: Revoked,
    pub(crate) bereaved: Bereaved,
    /// Connections by way of agents.
    pub(crate) passed: PassedOn,
    audit: Option<Audit>,
    /// What survives the manager; nothing does without.
    store: Option<Box<dyn Store>>,
    /// Hears that it keeps nothing any more.
    lost: mpsc::Sender<StoreError>,
    /// Of a manager that goes on for another one: until when nodes may be on their way to it.
    pub(crate) settles_until: Option<std::time::Instant>,
    last_attach: std::time::Instant,
}

/// What its groups hear of a node that has ended.
const GONE: &str = "its connection to the manager is gone";

/// How often switches are asked for whoever looks on.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// How long ranks may take to end when their job is over, until whoever comes for it is refused.
const LINGERING: std::time::Duration = std::time::Duration::from_millis(500);

/// After so long without a node that attaches those of an earlier manager are taken to be there.
const QUIET: std::time::Duration = std::time::Duration::from_millis(250);

/// The way to a node.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) sender: mpsc::Sender<Result<proto::Instruction, Status>>,
    /// Where its connection comes from.
    pub(crate) peer: Option<SocketAddr>,
    /// Whose it is; empty: nobody's in particular.
    pub(crate) tenant: String,
    /// By whose certificate it is attached, and by which one.
    pub(crate) who: Identity,
    pub(crate) serial: String,
    /// Whether an agent passes it on, and has not said that the node has closed it.
    pub(crate) is_passed_on: bool,
    /// Whether the node has said that it is about to end.
    pub(crate) leaves: bool,
}

impl Stream {
    /// The connection, as an agent speaks of it.
    fn passed(&self) -> Option<Passed> {
        let connection = self.peer?;
        Some(Passed { connection, who: self.who.clone(), serial: self.serial.clone() })
    }
}

/// The state, behind a lock that is held for one step of the manager at a time and never across a wait.
#[derive(Debug)]
pub(crate) struct Shared(Mutex<State>);

impl Shared {
    pub(crate) fn new(
        mut manager: Manager,
        quotas: Quotas,
        metrics: Arc<ManagerMetrics>,
        audit: Option<Audit>,
        store: Option<Box<dyn Store>>,
        lost: mpsc::Sender<StoreError>,
    ) -> Self {
        manager.allow(quotas.allowances());
        Self(Mutex::new(State {
            manager,
            journal: Journal::default(),
            records: Records::default(),
            streams: BTreeMap::new(),
            callers: BTreeMap::new(),
            enders: BTreeMap::new(),
            timers: BTreeMap::new(),
            next_request: 0,
            started: std::time::Instant::now(),
            stalls: BTreeMap::new(),
            questions: Questions::default(),
            questions_of_times: Questions::default(),
            questions_of_arrivals: Questions::default(),
            arrivals: BTreeMap::new(),
            arrivals_asked: None,
            questions_of_paths: Questions::default(),
            quotas,
            rates: Rates::default(),
            metrics,
            events: Events::default(),
            denials: Vec::new(),
            revoked: Revoked::default(),
            bereaved: Bereaved::default(),
            passed: PassedOn::default(),
            audit,
            store,
            lost,
            settles_until: None,
            last_attach: std::time::Instant::now(),
        }))
    }

    /// The state, with a manager that knows what time it is.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().expect("no step of the manager panics");
        let now = Instant::ZERO + state.started.elapsed().into();
        state.manager.advance(now);
        state
    }

    /// Waits until nobody is left of a job that has lost a host of that name, for a while: the rest of it may be about to end.
    pub(crate) async fn outlast(&self, name: &str) {
        let end = std::time::Instant::now() + LINGERING;
        while self.lock().bereaved.find(name).is_some() && std::time::Instant::now() < end {
            tokio::time::sleep(LINGERING / 20).await;
        }
    }

    /// Waits until the nodes of an earlier manager have come back, these and others, as far as they do in time: who decides before knows
    /// neither members nor switches.
    pub(crate) async fn settle(&self, members: &[String]) {
        loop {
            {
                let state = self.lock();
                let now = std::time::Instant::now();
                let Some(until) = state.settles_until.filter(|until| now < *until) else { return };
                let are_there = members.iter().all(|member| state.streams.contains_key(member));
                if are_there && now.duration_since(state.last_attach) >= QUIET.min(until - now) {
                    return;
                }
            }
            tokio::time::sleep(QUIET / 10).await;
        }
    }

    /// From now on somebody's certificates are not heard, or are again: nodes that were attached by one, and whether that is kept.
    pub(crate) fn revoke(
        self: &Arc<Self>,
        state: &mut State,
        who: &str,
        lift: bool,
    ) -> Result<(Vec<String>, bool), StoreError> {
        let kept = match &state.store {
            Some(store) => store.keep_revoked(who, lift).map(|()| true)?,
            None => false,
        };
        state.revoked.change(who, lift);
        let State { streams, revoked, .. } = &*state;
        let is_over = |stream: &Stream| revoked.find(&stream.who, &stream.serial).is_some();
        let over = streams.iter().filter(|(_, stream)| is_over(stream)).map(|(node, _)| node.clone());
        let over: Vec<String> = over.collect();
        let mut actions = Vec::new();
        for node in &over {
            if let Some(stream) = state.streams.remove(node) {
                // The last that the node hears. One that takes nothing hears it when it asks again.
                let revoked = state.revoked.find(&stream.who, &stream.serial).unwrap_or(who);
                let _ = stream.sender.try_send(Err(refusal(revoked)));
            }
            state.manager.detach(node, "its certificate is revoked", &mut actions);
        }
        self.perform(state, actions);
        Ok((over, kept))
    }

    /// An agent says that a node has closed a connection: the node is gone, if it was attached by that.
    pub(crate) fn end_passed(self: &Arc<Self>, state: &mut State, passed: &Passed) {
        for stream in state.streams.values_mut().filter(|stream| stream.passed().as_ref() == Some(passed)) {
            // Its end is about to be noticed.
            stream.is_passed_on = false;
        }
        let mut actions = Vec::new();
        for node in state.passed.end(passed) {
            state.events.trouble(format!("{node} is gone"));
            state.note_bereaved(&node);
            state.manager.give_up_node(&node, GONE, &mut actions);
        }
        self.perform(state, actions);
    }

    /// The manager stops: the nodes that it loses thereby are not lost to the next one.
    pub(crate) fn stop(&self) {
        self.lock().journal.close();
    }

    /// Carries out what a step of the manager asks for.
    pub(crate) fn perform(self: &Arc<Self>, state: &mut State, actions: Vec<Action>) {
        let mut failed = None;
        state.tell_denials();
        state.journal.add(actions);
        while let Some(action) = state.journal.next() {
            match action {
                Action::Instruct { node, instruction } => {
                    if let Instruction::Failed { group, failure } = &instruction
                        && let current = state.manager.current(*group)
                        && failed.replace(current) != Some(current)
                    {
                        state.metrics.note_failure();
                        let name = state.records.get(*group).map_or("", |record| record.name.as_str());
                        tracing::warn!(%group, name, node = failure.node, reason = failure.reason, "group failed");
                        state.events.trouble(format!("group {group} failed: {failure}"));
                    }
                    if let Some(stream) = state.streams.get(&node) {
                        // It fails when the connection is just breaking: the stream's end follows, and says so. Or the node takes nothing: its
                        // stream ends with its sender.
                        let sent = stream.sender.try_send(Ok(convert::encode_instruction(&instruction)));
                        if matches!(sent, Err(mpsc::error::TrySendError::Full(_))) {
                            tracing::warn!(node, "node does not take its instructions");
                            state.streams.remove(&node);
                        }
                    }
                }
                Action::Recreate { from, group } => {
                    state.records.replace(from, group);
                    state.metrics.note_recreation();
                    let made = state.manager.group(group);
                    let (design, recreated) =
                        made.map(|made| (made.design, made.recreated)).unwrap_or_default();
                    let reason = recreated.map(|recreated| recreated.failure.to_string());
                    tracing::warn!(%from, %group, design, reason, "group made anew");
                }
                Action::GivenBack { group } => {
                    state.records.forget(group);
                    tracing::info!(%group, "group given back");
                    state.events.note(format!("group {group} given back by its ranks"));
                }
                Action::Begin { request, group } => state.records.begin(request, group, &state.manager),
                Action::Answer { request, answer } => {
                    if let Err(error) = &answer {
                        state.records.refuse(request, error, &state.manager);
                    }
                    if let Some(caller) = state.callers.remove(&request) {
                        // It fails when the caller is just going away: it abandons the request then.
                        let _ = caller.send(answer);
                    }
                }
                Action::Destroyed { request, silent } => {
                    if !silent.is_empty() {
                        tracing::warn!(
                            nodes = silent.join(", "),
                            "nodes do not say that they have forgotten a group"
                        );
                    }
                    if let Some(caller) = state.enders.remove(&request) {
                        let _ = caller.send(silent);
                    }
                }
                Action::SetTimer { timer, after } => {
                    let shared = self.clone();
                    let expire = async move {
                        tokio::time::sleep(after.into()).await;
                        let mut state = shared.lock();
                        let mut actions = Vec::new();
                        state.timers.remove(&timer);
                        state.manager.handle_timer(timer, &mut actions);
                        shared.perform(&mut state, actions);
                    };
                    if let Some(earlier) = state.timers.insert(timer, tokio::spawn(expire).abort_handle()) {
                        earlier.abort();
                    }
                }
                Action::CancelTimer { timer } => {
                    if let Some(timer) = state.timers.remove(&timer) {
                        timer.abort();
                    }
                }
                Action::Keep(change) => {
                    let name = match &change {
                        Change::Put(record) => {
                            state.records.get(record.group).map_or("", |record| &record.name)
                        }
                        Change::Numbers(_) | Change::Remove(_) => "",
                    };
                    let kept = state.store.as_ref().map_or(Ok(()), |store| store.keep(&change, name));
                    state.journal.kept(kept.is_ok());
                    if let Err(error) = kept {
                        // What follows would be forgotten by the next manager, and handed out twice: the manager stops.
                        tracing::error!(%error, "what the manager decides cannot be kept");
                        // It fails when it has been told already.
                        let _ = state.lost.try_send(error);
                    }
                }
            }
        }
    }
}

/// Waits for a group; gives it up when the call is cancelled.
pub(crate) struct Caller {
    pub(crate) request: RequestId,
    pub(crate) shared: Arc<Shared>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let mut actions = Vec::new();
        state.callers.remove(&self.request);
        state.enders.remove(&self.request);
        state.records.drop_pending(self.request);
        state.manager.abandon(self.request, &mut actions);
        self.shared.perform(&mut state, actions);
    }
}

/// The instructions to a node. Its end is the node's end.
#[derive(Debug)]
pub(crate) struct Instructions {
    pub(crate) node: String,
    pub(crate) receiver: mpsc::Receiver<Result<proto::Instruction, Status>>,
    pub(crate) shared: Arc<Shared>,
}

impl tokio_stream::Stream for Instructions {
    type Item = Result<proto::Instruction, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}

impl Drop for Instructions {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let mut actions = Vec::new();
        let stream = state.streams.remove(&self.node);
        state.bereaved.leave(&self.node);
        let leaves = stream.as_ref().is_some_and(|stream| stream.leaves);
        let lost = stream.filter(|stream| stream.is_passed_on).and_then(|stream| stream.passed());
        match lost {
            Some(passed) => {
                tracing::warn!(node = self.node, "the agent of a node gone");
                state.events.trouble(format!("the agent of {} is gone", self.node));
                state.passed.lose(&self.node, passed);
                let reason = "its agent is gone, and it did not come back by another one";
                state.manager.lose_sight(&self.node, reason, &mut actions);
            }
            None => {
                if leaves {
                    tracing::info!(node = self.node, "node ended");
                    state.events.note(format!("{} has ended", self.node));
                } else {
                    tracing::warn!(node = self.node, "node gone");
                    state.events.trouble(format!("{} is gone", self.node));
                }
                state.note_bereaved(&self.node);
                state.manager.disconnect(&self.node, GONE, &mut actions);
            }
        }
        self.shared.perform(&mut state, actions);
    }
}

impl State {
    /// Tells of links that cables deny since the last time, and of those that they do not any more.
    fn tell_denials(&mut self) {
        let now = self.manager.map().denials();
        if self.denials == now {
            return;
        }
        for denied in now.iter().filter(|denied| !self.denials.contains(denied)) {
            tracing::warn!(reason = denied.reason, "cables deny a link");
            self.events.trouble(format!("{}: no tree leads over that link", denied.reason));
        }
        for DeniedLink { ends: [a, b], .. } in self.denials.iter().filter(|denied| !now.contains(denied)) {
            self.events.note(format!("cables do not deny the link between {a} and {b} any more"));
        }
        self.denials = now.to_vec();
    }

    /// Whether a new group may be called that.
    pub(crate) fn check_name(&self, name: &str, tenant: &str) -> Result<(), NameError> {
        self.records.check_name(name, tenant, &self.manager)
    }

    /// A node has come.
    pub(crate) fn attached(&mut self, node: String, mut stream: Stream) {
        self.last_attach = std::time::Instant::now();
        stream.is_passed_on = stream.passed().is_some_and(|by| self.passed.attach(&node, &by));
        self.streams.insert(node, stream);
    }

    /// A host is about to be lost to its groups, whose other ranks are left.
    fn note_bereaved(&mut self, node: &str) {
        let of_node = self.manager.groups().filter(|group| !group.state.is_over());
        for group in of_node.filter(|group| group.members.iter().any(|member| member == node)) {
            let others = group.members.iter().filter(|member| self.streams.contains_key(*member));
            self.bereaved.note(node, group.group, others.cloned());
        }
    }

    /// Has a node hear something that the manager has not decided; nothing happens if it is not there.
    pub(crate) fn instruct(&self, node: &str, instruction: &Instruction) {
        if let Some(stream) = self.streams.get(node) {
            // It fails when the connection is just breaking, or the node takes nothing: whoever asks hears no answer then.
            let _ = stream.sender.try_send(Ok(convert::encode_instruction(instruction)));
        }
    }

    /// Asks switches when ranks come to the groups in them, once a second at most, for whoever looks on.
    pub(crate) fn watch_arrivals(&mut self) {
        let now = std::time::Instant::now();
        if self.arrivals_asked.is_some_and(|asked| now.duration_since(asked) < LOOK) {
            return;
        }
        self.arrivals_asked = Some(now);
        let ready = self.manager.groups().filter(|group| group.state == GroupState::Ready);
        let watched: Vec<GroupSummary> = ready.filter(|group| !group.switches.is_empty()).collect();
        self.arrivals.retain(|group, _| watched.iter().any(|known| known.group == *group));
        for group in watched {
            self.arrivals.entry(group.group).or_default();
            for switch in &group.switches {
                self.instruct(&switch.node, &Instruction::TellTimes(group.group));
            }
        }
    }

    /// A switch has told when ranks come to a group.
    pub(crate) fn hear_arrivals(&mut self, node: &str, group: GroupId, arrivals: Vec<RankArrivals>) {
        if let Some(told) = self.arrivals.get_mut(&group) {
            told.insert(node.to_owned(), arrivals.clone());
        }
        self.questions_of_arrivals.hear(node, group, arrivals);
    }

    /// Ranks of a group that somebody looks on, as its switches have seen them come.
    pub(crate) fn arrivals_of(&self, group: GroupId) -> impl Iterator<Item = &RankArrivals> {
        let told = self.arrivals.get(&group).into_iter().flat_map(BTreeMap::values);
        told.flatten().filter(|rank| rank.collectives > 0)
    }

    /// The group that somebody means, as it is now, if he may see it.
    pub(crate) fn find_group(&self, who: &Identity, wanted: &GroupName) -> Option<GroupStatus> {
        let group = match wanted {
            GroupName::Number(group) => *group,
            GroupName::Name(name) => self.records.find(name, who.owner())?,
        };
        let summary = self.manager.group(group)?;
        self.owns(who, group).then(|| self.status(summary))
    }

    /// A number for a request.
    pub(crate) fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    pub(crate) fn write_audit(
        &mut self,
        who: String,
        peer: String,
        call: &str,
        what: &str,
        verdict: &'static str,
        reason: &str,
    ) {
        if let Some(audit) = &mut self.audit {
            audit.write(&Entry { who, peer, call, what, verdict, reason });
        }
    }

    /// Whether somebody may see and end a group.
    pub(crate) fn owns(&self, who: &Identity, group: GroupId) -> bool {
        let group = self.manager.current(group);
        who.is_operator() || self.records.get(group).is_some_and(|record| who.owns(&record.tenant))
    }

    /// Whether somebody may make groups of a host.
    pub(crate) fn may_use(&self, who: &Identity, host: &str) -> bool {
        who.is_operator() || self.streams.get(host).is_some_and(|stream| who.owns(&stream.tenant))
    }

    /// A group with what was asked for.
    pub(crate) fn status(&self, summary: GroupSummary) -> GroupStatus {
        let Record { name, tenant, asked, .. } = self.records.get(summary.group).cloned().unwrap_or_default();
        let stalled = self.stalls.get(&summary.group).and_then(Stall::lasts);
        GroupStatus { summary, name, tenant, asked, stalled }
    }

    /// Groups in which ranks wait for long.
    pub(crate) fn stalled(&self) -> usize {
        self.stalls.values().filter(|stall| stall.lasts().is_some()).count()
    }

    /// A rank tells for how long it waits in a collective that does not come to its end.
    pub(crate) fn note_stall(&mut self, group: GroupId, waits: Duration) {
        self.stalls.retain(|_, stall| stall.lasts().is_some());
        if waits < Stall::LONG {
            return;
        }
        let now = std::time::Instant::now();
        let since = now.checked_sub(waits.into()).unwrap_or(now);
        let known = self.stalls.insert(group, Stall { since, told: now });
        if let (Some(stall), Some(known)) = (self.stalls.get_mut(&group), &known) {
            stall.since = since.min(known.since);
        }
        if known.is_none() {
            let text = format!("group {group}: ranks wait; `quincunx group waits {group}` says whom for");
            self.events.trouble(text);
        }
    }

    /// The nodes that somebody may see: switches serve all.
    pub(crate) fn nodes_for(&self, who: &Identity) -> Vec<NodeStatus> {
        let nodes =
            self.manager.nodes().filter(|node| node.role == Role::Switch || self.may_use(who, &node.name));
        let status = |node: &quincunx_control::NodeDescription| {
            let holders = self.seen(who, self.records.holders(&node.name, &self.manager));
            let uses = holders.into_iter().map(|holder| (holder.group, holder.holding)).collect();
            NodeStatus { description: node.clone(), uses, drains: self.manager.is_draining(&node.name) }
        };
        nodes.map(status).collect()
    }

    /// Holders as somebody may see them: others' groups together, last.
    fn seen(&self, who: &Identity, held: Vec<Held>) -> Vec<Holder> {
        let (mut seen, mut others) = (Vec::new(), None);
        for Held { group, holding, name, tenant } in held {
            if who.owns(&tenant) {
                seen.push(Holder { group, holding, name, tenant });
                continue;
            }
            let Holding { node, .. } = &holding;
            let sum = others.get_or_insert_with(|| Holding {
                node: node.clone(),
                endpoints: 0,
                memory: ByteCount::new(0),
                offset: ByteCount::new(0),
            });
            sum.endpoints += holding.endpoints;
            sum.memory += holding.memory;
        }
        let together =
            |holding| Holder { group: OTHERS, holding, name: String::new(), tenant: String::new() };
        seen.extend(others.map(together));
        seen
    }

    /// Why a group is as it is.
    pub(crate) fn explain(&self, who: &Identity, group: GroupId) -> Option<Explanation> {
        let status = self.status(self.manager.group(group)?);
        let reason = match (&status.summary.state, &status.summary.fallback) {
            (GroupState::Failed(failure) | GroupState::Suspended(failure), _) => failure.to_string(),
            (_, Some(lack)) => lack.to_string(),
            _ => String::new(),
        };
        let record = self.records.get(self.manager.current(group)).cloned().unwrap_or_default();
        Some(self.explanation(who, &record, Some(status), reason))
    }

    /// Why the last request under a name came to what it did.
    pub(crate) fn explain_name(&self, who: &Identity, name: &str) -> Option<Explanation> {
        let tenant = who.owner();
        match self.records.find_refused(name, tenant) {
            Some(refused) => Some(self.explanation(who, &refused.record, None, refused.reason.clone())),
            None => self.explain(who, self.records.find(name, tenant)?),
        }
    }

    fn explanation(
        &self,
        who: &Identity,
        record: &Record,
        group: Option<GroupStatus>,
        reason: String,
    ) -> Explanation {
        let (capacity, then, now) = match &record.lack {
            Some(lack) => {
                let switch = self.manager.nodes().find(|node| node.name == lack.switch);
                (
                    switch.map(|node| (node.memory.bytes(), node.max_endpoints)),
                    self.seen(who, lack.then.clone()),
                    self.seen(who, self.records.holders(&lack.switch, &self.manager)),
                )
            }
            None => (None, Vec::new(), Vec::new()),
        };
        Explanation { asked: record.asked.clone(), group, reason, capacity, then, now }
    }
}
