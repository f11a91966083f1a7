//! Fabrics with several ways between two hosts as real links: which of them namespaces can have.

use quincunx_design::Refusal;
use quincunx_fabric::{LinkProperties, NodeKind, SwitchedShape};
use quincunx_netns::Wiring;
use quincunx_units::{BitRate, Duration};
use std::collections::BTreeSet;

/// As many hosts and switches as there are addresses.
const MOST: (u16, u16) = (191, 63);

/// The links of a shape. Ways cost what they have of links, and a switch tells the manager of one link to each other one.
///
/// # Errors
/// If the shape has something else, or is too large.
pub(crate) fn wiring(shape: SwitchedShape) -> Result<Wiring, Refusal> {
    let (hosts, switches) = (shape.hosts(), shape.switches());
    if hosts > MOST.0 || switches > MOST.1 {
        return Err(Refusal::new(
            format!("at most {} hosts and {} switches on this machine", MOST.0, MOST.1),
            format!("{hosts} and {switches} in {shape}"),
            "name a smaller fabric, or simulate it",
        ));
    }
    let any = LinkProperties { rate: BitRate::new(1).expect("above zero"), latency: Duration::ZERO };
    let topology = shape.topology(any);
    let is_host = |node: usize| topology.nodes()[node].kind == NodeKind::Host;
    let (mut links, mut at) = (BTreeSet::new(), Vec::new());
    let mut odd = None;
    for link in topology.links() {
        let [a, b] = link.ends.map(|end| usize::from(end.node.0));
        let (low, high) = (a.min(b), a.max(b));
        // Switches come first, and hosts in order.
        if is_host(high) {
            at.push(low);
        } else if link.cost != 1 {
            odd = Some("links that cost more than others");
        } else if !links.insert([low, high]) {
            odd = Some("several links between two switches");
        }
    }
    match odd {
        None => {
            Ok(Wiring::Switched { switches: switches.into(), links: links.into_iter().collect(), hosts: at })
        }
        Some(odd) => Err(Refusal::new(
            "switches with one link between two, all of which cost alike, such as leaf-spine-2x2x4 or fat-tree-4",
            format!("{shape}, which has {odd}"),
            "name another fabric, or simulate it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_between_switches_and_the_switch_of_each_host_are_there() {
        let Ok(Wiring::Switched { switches, links, hosts }) = wiring("leaf-spine-2x2x2".parse().unwrap())
        else {
            panic!("it has several ways")
        };
        assert_eq!((switches, links, hosts), (4, vec![[0, 2], [0, 3], [1, 2], [1, 3]], vec![2, 2, 3, 3]));
    }

    #[test]
    fn what_namespaces_do_not_have_is_refused_on_one_line() {
        for (shape, named) in [
            ("leaf-spine-2x2x2x2", "several links between two switches"),
            ("dragonfly-2x2x3", "links that cost more"),
            ("leaf-spine-60x4x2", "120 and 64 in leaf-spine-60x4x2"),
        ] {
            let message = wiring(shape.parse().unwrap()).unwrap_err().to_string();
            assert!(message.contains(named) && !message.contains('\n'), "{message}");
        }
    }
}
