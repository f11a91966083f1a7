//! Whose turn it is: which blocks get a place, how far ahead an accelerator asks and sends, and when it answers.

use crate::gpu::*;
use quincunx_accelerator::*;
use quincunx_collective::Numbers;
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitHeader, NodeId, Transaction};

fn begun(config: GpuConfig) -> Gpu<Numbers> {
    let mut gpu = Gpu::new(config);
    gpu.start(Instant::ZERO, &mut Out::default());
    gpu
}

/// Products of an SM's time, and a kernel that goes before them once it is launched.
fn products_and_urgent(claims_ahead: u16) -> Gpu<Numbers> {
    let products = kernel(vec![computing(7), computing(9), computing(9)]);
    let urgent = Kernel { priority: 2, ..kernel(vec![computing(11)]) };
    let program = Program { kernels: vec![products, urgent], ..Program::default() };
    let mut gpu = begun(GpuConfig { claims_ahead, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    fire(&mut gpu, GpuTimer::Launch(1));
    gpu
}

#[test]
fn of_ready_blocks_those_of_the_highest_priority_get_the_next_place() {
    let next = fire(&mut products_and_urgent(0), GpuTimer::Compute(0));
    assert_eq!(next.timers, [(GpuTimer::Compute(0), Duration::from_nanos(11))]);
}

#[test]
fn a_place_that_was_promised_goes_to_the_highest_priority_nevertheless() {
    let next = fire(&mut products_and_urgent(1), GpuTimer::Compute(0));
    assert_eq!(next.timers, [(GpuTimer::Compute(0), Duration::from_nanos(11))]);
}

/// Which of two kernels, of blocks of 7 and of 11 ns, get the places of an SM with four, by their weights.
fn served(weights: [u32; 2], coordination: Coordination) -> [u16; 2] {
    let kernels = [7, 11].into_iter().zip(weights);
    let kernels = kernels
        .map(|(length, weight)| Kernel { weights: vec![weight; 8], ..kernel(vec![computing(length); 8]) });
    let program = Program { kernels: kernels.collect(), coordination, ..Program::default() };
    let mut gpu = begun(GpuConfig { blocks_per_sm: 4, ..config(program) });
    // Nobody gets a place before both may have one.
    gpu.handle_timer(Instant::ZERO, GpuTimer::Launch(0), &mut Out::default());
    gpu.handle_timer(Instant::ZERO, GpuTimer::Launch(1), &mut Out::default());
    let mut at = Instant::ZERO;
    for _ in 0..4 {
        at = at + Duration::from_nanos(11);
        gpu.handle_timer(at, GpuTimer::Compute(0), &mut Out::default());
    }
    let [a, b] = [0, 1].map(|kernel| gpu.kernels().nth(kernel).unwrap().resident);
    [a, b]
}

#[test]
fn kernels_that_compete_are_served_by_their_weights() {
    assert_eq!(served([1, 1], Coordination::default()), [2, 2]);
    assert_eq!(served([3, 1], Coordination::default()), [3, 1]);
    assert_eq!(served([1, 3], Coordination::default()), [1, 3]);
}

#[test]
fn where_groups_are_launched_together_weights_are_of_no_account() {
    let together = Coordination { pre_launch: true, ..Coordination::default() };
    assert_eq!(served([3, 1], together), served([1, 1], together));
}

/// What each of four SMs computes after some rounds: blocks of 7 ns of a kernel, or of 11 ns of the one beside it.
fn beside(weights: [u32; 2], blocks: [usize; 2], rounds: usize, coordination: Coordination) -> [u64; 4] {
    let kernels = [(7, weights[0], blocks[0], 1), (11, weights[1], blocks[1], 0)];
    let kernels = kernels.map(|(length, weight, blocks, other)| Kernel {
        weights: vec![weight; blocks],
        beside: Some(other),
        ..kernel(vec![computing(length); blocks])
    });
    let program = Program { kernels: kernels.to_vec(), coordination, ..Program::default() };
    let mut gpu = begun(GpuConfig { sms: 4, claims_ahead: 2, ..config(program) });
    let mut computes = [0; 4];
    let timers = [0, 1].map(GpuTimer::Launch);
    let each_sm = || (0..4).map(GpuTimer::Compute);
    for timer in timers.into_iter().chain((0..rounds).flat_map(|_| each_sm())) {
        if let GpuTimer::Compute(sm) = timer {
            computes[usize::from(sm)] = 0;
        }
        for (timer, length) in fire(&mut gpu, timer).timers {
            let GpuTimer::Compute(sm) = timer else { panic!("{timer:?}") };
            computes[usize::from(sm)] = length.as_picos() / 1000;
        }
    }
    computes
}

#[test]
fn kernels_beside_each_other_have_a_half_of_the_sms_each() {
    assert_eq!(beside([1, 1], [40, 40], 4, Coordination::default()), [7, 7, 11, 11]);
    let together = Coordination { pre_launch: true, ..Coordination::default() };
    assert_eq!(beside([3, 1], [40, 40], 4, together), [7, 7, 11, 11], "weights are of no account");
}

#[test]
fn kernels_beside_each_other_have_sms_by_their_weights_and_one_at_least() {
    assert_eq!(beside([3, 1], [40, 40], 4, Coordination::default()), [7, 7, 7, 11]);
    assert_eq!(beside([1, 3], [40, 40], 4, Coordination::default()), [7, 11, 11, 11]);
    assert_eq!(beside([1, 1000], [40, 40], 4, Coordination::default()), [7, 11, 11, 11]);
    assert_eq!(beside([1000, 1], [40, 40], 4, Coordination::default()), [7, 7, 7, 11]);
}

#[test]
fn a_kernel_has_the_sms_of_the_one_beside_it_when_that_has_no_block_that_waits() {
    assert_eq!(beside([1, 1], [40, 0], 2, Coordination::default()), [7, 7, 7, 7], "nothing to do");
    assert_eq!(beside([1, 1], [40, 2], 4, Coordination::default()), [7, 7, 7, 7], "all done");
    assert_eq!(beside([1, 1], [4, 40], 4, Coordination::default()), [11, 11, 11, 11]);
}

#[test]
fn kernels_beside_each_other_wait_while_a_communication_kernel_has_all_sms() {
    let waits = vec![Wait { counter: CounterId(0), target: 1 }];
    let sends = Kernel { place: KernelPlace::WholeSm(1), ..kernel(vec![Block { waits, ..computing(7) }]) };
    let [first, second] = [2, 1].map(|other| Kernel { beside: Some(other), ..kernel(vec![computing(9)]) });
    let program = Program { kernels: vec![sends, first, second], counters: 1, ..Program::default() };
    let mut gpu = begun(config(program));
    fire(&mut gpu, GpuTimer::Launch(0));
    for kernel in [1, 2] {
        assert!(fire(&mut gpu, GpuTimer::Launch(kernel)).timers.is_empty(), "the only SM is kept");
    }
}

#[test]
fn groups_are_asked_for_as_many_blocks_ahead_as_may_claim_a_place() {
    for (claims_ahead, wanted) in [(0, vec![0]), (1, vec![0, 1]), (2, vec![0, 1, 2])] {
        let blocks = (0..4).map(|group| Block { group: Some(group), ..computing(7) });
        let coordination = Coordination { pre_launch: true, ..Coordination::default() };
        let program = Program { kernels: vec![kernel(blocks.collect())], coordination, ..Program::default() };
        let mut gpu = begun(GpuConfig { claims_ahead, ..config(program) });
        fire(&mut gpu, GpuTimer::Launch(0));
        let asked: Vec<u64> = packets(&mut gpu).iter().map(|header| header.address).collect();
        assert_eq!(asked, wanted, "{claims_ahead} ahead");
    }
}

#[test]
fn a_communication_kernel_waits_for_all_places_of_an_sm_which_nobody_else_takes_meanwhile() {
    let sends = Kernel { place: KernelPlace::WholeSm(1), ..kernel(vec![Block::default()]) };
    let products = kernel(vec![computing(7), computing(9), computing(11)]);
    let program = Program { kernels: vec![products, sends], ..Program::default() };
    let mut gpu = begun(GpuConfig { blocks_per_sm: 2, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    fire(&mut gpu, GpuTimer::Launch(1));
    let ended = GpuEvent::Ended { kernel: 1 };
    assert!(!fire(&mut gpu, GpuTimer::Compute(0)).events.contains(&ended), "one place is taken");
    let last = fire(&mut gpu, GpuTimer::Compute(0));
    assert!(last.events.contains(&ended), "{:?}", last.events);
    assert_eq!(last.timers, [(GpuTimer::Compute(0), Duration::from_nanos(11))]);
}

/// A block whose stages load a tile of 256 bytes each, of one series.
fn loading(stages: u32) -> Program {
    let tile = |number: u32| Tile {
        fetch: Fetch::MergedLoad,
        from: 1,
        address: 256 * u64::from(number),
        local: 256 * number as usize,
        rows: Rows::one(256),
        series: Some(0),
    };
    let stage = |number| Stage { tiles: vec![TileId(number)], compute: Duration::from_nanos(3) };
    let block = Block { stages: (0..stages).map(stage).collect(), ..Block::default() };
    let memory = 256 * stages as usize;
    let tiles = (0..stages).map(tile).collect();
    Program { kernels: vec![kernel(vec![block])], tiles, memory, ..Program::default() }
}

/// The tag of a release that says: all others have loaded from an address.
const LOADED: u32 = 2;

/// The addresses that are read.
fn read(gpu: &mut Gpu<Numbers>) -> Vec<u64> {
    let is_read = |header: &FlitHeader| matches!(header.transaction, Transaction::Read { .. });
    packets(gpu).into_iter().filter(is_read).map(|header| header.address).collect()
}

#[test]
fn tiles_are_asked_for_as_many_stages_ahead_as_are_set() {
    for (prefetch, tiles) in [(0, 1), (1, 2), (3, 4)] {
        let mut gpu = begun(GpuConfig { prefetch, load_window: 64, ..config(loading(6)) });
        fire(&mut gpu, GpuTimer::Launch(0));
        assert_eq!(read(&mut gpu).len(), 2 * tiles, "{prefetch} ahead");
    }
}

#[test]
fn who_is_ahead_of_the_others_asks_for_no_more_of_a_series_until_they_have_asked() {
    let coordination = Coordination { throttle: true, ..Coordination::default() };
    let program = Program { coordination, ..loading(3) };
    let mut gpu = begun(GpuConfig { prefetch: 3, load_window: 64, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(read(&mut gpu), [0, 128], "256 bytes");
    let header = FlitHeader::new(NodeId(2), NodeId(0), true, 128, LOADED, Transaction::Release);
    gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut Out::default()).unwrap();
    assert_eq!(read(&mut gpu), [256, 384]);
}

#[test]
fn tiles_whose_last_requests_are_one_wait_for_the_same_release() {
    let coordination = Coordination { throttle: true, ..Coordination::default() };
    let mut program = Program { coordination, ..loading(3) };
    program.tiles[1].address = program.tiles[0].address;
    let mut gpu = begun(GpuConfig { prefetch: 3, load_window: 64, loads_ahead: 512, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(read(&mut gpu), [0, 128, 0, 128]);
    let header = FlitHeader::new(NodeId(2), NodeId(0), true, 128, LOADED, Transaction::Release);
    gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut Out::default()).unwrap();
    gpu.assert_invariants();
    assert_eq!(read(&mut gpu), [512, 640]);
}

#[test]
fn a_tile_that_is_read_again_waits_for_nobody() {
    let coordination = Coordination { throttle: true, ..Coordination::default() };
    let mut program = Program { coordination, ..loading(2) };
    // An L2 of one tile: the second takes the first one's room, and the third stage is the first tile again.
    let again = program.kernels[0].blocks[0].stages[0].clone();
    program.kernels[0].blocks[0].stages.push(again);
    let mut gpu = begun(GpuConfig { prefetch: 0, l2: 256, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    let step = |gpu: &mut Gpu<Numbers>| -> Vec<u64> {
        let is_read = |header: &FlitHeader| matches!(header.transaction, Transaction::Read { .. });
        let reads: Vec<FlitHeader> = packets(gpu).into_iter().filter(is_read).collect();
        for header in &reads {
            let response = header.response(Transaction::ReadResponse);
            gpu.handle_packet(Instant::ZERO, PortId(0), &response, &[1; 128], &mut Out::default()).unwrap();
        }
        fire(gpu, GpuTimer::Compute(0));
        reads.iter().map(|header| header.address).collect()
    };
    assert_eq!(step(&mut gpu), [0, 128]);
    assert!(step(&mut gpu).is_empty(), "the others have not asked for the first");
    let header = FlitHeader::new(NodeId(2), NodeId(0), true, 128, LOADED, Transaction::Release);
    gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut Out::default()).unwrap();
    assert_eq!(step(&mut gpu), [256, 384]);
    assert_eq!(step(&mut gpu), [0, 128], "though they have not asked for the second");
}

#[test]
fn the_last_packet_of_a_tile_alone_asks_to_hear_of_the_others() {
    for (throttle, wanted) in [(true, [false, true]), (false, [false, false])] {
        let coordination = Coordination { throttle, ..Coordination::default() };
        let mut gpu = begun(config(Program { coordination, ..loading(1) }));
        fire(&mut gpu, GpuTimer::Launch(0));
        let asks: Vec<bool> = packets(&mut gpu).iter().map(|header| header.notify).collect();
        assert_eq!(asks, wanted, "throttled: {throttle}");
    }
}

#[test]
fn the_last_packet_of_a_block_s_sums_alone_asks_to_hear_of_the_others() {
    for (home, wanted) in [(1, vec![false, true]), (0, vec![])] {
        let mut gpu = begun(config(adding(&[home])));
        fire(&mut gpu, GpuTimer::Launch(0));
        packets(&mut gpu);
        let header = FlitHeader::new(NodeId(2), NodeId(0), true, 0, 1, Transaction::Release);
        gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut Out::default()).unwrap();
        let sent = packets(&mut gpu);
        assert!(sent.iter().all(|header| header.transaction == Transaction::Reduce), "no sync: {sent:?}");
        assert_eq!(sent.iter().map(|header| header.notify).collect::<Vec<_>>(), wanted, "at {home}");
    }
}

#[test]
fn who_hears_nothing_of_the_others_goes_on_in_the_end() {
    let coordination = Coordination { throttle: true, ..Coordination::default() };
    let program = Program { coordination, ..loading(2) };
    let mut gpu = begun(GpuConfig { prefetch: 2, load_window: 64, ..config(program) });
    fire(&mut gpu, GpuTimer::Launch(0));
    assert_eq!(read(&mut gpu), [0, 128]);
    gpu.handle_timer(Instant::from_picos(9_000_000), GpuTimer::Sync, &mut Out::default());
    assert_eq!(read(&mut gpu), [256, 384]);
}

#[test]
fn a_block_ends_when_all_that_it_sends_has_left() {
    let mut gpu = begun(config(adding(&[1])));
    fire(&mut gpu, GpuTimer::Launch(0));
    packets(&mut gpu);
    let header = FlitHeader::new(NodeId(2), NodeId(0), true, 0, 1, Transaction::Release);
    let mut out = Out::default();
    gpu.handle_packet(Instant::ZERO, PortId(0), &header, &[], &mut out).unwrap();
    gpu.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
    assert!(!out.events.contains(&GpuEvent::Finished), "one of two packets has left");
    gpu.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
    assert!(out.events.contains(&GpuEvent::Finished), "{:?}", out.events);
}

#[test]
fn an_answer_leaves_after_the_response_latency() {
    let program = Program { memory: 256, ..Program::default() };
    let latency = Duration::from_nanos(5);
    let mut gpu = Gpu::<Numbers>::new(GpuConfig { response_latency: latency, ..config(program) });
    let request = FlitHeader::new(NodeId(1), NodeId(0), false, 0, 0, Transaction::Read { length: 128 });
    let mut out = Out::default();
    gpu.handle_packet(Instant::ZERO, PortId(0), &request, &[], &mut out).unwrap();
    assert!(!gpu.wants_transmit(PortId(0)), "not yet");
    assert_eq!(out.timers, [(GpuTimer::Respond(PortId(0)), latency)]);
    gpu.handle_timer(Instant::ZERO + latency, GpuTimer::Respond(PortId(0)), &mut out);
    assert!(gpu.wants_transmit(PortId(0)));
}
