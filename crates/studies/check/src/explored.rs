//! What can be explored without its type: what comes of it is data and text.

use std::fmt;
use std::ops::ControlFlow;

use crate::describe::Describe;
use crate::print::{Sequence, StepDescription};
use quincunx_driver_check::{Exploration, Fault, Statistics, Unfinished, Verdict, explore};

/// A system with words for what is in it, of any type.
pub trait Explored: Sync {
    /// Explores it within limits. `progress` hears how far that has come, and may end it.
    fn explore(
        &self,
        rules: Exploration,
        progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> (Statistics, Finding);
}

/// What an exploration comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// Every run is right.
    Correct,
    /// Every run is right, and each is the same as without the broken rule: that was not put to the test.
    NeverMattered,
    /// Some run is wrong.
    Wrong(Counterexample),
    /// Not all was seen.
    Unfinished(Unfinished),
}

/// A run that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterexample {
    /// What is wrong with it.
    pub fault: Fault,
    /// Its steps, a line each.
    pub lines: Vec<String>,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// Its steps in parts, to be drawn.
    pub steps: Vec<StepDescription>,
    /// After so many of them no run is right any more, if no more faults happen.
    pub decided: usize,
    /// The same as a trace that Perfetto opens.
    pub trace: Vec<u8>,
}

/// Its steps, numbered, with a line where it is decided.
impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            if index == self.decided {
                writeln!(f, "      from here on no run is right, unless more faults happen")?;
            }
            writeln!(f, "{:>4}  {line}", index + 1)?;
        }
        Ok(())
    }
}

impl<S: Describe> Explored for S {
    fn explore(
        &self,
        rules: Exploration,
        progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> (Statistics, Finding) {
        let (statistics, verdict) = explore(self, rules, progress);
        let finding = match verdict {
            Verdict::Correct => match self.broken_rule_matters(rules, progress) {
                Some(false) => Finding::NeverMattered,
                Some(true) | None => Finding::Correct,
            },
            Verdict::Unfinished(why) => Finding::Unfinished(why),
            Verdict::Wrong { fault, path, decided } => {
                let sequence = Sequence { network: self, path: &path };
                let trace = sequence.write_trace(&fault, Vec::new()).expect("memory takes what is written");
                let (lines, nodes, steps) = (sequence.lines(), sequence.nodes(), sequence.steps());
                Finding::Wrong(Counterexample { fault, lines, nodes, steps, decided, trace })
            }
        };
        (statistics, finding)
    }
}
