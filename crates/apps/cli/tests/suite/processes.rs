//! The command as people and scripts use it: real processes on loopback addresses.

use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_fabric::Shape;
use quincunx_needs::{namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, run};
use quincunx_scenario::Scenario;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

pub(crate) fn quincunx(arguments: &str) -> Output {
    Command::new(PROGRAM).args(arguments.split_whitespace()).output().expect("the program is there")
}

pub(crate) fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(json["schema"], 1);
    assert_eq!(json["command"], "perf");
    json["rows"].as_array().expect("rows").clone()
}

#[test]
fn perf_prints_the_columns_of_the_contract_as_json() {
    let rows =
        rows(&quincunx("perf all_reduce --ranks 4 --design epic-3,ring --sizes 64KiB --iterations 3 --json"));
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["wrong"], 0);
        assert_eq!(row["size"], 65_536);
        for column in ["time_us", "algbw_GBps", "busbw_GBps", "netbw_GBps"] {
            assert!(row[column].as_f64().is_some_and(|value| value > 0.0), "{column} of {row}");
        }
    }
    // Twice the window of 60 packets of 4096 bytes and a 4-byte degree each: two pipes of one window (EPIC F.3).
    assert_eq!(rows[0]["switch_buffer_bytes"], 2 * 60 * (4096 + 4));
    assert_eq!(rows[1]["switch_buffer_bytes"], 0);
}

#[test]
fn processor_time_is_told_of_ranks_and_switches_apart() {
    for through in ["", "--in-place"] {
        let rows = rows(&quincunx(&format!(
            "perf all_reduce {through} --ranks 4 --design epic-3,ring --sizes 1MiB --iterations 5 --json"
        )));
        let times = |column: &str| [0, 1].map(|row: usize| rows[row][column].as_f64().unwrap());
        let [switch, forwarder] = times("switch_processor_us");
        assert!(times("rank_processor_us").iter().all(|time| *time > 100.0), "{rows:?}");
        assert!(switch > 100.0 && forwarder < switch, "a ring's frames pass by the switch: {rows:?}");
    }
}

#[test]
fn what_goes_to_experts_crosses_between_servers_once_over_a_relay_and_comes_back_as_it_must() {
    let batch = "--ranks 8 --experts 8 --top-k 8 --token 2KiB --sizes 32KiB --iterations 2 --json";
    // Every token is for all ranks: four on the other server.
    for (collective, factor) in [("dispatch", 4.0), ("combine", 1.0)] {
        let rows = rows(&quincunx(&format!("perf {collective} --design multiwrite,direct {batch}")));
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{rows:?}");
        let crossed = [0, 1].map(|row: usize| rows[row]["cross_server_bytes"].as_f64().unwrap());
        let found = crossed[1] / crossed[0];
        assert!((found / factor - 1.0).abs() < 0.15, "{collective}: {found}, not {factor}");
        // Sixteen tokens of each rank, or as many results for each of four ranks.
        let least = if collective == "dispatch" { 8.0 * 32768.0 } else { 4.0 * 8.0 * 32768.0 };
        assert!(crossed[0] >= least && crossed[0] < 1.3 * least, "{collective}: {crossed:?}");
        assert!(rows.iter().all(|row| row["peak_memory_bytes"].as_u64() > Some(1 << 20)), "{rows:?}");
    }
}

#[test]
fn a_profile_is_told_below_its_row() {
    let output = quincunx("perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 3 --profile");
    let said = String::from_utf8_lossy(&output.stdout);
    let line =
        said.lines().find(|line| line.contains("processor time of a repetition")).expect("such a line");
    assert!(line.contains("us a rank") && line.contains("us the switches"), "{line}");
    assert!(line.contains("% in system calls") && line.ends_with("% on the rest"), "{line}");
}

#[test]
fn processes_hold_themselves_to_links_of_a_rate() {
    let run = "--link paced --rate 50Mbit/s --ranks 4 --sizes 256KiB --iterations 3 --json";
    // The root of a direct Reduce gets from all at once.
    let collectives = [
        ("all_reduce", "epic-1,epic-2,epic-3,ring,switchml,atp"),
        ("all_reduce", "netreduce"),
        ("reduce", "direct"),
    ];
    for (collective, design) in collectives {
        for row in rows(&quincunx(&format!("perf {collective} --design {design} {run}"))) {
            let network = row["netbw_GBps"].as_f64().unwrap();
            assert_eq!(row["wrong"], 0, "{row}");
            // 6.25 MB/s, and no more than what the queues held before the clock was read.
            assert!(network > 0.0 && network < 0.0075, "{row}");
        }
    }
}

#[test]
fn every_primitive_is_right_in_every_mode_over_real_frames_that_are_lost_doubled_and_reordered() {
    let primitives = [
        "all_reduce --size 40KiB",
        "reduce --size 40KiB --root 2",
        "broadcast --size 40KiB --root 2",
        "barrier",
        "reduce_scatter --size 40KiB",
        "all_gather --size 40KiB",
    ];
    for collective in primitives {
        let output = quincunx(&format!(
            "perf {collective} --ranks 4 --tree tree-2x2 --design epic-1,epic-2,epic-3 \
             --payload 1024 --iterations 2 --loss 5% --reorder 5% --duplicate 2% --seed 3 --retry-timeout 2ms --json"
        ));
        let rows = rows(&output);
        assert_eq!(rows.len(), 3, "{collective}");
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{collective}: {rows:?}");
    }
}

/// Sums of numbers that 30 bits hold are exact, too.
#[test]
fn datagrams_are_right_over_real_frames_that_are_lost_doubled_and_reordered() {
    for collective in ["all_reduce --size 40KiB", "all_reduce --size 40KiB --dtype i32", "barrier"] {
        let output = quincunx(&format!(
            "perf {collective} --ranks 4 --design switchml,atp --iterations 2 --loss 5% --reorder 5% --duplicate 2% --seed 3 \
             --retry-timeout 2ms --json"
        ));
        let rows = rows(&output);
        assert_eq!(rows.len(), 2, "{collective}");
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{collective}: {rows:?}");
    }
}

#[test]
fn switches_in_several_modes_are_one_tree_over_real_frames() {
    for modes in ["III/I", "I/III", "II/I", "II/III"] {
        for collective in ["all_reduce", "reduce_scatter"] {
            let output = quincunx(&format!(
                "perf {collective} --ranks 4 --tree tree-2x2 --design epic-mixed --set group.modes={modes} --sizes 40KiB \
                 --payload 1024 --iterations 2 --loss 2% --reorder 2% --duplicate 2% --seed 3 --retry-timeout 2ms --json"
            ));
            let rows = rows(&output);
            assert!(rows.len() == 1 && rows[0]["wrong"] == 0, "{modes} {collective}: {rows:?}");
        }
    }
}

#[test]
fn frames_that_are_added_up_as_they_pass_go_through_the_switch_and_what_is_lost_is_repaired() {
    let output = quincunx(
        "perf all_reduce --ranks 4 --design netreduce,ring --sizes 40KiB --set group.mtu=1024 --iterations 3 \
         --loss 1% --reorder 1% --duplicate 1% --seed 3 --retry-timeout 5ms --json",
    );
    let rows = rows(&output);
    assert_eq!(rows.len(), 2, "each in the processes that understand its frames");
    assert!(rows.iter().all(|row| row["wrong"] == 0), "{rows:?}");
    // What it holds of four ranks, and sums: four messages of 128 frames of each.
    assert_eq!(rows[0]["switch_buffer_bytes"], 1024 * (4 + 1) * 4 * 128);
}

#[test]
fn a_captured_frame_without_ip_is_a_whole_ethernet_frame_of_its_type() {
    let folder = std::env::temp_dir().join(format!("quincunx-{}-v1", std::process::id()));
    let output = quincunx(&format!(
        "perf barrier --ranks 2 --design netreduce --iterations 1 --json --pcap {}",
        folder.display()
    ));
    rows(&output);
    for node in ["switch0", "rank0", "rank1"] {
        let bytes = std::fs::read(folder.join(format!("{node}.pcapng"))).expect("a capture of each node");
        // Locally administered addresses, RoCE v1, version 6.
        let is_frame =
            |at: &[u8]| at[..2] == [2, 0] && at[6..8] == [2, 0] && at[12..15] == [0x89, 0x15, 0x60];
        assert!(bytes.windows(15).any(is_frame), "{node}");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn a_bridge_forwards_ordinary_traffic_while_its_switch_adds_up_what_passes_it() {
    need!(namespaces());
    forwards_while_adding_up(true);
}

#[test]
fn a_bridge_forwards_ordinary_traffic_while_its_switch_adds_up_what_comes_in_datagrams() {
    need!(namespaces());
    forwards_while_adding_up(false);
}

fn forwards_while_adding_up(packet_sockets: bool) {
    let shape = Shape::for_ranks("star", 3).unwrap();
    let design = CATALOG.find("netreduce", FabricKind::Tree).unwrap();
    let links = RealLinks { mtu: 1500, is_limited: false };
    let scenario = Scenario::find_for(&links, "star-3", &[], CATALOG).unwrap();
    let setup = GroupsSetup::new(CATALOG, &[design], &scenario).unwrap();
    let case = Case {
        design: "netreduce".into(),
        collective: "all_reduce".into(),
        in_place: false,
        root: 0,
        bytes: 100_000,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 200,
        warm_up: 1,
        tokens: None,
    };
    let plan = Plan { setup, cases: vec![case] };
    let framing = design.about().framing;
    let arguments = ChildArguments { framing, packet_sockets, ..ChildArguments::default() };
    let kind = LinkKind::Netns { rate: None, mtu: 1500 };
    let mut fabric = Processes::start(&shape, kind, Path::new(PROGRAM), arguments, None).unwrap();
    let namespaces = fabric.namespaces().expect("it has namespaces");
    let at = |host: NetnsNode| SocketAddr::new(host.address(), 7777);
    let [sender, receiver] = [0, 2].map(NetnsNode::Host);
    let open = |node| {
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| {
                namespaces.enter(node).unwrap();
                UdpSocket::bind(at(node)).unwrap()
            });
            opened.join().unwrap()
        })
    };
    let (from, to) = (open(sender), open(receiver));
    to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let outputs = fabric.start_ranks(&serde_json::to_string(&plan).unwrap()).unwrap();
    // Each is sent once: nobody repairs ordinary datagrams.
    for number in 0..200_u8 {
        from.send_to(&[number], at(receiver)).unwrap();
        let mut bytes = [0; 2];
        let length = to.recv(&mut bytes).unwrap_or_else(|error| panic!("datagram {number}: {error}"));
        assert_eq!((length, bytes[0]), (1, number));
        std::thread::sleep(Duration::from_millis(1));
    }
    let failed = fabric.wait_for_ranks();
    assert!(failed.is_empty(), "{failed:?}");
    for output in outputs {
        let measured: Value = serde_json::from_reader(output).unwrap();
        assert_eq!(measured["wrong"], 0);
        assert_eq!(measured["compared"], 50_000, "twice 25,000 elements");
    }
}

#[test]
fn a_host_whose_frames_would_pass_its_switch_by_does_not_start() {
    let manager = "--manager 127.0.0.1:1";
    for (arguments, error) in [
        (
            "--framing roce-v1",
            "expected a link for the roce-v1 frames of a host, found a UDP socket that sends to their receivers",
        ),
        (
            "--via 127.0.0.9",
            "expected a link for the roce-v2 frames of a host, found a UDP socket that sends all to one switch",
        ),
    ] {
        let (_, plan) = plan_of("star", 2, "netreduce", "all_reduce");
        let mut rank = Command::new(PROGRAM)
            .args(format!("rank --name a --address 127.0.0.7 {manager} --members a {arguments}").split(' '))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let json = serde_json::to_string(&plan).unwrap();
        writeln!(rank.stdin.take().expect("asked for above"), "{json}").unwrap();
        let output = rank.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(error) && said.lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_rank_whose_queue_pairs_are_to_be_a_devices_says_what_is_in_the_way() {
    for (arguments, errors) in [
        // Nobody has an RDMA device at a loopback address; libibverbs may be missing, too.
        (
            "--transport verbs",
            ["expected an RDMA device with RoCEv2 at 127.0.0.7, ", "expected libibverbs.so.1, "],
        ),
        ("--transport verbs --loss 1%", ["expected no faults and no --pcap with --transport verbs, "; 2]),
        (
            "--transport verbs --framing roce-v1",
            ["expected --transport verbs of a node whose frames are roce-v2, "; 2],
        ),
    ] {
        let (_, plan) = plan_of("star", 2, "epic-1", "all_reduce");
        let line = format!("rank --name a --address 127.0.0.7 --manager 127.0.0.1:1 --members a {arguments}");
        let mut rank = Command::new(PROGRAM)
            .args(line.split(' '))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is there");
        let json = serde_json::to_string(&plan).unwrap();
        writeln!(rank.stdin.take().expect("asked for above"), "{json}").unwrap();
        let output = rank.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(errors.iter().any(|error| said.contains(error)) && said.lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_switch_whose_queue_pairs_are_to_be_a_devices_says_what_is_in_the_way() {
    for (arguments, errors) in [
        (
            "--address 127.0.0.7",
            ["expected an RDMA device with RoCEv2 at 127.0.0.7, ", "expected libibverbs.so.1, "],
        ),
        ("--address 127.0.0.7 --loss 1%", ["expected no faults and no --pcap with --transport verbs, "; 2]),
        (
            "--address 127.0.0.7,127.0.0.8",
            ["expected one --address beside queue pairs of an RDMA device, found several"; 2],
        ),
    ] {
        let line =
            format!("switch --name s --manager 127.0.0.1:1 --transport verbs --log-level off {arguments}");
        let output = Command::new(PROGRAM).args(line.split(' ')).output().expect("the program is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(errors.iter().any(|error| said.contains(error)) && said.lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

/// A process that ends when this does.
pub(crate) struct Ending(pub(crate) Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process of the command; `plan` is what it reads.
pub(crate) fn start(arguments: &str, plan: Option<&str>) -> Ending {
    start_as(Command::new(PROGRAM), arguments, plan)
}

pub(crate) fn start_as(mut command: Command, arguments: &str, plan: Option<&str>) -> Ending {
    command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program is there");
    if let (Some(plan), Some(mut stdin)) = (plan, child.stdin.take()) {
        writeln!(stdin, "{plan}").expect("it reads its plan");
    }
    Ending(child)
}

/// Where a manager listens, as soon as it does.
pub(crate) fn listens_at(manager: &mut Ending) -> String {
    let mut line = String::new();
    let stdout = manager.0.stdout.take().expect("asked for above");
    BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
    line.trim().rsplit(' ').next().expect("an address").to_owned()
}

#[test]
fn hosts_whose_frames_the_bridge_would_hand_on_without_the_switch_get_no_group() {
    need!(namespaces());
    let fabric = NetnsFabric::new(Layout::star(2, 1500, None).bridged()).unwrap();
    let hub = NetnsNode::Switch(0);
    let start =
        |node: NetnsNode, arguments: &str, plan| start_as(fabric.command(node, PROGRAM), arguments, plan);
    let certificates = Folder::new("bridge");
    let made = quincunx(&format!("manager init {} --node s --host a@t,b@t", certificates.0.display()));
    assert!(made.status.success(), "{made:?}");
    let identity = |file: &str| format!("--identity {}/{file}.pem", certificates.0.display());
    let listen = format!("manager --listen {}:0 {}", hub.address(), identity("manager"));
    let mut manager = start(hub, &listen, None);
    let manager_at = listens_at(&mut manager);
    let node = |role: &str, name: &str, place: NetnsNode| {
        let identity = identity(&format!("{}-{name}", if role == "switch" { "node" } else { "host" }));
        format!(
            "{role} --name {name} --address {} --manager {manager_at} --framing roce-v1 {identity}",
            place.address()
        )
    };
    // It leaves frames of RoCE v1 to the bridge.
    let _switch = start(hub, &node("switch", "s", hub), None);
    let (_, plan) = plan_of("star", 2, "netreduce", "all_reduce");
    let plan = serde_json::to_string(&plan).unwrap();
    let [mut leader, _other] = [("a", NetnsNode::Host(0)), ("b", NetnsNode::Host(1))].map(|(name, place)| {
        let arguments = format!("{} --members a,b --transport packet", node("rank", name, place));
        start(place, &arguments, Some(&plan))
    });
    let mut said = String::new();
    leader.0.stderr.take().expect("asked for above").read_to_string(&mut said).expect("text");
    let why = "found Ethernet frames of their own type at \"a\" and UDP datagrams at \"s\"; start both with the same --transport";
    assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    assert_eq!(leader.0.wait().expect("it ends").code(), Some(2));
}

#[test]
fn a_switch_tells_the_manager_when_a_link_of_its_goes_down_and_comes_back() {
    need!(namespaces());
    let fabric = NetnsFabric::new(Layout::star(2, 1500, None)).unwrap();
    let hub = NetnsNode::Switch(0);
    let start = |arguments: &str| start_as(fabric.command(hub, PROGRAM), arguments, None);
    let shell = |command: &str| {
        let output = fabric.command(hub, "sh").args(["-c", command]).output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    shell("ip link add cable type veth peer name far && ip link set far up && ip link set cable up");
    let mut manager = start("manager --listen 127.0.0.1:0");
    let at = listens_at(&mut manager);
    let _switch = start(&format!(
        "switch --name s --address {} --manager {at} --neighbours a@cable,b@lo,c",
        hub.address()
    ));
    let links = || {
        let nodes = shell(&format!("{PROGRAM} nodes --manager {at} --json"));
        let nodes: Value = serde_json::from_str(&nodes).unwrap();
        nodes["rows"][0]["links"].as_array().cloned().unwrap_or_default()
    };
    let down = || {
        let is_down = |link: &&Value| link["is_up"] == false;
        links()
            .iter()
            .filter(is_down)
            .map(|link| link["neighbour"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    eventually("a switch with three links", || links().len() == 3);
    assert!(down().is_empty());
    shell("ip link set cable down");
    eventually("a link that is down", || down() == ["a"]);
    shell("ip link set cable up");
    eventually("a link that is up again", || down().is_empty());
}

#[test]
fn a_rank_of_another_framing_refuses_the_group_and_all_hear_why() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = |last: u8| std::net::IpAddr::from([127, high | 128, low, last]);
    let mut manager = start(&format!("manager --listen {}:0", address(9)), None);
    let manager_at = listens_at(&mut manager);
    let node = |role: &str, name: &str, last: u8| {
        format!("{role} --name {name} --address {} --manager {manager_at}", address(last))
    };
    let _switch = start(&format!("{} --framing roce-v1", node("switch", "s", 10)), None);
    let (_, plan) = plan_of("star", 2, "netreduce", "all_reduce");
    let plan = serde_json::to_string(&plan).unwrap();
    let right = format!("{} --members a,b --framing roce-v1 --via {}", node("rank", "a", 1), address(10));
    let wrong = format!("{} --members a,b", node("rank", "b", 2));
    for mut rank in [right, wrong].map(|arguments| start(&arguments, Some(&plan))) {
        let mut said = String::new();
        let mut stderr = rank.0.stderr.take().expect("asked for above");
        stderr.read_to_string(&mut said).expect("text");
        assert_eq!(rank.0.wait().expect("it ends").code(), Some(2));
        let why = "found netreduce, whose frames are roce-v1; start the node with --framing roce-v1";
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}

/// A folder that goes when this does.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("quincunx-{}-{name}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A scenario's file that goes when this does.
pub(crate) struct File(pub(crate) std::path::PathBuf);

impl File {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quincunx-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("the folder of temporary files is writable");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn one_file_is_run_simulated_and_explored() {
    let text = "kind = \"packet\"\ntopology = \"tree-2x2\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n\
                group = { mtu = \"1KiB\", message = 2, window = 2, retry_timeout = \"5ms\" }\n";
    let file = File::new("one", text);
    let file = file.0.display();
    let real = rows(&quincunx(&format!(
        "perf all_reduce --fabric {file} --design epic-2,ring --sizes 8KiB --iterations 2 --json \
         --set loss.probability=3% --set loss.links=2 --set measure.limit=20s"
    )));
    assert_eq!(real.len(), 2);
    assert!(real.iter().all(|row| row["wrong"] == 0), "{real:?}");
    // Twice the window of four packets of 1024 bytes and a 4-byte degree each, as the file has them.
    assert_eq!(real[0]["switch_buffer_bytes"], 2 * 4 * (1024 + 4));
    for command in [
        format!("sim all_reduce --fabric {file} --design epic-2,ring --size 8KiB"),
        format!(
            "check epic-2 all_reduce --fabric {file} --set group.mtu=4B --set group.window=1 --packets 2 --losses 0"
        ),
    ] {
        let output = quincunx(&command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_real_hosts_and_switches_cannot_honour_is_refused_by_name() {
    let congestion = File::new(
        "congestion",
        "kind = \"packet\"\ntopology = \"star-2\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n\
         congestion = { queue = \"64KiB\" }\n",
    );
    for (arguments, found) in [
        (format!("--fabric {}", congestion.0.display()), "found `congestion`"),
        ("--fabric epic-star8".into(), "found `measure.stepwise`"),
        ("--ranks 2 --set link.latency=2us".into(), "found `link.latency`"),
        ("--ranks 2 --set link.rate=1Gbit/s".into(), "found `link.rate`"),
        ("--ranks 2 --set relay.relays=full".into(), "found `relay.relays`"),
        ("--ranks 2 --set placement=spread".into(), "found `placement`"),
        ("--ranks 8 --tree dragonfly-2x2x2".into(), "which has links that cost more than others"),
        ("--fabric leaf-spine-2x2x2x2".into(), "which has several links between two switches"),
        ("--fabric scin-dgx8".into(), "found scin-dgx8"),
        ("--fabric star-2 --loss 1% --set loss.probability=1%".into(), "found both"),
    ] {
        let output = quincunx(&format!("perf all_reduce --design epic-3 {arguments}"));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {error}");
        assert!(error.contains(found) && error.lines().count() == 1, "{arguments}: {error}");
    }
}

#[test]
fn a_mesh_gathers_in_its_domains_and_says_how_it_splits_the_data() {
    for relays in ["paired", "full"] {
        let rows = rows(&quincunx(&format!(
            "perf all_gather --tree mesh-2x4 --design multiwrite,unicast-multipath,direct --relays {relays} --sizes 1MiB \
             --iterations 2 --json"
        )));
        assert_eq!(rows.len(), 3);
        for row in &rows {
            // As many bytes as a domain has, over as many ranks.
            assert_eq!((&row["wrong"], &row["size"]), (&0.into(), &(1 << 20).into()));
            let [algorithm, bus] =
                ["algbw_GBps", "busbw_GBps"].map(|name| row[name].as_f64().expect("a rate"));
            assert!((bus / algorithm - 0.75).abs() < 1e-6, "{row}");
            let relayed = row["split"]["relayed"].as_f64().expect("a share");
            assert_eq!(relayed == 0.0, row["design"] == "direct", "{row}");
        }
    }
}

#[test]
fn bad_arguments_end_with_status_2_and_one_line_that_says_what_to_do() {
    for (arguments, says) in [
        ("perf all_reduce --transport packet", "expected --link netns"),
        ("perf all_reduce --ranks 8 --tree tree-3-2", "choose another tree or number of ranks"),
        ("perf reduce --ranks 2 --root 2", "name a rank with --root"),
        ("perf all_reduce --rate 500Mbit/s", "--link paced or netns"),
        ("perf all_reduce --sizes 16MiB:4KiB", "such as 1MiB"),
        ("perf all_reduce --design epic-4", "expected a design"),
        ("perf all_gather --design unicast-multipath", "found unicast-multipath; change one of the two"),
        (
            "perf all_gather --design ring --set group.colour=1",
            "or of a design here: group.acknowledge_every,",
        ),
        ("perf all_gather --design epic-2 --set group.run_ahead=true", "`group.run_ahead`"),
        ("perf all_gather --set group.window=0", "`group.window`"),
        (
            "perf all_gather --tree mesh-2x4 --design ring",
            "expected a design that runs on mesh-2x4 (multiwrite, unicast-multipath, direct, writes), found ring",
        ),
        (
            "perf all_reduce --tree mesh-2x4 --design multiwrite",
            "expected a collective that multiwrite offers on mesh-2x4 (all_gather, barrier)",
        ),
        ("perf dispatch --design ring", "(multiwrite, direct), found ring"),
        ("perf dispatch --tree mesh-2x4", "expected a tree of switches with dispatch"),
        ("perf dispatch --in-place", "found it with dispatch"),
        ("perf combine --ranks 3", "expected --experts in equal parts on 3 ranks with combine, found 16"),
        ("perf combine --experts 8 --top-k 9", "expected --top-k from 1 to 8"),
        ("perf dispatch --server 9", "expected --server from 1 to 8 ranks"),
        ("perf dispatch --token 6", "expected --token of whole elements, 4 bytes each as f32"),
        ("perf combine --op avg", "found avg"),
        ("perf all_gather --tree mesh-2x3 --design multiwrite", "choose another mesh or number of ranks"),
        ("perf all_gather --tree mesh-1x8 --design multiwrite", "two domains at least"),
        (
            "perf all_gather --tree mesh-2x4 --design direct --relays some",
            "expected `paired` or `full`, found `some` in `relay.relays`",
        ),
    ] {
        let output = quincunx(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let error = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(error.contains(says), "{arguments}: {error}");
    }
}

#[test]
fn a_capture_holds_the_frames_of_each_node() {
    let folder = std::env::temp_dir().join(format!("quincunx-capture-{}", std::process::id()));
    let arguments =
        format!("perf barrier --ranks 2 --design epic-3 --iterations 1 --json --pcap {}", folder.display());
    rows(&quincunx(&arguments));
    for node in ["switch0", "rank0", "rank1"] {
        let bytes = std::fs::read(folder.join(format!("{node}.pcapng"))).expect("a capture of each node");
        // A section header block in this machine's byte order, and more than headers.
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "{node}");
        assert!(bytes.len() > 500, "{node}: {} bytes", bytes.len());
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

/// A collective that would take minutes.
fn plan_of(tree: &str, ranks: u16, design: &str, collective: &str) -> (&'static dyn AnyDesign, Plan) {
    let shape = Shape::for_ranks(tree, ranks).unwrap();
    let case = Case {
        design: design.into(),
        collective: collective.into(),
        in_place: false,
        root: 0,
        bytes: 1 << 20,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 100_000,
        warm_up: 1,
        tokens: None,
    };
    let fabric_kind = if let Shape::Mesh(_) = shape { FabricKind::Mesh } else { FabricKind::Tree };
    let design = CATALOG.find(design, fabric_kind).unwrap();
    let scenario = Scenario::find_for(&RealLinks::LOOPBACK, &shape.to_string(), &[], CATALOG).unwrap();
    let setup = GroupsSetup::new(CATALOG, &[design], &scenario).unwrap();
    (design, Plan { setup, cases: vec![case] })
}

/// A fabric whose ranks are in the middle of one, and whose manager ends groups that lose a switch.
fn busy_fabric(tree: &str, ranks: u16, design: &str, collective: &str) -> (Processes, Plan) {
    let (design, plan) = plan_of(tree, ranks, design, collective);
    let shape = Shape::for_ranks(tree, ranks).unwrap();
    let manager = vec!["--no-remake".to_owned()];
    let arguments = ChildArguments { framing: design.about().framing, manager, ..ChildArguments::default() };
    let fabric = Processes::start(&shape, LinkKind::Udp, Path::new(PROGRAM), arguments, None).unwrap();
    (fabric, plan)
}

/// Kills `victim` while the ranks are busy; all others must end by themselves, soon, and with an error.
fn everybody_hears_of(victim: &str) {
    everybody_hears(victim, busy_fabric("tree-2x2", 4, "epic-3", "all_reduce"));
}

fn everybody_hears(victim: &str, (mut fabric, plan): (Processes, Plan)) {
    let outputs = fabric.start_ranks(&serde_json::to_string(&plan).unwrap()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(fabric.kill(victim));
    let killed = Instant::now();
    let mut failed = fabric.wait_for_ranks();
    failed.push(victim.to_string());
    for rank in fabric.members() {
        assert!(failed.contains(&rank), "{rank} ended as if nothing had happened");
    }
    // Two seconds of silence are the manager's and the senders' limit, and ten that of a group that is still waited for, as
    // on a busy machine where the ranks have only begun; the rest is for that machine.
    assert!(killed.elapsed() < Duration::from_secs(25), "it took {:?}", killed.elapsed());
    drop(outputs);
}

#[test]
fn when_a_rank_dies_the_others_end_with_an_error_and_do_not_hang() {
    everybody_hears_of("rank3");
}

#[test]
fn when_a_relay_dies_those_that_it_relays_for_end_with_an_error_and_so_do_all() {
    everybody_hears("rank4", busy_fabric("mesh-2x4", 8, "multiwrite", "all_gather"));
}

#[test]
fn when_a_switch_dies_all_ranks_end_with_an_error_and_do_not_hang() {
    everybody_hears_of("switch1");
}

#[test]
fn when_the_switch_dies_that_adds_up_what_passes_all_ranks_end_with_an_error_and_do_not_hang() {
    everybody_hears("switch0", busy_fabric("star", 4, "netreduce", "all_reduce"));
}

#[test]
fn when_the_manager_dies_all_ranks_end_with_an_error_and_do_not_hang() {
    everybody_hears_of("manager");
}

/// State and parent of a process as the system tells; `None`: there is no such process.
fn state_and_parent(process: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which is in parentheses and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.into(), fields.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("a system with /proc");
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|&process| state_and_parent(process).is_some_and(|(_, of)| of == parent)).collect()
}

/// Whether it runs: one that has ended and that nobody has waited for does not.
fn is_running(process: u32) -> bool {
    state_and_parent(process).is_some_and(|(state, _)| state != "Z")
}

/// Waits until something holds, for as long as a busy machine may take.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not in 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_perf_leaves_no_process_behind() {
    let mut perf = Command::new(PROGRAM)
        .args("perf all_reduce --ranks 2 --sizes 1MiB --iterations 100000".split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is there");
    // A manager, a switch and two ranks.
    eventually("four processes", || children_of(perf.id()).len() == 4);
    let children = children_of(perf.id());
    perf.kill().expect("it runs");
    perf.wait().expect("it is ours");
    eventually("an end of all", || !children.iter().any(|&child| is_running(child)));
}

#[test]
fn every_mode_and_the_ring_are_right_over_packet_sockets() {
    need!(namespaces());
    let rows = rows(&quincunx(
        "perf all_reduce --link netns --transport packet --ranks 3 --design epic-1,epic-2,epic-3,ring --sizes 64KiB \
         --iterations 3 --json",
    ));
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row["wrong"] == 0), "{rows:?}");
}

#[test]
fn frames_that_are_added_up_as_they_pass_are_right_over_limited_links_in_datagrams_and_alone() {
    need!(namespaces());
    for transport in ["udp", "packet"] {
        let rows = rows(&quincunx(&format!(
            "perf all_reduce --link netns --rate 500Mbit/s --mtu 1500 --transport {transport} --ranks 3 --design netreduce,ring \
             --set group.mtu=1024 --sizes 256KiB --iterations 2 --json",
        )));
        assert_eq!(rows.len(), 2, "{transport}");
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{transport}: {rows:?}");
    }
}

/// A tree of the manager's and a ring on two spines, two leaves and four hosts.
fn over_several_ways(links: &str) {
    let run =
        "perf all_reduce --fabric leaf-spine-2x2x2 --design epic-3,ring --size 64KiB --iterations 3 --json";
    let rows = rows(&quincunx(&format!("{run} {links}")));
    let designs: Vec<_> = rows.iter().map(|row| (row["design"].as_str(), row["wrong"].as_u64())).collect();
    assert_eq!(designs, [(Some("epic-3"), Some(0)), (Some("ring"), Some(0))], "{rows:?}");
    assert!(rows[0]["switch_buffer_bytes"].as_u64() > Some(0), "no group has fallen back");
}

#[test]
fn a_group_has_a_tree_where_switches_have_several_ways() {
    over_several_ways("");
}

#[test]
fn a_group_has_a_tree_where_switches_have_several_links_of_their_own() {
    need!(namespaces());
    over_several_ways("--link netns --rate 200Mbit/s");
}

#[test]
fn a_killed_perf_leaves_neither_namespaces_nor_files_behind() {
    need!(namespaces());
    let folder = std::env::temp_dir().join(format!("quincunx-killed-perf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    let mut perf = Command::new(PROGRAM)
        .args("perf all_reduce --link netns --ranks 2 --sizes 1MiB --iterations 100000".split_whitespace())
        .env("TMPDIR", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program is there");
    let mark = format!("qx{}x", perf.id());
    let namespaces = || {
        let listed = Command::new("ip").args(["netns", "list"]).output().expect("ip runs");
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        names.lines().filter(|name| name.starts_with(&mark)).count()
    };
    eventually("a switch and two hosts", || namespaces() == 3);
    let issued = |entry: std::fs::DirEntry| entry.path().join("manager.pem").exists();
    eventually("certificates", || std::fs::read_dir(&folder).expect("it is ours").flatten().any(issued));
    perf.kill().expect("it runs");
    perf.wait().expect("it is ours");
    eventually("no namespace", || namespaces() == 0);
    // It goes when nothing is in it: the keys of certificates were.
    eventually("no file", || std::fs::remove_dir(&folder).is_ok());
}

#[test]
fn two_fabrics_of_one_process_do_not_meet() {
    let [mut first, mut second] = [(); 2].map(|()| busy_fabric("star-2", 2, "epic-3", "all_reduce"));
    for (fabric, plan) in [&mut first, &mut second] {
        plan.cases[0].iterations = 2;
        assert_eq!(run(fabric, plan, |_| ()).unwrap(), 0);
    }
}

#[test]
fn a_plan_runs_on_a_fabric_as_a_library_call() {
    let (mut fabric, mut plan) = busy_fabric("star-2", 2, "epic-3", "all_reduce");
    plan.cases[0].iterations = 2;
    let mut rows = Vec::new();
    let wrong = run(&mut fabric, &plan, |row| rows.push(row)).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].wrong, wrong), (0, 0));
}
