//! Queue pairs that are not ours: those of an RDMA NIC, or of the Linux kernel's software RoCE, by way of libibverbs (EPIC 3.2: hosts
//! with standard RDMA verbs).
//!
//! A [`Device`] has queue pairs with numbers that the hardware has chosen. Its owner [connects](Device::connect) one, posts work in the
//! words of [`quincunx_engine::verbs`], and [polls](Device::poll) for what has ended. PSNs are set once, when the queue pair is brought up;
//! nothing here can skip any. Messages travel through registered buffers of the device's own: they are copied once on each side, so that no
//! memory is shared between a NIC and Rust.
//!
//! libibverbs is loaded when a device is opened: a program with this in it runs where there is none. Bindings that exist (`ibverbs`,
//! `rdma-sys`, `rdma-mummy-sys` below `sideway`) want libclang and headers, or all of rdma-core, where they are built; the dozen calls that
//! a reliable connection takes are in `sys.rs`, what is shared with them in `abi.rs`.
#![cfg(target_os = "linux")]

mod abi;
mod arena;
mod device;
mod error;
mod sys;

pub use device::{Connection, Device, Ended};
pub use error::DeviceError;
