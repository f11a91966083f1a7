//! What a switch is told of a group, and what it refuses (EPIC 4.1, "States and Context").

use crate::common::config;
use quincunx_design::Datapath;
use quincunx_epic::{ConfigError, EdgeConfig, GroupConfig, MAX_EDGES, MAX_RANKS, Mode};
use quincunx_units::Packets;
use quincunx_wire::Psn;

type Switch = crate::common::Switch;

fn refusal(config: GroupConfig) -> ConfigError {
    Switch::new(config).expect_err("such a context is refused")
}

#[test]
fn a_switch_has_two_edges_to_sixty_three() {
    let edges = |count: usize| GroupConfig { edges: vec![config().edges[0]; count], ..config() };
    assert!(Switch::new(edges(MAX_EDGES)).is_ok());
    for count in [1, MAX_EDGES + 1] {
        assert_eq!(refusal(edges(count)), ConfigError::Edges(count));
    }
}

#[test]
fn every_rank_has_an_edge_toward_it_and_there_are_no_more_than_a_root_has_bits_for() {
    let ranks = |ranks: u16, toward: usize| GroupConfig { ranks, toward: vec![0; toward], ..config() };
    assert!(Switch::new(ranks(MAX_RANKS, usize::from(MAX_RANKS))).is_ok());
    for (count, toward) in [(2, 1), (2, 3), (0, 0), (MAX_RANKS + 1, usize::from(MAX_RANKS) + 1)] {
        assert_eq!(refusal(ranks(count, toward)), ConfigError::Ranks { ranks: count, toward });
    }
}

#[test]
fn edges_are_those_that_there_are() {
    let expected = ConfigError::NoSuchEdge { edges: 2, found: 2 };
    assert_eq!(refusal(GroupConfig { parent: Some(2), ..config() }), expected);
    assert_eq!(refusal(GroupConfig { toward: vec![0, 2], ..config() }), expected);
}

#[test]
fn packets_are_whole_words_up_to_the_largest() {
    for mtu in [4, 4096] {
        assert!(Switch::new(GroupConfig { mtu, ..config() }).is_ok());
    }
    for mtu in [0, 6, 4100] {
        assert_eq!(refusal(GroupConfig { mtu, ..config() }), ConfigError::Mtu(mtu));
    }
}

#[test]
fn a_window_holds_a_message_of_a_packet_at_least() {
    for (window, message) in [(1, 2), (2, 0)] {
        assert_eq!(
            refusal(GroupConfig { window: Packets::new(window), message: Packets::new(message), ..config() }),
            ConfigError::Window { window: Packets::new(window), message: Packets::new(message) }
        );
    }
}

#[test]
fn mode_i_is_no_datapath() {
    assert_eq!(refusal(GroupConfig { mode: Mode::I, ..config() }), ConfigError::ModeI);
}

#[test]
fn hardware_is_told_of_a_group_by_what_it_must_know() {
    let mut below = config();
    // Its parent is a switch in Mode-II, which neither sends again nor acknowledges.
    below.edges.push(EdgeConfig { rank: None, mode: Some(Mode::II), ..below.edges[0] });
    let below = GroupConfig {
        mode: Mode::II,
        ranks: 4,
        parent: Some(2),
        toward: vec![0, 1, 2, 2],
        window: Packets::new(6),
        initial_psn: Psn::new(77),
        reproducible: true,
        ..below
    };
    let told = |config: &GroupConfig| Switch::new(config.clone()).unwrap().told_to_hardware();
    assert_eq!(told(&below).unwrap(), "group 4 3 2 6 8 77 1 3 0,1,2,2");
    let root = GroupConfig { mode: Mode::II, ..config() };
    assert_eq!(told(&root).unwrap(), format!("group 2 2 - 2 8 {} 0 3 0,1", root.initial_psn.value()));
    let mut above = root.clone();
    above.edges[1] = EdgeConfig { rank: None, mode: Some(Mode::III), ..above.edges[1] };
    let refused = [
        (above, "set group.modes=II"),
        (GroupConfig { selective: true, ..root.clone() }, "set group.selective=false"),
        (GroupConfig { standard_verbs: true, ..root }, "set group.standard_verbs=false"),
        (config(), "found one in Mode-III"),
    ];
    for (config, expected) in refused {
        let refusal = told(&config).unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    }
}
