//! What is simulated: a fabric, how groups are set up on it, and one measurement.

use super::{Design, Framing};
use crate::traffic::Offered;
use quincunx_collective::{Collective, Reduction};
use quincunx_control::Retry;
use quincunx_driver_des::{PauseConfig, QueueConfig};
use quincunx_fabric::{LinkProperties, TreeShape};
use quincunx_multiwrite::RelayCost;
use quincunx_ring::{DEFAULT_CHUNK, DEFAULT_WINDOW, Pace};
use quincunx_roce::RateConfig;
use quincunx_scenario::{self as scenario, ScenarioError};
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
    /// What relaying a message takes a host.
    pub relay: RelayCost,
    /// The longest input of a rank: what hosts that relay keep buffers for.
    pub longest: ByteCount,
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

    /// Numbers, and so a checked result, for vectors of up to 1 MiB, or where all ranks' tokens are no more; lengths alone for longer ones.
    pub fn on(fabric: &scenario::Fabric, size: ByteCount) -> Self {
        match fabric {
            scenario::Fabric::Servers(servers) => {
                Self::for_size(ByteCount::new(servers.batch().bytes() * u64::from(servers.ranks())))
            }
            _ => Self::for_size(size),
        }
    }

    /// The same, for a vector.
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
    /// The fabric of a preset, or of a shape on the links of one: `epic-star8`, `tree-3-2`, `ring-8`. Files of presets say what the
    /// papers give, and where what they do not give comes from.
    ///
    /// # Errors
    /// If there is none of that name, or it is of another kind.
    pub fn preset(name: &str) -> Result<Self, ScenarioError> {
        match scenario::Fabric::find(name, &[])? {
            scenario::Fabric::Packet(fabric) => Ok(Self::from(&fabric)),
            _ => Err(ScenarioError::Contradiction {
                place: name.into(),
                expected: "a packet fabric".into(),
                found: "another kind".into(),
                remedy: "name another, such as epic-star8".into(),
            }),
        }
    }
}
