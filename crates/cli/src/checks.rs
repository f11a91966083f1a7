//! What `quincunx check` is asked to explore, as the checker wants it.

use core::fmt::Display;
use core::str::FromStr;

use quincunx_check::earlier::{self, Rules};
use quincunx_check::{ExchangeSetup, Kind, Pattern, RelaySetup, Reliability, Setup, Topology};
use quincunx_collective::{Collective, Rank};
use quincunx_control::Design;
use quincunx_fabric::TreeShape;

use crate::Failure;
use crate::check::What;

/// The tree of EPIC's table 8.
const DEFAULT_TREE: &str = "tree-3-2";

/// MultiWrite's network (3.1), as small as it gets.
const DEFAULT_MESH: &str = "mesh-2x2";

/// Where two ranks send, their writes meet.
const DEFAULT_SENDERS: u16 = 2;

/// The least star on which one worker can be ahead of another.
const DEFAULT_STAR: &str = "star-2";

/// ATP's aggregators: one, which chunks in flight share.
const AGGREGATORS: u8 = 1;

/// What is explored.
pub(crate) enum Case {
    /// A group of EPIC.
    Epic(Setup),
    /// The queue pair alone.
    Exchange(ExchangeSetup),
    /// Hosts that write and relay.
    MultiWrite(RelaySetup),
    /// The rules of an earlier system.
    Earlier(earlier::Setup),
}

impl What {
    /// The case that is asked for.
    pub(crate) fn case(&self) -> Result<Case, Failure> {
        match self.design.as_str() {
            system if Rules::SYSTEMS.contains(&system) => self.earlier(system),
            "roce" => self.exchange(Reliability::GoBackN),
            "roce-selective" => self.exchange(Reliability::Selective),
            "multiwrite" => self.relays(),
            design => match design.parse() {
                Ok(Design::Epic(mode)) => {
                    self.refuse("--senders", self.senders)?;
                    self.refuse("--slow", self.slow.then_some(true))?;
                    self.refuse("--rule", self.rule.as_ref())?;
                    let tree: TreeShape = parse(self.tree_name().unwrap_or_default())?;
                    let root = self.root.unwrap_or(0);
                    if root >= tree.ranks() {
                        return Err(Failure::Input(format!(
                            "expected a root below {}, found {root}; name a rank with --root",
                            tree.ranks()
                        )));
                    }
                    let collective: Collective = parse(&self.collective)?;
                    Ok(Case::Epic(Setup {
                        tree,
                        mode,
                        collectives: vec![collective.with_root(Rank(root)); usize::from(self.times)],
                        packets: self.packets(),
                        window: self.window,
                        mutation: self.mutation()?,
                    }))
                }
                _ => Err(Failure::Input(format!(
                    "expected one of epic-1, epic-2, epic-3, roce, roce-selective, multiwrite, {} as the design, found {design}; it is not explored",
                    Rules::SYSTEMS.join(", ")
                ))),
            },
        }
    }

    /// The network's name, of designs that have a choice.
    pub(crate) fn tree_name(&self) -> Option<&str> {
        let default = match self.design.as_str() {
            "roce" | "roce-selective" => None,
            "multiwrite" => Some(DEFAULT_MESH),
            system if Rules::SYSTEMS.contains(&system) => Some(DEFAULT_STAR),
            _ => Some(DEFAULT_TREE),
        };
        self.tree.as_deref().or(default)
    }

    /// Ranks that send, of designs where some may not.
    pub(crate) fn senders(&self) -> Option<u16> {
        let default = (self.design == "multiwrite").then_some(DEFAULT_SENDERS);
        self.senders.or(default)
    }

    /// Packets of each sender, or of each message.
    pub(crate) fn packets(&self) -> u32 {
        // With two a half of the data goes over a relay on a mesh.
        self.packets.unwrap_or(if self.design == "multiwrite" { 2 } else { 3 })
    }

    fn exchange(&self, reliability: Reliability) -> Result<Case, Failure> {
        self.refuse("--tree", self.tree.as_ref())?;
        self.refuse("--root", self.root)?;
        self.refuse("--senders", self.senders)?;
        self.refuse("--slow", self.slow.then_some(true))?;
        self.refuse("--rule", self.rule.as_ref())?;
        let kind = match self.collective.as_str() {
            "send" => Kind::Send,
            "write" => Kind::Write,
            found => {
                return Err(Failure::Input(format!(
                    "expected send or write of {}, found {found}; name one of them",
                    self.design
                )));
            }
        };
        Ok(Case::Exchange(ExchangeSetup {
            kind,
            reliability,
            asks_again: true,
            messages: self.times,
            packets: self.packets(),
            window: self.window,
            mutation: self.mutation()?,
        }))
    }

    fn relays(&self) -> Result<Case, Failure> {
        self.refuse("--root", self.root)?;
        self.refuse("--rule", self.rule.as_ref())?;
        let pattern = match self.collective.as_str() {
            "write" => Pattern::Writes,
            "all_gather" => Pattern::AllGather,
            found => {
                return Err(Failure::Input(format!(
                    "expected write or all_gather of multiwrite, found {found}; name one of them"
                )));
            }
        };
        let topology: Topology = parse(self.tree_name().unwrap_or_default())?;
        Ok(Case::MultiWrite(RelaySetup {
            topology,
            pattern,
            senders: self.senders().unwrap_or_default(),
            packets: self.packets() as usize,
            times: self.times.into(),
            window: self.window,
            slow: self.slow,
            mutation: self.mutation()?,
        }))
    }

    fn earlier(&self, system: &str) -> Result<Case, Failure> {
        self.refuse("--root", self.root)?;
        self.refuse("--senders", self.senders)?;
        self.refuse("--slow", self.slow.then_some(true))?;
        self.refuse("--mutate", self.mutate.as_ref())?;
        let rules = match &self.rule {
            Some(rule) => Rules::named(system, rule).map_err(Failure::input)?,
            None => Rules::own(system).expect("each system has a rule of its own"),
        };
        if self.collective != "all_reduce" {
            return Err(Failure::Input(format!(
                "expected all_reduce of {system}, found {}; only that is explored",
                self.collective
            )));
        }
        let name = self.tree_name().unwrap_or_default();
        let tree: TreeShape = parse(name)?;
        let &[workers] = tree.branches() else {
            return Err(Failure::Input(format!(
                "expected a star for {system}, found {name}; choose one such as {DEFAULT_STAR}"
            )));
        };
        let (packets, window) = (count("packets", self.packets())?, count("packets in flight", self.window)?);
        let (messages, frames) = match rules {
            Rules::NetReduce(_) => (self.times, packets),
            _ if self.times == 1 => (packets, 1),
            _ => {
                return Err(Failure::Input(format!(
                    "expected --times 1 with {system}, found {}; leave it out",
                    self.times
                )));
            }
        };
        Ok(Case::Earlier(earlier::Setup {
            rules,
            workers,
            messages,
            frames,
            window,
            aggregators: AGGREGATORS,
            frees: true,
        }))
    }

    fn mutation<M: FromStr<Err: Display>>(&self) -> Result<Option<M>, Failure> {
        self.mutate.as_deref().map(parse).transpose()
    }

    /// Refuses an option that the design has no use for.
    fn refuse(&self, option: &str, given: Option<impl Display>) -> Result<(), Failure> {
        match given {
            None => Ok(()),
            Some(given) => Err(Failure::Input(format!(
                "expected no {option} with {}, found {given}; leave it out",
                self.design
            ))),
        }
    }
}

/// What is counted in few bits.
fn count(what: &str, found: u32) -> Result<u8, Failure> {
    found.try_into().map_err(|_| {
        Failure::Input(format!("expected at most {} {what}, found {found}; choose fewer", u8::MAX))
    })
}

fn parse<T: FromStr<Err: Display>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(Failure::input)
}
