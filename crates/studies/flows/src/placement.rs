//! Which accelerators jobs get (EPIC G, figure 19): the free ones, and which of them the next job has.

use crate::fabric::Cluster;
use quincunx_collective::SplitMix64;
use quincunx_control::map::MapNode;
use quincunx_scenario::{JobPlacement, ScaleUp, Tenancy};
use std::collections::{BTreeMap, BTreeSet};

/// Accelerators without a job; some may be out of order.
#[derive(Clone, Debug)]
pub(crate) struct Free {
    placement: JobPlacement,
    free: BTreeSet<u32>,
    parts: Parts,
    random: SplitMix64,
}

/// The streams of what fails have others.
const STREAM: u64 = 4 << 56;

impl Free {
    /// All of a cluster's.
    pub(crate) fn all(cluster: &Cluster, tenancy: &Tenancy, seed: u64) -> Self {
        let placement = tenancy.placement;
        let parts = match placement {
            JobPlacement::Packed | JobPlacement::Random => Parts::default(),
            JobPlacement::Nearest | JobPlacement::Spread => Parts::of(cluster, tenancy.scale_up),
        };
        Self {
            placement,
            free: (0..cluster.hosts()).collect(),
            parts,
            random: SplitMix64::new(seed ^ STREAM),
        }
    }

    /// A job's, by rank, which are not free any more; `neighbours` share layers. None if there are too few that can be reached.
    pub(crate) fn take(
        &mut self,
        wanted: u32,
        neighbours: u32,
        is_reached: &dyn Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        if (self.free.len() as u32) < wanted {
            return None;
        }
        let (wanted, neighbours) = (wanted as usize, neighbours as usize);
        let free = self.free.iter().copied().filter(|&host| is_reached(host));
        let all = || {
            let all: Vec<u32> = free.clone().collect();
            (all.len() >= wanted).then_some(all)
        };
        let hosts = match self.placement {
            JobPlacement::Packed => packed(free.clone(), wanted, neighbours)?,
            JobPlacement::Nearest => self.parts.nearest(&all()?, wanted, neighbours),
            JobPlacement::Spread => self.parts.spread(&all()?, wanted),
            JobPlacement::Random => shuffled(all()?, wanted, &mut self.random),
        };
        assert_eq!(hosts.len(), wanted, "a job gets as many as it wants");
        for host in &hosts {
            assert!(self.free.remove(host), "nobody gets what is somebody else's");
        }
        Some(hosts)
    }

    pub(crate) fn give_back(&mut self, hosts: Vec<u32>) {
        self.free.extend(hosts);
    }
}

/// The first in a row, or else the first; a row begins where neighbours do. None if there are too few.
fn packed(free: impl Iterator<Item = u32> + Clone, wanted: usize, neighbours: usize) -> Option<Vec<u32>> {
    let mut row: Vec<u32> = Vec::new();
    for host in free.clone() {
        if row.last().is_some_and(|&last| last + 1 != host) {
            row.clear();
        }
        if row.is_empty() && !host.is_multiple_of(neighbours as u32) {
            continue;
        }
        row.push(host);
        if row.len() == wanted {
            return Some(row);
        }
    }
    let first: Vec<u32> = free.take(wanted).collect();
    (first.len() == wanted).then_some(first)
}

fn shuffled(mut free: Vec<u32>, wanted: usize, random: &mut SplitMix64) -> Vec<u32> {
    for place in 0..wanted {
        let others = (free.len() - place) as u64;
        free.swap(place, place + (random.draw() % others) as usize);
    }
    free.truncate(wanted);
    free
}

/// Parts of a network, each within one of the level above: servers, if there are any; accelerators that a switch joins; those whose switches
/// one joins, and so on up to all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Parts {
    /// By level, from the smallest parts on, and by accelerator: the number of its part, which is that of its first accelerator.
    levels: Vec<Vec<u32>>,
}

impl Parts {
    fn of(cluster: &Cluster, servers: Option<ScaleUp>) -> Self {
        let map = cluster.map();
        let mut levels = Vec::new();
        let of_server = |host: u32, members: u32| host / members * members;
        if let Some(ScaleUp { members, .. }) = servers {
            levels.push((0..cluster.hosts()).map(|host| of_server(host, members.into())).collect());
        }
        // Each accelerator is a part, and spreads over one link in each round. Parts that meet are one.
        let mut joined = Joined((0..cluster.hosts()).collect());
        if let Some(servers) = levels.first() {
            (0..).zip(servers).for_each(|(host, &first): (u32, &u32)| joined.join(host, first));
        }
        let mut reached: Vec<Option<u32>> = vec![None; map.size()];
        let mut edge: Vec<MapNode> = Vec::new();
        for host in 0..cluster.hosts() {
            reached[cluster.host(host).0 as usize] = Some(host);
            edge.push(cluster.host(host));
        }
        while !edge.is_empty() {
            let mut next = Vec::new();
            for node in edge {
                let own = reached[node.0 as usize].expect("what spreads has been reached");
                for &(_, to) in map.ports(node) {
                    match reached[to.0 as usize] {
                        Some(other) => joined.join(own, other),
                        None => {
                            reached[to.0 as usize] = Some(own);
                            next.push(to);
                        }
                    }
                }
            }
            let level: Vec<u32> = (0..cluster.hosts()).map(|host| joined.first(host)).collect();
            if levels.last() != Some(&level) {
                levels.push(level);
            }
            edge = next;
        }
        Self { levels }
    }

    /// These accelerators by their part of a level.
    fn split(&self, hosts: &[u32], level: usize) -> Vec<Vec<u32>> {
        let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &host in hosts {
            parts.entry(self.levels[level][host as usize]).or_default().push(host);
        }
        parts.into_values().collect()
    }

    /// For how many accelerators there is room among these of one part of a level, if neighbours are in one of the smallest parts.
    fn room(&self, hosts: &[u32], level: usize, neighbours: usize) -> usize {
        match level.checked_sub(1) {
            None => hosts.len() / neighbours * neighbours,
            Some(below) => {
                self.split(hosts, below).iter().map(|part| self.room(part, below, neighbours)).sum()
            }
        }
    }

    /// The smallest part with room for all, with neighbours together if that can be; of equal ones the one with the least left.
    fn nearest(&self, free: &[u32], wanted: usize, neighbours: usize) -> Vec<u32> {
        for neighbours in [neighbours, 1] {
            for level in 0..self.levels.len() {
                let mut parts = self.split(free, level);
                let room = |part: &Vec<u32>| self.room(part, level, neighbours);
                parts.retain(|part| room(part) >= wanted);
                if let Some(part) = parts.iter().min_by_key(|part| room(part)) {
                    return self.fill(part, level, wanted, neighbours);
                }
            }
        }
        unreachable!("there are as many as are wanted, and all are one part")
    }

    /// So many of a part of a level that has room for them, out of as few parts below it as can be.
    fn fill(&self, part: &[u32], level: usize, wanted: usize, neighbours: usize) -> Vec<u32> {
        let Some(below) = level.checked_sub(1) else { return part[..wanted].to_vec() };
        let mut parts: Vec<(usize, Vec<u32>)> = self
            .split(part, below)
            .into_iter()
            .map(|part| (self.room(&part, below, neighbours), part))
            .collect();
        // The roomiest first; of equal ones in the order of their accelerators.
        parts.sort_by_key(|(room, _)| std::cmp::Reverse(*room));
        let mut taken = Vec::new();
        while taken.len() < wanted {
            let left = wanted - taken.len();
            // What is left goes where the least is left over.
            let enough = (0..parts.len()).filter(|&place| parts[place].0 >= left);
            let place = enough.min_by_key(|&place| parts[place].0).unwrap_or(0);
            let (room, part) = parts.remove(place);
            taken.extend(self.fill(&part, below, room.min(left), neighbours));
        }
        taken
    }

    /// One of each of the smallest parts in turn.
    fn spread(&self, free: &[u32], wanted: usize) -> Vec<u32> {
        let parts = self.split(free, 0);
        let most = parts.iter().map(Vec::len).max().unwrap_or(0);
        (0..most)
            .flat_map(|turn| parts.iter().filter_map(move |part| part.get(turn).copied()))
            .take(wanted)
            .collect()
    }
}

/// Numbers that are joined with others; each knows one of its own that is not above it.
struct Joined(Vec<u32>);

impl Joined {
    /// The first of those joined with a number.
    fn first(&mut self, number: u32) -> u32 {
        let mut at = number;
        while self.0[at as usize] != at {
            let above = self.0[at as usize];
            self.0[at as usize] = self.0[above as usize];
            at = above;
        }
        at
    }

    fn join(&mut self, one: u32, other: u32) {
        let [one, other] = [self.first(one), self.first(other)];
        self.0[one.max(other) as usize] = one.min(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quincunx_scenario::TenancyLink;

    /// Two pods of two leaves with four hosts each.
    const CLOS: &str = "clos-2x2x4x2x1";

    fn cluster(shape: &str) -> Cluster {
        let link = TenancyLink { rate: "100Gbit/s".parse().unwrap(), latency: "1us".parse().unwrap() };
        Cluster::new(shape, &link).unwrap()
    }

    fn free(placement: JobPlacement) -> Free {
        free_of(CLOS, placement)
    }

    fn free_of(shape: &str, placement: JobPlacement) -> Free {
        let tenancy = Tenancy { placement, ..Tenancy::find("epic-128", &[]).unwrap() };
        Free::all(&cluster(shape), &tenancy, 1)
    }

    fn taken(free: &mut Free, wanted: u32, neighbours: u32) -> Vec<u32> {
        free.take(wanted, neighbours, &|_| true).unwrap()
    }

    #[test]
    fn parts_are_those_of_a_switch_of_a_pod_and_all() {
        let Parts { levels } = Parts::of(&cluster(CLOS), None);
        let each = |members: u32| (0..16).map(|host| host / members * members).collect::<Vec<u32>>();
        assert_eq!(levels, [each(4), each(8), each(16)]);
        let of = |members| {
            let servers = ScaleUp { members, rate: "1Tbit/s".parse().unwrap() };
            Parts::of(&cluster(CLOS), Some(servers)).levels
        };
        assert_eq!(of(2), [each(2), each(4), each(8), each(16)]);
        assert_eq!(of(8), [each(8), each(16)], "servers join the switches that they are at");
    }

    #[test]
    fn a_packed_job_has_the_first_row() {
        let mut free = free(JobPlacement::Packed);
        assert_eq!(taken(&mut free, 2, 2), [0, 1]);
        assert_eq!(taken(&mut free, 4, 4), [4, 5, 6, 7]);
        assert_eq!(taken(&mut free, 2, 1), [2, 3]);
    }

    #[test]
    fn a_near_job_has_the_smallest_part_that_it_fits_and_of_equal_ones_the_fullest() {
        let mut free = free(JobPlacement::Nearest);
        assert_eq!(taken(&mut free, 3, 1), [0, 1, 2]);
        // The first leaf has one left, and none has less room for two than the second.
        assert_eq!(taken(&mut free, 2, 1), [4, 5]);
        assert_eq!(taken(&mut free, 2, 1), [6, 7], "the leaf that has been begun");
        assert_eq!(taken(&mut free, 1, 1), [3], "the one that is left");
        // Only the other pod has room for these.
        assert_eq!(taken(&mut free, 6, 2), [8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn neighbours_of_a_near_job_are_together() {
        let mut free = free(JobPlacement::Nearest);
        assert_eq!(taken(&mut free, 3, 1), [0, 1, 2]);
        assert_eq!(taken(&mut free, 3, 1), [4, 5, 6]);
        // Two single ones are left in this pod, but these two share layers.
        assert_eq!(taken(&mut free, 2, 2), [8, 9]);
        assert_eq!(taken(&mut free, 6, 2), [12, 13, 14, 15, 10, 11]);
        assert_eq!(taken(&mut free, 2, 2), [3, 7], "if there are no others");
    }

    #[test]
    fn what_is_left_of_a_near_job_goes_where_the_least_is_left_over() {
        let mut free = free_of("clos-1x3x4x2x1", JobPlacement::Nearest);
        assert_eq!(taken(&mut free, 3, 1), [0, 1, 2]);
        assert_eq!(taken(&mut free, 5, 1), [4, 5, 6, 7, 3]);
    }

    #[test]
    fn neighbours_of_a_near_job_are_not_parted_where_an_odd_one_is_left() {
        for (wanted, hosts) in [(4, &[1, 2, 5, 6][..]), (6, &[1, 2, 5, 6, 9, 10])] {
            let mut free = free_of("clos-1x3x4x2x1", JobPlacement::Nearest);
            assert_eq!(free.take(wanted, 2, &|host| host % 4 != 0).unwrap(), hosts);
        }
    }

    #[test]
    fn a_spread_job_has_one_of_each_switch_in_turn() {
        let mut free = free(JobPlacement::Spread);
        assert_eq!(taken(&mut free, 6, 2), [0, 4, 8, 12, 1, 5]);
        assert_eq!(taken(&mut free, 3, 1), [2, 6, 9]);
    }

    #[test]
    fn a_seed_decides_on_jobs_by_chance() {
        let seen = |seed| {
            let tenancy =
                Tenancy { placement: JobPlacement::Random, ..Tenancy::find("epic-128", &[]).unwrap() };
            taken(&mut Free::all(&cluster(CLOS), &tenancy, seed), 8, 1)
        };
        assert_eq!(seen(1), seen(1));
        assert_ne!(seen(1), seen(2));
    }

    #[test]
    fn who_is_not_reached_has_no_job() {
        for placement in JobPlacement::ALL {
            let mut free = free(placement);
            let hosts = free.take(15, 1, &|host| host != 5).unwrap();
            assert!(!hosts.contains(&5), "{placement:?}");
            assert_eq!(free.take(1, 1, &|host| host != 5), None, "{placement:?}");
        }
    }

    proptest! {
        #[test]
        fn whoever_wants_no_more_than_is_free_has_it(
            placement in 0..4_usize,
            jobs in prop::collection::vec((1..=8_u32, 0..3_u32, any::<bool>()), 1..40),
        ) {
            let mut free = free(JobPlacement::ALL[placement]);
            let mut left: BTreeSet<u32> = (0..16).collect();
            let mut running: Vec<Vec<u32>> = Vec::new();
            for (groups, neighbours, ends) in jobs {
                let neighbours = 1 << neighbours;
                let wanted = groups * neighbours;
                let hosts = free.take(wanted, neighbours, &|_| true);
                prop_assert_eq!(hosts.is_some(), wanted as usize <= left.len());
                if let Some(hosts) = hosts {
                    prop_assert!(hosts.iter().all(|host| left.remove(host)));
                    running.push(hosts);
                }
                if ends && !running.is_empty() {
                    let hosts = running.remove(0);
                    left.extend(&hosts);
                    free.give_back(hosts);
                }
            }
        }
    }
}
