//! Why there is no device, or it does not do what it is asked to.

use std::io;
use std::net::IpAddr;

/// What is wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// libibverbs is not installed.
    #[error(
        "expected libibverbs.so.1, found \"{found}\"; install rdma-core (libibverbs1, ibverbs-providers)"
    )]
    Library {
        /// What the loader said.
        found: String,
    },
    /// No device is at the address.
    #[error(
        "expected an RDMA device with RoCEv2 at {address}, found {found}; `rdma link add rxe0 type rxe netdev eth0` makes one of a network card"
    )]
    NoDevice {
        /// The address.
        address: IpAddr,
        /// What is there.
        found: String,
    },
    /// A call failed.
    #[error(
        "expected {call} to succeed, found \"{error}\"; see whether /dev/infiniband is there, and `ulimit -l`"
    )]
    Call {
        /// Which.
        call: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A payload that is no path MTU.
    #[error(
        "expected `group.mtu` of 256, 512, 1024, 2048 or 4096 bytes, found {found}; hardware has no other"
    )]
    Mtu {
        /// As given.
        found: usize,
    },
    /// A number that is none of the device's queue pairs.
    #[error("expected a queue pair of the device, found number {found}; take one of those it has told")]
    NoQueuePair {
        /// As given.
        found: u32,
    },
}
