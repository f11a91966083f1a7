//! A switch with ports of its own and the agents of its hosts, a network namespace each: they find their cables, and whoever lies beside them
//! changes nothing that is not his.

use quincunx_control::{LinkReport, LinkState, NodeDescription, Role};
use quincunx_control_grpc::{
    Authority, ClientConfig, ControlClient, Credentials, ManagerServer, ServerConfig, Subject,
};
use quincunx_designs::CATALOG;
use quincunx_driver_net::{NodeOptions, TransportOptions};
use quincunx_needs::{namespaces, need, program};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_ports::PortsOptions;
use quincunx_runtime::{AgentCables, ProcessOptions, SwitchSnapshot, serve_switch};
use quincunx_sockets::{LinkSocket, MacAddress as SocketAddress};
use quincunx_units::ByteCount;
use quincunx_wire::lldp::{ETHERTYPE, LONGEST_FRAME, LldpFrame, LldpId, NEAREST_BRIDGE};
use quincunx_wire::{Framing, MacAddress};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SWITCH: NetnsNode = NetnsNode::Switch(0);
const MANAGER_PORT: u16 = 4790;
const LIMIT: Duration = Duration::from_secs(60);

/// A fabric with its authority. Processes of it run until the test is done.
struct Site {
    fabric: NetnsFabric,
    authority: Authority,
    stop: AtomicBool,
}

/// Has everything end that runs, however the test does.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Site {
    /// Runs a test beside switch `s0`, which says to have these neighbours, its manager, and agents of the first hosts.
    fn with(hosts: usize, agents: usize, links: Vec<LinkReport>, test: impl FnOnce(&Self, &ControlClient)) {
        let fabric = NetnsFabric::new(Layout::star(hosts, 1500, None).ports()).expect("namespaces");
        let site = Self { fabric, authority: Authority::new().expect("keys"), stop: AtomicBool::new(false) };
        let server = site.at(SWITCH, || {
            let config =
                ServerConfig { credentials: Some(site.issue(&Subject::Manager)), ..ServerConfig::default() };
            let listener = TcpListener::bind(("0.0.0.0", MANAGER_PORT)).expect("a port");
            ManagerServer::start(listener, CATALOG, config).expect("a manager")
        });
        thread::scope(|scope| {
            let _end = End(&site.stop);
            scope.spawn(|| site.at(SWITCH, || site.serve(hosts, links)));
            for host in 0..agents {
                let site = &site;
                scope.spawn(move || site.at(NetnsNode::Host(host), || site.watch(host)));
            }
            let client = site.at(SWITCH, || site.client("127.0.0.1", &Subject::Operator("alice".into())));
            test(&site, &client);
        });
        drop(server);
    }

    fn at<R: Send>(&self, node: NetnsNode, act: impl FnOnce() -> R + Send) -> R {
        let inside = || {
            self.fabric.enter(node).expect("the namespace is there");
            act()
        };
        thread::scope(|scope| scope.spawn(inside).join().expect("it ends well"))
    }

    fn issue(&self, subject: &Subject) -> Credentials {
        Credentials::parse(&self.authority.issue(subject, 1).expect("a certificate"), "the authority's")
            .expect("it is good")
    }

    fn config(&self, subject: &Subject) -> ClientConfig {
        ClientConfig { credentials: Some(self.issue(subject)), ..ClientConfig::default() }
    }

    fn client(&self, at: &str, subject: &Subject) -> ControlClient {
        let manager = SocketAddr::new(at.parse().expect("an address"), MANAGER_PORT);
        ControlClient::connect_later(manager, self.config(subject)).expect("a thread")
    }

    fn serve(&self, hosts: usize, links: Vec<LinkReport>) {
        let ports = PortsOptions::new((0..hosts).map(|host| format!("h{host}")).collect(), 24);
        let description = NodeDescription {
            role: Role::Switch,
            memory: ByteCount::new(1 << 20),
            links,
            ..NodeDescription::host("s0".into(), SWITCH.address(), 64)
        };
        let options = ProcessOptions {
            description,
            manager: SocketAddr::from(([127, 0, 0, 1], MANAGER_PORT)).into(),
            control: self.config(&Subject::Node("s0".into())),
            framing: Framing::RoceV2,
            transport: TransportOptions::Ports(ports),
            any_interface: false,
            offload: false,
            hardware: None,
            lose_sent: false,
            node: NodeOptions::default(),
            capture: None,
        };
        serve_switch(CATALOG, &options, &self.stop, &SwitchSnapshot::default()).expect("it ends in order");
    }

    fn watch(&self, host: usize) {
        let name = format!("h{host}");
        let manager = self.client("10.77.0.192", &Subject::Node(name.clone()));
        AgentCables::open(&name, &["eth0".into()]).expect("as root").run(&manager, &self.stop);
    }
}

/// All links, as `h0 eth0 - s0 h0: Found`.
fn links(client: &ControlClient) -> Vec<String> {
    let row = |link: quincunx_control::LinkRow| {
        let [a, b] = link.ends.map(|end| format!("{} {}", end.name, end.port).trim_end().to_owned());
        format!("{a} - {b}: {:?}", link.state)
    };
    client.list_links().unwrap_or_default().into_iter().map(row).collect()
}

fn eventually(client: &ControlClient, what: &str, is_so: impl Fn(&[String]) -> bool) {
    let start = Instant::now();
    loop {
        let found = links(client);
        if is_so(&found) {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{what}: {found:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_switch_and_its_hosts_find_their_cables() {
    need!(namespaces());
    Site::with(2, 2, Vec::new(), |_, client| {
        let both = ["h0 eth0 - s0 h0: Found", "h1 eth0 - s0 h1: Found"];
        eventually(client, "both links", |found| found == both);
    });
}

#[test]
fn a_cable_that_is_pulled_is_gone_and_one_that_is_back_is_found_again() {
    need!(namespaces());
    Site::with(2, 2, Vec::new(), |site, client| {
        let both = ["h0 eth0 - s0 h0: Found", "h1 eth0 - s0 h1: Found"];
        eventually(client, "both links", |found| found == both);
        let set = |how: &str| {
            let mut ip = site.fabric.command(SWITCH, "ip");
            assert!(ip.args(["link", "set", "h0", how]).status().expect("iproute2").success());
        };
        set("down");
        eventually(client, "one link", |found| found == &both[1..]);
        set("up");
        eventually(client, "both links again", |found| found == both);
    });
}

#[test]
fn what_a_switch_is_told_and_its_cable_denies_is_told_by_name_and_port() {
    need!(namespaces());
    let said =
        LinkReport { neighbour: "s7".into(), parallel_links: 1, rate: None, interface: Some("h0".into()) };
    Site::with(1, 1, vec![said], |_, client| {
        eventually(client, "a link and a denial", |found| {
            found == ["h0 eth0 - s0 h0: Found", "s0 h0 - s7: Denied"]
        });
        let told = client.list_links().expect("it is there");
        let denied = told.iter().find(|link| link.state == LinkState::Denied).expect("it is told");
        assert_eq!(denied.reason, "s0 says that its h0 leads to s7, and its cable leads to h0 eth0");
    });
}

/// A program that ends with the test.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn lldpd_of_debian_hears_a_switch_and_is_heard() {
    need!(namespaces());
    need!(program("lldpd", "lldpd"));
    Site::with(2, 1, Vec::new(), |site, client| {
        let socket = std::env::temp_dir().join(format!("quincunx-{}-lldpd", std::process::id()));
        let socket = socket.display().to_string();
        // A name of its own; what it would otherwise say is this machine's.
        let daemon = format!("hostname office && exec lldpd -d -u {socket} -I eth0 -S office");
        let mut command = site.fabric.command(NetnsNode::Host(1), "unshare");
        command.args(["--uts", "sh", "-c", &daemon]).stdout(Stdio::null()).stderr(Stdio::null());
        let _daemon = Stranger(command.spawn().expect("it starts"));
        eventually(client, "both at the manager", |found| {
            let is_office =
                |row: &String| row.starts_with("s0 h1 - office (mac ") && row.ends_with(": OneEnd");
            found.len() == 2 && found[0] == "h0 eth0 - s0 h0: Found" && is_office(&found[1])
        });
        let start = Instant::now();
        let expected = ["chassis.local=s0", "chassis.name=s0", "port.ifname=h1", "port.ttl=8"]
            .map(|line| format!("lldp.eth0.{line}"));
        loop {
            let mut asked = Command::new("lldpcli");
            asked.args(["-u", &socket, "-f", "keyvalue", "show", "neighbors"]).stderr(Stdio::null());
            let shown = String::from_utf8(asked.output().expect("it is installed").stdout).expect("text");
            if expected.iter().all(|line| shown.lines().any(|shown| shown == line)) {
                break;
            }
            assert!(start.elapsed() < LIMIT, "{shown}");
            thread::sleep(Duration::from_millis(100));
        }
        for left in [socket.clone(), format!("{socket}.lock")] {
            let _ = std::fs::remove_file(left);
        }
    });
}

#[test]
fn a_host_that_lies_and_floods_changes_nothing_but_its_own_port() {
    need!(namespaces());
    Site::with(3, 2, Vec::new(), |site, client| {
        let both = ["h0 eth0 - s0 h0: Found", "h1 eth0 - s0 h1: Found"];
        eventually(client, "both links", |found| found == both);
        let group = SocketAddress(NEAREST_BRIDGE.0);
        let open = || LinkSocket::open("eth0", ETHERTYPE, group).expect("as root");
        let socket = site.at(NetnsNode::Host(2), open);
        let say = |chassis: &str, port: &str, time_to_live| {
            let (chassis, port) = (LldpId::local(chassis), LldpId::interface(port));
            let frame = LldpFrame { chassis, port, time_to_live, system_name: b"\x1b[2Ja liar" };
            let mut bytes = [0; LONGEST_FRAME];
            let length = frame.emit(MacAddress([2; 6]), &mut bytes);
            // What the cable does not take is lost, which is as good.
            let _ = socket.send(&bytes[..length]);
        };
        let flood = || {
            for round in 0..500 {
                say("h0", "eth0", u16::MAX);
                say("h1", "eth0", 0);
                say("s0", "h0", 1);
                say(&format!("liar{round}"), "eth0", u16::MAX);
                let head = [&NEAREST_BRIDGE.0[..], &[2; 6], &[0x88, 0xcc]].concat();
                let _ = socket.send(&[&head[..], &[0xff; 40]].concat());
            }
        };
        flood();
        eventually(client, "lies that are told as what they are", |found| found.len() > 2);
        for _ in 0..10 {
            flood();
            let found = links(client);
            assert_eq!(found[..2], both);
            let is_lie = |row: &String| row.starts_with("s0 h2 - ") && row.ends_with(": OneEnd");
            assert!(found[2..].iter().all(is_lie) && found.len() <= 2 + 4, "{found:?}");
            thread::sleep(Duration::from_millis(50));
        }
    });
}
