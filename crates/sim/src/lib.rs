//! Simulations: nodes on the fabrics of the papers, in virtual time.
//!
//! [`memory_fabric`] has accelerators around switches: SCIN, NVLS, and the software ring that both are compared with.

pub mod memory_fabric;
