//! What the tests share: a payload of plain bytes, a node that is driven by hand, and two nodes over bad links.

pub(crate) mod bench;
pub(crate) mod links;

use core::ops::Range;
use quincunx_collective::{BlockQuantization, Payload, Quantized, Reduction};
use quincunx_engine::verbs::{ReceiveRequest, RegionId, SendRequest, Slice, Verb, WorkId};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Packets};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::net::{IpAddr, Ipv4Addr};

/// Plain bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bytes(pub Vec<u8>);

impl Payload for Bytes {
    type View<'a> = &'a [u8];

    fn zeroed(length: usize) -> Self {
        Self(vec![0; length])
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn empty<'a>() -> &'a [u8] {
        &[]
    }

    fn view(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }

    fn view_length(view: Self::View<'_>) -> usize {
        view.len()
    }

    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short> {
        view
    }

    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_> {
        &view[range]
    }

    fn from_view(view: Self::View<'_>) -> Self {
        Self(view.to_vec())
    }

    fn write(&mut self, offset: usize, view: &[u8]) {
        self.0[offset..offset + view.len()].copy_from_slice(view);
    }

    fn reduce(&mut self, _offset: usize, _view: &[u8], _reduction: Reduction) {
        unreachable!("a queue pair does not reduce");
    }

    fn quantize(_: BlockQuantization, _: &[u8]) -> Quantized<Self> {
        unreachable!("bytes are not quantised here")
    }

    fn dequantize(_: BlockQuantization, _: usize, _: Quantized<&[u8]>) -> Self {
        unreachable!("bytes are not quantised here")
    }

    fn sum_quantized(_: BlockQuantization, _: usize, _: &[Quantized<&[u8]>]) -> Quantized<Self> {
        unreachable!("bytes are not quantised here")
    }
}

pub(crate) const ALICE: Endpoint =
    Endpoint { ip: Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))), qp: QpNumber::new(0x11) };
pub(crate) const BOB: Endpoint =
    Endpoint { ip: Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))), qp: QpNumber::new(0x22) };

/// Alice's first PSN: a few packets before it wraps.
pub(crate) const ALICE_PSN: Psn = Psn::new(0x00ff_fffe);
/// Bob's first PSN.
pub(crate) const BOB_PSN: Psn = Psn::new(0x00ff_fffd);

/// Payload bytes of a full packet in tests.
pub(crate) const MTU: usize = 4;

pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_micros(100);

/// Alice's set-up: four bytes a packet, a window of four.
pub(crate) fn alice() -> QueuePairConfig {
    QueuePairConfig {
        local: ALICE,
        remote: BOB,
        mtu: MTU,
        send_psn: ALICE_PSN,
        expected_psn: BOB_PSN,
        acknowledge_every: Packets::new(100),
        retry_timeout: RETRY_TIMEOUT,
        retry_count: 2,
        rnr_timer: 1,
        rnr_retry_count: 2,
        credits: false,
        window: Packets::new(4),
        congestion_window: false,
        remote_write: true,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    }
}

/// The set-up of the other end.
pub(crate) fn mirrored(config: QueuePairConfig) -> QueuePairConfig {
    QueuePairConfig {
        local: config.remote,
        remote: config.local,
        send_psn: config.expected_psn,
        expected_psn: config.send_psn,
        ..config
    }
}

pub(crate) fn slice(region: RegionId, offset: usize, length: usize) -> Slice {
    Slice { region, offset, length }
}

pub(crate) fn send(id: u64, source: Slice) -> SendRequest {
    SendRequest { id: WorkId(id), verb: Verb::Send, source, immediate: None }
}

pub(crate) fn write(id: u64, source: Slice, region: RegionId, address: u64) -> SendRequest {
    let verb = Verb::Write { remote_address: address, remote_key: region.0 };
    SendRequest { id: WorkId(id), verb, source, immediate: None }
}

pub(crate) fn receive(id: u64, sink: Slice) -> ReceiveRequest {
    ReceiveRequest { id: WorkId(id), sink }
}
