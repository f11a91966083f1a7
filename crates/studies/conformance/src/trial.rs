//! What is run: a collective of a group as a small scenario has it, and the frames that are lost or doubled.

use core::convert::Infallible;

use quincunx_cluster::{Cluster, GroupSpec, NodeIndex, Wiring};
use quincunx_collective::{Collective, DataType, Rank, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Assignment, Catalog, Demand, Settings, Value};
use quincunx_engine::verbs::UNLIMITED_RETRIES;
use quincunx_fabric::{IncTree, Shape};
use quincunx_network::{Fate, FaultList, LinkDirection};
use quincunx_scenario::{Driver, Fabric, Part, Scenario, ScenarioError};
use quincunx_units::ByteCount;
use quincunx_wire::{Gid, Psn};

use crate::RunError;

/// What becomes of frames on the way from one node to another one that it is connected with, counted from 0 in the order in which
/// they are sent. Nodes have the names of the wiring. No timer is made to fire.
pub type Faults = FaultList<String, Infallible>;

/// Drivers side by side, as a driver of scenarios: what it can honour all of them can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SideBySide;

impl Driver for SideBySide {
    fn name(&self) -> &'static str {
        "trials"
    }

    /// Packets of 32 bytes, one on its way at most; no time-outs.
    fn base(&self, _: &Fabric, _: &[Assignment]) -> Vec<Assignment> {
        vec![
            assignment("group.mtu", "32B"),
            assignment("group.message", 1),
            assignment("group.window", 1),
            assignment("group.retry_timeout", NEVER),
            assignment("group.retry_count", UNLIMITED_RETRIES),
            assignment("group.reproducible", true),
        ]
    }

    /// Who keeps the packets and time-outs of its own has those here, too.
    fn base_of(&self, design: &dyn AnyDesign, fabric: &Fabric) -> Vec<Assignment> {
        let mut keys = self.base(fabric, &[]);
        keys.retain(|(key, _)| {
            design.about().sends_datagrams && design.about().pinned_keys.contains(&key.as_str())
        });
        keys
    }

    /// Links are those of the driver, and faults are listed frame by frame.
    fn honours(&self, _: Part) -> bool {
        false
    }
}

/// The scenario of that name: `star-4`, `tree-2x2`, `ring-4`, `mesh-2x2`, `servers-2x2`, a preset or a file.
///
/// # Errors
/// If there is none, or it has what only some of the drivers can honour.
pub fn scenario(name: &str, catalog: Catalog) -> Result<Scenario, ScenarioError> {
    Scenario::find_for(&SideBySide, name, &[], catalog)
}

/// One collective of one group; a Combine has the Dispatch before it that it needs.
#[derive(Clone, Debug)]
pub struct Trial {
    /// How it is carried out.
    pub design: &'static dyn AnyDesign,
    /// Where, and with which parameters.
    pub scenario: Scenario,
    /// Which collective.
    pub collective: Collective,
    /// How elements combine.
    pub reduction: Reduction,
    /// Bytes that a rank brings in, or gets of a ReduceScatter: whole elements. Of tokens, all of a rank.
    pub length: usize,
    /// Decides the ranks' data.
    pub seed: u64,
    /// What is lost or doubled.
    pub faults: Faults,
}

/// A time-out that no run reaches.
const NEVER: &str = "1000s";

/// A time-out that repairs what is lost: more than an answer takes, mostly; and no run waits for long.
const SOON: &str = "50ms";

/// Tokens of a rank, for collectives that are routed.
pub(crate) const TOKENS: usize = 2;

/// PSNs wrap on the way.
const FIRST_PSN: Psn = Psn::new(0xff_fffc);

fn assignment(key: &str, value: impl Into<Value>) -> Assignment {
    (key.to_owned(), value.into())
}

fn between(from: &str, to: &str) -> LinkDirection<String> {
    LinkDirection::Between(from.to_owned(), to.to_owned())
}

/// An address of this process alone, so that what runs beside it does not interfere.
fn address(node: NodeIndex) -> Gid {
    let [.., high, low] = std::process::id().to_be_bytes();
    Gid::from([127, high, low, 1 + node as u8])
}

impl Trial {
    /// The sum of floating-point numbers, ten packets and a half of them if they are of 32 bytes; nothing lost.
    pub fn new(design: &'static dyn AnyDesign, scenario: Scenario, collective: Collective) -> Self {
        Self {
            design,
            scenario,
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            length: 10 * 32 + 16,
            seed: 1,
            faults: Faults::default(),
        }
    }

    /// The same with another value of a parameter that the design has.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.scenario.set(key, value.into());
        self
    }

    /// The same with another value of a parameter, if the design has it.
    pub fn with_if_known(self, key: &str, value: impl Into<Value>) -> Self {
        if self.design.defaults().has(key) { self.with(key, value) } else { self }
    }

    /// The same in messages of `message` packets, of which `window` may be on their way.
    pub fn windowed(self, message: u32, window: u32) -> Self {
        self.with("group.message", message).with("group.window", window)
    }

    /// The same with time-outs that are reached.
    pub fn with_time_outs(self) -> Self {
        self.with("group.retry_timeout", SOON)
    }

    /// The same of whole numbers, whose sum does not depend on the order.
    pub fn of_integers(mut self) -> Self {
        self.reduction.data_type = DataType::I32;
        self
    }

    /// The same with vectors of another length.
    pub fn of_length(self, length: usize) -> Self {
        Self { length, ..self }
    }

    /// The same with these frames lost on the way from one node to another.
    pub fn losing(mut self, from: &str, to: &str, frames: &[u64]) -> Self {
        for &frame in frames {
            self.faults.set_fate(between(from, to), frame, Fate::Lost);
        }
        self
    }

    /// The same with this frame doubled on the way from one node to another.
    pub fn doubling(mut self, from: &str, to: &str, frame: u64) -> Self {
        self.faults.set_fate(between(from, to), frame, Fate::DUPLICATED);
        self
    }

    /// Whether anything is lost or doubled.
    pub fn has_faults(&self) -> bool {
        !self.faults.fates.is_empty()
    }

    /// The values of the design's parameters.
    ///
    /// # Errors
    /// If it does not have one, or refuses a value.
    pub fn values(&self) -> Result<Settings, ScenarioError> {
        let design = self.design;
        self.scenario.refuse_unused(&[design])?;
        self.scenario.settings(design)
    }

    /// Whether ranks are combined in an order that the fabric sets.
    pub(crate) fn is_reproducible(&self) -> bool {
        let values = self.values().ok();
        values.is_some_and(|values| values.value("group.reproducible") == Some(&Value::Bool(true)))
    }

    /// Bytes of a token.
    pub(crate) fn token(&self) -> usize {
        self.length / TOKENS
    }

    /// The group, planned by its design.
    ///
    /// # Errors
    /// If the design refuses its parameters or the fabric, or faults are named between nodes that are not connected.
    pub fn cluster(&self) -> Result<Cluster, RunError> {
        let demand = if self.collective.is_routed() {
            Demand::Tokens { most: TOKENS as u32, length: ByteCount::new(self.token() as u64) }
        } else {
            Demand::Vectors { longest: ByteCount::new(self.longest() as u64) }
        };
        let wiring = Wiring::of(&self.scenario.fabric).expect("designs above queue pairs run among hosts");
        let group =
            GroupSpec { initial_psn: FIRST_PSN, ..GroupSpec::new(self.design, self.values()?, demand) };
        let cluster = Cluster::new(wiring, address, &group)?;
        for direction in self.faults.fates.keys() {
            ends(&cluster, direction)?;
        }
        Ok(cluster)
    }

    /// Whether a parameter was set.
    pub fn sets(&self, key: &str) -> bool {
        self.scenario.changed().any(|changed| changed == key)
    }

    /// How many ranks gather together: those of a domain.
    pub(crate) fn members(&self) -> usize {
        let domains = match &self.scenario.fabric {
            Fabric::Servers(fabric) => fabric.servers,
            fabric => fabric.domains(),
        };
        usize::from(self.scenario.ranks() / domains)
    }

    /// The switches as a tree, if they are one.
    pub(crate) fn tree(&self) -> Option<IncTree> {
        match self.scenario.fabric.shape() {
            Some(Shape::Tree(shape)) => Some(IncTree::from_shape(&shape)),
            _ => None,
        }
    }

    /// Bytes of the longest input.
    fn longest(&self) -> usize {
        match self.collective {
            Collective::ReduceScatter => self.length * usize::from(self.scenario.ranks()),
            _ => self.length,
        }
    }

    /// The tokens' ranks, by token: of each rank the first goes to the next rank, the second to all.
    pub(crate) fn routes(&self, rank: Rank) -> impl Iterator<Item = Vec<Rank>> {
        let ranks = self.scenario.ranks();
        let destinations = move |token| match token {
            0 => vec![Rank((rank.0 + 1) % ranks)],
            _ => (0..ranks).map(Rank).collect(),
        };
        (0..TOKENS).map(destinations)
    }
}

/// The nodes that a fault lies between: they have a connection.
pub(crate) fn ends(cluster: &Cluster, direction: &LinkDirection<String>) -> Result<[NodeIndex; 2], RunError> {
    let LinkDirection::Between(from, to) = direction else {
        return Err(RunError::Port { found: format!("{direction:?}") });
    };
    let position =
        |name: &str| cluster.wiring().find(name).ok_or_else(|| RunError::NoNode { found: name.to_owned() });
    let ends = [position(from)?, position(to)?];
    let connections = cluster.context(ends[0]).map_or(&[][..], |context| &context.connections);
    if connections.iter().any(|connection| cluster.node_of(&connection.peer) == ends[1]) {
        Ok(ends)
    } else {
        Err(RunError::NoConnection { from: from.clone(), to: to.clone() })
    }
}
