//! AllGather over MultiWrite on a full mesh, through RoCE queue pairs in virtual time.

use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_multiwrite::{RelayCost, Strategy};
use quincunx_scenario::Fabric;
use quincunx_sim::packet_fabric::{
    Contents, LossyLinks, Mesh, MeshCase, MeshRow, SimulationError, simulate_mesh,
};
use quincunx_sim::{Outputs, unwatched};
use quincunx_units::{ByteCount, Duration, Probability};

const STRATEGIES: [Strategy; 3] = [Strategy::Direct, Strategy::Unicast, Strategy::MultiWrite];

/// The preset; relays take no time.
fn mesh() -> Mesh {
    let Ok(Fabric::Mesh(fabric)) = Fabric::find("mesh8", &[]) else { panic!("a mesh") };
    let mut mesh = Mesh::from(&fabric);
    (mesh.accelerators.preparation, mesh.accelerators.cost) = (Duration::ZERO, RelayCost::default());
    mesh
}

fn lossy(links: u16, loss: f64) -> Mesh {
    let mut mesh = mesh();
    mesh.accelerators.lossy = Some(LossyLinks { links, loss: Probability::new(loss).unwrap() });
    mesh
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

fn run(mesh: &Mesh, case: &MeshCase) -> Result<MeshRow, SimulationError> {
    simulate_mesh(mesh, case, Outputs::default(), &mut unwatched)
}

#[test]
fn every_rank_has_its_whole_group_whoever_relays() {
    for strategy in STRATEGIES {
        for full in [false, true] {
            let mesh = Mesh { full, ..mesh() };
            for size in [0, 16, 4 << 10, 1_000_000] {
                let row = run(&mesh, &case(strategy, size)).unwrap();
                assert_eq!(row.wrong, Some(0), "{strategy:?}, {size} bytes, full: {full}");
            }
        }
    }
}

#[test]
fn every_rank_has_its_whole_group_whatever_is_lost() {
    for strategy in STRATEGIES {
        for (full, selective) in [(false, false), (true, true)] {
            let mut mesh = Mesh { full, piece: ByteCount::new(10_000), ..lossy(8, 0.02) };
            mesh.accelerators.selective = selective;
            for seed in 0..3 {
                let row = run(&mesh, &MeshCase { seed, ..case(strategy, 400_000) }).unwrap();
                assert_eq!(row.wrong, Some(0), "{strategy:?}, full: {full}, seed {seed}");
            }
        }
    }
}

#[test]
fn large_messages_take_what_section_3_1_says() {
    let size = 128 << 20;
    // A rank's part over a link of 56 GB/s, in microseconds.
    let alone = (size / 4) as f64 / 56e3;
    for (full, shares) in [(false, [1.0, 0.75, 0.5]), (true, [1.0, 0.6, 0.5])] {
        for (strategy, share) in STRATEGIES.into_iter().zip(shares) {
            let case = MeshCase { contents: Contents::LengthOnly, ..case(strategy, size) };
            let time = run(&Mesh { full, ..mesh() }, &case).unwrap().time.as_micros_f64();
            let error = time / (share * alone) - 1.0;
            assert!((0.0..0.03).contains(&error), "{strategy:?}, full: {full}: {time} us, {error:.3} off");
        }
    }
}

#[test]
fn a_seed_replays_a_run() {
    let mesh = lossy(3, 0.05);
    let run = |seed| run(&mesh, &MeshCase { seed, ..case(Strategy::MultiWrite, 400_000) }).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).frames, run(2).frames);
}

#[test]
fn a_relay_that_cannot_be_reached_fails_the_collective_in_time() {
    let failed = run(&lossy(1, 1.0), &case(Strategy::MultiWrite, 400_000)).unwrap_err();
    let SimulationError::Failed { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(outcome, Outcome::Failed { failure: Failure::RetryExceeded, .. }), "{failed}");
    assert!(!failed.to_string().contains('\n'));
}

#[test]
fn what_multiwrite_does_not_offer_is_refused() {
    let all_reduce = MeshCase { collective: Collective::AllReduce, ..case(Strategy::MultiWrite, 1024) };
    let refused = run(&mesh(), &all_reduce).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}

#[test]
fn more_ranks_than_an_immediate_names_need_memory_with_contents() {
    let mut large = mesh();
    large.accelerators.groups = 9;
    let lengths = MeshCase { contents: Contents::LengthOnly, ..case(Strategy::MultiWrite, 4096) };
    let refused = run(&large, &lengths).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 36"),
        "{refused}"
    );
}
