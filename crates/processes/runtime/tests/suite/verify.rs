//! Results that are checked from end to end, over real frames and numbers: what a switch changes, with every CRC right, becomes an error.

use crate::common;
use crate::common::{StaticGroup, address};
use quincunx_collective::{Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_collective::{pattern, wrong_elements};
use quincunx_design::{Member, Value};
use quincunx_driver_net::NodeOptions;
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_engine::{Engine, PortId, Terms};
use quincunx_fabric::IncTree;
use quincunx_nodes::{HostCommand, HostEvent, Switch, SwitchCommand, switch_group};
use quincunx_units::Duration;
use quincunx_wire::Psn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const GROUP: GroupId = GroupId(1);
const BYTES: usize = 16 << 10;

/// What both ranks of an AllReduce are told, and how many elements of their results are wrong.
fn all_reduce(
    design: &str,
    verify: bool,
    data_type: DataType,
    mutation: Option<&str>,
) -> [(Outcome, usize); 2] {
    let tree = IncTree::from_shape(&"star-2".parse().unwrap());
    let parameters = [
        ("group.mtu", Value::from(1024)),
        ("group.message", Value::from(1)),
        ("group.retry_timeout", Value::from("20ms")),
        ("group.verify", Value::from(verify)),
    ];
    let group = StaticGroup::on_tree(GROUP.0, &tree, design, &parameters, Psn::new(0));
    let root = tree.root();
    let Ok(engine) = Switch::new(());
    let mut switch = common::open(engine, address(root.0), NodeOptions::default());
    let context = &group.contexts[&Member::Switch(root)];
    let part = switch_group(group.design, context, mutation, |_| PortId(0)).unwrap();
    switch.command(SwitchCommand::Install(Box::new(part))).unwrap();
    let reduction = Reduction { op: ReduceOp::Sum, data_type };
    let inputs = [0, 1].map(|rank| pattern(Rank(rank), BYTES, data_type));
    let mut expected = inputs[0].clone();
    expected.reduce(0, inputs[1].view(0..BYTES), reduction);
    let groups = [group];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                switch.turn(Duration::from_millis(5)).unwrap();
            }
        });
        let ranks = [0, 1].map(|rank| {
            let (groups, expected, input) = (&groups, &expected, inputs[usize::from(rank)].clone());
            let leaf = tree.leaf(Rank(rank));
            scope.spawn(move || {
                let mut host = common::host(groups, address(leaf.0), Rank(rank), NodeOptions::default());
                let (collective, output) = (Collective::AllReduce, Numbers::zeroed(BYTES));
                let start = HostCommand::Start {
                    group: GROUP,
                    collective,
                    reduction,
                    input,
                    output,
                    terms: Terms::WHOLE,
                };
                host.command(start).unwrap();
                let ended = |event| match event {
                    HostEvent::Finished { outcome, output, .. } => Some((outcome, output)),
                    _ => None,
                };
                let (outcome, output) = host.run_until(Duration::from_secs(20), ended).unwrap();
                host.serve(Duration::from_millis(200)).unwrap();
                (outcome, wrong_elements(expected, &output, data_type))
            })
        });
        let told = ranks.map(|rank| rank.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        told
    })
}

const DESIGNS: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const CHANGED: Option<&str> = Some("changes-an-element");

#[test]
fn what_a_switch_has_changed_is_an_error_where_sums_of_whole_numbers_are_verified() {
    let _alone = common::alone();
    for design in DESIGNS {
        for (outcome, wrong) in all_reduce(design, true, DataType::I32, CHANGED) {
            assert!(
                matches!(outcome, Outcome::Failed { failure: Failure::Corrupted, .. }),
                "{design}: {outcome:?}"
            );
            assert!(wrong > 0, "{design}");
        }
    }
}

#[test]
fn it_is_a_wrong_result_where_they_are_not() {
    let _alone = common::alone();
    for design in DESIGNS {
        for (outcome, wrong) in all_reduce(design, false, DataType::I32, CHANGED) {
            assert!(outcome == Outcome::Done && wrong > 0, "{design}: {outcome:?}, {wrong} wrong");
        }
    }
}

/// Rounded sums have no checksum: only that ranks differ is seen, and here they do not.
#[test]
fn what_is_wrong_for_all_ranks_alike_is_not_seen_in_sums_that_round() {
    let _alone = common::alone();
    for (outcome, wrong) in all_reduce("epic-2", true, DataType::F32, CHANGED) {
        assert!(outcome == Outcome::Done && wrong > 0, "{outcome:?}, {wrong} wrong");
    }
}

#[test]
fn right_results_pass() {
    let _alone = common::alone();
    for design in DESIGNS {
        for data_type in [DataType::I32, DataType::F32] {
            let told = all_reduce(design, true, data_type, None);
            assert_eq!(told, [(Outcome::Done, 0); 2], "{design} {data_type}");
        }
    }
}
