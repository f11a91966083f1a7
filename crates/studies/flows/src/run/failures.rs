//! What failures do to a run: jobs lose accelerators and begin an iteration again on others, groups lose trees and ways and go on by others.

use super::{Flow, Group, Halted, Run, TenancyError, Token, Turn, Until};
use crate::outages::Thing;
use quincunx_control::map::MapLink;
use quincunx_design::Contention;
use quincunx_driver_flow::LinkId;
use quincunx_units::Duration;

/// A job that has begun an iteration so often never ends it.
const MOST_TRIES: u32 = 1000;

impl Run<'_> {
    /// Something is whole from now on, and fails at its time.
    pub(super) fn expect_failure(&mut self, number: u32) {
        if let Some(after) = self.outages.time_to_failure(number) {
            self.simulation.set_timer(after, Token::Failed(number));
        }
    }

    pub(super) fn fail(&mut self, number: u32) -> Result<(), TenancyError> {
        let cluster = self.request.cluster;
        match self.outages.thing(number) {
            Thing::Link(_) => self.failed.links += 1,
            Thing::Switch(_) => self.failed.switches += 1,
            Thing::Server(_) => self.failed.servers += 1,
        }
        self.outages.set(cluster, number, true);
        self.ways.forget_distances();
        // Where there is not so much time left, at its end.
        let after = self.outages.time_to_repair(number).unwrap_or(Duration::from_picos(u64::MAX));
        self.simulation.set_timer(after, Token::Mended(number));
        let is_cut_off = |host: &u32| !self.outages.is_reached(cluster, *host);
        let broken: Vec<u32> = self
            .running
            .iter()
            .filter(|(_, job)| job.hosts.iter().any(is_cut_off))
            .map(|(number, _)| *number)
            .collect();
        // The first of them is the first again.
        for &number in broken.iter().rev() {
            self.break_off(number)?;
        }
        let numbers: Vec<u32> = self.running.keys().copied().collect();
        for number in numbers {
            let turn = self.turn(number);
            let mut job = self.running.remove(&number).expect("it runs");
            for (place, group) in (0..).zip(&mut job.groups) {
                self.leave_broken(turn, place, group);
                let carries = |link: &LinkId| self.outages.carries(MapLink(link.0 / 2));
                assert!(group.pinned.iter().all(carries), "nobody sends over what has failed");
            }
            self.running.insert(number, job);
        }
        self.admit()
    }

    /// A group whose tree or way leads over what has failed has neither from now on.
    fn leave_broken(&mut self, turn: Turn, place: u32, group: &mut Group) {
        let tree = group.tree.as_ref().filter(|_| group.has_place);
        let has_lost = tree.is_some_and(|tree| !tree.is_whole(&self.outages));
        let is_in_tree = group.holds;
        if has_lost {
            self.failed.trees += 1;
            self.release(turn.job, group);
            group.has_lost = true;
        }
        let carries = |link: &LinkId| self.outages.carries(MapLink(link.0 / 2));
        if if is_in_tree { !has_lost } else { group.pinned.iter().all(carries) } {
            return;
        }
        if let Some(bits) = self.stop(group) {
            self.failed.interrupted += 1;
            group.halted = Some(Halted { bits, until: Until::Recovered });
            let failures = self.request.tenancy.failures.expect("something has failed");
            self.simulation.set_timer(failures.recovery, Token::GoesOn(turn, place));
        }
    }

    /// Stops a group's collective, if there is one: what is left of its vector, in bits.
    fn stop(&mut self, group: &mut Group) -> Option<f64> {
        let Flow { id, bits, vector } = group.flow.take()?;
        let left = self.simulation.stop(id).expect("whose flow has ended has none") / bits;
        self.leave_links(group, 1.0 - left);
        Some(vector * left)
    }

    /// A job gives everything back, to begin its iteration again as the next one that has accelerators.
    fn break_off(&mut self, number: u32) -> Result<(), TenancyError> {
        let mut job = self.running.remove(&number).expect("it runs");
        for group in &mut job.groups {
            self.stop(group);
            self.release(number, group);
        }
        self.free.give_back(job.hosts);
        let outcome = &mut self.outcomes[number as usize];
        outcome.restarts += 1;
        outcome.lost += self.simulation.now().since(job.since);
        let planned = &mut self.planned[number as usize];
        planned.iterations = job.left;
        planned.tries += 1;
        if planned.tries == MOST_TRIES {
            return Err(TenancyError::NeverEnds { job: planned.name.clone(), times: MOST_TRIES });
        }
        self.queue.push_front(number);
        Ok(())
    }

    pub(super) fn mend(&mut self, number: u32) -> Result<(), TenancyError> {
        self.outages.set(self.request.cluster, number, false);
        self.ways.forget_distances();
        self.expect_failure(number);
        let waits =
            |group: &Group| group.halted.as_ref().is_some_and(|halted| halted.until == Until::Repaired);
        for (&number, job) in &self.running {
            let turn = Turn { job: number, turn: job.turn };
            for (place, _) in (0..).zip(&job.groups).filter(|(_, group)| waits(group)) {
                self.simulation.set_timer(Duration::ZERO, Token::GoesOn(turn, place));
            }
        }
        self.admit()
    }

    /// A collective that stood still goes on, in switches if there are some again.
    pub(super) fn go_on(&mut self, number: u32, place: u32) -> Result<(), TenancyError> {
        let turn = self.turn(number);
        let mut job = self.running.remove(&number).expect("it runs");
        let group = &mut job.groups[place as usize];
        match group.halted.take() {
            Some(Halted { bits, until: Until::Asked(asked) }) => {
                let latency = self.begin_collective(turn, place, group, bits, asked)?;
                job.latency = job.latency.max(latency);
            }
            // Stopped at its last bit.
            Some(Halted { bits: 0.0, .. }) => {
                self.simulation.set_timer(Duration::ZERO, Token::Done(turn, place))
            }
            // Whoever has waited for this waits for no locks.
            Some(Halted { bits, .. }) => {
                let latency = self.communicate(turn, place, group, bits, Contention::TRIES)?;
                job.latency = job.latency.max(latency);
            }
            None => {}
        }
        self.running.insert(number, job);
        Ok(())
    }
}
