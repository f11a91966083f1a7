//! What the control plane tells nodes, on a toy: a client asks a server, which answers it and an onlooker. A client that gets no answer
//! gives up, and everybody is told.

use crate::common;
use std::ops::ControlFlow;

use crate::common::{Input, MEMORY, Node, Output};
use quincunx_driver_check::{
    Action, End, Exploration, Fault, Member, NodeId, Path, Statistics, System, Verdict, explore,
};
use quincunx_engine::PortId;

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);
const ONLOOKER: NodeId = NodeId(2);

/// A client that asks, a server, or an onlooker that waits for the server's answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Toy {
    Client {
        flaw: Flaw,
    },
    /// Whether it has been told that all is over, and whether it cares.
    Server {
        is_over: bool,
        flaw: Flaw,
    },
    Onlooker,
}

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flaw {
    None,
    /// The server answers when all is over.
    AnswersOn,
    /// The onlooker takes an answer for right when all is over, and the server's refusal makes it so.
    Refuses,
    /// As that, but the answer is the client's own, and on its way before anybody refuses.
    Overtaken,
    /// Nobody is told.
    NoControlPlane,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Header {
    Ask,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Patience;

/// What a node is asked for.
enum Command {
    Ask,
    Stop,
}

/// What it tells.
enum Event {
    Answered,
    /// All is over, for a client without an answer or a server that refuses.
    Over,
}

impl common::Toy for Toy {
    type Header = Header;
    type Timer = Patience;
    type Command = Command;
    type Event = Event;

    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>> {
        match (self, input) {
            (Self::Client { flaw: Flaw::Overtaken }, Input::Command(Command::Ask)) => {
                vec![Output::Send(0, Header::Ask), Output::Send(1, Header::Answer), Output::Arm(Patience)]
            }
            (Self::Client { .. }, Input::Command(Command::Ask)) => {
                vec![Output::Send(0, Header::Ask), Output::Arm(Patience)]
            }
            (Self::Client { .. }, Input::Command(Command::Stop)) => vec![Output::Disarm(Patience)],
            (Self::Client { .. }, Input::Timer(Patience)) => vec![Output::Tell(Event::Over)],
            (Self::Client { .. }, Input::Frame(_, Header::Answer)) => {
                vec![Output::Disarm(Patience), Output::Tell(Event::Answered)]
            }
            (Self::Server { is_over, .. }, Input::Command(_)) => {
                *is_over = true;
                Vec::new()
            }
            (Self::Server { is_over: false, flaw: Flaw::Overtaken }, Input::Frame(..)) => {
                vec![Output::Tell(Event::Over)]
            }
            (Self::Server { is_over: false, flaw: Flaw::Refuses }, Input::Frame(..)) => {
                vec![
                    Output::Send(0, Header::Answer),
                    Output::Send(1, Header::Answer),
                    Output::Tell(Event::Over),
                ]
            }
            (Self::Server { is_over: true, flaw }, Input::Frame(..)) if *flaw != Flaw::AnswersOn => {
                vec![Output::Drop]
            }
            (Self::Server { .. }, Input::Frame(..)) => {
                vec![Output::Send(0, Header::Answer), Output::Send(1, Header::Answer)]
            }
            (Self::Onlooker, Input::Frame(..)) => vec![Output::Tell(Event::Answered)],
            _ => Vec::new(),
        }
    }
}

/// The three of them.
#[derive(Debug)]
struct Three(Flaw);

/// What somebody has asked for and been told.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Owner {
    has_asked: bool,
    is_answered: bool,
    /// It has said that all is over, or was told so.
    has_said: bool,
    is_told: bool,
}

impl System for Three {
    type Engine = Node<Toy>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Node<Toy>, Owner>> {
        let toys =
            [Toy::Client { flaw: self.0 }, Toy::Server { is_over: false, flaw: self.0 }, Toy::Onlooker];
        toys.map(|toy| Member { engine: Node(toy), owner: Owner::default() }).into()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end = |node, port| End { node, port: PortId(port) };
        let own = [end(CLIENT, 1), end(ONLOOKER, 1)];
        let mut links = vec![[end(CLIENT, 0), end(SERVER, 0)], [end(ONLOOKER, 0), end(SERVER, 1)]];
        links.extend((self.0 == Flaw::Overtaken).then_some(own));
        links
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        node == CLIENT && !owner.has_asked && !owner.is_told
    }

    fn command(&self, _: NodeId, owner: &mut Owner) -> Command {
        owner.has_asked = true;
        Command::Ask
    }

    fn observe(&self, node: NodeId, owner: &mut Owner, event: Event) -> Result<(), String> {
        match event {
            Event::Answered
                if owner.is_told && node == ONLOOKER && matches!(self.0, Flaw::Refuses | Flaw::Overtaken) =>
            {
                return Err("an answer when all is over".to_owned());
            }
            Event::Answered => owner.is_answered = true,
            Event::Over => owner.has_said = true,
        }
        Ok(())
    }

    fn notices(&self) -> u8 {
        u8::from(self.0 != Flaw::NoControlPlane)
    }

    fn calls_for_notice(&self, _: NodeId, owner: &Owner, _: u8) -> bool {
        owner.has_said
    }

    fn lacks_notice(&self, _: NodeId, owner: &Owner, _: u8) -> bool {
        !owner.is_told
    }

    fn take_notice(&self, _: NodeId, owner: &mut Owner, _: u8) -> Option<Command> {
        owner.is_told = true;
        Some(Command::Stop)
    }

    fn check_sent(&self, _: NodeId, owner: &Owner, header: &Header) -> Result<(), String> {
        if owner.is_told { Err(format!("{header:?} when all is over")) } else { Ok(()) }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        node == SERVER || owner.is_answered || owner.has_said || owner.is_told
    }
}

fn rules(losses: u8, delays: u8) -> Exploration {
    Exploration {
        losses,
        duplicates: 0,
        delays,
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

fn run(flaw: Flaw, rules: Exploration) -> (Statistics, Option<(Fault, Path<Three>)>) {
    match explore(&Three(flaw), rules, &mut |_| ControlFlow::Continue(())) {
        (statistics, Verdict::Correct) => (statistics, None),
        (statistics, Verdict::Wrong { fault, path, .. }) => (statistics, Some((fault, path))),
        (_, Verdict::Unfinished(why)) => panic!("{why:?}"),
    }
}

fn fault(flaw: Flaw, rules: Exploration) -> Option<Fault> {
    run(flaw, rules).1.map(|(fault, _)| fault)
}

#[test]
fn whoever_waits_for_somebody_who_has_given_up_is_told() {
    assert_eq!(fault(Flaw::None, rules(0, 1)), None);
}

#[test]
fn without_a_control_plane_it_waits_for_ever() {
    assert_eq!(fault(Flaw::NoControlPlane, rules(1, 0)), Some(Fault::Stuck));
}

#[test]
fn a_notice_may_come_before_a_frame_that_is_late() {
    let (_, found) = run(Flaw::AnswersOn, rules(0, 1));
    let (fault, path) = found.expect("it is noticed");
    assert_eq!(fault, Fault::Wrong { node: SERVER, message: "Answer when all is over".to_owned() });
    let actions: Vec<_> = path.0.iter().map(|step| (step.node, &step.action)).collect();
    let told = actions.iter().position(|(node, action)| (*node, *action) == (SERVER, &Action::Notice(0)));
    let late = actions.iter().position(|(_, action)| matches!(action, Action::Arrival { late: true, .. }));
    assert!(told.is_some() && told < late, "{actions:?}");
}

#[test]
fn a_notice_that_a_frame_has_called_for_may_come_before_any_other_frame() {
    let found = fault(Flaw::Refuses, rules(0, 0));
    assert_eq!(
        found,
        Some(Fault::Wrong { node: ONLOOKER, message: "an answer when all is over".to_owned() })
    );
}

#[test]
fn a_notice_that_a_frame_has_called_for_may_come_before_a_frame_that_would_be_taken_alone() {
    let found = fault(Flaw::Overtaken, rules(0, 0));
    let message = "an answer when all is over".to_owned();
    assert_eq!(found, Some(Fault::Wrong { node: ONLOOKER, message }));
}

#[test]
fn what_is_left_out_changes_no_verdict_where_there_are_notices() {
    for flaw in [Flaw::None, Flaw::AnswersOn, Flaw::Refuses, Flaw::Overtaken, Flaw::NoControlPlane] {
        let whole = Exploration { at_once: false, symmetry: false, persistent_sets: false, ..rules(1, 1) };
        assert_eq!(fault(flaw, rules(1, 1)).is_some(), fault(flaw, whole).is_some(), "{flaw:?}");
    }
}
