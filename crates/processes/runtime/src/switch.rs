//! A switch process: a core, or several, each a thread with an address, a socket and groups of its own.
//!
//! The first core's thread hears the manager, and hands on what is for another core. No frame is ever handed on: neighbours send to the
//! address of the core that has their group. Memory, queue pairs and ports are the switch's, whichever core uses them.

mod arrivals;
mod core;
mod core_thread;
mod node;
mod task;

use quincunx_collective::GroupId;
use quincunx_control::{Instruction, NodeDescription, Report};
use quincunx_control_grpc::Attachment;
use quincunx_design::{Catalog, GroupContext, Refusal};
use quincunx_driver_net::TransportOptions;
use quincunx_wire::Framing;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use self::core::{Core, ManagerReporter};
use crate::links::Links;
use crate::process::{ProcessOptions, RuntimeError, attach, design_of};
use crate::snapshot::SwitchSnapshot;
use core_thread::CoreThread;
use task::{Order, Tally, Task};

/// Runs a switch: attaches it to the manager, installs what the manager says, and tells the manager of neighbours that do
/// not answer. Others may read in `snapshot` what it counts. Returns when `stop` is set, or the manager has gone; one with ports of its own goes on
/// forwarding without a manager, and attaches to the next one.
///
/// # Errors
/// If a socket or the manager cannot be had, a core ends, or the connection to the manager breaks.
pub fn serve_switch(
    catalog: Catalog,
    options: &ProcessOptions,
    stop: &AtomicBool,
    snapshot: &SwitchSnapshot,
) -> Result<(), RuntimeError> {
    serve_linked_switch(catalog, options, &BTreeMap::new(), stop, snapshot)
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
    snapshot: &SwitchSnapshot,
) -> Result<(), RuntimeError> {
    check_cores(options)?;
    let description = &options.description;
    let addresses = description.addresses().enumerate();
    let cores = addresses.map(|place| Core::open(catalog, options, place, snapshot));
    let mut cores: Vec<Core<'_>> = cores.collect::<Result<_, _>>()?;
    let links = Mutex::new(Links::new(&description.links, interfaces));
    let mut run = || {
        loop {
            let attachment = if is_bridge(options) {
                attach_while_forwarding(options, &mut cores[0], stop)?
            } else {
                Some(attach(options, cores[0].queue_pairs(), 0)?)
            };
            let Some(attachment) = attachment else { return Ok(()) };
            let NodeDescription { name, memory, .. } = description;
            let addresses = description.address_list();
            tracing::info!(node = name, %addresses, manager = %options.manager, %memory, "attached");
            let channels = |context: &GroupContext| {
                design_of(catalog, options.framing, context)?;
                context.in_channels()
            };
            let served = serve(&mut cores, &attachment, &links, &channels, stop);
            if !is_bridge(options)
                || stop.load(Ordering::Relaxed)
                || matches!(served, Err(RuntimeError::Node(_)))
            {
                return served;
            }
            // Ordinary frames go on passing. Whoever manages from now on knows nothing of the groups.
            let groups: usize = cores.iter().map(Core::groups).sum();
            tracing::warn!(groups, "the manager is gone; the switch goes on forwarding, without groups");
            cores.iter_mut().for_each(Core::forget_all);
        }
    };
    let served = run();
    cores.iter_mut().for_each(Core::end);
    served
}

/// Refuses several cores where a frame's destination address is not the switch's: nobody could tell whose it is.
fn check_cores(options: &ProcessOptions) -> Result<(), RuntimeError> {
    let found = match options.transport {
        _ if options.description.cores.is_empty() => return Ok(()),
        _ if options.offload => "queue pairs of an RDMA device",
        TransportOptions::Ports(_) => "ports that frames for others pass",
        _ if options.framing == Framing::RoceV1 => "frames of RoCE v1, which pass on their way to others",
        _ => return Ok(()),
    };
    Err(RuntimeError::Cores { found })
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
    core: &mut Core<'_>,
    stop: &AtomicBool,
) -> Result<Option<Attachment>, RuntimeError> {
    let (sender, attached) = std::sync::mpsc::channel();
    let options = options.clone();
    // A thread by itself: who is to stop does not wait for it. It ends when nobody listens.
    thread::spawn(move || {
        loop {
            let attached = attach(&options, Vec::new(), 0);
            let is_done = attached.is_ok();
            if sender.send(attached).is_err() || is_done {
                return;
            }
            thread::sleep(ATTACH_PAUSE);
        }
    });
    while !stop.load(Ordering::Relaxed) {
        core.forward()?;
        match attached.try_recv() {
            Ok(Ok(attachment)) => return Ok(Some(attachment)),
            Ok(Err(reason)) => tracing::warn!(%reason, "no manager; the switch forwards, without groups"),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Runs all cores, the first on this thread, until the manager goes, one of them ends, or `stop` is set.
fn serve(
    cores: &mut [Core<'_>],
    attachment: &Attachment,
    links: &Mutex<Links>,
    channels: &dyn Fn(&GroupContext) -> Result<Vec<GroupContext>, Refusal>,
    stop: &AtomicBool,
) -> Result<(), RuntimeError> {
    let to_manager = ManagerReporter { reporter: attachment.reporter(), links };
    let addresses: Vec<IpAddr> = cores.iter().map(Core::address).collect();
    let (first, others) = cores.split_first_mut().expect("a switch has a core");
    thread::scope(|scope| {
        let mut core_threads: Vec<CoreThread<'_>> = Vec::with_capacity(others.len());
        for core in (1..).zip(others.iter_mut()) {
            match CoreThread::start(scope, core, to_manager) {
                Ok(started) => core_threads.push(started),
                Err(error) => {
                    core_threads.into_iter().try_for_each(CoreThread::end)?;
                    return Err(error);
                }
            }
        }
        let mut channel_cores = BTreeMap::new();
        let mut run = || {
            while !stop.load(Ordering::Relaxed) && !core_threads.iter().any(CoreThread::has_ended) {
                first.turn(to_manager)?;
                links.lock().unwrap_or_else(PoisonError::into_inner).look(to_manager.reporter);
                loop {
                    let instruction = match attachment.instructions().try_recv() {
                        Ok(Ok(instruction)) => instruction,
                        Ok(Err(lost)) => return Err(lost.into()),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => return Ok(()),
                    };
                    let tasks = match instruction {
                        Instruction::Install(context) => {
                            let group = context.group;
                            match channels(&context) {
                                Ok(channels) => installs(group, channels, &addresses, &mut channel_cores),
                                Err(refusal) => {
                                    first.refuse(group, &refusal, to_manager);
                                    continue;
                                }
                            }
                        }
                        Instruction::Failed { group, failure } => {
                            tracing::warn!(%group, reason = %failure, "group failed");
                            removals(group, &mut channel_cores)
                        }
                        Instruction::Remove(group) => removals(group, &mut channel_cores),
                        // It calls nothing; whoever asks sees that it runs.
                        Instruction::TellCalls(group) => {
                            attachment.report(group, Report::called_nothing());
                            continue;
                        }
                        Instruction::ProbePaths(probe) => {
                            first.begin_probe(*probe);
                            continue;
                        }
                        Instruction::TellPaths(run) => {
                            let paths = first.paths(run);
                            attachment.reporter().tell_paths(run, &paths);
                            continue;
                        }
                        // Ranks alone are suspended, and call collectives.
                        // Of channels the first speaks for all.
                        Instruction::TellTimes(of) => {
                            let channels = channel_cores.get(&of).and_then(|cores| cores.first());
                            let &(core, group) = channels.unwrap_or(&(0, of));
                            vec![(core, Task { group, order: Order::TellArrivals { of } })]
                        }
                        // Each core has bytes of its own for all groups.
                        Instruction::MoveMemory(block) => {
                            let task =
                                |core| (core, Task { group: GroupId(0), order: Order::MoveMemory(block) });
                            (0..addresses.len()).map(task).collect()
                        }
                        Instruction::Ready(_) | Instruction::Suspend { .. } | Instruction::Resume { .. } => {
                            continue;
                        }
                    };
                    for (core, task) in tasks {
                        match core.checked_sub(1) {
                            None => first.carry_out(task, to_manager)?,
                            Some(other) => core_threads[other].hand(task),
                        }
                    }
                }
            }
            Ok(())
        };
        let served = run();
        // Why another core has ended says more than that this one has.
        let ended: Result<Vec<()>, RuntimeError> = core_threads.into_iter().map(CoreThread::end).collect();
        ended.and(served)
    })
}

/// Where groups are that are installed: each channel's core, and what it is called there.
type ChannelCores = BTreeMap<GroupId, Vec<(usize, GroupId)>>;

/// What it is to each core that a group is installed, channel by channel.
fn installs(
    group: GroupId,
    channels: Vec<GroupContext>,
    addresses: &[IpAddr],
    channel_cores: &mut ChannelCores,
) -> Vec<(usize, Task)> {
    let places = channels.iter().map(|channel| (core_of(channel, addresses), channel.group)).collect();
    channel_cores.insert(group, places);
    let tally = Tally::new(group, channels.len(), Report::Installed);
    let task = |channel: GroupContext| {
        let (core, group, tally) = (core_of(&channel, addresses), channel.group, Arc::clone(&tally));
        (core, Task { group, order: Order::Install(Box::new(channel), tally) })
    };
    channels.into_iter().map(task).collect()
}

/// The same of a group's end.
fn removals(group: GroupId, channel_cores: &mut ChannelCores) -> Vec<(usize, Task)> {
    // What was never here is forgotten as well.
    let channels = channel_cores.remove(&group).unwrap_or_else(|| vec![(0, group)]);
    let tally = Tally::new(group, channels.len(), Report::Removed);
    let task = |(core, group)| (core, Task { group, order: Order::Remove(Arc::clone(&tally)) });
    channels.into_iter().map(task).collect()
}

/// The core that has a channel: the one at whose address its connections end. Of what passes the switch that is the first, the only one then.
fn core_of(channel: &GroupContext, addresses: &[IpAddr]) -> usize {
    let own = |ip| addresses.iter().position(|address| *address == ip);
    channel.all_connections().find_map(|connection| own(connection.local.ip.address())).unwrap_or(0)
}
