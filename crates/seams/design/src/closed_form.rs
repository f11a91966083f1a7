//! Closed forms that papers publish of their designs: what a simulation is held against where a figure is a formula. As printed; where a
//! simulation finds another count, the experiment says so.

use crate::{Refusal, Settings};
use quincunx_fabric::{IncTree, LinkProperties};
use quincunx_units::{ByteCount, Probability};
use serde::Deserialize;

/// What a closed form gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClosedForm {
    /// How long an AllReduce takes, in microseconds.
    Latency,
    /// What the buffers of the switch with most of them take, in bytes.
    SwitchMemory,
    /// What share of the throughput is left where frames are lost.
    LossTolerance,
}

/// What a closed form is evaluated for, beside the design's parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Premises<'a> {
    /// The tree of switches.
    pub tree: &'a IncTree,
    /// Every link.
    pub link: LinkProperties,
    /// Of a rank's vector.
    pub size: ByteCount,
    /// Of a frame on a link.
    pub loss: Probability,
}

/// The closed forms of a design's paper.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The design's name.
    pub design: &'static str,
    /// What a form gives for its parameters.
    ///
    /// # Errors
    /// If the values make no sense.
    pub value: fn(ClosedForm, &Settings, &Premises<'_>) -> Result<f64, Refusal>,
}
