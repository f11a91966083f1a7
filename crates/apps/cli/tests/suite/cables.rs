//! A fabric that finds itself: a switch and its hosts' agents tell who is at the other ends of their cables, a network namespace each, beside
//! somebody who lies.

use quincunx_needs::{namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_sockets::{LinkSocket, MacAddress as SocketAddress};
use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{ETHERTYPE, LONGEST_FRAME, LldpFrame, LldpId, NEAREST_BRIDGE};
use serde_json::Value;
use std::process::{Output, Stdio};

use crate::intruder::in_namespace;
use crate::processes::{Ending, Folder, eventually, quincunx, start_as};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");
const SWITCH: NetnsNode = NetnsNode::Switch(0);

/// A switch `s0` with ports `h0` and so on, a manager on it, and certificates for all.
struct Site {
    fabric: NetnsFabric,
    certificates: String,
    _folder: Folder,
    _processes: Vec<Ending>,
}

impl Site {
    fn new(name: &str, hosts: usize, neighbours: &str) -> Self {
        let folder = Folder::new(name);
        let certificates = folder.0.display().to_string();
        let names: Vec<String> = (0..hosts).map(|host| format!("--host h{host}@blue")).collect();
        let made = quincunx(&format!("manager init {certificates} --node s0 {}", names.join(" ")));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let fabric = NetnsFabric::new(Layout::star(hosts, 1500, None).ports()).expect("namespaces");
        let ports: Vec<String> = (0..hosts).map(|host| format!("--port h{host}")).collect();
        let at = |arguments: String| start_as(fabric.command(SWITCH, PROGRAM), &arguments, None);
        let processes = vec![
            at(format!(
                "manager --listen 0.0.0.0:4790 --identity {certificates}/manager.pem --log-level off"
            )),
            at(format!(
                "switch --name s0 --address 10.77.0.192/24 {} --identity {certificates}/node-s0.pem --log-level off {neighbours}",
                ports.join(" ")
            )),
        ];
        Self { fabric, certificates, _folder: folder, _processes: processes }
    }

    /// The agent of a host.
    fn agent(&self, host: usize) -> Ending {
        let arguments = format!(
            "agent --manager 10.77.0.192:4790 --identity {}/host-h{host}.pem --port eth0 --name h{host} --log-level off",
            self.certificates
        );
        start_as(self.fabric.command(NetnsNode::Host(host), PROGRAM), &arguments, None)
    }

    fn nodes(&self, more: &str) -> Output {
        let arguments = format!("nodes {more} --identity {}/operator-admin.pem", self.certificates);
        let mut command = self.fabric.command(SWITCH, PROGRAM);
        command.args(arguments.split_whitespace()).stderr(Stdio::null()).output().expect("it runs")
    }

    /// All links, as `h0 eth0 - s0 h0: found`; those of which the manager does not tell are none.
    fn links(&self) -> Vec<String> {
        let listed: Value = serde_json::from_slice(&self.nodes("--links --json").stdout).unwrap_or_default();
        let rows = listed["rows"].as_array().cloned().unwrap_or_default();
        let row = |row: &Value| {
            let [a, b] = [0, 1].map(|end: usize| &row["ends"][end]);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let end =
                |end: &Value| format!("{} {}", text(&end["name"]), text(&end["port"])).trim_end().to_owned();
            format!("{} - {}: {}", end(a), end(b), text(&row["state"]))
        };
        rows.iter().map(row).collect()
    }

    fn expect(&self, what: &str, expected: &[&str]) {
        let mut last = Vec::new();
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_secs(40) {
            last = self.links();
            if last == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("{what}: {last:?}");
    }
}

#[test]
fn a_switch_and_the_agents_of_its_hosts_find_their_links_which_nodes_shows() {
    need!(namespaces());
    let site = Site::new("cables-found", 2, "");
    let agents = [site.agent(0), site.agent(1)];
    site.expect("links", &["h0 eth0 - s0 h0: found", "h1 eth0 - s0 h1: found"]);
    let shown = String::from_utf8(site.nodes("--links").stdout).expect("a table");
    let lines: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        ["one end port other end port state why", "h0 eth0 s0 h0 found -", "h1 eth0 s0 h1 found -"]
    );
    // An agent that has ended is not heard any more; its cable may still be there.
    drop(agents);
    site.expect("silence", &["h0 eth0 - s0 h0: silent", "h1 eth0 - s0 h1: silent"]);
}

/// What a page shows under a command.
fn page(command: &str) -> &'static str {
    let text = include_str!("../../../../../docs/operators.md");
    let (_, shown) = text.split_once(&format!("\n$ {command}\n")).expect("the page has it");
    shown.split_once("```").expect("the block ends").0
}

#[test]
fn what_a_switch_is_told_and_its_cables_deny_is_shown_by_name_and_port_as_the_page_has_it() {
    need!(namespaces());
    // The names are the wrong way round.
    let site = Site::new("cables-denied", 2, "--neighbours h1@h0");
    let _agents = [site.agent(0), site.agent(1)];
    site.expect("links", &["h0 eth0 - s0 h0: found", "h1 eth0 - s0 h1: found", "s0 h0 - h1: denied"]);
    let shown = String::from_utf8(site.nodes("--links").stdout).expect("a table");
    assert_eq!(shown, page("quincunx nodes --links"));
}

#[test]
fn a_host_that_lies_and_floods_changes_nothing_but_its_own_port() {
    need!(namespaces());
    let site = Site::new("cables-liar", 3, "");
    let _agents = [site.agent(0), site.agent(1)];
    site.expect("links", &["h0 eth0 - s0 h0: found", "h1 eth0 - s0 h1: found"]);
    let namespace = site.fabric.namespace(NetnsNode::Host(2));
    let group = SocketAddress(NEAREST_BRIDGE.0);
    let socket = in_namespace(&namespace, || LinkSocket::open("eth0", ETHERTYPE, group)).expect("as root");
    let say = |chassis: &str, port: &str, time_to_live| {
        let (chassis, port) = (LldpId::local(chassis), LldpId::interface(port));
        let frame = LldpFrame { chassis, port, time_to_live, system_name: chassis_name() };
        let mut bytes = [0; LONGEST_FRAME];
        let length = frame.emit(MacAddress([2; 6]), &mut bytes);
        // What the cable does not take is lost, which is as good.
        let _ = socket.send(&bytes[..length]);
    };
    for round in 0..2000 {
        say("h0", "eth0", u16::MAX);
        say("h1", "eth0", 0);
        say("s0", "h0", 1);
        say(&format!("liar{round}"), "eth0", u16::MAX);
        let _ = socket.send(&[&NEAREST_BRIDGE.0[..], &[2; 6], &[0x88, 0xcc], &[0xff; 40]].concat());
    }
    let others = |links: &[String]| -> Vec<String> {
        links.iter().filter(|row| !row.starts_with("s0 h2 - ")).cloned().collect()
    };
    eventually("lies that are told as what they are", || site.links().len() > 2);
    for _ in 0..20 {
        let links = site.links();
        assert_eq!(others(&links), ["h0 eth0 - s0 h0: found", "h1 eth0 - s0 h1: found"]);
        assert!(
            links.iter().skip(2).all(|row| row.ends_with(": one end")) && links.len() <= 2 + 4,
            "{links:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

const fn chassis_name() -> &'static [u8] {
    b"\x1b[2Ja liar"
}

#[test]
fn an_agent_without_its_interface_is_refused_in_one_line() {
    need!(namespaces());
    let refused = quincunx("agent --listen 127.0.0.1:0 --manager 127.0.0.1:9 --port none7");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).expect("text");
    assert!(said.starts_with("error: expected an Ethernet interface") && said.lines().count() == 1, "{said}");
}
