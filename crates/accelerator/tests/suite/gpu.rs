//! An accelerator by itself: when blocks are dispatched, what they put on links, and what they wait for.

use quincunx_accelerator::*;
use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::PortId;
use quincunx_memory::PortConfig;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitFormat, FlitHeader, NodeId, Transaction};
use std::sync::Arc;

/// What it has sent, set and told.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) sent: Vec<FlitHeader>,
    pub(crate) timers: Vec<(GpuTimer, Duration)>,
    pub(crate) events: Vec<GpuEvent>,
}

impl GpuSink<Numbers> for Out {
    fn transmit(&mut self, _: PortId, header: &FlitHeader, _: &[u8]) {
        self.sent.push(*header);
    }

    fn set_timer(&mut self, timer: GpuTimer, after: Duration) {
        self.timers.push((timer, after));
    }

    fn emit(&mut self, event: GpuEvent) {
        self.events.push(event);
    }
}

pub(crate) fn gpu(program: Program) -> Gpu<Numbers> {
    Gpu::new(config(program))
}

fn config(program: Program) -> GpuConfig {
    GpuConfig {
        rank: 0,
        ranks: 2,
        switches: vec![NodeId(2)],
        format: FlitFormat::DGX,
        port: PortConfig::uniform(64, FlitFormat::DGX),
        response_latency: Duration::ZERO,
        sms: 1,
        blocks_per_sm: 1,
        claims_ahead: 0,
        prefetch: 1,
        load_window: 4,
        loads_ahead: 256,
        sums_ahead: 256,
        shared_requests: false,
        sync_timeout: Duration::from_micros(1),
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
        program: Arc::new(program),
    }
}

pub(crate) fn kernel(blocks: Vec<Block>) -> Kernel {
    Kernel {
        name: "kernel".into(),
        waits: Vec::new(),
        launch: Duration::from_nanos(5),
        place: Place::Sm,
        priority: 1,
        merges: Merges::Nothing,
        blocks,
        signals: Vec::new(),
    }
}

fn computing(nanos: u64) -> Block {
    let stage = Stage { tiles: Vec::new(), compute: Duration::from_nanos(nanos) };
    Block { stages: vec![stage], ..Block::default() }
}

fn packets(gpu: &mut Gpu<Numbers>) -> Vec<FlitHeader> {
    let mut out = Out::default();
    while gpu.wants_transmit(PortId(0)) {
        gpu.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
        gpu.assert_invariants();
    }
    out.sent
}

/// Fires a timer; what came of it.
fn fire(gpu: &mut Gpu<Numbers>, timer: GpuTimer) -> Out {
    let mut out = Out::default();
    gpu.handle_timer(Instant::from_picos(1_000_000), timer, &mut out);
    gpu.assert_invariants();
    out
}

fn started(program: Program) -> Gpu<Numbers> {
    let mut gpu = gpu(program);
    let mut out = Out::default();
    gpu.start(Instant::ZERO, &mut out);
    assert_eq!(out.timers, [(GpuTimer::Launch(0), Duration::from_nanos(5))]);
    gpu
}

#[test]
fn an_sm_computes_its_blocks_one_after_the_other_in_their_order() {
    let program = Program { kernels: vec![kernel(vec![computing(7), computing(9)])], ..Program::default() };
    let mut gpu = started(program);
    let first = fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(first.timers, [(GpuTimer::Compute(0), Duration::from_nanos(7))]);
    let second = fire(&mut gpu, GpuTimer::Compute(0));
    assert_eq!(second.timers, [(GpuTimer::Compute(0), Duration::from_nanos(9))]);
    let last = fire(&mut gpu, GpuTimer::Compute(0));
    assert!(last.events.ends_with(&[GpuEvent::Ended { kernel: 0 }, GpuEvent::Finished]), "{:?}", last.events);
}

#[test]
fn a_block_that_waits_is_passed_by_those_that_are_ready() {
    let waits = vec![Wait { counter: CounterId(0), target: 1 }];
    let mut late = kernel(vec![Block { waits, ..computing(7) }, computing(9)]);
    late.blocks[1].signals = vec![Signal { to: To::Own, counter: CounterId(0) }];
    let program = Program { kernels: vec![late], counters: 1, ..Program::default() };
    let mut gpu = started(program);
    let first = fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(first.timers, [(GpuTimer::Compute(0), Duration::from_nanos(9))]);
    let second = fire(&mut gpu, GpuTimer::Compute(0));
    assert_eq!(second.timers, [(GpuTimer::Compute(0), Duration::from_nanos(7))]);
}

#[test]
fn a_tile_is_fetched_once_and_kept() {
    let tile = Tile { fetch: Fetch::Load, from: 1, address: 0, local: 0, length: 256, shared: None };
    let loads = || {
        let stage = Stage { tiles: vec![TileId(0)], compute: Duration::from_nanos(3) };
        Block { stages: vec![stage], ..Block::default() }
    };
    let kernels = vec![kernel(vec![loads(), loads()])];
    let mut gpu = started(Program { kernels, tiles: vec![tile], memory: 256, ..Program::default() });
    fire(&mut gpu, GpuTimer::Launch(0));
    let sent = packets(&mut gpu);
    let asked: Vec<_> = sent.iter().map(|header| (header.address, header.transaction)).collect();
    assert_eq!(asked, [(0, Transaction::Read { length: 128 }), (128, Transaction::Read { length: 128 })]);
    for header in sent {
        let response = header.response(Transaction::ReadResponse);
        let mut out = Out::default();
        gpu.handle_packet(Instant::ZERO, PortId(0), &response, &[1; 128], &mut out).unwrap();
    }
    fire(&mut gpu, GpuTimer::Compute(0));
    assert!(packets(&mut gpu).is_empty(), "the second block finds the tile");
    let last = fire(&mut gpu, GpuTimer::Compute(0));
    assert!(last.events.contains(&GpuEvent::Finished));
    assert_eq!(gpu.memory().clone().into_bytes(), vec![1; 256]);
}

#[test]
fn loads_are_bounded_by_their_window() {
    let tile = Tile { fetch: Fetch::Load, from: 1, address: 0, local: 0, length: 1024, shared: None };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::ZERO };
    let kernels = vec![kernel(vec![Block { stages: vec![stage], ..Block::default() }])];
    let mut gpu = started(Program { kernels, tiles: vec![tile], memory: 1024, ..Program::default() });
    fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(packets(&mut gpu).len(), 4, "eight packets, four at once");
}

#[test]
fn a_reduction_counts_at_home_once_for_each_contribution_in_it() {
    let region = Region { address: 0, length: 256, part: 128, counter: CounterId(0) };
    let waits = vec![Wait { counter: CounterId(1), target: 3 * 128 }];
    let kernels = vec![Kernel { waits, ..kernel(vec![computing(1)]) }];
    let program = Program { kernels, regions: vec![region], counters: 2, memory: 256, ..Program::default() };
    let mut gpu = gpu(program);
    let mut out = Out::default();
    gpu.start(Instant::ZERO, &mut out);
    let mut reduce = |contributions| {
        let header = FlitHeader::new(NodeId(1), NodeId(0), false, 128, contributions, Transaction::Reduce);
        let mut out = Out::default();
        gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[1; 128], &mut out).unwrap();
        out.timers
    };
    assert!(reduce(1).is_empty());
    assert_eq!(reduce(2), [(GpuTimer::Launch(0), Duration::from_nanos(5))], "the third is there");
}

#[test]
fn a_block_of_a_group_waits_for_the_others_and_goes_on_without_them_in_the_end() {
    let grouped = kernel(vec![Block { group: Some(3), ..computing(7) }]);
    let coordination = Coordination { pre_launch: true, ..Coordination::default() };
    let mut gpu = started(Program { kernels: vec![grouped], coordination, ..Program::default() });
    let waiting = fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(waiting.timers, [(GpuTimer::Sync, Duration::from_micros(1))]);
    let sent = packets(&mut gpu);
    assert_eq!((sent[0].transaction, sent[0].address, sent[0].inc), (Transaction::Sync, 3, true));
    let mut other = gpu.clone();
    let mut out = Out::default();
    let release = sent[0].response(Transaction::Release);
    other.handle_packet(Instant::ZERO, PortId(0), &release, &[], &mut out).unwrap();
    assert_eq!(out.timers, [(GpuTimer::Compute(0), Duration::from_nanos(7))], "released");
    let mut out = Out::default();
    gpu.handle_timer(Instant::from_picos(2_000_000), GpuTimer::Sync, &mut out);
    assert_eq!(out.timers, [(GpuTimer::Compute(0), Duration::from_nanos(7))], "waited long enough");
}

#[test]
fn a_communication_kernel_has_its_sms_for_itself_once_blocks_have_left_them() {
    let mut sends = kernel(vec![Block::default()]);
    sends.place = Place::WholeSm(1);
    let products = kernel(vec![computing(7), computing(9)]);
    let mut gpu = gpu(Program { kernels: vec![products, sends], ..Program::default() });
    let mut out = Out::default();
    gpu.start(Instant::ZERO, &mut out);
    fire(&mut gpu, GpuTimer::Launch(0));
    fire(&mut gpu, GpuTimer::Launch(1));
    let after = fire(&mut gpu, GpuTimer::Compute(0));
    // The only SM is kept for the second kernel, whose block ends at once; then the next product follows.
    assert!(after.events.contains(&GpuEvent::Ended { kernel: 1 }), "{:?}", after.events);
    assert_eq!(after.timers, [(GpuTimer::Compute(0), Duration::from_nanos(9))]);
}

#[test]
fn memory_is_filled_and_read_back() {
    let mut gpu = gpu(Program { memory: 8, ..Program::default() });
    gpu.memory_mut().write(0, &[1, 2, 3, 4]);
    assert_eq!(gpu.memory().view(0..4), [1, 2, 3, 4]);
}

/// The kinds of the packets that leave when a reduction was asked for before a load.
fn reduction_then_load(shared_requests: bool) -> Vec<Transaction> {
    let output = Output { send: Send::MergedReduce, to: 1, address: 0, local: 0, length: 256 };
    let tile =
        Tile { fetch: Fetch::MergedLoad, from: 1, address: 256, local: 256, length: 256, shared: None };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::ZERO };
    let mut sends = kernel(vec![
        Block { outputs: vec![output], ..Block::default() },
        Block { stages: vec![stage], ..Block::default() },
    ]);
    sends.place = Place::CopyEngine(2);
    let program = Program { kernels: vec![sends], tiles: vec![tile], memory: 512, ..Program::default() };
    let mut gpu = Gpu::new(GpuConfig { shared_requests, ..config(program) });
    let mut out = Out::default();
    gpu.start(Instant::ZERO, &mut out);
    fire(&mut gpu, GpuTimer::Launch(0));
    packets(&mut gpu).iter().map(|header| header.transaction).collect()
}

#[test]
fn loads_and_reductions_take_turns_unless_they_share_a_queue() {
    let (load, reduce) = (Transaction::Read { length: 128 }, Transaction::Reduce);
    assert_eq!(reduction_then_load(true), [reduce, reduce, load, load]);
    let apart = reduction_then_load(false);
    assert!(apart[..2].contains(&load), "{apart:?}");
}
