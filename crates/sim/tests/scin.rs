//! SCIN on its paper's fabrics: right results, and the times that follow from the links.

use quincunx_collective::*;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};
use quincunx_sim::memory_fabric::{Design, MemoryFabric, Outcome, run};
use quincunx_units::Duration;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

fn request(collective: Collective, length: usize) -> InPlaceRequest {
    InPlaceRequest { collective, reduction: SUM, span: Span { offset: 0, length } }
}

fn numbers(fabric: &MemoryFabric, length: usize) -> Vec<Numbers> {
    (0..fabric.accelerators).map(|rank| pattern(Rank(rank), length, DataType::F32)).collect()
}

fn timed(fabric: &MemoryFabric, length: usize) -> Outcome<LengthOnly> {
    let memories = vec![LengthOnly::new(length); usize::from(fabric.accelerators)];
    run(fabric, Design::Scin, request(Collective::AllReduce, length), memories).expect("a run")
}

#[test]
fn an_all_reduce_leaves_the_sum_at_every_accelerator() {
    let fabric = MemoryFabric::dgx8();
    let inputs = numbers(&fabric, 40_000);
    let sum = reference(Collective::AllReduce, SUM, &inputs);
    let outcome = run(&fabric, Design::Scin, request(Collective::AllReduce, 40_000), inputs).expect("a run");
    assert_eq!(outcome.memories, sum);
}

/// What the links of the prototype give for one wave of one packet: four flights, two packets of 129 flits of 4 ns, two of one
/// flit, 20 cycles in the accumulator, two responses; and for the synchronisation a word each way, two flits.
#[test]
fn the_prototype_takes_what_its_links_and_units_take() {
    let fabric = MemoryFabric::prototype();
    let outcome = timed(&fabric, 4096);
    let expected = 4 * 360 + 2 * 129 * 4 + 2 * 4 + 20 * 4 + 2 * 30;
    assert_eq!(outcome.unsynchronized, Some(Duration::from_nanos(expected)));
    assert_eq!(outcome.time, Duration::from_nanos(expected + 2 * (360 + 2 * 4)));
}

#[test]
fn ring_right() {
    for design in [Design::Ring, Design::Nvls] {
        let fabric = MemoryFabric::dgx8();
        let inputs = numbers(&fabric, 40_000);
        let sum = reference(Collective::AllReduce, SUM, &inputs);
        let outcome = run(&fabric, design, request(Collective::AllReduce, 40_000), inputs).expect("a run");
        assert_eq!(outcome.memories, sum);
    }
}
