//! Traffic on its way into a simulation: the owner's loop around the driver's.

use super::generator::{Generator, senders};
use super::{Arrival, Meter, Offered, Population};
use crate::progress::Progress;
use crate::session::Runs;
use quincunx_driver_des::{Limits, Stopped};
use quincunx_units::{Duration, Instant};

/// A simulation that traffic can be put into.
pub(crate) trait Carrier: Runs {
    /// Lets time pass when nothing is due.
    fn pass(&mut self, time: Instant);

    /// Has a host send a packet, now.
    fn inject(&mut self, arrival: &Arrival);
}

/// A simulation, and the traffic that goes through it, if there is any.
pub(crate) struct Carrying<'a, C> {
    /// The traffic.
    pub(crate) source: Option<&'a mut Source>,
    /// What carries it.
    pub(crate) carrier: &'a mut C,
}

impl<C: Carrier> Runs for Carrying<'_, C> {
    type Event = C::Event;

    fn run(&mut self, limits: Limits) -> Stopped<C::Event> {
        match &mut self.source {
            Some(source) => source.run(self.carrier, limits),
            None => self.carrier.run(limits),
        }
    }

    fn progress(&self) -> Progress {
        self.carrier.progress()
    }
}

/// A simulation whose traffic is watched where it arrives.
pub(crate) trait Metered: Carrier {
    /// What watches.
    fn meter(&mut self) -> &mut Meter;
}

/// Traffic that begins at time zero and does not end by itself.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    generator: Generator,
    population: Population,
    senders: u16,
    next: Arrival,
}

impl Source {
    pub(crate) fn new(offered: Offered, population: Population, seed: u64) -> Self {
        let mut generator = Generator::new(offered, population, Instant::ZERO, seed);
        let next = generator.arrival();
        Self { generator, population, senders: senders(offered.pattern, population), next }
    }

    /// How long queues take to fill as they will stay: two hundred packets of each link, and some way through the fabric.
    pub(crate) fn settling_time(&self, latency: Duration) -> Duration {
        self.population.packet * 200 + latency * 8
    }

    /// How long `packets` packets take to be made, on average.
    pub(crate) fn time_for(&self, packets: u64) -> Duration {
        self.generator.time_for(packets)
    }

    /// Hosts, whether they send or not.
    pub(crate) fn hosts(&self) -> u16 {
        self.population.hosts
    }

    /// How long a packet is on a link.
    pub(crate) fn packet_time(&self) -> Duration {
        self.population.packet
    }

    /// Links of all hosts that send.
    pub(crate) fn sending_links(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.population.ways)
    }

    /// Packets that should have been made before `now`, while nobody asked, never are.
    pub(crate) fn skip_to(&mut self, now: Instant) {
        while self.next.at < now {
            self.next = self.generator.arrival();
        }
    }

    /// Runs `carrier`, making packets when they are due, until a node tells something or a limit is reached.
    pub(crate) fn run<C: Carrier>(&mut self, carrier: &mut C, limits: Limits) -> Stopped<C::Event> {
        while self.next.at <= limits.time {
            let due = self.next.at;
            match carrier.run(Limits { time: due, ..limits }) {
                Stopped::Idle => carrier.pass(due),
                Stopped::TimeLimit => {}
                stopped => return stopped,
            }
            carrier.inject(&self.next);
            self.next = self.generator.arrival();
        }
        match carrier.run(limits) {
            // There is more to come.
            Stopped::Idle => {
                carrier.pass(limits.time);
                Stopped::TimeLimit
            }
            stopped => stopped,
        }
    }
}
