//! Whatever peers send, an accelerator neither panics nor breaks its rules.

use crate::gpu::{Out, gpu, kernel};
use proptest::prelude::*;
use quincunx_accelerator::*;
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{Channel, CreditReturn, FlitHeader, NodeId, Transaction, word_address};

fn program() -> Program {
    let tile = Tile {
        fetch: Fetch::MergedLoad,
        from: 1,
        address: 0,
        local: 0,
        rows: Rows::one(256),
        series: Some(0),
    };
    let output = Output { send: Send::MergedReduce, to: 1, address: 256, local: 0, rows: Rows::one(256) };
    let stage = Stage { tiles: vec![TileId(0)], compute: Duration::from_nanos(1) };
    let block = Block { stages: vec![stage], outputs: vec![output], group: Some(3), ..Block::default() };
    let mut loads = kernel(vec![block]);
    loads.merges = Merges::Loads;
    Program {
        kernels: vec![loads],
        tiles: vec![tile],
        regions: vec![Region { address: 0, length: 512, part: 128, counter: CounterId(0) }],
        counters: 4,
        memory: 512,
        coordination: Coordination { pre_launch: true, pre_access: true, throttle: true },
    }
}

prop_compose! {
    fn packets()(
        kind in 0..15usize,
        length in prop_oneof![Just(128u16), Just(0), Just(3), Just(129)],
        address in prop_oneof![(0..6u64).prop_map(|line| line * 128), Just(3), Just(9), Just(1), (0..6u16).prop_map(word_address)],
        tag in 0..5u32,
        destination in prop_oneof![8 => Just(0u16), 1 => 1..4u16],
        inc in any::<bool>(),
        credits in prop_oneof![9 => Just(0u8), 1 => 0..=15u8],
        channel in 0..Channel::COUNT,
    ) -> (FlitHeader, Vec<u8>) {
        let operand = u64::from(tag);
        let transaction = [
            Transaction::Credit,
            Transaction::Read { length },
            Transaction::ReadResponse,
            Transaction::Write,
            Transaction::WriteResponse,
            Transaction::Add { operand },
            Transaction::Store { operand },
            Transaction::MultimemLoadReduce { length },
            Transaction::MultimemStore,
            Transaction::MultimemAdd { operand },
            Transaction::MultiWrite { destinations: operand },
            Transaction::Reduce,
            Transaction::MultimemReduce,
            Transaction::Sync,
            Transaction::Release,
        ][kind];
        let credit = CreditReturn { channel: Channel::ALL[channel], packets: credits };
        let header = FlitHeader::new(NodeId(1), NodeId(destination), inc, address, tag, transaction);
        let bytes = if transaction.carries_data() { usize::from(length) } else { 0 };
        (FlitHeader { credit, ..header }, vec![1; bytes])
    }
}

proptest! {
    #[test]
    fn any_packets_leave_an_accelerator_whole(
        steps in proptest::collection::vec((packets(), 0..4u8), 1..60),
    ) {
        let mut gpu = gpu(program());
        let mut out = Out::default();
        gpu.start(Instant::ZERO, &mut out);
        for (time, ((header, payload), slots)) in (1..).zip(&steps) {
            let now = Instant::from_picos(time * 100_000);
            // A drop is an answer, too.
            let _ = gpu.handle_packet(now, PortId(0), header, payload, &mut out);
            for (timer, _) in std::mem::take(&mut out.timers) {
                gpu.handle_timer(now, timer, &mut out);
                gpu.assert_invariants();
            }
            for _ in 0..*slots {
                if gpu.wants_transmit(PortId(0)) {
                    gpu.handle_transmit_slot(now, PortId(0), &mut out);
                }
            }
            gpu.assert_invariants();
        }
    }
}
