//! When ranks' contributions came to a switch: by one clock, who comes last and by how much.
//!
//! Kept of ranks that are connected with this switch, for collectives to which all of these contribute. What a group's engine says of an edge
//! is the beginning of a collective there ([`SwitchEvent::Begun`](quincunx_nodes::SwitchEvent::Begun)).

use quincunx_collective::GroupId;
use quincunx_control_grpc::{LATENESS_BOUNDS, RankArrivals};
use quincunx_design::{ConnectionContext, GroupContext, Peer};
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// Collectives of a group that some have begun and others have not; of older ones nobody waits any more.
const OPEN: usize = 64;

/// All groups of a core.
#[derive(Default)]
pub(super) struct Arrivals {
    groups: BTreeMap<GroupId, OfGroup>,
}

struct OfGroup {
    /// By edge, the index among ranks.
    places: Vec<Option<usize>>,
    open: VecDeque<Collective>,
    counts: Vec<RankArrivals>,
}

/// One that has begun.
struct Collective {
    number: u64,
    /// By rank, when it came.
    came: Vec<Option<Instant>>,
}

impl Arrivals {
    /// A group is installed, whose ranks here are the others' ends of these connections.
    pub(super) fn add(&mut self, context: &GroupContext) {
        self.groups.insert(context.group, OfGroup::new(&context.connections));
    }

    pub(super) fn remove(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    /// The neighbour on an edge has begun a collective.
    pub(super) fn note(&mut self, group: GroupId, edge: u16, number: u64, now: Instant) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.note(edge, number, now);
        }
    }

    /// What is known of a group's ranks here; nothing of one with a single rank, who is never late.
    pub(super) fn of(&self, group: GroupId) -> &[RankArrivals] {
        self.groups.get(&group).map_or(&[], |group| match &group.counts[..] {
            [_] => &[],
            counts => counts,
        })
    }

    /// The same of all groups.
    pub(super) fn all(&self) -> BTreeMap<GroupId, Vec<RankArrivals>> {
        let groups = self.groups.keys().map(|group| (*group, self.of(*group).to_vec()));
        groups.filter(|(_, counts)| !counts.is_empty()).collect()
    }
}

impl OfGroup {
    fn new(connections: &[ConnectionContext]) -> Self {
        let mut counts = Vec::new();
        let place = |connection: &ConnectionContext| match &connection.peer {
            Peer::Rank(rank) => {
                counts.push(RankArrivals { rank: rank.0, ..RankArrivals::default() });
                Some(counts.len() - 1)
            }
            Peer::Switch(_) => None,
        };
        Self { places: connections.iter().map(place).collect(), open: VecDeque::new(), counts }
    }

    fn note(&mut self, edge: u16, number: u64, now: Instant) {
        let Some(place) = self.places.get(usize::from(edge)).copied().flatten() else { return };
        let index = self.open.iter().position(|collective| collective.number == number);
        let index = index.unwrap_or_else(|| {
            if self.open.len() == OPEN {
                self.open.pop_front();
            }
            self.open.push_back(Collective { number, came: vec![None; self.counts.len()] });
            self.open.len() - 1
        });
        // What is sent again came before.
        self.open[index].came[place].get_or_insert(now);
        let came: Option<Vec<Instant>> = self.open[index].came.iter().copied().collect();
        if let Some(came) = came {
            self.open.remove(index);
            self.count(&came);
        }
    }

    /// All have come.
    fn count(&mut self, came: &[Instant]) {
        let (Some(first), Some(last)) = (came.iter().min(), came.iter().max()) else { return };
        // Frames that the kernel hands over together have come at one time: nobody of them is the last.
        let is_one = came.iter().filter(|at| *at == last).count() == 1;
        for (counts, at) in self.counts.iter_mut().zip(came) {
            let late = at.since(*first);
            counts.collectives += 1;
            counts.last += u64::from(at == last && is_one);
            counts.total += late;
            counts.longest = counts.longest.max(late);
            counts.buckets[bucket(late)] += 1;
        }
    }
}

/// The first bound that it does not pass.
fn bucket(late: Duration) -> usize {
    LATENESS_BOUNDS.iter().position(|bound| late <= *bound).unwrap_or(LATENESS_BOUNDS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(1);

    /// Two ranks and a switch above.
    fn arrivals() -> Arrivals {
        let counts = [0, 1].map(|rank| RankArrivals { rank, ..RankArrivals::default() }).to_vec();
        let group = OfGroup { places: vec![Some(0), Some(1), None], open: VecDeque::new(), counts };
        Arrivals { groups: [(GROUP, group)].into() }
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_rank_is_as_late_as_it_comes_after_the_first_when_all_have_come() {
        let mut arrivals = arrivals();
        arrivals.note(GROUP, 0, 1, at(100));
        assert_eq!(arrivals.of(GROUP)[0].collectives, 0, "nobody knows yet who is last");
        // The switch above is no rank, and what is sent again is not late.
        arrivals.note(GROUP, 2, 1, at(105));
        arrivals.note(GROUP, 0, 1, at(900));
        arrivals.note(GROUP, 1, 1, at(350));
        let [first, second] = [0, 1].map(|rank| arrivals.of(GROUP)[rank]);
        assert_eq!((first.collectives, first.last, first.longest), (1, 0, Duration::ZERO));
        assert_eq!(
            (second.last, second.total, second.longest),
            (1, Duration::from_micros(250), second.total)
        );
        assert_eq!((first.buckets[0], second.buckets.iter().sum::<u64>()), (1, 1));
        assert_eq!(second.buckets[bucket(Duration::from_micros(250))], 1);
    }

    #[test]
    fn collectives_that_overlap_are_told_apart_and_those_that_never_end_are_forgotten() {
        let mut arrivals = arrivals();
        for number in 0..200 {
            arrivals.note(GROUP, 0, number, at(number));
        }
        assert_eq!(arrivals.groups[&GROUP].open.len(), OPEN);
        arrivals.note(GROUP, 1, 199, at(200));
        arrivals.note(GROUP, 1, 198, at(201));
        arrivals.note(GROUP, 1, 3, at(202));
        assert_eq!(arrivals.of(GROUP)[1].collectives, 2);
    }

    #[test]
    fn whoever_comes_at_the_same_time_is_not_the_last() {
        let mut arrivals = arrivals();
        [0, 1].iter().for_each(|edge| arrivals.note(GROUP, *edge, 1, at(5)));
        assert_eq!(
            arrivals.of(GROUP).iter().map(|rank| (rank.collectives, rank.last)).collect::<Vec<_>>(),
            [(1, 0); 2]
        );
    }
}
