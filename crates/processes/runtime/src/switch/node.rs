//! A core's node: its frames come and go by a socket, or connections end at it and its queue pairs are those of the RDMA device at its
//! address.

use quincunx_collective::Numbers;
use quincunx_control::ProbePaths;
use quincunx_control_grpc::NodePaths;
use quincunx_design::{AnyDesign, GroupContext, Peer, Refusal, SwitchPart};
use quincunx_driver_hardware::{Block, Pace, SimulatedDatapath};
use quincunx_driver_net::{AnyTransport, NodeOptions, Statistics, Waker};
use quincunx_engine::Engine as _;
use quincunx_network::FaultRates;
use quincunx_nodes::{Switch, SwitchCommand, SwitchEvent, SwitchGroup, SwitchRejected, switch_group};
use quincunx_ports::PortsTransport;
use quincunx_units::{ByteCount, Probability};
use quincunx_wire::{Gid, QpNumber};
use std::net::SocketAddr;
use std::path::Path;

use crate::codec::ROCE_PORT;
use crate::drops::{KernelDrops, named, with_ports};
use crate::offloaded::OffloadedNode;
use crate::prober::Prober;
use crate::process::{Bound, INSTRUCTION_POLL, ProcessOptions, RuntimeError, SocketNode, open, paths, probe};
use crate::snapshot::Counted;

/// One or the other.
pub(super) enum SwitchNode {
    Socket(Box<SocketNode<Switch<Numbers>>>),
    Offloaded(Box<OffloadedNode<Switch<Numbers>>>),
}

impl SwitchNode {
    pub(super) fn open(options: &ProcessOptions) -> Result<Self, RuntimeError> {
        let Ok(engine) = Switch::<Numbers>::new(());
        if let Some(program) = &options.hardware {
            Block::check(program)?;
        }
        Ok(match options.offload {
            true => Self::Offloaded(Box::new(OffloadedNode::open(engine, options.description.address)?)),
            false => Self::Socket(Box::new(open(engine, options)?)),
        })
    }

    /// The queue pairs that it has, if it does not make them with any number.
    pub(super) fn queue_pairs(&self) -> Vec<QpNumber> {
        match self {
            Self::Socket(_) => Vec::new(),
            Self::Offloaded(node) => node.queue_pairs(),
        }
    }

    /// Begins to find out about paths.
    pub(super) fn begin_probe(&mut self, probe: ProbePaths) {
        if let Self::Socket(node) = self {
            let now = node.now();
            node.codec_mut().prober.begin(probe, now);
        }
    }

    /// Goes on with that.
    pub(super) fn probe(&mut self) {
        if let Self::Socket(node) = self {
            probe(node);
        }
    }

    /// Does something with its ports, if it has some.
    pub(super) fn with_ports(&mut self, act: impl FnOnce(&mut PortsTransport)) {
        if let Self::Socket(node) = self
            && let AnyTransport::Ports(ports) = node.transport_mut()
        {
            act(ports);
        }
    }

    /// What it has found out in a run.
    pub(super) fn paths(&mut self, run: u64) -> NodePaths {
        match self {
            Self::Socket(node) => paths(node, run),
            Self::Offloaded(_) => NodePaths { is_offloaded: true, ..Prober::default().tell(run, |_| None) },
        }
    }

    pub(super) fn waker(&self) -> Waker {
        match self {
            Self::Socket(node) => node.waker(),
            Self::Offloaded(node) => node.waker(),
        }
    }

    pub(super) fn turn(&mut self) -> Result<(), RuntimeError> {
        match self {
            Self::Socket(node) => Ok(node.turn(INSTRUCTION_POLL)?),
            Self::Offloaded(node) => Ok(node.turn(INSTRUCTION_POLL)?),
        }
    }

    pub(super) fn command(&mut self, command: SwitchCommand<Numbers>) -> Result<(), SwitchRejected> {
        match self {
            Self::Socket(node) => node.command(command),
            Self::Offloaded(node) => node.command(command),
        }
    }

    pub(super) fn next_event(&mut self) -> Option<SwitchEvent> {
        match self {
            Self::Socket(node) => node.next_event(),
            Self::Offloaded(node) => node.next_event(),
        }
    }

    pub(super) fn engine(&self) -> &Switch<Numbers> {
        match self {
            Self::Socket(node) => node.engine(),
            Self::Offloaded(node) => node.engine(),
        }
    }

    pub(super) fn statistics(&self) -> &Statistics {
        match self {
            Self::Socket(node) => node.statistics(),
            Self::Offloaded(node) => node.statistics(),
        }
    }

    pub(super) fn grow_receive_buffer(&mut self, bytes: ByteCount) -> Result<(), RuntimeError> {
        if let Self::Socket(node) = self {
            node.grow_receive_buffer(bytes)?;
        }
        Ok(())
    }

    /// Joins the node to a group.
    pub(super) fn install(
        &mut self,
        design: &dyn AnyDesign,
        context: &GroupContext,
        options: &ProcessOptions,
    ) -> Result<(), Refusal> {
        let node = match self {
            // The kernel's routing sees to it that a neighbour is where its frames come from.
            Self::Offloaded(node) => {
                let anywhere = Bound::anywhere();
                let port = |connection: &_| anywhere.port(connection);
                return node.install(switch_group(design, context, None, port)?);
            }
            Self::Socket(node) => node,
        };
        let bound = Bound::new(node, context, options.any_interface)?;
        let group = switch_group(design, context, None, |connection| bound.port(connection))?;
        let part = match &options.hardware {
            Some(program) => simulated(program, &group.part, context)?,
            None => group.part,
        };
        let group = SwitchGroup { tells_beginnings: true, part, ..group };
        // Between the ends of what passes, the switch hands on what is not for the group, such as acknowledges.
        let own = Gid::of(node.local().ip());
        let ends = context.connections.iter().filter(|connection| connection.local.ip != own);
        for destination in ends.flat_map(|connection| [connection.local.ip, connection.remote.ip]) {
            let route = SwitchCommand::Route { destination, ports: vec![bound.port_to(destination)] };
            node.command(route).map_err(|rejected| Refusal::of(&rejected))?;
        }
        if options.lose_sent {
            lose_sent(&options.node, node, context);
        }
        let installed = node.command(SwitchCommand::Install(Box::new(group)));
        installed.map_err(|rejected| Refusal::of(&rejected))
    }

    /// What it has counted until now, with the kernel below all cores if that is given. What a device drops is not told.
    pub(super) fn counted(&mut self, kernel: Option<&KernelDrops>) -> Counted {
        let Self::Socket(node) = self else { return Counted::default() };
        let dropped = named(node.dropped());
        let dropped = match kernel {
            Some(kernel) => kernel.with(dropped),
            None => dropped,
        };
        match node.transport_mut() {
            AnyTransport::Ports(transport) => {
                let (ports, addresses) = (transport.counts(), transport.addresses());
                Counted { dropped: with_ports(dropped, &ports), ports, addresses, ..Counted::default() }
            }
            _ => Counted { dropped, ..Counted::default() },
        }
    }
}

/// Hardware in the place of what a switch would run.
fn simulated(
    program: &Path,
    part: &SwitchPart<Numbers>,
    context: &GroupContext,
) -> Result<SwitchPart<Numbers>, Refusal> {
    let SwitchPart::Datapath(datapath) = part else {
        return Err(Refusal::new(
            "a group whose frames are for the switch",
            context.design.as_str(),
            "start the switch without --hardware, or choose a design with a block in rtl/",
        ));
    };
    let group = datapath.told_to_hardware()?;
    let block = Block::begin(program, &group, Pace::AtOnce).map_err(|error| Refusal::of(&error))?;
    let ends = context.connections.iter().map(|connection| (connection.local, connection.remote)).collect();
    Ok(SwitchPart::Datapath(Box::new(SimulatedDatapath::new(block, ends, datapath.buffer_bytes()))))
}

/// Has frames to the ranks of a group meet the faults that arriving ones meet.
fn lose_sent(options: &NodeOptions, node: &mut SocketNode<Switch<Numbers>>, context: &GroupContext) {
    let ranks = context.connections.iter().filter(|connection| matches!(connection.peer, Peer::Rank(_)));
    for address in ranks.map(|connection| connection.remote.ip) {
        let rates = FaultRates { reordering: Probability::ZERO, ..options.faults };
        // Each link has its own fates.
        let seed = options.seed ^ u64::from(address.to_bits() as u32);
        node.set_faults(SocketAddr::new(address.address(), ROCE_PORT), rates.into(), seed);
    }
}
