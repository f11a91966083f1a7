//! A switch's process: the engine that ships, told by its agent what groups it is in. It stands for `processes/runtime/src/switch.rs`, which does
//! the same between sockets and cores.

use crate::client::Client;
use crate::effects::{Answers, Effects, OwnedFrame, PORT, TimerName};
use crate::facts::Fact;
use crate::version::VersionBefore;
use quincunx_collective::{GroupId, Numbers, Payload};
use quincunx_control::memory::Region;
use quincunx_control::{Instruction, LinkReport, Report};
use quincunx_design::{AnyDesign, Catalog, FabricKind, GroupContext, Refusal};
use quincunx_engine::{Engine, Frame};
use quincunx_nodes::{
    MemoryPart, Mutation, Node, Switch, SwitchCommand, SwitchEvent, SwitchTimer, switch_group,
};
use std::collections::BTreeMap;

/// A rule of a node or of a design that is broken on purpose.
#[derive(Clone, Copy, Default)]
pub(crate) struct Broken {
    pub(crate) node: Option<Mutation>,
    pub(crate) design: Option<&'static str>,
}

pub(crate) struct SwitchProcess {
    pub(crate) client: Client,
    catalog: Catalog,
    engine: Switch<Numbers>,
    answers: Answers<Switch<Numbers>>,
    /// Channels of each group.
    installed: BTreeMap<GroupId, Vec<GroupContext>>,
    /// All links as they are now, and as the manager has been told.
    links: Vec<LinkReport>,
    told: Vec<LinkReport>,
    design_mutation: Option<&'static str>,
    before: Option<VersionBefore>,
}

impl SwitchProcess {
    pub(crate) fn new(
        catalog: Catalog,
        client: Client,
        links: Vec<LinkReport>,
        broken: Broken,
        before: Option<VersionBefore>,
    ) -> Self {
        let Ok(engine) = Switch::<Numbers>::new(());
        let engine = match broken.node.map(|mutation| Node::Switch(engine.clone()).breaking(mutation)) {
            Some(Node::Switch(broken)) => broken,
            _ => engine,
        };
        Self {
            client,
            catalog,
            engine,
            answers: Answers::default(),
            installed: BTreeMap::new(),
            told: links.clone(),
            links,
            design_mutation: broken.design,
            before,
        }
    }

    /// Groups in its engine, and bytes of their buffers.
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        (self.installed.len(), self.client.agent().held().len(), self.engine.buffer_bytes())
    }

    pub(crate) fn set_links(&mut self, links: Vec<LinkReport>) {
        self.links = links;
    }

    pub(crate) fn take_frame(&mut self, frame: &OwnedFrame, out: &mut Effects) {
        let payload = frame.payload.view(0..frame.payload.length());
        self.engine.handle_frame(out.now, PORT, Frame { header: &frame.header, payload }, &mut self.answers);
        self.finish(out);
    }

    pub(crate) fn expire(&mut self, timer: SwitchTimer, out: &mut Effects) {
        self.engine.handle_timer(out.now, timer, &mut self.answers);
        self.finish(out);
    }

    fn finish(&mut self, out: &mut Effects) {
        self.answers.hand_on(&mut self.engine, TimerName::Switch, out);
        while let Some(event) = self.answers.events.pop_front() {
            if let SwitchEvent::Unreachable { group, edge } = event {
                out.fact(Fact::Met("switch: neighbour does not answer"));
                self.tell_links(out);
                let of =
                    self.installed.iter().find(|(_, channels)| channels.iter().any(|own| own.group == group));
                let reason = format!("the neighbour on edge {edge} does not answer");
                let of = of.map_or(group, |(of, _)| *of);
                self.client.report(of, Report::DataPlaneFailed { reason }, out);
            }
        }
    }

    /// Tells the manager of links whose state has changed.
    pub(crate) fn tell_links(&mut self, out: &mut Effects) {
        if self.links != self.told {
            self.told.clone_from(&self.links);
            self.client.update_links(self.links.clone(), out);
        }
    }

    /// Takes what the manager has said.
    pub(crate) fn look(&mut self, out: &mut Effects) {
        self.tell_links(out);
        while let Some(heard) = self.client.next_instruction() {
            match heard {
                Ok(instruction) => self.carry_out(instruction, out),
                Err(error) => return out.end(error.to_string()),
            }
        }
        self.finish(out);
    }

    fn carry_out(&mut self, instruction: Instruction, out: &mut Effects) {
        match instruction {
            Instruction::Install(context) => {
                let of = context.group;
                let report = match self.install(&context, out) {
                    Ok(()) => Report::Installed,
                    Err(refusal) => Report::Refused { reason: refusal.to_string() },
                };
                self.client.report(of, report, out);
            }
            Instruction::Remove(group) | Instruction::Failed { group, .. } => {
                for channel in self.installed.remove(&group).unwrap_or_default() {
                    let remove = SwitchCommand::Remove(channel.group);
                    // A group that was refused here is not installed: nothing to remove.
                    let _ = self.engine.handle_command(out.now, remove, &mut self.answers);
                    out.fact(Fact::Removed { group: channel.group });
                }
                self.client.report(group, Report::Removed, out);
            }
            Instruction::MoveMemory(block) => {
                let from = MemoryPart { offset: block.from.offset, length: block.from.length };
                let command = SwitchCommand::MoveMemory { from, to: block.to };
                if self.engine.handle_command(out.now, command, &mut self.answers).is_ok() {
                    out.fact(Fact::Moved { block });
                }
            }
            Instruction::TellCalls(group) => self.client.report(group, Report::called_nothing(), out),
            _ => {}
        }
    }

    fn install(&mut self, context: &GroupContext, out: &mut Effects) -> Result<(), Refusal> {
        let seen = self.before.map(|before| before.sees(context));
        let context = seen.as_ref().unwrap_or(context);
        let design = self.catalog.find(&context.design, context.fabric)?;
        let channels = context.in_channels()?;
        self.installed.insert(context.group, channels.clone());
        for channel in channels {
            let mutation = mutation_of(design, self.design_mutation);
            let group = switch_group::<Numbers>(design, &channel, mutation, |_| PORT)?;
            let install = SwitchCommand::Install(Box::new(group));
            let installed = self.engine.handle_command(out.now, install, &mut self.answers);
            installed.map_err(|rejected| Refusal::of(&rejected))?;
            let region = Region { offset: channel.memory_offset, length: channel.memory };
            let queue_pairs = channel.connections.iter().map(|connection| connection.local.qp).collect();
            out.fact(Fact::Installed { group: channel.group, region, queue_pairs });
        }
        Ok(())
    }
}

/// The rule that a design is to break, if it has it.
pub(crate) fn mutation_of(design: &dyn AnyDesign, wanted: Option<&'static str>) -> Option<&'static str> {
    wanted.filter(|name| (design.about().model.mutations)(FabricKind::Tree).contains(name))
}
