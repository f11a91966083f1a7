//! What a node is told of a group, as the node wants it. Which port leads to a neighbour, the driver's owner knows.

use alloc::vec::Vec;
use quincunx_design::{AnyDesign, ConnectionContext, GroupContext, PayloadKind, Peer, Refusal, Transport};
use quincunx_engine::PortId;
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, RateConfig, Reliability};

use crate::host::HostGroup;
use crate::switch::SwitchGroup;

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
    port: impl Fn(&Peer) -> PortId,
) -> Result<HostGroup<P>, Refusal> {
    let program = P::parts(design).rank_part(context, mutation)?;
    Ok(HostGroup { group: context.group, queue_pairs: queue_pairs(design, context, port)?, program })
}

/// A switch's context as its node wants it; `port` and `mutation` as for [`host_group`].
///
/// # Errors
/// If the design refuses the context.
pub fn switch_group<P: PayloadKind>(
    design: &dyn AnyDesign,
    context: &GroupContext,
    mutation: Option<&str>,
    port: impl Fn(&Peer) -> PortId,
) -> Result<SwitchGroup<P>, Refusal> {
    let part = P::parts(design).switch_part(context, mutation)?;
    Ok(SwitchGroup { group: context.group, edges: queue_pairs(design, context, port)?, part })
}

fn queue_pairs(
    design: &dyn AnyDesign,
    context: &GroupContext,
    port: impl Fn(&Peer) -> PortId,
) -> Result<Vec<(PortId, QueuePairConfig)>, Refusal> {
    let transport = design.transport(&context.settings)?;
    let each = |connection: &ConnectionContext| {
        (port(&connection.peer), queue_pair(&transport, context, connection))
    };
    Ok(context.connections.iter().map(each).collect())
}

fn queue_pair(
    transport: &Transport,
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
        max_outstanding_packets: transport.window_packets(),
        remote_write: context.remote_write,
        reliability: if transport.selective { Reliability::Selective } else { Reliability::GoBackN },
        rate: transport.dcqcn.map(RateConfig::dcqcn),
        mutation: None,
    }
}
