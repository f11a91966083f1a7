//! The world: all machines, what is on its way between them, and what is due when. One plan is one run, to the bit: all that chance decides
//! is drawn from the plan's seed, and what is due at one instant happens in the order in which it was decided.

mod ending;
mod faults;
mod frames;
mod start;
mod words;

use crate::connection::{Connection, ConnectionId, Message};
use crate::coverage::Coverage;
use crate::due::{Due, Ticket};
use crate::effects::{ControlEffect, Effects, OwnedFrame, TimerName};
use crate::fabric::{Fabric, Kind, Place};
use crate::facts::Fact;
use crate::machine::{Clock, Input, Machine, Process, SOCKET_ROOM};
use crate::phase::Phase;
use crate::plan::{JobPlan, Plan};
use crate::planted::Planted;
use crate::promises::{Checker, Promise};
use crate::round::Round;
use crate::store::{Store, StoreReply, StoreRequest};
use crate::story::Story;
use quincunx_collective::{GroupId, SplitMix64};
use quincunx_control::initial_psn;
use quincunx_design::Catalog;
use quincunx_network::FaultRates;
use quincunx_nodes::NodeDrop;
use quincunx_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// Something that is due.
#[derive(Debug)]
enum Event {
    Frame {
        to: Place,
        frame: OwnedFrame,
    },
    Timer {
        place: Place,
        life: u32,
        timer: TimerName,
    },
    Word {
        connection: ConnectionId,
        to_manager: bool,
        message: Box<Message>,
    },
    /// An end of a connection has heard nothing for too long, if it is still so.
    Silence {
        connection: ConnectionId,
        at_manager: bool,
        since: Instant,
    },
    Store {
        place: Place,
        life: u32,
        request: StoreRequest,
        until: Instant,
    },
    Answer {
        place: Place,
        life: u32,
        reply: StoreReply,
    },
    /// A fault waits for its moment from now on.
    Waits {
        number: usize,
    },
    /// A fault begins, or ends.
    Fault {
        number: usize,
        begins: bool,
    },
    Stranger {
        number: usize,
    },
    /// A manager ends in the middle of a change.
    TornEnd {
        place: Place,
        life: u32,
    },
    /// A process starts on a machine.
    Start(Place),
    /// All ranks of a job start again.
    Relaunch(usize),
    Calm,
    Phase,
}

/// A job in the world.
struct Job {
    hosts: Vec<Place>,
    round: Rc<Round>,
    is_relaunching: bool,
}

pub(crate) struct World {
    plan: Plan,
    catalog: Catalog,
    fallback: Option<&'static str>,
    planted: Planted,
    fabric: Fabric,
    now: Instant,
    due: Due<Event>,
    machines: Vec<Machine>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: u64,
    store: Store,
    jobs: Vec<Job>,
    draws: SplitMix64,
    /// Frames that each machine has sent to each, and when the last one comes: by the sender, then by the receiver.
    pairs: Vec<(u64, Instant)>,
    rates: FaultRates,
    /// What the last step led to, of which only the room is kept.
    spare: Effects,
    /// Faults that wait for their moment.
    waiting: Vec<usize>,
    /// Faults that have begun, and when.
    begun: BTreeMap<usize, Instant>,
    /// Faults that last.
    active: BTreeSet<usize>,
    /// By group, the latest collective of which a rank has the result.
    latest: BTreeMap<GroupId, u64>,
    torn: Option<bool>,
    is_calm: bool,
    phase: Phase,
    pub(crate) checker: Checker,
    coverage: Coverage,
    /// Frames that nodes have dropped, by reason.
    drops: BTreeMap<NodeDrop, u64>,
    story: Option<Story>,
    base: std::time::Instant,
    pub(crate) steps: u64,
    /// The second that it is, and the steps before it.
    second: (u64, u64),
    /// Of all that has happened, in order: two runs of one plan have the same.
    digest: u64,
}

/// More steps than any second needs: something goes round in circles.
const MOST_STEPS: u64 = 2_000_000;
const SECOND: u64 = 1_000_000_000_000;

impl World {
    pub(crate) fn new(
        plan: &Plan,
        catalog: Catalog,
        fallback: Option<&'static str>,
        planted: Planted,
        tells: bool,
    ) -> Self {
        let fabric = Fabric::new(plan);
        let mut draws = SplitMix64::new(plan.seed);
        let machine = |(place, _): (Place, Kind)| {
            let fast = plan.clocks.get(fabric.name(place)).copied().unwrap_or(0);
            let offset = Duration::from_millis(draws.draw() % 100_000);
            Machine {
                process: None,
                life: 0,
                pauses: 0,
                downs: 0,
                backlog: Vec::new(),
                clock: Clock { fast, offset },
                draws: SplitMix64::new(draws.draw()),
                free_at: Instant::ZERO,
                timers: BTreeMap::new(),
            }
        };
        let machines: Vec<Machine> = fabric.places().map(machine).collect();
        let place = |host: &u16| fabric.find_kind(Kind::Host(*host)).expect("a host of the plan");
        let job = |(number, job): (usize, &JobPlan)| Job {
            hosts: job.hosts.iter().map(place).collect(),
            round: Rc::new(Round::of_job(plan, number, catalog, fallback)),
            is_relaunching: false,
        };
        let jobs: Vec<Job> = plan.jobs.iter().enumerate().map(job).collect();
        let names = |job: &Job| job.hosts.iter().map(|host| fabric.name(*host).to_owned()).collect();
        let is_switch = |(_, kind): &(Place, Kind)| matches!(kind, Kind::Switch(_));
        let switches = fabric.places().filter(is_switch).map(|(place, _)| fabric.name(place).to_owned());
        let checker =
            Checker::new(jobs.iter().map(names).collect(), switches.collect(), plan.weather.is_fair());
        let mut store = Store::new(plan.store, first_number(plan.seed));
        store.keeps_for_anybody = planted.keeps_for_anybody();
        let mut world = Self {
            catalog,
            fallback,
            planted,
            now: Instant::ZERO,
            due: Due::new(),
            pairs: vec![(0, Instant::ZERO); machines.len() * machines.len()],
            rates: plan.weather.rates(),
            spare: Effects::default(),
            machines,
            connections: BTreeMap::new(),
            next_connection: 0,
            store,
            jobs,
            draws,
            waiting: Vec::new(),
            begun: BTreeMap::new(),
            active: BTreeSet::new(),
            latest: BTreeMap::new(),
            torn: None,
            is_calm: false,
            phase: Phase::Faults,
            checker,
            coverage: Coverage::default(),
            drops: BTreeMap::new(),
            story: tells.then(|| {
                Story::new(fabric.places().map(|(place, _)| fabric.name(place).to_owned()).collect())
            }),
            base: std::time::Instant::now(),
            steps: 0,
            second: (0, 0),
            digest: 0,
            fabric,
            plan: plan.clone(),
        };
        world.begin();
        world
    }

    /// What was met.
    pub(crate) fn coverage(&self) -> Coverage {
        let mut coverage = self.coverage.clone();
        self.drops.iter().for_each(|(reason, count)| coverage.drop(*reason, *count));
        coverage
    }

    /// What has happened.
    pub(crate) fn take_story(&mut self) -> Story {
        let mut story = self.story.take().unwrap_or_default();
        story.begun.clone_from(&self.begun);
        story
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Adds a line to the story: what happens to a machine, or to all.
    fn tell(&mut self, who: impl Into<Option<Place>>, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.add(self.now, who.into(), None, what());
        }
    }

    /// What a machine has said to another, which has just heard it.
    fn tell_word(&mut self, [from, to]: [Place; 2], what: impl FnOnce() -> Option<String>) {
        if let Some(story) = &mut self.story
            && let Some(what) = what()
        {
            story.add(self.now, Some(from), Some(to), what);
        }
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn push(&mut self, after: Duration, event: Event) -> Ticket {
        self.due.push(self.now + after, event)
    }

    fn draw(&mut self, limit: u64) -> u64 {
        self.draws.draw() % limit.max(1)
    }

    fn draw_between(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_picos(self.draw((to - from).as_picos()))
    }

    /// Runs to the end, or to the first broken promise.
    pub(crate) fn run(&mut self) {
        while self.checker.violations().is_empty() && self.phase != Phase::Over {
            let Some((at, number, event)) = self.due.pop() else { return };
            self.now = at;
            self.steps += 1;
            self.note(at.as_picos() ^ number.rotate_left(40));
            let second = at.as_picos() / SECOND;
            if second != self.second.0 {
                self.second = (second, self.steps);
            }
            if self.steps > self.second.1 + MOST_STEPS {
                let what = format!("{MOST_STEPS} steps within a second, and no end");
                return self.checker.violate(Promise::Answered, at, what);
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Frame { to, frame } => self.give(to, Input::Frame(frame)),
            Event::Timer { place, life, timer } => {
                let machine = &mut self.machines[place];
                machine.timers.remove(&timer);
                if machine.life == life {
                    self.give(place, Input::Timer(timer));
                }
            }
            Event::Word { connection, to_manager, message } => self.deliver(connection, to_manager, *message),
            Event::Silence { connection, at_manager, since } => {
                self.fall_silent(connection, at_manager, since)
            }
            Event::Store { place, life, request, until } => self.ask_store(place, life, request, until),
            Event::Answer { place, life, reply } => {
                if self.machines[place].life == life {
                    self.give(place, Input::Store(reply));
                }
            }
            Event::Waits { number } => self.waiting.push(number),
            Event::Fault { number, begins } => self.turn_fault(number, begins),
            Event::Stranger { number } => self.send_strange(number),
            Event::TornEnd { place, life } => {
                if self.machines[place].life == life {
                    self.kill(place, "in the middle of a change");
                }
            }
            Event::Start(place) => self.start(place),
            Event::Relaunch(job) => self.relaunch(job),
            Event::Calm => self.calm(),
            Event::Phase => self.go_on(),
        }
    }

    /// Something comes to a process: at once, or when it runs again.
    fn give(&mut self, place: Place, input: Input) {
        let machine = &mut self.machines[place];
        let Some(process) = &machine.process else {
            if matches!(input, Input::Frame(_)) {
                self.coverage.meet("frame for a process that is gone");
            }
            return;
        };
        let is_answer = matches!(input, Input::Store(_));
        if machine.pauses > 0 || process.is_blocked() && !is_answer {
            let frames = machine.backlog.iter().filter(|input| matches!(input, Input::Frame(_))).count();
            if matches!(input, Input::Frame(_)) && frames >= SOCKET_ROOM {
                return self.coverage.meet("frame for a full socket");
            }
            return machine.backlog.push(input);
        }
        self.step(place, |process, out| process.take(input, out));
        if is_answer {
            self.drain(place);
        }
    }

    /// What has waited for a process comes to it: answers of the store, for which it may wait, then frames.
    fn drain(&mut self, place: Place) {
        let machine = &mut self.machines[place];
        if machine.pauses > 0 || machine.process.is_none() {
            return;
        }
        let order = |input: &Input| match input {
            Input::Store(_) => 0,
            Input::Frame(_) => 1,
            Input::Timer(_) => 2,
        };
        let mut waiting = std::mem::take(&mut machine.backlog);
        waiting.sort_by_key(order);
        for input in waiting {
            self.give(place, input);
        }
        self.read_all(place);
    }

    /// A step of a process, and what it leads to.
    fn step(&mut self, place: Place, act: impl FnOnce(&mut Process, &mut Effects)) {
        let machine = &mut self.machines[place];
        let Some(mut process) = machine.process.take() else { return };
        let mut out = std::mem::take(&mut self.spare);
        out.now = machine.clock.shows(self.now);
        out.next_connection = self.next_connection;
        out.draws = Some(machine.draws.clone());
        act(&mut process, &mut out);
        machine.process = Some(process);
        if let Some(draws) = out.draws.take() {
            machine.draws = draws;
        }
        self.next_connection = out.next_connection;
        self.carry_out(place, &mut out);
        self.spare = out;
    }

    fn carry_out(&mut self, place: Place, out: &mut Effects) {
        let (life, clock) = (self.machines[place].life, self.machines[place].clock);
        for frame in out.frames.drain(..) {
            self.send(place, frame);
        }
        for (timer, after) in out.timers.drain(..) {
            let at = after.map(|after| self.now + clock.truly(after));
            let timers = &mut self.machines[place].timers;
            match (at, timers.get_mut(&timer)) {
                (Some(at), Some(ticket)) => *ticket = self.due.put_off(*ticket, at),
                (Some(at), None) => {
                    let ticket = self.due.push(at, Event::Timer { place, life, timer });
                    timers.insert(timer, ticket);
                }
                (None, Some(ticket)) => {
                    self.due.take_back(*ticket);
                    timers.remove(&timer);
                }
                (None, None) => {}
            }
        }
        for effect in out.control.drain(..) {
            match effect {
                ControlEffect::Connect { connection, manager } => self.connect(connection, place, manager),
                ControlEffect::Say(connection, message) => self.say(connection, place, message),
                ControlEffect::Close(connection) => self.close(connection, place),
                ControlEffect::Store { request, patience } => {
                    let until = self.now + clock.truly(patience);
                    self.ask_store(place, life, request, until);
                }
            }
        }
        while let Some((reason, count)) = out.drops.pop_first() {
            *self.drops.entry(reason).or_default() += count;
        }
        for fact in out.facts.drain(..) {
            self.hear(place, &fact);
        }
        if let Some(reason) = out.end.take() {
            self.end_by_itself(place, &reason);
        }
    }

    fn hear(&mut self, place: Place, fact: &Fact) {
        self.coverage.hear(fact);
        if !matches!(fact, Fact::Met(_)) {
            let mut word = Fnv(0xcbf2_9ce4_8422_2325);
            fact.hash(&mut word);
            self.note(word.finish());
            self.tell(place, || format!("{fact:?}"));
        }
        self.checker.hear(self.now, place, self.fabric.name(place), fact);
        self.strike(fact);
    }
}

/// Of so many packets the numbers wrap.
const WRAPS_WITHIN: u32 = 40;

/// The first group's number: with a third of the seeds one whose packets have numbers that wrap soon.
fn first_number(seed: u64) -> u32 {
    let mut draws = SplitMix64::new(seed ^ 0x0f1e_57a1_1e57_0b05);
    if !draws.draw().is_multiple_of(3) {
        return 1;
    }
    let wraps = |number: &u32| initial_psn(GroupId(*number)).value() > (1 << 24) - WRAPS_WITHIN;
    let from = draws.draw() as u32 >> 1;
    (from..u32::MAX).find(wraps).unwrap_or(1)
}

/// What has happened as a number, the same in every run (Fowler, Noll and Vo's hash).
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 =
            bytes.iter().fold(self.0, |word, byte| (word ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
