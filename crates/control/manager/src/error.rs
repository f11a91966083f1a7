//! Refusals of the manager: one line each, with what was expected, what was found and what to do.

use crate::{Encapsulation, GroupFailure, Role};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use quincunx_collective::GroupId;
use quincunx_design::Refusal;
use quincunx_units::{ByteCount, Duration};

/// Why a node cannot attach.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// No name.
    #[error("expected a node name, found an empty one; give the node a name")]
    NoName,
    /// Taken.
    #[error(
        "expected a new node name, found \"{name}\", which is attached; stop that node or rename this one"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Taken.
    #[error(
        "expected an address of its own for \"{name}\", found {address}, which \"{holder}\" has; choose another"
    )]
    AddressTaken {
        /// The new node.
        name: String,
        /// The address.
        address: IpAddr,
        /// Who has it.
        holder: String,
    },
}

/// Why there is no group.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum InitGroupError {
    /// Nobody.
    #[error("expected members, found none; name at least one host")]
    NoMembers,
    /// Twice the same.
    #[error("expected each member once, found \"{name}\" twice; leave one out")]
    DuplicateMember {
        /// The member.
        name: String,
    },
    /// Not attached.
    #[error("expected an attached host \"{name}\", found none of that name; start it, or leave it out")]
    MissingMember {
        /// The member.
        name: String,
    },
    /// Attached as something else.
    #[error("expected a host as member \"{name}\", found a {role}; name a host")]
    NotAHost {
        /// The member.
        name: String,
        /// What it is.
        role: Role,
    },
    /// Frames go between addresses of one family.
    #[error(
        "expected addresses of one IP family in a group, found {address} of \"{name}\" and {other_address} of \"{other}\"; start both with --address of the same family"
    )]
    MixedFamilies {
        /// The first member.
        name: String,
        /// Its address.
        address: IpAddr,
        /// A member or switch that differs.
        other: String,
        /// One of that one's addresses.
        other_address: IpAddr,
    },
    /// Frames of some would reach nobody, or pass a switch by that is to add them up.
    #[error(
        "expected frames of all nodes of a group to travel alike, found {encapsulation} at \"{name}\" and {other_encapsulation} at \"{other}\"; start both with the same --transport"
    )]
    MixedEncapsulation {
        /// The first member.
        name: String,
        /// What its frames travel in.
        encapsulation: Encapsulation,
        /// A member or switch that differs.
        other: String,
        /// What that one's frames travel in.
        other_encapsulation: Encapsulation,
    },
    /// There is no such design, or it refuses its parameters or what it is to run on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The group would run in switches, and none can.
    #[error(
        "expected an attached switch that can run {design}, found {found}; start one, or choose another design"
    )]
    NoSwitch {
        /// What it must run.
        design: String,
        /// Switches there are, which cannot.
        found: SwitchCount,
    },
    /// A host has no queue pairs left.
    #[error(
        "expected {needed} free queue pairs at host \"{name}\", found {free}; destroy a group that it is in"
    )]
    HostEndpoints {
        /// The host.
        name: String,
        /// Queue pairs that the group takes there.
        needed: u32,
        /// Queue pairs that it has left.
        free: u32,
    },
    /// The switches have no room, and there is no other design to run.
    #[error("{0}; and no design is set up to fall back to; set one up")]
    NoRoom(Fallback),
    /// A node did not install its context.
    #[error("expected every node to install the group, but it failed: {0}; see that node, then try again")]
    Failed(GroupFailure),
    /// Someone else was faster.
    #[error("expected the group to be installed, but it was destroyed meanwhile; try again")]
    Destroyed,
}

/// A group that has what another one lacks.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    /// The group.
    pub group: GroupId,
    /// How much it has, in words; nothing if that is plain.
    pub what: String,
    /// How long its lease runs; none: until somebody destroys it.
    pub lease: Option<Duration>,
}

/// Who has what another group lacks, for the end of a line: "; group 3 has 512KiB of it until it is destroyed".
struct Held<'a>(&'a [Holder]);

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A line names so many.
        const NAMED: usize = 3;
        for (index, Holder { group, what, lease }) in self.0.iter().take(NAMED).enumerate() {
            let start = if index == 0 { "; " } else { ", " };
            write!(f, "{start}group {group} has {what} ")?;
            match lease {
                Some(lease) => write!(f, "for {lease} more")?,
                None => f.write_str("until it is destroyed")?,
            }
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, ", and {more} others have some"),
        }
    }
}

/// Why a group runs another design than the one that was asked for, which needs switches: which switch, which resource, who holds it, until
/// when, and what would help.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Fallback {
    /// A switch's buffers are full.
    #[error(
        "expected {needed} of free memory at switch \"{switch}\", found {free}{}{}; {REMEDY_MEMORY}",
        in_pieces(*needed, *free, *longest),
        Held(holders)
    )]
    SwitchMemory {
        /// The switch.
        switch: String,
        /// What the group takes there.
        needed: ByteCount,
        /// What is left there.
        free: ByteCount,
        /// The longest piece of that.
        longest: ByteCount,
        /// Who has the rest.
        holders: Vec<Holder>,
    },
    /// A switch has no queue pairs left.
    #[error(
        "expected {needed} free queue pairs at switch \"{switch}\", found {free}{}; destroy a group, or start the switch with more",
        Held(holders)
    )]
    SwitchEndpoints {
        /// The switch.
        switch: String,
        /// What the group takes there.
        needed: u32,
        /// What is left there.
        free: u32,
        /// Who has the rest.
        holders: Vec<Holder>,
    },
    /// A switch cannot add up so many.
    #[error(
        "expected switch \"{switch}\" to join {needed} neighbours, found that it can join {most}; make a smaller group"
    )]
    FanIn {
        /// The switch.
        switch: String,
        /// Neighbours in the tree.
        needed: u16,
        /// What it can do.
        most: u16,
    },
    /// A port that serves one group serves another.
    #[error(
        "expected the link {link} without a group at the port of \"{switch}\"{}; destroy that group, or choose other members",
        Held(holders)
    )]
    PortTaken {
        /// The switch with such ports.
        switch: String,
        /// Both ends.
        link: String,
        /// Who has it.
        holders: Vec<Holder>,
    },
    /// The owner may have no more groups in switches.
    #[error(
        "expected tenant {owner} to have at most {limit} groups in switches, found another asked for{}; {REMEDY_QUOTA}",
        Held(holders)
    )]
    GroupQuota {
        /// Whose the group is.
        owner: String,
        /// How many he may have.
        limit: u32,
        /// Those that he has.
        holders: Vec<Holder>,
    },
    /// The owner may have no more memory of switches.
    #[error(
        "expected tenant {owner} to hold at most {limit} of switch memory, found {wanted} with this group{}; {REMEDY_QUOTA}",
        Held(holders)
    )]
    MemoryQuota {
        /// Whose the group is.
        owner: String,
        /// How much he may have, of all switches together.
        limit: ByteCount,
        /// How much that would be.
        wanted: ByteCount,
        /// His groups that hold some.
        holders: Vec<Holder>,
    },
    /// The switches that could do it take no new groups.
    #[error(
        "expected a switch that runs {design} for {} and takes new groups, found {} draining; wait, or `quincunx nodes undrain` one",
        first(members),
        quoted(switches)
    )]
    Draining {
        /// The design.
        design: String,
        /// Members that no tree with the others reaches.
        members: Vec<String>,
        /// Switches that run the design, and drain.
        switches: Vec<String>,
    },
    /// Members, or the switches that could do it, have another version of the design than the manager, as in an upgrade.
    #[error(
        "expected version {version} of the parameters of {design} at {}, found another; run one version everywhere, `quincunx doctor` shows who is behind",
        quoted(nodes)
    )]
    OtherVersion {
        /// The design.
        design: String,
        /// The manager's version of it.
        version: u32,
        /// Those with another one.
        nodes: Vec<String>,
    },
    /// No tree reaches all members.
    #[error(
        "expected a tree of switches that run {design} to reach {}, found none by policy {policy}{}; {REMEDY_TREE}",
        first(members),
        Held(holders)
    )]
    NoTree {
        /// The design.
        design: String,
        /// The policy, which decides which links may be used.
        policy: String,
        /// Members that no tree with the others reaches.
        members: Vec<String>,
        /// Whose trees are in the way.
        holders: Vec<Holder>,
    },
}

const REMEDY_MEMORY: &str = "destroy a group, or ask for less (group.window, group.message)";
const REMEDY_QUOTA: &str = "end one, make it smaller, or ask the operator for more";
const REMEDY_TREE: &str =
    "destroy a group in the way, choose another policy, or start switches nearer to the members";

/// That what is free is not in one piece, where that is why it does not do.
fn in_pieces(needed: ByteCount, free: ByteCount, longest: ByteCount) -> String {
    if free >= needed && longest < needed { format!(", {longest} in one piece") } else { String::new() }
}

fn first(names: &[String]) -> String {
    match names {
        [] => "all members".into(),
        [one] => format!("\"{one}\""),
        [one, rest @ ..] => format!("\"{one}\" and {} others", rest.len()),
    }
}

/// Some of them, by name.
fn quoted(names: &[String]) -> String {
    /// A line names so many.
    const NAMED: usize = 3;
    let mut text: Vec<String> = names.iter().take(NAMED).map(|name| format!("\"{name}\"")).collect();
    if let more @ 1.. = names.len().saturating_sub(NAMED) {
        text.push(format!("{more} others"));
    }
    text.join(", ")
}

/// There is no such group.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a group that exists, found no group {group}; list the groups")]
pub struct UnknownGroup {
    /// The number as given.
    pub group: GroupId,
}

/// Why a report is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReportError {
    /// From nobody.
    #[error("expected a report of an attached node, found one of \"{name}\"; attach first")]
    NotAttached {
        /// The name as given.
        name: String,
    },
    /// From someone who is not concerned.
    #[error("expected a report on a group of \"{name}\", found one on group {group}, which does not have it")]
    NotInGroup {
        /// The node.
        name: String,
        /// The group.
        group: GroupId,
    },
    /// Of what never was.
    #[error("expected a report on a group that was made, found one on group {group}; list the groups")]
    UnknownGroup {
        /// The number as given.
        group: GroupId,
    },
}

/// A number of switches, for people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwitchCount(pub usize);

impl fmt::Display for SwitchCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            1 => f.write_str("one switch that cannot"),
            count => write!(f, "{count} switches that cannot"),
        }
    }
}
