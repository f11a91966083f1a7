//! GPUs at the PCIe switches and processors that they have, and the NVLinks between some of them.

use super::server::{Gpu, Target, processor};
use crate::body::Body;
use crate::links::{Listed, ParallelLinks};
use crate::notes::{Notes, piece};
use crate::{ImportError, shape};
use quincunx_units::{BitRate, Duration};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

/// What a lane carries, in 100 Mbit/s, by how the kernel writes its speed (NCCL: `kvDictPciGen`).
const LANES: [(&str, u64); 6] = [("2.5", 15), ("5", 30), ("8", 60), ("16", 120), ("32", 240), ("64", 480)];

/// Where that is not said.
const LANE_OF_OTHERS: u64 = 60;
const LANES_OF_OTHERS: u64 = 16;

/// Where nothing is said of processors: as fast as what is in one place.
const LOCAL: u64 = 5000;

/// The most processors: each is joined with each.
const MOST_PROCESSORS: usize = 256;

/// The most switches between a GPU and its processor.
const DEEPEST: usize = 64;

/// What a device's link upwards carries, each way.
fn rate(pci: Node<'_, '_>, notes: &mut Notes) -> BitRate {
    let speed = pci.attribute("link_speed").unwrap_or_default();
    let number = speed.split_whitespace().next().unwrap_or_default();
    let number = number.strip_suffix(".0").unwrap_or(number);
    let lane = LANES.iter().find(|(known, _)| *known == number).map(|(_, lane)| *lane);
    let width = pci.attribute("link_width").and_then(|width| width.parse().ok()).unwrap_or(0_u64);
    if lane.is_none() || !(1..=64).contains(&width) {
        let what = format!("link_speed=\"{}\" and link_width={width} of <pci>", piece(speed));
        notes.add(
            notes.line_at(pci.range().start),
            what,
            "what is not known is 8 GT/s and 16 lanes, as NCCL takes it",
        );
    }
    let width = if (1..=64).contains(&width) { width } else { LANES_OF_OTHERS };
    BitRate::new(lane.unwrap_or(LANE_OF_OTHERS) * width * 100_000_000).expect("above zero")
}

/// What joins processors, in GB/s (NCCL: `ncclTopoGetInterCpuBw`).
fn between_processors(cpu: Node<'_, '_>, notes: &mut Notes) -> BitRate {
    let number = |name: &str| cpu.attribute(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let known = match (cpu.attribute("arch").unwrap_or_default(), cpu.attribute("vendor").unwrap_or_default())
    {
        ("ppc64", _) => Some(32),
        ("arm64", _) => Some(6),
        ("x86_64", "GenuineIntel") => Some(match number("modelid") {
            0xCF.. => 40,
            0x8F.. => 22,
            0x55.. => 10,
            _ => 6,
        }),
        // Families 17h, 19h and 1Ah, as the kernel adds them up.
        ("x86_64", "AuthenticAMD") => Some(match number("familyid") {
            191.. => 32,
            175.. => 24,
            _ => 16,
        }),
        _ => None,
    };
    if known.is_none() {
        notes.add(
            notes.line_at(cpu.range().start),
            "a processor of unknown kind",
            "what joins it with others is no bottleneck then, as with NCCL",
        );
    }
    BitRate::new(known.unwrap_or(LOCAL) * 8_000_000_000).expect("above zero")
}

/// The tree of devices above all GPUs.
struct Devices<'a, 'b> {
    listed: Listed,
    names: BTreeMap<u32, String>,
    processors: Vec<Node<'a, 'a>>,
    latency: Duration,
    notes: &'b mut Notes,
}

impl<'a> Devices<'a, '_> {
    /// The name of a switch, which is made with all above it if it is new.
    fn switch(&mut self, node: Node<'a, 'a>) -> String {
        if let Some(name) = self.names.get(&node.id().get()) {
            return name.clone();
        }
        let is_cpu = node.has_tag_name("cpu");
        let name = format!("{}-{}", if is_cpu { "cpu" } else { "pci" }, self.names.len());
        self.names.insert(node.id().get(), name.clone());
        self.listed.switch(name.clone());
        if is_cpu {
            self.processors.push(node);
        }
        name
    }

    /// Joins a node with what is above it, up to the processor.
    fn join(&mut self, pci: Node<'a, 'a>, name: String) -> Result<(), ImportError> {
        let (mut at, mut below) = (pci, name);
        for _ in 0..DEEPEST {
            let above =
                at.parent_element().filter(|above| above.has_tag_name("pci") || above.has_tag_name("cpu"));
            let Some(above) = above else {
                return Err(self.notes.wrong(
                    self.notes.line_at(at.range().start),
                    "<pci> below a <cpu>",
                    "one that is not",
                    "correct the file",
                ));
            };
            let is_new = !self.names.contains_key(&above.id().get());
            let name = self.switch(above);
            let rate = rate(at, self.notes);
            self.listed.link(ParallelLinks::one([below, name.clone()], rate, self.latency));
            if above.has_tag_name("cpu") || !is_new {
                return Ok(());
            }
            (at, below) = (above, name);
        }
        let expected = format!("at most {DEEPEST} devices above a GPU");
        Err(self.notes.wrong(self.notes.line_at(pci.range().start), expected, "more", "correct the file"))
    }
}

pub(super) fn import<'a>(
    gpus: &[Gpu],
    document: &'a Document<'a>,
    notes: &mut Notes,
) -> Result<Body, ImportError> {
    let latency = shape::latency(notes)?;
    let listed = Listed::default();
    let mut devices = Devices { listed, names: BTreeMap::new(), processors: Vec::new(), latency, notes };
    let name = |number: usize| format!("gpu-{number}");
    for (number, gpu) in gpus.iter().enumerate() {
        let pci = document.get_node(gpu.pci).expect("a node of the document");
        if processor(pci).is_none() {
            return Err(devices.notes.wrong(
                gpu.line,
                "a GPU below a <cpu>",
                "one that is not",
                "correct the file",
            ));
        }
        devices.listed.host(name(number));
        devices.join(pci, name(number))?;
    }
    let Devices { mut listed, names, processors, notes, .. } = devices;
    if processors.len() > MOST_PROCESSORS {
        let expected = format!("at most {MOST_PROCESSORS} processors with GPUs");
        return Err(notes.wrong(None, expected, processors.len().to_string(), "take a part of it"));
    }
    for (at, first) in processors.iter().enumerate() {
        for other in processors[at + 1..]
            .iter()
            .filter(|other| other.attribute("host_hash") == first.attribute("host_hash"))
        {
            let slower = between_processors(*first, notes).min(between_processors(*other, notes));
            let ends = [first, other].map(|cpu| names[&cpu.id().get()].clone());
            listed.link(ParallelLinks::one(ends, slower, latency));
        }
    }
    for (number, gpu) in gpus.iter().enumerate() {
        for (target, count) in &gpu.links {
            match target {
                Target::Gpu(other) if *other > number || gpus[*other].between(number).is_none() => {
                    listed.link(ParallelLinks::one(
                        [name(number), name(*other)],
                        gpu.nvlinks(*count),
                        latency,
                    ));
                }
                _ => {}
            }
        }
    }
    let about = vec![
        "GPUs are hosts at PCIe switches and processors, with the rates that NCCL counts with; all links carry RoCE frames here.".into(),
        format!("Latencies are not in the file: each is {latency}, as of links that are named by their shape."),
    ];
    listed.write(about, notes)
}
