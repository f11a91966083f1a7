//! What a name and a collective mean to the checker: a design of the catalog, or a study.

use quincunx_collective::Collective;
use quincunx_design::{AnyDesign, Catalog, FabricKind, Refusal};
use quincunx_scenario::Scenario;

use crate::arguments::{Arguments, SLOW};
use crate::group::{Explorer, GroupSetup};
use crate::memory::{MemoryGroup, MemoryGroupSetup};
use crate::network::Network;
use crate::studies::STUDIES;
use crate::study::Study;
use crate::subject::Subject;

/// The kinds of fabrics that designs are explored on, each with the smallest network on which one shows what it does.
const NETWORKS: [(FabricKind, &str); 3] =
    [(FabricKind::Tree, "tree-3-2"), (FabricKind::Ring, "ring-3"), (FabricKind::Mesh, "mesh-2x2")];

/// The smallest network between whose domains tokens take their ways as between servers.
const SERVERS: &str = "mesh-2x2";

/// What is asked of a design whose writes are the application's own.
const WRITE: &str = "write";

/// The smallest memory fabric.
const MEMORY: &str = "memory-2";

/// Packets of a collective that the switches of a memory fabric run: two waves of two, and one more, so that room for waves is used again.
const IN_WAVES: usize = 5;

/// Packets of other collectives on a memory fabric: one for each of two accelerators.
const IN_PARTS: usize = 2;

/// Between collectives that ranks run one after the other.
const SEQUENCE: char = ',';

/// The network that a design is explored on if nobody says another: the first that it runs on.
fn default_network(design: &dyn AnyDesign) -> Option<&'static str> {
    let name = |(fabric, _): &(FabricKind, _)| NETWORKS.iter().find(|(known, _)| known == fabric);
    design.about().offers.iter().find_map(name).map(|(_, name)| *name)
}

impl Subject {
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
        let offers =
            |design: &dyn AnyDesign, name: &str| of_hosts(design).any(|offered| offered.name() == name);
        let offered = |design: &dyn AnyDesign| {
            collective.split(SEQUENCE).all(|name| offers(design, name))
                || collective == WRITE && design.about().writes
        };
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
    if design.as_ref().is_ok_and(|design| design.about().writes) {
        names.push(WRITE);
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
    let mut used = vec![
        "--tree",
        "--root",
        "--mutate",
        "--disagree",
        "--set",
        "--groups",
        "--in-flight",
        "--late-start",
    ];
    let writes = collective == WRITE;
    let names = collective.split(SEQUENCE).filter(|_| !writes);
    let collectives: Vec<Collective> =
        names.map(str::parse).collect::<Result<_, _>>().map_err(|error| Refusal::of(&error))?;
    let is_routed = collectives.iter().any(|collective| collective.is_routed());
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
    let mut setup = GroupSetup {
        design,
        scenario,
        collectives: in_sequence(&collectives, arguments),
        writes,
        packets,
        senders,
        groups: arguments.groups,
        in_flight: arguments.in_flight,
        late: arguments.late_start,
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

/// The collectives one after the other, the last one as often as it takes to have as many as are asked for; each with its root.
fn in_sequence(collectives: &[Collective], arguments: &Arguments) -> Vec<Collective> {
    let Some(last) = collectives.last() else { return Vec::new() };
    let count = collectives.len().max(arguments.times.into());
    let of = |number: usize| collectives.get(number).unwrap_or(last).with_root(arguments.root(number));
    (0..count).map(of).collect()
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
    let collective = collective.with_root(arguments.root(0));
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
