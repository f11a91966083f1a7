//! Lists of links in words: SimAI's topologies, whose first line is `nodes gpus_per_server nvswitches switches links gpu_type`, and those of
//! ns-3's RDMA simulations, ASTRA-sim's among them, with `nodes switches links`. Behind it stand the numbers of the switches, and for each
//! link `from to rate latency error_rate`.
//!
//! A GPU has a link to its NVSwitch and others to a network. Ways within a server cost less, as they do there; where a GPU has several links to
//! the network, its NIC is a node of its own, so that flows are spread over them.

use crate::ImportError;
use crate::body::Body;
use crate::links::{Listed, ParallelLinks, refuse_more};
use crate::notes::{Notes, piece};
use crate::units::{parse_rate, parse_time};
use quincunx_units::{BitRate, Duration};
use std::collections::{BTreeMap, BTreeSet};

/// What a way over a link to the network costs: more than any within a server, so that no way leads through a NIC.
const NIC: u16 = 8;

/// What a number in the file stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Host,
    NvSwitch,
    Switch,
}

/// The first line.
struct Header {
    nodes: usize,
    per_server: Option<usize>,
    nvswitches: usize,
    switches: usize,
    links: usize,
}

/// A link as it stands there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wire {
    ends: [usize; 2],
    rate: BitRate,
    latency: Duration,
}

/// Words with their lines, counted from one.
type Words<'a> = std::iter::Peekable<std::vec::IntoIter<(usize, &'a str)>>;

pub(crate) fn import(text: &str, notes: &mut Notes) -> Result<Body, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (line, first) = lines.next().expect("a file that begins with a digit has a line");
    let header = header(line, first, notes)?;
    let words: Vec<_> =
        lines.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word))).collect();
    let wanted = header.links.saturating_mul(5).saturating_add(header.nvswitches + header.switches);
    if words.len() < wanted {
        return Err(notes.wrong(
            Some(line),
            format!(
                "{} switches and {} links of five words behind the first line",
                header.nvswitches + header.switches,
                header.links
            ),
            format!("{} words", words.len()),
            "correct the numbers there, or add what is missing",
        ));
    }
    refuse_more(header.nodes as u64, header.links as u64, notes)?;
    let mut words = words.into_iter().peekable();
    let kinds = kinds(&header, &mut words, notes)?;
    let mut wires = BTreeMap::new();
    for _ in 0..header.links {
        *wires.entry(wire(&mut words, &kinds, notes)?).or_insert(0_u32) += 1;
    }
    if let Some(&(line, word)) = words.peek() {
        let what = format!("{} words from \"{}\" on", words.len(), piece(word));
        notes.add(Some(line), what, "the first line counts no links for them");
    }
    build(&header, &kinds, wires, notes)
}

fn header(line: usize, text: &str, notes: &mut Notes) -> Result<Header, ImportError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = |notes: &Notes| {
        notes.wrong(
            Some(line),
            "`nodes switches links` (ns-3), or `nodes gpus_per_server nvswitches switches links gpu_type` (SimAI)",
            format!("\"{}\"", piece(text.trim())),
            "begin with one of the two",
        )
    };
    let number =
        |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).ok_or_else(|| wrong(notes));
    let header = match words.len() {
        3 => Header {
            nodes: number(0)?,
            per_server: None,
            nvswitches: 0,
            switches: number(1)?,
            links: number(2)?,
        },
        6.. => Header {
            nodes: number(0)?,
            per_server: Some(number(1)?),
            nvswitches: number(2)?,
            switches: number(3)?,
            links: number(4)?,
        },
        _ => return Err(wrong(notes)),
    };
    if let Some(gpu) = words.get(5) {
        notes.add(Some(line), format!("the GPU \"{}\"", piece(gpu)), "links alone are a fabric's");
    }
    for word in words.iter().skip(6) {
        notes.add(Some(line), format!("the word \"{}\"", piece(word)), "the first line of SimAI has six");
    }
    let switches = header.nvswitches.saturating_add(header.switches);
    if switches > header.nodes || header.nodes - switches < 2 {
        return Err(notes.wrong(
            Some(line),
            "two nodes more than switches at least",
            format!("{} nodes and {switches} switches", header.nodes),
            "correct the numbers",
        ));
    }
    refuse_more(header.nodes as u64, 0, notes)?;
    Ok(header)
}

/// By number: what each node is.
fn kinds(header: &Header, words: &mut Words<'_>, notes: &Notes) -> Result<Vec<Kind>, ImportError> {
    let mut kinds = vec![Kind::Host; header.nodes];
    for number in 0..header.nvswitches + header.switches {
        let (line, word) = words.next().expect("words were counted");
        let found = |what: &str| {
            let expected = format!("a switch's number below {}, each once", header.nodes);
            notes.wrong(
                Some(line),
                expected,
                format!("\"{}\"{what}", piece(word)),
                "correct the list of switches",
            )
        };
        let node: usize = word.parse().map_err(|_| found(""))?;
        let kind = kinds.get_mut(node).ok_or_else(|| found(""))?;
        if *kind != Kind::Host {
            return Err(found(" a second time"));
        }
        *kind = if number < header.nvswitches { Kind::NvSwitch } else { Kind::Switch };
    }
    Ok(kinds)
}

/// The next five words.
fn wire(words: &mut Words<'_>, kinds: &[Kind], notes: &mut Notes) -> Result<Wire, ImportError> {
    let [from, to, rate, latency, errors] =
        std::array::from_fn(|_| words.next().expect("words were counted"));
    let wrong = |(line, word): (usize, &str), expected: String| {
        let remedy = "write from, to, rate, latency and error rate";
        notes.wrong(Some(line), expected, format!("\"{}\"", piece(word)), remedy)
    };
    let node = |word: (usize, &str)| {
        let number = word.1.parse().ok().filter(|&node: &usize| node < kinds.len());
        number.ok_or_else(|| wrong(word, format!("a node's number below {}", kinds.len())))
    };
    let mut ends = [node(from)?, node(to)?];
    if ends[0] == ends[1] {
        return Err(wrong(to, "a link between two nodes".into()));
    }
    ends.sort_unstable();
    let rate = parse_rate(rate.1).ok_or_else(|| wrong(rate, "a rate such as 400Gbps".into()))?;
    let latency = parse_time(latency.1).ok_or_else(|| wrong(latency, "a latency such as 0.0005ms".into()))?;
    match errors.1.parse::<f64>() {
        Ok(0.0) => {}
        Ok(share) if (0.0..=1.0).contains(&share) => notes.add(
            Some(errors.0),
            format!("the error rate {}", piece(errors.1)),
            "the links here lose nothing by themselves; say --loss, or loss.probability and loss.links",
        ),
        _ => return Err(wrong(errors, "an error rate from 0 to 1".into())),
    }
    Ok(Wire { ends, rate, latency })
}

fn name(kinds: &[Kind], node: usize) -> String {
    let kind = match kinds[node] {
        Kind::Host => "host",
        Kind::NvSwitch => "nvswitch",
        Kind::Switch => "switch",
    };
    format!("{kind}-{node}")
}

fn build(
    header: &Header,
    kinds: &[Kind],
    wires: BTreeMap<Wire, u32>,
    notes: &mut Notes,
) -> Result<Body, ImportError> {
    let (wires, gone) = merged(kinds, wires, notes);
    // By host: its links to the network.
    let mut nics: BTreeMap<usize, Vec<(Wire, u32)>> = BTreeMap::new();
    let mut inside = BTreeSet::new();
    for (&wire, &count) in &wires {
        for (end, other) in [(wire.ends[0], wire.ends[1]), (wire.ends[1], wire.ends[0])] {
            match (kinds[end], kinds[other]) {
                (Kind::Host, Kind::Switch) => nics.entry(end).or_default().push((wire, count)),
                (Kind::Host, _) => _ = inside.insert(end),
                _ => {}
            }
        }
    }
    let mut listed = Listed::default();
    let all = (0..header.nodes).filter(|node| !gone.contains(node));
    for node in all {
        match kinds[node] {
            Kind::Host => listed.host(name(kinds, node)),
            _ => listed.switch(name(kinds, node)),
        }
    }
    // Where hosts have links to the network alone, they all cost alike.
    let cost = if inside.is_empty() { 1 } else { NIC };
    let mut about =
        vec!["Hosts are GPUs, in the order of their numbers; all links carry RoCE frames here.".to_owned()];
    if !inside.is_empty() {
        about.push("Ways within a server cost less than those over the network.".into());
    }
    let mut bonded = 0;
    for (&host, links) in &nics {
        let many = links.len() > 1 || links[0].1 > 1;
        let own = name(kinds, host);
        let nic = format!("nic-{host}");
        if many {
            bonded += 1;
            let bits =
                links.iter().map(|(wire, count)| wire.rate.bits_per_second().saturating_mul((*count).into()));
            let rate = bits.fold(0_u64, u64::saturating_add);
            let rate = BitRate::new(rate).expect("a sum of rates");
            listed.switch(nic.clone());
            listed.link(ParallelLinks::one([own.clone(), nic.clone()], rate, Duration::ZERO));
        }
        for &(wire, count) in links {
            let other = if wire.ends[0] == host { wire.ends[1] } else { wire.ends[0] };
            let near = if many { nic.clone() } else { own.clone() };
            let count = link_count(count, notes)?;
            let link = ParallelLinks::one([near, name(kinds, other)], wire.rate, wire.latency);
            listed.link(ParallelLinks { count, ..link.at_cost(if many { NIC } else { cost }) });
        }
    }
    if bonded > 0 {
        about.push("A NIC with several links is a node, behind which its host is at no distance.".into());
    }
    for (wire, &count) in &wires {
        let ends = wire.ends.map(|end| kinds[end]);
        if !(ends.contains(&Kind::Host) && ends.contains(&Kind::Switch)) {
            let link = ParallelLinks::one(wire.ends.map(|end| name(kinds, end)), wire.rate, wire.latency);
            listed.link(ParallelLinks { count: link_count(count, notes)?, ..link });
        }
    }
    let hosts = kinds.iter().filter(|kind| **kind == Kind::Host).count();
    if let Some(per_server) = header.per_server
        && (per_server == 0 || !hosts.is_multiple_of(per_server))
    {
        notes.add(
            None,
            format!("{per_server} GPUs a server"),
            format!("{hosts} GPUs make no such servers; links say who is joined"),
        );
    }
    listed.write(about, notes)
}

fn link_count(count: u32, notes: &Notes) -> Result<u16, ImportError> {
    u16::try_from(count).map_err(|_| {
        notes.wrong(None, "at most 65535 links side by side", count.to_string(), "take some out")
    })
}

/// NVSwitches with the same GPUs as one, for NVLink spreads each message over all of them: a link there has the sum of theirs. Also those that
/// are gone.
fn merged(
    kinds: &[Kind],
    wires: BTreeMap<Wire, u32>,
    notes: &mut Notes,
) -> (BTreeMap<Wire, u32>, BTreeSet<usize>) {
    let is_nv = |node: usize| kinds[node] == Kind::NvSwitch;
    let mut of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for wire in wires.keys() {
        for (end, other) in [(wire.ends[0], wire.ends[1]), (wire.ends[1], wire.ends[0])] {
            if is_nv(end) {
                of.entry(end).or_default().insert(other);
            }
        }
    }
    let mut first: BTreeMap<&BTreeSet<usize>, usize> = BTreeMap::new();
    let mut into: BTreeMap<usize, usize> = BTreeMap::new();
    for (&switch, others) in &of {
        let kept = *first.entry(others).or_insert(switch);
        if kept != switch && others.iter().all(|&other| kinds[other] == Kind::Host) {
            into.insert(switch, kept);
            notes.add(
                None,
                "NVSwitches beside others of their server",
                "one here stands for all, with the sum of their rates",
            );
        }
    }
    let gone: BTreeSet<usize> = into.keys().copied().collect();
    // By ends: what crosses them in all, for NVLinks side by side are one, too.
    let mut sums: BTreeMap<[usize; 2], (u64, Duration)> = BTreeMap::new();
    let mut kept = BTreeMap::new();
    for (wire, count) in wires {
        if !wire.ends.iter().any(|&end| is_nv(end)) {
            kept.insert(wire, count);
            continue;
        }
        let ends = wire.ends.map(|end| into.get(&end).copied().unwrap_or(end));
        let bits = wire.rate.bits_per_second().saturating_mul(count.into());
        let (sum, latency) = sums.entry(ends).or_insert((0, wire.latency));
        (*sum, *latency) = (sum.saturating_add(bits), (*latency).max(wire.latency));
    }
    for (ends, (bits, latency)) in sums {
        let rate = BitRate::new(bits).expect("a sum of rates");
        *kept.entry(Wire { ends, rate, latency }).or_insert(0) += 1;
    }
    (kept, gone)
}
