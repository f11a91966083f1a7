//! How ports are set up.

use quincunx_units::ByteCount;

/// What frames come and go by at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortSockets {
    /// A packet socket (AF_PACKET): with any interface, any MTU, and what the kernel has merged.
    #[default]
    Packet,
    /// XDP sockets (AF_XDP), one for each receive queue: frames do not pass the kernel's own network stack.
    Xdp,
}

/// How ports are set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortsOptions {
    /// Interfaces with a cable each, without an address: `eth1`.
    pub interfaces: Vec<String>,
    /// What frames come and go by.
    pub sockets: PortSockets,
    /// Of the node's address, so many bits are the network's: who is in it is a neighbour behind some port.
    pub prefix: u8,
    /// What may wait to be received at each port; the kernel counts its own overhead in.
    pub receive_buffer: ByteCount,
    /// What may wait to leave by each port: its queue, beyond which frames are lost.
    pub send_buffer: ByteCount,
}

impl PortsOptions {
    /// Ports by packet sockets with 8 MiB in and 2 MiB out.
    pub fn new(interfaces: Vec<String>, prefix: u8) -> Self {
        let [receive_buffer, send_buffer] = [8 << 20, 2 << 20].map(ByteCount::new);
        Self { interfaces, sockets: PortSockets::default(), prefix, receive_buffer, send_buffer }
    }
}
