//! Ranks that are left of groups that have lost one: as long as one of them is there, whoever takes the lost one's name is told that
//! its job is over.

use quincunx_collective::GroupId;
use std::collections::{BTreeMap, BTreeSet};

/// By the name of the host that was lost: its group, and those others of it that have been there ever since. Never empty ones.
#[derive(Debug, Default)]
pub(crate) struct Bereaved(BTreeMap<String, (GroupId, BTreeSet<String>)>);

/// Why a host cannot attach.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a job that goes on for \"{name}\", found it over: group {group} lost a rank of this name, and \"{other}\" is left of it; end all of \
     its ranks, then start them together"
)]
pub(crate) struct JobOver {
    name: String,
    group: GroupId,
    other: String,
}

impl Bereaved {
    /// A host is lost, and these others of its group are there.
    pub(crate) fn note(&mut self, lost: &str, group: GroupId, others: impl Iterator<Item = String>) {
        let others: BTreeSet<String> = others.filter(|other| other != lost).collect();
        if !others.is_empty() {
            self.0.insert(lost.to_owned(), (group, others));
        }
    }

    /// A node is gone: it is left no more.
    pub(crate) fn leave(&mut self, node: &str) {
        self.0.retain(|_, (_, others)| {
            others.remove(node);
            !others.is_empty()
        });
    }

    /// Whether a host of that name has a job that is over.
    pub(crate) fn find(&self, name: &str) -> Option<JobOver> {
        let (group, others) = self.0.get(name)?;
        Some(JobOver { name: name.to_owned(), group: *group, other: others.first()?.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_the_last_of_those_who_are_left_is_gone() {
        let mut bereaved = Bereaved::default();
        bereaved.note("1", GroupId(3), ["0", "1", "2"].map(String::from).into_iter());
        let over = bereaved.find("1").unwrap().to_string();
        assert!(over.contains("group 3 lost a rank of this name, and \"0\" is left of it"), "{over}");
        assert_eq!(bereaved.find("0"), None);
        bereaved.leave("0");
        assert!(bereaved.find("1").is_some());
        bereaved.leave("2");
        assert_eq!(bereaved.find("1"), None);
    }

    #[test]
    fn nobody_is_left_of_a_group_of_one() {
        let mut bereaved = Bereaved::default();
        bereaved.note("1", GroupId(3), ["1".to_owned()].into_iter());
        assert_eq!(bereaved.find("1"), None);
    }
}
