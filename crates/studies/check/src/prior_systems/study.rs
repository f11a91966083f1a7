//! The rules of earlier systems as studies.

use quincunx_design::{Catalog, Refusal};
use quincunx_fabric::TreeShape;

use crate::arguments::Arguments;
use crate::prior_systems::{PriorSystem, Rules, StarSetup};
use crate::study::Study;
use crate::subject::Subject;

/// The rules of one system.
pub(crate) struct PriorSystemStudy {
    /// Not the system's name alone, which is that of the whole design.
    name: &'static str,
    system: &'static str,
    summary: &'static str,
    options: &'static [(&'static str, &'static str)],
}

/// The least star on which one worker can be ahead of another.
const DEFAULT_STAR: &str = "star-2";

/// ATP's aggregators: one, which chunks in flight share.
const AGGREGATORS: u8 = 1;

impl PriorSystemStudy {
    pub(crate) const POOLS: Self = Self {
        name: "switchml-rules",
        system: "switchml",
        summary: "the rules of SwitchML for its switch's memory",
        options: &[
            ("--tree", "star-N [default: star-2]"),
            ("--window", "the slots"),
            ("--rule", "one-pool, two-pools (its own) or chunk-numbers, from worst to best"),
        ],
    };

    pub(crate) const ATP: Self = Self {
        name: "atp-rules",
        system: "atp",
        summary: "the rules of ATP for its switch's memory",
        options: &[
            ("--tree", "star-N [default: star-2]"),
            ("--rule", "fallback, resends-bypass (its own) or deadlines, from worst to best"),
        ],
    };

    fn setup(&self, arguments: &Arguments, packets: u32) -> Result<(StarSetup, TreeShape), Refusal> {
        let system = self.system;
        let rules = match &arguments.rule {
            Some(rule) => Rules::named(system, rule).map_err(|error| Refusal::of(&error))?,
            None => Rules::own(system).expect("each system has a rule of its own"),
        };
        let name = arguments.tree.as_deref().unwrap_or(DEFAULT_STAR);
        let tree: TreeShape = name.parse().map_err(|error| Refusal::of(&error))?;
        let &[workers] = tree.branches() else {
            return Err(Refusal::new(
                format!("a star for {system}"),
                name,
                format!("choose one such as {DEFAULT_STAR}"),
            ));
        };
        let (chunks, window) = (count("packets", packets)?, count("packets in flight", arguments.window())?);
        if arguments.times != 1 {
            return Err(Refusal::new(format!("--times 1 with {system}"), arguments.times, "leave it out"));
        }
        let aggregators = AGGREGATORS;
        Ok((StarSetup { rules, workers, chunks, window, aggregators, frees: true }, tree))
    }
}

impl Study for PriorSystemStudy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn collectives(&self) -> &'static [&'static str] {
        &["all_reduce"]
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        self.options
    }

    fn subject(&self, _: Catalog, _: &str, arguments: &Arguments) -> Result<Subject, Refusal> {
        let packets = arguments.packets.unwrap_or(3);
        let (setup, tree) = self.setup(arguments, packets)?;
        let network = Box::new(PriorSystem::new(setup).map_err(|error| Refusal::of(&error))?);
        let tree = Some(tree.to_string());
        Ok(Subject { network, tree, packets, senders: None, is_lossless: false, is_single: false })
    }
}

/// What is counted in few bits.
fn count(what: &str, found: u32) -> Result<u8, Refusal> {
    found.try_into().map_err(|_| Refusal::new(format!("at most {} {what}", u8::MAX), found, "choose fewer"))
}
