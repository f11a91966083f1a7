//! Nodes on loopback addresses of this process, in groups that they know from the start: no manager.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part of it")]

use quincunx_collective::{Numbers, Rank};
use quincunx_control::{GroupParameters, TreeContexts, tree_contexts};
use quincunx_driver_net::{Node, NodeOptions, UdpOptions, UdpTransport};
use quincunx_engine::{Engine, PortId};
use quincunx_fabric::{IncTree, Mode, TreeEnd, TreeNodeId};
use quincunx_nodes::{Host, HostCommand, Programs, Switch, SwitchCommand, host_group, switch_group};
use quincunx_runtime::RoceCodec;
use quincunx_wire::{Endpoint, QpNumber, RoceHeader};
use std::net::{Ipv4Addr, SocketAddrV4};

pub type UdpNode<E> = Node<E, RoceCodec, UdpTransport>;
pub type HostNode = UdpNode<Host<Numbers, Programs>>;
pub type SwitchNode = UdpNode<Switch<Numbers>>;

/// Where a node of the tree is: no other test process uses these addresses.
fn address(node: TreeNodeId) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, low, 1 + node.0 as u8)
}

/// The contexts of a group on `tree`. Groups of the same nodes take other queue pair numbers by other group numbers.
pub fn contexts(tree: &IncTree, mode: Mode, parameters: &GroupParameters) -> TreeContexts {
    let names = tree.switches().into_iter().map(|id| (id, format!("switch{}", id.0))).collect();
    tree_contexts(tree, mode, parameters, &names, |TreeEnd { node, index }| Endpoint {
        ip: address(node),
        qp: QpNumber::new(16 + 256 * parameters.group.0 + u32::from(index)),
    })
}

fn open<E: Engine<Header = RoceHeader, Payload = Numbers>>(
    engine: E,
    id: TreeNodeId,
    options: NodeOptions,
) -> UdpNode<E> {
    let transport = UdpTransport::open(SocketAddrV4::new(address(id), 4791), UdpOptions::default()).unwrap();
    Node::new(engine, 1, RoceCodec, transport, options).unwrap()
}

/// The switch `id` of `tree` in `groups`.
pub fn switch(groups: &[TreeContexts], id: TreeNodeId, options: NodeOptions) -> SwitchNode {
    let Ok(engine) = Switch::new(());
    let mut node = open(engine, id, options);
    for group in groups {
        node.command(SwitchCommand::Install(Box::new(switch_group(&group.switches[&id], |_| PortId(0)))))
            .unwrap();
    }
    node
}

/// A rank of `tree` in `groups`.
pub fn host(groups: &[TreeContexts], tree: &IncTree, rank: Rank, options: NodeOptions) -> HostNode {
    let Ok(engine) = Host::new(());
    let mut node = open(engine, tree.leaf(rank), options);
    for group in groups {
        let group = host_group(&group.ranks[rank.index()], |_| PortId(0)).unwrap();
        node.command(HostCommand::Install(Box::new(group))).unwrap();
    }
    node
}
