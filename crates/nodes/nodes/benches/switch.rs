//! How many frames a switch handles, on one thread and on two, each with a switch of its own as the cores of `quincunx switch` have: without
//! sockets and without the bytes of headers. What arrives is recorded once, of an AllReduce of four ranks, and replayed.
//!
//! `cargo bench -p quincunx-nodes`. Frames a second of the clock are those of the best round; beside them, frames a second that the threads
//! had a processor, which other work on the machine does not change.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures threads by the clock, around engines that know none"
)]

use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, exact,
};
use quincunx_design::{AnyDesign, FabricKind, Member, Naming, Placement, Value};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_epic::EPIC_3;
use quincunx_fabric::IncTree;
use quincunx_nodes::{Host, HostCommand, Switch, SwitchCommand, host_group, switch_group};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};
use std::sync::Barrier;
use std::thread;

const RANKS: u16 = 4;
const BYTES: usize = 1 << 20;
const PORT: PortId = PortId(0);
const ROUNDS: usize = 20;
/// Replays in a round.
const REPLAYS: usize = 20;

/// What a node has sent.
#[derive(Default)]
struct Sent {
    frames: Vec<(RoceHeader, Numbers)>,
    is_kept: bool,
    finished: usize,
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> Sink<E> for Sent {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        if self.is_kept {
            self.frames.push((*frame.header, Numbers::from_view(frame.payload)));
        }
    }
    fn set_timer(&mut self, _: E::Timer, _: Duration) {}
    fn cancel_timer(&mut self, _: E::Timer) {}
    fn emit(&mut self, _: E::Event) {
        self.finished += 1;
    }
    fn drop_frame(&mut self, _: PortId, _: E::DropReason) {
        panic!("nothing is lost, so nothing is dropped");
    }
}

fn ip(rank: u16) -> Gid {
    Gid::from([10, 0, 0, rank as u8 + 1])
}

/// A switch before, and all frames that come to it.
fn record() -> (Switch<Numbers>, Vec<(RoceHeader, Numbers)>) {
    let mut settings = EPIC_3.defaults();
    for (key, value) in [("group.mtu", 1024), ("group.message", 16), ("group.window", 4)] {
        EPIC_3.set(&mut settings, key, &Value::from(value)).expect("a key of the design");
    }
    let tree = IncTree::from_shape(&format!("star-{RANKS}").parse().expect("a shape"));
    let placement = Placement::new(RANKS, Some(tree), ByteCount::new(BYTES as u64));
    let plan = AnyDesign::plan(&EPIC_3, &settings, &placement).expect("a plan");
    let naming = Naming {
        group: GroupId(1),
        design: AnyDesign::name(&EPIC_3).to_owned(),
        version: AnyDesign::about(&EPIC_3).version,
        settings,
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: Psn::new(0),
    };
    let mut next = 16;
    let endpoint = |member| {
        next += 1;
        let ip = match member {
            Member::Rank(rank) => ip(rank.0),
            Member::Switch(_) => ip(100),
        };
        Endpoint { ip, qp: QpNumber::new(next) }
    };
    let mut hosts: Vec<Host<Numbers>> = Vec::new();
    let Ok(mut switch) = Switch::<Numbers>::new(());
    let mut out = Sent { is_kept: true, ..Sent::default() };
    for (member, context) in plan.contexts(&naming, |_| "leaf".into(), endpoint) {
        match member {
            Member::Switch(_) => {
                let group = switch_group(&EPIC_3, &context, None, |_| PORT).expect("a context");
                let install = SwitchCommand::Install(Box::new(group));
                switch.handle_command(Instant::ZERO, install, &mut out).expect("a group");
            }
            Member::Rank(_) => {
                let group = host_group(&EPIC_3, &context, None, |_| PORT).expect("a context");
                let Ok(mut host) = Host::new(());
                let install = HostCommand::Install(Box::new(group));
                host.handle_command(Instant::ZERO, install, &mut out).expect("a group");
                hosts.push(host);
            }
        }
    }
    let before = switch.clone();
    let sum = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    for (host, rank) in hosts.iter_mut().zip(0..) {
        let (input, output) = (exact(Rank(rank), BYTES, sum), Numbers::zeroed(BYTES));
        let (group, collective) = (GroupId(1), Collective::AllReduce);
        let start =
            HostCommand::Start { group, collective, reduction: sum, input, output, terms: Terms::WHOLE };
        host.handle_command(Instant::ZERO, start, &mut out).expect("a collective");
    }
    let mut arrived = Vec::new();
    while out.finished < hosts.len() {
        for host in &mut hosts {
            while host.wants_transmit(PORT) {
                host.handle_transmit_slot(Instant::ZERO, PORT, &mut out);
            }
        }
        assert!(!out.frames.is_empty(), "somebody has something to send");
        for (header, payload) in std::mem::take(&mut out.frames) {
            if header.destination == ip(100) {
                handle(&mut switch, &header, &payload, &mut out);
                arrived.push((header, payload));
            } else {
                let host = &mut hosts[usize::from(header.destination.octets()[15] - 1)];
                let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
                host.handle_frame(Instant::ZERO, PORT, frame, &mut out);
            }
        }
    }
    (before, arrived)
}

fn handle(switch: &mut Switch<Numbers>, header: &RoceHeader, payload: &Numbers, out: &mut Sent) {
    let frame = Frame { header, payload: payload.view(0..payload.length()) };
    switch.handle_frame(Instant::ZERO, PORT, frame, out);
    while switch.wants_transmit(PORT) {
        switch.handle_transmit_slot(Instant::ZERO, PORT, out);
    }
}

/// How long this thread has had a processor, in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    let nanos = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    nanos.expect("the first word is a number") as f64 / 1e9
}

/// The time of the clock of a round of so many threads, and that of their processors.
fn round(threads: usize, before: &Switch<Numbers>, frames: &[(RoceHeader, Numbers)]) -> (f64, f64) {
    let together = Barrier::new(threads);
    let replay = || {
        let mut switches = vec![before.clone(); REPLAYS];
        let mut out = Sent::default();
        together.wait();
        let (begun, processor) = (std::time::Instant::now(), processor_time());
        for switch in &mut switches {
            for (header, payload) in frames {
                handle(switch, header, payload, &mut out);
            }
        }
        (begun.elapsed().as_secs_f64(), processor_time() - processor)
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(replay)).collect();
        let all = all.into_iter().map(|thread| thread.join().expect("it ends"));
        all.fold((0.0, 0.0), |(clock, processor), (c, p)| (f64::max(clock, c), processor + p))
    })
}

fn main() {
    let (before, frames) = record();
    let mut best = [[f64::INFINITY; 2]; 2];
    for _ in 0..ROUNDS {
        // By turns: what else the machine does meets both.
        for (threads, best) in (1..).zip(&mut best) {
            let (clock, processor) = round(threads, &before, &frames);
            best[0] = best[0].min(clock);
            best[1] = best[1].min(processor / threads as f64);
        }
    }
    println!("threads   frames/s, all    frames/s of a processor, each");
    for (threads, [clock, processor]) in (1..).zip(best) {
        let each = (frames.len() * REPLAYS) as f64;
        println!("{threads:<7} {:>15.0} {:>32.0}", each * threads as f64 / clock, each / processor);
    }
}
