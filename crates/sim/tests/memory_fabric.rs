//! Collectives on a memory fabric: right results by every design, whatever the order of responses, and the times that
//! follow from links and units.

use quincunx_collective::*;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_memory::Scatter;
use quincunx_sim::memory_fabric::{
    Design, IsaSetup, MemoryFabric, Outcome, RunError, Stream, expected, run, run_streams,
};
use quincunx_units::{BitRate, ByteCount, Duration};

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

fn preset(name: &str) -> MemoryFabric {
    MemoryFabric::preset(name).expect("a preset of the paper")
}

/// Small tables, so that entries run out all the time; responses out of order.
fn small(accelerators: u16) -> MemoryFabric {
    let dgx = preset("scin-dgx8");
    MemoryFabric {
        accelerators,
        switches: 2,
        scatter: Some(Scatter { seed: 7, spread: Duration::from_nanos(400) }),
        isa: IsaSetup { waves: 2, wave: ByteCount::new(256), ..dgx.isa },
        ..dgx
    }
}

fn request(collective: Collective, span: Span) -> InPlaceRequest {
    InPlaceRequest { collective, reduction: SUM, span }
}

fn assert_right<P: Payload>(fabric: &MemoryFabric, design: Design, collective: Collective, inputs: &[P]) {
    let request = request(collective, Span { offset: 0, length: inputs[0].length() });
    let outcome = run(fabric, design, request, inputs.to_vec()).expect("a run");
    for (rank, memory) in outcome.memories.iter().enumerate() {
        if let Some((span, right)) = expected(&request, rank, inputs) {
            let found = P::from_view(memory.view(span.offset..span.offset + span.length));
            assert!(found == right, "{design:?} {collective} at rank {rank} of {}", fabric.accelerators);
        }
    }
}

fn numbers(ranks: u16, length: usize) -> Vec<Numbers> {
    (0..ranks).map(|rank| pattern(Rank(rank), length, DataType::F32)).collect()
}

#[test]
fn every_collective_of_scin_gives_what_it_must() {
    let roots = [Collective::Reduce { root: Rank(2) }, Collective::Broadcast { root: Rank(1) }];
    for collective in Collective::PRIMITIVES.into_iter().chain(roots) {
        for ranks in [1, 3, 4] {
            if collective.root().is_none_or(|root| root.0 < ranks) {
                let length = usize::from(ranks) * 4 * 333;
                assert_right(&small(ranks), Design::Scin, collective, &numbers(ranks, length));
            }
        }
    }
}

#[test]
fn every_collective_that_accelerators_run_gives_what_it_must() {
    for design in [Design::Ring, Design::Direct, Design::Nvls] {
        for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather] {
            for ranks in [1, 2, 3, 5] {
                let length = usize::from(ranks) * 4 * 333;
                assert_right(&small(ranks), design, collective, &numbers(ranks, length));
            }
        }
    }
}

#[test]
fn every_rank_is_counted_once_at_any_length() {
    for design in [Design::Scin, Design::Ring, Design::Direct, Design::Nvls] {
        for length in [0, 4, 128, 132, 1020, 5000] {
            let inputs: Vec<_> = (0..3).map(|rank| Contributions::of_rank(Rank(rank), length)).collect();
            assert_right(&small(3), design, Collective::AllReduce, &inputs);
        }
    }
}

#[test]
fn a_vector_may_begin_anywhere() {
    let span = Span { offset: 64, length: 1000 };
    for design in [Design::Scin, Design::Ring, Design::Direct, Design::Nvls] {
        let inputs = numbers(4, span.offset + span.length);
        let outcome =
            run(&small(4), design, request(Collective::AllReduce, span), inputs.clone()).expect("a run");
        let mut right = inputs[3].clone();
        let vectors: Vec<_> =
            inputs.iter().map(|input| Numbers::from(input.bytes()[span.offset..].to_vec())).collect();
        right.write(span.offset, reference(Collective::AllReduce, SUM, &vectors)[3].bytes());
        assert_eq!(outcome.memories[3], right, "{design:?}");
    }
}

#[test]
fn sums_in_scin_and_nvls_are_added_as_a_tree_adds() {
    let inputs: Vec<_> = (0..4).map(|rank| noise(rank, 4000, DataType::F32)).collect();
    let leaf = |rank| Fold::Rank(Rank(rank));
    let pair = |a, b| Fold::Node(vec![a, b]);
    let fold = pair(pair(leaf(0), leaf(1)), pair(leaf(2), leaf(3)));
    let right = reduce_in_tree(&fold, SUM, &inputs);
    for design in [Design::Scin, Design::Nvls] {
        let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 4000 });
        let outcome = run(&small(4), design, all_reduce, inputs.clone()).expect("a run");
        assert!(outcome.memories.iter().all(|memory| *memory == right), "{design:?}");
    }
}

#[test]
fn direct_sums_are_added_in_rank_order() {
    let inputs: Vec<_> = (0..5).map(|rank| noise(rank, 4000, DataType::F32)).collect();
    assert_right(&small(5), Design::Direct, Collective::AllReduce, &inputs);
}

#[test]
fn the_same_run_twice_is_the_same() {
    let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 10_000 });
    let once = || run(&small(4), Design::Scin, all_reduce, numbers(4, 10_000)).expect("a run");
    assert_eq!(once(), once());
}

/// A rank's quantised vector as it lies in memory, codes and then scales.
fn quantised(quantization: BlockQuantization, rank: u16, values: usize) -> Numbers {
    let noise = noise(u64::from(rank), 4 * values, DataType::F32);
    let floats = noise.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let Quantized { codes, scales } = quantization.quantize(&floats.collect::<Vec<_>>());
    Numbers::from([codes, scales].concat())
}

#[test]
fn a_quantised_all_reduce_leaves_the_quantised_sum_everywhere() {
    for (code, block) in
        [(CodeType::Int8, 64), (CodeType::Int8, 256), (CodeType::Int4, 32), (CodeType::Int4, 512)]
    {
        for values in [8, 512, 1536, 5000] {
            let quantization = BlockQuantization::new(code, block).expect("a block size of the paper");
            let tables = IsaSetup { quantization, wave: ByteCount::new(512), ..small(4).isa };
            let fabric = MemoryFabric { isa: tables, ..small(4) };
            let codes = quantization.code_bytes(values);
            let inputs: Vec<_> = (0..4).map(|rank| quantised(quantization, rank, values)).collect();
            let vectors: Vec<_> = inputs
                .iter()
                .map(|input| input.bytes().split_at(codes))
                .map(|(codes, scales)| Quantized { codes, scales })
                .collect();
            let sum = quantization.sum(&vectors, values);
            let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: codes });
            let outcome = run(&fabric, Design::ScinInq, all_reduce, inputs.clone()).expect("a run");
            let right = Numbers::from([sum.codes, sum.scales].concat());
            assert!(
                outcome.memories.iter().all(|memory| *memory == right),
                "{code:?}, blocks of {block}, {values} values"
            );
        }
    }
}

/// SCIN 2.1, item 3: quantised and dequantised at every hop of the reduce-scatter, once more for the all-gather.
#[test]
fn a_ring_that_quantises_leaves_what_its_reference_says_to_the_bit() {
    for (code, block) in [(CodeType::Int8, 64), (CodeType::Int4, 32), (CodeType::Int4, 512)] {
        for (ranks, values) in [(1, 100), (2, 64), (3, 0), (3, 7), (4, 5000), (5, 333), (5, 3 * 512)] {
            let quantization = BlockQuantization::new(code, block).expect("a block size of the paper");
            let fabric = MemoryFabric { isa: IsaSetup { quantization, ..small(4).isa }, ..small(ranks) };
            let inputs: Vec<_> =
                (0..ranks).map(|rank| noise(rank.into(), 4 * values, DataType::F32)).collect();
            let floats = |input: &Numbers| {
                let values = input.bytes().as_chunks::<4>().0.iter();
                values.map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>()
            };
            let right = quantization.rq_all_reduce(&inputs.iter().map(floats).collect::<Vec<_>>());
            let right = Numbers::from(right.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
            let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 4 * values });
            let outcome = run(&fabric, Design::RingRq, all_reduce, inputs).expect("a run");
            assert!(
                outcome.memories.iter().all(|memory| *memory == right),
                "{code:?}, blocks of {block}, {values} values at {ranks} ranks"
            );
        }
    }
}

#[test]
fn a_ring_that_quantises_refuses_what_has_no_codes() {
    let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 64 });
    let minimum = InPlaceRequest { reduction: Reduction { op: ReduceOp::Min, ..SUM }, ..all_reduce };
    let scatter = InPlaceRequest { collective: Collective::ReduceScatter, ..all_reduce };
    for refused in [minimum, scatter] {
        let error = run(&small(4), Design::RingRq, refused, numbers(4, 64)).expect_err("a refusal");
        assert!(error.to_string().starts_with("expected all_reduce of sums of f32"), "{error}");
    }
}

#[test]
fn a_quantised_collective_other_than_all_reduce_is_refused() {
    let reduce = request(Collective::Barrier, Span { offset: 0, length: 0 });
    let memories = vec![LengthOnly::new(0); 4];
    assert_eq!(
        run(&small(4), Design::ScinInq, reduce, memories),
        Err(RunError::Quantized(Collective::Barrier))
    );
}

#[test]
fn without_wave_regulation_results_are_the_same() {
    let tables = IsaSetup { waves: 1, wave: ByteCount::new(512), ..small(4).isa };
    let fabric = MemoryFabric { isa: tables, ..small(4) };
    for collective in Collective::PRIMITIVES {
        assert_right(&fabric, Design::Scin, collective, &numbers(4, 16 * 333));
    }
}

fn timed(fabric: &MemoryFabric, design: Design, length: usize) -> Outcome<LengthOnly> {
    let memories = vec![LengthOnly::new(length); usize::from(fabric.accelerators)];
    run(fabric, design, request(Collective::AllReduce, Span { offset: 0, length }), memories).expect("a run")
}

/// What the links of the prototype give for one wave of one packet (SCIN 3.5): four flights, two packets of 129 flits
/// of 4 ns, two of one flit, 20 cycles in the accumulator, two responses; and for the synchronisation a word each
/// way, of two flits.
#[test]
fn the_prototype_takes_what_its_links_and_units_take() {
    let fabric = preset("scin-fpga");
    let outcome = timed(&fabric, Design::Scin, 4096);
    let expected = 4 * 360 + 2 * 129 * 4 + 2 * 4 + 20 * 4 + 2 * 30;
    assert_eq!(outcome.streams[0].unsynchronized, Some(Duration::from_nanos(expected)));
    assert_eq!(outcome.time(), Duration::from_nanos(expected + 2 * (360 + 2 * 4)));
}

/// SCIN 4.1 and 4.3: of 900 GB/s both ways together, 360 GB/s each way are payload.
#[test]
fn the_payload_bound_of_the_dgx_is_360_gigabytes_a_second() {
    assert_eq!(preset("scin-dgx8").payload_bound().as_gigabytes_per_second_f64(), 360.0);
}

/// A step of the ring is a fence, that is a round trip to the switch, and a flag, that is a trip through the switch:
/// four flights, and flits of the data, its answer and the flag.
#[test]
fn a_step_of_the_ring_takes_four_flights() {
    let fabric = preset("scin-dgx8");
    let step = timed(&fabric, Design::Ring, 4096).time().as_picos() / 14;
    assert!((1_000_000..1_003_000).contains(&step), "{step} ps");
}

#[test]
fn a_large_all_reduce_comes_close_to_the_payload_bound() {
    let fabric = MemoryFabric { accelerators: 4, switches: 1, ..preset("scin-dgx8") };
    let length = ByteCount::new(1 << 20);
    let outcome = timed(&fabric, Design::Scin, length.as_usize());
    let bound = fabric.payload_bound().time_for(length);
    // The last wave's round trip and write are on top of what the links carry.
    let limit = bound + Duration::from_nanos(1_200);
    assert!(
        outcome.streams[0].unsynchronized.is_some_and(|time| bound < time && time < limit),
        "{outcome:?}"
    );
}

/// In the reduce-scatter each step waits until a chunk is added, which is consumable only when its flag is there.
#[test]
fn accelerators_that_add_at_a_rate_take_so_much_longer() {
    let rates = [BitRate::new(8_000_000_000), None];
    let longer = |design, length| {
        let [with, without] =
            rates.map(|add_rate| timed(&MemoryFabric { add_rate, ..small(4) }, design, length).time());
        with.as_picos() - without.as_picos()
    };
    // A byte a nanosecond: three steps of a quarter of 4 KiB each; three vectors at once; nothing where switches add.
    assert_eq!(longer(Design::Ring, 4096), 3 * 1_024_000);
    assert_eq!(longer(Design::Direct, 4096), 3 * 4_096_000);
    assert_eq!([longer(Design::Scin, 4096), longer(Design::Nvls, 4096)], [0, 0]);
}

#[test]
fn direct_writes_take_one_step_and_the_most_traffic() {
    let fabric = preset("scin-dgx8");
    let [direct, ring] = [Design::Direct, Design::Ring].map(|design| timed(&fabric, design, 4096));
    assert!(direct.time() * 10 < ring.time(), "{} and {}", direct.time(), ring.time());
    let [direct, ring] = [Design::Direct, Design::Ring].map(|design| timed(&fabric, design, 32 << 10));
    assert!(direct.busiest_link().bytes() > 3 * ring.busiest_link().bytes());
}

/// Streams of AllReduces on parts of memory one behind the other.
fn streams(designs: &[Design], length: usize) -> Vec<Stream> {
    let of = |(number, &design): (usize, &Design)| Stream {
        design,
        request: request(Collective::AllReduce, Span { offset: number * length, length }),
    };
    designs.iter().enumerate().map(of).collect()
}

/// SCIN 3.4: several synchronisation resources, several wave controllers.
#[test]
fn streams_side_by_side_each_leave_their_own_sums() {
    let length = 4 * 333;
    for designs in
        [&[Design::Scin; 3][..], &[Design::Scin, Design::Ring, Design::Scin], &[Design::Nvls, Design::Scin]]
    {
        let inputs = numbers(4, designs.len() * length);
        let streams = streams(designs, length);
        let outcome = run_streams(&small(4), &streams, inputs.clone()).expect("a run");
        for stream in &streams {
            for (rank, memory) in outcome.memories.iter().enumerate() {
                let (span, right) =
                    expected(&stream.request, rank, &inputs).expect("an AllReduce leaves something");
                let found = Numbers::from_view(memory.view(span.offset..span.offset + span.length));
                assert!(found == right, "{designs:?}: {:?} at rank {rank}", stream.request.span);
            }
        }
    }
}

#[test]
fn two_streams_share_what_one_would_have_and_hide_each_others_latency() {
    let fabric = preset("scin-dgx8");
    let last = |streams: &[Stream], length| {
        let memories = vec![LengthOnly::new(length); 8];
        run_streams(&fabric, streams, memories).expect("a run").time().as_micros_f64()
    };
    let [one, two] = [
        last(&streams(&[Design::Scin], 1 << 18), 1 << 18),
        last(&streams(&[Design::Scin; 2], 1 << 17), 1 << 18),
    ];
    assert!((one / two - 1.0).abs() < 0.05, "{one} us in one stream, {two} us in two");
    let [one, two] = [4 << 10, 8 << 10].map(|length| last(&streams(&[Design::Scin; 2], length / 2), length));
    assert!(two < 1.1 * one, "small streams take what one takes: {one} us, {two} us");
}

#[test]
fn ordinary_traffic_and_scin_share_the_ports_and_neither_starves() {
    let fabric = MemoryFabric { accelerators: 4, switches: 1, ..preset("scin-dgx8") };
    let time = |designs: &[Design], stream: usize| {
        let memories = vec![LengthOnly::new(designs.len() << 17); 4];
        let outcome = run_streams(&fabric, &streams(designs, 1 << 17), memories).expect("a run");
        outcome.streams[stream].time.as_micros_f64()
    };
    for (stream, design) in [Design::Scin, Design::Ring].into_iter().enumerate() {
        let (alone, beside) = (time(&[design], 0), time(&[Design::Scin, Design::Ring], stream));
        // Round robin gives each at least half of a link's flits while both have something to send.
        assert!(
            1.05 * alone < beside && beside < 2.1 * alone,
            "{design:?}: {alone} us alone, {beside} us beside"
        );
    }
}

#[test]
fn streams_that_cannot_share_are_refused() {
    let refused =
        |streams: &[Stream]| run_streams(&small(4), streams, numbers(4, 512)).expect_err("a refusal");
    assert_eq!(refused(&streams(&[Design::Ring, Design::Nvls], 256)), RunError::Streams(2));
    let mut different = streams(&[Design::Scin; 2], 256);
    different[1].request.reduction.op = ReduceOp::Max;
    assert_eq!(refused(&different), RunError::Reductions);
}
