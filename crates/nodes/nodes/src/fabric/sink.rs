//! What nodes of the memory fabric tell their owners.

use quincunx_collective::Payload;
use quincunx_design::UnitEvent;
use quincunx_engine::shared_memory::KernelRefusal;
use quincunx_engine::{Frame, PortId};
use quincunx_memory::{MemoryDrop, Port};
use quincunx_units::Duration;
use quincunx_wire::flit::{FlitHeader, NodeId, Transaction};

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FabricRejected {
    /// The kernel cannot begin.
    #[error(transparent)]
    Kernel(#[from] KernelRefusal),
    /// There is no such kernel.
    #[error("expected a kernel that the accelerator was set up with, found number {0}")]
    NoKernel(u16),
    /// Memory of another size.
    #[error("expected a memory of {expected} bytes, found {found}; fill it as it was set up")]
    MemorySize {
        /// Bytes.
        expected: usize,
        /// Bytes.
        found: usize,
    },
    /// A packet that cannot be sent.
    #[error(
        "expected a link below {links} and at most {most} bytes of memory, found link {link} and {length} bytes; send another packet"
    )]
    Packet {
        /// Links.
        links: u16,
        /// Bytes.
        most: usize,
        /// The link as given.
        link: u16,
        /// Bytes as given.
        length: usize,
    },
    /// A command for an accelerator, at a switch.
    #[error("expected an accelerator, found a switch; send the command there")]
    Switch,
}

/// What a node tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FabricEvent {
    /// A collective is over on an accelerator.
    Finished {
        /// The kernel that ran it.
        kernel: u16,
    },
    /// Something of what computes in a switch.
    Unit {
        /// Which of the switch's units, in the order of its set-up.
        unit: u16,
        /// What.
        event: UnitEvent,
    },
}

/// A node's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FabricTimer {
    /// A response of an accelerator is ready for a link.
    Respond(PortId),
    /// An accelerator's kernel has added what it had to add.
    Compute,
    /// That of a switch's unit, in the order of its set-up.
    Unit(u16),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FabricDrop {
    /// By a port, the switch core or a memory.
    Memory(MemoryDrop),
    /// By what computes in a switch, for the reason that it gives.
    Unit(&'static str),
}

/// Where the answers of a node's parts go.
pub(super) trait FabricSink<P: Payload> {
    /// Sends a packet.
    fn transmit(&mut self, port: PortId, frame: Frame<'_, FlitHeader, P>);

    /// Arms `timer` to fire `after` from now, in place of any earlier deadline.
    fn set_timer(&mut self, timer: FabricTimer, after: Duration);

    /// Tells something.
    fn emit(&mut self, event: FabricEvent);

    /// Counts a packet that was dropped.
    fn drop_frame(&mut self, port: PortId, reason: FabricDrop);
}

/// A packet of nothing but credits, if there are any to return.
pub(super) fn credit_alone(link: &mut Port) -> Option<FlitHeader> {
    // It goes no further than the link, so that it needs no addresses.
    let mut header = FlitHeader::new(NodeId(0), NodeId(0), false, 0, 0, Transaction::Credit);
    link.seal(&mut header, 0);
    (header.credit.packets > 0).then_some(header)
}

/// Sends nothing but credits.
pub(super) fn send_credit<P: Payload>(port: PortId, link: &mut Port, out: &mut impl FabricSink<P>) {
    if let Some(header) = credit_alone(link) {
        out.transmit(port, Frame { header: &header, payload: P::empty() });
    }
}
