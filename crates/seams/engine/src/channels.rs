//! Several programs side by side as one: channels, each above queue pairs of its own, so that one collective is in several cores of a switch.
//!
//! A collective whose vectors lie in one piece is cut into as many parts, each of them whole messages and a collective of its own; it has ended
//! when all parts have. An element is reduced in one channel, over the same ranks and in the same order as without channels: the results are the same,
//! to the bit. Others (ReduceScatter, AllGather, Barrier) are the first channel's, whole.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{Collective, Payload};
use quincunx_units::{Duration, Instant, Packets};

use crate::terms::Terms;
use crate::verbs::{
    Alarm, AnyProgram, CollectiveRequest, Completion, Failure, Memory, Outcome, Program, QpIndex,
    ReceiveRequest, RequestError, SendRequest, Slice, Verbs,
};

/// As many channels are enough for any switch, and their bits fit into a word.
pub const MAX_CHANNELS: u16 = 16;

/// Alarms that a program may have: each channel has as many of the node's.
const ALARMS: u8 = u8::MAX / MAX_CHANNELS as u8;

/// Programs side by side.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Channels<P: Payload> {
    programs: Vec<Box<dyn AnyProgram<P>>>,
    /// Queue pairs of each: the first program's come first.
    queue_pairs: u16,
    /// Parts are multiples of so many bytes, but for the last one.
    grain: usize,
    /// Of each collective under way, oldest first, the channels that have not ended it: a bit each.
    running: VecDeque<u16>,
}

impl<P: Payload> Channels<P> {
    /// Programs of `queue_pairs` each, whose messages are so many bytes long.
    ///
    /// # Panics
    /// If there are none of one of these, or more than [`MAX_CHANNELS`].
    pub fn new(programs: Vec<Box<dyn AnyProgram<P>>>, queue_pairs: u16, message: usize) -> Self {
        assert!((1..=usize::from(MAX_CHANNELS)).contains(&programs.len()), "{} channels", programs.len());
        assert!(queue_pairs > 0 && message > 0, "{queue_pairs} queue pairs, messages of {message} bytes");
        Self { programs, queue_pairs, grain: message, running: VecDeque::new() }
    }

    /// The part of each channel that has one.
    fn cut(&self, request: &CollectiveRequest) -> Vec<CollectiveRequest> {
        let whole = request.input.length.max(request.output.length);
        let in_one_piece = matches!(
            request.collective,
            Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. }
        );
        // What is neither whole nor empty makes no sense, as the first channel will say.
        let fits = |slice: Slice| slice.length == whole || slice.length == 0;
        if !in_one_piece || !fits(request.input) || !fits(request.output) {
            return alloc::vec![*request];
        }
        let each = whole.max(1).div_ceil(self.programs.len()).next_multiple_of(self.grain);
        let part = |slice: Slice, range: &Range<usize>| match slice.length {
            0 => slice,
            _ => Slice { offset: slice.offset + range.start, length: range.len(), ..slice },
        };
        let ranges = (0..whole.max(1)).step_by(each).map(|start| start..whole.min(start + each));
        ranges
            .map(|range| CollectiveRequest {
                input: part(request.input, &range),
                output: part(request.output, &range),
                // Ranks agree on the parts, and on how many there are.
                terms: Terms { in_next_channel: range.end < whole, ..request.terms },
                ..*request
            })
            .collect()
    }

    /// Acts for a channel.
    fn in_channel<R>(
        &mut self,
        channel: usize,
        verbs: &mut dyn Verbs<P>,
        act: impl FnOnce(&mut dyn AnyProgram<P>, &mut dyn Verbs<P>) -> R,
    ) -> R {
        let first = channel as u16 * self.queue_pairs;
        act(&mut *self.programs[channel], &mut ChannelVerbs { verbs, first, channel: channel as u8 })
    }

    /// Notes what a channel says of its oldest collective, and of those after it; its failure is everybody's.
    fn note(&mut self, channel: usize, mut outcome: Option<Outcome>) -> Option<Outcome> {
        while let Some(ended) = outcome {
            match ended {
                Outcome::Failed { qp, failure } => {
                    let qp = QpIndex(qp.0 + channel as u16 * self.queue_pairs);
                    return Some(Outcome::Failed { qp, failure });
                }
                Outcome::Done => {
                    let has = |left: &&mut u16| **left & 1 << channel != 0;
                    let left = self.running.iter_mut().find(has).expect("a channel ends what it has begun");
                    *left &= !(1 << channel);
                }
            }
            outcome = self.programs[channel].next_outcome();
        }
        None
    }

    /// The same, and what has ended by it.
    fn ended(&mut self, channel: usize, outcome: Option<Outcome>) -> Option<Outcome> {
        self.note(channel, outcome).or_else(|| self.next_outcome())
    }
}

impl<P: Payload> Program<P> for Channels<P> {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        for channel in 0..self.programs.len() {
            self.in_channel(channel, verbs, |program, verbs| program.initialise(verbs));
        }
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        let parts = self.cut(&request);
        let mut ended = Vec::with_capacity(parts.len());
        for (channel, part) in parts.iter().enumerate() {
            match self.in_channel(channel, verbs, |program, verbs| program.start(now, *part, verbs)) {
                Ok(outcome) => ended.push(outcome),
                // Nothing has begun yet.
                Err(error) if channel == 0 => return Err(error),
                // Channels are alike, and the first has as much to do as any: what it takes all take.
                Err(_) => {
                    let qp = QpIndex(channel as u16 * self.queue_pairs);
                    return Ok(Some(Outcome::Failed { qp, failure: Failure::InvalidRequest }));
                }
            }
        }
        self.running.push_back(((1_u32 << parts.len()) - 1) as u16);
        let mut ended = ended.into_iter().enumerate();
        let failure = ended.find_map(|(channel, outcome)| self.note(channel, outcome));
        Ok(failure.or_else(|| self.next_outcome()))
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let channel = usize::from(qp.0 / self.queue_pairs);
        let qp = QpIndex(qp.0 % self.queue_pairs);
        let handle = |program: &mut dyn AnyProgram<P>, verbs: &mut dyn Verbs<P>| {
            program.handle_completion(now, qp, completion, verbs)
        };
        let outcome = self.in_channel(channel, verbs, handle);
        self.ended(channel, outcome)
    }

    fn next_outcome(&mut self) -> Option<Outcome> {
        (*self.running.front()? == 0).then(|| {
            self.running.pop_front();
            Outcome::Done
        })
    }

    fn depth(&self) -> usize {
        self.programs[0].depth()
    }

    fn handle_alarm(&mut self, now: Instant, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        let channel = usize::from(alarm.0 / ALARMS);
        let alarm = Alarm(alarm.0 % ALARMS);
        let outcome =
            self.in_channel(channel, verbs, |program, verbs| program.handle_alarm(now, alarm, verbs));
        self.ended(channel, outcome)
    }

    fn buffer_bytes(&self) -> usize {
        self.programs.iter().map(|program| program.buffer_bytes()).sum()
    }

    fn assert_invariants(&self) {
        self.programs.iter().for_each(|program| program.assert_invariants());
        let all = (1_u32 << self.programs.len()) - 1;
        assert!(self.running.iter().all(|left| u32::from(*left) <= all), "{:?}", self.running);
        assert_ne!(self.running.front(), Some(&0), "what has ended is told");
    }
}

/// What a channel sees of the node's queue pairs.
struct ChannelVerbs<'a, P: Payload> {
    verbs: &'a mut dyn Verbs<P>,
    first: u16,
    channel: u8,
}

impl<P: Payload> ChannelVerbs<'_, P> {
    fn qp(&self, qp: QpIndex) -> QpIndex {
        QpIndex(qp.0 + self.first)
    }
}

impl<P: Payload> Verbs<P> for ChannelVerbs<'_, P> {
    fn memory(&mut self) -> &mut Memory<P> {
        self.verbs.memory()
    }

    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        self.verbs.post_send(self.qp(qp), request);
    }

    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        self.verbs.post_receive(self.qp(qp), request);
    }

    fn set_alarm(&mut self, alarm: Alarm, after: Duration) {
        assert!(alarm.0 < ALARMS, "{alarm:?} of a channel");
        self.verbs.set_alarm(Alarm(self.channel * ALARMS + alarm.0), after);
    }

    fn skip(&mut self, qp: QpIndex, sends: u32, receives: u32) {
        self.verbs.skip(self.qp(qp), sends, receives);
    }

    fn skip_next(&mut self, qp: QpIndex, packets: Packets) {
        self.verbs.skip_next(self.qp(qp), packets);
    }
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
