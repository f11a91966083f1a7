//! What a node has counted: traffic, drops by reason, and where its time went.

use quincunx_engine::PortId;
use quincunx_units::Duration;

/// Traffic in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Frames, each one packet on the wire.
    pub frames: u64,
    /// Bytes of them: UDP payload.
    pub bytes: u64,
    /// Datagrams exchanged with the kernel; each holds one frame or, merged, several.
    pub datagrams: u64,
    /// System calls that moved them, the vain ones among them.
    pub system_calls: u64,
}

/// What a node has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// What left.
    pub sent: Traffic,
    /// What came, before injected faults.
    pub received: Traffic,
    /// Turns of the loop.
    pub turns: u64,
    /// Times the loop waited in the kernel.
    pub waits: u64,
    /// Times the kernel took no more datagrams and transmission paused.
    pub send_blocked: u64,
    /// Timers fired.
    pub timers: u64,
    /// Whether frames are merged into larger datagrams: false once the kernel has refused it.
    pub merging: bool,
    /// Where the time went; all zero unless the node's options ask for it.
    pub profile: Profile,
}

/// Why a frame went no further. Peers, links and injected faults cause these; none is an error of the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dropped<R, F> {
    /// The engine dropped it.
    Engine(PortId, R),
    /// Its bytes were no frame for this node.
    Codec(F),
    /// An injected loss.
    InjectedLoss,
    /// It was longer than any datagram can be, or no datagram of ours at all.
    Malformed,
    /// It left the engine when the send buffer was full.
    SendBufferFull,
    /// The kernel knows no way to its destination, or none any more.
    Unreachable,
}

/// What the loop can be busy with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Handing datagrams to the kernel and taking them.
    SystemCalls,
    /// Reading headers and checking what protects them.
    Parse,
    /// The engine: state, reduction, copies to and from memory.
    Engine,
    /// Writing frames.
    Emit,
    /// Waiting for something to come.
    Waiting,
    /// The loop itself, and the node's owner between turns.
    Other,
}

/// Time by phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    spent: [Duration; 6],
}

impl Profile {
    /// Every phase, in the order in which they print.
    pub const PHASES: [Phase; 6] =
        [Phase::SystemCalls, Phase::Parse, Phase::Engine, Phase::Emit, Phase::Waiting, Phase::Other];

    /// Time spent in `phase`.
    pub fn spent(&self, phase: Phase) -> Duration {
        self.spent[phase as usize]
    }

    fn add(&mut self, phase: Phase, time: Duration) {
        self.spent[phase as usize] += time;
    }
}

/// Attributes time to phases, when asked to: reading the clock costs more than many a phase.
pub(crate) struct Stopwatch {
    last: Option<std::time::Instant>,
}

impl Stopwatch {
    pub(crate) fn new(on: bool) -> Self {
        Self { last: on.then(std::time::Instant::now) }
    }

    /// The time since the last lap was spent in `phase`.
    pub(crate) fn lap(&mut self, phase: Phase, profile: &mut Profile) {
        if let Some(last) = &mut self.last {
            let now = std::time::Instant::now();
            let nanos = u64::try_from(now.duration_since(*last).as_nanos()).unwrap_or(u64::MAX);
            profile.add(phase, Duration::from_nanos(nanos));
            *last = now;
        }
    }
}
