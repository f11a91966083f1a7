//! A switch process.

use quincunx_collective::{GroupId, Numbers};
use quincunx_control::{Instruction, LockUse, NodeDescription, Report};
use quincunx_control_grpc::Attachment;
use quincunx_design::{Catalog, GroupContext, Peer, Refusal};
use quincunx_driver_net::{AnyTransport, NodeOptions, TransportOptions};
use quincunx_engine::Engine;
use quincunx_network::FaultRates;
use quincunx_nodes::locks::{LockCounts, Recorder};
use quincunx_nodes::{Switch, SwitchCommand, SwitchEvent, switch_group};
use quincunx_units::{ByteCount, Probability};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::Instant;

use crate::codec::ROCE_PORT;
use crate::drops::{KernelDrops, named, with_ports};
use crate::links::Links;
use crate::process::{
    Bound, INSTRUCTION_POLL, ProcessOptions, RuntimeError, SocketNode, attach, design_of, open, room, windows,
};
use crate::watch::{Counted, SwitchCounts, SwitchWatch, Watching};

/// A group that the switch is in.
struct Installed {
    context: Box<GroupContext>,
    /// What all its neighbours may have under way to here.
    windows: ByteCount,
}

impl Installed {
    /// Counts that it is not any more.
    fn removed(&self, counts: &mut SwitchCounts) {
        counts.groups -= 1;
        counts.removed += 1;
        counts.memory_held -= self.context.memory.bytes();
        counts.endpoints_held -= self.context.connections.len() as u64;
    }
}

impl Counted {
    /// What a switch and the kernel below it have counted until now.
    fn of(node: &mut SocketNode<Switch<Numbers>>, kernel: &KernelDrops) -> Self {
        let dropped = kernel.with(named(node.dropped()));
        match node.transport_mut() {
            AnyTransport::Ports(transport) => {
                let (ports, addresses) = (transport.counts(), transport.addresses());
                Self { dropped: with_ports(dropped, &ports), ports, addresses }
            }
            _ => Self { dropped, ..Self::default() },
        }
    }
}

/// Runs a switch: attaches it to the manager, installs what the manager says, and tells the manager of neighbours that do
/// not answer. Others may read in `watch` what it counts. Returns when `stop` is set, or the manager has gone; one with ports of its own goes on
/// forwarding without a manager, and attaches to the next one.
///
/// # Errors
/// If the socket or the manager cannot be had, or the connection to the manager breaks.
pub fn serve_switch(
    catalog: Catalog,
    options: &ProcessOptions,
    stop: &AtomicBool,
    watch: &SwitchWatch,
) -> Result<(), RuntimeError> {
    serve_linked_switch(catalog, options, &BTreeMap::new(), stop, watch)
}

/// The same of a switch that knows by which of its `interfaces` its neighbours, by name, are reached: the manager hears when one of them goes
/// down, or comes back.
///
/// # Errors
/// As [`serve_switch`].
pub fn serve_linked_switch(
    catalog: Catalog,
    options: &ProcessOptions,
    interfaces: &BTreeMap<String, String>,
    stop: &AtomicBool,
    watch: &SwitchWatch,
) -> Result<(), RuntimeError> {
    let Ok(engine) = Switch::<Numbers>::new(());
    let mut node = open(engine, options)?;
    let kernel = KernelDrops::new();
    let mut watching = Watching::new(watch);
    let mut links = Links::new(&options.description.links, interfaces);
    let mut run = || {
        loop {
            let attachment = if is_bridge(options) {
                attach_while_forwarding(options, &mut node, stop, (&mut watching, &kernel))?
            } else {
                Some(attach(options, Vec::new())?)
            };
            let Some(attachment) = attachment else { return Ok(()) };
            let NodeDescription { name, address, memory, .. } = &options.description;
            tracing::info!(node = name, %address, manager = %options.manager, %memory, "attached");
            let mut groups = BTreeMap::new();
            let at = (&mut node, &attachment);
            let served = serve(catalog, options, at, &mut groups, stop, (&mut watching, &mut links), &kernel);
            if !is_bridge(options)
                || stop.load(Ordering::Relaxed)
                || matches!(served, Err(RuntimeError::Node(_)))
            {
                return served;
            }
            // Ordinary frames go on passing. Whoever manages from now on knows nothing of the groups.
            tracing::warn!(
                groups = groups.len(),
                "the manager is gone; the switch goes on forwarding, without groups"
            );
            for (group, installed) in groups {
                let _ = node.command(SwitchCommand::Remove(group));
                watching.note(|counts| installed.removed(counts));
            }
        }
    };
    let served = run();
    let counted = Counted::of(&mut node, &kernel);
    watching.end(node.statistics(), counted);
    served
}

/// Whether ordinary frames pass the switch, too, which is not to end with its manager.
fn is_bridge(options: &ProcessOptions) -> bool {
    matches!(options.transport, TransportOptions::Ports(_))
}

/// How soon a manager that has refused the switch is asked again.
const ATTACH_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Attaches to the manager, who may be behind the switch, and forwards meanwhile. None if it is to stop before.
fn attach_while_forwarding(
    options: &ProcessOptions,
    node: &mut SocketNode<Switch<Numbers>>,
    stop: &AtomicBool,
    (watching, kernel): (&mut Watching<'_>, &KernelDrops),
) -> Result<Option<Attachment>, RuntimeError> {
    let (sender, attached) = std::sync::mpsc::channel();
    let options = options.clone();
    // A thread by itself: who is to stop does not wait for it. It ends when nobody listens.
    std::thread::spawn(move || {
        loop {
            let attached = attach(&options, Vec::new());
            let is_done = attached.is_ok();
            if sender.send(attached).is_err() || is_done {
                return;
            }
            std::thread::sleep(ATTACH_PAUSE);
        }
    });
    while !stop.load(Ordering::Relaxed) {
        node.turn(INSTRUCTION_POLL)?;
        let statistics = *node.statistics();
        watching.look(&statistics, || Counted::of(node, kernel));
        match attached.try_recv() {
            Ok(Ok(attachment)) => return Ok(Some(attachment)),
            Ok(Err(reason)) => tracing::warn!(%reason, "no manager; the switch forwards, without groups"),
            Err(_) => {}
        }
    }
    Ok(None)
}

fn serve(
    catalog: Catalog,
    options: &ProcessOptions,
    (node, attachment): (&mut SocketNode<Switch<Numbers>>, &Attachment),
    groups: &mut BTreeMap<GroupId, Installed>,
    stop: &AtomicBool,
    (watching, links): (&mut Watching<'_>, &mut Links),
    kernel: &KernelDrops,
) -> Result<(), RuntimeError> {
    let mut locks = LockReports::default();
    while !stop.load(Ordering::Relaxed) {
        node.turn(INSTRUCTION_POLL)?;
        let statistics = *node.statistics();
        watching.look(&statistics, || Counted::of(node, kernel));
        locks.tell(node.engine().recorder(), attachment, watching);
        links.look(attachment);
        while let Some(SwitchEvent::Unreachable { group, edge }) = node.next_event() {
            let connections = groups.get(&group).map(|group| &group.context.connections);
            let reason = match connections.and_then(|connections| connections.get(usize::from(edge))) {
                Some(edge) => format!("{} at {} does not answer", edge.peer, edge.remote.ip),
                None => format!("the neighbour on edge {edge} does not answer"),
            };
            tracing::warn!(%group, reason, "neighbour lost");
            links.look_now(attachment);
            attachment.report(group, Report::DataPlaneFailed { reason });
        }
        loop {
            match attachment.instructions().try_recv() {
                Ok(Ok(Instruction::Install(context))) => {
                    let id = context.group;
                    let report = match install(catalog, options, node, &context) {
                        Ok(windows) => {
                            let (memory, connections) = (context.memory.bytes(), context.connections.len());
                            tracing::info!(group = %id, design = context.design, ranks = context.ranks, memory = %context.memory, connections, "group installed");
                            watching.note(|counts| {
                                counts.groups += 1;
                                counts.installed += 1;
                                counts.memory_held += memory;
                                counts.endpoints_held += connections as u64;
                            });
                            groups.insert(id, Installed { context, windows });
                            node.grow_receive_buffer(groups.values().map(|group| room(group.windows)).sum())?;
                            Report::Installed
                        }
                        Err(refusal) => {
                            tracing::warn!(group = %id, design = context.design, reason = %refusal, "group refused");
                            watching.note(|counts| counts.refused += 1);
                            Report::Refused { reason: refusal.to_string() }
                        }
                    };
                    attachment.report(id, report);
                }
                Ok(Ok(ref ended @ (Instruction::Remove(group) | Instruction::Failed { group, .. }))) => {
                    if let Instruction::Failed { failure, .. } = ended {
                        tracing::warn!(%group, reason = %failure, "group failed");
                    }
                    if let Some(installed) = groups.remove(&group) {
                        tracing::info!(%group, "group removed");
                        watching.note(|counts| installed.removed(counts));
                    }
                    // A group that was refused here is not installed: nothing to remove.
                    let _ = node.command(SwitchCommand::Remove(group));
                    links.look_now(attachment);
                    attachment.report(group, Report::Removed);
                }
                // Ranks alone are suspended.
                Ok(Ok(Instruction::Ready(_) | Instruction::Suspend { .. } | Instruction::Resume { .. })) => {}
                Ok(Err(lost)) => return Err(lost.into()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
    Ok(())
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
    fn tell(&mut self, recorder: &Recorder, attachment: &Attachment, watching: &Watching<'_>) {
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
            let LockCounts { granted, refused, in_vain, held_by } = counts;
            attachment.report(group, Report::Locked(LockUse { granted, refused, in_vain, held_by }));
            watching.note(|all| {
                all.locks_granted += granted - before.granted;
                all.locks_refused += refused - before.refused;
                all.locks_in_vain += in_vain - before.in_vain;
            });
        }
        self.told.retain(|group, _| recorder.counts().any(|(known, _)| known == *group));
    }
}

/// Joins the switch to a group: what all its neighbours there may have under way to here.
fn install(
    catalog: Catalog,
    options: &ProcessOptions,
    node: &mut SocketNode<Switch<Numbers>>,
    context: &GroupContext,
) -> Result<ByteCount, Refusal> {
    let design = design_of(catalog, options.framing, context)?;
    let bound = Bound::new(node, context, options.any_interface)?;
    let group = switch_group(design, context, None, |peer| bound.port(peer))?;
    // Between the ends of what passes, the switch hands on what is not for the group, such as acknowledges.
    let own = *node.local().ip();
    let ends = context.connections.iter().filter(|connection| connection.local.ip != own);
    for destination in ends.flat_map(|connection| [connection.local.ip, connection.remote.ip]) {
        let route = SwitchCommand::Route { destination, ports: vec![bound.port_to(destination)] };
        node.command(route).map_err(|rejected| Refusal::of(&rejected))?;
    }
    if options.lose_sent {
        lose_sent(&options.node, node, context);
    }
    let installed = node.command(SwitchCommand::Install(Box::new(group)));
    installed.map_err(|rejected| Refusal::of(&rejected))?;
    windows(design, context)
}

/// Has frames to the ranks of a group meet the faults that arriving ones meet.
fn lose_sent(options: &NodeOptions, node: &mut SocketNode<Switch<Numbers>>, context: &GroupContext) {
    let ranks = context.connections.iter().filter(|connection| matches!(connection.peer, Peer::Rank(_)));
    for address in ranks.map(|connection| connection.remote.ip) {
        let rates = FaultRates { reordering: Probability::ZERO, ..options.faults };
        // Each link has its own fates.
        let seed = options.seed ^ u64::from(address.to_bits());
        node.set_faults(SocketAddrV4::new(address, ROCE_PORT), rates.into(), seed);
    }
}
