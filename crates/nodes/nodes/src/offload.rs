//! Queue pairs that somebody else executes, a NIC or the kernel: work requests wait here until the node's driver takes them, and it
//! tells of their ends. Frames of such queue pairs never come to the node.

use alloc::collections::VecDeque;
use quincunx_collective::{GroupId, Payload};
use quincunx_engine::verbs::{Completion, Memory, QpIndex, ReceiveRequest, SendRequest};
use quincunx_engine::{Engine, Frame};
use quincunx_roce::{
    ConfigError, DatagramQueuePair, PostError, QueuePair, QueuePairConfig, QueuePairSink, QueuePairTimer,
    Reliability,
};
use quincunx_units::{Instant, Packets};
use quincunx_wire::RoceHeader;

/// A node whose queue pairs somebody else may execute, as that one's driver sees it.
pub trait Offloadable: Engine {
    /// The oldest work request of an offloaded queue pair that nobody has taken. The driver asks after every call, until there is none.
    fn take_work(&mut self) -> Option<PostedWork>;

    /// A group's memory: where work requests say that messages are, and are to be put.
    fn memory(&mut self, group: GroupId) -> Option<&mut Memory<Self::Payload>>;

    /// What tells the node that a work request has ended.
    fn ended(group: GroupId, queue_pair: QpIndex, completion: Completion) -> Self::Command;

    /// The group that a command removes, if it does that.
    fn removes(command: &Self::Command) -> Option<GroupId>;
}

/// A work request for an offloaded queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// For its send queue.
    Send(SendRequest),
    /// For its receive queue.
    Receive(ReceiveRequest),
}

/// A work request, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PostedWork {
    /// The group, as it was installed.
    pub group: GroupId,
    /// Which of its queue pairs.
    pub queue_pair: QpIndex,
    /// What to do.
    pub work: Work,
}

/// A queue pair, by who executes its work.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are a node's own, and each packet goes through them"
)]
pub(crate) enum Executor<P> {
    /// This node.
    Own(QueuePair<P>),
    /// This node, each message as a datagram.
    Datagrams(DatagramQueuePair),
    /// Somebody else.
    Offloaded {
        /// What it is set up with there.
        config: QueuePairConfig,
        /// What nobody has taken yet, oldest first.
        posted: VecDeque<Work>,
    },
}

impl<P: Payload> Executor<P> {
    pub(crate) fn new(config: QueuePairConfig, is_offloaded: bool) -> Result<Self, ConfigError> {
        Ok(match is_offloaded {
            true => Self::Offloaded { config, posted: VecDeque::new() },
            false if config.reliability == Reliability::Datagrams => {
                Self::Datagrams(DatagramQueuePair::new(config)?)
            }
            false => Self::Own(QueuePair::new(config)?),
        })
    }

    pub(crate) fn config(&self) -> &QueuePairConfig {
        match self {
            Self::Own(queue_pair) => queue_pair.config(),
            Self::Datagrams(queue_pair) => queue_pair.config(),
            Self::Offloaded { config, .. } => config,
        }
    }

    pub(crate) fn post_send(&mut self, request: SendRequest, memory: &Memory<P>) -> Result<(), PostError> {
        match self {
            Self::Own(queue_pair) => queue_pair.post_send(request, memory),
            Self::Datagrams(queue_pair) => queue_pair.post_send(request, memory),
            Self::Offloaded { posted, .. } => {
                posted.push_back(Work::Send(request));
                Ok(())
            }
        }
    }

    pub(crate) fn post_receive(
        &mut self,
        request: ReceiveRequest,
        memory: &Memory<P>,
    ) -> Result<(), PostError> {
        match self {
            Self::Own(queue_pair) => queue_pair.post_receive(request, memory),
            Self::Datagrams(queue_pair) => queue_pair.post_receive(request, memory),
            Self::Offloaded { posted, .. } => {
                posted.push_back(Work::Receive(request));
                Ok(())
            }
        }
    }

    /// The oldest work request that nobody has taken, if they are for somebody else.
    pub(crate) fn take(&mut self) -> Option<Work> {
        match self {
            Self::Own(_) | Self::Datagrams(_) => None,
            Self::Offloaded { posted, .. } => posted.pop_front(),
        }
    }

    /// A queue pair with standard verbs has no call for this: who needs it cannot run there.
    pub(crate) fn skip(
        &mut self,
        sends: u32,
        receives: u32,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), PostError> {
        match self {
            Self::Own(queue_pair) => queue_pair.skip(sends, receives, out),
            Self::Datagrams(_) | Self::Offloaded { .. } if sends == 0 && receives == 0 => Ok(()),
            Self::Datagrams(_) | Self::Offloaded { .. } => Err(PostError::Failed),
        }
    }

    /// As [`skip`](Self::skip).
    pub(crate) fn skip_next(
        &mut self,
        packets: Packets,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), PostError> {
        match self {
            Self::Own(queue_pair) => queue_pair.skip_next(packets, out),
            Self::Datagrams(_) | Self::Offloaded { .. } => Err(PostError::Failed),
        }
    }

    pub(crate) fn handle_frame(
        &mut self,
        now: Instant,
        frame: Frame<'_, RoceHeader, P>,
        memory: &mut Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) {
        match self {
            Self::Own(queue_pair) => queue_pair.handle_frame(now, frame, memory, out),
            Self::Datagrams(queue_pair) => queue_pair.handle_frame(frame, memory, out),
            Self::Offloaded { .. } => out.drop_frame(quincunx_roce::DropReason::NotForUs),
        }
    }

    pub(crate) fn handle_timer(
        &mut self,
        now: Instant,
        timer: QueuePairTimer,
        out: &mut impl QueuePairSink<P>,
    ) {
        if let Self::Own(queue_pair) = self {
            queue_pair.handle_timer(now, timer, out);
        }
    }

    pub(crate) fn wants_transmit(&self) -> bool {
        match self {
            Self::Own(queue_pair) => queue_pair.wants_transmit(),
            Self::Datagrams(queue_pair) => queue_pair.wants_transmit(),
            Self::Offloaded { .. } => false,
        }
    }

    pub(crate) fn transmit(&mut self, now: Instant, memory: &Memory<P>, out: &mut impl QueuePairSink<P>) {
        match self {
            Self::Own(queue_pair) => queue_pair.transmit(now, memory, out),
            Self::Datagrams(queue_pair) => queue_pair.transmit(memory, out),
            Self::Offloaded { .. } => {}
        }
    }

    pub(crate) fn assert_invariants(&self) {
        match self {
            Self::Own(queue_pair) => queue_pair.assert_invariants(),
            Self::Datagrams(queue_pair) => queue_pair.assert_invariants(),
            Self::Offloaded { .. } => {}
        }
    }
}
