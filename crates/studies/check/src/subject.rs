//! What the checker is asked to explore: a design of the catalog, or a [`Study`]. Nobody who asks needs to know which.

use std::fmt::Display;

use quincunx_collective::{Collective, Rank};
use quincunx_design::{AnyDesign, Catalog, FabricKind, Refusal};
use quincunx_scenario::{Override, Scenario, ScenarioError};

use crate::explored::Explored;
use crate::group::{Explorer, GroupSetup};
use crate::memory::{MemoryGroup, MemoryGroupSetup};
use crate::network::Network;
use crate::studies::STUDIES;
use crate::study::Study;

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
    /// How many groups do that side by side.
    pub groups: u8,
    /// How many of them a rank has under way at most.
    pub in_flight: u8,
    /// The root, where there is one.
    pub root: Option<u16>,
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
const SLOW: (&str, &str) = ("relay.message", "1us");

/// What a group's packets in flight are called as a parameter.
const WINDOW: &str = "group.window";

/// The kinds of fabrics that designs are explored on, each with the smallest network on which one shows what it does.
const NETWORKS: [(FabricKind, &str); 3] =
    [(FabricKind::Tree, "tree-3-2"), (FabricKind::Ring, "ring-3"), (FabricKind::Mesh, "mesh-2x2")];

/// The smallest network between whose domains tokens take their ways as between servers.
const SERVERS: &str = "mesh-2x2";

/// The smallest memory fabric.
const MEMORY: &str = "memory-2";

/// Packets of a collective that the switches of a memory fabric run: two waves of two, and one more, so that room for waves is used again.
const IN_WAVES: usize = 5;

/// Packets of other collectives on a memory fabric: one for each of two accelerators.
const IN_PARTS: usize = 2;

/// The network that a design is explored on if nobody says another: the first that it runs on.
fn default_network(design: &dyn AnyDesign) -> Option<&'static str> {
    let name = |(fabric, _): &(FabricKind, _)| NETWORKS.iter().find(|(known, _)| known == fabric);
    design.about().offers.iter().find_map(name).map(|(_, name)| *name)
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            tree: None,
            packets: None,
            senders: None,
            slow: false,
            window: None,
            times: 1,
            groups: 1,
            in_flight: 1,
            root: None,
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
            ("--groups", (self.groups != 1).then(|| self.groups.to_string())),
            ("--in-flight", (self.in_flight != 1).then(|| self.in_flight.to_string())),
            ("--root", value(&self.root)),
            ("--mutate", value(&self.mutate)),
            ("--disagree", value(&self.disagree)),
            ("--rule", value(&self.rule)),
            ("--set", self.set.first().map(|change| change.key.clone())),
        ];
        options.into_iter().filter_map(|(option, given)| Some((option, given?))).collect()
    }

    /// Packets in flight of a study.
    pub(crate) fn window(&self) -> u32 {
        self.window.unwrap_or(2)
    }

    /// What they mean on a network of that name: several options are short for keys.
    fn scenario(&self, catalog: Catalog, network: &str) -> Result<Scenario, ScenarioError> {
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

/// Something to explore, and how it was understood.
pub struct Subject {
    /// What is explored.
    pub network: Box<dyn Explored>,
    /// The network's name, where there is a choice.
    pub tree: Option<String>,
    /// Packets of each sender, or of each message.
    pub packets: u32,
    /// Ranks that send, where some may not.
    pub senders: Option<u16>,
    /// Frames are not lost there, whatever happens.
    pub is_lossless: bool,
    /// Nor are they doubled.
    pub is_single: bool,
}

impl Subject {
    /// Frames that may be lost: as many as are asked for, or else one where any can be.
    ///
    /// # Errors
    /// If losses or copies are asked for where there are none.
    pub fn losses(&self, losses: Option<u8>, duplicates: u8) -> Result<u8, Refusal> {
        let asked = [("--losses", losses.unwrap_or(0)), ("--duplicate", duplicates)];
        match asked.into_iter().find(|(_, count)| *count > 0) {
            Some((option, count)) if self.is_single => Err(Refusal::new(
                format!("no {option} on a memory fabric, which neither loses packets nor doubles them"),
                count,
                "leave it out",
            )),
            Some((option @ "--losses", count)) if self.is_lossless => {
                Err(Refusal::new(format!("no {option} where nothing is lost"), count, "leave it out"))
            }
            _ => Ok(losses.unwrap_or(if self.is_lossless { 0 } else { 1 })),
        }
    }

    /// What a name and a collective mean: a design of `catalog` that offers the collective, or else a study.
    ///
    /// # Errors
    /// If there is neither, or it cannot be explored so.
    pub fn find(
        catalog: Catalog,
        name: &str,
        collective: &str,
        arguments: &Arguments,
    ) -> Result<Self, Refusal> {
        let study = STUDIES.iter().find(|study| study.name() == name);
        let on_memory = catalog.find(name, FabricKind::Memory);
        if let (Ok(design), Err(_), None) = (&on_memory, catalog.named(name), study) {
            // A star of accelerators: there is no other for this design.
            let tree = arguments.tree.as_deref().unwrap_or(MEMORY);
            let tree = tree.strip_prefix("star-").map_or(tree.to_owned(), |star| format!("memory-{star}"));
            return memory_group(catalog, *design, collective, &tree, arguments);
        }
        let fabric = |tree| Scenario::find_for(&Explorer, tree, &arguments.set, catalog);
        if let Some(tree) = arguments.tree.as_deref()
            && let Ok(FabricKind::Memory) = fabric(tree).map(|scenario| scenario.kind())
        {
            return memory_group(catalog, on_memory?, collective, tree, arguments);
        }
        let scenario = arguments.tree.as_ref().map(|tree| arguments.scenario(catalog, tree));
        let design = match &scenario {
            Some(Ok(scenario)) => match scenario.kind() {
                FabricKind::Memory | FabricKind::MemoryMesh => Err(Refusal::new(
                    "a fabric of hosts and Ethernet switches, or accelerators around switches",
                    format!("{}, accelerators without switches", scenario.place()),
                    "simulate it; it is not explored",
                )),
                kind => catalog.find(name, kind),
            },
            _ => catalog.named(name),
        };
        let offered = |design: &dyn AnyDesign| of_hosts(design).any(|offered| offered.name() == collective);
        match (design, study) {
            (Ok(design), _) if offered(design) => {
                // A network that is none is refused as such, unless a study knows it.
                let knows = |study: &&&dyn Study| matches!(scenario, Some(Err(_))) && study.takes(collective);
                match study.filter(knows) {
                    Some(study) => studied(catalog, *study, collective, arguments),
                    None => group(catalog, design, collective, arguments),
                }
            }
            (_, Some(study)) if study.takes(collective) => studied(catalog, *study, collective, arguments),
            (design, study) => Err(refusal(catalog, (name, collective), design, study.copied())),
        }
    }
}

/// The names of all designs, each once.
pub fn names_of_designs(catalog: Catalog) -> Vec<&'static str> {
    catalog.names()
}

/// What a design offers above queue pairs, wherever it runs.
fn of_hosts(design: &dyn AnyDesign) -> impl Iterator<Item = &Collective> {
    let fabrics = design.about().offers.iter().filter(|(fabric, _)| fabric.has_queue_pairs());
    fabrics.flat_map(|(_, offered)| *offered)
}

/// Why there is nothing to explore of that name.
fn refusal(
    catalog: Catalog,
    (name, collective): (&str, &str),
    design: Result<&'static dyn AnyDesign, Refusal>,
    study: Option<&dyn Study>,
) -> Refusal {
    let mut names: Vec<&str> = Vec::new();
    match &design {
        Ok(design) => {
            names.extend(of_hosts(*design).map(|offered| offered.name()));
        }
        Err(_) if study.is_some() => {}
        Err(refusal) if catalog.named(name).is_ok() => return refusal.clone(),
        Err(_) => {
            let studies = STUDIES.iter().map(|study| study.name());
            let mut known: Vec<&str> = names_of_designs(catalog);
            known.extend(studies.filter(|study| catalog.named(study).is_err()));
            return Refusal::new(
                format!("one of {} as the design", known.join(", ")),
                name,
                "it is not explored",
            );
        }
    }
    names.extend(study.into_iter().flat_map(|study| study.collectives().iter().copied()));
    let mut different: Vec<&str> = Vec::new();
    for name in names {
        if !different.contains(&name) {
            different.push(name);
        }
    }
    let Some((last, others)) = different.split_last() else {
        let found = format!("{name}, which has none");
        return Refusal::new("a design with collectives", found, "it is not explored");
    };
    let choice =
        if others.is_empty() { (*last).to_owned() } else { format!("{} or {last}", others.join(", ")) };
    Refusal::new(format!("{choice} of {name}"), collective, "name one of them")
}

/// A study.
fn studied(
    catalog: Catalog,
    study: &dyn Study,
    collective: &str,
    arguments: &Arguments,
) -> Result<Subject, Refusal> {
    let used: Vec<&str> = study.options().iter().map(|(option, _)| *option).collect();
    arguments.refuse_all_but(study.name(), &used)?;
    study.subject(catalog, collective, arguments)
}

/// A group of a design.
fn group(
    catalog: Catalog,
    design: &'static dyn AnyDesign,
    collective: &str,
    arguments: &Arguments,
) -> Result<Subject, Refusal> {
    let mut used = vec!["--tree", "--root", "--mutate", "--disagree", "--set", "--groups", "--in-flight"];
    let is_routed = collective.parse::<Collective>().is_ok_and(Collective::is_routed);
    let tree: &str = match &arguments.tree {
        Some(tree) => tree,
        None if is_routed => SERVERS,
        None => default_network(design).ok_or_else(|| {
            Refusal::new(
                "a design for trees, rings or meshes of hosts",
                format!("{}, which runs on none of them", design.name()),
                "it is not explored",
            )
        })?,
    };
    let collective: Collective = collective.parse().map_err(|error| Refusal::of(&error))?;
    if design.defaults().has(SLOW.0) {
        used.push("--slow");
    }
    let scenario = arguments.scenario(catalog, tree).map_err(|error| Refusal::from(error.to_string()))?;
    let is_mesh = scenario.kind() == FabricKind::Mesh;
    let domain = is_mesh.then(|| scenario.ranks() / scenario.fabric.domains());
    if is_mesh || is_routed {
        used.push("--senders");
    }
    arguments.refuse_all_but(design.name(), &used)?;
    // One that has tokens is enough to show what a relay does.
    let domain = domain.filter(|_| arguments.disagree.is_none());
    let senders = arguments.senders.or(if is_routed { Some(1) } else { domain });
    // With two, a half of the data goes over a relay on a mesh.
    let packets = arguments.packets.unwrap_or(2);
    let root = Rank(arguments.root.unwrap_or(0));
    let mut setup = GroupSetup {
        design,
        scenario,
        collectives: vec![collective.with_root(root); usize::from(arguments.times)],
        packets,
        senders,
        groups: arguments.groups,
        in_flight: arguments.in_flight,
        mutation: arguments.mutate.clone(),
        disagreement: arguments.disagree.as_deref().map(str::parse).transpose()?,
    };
    if arguments.packets.is_none() && !is_mesh && !is_routed {
        // Behind a control message. Even where there are two windows of slots one that held data is used for data again.
        setup.packets = 2 * design.transport(&setup.settings()?)?.window_packets().get() + 1;
    }
    Ok(Subject {
        network: Box::new(Network::of_group(&setup)?),
        tree: Some(tree.to_owned()),
        packets: setup.packets,
        senders,
        is_lossless: false,
        is_single: false,
    })
}

/// A group of a design on a memory fabric.
fn memory_group(
    catalog: Catalog,
    design: &'static dyn AnyDesign,
    collective: &str,
    tree: &str,
    arguments: &Arguments,
) -> Result<Subject, Refusal> {
    arguments.refuse_all_but(design.name(), &["--tree", "--root", "--mutate", "--set"])?;
    let offered: Vec<&str> =
        design.collectives(FabricKind::Memory).iter().map(|offered| offered.name()).collect();
    if !offered.contains(&collective) {
        return Err(Refusal::new(
            format!("one of {} of {}", offered.join(", "), design.name()),
            collective,
            "name one of them",
        ));
    }
    let buffers = arguments.window.map(u16::try_from).transpose();
    let buffers = buffers.map_err(|_| Refusal::new("at most 65535 buffers", "more", "choose fewer"))?;
    let collective: Collective = collective.parse().map_err(|error| Refusal::of(&error))?;
    let collective = collective.with_root(Rank(arguments.root.unwrap_or(0)));
    let scenario = Scenario::find_for(&Explorer, tree, &arguments.set, catalog);
    let scenario = scenario.map_err(|error| Refusal::from(error.to_string()))?;
    let parts = match collective {
        Collective::ReduceScatter | Collective::AllGather => usize::from(scenario.ranks()),
        _ => 1,
    };
    let least = if design.about().runs_in_switches { IN_WAVES.div_ceil(parts) } else { IN_PARTS };
    let packets = arguments.packets.unwrap_or(least as u32);
    let group = MemoryGroup::new(&MemoryGroupSetup {
        times: arguments.times.into(),
        packets: packets as usize,
        buffers,
        mutation: arguments.mutate.clone(),
        ..MemoryGroupSetup::new(design, scenario, collective)
    })?;
    let tree = Some(tree.to_owned());
    Ok(Subject { network: Box::new(group), tree, packets, senders: None, is_lossless: true, is_single: true })
}
