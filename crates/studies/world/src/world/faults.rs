//! Faults begin and end.

use super::{Event, World};
use crate::effects::TimerName;
use crate::fabric::{Kind, Place};
use crate::facts::Fact;
use crate::machine::Process;
use crate::plan::{Fault, FaultKind, Moment};
use crate::promises::AFTERMATH;
use quincunx_units::{Duration, Instant};
use std::collections::BTreeSet;

/// What befalls managers and their store for no longer than this befalls no group: nodes wait longer for one.
const SHORT: Duration = Duration::from_millis(500);

impl World {
    pub(super) fn is_active(&self, is_it: impl Fn(&FaultKind) -> bool) -> bool {
        self.active.iter().any(|number| is_it(&self.plan.faults[*number].kind))
    }

    /// Whether anything at all has happened that a process may end of.
    pub(super) fn was_any_disturbed(&self) -> bool {
        let is_harmless = |kind: &FaultKind| matches!(kind, FaultKind::Stranger(_));
        let lately = |(number, begun): (&usize, &Instant)| {
            let fault = &self.plan.faults[*number];
            !is_harmless(&fault.kind) && *begun + fault.lasts + AFTERMATH >= self.now
        };
        self.begun.iter().any(lately)
    }

    /// Whether a node still runs the program of the version before.
    pub(super) fn is_behind(&self, place: Place) -> bool {
        let name = self.fabric.name(place);
        self.plan.faults.iter().enumerate().any(|(number, fault)| {
            matches!(&fault.kind, FaultKind::Upgrade(node) if node == name)
                && !self.begun.contains_key(&number)
        })
    }

    /// Whose groups may suffer from it; none: everybody's.
    fn befallen(&self, Fault { kind, lasts, .. }: &Fault) -> Option<BTreeSet<String>> {
        let is_short = *lasts <= SHORT;
        let is_host = |name: &String| {
            self.fabric.find(name).is_some_and(|place| matches!(self.fabric.kind(place), Kind::Host(_)))
        };
        match kind {
            FaultKind::Cut(ends) | FaultKind::Deaf(ends) => {
                let host = ends.iter().find(|end| is_host(end))?;
                Some(BTreeSet::from([host.clone()]))
            }
            FaultKind::Isolate(name)
            | FaultKind::Mute(name)
            | FaultKind::Kill(name)
            | FaultKind::Upgrade(name)
            | FaultKind::Pause(name) => {
                let kind = self.fabric.find(name).map(|place| self.fabric.kind(place));
                let is_node = matches!(kind, Some(Kind::Host(_) | Kind::Switch(_)));
                if is_node { Some(BTreeSet::from([name.clone()])) } else { is_short.then(BTreeSet::new) }
            }
            // Of a store and one of two managers: the other goes on.
            FaultKind::Part([name, _]) => {
                let is_node =
                    self.fabric.find(name).is_some_and(|place| self.fabric.kind(place) != Kind::Store);
                let of_two = is_short || self.plan.managers > 1;
                if is_node { Some(BTreeSet::from([name.clone()])) } else { of_two.then(BTreeSet::new) }
            }
            FaultKind::PowerOff(name) => is_host(name).then(|| BTreeSet::from([name.clone()])),
            FaultKind::FullStore => is_short.then(BTreeSet::new),
            // What it is asked meanwhile it answers late, however short that is.
            FaultKind::SlowStore => None,
            FaultKind::TornWrite { .. } | FaultKind::Stranger(_) => Some(BTreeSet::new()),
        }
    }

    /// A fault that has waited for this moment comes now, or right after it.
    pub(super) fn strike(&mut self, fact: &Fact) {
        let moment = match fact {
            Fact::Delivered { group, number, .. } => {
                let latest = self.latest.entry(*group).or_default();
                if *number <= *latest {
                    return;
                }
                *latest = *number;
                Moment::FirstResult
            }
            Fact::Installed { .. } => Moment::Install,
            Fact::Released { .. } => Moment::Release,
            Fact::Recreated { .. } => Moment::Anew,
            Fact::Serves { .. } => Moment::Serves,
            _ => return,
        };
        let waits = |number: &usize| self.plan.faults[*number].moment == Some(moment);
        let Some(place) = self.waiting.iter().position(waits) else { return };
        let number = self.waiting.remove(place);
        // As long as frames take, or as long as words do.
        let longest = [Duration::from_micros(30), Duration::from_millis(2)][self.draw(2) as usize];
        let after = self.draw_between(Duration::ZERO, longest);
        let lasts = self.plan.faults[number].lasts;
        self.coverage.meet("fault at its moment");
        self.push(after, Event::Fault { number, begins: true });
        self.push(after + lasts, Event::Fault { number, begins: false });
    }

    pub(super) fn turn_fault(&mut self, number: usize, begins: bool) {
        let fault = self.plan.faults[number].clone();
        if begins {
            if self.is_calm {
                return;
            }
            self.begun.insert(number, self.now);
            self.active.insert(number);
            let end = self.now + fault.lasts;
            let machines = self.befallen(&fault);
            self.checker.disturb(self.now, Some(end), machines);
            self.coverage.meet_fault(fault.kind.name());
        } else if !self.active.remove(&number) {
            return;
        }
        let word = if begins { "begins" } else { "ends" };
        self.tell(None, || format!("fault {number} {word}: {:?}", fault.kind));
        let place = |world: &Self, name: &str| world.fabric.find(name);
        match &fault.kind {
            FaultKind::Cut([a, b]) => {
                if let (Some(a), Some(b)) = (place(self, a), place(self, b))
                    && self.fabric.has_link(a, b)
                {
                    self.fabric.cut([a, b], begins);
                    [a, b].into_iter().for_each(|end| self.look_at_links(end));
                }
            }
            FaultKind::Deaf([from, to]) => {
                if let (Some(from), Some(to)) = (place(self, from), place(self, to)) {
                    self.fabric.deafen([from, to], begins);
                }
            }
            FaultKind::Isolate(name) => {
                if let Some(place) = place(self, name) {
                    self.fabric.isolate(place, begins);
                    self.review();
                }
            }
            FaultKind::Mute(name) => {
                if let Some(place) = place(self, name) {
                    self.fabric.mute(place, begins);
                    self.review();
                }
            }
            FaultKind::Part([a, b]) => {
                if let (Some(a), Some(b)) = (place(self, a), place(self, b)) {
                    self.fabric.part([a, b], begins);
                    self.review();
                }
            }
            FaultKind::Kill(name) | FaultKind::Upgrade(name) => {
                if let Some(place) = place(self, name) {
                    self.bring_down(place, begins);
                }
            }
            FaultKind::PowerOff(name) => {
                if let Some(place) = place(self, name) {
                    self.turn_power(place, begins);
                }
            }
            FaultKind::Pause(name) => {
                if let Some(place) = place(self, name) {
                    self.pause(place, begins);
                }
            }
            FaultKind::TornWrite { kept } => self.torn = begins.then_some(*kept),
            FaultKind::Stranger(_) if begins => _ = self.push(Duration::ZERO, Event::Stranger { number }),
            FaultKind::Stranger(_) | FaultKind::FullStore | FaultKind::SlowStore => {}
        }
    }

    /// A switch notices that a link of its has changed.
    fn look_at_links(&mut self, place: Place) {
        let reports = self.reports_of(place);
        let after = self.draw_between(Duration::ZERO, Duration::from_millis(100));
        self.step(place, |process, out| {
            if let Process::Switch(switch) = process {
                switch.set_links(reports);
                out.set(TimerName::Look, after);
            }
        });
    }

    fn reports_of(&self, place: Place) -> Vec<quincunx_control::LinkReport> {
        let report = |(far, up): (Place, bool)| quincunx_control::LinkReport {
            interface: None,
            neighbour: self.fabric.name(far).to_owned(),
            parallel_links: u16::from(up),
            rate: None,
        };
        self.fabric.neighbours(place).map(report).collect()
    }

    fn bring_down(&mut self, place: Place, begins: bool) {
        if begins {
            self.machines[place].downs += 1;
            self.kill(place, "");
        } else {
            self.machines[place].downs -= 1;
            self.push(Duration::from_millis(1), Event::Start(place));
        }
    }

    fn turn_power(&mut self, place: Place, begins: bool) {
        self.fabric.power(place, begins);
        if begins {
            self.machines[place].downs += 1;
            if self.machines[place].process.is_some() {
                self.remove(place, false);
            }
        } else {
            self.machines[place].downs -= 1;
            self.push(Duration::from_millis(1), Event::Start(place));
        }
        self.review();
        let neighbours: Vec<Place> = self.fabric.neighbours(place).map(|(far, _)| far).collect();
        neighbours.into_iter().for_each(|far| self.look_at_links(far));
    }

    fn pause(&mut self, place: Place, begins: bool) {
        let machine = &mut self.machines[place];
        machine.pauses = if begins { machine.pauses + 1 } else { machine.pauses.saturating_sub(1) };
        self.review();
        self.drain(place);
    }
}
