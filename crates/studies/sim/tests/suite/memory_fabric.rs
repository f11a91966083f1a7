//! Collectives on a memory fabric: right results by every design, whatever the order of responses, and the times that
//! follow from links and units.

use quincunx_collective::*;
use quincunx_design::{AnyDesign, FabricKind, Settings, Value};
use quincunx_designs::CATALOG;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_memory::Scatter;
use quincunx_scenario::{Fabric, Scenario};
use quincunx_sim::memory_fabric::{MemoryFabric, Outcome, RunError, Stream, expected, run, run_streams};
use quincunx_units::{BitRate, ByteCount, Duration};

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

fn scenario(name: &str) -> Scenario {
    Scenario::find(name, &[], CATALOG).expect("a preset of the paper")
}

fn preset(name: &str) -> MemoryFabric {
    let Fabric::Memory(fabric) = scenario(name).fabric else { panic!("a memory fabric") };
    MemoryFabric::from(&fabric)
}

/// A design with settings.
#[derive(Clone, Debug)]
struct Way {
    design: &'static dyn AnyDesign,
    settings: Settings,
}

impl Way {
    /// A design of the catalog, on switches as a preset has them.
    fn on(preset: &str, design: &str) -> Self {
        let design = CATALOG.find(design, FabricKind::Memory).expect("a design of the catalog");
        let settings = scenario(preset).settings(design).expect("settings of the design");
        Self { design, settings }
    }

    fn dgx(design: &str) -> Self {
        Self::on("scin-dgx8", design)
    }

    /// Small tables, so that entries run out all the time.
    fn small(design: &str) -> Self {
        Self::dgx(design).with("isa.waves", 2).with("isa.wave", "256B").with("merge.entries", 2)
    }

    /// With another value of a key, if the design has it.
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        if self.settings.has(key) {
            self.design.set(&mut self.settings, key, &value.into()).expect("a value of the key");
        }
        self
    }

    fn quantising(self, quantization: BlockQuantization) -> Self {
        let bits = if quantization.code() == CodeType::Int8 { 8 } else { 4 };
        self.with("quantization.bits", bits).with("quantization.block", quantization.block())
    }

    fn stream(&self, request: InPlaceRequest) -> Stream {
        Stream { design: self.design, settings: self.settings.clone(), request }
    }

    fn run<P: quincunx_design::PayloadKind>(
        &self,
        fabric: &MemoryFabric,
        request: InPlaceRequest,
        memories: Vec<P>,
    ) -> Result<Outcome<P>, RunError> {
        run(fabric, self.design, &self.settings, request, memories)
    }
}

/// Responses out of order.
fn small(accelerators: u16) -> MemoryFabric {
    let dgx = preset("scin-dgx8");
    MemoryFabric {
        accelerators,
        switches: 2,
        scatter: Some(Scatter { seed: 7, spread: Duration::from_nanos(400) }),
        ..dgx
    }
}

fn request(collective: Collective, span: Span) -> InPlaceRequest {
    InPlaceRequest { collective, reduction: SUM, span }
}

fn assert_right<P: quincunx_design::PayloadKind>(
    fabric: &MemoryFabric,
    way: &Way,
    collective: Collective,
    inputs: &[P],
) {
    let request = request(collective, Span { offset: 0, length: inputs[0].length() });
    let outcome = way.run(fabric, request, inputs.to_vec()).expect("a run");
    for (rank, memory) in outcome.memories.iter().enumerate() {
        if let Some((span, right)) = expected(&request, rank, inputs) {
            let found = P::from_view(memory.view(span.offset..span.offset + span.length));
            assert!(found == right, "{way:?} {collective} at rank {rank} of {}", fabric.accelerators);
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
                assert_right(&small(ranks), &Way::small("scin"), collective, &numbers(ranks, length));
            }
        }
    }
}

#[test]
fn every_collective_that_accelerators_run_gives_what_it_must() {
    for design in ["ring", "direct", "nvls", "cais"] {
        for collective in [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather] {
            for ranks in [1, 2, 3, 5] {
                let length = usize::from(ranks) * 4 * 333;
                assert_right(&small(ranks), &Way::small(design), collective, &numbers(ranks, length));
            }
        }
    }
}

/// It goes to where it belongs at once: so much would take long to copy.
#[test]
fn a_long_direct_all_gather_gives_what_it_must() {
    let inputs = numbers(3, 3 * 4 * 33_333);
    assert_right(&small(3), &Way::small("direct"), Collective::AllGather, &inputs);
}

/// NVLS whose AllReduce is pushed, by switches with room for a few sums.
fn pushing() -> Way {
    Way::dgx("nvls").with("nvls.all_reduce", "push").with("nvls.sums", 3)
}

#[test]
fn an_all_reduce_that_is_pushed_gives_what_it_must_at_any_length() {
    for ranks in [1, 2, 3, 5] {
        for length in [0, 4, 128, 132, 1020, 5000] {
            let inputs: Vec<_> = (0..ranks).map(|rank| Provenance::of_rank(Rank(rank), length)).collect();
            assert_right(&small(ranks), &pushing(), Collective::AllReduce, &inputs);
        }
    }
}

#[test]
fn what_is_pushed_is_added_to_the_bit_as_what_is_pulled() {
    let inputs: Vec<_> = (0..5).map(|rank| noise(rank, 4000, DataType::F32)).collect();
    let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 4000 });
    let memories = |way: &Way| way.run(&small(5), all_reduce, inputs.clone()).expect("a run").memories;
    assert_eq!(memories(&pushing()), memories(&Way::small("nvls")));
}

#[test]
fn a_long_push_takes_what_links_take_for_the_vector_its_headers_and_its_answers() {
    // One header flit to eight of payload, and an answer of one flit; every accelerator's links carry the vector once each way.
    let length = 8 << 20;
    let dgx = preset("scin-dgx8");
    let way = Way::dgx("nvls").with("nvls.all_reduce", "push");
    let time = timed(&dgx, &way, length).time();
    let share = ByteCount::new(length as u64 / u64::from(dgx.switches) / 8 * 10);
    let least = dgx.link.rate.time_for(share);
    assert!((least..least + Duration::from_micros(4)).contains(&time), "{time} after {least} on the links");
}

#[test]
fn every_rank_is_counted_once_at_any_length() {
    for design in ["scin", "ring", "direct", "nvls", "cais"] {
        for length in [0, 4, 128, 132, 1020, 5000] {
            let inputs: Vec<_> = (0..3).map(|rank| Provenance::of_rank(Rank(rank), length)).collect();
            assert_right(&small(3), &Way::small(design), Collective::AllReduce, &inputs);
        }
    }
}

#[test]
fn a_vector_may_begin_anywhere() {
    let span = Span { offset: 64, length: 1000 };
    for design in ["scin", "ring", "direct", "nvls", "cais"] {
        let inputs = numbers(4, span.offset + span.length);
        let all_reduce = request(Collective::AllReduce, span);
        let outcome = Way::small(design).run(&small(4), all_reduce, inputs.clone()).expect("a run");
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
    for design in ["scin", "nvls"] {
        let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 4000 });
        let outcome = Way::small(design).run(&small(4), all_reduce, inputs.clone()).expect("a run");
        assert!(outcome.memories.iter().all(|memory| *memory == right), "{design:?}");
    }
}

#[test]
fn direct_sums_are_added_in_rank_order() {
    let inputs: Vec<_> = (0..5).map(|rank| noise(rank, 4000, DataType::F32)).collect();
    assert_right(&small(5), &Way::small("direct"), Collective::AllReduce, &inputs);
}

#[test]
fn the_same_run_twice_is_the_same() {
    let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 10_000 });
    let once = || Way::small("scin").run(&small(4), all_reduce, numbers(4, 10_000)).expect("a run");
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
            let way = Way::small("scin-inq").with("isa.wave", "512B").quantising(quantization);
            let codes = quantization.code_bytes(values);
            let inputs: Vec<_> = (0..4).map(|rank| quantised(quantization, rank, values)).collect();
            let vectors: Vec<_> = inputs
                .iter()
                .map(|input| input.bytes().split_at(codes))
                .map(|(codes, scales)| Quantized { codes, scales })
                .collect();
            let sum = quantization.sum(&vectors, values);
            let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: codes });
            let outcome = way.run(&small(4), all_reduce, inputs.clone()).expect("a run");
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
            let way = Way::dgx("ring-rq").quantising(quantization);
            let inputs: Vec<_> =
                (0..ranks).map(|rank| noise(rank.into(), 4 * values, DataType::F32)).collect();
            let floats = |input: &Numbers| {
                let values = input.bytes().as_chunks::<4>().0.iter();
                values.map(|bytes| f32::from_le_bytes(*bytes)).collect::<Vec<_>>()
            };
            let right = quantization.rq_all_reduce(&inputs.iter().map(floats).collect::<Vec<_>>());
            let right = Numbers::from(right.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
            let all_reduce = request(Collective::AllReduce, Span { offset: 0, length: 4 * values });
            let outcome = way.run(&small(ranks), all_reduce, inputs).expect("a run");
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
    for (refused, expected) in [
        (minimum, "expected all_reduce of sums of f32"),
        (scatter, "expected a collective that ring-rq offers (all_reduce), found reduce_scatter"),
    ] {
        let error = Way::dgx("ring-rq").run(&small(4), refused, numbers(4, 64)).expect_err("a refusal");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn a_quantised_collective_other_than_all_reduce_is_refused() {
    let barrier = request(Collective::Barrier, Span { offset: 0, length: 0 });
    let memories = vec![LengthOnly::new(0); 4];
    let error = Way::small("scin-inq").run(&small(4), barrier, memories).expect_err("a refusal");
    assert_eq!(
        error.to_string(),
        "expected a collective that scin-inq offers (all_reduce), found barrier; name another design or another collective"
    );
}

#[test]
fn without_wave_regulation_results_are_the_same() {
    let way = Way::dgx("scin").with("isa.waves", 1).with("isa.wave", "512B");
    for collective in Collective::PRIMITIVES {
        assert_right(&small(4), &way, collective, &numbers(4, 16 * 333));
    }
}

fn timed(fabric: &MemoryFabric, way: &Way, length: usize) -> Outcome<LengthOnly> {
    timed_collective(fabric, way, Collective::AllReduce, length)
}

fn timed_collective(
    fabric: &MemoryFabric,
    way: &Way,
    collective: Collective,
    length: usize,
) -> Outcome<LengthOnly> {
    let memories = vec![LengthOnly::new(length); usize::from(fabric.accelerators)];
    way.run(fabric, request(collective, Span { offset: 0, length }), memories).expect("a run")
}

/// What the links of the prototype give for one wave of one packet (SCIN 3.5): four flights, two packets of 129 flits,
/// two of one flit, 20 cycles in the accumulator, two responses; and for the synchronisation a word each way, of two
/// flits. Nobody waits for the bubbles behind the packets.
#[test]
fn the_prototype_takes_what_its_links_and_units_take() {
    let fabric = preset("scin-fpga");
    let outcome = timed(&fabric, &Way::on("scin-fpga", "scin"), 4096);
    let flits = |count: u64| fabric.link.rate.time_for(ByteCount::new(32 * count));
    let expected = Duration::from_nanos(4 * 360 + 20 * 4 + 2 * 30) + (flits(129) + flits(1)) * 2;
    assert_eq!(outcome.streams[0].unsynchronized, Some(expected));
    assert_eq!(outcome.time(), expected + (Duration::from_nanos(360) + flits(2)) * 2);
}

/// The bubbles are part of what large messages get: 128 of 129 + 4 + 1 flits carry data of both directions.
#[test]
fn a_gap_behind_packets_with_data_takes_its_share_of_the_links() {
    let fabric = MemoryFabric { gap: ByteCount::new(128), ..preset("scin-fpga") };
    let share = fabric.payload_bound().bits_per_second() as f64 / fabric.link.rate.bits_per_second() as f64;
    assert!((share - 128.0 / 134.0).abs() < 1e-6, "{share}");
    let time = |gap| {
        let fabric = MemoryFabric { gap: ByteCount::new(gap), ..fabric };
        timed(&fabric, &Way::on("scin-fpga", "scin"), 1 << 20).time().as_secs_f64()
    };
    let longer = time(128) / time(0);
    assert!((longer - 134.0 / 130.0).abs() < 0.002, "{longer}");
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
    let step = timed(&fabric, &Way::dgx("ring"), 4096).time().as_picos() / 14;
    assert!((1_000_000..1_003_000).contains(&step), "{step} ps");
}

#[test]
fn a_large_all_reduce_comes_close_to_the_payload_bound() {
    let fabric = MemoryFabric { accelerators: 4, switches: 1, ..preset("scin-dgx8") };
    let length = ByteCount::new(1 << 20);
    let outcome = timed(&fabric, &Way::dgx("scin"), length.as_usize());
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
        let [with, without] = rates.map(|add_rate| {
            timed(&MemoryFabric { add_rate, ..small(4) }, &Way::small(design), length).time()
        });
        with.as_picos() - without.as_picos()
    };
    // A byte a nanosecond: three steps of a quarter of 4 KiB each; three vectors at once; nothing where switches add.
    assert_eq!(longer("ring", 4096), 3 * 1_024_000);
    assert_eq!(longer("direct", 4096), 3 * 4_096_000);
    assert_eq!([longer("scin", 4096), longer("nvls", 4096)], [0, 0]);
}

#[test]
fn direct_writes_take_one_step_and_the_most_traffic() {
    let fabric = preset("scin-dgx8");
    let [direct, ring] = ["direct", "ring"].map(|design| timed(&fabric, &Way::dgx(design), 4096));
    assert!(direct.time() * 10 < ring.time(), "{} and {}", direct.time(), ring.time());
    let [direct, ring] = ["direct", "ring"].map(|design| timed(&fabric, &Way::dgx(design), 32 << 10));
    assert!(direct.busiest_link().bytes() > 3 * ring.busiest_link().bytes());
}

/// It goes to places of its own and is copied, so that nobody waits until others may be written to.
#[test]
fn a_short_direct_all_gather_takes_no_longer_than_what_is_added_up() {
    let [gather, scatter] = [Collective::AllGather, Collective::ReduceScatter].map(|collective| {
        timed_collective(&preset("scin-dgx8"), &Way::dgx("direct"), collective, 1024).time()
    });
    assert_eq!(gather, scatter);
}

/// Streams of AllReduces on parts of memory one behind the other.
fn streams(ways: &[Way], length: usize) -> Vec<Stream> {
    let of = |(number, way): (usize, &Way)| {
        way.stream(request(Collective::AllReduce, Span { offset: number * length, length }))
    };
    ways.iter().enumerate().map(of).collect()
}

/// SCIN 3.4: several synchronisation resources, several wave controllers.
#[test]
fn streams_side_by_side_each_leave_their_own_sums() {
    let length = 4 * 333;
    for designs in [&["scin"; 3][..], &["scin", "ring", "scin"], &["nvls", "scin"]] {
        let inputs = numbers(4, designs.len() * length);
        let ways: Vec<Way> = designs.iter().map(|design| Way::small(design)).collect();
        let streams = streams(&ways, length);
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
        last(&streams(&[Way::dgx("scin")], 1 << 18), 1 << 18),
        last(&streams(&[Way::dgx("scin"), Way::dgx("scin")], 1 << 17), 1 << 18),
    ];
    assert!((one / two - 1.0).abs() < 0.05, "{one} us in one stream, {two} us in two");
    let both = [Way::dgx("scin"), Way::dgx("scin")];
    let [one, two] = [4 << 10, 8 << 10].map(|length| last(&streams(&both, length / 2), length));
    assert!(two < 1.1 * one, "small streams take what one takes: {one} us, {two} us");
}

#[test]
fn ordinary_traffic_and_scin_share_the_ports_and_neither_starves() {
    let fabric = MemoryFabric { accelerators: 4, switches: 1, ..preset("scin-dgx8") };
    let time = |designs: &[&str], stream: usize| {
        let memories = vec![LengthOnly::new(designs.len() << 17); 4];
        let ways: Vec<Way> = designs.iter().map(|design| Way::dgx(design)).collect();
        let outcome = run_streams(&fabric, &streams(&ways, 1 << 17), memories).expect("a run");
        outcome.streams[stream].time.as_micros_f64()
    };
    for (stream, design) in ["scin", "ring"].into_iter().enumerate() {
        let (alone, beside) = (time(&[design], 0), time(&["scin", "ring"], stream));
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
    assert_eq!(refused(&streams(&[Way::small("ring"), Way::small("nvls")], 256)), RunError::Streams(2));
    let mut different = streams(&[Way::small("scin"), Way::small("scin")], 256);
    different[1].request.reduction.op = ReduceOp::Max;
    assert_eq!(refused(&different), RunError::Reductions);
    let tables = streams(&[Way::small("scin"), Way::dgx("scin")], 256);
    assert!(matches!(refused(&tables), RunError::Design(_)), "streams of one unit with two settings");
}
