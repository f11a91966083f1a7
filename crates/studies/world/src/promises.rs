//! What is promised, and whether it is kept: the checker hears every fact, and looks at the whole when all is to be well again.

use crate::fabric::Place;
use crate::facts::Fact;
use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_units::{Duration, Instant};
use quincunx_wire::QpNumber;
use std::collections::{BTreeMap, BTreeSet};

/// A promise that is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// When.
    pub at: Duration,
    /// What has happened instead, in a line.
    pub what: String,
}

/// What is promised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Promise {
    /// A result is right at every rank, to the bit.
    RightResults,
    /// Collectives end once each, in the order in which they were called.
    InOrder,
    /// Nobody is told of success alone: where a rank has a result that another will never have, somebody has died or was cut off.
    NoSuccessAlone,
    /// Memory and queue pairs of a switch are never given twice.
    GivenOnce,
    /// Nothing is lost: when all groups are over, nobody holds anything.
    NothingLeft,
    /// A group ends for what befalls it, and not for what befalls others.
    Untouched,
    /// Whoever waits has an answer by its deadline.
    Answered,
    /// When faults end, all is well again within a bound.
    WellAgain,
    /// No assertion fails in what ships.
    NoPanic,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::RightResults,
        Self::InOrder,
        Self::NoSuccessAlone,
        Self::GivenOnce,
        Self::NothingLeft,
        Self::Untouched,
        Self::Answered,
        Self::WellAgain,
        Self::NoPanic,
    ];

    /// Its name, as reports and replays have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RightResults => "right results",
            Self::InOrder => "in order",
            Self::NoSuccessAlone => "no success alone",
            Self::GivenOnce => "given once",
            Self::NothingLeft => "nothing left",
            Self::Untouched => "untouched",
            Self::Answered => "answered",
            Self::WellAgain => "well again",
            Self::NoPanic => "no panic",
        }
    }
}

/// What befalls machines: from when to when, and which; none: all.
#[derive(Clone, Debug)]
pub(crate) struct Disturbance {
    pub(crate) from: Instant,
    pub(crate) to: Option<Instant>,
    pub(crate) machines: Option<BTreeSet<String>>,
}

/// How long after a disturbance groups may end for it.
pub(crate) const AFTERMATH: Duration = Duration::from_secs(15);

/// The same where ranks go on: whoever gives a neighbour up for a disturbance has done so by then.
const LAST_TRIES: Duration = Duration::from_secs(4);

/// Whether that is what ranks hear that call different collectives: of the manager, or where a neighbour found it.
fn says_that_ranks_differ(reason: &str) -> bool {
    ["to call the same collective", "call the same on all ranks"].iter().any(|words| reason.contains(words))
}

#[derive(Clone, Debug, Default)]
struct Member {
    wants: u64,
    delivered: u64,
    /// It has heard that the group is over, or is done, or its process is gone.
    is_over: bool,
    has_failed: bool,
    is_gone: bool,
}

#[derive(Clone, Debug)]
struct GroupFacts {
    job: usize,
    since: Instant,
    members: BTreeMap<u16, Member>,
    /// The collective in which a rank calls something else than the others.
    mistaken: Option<u64>,
    /// The first process of the group that ended.
    is_known_lost: bool,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    violations: Vec<Violation>,
    groups: BTreeMap<GroupId, GroupFacts>,
    /// By switch: what each group has there.
    memory: BTreeMap<Place, BTreeMap<GroupId, (Region, BTreeSet<QpNumber>)>>,
    disturbances: Vec<Disturbance>,
    ended: BTreeSet<GroupId>,
    /// Names of the hosts of each job.
    jobs: Vec<BTreeSet<String>>,
    /// Rounds that each job has run to their end, and the last one's time.
    rounds: BTreeMap<usize, (u64, Instant)>,
    as_asked: BTreeMap<usize, (u64, Instant)>,
    /// No sender gives a neighbour up for the weather.
    is_fair: bool,
    /// Names of all switches.
    switches: BTreeSet<String>,
}

impl Checker {
    pub(crate) fn new(jobs: Vec<BTreeSet<String>>, switches: BTreeSet<String>, is_fair: bool) -> Self {
        Self { jobs, switches, is_fair, ..Self::default() }
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(crate) fn violate(&mut self, promise: Promise, at: Instant, what: impl Into<String>) {
        self.violations.push(Violation { promise, at: at.since(Instant::ZERO), what: what.into() });
    }

    pub(crate) fn disturb(&mut self, from: Instant, to: Option<Instant>, machines: Option<BTreeSet<String>>) {
        self.disturbances.push(Disturbance { from, to, machines });
    }

    /// Rounds that a job has run to their end since then.
    pub(crate) fn rounds_since(&self, job: usize, since: Instant) -> u64 {
        self.rounds.get(&job).map_or(0, |(count, last)| if *last >= since { *count } else { 0 })
    }

    /// Whether a job has had a group as it had asked for it since then.
    pub(crate) fn was_as_asked(&self, job: usize, since: Instant) -> bool {
        self.as_asked.get(&job).is_some_and(|(_, last)| *last >= since)
    }

    /// Whether one of these machines was disturbed in that time, or so long before; none: whether anything had befallen anybody.
    fn was_disturbed(
        &self,
        machines: Option<&BTreeSet<String>>,
        [since, now]: [Instant; 2],
        before: Duration,
    ) -> bool {
        self.disturbances.iter().any(|disturbance| {
            let begins = disturbance.from <= now;
            let ends = disturbance.to.is_none_or(|to| to + before >= since);
            let meets =
                |of: &BTreeSet<String>| disturbance.machines.as_ref().is_none_or(|own| !own.is_disjoint(of));
            begins && ends && machines.is_none_or(meets)
        })
    }

    /// The hosts of a job, and all switches.
    fn reached_by(&self, job: usize) -> BTreeSet<String> {
        self.jobs[job].union(&self.switches).cloned().collect()
    }

    /// The process on a machine is gone: what it was in it does not hear the end of.
    pub(crate) fn lose(&mut self, job: usize, rank: u16) {
        for group in self.groups.values_mut().filter(|group| group.job == job) {
            if let Some(member) = group.members.get_mut(&rank).filter(|member| !member.is_over) {
                (member.is_over, member.is_gone) = (true, true);
                group.is_known_lost = true;
            }
        }
    }

    /// A switch has lost its memory.
    pub(crate) fn lose_switch(&mut self, place: Place) {
        self.memory.remove(&place);
    }

    /// A process says something.
    pub(crate) fn hear(&mut self, now: Instant, place: Place, name: &str, fact: &Fact) {
        match fact {
            Fact::Joined { job, group, rank, wants, mistaken } => {
                let entry = self.groups.entry(*group).or_insert_with(|| GroupFacts {
                    job: *job,
                    since: now,
                    members: BTreeMap::new(),
                    mistaken: None,
                    is_known_lost: false,
                });
                if entry.job != *job {
                    let what = format!("group {group} has ranks of jobs {job} and {}", entry.job);
                    return self.violate(Promise::Untouched, now, what);
                }
                entry.members.insert(*rank, Member { wants: *wants, ..Member::default() });
                entry.mistaken = entry.mistaken.or(*mistaken);
            }
            Fact::Delivered { group, rank, number, wrong } => {
                if *wrong > 0 {
                    let what =
                        format!("{name}: {wrong} elements of collective {number} in group {group} are wrong");
                    self.violate(Promise::RightResults, now, what);
                }
                let entry = self.groups.get_mut(group);
                if let Some(mistaken) = entry.as_ref().and_then(|entry| entry.mistaken)
                    && *number >= mistaken
                {
                    let what = format!(
                        "{name} has the result of collective {number} in group {group}, where ranks call different ones at {mistaken}"
                    );
                    return self.violate(Promise::RightResults, now, what);
                }
                let Some(member) = entry.and_then(|entry| entry.members.get_mut(rank)) else {
                    let what = format!("{name} has a result in group {group}, which it is not in");
                    return self.violate(Promise::InOrder, now, what);
                };
                if member.is_over || member.delivered + 1 != *number {
                    let what = format!(
                        "{name} has the result of collective {number} in group {group} after {} of them",
                        member.delivered
                    );
                    self.violate(Promise::InOrder, now, what);
                } else {
                    member.delivered = *number;
                }
            }
            Fact::Ended { group, rank, reason, is_late } => {
                let Some(entry) = self.groups.get_mut(group) else { return };
                let since = entry.since;
                let machines = self.jobs[entry.job].clone();
                if let Some(member) = entry.members.get_mut(rank) {
                    (member.is_over, member.has_failed) = (true, true);
                }
                if *is_late && !self.was_disturbed(Some(&machines), [since, now], AFTERMATH) {
                    let what = format!(
                        "{name} has waited in group {group} until its deadline, and nothing had befallen it"
                    );
                    self.violate(Promise::Answered, now, what);
                }
                let machines = self.reached_by(self.groups[group].job);
                let says_so = says_that_ranks_differ(reason);
                let is_mistaken = self.groups[group].mistaken.is_some();
                // A manager that is away asks no rank what it has called.
                let is_told = says_so || self.was_disturbed(None, [since, now], AFTERMATH);
                if self.is_fair
                    && !(is_mistaken && is_told)
                    && !self.was_disturbed(Some(&machines), [since, now], AFTERMATH)
                {
                    let why = if is_mistaken {
                        "ranks call different collectives"
                    } else {
                        "nothing had befallen it"
                    };
                    let what = format!("{name} hears that group {group} is over, and {why}: {reason}");
                    self.violate(Promise::Untouched, now, what);
                }
                if says_so && !is_mistaken {
                    let what = format!("ranks call the same, and {name} hears otherwise: {reason}");
                    self.violate(Promise::RightResults, now, what);
                }
            }
            Fact::Released { group, rank } => {
                let Some(entry) = self.groups.get_mut(group) else { return };
                if let Some(member) = entry.members.get_mut(rank) {
                    member.is_over = true;
                }
                let are_done = entry.members.values().all(|member| member.delivered == member.wants);
                if are_done && entry.members.len() == self.jobs[entry.job].len() {
                    let (count, last) = self.rounds.entry(entry.job).or_insert((0, now));
                    (*count, *last) = (*count + 1, now);
                }
            }
            Fact::Made { job, fallback: None, .. } => {
                let (count, last) = self.as_asked.entry(*job).or_insert((0, now));
                (*count, *last) = (*count + 1, now);
            }
            Fact::Installed { group, region, queue_pairs } => {
                let held = self.memory.entry(place).or_default();
                let clash = held.iter().find(|(_, (other, pairs))| {
                    let overlaps =
                        region.length.bytes() > 0 && other.length.bytes() > 0 && other.overlaps(region);
                    overlaps || !pairs.is_disjoint(queue_pairs)
                });
                let clash = clash.map(|(other, _)| *other);
                held.insert(*group, (*region, queue_pairs.clone()));
                if let Some(other) = clash {
                    let what = format!("{name} has groups {group} and {other} in one place");
                    self.violate(Promise::GivenOnce, now, what);
                }
            }
            Fact::Moved { block: MovedBlock { from, to } } => {
                let held = self.memory.entry(place).or_default();
                let moved = Region { offset: *to, ..*from };
                let is_inside = |part: &Region| {
                    part.offset >= from.offset && part.offset + part.length <= from.offset + from.length
                };
                let clashes = |(_, (part, _)): &(&GroupId, &(Region, BTreeSet<QpNumber>))| {
                    part.length.bytes() > 0 && !is_inside(part) && part.overlaps(&moved)
                };
                let clash = held.iter().find(clashes).map(|(other, _)| *other);
                for (part, _) in held.values_mut().filter(|(part, _)| is_inside(part)) {
                    part.offset = *to + (part.offset - from.offset);
                }
                if let Some(other) = clash {
                    let what = format!("{name} moves memory to where group {other} is");
                    self.violate(Promise::GivenOnce, now, what);
                }
            }
            Fact::Removed { group } => {
                if let Some(held) = self.memory.get_mut(&place) {
                    held.remove(group);
                }
            }
            Fact::GroupEnded { group, nodes, reason, .. } => {
                let is_news = self.ended.insert(*group);
                let is_mistaken = says_that_ranks_differ(reason)
                    && self
                        .groups
                        .values()
                        .any(|own| own.mistaken.is_some() && self.jobs[own.job].is_subset(nodes));
                if is_news && !is_mistaken && !self.was_disturbed(Some(nodes), [now, now], AFTERMATH) {
                    let what = format!("group {group} ends, and nothing had befallen it: {reason}");
                    self.violate(Promise::Untouched, now, what);
                }
            }
            Fact::Recreated { group, reason, .. } => {
                let Some(entry) = self.groups.get(group) else { return };
                let machines = self.reached_by(entry.job);
                if self.is_fair && !self.was_disturbed(Some(&machines), [now, now], LAST_TRIES) {
                    let what = format!(
                        "{name} goes on in group {group}, made anew, and nothing had befallen it: {reason}"
                    );
                    self.violate(Promise::Untouched, now, what);
                }
            }
            Fact::Asked { .. }
            | Fact::Made { .. }
            | Fact::NotMade { .. }
            | Fact::Serves { .. }
            | Fact::Met(_) => {}
        }
    }

    /// All is to be well again: nobody waits for a group any more, and whoever has a result has not got it alone.
    pub(crate) fn judge(&mut self, now: Instant) {
        let mut found = Vec::new();
        for (id, group) in &self.groups {
            for (rank, _) in group.members.iter().filter(|(_, member)| !member.is_over) {
                let what =
                    format!("rank {rank} of job {} is in group {id} still, which nobody ends", group.job);
                found.push((Promise::Answered, what));
            }
            let most = group.members.values().map(|member| member.delivered).max().unwrap_or(0);
            let lacks = group.members.iter().find(|(_, member)| member.has_failed && member.delivered < most);
            let alone = group
                .members
                .iter()
                .find(|(_, member)| member.delivered == member.wants && !member.has_failed);
            if let (Some((without, _)), Some((with, _))) = (lacks, alone)
                && !group.is_known_lost
                && !self.was_disturbed(Some(&self.jobs[group.job]), [group.since, now], AFTERMATH)
            {
                let what = format!(
                    "rank {with} of job {} has all results of group {id}, rank {without} has an error",
                    group.job
                );
                found.push((Promise::NoSuccessAlone, what));
            }
        }
        for (promise, what) in found {
            self.violate(promise, now, what);
        }
    }

    /// Groups that switches have.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = (Place, GroupId)> {
        self.memory.iter().flat_map(|(place, held)| held.keys().map(|group| (*place, *group)))
    }
}
