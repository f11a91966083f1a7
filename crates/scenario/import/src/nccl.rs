//! NCCL's topology XML, as `NCCL_TOPO_DUMP_FILE` writes it: one server, or several that NVLink joins. With the rates that NCCL counts with
//! (its `src/graph/topo.h` and `topo.cc`).
//!
//! GPUs around NVSwitches become a memory fabric; all others hosts at the tree of PCIe switches and processors that they have, with what
//! NVLinks there are between them. NICs lead out of the server, where the file knows
//! nothing: they are told, and are not in the fabric.

mod pcie;
mod server;

use crate::body::Body;
use crate::notes::Notes;
use crate::{ImportError, shape};
use server::{Gpu, Target, server};

/// The most elements of a file.
const MOST_ELEMENTS: u32 = 200_000;

/// The longest file, and the most attributes of an element, each of which the parser compares with all others.
const LONGEST: usize = 16 << 20;
const MOST_ATTRIBUTES: usize = 4096;

pub(crate) fn import(text: &str, notes: &mut Notes) -> Result<Body, ImportError> {
    let attributes = text.split('<').map(|element| element.matches('=').count()).max().unwrap_or(0);
    if text.len() > LONGEST || attributes > MOST_ATTRIBUTES {
        return Err(notes.wrong(
            None,
            format!("at most {} MiB, and {MOST_ATTRIBUTES} attributes of an element", LONGEST >> 20),
            format!("{} bytes, and {attributes}", text.len()),
            "name a file that NCCL_TOPO_DUMP_FILE has made",
        ));
    }
    let options = roxmltree::ParsingOptions { nodes_limit: MOST_ELEMENTS, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(text, options).map_err(|error| {
        let found = match error {
            roxmltree::Error::DtdDetected => {
                "a document type declaration, which other tools' files have (hwloc's)".to_owned()
            }
            error => format!("\"{}\"", crate::notes::piece(&error.to_string())),
        };
        notes.wrong(None, "NCCL's topology as XML", found, "name a file that NCCL_TOPO_DUMP_FILE has made")
    })?;
    let gpus = server(&document, notes)?;
    if gpus.iter().any(|gpu| gpu.links.iter().any(|(target, _)| matches!(target, Target::Switch(_)))) {
        return around_switches(&gpus, notes);
    }
    pcie::import(&gpus, &document, notes)
}

/// GPUs that all have as many links to NVSwitches.
fn around_switches(gpus: &[Gpu], notes: &mut Notes) -> Result<Body, ImportError> {
    let mut switches: Vec<&str> = Vec::new();
    let mut uneven = None;
    let of = |gpu: &Gpu| -> u64 {
        let counts = gpu.links.iter().filter(|(target, _)| matches!(target, Target::Switch(_)));
        counts.map(|(_, count)| u64::from(*count)).sum()
    };
    for gpu in gpus {
        if of(gpu) != of(&gpus[0]) || gpu.sm != gpus[0].sm {
            return Err(notes.wrong(
                gpu.line,
                format!(
                    "{} NVLinks to switches at each GPU, as the first one of sm {} has",
                    of(&gpus[0]),
                    gpus[0].sm
                ),
                format!("{} at one of sm {}", of(gpu), gpu.sm),
                "look whether its links are up, or take it out of the file",
            ));
        }
        for (target, count) in &gpu.links {
            match target {
                Target::Switch(name) if !switches.contains(&name.as_str()) => switches.push(name),
                Target::Gpu(_) => notes.add(
                    gpu.line,
                    format!("{count} NVLinks to another GPU"),
                    "links to NVSwitches alone are in a memory fabric",
                ),
                Target::Switch(_) => {}
            }
            if matches!(target, Target::Switch(_)) && *count != gpus[0].links[0].1 {
                uneven = Some((gpu.line, *count));
            }
        }
    }
    if switches.len() > usize::from(u16::MAX) {
        return Err(notes.wrong(
            None,
            "at most 65535 NVSwitches",
            switches.len().to_string(),
            "take a part of it",
        ));
    }
    let total = of(&gpus[0]);
    let rate = gpus[0].nvlinks(u32::try_from(total).unwrap_or(u32::MAX)).bits_per_second();
    let rate = quincunx_units::BitRate::new(rate / switches.len() as u64).expect("links have a rate");
    if let Some((line, count)) = uneven {
        let what = format!("{count} and {} NVLinks from a GPU to a switch", gpus[0].links[0].1);
        notes.add(
            line,
            what,
            "links to all switches are alike in a memory fabric: each has its share of all",
        );
    }
    let about = vec![format!(
        "{total} NVLinks of a GPU, sm {}, to {} NVSwitches: NCCL counts {} GB/s for each, each way.",
        gpus[0].sm,
        switches.len(),
        gpus[0].nvlinks(1).as_gigabytes_per_second_f64()
    )];
    shape::write(&format!("memory-{}x{}", gpus.len(), switches.len()), rate, None, about, notes)
}
