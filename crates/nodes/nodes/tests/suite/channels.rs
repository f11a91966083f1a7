//! Channels: queue pairs side by side, each with a part of every vector. Results are the same, to the bit, on clean and on bad networks.

use crate::common::{Faults, Network, NetworkSetup, SUM, star, tree};
use crate::epic_collectives::{all_collectives, run, run_overlapping};
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, SplitMix64,
};
use quincunx_design::{AnyDesign, Demand, FabricKind, Member, Naming, Placement, Value};
use quincunx_engine::PortId;
use quincunx_engine::verbs::Outcome;
use quincunx_epic::{EPIC_3, Mode};
use quincunx_fabric::IncTree;
use quincunx_multiwrite::WRITES;
use quincunx_nodes::{host_group, switch_groups};
use quincunx_ring::RING;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const MODES: [Mode; 3] = [Mode::I, Mode::II, Mode::III];
const BAD: Faults = Faults { loss: 4, duplication: 4, reordering: 4 };

fn setup(mode: Mode, channels: u16) -> NetworkSetup {
    NetworkSetup { channels, ..NetworkSetup::tiny(mode) }
}

#[test]
fn every_primitive_is_right_in_every_mode_and_number_of_channels() {
    for mode in MODES {
        for channels in [2, 3] {
            for shape in [star(4), tree(3, 2)] {
                let each = |collective| (collective, 100);
                let all: Vec<_> = all_collectives(Rank(2)).into_iter().map(each).collect();
                run(Network::new(&shape, setup(mode, channels), Faults::default(), 1), &all, SUM);
            }
        }
    }
}

#[test]
fn frames_that_are_lost_doubled_or_late_in_one_channel_change_no_result() {
    for mode in MODES {
        for seed in 0..8 {
            let all = all_collectives(Rank(1)).map(|collective| (collective, 68));
            run(Network::new(&star(3), setup(mode, 2), BAD, seed), &all, SUM);
        }
    }
}

#[test]
fn collectives_that_overlap_end_in_order_whichever_channel_is_ahead() {
    for mode in [Mode::II, Mode::III] {
        for seed in 0..8 {
            // Of a barrier, and of what is shorter than a message, the second channel has nothing.
            let all = [
                (Collective::AllReduce, 100),
                (Collective::Barrier, 0),
                (Collective::AllReduce, 8),
                (Collective::AllReduce, 64),
                (Collective::Broadcast { root: Rank(1) }, 72),
            ];
            run_overlapping(Network::new(&star(3), setup(mode, 2), BAD, seed), &all, SUM, 2);
        }
    }
}

#[test]
fn vectors_of_any_length_are_cut_without_a_rest() {
    for length in (0..200).step_by(4) {
        run(
            Network::new(&star(2), setup(Mode::III, 3), Faults::default(), 1),
            &[(Collective::AllReduce, length)],
            SUM,
        );
    }
}

/// Numbers whose sum depends on the order.
fn rounded(rank: usize, length: usize) -> Numbers {
    let mut random = SplitMix64::new(rank as u64 + 1);
    let mut numbers = Numbers::zeroed(length);
    for element in numbers.bytes_mut().chunks_exact_mut(4) {
        let value = (random.draw() % 1_000_003) as f32 * 10_f32.powi((random.draw() % 12) as i32 - 6);
        element.copy_from_slice(&value.to_le_bytes());
    }
    numbers
}

fn sum_of_rounded(setup: NetworkSetup, faults: Faults, seed: u64) -> Vec<Numbers> {
    let (ranks, length) = (4, 256);
    let mut network = Network::new(&star(ranks), setup, faults, seed);
    let sum = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    for rank in 0..ranks {
        let output = Numbers::zeroed(length);
        network.start(rank, Collective::AllReduce, sum, rounded(rank, length), output);
    }
    while network.finished.iter().any(Vec::is_empty) {
        assert!(network.step(), "nothing is due, and ranks still wait");
    }
    let result = |finished: &Vec<(Outcome, Numbers)>| {
        assert_eq!(finished[0].0, Outcome::Done);
        finished[0].1.clone()
    };
    network.finished.iter().map(result).collect()
}

#[test]
fn rounded_sums_are_the_same_to_the_bit_with_channels_and_without_in_reproducible_mode() {
    for mode in MODES {
        let reproducible = |channels| NetworkSetup { reproducible: true, ..setup(mode, channels) };
        let alone = sum_of_rounded(reproducible(1), Faults::default(), 0);
        for seed in 0..8 {
            assert_eq!(sum_of_rounded(reproducible(2), BAD, seed), alone, "{mode:?}, seed {seed}");
            assert_eq!(sum_of_rounded(reproducible(3), BAD, seed), alone, "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn each_channel_has_as_many_frames_of_a_long_vector() {
    let mut network = Network::new(&star(2), setup(Mode::III, 4), Faults::default(), 1);
    let frames = Rc::new(RefCell::new(BTreeMap::<QpNumber, usize>::new()));
    let counted = Rc::clone(&frames);
    network.lose = Some(Box::new(move |header| {
        *counted.borrow_mut().entry(header.destination_qp).or_default() += 1;
        false
    }));
    // 64 packets for each channel.
    run(network, &[(Collective::AllReduce, 4 * 64 * 8)], SUM);
    let frames: Vec<usize> = frames.borrow().values().copied().collect();
    assert_eq!(frames.len(), 4 * 2 * 2, "two ends for each of two ranks in four channels");
    assert!(frames.iter().all(|frames| *frames >= 64 && *frames < 2 * 64 + 64), "{frames:?}");
}

fn placement(ranks: u16) -> Placement {
    let tree = IncTree::from_shape(&format!("star-{ranks}").parse().unwrap());
    Placement::new(ranks, Some(tree), ByteCount::new(1 << 20))
}

fn settings(design: &dyn AnyDesign, channels: u16) -> quincunx_design::Settings {
    let mut settings = design.defaults();
    design.set(&mut settings, "group.channels", &Value::from(channels)).unwrap();
    settings
}

#[test]
fn a_plan_has_as_many_connections_and_as_much_memory_for_each_channel() {
    let plan = |channels| AnyDesign::plan(&EPIC_3, &settings(&EPIC_3, channels), &placement(3)).unwrap();
    let (one, three) = (plan(1), plan(3));
    assert_eq!(three.switches[0].memory, one.switches[0].memory * 3);
    for (member, degree) in one.degrees() {
        assert_eq!(three.degree(member), 3 * degree);
    }
    // Among hosts, too.
    let ring = |channels| RING.plan(&settings(&RING, channels), &placement(3)).unwrap();
    assert_eq!(ring(2).connections.len(), 2 * ring(1).connections.len());
}

#[test]
fn what_has_no_channels_says_so_in_one_line() {
    let writes = Demand::Writes { slots: 2, length: ByteCount::new(64) };
    let mesh = Placement { demand: writes, ..Placement::new(4, None, ByteCount::new(1 << 10)) };
    let refusal = WRITES.plan(&settings(&WRITES, 2), &mesh).unwrap_err().to_string();
    assert!(refusal.contains("group.channels") && refusal.contains("found 2"), "{refusal}");
    for channels in [0, 17] {
        let refusal = EPIC_3.transport(&settings(&EPIC_3, channels)).unwrap_err().to_string();
        assert_eq!(
            refusal,
            format!("expected `group.channels` of 1 to 16, found {channels}; change the group's parameters")
        );
    }
}

#[test]
fn a_context_with_more_connections_in_one_channel_than_in_another_is_refused() {
    let settings = settings(&EPIC_3, 2);
    let plan = AnyDesign::plan(&EPIC_3, &settings, &placement(2)).unwrap();
    let naming = Naming {
        group: GroupId(1),
        design: "epic-3".into(),
        version: AnyDesign::about(&EPIC_3).version,
        settings,
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    let endpoint = |_| {
        next += 1;
        Endpoint { ip: Gid::from([10, 0, 0, 1]), qp: QpNumber::new(next) }
    };
    for (member, mut context) in plan.contexts(&naming, |_| "leaf".into(), endpoint) {
        context.connections.pop();
        let refusal = match member {
            Member::Rank(_) => host_group::<Numbers>(&EPIC_3, &context, None, |_| PortId(0)).unwrap_err(),
            Member::Switch(_) => {
                switch_groups::<Numbers>(&EPIC_3, &context, None, |_| PortId(0)).unwrap_err()
            }
        };
        assert!(refusal.to_string().contains("in each of 2 channels"), "{refusal}");
    }
}
