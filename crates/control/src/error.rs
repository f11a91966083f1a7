//! Refusals of the manager: one line each, with what was expected, what was found and what to do.

use crate::{Encapsulation, GroupFailure, Role};
use alloc::string::String;
use core::net::Ipv4Addr;
use quincunx_collective::GroupId;
use quincunx_design::Refusal;
use quincunx_units::ByteCount;

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
        address: Ipv4Addr,
        /// Who has it.
        holder: String,
    },
}

/// Why there is no group.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
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
    /// Not enough switches for the tree.
    #[error(
        "expected {needed} attached switches that can run {design}, found {found}; start more, or choose a smaller tree"
    )]
    TooFewSwitches {
        /// Switches in the tree.
        needed: usize,
        /// What they must run.
        design: String,
        /// Switches there are.
        found: usize,
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
    #[error("{0}, but no design is set up for that; destroy a group, or set up a fallback")]
    NoRoom(Fallback),
    /// A node did not install its context.
    #[error("expected every node to install the group, but it failed: {0}; see that node, then try again")]
    Failed(GroupFailure),
    /// Someone else was faster.
    #[error("expected the group to be installed, but it was destroyed meanwhile; try again")]
    Destroyed,
}

/// Why a group runs another design than the one that was asked for, which needs switches.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Fallback {
    /// A switch's buffers are full.
    #[error(
        "expected {needed} of free memory at switch \"{switch}\", found {free}; the group runs among its hosts"
    )]
    SwitchMemory {
        /// The switch.
        switch: String,
        /// What the group takes there.
        needed: ByteCount,
        /// What is left there.
        free: ByteCount,
    },
    /// A switch has no queue pairs left.
    #[error(
        "expected {needed} free queue pairs at switch \"{switch}\", found {free}; the group runs among its hosts"
    )]
    SwitchEndpoints {
        /// The switch.
        switch: String,
        /// What the group takes there.
        needed: u32,
        /// What is left there.
        free: u32,
    },
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
}
