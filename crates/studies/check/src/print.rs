//! A way to a fault as a sequence that people can read: a line for each step, who, what, and what it led to; and the same in parts, to be
//! drawn.

use core::fmt;

use quincunx_driver_check::{Action, End, JUMP, NodeId, Path, Step};

use crate::describe::{Describe, EngineOf};

/// A path with its system, to be printed.
#[derive(Debug)]
pub struct Sequence<'a, S: Describe> {
    /// Whose names are used.
    pub network: &'a S,
    /// The steps.
    pub path: &'a Path<S>,
}

/// A step in words, each thing apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepDescription {
    /// The node's name.
    pub node: String,
    /// What happens to a frame there, or what else does.
    pub what: Happening,
    /// Who sent the frame, and what it is.
    pub frame: Option<(String, String)>,
    /// What the node does, as in the line, if it is not about a frame.
    pub words: Option<String>,
    /// Why the node drops the frame.
    pub drops: Vec<String>,
    /// What it sends, and to whom.
    pub sent: Vec<(String, String)>,
}

/// What happens in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A frame arrives.
    Arrival,
    /// A frame arrives, which was late or is a copy.
    LateArrival,
    /// A frame arrives, and a copy of it will.
    Duplicate,
    /// A frame is lost.
    Loss,
    /// A frame is held up, or marked, and stays on its way.
    Delay,
    /// Something else: a time-out, a command, a notice, the clock.
    Other,
}

impl Happening {
    /// As JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::LateArrival => "late-arrival",
            Self::Duplicate => "duplicate",
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Other => "other",
        }
    }
}

impl<S: Describe> fmt::Display for Sequence<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().iter().enumerate() {
            writeln!(f, "{:>4}  {line}", index + 1)?;
        }
        Ok(())
    }
}

impl<S: Describe> Sequence<'_, S> {
    /// A line for each step.
    pub fn lines(&self) -> Vec<String> {
        self.path.0.iter().map(|step| self.line(step)).collect()
    }

    /// The names of the nodes, in the order of their numbers.
    pub fn nodes(&self) -> Vec<String> {
        (0..self.network.members().len()).map(|node| self.network.name(NodeId(node as u16))).collect()
    }

    /// The steps in parts.
    pub fn steps(&self) -> Vec<StepDescription> {
        self.path.0.iter().map(|step| self.describe_step(step)).collect()
    }

    fn describe_step(&self, step: &Step<EngineOf<S>>) -> StepDescription {
        let (what, frame) = match &step.action {
            Action::Arrival { from, header, payload, late: false } => {
                (Happening::Arrival, Some((from, header, payload)))
            }
            Action::Arrival { from, header, payload, late: true } => {
                (Happening::LateArrival, Some((from, header, payload)))
            }
            Action::Duplicate { from, header, payload } => {
                (Happening::Duplicate, Some((from, header, payload)))
            }
            Action::Loss { from, header, payload } => (Happening::Loss, Some((from, header, payload))),
            Action::Delay { from, header, payload } | Action::Mark { from, header, payload, .. } => {
                (Happening::Delay, Some((from, header, payload)))
            }
            _ => (Happening::Other, None),
        };
        StepDescription {
            node: self.network.name(step.node),
            what,
            words: frame.is_none().then(|| self.deed(step)),
            frame: frame.map(|(from, header, payload)| {
                (self.network.name(from.node), self.network.frame(header, payload))
            }),
            drops: step.drops.iter().map(|reason| format!("{reason:?}")).collect(),
            sent: self.sent(step).collect(),
        }
    }

    /// What a node sends in a step, and to whom.
    fn sent(&self, step: &Step<EngineOf<S>>) -> impl Iterator<Item = (String, String)> {
        step.sent.iter().map(|(end, header, payload)| {
            let to = self.network.name(self.network.across(*end).node);
            (to, self.network.frame(header, payload))
        })
    }

    fn line(&self, step: &Step<EngineOf<S>>) -> String {
        if step.action == Action::Clock {
            return format!("{:<9} {}", "the clock", self.words(step));
        }
        format!("{:<9} {}", self.network.name(step.node), self.words(step))
    }

    /// What a node does in a step, and what follows.
    pub(crate) fn words(&self, step: &Step<EngineOf<S>>) -> String {
        let mut line = self.deed(step);
        for reason in &step.drops {
            line += &format!("; drops it: {reason:?}");
        }
        for (to, frame) in self.sent(step) {
            line += &format!("; sends {frame} to {to}");
        }
        line
    }

    /// What a node does in a step.
    fn deed(&self, step: &Step<EngineOf<S>>) -> String {
        let from = |end: &End| self.network.name(end.node);
        match &step.action {
            Action::Arrival { from: end, header, payload, late } => {
                let late = if *late { ", late," } else { "" };
                format!("takes  {}{late} from {}", self.network.frame(header, payload), from(end))
            }
            Action::Duplicate { from: end, header, payload } => {
                let (frame, from) = (self.network.frame(header, payload), from(end));
                format!("takes  {frame} from {from}, a copy of which is on its way")
            }
            Action::Delay { from: end, header, payload } => {
                format!("awaits {} from {}, which is late", self.network.frame(header, payload), from(end))
            }
            Action::Loss { from: end, header, payload } => {
                format!("misses {} from {}", self.network.frame(header, payload), from(end))
            }
            Action::Mark { from: end, header, payload, .. } => {
                let (frame, from) = (self.network.frame(header, payload), from(end));
                format!("awaits {frame} from {from}, which meets congestion")
            }
            Action::Clock => format!("moves on by {JUMP}"),
            Action::Timer { timer, early } => {
                let early = if *early { " early" } else { "" };
                format!("waits no longer{early}: {}", self.network.timer(step.node, *timer))
            }
            Action::Slot(_) => "may send".to_owned(),
            Action::Command => "starts".to_owned(),
            Action::Notice(notice) => self.network.notice(*notice),
        }
    }
}
