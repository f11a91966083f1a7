//! What a manager knows of the calls of a group.

use crate::GroupFailure;
use crate::calls::Call;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Numbers of which the first call is kept, the latest ones: more than any rank tells.
const NUMBERS: usize = 64;

/// What a manager knows of the calls of a group, and whom it has asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Inquiry {
    /// The latest calls of each rank, as it has told them last.
    pub(super) calls: BTreeMap<u16, Vec<Call>>,
    /// Ranks that are asked. While there are some, its timer is set.
    pub(super) asked: BTreeSet<u16>,
    /// Of each number the call that was told first: ranks are compared with that, and with each other only if one differs.
    pub(super) first: BTreeMap<u64, Call>,
    /// One differs.
    pub(super) differ: bool,
    /// The others have little time left.
    pub(super) is_hurried: bool,
    /// What the group is broken by if its ranks agree, and whether that is a corrupted result.
    pub(super) failure: Option<(GroupFailure, bool)>,
}

impl Inquiry {
    /// Compares these with the first of their numbers.
    pub(super) fn compare(&mut self, calls: &[Call]) {
        for call in calls {
            let first = self.first.entry(call.number).or_insert_with(|| call.clone());
            self.differ |= !first.agrees(call);
        }
        while self.first.len() > NUMBERS {
            self.first.pop_first();
        }
    }
}
