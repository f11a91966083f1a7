//! What a run measures. It travels to rank processes as one line of JSON.

use quincunx_design::Settings;
use quincunx_fabric::{Shape, ShapeError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What groups run on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Ranks of every group.
    pub ranks: u16,
    /// Switches that must be there before a group is made.
    pub switches: usize,
    /// The tree of switches or the mesh, by name.
    pub tree: String,
    /// How long one collective may take, in seconds.
    pub limit_seconds: u64,
    /// By design: the values of its parameters, as a line of JSON.
    pub settings: BTreeMap<String, String>,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Design by name. Consecutive cases of one design share a group.
    pub design: String,
    /// Collective by name.
    pub collective: String,
    /// The root, where there is one.
    pub root: u16,
    /// Bytes: of a rank's vector; for ReduceScatter and AllGather of the whole, over all ranks (as nccl-tests count).
    pub bytes: u64,
    /// Data type by name.
    pub data_type: String,
    /// Operation by name.
    pub op: String,
    /// Timed repetitions.
    pub iterations: u32,
    /// Repetitions before them; the first is checked.
    pub warm_up: u32,
}

/// All of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How groups are set up.
    pub setup: Setup,
    /// What is measured, in order.
    pub cases: Vec<Case>,
}

impl Setup {
    /// The tree or the mesh.
    ///
    /// # Errors
    /// If its name says nothing, or something of another size.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        Shape::for_ranks(&self.tree, self.ranks)
    }

    /// The values of a design's parameters.
    ///
    /// # Errors
    /// If they are none.
    pub fn settings(&self, design: &str) -> Result<Settings, quincunx_design::Refusal> {
        Settings::parse(self.settings.get(design).map_or("", String::as_str))
    }

    /// Messages in flight that serve well: W.
    pub const WINDOW: u32 = 4;

    /// Bytes of payload in a full packet that links of `mtu` bytes carry.
    pub fn payload_for(mtu: u16) -> u64 {
        // Both are path MTUs of RoCE. IPv4, UDP, BTH, RETH, immediate and ICRC add up to 64 bytes.
        if mtu < 4096 + 64 { 1024 } else { 4096 }
    }

    /// Packets of `payload` bytes in a message that serve well: as many as one merged datagram holds, headers included,
    /// so that a message passes each system call whole.
    pub fn message_for(payload: u64) -> u32 {
        // The largest UDP datagram; BTH and ICRC.
        (65_507 / (payload + 16)).clamp(1, 64) as u32
    }
}

impl Case {
    /// Repetitions that take about as long at every size.
    pub fn iterations_for(bytes: u64) -> u32 {
        ((128 << 20) / bytes.max(1)).clamp(5, 400) as u32
    }
}
