//! The rule of MultiWrite: everybody whom a write names gets it once, by way of nodes that know nothing of it.

use crate::common::{Graph, Random, Writers};
use proptest::prelude::*;
use quincunx_collective::Rank;
use quincunx_engine::verbs::{QpIndex, RegionId, SendRequest, Slice, Verb, Verbs, WorkId};
use quincunx_multiwrite::{RelayCost, Table, TableError, Target, Write, WriteError, Writer};
use quincunx_units::Duration;
use quincunx_wire::multiwrite::Destinations;

fn targets(ranks: &[usize], slot: usize) -> Vec<Target> {
    ranks.iter().map(|&rank| Target { rank: Rank(rank as u16), slot }).collect()
}

/// Writes `bytes` of rank 0, and counts the messages that it has to send for it.
fn write(nodes: &mut Writers, to: &[Target], bytes: &[u8]) -> Result<usize, WriteError> {
    let source = nodes.data(0, bytes);
    let write = Write { targets: to, source, way: 0 };
    let messages = nodes.writers[0].write(&write, &mut nodes.ports[0])?;
    nodes.outstanding[0] += messages;
    Ok(messages)
}

fn receivers(nodes: &Writers) -> Vec<usize> {
    let mut receivers: Vec<usize> = nodes.delivered.iter().map(|(rank, ..)| *rank).collect();
    receivers.sort_unstable();
    receivers
}

#[test]
fn one_destination_is_an_ordinary_write() {
    let mut nodes = Writers::new(Graph::mesh(3), 1, 8, 1);
    assert_eq!(write(&mut nodes, &targets(&[2], 0), b"abc"), Ok(1));
    nodes.run().unwrap();
    assert_eq!(nodes.delivered, [(2, 0, 0, b"abc".to_vec())]);
    assert_eq!(nodes.ports[2].posts, 0, "nothing is left to be passed on");
}

#[test]
fn destinations_behind_one_neighbour_share_one_message() {
    // 0 - 1 - 2 - 3
    let mut nodes = Writers::new(Graph::line(4), 1, 8, 1);
    assert_eq!(write(&mut nodes, &targets(&[1, 2, 3], 0), b"abc"), Ok(1));
    nodes.run().unwrap();
    assert_eq!(receivers(&nodes), [1, 2, 3]);
    assert_eq!([1, 2, 3].map(|rank| nodes.ports[rank].posts), [1, 1, 0]);
}

#[test]
fn destinations_behind_several_neighbours_take_a_message_each() {
    let mut nodes = Writers::new(Graph::mesh(4), 1, 8, 1);
    assert_eq!(write(&mut nodes, &targets(&[1, 2, 3], 0), b"abc"), Ok(3));
    nodes.run().unwrap();
    assert_eq!(receivers(&nodes), [1, 2, 3]);
}

#[test]
fn a_relay_that_is_no_destination_is_delivered_nothing() {
    let mut nodes = Writers::new(Graph::line(3), 1, 8, 1);
    write(&mut nodes, &targets(&[2], 0), b"abc").unwrap();
    nodes.run().unwrap();
    assert_eq!(receivers(&nodes), [2]);
}

#[test]
fn a_relay_remembers_nothing_of_what_it_has_passed_on() {
    let mut nodes = Writers::new(Graph::line(4), 1, 8, 1);
    let before = nodes.writers[1].clone();
    write(&mut nodes, &targets(&[1, 2, 3], 0), b"abc").unwrap();
    nodes.run().unwrap();
    assert_eq!(nodes.writers[1], before);
}

#[test]
fn a_relay_that_is_behind_makes_its_peers_wait() {
    // Every message takes until the alarm: two receive requests, two messages that wait with the relay, and no third.
    let mut nodes = Writers::new(Graph::line(3), 4, 8, 1);
    let mut slow = crate::common::config(&nodes.graph, 1, 4, 8);
    slow.cost = RelayCost { message: Duration::from_nanos(1), copy: Duration::ZERO };
    (nodes.writers[1], nodes.ports[1]) = (Writer::new(slow), crate::common::port(&nodes.graph, 1));
    nodes.writers[1].initialise(&mut nodes.ports[1]);
    (0..4).for_each(|slot| assert_eq!(write(&mut nodes, &targets(&[2], slot), b"abc"), Ok(1)));
    let mut left = Vec::new();
    while left.last() != Some(&0) {
        nodes.run().unwrap();
        nodes.writers[1].assert_invariants();
        left.push(nodes.ports[0].lines[0].sends.len());
        nodes.writers[1].relay(&mut nodes.ports[1]).unwrap();
    }
    assert_eq!(left, [2, 1, 0]);
    while nodes.delivered.len() < 4 {
        nodes.run().unwrap();
        nodes.writers[1].relay(&mut nodes.ports[1]).unwrap();
    }
    assert_eq!(receivers(&nodes), [2; 4]);
    let slots: Vec<_> = nodes.delivered.iter().map(|(_, _, slot, _)| *slot).collect();
    assert_eq!(slots, [0, 1, 2, 3], "what has waited longest goes first");
}

#[test]
fn other_buffers_are_other_writes() {
    let mut nodes = Writers::new(Graph::line(4), 2, 8, 1);
    let to = [targets(&[1, 2], 0), targets(&[3], 1)].concat();
    assert_eq!(write(&mut nodes, &to, b"abc"), Ok(2));
    nodes.run().unwrap();
    let mut slots: Vec<_> = nodes.delivered.iter().map(|(rank, _, slot, _)| (*rank, *slot)).collect();
    slots.sort_unstable();
    assert_eq!(slots, [(1, 0), (2, 0), (3, 1)]);
}

#[test]
fn in_large_groups_the_bitmap_travels_in_the_payload() {
    for ranks in [33, 64, 128] {
        let mut nodes = Writers::new(Graph::line(ranks), 1, 8, 1);
        write(&mut nodes, &targets(&[1, 5, ranks - 1], 0), b"abc").unwrap();
        nodes.run().unwrap();
        assert_eq!(receivers(&nodes), [1, 5, ranks - 1]);
        assert!(nodes.delivered.iter().all(|(.., bytes)| bytes == b"abc"));
        assert_eq!(nodes.outstanding[0], 0);
    }
}

#[test]
fn a_group_of_1024_ranks_works() {
    let mut graph = Graph::empty(1024);
    (1..1024).for_each(|rank| graph.join((rank - 1) / 32, rank));
    let mut nodes = Writers::new(graph, 1, 4, 1);
    let all: Vec<usize> = (1..1024).collect();
    assert_eq!(write(&mut nodes, &targets(&all, 0), b"abcd"), Ok(32));
    nodes.run().unwrap();
    assert_eq!(receivers(&nodes), all);
    assert!(nodes.delivered.iter().all(|(_, source, _, bytes)| *source == 0 && bytes == b"abcd"));
}

#[test]
fn a_write_that_makes_no_sense_is_refused_and_nothing_is_sent() {
    let mut nodes = Writers::new(Graph::line(3), 2, 4, 1);
    for (to, bytes, refusal) in [
        (targets(&[], 0), &b"a"[..], WriteError::NoDestination),
        (targets(&[1, 3], 0), b"a", WriteError::UnknownRank { ranks: 3, found: 3 }),
        (targets(&[1, 0], 0), b"a", WriteError::SelfAddressed { rank: 0 }),
        (targets(&[1, 2, 1], 0), b"a", WriteError::Twice { rank: 1, slot: 0 }),
        (targets(&[1], 2), b"a", WriteError::NoSlot { slots: 2, found: 2 }),
        (targets(&[1], 0), b"abcde", WriteError::Source { limit: 4, found: 5 }),
    ] {
        assert_eq!(write(&mut nodes, &to, bytes), Err(refusal));
        assert!(!refusal.to_string().contains('\n'), "{refusal}");
    }
    let unregistered = Slice { region: RegionId(99), offset: 0, length: 1 };
    let to = targets(&[1], 0);
    let lost =
        nodes.writers[0].write(&Write { targets: &to, source: unregistered, way: 0 }, &mut nodes.ports[0]);
    assert_eq!(lost, Err(WriteError::Source { limit: 4, found: 1 }));
    assert_eq!(nodes.ports[0].posts, 0);
}

#[test]
fn a_rank_to_which_no_way_leads_is_refused() {
    let mut graph = Graph::line(3);
    graph.0.push(Vec::new());
    let mut nodes = Writers::new(graph, 1, 4, 1);
    assert_eq!(write(&mut nodes, &targets(&[1, 3], 0), b"a"), Err(WriteError::NoRoute { rank: 3 }));
}

#[test]
fn a_table_that_makes_no_sense_is_refused() {
    let table = |rank, ranks, neighbours: &[u16], lines: usize, qp| {
        let neighbours = neighbours.iter().map(|rank| Rank(*rank)).collect();
        Table::new(Rank(rank), ranks, neighbours, vec![vec![QpIndex(qp)]; lines])
    };
    assert_eq!(table(0, 1025, &[1], 1025, 0), Err(TableError::Ranks { found: 1025 }));
    assert_eq!(table(2, 2, &[1], 2, 0), Err(TableError::OutOfTable { ranks: 2, found: 2 }));
    assert_eq!(table(0, 2, &[2], 2, 0), Err(TableError::OutOfTable { ranks: 2, found: 2 }));
    assert_eq!(table(0, 2, &[1], 1, 0), Err(TableError::Lines { ranks: 2, found: 1 }));
    assert_eq!(table(0, 2, &[1], 2, 1), Err(TableError::NoQueuePair { to: 0, queue_pairs: 1, found: 1 }));
}

/// Has rank 0 send `immediate` to rank 1, whatever it says; what rank 1 makes of it.
fn raw(
    graph: Graph,
    offset: u64,
    immediate: u32,
) -> (Result<(), quincunx_multiwrite::ProtocolViolation>, usize) {
    let mut nodes = Writers::new(graph, 1, 4, 1);
    let source = nodes.data(0, b"abcd");
    let verb = Verb::Write { remote_address: offset, remote_key: 0 };
    let request = SendRequest { id: WorkId(0), verb, source, immediate: Some(immediate) };
    nodes.outstanding[0] += 1;
    nodes.ports[0].post_send(QpIndex(0), request);
    let result = nodes.run();
    (result, nodes.delivered.len() + nodes.ports[1].posts)
}

#[test]
fn a_bitmap_with_an_unknown_rank_ends_the_group_and_goes_nowhere() {
    for immediate in [1 << 3, 1 << 1 | 1 << 31, 0] {
        let (result, effects) = raw(Graph::line(3), 0, immediate);
        assert!(result.is_err_and(|violation| violation.peer == Rank(0)), "{immediate:#x}");
        assert_eq!(effects, 0);
    }
}

#[test]
fn a_write_beside_a_slot_ends_the_group() {
    let (result, effects) = raw(Graph::line(3), 2, 1 << 1);
    assert!(result.is_err());
    assert_eq!(effects, 0);
}

#[test]
fn what_would_go_back_where_it_came_from_goes_nowhere() {
    let mut back = Destinations::one(1);
    back.insert(0);
    let (result, effects) = raw(Graph::line(3), 0, back.to_immediate().unwrap());
    assert!(result.is_err());
    assert_eq!(effects, 0);
}

#[test]
fn any_bitmap_at_any_place_is_taken_or_refused() {
    for immediate in 0..64 {
        for offset in 0..9 {
            let _ = raw(Graph::mesh(3), offset, immediate);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_destination_gets_every_write_exactly_once_in_any_network(
        seed in any::<u64>(),
        ranks in 2_usize..40,
        more in 0_usize..10,
        writes in 1_usize..5,
    ) {
        let mut random = Random(seed);
        let graph = Graph::random(ranks, more, &mut random);
        let mut nodes = Writers::new(graph, 4, 12, seed);
        let mut expected = Vec::new();
        for slot in 0..writes {
            for source in 0..ranks.min(3) {
                let bytes: Vec<u8> = (0..random.below(13)).map(|_| random.below(256) as u8).collect();
                let to: Vec<usize> = (0..ranks).filter(|rank| *rank != source && random.below(2) == 0).collect();
                if to.is_empty() {
                    continue;
                }
                expected.extend(to.iter().map(|rank| (*rank, source, slot, bytes.clone())));
                let source_slice = nodes.data(source, &bytes);
                let write = Write { targets: &targets(&to, slot), source: source_slice, way: 0 };
                nodes.outstanding[source] += nodes.writers[source].write(&write, &mut nodes.ports[source]).unwrap();
            }
        }
        nodes.run().unwrap();
        expected.sort();
        nodes.delivered.sort();
        prop_assert_eq!(&nodes.delivered, &expected);
        prop_assert!(nodes.outstanding.iter().all(|outstanding| *outstanding == 0));
    }
}
