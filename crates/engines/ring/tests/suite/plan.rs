//! Who is connected with whom where collectives run among hosts alone, and which parameters are refused.

use quincunx_collective::{LengthOnly, Rank};
use quincunx_design::{AnyDesign, Design, Member, Placement, Refusal, Settings, Value};
use quincunx_ring::{Algorithm, DIRECT, DOUBLE_TREE, HostParams, Hosts, RING, TREE};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;

fn placement(ranks: u16) -> Placement {
    Placement::new(ranks, None, ByteCount::new(1 << 20))
}

/// By rank: the others by the number of the connection.
fn peers(design: Hosts, ranks: u16) -> Vec<Vec<u16>> {
    let plan = Design::plan(&design, &HostParams::default(), &placement(ranks)).unwrap();
    assert!(plan.switches.is_empty() && !plan.remote_write);
    let mut peers = vec![BTreeMap::new(); usize::from(ranks)];
    for connection in plan.connections {
        let [a, b] = connection.ends;
        for (near, far) in [(a, b), (b, a)] {
            let (Member::Rank(at), Member::Rank(to)) = (near.member, far.member) else {
                panic!("hosts alone")
            };
            peers[at.index()].insert(near.index, to.0);
        }
    }
    peers.into_iter().map(|of| of.into_values().collect()).collect()
}

#[test]
fn a_ring_goes_to_the_next_first_then_to_the_one_before() {
    assert_eq!(peers(RING, 4), [[1, 3], [2, 0], [3, 1], [0, 2]]);
    assert_eq!(peers(RING, 2), [[1], [0]]);
    assert_eq!(peers(RING, 1), [[0; 0]]);
}

#[test]
fn direct_and_tree_go_to_all_others_in_rank_order() {
    assert_eq!(peers(DIRECT, 3), [[1, 2], [0, 2], [0, 1]]);
    assert_eq!(peers(TREE, 3), [[1, 2], [0, 2], [0, 1]]);
}

fn with(key: &str, value: impl Into<Value>) -> Result<(), Refusal> {
    let mut settings = RING.defaults();
    RING.set(&mut settings, key, &value.into())?;
    AnyDesign::plan(&RING, &settings, &placement(4)).map(drop)
}

#[test]
fn pieces_that_no_rank_could_run_with_are_refused_by_key_before_anybody_is_told() {
    let cases = [
        (with("hosts.chunk", 0), "expected `hosts.chunk` of a multiple of 4 bytes, found 0B"),
        (with("hosts.chunk", 1022), "expected `hosts.chunk` of a multiple of 4 bytes, found 1022B"),
        (with("hosts.window", 1), "expected `hosts.window` of 2 at least, found 1"),
        (with("hosts.chunk", 1u64 << 33), "expected `hosts.chunk` times `hosts.window` of 64GiB at most"),
        (with("group.window", 0), "expected `group.message` times `group.window` of 1 to 4194304 packets"),
    ];
    for (refused, expected) in cases {
        let line = refused.unwrap_err().to_string();
        assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
    }
    assert_eq!(with("hosts.window", 2), Ok(()));
    // A chunk may be longer than a message of the queue pairs: it is cut there.
    assert_eq!(with("hosts.chunk", "4MiB"), Ok(()));
}

#[test]
fn a_rank_without_the_peers_that_it_needs_is_refused() {
    without_its_last_peer(RING);
    without_its_last_peer(DOUBLE_TREE);
}

fn without_its_last_peer(design: Hosts) {
    let settings = Settings::defaults::<HostParams>();
    let plan = AnyDesign::plan(&design, &settings, &placement(3)).unwrap();
    let naming = quincunx_design::Naming {
        group: quincunx_collective::GroupId(1),
        design: AnyDesign::name(&design).to_string(),
        version: 1,
        settings,
        fabric: quincunx_design::FabricKind::Ring,
        domains: 1,
        initial_psn: quincunx_wire::Psn::new(0),
    };
    let endpoint = quincunx_wire::Endpoint {
        ip: quincunx_wire::Gid::from([127, 0, 0, 1]),
        qp: quincunx_wire::QpNumber::new(16),
    };
    let (member, mut context) = plan.contexts(&naming, |_| String::new(), |_| endpoint).remove(1);
    assert_eq!(member, Member::Rank(Rank(1)));
    context.connections.pop();
    let refused =
        quincunx_design::Parts::<LengthOnly>::endpoint_part(&design, &quincunx_design::Context::of(&context))
            .unwrap_err();
    assert!(refused.to_string().starts_with("expected a queue pair to rank "), "{refused}");
}

#[test]
fn a_ring_closes_whatever_the_number_of_ranks() {
    let last = u16::MAX - 1;
    assert_eq!(Algorithm::Ring.peers(Rank(last), u16::MAX), [Rank(0), Rank(last - 1)]);
}
