//! A node's side of the control network. It stands for `ControlClient`, its connector and its pump (`control/grpc/src/client.rs`), which are
//! around the [`Agent`] that ships: a connection to whichever manager serves, calls that are made again for as long as there is
//! patience, and a stream of instructions that is asked for anew with what the node has.

use crate::connection::{
    CallId, Code, ConnectionId, KEEP_ALIVE, KEEP_ALIVE_OF_TWO, Message, Reply, Request, Status,
};
use crate::effects::{ControlEffect, Effects, TimerName};
use quincunx_collective::GroupId;
use quincunx_control::{Agent, AgentAction, Instruction, LinkReport, Mutation, NodeDescription, Report};
use quincunx_control_grpc::ClientError;
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// How long a manager may take to answer a connection before the next one is tried.
const EACH: Duration = Duration::from_secs(1);

/// How long a process that starts waits for a manager.
const STARTING: Duration = Duration::from_secs(5);

/// How long it asks again a manager that knows its name still.
const SUCCESSION: Duration = Duration::from_secs(2);

/// Pauses between tries.
const POLL: Duration = Duration::from_millis(10);
const AGAIN: Duration = Duration::from_millis(80);

/// How long a call may take.
const CALL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Channel {
    Closed,
    Opening { connection: ConnectionId, since: Instant },
    Open(ConnectionId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    /// It is to be asked for, not before then.
    Wanted {
        from: Instant,
    },
    Asked {
        call: CallId,
        since: Instant,
    },
    Attached,
    Over,
}

#[derive(Clone, Debug)]
struct PendingCall {
    request: Request,
    begun: Instant,
    /// By which connection, and when.
    sent: Option<(ConnectionId, Instant)>,
    not_before: Instant,
}

/// What an application hears of its call.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) call: CallId,
    pub(crate) reply: Result<Reply, &'static str>,
}

/// The client of one process.
#[derive(Debug)]
pub(crate) struct Client {
    description: NodeDescription,
    agent: Agent,
    managers: usize,
    next_manager: usize,
    channel: Channel,
    stream: Stream,
    /// Since when the node is not attached.
    lost: Instant,
    was_attached: bool,
    patience: Duration,
    calls: BTreeMap<CallId, PendingCall>,
    next_call: u64,
    instructions: VecDeque<Result<Instruction, ClientError>>,
    answers: Vec<Answered>,
}

impl Client {
    pub(crate) fn new(
        description: NodeDescription,
        managers: usize,
        mutation: Option<Mutation>,
        out: &mut Effects,
    ) -> Self {
        let agent = Agent::new(&description).breaking(mutation);
        out.set(TimerName::Client, Duration::ZERO);
        Self {
            description,
            agent,
            managers,
            next_manager: 0,
            channel: Channel::Closed,
            stream: Stream::Wanted { from: out.now },
            lost: out.now,
            was_attached: false,
            patience: Duration::from_secs(if managers > 1 { 10 } else { 2 }),
            calls: BTreeMap::new(),
            next_call: 0,
            instructions: VecDeque::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// How long its end of a connection hears nothing before it gives it up.
    pub(crate) const fn keep_alive(managers: usize) -> Duration {
        if managers > 1 { KEEP_ALIVE_OF_TWO } else { KEEP_ALIVE }
    }

    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self.stream, Stream::Attached)
    }

    /// Whether releases are on their way that the manager has not heard.
    pub(crate) fn has_releases(&self) -> bool {
        let is_release =
            |call: &PendingCall| matches!(call.request, Request::Report { report: Report::Released, .. });
        self.calls.values().any(is_release)
    }

    /// The next word of the manager that the node has not taken.
    pub(crate) fn next_instruction(&mut self) -> Option<Result<Instruction, ClientError>> {
        self.instructions.pop_front()
    }

    pub(crate) fn take_answers(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answers)
    }

    /// As `Reporter::report`.
    pub(crate) fn report(&mut self, group: GroupId, report: Report, out: &mut Effects) {
        self.agent.tells(group, &report);
        let outcome = match &report {
            Report::Installed => Some(Ok(())),
            Report::Refused { reason } => Some(Err(reason.clone())),
            Report::Released => {
                self.agent.release(group, &mut Vec::new());
                None
            }
            _ => None,
        };
        if let Some(outcome) = outcome {
            self.agent.installed(group, outcome, &mut Vec::new());
        }
        self.call(Request::Report { group, report }, out);
    }

    pub(crate) fn update_links(&mut self, links: Vec<LinkReport>, out: &mut Effects) {
        self.description.links.clone_from(&links);
        self.calls.retain(|_, call| !matches!(call.request, Request::Links(_)));
        self.call(Request::Links(links), out);
    }

    /// Makes a call.
    pub(crate) fn call(&mut self, request: Request, out: &mut Effects) -> CallId {
        let call = CallId(self.next_call);
        self.next_call += 1;
        let pending = PendingCall { request, begun: out.now, sent: None, not_before: out.now };
        self.calls.insert(call, pending);
        self.drive(out);
        call
    }

    /// Does what is due, and says when to be asked again.
    pub(crate) fn drive(&mut self, out: &mut Effects) {
        let now = out.now;
        if let Channel::Opening { connection, since } = self.channel
            && now >= since + EACH
        {
            out.control.push(ControlEffect::Close(connection));
            self.channel = Channel::Closed;
            self.next_manager += 1;
        }
        self.end_streams(out);
        if self.channel == Channel::Closed && (self.stream != Stream::Over || !self.calls.is_empty()) {
            let connection = ConnectionId(out.next_connection);
            out.next_connection += 1;
            let manager = self.next_manager % self.managers;
            out.control.push(ControlEffect::Connect { connection, manager });
            self.channel = Channel::Opening { connection, since: now };
        }
        if let Channel::Open(connection) = self.channel {
            self.send(connection, out);
        }
        self.end_calls(now);
        let is_waiting = self.stream != Stream::Attached || self.channel == Channel::Closed;
        if self.stream != Stream::Over && is_waiting {
            out.set(TimerName::Client, POLL);
        } else if !self.calls.is_empty() {
            out.set(TimerName::Client, AGAIN);
        }
    }

    /// The node is not attached for too long, or was not answered.
    fn end_streams(&mut self, out: &mut Effects) {
        let now = out.now;
        let patience = if self.was_attached { self.patience } else { STARTING };
        match self.stream {
            Stream::Attached | Stream::Over => {}
            Stream::Asked { .. } | Stream::Wanted { .. } if now >= self.lost + patience => {
                self.stream = Stream::Over;
                let reason = "no manager in time".to_owned();
                self.instructions.push_back(Err(ClientError::Lost { reason }));
                out.set(TimerName::Look, Duration::ZERO);
            }
            Stream::Asked { call, since } if now >= since + STARTING => {
                self.calls.remove(&call);
                self.stream = Stream::Wanted { from: now };
            }
            Stream::Asked { .. } | Stream::Wanted { .. } => {}
        }
    }

    fn send(&mut self, connection: ConnectionId, out: &mut Effects) {
        let now = out.now;
        if let Stream::Wanted { from } = self.stream
            && now >= from
        {
            let (node, held) = (Box::new(self.description.clone()), self.agent.attaches_with());
            let call = CallId(self.next_call);
            self.next_call += 1;
            self.stream = Stream::Asked { call, since: now };
            out.say(connection, Message::Call(call, Request::Attach { node, held }));
        }
        for (call, pending) in &mut self.calls {
            let is_late = pending.sent.is_some_and(|(_, sent)| now >= sent + CALL);
            if now >= pending.not_before && (pending.sent.is_none() || is_late) {
                pending.sent = Some((connection, now));
                out.say(connection, Message::Call(*call, pending.request.clone()));
            }
        }
    }

    /// Calls that nobody has answered for too long: of reports nobody hears, unless the manager has refused them.
    fn end_calls(&mut self, now: Instant) {
        let (patience, answers) = (self.patience, &mut self.answers);
        self.calls.retain(|call, pending| {
            let is_over = pending.sent.is_none() && now >= pending.begun + patience.max(POLL);
            if is_over && matches!(pending.request, Request::Init(_) | Request::Renew(_)) {
                answers.push(Answered { call: *call, reply: Err("the manager is gone") });
            }
            !is_over
        });
    }

    /// A word comes.
    pub(crate) fn hear(&mut self, connection: ConnectionId, message: Message, out: &mut Effects) {
        let is_current = match self.channel {
            Channel::Open(own) | Channel::Opening { connection: own, .. } => own == connection,
            Channel::Closed => false,
        };
        if !is_current {
            return;
        }
        match message {
            Message::Opened => self.channel = Channel::Open(connection),
            Message::Refused => {
                self.channel = Channel::Closed;
                self.next_manager += 1;
                return out.set(TimerName::Client, POLL);
            }
            Message::Closed => self.lose(connection, out),
            Message::Instruct(instruction) => {
                self.take(*instruction, out);
                out.set(TimerName::Look, Duration::from_millis(5));
            }
            Message::Answer(call, reply) => self.answered(call, reply, out),
            Message::Open | Message::Call(..) => {}
        }
        self.drive(out);
    }

    /// Its end of a connection is given up, or the other end is gone.
    pub(crate) fn lose(&mut self, connection: ConnectionId, out: &mut Effects) {
        let (Channel::Open(own) | Channel::Opening { connection: own, .. }) = self.channel else { return };
        if own != connection {
            return;
        }
        self.channel = Channel::Closed;
        // Who has just been lost comes last.
        self.next_manager += 1;
        let now = out.now;
        match self.stream {
            Stream::Attached => (self.stream, self.lost) = (Stream::Wanted { from: now }, now),
            Stream::Asked { .. } => self.stream = Stream::Wanted { from: now + POLL },
            Stream::Wanted { .. } | Stream::Over => {}
        }
        // What a rank has called it tells again itself, as long as that matters.
        let is_said_once = |call: &PendingCall| {
            matches!(call.request, Request::Report { report: Report::Called { .. }, .. })
        };
        self.calls.retain(|_, call| call.sent.is_none() || !is_said_once(call));
        for pending in self.calls.values_mut().filter(|pending| pending.sent.is_some()) {
            (pending.sent, pending.not_before) = (None, now + AGAIN);
        }
        out.set(TimerName::Client, POLL);
    }

    fn answered(&mut self, call: CallId, reply: Reply, out: &mut Effects) {
        let now = out.now;
        if let Stream::Asked { call: own, .. } = self.stream
            && own == call
        {
            match reply {
                Reply::Refused(status) => {
                    let gives_up = !self.was_attached && now >= self.lost + SUCCESSION;
                    if gives_up || status.code == Code::PermissionDenied {
                        self.stream = Stream::Over;
                        self.instructions.push_back(Err(ClientError::Refused(status.text)));
                        out.set(TimerName::Look, Duration::ZERO);
                    } else {
                        self.stream = Stream::Wanted { from: now + POLL };
                    }
                }
                _ => {
                    (self.stream, self.was_attached) = (Stream::Attached, true);
                    let again: Vec<(GroupId, Report)> =
                        self.agent.tells_again().map(|(group, report)| (group, report.clone())).collect();
                    for (group, report) in again {
                        self.call(Request::Report { group, report }, out);
                    }
                }
            }
            return;
        }
        let Some(pending) = self.calls.get_mut(&call) else { return };
        let refused = |status: &Status| match &pending.request {
            Request::Report { report: Report::Released, .. } => status.code == Code::FailedPrecondition,
            Request::Report { report: Report::Called { .. }, .. } => false,
            Request::Report { .. } | Request::Links(_) => true,
            _ => false,
        };
        match &reply {
            Reply::Refused(status) if refused(status) => {
                if now < pending.begun + self.patience {
                    (pending.sent, pending.not_before) = (None, now + AGAIN);
                    return;
                }
                if !matches!(pending.request, Request::Report { report: Report::Released, .. }) {
                    self.instructions.push_back(Err(ClientError::Refused(status.text.clone())));
                    out.set(TimerName::Look, Duration::ZERO);
                }
            }
            _ => {}
        }
        let request = self.calls.remove(&call).map(|pending| pending.request);
        if matches!(request, Some(Request::Init(_) | Request::Renew(_))) {
            self.answers.push(Answered { call, reply: Ok(reply) });
        }
    }

    /// As `Pump::take`: the agent decides, and the node does it when it looks.
    fn take(&mut self, instruction: Instruction, out: &mut Effects) {
        let mut actions = Vec::new();
        self.agent.handle(instruction, &mut actions);
        self.agent.assert_invariants();
        for action in actions {
            let instruction = match action {
                AgentAction::Install(context) => Instruction::Install(context),
                AgentAction::Begin(group) => Instruction::Ready(group),
                AgentAction::Remove { group, failure: None } => Instruction::Remove(group),
                AgentAction::Remove { group, failure: Some(failure) } => {
                    Instruction::Failed { group, failure }
                }
                AgentAction::Suspend { group, failure } => Instruction::Suspend { group, failure },
                AgentAction::Resume { group, from, first } => Instruction::Resume { group, from, first },
                AgentAction::TellCalls(group) => Instruction::TellCalls(group),
                AgentAction::ProbePaths(probe) => Instruction::ProbePaths(probe),
                AgentAction::TellPaths(run) => Instruction::TellPaths(run),
                AgentAction::MoveMemory(block) => Instruction::MoveMemory(block),
                AgentAction::TellTimes(group) => Instruction::TellTimes(group),
                // The node says that itself, when it is done.
                AgentAction::Report { report: Report::Removed, .. } => continue,
                AgentAction::Report { group, report } => {
                    self.call(Request::Report { group, report }, out);
                    continue;
                }
            };
            self.instructions.push_back(Ok(instruction));
        }
    }
}
