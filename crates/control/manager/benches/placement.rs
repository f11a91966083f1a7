//! How long the manager takes to decide an `InitGroup`: 2,048 ranks, 128 switches, 1,000 groups that come one after the other and stay.
//!
//! Prints the distribution over the groups, policy by policy: criterion times one call again and again, and here every call finds another
//! state. A fat tree of leaves with 32 ranks and 32 spines, and 32 core switches over four pods.

use quincunx_collective::SplitMix64;
use quincunx_control::{
    Action, GroupRequest, GroupState, Instruction, LinkReport, Manager, ManagerConfig, NodeDescription,
    Report, RequestId, Role, policy,
};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_units::{BitRate, ByteCount};
use std::net::IpAddr;
use std::time::{Duration, Instant};

const RANKS: u32 = 2048;
const PODS: u32 = 4;
/// Leaves and spines of a pod, 8 and 16; core switches: 4 * (16 + 8) + 32 = 128.
const LEAVES: u32 = 16;
const SPINES: u32 = 8;
const CORES: u32 = 32;
const GROUPS: u64 = 1000;

fn link(neighbour: String) -> LinkReport {
    LinkReport { interface: None, neighbour, parallel_links: 1, rate: BitRate::new(100_000_000_000) }
}

fn switch(name: String, number: u32, links: impl Iterator<Item = String>) -> NodeDescription {
    NodeDescription {
        role: Role::Switch,
        designs: ["epic-1", "epic-2", "epic-3"].map(String::from).into(),
        memory: ByteCount::new(8 << 20),
        memory_unit: ByteCount::new(4096),
        links: links.map(link).collect(),
        ..NodeDescription::host(name, IpAddr::from((0x0b00_0000 + number).to_be_bytes()), 4096)
    }
}

fn fabric() -> Vec<NodeDescription> {
    let hosts = RANKS / (PODS * LEAVES);
    let mut nodes = Vec::new();
    for pod in 0..PODS {
        for leaf in 0..LEAVES {
            let number = pod * LEAVES + leaf;
            let below = (0..hosts).map(|host| format!("r{}", number * hosts + host));
            let above = (0..SPINES).map(|spine| format!("spine{}", pod * SPINES + spine));
            nodes.push(switch(format!("leaf{number}"), number, below.chain(above)));
        }
        for spine in 0..SPINES {
            let number = pod * SPINES + spine;
            let below = (0..LEAVES).map(|leaf| format!("leaf{}", pod * LEAVES + leaf));
            let cores = CORES / SPINES;
            let above = (0..cores).map(|core| format!("core{}", spine * cores + core));
            nodes.push(switch(format!("spine{number}"), 1000 + number, below.chain(above)));
        }
    }
    for core in 0..CORES {
        let spine = core / (CORES / SPINES);
        let below = (0..PODS).map(|pod| format!("spine{}", pod * SPINES + spine));
        nodes.push(switch(format!("core{core}"), 2000 + core, below));
    }
    let host = |rank: u32| {
        NodeDescription::host(format!("r{rank}"), IpAddr::from((0x0a00_0000 + rank).to_be_bytes()), 4096)
    };
    nodes.extend((0..RANKS).map(host));
    nodes
}

fn main() {
    println!(
        "{:<14} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
        "policy", "median", "90 %", "99 %", "most", "in-netw.", "ring"
    );
    for policy in policy::ALL {
        let config = ManagerConfig { fallback: Some(FALLBACK), policy: *policy, ..ManagerConfig::default() };
        let mut manager = Manager::new(CATALOG, config);
        let mut out = Vec::new();
        for node in fabric() {
            manager.attach(node, &[], &mut out).expect("names differ");
        }
        let mut random = SplitMix64::new(1);
        let design = CATALOG.named("epic-2").expect("it is in the catalog");
        let (mut times, mut in_network) = (Vec::new(), 0);
        for number in 0..GROUPS {
            // As jobs have them: 8 to 128 neighbours, and now and then ranks of everywhere.
            let size = 8 << (random.draw() % 5);
            let first = (random.draw() % (u64::from(RANKS) / size)) * size;
            let stride = if random.draw().is_multiple_of(8) { u64::from(RANKS) / size } else { 1 };
            let member = |index| (if stride > 1 { first % stride } else { first }) + index * stride;
            let members = (0..size).map(|index| format!("r{}", member(index))).collect();
            let mut wanted = GroupRequest::new(members, design, ByteCount::new(1 << 20));
            // Windows of 32 KiB: a switch has room for some hundred groups.
            for (key, value) in [("group.mtu", 1024), ("group.message", 8), ("group.window", 4)] {
                design.set(&mut wanted.settings, key, &value.into()).expect("it has such keys");
            }
            out.clear();
            let start = Instant::now();
            manager.init_group(RequestId(number), &wanted, &mut out);
            times.push(start.elapsed());
            let mut installs = Vec::new();
            for action in out.drain(..) {
                match action {
                    Action::Instruct { node, instruction: Instruction::Install(context) } => {
                        installs.push((node, context.group));
                    }
                    Action::Answer { answer: Err(error), .. } => panic!("{error}"),
                    _ => {}
                }
            }
            for (node, group) in installs {
                manager.handle_report(&node, group, Report::Installed, &mut out).expect("it is in the group");
            }
        }
        for group in manager.groups() {
            assert_eq!(group.state, GroupState::Ready);
            in_network += u32::from(group.fallback.is_none());
        }
        times.sort();
        let at = |share: usize| milliseconds(times[(times.len() * share / 100).min(times.len() - 1)]);
        println!(
            "{:<14} {:>9} {:>9} {:>9} {:>9} {in_network:>8} {:>8}",
            policy.name(),
            at(50),
            at(90),
            at(99),
            at(100),
            GROUPS as u32 - in_network,
        );
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}ms", time.as_secs_f64() * 1e3)
}
