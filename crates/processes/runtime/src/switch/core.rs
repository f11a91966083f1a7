//! A core of a switch: a node with an engine, a link and an address of its own, and the groups that it has. No frame and no state is
//! another core's.

use quincunx_collective::GroupId;
use quincunx_control::memory::MovedBlock;
use quincunx_control::{LockUse, ProbePaths, Report};
use quincunx_control_grpc::{NodePaths, Reporter};
use quincunx_design::{Catalog, GroupContext, Refusal};
use quincunx_driver_net::{TransportOptions, Waker};
use quincunx_nodes::locks::{LockCounts, Recorder};
use quincunx_nodes::{MemoryPart, SwitchCommand, SwitchEvent};
use quincunx_units::ByteCount;
use quincunx_wire::QpNumber;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::arrivals::Arrivals;
use super::node::SwitchNode;
use super::task::{Order, Task};
use crate::cables::CableWatch;
use crate::drops::KernelDrops;
use crate::links::Links;
use crate::process::{ProcessOptions, RuntimeError, design_of, room, windows};
use crate::snapshot::{Counted, SnapshotWriter, SwitchCounts, SwitchSnapshot};

/// A group that the core is in.
struct Installed {
    /// As the manager calls it.
    of: GroupId,
    context: GroupContext,
    /// What all its neighbours may have under way to here.
    windows: ByteCount,
}

impl Installed {
    /// Counts that it is.
    fn added(&self, counts: &mut SwitchCounts) {
        counts.groups += 1;
        counts.installed += 1;
        counts.memory_held += self.context.memory.bytes();
        counts.endpoints_held += self.context.connections.len() as u64;
    }

    /// Counts that it is not any more.
    fn removed(&self, counts: &mut SwitchCounts) {
        counts.groups -= 1;
        counts.removed += 1;
        counts.memory_held -= self.context.memory.bytes();
        counts.endpoints_held -= self.context.connections.len() as u64;
    }
}

/// What a core tells the manager through.
#[derive(Clone, Copy)]
pub(super) struct ManagerReporter<'a> {
    pub(super) reporter: &'a Reporter,
    pub(super) links: &'a Mutex<Links>,
}

impl ManagerReporter<'_> {
    /// Tells of links whose state has changed before what may follow from that.
    fn links_now(self) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).look_now(self.reporter);
    }
}

/// One core.
pub(super) struct Core<'a> {
    catalog: Catalog,
    options: ProcessOptions,
    node: SwitchNode,
    groups: BTreeMap<GroupId, Installed>,
    locks: LockReports,
    arrivals: Arrivals,
    snapshot_writer: SnapshotWriter<'a>,
    /// Of a switch with ports of its own.
    cables: Option<CableWatch>,
    /// Counted for all cores by the first.
    kernel: Option<KernelDrops>,
}

impl<'a> Core<'a> {
    /// Opens core `number` of a switch, which has this address.
    pub(super) fn open(
        catalog: Catalog,
        switch: &ProcessOptions,
        (number, address): (usize, IpAddr),
        snapshot: &'a SwitchSnapshot,
    ) -> Result<Self, RuntimeError> {
        let mut options = switch.clone();
        options.description.address = address;
        options.node.seed = options.node.seed.wrapping_add(number as u64);
        if let Some(capture) = &mut options.capture
            && number > 0
        {
            *capture = capture.beside(capture.path.with_extension(format!("{number}.pcapng")));
        }
        Ok(Self {
            catalog,
            node: SwitchNode::open(&options)?,
            options,
            groups: BTreeMap::new(),
            locks: LockReports::default(),
            arrivals: Arrivals::default(),
            snapshot_writer: SnapshotWriter::new(snapshot, number),
            cables: watch(switch)?,
            kernel: (number == 0).then(KernelDrops::new),
        })
    }

    pub(super) fn address(&self) -> IpAddr {
        self.options.description.address
    }

    /// The queue pairs that it has, if it does not make them with any number.
    pub(super) fn queue_pairs(&self) -> Vec<QpNumber> {
        self.node.queue_pairs()
    }

    pub(super) fn waker(&self) -> Waker {
        self.node.waker()
    }

    /// Begins to find out about paths.
    pub(super) fn begin_probe(&mut self, probe: ProbePaths) {
        self.node.begin_probe(probe);
    }

    /// What it has found out in a run.
    pub(super) fn paths(&mut self, run: u64) -> NodePaths {
        self.node.paths(run)
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Moves frames, and counts.
    pub(super) fn forward(&mut self) -> Result<(), RuntimeError> {
        self.node.turn()?;
        self.node.probe();
        if let Some(cables) = &mut self.cables {
            self.node.with_ports(|ports| cables.turn(ports));
        }
        let statistics = *self.node.statistics();
        let (node, kernel, arrivals) = (&mut self.node, &self.kernel, &self.arrivals);
        let counted = || Counted { arrivals: arrivals.all(), ..node.counted(kernel.as_ref()) };
        self.snapshot_writer.look(&statistics, counted);
        Ok(())
    }

    /// The same, and tells the manager of what was met.
    pub(super) fn turn(&mut self, to_manager: ManagerReporter<'_>) -> Result<(), RuntimeError> {
        self.forward()?;
        if let Some(ports) = self.cables.as_mut().and_then(CableWatch::news) {
            to_manager.reporter.tell_cables(&ports);
        }
        self.locks.tell(self.node.engine().recorder(), to_manager.reporter, &self.snapshot_writer);
        while let Some(event) = self.node.next_event() {
            match event {
                SwitchEvent::Begun { group, edge, number, at } => {
                    self.arrivals.note(group, edge, number, at);
                }
                SwitchEvent::Unreachable { group, edge } => self.tell_lost(group, edge, to_manager),
            }
        }
        Ok(())
    }

    /// Tells the manager that a neighbour does not answer.
    fn tell_lost(&self, group: GroupId, edge: u16, to_manager: ManagerReporter<'_>) {
        let installed = self.groups.get(&group);
        let connections = installed.map(|group| &group.context.connections);
        let reason = match connections.and_then(|connections| connections.get(usize::from(edge))) {
            Some(edge) => format!("{} at {} does not answer", edge.peer, edge.remote.ip),
            None => format!("the neighbour on edge {edge} does not answer"),
        };
        let of = installed.map_or(group, |group| group.of);
        tracing::warn!(group = %of, reason, "neighbour lost");
        to_manager.links_now();
        to_manager.reporter.report(of, Report::DataPlaneFailed { reason });
    }

    /// Does what the manager wants of this core.
    pub(super) fn carry_out(
        &mut self,
        task: Task,
        to_manager: ManagerReporter<'_>,
    ) -> Result<(), RuntimeError> {
        let Task { group, order } = task;
        let (tally, refused) = match order {
            Order::TellArrivals { of } => {
                to_manager.reporter.tell_arrivals(of, self.arrivals.of(group));
                return Ok(());
            }
            Order::MoveMemory(MovedBlock { from, to }) => {
                let from = MemoryPart { offset: from.offset, length: from.length };
                let moved = self.node.command(SwitchCommand::MoveMemory { from, to });
                if let Err(rejected) = moved {
                    tracing::warn!(reason = %rejected, "memory not moved");
                }
                return Ok(());
            }
            Order::Install(context, tally) => {
                let refused = self.add(tally.of, *context)?.err();
                (tally, refused)
            }
            Order::Remove(tally) => {
                self.arrivals.remove(group);
                if let Some(installed) = self.groups.remove(&group) {
                    tracing::info!(%group, "group removed");
                    self.snapshot_writer.note(|counts| installed.removed(counts));
                }
                // A group that was refused here is not installed: nothing to remove.
                let _ = self.node.command(SwitchCommand::Remove(group));
                to_manager.links_now();
                (tally, None)
            }
        };
        if let Some(report) = tally.done(refused) {
            to_manager.reporter.report(tally.of, report);
        }
        Ok(())
    }

    /// Joins a group. A refusal is the group's end, an error the core's.
    fn add(&mut self, of: GroupId, context: GroupContext) -> Result<Result<(), Refusal>, RuntimeError> {
        let id = context.group;
        match self.install(&context) {
            Ok(windows) => {
                let (memory, connections) = (context.memory, context.connections.len());
                let at = self.address();
                tracing::info!(group = %id, design = context.design, ranks = context.ranks, %memory, connections, %at, "group installed");
                self.arrivals.add(&context);
                let installed = Installed { of, context, windows };
                self.snapshot_writer.note(|counts| installed.added(counts));
                self.groups.insert(id, installed);
                self.node.grow_receive_buffer(self.groups.values().map(|group| room(group.windows)).sum())?;
                Ok(Ok(()))
            }
            Err(refusal) => {
                tracing::warn!(group = %id, design = context.design, reason = %refusal, "group refused");
                self.snapshot_writer.note(|counts| counts.refused += 1);
                Ok(Err(refusal))
            }
        }
    }

    /// Tells the manager that a group is none for this switch, before any core has it.
    pub(super) fn refuse(&mut self, group: GroupId, refusal: &Refusal, to_manager: ManagerReporter<'_>) {
        tracing::warn!(%group, reason = %refusal, "group refused");
        self.snapshot_writer.note(|counts| counts.refused += 1);
        to_manager.reporter.report(group, Report::Refused { reason: refusal.to_string() });
    }

    /// Joins the node to a group: what all its neighbours there may have under way to here.
    fn install(&mut self, context: &GroupContext) -> Result<ByteCount, Refusal> {
        let design = design_of(self.catalog, self.options.framing, context)?;
        self.node.install(design, context, &self.options)?;
        windows(design, context)
    }

    /// Forgets all groups: whoever manages from now on knows nothing of them.
    pub(super) fn forget_all(&mut self) {
        for (group, installed) in std::mem::take(&mut self.groups) {
            let _ = self.node.command(SwitchCommand::Remove(group));
            self.snapshot_writer.note(|counts| installed.removed(counts));
        }
        self.locks = LockReports::default();
        self.arrivals = Arrivals::default();
    }

    /// Takes the last snapshot of what it has counted.
    pub(super) fn end(&mut self) {
        if let Some(cables) = &self.cables {
            self.node.with_ports(|ports| cables.end(ports));
        }
        let counted = self.node.counted(self.kernel.as_ref());
        self.snapshot_writer.end(self.node.statistics(), counted);
    }
}

/// What is at the ends of the cables of a switch that has ports.
fn watch(switch: &ProcessOptions) -> Result<Option<CableWatch>, RuntimeError> {
    let TransportOptions::Ports(ports) = &switch.transport else { return Ok(None) };
    Ok(Some(CableWatch::new(&switch.description.name, &ports.interfaces)?))
}

/// What the manager has been told of locks.
#[derive(Default)]
struct LockReports {
    told: BTreeMap<GroupId, LockCounts>,
    next: Option<Instant>,
}

/// How often at most the manager is told of a group's locks.
const LOCKS_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

impl LockReports {
    /// Tells the manager what has changed, now and then.
    fn tell(&mut self, recorder: &Recorder, reporter: &Reporter, snapshot_writer: &SnapshotWriter<'_>) {
        let now = Instant::now();
        if recorder.counts().next().is_none() || self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + LOCKS_INTERVAL);
        for (group, counts) in recorder.counts() {
            let before = self.told.insert(group, counts).unwrap_or_default();
            if before == counts {
                continue;
            }
            let LockCounts { granted, refused, in_vain, held_by, held } = counts;
            reporter.report(group, Report::Locked(LockUse { granted, refused, in_vain, held_by, held }));
            snapshot_writer.note(|all| {
                all.locks_granted += granted - before.granted;
                all.locks_refused += refused - before.refused;
                all.locks_in_vain += in_vain - before.in_vain;
                all.locks_held += std::time::Duration::from(held - before.held);
            });
        }
        self.told.retain(|group, _| recorder.counts().any(|(known, _)| known == *group));
    }
}
