//! ASTRA-sim's analytical networks: dimensions, each a ring, a full mesh or a switch of so many NPUs, with the rate and the latency of a link.
//! `network.yml` has the keys `topology`, `npus_count`, `bandwidth` (GB/s) and `latency` (ns); the older JSON has `topologies-per-dim`,
//! `units-count`, `link-bandwidth` and `link-latency`.

use crate::body::Body;
use crate::links::{Listed, ParallelLinks, refuse_more};
use crate::notes::{Notes, piece};
use crate::{ImportError, shape, units};
use quincunx_units::{BitRate, Duration};
use serde_json::{Map, Value};

/// A GB there has 2^30 bytes (`bw_GBps_to_Bpns` of its analytical network).
const BITS_OF_A_GB: f64 = 8.0 * (1_u64 << 30) as f64;

/// The longest text: these files are some lines.
const LONGEST: usize = 1 << 20;

/// The most dimensions.
const MOST_DIMENSIONS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    Ring,
    FullyConnected,
    Switch,
}

/// A dimension.
struct Dimension {
    block: Block,
    size: u64,
    rate: BitRate,
    latency: Duration,
}

/// The names of keys: of the blocks, sizes, rates and latencies.
type Keys = [&'static str; 4];

const YAML: Keys = ["topology", "npus_count", "bandwidth", "latency"];
const JSON: Keys = ["topologies-per-dim", "units-count", "link-bandwidth", "link-latency"];

pub(crate) fn import(text: &str, notes: &mut Notes) -> Result<Body, ImportError> {
    let not_a_network = |notes: &Notes, found: String| {
        let expected = "a network of ASTRA-sim with `topology`, `npus_count`, `bandwidth` and `latency`";
        notes.wrong(None, expected, found, "name a file of NCCL, SimAI, ns-3 or ASTRA-sim")
    };
    if text.len() > LONGEST {
        return Err(not_a_network(notes, format!("a text of {} bytes", text.len())));
    }
    let is_json = text.trim_start().starts_with('{');
    let parsed: Result<Value, String> = if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    };
    let map = match parsed {
        Ok(Value::Object(map)) => map,
        Ok(other) => return Err(not_a_network(notes, format!("\"{}\"", piece(&other.to_string())))),
        Err(error) => return Err(not_a_network(notes, format!("\"{}\"", piece(&error)))),
    };
    if map.contains_key("logical-dims") {
        let remedy = "import the topology that ns-3's configuration names (TOPOLOGY_FILE)";
        return Err(notes.wrong(None, "a network with links", "`logical-dims`, which has none", remedy));
    }
    let keys = if map.contains_key(JSON[0]) || map.contains_key("topology-name") { JSON } else { YAML };
    let mut dimensions = dimensions(map, keys, notes)?;
    if let Some(place) = dimensions.iter().position(|dimension| dimension.size == 1) {
        notes.add(None, format!("dimension {} of one NPU", place + 1), "it joins nobody");
        dimensions.retain(|dimension| dimension.size > 1);
    }
    build(&dimensions, notes)
}

/// The dimensions that the keys tell of, which all must tell of the same number.
fn dimensions(
    mut map: Map<String, Value>,
    keys: Keys,
    notes: &mut Notes,
) -> Result<Vec<Dimension>, ImportError> {
    if keys == JSON {
        unroll(&mut map, notes)?;
    }
    let lists = keys.map(|key| list(map.remove(key), key, notes));
    let [blocks, sizes, rates, latencies] = lists;
    let (blocks, sizes, rates, latencies) = (blocks?, sizes?, rates?, latencies?);
    for (key, list) in keys.iter().zip([&blocks, &sizes, &rates, &latencies]) {
        if list.len() != blocks.len() || !(1..=MOST_DIMENSIONS).contains(&list.len()) {
            return Err(notes.wrong(
                None,
                format!("as many values of `{key}` as of `{}`, {MOST_DIMENSIONS} at most", keys[0]),
                format!("{} and {}", list.len(), blocks.len()),
                "say one for each dimension",
            ));
        }
    }
    for (key, value) in &map {
        let is_nothing =
            value.as_array().is_some_and(|list| list.iter().all(|value| value.as_f64() == Some(0.0)));
        if !is_nothing {
            notes.add(
                None,
                format!("`{}`, which is {}", piece(key), piece(&value.to_string())),
                "it is no part of a fabric here",
            );
        }
    }
    let wrong = |key: &str, expected: &str, found: &Value, notes: &Notes| {
        notes.wrong(None, format!("{expected} in `{key}`"), piece(&found.to_string()), "correct the value")
    };
    let mut found = Vec::new();
    for (((block, size), rate), latency) in blocks.iter().zip(&sizes).zip(&rates).zip(&latencies) {
        let known = match block.as_str() {
            Some("Ring") => Block::Ring,
            Some("FullyConnected" | "AllToAll") => Block::FullyConnected,
            Some("Switch") => Block::Switch,
            _ => return Err(wrong(keys[0], "Ring, FullyConnected or Switch", block, notes)),
        };
        let count = size.as_u64().filter(|count| *count > 0);
        let count = count.ok_or_else(|| wrong(keys[1], "a number of NPUs", size, notes))?;
        let bits = rate.as_f64().and_then(|rate| units::rate(rate * BITS_OF_A_GB));
        let bits = bits.ok_or_else(|| wrong(keys[2], "GB/s above 0", rate, notes))?;
        let time = latency.as_f64().and_then(|latency| units::time(latency * 1e3));
        let time = time.ok_or_else(|| wrong(keys[3], "nanoseconds", latency, notes))?;
        found.push(Dimension { block: known, size: count, rate: bits, latency: time });
    }
    Ok(found)
}

/// The older JSON in the keys that name each dimension: a network of one kind has its name alone.
fn unroll(map: &mut Map<String, Value>, notes: &Notes) -> Result<(), ImportError> {
    map.remove("dimensions-count");
    let name = map.remove("topology-name").unwrap_or(Value::Null);
    match (name.as_str(), map.contains_key(JSON[0])) {
        (Some("Hierarchical") | None, true) => Ok(()),
        (Some(name @ ("Ring" | "FullyConnected" | "AllToAll" | "Switch")), false) => {
            map.insert(JSON[0].into(), vec![name].into());
            Ok(())
        }
        _ => Err(notes.wrong(
            None,
            "`topology-name` Hierarchical with `topologies-per-dim`, or Ring, FullyConnected or Switch",
            piece(&name.to_string()),
            "hosts here do not forward for each other, as in a torus; describe another network",
        )),
    }
}

fn list(value: Option<Value>, key: &str, notes: &Notes) -> Result<Vec<Value>, ImportError> {
    match value {
        Some(Value::Array(list)) => Ok(list),
        // ASTRA-sim's own reader takes a single value for a list of one.
        Some(value @ (Value::String(_) | Value::Number(_))) => Ok(vec![value]),
        Some(other) => Err(notes.wrong(
            None,
            format!("a list in `{key}`"),
            piece(&other.to_string()),
            "say a value for each dimension",
        )),
        None => Err(notes.wrong(None, format!("`{key}`"), "no such key", "say a value for each dimension")),
    }
}

fn build(dimensions: &[Dimension], notes: &mut Notes) -> Result<Body, ImportError> {
    let about = vec![
        "A GB/s of ASTRA-sim is 2^30 bytes a second. NPUs are hosts; all links carry RoCE frames here."
            .to_owned(),
    ];
    let (first, outer) = match dimensions {
        [] => return Err(notes.wrong(None, "two NPUs at least", "one", "nobody exchanges anything alone")),
        [Dimension { block: block @ (Block::Ring | Block::Switch), size, rate, latency }] => {
            refuse_more(*size, *size, notes)?;
            let shape = if *block == Block::Ring { "ring-" } else { "star-" };
            return shape::write(&format!("{shape}{size}"), *rate, Some(*latency), about, notes);
        }
        [first, outer @ ..] => (first, outer),
    };
    // In a ring of three all are neighbours.
    let can_be_first = first.block != Block::Ring || first.size <= 3;
    let odd = outer.iter().position(|dimension| dimension.block != Block::Switch).map(|place| place + 2);
    if let Some(place) = odd.or((!can_be_first).then_some(1)) {
        let found = &dimensions[place - 1];
        return Err(notes.wrong(
            None,
            "one dimension, or Switch and FullyConnected within dimensions of Switch",
            format!("{:?} of {} NPUs as dimension {place} of {}", found.block, found.size, dimensions.len()),
            "hosts here do not forward for each other; describe it as a Switch",
        ));
    }
    let hosts = dimensions.iter().fold(1_u64, |product, dimension| product.saturating_mul(dimension.size));
    let within = match first.block {
        Block::Switch => first.size,
        _ => first.size.saturating_mul(first.size - 1) / 2,
    };
    refuse_more(
        hosts,
        (hosts / first.size).saturating_mul(within).saturating_add(hosts.saturating_mul(outer.len() as u64)),
        notes,
    )?;
    if !outer.is_empty() {
        notes.add(
        None,
        "a switch for each place of an inner dimension",
        "one switch of an outer dimension joins all NPUs below it, so that they need not forward for each other",
    );
    }
    write(dimensions, hosts, about, notes)
}

/// One switch for each group of a dimension; ways cost more the further out they lead.
fn write(
    dimensions: &[Dimension],
    hosts: u64,
    about: Vec<String>,
    notes: &Notes,
) -> Result<Body, ImportError> {
    let npu = |host: u64| format!("npu-{host}");
    let mut listed = Listed::default();
    (0..hosts).for_each(|host| listed.host(npu(host)));
    let mut group = 1;
    for (place, dimension) in (1_u16..).zip(dimensions) {
        group *= dimension.size;
        if dimension.block != Block::Switch {
            for first in (0..hosts).step_by(group as usize) {
                for (a, b) in (first..first + group).flat_map(|a| (a + 1..first + group).map(move |b| (a, b)))
                {
                    listed.link(ParallelLinks::one([npu(a), npu(b)], dimension.rate, dimension.latency));
                }
            }
            continue;
        }
        for number in 0..hosts / group {
            listed.switch(format!("switch-{place}-{number}"));
        }
        for host in 0..hosts {
            let ends = [npu(host), format!("switch-{place}-{}", host / group)];
            listed.link(ParallelLinks::one(ends, dimension.rate, dimension.latency).at_cost(place));
        }
    }
    listed.write(about, notes)
}
