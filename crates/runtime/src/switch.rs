//! A switch process.

use quincunx_collective::{GroupId, Numbers};
use quincunx_control::{Instruction, Report, SwitchContext};
use quincunx_engine::Engine;
use quincunx_epic::Event;
use quincunx_nodes::{Switch, SwitchCommand, switch_group};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;

use crate::codec::PORT;
use crate::process::{INSTRUCTION_POLL, ProcessOptions, RuntimeError, room, start};

/// Runs a switch: attaches it to the manager, installs what the manager says, and tells the manager of neighbours that do
/// not answer. Returns when `stop` is set, or the manager has gone.
///
/// # Errors
/// If the socket or the manager cannot be had, or the connection to the manager breaks.
pub fn serve_switch(options: &ProcessOptions, stop: &AtomicBool) -> Result<(), RuntimeError> {
    let Ok(engine) = Switch::<Numbers>::new(());
    let (mut node, attachment) = start(engine, options)?;
    let mut contexts: BTreeMap<GroupId, Box<SwitchContext>> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        node.turn(INSTRUCTION_POLL)?;
        while let Some(Event::Unreachable { group, edge }) = node.next_event() {
            let peer = contexts.get(&group).and_then(|context| context.edges.get(usize::from(edge)));
            let reason = match peer {
                Some(edge) => format!("{} at {} does not answer", edge.peer, edge.remote.ip),
                None => format!("the neighbour on edge {edge} does not answer"),
            };
            attachment.report(group, Report::DataPlaneFailed { reason });
        }
        loop {
            match attachment.instructions().try_recv() {
                Ok(Ok(Instruction::InstallSwitch(context))) => {
                    let id = context.parameters.group;
                    let install = SwitchCommand::Install(Box::new(switch_group(&context, |_| PORT)));
                    let report = match node.command(install) {
                        Ok(()) => Report::Installed,
                        Err(refusal) => Report::Refused { reason: refusal.to_string() },
                    };
                    contexts.insert(id, context);
                    let rooms =
                        contexts.values().map(|context| room(&context.parameters, context.edges.len()));
                    node.grow_receive_buffer(rooms.sum())?;
                    attachment.report(id, report);
                }
                Ok(Ok(Instruction::Remove(group) | Instruction::Failed { group, .. })) => {
                    contexts.remove(&group);
                    // A group that was refused here is not installed: nothing to remove.
                    let _ = node.command(SwitchCommand::Remove(group));
                }
                Ok(Ok(Instruction::InstallRank(_) | Instruction::Ready(_))) => {}
                Ok(Err(lost)) => return Err(lost.into()),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
    Ok(())
}
