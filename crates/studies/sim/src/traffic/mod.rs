//! Synthetic traffic, as networks are judged by: every host sends packets at times and to hosts that chance decides, whatever
//! the network does (open loop). On its own it holds a fabric against queueing theory and against other simulators; behind a
//! collective it is what the others on the same network do.
//!
//! [`Offered`] says how much of it there is and where it goes; [`measure_traffic`] runs it on either kind of fabric.

mod generator;
mod measure;
mod meter;
mod source;

pub(crate) use generator::{Arrival, Generator, Population};
pub use measure::{
    TrafficError, TrafficMeasurement, TrafficRequest, measure_traffic, measure_traffic_with_outputs,
};
pub(crate) use meter::Meter;
pub use quincunx_scenario::{Load, LoadError, Offered, OfferedError, Pattern, PatternError};
pub(crate) use source::{Carrier, Carrying, Metered, Source};
