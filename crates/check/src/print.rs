//! A way to a fault as a sequence that people can read: a line for each step, who, what, and what it led to.

use core::fmt;

use quincunx_driver_check::{Action, End, JUMP, Path, Step};

use crate::describe::{Describe, EngineOf};

/// A path with its system, to be printed.
#[derive(Debug)]
pub struct Sequence<'a, S: Describe> {
    /// Whose names are used.
    pub network: &'a S,
    /// The steps.
    pub path: &'a Path<S>,
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

    fn line(&self, step: &Step<EngineOf<S>>) -> String {
        if step.action == Action::Clock {
            return format!("{:<9} {}", "the clock", self.words(step));
        }
        format!("{:<9} {}", self.network.name(step.node), self.words(step))
    }

    /// What a node does in a step.
    pub(crate) fn words(&self, step: &Step<EngineOf<S>>) -> String {
        let from = |end: &End| self.network.name(end.node);
        let mut line = match &step.action {
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
        };
        for reason in &step.drops {
            line += &format!("; drops it: {reason:?}");
        }
        for (end, header, payload) in &step.sent {
            let to = self.network.name(self.network.across(*end).node);
            line += &format!("; sends {} to {to}", self.network.frame(header, payload));
        }
        line
    }
}
