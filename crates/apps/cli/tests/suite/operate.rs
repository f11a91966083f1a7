//! Commands of operators: against a manager and a switch that run as processes, with hosts that answer as a rank would.

use quincunx_collective::GroupId;
use quincunx_control::{Instruction, NodeDescription, Progress, Report};
use quincunx_control_grpc::{CallRecord, ClientConfig, ControlClient, ManagerAddress, Ran};
use quincunx_units::Duration;
use serde_json::Value;
use std::io::Read;
use std::net::IpAddr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;

use crate::processes::{Ending, eventually, listens_at, quincunx, rows, start};

/// What a rank tells that has run collectives in the network, and others among the hosts.
fn record() -> CallRecord {
    let ran = |collectives, mib: u64, millis| Ran {
        collectives,
        bytes: mib << 20,
        time: Duration::from_millis(millis),
    };
    CallRecord { calls: Vec::new(), in_network: ran(120, 480, 3107), among_hosts: ran(31, 124, 1904) }
}

/// A manager, a switch `leaf` with so much memory, and hosts `a` to `d` that install what they are told to.
pub(crate) struct ManagedFabric {
    pub(crate) manager: String,
    pub(crate) block: [u8; 3],
    stop: Arc<AtomicBool>,
    hosts: Vec<JoinHandle<()>>,
    processes: Vec<Ending>,
}

impl ManagedFabric {
    pub(crate) fn start(memory: &str) -> Self {
        // A block of addresses for each fabric of each process.
        static SERIAL: AtomicU8 = AtomicU8::new(0);
        let [.., high, low] = std::process::id().to_be_bytes();
        let block =
            [127, high ^ 0x40, low.wrapping_add(SERIAL.fetch_add(1, Ordering::Relaxed).wrapping_mul(37))];
        let mut manager = start("manager --listen 127.0.0.1:0 --log-format json", None);
        let at = listens_at(&mut manager);
        let [a, b, c] = block;
        let switch = start(
            &format!(
                "switch --name leaf --address {a}.{b}.{c}.250 --memory {memory} --manager {at} --log-format json"
            ),
            None,
        );
        let stop = Arc::new(AtomicBool::new(false));
        let address: ManagerAddress = at.parse().unwrap();
        let host = |(name, last): (&str, u8)| {
            let node = NodeDescription::host(name.into(), IpAddr::from([a, b, c, last]), 64);
            let client = ControlClient::connect(address.clone(), ClientConfig::default()).unwrap();
            let attachment = client.attach(&node).unwrap();
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let next = attachment.instructions().recv_timeout(std::time::Duration::from_millis(5));
                    match next {
                        Ok(Ok(Instruction::Install(context))) => {
                            attachment.report(context.group, Report::Installed);
                        }
                        Ok(Ok(Instruction::Remove(group) | Instruction::Failed { group, .. })) => {
                            attachment.report(group, Report::Removed);
                        }
                        Ok(Ok(Instruction::Suspend { group, .. })) => {
                            let progress = Progress { complete: 0, repeats_from: 1 };
                            attachment.report(group, Report::Suspended(progress));
                        }
                        Ok(Ok(Instruction::TellCalls(group))) => {
                            attachment.report(group, Report::called_nothing());
                        }
                        Ok(Ok(Instruction::TellTimes(group))) => {
                            attachment.reporter().tell_times(group, &record())
                        }
                        Ok(Ok(Instruction::Ready(_) | Instruction::Resume { .. }) | Err(_)) | Err(_) => {}
                        Ok(Ok(
                            Instruction::ProbePaths(_)
                            | Instruction::TellPaths(_)
                            | Instruction::MoveMemory(_),
                        )) => {}
                    }
                }
            })
        };
        let hosts = [("a", 101), ("b", 102), ("c", 103), ("d", 104)].map(host).into();
        let fabric = Self { manager: at, block, stop, hosts, processes: vec![manager, switch] };
        eventually("a switch", || fabric.json("nodes")["nodes"].as_array().unwrap().len() == 5);
        fabric
    }

    /// What a command says of this fabric.
    pub(crate) fn ask(&self, command: &str) -> Output {
        quincunx(&format!("{command} --manager {}", self.manager))
    }

    pub(crate) fn text(&self, command: &str) -> String {
        let output = self.ask(command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, command: &str) -> Value {
        let json: Value = serde_json::from_str(&self.text(&format!("{command} --json"))).unwrap();
        assert_eq!(json["schema"], 1);
        json
    }

    /// What a command that fails says.
    pub(crate) fn error(&self, command: &str) -> String {
        let output = self.ask(command);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {error}");
        assert!(error.starts_with("error: expected ") && error.lines().count() == 1, "{command}: {error}");
        error
    }
}

/// What a process has logged, once it is ended.
fn log_of(mut process: Ending) -> Vec<Value> {
    let mut stderr = process.0.stderr.take().expect("asked for above");
    drop(process);
    let mut text = String::new();
    stderr.read_to_string(&mut text).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

impl Drop for ManagedFabric {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for host in self.hosts.drain(..) {
            let _ = host.join();
        }
        self.processes.clear();
    }
}

const MAKE: &str = "group create train --members a,b,c,d --design epic-3 --set group.mtu=1KiB --set group.message=2 --set group.window=4";

#[test]
fn a_group_is_made_listed_shown_and_destroyed_by_its_name() {
    let fabric = ManagedFabric::start("1MiB");
    let made = fabric.text(MAKE);
    for line in ["group 1 \"train\"", "state    ready", "runs     epic-3", "members  a b c d"] {
        assert!(made.lines().any(|found| found == line), "{line}: {made}");
    }
    let ran = "\nran              collectives   bytes  time(s)  Gbit/s\n\
         in the network           120  480MiB    3.107   1.296\n\
         among the hosts           31  124MiB    1.904   0.546\n";
    assert_eq!(fabric.text("group show train"), made.clone() + ran);
    assert_eq!(fabric.text("group show 1"), made.clone() + ran);
    assert_eq!(fabric.json("group show 1")["group"]["ran"]["in_network"]["collectives"], 120);
    let listed = fabric.json("group list");
    let group = &listed["groups"][0];
    assert_eq!(
        (&group["name"], &group["runs"], &group["state"]),
        (&"train".into(), &"epic-3".into(), &"ready".into())
    );
    let nodes = fabric.json("nodes");
    let leaf = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "leaf").unwrap();
    assert_eq!((&leaf["uses"][0]["name"], &leaf["endpoints_held"]), (&"train".into(), &4.into()));
    assert_eq!(leaf["memory_held_bytes"], group["switches"][0]["memory_bytes"]);
    assert_eq!(fabric.text("group destroy train"), "group 1 \"train\" is destroyed\n");
    assert_eq!(fabric.json("group list")["groups"], Value::Array(Vec::new()));
    assert!(fabric.text("group list").starts_with("no group is there"));
    assert!(fabric.error("group show train").contains("found no group \"train\""));
}

#[test]
fn tables_have_a_header_and_columns_that_stand_below_each_other() {
    let fabric = ManagedFabric::start("1MiB");
    fabric.text(MAKE);
    for (command, header, cells) in [
        ("nodes", "node", vec!["leaf", "switch", "train"]),
        ("group list", "group", vec!["train", "ready", "epic-3"]),
        ("top --count 1", "manager", vec!["leaf", "train", "1 groups, 1 ready, 0 failed"]),
    ] {
        let text = fabric.text(command);
        assert!(text.trim_start().starts_with(header), "{text}");
        assert!(cells.iter().all(|cell| text.contains(cell)), "{text}");
    }
    let nodes = fabric.text("nodes");
    let column = nodes.lines().next().unwrap().find("role").unwrap();
    assert!(
        nodes
            .lines()
            .skip(1)
            .all(|line| line[column..].starts_with("host") || line[column..].starts_with("switch")),
        "{nodes}"
    );
}

#[test]
fn why_tells_of_the_switch_the_resource_and_who_is_in_the_way() {
    let fabric = ManagedFabric::start("24KiB");
    fabric.text(MAKE);
    let text = fabric.text(&MAKE.replace("train", "late"));
    assert!(text.contains("runs     ring"), "{text}");
    let why = fabric.text("group why late");
    for part in [
        "group 2 \"late\" runs ring among its hosts, for epic-3 found no room\n",
        "of free memory at switch \"leaf\"",
        "switch leaf has 24KiB of memory and 4096 queue pairs; who held them when it was decided:",
        "train",
        "still",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(fabric.text("group why train").starts_with("group 1 \"train\" uses the network: epic-3 on leaf"));
    fabric.text("group destroy train");
    assert!(
        fabric.text("group why 2").contains("no longer\nsome of it is free by now: make the group again")
    );
    let json = fabric.json("group why late");
    assert_eq!(json["why"]["holders_then"][0]["name"], "train");
    assert_eq!(json["why"]["holders_now"], Value::Array(Vec::new()));
}

#[test]
fn a_request_that_was_refused_is_explained_by_its_name() {
    let fabric = ManagedFabric::start("1MiB");
    let error = fabric.error("group create pair --members a,z --design epic-3");
    assert!(error.contains("attached host \"z\""), "{error}");
    let why = fabric.text("group why pair");
    assert!(
        why.starts_with(
            "group \"pair\" was asked for as epic-3, and refused\nwhy: expected an attached host \"z\""
        ),
        "{why}"
    );
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let fabric = ManagedFabric::start("1MiB");
    for (command, says) in [
        ("group create --members a,b --design epic-9", "\"epic-9\""),
        ("group create --members a,b --design multiwrite --mesh mesh-2x4", "expected a mesh of 2 ranks"),
        ("group create --members a,b --design epic-3 --set group.colour=1", "one of the keys"),
        ("group create 7 --members a,b --design epic-3", "found \"7\"; choose another"),
        ("group destroy 99", "found no group 99"),
        ("group why 99", "found neither"),
    ] {
        assert!(fabric.error(command).contains(says), "{command}: {}", fabric.error(command));
    }
    let output = quincunx("nodes --manager 127.0.0.1:1");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("expected a manager at 127.0.0.1:1") && error.lines().count() == 1, "{error}");
    let output = quincunx("nodes --manager 10.0.0:1");
    assert!(String::from_utf8_lossy(&output.stderr).contains("[fd00::9]:4790"));
}

#[test]
fn a_name_reaches_the_manager_too() {
    let fabric = ManagedFabric::start("1MiB");
    let port = fabric.manager.rsplit_once(':').unwrap().1;
    let output = quincunx(&format!("nodes --json --manager localhost:{port}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Numbers are those of groups.
#[test]
fn a_group_without_a_name_is_called_by_its_number() {
    let fabric = ManagedFabric::start("1MiB");
    fabric.text("group create --members a,b --design ring");
    assert_eq!(GroupId(1).to_string(), fabric.json("group show 1")["group"]["group"].to_string());
    assert_eq!(fabric.text("group destroy 1"), "group 1 is destroyed\n");
}

#[test]
fn perf_measures_on_a_fabric_that_runs_already_and_leaves_it_as_it_was() {
    let fabric = ManagedFabric::start("64MiB");
    fabric.text("group create other --members a,b --design epic-3 --longest 64KiB");
    let held = || [fabric.json("nodes")["nodes"].clone(), fabric.json("group list")["groups"].clone()];
    let before = held();
    let rows = rows(
        &fabric.ask("perf all_reduce --ranks 3 --design epic-3,ring --sizes 64KiB --iterations 3 --json"),
    );
    let run: Vec<_> = rows.iter().map(|row| (row["design"].as_str().unwrap(), &row["wrong"])).collect();
    assert_eq!(run, [("epic-3", &0.into()), ("ring", &0.into())]);
    assert_ne!(rows[0]["switch_buffer_bytes"], 0, "it ran on the switch");
    eventually("an end of the ranks", || held() == before);
}

#[test]
fn two_runs_of_perf_share_a_fabric() {
    let fabric = ManagedFabric::start("64MiB");
    std::thread::scope(|scope| {
        let run = || {
            rows(&fabric.ask("perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 3 --json"))
        };
        let runs = [scope.spawn(run), scope.spawn(run)].map(|run| run.join().unwrap());
        assert!(runs.iter().all(|rows| rows[0]["wrong"] == 0 && rows[0]["design"] == "epic-3"), "{runs:?}");
    });
}

/// A manager by whose policy groups contend, and a switch with memory for one group of two ranks: where the manager is, and the block of
/// addresses.
fn contended() -> ([Ending; 2], String, String) {
    let [.., b, c] = std::process::id().to_be_bytes();
    let block = format!("127.{}.{}", b ^ 0x55, c);
    let mut manager = start("manager --listen 127.0.0.1:0 --policy contention", None);
    let at = listens_at(&mut manager);
    // Two pipes of a window of 60 packets of 4 KiB each, and little more.
    let switch =
        start(&format!("switch --name leaf --address {block}.250 --memory 600KiB --manager {at}"), None);
    (([manager, switch]), at, block)
}

#[test]
fn groups_that_contend_run_in_the_tree_and_among_their_hosts_are_right_and_say_how_often() {
    let (_processes, at, block) = contended();
    let ask = |command: &str| quincunx(&format!("{command} --manager {at} --json"));
    let listed = |what: &str, key: &str| -> Vec<Value> {
        let json: Value = serde_json::from_slice(&ask(what).stdout).unwrap_or_default();
        json[key].as_array().cloned().unwrap_or_default()
    };
    eventually("a switch", || listed("nodes", "nodes").len() == 1);
    std::thread::scope(|scope| {
        let run = |first: u8| {
            let addresses = format!("{block}.{first},{block}.{}", first + 1);
            let run = format!(
                "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 400 --addresses {addresses}"
            );
            rows(&ask(&run)).remove(0)
        };
        let runs = [scope.spawn(move || run(1)), scope.spawn(move || run(3))];
        // While both run, the manager tells how each came by the memory.
        let mut seen = Value::Null;
        eventually("locks that were refused", || {
            let groups = listed("group list", "groups");
            let refused = groups.iter().find(|group| group["locks"][0]["refused"].as_u64() > Some(0));
            seen = refused.cloned().unwrap_or_default();
            !seen.is_null() || runs.iter().all(std::thread::ScopedJoinHandle::is_finished)
        });
        if let Some(number) = seen["group"].as_u64() {
            assert_eq!(seen["locks"][0]["switch"], "leaf");
            let why =
                String::from_utf8(quincunx(&format!("group why {number} --manager {at}")).stdout).unwrap();
            assert!(why.is_empty() || why.contains("for which it asked switch leaf for memory"), "{why}");
        }
        let [first, second] = runs.map(|run| run.join().unwrap());
        for row in [&first, &second] {
            assert_eq!((&row["wrong"], &row["design"]), (&0.into(), &"epic-3".into()));
            let [tree, hosts] = ["tree", "hosts"].map(|way| row["ways"][way].as_u64().unwrap());
            // 40 to warm up, and a barrier at either end.
            assert_eq!(tree + hosts, 400 + 40 + 2, "{row}");
        }
        for way in ["tree", "hosts"] {
            let ran = [&first, &second].map(|row| row["ways"][way].as_u64().unwrap());
            assert!(ran.iter().sum::<u64>() > 0, "{way}: {ran:?}");
        }
    });
}

#[test]
fn a_run_of_perf_that_fails_leaves_no_group_behind() {
    let mut fabric = ManagedFabric::start("64MiB");
    drop(fabric.processes.pop().expect("a manager and a switch"));
    eventually("an end of the switch", || !fabric.text("nodes").contains("leaf"));
    let output = fabric.ask("perf all_reduce --ranks 4 --design epic-3 --sizes 64KiB --iterations 3 --json");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("expected an attached switch that can run epic-3, found none"), "{error}");
    assert_eq!(fabric.json("group list")["groups"], Value::Array(Vec::new()));
}

#[test]
fn addresses_are_the_ranks_own_or_shared_and_no_more_than_ranks() {
    let fabric = ManagedFabric::start("64MiB");
    let [a, b, c] = fabric.block;
    let run = |addresses: &str| {
        fabric.ask(&format!(
            "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 2 --json --addresses {addresses}"
        ))
    };
    for addresses in [format!("{a}.{b}.{c}.7,{a}.{b}.{c}.8"), format!("{a}.{b}.{c}.7")] {
        assert_eq!(rows(&run(&addresses))[0]["wrong"], 0);
    }
    let three = run(&format!("{a}.{b}.{c}.7,{a}.{b}.{c}.8,{a}.{b}.{c}.9"));
    let error = String::from_utf8_lossy(&three.stderr);
    assert!(error.contains("expected an address for each of 2 ranks, or fewer, found 3"), "{error}");
}

#[test]
fn what_happens_is_logged_a_json_object_a_line() {
    let mut fabric = ManagedFabric::start("24KiB");
    fabric.text(MAKE);
    fabric.text(&MAKE.replace("train", "late"));
    fabric.error("group create pair --members a,z --design epic-3");
    fabric.text("group destroy train");
    let mut switch = fabric.processes.pop().expect("a manager and a switch");
    eventually("the switch to hear of the end", || fabric.text("nodes").contains("0/4096"));
    // Asked, it ends in order.
    let ended = Command::new("kill").args(["-TERM", &switch.0.id().to_string()]).status().unwrap();
    assert!(ended.success());
    switch.0.wait().unwrap();
    eventually("an end of the switch", || !fabric.text("nodes").contains("leaf"));
    let manager = fabric.processes.pop().expect("a manager");
    let has = |log: &[Value], message: &str, key: &str, value: &str| {
        let is = |line: &&Value| line["message"] == message && line[key].to_string().contains(value);
        assert!(log.iter().any(|line| is(&line)), "{message}, {key} {value}: {log:#?}");
    };
    let log = log_of(switch);
    has(&log, "attached", "node", "leaf");
    has(&log, "group installed", "design", "epic-3");
    has(&log, "group removed", "group", "1");
    let log = log_of(manager);
    has(&log, "node attached", "node", "leaf");
    has(&log, "node joined group", "node", "leaf");
    has(&log, "group made", "name", "train");
    has(&log, "group made", "fallback", "of free memory at switch");
    has(&log, "group not made", "reason", "attached host");
    has(&log, "group destroyed", "group", "1");
    // It ended in order.
    has(&log, "node ended", "node", "leaf");
}

#[test]
fn new_groups_pass_a_switch_by_that_drains_until_it_does_not() {
    let fabric = ManagedFabric::start("64KiB");
    fabric.text(MAKE);
    let drained = fabric.text("nodes drain leaf");
    assert_eq!(drained, "leaf drains, and still has groups 1: stop it when they are over\n");
    assert!(fabric.text("nodes").contains("switch, drains"));
    fabric.text("group destroy train");
    let drained = fabric.json("nodes drain leaf");
    assert_eq!((&drained["drains"], &drained["groups"]), (&true.into(), &Value::Array(Vec::new())));
    fabric.text(MAKE);
    assert_eq!(fabric.json("group list")["groups"][0]["runs"], "ring");
    assert!(fabric.text("group why train").contains("found \"leaf\" draining"));
    fabric.text("group destroy train");
    assert_eq!(fabric.text("nodes undrain leaf"), "leaf takes groups again\n");
    fabric.text(MAKE);
    assert_eq!(fabric.json("group list")["groups"][0]["runs"], "epic-3");
    assert!(fabric.error("nodes drain a").contains("expected an attached switch, found \"a\""));
}

#[test]
fn a_group_whose_switch_is_killed_goes_on_and_has_both_numbers() {
    let mut fabric = ManagedFabric::start("64KiB");
    fabric.text(MAKE);
    // SIGKILL.
    drop(fabric.processes.pop());
    let group = || fabric.json("group list")["groups"][0].clone();
    eventually("a group that is made anew", || group()["runs"] == "ring" && group()["state"] == "ready");
    assert_eq!(group()["name"], "train");
    fabric.text("group destroy 1");
    assert_eq!(fabric.json("group list")["groups"], Value::Array(Vec::new()));
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_job_whose_switch_is_killed_goes_on_among_its_hosts_and_is_right() {
    let port = free_port();
    let block = ManagedFabric::start("1MiB").block.map(|part| part ^ 0x2a);
    let [_, b, c] = block;
    let mut manager = start(&format!("manager --listen 127.0.0.1:{port}"), None);
    listens_at(&mut manager);
    let switch =
        start(&format!("switch --name leaf --address 127.{b}.{c}.250 --manager 127.0.0.1:{port}"), None);
    let ask = |command: &str| quincunx(&format!("{command} --manager 127.0.0.1:{port} --json"));
    let first = |what: &str, key: &str| -> Value {
        let json: Value = serde_json::from_slice(&ask(what).stdout).unwrap_or_default();
        json[key][0].clone()
    };
    eventually("a switch", || first("nodes", "nodes")["name"] == "leaf");
    std::thread::scope(|scope| {
        let job =
            scope.spawn(|| ask("perf all_reduce --ranks 3 --design epic-3 --sizes 64KiB --iterations 1500"));
        eventually("a group that is ready", || first("group list", "groups")["state"] == "ready");
        // SIGKILL.
        drop(switch);
        let done = job.join().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("group 1 was made anew on ring after"), "{said}");
        assert!(said.contains("node \"leaf\": its connection to the manager is gone"), "{said}");
        let rows = rows(&done);
        assert_eq!((&rows[0]["wrong"], &rows[0]["design"]), (&0.into(), &"ring".into()));
    });
}

#[test]
fn a_manager_that_is_killed_starts_again_and_the_job_goes_on() {
    let folder = std::env::temp_dir().join(format!("quincunx-store-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let port = free_port();
    let block = ManagedFabric::start("1MiB").block.map(|part| part ^ 0x15);
    let [_, b, c] = block;
    let manager = || {
        let store = folder.join("groups.sqlite");
        let mut manager =
            start(&format!("manager --listen 127.0.0.1:{port} --store {}", store.display()), None);
        listens_at(&mut manager);
        manager
    };
    let ask = |command: &str| quincunx(&format!("{command} --manager 127.0.0.1:{port} --json"));
    let groups = || {
        let json: Value = serde_json::from_slice(&ask("group list").stdout).unwrap_or_default();
        json["groups"].as_array().cloned().unwrap_or_default()
    };
    let first = manager();
    let _switch = start(
        &format!("switch --name leaf --address 127.{b}.{c}.250 --manager 127.0.0.1:{port} --patience 20s"),
        None,
    );
    eventually("a switch", || {
        let json: Value = serde_json::from_slice(&ask("nodes").stdout).unwrap_or_default();
        json["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1)
    });
    std::thread::scope(|scope| {
        let job =
            scope.spawn(|| ask("perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 1500"));
        eventually("a group that is ready", || groups().iter().any(|group| group["state"] == "ready"));
        let before = groups();
        // SIGKILL: it writes nothing any more.
        drop(first);
        let _second = manager();
        eventually("the same group, on the same switch", || groups() == before);
        let rows = rows(&job.join().unwrap());
        assert_eq!((&rows[0]["wrong"], &rows[0]["design"]), (&0.into(), &"epic-3".into()));
        eventually("an end of the group", || groups().is_empty());
    });
    std::fs::remove_dir_all(&folder).unwrap();
}
