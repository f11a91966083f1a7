//! Simulations: nodes on the fabrics of the papers, in virtual time.
//!
//! [`packet_fabric`] has hosts and Ethernet switches: EPIC, and the collectives among hosts that it is compared with.
//! [`memory_fabric`] has accelerators around switches: SCIN, NVLS, and the software ring that both are compared with.
//! [`measure`] runs a scenario, as files and the command line write it, on either, and [`choose`] says which design is the fastest; [`reproduce`] holds published figures
//! against it. [`traffic`] has no collective, or goes on beside one.

mod choice;
mod closed_forms;
mod designs;
mod gathering;
pub mod memory_fabric;
mod outputs;
pub mod packet_fabric;
mod progress;
mod reproduce;
mod scenario;
mod sweep;
pub mod traffic;

pub use choice::{Candidate, Choice, NoChoice, choose};
pub use closed_forms::FormulaError;
pub use designs::Designs;
pub use outputs::{Out, Outputs};
pub use packet_fabric::Contents;
pub use progress::{Progress, Watch, unwatched};
pub use reproduce::{ReproduceError, Reproduced, Verdict, reproduce, runs_of};
pub use scenario::{LinkLoad, MeasureError, Measurement, Request, measure};
pub use sweep::sweep;
