//! What to simulate, as one typed schema: fabrics (presets and files), overrides of single keys, and experiments, which hold
//! a published figure against ours. The command line, experiments and tests all read it, so that one name means one thing
//! everywhere and an unknown key is an error that names the key.
//!
//! Nothing here runs anything: see `quincunx-sim`.

mod congestion;
mod document;
mod error;
mod experiment;
mod fabric;
mod gate;
mod memory_mesh;
mod mesh;
mod servers;
mod text;

pub use congestion::{CongestionSetup, PauseSetup};
pub use document::{Document, Override};
pub use error::ScenarioError;
pub use experiment::{Bound, Experiment, Formula, Point, Quantity, Series, Tolerance};
pub use fabric::{
    AcceleratorSetup, Fabric, GroupSetup, HostPieces, HostRelay, IsaSetup, Loss, Measure, MemoryFabric,
    MemoryLink, MemoryMeasure, PacketFabric, PacketLink, TopologyName,
};
pub use gate::{GateSource, Written};
pub use memory_mesh::MemoryMeshFabric;
pub use mesh::{MeshFabric, RelaySetup};
pub use servers::{NetworkLink, RelayTime, ServersFabric};
