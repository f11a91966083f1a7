//! Simulations: nodes on the fabrics of the papers, in virtual time.
//!
//! [`packet_fabric`] has hosts and Ethernet switches: EPIC, and the collectives among hosts that it is compared with.
//! [`memory_fabric`] has accelerators around switches: SCIN, NVLS, and the software ring that both are compared with.

pub mod memory_fabric;
pub mod packet_fabric;
