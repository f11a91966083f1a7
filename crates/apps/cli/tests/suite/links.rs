//! A link that is cut under a running job: real processes, a network namespace each, two leaves with two hosts each below one or two spines. The
//! manager is on a network of its own, as where machines are managed.

use nix::fcntl::{FcntlArg, fcntl};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_needs::{namespaces, need};
use quincunx_perf::{Case, GroupsSetup, Measured, Plan, RealLinks};
use quincunx_scenario::Scenario;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::processes::{Ending, Folder, eventually, quincunx};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// Where the manager serves.
const MANAGER: &str = "10.79.0.254:4790";

/// So many measurements that what rank 0 has of them is more than [`AHEAD`].
const CASES: usize = 30;

/// After so many of them a link is cut.
const BEFORE_THE_CUT: usize = 1;

/// Bytes of measurements that rank 0 can be ahead of who reads them, a page at least: then it waits, and all others for it. So none of them is
/// at its end before the cut, however long `ip` takes to begin.
const AHEAD: i32 = 4096;

/// What stands at a place of the fabric: spines may be without a process, and only forward.
const HOSTS: [&str; 4] = ["host0", "host1", "host2", "host3"];
const LEAVES: [&str; 2] = ["leaf0", "leaf1"];
const SPINES: [&str; 2] = ["spine0", "spine1"];

/// The last number of a node's address.
fn number(node: &str) -> u8 {
    let tens = ["host", "leaf", "spine"].iter().position(|kind| node.starts_with(kind)).unwrap() as u8;
    10 * tens + 1 + node.as_bytes().last().unwrap() - b'0'
}

fn leaf_of(host: usize) -> &'static str {
    LEAVES[host / 2]
}

fn address(node: &str) -> String {
    format!("10.78.0.{}", number(node))
}

/// Namespaces, gone at the end; should this process be killed, the next fabric sweeps them.
struct NamespaceFabric {
    prefix: String,
    nodes: Vec<&'static str>,
    certificates: Folder,
    _manager: Ending,
    _switches: Vec<Ending>,
}

impl NamespaceFabric {
    /// Leaves and so many spines, of which the first `computing` run a switch and the others forward. What is none of a tree's goes over the last.
    fn new(spines: usize, computing: usize) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("qx{}x9{serial}s", std::process::id());
        let nodes: Vec<&str> = HOSTS.iter().chain(&LEAVES).chain(&SPINES[..spines]).copied().collect();
        let names = Names { prefix: &prefix, nodes: &nodes };
        let mut all = nodes.clone();
        all.push("managed");
        all.iter().for_each(|node| ip(&format!("netns add {}", names.of(node))));
        let mut links: Vec<[&str; 2]> = (0..HOSTS.len()).map(|host| [leaf_of(host), HOSTS[host]]).collect();
        links.extend(SPINES[..spines].iter().flat_map(|spine| LEAVES.map(|leaf| [*spine, leaf])));
        links.extend(nodes.iter().map(|node| ["managed", *node]));
        for [a, b] in &links {
            names.ip(a, &format!("link add {b} type veth peer name {a} netns {}", names.of(b)));
        }
        names.ip("managed", "link add br0 type bridge");
        names.ip("managed", "addr add 10.79.0.254/24 dev br0");
        names.ip("managed", "link set br0 up");
        for node in &nodes {
            names.ip("managed", &format!("link set {node} master br0 up"));
            names.ip(node, "link set lo up");
            names.ip(node, "link set managed up");
            names.ip(node, &format!("addr add 10.79.0.{}/24 dev managed", number(node)));
            names.ip(node, &format!("addr add {}/32 dev lo", address(node)));
            let quiet = "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $each; done; echo 1 > /proc/sys/net/ipv4/ip_forward";
            assert!(names.command(node, "sh").args(["-ec", quiet]).status().unwrap().success());
        }
        for [a, b] in links.iter().filter(|[a, _]| *a != "managed") {
            names.ip(a, &format!("link set {b} up"));
            names.ip(b, &format!("link set {a} up"));
            names.ip(a, &format!("route add {}/32 dev {b} src {}", address(b), address(a)));
            names.ip(b, &format!("route add {}/32 dev {a} src {}", address(a), address(b)));
        }
        let way = SPINES[spines - 1];
        for (here, host) in HOSTS.iter().enumerate() {
            let by = |to: &str, next: &str| {
                format!("route replace {}/32 via {} dev {next} onlink", address(to), address(next))
            };
            let leaf = leaf_of(here);
            names.ip(way, &by(host, leaf));
            for (there, other) in HOSTS.iter().enumerate().filter(|(there, _)| *there != here) {
                names.ip(host, &format!("{} src {}", by(other, leaf), address(host)));
                if leaf_of(there) != leaf {
                    names.ip(leaf, &by(other, way));
                }
            }
        }
        let certificates = Folder::new(&format!("links{serial}"));
        let path = certificates.0.display().to_string();
        let switches: Vec<&str> = LEAVES.iter().chain(&SPINES[..computing]).copied().collect();
        let made = quincunx(&format!(
            "manager init {path} --node {} --host {}",
            switches.join(","),
            HOSTS.map(|host| format!("{host}@blue")).join(",")
        ));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let manager = format!("manager --listen {MANAGER} --identity {path}/manager.pem --log-level off");
        let manager = Ending(names.program("managed", &manager).stdout(Stdio::null()).spawn().unwrap());
        let start = |switch: &&str| {
            let ends = links.iter().filter_map(|[a, b]| match (a, b) {
                (a, b) if a == switch => Some(*b),
                (a, b) if b == switch => Some(*a),
                _ => None,
            });
            let ends: Vec<String> =
                ends.filter(|end| *end != "managed").map(|end| format!("{end}@{end}")).collect();
            let arguments = format!(
                "switch --name {switch} --address {} --manager {MANAGER} --identity {path}/node-{switch}.pem --log-level off --neighbours {}",
                address(switch),
                ends.join(",")
            );
            Ending(names.program(switch, &arguments).stdout(Stdio::null()).spawn().unwrap())
        };
        let switches = switches.iter().map(start).collect();
        Self { nodes: all, certificates, _manager: manager, _switches: switches, prefix }
    }

    fn names(&self) -> Names<'_> {
        Names { prefix: &self.prefix, nodes: &self.nodes }
    }

    /// Starts a rank, which makes many measurements.
    fn start_rank(&self, host: &str, plan: &str) -> Ending {
        let folder = self.certificates.0.display();
        let arguments = format!(
            "rank --name {host} --address {} --manager {MANAGER} --identity {folder}/host-{host}.pem --members {}",
            address(host),
            HOSTS.join(",")
        );
        let mut command = self.names().program(host, &arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{plan}").unwrap();
        Ending(child)
    }

    /// Sets the link between two nodes down, at the end of one of them.
    fn cut(&self, node: &str, neighbour: &str) {
        self.names().ip(node, &format!("link set {neighbour} down"));
    }
}

impl Drop for NamespaceFabric {
    fn drop(&mut self) {
        let names = self.names();
        let gone = |node: &&'static str| Command::new("ip").args(["netns", "del", &names.of(node)]).status();
        self.nodes.iter().for_each(|node| _ = gone(node));
    }
}

/// How namespaces are called.
#[derive(Clone, Copy)]
struct Names<'a> {
    prefix: &'a str,
    nodes: &'a [&'static str],
}

impl Names<'_> {
    fn of(&self, node: &str) -> String {
        let index = self.nodes.iter().position(|known| *known == node).unwrap_or(99);
        let index = if node == "managed" { 99 } else { index };
        format!("{}{index}", self.prefix)
    }

    fn ip(&self, node: &str, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.of(node)));
    }

    fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(node), program]);
        command
    }

    fn program(&self, node: &str, arguments: &str) -> Command {
        let mut command = self.command(node, PROGRAM);
        command.args(arguments.split_whitespace());
        command
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What all ranks run: short measurements, whose slowest repetition is the last percentile, each with the first and the last result compared.
fn plan(design: &str, switches: usize) -> String {
    let links = RealLinks { mtu: 1500, is_limited: false };
    let scenario = Scenario::find_for(&links, "star-4", &[], CATALOG).unwrap();
    let known = CATALOG.find(design, FabricKind::Tree).unwrap();
    let setup = GroupsSetup { switches, ..GroupsSetup::new(CATALOG, &[known], &scenario).unwrap() };
    let case = Case {
        design: design.into(),
        collective: "all_reduce".into(),
        in_place: false,
        root: 0,
        bytes: 4 << 10,
        data_type: "i32".into(),
        op: "sum".into(),
        iterations: 40,
        warm_up: 1,
        tokens: None,
    };
    serde_json::to_string(&Plan { setup, cases: vec![case; CASES] }).unwrap()
}

/// What became of a job under which a link was cut.
struct Outcome {
    /// What rank 0 measured, case by case.
    measured: Vec<Measured>,
    /// What the ranks said on their standard errors.
    said: Vec<String>,
    /// From the cut to the end of all.
    took: Duration,
}

/// Runs a job, and cuts the link between leaf and first spine under it.
fn cut_under(design: &str, spines: usize, computing: usize) -> Outcome {
    let fabric = NamespaceFabric::new(spines, computing);
    let plan = plan(design, LEAVES.len() + computing);
    let mut ranks = HOSTS.map(|host| fabric.start_rank(host, &plan));
    let output: ChildStdout = ranks[0].0.stdout.take().unwrap();
    fcntl(&output, FcntlArg::F_SETPIPE_SZ(AHEAD)).unwrap();
    let output = BufReader::with_capacity(1, output);
    let mut lines = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let mut measured: Vec<Measured> = lines.by_ref().take(BEFORE_THE_CUT).collect();
    // The tree leads over the first spine by name.
    fabric.cut("leaf0", "spine0");
    let since = Instant::now();
    measured.extend(lines);
    eventually("an end of all ranks", || ranks.iter_mut().all(|rank| rank.0.try_wait().unwrap().is_some()));
    let took = since.elapsed();
    let said = ranks.map(|mut rank| {
        let mut said = String::new();
        rank.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    });
    Outcome { measured, said: said.into(), took }
}

/// The job is done, with right results, and went on by `design`, after the longest of its collectives.
fn assert_went_on(outcome: &Outcome, design: &str) {
    let Outcome { measured, said, took } = outcome;
    assert_eq!(measured.len(), CASES, "{said:?}");
    assert!(measured.iter().all(|case| case.wrong == 0 && case.compared > 0));
    let remade = format!("was made anew on {design} after ");
    assert!(said[0].lines().count() == 1 && said[0].contains(&remade), "{said:?}");
    assert_eq!(measured.last().unwrap().design, design);
    let longest = measured.iter().map(|case| case.p99_us).fold(0.0, f64::max) / 1e3;
    println!("the longest collective took {longest:.0} ms, all after the cut {took:?}: {}", said[0].trim());
}

#[test]
fn a_job_goes_on_over_the_other_spine() {
    need!(namespaces());
    for design in ["epic-3", "epic-2"] {
        assert_went_on(&cut_under(design, 2, 2), design);
    }
}

#[test]
fn a_job_goes_on_among_its_hosts_where_no_other_switch_adds_up_and_another_way_is_left() {
    need!(namespaces());
    assert_went_on(&cut_under("epic-3", 2, 1), "ring");
}

#[test]
fn a_job_whose_hosts_cannot_reach_each_other_ends_with_an_error_and_does_not_hang() {
    need!(namespaces());
    let Outcome { measured, said, took } = cut_under("epic-3", 1, 1);
    assert!((BEFORE_THE_CUT..CASES).contains(&measured.len()), "{said:?}");
    println!("the end after {took:?}: {said:?}");
    let reasons: Vec<&str> = said.iter().map(|said| said.lines().last().unwrap()).collect();
    assert!(reasons.iter().all(|reason| reason.contains("expected ")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("to go on, but the queue pair to it failed")));
}
