//! Transports over the kernel's sockets: a node's datagrams leave and come in batches, many by one system call.
//!
//! [`UdpTransport`] needs no privilege and works on loopback addresses (one a node) as on any network; several processes may have one address.
//! [`PacketTransport`] sends and receives whole Ethernet frames. What both offer to the loop of a driver is [`Transport`], and so does whatever
//! else stands between a node and its peers: it fills an [`Inbox`] and sends what is in an [`Outbox`].
//!
//! What one needs who makes a transport of his own is here, too: [`frame`] has a datagram's headers, [`sys`] the system calls, all the `unsafe`
//! code of this floor among them, and the functions of this page ask the kernel for interfaces and neighbours.

#![cfg(target_os = "linux")]

mod bridge;
pub mod frame;
mod global_route;
mod handover;
mod inbox;
mod link;
mod neighbours;
mod outbox;
mod packet;
mod route;
mod shared;
pub mod sys;
mod transport;
mod udp;

pub use bridge::entrance_filter;
pub use inbox::{Datagram, Inbox, SLOT};
pub use link::LinkSocket;
pub use neighbours::{MacAddress, mac_address_of, neighbour_at, neighbour_of, seek_neighbour};
pub use outbox::{Batch, Flow, Outbox};
pub use packet::{PacketKind, PacketOptions, PacketTransport};
pub use route::{interface_addresses, interface_of, reverse_path_drops, running_interfaces, source_to};
pub use transport::{OpenError, PATIENCE, Transport};
pub use udp::{UdpOptions, UdpTransport};
