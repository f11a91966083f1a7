//! Simulation by flows: what moves data is a rate on links, not a packet. Flows share each link max-min fairly (waterfilling, EPIC L.1; Bertsekas
//! and Gallager, Data Networks, 6.5.2), and nothing happens between the beginning or end of one and the next.
//!
//! A flow may lead over many links at once, as a collective does: all of it goes on at one rate, and each link carries so many bits for each
//! of its bits. The driver knows no fabric, no group and no job: whoever starts flows and timers hears of their ends.

mod rates;
mod simulation;

pub use rates::Load;
pub use simulation::{Due, FlowId, FlowSimulation};

/// One direction of a link, numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);
