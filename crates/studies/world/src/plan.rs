//! What is to happen in a run: the fabric, the jobs, the weather and the faults, as plain data. A seed becomes a plan
//! (`generate.rs`); a plan is written to a file and replayed; a plan that fails is made smaller (`shrink.rs`).

use quincunx_network::{FaultRates, Hold};
use quincunx_units::{ByteCount, Duration, Probability};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that decides a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Decides what the plan leaves open: latencies, fates of frames, contents of vectors.
    pub seed: u64,
    /// Hosts below each leaf switch.
    pub hosts: Vec<u16>,
    /// Switches above the leaves, each with a link to every leaf.
    pub spines: u16,
    /// Managers: one, or one that stands by for the other.
    pub managers: u16,
    /// What the managers keep groups in.
    pub store: StoreKind,
    /// What each switch has for buffers.
    pub memory: ByteCount,
    /// Who runs collectives.
    pub jobs: Vec<JobPlan>,
    /// What becomes of frames, at any time before the end of faults.
    pub weather: Weather,
    /// By how many millionths the clocks of machines are too fast, by name.
    pub clocks: BTreeMap<String, i32>,
    /// What happens when.
    pub faults: Vec<Fault>,
    /// From then on nothing happens any more, and all must be well again within a bound.
    pub calm_at: Duration,
    /// A rule that is broken on purpose, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<String>,
}

/// Where groups are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A file that is locked as long as its manager lives.
    File,
    /// A service with a lease, on a machine of its own.
    Lease,
}

/// A job: hosts that run rounds of collectives, each round in a group of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPlan {
    /// Whose it is.
    pub tenant: String,
    /// Its hosts, in rank order.
    pub hosts: Vec<u16>,
    /// What its groups ask for.
    pub design: String,
    /// The longest vector, in elements of four bytes.
    pub elements: u32,
    /// Collectives in a round.
    pub collectives: u64,
    /// The longest that all ranks compute between two of them.
    pub pause: Duration,
    /// The longest that one takes longer for that than another.
    pub think: Duration,
    /// The longest that it does something else between two rounds.
    pub rest: Duration,
    /// How long its groups live without a word of their owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Duration>,
    /// Keys of the design that its groups set, beside packets and windows, which are small for all jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Who calls something else in some of its groups, as a program with a mistake does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistake: Option<Mistake>,
}

/// A rank that calls something else than the others: once in a group, as long as faults happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistake {
    /// Who.
    pub rank: u16,
    /// In one of so many groups.
    pub one_in: u64,
    /// What its call differs in.
    pub differs_in: Difference,
}

/// What calls may differ in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The collective itself.
    Collective,
    /// The elements' type, of which each is as long.
    Type,
    /// How elements combine.
    Operation,
    /// The root.
    Root,
    /// How many elements there are.
    Length,
}

impl Difference {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Collective, Self::Type, Self::Operation, Self::Root, Self::Length];
}

/// Of a million frames as many as this befalls on their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weather {
    /// It is lost.
    pub loss: u32,
    /// It comes twice.
    pub copies: u32,
    /// It comes late.
    pub late: u32,
    /// A bit of it is turned.
    pub corruption: u32,
}

/// For how long a late frame is late: longer than a sender waits for an answer.
const LONGEST_HOLD: Duration = Duration::from_millis(30);

impl Weather {
    /// Whether it is never the reason for which a sender gives a neighbour up: eight packets in a row are lost once in 10^13 times.
    pub(crate) const fn is_fair(self) -> bool {
        self.loss + self.corruption + self.late < 20_000
    }

    /// As links have it.
    pub(crate) fn rates(self) -> FaultRates {
        let probability =
            |millionths: u32| Probability::new((f64::from(millionths) / 1e6).min(1.0)).unwrap_or_default();
        FaultRates {
            loss: probability(self.loss),
            duplication: probability(self.copies),
            reordering: probability(self.late),
            longest_hold: Hold::Time(LONGEST_HOLD),
        }
    }
}

/// Something that happens, and for how long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When.
    pub at: Duration,
    /// How long it lasts; of what dies, until it is started again.
    pub lasts: Duration,
    /// What.
    pub kind: FaultKind,
    /// What it waits for from then on: it comes at the moment, or right after it, and not at all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<Moment>,
}

/// Moments at which much is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The first rank has a result that the others of its group do not have yet.
    FirstResult,
    /// A switch has taken a group.
    Install,
    /// The first rank is done with its group.
    Release,
    /// A rank goes on in a group that was made anew.
    Anew,
    /// A manager begins to serve.
    Serves,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::FirstResult, Self::Install, Self::Release, Self::Anew, Self::Serves];
}

/// What happens. Machines go by their names: hosts `h0`, switches `s0`, managers `m0`, the store `e0`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The link between two machines is cut, both ways.
    Cut([String; 2]),
    /// Frames from the first to the second are lost, and nobody sees that the link is down.
    Deaf([String; 2]),
    /// The control network does not reach a machine.
    Isolate(String),
    /// What a machine says on the control network is lost; it hears all.
    Mute(String),
    /// Two machines do not hear each other on the control network; all others hear both.
    Part([String; 2]),
    /// A process is killed. Its connections end; what it had in memory is gone.
    Kill(String),
    /// A node runs the program of the version before, which is killed then; this version's is started in its place.
    Upgrade(String),
    /// A machine loses its power: nobody is told.
    PowerOff(String),
    /// A process is stopped, and goes on.
    Pause(String),
    /// The store does not take changes: it is full.
    FullStore,
    /// The store takes long to answer.
    SlowStore,
    /// The manager that serves is killed in the middle of the next change that it wants kept: the change is kept, or is not.
    TornWrite {
        /// Whether it is.
        kept: bool,
    },
    /// Whoever wants to sends frames to a machine that look right, and are nobody's.
    Stranger(String),
}

impl FaultKind {
    /// What kind of fault it is, for tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cut(_) => "cut",
            Self::Deaf(_) => "deaf",
            Self::Isolate(_) => "isolate",
            Self::Mute(_) => "mute",
            Self::Part(_) => "part",
            Self::Kill(_) => "kill",
            Self::Upgrade(_) => "upgrade",
            Self::PowerOff(_) => "power-off",
            Self::Pause(_) => "pause",
            Self::FullStore => "full-store",
            Self::SlowStore => "slow-store",
            Self::TornWrite { .. } => "torn-write",
            Self::Stranger(_) => "stranger",
        }
    }
}

impl Plan {
    /// How many hosts there are.
    pub fn hosts(&self) -> u16 {
        self.hosts.iter().sum()
    }

    /// The plan as a file has it.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }

    /// A plan from a file.
    ///
    /// # Errors
    /// One line, if it is none.
    pub fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| {
            format!(
                "expected a plan as `check cluster` writes it, found \"{error}\"; write a new one with --seed"
            )
        })
    }
}
