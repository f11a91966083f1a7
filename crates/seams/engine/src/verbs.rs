//! Work requests, completions and registered memory: what a host's transport (a queue pair) offers to the collective
//! above it, in the words of the RDMA verbs. Engines on both sides of the seam know only this.

use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Reduction};
use quincunx_units::{Duration, Packets};

use crate::terms::Terms;

pub use crate::program::{AnyProgram, Program};

/// As a number of retries: a sender never gives up.
pub const UNLIMITED_RETRIES: u16 = u16::MAX;

/// A registered region of a node's [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegionId(pub u32);

/// A piece of a region: one scatter-gather element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slice {
    /// The region.
    pub region: RegionId,
    /// First byte.
    pub offset: usize,
    /// Length in bytes; zero is allowed anywhere.
    pub length: usize,
}

/// Names a work request to the one who posted it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkId(pub u64);

/// What a send-queue work request does at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verb {
    /// Consumes a receive request there.
    Send,
    /// Writes to the peer's memory; with an immediate it consumes a receive request too.
    Write {
        /// Address in the peer's memory.
        remote_address: u64,
        /// Key of the peer's region.
        remote_key: u32,
    },
}

/// A work request for the send queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SendRequest {
    /// Comes back in the completion.
    pub id: WorkId,
    /// What to do.
    pub verb: Verb,
    /// The data, which must not change until the completion.
    pub source: Slice,
    /// 32 bits for the peer's completion.
    pub immediate: Option<u32>,
}

/// A work request for the receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReceiveRequest {
    /// Comes back in the completion.
    pub id: WorkId,
    /// Where the message goes; a longer message is an error.
    pub sink: Slice,
}

/// Why a work request did not succeed. The queue pair takes no more work after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// The peer did not answer within the retry count: dead, or cut off.
    RetryExceeded,
    /// The peer had no receive request within the retry count.
    ReceiverNotReadyRetryExceeded,
    /// The peer refused the request as senseless.
    InvalidRequest,
    /// The peer refused access to its memory.
    RemoteAccess,
    /// The peer failed.
    RemoteOperational,
    /// A message was longer than the receive request it met.
    Length,
    /// The queue pair had failed before.
    Flushed,
    /// Every frame was right and the result is not: it does not agree with its checksum ([`Verified`](crate::Verified)).
    Corrupted,
    /// A peer takes part in another collective than this rank does.
    Disagreement,
    /// A peer sends another number of tokens than this rank was told to expect of it.
    Miscounted,
}

impl core::fmt::Display for Failure {
    /// What is said of the peer, and what to do.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::RetryExceeded => "it did not answer; see whether it runs and frames reach it",
            Self::ReceiverNotReadyRetryExceeded => "it had no room for messages; see whether it runs",
            Self::InvalidRequest => "it refused a request as senseless; run one release on all ranks",
            Self::RemoteAccess => "it refused access to its memory; run one release on all ranks",
            Self::RemoteOperational => "it failed; see what it says",
            Self::Length => "it sent more than was expected; call collectives of one length on all ranks",
            Self::Flushed => "another queue pair had failed before; see what others say",
            Self::Corrupted => "its frames were right, but the result is not; see its memory and that of switches",
            Self::Disagreement => "it takes part in another collective; call the same on all ranks",
            Self::Miscounted => {
                "it sends another number of tokens than this rank expects of it; give all ranks the same counts"
            }
        })
    }
}

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Completion {
    /// The peer has acknowledged it.
    Sent {
        /// The request.
        id: WorkId,
    },
    /// A message has arrived whole.
    Received {
        /// The request.
        id: WorkId,
        /// Bytes written.
        length: usize,
        /// The peer's 32 bits.
        immediate: Option<u32>,
    },
    /// A peer's Write with Immediate is done, and the receive request that it consumed.
    Written {
        /// The request.
        id: WorkId,
        /// What the peer has written. Hardware does not tell; ours does, for those who pass on what lands with them.
        target: Slice,
        /// The peer's 32 bits.
        immediate: u32,
    },
    /// It failed.
    Failed {
        /// The request.
        id: WorkId,
        /// Why.
        failure: Failure,
    },
}

/// A node's registered memory. Regions keep their number until they are released.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Memory<P> {
    regions: Vec<Option<P>>,
}

impl<P> Default for Memory<P> {
    fn default() -> Self {
        Self { regions: Vec::new() }
    }
}

impl<P: Payload> Memory<P> {
    /// Takes a region in and numbers it with the lowest free number.
    pub fn register(&mut self, region: P) -> RegionId {
        let index = match self.regions.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.regions.push(None);
                self.regions.len() - 1
            }
        };
        self.regions[index] = Some(region);
        RegionId(index as u32)
    }

    /// Gives a region back to its owner; `None` if there is no such region.
    pub fn release(&mut self, region: RegionId) -> Option<P> {
        self.regions.get_mut(region.0 as usize)?.take()
    }

    /// Whether `slice` lies inside a registered region.
    pub fn contains(&self, slice: Slice) -> bool {
        let end = slice.offset.checked_add(slice.length);
        match self.regions.get(slice.region.0 as usize) {
            Some(Some(region)) => end.is_some_and(|end| end <= region.length()),
            _ => slice.length == 0,
        }
    }

    /// The bytes of `slice`. An empty slice needs no region.
    ///
    /// # Panics
    /// If the slice is not inside a registered region: posting checks that.
    pub fn view(&self, slice: Slice) -> P::View<'_> {
        match self.regions.get(slice.region.0 as usize) {
            Some(Some(region)) => region.view(slice.offset..slice.offset + slice.length),
            _ => {
                assert!(slice.length == 0, "{slice:?} names no registered region");
                P::empty()
            }
        }
    }

    /// Copies `view` to the start of `slice`.
    ///
    /// # Panics
    /// If it does not fit or there is no such region.
    pub fn write(&mut self, slice: Slice, view: P::View<'_>) {
        assert!(
            P::view_length(view) <= slice.length,
            "a view of {} bytes in {slice:?}",
            P::view_length(view)
        );
        if let Some(region) = self.region_mut(slice) {
            region.write(slice.offset, view);
        }
    }

    /// Combines the bytes of `source` into those of `target`, which must be in another region.
    ///
    /// # Panics
    /// If the regions are the same or missing, or the lengths differ.
    pub fn reduce(&mut self, target: Slice, source: Slice, reduction: Reduction) {
        assert_eq!(target.length, source.length, "reducing {source:?} into {target:?}");
        self.combine(target, source, |region, offset, view| region.reduce(offset, view, reduction));
    }

    /// Copies the bytes of `source` over those of `target`, which must be in another region.
    ///
    /// # Panics
    /// If the regions are the same or missing, or the lengths differ.
    pub fn copy(&mut self, target: Slice, source: Slice) {
        assert_eq!(target.length, source.length, "copying {source:?} to {target:?}");
        self.combine(target, source, |region, offset, view| region.write(offset, view));
    }

    fn combine(&mut self, target: Slice, source: Slice, apply: impl FnOnce(&mut P, usize, P::View<'_>)) {
        if target.length == 0 {
            return;
        }
        assert_ne!(target.region, source.region, "source and target share a region");
        let mut region = self.release(target.region).expect("the target region is registered");
        apply(&mut region, target.offset, self.view(source));
        self.regions[target.region.0 as usize] = Some(region);
    }

    fn region_mut(&mut self, slice: Slice) -> Option<&mut P> {
        let region = self.regions.get_mut(slice.region.0 as usize).and_then(Option::as_mut);
        assert!(slice.length == 0 || region.is_some(), "{slice:?} names no registered region");
        region
    }
}

/// A queue pair of a host, numbered from zero in the order of the host's configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpIndex(pub u16);

/// A program's own timer, named by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alarm(pub u8);

/// What a host offers to the [`Program`] that runs on it.
pub trait Verbs<P: Payload> {
    /// The host's registered memory.
    fn memory(&mut self) -> &mut Memory<P>;

    /// Queues a send-queue work request. Its completion comes later, also when the queue pair has failed.
    fn post_send(&mut self, qp: QpIndex, request: SendRequest);

    /// Queues a receive request.
    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest);

    /// Has [`handle_alarm`](Program::handle_alarm) called `after` from now, in place of any earlier time of that alarm.
    fn set_alarm(&mut self, alarm: Alarm, after: Duration);

    /// Numbers the next message posted to be sent `sends` packets further on, and expects the one that meets the next receive
    /// request `receives` packets further on (EPIC 4.3, group PSN synchronisation, "RoCE-refined"). What was posted before keeps
    /// its numbers, and asks for its acknowledge by itself: what follows may be for somebody else.
    fn skip(&mut self, qp: QpIndex, sends: u32, receives: u32);

    /// Expects the peer's next message `packets` further on: it skips what it was to send now. Receive requests keep their order, for
    /// what it sends then. Only between two messages.
    fn skip_next(&mut self, qp: QpIndex, packets: Packets);
}

/// A collective that the application asks of a host. What the lengths must be, with `s` bytes a rank and `n` ranks:
///
/// | collective | input | output |
/// |---|---|---|
/// | AllReduce | s | s |
/// | Reduce | s | s at the root, any elsewhere |
/// | Broadcast | s at the root, any elsewhere | s |
/// | Barrier | 0 | 0 |
/// | ReduceScatter | n s | s |
/// | AllGather | s | n s |
/// | Dispatch | t s, for t tokens of s bytes | places for the tokens of others: as many as the group is set up with for each rank, of s bytes |
/// | Combine | the same places, with what this rank has made of the tokens in them | t s |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CollectiveRequest {
    /// Which.
    pub collective: Collective,
    /// How elements combine; its data type also says what an element is.
    pub reduction: Reduction,
    /// This rank's data, which must not change until the end.
    pub input: Slice,
    /// Where the result goes; in another region than the input.
    pub output: Slice,
    /// What of the application's call ranks must agree on beside these.
    pub terms: Terms,
}

/// What became of a collective.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The output is whole.
    Done,
    /// It failed, and the group with it.
    Failed {
        /// The queue pair that failed.
        qp: QpIndex,
        /// How.
        failure: Failure,
    },
}

/// Why a collective is refused at the door: nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// As many collectives are under way as the group's program runs at once.
    #[error("expected an idle group, found one that still runs a collective; wait for its end")]
    Busy,
    /// The group has failed before.
    #[error("expected a working group, found one that has failed; make a new group")]
    GroupFailed,
    /// A root that is no rank.
    #[error("expected a root below {ranks}, found {found}; name a rank of the group")]
    NoSuchRoot {
        /// Ranks in the group.
        ranks: u16,
        /// The root as given.
        found: u16,
    },
    /// A buffer of the wrong length, or not registered.
    #[error(
        "expected {what} of {expected} bytes in registered memory, found {found}; see the table of lengths"
    )]
    Length {
        /// "an input" or "an output".
        what: &'static str,
        /// Bytes that would be right.
        expected: usize,
        /// Bytes as given.
        found: usize,
    },
    /// Input and output in one region.
    #[error("expected input and output in two regions, found both in region {}; register them apart", region.0)]
    SameRegion {
        /// The region.
        region: RegionId,
    },
    /// An operation that the group's program cannot do.
    #[error(
        "expected {} of {}, found {} of {}; set the group up for that, or choose another design",
        expected.op, expected.data_type, found.op, found.data_type
    )]
    Reduction {
        /// What it does.
        expected: Reduction,
        /// As given.
        found: Reduction,
    },
    /// Bits of floating-point numbers, or anything but a sum of a block format.
    #[error(
        "expected {}, found {} of {}; take one of these, or another type",
        found.data_type.defined_operations(), found.op, found.data_type
    )]
    Undefined {
        /// As given.
        found: Reduction,
    },
    /// Elements that would lie across pieces, which are combined one by one.
    #[error(
        "expected pieces of whole elements of {element} bytes, found {key} of {found} bytes; set it to a multiple"
    )]
    Piece {
        /// Bytes of an element.
        element: usize,
        /// What says how long pieces are.
        key: &'static str,
        /// Bytes of a piece.
        found: usize,
    },
    /// A collective that the group's program does not know.
    #[error(
        "expected a collective that the design offers, found {found}; name another, or a design that offers it"
    )]
    NotOffered {
        /// The collective as given.
        found: Collective,
    },
    /// Nobody has said whom tokens are for.
    #[error(
        "expected a routing of tokens, found none; give one before a dispatch, and dispatch before a combine"
    )]
    NoRouting,
    /// Nobody has said how many tokens come from whom, in a group whose ranks do not announce them.
    #[error(
        "expected how many tokens come from each of {ranks} ranks, found {found} counts; give them with the routing, or have ranks announce them (`relay.announce`)"
    )]
    NoIncoming {
        /// All ranks.
        ranks: u16,
        /// As given.
        found: usize,
    },
    /// More tokens than places.
    #[error(
        "expected at most {most} tokens, found {found}; set the group up with more places, or dispatch in parts"
    )]
    Tokens {
        /// Places for each rank's.
        most: usize,
        /// As given.
        found: usize,
    },
    /// A token for nobody.
    #[error("expected a rank for each token, found none for token {token}; each of its experts lives on one")]
    NoRank {
        /// The token's number.
        token: usize,
    },
    /// A token for a rank that is not in the group.
    #[error(
        "expected ranks below {ranks}, found token {token} for rank {found}; number them as the group does"
    )]
    NoSuchRank {
        /// Ranks in the group.
        ranks: u16,
        /// The token's number.
        token: usize,
        /// As given.
        found: u16,
    },
    /// What says whom data is for would lie in memory that holds nothing.
    #[error(
        "expected at most {most} ranks where memory has no contents, found {found}; simulate with numbers"
    )]
    NoContents {
        /// Ranks that need none.
        most: u16,
        /// Ranks in the group.
        found: u16,
    },
    /// A length that is not whole elements.
    #[error("expected a multiple of {element} bytes, found {found}; a vector holds whole elements")]
    Element {
        /// Bytes of an element.
        element: usize,
        /// Bytes as given.
        found: usize,
    },
}
