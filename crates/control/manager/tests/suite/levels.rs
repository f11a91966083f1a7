//! How far members are from each switch that could be a root: for many at once as for each by itself.

use crate::site::{host, switch};
use proptest::prelude::*;
use quincunx_control::map::{Map, MapLink, MapNode};
use quincunx_control::tree::{Ground, Levels};
use quincunx_control::{LinkReport, NodeDescription};
use quincunx_units::ByteCount;
use std::collections::{BTreeMap, BTreeSet};

/// Hosts and switches joined by these pairs: a number below `hosts` is a host's.
fn map(hosts: u8, switches: u8, joined: &[(u8, u8)]) -> Map {
    let name = |node: u8| if node < hosts { format!("r{node}") } else { format!("s{}", node - hosts) };
    let describe = |node: u8| {
        let ends = joined.iter().filter(|(a, b)| a != b).flat_map(|&(a, b)| [(a, b), (b, a)]);
        let neighbours: BTreeSet<u8> = ends.filter(|&(from, _)| from == node).map(|(_, to)| to).collect();
        let links = neighbours.into_iter();
        let links = links
            .map(|to| LinkReport { interface: None, neighbour: name(to), parallel_links: 1, rate: None })
            .collect();
        let node = if node < hosts { host(node) } else { switch(node - hosts) };
        NodeDescription { links, ..node }
    };
    let nodes: Vec<_> = (0..hosts + switches).map(describe).collect();
    Map::new(nodes.iter())
}

/// The same by a search from each member, one after the other.
fn one_by_one(ground: &Ground<'_>, members: &[MapNode]) -> Result<Levels, Vec<MapNode>> {
    let nodes = || (0..ground.map.size() as u32).map(MapNode);
    let mut far: BTreeMap<MapNode, u16> =
        nodes().filter(|&node| (ground.able)(node)).map(|node| (node, 0)).collect();
    let mut lost = Vec::new();
    let is_none = far.is_empty();
    for &member in members {
        let near = ground.map.distances(member, ground.usable);
        let reached = far.iter().filter_map(|(&node, &far)| Some((node, far.max(near[node.0 as usize]?))));
        let reached: BTreeMap<_, _> = reached.collect();
        if reached.is_empty() { lost.push(member) } else { far = reached }
    }
    if is_none || !lost.is_empty() {
        return Err(if is_none { Vec::new() } else { lost });
    }
    let mut levels = Levels(BTreeMap::new());
    for (node, far) in far {
        levels.0.entry(far).or_default().push(node);
    }
    Ok(levels)
}

proptest! {
    #[test]
    fn many_members_are_as_far_as_each_by_itself(
        hosts in 1..9_u8,
        switches in 1..8_u8,
        joined in proptest::collection::vec((0..16_u8, 0..16_u8), 1..40),
        cut in 0..40_usize,
        unable in 0..8_u8,
    ) {
        let nodes = hosts + switches;
        let joined: Vec<_> = joined.into_iter().map(|(a, b)| (a % nodes, b % nodes)).collect();
        let map = map(hosts, switches, &joined);
        let links: Vec<MapLink> = map.links().collect();
        let ground = Ground {
            map: &map,
            able: &|node| !map.is_host(node) && map.name(node) != format!("s{unable}"),
            usable: &|link| links.iter().position(|&other| other == link) != Some(cut),
            memory: &|_| ByteCount::new(0),
        };
        let members: Vec<MapNode> = (0..hosts).map(|member| map.find(&format!("r{member}")).unwrap()).collect();
        match (ground.levels(&members), one_by_one(&ground, &members)) {
            // Who is lost depends on the order in which members are taken: without them there are roots, with any of them there are none.
            (Err(lost), Err(wanted)) => {
                prop_assert_eq!(lost.is_empty(), wanted.is_empty());
                let others: Vec<_> = members.iter().copied().filter(|member| !lost.contains(member)).collect();
                prop_assert_eq!(one_by_one(&ground, &others).is_ok(), !lost.is_empty());
                for member in lost {
                    prop_assert!(one_by_one(&ground, &[&others[..], &[member]].concat()).is_err());
                }
            }
            (mine, wanted) => prop_assert_eq!(mine, wanted),
        }
    }
}

#[test]
fn more_places_than_a_word_has_bits_are_as_far() {
    // A line of switches with a host at each.
    let (hosts, switches) = (100, 100);
    let line = (1..switches).map(|switch| (hosts + switch - 1, hosts + switch));
    let joined: Vec<_> = (0..hosts).map(|host| (host, hosts + host)).chain(line).collect();
    let map = map(hosts, switches, &joined);
    let ground = Ground {
        map: &map,
        able: &|node| !map.is_host(node),
        usable: &|_| true,
        memory: &|_| ByteCount::new(0),
    };
    let members: Vec<MapNode> = (0..hosts).map(|member| map.find(&format!("r{member}")).unwrap()).collect();
    assert_eq!(ground.levels(&members), one_by_one(&ground, &members));
    assert_eq!(ground.levels(&members).unwrap().0.keys().next(), Some(&51), "from the middle");
}

#[test]
fn nothing_leads_through_a_host() {
    // r1 is between r0 and the switch.
    let map = map(2, 1, &[(0, 1), (1, 2)]);
    let ground = Ground {
        map: &map,
        able: &|node| !map.is_host(node),
        usable: &|_| true,
        memory: &|_| ByteCount::new(0),
    };
    let [r0, r1] = ["r0", "r1"].map(|name| map.find(name).unwrap());
    assert!(ground.levels(&[r1]).is_ok());
    assert_eq!(ground.levels(&[r0]), Err(vec![r0]));
}
