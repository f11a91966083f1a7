//! What can happen to a frame between two nodes. All drivers use these types and none of their own, so that a fault that one
//! driver has found can be handed to another.
//!
//! - [`Fate`]: what becomes of one frame.
//! - [`FaultPlan`]: the fates of the frames of one direction of a link, by probability and by list.
//! - [`Injector`]: a plan with a seed. The n-th frame of a direction has the same fate in every run of that seed, whatever
//!   happens on other links.
//! - [`FaultList`]: all faults of one run: the fates of frames on every direction, and when timers fire. A counterexample of the
//!   checker is such a list; `driver-des` and `driver-net` replay it.
//! - [`OrderingClass`]: which frames of a direction keep their order among each other.
//!
//! A driver that cannot do what a fate asks for refuses the plan; it never does something else instead.
#![no_std]
extern crate alloc;

mod fate;
mod injector;
mod list;
mod ordering;
mod plan;

pub use fate::{Delay, Fate};
pub use injector::Injector;
pub use list::{FaultList, Firing, LinkDirection};
pub use ordering::{OrderingClass, UnsupportedClass};
pub use plan::{FaultPlan, FaultRates, Hold};
