//! CommLib: the host's side of EPIC, above one queue pair to the rank's switch (EPIC 3.2, 3.3.2, figure 4).
//!
//! A collective becomes one or several invocations, one after the other: a vector longer than a control message can
//! announce is split, ReduceScatter is a Reduce for each rank and AllGather a Broadcast for each rank (appendix A). An
//! invocation is a control message (Send with Immediate) and data messages of M packets (Send), pipelined behind it. At
//! most W messages are unacknowledged, and in an AllReduce no message is sent before the result of the message W before
//! it has come: that is the flow control that keeps switches' buffers from overflowing (4.2). A rank that may run ahead counts
//! acknowledges alone (4.4).
//!
//! After an invocation both directions of the queue pair stand at the same PSN at every rank (4.3, 4.4: group PSN
//! synchronisation), whether they carried data or not; Mode-I, which ends connections at the switch, needs none.

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_units::Instant;

use crate::control::{ControlMessage, MAX_DATA_PACKETS, MAX_RANKS, Pattern};
use crate::mutation::Mutation;

/// The queue pair to the switch.
const SWITCH: QpIndex = QpIndex(0);

/// What a rank needs to know of its group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommLibConfig {
    /// Ranks in the group.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// Bytes of payload in a full packet, U in table 2.
    pub mtu: usize,
    /// Packets in a message, M in table 2.
    pub message: u32,
    /// Messages in flight, W in table 2.
    pub window: u32,
    /// Messages count as in flight until they are acknowledged, not until their result has come.
    pub run_ahead: bool,
    /// Modes II and III share one PSN among all ranks; Mode-I does not.
    pub synchronize_psn: bool,
}

/// Why a configuration is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommLibConfigError {
    /// No such group or rank.
    #[error(
        "expected a rank below 2 to {MAX_RANKS} ranks, found rank {rank} of {ranks}; number the ranks from zero"
    )]
    Rank {
        /// As given.
        rank: u16,
        /// As given.
        ranks: u16,
    },
    /// Nothing could be sent.
    #[error(
        "expected a packet, a message and a window of at least one, found {mtu} bytes, {message} packets, {window} messages"
    )]
    Zero {
        /// As given.
        mtu: usize,
        /// As given.
        message: u32,
        /// As given.
        window: u32,
    },
}

/// One step of a collective: what one control message announces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Step {
    pattern: Pattern,
    /// Offset of this step's data in the input, where this rank contributes.
    input: usize,
    /// Offset of this step's result in the output, where this rank receives.
    output: usize,
    length: usize,
}

/// How far the current step has come. Messages count from the control message, which is message 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Progress {
    step: Step,
    control: ControlMessage,
    messages: u64,
    sends: bool,
    receives: bool,
    posted_sends: u64,
    sent: u64,
    posted_receives: u64,
    received: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Idle,
    Running { request: CollectiveRequest, next_step: u32, progress: Progress },
    Failed,
}

/// EPIC's collective library on one rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CommLib {
    config: CommLibConfig,
    state: State,
    mutation: Option<Mutation>,
}

impl CommLib {
    /// A rank's library, before its first collective.
    pub fn new(config: CommLibConfig) -> Result<Self, CommLibConfigError> {
        let CommLibConfig { ranks, rank, mtu, message, window, .. } = config;
        if rank.0 >= ranks || !(2..=MAX_RANKS).contains(&ranks) {
            return Err(CommLibConfigError::Rank { rank: rank.0, ranks });
        }
        if mtu == 0 || message == 0 || window == 0 {
            return Err(CommLibConfigError::Zero { mtu, message, window });
        }
        Ok(Self { config, state: State::Idle, mutation: None })
    }

    /// Breaks a rule, for the checker alone.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
        // Figure 6: ranks' windows are governed by ACKs alone.
        self.config.run_ahead |= mutation == Mutation::Figure6;
    }

    /// Bytes that one control message can announce, in whole messages where it can be.
    fn step_limit(&self) -> usize {
        let packets = u32::from(MAX_DATA_PACKETS);
        let whole = packets - packets % self.config.message.min(packets);
        whole as usize * self.config.mtu
    }

    /// Step `index` of a collective; `None` past the last.
    fn step(&self, request: &CollectiveRequest, index: u32) -> Option<Step> {
        let (length, parts) = match request.collective {
            Collective::AllReduce | Collective::Reduce { .. } => (request.input.length, 1),
            Collective::Broadcast { .. } => (request.output.length, 1),
            Collective::Barrier => (0, 1),
            Collective::ReduceScatter => (request.output.length, usize::from(self.config.ranks)),
            Collective::AllGather => (request.input.length, usize::from(self.config.ranks)),
            Collective::Dispatch | Collective::Combine => return None,
        };
        // A part of no bytes is still a step: its control message is what synchronises the ranks.
        let limit = self.step_limit();
        let pieces = length.div_ceil(limit).max(1);
        let (part, piece) = (index as usize / pieces, index as usize % pieces);
        if part >= parts {
            return None;
        }
        let at = piece * limit;
        let step_length = (length - at).min(limit);
        let root = Rank(part as u16);
        let (pattern, input, output) = match request.collective {
            Collective::AllReduce | Collective::Barrier => (Pattern::AllReduce, at, at),
            Collective::Reduce { root } => (Pattern::Reduce { root }, at, at),
            Collective::Broadcast { root } => (Pattern::Broadcast { root }, at, at),
            Collective::ReduceScatter => (Pattern::Reduce { root }, part * length + at, at),
            Collective::AllGather => (Pattern::Broadcast { root }, at, part * length + at),
            Collective::Dispatch | Collective::Combine => return None,
        };
        Some(Step { pattern, input, output, length: step_length })
    }

    fn progress(&self, request: &CollectiveRequest, step: Step) -> Progress {
        let data_packets = step.length.div_ceil(self.config.mtu) as u16;
        let me = self.config.rank;
        let (sends, receives) = match step.pattern {
            Pattern::AllReduce => (true, true),
            Pattern::Reduce { root } => (root != me, root == me),
            Pattern::Broadcast { root } => (root == me, root != me),
        };
        Progress {
            step,
            control: ControlMessage { pattern: step.pattern, reduction: request.reduction, data_packets },
            messages: 1 + u64::from(data_packets).div_ceil(u64::from(self.config.message)),
            sends,
            receives,
            posted_sends: 0,
            sent: 0,
            posted_receives: 0,
            received: 0,
        }
    }

    /// The piece of a buffer that message `index` of a step carries; the control message carries none.
    fn slice(&self, buffer: Slice, at: usize, length: usize, index: u64) -> Slice {
        if index == 0 {
            return Slice { region: buffer.region, offset: buffer.offset, length: 0 };
        }
        let size = self.config.message as usize * self.config.mtu;
        let from = (index - 1) as usize * size;
        Slice { region: buffer.region, offset: buffer.offset + at + from, length: size.min(length - from) }
    }

    /// Posts what flow control allows.
    fn post<P: Payload>(
        &self,
        request: &CollectiveRequest,
        progress: &mut Progress,
        verbs: &mut dyn Verbs<P>,
    ) {
        let window = u64::from(self.config.window);
        let Step { input, output, length, .. } = progress.step;
        // Receives go first: what is sent must not come back before there is a place for it.
        while progress.receives
            && progress.posted_receives < progress.messages
            && progress.posted_receives < progress.received + 2 * window
        {
            let index = progress.posted_receives;
            let sink = self.slice(request.output, output, length, index);
            verbs.post_receive(SWITCH, ReceiveRequest { id: WorkId(index), sink });
            progress.posted_receives += 1;
        }
        while progress.sends
            && progress.posted_sends < progress.messages
            && progress.posted_sends < progress.sent + window
            && (!progress.receives
                || self.config.run_ahead
                || progress.posted_sends < progress.received + window)
        {
            let index = progress.posted_sends;
            let mut source = self.slice(request.input, input, length, index);
            if self.mutation == Some(Mutation::SameMessage) && index > 0 {
                source.offset = self.slice(request.input, input, length, 1).offset;
            }
            let immediate = (index == 0).then(|| progress.control.encode());
            verbs.post_send(SWITCH, SendRequest { id: WorkId(index), verb: Verb::Send, source, immediate });
            progress.posted_sends += 1;
        }
    }

    /// Runs as many steps as end at once, and begins the next.
    fn next_step<P: Payload>(
        &mut self,
        request: CollectiveRequest,
        index: u32,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let Some(step) = self.step(&request, index) else {
            self.state = State::Idle;
            return Some(Outcome::Done);
        };
        let mut progress = self.progress(&request, step);
        if step.length > 0 && step.pattern == (Pattern::Broadcast { root: self.config.rank }) {
            let source = cut(request.input, step.input, step.length);
            verbs.memory().copy(cut(request.output, step.output, step.length), source);
        }
        self.post(&request, &mut progress, verbs);
        self.state = State::Running { request, next_step: index + 1, progress };
        None
    }

    fn check(&self, request: &CollectiveRequest, contains: [bool; 2]) -> Result<(), RequestError> {
        let ranks = usize::from(self.config.ranks);
        let (input, output) = (request.input.length, request.output.length);
        let root = match request.collective {
            Collective::Reduce { root } | Collective::Broadcast { root } => Some(root),
            _ => None,
        };
        if let Some(root) = root.filter(|root| root.0 >= self.config.ranks) {
            return Err(RequestError::NoSuchRoot { ranks: self.config.ranks, found: root.0 });
        }
        let mine = root == Some(self.config.rank);
        let expected = match request.collective {
            Collective::AllReduce => [input, input],
            Collective::Reduce { .. } => [input, if mine { input } else { output }],
            Collective::Broadcast { .. } => [if mine { output } else { input }, output],
            Collective::Barrier => [0, 0],
            Collective::ReduceScatter => [output * ranks, output],
            Collective::AllGather => [input, input * ranks],
            found @ (Collective::Dispatch | Collective::Combine) => {
                return Err(RequestError::NotOffered { found });
            }
        };
        let buffers = [("an input", input, contains[0]), ("an output", output, contains[1])];
        for (expected, (what, found, contained)) in expected.into_iter().zip(buffers) {
            if found != expected || !contained {
                return Err(RequestError::Length { what, expected, found });
            }
        }
        let element = request.reduction.data_type.size();
        for found in [input, output] {
            if found % element != 0 {
                return Err(RequestError::Element { element, found });
            }
        }
        Ok(())
    }
}

impl<P: Payload> Program<P> for CommLib {
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        match self.state {
            State::Idle => {}
            State::Running { .. } => return Err(RequestError::Busy),
            State::Failed => return Err(RequestError::GroupFailed),
        }
        let contains = [request.input, request.output].map(|slice| verbs.memory().contains(slice));
        self.check(&request, contains)?;
        Ok(self.next_step(request, 0, verbs))
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let State::Running { request, next_step, mut progress } = self.state else { return None };
        let step = progress.step;
        let failed = match completion {
            Completion::Sent { .. } => {
                progress.sent += 1;
                None
            }
            Completion::Received { id, length, immediate } => {
                let control = (id.0 == 0).then(|| progress.control.encode());
                let sink = self.slice(request.output, step.output, step.length, id.0);
                if immediate != control || length != sink.length {
                    // Ranks disagree on what they do together.
                    Some(Failure::InvalidRequest)
                } else {
                    if let Pattern::Reduce { .. } = step.pattern
                        && length > 0
                    {
                        let mine = self.slice(request.input, step.input, step.length, id.0);
                        verbs.memory().reduce(sink, mine, request.reduction);
                    }
                    progress.received += 1;
                    None
                }
            }
            // The switch may not write to this memory.
            Completion::Written { .. } => Some(Failure::InvalidRequest),
            Completion::Failed { failure, .. } => Some(failure),
        };
        if let Some(failure) = failed {
            match self.mutation {
                Some(Mutation::RankFailsInSilence) => return None,
                Some(Mutation::SuccessOnFailure) => {
                    self.state = State::Idle;
                    return Some(Outcome::Done);
                }
                _ => {}
            }
            self.state = State::Failed;
            return Some(Outcome::Failed { qp, failure });
        }
        let sent = !progress.sends || progress.sent == progress.messages;
        let received = !progress.receives || progress.received == progress.messages;
        if sent && received {
            if self.config.synchronize_psn {
                verbs.synchronize(SWITCH, 1 + u32::from(progress.control.data_packets));
            }
            return self.next_step(request, next_step, verbs);
        }
        self.post(&request, &mut progress, verbs);
        self.state = State::Running { request, next_step, progress };
        None
    }

    fn assert_invariants(&self) {
        if let State::Running { progress, .. } = self.state {
            let Progress { messages, posted_sends, sent, posted_receives, received, .. } = progress;
            assert!(sent <= posted_sends && posted_sends <= messages);
            assert!(received <= posted_receives && posted_receives <= messages);
            assert!(
                posted_sends - sent <= u64::from(self.config.window),
                "no more than W messages in flight"
            );
        }
    }
}

fn cut(buffer: Slice, at: usize, length: usize) -> Slice {
    let region: RegionId = buffer.region;
    Slice { region, offset: buffer.offset + at, length }
}
