//! What the service keeps of groups beside the manager: their names, what was asked for, and who was in the way when they got
//! something else; of requests with a name that were refused, the last ones.

use quincunx_collective::GroupId;
use quincunx_control::{Fallback, GroupState, GroupSummary, Holding, InitGroupError, Manager, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// Refused requests that are kept; the oldest go first.
const KEPT_REFUSALS: usize = 64;

/// Groups that failed are forgotten by the manager without a word: their records go when so many more are there than were left last.
const SLACK: usize = 128;

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) asked: String,
    /// The switch that lacked something, and who held what of it.
    pub(crate) lack: Option<Lack>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lack {
    pub(crate) switch: String,
    pub(crate) then: Vec<Held>,
}

/// What a group held, with its name: it may be gone when that is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) group: GroupId,
    pub(crate) holding: Holding,
    pub(crate) name: String,
    pub(crate) tenant: String,
}

/// A request that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) record: Record,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    groups: BTreeMap<GroupId, Record>,
    refused: VecDeque<Refused>,
    /// Requests that the manager has neither a group for nor refused.
    pending: BTreeMap<RequestId, Record>,
    left: usize,
}

/// Why a name is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NameError {
    #[error(
        "expected a group name of letters, digits, '-', '_', '.' and '/', not of digits alone, found {found:?}; choose another"
    )]
    Form { found: String },
    #[error(
        "expected a new group name, found \"{name}\", which group {group} has; choose another, or destroy that group"
    )]
    Taken { name: String, group: GroupId },
}

impl Records {
    pub(crate) fn get(&self, group: GroupId) -> Option<&Record> {
        self.groups.get(&group)
    }

    /// Whether a new group of the tenant may be called that; empty is no name.
    pub(crate) fn check_name(&self, name: &str, tenant: &str, manager: &Manager) -> Result<(), NameError> {
        if name.is_empty() {
            return Ok(());
        }
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let is_number = name.chars().all(|letter| letter.is_ascii_digit());
        if is_number || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(NameError::Form { found: name.chars().take(64).collect() });
        }
        let lives = |group: &GroupId| {
            manager.group(*group).is_some_and(|group| !matches!(group.state, GroupState::Failed(_)))
        };
        match self.named(name, tenant).find(|(group, _)| lives(group)) {
            Some((group, _)) => Err(NameError::Taken { name: name.into(), group }),
            None => Ok(()),
        }
    }

    /// A request is under way.
    pub(crate) fn ask(&mut self, request: RequestId, record: Record) {
        if !record.name.is_empty() {
            self.refused.retain(|refused| !refused.record.is(&record.name, &record.tenant));
        }
        self.pending.insert(request, record);
    }

    /// Nobody waits for it any more.
    pub(crate) fn drop_pending(&mut self, request: RequestId) -> Option<Record> {
        self.pending.remove(&request)
    }

    /// A group that an earlier manager made.
    pub(crate) fn restore(&mut self, group: GroupId, record: Record) {
        self.groups.insert(group, record);
    }

    /// The manager has a group for it.
    pub(crate) fn begin(&mut self, request: RequestId, group: GroupId, manager: &Manager) {
        let mut record = self.pending.remove(&request).unwrap_or_default();
        let summary = manager.group(group);
        record.lack = summary.and_then(|summary| summary.fallback).and_then(|lack| self.lack(&lack, manager));
        self.groups.insert(group, record);
        self.prune(manager);
    }

    /// The manager has none.
    pub(crate) fn refuse(&mut self, request: RequestId, error: &InitGroupError, manager: &Manager) {
        let Some(mut record) = self.pending.remove(&request) else { return };
        if let InitGroupError::NoRoom(lack) = error {
            record.lack = self.lack(lack, manager);
        }
        self.note_refusal(record, error.to_string());
    }

    /// Keeps why a request was refused, if anybody can ask for it by a name.
    pub(crate) fn note_refusal(&mut self, record: Record, reason: String) {
        if record.name.is_empty() {
            return;
        }
        if self.refused.len() == KEPT_REFUSALS {
            self.refused.pop_front();
        }
        self.refused.push_back(Refused { record, reason });
    }

    /// A group was made anew, and has another number.
    pub(crate) fn replace(&mut self, from: GroupId, group: GroupId) {
        let record = self.groups.remove(&from).unwrap_or_default();
        self.groups.insert(group, record);
    }

    pub(crate) fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    /// The last group of that name.
    pub(crate) fn find(&self, name: &str, tenant: &str) -> Option<GroupId> {
        self.named(name, tenant).last().map(|(group, _)| group)
    }

    /// The last request of that name that was refused, if no group has been made under it since.
    pub(crate) fn find_refused(&self, name: &str, tenant: &str) -> Option<&Refused> {
        self.refused.iter().rev().find(|refused| refused.record.is(name, tenant))
    }

    /// Requests that were refused, the oldest first.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.refused.iter()
    }

    /// Who holds what of a node, with their names.
    pub(crate) fn holders(&self, node: &str, manager: &Manager) -> Vec<Held> {
        let held = |(group, holding)| {
            let Record { name, tenant, .. } = self.groups.get(&group).cloned().unwrap_or_default();
            Held { group, holding, name, tenant }
        };
        manager.holdings(node).into_iter().map(held).collect()
    }

    fn named<'a>(&'a self, name: &'a str, tenant: &'a str) -> impl Iterator<Item = (GroupId, &'a Record)> {
        self.groups
            .iter()
            .filter(move |(_, record)| record.is(name, tenant))
            .map(|(&group, record)| (group, record))
    }

    fn lack(&self, lack: &Fallback, manager: &Manager) -> Option<Lack> {
        let switch = switch_of(lack)?.to_owned();
        Some(Lack { then: self.holders(&switch, manager), switch })
    }

    fn prune(&mut self, manager: &Manager) {
        if self.groups.len() > self.left + SLACK {
            let there: Vec<GroupId> = manager.groups().map(|group: GroupSummary| group.group).collect();
            self.groups.retain(|group, _| there.binary_search(group).is_ok());
            self.left = self.groups.len();
        }
    }
}

impl Record {
    /// Names are each tenant's own; an operator, who is none, finds all.
    fn is(&self, name: &str, tenant: &str) -> bool {
        self.name == name && (tenant.is_empty() || self.tenant == tenant)
    }
}

/// The switch that lacked something, if it was one.
pub(crate) fn switch_of(lack: &Fallback) -> Option<&str> {
    match lack {
        Fallback::SwitchMemory { switch, .. }
        | Fallback::SwitchEndpoints { switch, .. }
        | Fallback::FanIn { switch, .. }
        | Fallback::PortTaken { switch, .. } => Some(switch),
        Fallback::GroupQuota { .. }
        | Fallback::MemoryQuota { .. }
        | Fallback::Draining { .. }
        | Fallback::OtherVersion { .. }
        | Fallback::NoTree { .. } => None,
    }
}
