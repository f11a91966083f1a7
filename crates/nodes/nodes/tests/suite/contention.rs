//! Two groups of two ranks at one switch that has memory for one at a time: each collective runs in the tree or among the hosts, whatever
//! frames are lost, doubled or late, and every result is right. Without a lock that is so if they use it by turns, and if they do not they hear
//! an error.

use std::collections::BTreeMap;

use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, SplitMix64,
};
use quincunx_design::{
    AnyDesign, ConnectionContext, Contention, FabricKind, GroupContext, MEMORY_TAKEN, Member, Naming, Peer,
    Placement, Value,
};
use quincunx_engine::verbs::{Failure, Outcome, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_epic::{EPIC_1, EPIC_2, EPIC_3};
use quincunx_fabric::IncTree;
use quincunx_nodes::{
    Host, HostCommand, HostEvent, HostRejected, MemoryPart, Mutation, NodeDrop, Switch, SwitchCommand,
    SwitchRejected, Ways, contended_host_group, host_group, switch_group,
};
use quincunx_ring::RING;
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Deth, Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};

const BYTES: usize = 64;
const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// Hosts are 10.0.0.1 to 10.0.0.4, two a group; the switch is 10.0.0.100.
fn address(member: Member, group: u32) -> Gid {
    match member {
        Member::Rank(rank) => Gid::from([10, 0, 0, (group as u8 - 1) * 2 + rank.0 as u8 + 1]),
        Member::Switch(_) => Gid::from([10, 0, 0, 100]),
    }
}

/// What the members of a group are told, as the manager would say it.
fn contexts(design: &dyn AnyDesign, group: u32) -> Vec<(Member, GroupContext)> {
    let tree = IncTree::from_shape(&"star-2".parse().unwrap());
    let of = |design: &dyn AnyDesign, number: u32| {
        let mut settings = design.defaults();
        for (key, value) in [("group.mtu", 16), ("group.message", 2), ("group.window", 2)] {
            design.set(&mut settings, key, &Value::from(value)).unwrap();
        }
        design.set(&mut settings, "group.retry_timeout", &Value::from("300us")).unwrap();
        design.set(&mut settings, "group.retry_count", &Value::from(60)).unwrap();
        let placement = Placement::new(2, Some(tree.clone()), ByteCount::new(BYTES as u64));
        let plan = design.plan(&settings, &placement).unwrap();
        let naming = Naming {
            group: GroupId(number),
            design: design.name().to_string(),
            version: design.about().version,
            settings,
            fabric: FabricKind::Tree,
            domains: 1,
            initial_psn: Psn::new(0xff_fffd),
        };
        let mut next = 100 * number;
        let endpoint = |member| {
            next += 1;
            Endpoint { ip: address(member, group), qp: QpNumber::new(next) }
        };
        plan.contexts(&naming, |_| "switch".to_string(), endpoint)
    };
    let among_hosts: BTreeMap<Member, GroupContext> = of(&RING, group + 10).into_iter().collect();
    let end = |member, number: u32| Endpoint {
        ip: address(member, group),
        qp: QpNumber::new(10_000 * group + number),
    };
    let mut contexts = of(design, group);
    let switch = contexts.iter().find(|(member, _)| matches!(member, Member::Switch(_))).unwrap().0;
    for (member, context) in &mut contexts {
        let edge = |rank: u16| {
            let lower = (end(Member::Rank(Rank(rank)), 2), Peer::Rank(Rank(rank)));
            let upper = (end(switch, u32::from(rank)), Peer::Switch("switch".to_string()));
            (lower, upper)
        };
        let edges = match *member {
            Member::Switch(_) => (0..2)
                .map(|rank| {
                    let ((remote, peer), (local, _)) = edge(rank);
                    ConnectionContext { local, remote, peer }
                })
                .collect(),
            Member::Rank(rank) => {
                let ((local, _), (remote, peer)) = edge(rank.0);
                vec![ConnectionContext { local, remote, peer }]
            }
        };
        let has_parent = *member != switch;
        let fallback = among_hosts.get(member).cloned();
        context.contention =
            Some(Box::new(Contention { fallback, edges, has_parent, patience: Duration::ZERO }));
    }
    contexts
}

/// What a node has done in a step.
struct Did<E: Engine> {
    sent: Vec<(PortId, RoceHeader, Numbers)>,
    timers: Vec<(E::Timer, Option<Duration>)>,
    events: Vec<E::Event>,
    dropped: Vec<E::DropReason>,
}

impl<E: Engine> Default for Did<E> {
    fn default() -> Self {
        Self { sent: Vec::new(), timers: Vec::new(), events: Vec::new(), dropped: Vec::new() }
    }
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> Sink<E> for Did<E> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.sent.push((port, *frame.header, Numbers::from_view(frame.payload)));
    }
    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        self.timers.push((timer, Some(after)));
    }
    fn cancel_timer(&mut self, timer: E::Timer) {
        self.timers.push((timer, None));
    }
    fn emit(&mut self, event: E::Event) {
        self.events.push(event);
    }
    fn drop_frame(&mut self, _: PortId, reason: E::DropReason) {
        self.dropped.push(reason);
    }
}

/// An engine with the deadlines of its timers.
struct TestNode<E: Engine> {
    engine: E,
    deadlines: BTreeMap<E::Timer, Instant>,
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> TestNode<E> {
    fn step(&mut self, now: Instant, act: impl FnOnce(&mut E, &mut Did<E>)) -> Did<E> {
        let mut did = Did::default();
        act(&mut self.engine, &mut did);
        for port in (0..4).map(PortId) {
            while self.engine.wants_transmit(port) {
                self.engine.handle_transmit_slot(now, port, &mut did);
            }
        }
        self.engine.assert_invariants();
        for (timer, after) in did.timers.drain(..) {
            match after {
                Some(after) => self.deadlines.insert(timer, now + after),
                None => self.deadlines.remove(&timer),
            };
        }
        did
    }

    fn due(&self) -> Option<(Instant, E::Timer)> {
        self.deadlines.iter().map(|(timer, at)| (*at, *timer)).min()
    }
}

/// Four hosts, port for port at a switch.
struct Net {
    hosts: Vec<TestNode<Host<Numbers>>>,
    switch: TestNode<Switch<Numbers>>,
    now: Instant,
    flights: BTreeMap<(Instant, u64), (Option<usize>, RoceHeader, Numbers)>,
    serial: u64,
    random: SplitMix64,
    /// In percent.
    faults: u64,
    finished: Vec<(usize, HostEvent<Numbers>)>,
    /// Neighbours that the switch has given up.
    unreachable: usize,
    /// Frames that did not leave, as another group had written over them.
    taken: usize,
}

impl Net {
    /// Groups that lock the memory.
    fn new(design: &'static dyn AnyDesign, seed: u64, faults: u64) -> Self {
        Self::with(design, seed, faults, |_| {})
    }

    /// Groups that trust each other to use it by turns.
    fn by_turns(design: &'static dyn AnyDesign, seed: u64, faults: u64) -> Self {
        Self::with(design, seed, faults, |context| trust(design, context, 3))
    }

    fn with(
        design: &'static dyn AnyDesign,
        seed: u64,
        faults: u64,
        change: impl Fn(&mut GroupContext),
    ) -> Self {
        let (Ok(switch), hosts) = (
            Switch::new(()),
            (0..4).map(|_| {
                let Ok(engine) = Host::new(());
                TestNode { engine, deadlines: BTreeMap::new() }
            }),
        );
        let mut net = Self {
            hosts: hosts.collect(),
            switch: TestNode { engine: switch, deadlines: BTreeMap::new() },
            now: Instant::ZERO,
            flights: BTreeMap::new(),
            serial: 0,
            random: SplitMix64::new(seed),
            faults,
            finished: Vec::new(),
            unreachable: 0,
            taken: 0,
        };
        for host in 0..4 {
            let destination = Gid::from([10, 0, 0, host + 1]);
            let route = SwitchCommand::Route { destination, ports: vec![PortId(host.into())] };
            net.command_switch(route);
        }
        for group in [1, 2] {
            for (member, mut context) in contexts(design, group) {
                change(&mut context);
                net.install(design, group, member, &context);
            }
        }
        net
    }

    /// A member of a group, 1 or 2, hears what it has to know.
    fn install(
        &mut self,
        design: &'static dyn AnyDesign,
        group: u32,
        member: Member,
        context: &GroupContext,
    ) {
        let first = (group as u16 - 1) * 2;
        match member {
            Member::Switch(_) => {
                let port = |connection: &ConnectionContext| match &connection.peer {
                    Peer::Rank(rank) => PortId(first + rank.0),
                    Peer::Switch(_) => unreachable!("it is alone"),
                };
                let group = switch_group(design, context, None, port).unwrap();
                self.command_switch(SwitchCommand::Install(Box::new(group)));
            }
            Member::Rank(rank) => {
                let group = match &context.contention {
                    Some(_) => contended_host_group(design, &RING, context, |_| PortId(0)),
                    None => host_group(design, context, None, |_| PortId(0)),
                };
                let install = HostCommand::Install(Box::new(group.unwrap()));
                self.command(usize::from(first + rank.0), install).unwrap();
            }
        }
    }

    fn command_switch(&mut self, command: SwitchCommand<Numbers>) {
        let now = self.now;
        let did = self.switch.step(now, |switch, did| switch.handle_command(now, command, did).unwrap());
        self.carry_from_switch(did);
    }

    fn command(&mut self, host: usize, command: HostCommand<Numbers>) -> Result<(), HostRejected> {
        let (now, mut result) = (self.now, Ok(()));
        let did = self.hosts[host].step(now, |engine, did| result = engine.handle_command(now, command, did));
        self.carry_from_host(host, did);
        result
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.draw() % below
    }

    fn fly(&mut self, to: Option<usize>, header: RoceHeader, payload: Numbers) {
        let fate = self.draw(100);
        let copies = match fate {
            fate if fate < self.faults => 0,
            fate if fate < 2 * self.faults => 2,
            _ => 1,
        };
        for _ in 0..copies {
            // Some are late by more than a round trip.
            let late = if self.draw(100) < self.faults { self.draw(200) } else { 0 };
            self.serial += 1;
            let at = self.now + Duration::from_micros(5 + late);
            self.flights.insert((at, self.serial), (to, header, payload.clone()));
        }
    }

    fn carry_from_host(&mut self, host: usize, did: Did<Host<Numbers>>) {
        for (_, header, payload) in did.sent {
            self.fly(None, header, payload);
        }
        // Which host a frame comes from is told by its source.
        self.finished.extend(did.events.into_iter().map(|event| (host, event)));
    }

    fn carry_from_switch(&mut self, did: Did<Switch<Numbers>>) {
        self.unreachable += did.events.len();
        let taken = |reason: &&NodeDrop| **reason == NodeDrop::Datapath(MEMORY_TAKEN);
        self.taken += did.dropped.iter().filter(taken).count();
        for (port, header, payload) in did.sent {
            self.fly(Some(usize::from(port.0)), header, payload);
        }
    }

    /// The next frame or time-out; whether there is one.
    fn turn(&mut self) -> bool {
        let flight = self.flights.first_key_value().map(|(&(at, _), _)| at);
        let host = self.hosts.iter().zip(0..).filter_map(|(host, index)| Some((host.due()?.0, index))).min();
        let switch = self.switch.due().map(|(at, _)| at);
        let Some(next) = flight.into_iter().chain(host.map(|(at, _)| at)).chain(switch).min() else {
            return false;
        };
        self.now = next;
        let now = next;
        if flight == Some(next) {
            let (_, (to, header, payload)) = self.flights.pop_first().expect("it is there");
            let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
            match to {
                Some(host) => {
                    let did = self.hosts[host].step(now, |engine, did| {
                        engine.handle_frame(now, PortId(0), frame, did);
                    });
                    self.carry_from_host(host, did);
                }
                None => {
                    let port = PortId(u16::from(header.source.octets()[15]) - 1);
                    let did = self.switch.step(now, |switch, did| switch.handle_frame(now, port, frame, did));
                    self.carry_from_switch(did);
                }
            }
        } else if let Some((at, host)) = host.filter(|(at, _)| *at == next) {
            let (_, timer) = self.hosts[host].due().expect("it is due");
            self.hosts[host].deadlines.remove(&timer);
            let did = self.hosts[host].step(at, |engine, did| engine.handle_timer(now, timer, did));
            self.carry_from_host(host, did);
        } else {
            let (_, timer) = self.switch.due().expect("it is due");
            self.switch.deadlines.remove(&timer);
            let did = self.switch.step(now, |switch, did| switch.handle_timer(now, timer, did));
            self.carry_from_switch(did);
        }
        true
    }

    fn begin(&mut self, host: usize, value: i32) {
        let input: Vec<u8> = value.to_le_bytes().into_iter().cycle().take(BYTES).collect();
        let start = HostCommand::Start {
            group: GroupId(host as u32 / 2 + 1),
            collective: Collective::AllReduce,
            reduction: SUM,
            input: Numbers::from(input),
            output: Numbers::zeroed(BYTES),
            terms: Terms::WHOLE,
        };
        self.command(host, start).unwrap();
    }

    /// Each host runs so many AllReduces, each when the one before has ended. All end well, and are right.
    fn run(&mut self, times: i32) {
        assert_eq!((self.run_to_wrong(times), self.unreachable), (0, 0));
    }

    /// How many of the results are wrong. All end well.
    fn run_to_wrong(&mut self, times: i32) -> usize {
        self.run_and(times, |_| {})
    }

    /// The same, and after each event something else happens.
    fn run_and(&mut self, times: i32, mut act: impl FnMut(&mut Self)) -> usize {
        let mut wrong = 0;
        let mut done = [0; 4];
        for host in 0..4 {
            self.begin(host, host as i32 + 1);
        }
        while done.iter().any(|&done| done < times) {
            assert!(self.turn(), "all are waiting for something, and nothing is on its way: {done:?}");
            act(self);
            for (host, event) in std::mem::take(&mut self.finished) {
                let HostEvent::Finished { group, outcome, output, .. } = event else {
                    panic!("host {host} says {event:?}")
                };
                assert_eq!((group, outcome), (GroupId(host as u32 / 2 + 1), Outcome::Done));
                // Both of a group have the same number, told apart from other collectives' by how many have run.
                wrong += usize::from(output != sum_of(host, done[host]));
                done[host] += 1;
                if done[host] < times {
                    self.begin(host, host as i32 + 1 + done[host] * 10);
                }
            }
        }
        wrong
    }

    /// The ranks of a group run an AllReduce: how many are done. Nobody has a wrong result.
    fn run_alone(&mut self, group: usize) -> usize {
        for host in 2 * group..2 * group + 2 {
            self.begin(host, host as i32 + 1);
        }
        self.settle()
    }

    /// Everything ends: how many have a result, which is right.
    fn settle(&mut self) -> usize {
        while self.turn() {}
        let mut done = 0;
        for (host, event) in std::mem::take(&mut self.finished) {
            if let HostEvent::Finished { outcome: Outcome::Done, output, .. } = event {
                assert_eq!(output, sum_of(host, 0), "host {host}");
                done += 1;
            }
        }
        done
    }

    fn ways(&self, host: usize) -> Ways {
        self.hosts[host].engine.ways(GroupId(host as u32 / 2 + 1)).unwrap()
    }
}

/// Has a group use memory by turns without a lock, with senders that give up after so many tries.
fn trust(design: &'static dyn AnyDesign, context: &mut GroupContext, retry_count: u64) {
    context.contention = None;
    for (key, value) in [("group.retry_timeout", "100us".into()), ("group.retry_count", retry_count.into())] {
        design.set(&mut context.settings, key, &value).unwrap();
    }
}

/// What a host has when it has run an AllReduce after so many others.
fn sum_of(host: usize, before: i32) -> Numbers {
    let first = host as i32 / 2 * 2 + 1;
    let sum = 2 * first + 1 + 2 * before * 10;
    let bytes: Vec<u8> = sum.to_le_bytes().into_iter().cycle().take(BYTES).collect();
    bytes.into()
}

/// Those whose switch stores numbers in its own memory; Mode-I does in its queue pairs'.
const STORING: [&dyn AnyDesign; 2] = [&EPIC_2, &EPIC_3];

const DESIGNS: [&dyn AnyDesign; 3] = [&EPIC_1, &EPIC_2, &EPIC_3];

#[test]
fn two_groups_at_once_run_in_the_tree_and_among_the_hosts_and_all_results_are_right() {
    for design in DESIGNS {
        let mut net = Net::new(design, 1, 0);
        net.run(20);
        let all = [0, 2].map(|group| {
            let ways = net.ways(group);
            assert_eq!(ways, net.ways(group + 1), "all ranks hear one verdict");
            assert_eq!(ways.tree + ways.hosts, 20);
            ways
        });
        // First come, first served: who asks again at once may keep the memory for long.
        let tree: u64 = all.iter().map(|ways| ways.tree).sum();
        let hosts: u64 = all.iter().map(|ways| ways.hosts).sum();
        assert!(tree > 0 && hosts > 0, "{}: {all:?}", design.name());
    }
}

#[test]
fn lost_late_and_doubled_frames_change_no_result_and_no_lock_is_lost() {
    for (seed, design) in (0..60).flat_map(|seed| DESIGNS.map(|design| (seed, design))) {
        let mut net = Net::new(design, seed, 8);
        net.run(6);
        for host in 0..4 {
            let ways = net.ways(host);
            assert_eq!(ways.tree + ways.hosts, 6, "seed {seed}");
            assert_eq!(ways, net.ways(host ^ 1), "seed {seed}");
        }
        net.faults = 0;
        while net.turn() {}
        assert_eq!(net.switch.engine.recorder().held(), 0, "seed {seed}");
    }
}

/// Groups that ask for their locks so long.
fn patient(design: &'static dyn AnyDesign, seed: u64, faults: u64, patience: Duration) -> Net {
    Net::with(design, seed, faults, |context| {
        context.contention.as_mut().expect("they lock").patience = patience;
    })
}

#[test]
fn patient_groups_use_the_memory_by_turns() {
    for design in DESIGNS {
        let mut net = patient(design, 1, 0, Duration::from_millis(10));
        net.run(20);
        for host in 0..4 {
            assert_eq!(net.ways(host), Ways { tree: 20, hosts: 0 }, "{}", design.name());
        }
    }
}

/// How long a group takes for a collective among its hosts if it asks so long for memory that another never gives back.
fn took_in_vain(patience: Duration) -> Duration {
    let mut net = patient(&EPIC_3, 1, 0, patience);
    // Its other rank never leaves: what is locked stays locked.
    for host in [0, 1] {
        net.begin(host, 1);
    }
    while net.ways(0).tree == 0 || net.ways(1).tree == 0 {
        net.turn();
    }
    net.hosts[1].deadlines.clear();
    let began = net.now;
    for host in [2, 3] {
        net.begin(host, 3);
    }
    while net.ways(2).hosts == 0 {
        net.flights.retain(|_, (to, _, _)| *to != Some(1));
        net.turn();
    }
    assert_eq!(net.ways(2), Ways { tree: 0, hosts: 1 });
    net.now.since(began)
}

#[test]
fn a_group_whose_patience_ends_runs_among_its_hosts() {
    let took = took_in_vain(Duration::from_micros(160));
    // Sixteen pauses and seventeen questions of 10 us each.
    assert!((330.0..400.0).contains(&took.as_micros_f64()), "{took}");
}

#[test]
fn a_group_without_patience_asks_once() {
    let took = took_in_vain(Duration::ZERO);
    assert!((10.0..80.0).contains(&took.as_micros_f64()), "{took}");
}

#[test]
fn patient_ranks_hear_the_same_whatever_is_lost_late_or_doubled() {
    for (seed, design) in (0..60).flat_map(|seed| DESIGNS.map(|design| (seed, design))) {
        let mut net = patient(design, seed, 8, Duration::from_micros(100 * (1 + seed % 5)));
        net.run(6);
        for host in 0..4 {
            let ways = net.ways(host);
            assert_eq!((ways.tree + ways.hosts, ways), (6, net.ways(host ^ 1)), "seed {seed}");
        }
        net.faults = 0;
        while net.turn() {}
        assert_eq!(net.switch.engine.recorder().held(), 0, "seed {seed}");
    }
}

#[test]
fn a_switch_whose_locks_nobody_looks_at_adds_up_what_is_two_groups() {
    for design in STORING {
        let wrong = (0..10).map(|seed| {
            let mut net = Net::new(design, seed, 8);
            let Ok(nothing) = Switch::new(());
            let switch = std::mem::replace(&mut net.switch.engine, nothing);
            net.switch.engine = switch.breaking(Mutation::IgnoresLocks);
            net.run_to_wrong(6)
        });
        assert!(wrong.sum::<usize>() > 0, "{}", design.name());
    }
}

#[test]
fn groups_that_use_memory_by_turns_have_right_results() {
    for (seed, design) in (0..20).flat_map(|seed| STORING.map(|design| (seed, design))) {
        let mut net = Net::by_turns(design, seed, 0);
        for group in [0, 1, 1, 0] {
            assert_eq!((net.run_alone(group), net.taken), (2, 0), "{} seed {seed}", design.name());
        }
    }
}

#[test]
fn groups_that_use_memory_at_once_against_their_word_hear_an_error_and_never_a_wrong_sum() {
    for design in STORING {
        let (mut done, mut taken) = (0, 0);
        for seed in 0..60 {
            let mut net = Net::by_turns(design, seed, 4);
            for host in 0..4 {
                net.begin(host, host as i32 + 1);
            }
            done += net.settle();
            taken += net.taken;
        }
        let all = 4 * 60;
        assert!((1..all).contains(&done), "{}: {done} of {all} ranks have a result", design.name());
        assert!(taken > 0, "{}", design.name());
    }
}

#[test]
fn a_group_has_what_it_has_stored_when_another_one_comes_to_its_part() {
    for (turns, design) in (0..40).flat_map(|turns| STORING.map(|design| (turns, design))) {
        let mut net = Net::by_turns(design, 1, 0);
        net.command_switch(SwitchCommand::Remove(GroupId(2)));
        for host in [0, 1] {
            net.begin(host, host as i32 + 1);
        }
        for _ in 0..turns {
            net.turn();
        }
        for (member, mut context) in contexts(design, 2) {
            trust(design, &mut context, 3);
            if let Member::Switch(_) = member {
                net.install(design, 2, member, &context);
            }
        }
        assert_eq!((net.settle(), net.taken), (2, 0), "{} after {turns} events", design.name());
    }
}

#[test]
fn a_mode_iii_switch_gives_a_group_up_whose_sums_are_another_ones() {
    let given_up = (0..40).any(|seed| {
        let mut net = Net::with(&EPIC_3, seed, 4, |context| trust(&EPIC_3, context, 1000));
        for host in 0..4 {
            net.begin(host, host as i32 + 1);
        }
        while net.taken == 0 && net.turn() {}
        assert_eq!(net.unreachable > 0, net.taken > 0, "seed {seed}");
        net.taken > 0
    });
    assert!(given_up);
}

#[test]
fn pointers_move_under_collectives_with_what_is_stored() {
    for (seed, design) in (0..20).flat_map(|seed| DESIGNS.map(|design| (seed, design))) {
        let length = contexts(design, 1)[0].1.memory;
        // Alone in a part each, or with locks in one.
        for locked in [false, true] {
            let mut net = Net::with(design, seed, 4, |context| {
                if !locked {
                    trust(design, context, 60);
                    context.memory_offset = length * u64::from(context.group.0 - 1);
                }
            });
            let mut at = if locked { vec![ByteCount::new(0)] } else { vec![ByteCount::new(0), length] };
            let mut moved = 0;
            let mut now_and_then = |net: &mut Net| {
                let of = net.draw(at.len() as u64) as usize;
                let to = ByteCount::new(4 * net.draw(length.bytes()));
                let from = MemoryPart { offset: at[of], length };
                let is_free = at
                    .iter()
                    .enumerate()
                    .all(|(other, place)| other == of || to + length <= *place || *place + length <= to);
                let now = net.now;
                let command = SwitchCommand::MoveMemory { from, to };
                let mut result = Ok(());
                net.switch.step(now, |switch, did| result = switch.handle_command(now, command, did));
                assert_eq!(result.is_ok(), is_free, "seed {seed}: {from:?} to {to}");
                if is_free {
                    at[of] = to;
                    moved += 1;
                }
            };
            let wrong = net.run_and(6, |net| {
                if net.draw(4) == 0 {
                    now_and_then(net);
                }
            });
            assert_eq!((wrong, net.taken, net.unreachable), (0, 0, 0), "{} seed {seed}", design.name());
            assert!(moved > 10, "{moved}");
        }
    }
}

#[test]
fn a_group_with_a_shorter_part_than_it_takes_is_refused() {
    for design in STORING {
        let Ok(mut switch) = Switch::<Numbers>::new(());
        let (_, mut context) = contexts(design, 1).swap_remove(0);
        trust(design, &mut context, 3);
        let mut group = switch_group(design, &context, None, |_| PortId(0)).unwrap();
        let needed = context.memory;
        let given = needed - ByteCount::new(1);
        group.memory.length = given;
        let install = SwitchCommand::Install(Box::new(group));
        let refused = switch.handle_command(Instant::ZERO, install, &mut Did::default());
        assert_eq!(refused, Err(SwitchRejected::TooLittleMemory { needed, given }), "{}", design.name());
    }
}

#[test]
fn a_group_alone_is_never_refused() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    for host in [0, 1] {
        net.begin(host, 1);
    }
    while net.turn() {}
    assert_eq!(net.finished.len(), 2);
    assert_eq!(net.ways(0), Ways { tree: 1, hosts: 0 });
}

#[test]
fn what_waits_for_its_turn_is_given_back_when_the_group_is_removed() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    // The other rank never asks.
    net.begin(0, 1);
    while net.finished.is_empty() && net.now < Instant::ZERO + Duration::from_millis(5) {
        net.turn();
    }
    assert_eq!(net.finished, []);
    net.command(0, HostCommand::Remove(GroupId(1))).unwrap();
    let failed = Outcome::Failed { qp: QpIndex(0), failure: Failure::Flushed };
    let flushed = |(host, event): &(usize, HostEvent<Numbers>)| {
        *host == 0
            && matches!(event, HostEvent::Finished { group: GroupId(1), outcome, input, .. } if *outcome == failed && input.length() == BYTES)
    };
    assert!(net.finished.len() == 1 && net.finished.iter().all(flushed), "{:?}", net.finished);
    assert!(net.hosts[0].deadlines.is_empty(), "no timer is left");
}

#[test]
fn a_group_that_is_removed_from_a_switch_leaves_its_lock() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    for host in [0, 1] {
        net.begin(host, 1);
    }
    while net.switch.engine.recorder().held() == 0 {
        assert!(net.turn());
    }
    net.command_switch(SwitchCommand::Remove(GroupId(1)));
    assert_eq!(net.switch.engine.recorder().held(), 0);
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    let start = |input: usize| HostCommand::Start {
        group: GroupId(1),
        collective: Collective::AllReduce,
        reduction: SUM,
        input: Numbers::zeroed(input),
        output: Numbers::zeroed(BYTES),
        terms: Terms::WHOLE,
    };
    let refused = net.command(0, start(BYTES + 4)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "expected an output of 68 bytes in registered memory, found 64; see the table of lengths"
    );
    assert!(net.flights.is_empty(), "nobody was asked");
}

/// The switch's first edge, as it is told about locks.
fn first_edge() -> ConnectionContext {
    let switch = contexts(&EPIC_3, 1).into_iter().find(|(member, _)| matches!(member, Member::Switch(_)));
    switch.unwrap().1.contention.unwrap().edges.remove(0)
}

/// Why the switch drops a word about locks that comes by `port` for that edge.
fn dropped_word(net: &mut Net, port: u16, source: Endpoint, key: u32, bits: u32) -> Vec<NodeDrop> {
    let local = first_edge().local;
    let deth = Deth { queue_key: key, source_qp: source.qp };
    let operation = Operation::DatagramSendOnlyImmediate(deth, bits);
    let header = RoceHeader::new(source.ip, local.ip, local.qp, Psn::new(0), operation);
    let frame = Frame { header: &header, payload: &[][..] };
    let did = net.switch.step(Instant::ZERO, |switch, did| {
        switch.handle_frame(Instant::ZERO, PortId(port), frame, did);
    });
    did.dropped
}

#[test]
fn a_word_about_locks_counts_only_from_the_neighbour_of_the_edge() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    let remote = first_edge().remote;
    let other = Endpoint { ip: remote.ip, qp: QpNumber::new(7) };
    let mut dropped = |port, source, key, bits| dropped_word(&mut net, port, source, key, bits);
    assert_eq!(dropped(0, other, 1, 1), [NodeDrop::ForeignSource]);
    assert_eq!(dropped(0, remote, 2, 1), [NodeDrop::ForeignSource]);
    assert_eq!(dropped(0, remote, 1, 7 << 29 | 1), [NodeDrop::NoNews]);
    assert_eq!(dropped(0, remote, 1, 3 << 29 | 1), [NodeDrop::NoNews], "children give no verdicts");
    assert_eq!(dropped(1, remote, 1, 1), [NodeDrop::ForeignPort]);
    assert_eq!(dropped(0, remote, 1, 1), []);
}

#[test]
fn a_word_about_locks_of_a_group_that_was_removed_is_for_nobody() {
    let mut net = Net::new(&EPIC_3, 1, 0);
    net.command_switch(SwitchCommand::Remove(GroupId(1)));
    assert_eq!(dropped_word(&mut net, 0, first_edge().remote, 1, 1), [NodeDrop::ForeignQueuePair]);
}
