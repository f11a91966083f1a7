//! An accelerator by itself: when blocks are dispatched, what they put on links, and what they wait for.

use quincunx_accelerator::*;
use quincunx_collective::{DataType, Numbers, Payload, ReduceOp, Reduction};
use quincunx_engine::PortId;
use quincunx_memory::PortConfig;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitFormat, FlitHeader, NodeId, Transaction, word_address};
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

pub(crate) fn config(program: Program) -> GpuConfig {
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
        l2: 1 << 20,
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
        place: KernelPlace::Sm,
        priority: 1,
        beside: None,
        merges: Merges::Nothing,
        blocks,
        weights: Vec::new(),
        signals: Vec::new(),
    }
}

pub(crate) fn computing(nanos: u64) -> Block {
    let stage = Stage { tiles: Vec::new(), compute: Duration::from_nanos(nanos) };
    Block { stages: vec![stage], ..Block::default() }
}

pub(crate) fn packets(gpu: &mut Gpu<Numbers>) -> Vec<FlitHeader> {
    let mut out = Out::default();
    while gpu.wants_transmit(PortId(0)) {
        gpu.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
        gpu.assert_invariants();
    }
    out.sent
}

/// Fires a timer; what came of it.
pub(crate) fn fire(gpu: &mut Gpu<Numbers>, timer: GpuTimer) -> Out {
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
    let tile = Tile { fetch: Fetch::Load, from: 1, address: 0, local: 0, rows: Rows::one(256), series: None };
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

/// Packets that leave at once of a tile of eight, loaded so by a kernel that merges these.
fn loads_at_once(fetch: Fetch, merges: Merges) -> usize {
    let tile = Tile { fetch, from: 1, address: 0, local: 0, rows: Rows::one(1024), series: None };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::ZERO };
    let loads = Kernel { merges, ..kernel(vec![Block { stages: vec![stage], ..Block::default() }]) };
    let kernels = vec![loads];
    let mut gpu = started(Program { kernels, tiles: vec![tile], memory: 1024, ..Program::default() });
    fire(&mut gpu, GpuTimer::Launch(0));
    packets(&mut gpu).len()
}

#[test]
fn loads_are_bounded_by_their_window() {
    assert_eq!(loads_at_once(Fetch::Load, Merges::Nothing), 4, "eight packets, four at once");
}

#[test]
fn loads_that_merge_are_bounded_by_the_same_window_without_coordination() {
    assert_eq!(loads_at_once(Fetch::MergedLoad, Merges::Loads), 4, "eight packets, four at once");
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
fn who_tells_the_switches_adds_one_in_each_of_them_and_nothing_of_its_own() {
    let tells =
        Kernel { signals: vec![Signal { to: To::Switches, counter: CounterId(3) }], ..kernel(Vec::new()) };
    let waits = vec![Wait { counter: CounterId(3), target: 1 }];
    let behind = Kernel { waits, ..kernel(Vec::new()) };
    let program = Program { kernels: vec![tells, behind], counters: 4, ..Program::default() };
    let mut gpu = Gpu::new(GpuConfig { switches: vec![NodeId(2), NodeId(3)], ..config(program) });
    gpu.start(Instant::ZERO, &mut Out::default());
    let ended = fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(ended.events, [GpuEvent::Launched { kernel: 0 }, GpuEvent::Ended { kernel: 0 }]);
    assert!(ended.timers.is_empty(), "its own word has not changed");
    for (link, switch) in [(0, 2), (1, 3)] {
        let mut out = Out::default();
        gpu.handle_transmit_slot(Instant::ZERO, PortId(link), &mut out);
        let added = Transaction::Add { operand: 1 };
        let found = (out.sent[0].destination, out.sent[0].inc, out.sent[0].address, out.sent[0].transaction);
        assert_eq!(found, (NodeId(switch), true, word_address(3), added));
        assert!(!gpu.wants_transmit(PortId(link)), "once");
    }
}

#[test]
fn a_flag_that_is_stored_counts_for_its_value_however_often_it_comes() {
    let waits = vec![Wait { counter: CounterId(0), target: 2 }];
    let program =
        Program { kernels: vec![Kernel { waits, ..kernel(Vec::new()) }], counters: 1, ..Program::default() };
    let mut gpu = gpu(program);
    gpu.start(Instant::ZERO, &mut Out::default());
    let mut store = |operand| {
        let stored = Transaction::Store { operand };
        let header = FlitHeader::new(NodeId(2), NodeId(0), true, word_address(0), 0, stored);
        let mut out = Out::default();
        gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut out).unwrap();
        out.timers
    };
    assert!(store(1).is_empty() && store(1).is_empty(), "twice one is one");
    assert_eq!(store(2), [(GpuTimer::Launch(0), Duration::from_nanos(5))]);
    assert!(store(1).is_empty(), "a counter never becomes less");
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
    sends.place = KernelPlace::WholeSm(1);
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
    let output = Output { send: Send::MergedReduce, to: 1, address: 0, local: 0, rows: Rows::one(256) };
    let tile = Tile {
        fetch: Fetch::MergedLoad,
        from: 1,
        address: 256,
        local: 256,
        rows: Rows::one(256),
        series: None,
    };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::ZERO };
    let mut sends = kernel(vec![
        Block { outputs: vec![output], ..Block::default() },
        Block { stages: vec![stage], ..Block::default() },
    ]);
    sends.place = KernelPlace::CopyEngine(2);
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

#[test]
fn a_tile_that_the_l2_has_no_room_for_is_read_again() {
    let tile = |address: u64| Tile {
        fetch: Fetch::Load,
        from: 1,
        address,
        local: address as usize,
        rows: Rows::one(128),
        series: None,
    };
    let loads = |tile: u32| {
        let stage = Stage { tiles: vec![TileId(tile)], compute: Duration::from_nanos(3) };
        Block { stages: vec![stage], ..Block::default() }
    };
    let asked = |l2: u64| {
        let kernels = vec![kernel(vec![loads(0), loads(1), loads(0)])];
        let tiles = vec![tile(0), tile(128)];
        let program = Program { kernels, tiles, memory: 256, ..Program::default() };
        let mut gpu = Gpu::new(GpuConfig { l2, ..config(program) });
        gpu.start(Instant::ZERO, &mut Out::default());
        fire(&mut gpu, GpuTimer::Launch(0));
        let mut asked = Vec::new();
        for _ in 0..3 {
            for header in packets(&mut gpu) {
                asked.push(header.address);
                let response = header.response(Transaction::ReadResponse);
                gpu.handle_packet(Instant::ZERO, PortId(0), &response, &[1; 128], &mut Out::default())
                    .unwrap();
            }
            fire(&mut gpu, GpuTimer::Compute(0));
        }
        asked
    };
    assert_eq!(asked(256), [0, 128], "both are kept");
    assert_eq!(asked(128), [0, 128, 0], "the second has taken the first one's room");
}

#[test]
fn a_tile_of_a_matrix_is_loaded_row_by_row_in_whole_sectors() {
    let rows = Rows { count: 2, bytes: 40, pitch: 256 };
    let tile = Tile { fetch: Fetch::Load, from: 1, address: 112, local: 112, rows, series: None };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::ZERO };
    let kernels = vec![kernel(vec![Block { stages: vec![stage], ..Block::default() }])];
    let mut gpu = started(Program { kernels, tiles: vec![tile], memory: 512, ..Program::default() });
    fire(&mut gpu, GpuTimer::Launch(0));
    let asked: Vec<_> = packets(&mut gpu).iter().map(|header| (header.address, header.transaction)).collect();
    let read = |length| Transaction::Read { length };
    assert_eq!(asked, [(96, read(32)), (128, read(32)), (352, read(32)), (384, read(32))]);
}

/// Blocks that add 256 bytes at a home each, in their order, coordinated and throttled; their groups are their numbers.
pub(crate) fn adding(homes: &[u16]) -> Program {
    let blocks = homes.iter().zip(0..).map(|(&to, number)| {
        let address = 256 * u64::from(number);
        let rows = Rows::one(256);
        let output = Output { send: Send::MergedReduce, to, address, local: address as usize, rows };
        Block { outputs: vec![output], group: Some(number), ..Block::default() }
    });
    let mut adds = kernel(blocks.collect());
    adds.merges = Merges::Reductions;
    adds.place = KernelPlace::CopyEngine(8);
    let coordination = Coordination { pre_launch: false, pre_access: true, throttle: true };
    Program { kernels: vec![adds], memory: 256 * homes.len(), coordination, ..Program::default() }
}

/// The addresses to which reductions leave when a group, or an address, is released at a point.
fn released(gpu: &mut Gpu<Numbers>, group: u64, point: u32) -> Vec<u64> {
    let header = FlitHeader::new(NodeId(2), NodeId(0), true, group, point, Transaction::Release);
    gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut Out::default()).unwrap();
    let sums = packets(gpu).into_iter().filter(|header| header.transaction == Transaction::Reduce);
    sums.map(|header| header.address).collect()
}

#[test]
fn sums_for_one_home_leave_in_the_order_of_the_program_and_as_far_as_the_others_have_come() {
    let (before, added) = (1, 3);
    let mut gpu = started(adding(&[1, 1, 1]));
    fire(&mut gpu, GpuTimer::Launch(0));
    packets(&mut gpu);
    assert!(released(&mut gpu, 1, before).is_empty(), "the first goes first");
    assert_eq!(released(&mut gpu, 0, before), [0, 128]);
    assert!(released(&mut gpu, 0, added).is_empty(), "nobody waits at its first packet");
    assert_eq!(released(&mut gpu, 128, added), [256, 384], "the others have added to the last of the first");
    assert!(released(&mut gpu, 2, before).is_empty(), "256 bytes are under way");
    assert_eq!(released(&mut gpu, 384, added), [512, 640]);
}

#[test]
fn sums_that_stay_here_wait_for_nobody() {
    let mut gpu = started(adding(&[0, 0]));
    let mut out = fire(&mut gpu, GpuTimer::Launch(0));
    for group in [0, 1] {
        let header = FlitHeader::new(NodeId(2), NodeId(0), true, group, 1, Transaction::Release);
        gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut out).unwrap();
    }
    assert!(out.events.contains(&GpuEvent::Finished), "{:?}", out.events);
}

#[test]
fn a_block_whose_turn_does_not_come_sends_in_the_end() {
    let mut gpu = started(adding(&[1, 1]));
    fire(&mut gpu, GpuTimer::Launch(0));
    packets(&mut gpu);
    assert!(released(&mut gpu, 1, 1).is_empty());
    // The first block's group times out, too; both have waited a microsecond.
    let mut out = Out::default();
    gpu.handle_timer(Instant::from_picos(9_000_000), GpuTimer::Sync, &mut out);
    gpu.assert_invariants();
    let sums = packets(&mut gpu);
    assert_eq!(sums.iter().filter(|header| header.transaction == Transaction::Reduce).count(), 4);
}

#[test]
fn a_sync_does_not_wait_behind_sums_where_requests_share_a_queue() {
    let output = Output { send: Send::MergedReduce, to: 1, address: 0, local: 0, rows: Rows::one(1024) };
    let mut blocks = kernel(vec![
        Block { outputs: vec![output], ..Block::default() },
        Block { group: Some(3), ..Block::default() },
    ]);
    blocks.place = KernelPlace::CopyEngine(2);
    blocks.merges = Merges::Loads;
    let coordination = Coordination { pre_access: true, ..Coordination::default() };
    let program = Program { kernels: vec![blocks], memory: 1024, coordination, ..Program::default() };
    let mut gpu = Gpu::new(GpuConfig { shared_requests: true, ..config(program) });
    gpu.start(Instant::ZERO, &mut Out::default());
    fire(&mut gpu, GpuTimer::Launch(0));
    let kinds: Vec<_> = packets(&mut gpu).iter().map(|header| header.transaction).collect();
    let place = kinds.iter().position(|kind| *kind == Transaction::Sync);
    assert!(place.is_some_and(|place| place <= 1), "{kinds:?}");
    assert_eq!(kinds.len(), 9);
}
