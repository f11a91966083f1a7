//! What the manager says of a group, as the nodes want it. Which port leads to a neighbour, the driver's owner knows.

use alloc::vec;
use alloc::vec::Vec;
use quincunx_control::{Design, HostDesign, Peer, QueuePairContext, RankContext, SwitchContext};
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_epic::{CommLib, CommLibConfig, EdgeConfig, GroupConfig};
use quincunx_fabric::Mode;
use quincunx_ring::{Algorithm, Config, HostProgram};
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, Reliability};
use quincunx_units::Duration;

use crate::host::HostGroup;
use crate::mesh::mesh_program;
use crate::programs::Programs;

/// How long a peer waits when no receive request is posted: 0.01 ms, which in practice is until its next wake-up.
const RNR_TIMER: u8 = 1;

/// How often a rank that runs ahead is told so at most: as often as DCQCN's receivers notify (N).
const NOTIFICATION_INTERVAL: Duration = Duration::from_micros(50);

/// Why a context cannot be installed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContextError {
    /// EPIC's library refuses it.
    #[error(transparent)]
    CommLib(#[from] quincunx_epic::CommLibConfigError),
    /// The host program refuses it.
    #[error(transparent)]
    Host(#[from] quincunx_ring::ConfigError),
    /// MultiWrite's table of ranks refuses it.
    #[error(transparent)]
    Table(#[from] quincunx_multiwrite::TableError),
    /// The AllGather over MultiWrite refuses it.
    #[error(transparent)]
    AllGather(#[from] quincunx_multiwrite::AllGatherConfigError),
    /// A design without what it runs on.
    #[error("expected a mesh for {design}, found none; run the same version at both ends")]
    NoMesh {
        /// The design.
        design: Design,
    },
}

/// A switch's context as its engine wants it; `port` says where each neighbour is.
pub fn switch_group(context: &SwitchContext, port: impl Fn(&Peer) -> PortId) -> GroupConfig {
    let parameters = &context.parameters;
    let edges = context.edges.iter().map(|edge| EdgeConfig {
        local: edge.local,
        remote: edge.remote,
        port: port(&edge.peer),
        rank: match edge.peer {
            Peer::Rank(rank) => Some(rank),
            Peer::Switch(_) => None,
        },
    });
    GroupConfig {
        group: parameters.group,
        ranks: parameters.ranks,
        mode: context.mode,
        mtu: parameters.mtu.as_usize(),
        window: parameters.window_packets(),
        message: parameters.message_packets,
        initial_psn: parameters.initial_psn,
        edges: edges.collect(),
        parent: context.parent.map(usize::from),
        toward: context.toward.iter().map(|&edge| usize::from(edge)).collect(),
        reproducible: parameters.reproducible,
        selective: false,
        run_ahead: false,
        notification_interval: Some(NOTIFICATION_INTERVAL),
        mutation: None,
        resend_timeout: parameters.retry.timeout,
        retry_count: parameters.retry.count,
    }
}

/// A rank's context as its node wants it; `port` says where each neighbour is.
pub fn host_group(
    context: &RankContext,
    port: impl Fn(&Peer) -> PortId,
) -> Result<HostGroup<Programs>, ContextError> {
    let parameters = &context.parameters;
    let queue_pairs =
        context.queue_pairs.iter().map(|qp| (port(&qp.peer), queue_pair(context, qp))).collect();
    let program = match (context.design, &context.mesh) {
        (_, Some(mesh)) => mesh_program(context, mesh)?,
        (Design::Epic(mode), None) => Programs::CommLib(CommLib::new(comm_lib_config(context, mode))?),
        (Design::Host(design), None) => Programs::Host(HostProgram::new(&host_config(context, design))?),
        (design @ Design::Mesh(_), None) => return Err(ContextError::NoMesh { design }),
    };
    Ok(HostGroup { group: parameters.group, queue_pairs, program })
}

/// The set-up of EPIC's library on a rank.
pub fn comm_lib_config(context: &RankContext, mode: Mode) -> CommLibConfig {
    let parameters = &context.parameters;
    CommLibConfig {
        ranks: parameters.ranks,
        rank: context.rank,
        mtu: parameters.mtu.as_usize(),
        message: parameters.message_packets,
        window: parameters.window_messages,
        run_ahead: false,
        synchronize_psn: mode != Mode::I,
    }
}

/// The set-up of a collective among hosts alone, with the default chunk and window.
pub fn host_config(context: &RankContext, design: HostDesign) -> Config {
    let algorithm = match design {
        HostDesign::Ring => Algorithm::Ring,
        HostDesign::Tree => Algorithm::Tree,
        HostDesign::Direct => Algorithm::Direct,
    };
    Config::new(algorithm, context.rank, peers(context))
}

/// The queue pair to each rank. Two ranks in a ring have two queue pairs between them, of which both must take the same.
fn peers(context: &RankContext) -> Vec<Option<QpIndex>> {
    let mut peers = vec![None; usize::from(context.parameters.ranks)];
    for (index, queue_pair) in context.queue_pairs.iter().enumerate() {
        if let Peer::Rank(peer) = queue_pair.peer {
            let place = &mut peers[peer.index()];
            if place.is_none() || peer < context.rank {
                *place = Some(QpIndex(index as u16));
            }
        }
    }
    peers
}

fn queue_pair(context: &RankContext, queue_pair: &QueuePairContext) -> QueuePairConfig {
    let parameters = &context.parameters;
    QueuePairConfig {
        local: queue_pair.local,
        remote: queue_pair.remote,
        mtu: parameters.mtu.as_usize(),
        send_psn: queue_pair.send_psn,
        expected_psn: queue_pair.receive_psn,
        acknowledge_every: parameters.message_packets,
        retry_timeout: parameters.retry.timeout,
        retry_count: parameters.retry.count,
        rnr_timer: RNR_TIMER,
        rnr_retry_count: INFINITE_RNR_RETRIES,
        max_outstanding_packets: parameters.window_packets(),
        // Programs off a mesh exchange Sends: there, vectors are nobody else's to write to.
        remote_write: context.mesh.is_some(),
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    }
}
