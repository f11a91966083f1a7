//! What is simulated: a fabric, how groups are set up on it, and one measurement.

use super::Framing;
use crate::traffic::Offered;
use quincunx_collective::{Collective, Reduction};
use quincunx_control::{Design, Retry};
use quincunx_driver_des::{PauseConfig, QueueConfig};
use quincunx_fabric::{LinkProperties, TreeShape};
use quincunx_ring::{DEFAULT_CHUNK, DEFAULT_WINDOW, Pace};
use quincunx_roce::RateConfig;
use quincunx_units::{BitRate, ByteCount, Duration, Probability};

/// How hosts and switches are joined.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fabric {
    /// A tree of switches with ranks at its leaves. Designs among hosts alone run over its switches too.
    Tree(TreeShape),
    /// So many ranks in a ring, each linked to the one before and the one after it; for the ring alone.
    Ring(u16),
}

/// How a collective that is several in a row runs: ReduceScatter and AllGather of EPIC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Composition {
    /// As the rank's library runs it: a rank begins the next part when it has finished its own.
    Pipelined,
    /// All ranks begin the next part when all have finished and nothing is on its way any more.
    Stepwise,
}

/// Whose end ends a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    /// The last rank's.
    AllRanks,
    /// The last rank's of those that receive a result.
    Receivers,
}

/// Loss on the links of the first ranks, both ways.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossyLinks {
    /// How many links lose frames: those of ranks 0, 1, ...; on a ring those from these ranks to the next.
    pub links: u16,
    /// A frame is lost with this probability.
    pub loss: Probability,
}

/// How collectives among hosts alone are cut into messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostPieces {
    /// The longest message.
    pub chunk: ByteCount,
    /// Messages that may be on their way to a peer.
    pub window: u16,
    /// When they go out.
    pub pace: Pace,
}

/// Traffic of others on the links of the first ranks, both ways.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Background {
    /// On how many links: those of ranks 0, 1, ...; on a ring those from these ranks to the next.
    pub links: u16,
    /// What it takes of each link's rate.
    pub rate: BitRate,
}

/// What there is of congestion, and what is done about it: nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Congestion {
    /// How each link's queue treats frames.
    pub queue: QueueConfig,
    /// Traffic of others.
    pub background: Option<Background>,
    /// How the ranks' queue pairs react to marks; they neither allow nor notice them if it is not said.
    pub control: Option<RateConfig>,
    /// When switches pause who sends to them.
    pub pause: Option<PauseConfig>,
}

/// A fabric and how groups are set up on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// How nodes are joined.
    pub fabric: Fabric,
    /// What each link can do, each way.
    pub link: LinkProperties,
    /// What a frame takes on a link beside its payload.
    pub framing: Framing,
    /// Bytes of payload in a full packet: U in EPIC's table 2.
    pub mtu: ByteCount,
    /// Packets in a message: M.
    pub message: u32,
    /// Messages that a rank may have outstanding: W.
    pub window: u32,
    /// Packets between two that ask for an acknowledge.
    pub acknowledge_every: u32,
    /// When senders send again, and when they give up.
    pub retry: Retry,
    /// Send again what is missing and nothing else; otherwise everything from there on.
    pub selective: bool,
    /// Mode-III: packets in each of a switch's pipes, N; a rank's window if it is not said.
    pub slots: Option<u32>,
    /// Mode-III: switches acknowledge at once and ranks count acknowledges alone, so that fast ranks run ahead of slow ones.
    pub run_ahead: bool,
    /// Mode-III: a switch answers what lies ahead of its range, so that the sender slows down.
    pub synchronize_rates: bool,
    /// Whether numbers are combined in rank order.
    pub reproducible: bool,
    /// How collectives among hosts alone are cut.
    pub hosts: HostPieces,
    /// How a collective that is several in a row runs.
    pub composition: Composition,
    /// Whose end ends a measurement.
    pub counted: Counted,
    /// Links that lose frames.
    pub lossy: Option<LossyLinks>,
    /// Congestion.
    pub congestion: Congestion,
    /// What the hosts send to each other beside the collective, packet by packet; for fabrics with switches.
    pub traffic: Option<Offered>,
    /// Virtual time that a collective may take.
    pub limit: Duration,
}

/// What memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contents {
    /// Nothing: only lengths. For large runs.
    LengthOnly,
    /// Numbers, and every result is held against the reference.
    Numbers,
}

impl Contents {
    /// The longest vector that holds numbers unless somebody says otherwise.
    const CHECKED: ByteCount = ByteCount::new(1 << 20);

    /// Numbers, and so a checked result, for vectors of up to 1 MiB; lengths alone for longer ones.
    pub fn for_size(size: ByteCount) -> Self {
        if size <= Self::CHECKED { Self::Numbers } else { Self::LengthOnly }
    }
}

/// One measurement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Case {
    /// How the collective is carried out.
    pub design: Design,
    /// Which.
    pub collective: Collective,
    /// How elements combine, and what an element is.
    pub reduction: Reduction,
    /// Bytes as nccl-tests count them: of a rank's vector; of the whole for ReduceScatter and AllGather.
    pub size: ByteCount,
    /// What memory holds.
    pub contents: Contents,
    /// Decides all that chance decides.
    pub seed: u64,
}

impl Default for HostPieces {
    /// As ranks on real networks do it.
    fn default() -> Self {
        Self { chunk: DEFAULT_CHUNK, window: DEFAULT_WINDOW, pace: Pace::Eager }
    }
}

impl Fabric {
    /// Ranks on it.
    pub fn ranks(&self) -> u16 {
        match self {
            Self::Tree(shape) => shape.ranks(),
            Self::Ring(ranks) => *ranks,
        }
    }
}

impl Setup {
    /// EPIC's packet simulation (appendix K.2): eight ranks at a switch, links of 100 Gbit/s and 1 us.
    ///
    /// What the paper does not say, and what tells it, once for all of its tables:
    /// - a frame takes 73 bytes beside its payload, an ACK 73 bytes: 91.50 of 93.13 Gibit/s is left where nothing but data
    ///   of 4 KiB flows, 89.92 where each packet is acknowledged beside it (tables 25, 26, 28 at 1 GB);
    /// - each packet is acknowledged: the same figures;
    /// - 512 packets may be outstanding, in messages of 16, more than any path holds here: nothing waits for a window in the
    ///   tables (88.78 Gibit/s at 1 MB is line rate from the first packet on);
    /// - a measurement ends when all have what they are to receive, and their own packets are acknowledged: Broadcast takes
    ///   as long in Mode-II, whose sender learns of it two hops later, as in Mode-III (tables 26, 28), and Barrier in
    ///   Mode-II two hops longer (table 30);
    /// - AllGather runs part after part, each begun when all is over: 34 us at 4 KB is eight Broadcasts, with the way back
    ///   of the last ACK between them (table 29);
    /// - the ring goes in lockstep, a step begun when the one before is acknowledged: an AllGather of 4 KB takes 16 us,
    ///   which is seven times a packet and its ACK (table 29);
    /// - what is missing is sent again and nothing else, 10 us after it was sent in vain, or 5 us after it was asked for in
    ///   vain: a lost packet costs Mode-III the time of one packet (table 31). Up to 10 % loss both modes are as published;
    ///   the collapse of the paper's Mode-II beyond that (to 39 Gibit/s at 15 %, ours keeps 56) is of its simulator;
    /// - pieces of the ring are of 128 KiB: Reduce and Broadcast overlap from 256 KB on, and then as pieces of that size do
    ///   (tables 26, 28).
    pub fn epic_star8() -> Self {
        Self {
            fabric: Fabric::Tree(TreeShape::star(8).expect("eight is a number of ranks")),
            link: LinkProperties {
                rate: BitRate::new(100_000_000_000).expect("above zero"),
                latency: Duration::from_micros(1),
            },
            framing: Framing::Fixed(ByteCount::new(73)),
            mtu: ByteCount::new(4096),
            message: 16,
            window: 32,
            acknowledge_every: 1,
            retry: Retry { timeout: Duration::from_micros(10), count: 200 },
            selective: true,
            slots: None,
            run_ahead: false,
            synchronize_rates: true,
            reproducible: false,
            hosts: HostPieces {
                chunk: ByteCount::new(128 << 10),
                window: DEFAULT_WINDOW,
                pace: Pace::Lockstep,
            },
            composition: Composition::Stepwise,
            counted: Counted::Receivers,
            lossy: None,
            congestion: Congestion::default(),
            traffic: None,
            limit: Duration::from_secs(10),
        }
    }

    /// The same for the ring: "8 ranks form a ring topology".
    pub fn epic_ring8() -> Self {
        Self { fabric: Fabric::Ring(8), ..Self::epic_star8() }
    }
}
