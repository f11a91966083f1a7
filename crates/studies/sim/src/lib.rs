//! Simulations: nodes on the fabrics of the papers, in virtual time.
//!
//! [`packet_fabric`] has hosts and Ethernet switches: designs in the network, and the collectives among hosts that they are compared with.
//! [`memory_fabric`] has accelerators around switches, or joined each with each, that write to each other's memory.
//! [`measure`] runs a [`Request`], which is a scenario, a design and a collective, on either, and [`choose`] says which design is the
//! fastest; [`measure_jobs`] runs several at once; [`reproduce`](reproduce()) holds published figures against it. [`traffic`] has no collective, or goes on beside one;
//! [`measure_training`] lays many collectives beside computation, [`measure_traces`] those of Chakra's traces, and [`Question`] those of a language
//! model's step.

mod choice;
mod curves;
mod jobs;
mod known;
pub mod layer;
mod measure;
mod measurement;
pub mod memory_fabric;
mod outputs;
pub mod packet_fabric;
mod prediction;
mod progress;
mod reproduce;
mod request;
mod session;
mod sweep;
mod times;
mod traces;
pub mod traffic;
mod training;
mod training_trace;

pub use choice::{Candidate, Choice, NoChoice, choose};
pub use curves::{Curve, CurvePoint, Summary};
pub use jobs::{
    JobMeasurement, JobsError, JobsMeasurement, JobsRequest, SharedLink, StreamMeasurement, measure_jobs,
    measure_jobs_with_outputs,
};
pub use known::KnownTimes;
pub use measure::measure;
pub use measurement::{LinkLoad, MeasureError, Measurement};
pub use outputs::{Out, Outputs};
pub use prediction::{
    AUTO, Doubt, Prediction, PredictionError, Question, Saved, Stretch, SwitchNeeds, Worth,
};
pub use progress::{Progress, ProgressFn, ignore_progress};
pub use reproduce::{ReproduceError, Reproduced, Verdict, reproduce, reproduce_curves, runs_of};
pub use request::{Contents, Request};
pub use session::Interrupted;
pub use sweep::sweep;
pub use traces::{TracesError, TracesMeasurement, TracesRequest, measure_traces};
pub use training::{TrainingError, TrainingMeasurement, measure_training};
pub use training_trace::training_trace;
