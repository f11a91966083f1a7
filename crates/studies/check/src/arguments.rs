//! What is asked for beside a name and a collective.

use std::fmt::Display;

use quincunx_collective::Rank;
use quincunx_design::{Catalog, Refusal};
use quincunx_scenario::{Override, Scenario, ScenarioError};

use crate::group::Explorer;

/// What is asked for beside a name and a collective. What is not said is as the design or the study has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Arguments {
    /// The network: a shape, a preset or a file; studies know shapes alone.
    pub tree: Option<String>,
    /// Packets of data from each sender.
    pub packets: Option<u32>,
    /// Ranks that send anything of their own, where others relay.
    pub senders: Option<u16>,
    /// Relaying takes its time.
    pub slow: bool,
    /// Packets, or messages of a design, that a rank may have in flight; two if it is not said. On a memory fabric packets of each virtual
    /// channel that a link has buffers for; they never run out if it is not said.
    pub window: Option<u32>,
    /// How often in sequence.
    pub times: u8,
    /// How often whoever is refused asks again.
    pub tries: u8,
    /// How many groups do that side by side.
    pub groups: u8,
    /// How many of them a rank has under way at most.
    pub in_flight: u8,
    /// Ranks begin when they like, not at once.
    pub late_start: bool,
    /// The root, where there is one, of each in sequence; the last one of those that follow, too.
    pub roots: Vec<u16>,
    /// A rule of the protocol to break.
    pub mutate: Option<String>,
    /// What the last rank asks for that the others do not.
    pub disagree: Option<String>,
    /// The rule of an earlier system.
    pub rule: Option<String>,
    /// Keys of the scenario, and parameters of a design.
    pub set: Vec<Override>,
}

/// Relaying that takes its time, as a parameter of designs that relay.
pub(crate) const SLOW: (&str, &str) = ("relay.message", "1us");

/// What a group's packets in flight are called as a parameter.
const WINDOW: &str = "group.window";

impl Default for Arguments {
    fn default() -> Self {
        Self {
            tree: None,
            packets: None,
            senders: None,
            slow: false,
            window: None,
            times: 1,
            tries: 0,
            groups: 1,
            in_flight: 1,
            late_start: false,
            roots: Vec::new(),
            mutate: None,
            disagree: None,
            rule: None,
            set: Vec::new(),
        }
    }
}

impl Arguments {
    /// Options that somebody has given and not everybody has a use for, with what was given.
    fn given(&self) -> Vec<(&'static str, String)> {
        fn value<T: Display>(given: &Option<T>) -> Option<String> {
            given.as_ref().map(T::to_string)
        }
        let options = [
            ("--tree", value(&self.tree)),
            ("--senders", value(&self.senders)),
            ("--slow", self.slow.then(|| "true".to_owned())),
            ("--tries", (self.tries != 0).then(|| self.tries.to_string())),
            ("--groups", (self.groups != 1).then(|| self.groups.to_string())),
            ("--in-flight", (self.in_flight != 1).then(|| self.in_flight.to_string())),
            ("--late-start", self.late_start.then(|| "true".to_owned())),
            ("--root", self.roots.first().map(u16::to_string)),
            ("--mutate", value(&self.mutate)),
            ("--disagree", value(&self.disagree)),
            ("--rule", value(&self.rule)),
            ("--set", self.set.first().map(|change| change.key.clone())),
        ];
        options.into_iter().filter_map(|(option, given)| Some((option, given?))).collect()
    }

    /// The root of the collective of that number.
    pub(crate) fn root(&self, number: usize) -> Rank {
        Rank(self.roots.get(number).or(self.roots.last()).copied().unwrap_or(0))
    }

    /// Packets in flight of a study.
    pub(crate) fn window(&self) -> u32 {
        self.window.unwrap_or(2)
    }

    /// What they mean on a network of that name: several options are short for keys.
    pub(crate) fn scenario(&self, catalog: Catalog, network: &str) -> Result<Scenario, ScenarioError> {
        let short = self.slow.then(|| (SLOW.0, SLOW.1.to_owned()));
        let window = self.window.map(|window| (WINDOW, window.to_string()));
        let mut changes: Vec<Override> = Vec::new();
        for (key, value) in short.into_iter().chain(window) {
            changes.push(format!("{key}={value}").parse()?);
        }
        changes.extend(self.set.iter().cloned());
        Scenario::find_for(&Explorer, network, &changes, catalog)
    }

    /// Refuses options that `name` has no use for.
    pub(crate) fn refuse_all_but(&self, name: &str, used: &[&str]) -> Result<(), Refusal> {
        match self.given().into_iter().find(|(option, _)| !used.contains(option)) {
            Some((option, found)) => {
                Err(Refusal::new(format!("no {option} with {name}"), found, "leave it out"))
            }
            None => Ok(()),
        }
    }
}
