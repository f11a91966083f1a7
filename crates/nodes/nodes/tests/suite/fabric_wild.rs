//! Nodes of the memory fabric take any packet from any peer: nothing panics, and every invariant holds after it.

use proptest::prelude::*;
use quincunx_cais::{CaisConfig, CaisKernel, Merge, MergeConfig};
use quincunx_collective::*;
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest, Span, WordId};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_memory::{EndpointConfig, PortConfig};
use quincunx_nodes::fabric::*;
use quincunx_nvls::{AllReduceMode, Multicast, MulticastConfig, NvlsConfig, NvlsKernel};
use quincunx_ring::{
    QuantizedRing, QuantizedRingConfig, SharedDirect, SharedDirectConfig, SharedRing, SharedRingConfig,
};
use quincunx_scin::*;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::*;

const ACCELERATORS: u16 = 3;
const SWITCH: NodeId = NodeId(ACCELERATORS);
const FORMAT: FlitFormat = FlitFormat { flit: 16, header_flits: 1, max_payload: 16 };
const REDUCTION: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const SPAN: Span = Span { offset: 0, length: 96 };

/// Takes what a node says, and remembers the requests in it.
#[derive(Default)]
struct Nobody {
    requests: Vec<(PortId, FlitHeader)>,
    drops: Vec<FabricDrop>,
    timer: Option<FabricTimer>,
}

impl Sink<FabricNode<Numbers>> for Nobody {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, FlitHeader, Numbers>) {
        self.requests.push((port, *frame.header));
    }
    fn set_timer(&mut self, timer: FabricTimer, _: Duration) {
        self.timer = Some(timer);
    }
    fn cancel_timer(&mut self, _: FabricTimer) {}
    fn emit(&mut self, _: FabricEvent) {}
    fn drop_frame(&mut self, _: PortId, reason: FabricDrop) {
        self.drops.push(reason);
    }
}

fn switch() -> FabricNode<Numbers> {
    let config = IsaConfig {
        node: SWITCH,
        accelerators: ACCELERATORS,
        flags: vec![WordId(0)],
        waves: 2,
        wave: 32,
        format: FORMAT,
        reduction: REDUCTION,
        latency: ComputeLatency { regular: Duration::ZERO, quantized: Duration::ZERO },
        compute_rate: None,
        quantization: None,
        mutation: None,
    };
    let mut isa = Isa::<Numbers>::new(config).expect("a set-up that makes sense");
    let program = instructions(Collective::AllReduce, ACCELERATORS, SPAN, (0, 1), FORMAT.max_payload);
    isa.load(0, program).expect("instructions");
    let multicast = MulticastConfig {
        node: SWITCH,
        members: ACCELERATORS,
        entries: 2,
        sums: 2,
        format: FORMAT,
        reduction: REDUCTION,
        mutation: None,
    };
    let config = FabricSwitchConfig {
        node: SWITCH,
        ports: ACCELERATORS,
        port: PortConfig::uniform(3, FORMAT),
        early_write_response: true,
        units: vec![Box::new(isa), Box::new(Multicast::<Numbers>::new(multicast))],
    };
    let Ok(node) = FabricNode::new(FabricConfig::Switch(config));
    node
}

/// A switch that merges, with two entries for each home and room for one group.
fn merging_switch(latency: Duration) -> FabricNode<Numbers> {
    let merge = MergeConfig {
        node: SWITCH,
        accelerators: ACCELERATORS,
        participants: 2,
        entries: 2,
        groups: 1,
        streams: 1,
        timeout: Duration::from_picos(20),
        group_timeout: Duration::from_picos(20),
        latency,
        format: FORMAT,
        reduction: REDUCTION,
        levels: true,
        mutation: None,
    };
    let config = FabricSwitchConfig {
        node: SWITCH,
        ports: ACCELERATORS,
        port: PortConfig::uniform(3, FORMAT),
        early_write_response: true,
        units: vec![Box::new(Merge::<Numbers>::new(merge).expect("a set-up that makes sense"))],
    };
    let Ok(node) = FabricNode::new(FabricConfig::Switch(config));
    node
}

fn accelerator(kernel: impl AnyKernel<Numbers>, reduction: Reduction) -> FabricNode<Numbers> {
    let endpoint = EndpointConfig {
        rank: Rank(1),
        switches: vec![SWITCH],
        memory: 480,
        words: 6,
        format: FORMAT,
        response_latency: Duration::ZERO,
        scatter: None,
        load_window: 2,
        add_rate: None,
        reduction: Some(REDUCTION),
    };
    let config = AcceleratorConfig {
        endpoint,
        port: PortConfig::uniform(3, FORMAT),
        kernels: vec![kernel.clone_boxed()],
    };
    let Ok(mut node) = FabricNode::new(FabricConfig::Accelerator(config));
    let request = InPlaceRequest { collective: Collective::AllReduce, reduction, span: SPAN };
    node.handle_command(Instant::ZERO, FabricCommand::Start { kernel: 0, request }, &mut Nobody::default())
        .expect("a collective");
    node
}

fn nodes() -> [FabricNode<Numbers>; 10] {
    let rank = Rank(1);
    let (ranks, granule) = (ACCELERATORS, FORMAT.max_payload);
    let scratch = Span { offset: 96, length: 384 };
    let first_flag = WordId(0);
    let ring = SharedRingConfig { ranks, rank, granule, scratch, first_flag };
    let direct = SharedDirectConfig { ranks, rank, granule, scratch, longest_copied: 0, first_flag };
    let quantization = BlockQuantization::new(CodeType::Int8, 32).expect("a block size");
    let quantized = QuantizedRingConfig { ranks, rank, granule, quantization, scratch, first_flag };
    let cais = CaisConfig {
        ranks,
        rank,
        line: granule,
        first_word: WordId(0),
        stream: 0,
        window: 2,
        pre_access: true,
        in_step: true,
    };
    let multicast = NvlsConfig { ranks, rank, granule, all_reduce: AllReduceMode::Pull, counter: WordId(0) };
    let floats = Reduction { data_type: DataType::F32, ..REDUCTION };
    [
        switch(),
        accelerator(SharedRing::new(ring), REDUCTION),
        accelerator(SharedDirect::new(direct), REDUCTION),
        accelerator(QuantizedRing::new(quantized), floats),
        accelerator(NvlsKernel::new(multicast), REDUCTION),
        accelerator(NvlsKernel::new(NvlsConfig { all_reduce: AllReduceMode::Push, ..multicast }), REDUCTION),
        accelerator(Participant::new(ParticipantConfig { counter: WordId(0), first_flag }), REDUCTION),
        accelerator(CaisKernel::new(cais), REDUCTION),
        merging_switch(Duration::ZERO),
        merging_switch(Duration::from_picos(3)),
    ]
}

prop_compose! {
    /// Packets that could mean something, mostly from those who may send them: few nodes, addresses, tags and lengths; and
    /// their port.
    fn packets()(
        port in 0..ACCELERATORS,
        stranger in prop_oneof![9 => Just(None), 1 => (0..5u16).prop_map(Some)],
        destination in prop_oneof![6 => Just(SWITCH.0), 3 => Just(1u16), 1 => 0..5u16],
        inc in any::<bool>(),
        address in prop_oneof![(0..14u64).prop_map(|piece| piece * 16), (0..3u16).prop_map(word_address)],
        tag in prop_oneof![0..3u32, 0..20u32],
        length in prop_oneof![Just(16u16), Just(4), Just(0), Just(2), Just(17)],
        kind in 0..15usize,
        credits in prop_oneof![9 => Just(0u8), 1 => 0..=MAX_CREDITS],
        channel in 0..Channel::COUNT,
    ) -> (u16, FlitHeader, Numbers) {
        let transaction = [
            Transaction::Credit,
            Transaction::Read { length },
            Transaction::ReadResponse,
            Transaction::Write,
            Transaction::WriteResponse,
            Transaction::Add { operand: u64::from(tag) },
            Transaction::Store { operand: u64::from(tag) },
            Transaction::MultimemLoadReduce { length },
            Transaction::MultimemStore,
            Transaction::MultimemAdd { operand: u64::from(tag) },
            Transaction::MultiWrite { destinations: u64::from(tag) },
            Transaction::Reduce,
            Transaction::MultimemReduce,
            Transaction::Sync,
            Transaction::Release,
        ][kind];
        let credit = CreditReturn { channel: Channel::ALL[channel], packets: credits };
        let header = FlitHeader::new(NodeId(stranger.unwrap_or(port)), NodeId(destination), inc, address, tag, transaction);
        let payload = if transaction.carries_data() { usize::from(length) } else { 0 };
        (port, FlitHeader { credit, ..header }, Numbers::zeroed(payload))
    }
}

/// The right answer to a request of the node's; none if there is none.
fn answer(request: &FlitHeader) -> Option<(FlitHeader, Numbers)> {
    let (transaction, length) = match request.transaction {
        Transaction::Read { length } | Transaction::MultimemLoadReduce { length } => {
            (Transaction::ReadResponse, length)
        }
        Transaction::Write | Transaction::MultimemStore => (Transaction::WriteResponse, 0),
        _ => return None,
    };
    Some((request.response(transaction), Numbers::zeroed(usize::from(length))))
}

proptest! {
    #[test]
    fn any_packets_and_answers_leave_a_node_whole(
        steps in proptest::collection::vec((packets(), any::<Option<prop::sample::Index>>(), 0..3usize), 1..100),
    ) {
        for mut node in nodes() {
            let ports = if matches!(node, FabricNode::Switch(_)) { ACCELERATORS } else { 1 };
            let mut out = Nobody::default();
            for (time, ((port, header, payload), answered, slots)) in steps.iter().enumerate() {
                let now = Instant::from_picos(time as u64);
                let (mut port, mut packet) = (PortId(port % ports), (*header, payload.clone()));
                if let Some(index) = answered && !out.requests.is_empty() {
                    let (to, request) = out.requests.swap_remove(index.index(out.requests.len()));
                    if let Some(right) = answer(&request) {
                        (port, packet) = (to, right);
                    }
                }
                let (header, payload) = packet;
                let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
                node.handle_frame(now, port, frame, &mut out);
                node.assert_invariants();
                // A unit's timer may fire at any time.
                if *slots == 0 && let Some(timer @ FabricTimer::Unit(_)) = out.timer.take() {
                    node.handle_timer(now, timer, &mut out);
                    node.assert_invariants();
                }
                for port in (0..ports).map(PortId).cycle().take(*slots * usize::from(ports)) {
                    if node.wants_transmit(port) {
                        node.handle_transmit_slot(now, port, &mut out);
                        node.assert_invariants();
                    }
                }
            }
        }
    }
}

#[test]
fn a_packet_for_nobody_is_dropped_and_its_buffer_is_free_again() {
    let mut node = switch();
    let mut out = Nobody::default();
    let header = FlitHeader::new(NodeId(0), NodeId(7), false, 0, 0, Transaction::WriteResponse);
    for _ in 0..3 {
        node.handle_frame(Instant::ZERO, PortId(0), Frame { header: &header, payload: &[] }, &mut out);
        node.assert_invariants();
    }
    assert_eq!(out.drops, [FabricDrop::Memory(quincunx_memory::MemoryDrop::NoRoute); 3]);
    assert!(node.wants_transmit(PortId(0)), "credits to return");
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let mut out = Nobody::default();
    let [mut switch, mut accelerator, ..] = nodes();
    let fill = FabricCommand::Fill(Numbers::zeroed(192));
    let refused = switch.handle_command(Instant::ZERO, fill, &mut out);
    assert_eq!(refused, Err(FabricRejected::Switch));
    let short = accelerator.handle_command(Instant::ZERO, FabricCommand::Fill(Numbers::zeroed(1)), &mut out);
    assert_eq!(short, Err(FabricRejected::MemorySize { expected: 480, found: 1 }));
    for (link, length) in [(PortId(9), 16), (PortId(0), 17)] {
        let packet = FabricCommand::Send { link, to: Rank(1), length, address: 0 };
        let refused = accelerator.handle_command(Instant::ZERO, packet, &mut out);
        assert!(matches!(refused, Err(FabricRejected::Packet { most: 16, .. })), "{refused:?}");
    }
}
