//! What designs share whose switches add up integers, packet by packet, and whose packets are datagrams (SwitchML, ATP).
//!
//! An [`IntegerVector`] is one collective's vector: which bytes are in which packet, as which integers, and what the sum of them means.
//! [`Outstanding`] knows which packets have no result yet, and when they are to be sent again. Neither sends anything, nor knows a header.
#![no_std]
extern crate alloc;

mod cut;
mod outstanding;
mod vector;

pub use outstanding::Outstanding;
pub use vector::{IntegerVector, VectorConfig};
