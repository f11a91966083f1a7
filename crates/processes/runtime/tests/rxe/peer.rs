//! Our end: a node with one queue pair on a packet socket, and what the runs against both programs have in common.

use crate::guest::{GUEST, GUEST_MAC, Guest};
use quincunx_collective::{Numbers, Payload};
use quincunx_driver_net::{Codec, Dropped, Emitted, Node, NodeOptions};
use quincunx_engine::verbs::RegionId;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::FaultRates;
use quincunx_roce::{
    DropReason, INFINITE_RNR_RETRIES, QueuePairConfig, Reliability, RoceCommand, RoceEvent, RoceHost,
};
use quincunx_runtime::RoceCodec;
use quincunx_sockets::{Datagram, PacketOptions, PacketTransport};
use quincunx_units::{Duration, Packets, Probability};
use quincunx_wire::{Endpoint, ParseError, Psn, RoceHeader};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;

/// UDP port of RoCEv2.
const ROCE_PORT: u16 = 4791;

/// TCP port at which both programs exchange numbers.
pub(crate) const EXCHANGE_PORT: u16 = 18_515;

/// Bytes of a full packet: what fits into 1500.
pub(crate) const MTU: usize = 1024;

/// Our frames that are spoilt: every so many. A number that shares no factor with a round's frames, so that each kind
/// of frame has its turn.
const SPOIL_EVERY: u64 = 47;

/// How long one run may take.
pub(crate) const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// RoCEv2, with the CRC of every so many frames spoilt: a loss on the way to the peer, if it checks.
pub(crate) struct SpoilingCodec {
    codec: RoceCodec,
    every: Option<u64>,
    emitted: u64,
    spoilt: u64,
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> Codec<E> for SpoilingCodec {
    type Fault = ParseError;

    fn frame_limit(&self) -> usize {
        Codec::<E>::frame_limit(&self.codec)
    }

    fn port(&self, datagram: &Datagram) -> PortId {
        Codec::<E>::port(&self.codec, datagram)
    }

    fn parse<'a>(
        &mut self,
        datagram: &Datagram,
        bytes: &'a [u8],
    ) -> Result<(RoceHeader, &'a [u8]), ParseError> {
        Codec::<E>::parse(&mut self.codec, datagram, bytes)
    }

    type Shared<'a> = &'a [u8];

    fn share<'a>(&self, payload: <Numbers as Payload>::View<'a>) -> &'a [u8] {
        payload
    }

    fn emit_shared(&mut self, port: PortId, header: &RoceHeader, payload: &&[u8], out: &mut [u8]) -> Emitted {
        Codec::<E>::emit(self, port, Frame { header, payload }, out)
    }

    fn emit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Numbers>, out: &mut [u8]) -> Emitted {
        let emitted = Codec::<E>::emit(&mut self.codec, port, frame, out);
        self.emitted += 1;
        if self.every.is_some_and(|every| self.emitted.is_multiple_of(every)) {
            self.spoilt += 1;
            out[emitted.length - 1] ^= 1;
        }
        emitted
    }
}

/// Our end.
pub(crate) type OurNode = Node<RoceHost<Numbers>, SpoilingCodec, PacketTransport>;

/// A node with a queue pair to the kernel's; with `loss`, 2% of the frames each way go no further.
pub(crate) fn open(loss: bool, local: Endpoint, psn: Psn, remote: Endpoint, expected: Psn) -> OurNode {
    let config = QueuePairConfig {
        local,
        remote,
        mtu: MTU,
        send_psn: psn,
        expected_psn: expected,
        acknowledge_every: Packets::new(16),
        retry_timeout: Duration::from_millis(50),
        retry_count: 100,
        rnr_timer: 12,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        credits: false,
        window: Packets::new(64),
        congestion_window: false,
        // What the transport sends from.
        remote_write: true,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let engine = RoceHost::new(config).expect("a valid set-up");
    // The kernel numbers its datagrams, and its CRC covers the numbers: an ordinary UDP socket does not tell them.
    let mut options = PacketOptions::new("eth0");
    options.neighbours.insert(GUEST, GUEST_MAC);
    let transport =
        PacketTransport::open(SocketAddr::new(local.ip.address(), ROCE_PORT), options).expect("we are root");
    let probability = Probability::new(if loss { 0.02 } else { 0.0 }).expect("a probability");
    let faults = FaultRates { loss: probability, ..FaultRates::default() };
    let every = loss.then_some(SPOIL_EVERY);
    let codec = SpoilingCodec { codec: RoceCodec::default(), every, emitted: 0, spoilt: 0 };
    Node::new(engine, 1, codec, transport, NodeOptions { faults, seed: 1, ..NodeOptions::default() })
        .expect("a node")
}

/// Takes memory in.
pub(crate) fn register(node: &mut OurNode, region: Numbers) -> RegionId {
    node.command(RoceCommand::Register(region)).expect("any region will do");
    match node.next_event() {
        Some(RoceEvent::Registered(region)) => region,
        other => panic!("{other:?}"),
    }
}

/// Tries until the program is there.
pub(crate) fn retry<R>(
    guest: &mut Guest,
    end: Instant,
    mut attempt: impl FnMut() -> std::io::Result<R>,
) -> R {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => assert!(Instant::now() < end, "{error}: {:#?}", guest.console()),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What passed, and what did not.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Frames sent.
    pub(crate) sent: u64,
    /// Of these, the ones that the kernel could only drop.
    pub(crate) spoilt: u64,
    /// Frames that arrived.
    pub(crate) received: u64,
    /// Frames of these that went no further, by reason.
    pub(crate) dropped: BTreeMap<Dropped<DropReason, ParseError>, u64>,
}

impl Tally {
    pub(crate) fn of(node: &mut OurNode) -> Self {
        let spoilt = node.codec_mut().spoilt;
        let (sent, received) = (node.statistics().sent.frames, node.statistics().received.frames);
        Self { sent, spoilt, received, dropped: node.dropped().clone() }
    }

    /// Frames dropped for `reason`.
    pub(crate) fn drops(&self, reason: Dropped<DropReason, ParseError>) -> u64 {
        self.dropped.get(&reason).copied().unwrap_or(0)
    }

    /// Every frame of the kernel's was RoCE to us.
    pub(crate) fn assert_understood(&self) {
        assert!(!self.dropped.keys().any(|reason| matches!(reason, Dropped::Codec(_))), "{self:?}");
    }

    /// Frames were lost each way, and the kernel sent again what came after a gap.
    pub(crate) fn assert_repaired(&self) {
        assert!(self.spoilt > 0 && self.drops(Dropped::InjectedLoss) > 0, "{self:?}");
        assert!(self.drops(Dropped::Engine(PortId(0), DropReason::OutOfSequence)) > 0, "{self:?}");
    }
}
