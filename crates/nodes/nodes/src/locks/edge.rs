//! An edge that words about locks travel over, as unreliable datagrams: a queue pair number at either end, and no state.

use quincunx_collective::{GroupId, Payload};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_wire::{Deth, Endpoint, Operation, Psn, RoceHeader};

use super::{Number, Word};
use crate::transport::NodeDrop;

/// An edge and its ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LockEdge {
    /// The port that leads there.
    pub port: PortId,
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
}

impl LockEdge {
    /// Says a word over the edge, before other traffic. The group's number is the key of the queue.
    pub(crate) fn say<N>(&self, group: GroupId, (word, number): (Word, Number), out: &mut impl Sink<N>)
    where
        N: Engine<Header = RoceHeader>,
    {
        let deth = Deth { queue_key: group.0, source_qp: self.local.qp };
        let operation = Operation::DatagramSendOnlyImmediate(deth, word.encode(number));
        let mut header =
            RoceHeader::new(self.local.ip, self.remote.ip, self.remote.qp, Psn::new(0), operation);
        header.expedite();
        out.transmit(self.port, Frame { header: &header, payload: N::Payload::empty() });
    }

    /// What a frame says that came by `port` for this end.
    ///
    /// # Errors
    /// If it is from somebody else, or says nothing.
    pub(crate) fn hear(
        &self,
        group: GroupId,
        port: PortId,
        header: &RoceHeader,
    ) -> Result<(Word, Number), NodeDrop> {
        let Operation::DatagramSendOnlyImmediate(deth, bits) = header.operation else {
            return Err(NodeDrop::ForeignQueuePair);
        };
        let is_ours = header.source == self.remote.ip
            && header.destination == self.local.ip
            && deth.source_qp == self.remote.qp
            && deth.queue_key == group.0;
        if !is_ours {
            return Err(NodeDrop::ForeignSource);
        }
        if port != self.port {
            return Err(NodeDrop::ForeignPort);
        }
        Word::decode(bits).ok_or(NodeDrop::NoNews)
    }
}
