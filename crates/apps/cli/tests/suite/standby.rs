//! Managers that stand by for another: by an SQLite file, and by a lease in etcd.

use serde_json::Value;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::processes::{Ending, eventually, listens_at, quincunx, rows, start};

/// What a test has for itself: a folder, and addresses of loopback.
struct TestEnvironment {
    folder: PathBuf,
    block: String,
}

impl TestEnvironment {
    fn new(name: &str, mark: u8) -> Self {
        let [.., high, low] = std::process::id().to_be_bytes();
        let folder = std::env::temp_dir().join(format!("quincunx-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder, block: format!("127.{}.{low}", high ^ mark) }
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn signal(process: &Ending, name: &str) {
    let done = Command::new("kill").args([name, &process.0.id().to_string()]).status().unwrap();
    assert!(done.success());
}

fn groups(manager: &str) -> Vec<Value> {
    let output = quincunx(&format!("group list --json --manager {manager}"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    json["groups"].as_array().cloned().unwrap_or_default()
}

/// A job of two ranks goes on while the manager that serves is `stop`ped and the one that stands by takes its groups over.
fn takes_over(environment: &TestEnvironment, store: &str, stop: impl FnOnce(&Ending)) -> Ending {
    let ports = [free_port(), free_port()];
    let manager = |port: u16| {
        start(
            &format!("manager --listen 127.0.0.1:{port} --store {store} --standby --restart-timeout 10s"),
            None,
        )
    };
    let mut first = manager(ports[0]);
    listens_at(&mut first);
    let mut second = manager(ports[1]);
    let both = format!("127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let _switch =
        start(&format!("switch --name leaf --address {}.250 --manager {both}", environment.block), None);
    eventually("a switch", || {
        let nodes = quincunx(&format!("nodes --json --manager {both}"));
        let json: Value = serde_json::from_slice(&nodes.stdout).unwrap_or_default();
        json["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1)
    });
    std::thread::scope(|scope| {
        let job = scope.spawn(|| {
            let perf = "perf all_reduce --ranks 2 --design epic-3 --sizes 64KiB --iterations 4000 --json";
            quincunx(&format!("{perf} --manager {both}"))
        });
        eventually("a group that is ready", || groups(&both).iter().any(|group| group["state"] == "ready"));
        let before = groups(&both);
        stop(&first);
        listens_at(&mut second);
        let now = format!("127.0.0.1:{}", ports[1]);
        eventually("the same group at the second", || groups(&now) == before || job.is_finished());
        let rows = rows(&job.join().unwrap());
        assert_eq!((&rows[0]["wrong"], &rows[0]["design"]), (&0.into(), &"epic-3".into()));
        eventually("an end of the group", || groups(&now).is_empty());
    });
    first
}

#[test]
fn who_stands_by_takes_over_from_a_manager_that_is_killed_and_the_job_goes_on() {
    let environment = TestEnvironment::new("standby", 0x33);
    let store = environment.folder.join("groups.sqlite");
    takes_over(&environment, store.to_str().unwrap(), |manager| signal(manager, "-KILL"));
}

#[cfg(not(feature = "etcd"))]
#[test]
fn a_command_without_etcd_says_so_in_a_line() {
    let output = quincunx("manager --listen 127.0.0.1:0 --store etcd://127.0.0.1/one");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("built without etcd") && error.lines().count() == 1, "{error}");
    assert_eq!(output.status.code(), Some(2));
}

#[cfg(feature = "etcd")]
mod in_etcd {
    use super::*;
    use quincunx_needs::{need, program};
    use std::io::Read;
    use std::process::Stdio;

    /// An etcd of one member; where it serves.
    fn etcd(environment: &TestEnvironment) -> (Ending, String) {
        let [client, peer] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(environment.folder.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Ending(command.spawn().unwrap());
        let at = client.strip_prefix("http://").unwrap().to_owned();
        eventually("an etcd", || std::net::TcpStream::connect(&at).is_ok());
        (running, at)
    }

    #[test]
    fn who_stands_by_takes_over_by_lease_from_a_manager_that_is_stopped_and_that_one_ends_when_it_wakes_up() {
        need!(program("etcd", "etcd-server"));
        let environment = TestEnvironment::new("lease", 0x3c);
        let (_etcd, at) = etcd(&environment);
        // It does not close its connections, and the kernel still takes new ones for it.
        let mut stopped =
            takes_over(&environment, &format!("etcd://{at}/fabric"), |manager| signal(manager, "-STOP"));
        signal(&stopped, "-CONT");
        let mut said = String::new();
        stopped.0.stderr.take().expect("asked for").read_to_string(&mut said).unwrap();
        assert!(
            said.contains("the lease is over") && said.lines().last().unwrap().contains("--standby"),
            "{said}"
        );
        assert_eq!(stopped.0.wait().unwrap().code(), Some(2));
    }

    #[test]
    fn a_manager_whose_etcd_is_gone_ends_and_says_so() {
        need!(program("etcd", "etcd-server"));
        let environment = TestEnvironment::new("gone", 0x35);
        let (etcd, at) = etcd(&environment);
        let mut manager = start(&format!("manager --listen 127.0.0.1:0 --store etcd://{at}"), None);
        listens_at(&mut manager);
        drop(etcd);
        let mut said = String::new();
        manager.0.stderr.take().expect("asked for").read_to_string(&mut said).unwrap();
        assert!(said.contains("the lease is over"), "{said}");
        assert_eq!(manager.0.wait().unwrap().code(), Some(2));
    }

    #[test]
    fn a_store_that_another_manager_has_or_that_is_not_there_is_an_error_in_a_line() {
        need!(program("etcd", "etcd-server"));
        let environment = TestEnvironment::new("taken", 0x36);
        let (_etcd, at) = etcd(&environment);
        let mut manager = start(&format!("manager --listen 127.0.0.1:0 --store etcd://{at}/one"), None);
        listens_at(&mut manager);
        let mut other = start(&format!("manager --listen 127.0.0.1:0 --store etcd://{at}/two"), None);
        listens_at(&mut other);
        for (store, found) in [
            (format!("etcd://{at}/one"), "found another one that has it"),
            (format!("etcd://127.0.0.1:{}/one", free_port()), "see whether etcd runs there"),
            ("etcd://10.0.0.1/one".to_owned(), "which is not on loopback, found none"),
            ("etcd://a:b/one".to_owned(), "expected a file, or etcd://HOST:PORT"),
        ] {
            let output = quincunx(&format!("manager --listen 127.0.0.1:0 --store {store}"));
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains(found) && error.lines().count() == 1, "{store}: {error}");
            assert_eq!(output.status.code(), Some(2), "{store}");
        }
    }
}
