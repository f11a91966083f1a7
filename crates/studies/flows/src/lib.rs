//! Clusters of jobs by flows (EPIC 7.5, L): jobs compute, their groups communicate, links are shared max-min fairly, and switches go to groups by
//! the policies of the manager, with its map and its books of switches' memory.
//!
//! [`Cluster`] is the network, [`measure_tenancy`] a run of all jobs under one policy.

mod cost;
mod fabric;
mod grants;
mod job;
mod measured;
mod outages;
mod placement;
mod run;
mod sizes;
mod usage;
mod ways;

pub use fabric::{Cluster, ClusterError};
pub use grants::Admissions;
pub use measured::{Failed, JobOutcome, TenancyMeasurement};
pub use run::{Stopped, TenancyError, TenancyRequest, measure_tenancy};
pub use usage::{Held, PARTS, Usage, Used};
