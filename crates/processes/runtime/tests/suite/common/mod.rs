//! Nodes on loopback addresses of this process, in groups that they know from the start: no manager.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part of it")]

use quincunx_collective::{GroupId, Numbers, Rank};
use quincunx_control::NodeDescription;
use quincunx_control_grpc::ClientConfig;
use quincunx_design::{
    AnyDesign, Demand, FabricKind, GroupContext, Member, Naming, Placement, Settings, Value,
};
use quincunx_designs::CATALOG;
use quincunx_driver_net::{Node, NodeOptions, TransportOptions};
use quincunx_engine::{Engine, PortId};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_nodes::{Host, HostCommand, MemoryPart, Switch, SwitchCommand, host_group, switch_group};
use quincunx_runtime::{ProcessOptions, RoceCodec};
use quincunx_sockets::{UdpOptions, UdpTransport};
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Framing, Psn, QpNumber, RoceHeader};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub type UdpNode<E> = Node<E, RoceCodec, UdpTransport>;
pub type HostNode = UdpNode<Host<Numbers>>;
pub type SwitchNode = UdpNode<Switch<Numbers>>;

/// Leave to use the addresses of [`address`], which serve one test of this process at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ADDRESSES: Mutex<()> = Mutex::new(());
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the `index`th node is: no other test process uses these addresses. A test holds [`alone`] while it does.
pub fn address(index: u16) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    IpAddr::from([127, high, low, 1 + index as u8])
}

/// A group that its nodes know from the start.
pub struct StaticGroup {
    pub design: &'static dyn AnyDesign,
    pub contexts: BTreeMap<Member, GroupContext>,
}

/// A design with its parameters: keys and values.
pub fn design(
    name: &str,
    fabric: FabricKind,
    parameters: &[(&str, Value)],
) -> (&'static dyn AnyDesign, Settings) {
    let design = CATALOG.find(name, fabric).unwrap();
    let mut settings = design.defaults();
    for (key, value) in parameters {
        design.set(&mut settings, key, value).unwrap();
    }
    (design, settings)
}

impl StaticGroup {
    /// A group, with its members at addresses by rank or by node of the tree. Groups of the same nodes take other queue pair numbers by
    /// other numbers of the group.
    pub fn new(
        id: u32,
        (design, settings): (&'static dyn AnyDesign, Settings),
        (fabric, placement): (FabricKind, &Placement),
        initial_psn: Psn,
    ) -> Self {
        let plan = design.plan(&settings, placement).unwrap();
        let naming = Naming {
            group: GroupId(id),
            design: design.name().to_string(),
            version: design.about().version,
            settings,
            fabric,
            domains: placement.domains,
            initial_psn,
        };
        let place = |member| match (member, &placement.tree) {
            (Member::Switch(node), _) => node.0,
            (Member::Rank(rank), Some(tree)) => tree.leaf(rank).0,
            (Member::Rank(rank), None) => rank.0,
        };
        let mut next: BTreeMap<Member, u32> = BTreeMap::new();
        let endpoint = |member| {
            let qp = next.entry(member).or_insert(16 + 256 * id);
            *qp += 1;
            Endpoint { ip: address(place(member)).into(), qp: QpNumber::new(*qp) }
        };
        let contexts = plan.contexts(&naming, |node| format!("switch{}", node.0), endpoint);
        Self { design, contexts: contexts.into_iter().collect() }
    }

    /// A group of EPIC on a tree.
    pub fn on_tree(
        id: u32,
        tree: &IncTree,
        name: &str,
        parameters: &[(&str, Value)],
        initial_psn: Psn,
    ) -> Self {
        let placement = Placement::new(tree.ranks(), Some(tree.clone()), ByteCount::new(1 << 20));
        let design = design(name, FabricKind::Tree, parameters);
        Self::new(id, design, (FabricKind::Tree, &placement), initial_psn)
    }
}

pub fn open<E: Engine<Header = RoceHeader, Payload = Numbers>>(
    engine: E,
    address: IpAddr,
    options: NodeOptions,
) -> UdpNode<E> {
    let transport = UdpTransport::open(SocketAddr::new(address, 4791), UdpOptions::default()).unwrap();
    Node::new(engine, 1, RoceCodec::default(), transport, options).unwrap()
}

/// The switch `id` of the groups' tree. Each has its part of the memory, one behind the other.
pub fn switch(groups: &[StaticGroup], id: TreeNodeId, options: NodeOptions) -> SwitchNode {
    let Ok(engine) = Switch::new(());
    let mut free = ByteCount::new(0);
    let behind = |part: &mut MemoryPart| {
        part.offset = free;
        free += part.length;
    };
    switch_with(engine, groups, id, options, behind)
}

/// An engine as the switch `id` of the groups' tree, whose parts of the memory are given out.
pub fn switch_with(
    engine: Switch<Numbers>,
    groups: &[StaticGroup],
    id: TreeNodeId,
    options: NodeOptions,
    mut give: impl FnMut(&mut MemoryPart),
) -> SwitchNode {
    let mut node = open(engine, address(id.0), options);
    for group in groups {
        let context = &group.contexts[&Member::Switch(id)];
        let mut group = switch_group(group.design, context, None, |_| PortId(0)).unwrap();
        give(&mut group.memory);
        node.command(SwitchCommand::Install(Box::new(group))).unwrap();
    }
    node
}

/// A rank of the groups at `address`.
pub fn host(groups: &[StaticGroup], address: IpAddr, rank: Rank, options: NodeOptions) -> HostNode {
    let Ok(engine) = Host::new(());
    let mut node = open(engine, address, options);
    for group in groups {
        let context = &group.contexts[&Member::Rank(rank)];
        let group = host_group(group.design, context, None, |_| PortId(0)).unwrap();
        node.command(HostCommand::Install(Box::new(group))).unwrap();
    }
    node
}

/// How a rank process of this test starts.
pub fn rank_process(manager: SocketAddr, number: u16) -> ProcessOptions {
    let description = NodeDescription::host(format!("rank{number}"), address(number), 64);
    ProcessOptions {
        description,
        manager: manager.into(),
        control: ClientConfig::default(),
        framing: Framing::RoceV2,
        transport: TransportOptions::Udp(UdpOptions::default()),
        any_interface: false,
        offload: false,
        hardware: None,
        lose_sent: false,
        node: NodeOptions::default(),
        capture: None,
    }
}

/// Of vectors that fit into what tests send.
pub const VECTORS: Demand = Demand::Vectors { longest: ByteCount::new(1 << 20) };
