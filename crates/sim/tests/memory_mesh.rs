//! AllGather over MultiWrite on a full mesh of a memory fabric: the program that also runs above queue pairs.

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_driver_des::LinkConfig;
use quincunx_multiwrite::{RelayCost, Strategy};
use quincunx_scenario::Fabric;
use quincunx_sim::memory_fabric::{MemoryMesh, simulate_memory_mesh};
use quincunx_sim::packet_fabric::{Contents, LinkUse, MeshCase, MeshRow, SimulationError};
use quincunx_sim::{Outputs, unwatched};
use quincunx_trace::{TrackContents, read};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::flit::{FlitFormat, FlitHeader, Transaction};

#[path = "common/captured.rs"]
mod captured;
use captured::{Shared, packets};

const STRATEGIES: [Strategy; 3] = [Strategy::Direct, Strategy::Unicast, Strategy::MultiWrite];

/// The preset; relays take no time.
fn mesh() -> MemoryMesh {
    let Ok(Fabric::MemoryMesh(fabric)) = Fabric::find("mesh8-memory", &[]) else { panic!("a mesh") };
    MemoryMesh { preparation: Duration::ZERO, cost: RelayCost::default(), ..MemoryMesh::from(&fabric) }
}

fn case(strategy: Strategy, size: u64) -> MeshCase {
    MeshCase {
        strategy,
        collective: Collective::AllGather,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        size: ByteCount::new(size),
        contents: Contents::Numbers,
        seed: 1,
    }
}

fn run(mesh: &MemoryMesh, case: &MeshCase) -> Result<MeshRow, SimulationError> {
    simulate_memory_mesh(mesh, case, Outputs::default(), &mut unwatched)
}

#[test]
fn every_rank_has_its_whole_group_whoever_relays() {
    for strategy in STRATEGIES {
        for full in [false, true] {
            let mesh = MemoryMesh { full, ..mesh() };
            for size in [0, 16, 4 << 10, 1_000_000] {
                let row = run(&mesh, &case(strategy, size)).unwrap();
                assert_eq!(row.wrong, Some(0), "{strategy:?}, {size} bytes, full: {full}");
            }
        }
    }
}

#[test]
fn a_relay_that_is_behind_makes_its_peers_wait_and_loses_nothing() {
    let cost = RelayCost { message: Duration::from_micros(50), copy: Duration::from_micros(10) };
    let slow = MemoryMesh { cost, piece: ByteCount::new(512), ..mesh() };
    assert_eq!(run(&slow, &case(Strategy::MultiWrite, 400_000)).unwrap().wrong, Some(0));
}

#[test]
fn large_messages_take_what_section_3_1_says() {
    let size: u64 = 96 << 20;
    // A rank's part over a link of 56 GB/s, in microseconds.
    let alone = (size / 4) as f64 / 56e3;
    for (full, shares) in [(false, [1.0, 0.75, 0.5]), (true, [1.0, 0.6, 0.5])] {
        for (strategy, share) in STRATEGIES.into_iter().zip(shares) {
            let case = MeshCase { contents: Contents::LengthOnly, ..case(strategy, size) };
            // Short links and pieces: what is fixed counts as little as in larger messages.
            let link = LinkConfig { latency: Duration::from_nanos(100), ..mesh().link };
            let mesh = MemoryMesh { full, link, piece: ByteCount::new(16 << 10), ..mesh() };
            let time = run(&mesh, &case).unwrap().time.as_micros_f64();
            let error = time / (share * alone) - 1.0;
            assert!((0.0..0.03).contains(&error), "{strategy:?}, full: {full}: {time} us, {error:.3} off");
        }
    }
}

#[test]
fn groups_whose_bitmap_is_in_the_payload_gather_everything() {
    let large = MemoryMesh { groups: 9, piece: ByteCount::new(8 << 10), ..mesh() };
    assert_eq!(run(&large, &case(Strategy::MultiWrite, 200_000)).unwrap().wrong, Some(0));
    let lengths = MeshCase { contents: Contents::LengthOnly, ..case(Strategy::MultiWrite, 4096) };
    let refused = run(&large, &lengths).unwrap_err().to_string();
    assert!(refused.starts_with("expected at most 32 ranks"), "{refused}");
}

#[test]
fn what_multiwrite_does_not_offer_is_refused() {
    let all_reduce = MeshCase { collective: Collective::AllReduce, ..case(Strategy::MultiWrite, 1024) };
    let refused = run(&mesh(), &all_reduce).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_relayed_message_is_a_write_and_a_multiwrite_with_the_bitmap_of_those_it_is_for() {
    let (trace, capture) = (Shared::default(), Shared::default());
    let format = FlitFormat { max_payload: 512, ..FlitFormat::PROTOTYPE };
    let mesh = MemoryMesh { format, piece: ByteCount::new(1 << 10), ..mesh() };
    let outputs = Outputs { trace: trace.out(), capture: capture.out() };
    let row =
        simulate_memory_mesh(&mesh, &case(Strategy::MultiWrite, 8 << 10), outputs, &mut unwatched).unwrap();
    let packets = packets(&capture.bytes());
    let sent = |name: &str| -> Vec<(Transaction, u32)> {
        let is_it = |link: &LinkUse| format!("{} > {}", link.from, link.to) == name;
        let link = row.links.iter().position(is_it).unwrap() as u32;
        let of_link = packets.iter().filter(|(interface, _)| *interface == link);
        let headers = of_link.map(|(_, bytes)| FlitHeader::parse(bytes).unwrap().0);
        headers
            .map(|header| (header.transaction, header.tag))
            .filter(|(transaction, _)| transaction.carries_data())
            .collect()
    };
    let message =
        |destinations| [(Transaction::Write, 512), (Transaction::MultiWrite { destinations }, 1024)];
    // A kibibyte of each rank's two goes to its partner in the other group, once, and from there to each of the three.
    assert_eq!(sent("accelerator0 > accelerator4"), message(0b1110));
    assert_eq!(sent("accelerator4 > accelerator1"), message(0b0010));
    assert_eq!(sent("accelerator0 > accelerator1"), message(0b0010));
    let tracks = read(&trace.bytes()).unwrap();
    let slices = |track: &TrackContents| {
        track.slices.iter().filter(|(.., name)| name.starts_with("MULTIWRITE")).count()
    };
    // Ranks send one to each other member and to the partner, and relay one to each of the partner's group.
    assert_eq!(tracks.iter().map(slices).sum::<usize>(), 8 * (3 + 1 + 3));
}
