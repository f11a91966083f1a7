//! A rank's node: its queue pairs are its own, on a socket, or those of the RDMA device at its address.

use quincunx_collective::Numbers;
use quincunx_control::ProbePaths;
use quincunx_control_grpc::NodePaths;
use quincunx_design::{GroupContext, Refusal};
use quincunx_driver_net::{Statistics, Traffic, Waker};
use quincunx_engine::Engine as _;
use quincunx_nodes::{Host, HostCommand, HostEvent, HostGroup, HostRejected};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::QpNumber;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::drops::{Drops, named};
use crate::offloaded::OffloadedNode;
use crate::prober::Prober;
use crate::process::{Bound, ProcessOptions, RuntimeError, SocketNode, open, paths, probe};

/// How soon it looks again whether the network takes more of what finds out about paths.
const PROBING: Duration = Duration::from_millis(1);

/// One or the other.
pub(crate) enum HostNode {
    Socket(Box<SocketNode<Host<Numbers>>>),
    Offloaded(Box<OffloadedNode<Host<Numbers>>>),
}

impl HostNode {
    pub(crate) fn open(options: &ProcessOptions) -> Result<Self, RuntimeError> {
        let Ok(engine) = Host::<Numbers>::new(());
        Ok(match options.offload {
            true => Self::Offloaded(Box::new(OffloadedNode::open(engine, options.description.address)?)),
            false => Self::Socket(Box::new(open(engine, options)?)),
        })
    }

    /// The queue pairs that it has, if it does not make them with any number.
    pub(crate) fn queue_pairs(&self) -> Vec<QpNumber> {
        match self {
            Self::Socket(_) => Vec::new(),
            Self::Offloaded(node) => node.queue_pairs(),
        }
    }

    /// Its share of its address, if other ranks of this machine may have that, too.
    pub(crate) fn share(&mut self) -> u8 {
        match self {
            Self::Socket(node) => {
                let share = node.transport_mut().share();
                node.codec_mut().prober.set_share(share);
                share
            }
            Self::Offloaded(_) => 0,
        }
    }

    /// Behind which of its ports each neighbour of a group is.
    pub(crate) fn bind(&mut self, context: &GroupContext, any_interface: bool) -> Result<Bound, Refusal> {
        match self {
            Self::Socket(node) => Bound::new(node, context, any_interface),
            // The kernel's routing sees to that.
            Self::Offloaded(_) => Ok(Bound::anywhere()),
        }
    }

    pub(crate) fn grow_receive_buffer(&mut self, bytes: ByteCount) -> Result<(), RuntimeError> {
        if let Self::Socket(node) = self {
            node.grow_receive_buffer(bytes)?;
        }
        Ok(())
    }

    pub(crate) fn grow_send_buffer(&mut self, bytes: ByteCount) -> Result<(), RuntimeError> {
        if let Self::Socket(node) = self {
            node.grow_send_buffer(bytes)?;
        }
        Ok(())
    }

    pub(crate) fn install(&mut self, group: HostGroup<Numbers>) -> Result<(), Refusal> {
        match self {
            Self::Socket(node) => {
                let install = HostCommand::Install(Box::new(group));
                node.command(install).map_err(|rejected| Refusal::of(&rejected))
            }
            Self::Offloaded(node) => node.install(group),
        }
    }

    pub(crate) fn command(&mut self, command: HostCommand<Numbers>) -> Result<(), HostRejected> {
        match self {
            Self::Socket(node) => node.command(command),
            Self::Offloaded(node) => node.command(command),
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<HostEvent<Numbers>> {
        match self {
            Self::Socket(node) => node.next_event(),
            Self::Offloaded(node) => node.next_event(),
        }
    }

    pub(crate) fn turn(&mut self, max_wait: Duration) -> Result<(), RuntimeError> {
        match self {
            Self::Socket(node) => {
                node.turn(max_wait)?;
                probe(node);
                Ok(())
            }
            Self::Offloaded(node) => Ok(node.turn(max_wait)?),
        }
    }

    /// Answers peers for so long; shorter while it finds out about paths.
    pub(crate) fn serve(&mut self, time: Duration) -> Result<(), RuntimeError> {
        match self {
            Self::Socket(node) => match node.codec_mut().prober.is_busy() {
                true => self.turn(time.min(PROBING)),
                false => Ok(node.serve(time)?),
            },
            Self::Offloaded(node) => Ok(node.serve(time)?),
        }
    }

    pub(crate) fn engine(&self) -> &Host<Numbers> {
        match self {
            Self::Socket(node) => node.engine(),
            Self::Offloaded(node) => node.engine(),
        }
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        match self {
            Self::Socket(node) => node.statistics(),
            Self::Offloaded(node) => node.statistics(),
        }
    }

    pub(crate) fn sent_to(&self) -> &BTreeMap<SocketAddr, Traffic> {
        match self {
            Self::Socket(node) => node.sent_to(),
            Self::Offloaded(node) => node.sent_to(),
        }
    }

    /// What it has dropped; what a device drops is not told.
    pub(crate) fn drops(&self) -> Drops {
        match self {
            Self::Socket(node) => named(node.dropped()),
            Self::Offloaded(_) => Drops::new(),
        }
    }

    /// Begins to find out about paths.
    pub(crate) fn begin_probe(&mut self, probe: ProbePaths) {
        if let Self::Socket(node) = self {
            let now = node.now();
            node.codec_mut().prober.begin(probe, now);
        }
    }

    /// What it has found out in a run.
    pub(crate) fn paths(&mut self, run: u64) -> NodePaths {
        match self {
            Self::Socket(node) => paths(node, run),
            Self::Offloaded(_) => NodePaths { is_offloaded: true, ..Prober::default().tell(run, |_| None) },
        }
    }

    pub(crate) fn waker(&self) -> Waker {
        match self {
            Self::Socket(node) => node.waker(),
            Self::Offloaded(node) => node.waker(),
        }
    }
}
