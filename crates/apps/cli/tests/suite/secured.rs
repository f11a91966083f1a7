//! Certificates, metrics and limits as a newcomer sets them up: `quincunx manager init`, then real processes.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Output;

use crate::processes::{Ending, File, Folder, eventually, listens_at, quincunx, rows, start};

/// A folder of certificates.
fn certificates(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    let path = folder.0.display().to_string();
    let made = quincunx(&format!("manager init {path} --node leaf --tenant blue,red --host gpu1@blue"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (folder, path)
}

/// Addresses of loopback for this test program and so many of its tests.
fn address(test: u8, last: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{}.{last}", high ^ 0xc0, low.wrapping_mul(8).wrapping_add(test))
}

fn error(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.lines().count() == 1, "{error}");
    error
}

#[test]
fn init_makes_an_authority_once_and_further_certificates_later() {
    let (folder, path) = certificates("init");
    let mut files: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let expected = [
        "authority-key.pem",
        "authority.pem",
        "host-gpu1.pem",
        "manager.pem",
        "node-leaf.pem",
        "operator-admin.pem",
        "tenant-blue.pem",
        "tenant-red.pem",
    ];
    assert_eq!(files, expected);
    let before = std::fs::read(folder.0.join("authority.pem")).unwrap();
    let later = quincunx(&format!("manager init {path} --node spine"));
    assert_eq!(String::from_utf8_lossy(&later.stdout), format!("{path}/node-spine.pem\n"));
    assert_eq!(std::fs::read(folder.0.join("authority.pem")).unwrap(), before);
    assert!(
        error(&quincunx(&format!("manager init {path} --node leaf")))
            .contains("a certificate that is there stays")
    );
    assert!(error(&quincunx(&format!("manager init {path} --host gpu2"))).contains("expected NAME@TENANT"));
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        let mode = std::fs::metadata(folder.0.join(&file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} is its owner's alone");
    }
}

#[test]
fn perf_runs_as_a_tenant_over_tls_and_a_stranger_is_not_heard() {
    let (_folder, path) = certificates("tls");
    let mut manager = start(
        &format!("manager --listen 0.0.0.0:0 --identity {path}/manager.pem --audit {path}/audit.jsonl"),
        None,
    );
    let at = listens_at(&mut manager).replace("0.0.0.0", "127.0.0.1");
    let leaf = address(1, 250);
    let _switch = start(
        &format!("switch --name leaf --address {leaf} --manager {at} --identity {path}/node-leaf.pem"),
        None,
    );
    let ask =
        |who: &str, command: &str| quincunx(&format!("{command} --manager {at} --identity {path}/{who}.pem"));
    eventually("a switch", || {
        String::from_utf8_lossy(&ask("operator-admin", "nodes").stdout).contains("leaf")
    });
    let perf = "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 2 --json";
    let rows = rows(&ask("tenant-blue", perf));
    assert_eq!((rows[0]["wrong"].as_u64(), rows[0]["design"].as_str()), (Some(0), Some("epic-3")));
    let listed: Value = serde_json::from_slice(&ask("tenant-red", "group list --json").stdout).unwrap();
    assert_eq!(listed["groups"], Value::Array(Vec::new()));
    // Another switch by the name of a node that it is not.
    let fake = format!("switch --name leaf2 --address {} --manager {at} --log-level off", address(1, 251));
    let refused = quincunx(&format!("{fake} --identity {path}/node-leaf.pem"));
    assert!(error(&refused).contains("expected the certificate of node \"leaf2\", found node leaf"));
    let (_other, other) = certificates("other");
    for stranger in [String::new(), format!("--identity {other}/operator-admin.pem")] {
        let output = quincunx(&format!("group list --manager {at} {stranger}"));
        assert!(error(&output).starts_with("error: expected a "), "{output:?}");
    }
    let audit = std::fs::read_to_string(format!("{path}/audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |who: &str, call: &str, verdict: &str| {
        lines.iter().any(|line| line["who"] == who && line["call"] == call && line["verdict"] == verdict)
    };
    assert!(has("tenant blue", "InitGroup", "done") && has("node leaf", "Attach", "done"), "{audit}");
    assert!(has("node leaf", "Attach", "refused"), "{audit}");
}

#[test]
fn a_machine_speaks_by_way_of_its_agent_and_is_back_when_that_is_started_again() {
    let (_folder, path) = certificates("agent");
    let manager = format!("manager --listen 127.0.0.1:0 --identity {path}/manager.pem --log-level off");
    let mut manager = start(&manager, None);
    let at = listens_at(&mut manager);
    let agent = |listen: &str, who: &str| {
        let identity = format!("--identity {path}/{who}.pem --log-level off");
        start(&format!("agent --listen {listen} --manager {at} {identity}"), None)
    };
    let mut of_switch = agent("127.0.0.1:0", "node-leaf");
    let by = listens_at(&mut of_switch);
    let leaf = address(3, 250);
    let _switch = start(&format!("switch --name leaf --address {leaf} --manager {by} --log-level off"), None);
    let mut of_tenant = agent("127.0.0.1:0", "tenant-blue");
    let tenant = listens_at(&mut of_tenant);
    let nodes = || {
        let asked = quincunx(&format!("nodes --manager {at} --identity {path}/operator-admin.pem --json"));
        let found: Value = serde_json::from_slice(&asked.stdout).unwrap();
        found["nodes"].as_array().unwrap().len()
    };
    eventually("the switch", || nodes() == 1);
    let perf = format!(
        "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 2 --json --manager {at} --identity {path}/tenant-blue.pem --addresses {},{}",
        address(3, 1),
        address(3, 2)
    );
    for _ in 0..2 {
        let rows = rows(&quincunx(&perf));
        assert_eq!((rows[0]["wrong"].as_u64(), rows[0]["design"].as_str()), (Some(0), Some("epic-3")));
        drop(of_switch);
        eventually("nobody", || nodes() == 0);
        of_switch = agent(&by, "node-leaf");
        assert_eq!(listens_at(&mut of_switch), by);
        eventually("the switch again", || nodes() == 1);
    }
    // A tool is heard as the tenant that the other agent's certificate names.
    let listed = quincunx(&format!("group list --manager {tenant} --json"));
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(error(&quincunx(&format!("nodes drain leaf --manager {tenant}"))).contains("tenant blue"));
    let refused = quincunx(&format!("agent --listen 0.0.0.0:0 --manager {at} --log-level off"));
    assert!(error(&refused).contains("expected an agent to listen on loopback"));
}

#[test]
fn a_manager_elsewhere_than_on_loopback_without_certificates_does_not_start() {
    let error = error(&quincunx("manager --listen 0.0.0.0:0 --log-level off"));
    assert!(
        error.contains("which is not on loopback, found none; make some with `quincunx manager init DIR`"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_with_files_is_said_in_a_line() {
    let quotas = File::new("quotas", "[default]\ngroup = 4\n");
    let empty = File::new("empty", "");
    for (arguments, says) in [
        (format!("manager --tenants {}", quotas.0.display()), "group"),
        (format!("manager --identity {}", empty.0.display()), "found 0 certificates and 0 keys"),
        ("manager --identity /nowhere.pem".into(), "expected to read /nowhere.pem"),
        (
            "manager --listen 127.0.0.1:0 --audit /nowhere/audit".into(),
            "expected to add to the audit log /nowhere/audit",
        ),
        ("perf all_reduce --identity /nowhere.pem".into(), "--manager <HOST:PORT>"),
    ] {
        let error = error(&quincunx(&arguments));
        assert!(error.contains(says), "{arguments}: {error}");
    }
}

/// The next line that a process says, behind what is before it.
pub(crate) fn says(process: &mut BufReader<std::process::ChildStdout>, before: &str) -> String {
    let mut line = String::new();
    process.read_line(&mut line).unwrap();
    line.trim().strip_prefix(before).unwrap_or_else(|| panic!("{before}: {line}")).to_owned()
}

pub(crate) fn scrape(url: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_manager_that_is_asked_to_end_ends_well() {
    // The system does not end the first process of a container by itself.
    let mut manager = start("manager --listen 127.0.0.1:0", None);
    says(&mut BufReader::new(manager.0.stdout.take().unwrap()), "manager listens at ");
    let asked =
        std::process::Command::new("kill").args(["-TERM", &manager.0.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert_eq!(manager.0.wait().unwrap().code(), Some(0));
}

#[test]
fn manager_and_switch_are_scraped_while_they_run() {
    let mut manager = start("manager --listen 127.0.0.1:0 --metrics 127.0.0.1:0", None);
    let mut said = BufReader::new(manager.0.stdout.take().unwrap());
    let at = says(&mut said, "manager listens at ");
    let of_manager = says(&mut said, "metrics at ");
    let leaf = address(2, 250);
    let mut switch: Ending =
        start(&format!("switch --name leaf --address {leaf} --manager {at} --metrics 127.0.0.1:0"), None);
    let of_switch = says(&mut BufReader::new(switch.0.stdout.take().unwrap()), "metrics at ");
    eventually("a switch", || scrape(&of_manager).contains("quincunx_nodes{role=\"switch\"} 1"));
    // Nobody's frame.
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"no frame", format!("{leaf}:4791")).unwrap();
    let perf = format!(
        "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 2 --json --manager {at}"
    );
    assert_eq!(rows(&quincunx(&perf))[0]["wrong"], 0);
    let value = |page: &str, begins: &str| -> f64 {
        let line = page.lines().find(|line| line.starts_with(begins));
        let line = line.unwrap_or_else(|| panic!("{begins}: {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    eventually("frames that were dropped", || scrape(&of_switch).contains("reason=\"truncated\""));
    let page = scrape(&of_switch);
    assert!(value(&page, "quincunx_frames_total{switch=\"leaf\",direction=\"in\"}") > 30.0);
    assert!(value(&page, "quincunx_frames_total{switch=\"leaf\",direction=\"out\"}") > 30.0);
    assert_eq!(value(&page, "quincunx_frames_dropped_total{switch=\"leaf\",reason=\"truncated\"}"), 1.0);
    eventually("an end of the group", || {
        value(&scrape(&of_switch), "quincunx_group_events_total{switch=\"leaf\",event=\"removed\"}") == 1.0
    });
    assert_eq!(value(&scrape(&of_switch), "quincunx_switch_memory_held_bytes{switch=\"leaf\"}"), 0.0);
    let page = scrape(&of_manager);
    assert_eq!(value(&page, "quincunx_calls_total{call=\"InitGroup\",result=\"OK\"}"), 1.0);
    assert_eq!(value(&page, "quincunx_group_failures_total"), 0.0, "no rank left before the group's end");
}

#[test]
fn what_the_units_for_systemd_start_has_all_these_options() {
    let units = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/systemd");
    for (unit, role) in [("quincunx-manager.service", "manager"), ("quincunx-switch@.service", "switch")] {
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let started = text.lines().find_map(|line| line.strip_prefix("ExecStart=quincunx ")).unwrap();
        let mut words = started.split_whitespace();
        assert_eq!(words.next(), Some(role));
        let help = quincunx(&format!("{role} --help"));
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let options: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
        assert!(options.len() >= 5, "{options:?}");
        for option in options {
            assert!(help.contains(&format!(" {option} <")), "{unit}: {option}");
        }
    }
}
