//! Persistent sets change no verdict: held against whole explorations of small networks whose nodes do
//! something arbitrary.

use std::ops::ControlFlow;

use crate::common::{Input, MEMORY, Node, Output, Toy};
use quincunx_driver_check::{
    End, Exploration, Fault, Member, NodeId, Patience, Renaming, Statistics, System, Verdict,
    explore_in_turns,
};
use quincunx_engine::PortId;
use quincunx_network::OrderingClass;
use quincunx_units::Instant;

/// A node that notes what arrives and answers it, both as its rule says, and sends when its timer fires.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Random {
    rule: Rule,
    ports: u16,
    state: u8,
    timeouts: u8,
}

/// What is noted of frames of kind 0 and 1 commutes; a frame of kind 2 turns the state, one of kind 3 does neither.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Rule {
    /// Decides what is sent.
    seed: u64,
    /// Whether what is sent depends on the state.
    heeds_state: bool,
    /// In which state which frame, or a time-out, is told to the owner, who does not want to hear of it.
    wrong: (u8, u8),
    /// How often a timer fires.
    timeouts: u8,
    /// Whether frames are of another kind when the clock has moved.
    heeds_clock: bool,
    /// In which state which frame, or a time-out, makes the owner call for a notice.
    reported: (u8, u8),
}

/// A time-out where a frame's kind would be.
const TIMEOUT: u8 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Header {
    kind: u8,
    /// How many answers may follow on it; without end if it is [`FOR_EVER`].
    life: u8,
}

const FOR_EVER: u8 = u8::MAX;

/// What an owner is told.
enum Event {
    /// Nobody wants to hear of it.
    Wrong,
    /// Everybody is to hear of it.
    Reported,
}

/// Whether an owner has begun, has called for a notice, and has got it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Owner {
    has_begun: bool,
    has_called: bool,
    is_told: bool,
}

/// Nothing happens in it.
const NEVER: (u8, u8) = (u8::MAX, 0);

/// A number that depends on all of `parts`.
fn mix(parts: [u64; 4]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, part| {
        let mixed = (mixed ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    })
}

impl Random {
    fn arm(&self) -> Vec<Output<Self>> {
        if self.timeouts > 0 { vec![Output::Arm(())] } else { Vec::new() }
    }

    /// What the owner is told of a frame of that kind, or of a time-out.
    fn tell(&self, kind: u8) -> Vec<Output<Self>> {
        let wrong = ((self.state, kind) == self.rule.wrong).then_some(Output::Tell(Event::Wrong));
        let reported = ((self.state, kind) == self.rule.reported).then_some(Output::Tell(Event::Reported));
        wrong.into_iter().chain(reported).collect()
    }
}

impl Toy for Random {
    type Header = Header;
    type Timer = ();
    type Command = Vec<(u16, Header)>;
    type Event = Event;

    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>> {
        self.take_at(Instant::ZERO, input)
    }

    fn take_at(&mut self, now: Instant, input: Input<'_, Self>) -> Vec<Output<Self>> {
        match input {
            Input::Frame(port, &Header { kind, life }) => {
                let has_moved = self.rule.heeds_clock && now > Instant::ZERO;
                let kind = if has_moved { (kind + 1) % 4 } else { kind };
                let mut outputs = self.tell(kind);
                if life == FOR_EVER {
                    outputs.push(Output::Send(port, Header { kind, life }));
                    return outputs;
                }
                let seen = if self.rule.heeds_state { u64::from(self.state) } else { 0 };
                match kind {
                    0 | 1 => self.state |= 1 << kind,
                    2 => self.state = self.state << 1 & 15 | self.state >> 3,
                    _ => {}
                }
                let chance = mix([self.rule.seed, seen, u64::from(kind), u64::from(port)]);
                let answers = (0..if life == 0 { 0 } else { chance % 3 }).map(|answer| {
                    let chance = mix([chance, answer, 0, 0]);
                    let header = Header { kind: (chance >> 8) as u8 % 4, life: life - 1 };
                    Output::Send(chance as u16 % self.ports, header)
                });
                outputs.extend(answers);
                outputs
            }
            Input::Timer(()) => {
                self.timeouts -= 1;
                let mut outputs = self.arm();
                outputs.extend(self.tell(TIMEOUT));
                let chance = mix([self.rule.seed, u64::from(self.state), TIMEOUT.into(), 0]);
                let header = Header { kind: (chance >> 8) as u8 % 4, life: 1 };
                outputs.push(Output::Send(chance as u16 % self.ports, header));
                outputs
            }
            Input::Command(frames) => {
                let mut outputs = self.arm();
                outputs.extend(frames.into_iter().map(|(port, header)| Output::Send(port, header)));
                outputs
            }
        }
    }
}

/// Three nodes, each joined with each or in a line.
#[derive(Debug)]
struct Three {
    rules: [Rule; 3],
    is_line: bool,
    has_classes: bool,
    has_notices: bool,
    /// What each node sends in the beginning, and through which port.
    begin: [Vec<(u16, Header)>; 3],
}

impl Three {
    /// A network that depends on `seed` alone.
    fn new(seed: u64) -> Self {
        let pick = |node: u64, what: u64| mix([seed, node, what, 1]);
        let rule = |node| Rule {
            seed: pick(node, 0),
            heeds_state: pick(node, 1).is_multiple_of(2),
            wrong: ((pick(node, 2) % 16) as u8, (pick(node, 3) % 5) as u8),
            timeouts: (pick(node, 7) % 4).saturating_sub(2) as u8,
            heeds_clock: false,
            reported: NEVER,
        };
        let is_line = pick(0, 4).is_multiple_of(2);
        let begin = |node: u64| {
            let ports = if is_line && node != 1 { 1 } else { 2 };
            let frame = |number: u64| {
                let chance = mix([seed, node, number, 2]);
                (chance as u16 % ports, Header { kind: (chance >> 8) as u8 % 4, life: 2 })
            };
            (0..1 + pick(node, 5) % 2).map(frame).collect()
        };
        let has_classes = pick(0, 6).is_multiple_of(3);
        let rules = [0, 1, 2].map(rule);
        Self { rules, is_line, has_classes, has_notices: false, begin: [0, 1, 2].map(begin) }
    }

    /// The same, some of whose nodes heed the clock.
    fn with_clock(mut self, seed: u64) -> Self {
        for (rule, node) in self.rules.iter_mut().zip(0..) {
            rule.heeds_clock = mix([seed, node, 8, 1]).is_multiple_of(2);
        }
        self
    }

    /// The same, some of whose nodes call for a notice.
    fn with_notices(mut self, seed: u64) -> Self {
        for (rule, node) in self.rules.iter_mut().zip(0..) {
            let chance = mix([seed, node, 9, 1]);
            // A time-out, and in every eighth network a frame.
            let kind = if seed.is_multiple_of(8) { (chance >> 8) as u8 % 4 } else { TIMEOUT };
            rule.reported = ((chance % 4) as u8, kind);
            rule.timeouts = 1;
            if node > 0 {
                rule.wrong = NEVER;
            }
        }
        // What is sent when they are told makes up for it.
        self.begin.iter_mut().flatten().for_each(|(_, header)| header.life = 1);
        self.has_notices = true;
        self
    }
}

impl System for Three {
    type Engine = Node<Random>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<Random>, Owner>> {
        let ports = |node: usize| if self.is_line && node != 1 { 1 } else { 2 };
        let node = |node: usize| {
            let rule = self.rules[node];
            Node(Random { rule, ports: ports(node), state: 0, timeouts: rule.timeouts })
        };
        (0..3).map(|index| Member { engine: node(index), owner: Owner::default() }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end = |node, port| End { node: NodeId(node), port: PortId(port) };
        let line = [[end(0, 0), end(1, 0)], [end(1, 1), end(2, 0)]];
        let third = [end(2, 1), end(0, 1)];
        line.into_iter().chain((!self.is_line).then_some(third)).collect()
    }

    fn ordering_class(&self, header: &Header) -> OrderingClass {
        let is_second = self.has_classes && header.kind.is_multiple_of(2);
        if is_second { OrderingClass::SECOND } else { OrderingClass::FIRST }
    }

    fn wants_command(&self, _: NodeId, owner: &Owner) -> bool {
        !owner.has_begun
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> Vec<(u16, Header)> {
        owner.has_begun = true;
        self.begin[node.index()].clone()
    }

    fn observe(&self, _: NodeId, owner: &mut Owner, event: Event) -> Result<(), String> {
        match event {
            Event::Wrong => Err("what must not happen".into()),
            Event::Reported => {
                owner.has_called = true;
                Ok(())
            }
        }
    }

    fn notices(&self) -> u8 {
        u8::from(self.has_notices)
    }

    fn calls_for_notice(&self, _: NodeId, owner: &Owner, _: u8) -> bool {
        owner.has_called
    }

    fn lacks_notice(&self, _: NodeId, owner: &Owner, _: u8) -> bool {
        !owner.is_told
    }

    /// A node that is told sends once more.
    fn take_notice(&self, node: NodeId, owner: &mut Owner, _: u8) -> Option<Vec<(u16, Header)>> {
        owner.is_told = true;
        Some(vec![(0, Header { kind: self.rules[node.index()].reported.0, life: 1 })])
    }

    fn is_done(&self, _: NodeId, owner: &Owner) -> bool {
        owner.has_begun
    }

    fn rename_timer(&self, _: &Renaming, _: NodeId, (): ()) {}
}

fn whole(seed: u64) -> Exploration {
    Exploration {
        losses: u8::from(seed.is_multiple_of(2)),
        duplicates: u8::from(seed.is_multiple_of(5)),
        delays: u8::from(seed.is_multiple_of(3)),
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        persistent_sets: false,
        at_once: true,
        symmetry: false,
        threads: 1,
        memory: MEMORY,
    }
}

/// Whether every run is right.
fn is_right(network: &Three, rules: Exploration) -> (Statistics, bool) {
    is_right_in_turns(network, rules, Patience::FIRST)
}

fn is_right_in_turns(network: &Three, rules: Exploration, patience: Patience) -> (Statistics, bool) {
    match explore_in_turns(network, rules, patience, &mut |_| ControlFlow::Continue(())) {
        (statistics, Verdict::Correct) => (statistics, true),
        (statistics, Verdict::Wrong { fault: Fault::Wrong { .. }, .. }) => (statistics, false),
        (_, verdict) => panic!("{network:?}: {verdict:?}"),
    }
}

/// Holds what is found of so many networks with persistent sets against what is found without; of the states less than so many percent
/// are looked at.
fn assert_same_verdicts(networks: u64, percent: u64, network: impl Fn(u64) -> (Three, Exploration)) {
    let (mut right, mut whole_states, mut states) = (0, 0, 0);
    for seed in 0..networks {
        let (network, rules) = network(seed);
        let (of_whole, expected) = is_right(&network, rules);
        let (reduced, found) = is_right(&network, Exploration { persistent_sets: true, ..rules });
        assert_eq!(found, expected, "seed {seed}: {network:?}");
        if expected {
            right += 1;
            whole_states += of_whole.distinct;
            states += reduced.distinct;
        }
    }
    // Both verdicts are common, and something is left out.
    assert!((networks / 5..networks * 4 / 5).contains(&right), "{right} of {networks}");
    assert!(states * 100 < whole_states * percent, "{states} of {whole_states}");
}

#[test]
fn no_verdict_depends_on_who_loses_patience_and_when() {
    let mut seen = [false; 3];
    for seed in 0..24 {
        let (network, rules) = (Three::new(seed), whole(seed));
        let (of_whole, expected) = is_right(&network, rules);
        let reduced = Exploration { persistent_sets: true, ..rules };
        let (of_reduced, _) = is_right(&network, reduced);
        // With little at first what was left is taken up again several times.
        for (learnt, states) in [(0, 0), (0, 1 << 20), (8, 1)] {
            let (statistics, found) = is_right_in_turns(&network, reduced, Patience { learnt, states });
            assert_eq!(found, expected, "seed {seed}, {learnt} and {states}: {network:?}");
            let [is_whole, is_reduced] =
                [of_whole, of_reduced].map(|other| other.distinct == statistics.distinct);
            seen[match (is_whole, is_reduced) {
                (true, false) => 0,
                (false, true) => 1,
                _ => 2,
            }] = true;
        }
    }
    assert_eq!(seen, [true; 3], "sometimes one ends, sometimes the other");
}

#[test]
fn no_verdict_depends_on_persistent_sets() {
    assert_same_verdicts(80, 50, |seed| (Three::new(seed), whole(seed)));
}

#[test]
fn no_verdict_depends_on_persistent_sets_where_the_clock_moves() {
    assert_same_verdicts(40, 80, |seed| {
        let rules = Exploration { jumps: 1, duplicates: 0, delays: 0, ..whole(seed) };
        (Three::new(seed).with_clock(seed), rules)
    });
}

#[test]
fn no_verdict_depends_on_persistent_sets_where_nodes_are_told_by_others() {
    assert_same_verdicts(40, 80, |seed| {
        let rules = Exploration { losses: 0, duplicates: 0, delays: 0, ..whole(seed) };
        (Three::new(seed).with_notices(seed), rules)
    });
}

#[test]
fn what_goes_to_and_fro_for_ever_puts_nothing_else_off() {
    // Between nodes 1 and 2 a frame goes to and fro, and would be looked at before what node 0 sends.
    let (heeds_state, heeds_clock) = (false, false);
    let quiet = Rule { seed: 0, heeds_state, wrong: NEVER, timeouts: 0, heeds_clock, reported: NEVER };
    let rules = [quiet, Rule { wrong: (0, 1), ..quiet }, quiet];
    let for_ever = (0, Header { kind: 3, life: FOR_EVER });
    let begin = [vec![(0, Header { kind: 1, life: 0 })], Vec::new(), vec![for_ever]];
    let network = Three { rules, is_line: true, has_classes: false, has_notices: false, begin };
    let rules = Exploration { losses: 0, delays: 0, duplicates: 0, persistent_sets: true, ..whole(0) };
    assert!(!is_right(&network, rules).1);
}
