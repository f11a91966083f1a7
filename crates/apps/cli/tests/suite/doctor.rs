//! `quincunx doctor` on machines with several networks: one by which they are managed, one for data, and one that ends nowhere. It finds nothing
//! where nothing is wrong, and each fault that is made, with the place where it is.

use quincunx_needs::{namespaces, need};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::processes::{Ending, Folder, quincunx};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");
const MANAGER: &str = "10.89.0.254:4790";

/// Hosts and a switch, the last number of whose addresses is their place here.
const NODES: [&str; 3] = ["a", "b", "s"];

/// The networks of each, and what their addresses begin with. Of the last one the other ends are down.
const NETWORKS: [(&str, &str); 3] = [("managed", "10.89.0"), ("data", "10.88.0"), ("dead", "10.87.0")];

/// Namespaces, gone at the end; should this process be killed, the next fabric sweeps them.
struct Machines {
    prefix: String,
    certificates: Folder,
    manager: Option<Ending>,
    switch: Option<Ending>,
}

impl Machines {
    /// Two hosts and a switch that is started so.
    fn new(switch: &str) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("qx{}x8{serial}s", std::process::id());
        let certificates = Folder::new(&format!("doctor{serial}"));
        let mut machines = Self { prefix, certificates, manager: None, switch: None };
        for name in NODES.iter().chain(&["lan"]) {
            machines.sh("", &format!("ip netns add {}", machines.namespace(name)));
        }
        for (network, addresses) in NETWORKS {
            machines.sh("lan", &format!("ip link add {network} type bridge && ip link set {network} up"));
            for (node, number) in NODES.iter().zip(1..) {
                let other = machines.namespace(node);
                let [port, mtu] = [format!("{node}{network}"), "mtu 9000".into()];
                machines.sh(
                    "lan",
                    &format!("ip link add {port} {mtu} type veth peer name {network} {mtu} netns {other} && ip link set {port} master {network} up"),
                );
                machines.sh(node, &format!("ip addr add {addresses}.{number}/24 dev {network} && ip link set {network} up && ip link set lo up"));
            }
        }
        machines.sh("lan", "ip addr add 10.89.0.254/24 dev managed && ip link set dead down");
        let path = machines.certificates.0.display().to_string();
        let made = quincunx(&format!("manager init {path} --node s --tenant blue"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let manager = format!("manager --listen {MANAGER} --identity {path}/manager.pem --log-level off");
        machines.manager = Some(machines.start("lan", &manager));
        let switch = format!(
            "switch --name s --address 10.88.0.3 --manager {MANAGER} --identity {path}/node-s.pem --log-level off {switch}"
        );
        machines.switch = Some(machines.start("s", &switch));
        machines
    }

    fn namespace(&self, node: &str) -> String {
        let index = NODES.iter().position(|known| *known == node).unwrap_or(99);
        format!("{}{index}", self.prefix)
    }

    /// A command in a node's namespace.
    fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node), program]);
        command
    }

    /// Has a shell do something in a node's namespace, or in none.
    fn sh(&self, node: &str, text: &str) {
        let mut command = if node.is_empty() { Command::new("sh") } else { self.command(node, "sh") };
        let output = command.args(["-ec", text]).output().unwrap();
        assert!(output.status.success(), "{node}: {text}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn start(&self, node: &str, arguments: &str) -> Ending {
        let mut command = self.command(node, PROGRAM);
        Ending(command.args(arguments.split_whitespace()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// The command at a host, as one of two ranks.
    fn doctor(&self, rank: usize, environment: &[(&str, &str)]) -> Command {
        let identity = self.certificates.0.join("tenant-blue.pem");
        let mut command = self.command(NODES[rank], PROGRAM);
        command
            .args(["doctor", "--json"])
            .env("QUINCUNX_MANAGER", MANAGER)
            .env("QUINCUNX_IDENTITY", identity)
            .env("QUINCUNX_JOB", "blue/x.")
            .env("QUINCUNX_SWITCHES", "1")
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", "2")
            .envs(environment.iter().copied());
        command
    }

    /// Runs it at both hosts, at the first of them with more in its environment; what that one says.
    fn ask_in(&self, environment: &[(&str, &str)]) -> Output {
        let mut second = self.doctor(1, &[]);
        let _second = Ending(second.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        self.doctor(0, environment).output().unwrap()
    }

    fn ask(&self) -> Output {
        self.ask_in(&[])
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for node in NODES.iter().chain(&["lan"]) {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).status();
        }
    }
}

fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = || format!("{text} {}", String::from_utf8_lossy(&output.stderr));
    let object: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}", said()));
    object["rows"].as_array().unwrap_or_else(|| panic!("{}", said())).clone()
}

/// What is to be mended: where, and in what.
fn all_faults(output: &Output) -> Vec<String> {
    let faults = rows(output).into_iter().filter(|row| row["verdict"] == "mend");
    let mut faults: Vec<String> = faults
        .map(|row| format!("{}: {}", row["place"].as_str().unwrap(), row["check"].as_str().unwrap()))
        .collect();
    faults.sort();
    assert_eq!(output.status.code(), Some(i32::from(!faults.is_empty())), "{faults:?}");
    faults
}

/// The same without rates: this machine's cores have other work, too.
fn faults(output: &Output) -> Vec<String> {
    let mut faults = all_faults(output);
    faults.retain(|fault| !fault.ends_with(": rate"));
    faults
}

#[test]
fn nothing_is_wrong_with_machines_that_are_well_and_they_take_the_network_of_the_switch_by_themselves() {
    need!(namespaces());
    let machines = Machines::new("");
    let output = machines.ask();
    assert_eq!(faults(&output), [""; 0]);
    let address = rows(&output).into_iter().find(|row| row["check"] == "address").unwrap();
    assert_eq!(address["found"], "10.88.0.1 of data");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ways = object["paths"].as_array().unwrap();
    assert_eq!(ways.len(), 6, "{ways:?}");
    assert!(ways.iter().all(|way| way["carries_bytes"] == 4096 && way["sent"] == 1000 && way["lost"] == 0));
}

#[test]
fn each_fault_of_a_path_is_found_where_it_is() {
    need!(namespaces());
    let machines = Machines::new("");
    let cases = [
        (
            "lan",
            "ip link set bdata mtu 1500",
            "ip link set bdata mtu 9000",
            vec!["a -> b: MTU", "b -> a: MTU", "b -> s: MTU", "s -> b: MTU"],
        ),
        (
            "a",
            "ip route add unreachable 10.88.0.2",
            "ip route del unreachable 10.88.0.2",
            vec!["a -> b: reach"],
        ),
        (
            "a",
            "ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:99 dev data",
            "ip neigh del 10.88.0.2 dev data",
            vec!["a -> b: reach", "b: address"],
        ),
        (
            "lan",
            "ip link set bdata down",
            "ip link set bdata up",
            vec!["a -> b: reach", "b -> a: reach", "b -> s: reach", "s -> b: reach"],
        ),
    ];
    for (node, make, mend, expected) in cases {
        machines.sh(node, make);
        let found = faults(&machines.ask());
        machines.sh(node, mend);
        // Ranks are called by their job.
        let found: Vec<String> =
            found.iter().map(|it| it.replace("blue/x.0", "a").replace("blue/x.1", "b")).collect();
        assert_eq!(found, expected, "{make}");
    }
    assert_eq!(faults(&machines.ask()), [""; 0], "all is mended");
    machines.sh("b", "tc qdisc add dev data root tbf rate 10mbit burst 10kb limit 10mb");
    let found = all_faults(&machines.ask());
    for other in ["blue/x.0", "s"] {
        assert!(found.contains(&format!("blue/x.1 -> {other}: rate")), "{found:?}");
    }
}

#[test]
fn what_a_switch_loses_doubles_and_turns_round_is_found() {
    need!(namespaces());
    for (option, check) in [("--loss 1%", "loss"), ("--duplicate 1%", "doubled"), ("--reorder 1%", "order")] {
        let found = faults(&Machines::new(option).ask());
        let hosts = ["blue/x.0", "blue/x.1"];
        assert_eq!(found, hosts.map(|host| format!("{host} -> s: {check}")), "{option}");
    }
}

#[test]
fn a_node_that_is_stopped_and_the_wrong_network_are_found() {
    need!(namespaces());
    let machines = Machines::new("");
    let found = faults(&machines.ask_in(&[("QUINCUNX_INTERFACE", "dead")]));
    let of_a = |fault: &String| fault.contains("blue/x.0") && fault.ends_with(": reach");
    assert!(!found.is_empty() && found.iter().all(of_a), "{found:?}");
    let switch = machines.switch.as_ref().unwrap().0.id();
    machines.sh("", &format!("kill -STOP {switch}"));
    let found = faults(&machines.ask());
    machines.sh("", &format!("kill -CONT {switch}"));
    assert_eq!(found, ["s: node"]);
}

#[test]
fn a_job_begins_when_its_ranks_have_been_looked_at() {
    let output = Command::new(PROGRAM)
        .args(["run", "-n", "2", "--doctor", "--", "sh", "-c", "echo rank $RANK begins"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert_eq!(output.status.code(), Some(0), "{said}");
    for rank in 0..2 {
        assert!(at(&format!("well  rank{rank}")) < at(&format!("rank {rank} begins")), "{said}");
    }
    assert!(!said.contains("MEND"), "{said}");
}
