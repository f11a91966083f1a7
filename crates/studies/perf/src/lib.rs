//! `quincunx perf` and `quincunx demo`: a manager, switches and ranks as processes of their own, on loopback addresses or
//! in network namespaces with limited links; every collective timed, every result checked.
//!
//! - [`Plan`] says what to run; [`Processes`](launch::Processes) starts the processes and [`run`] collects what the ranks measure.
//! - [`work`] is what a rank process does.
//! - [`Row`] is a line of the result, in the columns of nccl-tests.

mod certificates;
mod error;
mod groups;
mod job;
pub mod launch;
mod library;
mod measured;
mod plan;
mod printed;
mod processor;
mod row;
mod run;
mod switched;
mod task;
mod tokens;
mod worker;

pub use error::WorkerError;
pub use measured::{Measured, Split, Ways};
pub use plan::{Case, GroupsSetup, Plan, RealLinks, TokenCase};
pub use printed::Printed;
pub use row::{FellBack, Row};
pub use run::{PerfError, run, run_by_framing};
pub use task::{Exchange, Task};
pub use worker::work;
