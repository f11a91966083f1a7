//! The design as the project's own are tested: what it plans, and that it comes out the same on every driver.

use own_design::PARAMETER_SERVER;
use quincunx_collective::{Collective, Rank};
use quincunx_conformance::{Run, Trial, conform};
use quincunx_design::{AnyDesign, Connection, FabricKind, Member, Placement, Plan, Refusal};
use quincunx_designs::CATALOG;
use quincunx_fabric::{IncTree, TreeShape};
use quincunx_units::ByteCount;
use serde_json::json;

/// More states than any scenario here has.
const STATES: u64 = 1 << 18;

fn plan(tree: &str, changes: &[(&str, serde_json::Value)]) -> Result<Plan, Refusal> {
    let shape: TreeShape = tree.parse().unwrap();
    let tree = IncTree::from_shape(&shape);
    let mut settings = PARAMETER_SERVER.defaults();
    for (key, value) in changes {
        PARAMETER_SERVER.set(&mut settings, key, value)?;
    }
    let placement = Placement::new(shape.ranks(), Some(tree), ByteCount::new(1 << 20));
    AnyDesign::plan(&PARAMETER_SERVER, &settings, &placement)
}

#[test]
fn it_is_found_in_a_catalog_beside_the_designs_that_there_are() {
    let catalog = CATALOG.with(&[&PARAMETER_SERVER]);
    assert_eq!(catalog.names().len(), CATALOG.names().len() + 1);
    assert_eq!(catalog.find("parameter-server", FabricKind::Tree).unwrap().name(), "parameter-server");
    assert!(catalog.find("parameter-server", FabricKind::Ring).is_err());
}

#[test]
fn every_rank_is_connected_with_the_switch_and_with_nobody_else() {
    let plan = plan("star-3", &[]).unwrap();
    assert_eq!((plan.ranks.len(), plan.switches.len()), (3, 1));
    let switch = Member::Switch(plan.switches[0].node);
    let to_switch = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (switch, rank));
    assert_eq!(plan.connections, [0, 1, 2].map(to_switch));
    assert!(!plan.remote_write, "messages are sent: nobody writes to another's memory");
}

#[test]
fn the_switch_holds_a_window_of_each_rank_and_its_slots() {
    let settings = [("group.mtu", json!("1KiB")), ("group.message", json!(2)), ("group.window", json!(4))];
    let memory = |settings: &[_]| plan("star-3", settings).unwrap().switches[0].memory.bytes();
    assert_eq!(memory(&settings), 2 * 1024 * (3 * 4 + 4));
    assert_eq!(memory(&[&settings[..], &[("server.slots", json!(1))]].concat()), 2 * 1024 * (3 * 4 + 1));
}

#[test]
fn more_than_one_switch_is_refused_in_a_line_that_says_what_to_do() {
    let refusal = plan("tree-2x2", &[]).unwrap_err().to_string();
    assert_eq!(
        refusal,
        "expected one switch for parameter-server, found another fabric; choose a star such as star-8"
    );
}

/// Three packets and a half, in messages of one; two of them before their sums. The order in which the switch adds is that of arrival:
/// integers come out the same.
fn trial(fabric: &str, collective: Collective) -> Trial {
    let scenario = quincunx_conformance::scenario(fabric, CATALOG).unwrap();
    let trial = Trial::new(&PARAMETER_SERVER, scenario, collective);
    trial.of_integers().with("group.mtu", "8B").of_length(28).windowed(1, 2)
}

/// Simulated, on sockets, and in every run that the checker has.
fn is_conforming(trial: &Trial) {
    let explored = conform(trial, Run::first_transmissions, STATES);
    let explored = explored.unwrap_or_else(|fault| panic!("{fault}: {trial:?}"));
    assert!(explored.statistics.distinct > 10, "there is more than one run: {:?}", explored.statistics);
}

#[test]
fn every_collective_is_the_same_on_all_drivers() {
    for &collective in PARAMETER_SERVER.collectives(FabricKind::Tree) {
        is_conforming(&trial("star-2", collective));
    }
}

#[test]
fn messages_of_several_packets_are_the_same_on_all_drivers() {
    is_conforming(&trial("star-2", Collective::AllReduce).windowed(2, 1));
}

#[test]
fn three_ranks_that_wait_for_a_slot_are_the_same_on_all_drivers() {
    is_conforming(&trial("star-3", Collective::AllReduce).of_length(8).windowed(1, 1));
}

#[test]
fn a_window_that_waits_for_a_single_slot_is_the_same_on_all_drivers() {
    is_conforming(&trial("star-2", Collective::AllReduce).with("server.slots", 1));
}

#[test]
fn a_packet_lost_on_its_way_to_the_switch_or_back_changes_no_result() {
    let trial = trial("star-2", Collective::AllReduce).with_time_outs();
    is_conforming(&trial.clone().losing("host-0", "switch-0", &[1]));
    is_conforming(&trial.losing("switch-0", "host-1", &[0]));
}

#[test]
fn a_packet_that_comes_twice_counts_once() {
    let trial = trial("star-2", Collective::AllReduce).with_time_outs();
    is_conforming(&trial.doubling("host-1", "switch-0", 0));
}
