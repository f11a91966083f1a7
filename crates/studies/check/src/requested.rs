//! The groups that control planes are asked for, and what passes between the nodes of one, in words.

use core::net::IpAddr;
use std::collections::BTreeSet;

use quincunx_control::{
    Change, ControlTimer, GroupRequest, Instruction, Message, NodeDescription, Report, Role, Session,
};
use quincunx_design::{Catalog, FabricKind, Refusal};
use quincunx_units::ByteCount;

/// What groups are asked for: of two hosts, in one switch.
#[derive(Clone, Debug)]
pub(crate) struct RequestedGroup {
    pub(crate) wanted: GroupRequest,
    /// What it takes of the switch.
    pub(crate) memory: ByteCount,
    /// What runs among hosts.
    pub(crate) fallback: Option<&'static str>,
}

impl RequestedGroup {
    /// The first design of a catalog that needs a switch.
    pub(crate) fn find(catalog: Catalog) -> Result<Self, Refusal> {
        let members: Vec<String> = ["r0", "r1"].map(String::from).into();
        let found = catalog.on(FabricKind::Tree).find_map(|design| {
            let plan = design.smallest_plan().ok()?;
            let switch = plan.switches.first().filter(|switch| switch.memory.bytes() > 0)?;
            Some((design, switch.memory))
        });
        let Some((design, memory)) = found else {
            return Err(Refusal::new("a design that runs in a switch", "none", "add one to the catalog"));
        };
        let among_hosts = catalog.on(FabricKind::Tree).find(|other| {
            let is_there = other.smallest_plan().is_ok_and(|plan| plan.switches.is_empty());
            other.about().framing == design.about().framing && is_there
        });
        let wanted = GroupRequest::new(members, design, ByteCount::new(4096));
        Ok(Self { wanted, memory, fallback: among_hosts.map(|design| design.name()) })
    }

    /// The same of the design that runs among hosts.
    pub(crate) fn among_hosts(&self, catalog: Catalog) -> Result<GroupRequest, Refusal> {
        let missing = || Refusal::new("a design that runs among hosts", "none", "add one to the catalog");
        let design = catalog.named(self.fallback.ok_or_else(missing)?)?;
        Ok(GroupRequest::new(self.wanted.members.clone(), design, ByteCount::new(4096)))
    }

    /// A node that is there for them.
    pub(crate) fn node(&self, name: String, number: u8, is_switch: bool) -> NodeDescription {
        let host = NodeDescription::host(name, IpAddr::from([10, 0, 0, number]), 4);
        if !is_switch {
            return host;
        }
        let designs = BTreeSet::from([self.wanted.design.clone()]);
        NodeDescription { role: Role::Switch, designs, memory: self.memory, ..host }
    }
}

pub(crate) fn words_of_timer(timer: ControlTimer) -> String {
    match timer {
        ControlTimer::Manager(timer) => format!("its timer {timer:?}"),
        ControlTimer::Again => "its timer for another Attach".to_owned(),
    }
}

/// A message in a few words.
pub(crate) fn words(header: &Message) -> String {
    let of = |session: &Session| format!(" (connection {}.{})", session.epoch, session.number);
    match header {
        Message::Connect { attempt } => format!("connect, attempt {attempt}"),
        Message::Welcome { attempt, session } => format!("welcome to attempt {attempt}{}", of(session)),
        Message::Attach { session, held, .. } => {
            let held: Vec<String> = held.iter().map(|held| held.group.to_string()).collect();
            let held =
                if held.is_empty() { "no groups".to_owned() } else { format!("groups {}", held.join(", ")) };
            format!("attach with {held}{}", of(session))
        }
        Message::Attached { session } => format!("attached{}", of(session)),
        Message::Instruct { session, instruction } => {
            let words = match instruction {
                Instruction::Install(context) => {
                    format!("install group {} at {}", context.group, context.memory_offset)
                }
                Instruction::Ready(group) => format!("group {group} is ready"),
                Instruction::Suspend { group, failure } => format!("suspend group {group}: {failure}"),
                Instruction::Resume { group, from, first } => {
                    format!("group {group} takes the place of {from}, from collective {first} on")
                }
                Instruction::Remove(group) => format!("forget group {group}"),
                Instruction::TellCalls(group) | Instruction::TellTimes(group) => {
                    format!("tell what you have called in group {group}")
                }
                Instruction::ProbePaths(probe) => format!("probe {} paths", probe.targets.len()),
                Instruction::MoveMemory(block) => {
                    format!("move {} at {} to {}", block.from.length, block.from.offset, block.to)
                }
                Instruction::TellPaths(_) => "tell what you have counted".to_owned(),
                Instruction::Failed { group, failure } => format!("group {group} has failed: {failure}"),
            };
            words + &of(session)
        }
        Message::Ask { wanted } => format!("asks for a group, request {}", wanted.key.unwrap_or_default()),
        Message::Answer { key, group: Some(group) } => format!("request {key} has group {group}"),
        Message::Answer { key, group: None } => format!("request {key} is refused"),
        Message::End { group } => format!("wants group {group} to end"),
        Message::Ended { group, was_known: true } => format!("group {group} has ended"),
        Message::Ended { group, was_known: false } => format!("there is no group {group}"),
        Message::Keep { term, change } => {
            let what = match change {
                Change::Numbers(numbers) => format!("that numbers below {numbers} are given away"),
                Change::Put(record) => format!("that group {} is ready", record.group),
                Change::Remove(group) => format!("that group {group} is over"),
            };
            format!("keep, by lease {term}, {what}")
        }
        Message::KeepReply { is_kept: true } => "it is kept".to_owned(),
        Message::KeepReply { is_kept: false } => "it is not kept: the lease is another's".to_owned(),
        Message::Serves => "is there for all".to_owned(),
        Message::Take => "wants the lease".to_owned(),
        Message::Over => "your lease is over".to_owned(),
        Message::Lease { term, numbers, records } => {
            format!("lease {term} is yours: numbers below {numbers} are given away, {} groups", records.len())
        }
        Message::Gone { session } => format!("the end of the connection{}", of(session)),
        Message::Data(token) => {
            format!("token {} of group {}, of collective {}", token.index, token.group, token.number)
        }
        Message::Report { session, group, report } => {
            let words = match report {
                Report::Installed => format!("group {group} is installed"),
                Report::Refused { reason } => format!("group {group} is refused: {reason}"),
                Report::DataPlaneFailed { reason } => format!("group {group} has failed: {reason}"),
                Report::Corrupted { reason } => format!("group {group} is corrupted: {reason}"),
                Report::Removed => format!("group {group} is forgotten"),
                Report::Locked(_) => format!("the locks of group {group} are counted"),
                Report::Called { calls, .. } => {
                    format!("of group {group} {} collectives are called", calls.len())
                }
                Report::Released => format!("the rank is done with group {group}"),
                Report::Suspended(progress) => {
                    format!("group {group} is forgotten, and collective {} is complete", progress.complete)
                }
            };
            words + &of(session)
        }
    }
}
