//! What a topology's elements say: GPUs, and whom their NVLinks lead to. Everything else that is there is noted.

use crate::ImportError;
use crate::notes::{Notes, piece};
use quincunx_units::BitRate;
use roxmltree::{Document, Node, NodeId};
use std::collections::BTreeMap;

/// The most GPUs: a file has those that NVLink joins, 72 today.
const MOST_GPUS: usize = 4096;

/// The most NVLinks from one place to another.
const MOST_NVLINKS: u32 = 1024;

/// NVLink's rate each way in bits a second by compute capability, as NCCL counts it (`ncclTopoNVLinkBw`): the first that is not above.
const NVLINK: [(u32, u64); 6] = [
    (100, 320_800_000_000),
    (90, 164_800_000_000),
    (86, 96_000_000_000),
    (80, 160_000_000_000),
    (70, 160_000_000_000),
    (60, 144_000_000_000),
];

/// Of any other.
const NVLINK_OF_OTHERS: u64 = 160_000_000_000;

/// Classes of PCI devices that NVLinks lead to.
const NVSWITCH: &str = "0x068000";
const BRIDGE_TO_A_CPU: &str = "0x068001";
const DISPLAY: &str = "0x03";

/// Elements, with the attributes that are read and those that say nothing of links.
const KNOWN: [(&str, &[&str], &[&str]); 8] = [
    ("system", &["version"], &["tclass"]),
    ("cpu", &["numaid", "arch", "vendor", "familyid", "modelid", "host_hash"], &["affinity"]),
    (
        "pci",
        &["busid", "link_speed", "link_width"],
        &["class", "vendor", "device", "subsystem_vendor", "subsystem_device"],
    ),
    ("gpu", &["sm", "rank", "dev"], &["gdr"]),
    ("nvlink", &["target", "count", "tclass"], &[]),
    ("nic", &[], &[]),
    (
        "net",
        &["name", "speed"],
        &["dev", "port", "latency", "guid", "maxconn", "gdr", "coll", "net", "gin", "keep"],
    ),
    ("c2c", &[], &[]),
];

/// Where NVLinks lead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// By its PCI address.
    Switch(String),
    /// By its place among all.
    Gpu(usize),
}

/// A GPU.
pub(super) struct Gpu {
    pub(super) line: Option<usize>,
    /// The `<pci>` that it is.
    pub(super) pci: NodeId,
    /// Compute capability, times ten.
    pub(super) sm: u32,
    /// Whom to, and how many.
    pub(super) links: Vec<(Target, u32)>,
}

impl Gpu {
    /// What so many NVLinks of it carry, each way.
    pub(super) fn nvlinks(&self, count: u32) -> BitRate {
        let one =
            NVLINK.iter().find(|(from, _)| self.sm >= *from).map_or(NVLINK_OF_OTHERS, |(_, rate)| *rate);
        BitRate::new(one.saturating_mul(count.max(1).into())).expect("above zero")
    }

    /// NVLinks to another one, by its place.
    pub(super) fn between(&self, other: usize) -> Option<u32> {
        self.links.iter().find(|(target, _)| *target == Target::Gpu(other)).map(|(_, count)| *count)
    }
}

/// The `<cpu>` above an element: the host of several in a file, and its NUMA node.
pub(super) fn processor<'a, 'input>(node: Node<'a, 'input>) -> Option<Node<'a, 'input>> {
    node.ancestors().find(|above| above.has_tag_name("cpu"))
}

fn host(node: Node<'_, '_>) -> String {
    processor(node).and_then(|cpu| cpu.attribute("host_hash")).unwrap_or_default().to_lowercase()
}

/// Reads all elements. GPUs are in the order of their ranks, where all have one.
pub(super) fn server(document: &Document<'_>, notes: &mut Notes) -> Result<Vec<Gpu>, ImportError> {
    let root = document.root_element();
    if !root.has_tag_name("system") {
        let found = match root.tag_name().name() {
            "graphs" => "<graphs>, which NCCL_GRAPH_DUMP_FILE makes".to_owned(),
            other => format!("<{}>", piece(other)),
        };
        return Err(notes.wrong(
            notes.line_at(root.range().start),
            "<system> as the first element",
            found,
            "name a file that NCCL_TOPO_DUMP_FILE has made",
        ));
    }
    if let Some(version) = root.attribute("version").filter(|version| *version != "1") {
        notes.add(
            notes.line_at(root.range().start),
            format!("version \"{}\"", piece(version)),
            "it is read as version 1",
        );
    }
    note_others(document, notes);
    let mut found = gpus(document, notes)?;
    if found.iter().all(|(rank, _)| rank.is_some()) {
        found.sort_by_key(|(rank, _)| *rank);
    }
    let mut numbers = BTreeMap::new();
    for (at, (rank, gpu)) in found.iter().enumerate() {
        let pci = document.get_node(gpu.pci).expect("a node of the document");
        let key = (host(pci), pci.attribute("busid").unwrap_or_default().to_lowercase());
        let twice = numbers.insert(key, at).map(|_| "its address");
        let before = found[..at].last().and_then(|(before, _)| *before);
        if let Some(what) = twice.or((rank.is_some() && before == *rank).then_some("its rank")) {
            let expected = "each GPU with an address and a rank of its own";
            return Err(notes.wrong(gpu.line, expected, format!("{what} a second time"), "correct the file"));
        }
    }
    let mut gpus: Vec<Gpu> = found.into_iter().map(|(_, gpu)| gpu).collect();
    for gpu in &mut gpus {
        nvlinks(gpu, document, &numbers, notes)?;
    }
    Ok(gpus)
}

/// Elements and attributes that are not understood, or say nothing here.
fn note_others(document: &Document<'_>, notes: &mut Notes) {
    let mut silent: Vec<String> = Vec::new();
    for node in document.root_element().descendants().filter(Node::is_element) {
        let tag = node.tag_name().name();
        let Some((_, _, without)) = KNOWN.iter().find(|(known, ..)| *known == tag) else {
            notes.add(notes.line_at(node.range().start), format!("<{}>", piece(tag)), "not understood");
            continue;
        };
        match tag {
            "net" => {
                let speed = node.attribute("speed").and_then(|speed| speed.parse::<u64>().ok());
                let rate = speed.and_then(|speed| BitRate::new(speed.saturating_mul(1_000_000)));
                let rate = rate.map_or("an unknown rate".to_owned(), |rate| rate.to_string());
                notes.add(
                    notes.line_at(node.range().start),
                    format!("<net> of {rate}"),
                    "the file does not say what is at its other end; join servers by [[node]] and [[link]]",
                );
            }
            "c2c" => notes.add(
                notes.line_at(node.range().start),
                "<c2c>",
                "what joins a GPU with its processor is no way between GPUs here",
            ),
            _ => {}
        }
        for attribute in node.attributes() {
            let name = attribute.name();
            if without.contains(&name) {
                let shown = format!("{name} of <{tag}>");
                if !silent.contains(&shown) {
                    silent.push(shown);
                }
            } else if tag != "c2c"
                && !KNOWN.iter().any(|(known, read, _)| *known == tag && read.contains(&name))
            {
                notes.add(
                    notes.line_at(node.range().start),
                    format!("{} of <{tag}>", piece(name)),
                    "not understood",
                );
            }
        }
    }
    if !silent.is_empty() {
        notes.add(None, silent.join(", "), "says nothing of links between GPUs");
    }
}

/// All GPUs with their ranks, without links.
fn gpus(document: &Document<'_>, notes: &mut Notes) -> Result<Vec<(Option<u64>, Gpu)>, ImportError> {
    let mut found = Vec::new();
    for node in document.descendants().filter(|node| node.has_tag_name("gpu")) {
        let wrong = |expected: &str, found: String| {
            notes.wrong(
                notes.line_at(node.range().start),
                expected,
                found,
                "correct the file, or dump it again",
            )
        };
        let parent = node
            .parent_element()
            .filter(|parent| parent.has_tag_name("pci") && parent.has_attribute("busid"));
        let Some(pci) = parent else {
            return Err(wrong("<gpu> in a <pci> with a busid", "one that is elsewhere".into()));
        };
        let sm = node.attribute("sm").unwrap_or_default();
        let number = sm.parse().ok().filter(|sm| (10..1000).contains(sm));
        let sm = number.ok_or_else(|| {
            wrong("a GPU's compute capability such as sm=\"90\"", format!("\"{}\"", piece(sm)))
        })?;
        let rank = node.attribute("rank").and_then(|rank| rank.parse().ok());
        found.push((
            rank,
            Gpu { line: notes.line_at(node.range().start), pci: pci.id(), sm, links: Vec::new() },
        ));
    }
    if !(2..=MOST_GPUS).contains(&found.len()) {
        let expected = format!("two <gpu> at least, and {MOST_GPUS} at most");
        let remedy =
            "dump the file from a run that uses all GPUs: others, and PCI devices alone, are not told in it";
        return Err(notes.wrong(None, expected, found.len().to_string(), remedy));
    }
    Ok(found)
}

fn nvlinks(
    gpu: &mut Gpu,
    document: &Document<'_>,
    numbers: &BTreeMap<(String, String), usize>,
    notes: &mut Notes,
) -> Result<(), ImportError> {
    let pci = document.get_node(gpu.pci).expect("a node of the document");
    let host = host(pci);
    let links = pci.children().filter(|node| node.has_tag_name("gpu")).flat_map(|node| node.children());
    for node in links.filter(|node| node.has_tag_name("nvlink")) {
        let said = node.attribute("count").unwrap_or("1");
        let count =
            said.parse().ok().filter(|count| (1..=MOST_NVLINKS).contains(count)).ok_or_else(|| {
                let expected = format!("a number of NVLinks from 1 to {MOST_NVLINKS}");
                notes.wrong(
                    notes.line_at(node.range().start),
                    expected,
                    format!("\"{}\"", piece(said)),
                    "correct the file",
                )
            })?;
        let to = node.attribute("target").unwrap_or_default().to_lowercase();
        let class = node.attribute("tclass").unwrap_or_default();
        let other = numbers.get(&(host.clone(), to.clone())).copied();
        let target = match (other, class) {
            (Some(other), _) => Target::Gpu(other),
            (None, BRIDGE_TO_A_CPU) => {
                notes.add(
                    notes.line_at(node.range().start),
                    "NVLinks to a processor",
                    "no way between GPUs here",
                );
                continue;
            }
            (None, class) if class.starts_with(DISPLAY) => {
                notes.add(
                    notes.line_at(node.range().start),
                    "NVLinks to a GPU that is not in the file",
                    "nobody is at their other end",
                );
                continue;
            }
            (None, class) => {
                if class != NVSWITCH {
                    let what = format!("NVLinks to a device of class \"{}\"", piece(class));
                    notes.add(notes.line_at(node.range().start), what, "taken for an NVSwitch");
                }
                // NVSwitches of several hosts may have one address; a fabric of NVSwitches has one for all hosts.
                let whole = to.starts_with("fffffff");
                Target::Switch(if whole { to } else { format!("{host} {to}") })
            }
        };
        match gpu.links.iter_mut().find(|(known, _)| *known == target) {
            Some((_, sum)) => *sum = (*sum + count).min(MOST_NVLINKS),
            None => gpu.links.push((target, count)),
        }
    }
    Ok(())
}
