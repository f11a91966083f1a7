//! How a run ends. When faults are over each job must run a whole round again within a bound; then each in turn must get a group as it
//! asks for, in switches, and run one more; then nothing may be left over.

use super::{Event, World};
use crate::fabric::{Kind, Place};
use crate::machine::Process;
use crate::phase::Phase;
use crate::promises::Promise;
use quincunx_units::Duration;

/// Within this time after the last fault each job has run a round.
pub(crate) const WELL_AGAIN: Duration = Duration::from_secs(90);

/// Within this time a job that begins nothing more is at its end.
const DRAINED: Duration = Duration::from_secs(70);

/// Within this time a job that is alone has had a group as it had asked for, and has run a round there.
const ALONE: Duration = Duration::from_secs(40);

/// Within this time after the last group's end nobody has anything of it.
const FORGOTTEN: Duration = Duration::from_secs(8);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);

impl World {
    /// Faults are over.
    pub(super) fn calm(&mut self) {
        let active: Vec<usize> = self.active.iter().copied().collect();
        active.into_iter().for_each(|number| self.turn_fault(number, false));
        self.is_calm = true;
        self.ranks().for_each(|rank| rank.application.is_calm = true);
        self.waiting.clear();
        self.torn = None;
        self.phase = Phase::Recovers(self.now);
        self.tell(None, || "faults are over".to_owned());
        self.push(LOOK, Event::Phase);
    }

    /// Looks whether the next phase begins.
    pub(super) fn go_on(&mut self) {
        self.phase = match self.phase {
            Phase::Recovers(since) => {
                let idle = (0..self.jobs.len()).find(|job| self.checker.rounds_since(*job, since) == 0);
                let lacks = match (idle, self.away()) {
                    (Some(job), _) => Some(format!("job {job} has run no round")),
                    (None, Some(node)) => Some(format!("{node} is not attached")),
                    (None, None) => None,
                };
                match lacks {
                    None => self.drain_jobs(),
                    Some(lack) if self.now >= since + WELL_AGAIN => {
                        let what = format!("{lack} within {WELL_AGAIN} after the last fault");
                        self.checker.violate(Promise::WellAgain, self.now, what);
                        Phase::Over
                    }
                    Some(_) => self.phase,
                }
            }
            Phase::Drains(since) => match self.is_idle() {
                true => self.let_run(0),
                false if self.now >= since + DRAINED => {
                    let what =
                        format!("a job that begins nothing more has not come to its end within {DRAINED}");
                    self.checker.violate(Promise::Answered, self.now, what);
                    Phase::Over
                }
                false => self.phase,
            },
            Phase::Alone(job, since) => {
                let has_run = self.checker.rounds_since(job, since) > 0 && self.is_idle();
                match has_run && self.checker.was_as_asked(job, since) {
                    true => self.let_run(job + 1),
                    false if self.now >= since + ALONE => {
                        let what = format!(
                            "job {job}, alone, has had no group as it had asked for it, and run a round there, within {ALONE}"
                        );
                        self.checker.violate(Promise::WellAgain, self.now, what);
                        Phase::Over
                    }
                    false => {
                        // The manager may just not have heard of all links: it asks again.
                        if self.is_idle() {
                            self.ask_once(job);
                        }
                        self.phase
                    }
                }
            }
            Phase::Forgets(since) if self.now >= since + FORGOTTEN => {
                self.look_for_leftovers();
                self.checker.judge(self.now);
                Phase::Over
            }
            phase => phase,
        };
        if self.phase != Phase::Over {
            self.push(LOOK, Event::Phase);
        }
    }

    fn ranks(&mut self) -> impl Iterator<Item = &mut crate::rank::RankProcess> {
        self.machines.iter_mut().filter_map(|machine| match &mut machine.process {
            Some(Process::Rank(rank)) => Some(&mut **rank),
            _ => None,
        })
    }

    fn is_idle(&mut self) -> bool {
        self.ranks().all(|rank| rank.is_idle())
    }

    /// A node that no manager that serves knows.
    fn away(&self) -> Option<String> {
        let serving = self.machines.iter().find_map(|machine| match &machine.process {
            Some(Process::Manager(manager)) if manager.serves() => Some(manager.manager()),
            _ => None,
        });
        let Some(manager) = serving else { return Some("a manager that serves".to_owned()) };
        let is_known = |name: &str| manager.nodes().any(|node| node.name == name);
        let runs = |place: Place, kind: Kind| match kind {
            Kind::Host(_) => self.jobs.iter().any(|job| job.hosts.contains(&place)),
            Kind::Switch(_) => true,
            Kind::Manager(_) | Kind::Store => false,
        };
        let mut nodes = self.fabric.places().filter(|(place, kind)| runs(*place, *kind));
        nodes
            .find(|(place, _)| !is_known(self.fabric.name(*place)))
            .map(|(place, _)| self.fabric.name(place).to_owned())
    }

    fn drain_jobs(&mut self) -> Phase {
        self.ranks().for_each(|rank| rank.application.is_closing = true);
        self.tell(None, || "all jobs have run a round; they begin no other".to_owned());
        Phase::Drains(self.now)
    }

    /// The next job runs alone, or all have.
    fn let_run(&mut self, job: usize) -> Phase {
        if job == self.jobs.len() {
            return Phase::Forgets(self.now);
        }
        self.tell(None, || format!("job {job} runs alone"));
        self.ask_once(job);
        Phase::Alone(job, self.now)
    }

    fn ask_once(&mut self, job: usize) {
        self.ranks()
            .filter(|rank| rank.application.job == job)
            .for_each(|rank| rank.application.last_rounds = 1);
    }

    /// All groups are over: nobody has anything of one.
    fn look_for_leftovers(&mut self) {
        let mut left = Vec::new();
        let places: Vec<(Place, Kind)> = self.fabric.places().collect();
        let mut serving = 0;
        for (place, _) in places {
            let name = self.fabric.name(place).to_owned();
            match &mut self.machines[place].process {
                Some(Process::Manager(manager)) if manager.serves() => {
                    serving += 1;
                    left.extend(manager.leftovers());
                }
                Some(Process::Switch(switch)) => {
                    let (groups, held, bytes) = switch.held();
                    if groups + held + bytes > 0 {
                        left.push(format!(
                            "{name} has {groups} groups, its agent {held}, and {bytes} bytes of buffers"
                        ));
                    }
                }
                Some(Process::Rank(rank)) => {
                    let (groups, held) = rank.held();
                    if groups + held > 0 {
                        left.push(format!("{name} is in {groups} groups, its agent in {held}"));
                    }
                }
                _ => {}
            }
        }
        if serving != 1 {
            left.push(format!("{serving} managers serve"));
        }
        left.extend(
            self.store.records().map(|record| format!("group {} is kept in the store", record.group)),
        );
        let in_memory: Vec<String> = self
            .checker
            .in_memory()
            .map(|(place, group)| format!("{} has group {group} in its memory", self.fabric.name(place)))
            .collect();
        left.extend(in_memory);
        if let Some(first) = left.first() {
            let what = format!(
                "{first}{}",
                if left.len() > 1 { format!("; and {} more", left.len() - 1) } else { String::new() }
            );
            self.checker.violate(Promise::NothingLeft, self.now, what);
        }
    }
}
