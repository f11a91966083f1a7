//! What the exploration finds, on a toy: a sender that sends a number of tokens one after the other, each again until it is
//! acknowledged, and receivers that count them.

use crate::common;
use std::ops::ControlFlow;

use crate::common::{Input, MEMORY, Node, Output};
use quincunx_driver_check::{
    Action, End, Exploration, Fault, Member, NodeId, Renaming, Statistics, System, Unfinished, Verdict,
    explore,
};
use quincunx_engine::PortId;
use quincunx_units::ByteCount;

/// A sender with a receiver at each of its ports, or one of those.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Toy {
    Sender { flaw: Flaw, tokens: u8, next: Vec<u8>, waiting: Vec<bool> },
    Receiver { flaw: Flaw, expected: u8, taken: u8 },
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flaw {
    None,
    /// The receiver takes what it has taken before.
    NoDuplicateCheck,
    /// The sender does not wait for acknowledges.
    NoTimer,
    /// The receiver does not answer what it has taken before.
    SilentOnDuplicates,
    /// The sender believes that nothing is acknowledged twice.
    Assertion,
    /// The first receiver is told apart from the second.
    Favourite,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Header {
    Token(u8),
    Acknowledge(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Resend(u16);

impl Toy {
    fn send(&mut self, port: u16, outputs: &mut Vec<Output<Self>>) {
        let Self::Sender { flaw, tokens, next, waiting } = self else { return };
        let index = usize::from(port);
        if next[index] < *tokens {
            outputs.push(Output::Send(port, Header::Token(next[index])));
            waiting[index] = true;
            if *flaw != Flaw::NoTimer {
                outputs.push(Output::Arm(Resend(port)));
            }
        }
    }
}

impl common::Toy for Toy {
    type Header = Header;
    type Timer = Resend;
    type Command = ();
    type Event = u8;

    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>> {
        let mut outputs = Vec::new();
        match (&mut *self, input) {
            (Self::Receiver { flaw, expected, taken }, Input::Frame(port, Header::Token(token))) => {
                let new = *token == *expected;
                if new || *flaw == Flaw::NoDuplicateCheck {
                    *expected = token + 1;
                    *taken += 1;
                    outputs.push(Output::Tell(*taken));
                } else {
                    outputs.push(Output::Drop);
                }
                if new || *flaw != Flaw::SilentOnDuplicates {
                    outputs.push(Output::Send(port, Header::Acknowledge(*token)));
                }
            }
            (Self::Sender { flaw, next, waiting, .. }, Input::Frame(port, Header::Acknowledge(token))) => {
                let index = usize::from(port);
                if waiting[index] && next[index] == *token {
                    next[index] += 1;
                    waiting[index] = false;
                    outputs.push(Output::Disarm(Resend(port)));
                    if !(*flaw == Flaw::Favourite && port == 1) {
                        self.send(port, &mut outputs);
                    }
                } else {
                    assert!(*flaw != Flaw::Assertion, "an acknowledge of nothing");
                    outputs.push(Output::Drop);
                }
            }
            (_, Input::Frame(..)) => outputs.push(Output::Drop),
            (_, Input::Timer(Resend(port))) => self.send(port, &mut outputs),
            (Self::Sender { next, .. }, Input::Command(())) => {
                for port in 0..next.len() as u16 {
                    self.send(port, &mut outputs);
                }
            }
            (Self::Receiver { .. }, Input::Command(())) => {}
        }
        outputs
    }
}

/// A sender, node 0, and its receivers.
#[derive(Debug)]
struct Star {
    flaw: Flaw,
    receivers: u16,
    tokens: u8,
}

/// The sender's: whether it has asked; a receiver's: how many tokens it was told of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Owner(u8);

impl System for Star {
    type Engine = Node<Toy>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<Toy>, Owner>> {
        let receivers = usize::from(self.receivers);
        let (next, waiting) = (vec![0; receivers], vec![false; receivers]);
        let sender = Toy::Sender { flaw: self.flaw, tokens: self.tokens, next, waiting };
        let receiver = Toy::Receiver { flaw: self.flaw, expected: 0, taken: 0 };
        let engines = core::iter::once(sender).chain(std::iter::repeat_n(receiver, receivers));
        engines.map(|toy| Member { engine: Node(toy), owner: Owner(0) }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let receiver = |port| End { node: NodeId(port + 1), port: PortId(0) };
        (0..self.receivers)
            .map(|port| [End { node: NodeId(0), port: PortId(port) }, receiver(port)])
            .collect()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        node == NodeId(0) && owner.0 == 0
    }

    fn command(&self, _: NodeId, owner: &mut Owner) {
        owner.0 = 1;
    }

    fn observe(&self, _: NodeId, owner: &mut Owner, taken: u8) -> Result<(), String> {
        owner.0 = taken;
        if taken > self.tokens { Err(format!("{taken} tokens of {}", self.tokens)) } else { Ok(()) }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        owner.0 == if node == NodeId(0) { 1 } else { self.tokens }
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        let swap = |a: u16| {
            let mut nodes: Vec<_> = (0..=self.receivers).map(NodeId).collect();
            nodes.swap(usize::from(a), usize::from(a + 1));
            nodes
        };
        (1..self.receivers).map(swap).collect()
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: Resend) -> Resend {
        Resend(renaming.port(node, PortId(timer.0)).0)
    }
}

fn rules() -> Exploration {
    Exploration {
        losses: 1,
        duplicates: 0,
        delays: 0,
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        at_once: true,
        symmetry: true,
        persistent_sets: true,
        threads: 2,
        memory: MEMORY,
    }
}

fn star(flaw: Flaw, receivers: u16) -> Star {
    Star { flaw, receivers, tokens: 2 }
}

fn run(star: &Star, rules: Exploration) -> (Statistics, Verdict<Star>) {
    explore(star, rules, &mut |_| ControlFlow::Continue(()))
}

#[track_caller]
fn fault(star: &Star, rules: Exploration) -> (Fault, usize) {
    match run(star, rules) {
        (_, Verdict::Wrong { fault, path, .. }) => (fault, path.0.len()),
        (statistics, verdict) => panic!("{star:?}: {verdict:?} after {statistics:?}"),
    }
}

#[track_caller]
fn states_of_right(star: &Star, rules: Exploration) -> u64 {
    match run(star, rules) {
        (statistics, Verdict::Correct) => statistics.distinct,
        (_, verdict) => panic!("{star:?}: {verdict:?}"),
    }
}

#[test]
fn without_faults_one_receiver_has_one_run() {
    // Before the start; then each token arrives, and each acknowledge.
    let rules = Exploration { losses: 0, ..rules() };
    let (statistics, verdict) = run(&star(Flaw::None, 1), rules);
    assert!(matches!(verdict, Verdict::Correct));
    assert_eq!((statistics.distinct, statistics.diameter, statistics.states), (6, 5, 6));
}

#[test]
fn a_right_protocol_is_right_whatever_is_lost_late_or_doubled() {
    for (duplicates, delays, early_timeouts) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 2)] {
        let rules = Exploration { duplicates, delays, early_timeouts, losses: 2, ..rules() };
        assert!(states_of_right(&star(Flaw::None, 2), rules) > 10);
    }
}

#[test]
fn what_an_owner_must_not_be_told_is_found_by_the_shortest_way() {
    // Start; a token arrives twice; then the next one is one too many.
    let rules = Exploration { losses: 0, duplicates: 1, persistent_sets: false, ..rules() };
    let (fault, steps) = fault(&star(Flaw::NoDuplicateCheck, 1), rules);
    assert_eq!(fault, Fault::Wrong { node: NodeId(1), message: "3 tokens of 2".into() });
    assert_eq!(steps, 5);
}

#[test]
fn a_loss_that_nobody_notices_is_a_run_that_is_stuck() {
    let (fault, steps) = fault(&star(Flaw::NoTimer, 1), rules());
    assert_eq!((fault, steps), (Fault::Stuck, 2));
}

#[test]
fn a_run_that_only_repeats_itself_is_a_livelock() {
    // The acknowledge is lost, and the token comes again for ever.
    let (fault, steps) = fault(&star(Flaw::SilentOnDuplicates, 1), rules());
    assert_eq!((fault, steps), (Fault::Livelock, 3));
}

#[test]
fn a_panic_is_a_fault_with_its_message() {
    let rules = Exploration { losses: 0, duplicates: 1, ..rules() };
    let (fault, _) = fault(&star(Flaw::Assertion, 1), rules);
    assert!(
        matches!(&fault, Fault::Panic { node: NodeId(0), message } if message.starts_with("an acknowledge of nothing")),
        "{fault:?}"
    );
}

#[test]
fn nodes_that_are_called_equal_and_are_not_are_found_out() {
    let (found, _) = fault(&star(Flaw::Favourite, 2), rules());
    assert_eq!(found, Fault::Asymmetry { node: NodeId(0) });
    let whole = Exploration { symmetry: false, ..rules() };
    assert!(!matches!(fault(&star(Flaw::Favourite, 2), whole).0, Fault::Asymmetry { .. }));
}

#[test]
fn each_reduction_leaves_fewer_states_and_the_same_verdict() {
    let full = Exploration { symmetry: false, persistent_sets: false, ..rules() };
    let whole = states_of_right(&star(Flaw::None, 3), full);
    let symmetric = states_of_right(&star(Flaw::None, 3), Exploration { symmetry: true, ..full });
    let independent = Exploration { persistent_sets: true, ..full };
    let independent = states_of_right(&star(Flaw::None, 3), independent);
    let both = states_of_right(&star(Flaw::None, 3), rules());
    assert!(both < symmetric && both < independent && symmetric < whole && independent < whole);
    for flaw in [Flaw::NoTimer, Flaw::SilentOnDuplicates] {
        for rules in [full, rules()] {
            fault(&star(flaw, 3), rules);
        }
    }
}

#[test]
fn more_symmetries_than_are_of_use_are_not_all_used() {
    // Nine receivers have 362,880 of them.
    let rules = Exploration { losses: 0, ..rules() };
    assert!(states_of_right(&Star { flaw: Flaw::None, receivers: 9, tokens: 1 }, rules) > 1);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let one = Exploration { threads: 1, ..rules() };
    let three = Exploration { threads: 3, ..rules() };
    for flaw in [Flaw::None, Flaw::SilentOnDuplicates] {
        let ((a, first), (b, second)) = (run(&star(flaw, 3), one), run(&star(flaw, 3), three));
        assert_eq!(a, b);
        match (first, second) {
            (Verdict::Correct, Verdict::Correct) => {}
            (Verdict::Wrong { path: a, .. }, Verdict::Wrong { path: b, .. }) => assert_eq!(a.0, b.0),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_path_says_what_was_sent_and_dropped() {
    let Verdict::Wrong { path, .. } = run(&star(Flaw::SilentOnDuplicates, 1), rules()).1 else { panic!() };
    let [start, token, lost] = &path.0[..] else { panic!("{path:?}") };
    assert_eq!(start.action, Action::Command);
    assert!(matches!(token.action, Action::Arrival { header: Header::Token(0), late: false, .. }));
    assert_eq!(token.sent.len(), 1);
    assert!(matches!(lost.action, Action::Loss { header: Header::Acknowledge(0), .. }));
}

#[test]
fn whoever_has_had_enough_is_told_what_was_seen() {
    let mut calls = 0;
    let (statistics, verdict) = explore(&star(Flaw::None, 3), rules(), &mut |_| {
        calls += 1;
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(verdict, Verdict::Unfinished(Unfinished::Stopped)));
    assert!(statistics.distinct > 1 && statistics.waiting > 0);
}

#[test]
fn memory_ends_an_exploration_before_the_machine_does() {
    let rules = Exploration { memory: ByteCount::new(1), ..rules() };
    assert!(matches!(run(&star(Flaw::None, 3), rules).1, Verdict::Unfinished(Unfinished::Memory { .. })));
}
