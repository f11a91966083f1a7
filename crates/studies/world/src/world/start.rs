//! How processes start, end, and start again.

use super::{Event, World};
use crate::client::Client;
use crate::effects::Effects;
use crate::fabric::{Kind, Place};
use crate::machine::Process;
use crate::manager::ManagerProcess;
use crate::ports::WorldPorts;
use crate::promises::Promise;
use crate::rank::{Application, RankProcess};
use crate::settings;
use crate::switch::{Broken, SwitchProcess};
use crate::version::VersionBefore;
use quincunx_control::{GroupRequest, LinkReport, ManagerConfig, NodeDescription, Role, policy};
use quincunx_design::FabricKind;
use quincunx_units::{ByteCount, Duration};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Queue pairs that a node may have at once.
const QUEUE_PAIRS: u32 = 64;

/// How soon a process that has ended is started again.
const SOON: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(1500)];

impl World {
    /// Everything starts, and what is planned is on its way.
    pub(super) fn begin(&mut self) {
        self.plan.jobs.iter().for_each(|job| self.coverage.meet_settings(&job.settings));
        for (place, kind) in self.fabric.places() {
            if kind != Kind::Store {
                // A manager that stands by is started later.
                let longest = if kind == Kind::Manager(1) { Duration::from_millis(400) } else { SOON[0] };
                let after = self.draw_between(Duration::from_millis(1), longest);
                self.push(after, Event::Start(place));
            }
        }
        for (number, fault) in self.plan.faults.clone().into_iter().enumerate() {
            if fault.moment.is_some() {
                self.push(fault.at, Event::Waits { number });
                continue;
            }
            self.push(fault.at, Event::Fault { number, begins: true });
            self.push(fault.at + fault.lasts, Event::Fault { number, begins: false });
        }
        self.push(self.plan.calm_at, Event::Calm);
    }

    fn links_of(&self, place: Place) -> Vec<LinkReport> {
        let report = |(far, up): (Place, bool)| LinkReport {
            interface: None,
            neighbour: self.fabric.name(far).to_owned(),
            parallel_links: u16::from(up),
            rate: None,
        };
        self.fabric.neighbours(place).map(report).collect()
    }

    fn description(&self, place: Place) -> NodeDescription {
        let name = self.fabric.name(place).to_owned();
        let host = NodeDescription::host(name, self.fabric.address(place).address(), QUEUE_PAIRS);
        // A process that starts takes its links to be up, until it has looked.
        let up = |link: LinkReport| LinkReport { parallel_links: 1, ..link };
        let links = self.links_of(place).into_iter().map(up).collect();
        let mut host = host.offering(self.catalog.above_queue_pairs());
        if let Some(before) = self.version_before(place) {
            host.versions.iter_mut().for_each(|(design, version)| *version = before.of(design, *version));
        }
        match self.fabric.kind(place) {
            Kind::Switch(_) => NodeDescription {
                role: Role::Switch,
                memory: self.plan.memory,
                memory_unit: ByteCount::new(64),
                links,
                ..host
            },
            _ => NodeDescription { links, ..host },
        }
    }

    /// The version of a node's program, if it is not this one.
    fn version_before(&self, place: Place) -> Option<VersionBefore> {
        self.is_behind(place).then_some(VersionBefore { fallback: self.fallback })
    }

    /// A process starts on a machine, if it can.
    pub(super) fn start(&mut self, place: Place) {
        let machine = &self.machines[place];
        if machine.process.is_some() || machine.downs > 0 || self.fabric.is_off(place) {
            return;
        }
        let mut out = Effects {
            now: machine.clock.shows(self.now),
            next_connection: self.next_connection,
            draws: Some(machine.draws.clone()),
            ..Effects::default()
        };
        let managers = usize::from(self.plan.managers);
        let mutation = self.planted.control();
        let before = self.version_before(place);
        if before.is_some() {
            self.coverage.meet("node of the version before starts");
        }
        let process = match self.fabric.kind(place) {
            Kind::Store => return,
            Kind::Manager(_) => {
                let config = ManagerConfig {
                    fallback: self.fallback,
                    policy: policy::find("spatial").unwrap_or(policy::ALL[1]),
                    remake_timeout: Duration::from_secs(20),
                    recreates: true,
                    ..ManagerConfig::default()
                };
                Process::Manager(Box::new(ManagerProcess::new(self.catalog, config, mutation, &mut out)))
            }
            Kind::Switch(_) => {
                let description = self.description(place);
                let links = description.links.clone();
                let client = Client::new(description, managers, mutation, &mut out);
                let broken = Broken { node: self.planted.node(), design: self.planted.design() };
                let mut switch = SwitchProcess::new(self.catalog, client, links, broken, before);
                switch.set_links(self.links_of(place));
                Process::Switch(Box::new(switch))
            }
            Kind::Host(_) => {
                let Some(application) = self.application(place) else { return };
                let client = Client::new(self.description(place), managers, mutation, &mut out);
                let ports = WorldPorts::new(self.catalog, client, self.base, self.planted, before);
                let keys = u128::from(out.draw(u64::MAX)) << 32;
                Process::Rank(Box::new(RankProcess::new(ports, application, keys, &mut out)))
            }
        };
        let machine = &mut self.machines[place];
        machine.life += 1;
        machine.process = Some(process);
        if let Some(draws) = out.draws.take() {
            machine.draws = draws;
        }
        self.next_connection = out.next_connection;
        self.tell(place, || "starts".to_owned());
        self.carry_out(place, &mut out);
    }

    fn application(&self, place: Place) -> Option<Application> {
        let (job, rank) = self
            .jobs
            .iter()
            .enumerate()
            .find_map(|(job, own)| Some((job, own.hosts.iter().position(|host| *host == place)?)))?;
        let plan = &self.plan.jobs[job];
        let ranks = plan.hosts.len() as u16;
        let design =
            self.catalog.find(&plan.design, FabricKind::Tree).expect("the plan's designs are asked for");
        let members = self.jobs[job].hosts.iter().map(|host| self.fabric.name(*host).to_owned()).collect();
        let longest = ByteCount::new(u64::from(plan.elements) * 4 * u64::from(ranks));
        let wanted = GroupRequest {
            settings: settings::of(design, &plan.settings).expect("they were tried when the run began"),
            lease: plan.lease,
            owner: plan.tenant.clone(),
            ..GroupRequest::new(members, design, longest)
        };
        let wanted = match self.version_before(place) {
            Some(before) => GroupRequest { version: before.of(&plan.design, wanted.version), ..wanted },
            None => wanted,
        };
        Some(Application {
            job,
            rank: rank as u16,
            wanted,
            round: Rc::clone(&self.jobs[job].round),
            think: plan.think,
            rest: plan.rest,
            is_closing: self.phase.is_closing(),
            is_calm: self.is_calm,
            last_rounds: 0,
        })
    }

    /// The process on a machine is killed.
    pub(super) fn kill(&mut self, place: Place, how: &str) {
        if self.machines[place].process.is_none() {
            return;
        }
        self.tell(place, || format!("is killed {how}").trim_end().to_owned());
        self.remove(place, true);
    }

    /// A process has ended by itself.
    pub(super) fn end_by_itself(&mut self, place: Place, reason: &str) {
        let name = self.fabric.name(place).to_owned();
        self.tell(place, || format!("ends: {reason}"));
        self.coverage.meet(match self.fabric.kind(place) {
            Kind::Manager(_) => "manager ends by itself",
            Kind::Switch(_) => "switch ends by itself",
            _ => "rank ends by itself",
        });
        let is_disturbed = self.was_any_disturbed();
        if !is_disturbed {
            let what = format!("{name} ends, and nothing had befallen anybody: {reason}");
            self.checker.violate(Promise::Untouched, self.now, what);
        }
        // What follows from its end is no group's fault.
        let machines = match self.fabric.kind(place) {
            Kind::Host(_) => Some(BTreeSet::from([name])),
            _ => None,
        };
        self.checker.disturb(self.now, Some(self.now), machines);
        self.remove(place, true);
    }

    /// A process is gone, with all that it had.
    pub(super) fn remove(&mut self, place: Place, in_order: bool) {
        let machine = &mut self.machines[place];
        machine.process = None;
        machine.life += 1;
        machine.backlog.clear();
        while let Some((_, ticket)) = machine.timers.pop_first() {
            self.due.take_back(ticket);
        }
        self.close_all(place, in_order);
        match self.fabric.kind(place) {
            Kind::Manager(number) => self.store.lose(number),
            Kind::Switch(_) => self.checker.lose_switch(place),
            Kind::Host(_) => self.lose_rank(place),
            Kind::Store => {}
        }
        let after = self.draw_between(SOON[0], SOON[1]);
        if !matches!(self.fabric.kind(place), Kind::Host(_)) {
            self.push(after, Event::Start(place));
        }
    }

    /// Whoever starts a job starts all of it again when one of its ranks is gone.
    fn lose_rank(&mut self, place: Place) {
        let Some(job) = self.jobs.iter().position(|job| job.hosts.contains(&place)) else { return };
        if let Some(rank) = self.jobs[job].hosts.iter().position(|host| *host == place) {
            self.checker.lose(job, rank as u16);
        }
        if !std::mem::replace(&mut self.jobs[job].is_relaunching, true) {
            let after = self.draw_between(SOON[0], SOON[1]);
            self.push(after, Event::Relaunch(job));
        }
    }

    pub(super) fn relaunch(&mut self, job: usize) {
        let hosts = self.jobs[job].hosts.clone();
        let names = hosts.iter().map(|host| self.fabric.name(*host).to_owned()).collect();
        self.checker.disturb(self.now, Some(self.now), Some(names));
        self.coverage.meet("job started again");
        for host in &hosts {
            self.kill(*host, "with its job");
        }
        self.jobs[job].is_relaunching = false;
        for host in hosts {
            let after = self.draw_between(Duration::from_millis(50), SOON[0]);
            self.push(after, Event::Start(host));
        }
    }
}
