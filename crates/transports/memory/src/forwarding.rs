//! The switch core: what comes in leaves by the port of its destination (SCIN 3.2, figure 4).

use crate::MemoryDrop;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_wire::flit::{Channel, ChannelSet, Class, FlitHeader, NodeId};

/// A packet on its way through a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Forwarded<P> {
    /// Its header.
    pub header: FlitHeader,
    /// Its payload.
    pub payload: P,
    /// The port and the channel whose buffer it holds until it has left; none if it was made here.
    pub held: Option<(PortId, Channel)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Output<P> {
    queues: [VecDeque<Forwarded<P>>; Class::ALL.len()],
    ready: ChannelSet,
}

/// The queues between the ports of a switch: one for each output and class, first in, first out. Accelerator n is at
/// port n.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchCore<P> {
    outputs: Vec<Output<P>>,
}

impl<P: Payload> SwitchCore<P> {
    /// A switch with that many ports.
    pub fn new(ports: u16) -> Self {
        let output = || Output { queues: Default::default(), ready: ChannelSet::NONE };
        Self { outputs: (0..ports).map(|_| output()).collect() }
    }

    /// The port of a node.
    pub fn route(&self, destination: NodeId) -> Result<PortId, MemoryDrop> {
        let known = usize::from(destination.0) < self.outputs.len();
        if known { Ok(PortId(destination.0)) } else { Err(MemoryDrop::NoRoute) }
    }

    /// Queues a packet for an output.
    ///
    /// # Panics
    /// If there is no such port, or the packet is of the in-switch accelerator, which has queues of its own.
    pub fn enqueue(&mut self, port: PortId, packet: Forwarded<P>) {
        let channel = packet.header.channel().expect("credits alone are not queued");
        assert!(!channel.inc(), "the switch core forwards what is not of the in-switch accelerator");
        let output = &mut self.outputs[usize::from(port.0)];
        output.queues[channel.index()].push_back(packet);
        output.ready.set(channel, true);
    }

    /// Channels with a packet for `port`.
    pub fn ready(&self, port: PortId) -> ChannelSet {
        self.outputs[usize::from(port.0)].ready
    }

    /// Takes the next packet of a channel for `port`.
    ///
    /// # Panics
    /// If there is none.
    pub fn dequeue(&mut self, port: PortId, channel: Channel) -> Forwarded<P> {
        let output = &mut self.outputs[usize::from(port.0)];
        let queue = &mut output.queues[channel.index()];
        let packet = queue.pop_front().expect("a channel that is ready has a packet");
        output.ready.set(channel, !queue.is_empty());
        packet
    }

    /// Tells of each packet that holds a buffer of an input which input and which channel that is.
    pub fn each_held(&self, tell: &mut dyn FnMut(PortId, Channel)) {
        let queues = self.outputs.iter().flat_map(|output| &output.queues);
        for (input, channel) in queues.flatten().filter_map(|packet| packet.held) {
            tell(input, channel);
        }
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        for output in &self.outputs {
            for class in Class::ALL {
                let channel = Channel::new(class, false);
                let waits = !output.queues[channel.index()].is_empty();
                assert_eq!(output.ready.contains(channel), waits, "{channel:?}: ready with a packet");
            }
        }
    }
}
