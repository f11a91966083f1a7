//! What a rank stands on: its node, its way to the manager, and its clock. In a process that is a socket or a device, and gRPC; in a
//! simulated cluster a node in virtual time. What a rank decides is the same.

use quincunx_collective::{GroupId, Numbers};
use quincunx_control::{Instruction, ProbePaths, Report};
use quincunx_control_grpc::{Attachment, CallRecord};
use quincunx_design::{Catalog, ConnectionContext, FabricKind, GroupContext, Refusal};
use quincunx_nodes::{HostCommand, HostEvent, HostRejected, Ways, contended_host_group, host_group};
use quincunx_units::Duration;
use quincunx_wire::Framing;
use std::sync::mpsc::TryRecvError;
use std::time::Instant;

use crate::host_node::HostNode;
use crate::process::{ProcessOptions, RuntimeError, attach, design_of, room, windows};

/// What a rank stands on. Nothing here waits, but for [`turn`](Self::turn).
pub trait RankPorts {
    /// What time it is. Only differences count.
    fn now(&self) -> Instant;

    /// Joins the node to a group; a refusal is the group's end, an error the node's.
    ///
    /// # Errors
    /// If the node cannot go on.
    fn install(&mut self, context: &GroupContext) -> Result<Result<(), Refusal>, RuntimeError>;

    /// Has the node do something.
    ///
    /// # Errors
    /// If it makes no sense; nothing has changed.
    fn command(&mut self, command: HostCommand<Numbers>) -> Result<(), HostRejected>;

    /// The next thing that the node has to say.
    fn next_event(&mut self) -> Option<HostEvent<Numbers>>;

    /// How often a group's collectives have run in its tree and among its hosts, if its switches' memory is locked for each.
    fn ways(&self, wire: GroupId) -> Option<Ways>;

    /// Moves frames, waiting at most `wait` if there are none.
    ///
    /// # Errors
    /// If the node cannot go on.
    fn turn(&mut self, wait: Duration) -> Result<(), RuntimeError>;

    /// Tells the manager of a group, without waiting.
    fn report(&self, wire: GroupId, report: Report);

    /// What the manager has said next, if there is something.
    ///
    /// # Errors
    /// If the manager is gone, or a message or report went wrong.
    fn next_instruction(&mut self) -> Result<Option<Instruction>, RuntimeError>;

    /// Tells whoever asks when the rank has called what.
    fn tell_times(&self, wire: GroupId, record: &CallRecord);

    /// Begins to find out about paths.
    fn begin_probe(&mut self, probe: ProbePaths);

    /// Tells whoever asks what was found out in a run.
    fn tell_paths(&mut self, run: u64);
}

/// A process: its node on a socket or a device, and its connection to the manager.
pub struct ProcessPorts {
    pub(crate) node: HostNode,
    pub(crate) attachment: Attachment,
    catalog: Catalog,
    framing: Framing,
    any_interface: bool,
}

impl ProcessPorts {
    /// Opens the rank's socket and attaches it to the manager.
    pub(crate) fn open(catalog: Catalog, options: &ProcessOptions) -> Result<Self, RuntimeError> {
        let mut node = HostNode::open(options)?;
        let attachment = attach(options, node.queue_pairs(), node.share())?;
        let (framing, any_interface) = (options.framing, options.any_interface);
        Ok(Self { node, attachment, catalog, framing, any_interface })
    }
}

impl RankPorts for ProcessPorts {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn install(&mut self, context: &GroupContext) -> Result<Result<(), Refusal>, RuntimeError> {
        let prepared = design_of(self.catalog, self.framing, context).and_then(|design| {
            let bound = self.node.bind(context, self.any_interface)?;
            let of_tree = windows(design, context)?;
            let port = |connection: &ConnectionContext| bound.port(connection);
            let Some(among_hosts) = context.contention.as_ref().and_then(|with| with.fallback.as_ref())
            else {
                return Ok((of_tree, host_group(design, context, None, port)?));
            };
            let fallback = design_of(self.catalog, self.framing, among_hosts)?;
            let windows = of_tree.max(windows(fallback, among_hosts)?);
            Ok((windows, contended_host_group(design, fallback, context, port)?))
        });
        let (windows, group) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // One collective runs at a time.
        self.node.grow_receive_buffer(room(windows))?;
        if context.fabric == FabricKind::Mesh {
            // Each queue pair has a link of its own, on which it may have its window; as much again is the kernel's.
            self.node.grow_send_buffer(windows * 2)?;
        }
        Ok(self.node.install(group))
    }

    fn command(&mut self, command: HostCommand<Numbers>) -> Result<(), HostRejected> {
        self.node.command(command)
    }

    fn next_event(&mut self) -> Option<HostEvent<Numbers>> {
        self.node.next_event()
    }

    fn ways(&self, wire: GroupId) -> Option<Ways> {
        self.node.engine().ways(wire)
    }

    fn turn(&mut self, wait: Duration) -> Result<(), RuntimeError> {
        self.node.turn(wait)
    }

    fn report(&self, wire: GroupId, report: Report) {
        self.attachment.report(wire, report);
    }

    fn next_instruction(&mut self) -> Result<Option<Instruction>, RuntimeError> {
        match self.attachment.instructions().try_recv() {
            Ok(heard) => Ok(Some(heard?)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        }
    }

    fn tell_times(&self, wire: GroupId, record: &CallRecord) {
        self.attachment.reporter().tell_times(wire, record);
    }

    fn begin_probe(&mut self, probe: ProbePaths) {
        self.node.begin_probe(probe);
    }

    fn tell_paths(&mut self, run: u64) {
        let paths = self.node.paths(run);
        self.attachment.reporter().tell_paths(run, &paths);
    }
}
