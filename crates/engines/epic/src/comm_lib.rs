//! CommLib: the host's side of EPIC, above one queue pair to the rank's switch (EPIC 3.2, 3.3.2, figure 4).
//!
//! A collective becomes one or several invocations: a vector longer than a control message can announce is split, ReduceScatter
//! is a Reduce for each rank and AllGather a Broadcast for each rank (appendix A). All but AllReduce and Barrier end with a confirmation, by
//! which a rank knows that all ask for the same. An invocation is a control message (Send with
//! Immediate) and data messages of M packets (Send), pipelined behind it. With [`CommLibConfig::eager`] the first data of what fits in a
//! message travels in the control message, so that a short vector is one packet, or packets of one size; and ReduceScatter and AllGather of
//! such a vector are one AllReduce, in half the turns. Invocations overlap: the next one's messages follow at
//! once, also those of the next collective, as far as the window reaches; collectives end in the order of their start. With
//! [`CommLibConfig::overlap`] off each invocation waits until the one before is over on this rank.
//!
//! All messages of a group are numbered in a row, those of others too. A rank is done with a message when it has been acknowledged
//! (if the rank sends it) and when it has been received (if the rank receives it). A message is sent when the rank is done with all
//! but what lies in a window that it ends: that is the flow control that keeps switches' buffers from overflowing (4.2). A window is
//! W messages in Mode-I, whose switches hold messages, and MW packets in the others: a control message is one packet there. A rank that may run
//! ahead counts acknowledges alone (4.4). Where the oldest message is one that the rank only receives, half the window is left to
//! others, who may receive it later.
//!
//! Each invocation has its PSNs in both directions of each queue pair, at every rank the same ones (4.3, 4.4: group PSN
//! synchronisation); a rank skips those that it does not send or receive. Mode-I ends connections at the switch and needs no
//! common PSN, and where queue pairs cannot skip, the first hop translates. There a control message does not say what comes before it, so a rank sends none before its switch knows the
//! invocations before it: it has sent something in them itself, or received their control messages.

use alloc::collections::VecDeque;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Memory, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_units::{Instant, Messages, Packets};

use crate::control::{
    Agreement, CONTINUES, ControlMessage, DIGEST_BITS, IS_BARRIER, MAX_DATA_PACKETS, MAX_RANKS, Pattern,
    SCATTERS,
};
use crate::mutation::Mutation;

/// The queue pair to the switch.
const SWITCH: QpIndex = QpIndex(0);

/// What immediate data takes in a packet.
const IMMEDIATE_BYTES: usize = 4;

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
    pub message: Packets,
    /// Messages in flight, W in table 2.
    pub window: Messages,
    /// Messages count as in flight until they are acknowledged, not until their result has come.
    pub run_ahead: bool,
    /// Invocations follow each other at once; otherwise each waits for the end of the one before.
    pub overlap: bool,
    /// The control message of a step that fits in a message carries its first data, and ReduceScatter and AllGather of such a vector are one
    /// AllReduce. Otherwise a control message carries none, and they are as the paper has them.
    pub eager: bool,
    /// Reduce, Broadcast and what is made of them end with a confirmation of all ranks; otherwise when this rank has sent and received all.
    pub confirm: bool,
    /// Modes II and III share one PSN among all ranks, which skip the numbers of what they do not send or receive. Those of Mode-I do
    /// not, nor those whose queue pairs cannot.
    pub synchronize_psn: bool,
    /// The window is as many packets as are in its messages; in Mode-I it is messages.
    pub window_in_packets: bool,
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
        message: Packets,
        /// As given.
        window: Messages,
    },
}

/// One step of a collective: what one control message announces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Step {
    pattern: Pattern,
    agreement: Agreement,
    /// Offset of this step's data in the input, where this rank contributes.
    input: usize,
    /// Offset of this step's result in the output, where this rank receives.
    output: usize,
    length: usize,
}

/// How far an invocation has come. Messages count from the control message, which is message 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Progress {
    request: CollectiveRequest,
    step: Step,
    /// The last step of its collective.
    is_last: bool,
    control: ControlMessage,
    /// Bytes of data in the control message.
    head: usize,
    /// Memory in place of the output of a ReduceScatter, or of the input of an AllGather, that is one AllReduce.
    scratch: Option<RegionId>,
    /// Where the application has its result.
    result: Slice,
    messages: u64,
    sends: bool,
    receives: bool,
    posted_sends: u64,
    sent: u64,
    posted_receives: u64,
    received: u64,
    /// All that is sent in it is posted, and its numbers are behind those of the next message posted.
    sends_are_posted: bool,
    /// The same for what is received.
    receives_are_posted: bool,
}

impl Progress {
    fn is_done(&self) -> bool {
        (!self.sends || self.sent == self.messages) && (!self.receives || self.received == self.messages)
    }

    /// Packets in its first so many messages.
    fn packets_in(&self, messages: u64, message: Packets) -> u64 {
        match messages {
            0 => 0,
            _ => u64::from(self.packets()).min(1 + (messages - 1) * u64::from(message)),
        }
    }

    /// The switch has been told of it before it is told of anything that this rank posts now.
    fn is_announced(&self) -> bool {
        if self.sends { self.posted_sends > 0 } else { self.received > 0 }
    }

    /// PSNs that it takes.
    fn packets(&self) -> u32 {
        1 + u32::from(self.control.data_packets)
    }
}

/// A collective of which steps are left to begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pending {
    request: CollectiveRequest,
    /// Bytes of the whole vector.
    length: usize,
    step: Step,
    index: u32,
}

/// EPIC's collective library on one rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CommLib {
    config: CommLibConfig,
    /// Collectives of which steps are left to begin, oldest first.
    pending: VecDeque<Pending>,
    /// Invocations that are not over, oldest first.
    under_way: VecDeque<Progress>,
    /// Collectives that have ended, and whose owner has not been told.
    ended: u32,
    has_failed: bool,
    mutation: Option<Mutation>,
}

impl CommLib {
    /// A rank's library, before its first collective.
    pub fn new(config: CommLibConfig) -> Result<Self, CommLibConfigError> {
        let CommLibConfig { ranks, rank, mtu, message, window, .. } = config;
        if rank.0 >= ranks || !(2..=MAX_RANKS).contains(&ranks) {
            return Err(CommLibConfigError::Rank { rank: rank.0, ranks });
        }
        if mtu == 0 || message == Packets::new(0) || window == Messages::new(0) {
            return Err(CommLibConfigError::Zero { mtu, message, window });
        }
        Ok(Self {
            config,
            pending: VecDeque::new(),
            under_way: VecDeque::new(),
            ended: 0,
            has_failed: false,
            mutation: None,
        })
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
        let whole = packets - packets % self.config.message.get().min(packets);
        whole as usize * self.config.mtu
    }

    /// Step `index` of a collective whose whole vector has `whole` bytes; `None` past the last.
    fn step(&self, request: &CollectiveRequest, whole: usize, index: u32) -> Option<Step> {
        if self.is_one_all_reduce(request, whole) {
            let agreement = match request.collective {
                Collective::AllGather => {
                    Agreement::Gathers(request.terms.bits() as u16, request.reduction.data_type)
                }
                _ => Agreement::Detail(request.terms.bits() as u16 | SCATTERS),
            };
            let pattern = Pattern::AllReduce;
            return (index == 0).then_some(Step { pattern, agreement, input: 0, output: 0, length: whole });
        }
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
            return self.confirmation(request, whole, (part, piece) == (parts, 0));
        }
        let at = piece * limit;
        let step_length = (length - at).min(limit);
        let root = Rank(part as u16);
        let is_barrier = request.collective == Collective::Barrier;
        let detail = if is_barrier { IS_BARRIER } else { 0 } | if piece + 1 < pieces { CONTINUES } else { 0 };
        let agreement = match request.collective {
            Collective::AllReduce | Collective::Barrier => {
                Agreement::Detail(detail | request.terms.bits() as u16)
            }
            _ => Agreement::Follows,
        };
        let (pattern, input, output) = match request.collective {
            Collective::AllReduce | Collective::Barrier => (Pattern::AllReduce, at, at),
            Collective::Reduce { root } => (Pattern::Reduce { root }, at, at),
            Collective::Broadcast { root } => (Pattern::Broadcast { root }, at, at),
            Collective::ReduceScatter => (Pattern::Reduce { root }, part * length + at, at),
            Collective::AllGather => (Pattern::Broadcast { root }, at, part * length + at),
            Collective::Dispatch | Collective::Combine => return None,
        };
        Some(Step { pattern, agreement, input, output, length: step_length })
    }

    /// Whether a ReduceScatter or AllGather, whose whole vector has `whole` bytes, is one AllReduce: its bytes are few, and its turns count.
    fn is_one_all_reduce(&self, request: &CollectiveRequest, whole: usize) -> bool {
        let is_made_of_parts =
            matches!(request.collective, Collective::ReduceScatter | Collective::AllGather);
        is_made_of_parts && self.config.eager && whole <= self.message_bytes()
    }

    /// Bytes of a full message.
    fn message_bytes(&self) -> usize {
        self.config.message.as_usize() * self.config.mtu
    }

    /// What follows the last step with data, if it `is_next`: so a rank that takes no part in some of them knows that all ranks agree.
    fn confirmation(&self, request: &CollectiveRequest, whole: usize, is_next: bool) -> Option<Step> {
        let says_all = matches!(request.collective, Collective::AllReduce | Collective::Barrier);
        if !is_next || says_all || !self.config.confirm {
            return None;
        }
        let agreement = Agreement::Confirmation(request.digest(whole, DIGEST_BITS));
        Some(Step { pattern: Pattern::AllReduce, agreement, input: 0, output: 0, length: 0 })
    }

    /// Bytes of a step that its control message carries: all that fit in one packet; else, of what fits in a message, as much as makes it as
    /// long as the packets behind it, so that a host can hand all of them to its network as one.
    fn head(&self, step: &Step, grain: usize) -> usize {
        let mtu = self.config.mtu;
        match step.length {
            length if !self.config.eager || length > self.message_bytes() => 0,
            length if length <= mtu => length,
            _ => mtu.saturating_sub(IMMEDIATE_BYTES) / grain * grain,
        }
    }

    fn progress(&self, pending: &Pending, is_last: bool) -> Progress {
        let Pending { request, step, .. } = *pending;
        let grain = match step.pattern {
            Pattern::Broadcast { .. } => 1,
            Pattern::AllReduce | Pattern::Reduce { .. } => request.reduction.data_type.size(),
        };
        let head = self.head(&step, grain);
        let data_packets = (step.length - head).div_ceil(self.config.mtu) as u16;
        let me = self.config.rank;
        let (sends, receives) = match step.pattern {
            Pattern::AllReduce => (true, true),
            Pattern::Reduce { root } => (root != me, root == me),
            Pattern::Broadcast { root } => (root == me, root != me),
        };
        Progress {
            request,
            step,
            is_last,
            control: match step.agreement {
                Agreement::Confirmation(digest) => ControlMessage::confirmation(digest),
                Agreement::Gathers(detail, data_type) => {
                    ControlMessage::gather(detail, data_type, data_packets)
                }
                agreement => {
                    let (pattern, reduction) = (step.pattern, request.reduction);
                    ControlMessage { pattern, reduction, data_packets, agreement }
                }
            },
            head,
            scratch: None,
            result: request.output,
            messages: 1 + u64::from(data_packets).div_ceil(u64::from(self.config.message)),
            sends,
            receives,
            posted_sends: 0,
            sent: 0,
            posted_receives: 0,
            received: 0,
            sends_are_posted: false,
            receives_are_posted: false,
        }
    }

    /// The piece of a buffer that message `index` of an invocation carries, whose data begins at `at`.
    fn slice(&self, progress: &Progress, buffer: Slice, at: usize, index: u64) -> Slice {
        let Progress { head, step, .. } = *progress;
        let size = self.message_bytes();
        let (from, most) = match index {
            0 => (0, head),
            _ => (head + (index - 1) as usize * size, size),
        };
        Slice {
            region: buffer.region,
            offset: buffer.offset + at + from,
            length: most.min(step.length - from),
        }
    }

    /// The window, in what switches count their buffers in: packets, and messages in Mode-I.
    fn window(&self) -> u64 {
        let window = u64::from(self.config.window);
        if self.config.window_in_packets { window * u64::from(self.config.message) } else { window }
    }

    /// The first so many messages of an invocation, in the unit of the window.
    fn units(&self, progress: &Progress, messages: u64) -> u64 {
        if self.config.window_in_packets {
            progress.packets_in(messages, self.config.message)
        } else {
            messages
        }
    }

    /// Up to where sends and receive requests are posted now, counted from the oldest invocation that is not over.
    fn limits(&self) -> (u64, u64) {
        let window = self.window();
        let Some(oldest) = self.under_way.front() else {
            return (window, 2 * window);
        };
        let Progress { sends, receives, .. } = *oldest;
        let (sent, received) = (self.units(oldest, oldest.sent), self.units(oldest, oldest.received));
        let send = match (sends, receives) {
            // Others may be behind in what this rank has received: half the window is for them.
            (false, _) => received + window.div_ceil(2),
            (true, true) if !self.config.run_ahead => sent.min(received) + window,
            (true, _) => sent + window,
        };
        (send, if receives { received } else { sent } + 2 * window)
    }

    /// Posts what flow control allows.
    fn post<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        let (send_limit, receive_limit) = self.limits();
        let (mut offset, mut may_send, mut may_receive, mut is_announced) = (0, true, true, true);
        for place in 0..self.under_way.len() {
            let mut progress = self.under_way[place];
            // Receives go first: what is sent must not come back before there is a place for it.
            if may_receive && !progress.receives_are_posted {
                self.post_receives(&mut progress, receive_limit.saturating_sub(offset), verbs);
            }
            if may_send && is_announced && !progress.sends_are_posted {
                self.post_sends(&mut progress, send_limit.saturating_sub(offset), verbs);
            }
            may_receive &= progress.receives_are_posted;
            may_send &= progress.sends_are_posted;
            is_announced = self.config.synchronize_psn || is_announced && progress.is_announced();
            offset += self.units(&progress, progress.messages);
            self.under_way[place] = progress;
        }
    }

    /// Posts receive requests up to `limit` in an invocation.
    fn post_receives<P: Payload>(&self, progress: &mut Progress, limit: u64, verbs: &mut dyn Verbs<P>) {
        if !progress.receives {
            if self.config.synchronize_psn {
                verbs.skip(SWITCH, 0, progress.packets());
            }
            progress.receives_are_posted = true;
            return;
        }
        while progress.posted_receives < progress.messages
            && self.units(progress, progress.posted_receives + 1) <= limit
        {
            let index = progress.posted_receives;
            let sink = self.slice(progress, progress.request.output, progress.step.output, index);
            verbs.post_receive(SWITCH, ReceiveRequest { id: WorkId(index), sink });
            progress.posted_receives += 1;
        }
        progress.receives_are_posted = progress.posted_receives == progress.messages;
    }

    /// Posts messages up to `limit` in an invocation.
    fn post_sends<P: Payload>(&self, progress: &mut Progress, limit: u64, verbs: &mut dyn Verbs<P>) {
        while progress.sends
            && progress.posted_sends < progress.messages
            && self.units(progress, progress.posted_sends + 1) <= limit
        {
            let index = progress.posted_sends;
            let (buffer, at) = (progress.request.input, progress.step.input);
            let mut source = self.slice(progress, buffer, at, index);
            if self.mutation == Some(Mutation::SameMessage) && index > 0 {
                source.offset = self.slice(progress, buffer, at, 1).offset;
            }
            let immediate = (index == 0).then(|| progress.control.encode());
            verbs.post_send(SWITCH, SendRequest { id: WorkId(index), verb: Verb::Send, source, immediate });
            progress.posted_sends += 1;
        }
        progress.sends_are_posted = !progress.sends || progress.posted_sends == progress.messages;
        if progress.sends_are_posted && self.config.synchronize_psn {
            verbs.skip(SWITCH, if progress.sends { 0 } else { progress.packets() }, 0);
        }
    }

    /// Whether the next invocation may begin: there would be something to post.
    fn may_begin(&self) -> bool {
        // What confirms an AllGather comes behind one Broadcast of each rank. Sent before the others' are here, it would be further ahead of what
        // switches know than any data: a tree of Mode-III refused it until a time-out.
        let confirms_all = self.pending.front().is_some_and(|pending| {
            pending.request.collective == Collective::AllGather
                && matches!(pending.step.agreement, Agreement::Confirmation(_))
        });
        if !self.config.overlap || confirms_all {
            return self.under_way.is_empty();
        }
        let begun: u64 = self.under_way.iter().map(|progress| self.units(progress, progress.messages)).sum();
        let (_, limit) = self.limits();
        begun < limit
    }

    /// Ends and begins as many invocations as can be, and posts what flow control allows.
    fn go_on<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        while self.under_way.front().is_some_and(Progress::is_done) {
            let over = self.under_way.pop_front().expect("the front was just seen");
            self.finish(&over, verbs.memory());
            self.ended += u32::from(over.is_last);
        }
        while self.may_begin() {
            let Some(&pending) = self.pending.front() else { break };
            let next = self.step(&pending.request, pending.length, pending.index + 1);
            let mut progress = self.progress(&pending, next.is_none());
            let Progress { request, step, .. } = progress;
            if step.pattern == Pattern::AllReduce && self.is_one_all_reduce(&request, pending.length) {
                self.lay_out(&mut progress, verbs.memory());
            }
            if step.length > 0 && step.pattern == (Pattern::Broadcast { root: self.config.rank }) {
                let source = cut(request.input, step.input, step.length);
                verbs.memory().copy(cut(request.output, step.output, step.length), source);
            }
            self.under_way.push_back(progress);
            match next {
                Some(step) => self.pending[0] = Pending { step, index: pending.index + 1, ..pending },
                None => drop(self.pending.pop_front()),
            }
        }
        if self.under_way.is_empty() && self.config.synchronize_psn {
            // Nothing is left of how the last ones went.
            verbs.skip(SWITCH, 0, 0);
        }
        self.post(verbs);
    }

    /// Gives a ReduceScatter or AllGather that is one AllReduce the memory that it needs beside its own: for all ranks' sums, or for zeros
    /// in place of what others gather.
    fn lay_out<P: Payload>(&self, progress: &mut Progress, memory: &mut Memory<P>) {
        let Progress { request, step, .. } = *progress;
        let region = memory.register(P::zeroed(step.length));
        let all = Slice { region, offset: 0, length: step.length };
        progress.scratch = Some(region);
        if request.collective == Collective::AllGather {
            memory.copy(self.part_of(all, request.input.length), request.input);
            progress.request.input = all;
        } else {
            progress.request.output = all;
        }
    }

    /// This rank's part of a vector, of so many bytes.
    fn part_of(&self, all: Slice, length: usize) -> Slice {
        cut(all, usize::from(self.config.rank.0) * length, length)
    }

    /// Takes this rank's part out of a ReduceScatter that was one AllReduce, and gives the memory back.
    fn finish<P: Payload>(&self, over: &Progress, memory: &mut Memory<P>) {
        let Some(region) = over.scratch else { return };
        if over.request.collective == Collective::ReduceScatter {
            memory.copy(over.result, self.part_of(over.request.output, over.result.length));
        }
        memory.release(region);
    }

    /// Collectives that have not ended.
    fn collectives(&self) -> usize {
        let begun = self.under_way.iter().filter(|progress| progress.is_last).count();
        begun + self.pending.len()
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Outcome {
        self.has_failed = true;
        self.pending.clear();
        self.under_way.clear();
        Outcome::Failed { qp, failure }
    }

    /// Takes in a message: the next one of the oldest invocation in which this rank expects any.
    fn receive<P: Payload>(
        &mut self,
        length: usize,
        immediate: Option<u32>,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let expects = |progress: &Progress| progress.received < progress.posted_receives;
        let place = self.under_way.iter().position(expects).ok_or(Failure::InvalidRequest)?;
        let progress = self.under_way[place];
        let Progress { request, step, control, received, .. } = progress;
        let sink = self.slice(&progress, request.output, step.output, received);
        let expected = (received == 0).then(|| control.encode());
        if immediate != expected || length != sink.length {
            return Err(Failure::Disagreement);
        }
        if let Pattern::Reduce { .. } = step.pattern
            && length > 0
        {
            let mine = self.slice(&progress, request.input, step.input, received);
            verbs.memory().reduce(sink, mine, request.reduction);
        }
        self.under_way[place].received += 1;
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
        if self.has_failed {
            return Err(RequestError::GroupFailed);
        }
        if self.collectives() >= Program::<P>::depth(self) {
            return Err(RequestError::Busy);
        }
        let length = request.check(self.config.rank, self.config.ranks, verbs.memory())?;
        request.check_pieces("group.mtu", self.config.mtu)?;
        let step = self.step(&request, length, 0).expect("a collective that is offered has a step");
        self.pending.push_back(Pending { request, length, step, index: 0 });
        self.go_on(verbs);
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.under_way.is_empty() {
            return None;
        }
        let failure = match completion {
            Completion::Sent { .. } => {
                let mut sending = self.under_way.iter_mut();
                match sending.find(|progress| progress.sent < progress.posted_sends) {
                    Some(progress) => {
                        progress.sent += 1;
                        None
                    }
                    None => Some(Failure::InvalidRequest),
                }
            }
            Completion::Received { length, immediate, .. } => self.receive(length, immediate, verbs).err(),
            // The switch may not write to this memory.
            Completion::Written { .. } => Some(Failure::InvalidRequest),
            Completion::Failed { failure, .. } => Some(failure),
        };
        if let Some(failure) = failure {
            return match self.mutation {
                Some(Mutation::RankFailsInSilence) => None,
                Some(Mutation::SuccessOnFailure) => {
                    self.pending.clear();
                    self.under_way.clear();
                    Some(Outcome::Done)
                }
                _ => Some(self.fail(qp, failure)),
            };
        }
        self.go_on(verbs);
        Program::<P>::next_outcome(self)
    }

    fn next_outcome(&mut self) -> Option<Outcome> {
        self.ended = self.ended.checked_sub(1)?;
        Some(Outcome::Done)
    }

    fn depth(&self) -> usize {
        if self.config.overlap { self.config.window.as_usize() } else { 1 }
    }

    fn assert_invariants(&self) {
        let mut in_flight = 0;
        for progress in &self.under_way {
            let Progress { messages, posted_sends, sent, posted_receives, received, .. } = *progress;
            assert!(sent <= posted_sends && posted_sends <= messages);
            assert!(received <= posted_receives && posted_receives <= messages);
            in_flight += self.units(progress, posted_sends) - self.units(progress, sent);
        }
        assert!(in_flight <= self.window(), "no more than a window in flight");
        assert!(!self.has_failed || self.under_way.is_empty(), "a failed group runs nothing");
        assert!(
            self.config.overlap || self.under_way.len() <= 1,
            "invocations that do not overlap follow each other"
        );
    }
}

fn cut(buffer: Slice, at: usize, length: usize) -> Slice {
    let region: RegionId = buffer.region;
    Slice { region, offset: buffer.offset + at, length }
}
