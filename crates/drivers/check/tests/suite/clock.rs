//! What depends on the time that has passed, on a toy: a receiver that takes a token once, and forgets after a while that it has.

use crate::common;
use std::ops::ControlFlow;

use crate::common::{Input, MEMORY, Node, Output};
use quincunx_collective::Provenance;
use quincunx_driver_check::{
    Action, End, Exploration, Fault, JUMP, Member, NodeId, Path, Renaming, System, Verdict, explore,
};
use quincunx_engine::PortId;
use quincunx_units::{Duration, Instant};

const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Toy {
    Sender,
    /// When it has taken the token, and whether it ever forgets that.
    Receiver {
        taken: Option<Instant>,
        forgets: bool,
    },
}

/// How long a receiver that forgets remembers.
const MEMORY_SPAN: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Token;

impl common::Toy for Toy {
    type Header = Token;
    type Timer = ();
    type Command = ();
    type Event = ();

    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>> {
        self.take_at(Instant::ZERO, input)
    }

    fn take_at(&mut self, now: Instant, input: Input<'_, Self>) -> Vec<Output<Self>> {
        match (self, input) {
            (Self::Sender, Input::Command(())) => vec![Output::Send(0, Token)],
            (Self::Receiver { taken, forgets }, Input::Frame(..)) => {
                let is_known = taken.is_some_and(|taken| !*forgets || now.since(taken) < MEMORY_SPAN);
                *taken = Some(now);
                if is_known { vec![Output::Drop] } else { vec![Output::Tell(())] }
            }
            _ => Vec::new(),
        }
    }
}

/// A sender and a receiver.
#[derive(Debug)]
struct Pair {
    forgets: bool,
}

impl System for Pair {
    type Engine = Node<Toy>;
    /// Whether the sender has sent, or the receiver has taken.
    type Owner = bool;

    fn members(&self) -> Vec<Member<Node<Toy>, bool>> {
        let toys = [Toy::Sender, Toy::Receiver { taken: None, forgets: self.forgets }];
        toys.map(|toy| Member { engine: Node(toy), owner: false }).into()
    }

    fn links(&self) -> Vec<[End; 2]> {
        vec![[SENDER, RECEIVER].map(|node| End { node, port: PortId(0) })]
    }

    fn wants_command(&self, node: NodeId, has_sent: &bool) -> bool {
        node == SENDER && !has_sent
    }

    fn command(&self, _: NodeId, has_sent: &mut bool) {
        *has_sent = true;
    }

    fn observe(&self, _: NodeId, has_taken: &mut bool, (): ()) -> Result<(), String> {
        if std::mem::replace(has_taken, true) { Err("the token twice".to_owned()) } else { Ok(()) }
    }

    fn is_done(&self, _: NodeId, done: &bool) -> bool {
        *done
    }

    fn rename_frame(&self, _: &Renaming, _: End, _: &Token, payload: &Provenance) -> (Token, Provenance) {
        (Token, payload.clone())
    }

    fn rename_timer(&self, _: &Renaming, _: NodeId, (): ()) {}
}

/// A copy of the token, which may come at any time.
fn rules(jumps: u8) -> Exploration {
    Exploration {
        losses: 0,
        duplicates: 1,
        delays: 0,
        early_timeouts: 0,
        jumps,
        marks: 0,
        at_once: true,
        symmetry: true,
        persistent_sets: true,
        threads: 2,
        memory: MEMORY,
    }
}

fn run(forgets: bool, rules: Exploration) -> Option<(Fault, Path<Pair>)> {
    match explore(&Pair { forgets }, rules, &mut |_| ControlFlow::Continue(())).1 {
        Verdict::Correct => None,
        Verdict::Wrong { fault, path, .. } => Some((fault, path)),
        Verdict::Unfinished(why) => panic!("{why:?}"),
    }
}

#[test]
fn what_is_wrong_only_when_time_has_passed_is_found_where_the_clock_moves() {
    assert!(run(true, rules(0)).is_none(), "no time passes");
    let (fault, path) = run(true, rules(1)).expect("it is noticed");
    assert_eq!(fault, Fault::Wrong { node: RECEIVER, message: "the token twice".to_owned() });
    let moves = path.0.iter().position(|step| step.action == Action::Clock);
    let late = path.0.iter().position(|step| matches!(step.action, Action::Arrival { late: true, .. }));
    assert!(moves.is_some() && moves < late, "{path:?}");
    assert!(JUMP > MEMORY_SPAN);
}

#[test]
fn what_no_clock_matters_to_is_right_however_often_it_moves() {
    assert!(run(false, rules(3)).is_none());
}

#[test]
fn what_is_left_out_changes_no_verdict_where_the_clock_moves() {
    for forgets in [false, true] {
        let whole = Exploration { at_once: false, persistent_sets: false, ..rules(2) };
        assert_eq!(run(forgets, rules(2)).is_some(), run(forgets, whole).is_some());
    }
}
