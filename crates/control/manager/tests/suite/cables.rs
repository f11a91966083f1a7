//! What machines hear at their ports: links that both ends agree on, what is said and denied, cables that move, and words of liars.

use crate::site::{Site, config, host, request, switch, told};
use quincunx_control::{
    Action, CableReport, GroupState, HeardNeighbour, Instruction, LinkReport, LinkRow, ManagerConfig,
    ManagerTimer, NodeDescription, PortReport, REPORT_LIFE, Report, Speaker,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::lldp::LldpId;

fn anybody() -> Speaker {
    Speaker { is_anybody: true, ..Speaker::default() }
}

fn heard(machine: &str, interface: &str) -> HeardNeighbour {
    HeardNeighbour {
        chassis: LldpId::local(machine).to_string(),
        port: LldpId::interface(interface).to_string(),
        name: machine.into(),
    }
}

/// A port that is up and hears these, as `h0 eth0`.
fn port(interface: &str, others: &[&str]) -> PortReport {
    let other =
        |text: &&str| text.split_once(' ').map(|(machine, port)| heard(machine, port)).expect("two words");
    PortReport {
        interface: interface.into(),
        is_up: true,
        addresses: Vec::new(),
        heard: others.iter().map(other).collect(),
    }
}

fn down(interface: &str) -> PortReport {
    PortReport { is_up: false, ..port(interface, &[]) }
}

/// The port of the host with this number, which has that one's address.
fn at(number: u8, others: &[&str]) -> PortReport {
    PortReport { addresses: vec![host(number).address], ..port("eth0", others) }
}

/// A machine tells of its ports; what follows, but for the timer.
fn tell_as(site: &mut Site, speaker: Speaker, machine: &str, ports: Vec<PortReport>) -> Vec<Action> {
    let mut actions = Vec::new();
    let report = CableReport { machine: machine.into(), speaker, ports };
    site.manager.report_cables(report, &mut actions).expect("it is taken");
    let timer = Action::SetTimer { timer: ManagerTimer::Cables, after: REPORT_LIFE };
    assert_eq!(actions.remove(0), timer);
    actions
}

fn tell(site: &mut Site, machine: &str, ports: Vec<PortReport>) -> Vec<Action> {
    tell_as(site, anybody(), machine, ports)
}

/// All links, as `h0 eth0 - s0 eth1: found`.
fn links(site: &Site) -> Vec<String> {
    let end = |end: &quincunx_control::LinkEnd| format!("{} {}", end.name, end.port).trim_end().to_owned();
    let row = |LinkRow { ends: [a, b], state, reason }: LinkRow| {
        let why = if reason.is_empty() { String::new() } else { format!(", {reason}") };
        let state = format!("{state:?}").to_lowercase();
        format!("{} - {}: {state}{why}", end(&a), end(&b))
    };
    site.manager.links().into_iter().map(row).collect()
}

fn joins(site: &Site, a: &str, b: &str) -> bool {
    site.manager.map().link(a, b).is_some()
}

fn recreating() -> ManagerConfig {
    ManagerConfig { recreates: true, ..config() }
}

/// Switches s0 and s1, hosts r0 and r1; r0 and r1 are at s0.
fn cabled() -> Site {
    let mut site = Site::with(recreating(), 2, 2);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"]), down("eth3")]);
    tell(&mut site, "s1", vec![down("eth1"), down("eth2")]);
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    tell(&mut site, "h1", vec![at(1, &["s0 eth2"])]);
    site
}

fn declared(neighbour: &str, interface: Option<&str>) -> LinkReport {
    let interface = interface.map(Into::into);
    LinkReport { neighbour: neighbour.into(), parallel_links: 1, rate: None, interface }
}

#[test]
fn a_cable_that_both_ends_hear_joins_the_nodes_there() {
    let site = cabled();
    assert_eq!(links(&site), ["h0 eth0 - s0 eth1: found", "h1 eth0 - s0 eth2: found"]);
    assert!(joins(&site, "s0", "r0") && joins(&site, "s0", "r1"));
    assert!(!joins(&site, "s1", "r0") && !joins(&site, "the network", "r0"));
}

#[test]
fn of_a_cable_that_one_end_hears_nothing_follows() {
    let mut site = Site::new(1, 2);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"])]);
    assert_eq!(links(&site), ["s0 eth1 - h0 (local h0) ifname eth0: oneend, it tells the manager nothing"]);
    tell(&mut site, "h0", vec![at(0, &[])]);
    assert_eq!(links(&site), ["s0 eth1 - h0 (local h0) ifname eth0: oneend, it does not hear s0 eth1 there"]);
    assert!(!joins(&site, "s0", "r0"));
}

#[test]
fn who_has_a_port_that_leads_nobody_knows_where_is_in_the_network_too() {
    let mut site = Site::new(1, 2);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &[])]);
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    // Of r1 nobody tells: it may be behind the second port.
    assert!(joins(&site, "s0", "the network") && joins(&site, "r1", "the network"));
    assert!(joins(&site, "s0", "r0") && !joins(&site, "r0", "the network"));
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), down("eth2")]);
    assert!(!joins(&site, "s0", "the network"));
}

#[test]
fn several_cables_between_two_nodes_are_one_link_of_so_many() {
    let mut site = Site::new(2, 0);
    tell(&mut site, "s0", vec![port("eth1", &["s1 eth1"]), port("eth2", &["s1 eth2"])]);
    tell(&mut site, "s1", vec![port("eth1", &["s0 eth1"]), port("eth2", &["s0 eth2"])]);
    assert_eq!(links(&site), ["s0 eth1 - s1 eth1: found", "s0 eth2 - s1 eth2: found"]);
    assert_eq!(site.manager.map().links().count(), 1);
    let link = site.manager.map().link("s0", "s1").expect("a link");
    assert!(site.manager.map().has_free_link(link));
}

#[test]
fn a_tree_is_laid_over_the_cables() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    assert_eq!(site.summary(group).switches[0].node, "s0");
    let told: Vec<String> = site
        .manager
        .map()
        .links()
        .filter(|link| !site.manager.map().trees(*link).is_empty())
        .map(|link| site.manager.map().ends(link).join("-"))
        .collect();
    assert_eq!(told, ["r0-s0", "r1-s0"]);
}

#[test]
fn what_a_node_says_of_a_port_and_its_cable_denies_is_told_by_name_and_port_and_is_no_link() {
    let node = NodeDescription {
        links: vec![declared("r1", Some("eth1")), declared("r0", Some("eth2"))],
        ..switch(0)
    };
    let mut site = Site::of(config(), [node, host(0), host(1)]);
    assert!(joins(&site, "s0", "r0"));
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &["s7 eth9"])]);
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    tell(&mut site, "s7", vec![port("eth9", &["s0 eth2"])]);
    let denied: Vec<_> = site.manager.map().denials().iter().map(|denied| denied.reason.as_str()).collect();
    assert_eq!(denied, ["s0 says that its eth1 leads to r1, and its cable leads to h0 eth0"]);
    assert!(!joins(&site, "s0", "r1"));
    assert!(joins(&site, "s0", "r0"), "the cable is there, if at another port");
}

#[test]
fn on_a_segment_that_several_share_a_cable_denies_nobody() {
    let node = NodeDescription { links: vec![declared("r1", Some("eth1"))], ..switch(0) };
    let mut site = Site::of(config(), [node, host(0), host(1)]);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"])]);
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    assert!(!joins(&site, "s0", "r1"), "a cable has one other end");
    // A second voice: r1's machine, say, which tells the manager nothing.
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0", "h1 eth0"])]);
    assert!(joins(&site, "s0", "r1") && joins(&site, "s0", "r0"));
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"])]);
    assert!(!joins(&site, "s0", "r1"), "it has gone");
}

#[test]
fn a_port_that_is_down_has_no_cable_whatever_it_tells() {
    let mut site = Site::new(1, 1);
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    tell(&mut site, "s0", vec![PortReport { is_up: false, ..port("eth1", &["h0 eth0"]) }]);
    assert!(!joins(&site, "s0", "r0"));
}

#[test]
fn what_a_node_says_of_another_whose_cables_all_lead_elsewhere_is_denied() {
    let node = NodeDescription { links: vec![declared("r0", None)], ..switch(0) };
    let mut site = Site::of(config(), [node, switch(1), host(0)]);
    tell(&mut site, "s0", vec![port("eth1", &[])]);
    tell(&mut site, "s1", vec![port("eth1", &["h0 eth0"])]);
    assert!(joins(&site, "s0", "r0"), "the host tells nothing yet");
    tell(&mut site, "h0", vec![at(0, &["s1 eth1"])]);
    assert_eq!(
        links(&site),
        [
            "h0 eth0 - s1 eth1: found",
            "s0 - r0: denied, s0 says to be joined with r0, and the cables of r0 lead to s1 eth1"
        ]
    );
    assert!(!joins(&site, "s0", "r0") && joins(&site, "s1", "r0"));
}

#[test]
fn what_no_cable_denies_stays_as_it_is_said() {
    let node =
        NodeDescription { links: vec![declared("r0", Some("eth1")), declared("r1", None)], ..switch(0) };
    let mut site = Site::of(config(), [node, host(0), host(1)]);
    // An ordinary switch is between, which tells the manager nothing.
    tell(&mut site, "s0", vec![port("eth1", &["office gi1"])]);
    tell(&mut site, "h0", vec![at(0, &["office gi2"])]);
    assert!(joins(&site, "s0", "r0") && joins(&site, "s0", "r1"));
    assert_eq!(site.manager.map().denials(), []);
    assert_eq!(
        links(&site),
        [
            "h0 eth0 - office (local office) ifname gi2: oneend, it tells the manager nothing",
            "s0 - r1: declared",
            "s0 eth1 - office (local office) ifname gi1: oneend, it tells the manager nothing",
            "s0 eth1 - r0: declared",
        ]
    );
}

#[test]
fn a_cable_that_moves_has_groups_made_anew_on_the_tree_that_there_is_now() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    // Both hosts' cables go from s0 to s1.
    let cut = tell(&mut site, "s0", vec![down("eth1"), port("eth2", &["h1 eth0"]), down("eth3")]);
    let suspended: Vec<_> = told(&cut)
        .into_iter()
        .filter(|(_, told)| matches!(told, Instruction::Suspend { .. }))
        .map(|(node, _)| node)
        .collect();
    assert_eq!(suspended, ["r0", "r1"]);
    let GroupState::Suspended(failure) = site.state(group) else { panic!("{:?}", site.state(group)) };
    assert_eq!(failure.reason, "its cable between h0 eth0 and s0 eth1 is gone: s0 eth1 is down");
    tell(&mut site, "s0", vec![down("eth1"), down("eth2"), down("eth3")]);
    tell(&mut site, "s1", vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"])]);
    tell(&mut site, "h0", vec![at(0, &["s1 eth1"])]);
    tell(&mut site, "h1", vec![at(1, &["s1 eth2"])]);
    assert_eq!(links(&site), ["h0 eth0 - s1 eth1: found", "h1 eth0 - s1 eth2: found"]);
    site.report("s0", group, Report::Removed);
    for rank in ["r0", "r1"] {
        site.report(
            rank,
            group,
            Report::Suspended(quincunx_control::Progress { complete: 0, repeats_from: 1 }),
        );
    }
    let next = site.manager.current(group);
    assert_ne!(next, group);
    assert_eq!(site.summary(next).switches[0].node, "s1");
}

#[test]
fn a_cable_that_leads_elsewhere_now_is_gone_though_no_port_went_down() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    tell(&mut site, "s1", vec![port("eth1", &["h0 eth0"]), down("eth2")]);
    assert_eq!(site.state(group), GroupState::Ready, "one end alone says so");
    tell(&mut site, "h0", vec![at(0, &["s1 eth1"])]);
    let GroupState::Suspended(failure) = site.state(group) else { panic!("{:?}", site.state(group)) };
    let reason = "its cable between h0 eth0 and s0 eth1 is gone: the cable of h0 eth0 leads to s1 eth1 now";
    assert_eq!(failure.reason, reason);
}

#[test]
fn a_cable_that_is_not_heard_any_more_costs_no_group_and_gets_no_new_one() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    // The agent of h0 is started again.
    assert_eq!(tell(&mut site, "s0", vec![port("eth1", &[]), port("eth2", &["h1 eth0"]), down("eth3")]), []);
    assert_eq!(site.state(group), GroupState::Ready);
    assert!(!joins(&site, "s0", "r0"));
    assert!(links(&site)[0].starts_with("h0 eth0 - s0 eth1: silent"), "{:?}", links(&site));
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"]), down("eth3")]);
    assert!(joins(&site, "s0", "r0"));
}

#[test]
fn what_a_switch_says_of_its_links_is_no_matter_of_a_cable_that_is_not_heard() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    tell(&mut site, "s0", vec![port("eth1", &[]), port("eth2", &["h1 eth0"]), down("eth3")]);
    let mut actions = Vec::new();
    site.manager.update_links("s0", vec![declared("s1", None)], &mut actions).expect("it is attached");
    assert_eq!((site.state(group), actions), (GroupState::Ready, vec![]));
}

#[test]
fn a_machines_word_holds_for_a_while() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    site.manager.advance(Instant::ZERO + REPORT_LIFE + Duration::from_secs(1));
    site.manager.handle_timer(ManagerTimer::Cables, &mut Vec::new());
    assert_eq!(links(&site), [] as [String; 0]);
    assert!(joins(&site, "the network", "r0"));
    assert_eq!(site.state(group), GroupState::Ready);
}

#[test]
fn a_port_may_go_down_just_when_the_word_of_the_other_end_holds_no_more() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    site.manager.advance(Instant::ZERO + REPORT_LIFE / 2);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"]), down("eth3")]);
    tell(&mut site, "h1", vec![at(1, &["s0 eth2"])]);
    // Nobody has told anything since the word of h0 ended: this is the first.
    site.manager.advance(Instant::ZERO + REPORT_LIFE + Duration::from_secs(1));
    tell(&mut site, "s0", vec![down("eth1"), port("eth2", &["h1 eth0"]), down("eth3")]);
    assert_eq!(links(&site), ["h1 eth0 - s0 eth2: found"]);
    let GroupState::Suspended(failure) = site.state(group) else { panic!("{:?}", site.state(group)) };
    assert_eq!(failure.reason, "its cable between h0 eth0 and s0 eth1 is gone: s0 eth1 is down");
}

#[test]
fn a_machine_whose_word_had_ended_is_heard_again() {
    let mut site = cabled();
    site.manager.advance(Instant::ZERO + REPORT_LIFE / 2);
    tell(&mut site, "s0", vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"]), down("eth3")]);
    site.manager.advance(Instant::ZERO + REPORT_LIFE + Duration::from_secs(1));
    tell(&mut site, "h0", vec![at(0, &["s0 eth1"])]);
    assert_eq!(links(&site)[0], "h0 eth0 - s0 eth1: found");
    assert!(joins(&site, "s0", "r0"));
}

#[test]
fn a_lie_about_anothers_name_changes_no_link() {
    let mut site = cabled();
    let before = (links(&site), site.manager.map().clone());
    // Whoever is behind the third port says to be h0, and h1's neighbour says to be s1.
    tell(
        &mut site,
        "s0",
        vec![port("eth1", &["h0 eth0"]), port("eth2", &["h1 eth0"]), port("eth3", &["h0 eth0"])],
    );
    assert!(joins(&site, "s0", "r0") && joins(&site, "s0", "r1") && !joins(&site, "s1", "r0"));
    let lies: Vec<_> = links(&site).into_iter().filter(|row| !before.0.contains(row)).collect();
    assert_eq!(lies, ["s0 eth3 - h0 (local h0) ifname eth0: oneend, it does not hear s0 eth3 there"]);
}

#[test]
fn a_second_voice_on_a_cable_is_told_as_a_shared_segment_and_denies_nothing() {
    let mut site = cabled();
    let group = site.init(&request(2, "epic-2"));
    let both = port("eth1", &["h0 eth0", "liar eth0"]);
    tell(&mut site, "s0", vec![both, port("eth2", &["h1 eth0"]), down("eth3")]);
    assert!(joins(&site, "s0", "r0") && site.state(group) == GroupState::Ready);
    let told = &links(&site)[2];
    let expected = "s0 eth1 - liar (local liar) ifname eth0: oneend, it tells the manager nothing; 2 are heard at s0 \
        eth1, a segment that they share";
    assert_eq!(told, expected);
}

#[test]
fn a_machine_speaks_for_no_node_but_those_of_its_certificate() {
    let mut site = Site::new(1, 2);
    let of = |node: &str| Speaker { node: Some(node.into()), ..Speaker::default() };
    tell_as(&mut site, of("s0"), "s0", vec![port("eth1", &["h0 eth0"])]);
    // It has the address of r0, and may speak for r1 alone.
    tell_as(&mut site, of("r1"), "h0", vec![at(0, &["s0 eth1"])]);
    assert!(!joins(&site, "s0", "r0") && !joins(&site, "s0", "r1"));
    tell_as(&mut site, of("r0"), "h0", vec![at(0, &["s0 eth1"])]);
    assert!(joins(&site, "s0", "r0"));
    let blue = Speaker { tenant: Some("r".into()), ..Speaker::default() };
    assert!(blue.speaks_for("r/0") && !blue.speaks_for("r0") && !blue.speaks_for("red/0"));
}

#[test]
fn more_than_a_machine_has_is_refused() {
    let mut site = Site::new(1, 0);
    let mut refusal = |ports| {
        let report = CableReport { machine: "s0".into(), speaker: anybody(), ports };
        site.manager.report_cables(report, &mut Vec::new()).expect_err("refused").to_string()
    };
    let many: Vec<_> = (0..1025).map(|number| port(&format!("eth{number}"), &[])).collect();
    assert_eq!(refusal(many), "expected at most 1024 ports of a machine, found 1025; tell of fewer ports");
    let crowded = port("eth1", &["a b"; 9]);
    assert_eq!(
        refusal(vec![crowded]),
        "expected at most 8 neighbours at a port, found 9; tell of fewer ports"
    );
    let long = port(&"e".repeat(1101), &[]);
    assert_eq!(refusal(vec![long]), "expected names of at most 1100 bytes, found 1101; tell of fewer ports");
}

#[test]
fn a_machine_that_hears_itself_is_joined_with_nobody() {
    let mut site = Site::new(1, 0);
    tell(&mut site, "s0", vec![port("eth1", &["s0 eth2", "s0 eth1"]), port("eth2", &["s0 eth1"])]);
    assert!(!joins(&site, "s0", "s0"));
    assert_eq!(links(&site)[0], "s0 eth1 - s0 eth2: found");
}
