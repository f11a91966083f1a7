//! States that differ only in the order of a channel are different states, however long the channel is.

use std::ops::ControlFlow;

use crate::common::{Input, MEMORY, Node, Output, Toy};
use quincunx_collective::Provenance;
use quincunx_driver_check::{End, Exploration, Fault, Member, NodeId, Renaming, System, Verdict, explore};
use quincunx_engine::PortId;

/// Two sources send a frame each to a relay, which keeps both until it has them. Then it sends the first of them, so many others, and
/// the second, and forgets in which order they came.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Line {
    Source(u8),
    Relay { between: u8, first: Option<u8> },
    Sink,
}

/// What frames between the two say.
const OTHER: u8 = 9;

impl Toy for Line {
    type Header = u8;
    type Timer = ();
    type Command = ();
    type Event = u8;

    fn take(&mut self, input: Input<'_, Self>) -> Vec<Output<Self>> {
        match (self, input) {
            (Self::Source(frame), Input::Command(())) => vec![Output::Send(0, *frame)],
            (Self::Relay { between, first }, Input::Frame(_, &frame)) => match first.take() {
                None => {
                    *first = Some(frame);
                    Vec::new()
                }
                Some(first) => {
                    let others = std::iter::repeat_n(OTHER, usize::from(*between));
                    let frames = std::iter::once(first).chain(others).chain([frame]);
                    frames.map(|frame| Output::Send(2, frame)).collect()
                }
            },
            (Self::Sink, Input::Frame(_, &frame)) => vec![Output::Tell(frame)],
            _ => unreachable!("frames go one way"),
        }
    }
}

/// Sources 0 and 1, the relay and the sink. It is wrong if the frame of source `wrong` comes first.
#[derive(Debug)]
struct Network {
    between: u8,
    wrong: u8,
}

impl System for Network {
    type Engine = Node<Line>;
    /// What was asked for or heard of.
    type Owner = u8;

    fn members(&self) -> Vec<Member<Node<Line>, u8>> {
        let relay = Line::Relay { between: self.between, first: None };
        let nodes = [Line::Source(0), Line::Source(1), relay, Line::Sink];
        nodes.map(|node| Member { engine: Node(node), owner: 0 }).into()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end = |node, port| End { node: NodeId(node), port: PortId(port) };
        vec![[end(0, 0), end(2, 0)], [end(1, 0), end(2, 1)], [end(2, 2), end(3, 0)]]
    }

    fn wants_command(&self, node: NodeId, owner: &u8) -> bool {
        node.0 < 2 && *owner == 0
    }

    fn command(&self, _: NodeId, owner: &mut u8) {
        *owner = 1;
    }

    fn observe(&self, _: NodeId, owner: &mut u8, frame: u8) -> Result<(), String> {
        *owner += 1;
        if *owner == 1 && frame == self.wrong { Err(format!("{frame} comes first")) } else { Ok(()) }
    }

    fn is_done(&self, node: NodeId, owner: &u8) -> bool {
        *owner == [1, 1, 0, self.between + 2][node.index()]
    }

    fn rename_frame(&self, _: &Renaming, _: End, header: &u8, payload: &Provenance) -> (u8, Provenance) {
        (*header, payload.clone())
    }

    fn rename_timer(&self, _: &Renaming, _: NodeId, (): ()) {}
}

#[test]
fn two_frames_of_a_channel_that_change_places_make_another_state_whatever_is_between_them() {
    for between in 0..20 {
        for (wrong, persistent_sets) in [(0, false), (1, false), (0, true), (1, true)] {
            let rules = Exploration {
                losses: 0,
                duplicates: 0,
                delays: 0,
                early_timeouts: 0,
                jumps: 0,
                marks: 0,
                persistent_sets,
                at_once: true,
                symmetry: false,
                threads: 1,
                memory: MEMORY,
            };
            let (_, verdict) =
                explore(&Network { between, wrong }, rules, &mut |_| ControlFlow::Continue(()));
            assert!(
                matches!(verdict, Verdict::Wrong { fault: Fault::Wrong { .. }, .. }),
                "with {between} frames between them it is not seen that {wrong} may come first: {verdict:?}"
            );
        }
    }
}
