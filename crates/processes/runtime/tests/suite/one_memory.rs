//! Two groups of the same ranks at once, on real sockets: in parts of one memory all is right; in one part that no lock keeps for one of them sums
//! are wrong; and in one part that they were to use by turns there are errors and no wrong sums.

use crate::common::{self, HostNode, StaticGroup, SwitchNode, UdpNode, address};
use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, exact, reference,
};
use quincunx_design::Value;
use quincunx_driver_net::NodeOptions;
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, Terms};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_nodes::{HostCommand, HostEvent, MemoryPart, Mutation, Switch, SwitchCommand};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Psn, RoceHeader};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const GROUPS: [GroupId; 2] = [GroupId(0), GroupId(1)];
const BYTES: usize = 64 << 10;
const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(500);

/// How many ranks' results were right and how many wrong; the others have heard an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Results {
    right: usize,
    wrong: usize,
}

fn input(group: GroupId, rank: Rank) -> Numbers {
    exact(Rank(10 * group.0 as u16 + rank.0), BYTES, SUM)
}

/// What all ranks of a group have in the end.
fn sum(group: GroupId) -> Numbers {
    let inputs: Vec<_> = [0, 1].map(|rank| input(group, Rank(rank))).into();
    reference(Collective::AllReduce, SUM, &inputs).swap_remove(0)
}

/// Runs an AllReduce in both groups at once.
fn run_both(node: &mut HostNode, rank: Rank, limit: Duration) -> Results {
    for group in GROUPS {
        let (input, output) = (input(group, rank), Numbers::zeroed(BYTES));
        let collective = Collective::AllReduce;
        node.command(HostCommand::Start {
            group,
            collective,
            reduction: SUM,
            input,
            output,
            terms: Terms::WHOLE,
        })
        .unwrap();
    }
    let mut results = Results::default();
    for _ in GROUPS {
        // What a switch has given up it tells the manager, which is not here.
        let Ok(finished) = node.run_until(limit, Some) else { return results };
        let HostEvent::Finished { group, outcome, output, .. } = finished else { panic!("{finished:?}") };
        if outcome == Outcome::Done {
            let is_right = output == sum(group);
            results.right += usize::from(is_right);
            results.wrong += usize::from(!is_right);
        }
    }
    results
}

/// Answers peers until all ranks are done.
fn serve<E: Engine<Header = RoceHeader, Payload = Numbers>>(
    node: &mut UdpNode<E>,
    unfinished: &AtomicUsize,
    mut act: impl FnMut(&mut UdpNode<E>),
) {
    while unfinished.load(Ordering::Relaxed) > 0 {
        node.turn(Duration::from_millis(1)).unwrap();
        act(node);
    }
}

/// Two ranks run an AllReduce in two groups at once, at a switch that is made so.
fn run(
    design: &str,
    limits: (u64, Duration),
    switch: impl Fn(&[StaticGroup], TreeNodeId, NodeOptions) -> SwitchNode,
) -> Results {
    run_with(design, limits, switch, |_| {})
}

/// The same, and something is done to the switch again and again.
fn run_with(
    design: &str,
    (retry_count, limit): (u64, Duration),
    switch: impl Fn(&[StaticGroup], TreeNodeId, NodeOptions) -> SwitchNode,
    act: impl FnMut(&mut SwitchNode) + Send,
) -> Results {
    let tree = IncTree::from_shape(&"star-2".parse().unwrap());
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.window", Value::from(4)),
        ("group.retry_timeout", Value::from("2ms")),
        ("group.retry_count", Value::from(retry_count)),
    ];
    let groups = &GROUPS.map(|group| StaticGroup::on_tree(group.0, &tree, design, &parameters, Psn::new(0)));
    let options = NodeOptions { spin: Duration::ZERO, ..NodeOptions::default() };
    let mut switch = switch(groups, tree.root(), options.clone());
    let hosts = [0, 1]
        .map(Rank)
        .map(|rank| (common::host(groups, address(tree.leaf(rank).0), rank, options.clone()), rank));
    let unfinished = &AtomicUsize::new(hosts.len());
    thread::scope(|scope| {
        scope.spawn(|| serve(&mut switch, unfinished, act));
        let ranks = hosts.map(|(mut node, rank)| {
            scope.spawn(move || {
                let results = run_both(&mut node, rank, limit);
                unfinished.fetch_sub(1, Ordering::Relaxed);
                serve(&mut node, unfinished, |_| {});
                results
            })
        });
        let results = ranks.map(|rank| rank.join().unwrap());
        let all = |of: fn(&Results) -> usize| results.iter().map(of).sum();
        Results { right: all(|results| results.right), wrong: all(|results| results.wrong) }
    })
}

const STORING: [&str; 2] = ["epic-2", "epic-3"];
const ALL: Results = Results { right: 4, wrong: 0 };

#[test]
fn two_groups_in_parts_of_one_memory_are_right() {
    let _alone = common::alone();
    for design in STORING {
        assert_eq!(run(design, (1000, LIMIT), common::switch), ALL, "{design}");
    }
}

#[test]
fn memory_moves_under_collectives() {
    let _alone = common::alone();
    for design in STORING {
        let mut moves = 0;
        let results = run_with(design, (1000, LIMIT), common::switch, |switch| {
            // The first group's part, or the other's, to and fro behind both.
            let length = ByteCount::new(switch.engine().buffer_bytes() as u64 / 2);
            let (of, is_back) = (moves / 2 % 2, moves % 2 == 1);
            let [own, away] = [length * of, length * 2];
            let (offset, to) = if is_back { (away, own) } else { (own, away) };
            let from = MemoryPart { offset, length };
            switch.command(SwitchCommand::MoveMemory { from, to }).unwrap();
            moves += 1;
        });
        assert_eq!(results, ALL, "{design}");
        assert!(moves > 5, "{design}: {moves} moves");
    }
}

#[test]
fn two_groups_in_one_part_that_no_lock_keeps_for_one_are_wrong() {
    let _alone = common::alone();
    for design in STORING {
        let wrong = (0..20).any(|_| {
            let results = run(design, (1000, LIMIT), |groups, id, options| {
                let Ok(engine) = Switch::new(());
                common::switch_with(engine.breaking(Mutation::IgnoresLocks), groups, id, options, |_| {})
            });
            results.wrong > 0
        });
        assert!(wrong, "{design}");
    }
}

#[test]
fn two_groups_that_break_their_word_to_use_memory_by_turns_have_no_wrong_sum() {
    let _alone = common::alone();
    for design in STORING {
        let results = (0..5).map(|_| {
            run(design, (3, SHORT), |groups, id, options| {
                let Ok(engine) = Switch::new(());
                common::switch_with(engine, groups, id, options, |_| {})
            })
        });
        let results: Vec<_> = results.collect();
        assert!(results.iter().all(|results| results.wrong == 0), "{design}: {results:?}");
        assert!(results.iter().any(|results| *results != ALL), "{design}: {results:?}");
    }
}
