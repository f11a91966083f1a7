//! Flows and timers, from one event to the next.

use crate::LinkId;
use crate::rates::{Component, Load};
use quincunx_units::{BitRate, Duration, Instant};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// No number.
const NONE: u32 = u32::MAX;

/// A flow under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowId {
    place: u32,
    /// How many had the place before it.
    turn: u32,
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due<T> {
    /// A flow has ended.
    Flow(T),
    /// A timer.
    Timer(T),
}

#[derive(Clone, Debug)]
struct Link {
    /// Bits a second.
    capacity: f64,
    /// Places of the flows on it, with what each asks of it.
    flows: Vec<(u32, f64)>,
    /// Bits that ended flows have left behind.
    carried: f64,
    /// A flow on it has begun or ended since rates were made.
    has_changed: bool,
    /// Within what is being shared out.
    number: u32,
}

#[derive(Clone, Debug)]
struct Flow<T> {
    token: T,
    loads: Box<[Load]>,
    /// Bits.
    volume: f64,
    left: f64,
    /// Bits a second, since `since`.
    rate: f64,
    since: Instant,
    /// The prediction of its end that holds.
    version: u64,
    /// How many were started before it.
    order: u64,
    /// Within what is being shared out.
    number: u32,
}

/// A point in time, the order in which things were said, and what it is about.
type Entry<T> = Reverse<(Instant, u64, T)>;

/// Flows that share links, and timers; deterministic: what is due at the same time comes in the order in which it was started, flows first.
#[derive(Clone, Debug)]
pub struct FlowSimulation<T> {
    now: Instant,
    links: Vec<Link>,
    flows: Vec<(u32, Option<Flow<T>>)>,
    free: Vec<u32>,
    changed: Vec<LinkId>,
    ends: BinaryHeap<Entry<(u32, u32, u64)>>,
    timers: BinaryHeap<Entry<usize>>,
    timer_tokens: Vec<Option<T>>,
    free_timers: Vec<usize>,
    started: u64,
    events: u64,
}

impl<T: Copy> FlowSimulation<T> {
    /// Links of these rates, numbered in this order, and nothing on them.
    pub fn new(rates: impl IntoIterator<Item = BitRate>) -> Self {
        let link = |rate: BitRate| Link {
            capacity: rate.bits_per_second() as f64,
            flows: Vec::new(),
            carried: 0.0,
            has_changed: false,
            number: NONE,
        };
        Self {
            now: Instant::ZERO,
            links: rates.into_iter().map(link).collect(),
            flows: Vec::new(),
            free: Vec::new(),
            changed: Vec::new(),
            ends: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            timer_tokens: Vec::new(),
            free_timers: Vec::new(),
            started: 0,
            events: 0,
        }
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Says `token` after a time.
    pub fn set_timer(&mut self, after: Duration, token: T) {
        let place = self.free_timers.pop().unwrap_or_else(|| {
            self.timer_tokens.push(None);
            self.timer_tokens.len() - 1
        });
        self.timer_tokens[place] = Some(token);
        self.started += 1;
        self.timers.push(Reverse((self.now + after, self.started, place)));
    }

    /// Starts a flow of so many bits; a link that is named twice carries both.
    ///
    /// # Panics
    /// If there is no link, one that is not there, or a weight or a volume that is not above zero: it would have no rate, or no end.
    pub fn start(&mut self, loads: Box<[Load]>, bits: f64, token: T) -> FlowId {
        assert!(!loads.is_empty(), "a flow leads over a link at least");
        assert!(bits > 0.0 && bits.is_finite(), "a flow has bits");
        assert!(loads.iter().all(|load| load.weight > 0.0 && load.weight.is_finite()), "a load has a weight");
        let place = self.free.pop().unwrap_or_else(|| {
            self.flows.push((0, None));
            self.flows.len() as u32 - 1
        });
        for load in &loads {
            self.links[load.link.0 as usize].flows.push((place, load.weight));
            self.touch(load.link);
        }
        let entry = &mut self.flows[place as usize];
        entry.0 += 1;
        let turn = entry.0;
        self.started += 1;
        let (now, order) = (self.now, self.started);
        entry.1 = Some(Flow {
            token,
            loads,
            volume: bits,
            left: bits,
            rate: 0.0,
            since: now,
            version: 0,
            order,
            number: NONE,
        });
        FlowId { place, turn }
    }

    /// Stops a flow, which is never due then: the bits that are left of it. Nothing once it has ended.
    pub fn stop(&mut self, flow: FlowId) -> Option<f64> {
        let (turn, entry) = self.flows.get(flow.place as usize)?;
        let found = entry.as_ref().filter(|_| *turn == flow.turn)?;
        let (volume, since) = (found.volume, self.now.since(found.since).as_secs_f64());
        let left = (found.left - found.rate * since).clamp(0.0, volume);
        self.remove(flow.place, volume - left);
        Some(left)
    }

    /// What a flow has now, in bits a second; nothing once it has ended.
    pub fn rate(&mut self, flow: FlowId) -> Option<f64> {
        self.share_out();
        let (turn, entry) = self.flows.get(flow.place as usize)?;
        entry.as_ref().filter(|_| *turn == flow.turn).map(|flow| flow.rate)
    }

    /// Bits that a link has carried, of flows that have ended or were stopped.
    pub fn carried(&self, link: LinkId) -> f64 {
        self.links[link.0 as usize].carried
    }

    fn touch(&mut self, link: LinkId) {
        let entry = &mut self.links[link.0 as usize];
        if !entry.has_changed {
            entry.has_changed = true;
            self.changed.push(link);
        }
    }

    /// Goes on to what is due next; nothing, where nothing is under way.
    pub fn go_on(&mut self) -> Option<Due<T>> {
        self.share_out();
        while let Some(&Reverse((_, _, (place, turn, version)))) = self.ends.peek() {
            let (now, flow) = &self.flows[place as usize];
            if *now == turn && flow.as_ref().is_some_and(|flow| flow.version == version) {
                break;
            }
            self.ends.pop();
        }
        let end = self.ends.peek().map(|Reverse((at, ..))| *at);
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let ends_first = match (end, timer) {
            (None, None) => return None,
            (Some(end), Some(timer)) => end <= timer,
            (end, _) => end.is_some(),
        };
        self.events += 1;
        if ends_first {
            let Reverse((at, _, (place, ..))) = self.ends.pop().expect("it has been seen");
            self.now = at;
            let volume = self.flows[place as usize].1.as_ref().expect("what ends has begun").volume;
            Some(Due::Flow(self.remove(place, volume)))
        } else {
            let Reverse((at, _, place)) = self.timers.pop().expect("it has been seen");
            self.now = at;
            self.free_timers.push(place);
            Some(Due::Timer(self.timer_tokens[place].take().expect("a timer is due once")))
        }
    }

    /// Takes a flow off its links, which have carried so many of its bits.
    fn remove(&mut self, place: u32, bits: f64) -> T {
        let flow = self.flows[place as usize].1.take().expect("what ends has begun");
        self.free.push(place);
        for load in &flow.loads {
            let link = &mut self.links[load.link.0 as usize];
            link.carried += bits * load.weight;
            link.flows.retain(|(other, _)| *other != place);
            self.touch(load.link);
        }
        flow.token
    }

    /// Makes the rates of all flows that a change can have reached: those on the links that changed, on other links of these flows, and so on.
    fn share_out(&mut self) {
        if self.changed.is_empty() {
            return;
        }
        let (mut links, mut flows): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut open: Vec<u32> = Vec::new();
        for link in std::mem::take(&mut self.changed) {
            self.links[link.0 as usize].has_changed = false;
            open.push(link.0);
        }
        while let Some(link) = open.pop() {
            if self.links[link as usize].number != NONE {
                continue;
            }
            self.links[link as usize].number = links.len() as u32;
            links.push(link);
            for &(place, _) in &self.links[link as usize].flows {
                let (_, flow) = &mut self.flows[place as usize];
                let flow = flow.as_mut().expect("links have flows under way alone");
                if flow.number == NONE {
                    flow.number = flows.len() as u32;
                    flows.push(place);
                    open.extend(flow.loads.iter().map(|load| load.link.0));
                }
            }
        }
        let number = |place: u32| self.flows[place as usize].1.as_ref().expect("it is on a link").number;
        let on = |&link: &u32| {
            self.links[link as usize].flows.iter().map(|&(place, weight)| (number(place), weight)).collect()
        };
        let over = |&place: &u32| {
            let loads = &self.flows[place as usize].1.as_ref().expect("it is on a link").loads;
            loads.iter().map(|load| (self.links[load.link.0 as usize].number, load.weight)).collect()
        };
        let component = Component {
            left: links.iter().map(|&link| self.links[link as usize].capacity).collect(),
            on: links.iter().map(on).collect(),
            over: flows.iter().map(over).collect(),
        };
        links.iter().for_each(|&link| self.links[link as usize].number = NONE);
        for (place, rate) in flows.into_iter().zip(component.rates()) {
            let (turn, flow) = &mut self.flows[place as usize];
            let flow = flow.as_mut().expect("it is on a link");
            flow.number = NONE;
            if flow.rate == rate {
                continue;
            }
            flow.left -= flow.rate * self.now.since(flow.since).as_secs_f64();
            (flow.rate, flow.since) = (rate, self.now);
            flow.version += 1;
            let after = Duration::from_picos((flow.left.max(0.0) / rate * 1e12).ceil() as u64);
            self.ends.push(Reverse((self.now + after, flow.order, (place, *turn, flow.version))));
        }
        #[cfg(debug_assertions)]
        self.check(links.into_iter());
    }

    /// Panics if a link carries more than it can, or a flow could have more without taking it from one that has no more.
    pub fn assert_invariants(&mut self) {
        self.share_out();
        self.check(0..self.links.len() as u32);
    }

    /// The same of links whose flows are on no others.
    fn check(&self, links: impl Iterator<Item = u32>) {
        let slack = 1.0 + 1e-9;
        let flow =
            |place: u32| self.flows[place as usize].1.as_ref().expect("links have flows under way alone");
        // The highest rate on each full link: who has it is held back there.
        let mut full: BTreeMap<u32, f64> = BTreeMap::new();
        let mut flows: BTreeSet<u32> = BTreeSet::new();
        for link in links {
            let Link { capacity, flows: on, .. } = &self.links[link as usize];
            let used: f64 = on.iter().map(|&(place, weight)| flow(place).rate * weight).sum();
            assert!(used <= capacity * slack, "a link carries more than it can");
            if used * slack >= *capacity {
                full.insert(link, on.iter().map(|&(place, _)| flow(place).rate).fold(0.0, f64::max));
            }
            flows.extend(on.iter().map(|(place, _)| *place));
        }
        for flow in flows.into_iter().map(flow) {
            let held = |load: &Load| full.get(&load.link.0).is_some_and(|most| flow.rate * slack >= *most);
            assert!(flow.loads.iter().any(held), "nothing holds a flow back");
        }
    }
}
