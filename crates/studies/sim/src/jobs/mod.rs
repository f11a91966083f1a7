//! Several collectives at once on one fabric, each in a group of its own, and traffic beside them.
//!
//! A [`JobsRequest`] is a scenario and a file of [`Jobs`](quincunx_scenario::Jobs). Groups are made before anything runs, in the order of
//! the file, by the manager's own code (`quincunx-cluster`): who gets a tree of switches keeps to its links, who gets none runs among its
//! hosts, and what hosts send each other takes all ways of equal cost, flow by flow. [`measure_jobs`] then runs all jobs, each from its
//! time on, and holds every result against the reference. On a memory fabric each job has all accelerators, and runs as a stream beside the others.

mod error;
mod measure;
mod memory;
mod observer;
mod prepare;
mod run;
mod streams;

pub use error::JobsError;
pub use measure::{JobMeasurement, JobsMeasurement, SharedLink, StreamMeasurement};
pub use prepare::JobsRequest;
pub use run::{measure_jobs, measure_jobs_with_outputs};
