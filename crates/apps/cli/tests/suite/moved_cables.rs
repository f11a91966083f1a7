//! Cables that are moved from one switch to another while a group of the hosts runs: it goes on at the switch that they lead to now.
//!
//! The cables end at a panel, a namespace with a bridge for each switch's port that passes LLDP on, as no bridge does unasked.

use quincunx_comm::{Endpoint, Group, Options, ReduceOp};
use quincunx_control_grpc::ControlClient;
use quincunx_designs::CATALOG;
use quincunx_needs::{namespaces, need};
use quincunx_units::Duration;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::intruder::in_namespace;
use crate::processes::{Ending, Folder, eventually, quincunx, start_as};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");
const LIMIT: Duration = Duration::from_secs(60);
const ELEMENTS: usize = 20_000;

/// Two switches that are joined, two hosts, and the panel.
struct Panel {
    prefix: String,
}

impl Panel {
    fn new() -> Self {
        let panel = Self { prefix: format!("qm{}", std::process::id()) };
        let mut script = String::new();
        for end in ["p", "s0", "s1", "h0", "h1"] {
            writeln!(script, "netns add {}", panel.namespace(end)).expect("a string");
        }
        let mut cable = |a: (&str, &str), b: (&str, &str)| {
            let [near, far] = [a, b].map(|(end, name)| format!("name {name} netns {}", panel.namespace(end)));
            writeln!(script, "link add {near} type veth peer {far}").expect("a string");
        };
        cable(("s0", "x0"), ("s1", "x0"));
        for host in ["h0", "h1"] {
            cable((host, "eth0"), ("p", host));
        }
        for (switch, port) in [("s0", "p0"), ("s0", "p1"), ("s1", "p0"), ("s1", "p1")] {
            cable((switch, port), ("p", &format!("{switch}{port}")));
        }
        panel.ip(&script);
        for port in ["s0p0", "s0p1", "s1p0", "s1p1"] {
            panel.at("p", &format!("link add b{port} type bridge group_fwd_mask 0x4000"));
            panel.at("p", &format!("link set {port} master b{port}"));
            panel.at("p", &format!("link set b{port} up"));
            panel.at("p", &format!("link set {port} up"));
        }
        for (switch, port) in
            [("s0", "p0"), ("s0", "p1"), ("s0", "x0"), ("s1", "p0"), ("s1", "p1"), ("s1", "x0")]
        {
            panel.at(switch, &format!("link set {port} up"));
        }
        for (number, host) in ["h0", "h1"].into_iter().enumerate() {
            panel.at("p", &format!("link set {host} up"));
            panel.at(host, &format!("addr add {}/24 dev eth0", Self::address(number as u8)));
            panel.at(host, "link set eth0 up");
        }
        for end in ["s0", "s1", "h0", "h1"] {
            panel.at(end, "link set lo up");
        }
        panel.plug("s0");
        panel
    }

    const fn address(host: u8) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::new(10, 78, 0, 1 + host))
    }

    fn namespace(&self, end: &str) -> String {
        format!("{}{end}", self.prefix)
    }

    fn ip(&self, script: &str) {
        for line in script.lines() {
            let done = Command::new("ip").args(line.split_whitespace()).output().expect("iproute2");
            assert!(done.status.success(), "ip {line}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }

    fn at(&self, end: &str, line: &str) {
        self.ip(&format!("-n {} {line}", self.namespace(end)));
    }

    /// Both hosts' cables lead to the ports of that switch from now on.
    fn plug(&self, switch: &str) {
        for (host, port) in [("h0", "p0"), ("h1", "p1")] {
            self.at("p", &format!("link set {host} master b{switch}{port}"));
        }
    }

    /// The ports of that switch have no cable any more.
    fn pull(&self, switch: &str) {
        for port in ["p0", "p1"] {
            self.at("p", &format!("link set {switch}{port} down"));
        }
    }

    /// The program, at that end.
    fn command(&self, end: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(end), PROGRAM]);
        command
    }

    fn start(&self, end: &str, arguments: &str) -> Ending {
        start_as(self.command(end), arguments, None)
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        for end in ["p", "s0", "s1", "h0", "h1"] {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(end)]).output();
        }
    }
}

/// Has the ranks stop when the test is done, however it ends.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The switches of the job's group, at the manager.
fn switches(client: &ControlClient) -> Vec<String> {
    let groups = client.list_groups().unwrap_or_default();
    let job = groups.into_iter().find(|group| group.name == "blue/moved.all");
    job.map_or_else(Vec::new, |job| job.summary.switches.into_iter().map(|holding| holding.node).collect())
}

/// Sums until one of the ranks has been told to stop; all of them right.
fn sum_until(world: &Group, stop: &AtomicBool, begun: &AtomicBool) {
    let rank = i32::from(world.rank());
    for number in 0.. {
        let mut values: Vec<i32> = (0..ELEMENTS as i32).map(|index| index + number * (rank + 1)).collect();
        world.all_reduce(&mut values, ReduceOp::Sum).expect("the group goes on");
        assert!((0..).zip(&values).all(|(index, value)| *value == 2 * index + 3 * number), "sum {number}");
        begun.store(true, Ordering::Relaxed);
        let mut ends = [i32::from(stop.load(Ordering::Relaxed))];
        world.all_reduce(&mut ends, ReduceOp::Max).expect("the group goes on");
        if ends == [1] {
            return;
        }
    }
}

#[test]
fn a_group_goes_on_at_the_switch_that_its_hosts_cables_lead_to_now() {
    need!(namespaces());
    let folder = Folder::new("moved-cables");
    let certificates = folder.0.display().to_string();
    let made = quincunx(&format!("manager init {certificates} --node s0,s1 --host h0@blue --host h1@blue"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let panel = Panel::new();
    let manager =
        format!("manager --listen 0.0.0.0:4790 --identity {certificates}/manager.pem --log-level off");
    let mut processes = vec![panel.start("s0", &manager)];
    for (switch, address, at) in [("s0", "10.78.0.192", "127.0.0.1"), ("s1", "10.78.0.193", "10.78.0.192")] {
        let arguments = format!(
            "switch --name {switch} --address {address}/24 --port p0 --port p1 --port x0 --manager {at}:4790 \
             --identity {certificates}/node-{switch}.pem --log-level off"
        );
        processes.push(panel.start(switch, &arguments));
    }
    for host in ["h0", "h1"] {
        let arguments = format!(
            "agent --manager 10.78.0.192:4790 --identity {certificates}/host-{host}.pem --port eth0 --name {host} --log-level off"
        );
        processes.push(panel.start(host, &arguments));
    }
    let attach = |rank: u16| {
        let identity = Some(format!("{certificates}/host-h{rank}.pem").into());
        let settings = vec![("group.mtu".into(), "1024".into())];
        let options = Options {
            address: Some(Panel::address(rank as u8)),
            identity,
            settings,
            switches: 2,
            join_limit: LIMIT,
            limit: LIMIT,
            notice: Duration::ZERO,
            ..Options::new("10.78.0.192:4790".parse().expect("an address"), "blue/moved", rank, 2)
        };
        in_namespace(&panel.namespace(&format!("h{rank}")), || Endpoint::attach(CATALOG, options))
            .expect("it attaches")
    };
    let endpoints = [attach(0), attach(1)];
    let client = endpoints[0].client();
    let found = |switch: &str| {
        let mut listing = panel.command("s0");
        listing.args([
            "nodes",
            "--links",
            "--json",
            "--identity",
            &format!("{certificates}/operator-admin.pem"),
        ]);
        let links = listing.stderr(Stdio::null()).output().expect("it runs").stdout;
        let links: Value = serde_json::from_slice(&links).unwrap_or_default();
        let rows = links["rows"].as_array().cloned().unwrap_or_default();
        let is = |host: &str| {
            let joins = |row: &Value| row["ends"][0]["name"] == *host && row["ends"][1]["name"] == *switch;
            rows.iter().any(|row| row["state"] == "found" && joins(row))
        };
        is("h0") && is("h1")
    };
    eventually("cables to the first switch", || found("s0"));
    let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for endpoint in &endpoints {
            let (stop, begun) = (&stop, &begun);
            scope.spawn(move || sum_until(&endpoint.world().expect("a group"), stop, begun));
        }
        let _stop = StopAtEnd(&stop);
        eventually("sums", || begun.load(Ordering::Relaxed));
        assert_eq!(switches(client), ["s0"]);
        panel.pull("s0");
        panel.plug("s1");
        eventually("the group at the other switch", || switches(client) == ["s1"]);
        eventually("cables to the other switch", || found("s1"));
        begun.store(false, Ordering::Relaxed);
        eventually("sums there", || begun.load(Ordering::Relaxed));
    });
}
