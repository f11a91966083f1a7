//! What a node is told of a group, as the node wants it. Which port leads to a neighbour, the driver's owner knows.

use alloc::boxed::Box;
use alloc::vec::Vec;
use quincunx_design::{
    AnyDesign, ConnectionContext, Context, GroupContext, Installed, PayloadKind, Place, Refusal, SwitchPart,
    Transport,
};
use quincunx_engine::PortId;
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, RateConfig, Reliability};
use quincunx_units::ByteCount;

use crate::host::{HostContention, HostGroup};
use crate::locks::LockEdge;
use crate::switch::{MemoryPart, SwitchGroup, SwitchLocks};

/// How long a peer waits when no receive request is posted: 0.01 ms, which in practice is until its next wake-up.
const RNR_TIMER: u8 = 1;

/// A rank's context as its node wants it; `port` says where each neighbour is, `mutation` which rule to break, for the checker alone.
///
/// # Errors
/// If the design refuses the context.
pub fn host_group<P: PayloadKind>(
    design: &dyn AnyDesign,
    context: &GroupContext,
    mutation: Option<&str>,
    port: impl Fn(&ConnectionContext) -> PortId,
) -> Result<HostGroup<P>, Refusal> {
    let context_of_part = Context { place: Place::Group(context), mutation };
    let Installed { part, transport } = P::parts(design).endpoint_part(&context_of_part)?;
    let program = part.program()?;
    let queue_pairs = queue_pairs(design, &transport, context, port)?;
    Ok(HostGroup { group: context.group, queue_pairs, are_offloaded: false, program, contention: None })
}

/// The same of a group whose switches' memory is locked for each invocation: `fallback` is the design that runs among the hosts then.
///
/// # Errors
/// If a design refuses its context, or nothing is said of locks.
pub fn contended_host_group<P: PayloadKind>(
    design: &dyn AnyDesign,
    fallback: &dyn AnyDesign,
    context: &GroupContext,
    port: impl Fn(&ConnectionContext) -> PortId,
) -> Result<HostGroup<P>, Refusal> {
    const REMEDY: &str = "run the same version at both ends";
    let refuse = |found| Refusal::new("a rank's part in locks, with one edge and a fallback", found, REMEDY);
    let contention = context.contention.as_deref().ok_or_else(|| refuse("none"))?;
    let [edge] = &contention.edges[..] else { return Err(refuse("another number of edges")) };
    let among_hosts = contention.fallback.as_ref().ok_or_else(|| refuse("no fallback"))?;
    let group = host_group(design, context, None, &port)?;
    let again = design.transport(&context.settings)?.retry_timeout;
    let contention = HostContention {
        fallback: host_group(fallback, among_hosts, None, &port)?,
        edge: lock_edge(edge, port(edge)),
        again,
        patience: contention.patience,
        ranks: context.ranks,
        rank: match context.node {
            quincunx_design::Node::Rank(rank) => rank,
            quincunx_design::Node::Switch => return Err(refuse("a switch's context")),
        },
    };
    Ok(HostGroup { contention: Some(Box::new(contention)), ..group })
}

fn lock_edge(edge: &ConnectionContext, port: PortId) -> LockEdge {
    LockEdge { port, local: edge.local, remote: edge.remote }
}

/// A switch's context as its node wants it, channel by channel: each is a group to the switch, and may be on a core of its own. `port` and `mutation` are
/// as for [`host_group`].
///
/// # Errors
/// If the design refuses the context.
pub fn switch_groups<P: PayloadKind>(
    design: &dyn AnyDesign,
    context: &GroupContext,
    mutation: Option<&str>,
    port: impl Fn(&ConnectionContext) -> PortId,
) -> Result<Vec<SwitchGroup<P>>, Refusal> {
    context.in_channels()?.iter().map(|channel| switch_group(design, channel, mutation, &port)).collect()
}

/// The same of a context that is one channel's, or has but one.
///
/// # Errors
/// As [`switch_groups`].
pub fn switch_group<P: PayloadKind>(
    design: &dyn AnyDesign,
    context: &GroupContext,
    mutation: Option<&str>,
    port: impl Fn(&ConnectionContext) -> PortId,
) -> Result<SwitchGroup<P>, Refusal> {
    let context_of_part = Context { place: Place::Group(context), mutation };
    let Installed { part, transport } = P::parts(design).switch_part(&context_of_part)?;
    let locks = context.contention.as_deref().map(|contention| SwitchLocks {
        edges: contention.edges.iter().map(|edge| lock_edge(edge, port(edge))).collect(),
        has_parent: contention.has_parent,
    });
    let edges = queue_pairs(design, &transport, context, port)?;
    let (group, are_offloaded, tells_beginnings) = (context.group, false, false);
    let needed = match (&part, mutation) {
        // A broken rule may take more than the plan says.
        (SwitchPart::Datapath(datapath), Some(_)) => ByteCount::new(datapath.buffer_bytes() as u64),
        _ => ByteCount::new(0),
    };
    let memory = MemoryPart { offset: context.memory_offset, length: context.memory.max(needed) };
    Ok(SwitchGroup { group, edges, are_offloaded, part, memory, locks, tells_beginnings })
}

fn queue_pairs(
    design: &dyn AnyDesign,
    transport: &Transport,
    context: &GroupContext,
    port: impl Fn(&ConnectionContext) -> PortId,
) -> Result<Vec<(PortId, QueuePairConfig)>, Refusal> {
    let families =
        |connection: &&ConnectionContext| [connection.local, connection.remote].map(|end| end.ip.is_ipv4());
    if context
        .connections
        .iter()
        .any(|connection| matches!(families(&connection), [true, false] | [false, true]))
    {
        let remedy = "give all nodes of a group addresses of one family";
        return Err(Refusal::new("connections between addresses of one IP family", "IPv4 and IPv6", remedy));
    }
    let reliability = match (design.about().sends_datagrams, transport.selective) {
        (true, _) => Reliability::Datagrams,
        (false, true) => Reliability::Selective,
        (false, false) => Reliability::GoBackN,
    };
    let each = |connection: &ConnectionContext| {
        (port(connection), queue_pair(transport, reliability, context, connection))
    };
    Ok(context.connections.iter().map(each).collect())
}

fn queue_pair(
    transport: &Transport,
    reliability: Reliability,
    context: &GroupContext,
    connection: &ConnectionContext,
) -> QueuePairConfig {
    QueuePairConfig {
        local: connection.local,
        remote: connection.remote,
        mtu: transport.mtu.as_usize(),
        send_psn: context.initial_psn,
        expected_psn: context.initial_psn,
        acknowledge_every: transport.acknowledge_every(),
        retry_timeout: transport.retry_timeout,
        retry_count: transport.retry_count,
        rnr_timer: RNR_TIMER,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        window: transport.window_packets(),
        congestion_window: transport.congestion_window == Some(true),
        remote_write: context.remote_write,
        credits: context.credits,
        reliability,
        rate: transport.dcqcn.map(RateConfig::dcqcn),
        mutation: None,
    }
}
