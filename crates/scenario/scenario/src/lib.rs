//! What to run, as one typed schema: fabric, settings of designs, workload, faults and measurement. Presets and files, overrides of single
//! keys, and experiments, which hold a published figure against ours. The command line, experiments and tests all read it, so that one
//! name means one thing everywhere and an unknown key is an error that names the key.
//!
//! Which designs there are, whoever starts a program says with a [`Catalog`](quincunx_design::Catalog): a key that is none of the
//! fabric's, the workload's, the faults' or the measurement's is a parameter of one of them.
//!
//! Nothing here runs anything: see `quincunx-cluster` and `quincunx-sim`.

mod document;
mod driver;
mod error;
mod experiment;
mod fabric;
mod faults;
mod gate;
mod gpu;
mod honoured;
mod hosts;
mod jobs;
mod keys;
mod layer;
mod listed;
mod machine;
mod measure;
mod network;
mod offered;
mod placement;
mod read;
mod scenario;
mod tenancy;
mod text;
mod topology;
mod training;
mod workload;

pub use document::{Document, Override, syntax};
pub use driver::{Driver, Part, Simulator};
pub use error::ScenarioError;
pub use experiment::{
    Bound, Elsewhere, Experiment, FigureKind, Found, Pick, Point, Quantity, Reason, Series, Tolerance,
};
pub use fabric::{
    AcceleratorSetup, Fabric, MemoryFabric, MemoryLink, MemoryMeshFabric, MeshFabric, NetworkLink,
    ServersFabric,
};
pub use faults::{CongestionSetup, Faults, Loss, PauseSetup};
pub use gate::{GateSource, Written};
pub use gpu::{DataSheet, GpuModel};
pub use hosts::{HostList, HostListError};
pub use jobs::{Amount, Ends, JobSetup, Jobs, TrafficSetup};
pub use keys::Key;
pub use layer::LayerWorkload;
pub use listed::PacketFabric;
pub use machine::MachineSetup;
pub use measure::Measure;
pub use network::NetworkName;
pub use offered::{Load, LoadError, Offered, OfferedError, Pattern, PatternError};
pub use placement::{RankPlacement, RankPlacementError};
pub use read::read_text;
pub use scenario::Scenario;
pub use tenancy::{
    Failures, JobPlacement, JobTrace, LanguageModel, Routing, ScaleUp, SizeShare, Slots, Tenancy,
    TenancyLink, TenancyPolicy, TrainingJob, Volume,
};
pub use topology::{NodeDelays, PacketLink, TopologyName};
pub use training::{Gpu, Training};
pub use workload::TokenBatch;
