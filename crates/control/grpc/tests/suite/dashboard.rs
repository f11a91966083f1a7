//! What a browser shows of a manager, in a headless Chromium that is driven over its debugging pipe, by keys alone.

use crate::cluster::{Cluster, WAIT, config, request};
use quincunx_control_grpc::{RankArrivals, ServerConfig};
use quincunx_design::Value;
use quincunx_designs::CATALOG;
use quincunx_needs::{need, program};
use serde_json::{Value as Json, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn watched() -> ServerConfig {
    ServerConfig { dashboard: Some("127.0.0.1:0".parse().unwrap()), ..config() }
}

fn state(address: SocketAddr) -> Json {
    let (head, body) = crate::metrics::ask(address, "GET /state.json HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/json"), "{head}");
    serde_json::from_str(&body).unwrap()
}

/// A browser with one page.
struct Browser {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Json,
    number: u64,
}

impl Browser {
    /// Starts it with a profile of its own, and opens an empty page.
    fn start(profile: &std::path::Path) -> Self {
        // It hears of commands on descriptor 3, and answers on 4.
        let line = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                    --remote-debugging-pipe --user-data-dir=\"$0\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", line])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let answers = BufReader::new(answers);
        let mut browser = Self { process, commands, answers, session: Json::Null, number: 0 };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].clone();
        browser
    }

    /// What it answers to a command; events before it are passed over.
    fn ask(&mut self, method: &str, parameters: Json) -> Json {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has gone");
            let answer: Json = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Json {
        self.ask("Runtime.evaluate", json!({ "expression": expression }))["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    fn expect(&mut self, expression: &str) {
        let end = Instant::now() + WAIT;
        while self.value(expression) != true {
            let page = || "document.body ? document.body.innerText : ''";
            assert!(Instant::now() < end, "{expression}: {}", self.value(page()));
            sleep(Duration::from_millis(50));
        }
    }

    fn press(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.ask("Input.dispatchKeyEvent", event);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_state_tells_of_nodes_links_groups_memory_and_what_has_happened() {
    let cluster = Cluster::tree(4, watched());
    let group = cluster.init_group(&request(4, "epic-2")).unwrap();
    let state = state(cluster.dashboard_address());
    let names = |key: &str| -> Vec<String> {
        state[key].as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("nodes").len(), 7);
    assert_eq!(state["links"].as_array().unwrap().len(), 6);
    assert!(state["links"].as_array().unwrap().iter().all(|link| link["groups"] == json!([group.group.0])));
    let root = state["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "switch-0").unwrap();
    let held = &group.switches[0];
    let expected = json!([{ "group": group.group.0, "offset": held.offset.bytes(), "length": held.memory.bytes(), "queue_pairs": held.endpoints }]);
    assert_eq!((&root["holdings"], &root["memory"]), (&expected, &json!(1 << 20)));
    let cables = state["cables"].as_array().unwrap();
    assert_eq!(cables.len(), 6);
    assert!(cables.iter().all(|cable| cable["state"] == "declared" && cable["reason"] == ""), "{cables:?}");
    assert_eq!(state["groups"][0]["state"], "ready");
    let events = state["events"].as_array().unwrap();
    assert_eq!(events.len(), 8, "seven nodes came, and a group");
    assert!(events[7]["text"].as_str().unwrap().starts_with("group 1 made of 4 ranks"), "{}", events[7]);
}

#[test]
fn it_says_who_comes_last_as_the_switches_tell() {
    let cluster = Cluster::tree(4, watched());
    let made = cluster.init_group(&request(4, "epic-2")).unwrap();
    let came = |rank, last, late_us| RankArrivals {
        rank,
        collectives: 10,
        last,
        total: quincunx_units::Duration::from_micros(10 * late_us),
        longest: quincunx_units::Duration::from_micros(late_us),
        buckets: Default::default(),
    };
    let arrivals = [[came(0, 1, 2), came(1, 9, 5000)], [came(2, 4, 3), came(3, 6, 1)]];
    let expected = json!({ "rank": 1, "node": "rank-1", "last": 9, "collectives": 10, "late_us": 5000.0 });
    let end = Instant::now() + WAIT;
    loop {
        let late = state(cluster.dashboard_address())["groups"][0]["comes_last"].clone();
        if late == expected {
            break;
        }
        assert!(Instant::now() < end, "{late}");
        // Asked or not, they tell: what nobody has asked for is not kept.
        for (switch, arrivals) in ["switch-1", "switch-2"].iter().zip(&arrivals) {
            cluster.nodes[*switch].reporter().tell_arrivals(made.group, arrivals);
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_browser_shows_the_fabric_live_and_its_keys_reach_all_of_it() {
    need!(program("chromium", "chromium"));
    let cluster = Cluster::tree(4, watched());
    let made = cluster.init_group(&request(4, "epic-2")).unwrap();
    let profile = std::env::temp_dir().join(format!("quincunx-{}-browser", std::process::id()));
    let mut browser = Browser::start(&profile);
    browser.ask("Page.navigate", json!({ "url": format!("http://{}/", cluster.dashboard_address()) }));
    browser.expect("document.getElementById('counts')?.textContent.startsWith('3 switches, 4 hosts; 1 groups, 0 failed, 0 without')");
    assert_eq!(browser.value("document.querySelectorAll('svg .link').length"), 6);
    assert_eq!(browser.value("document.querySelectorAll('.map span').length"), 3);
    assert_eq!(browser.value("document.querySelectorAll('#cables tr').length"), 6);
    // Every node and every group has its turn, and each says what it is.
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..12 {
        browser.press("Tab", 9);
        if let Some(says) = browser.value("document.activeElement.getAttribute('aria-label')").as_str() {
            reached.insert(says.to_owned());
        }
    }
    assert_eq!(reached.len(), 8, "{reached:?}");
    assert!(
        reached.iter().any(|says| says.starts_with("switch switch-0, ") && says.ends_with("held, 1 groups"))
    );
    // Enter at the group marks its tree, and Escape takes that back.
    browser.ask("Runtime.evaluate", json!({ "expression": "document.querySelector('button').focus()" }));
    browser.press("Enter", 13);
    browser.expect("document.querySelectorAll('svg .link.picked').length === 6");
    browser.press("Escape", 27);
    browser.expect("document.querySelectorAll('svg .link.picked').length === 0");
    // What happens meanwhile comes by itself: a group without room says why, one that ends is gone.
    let mut large = request(4, "epic-2");
    let design = CATALOG.named("epic-2").unwrap();
    design.set(&mut large.settings, "group.message", &Value::from(1 << 20)).unwrap();
    cluster.init_group(&large).unwrap();
    browser.expect("document.getElementById('groups').innerText.includes('ring for epic-2') && document.getElementById('groups').innerText.includes('of free memory at switch')");
    cluster.destroy(made.group);
    browser.expect("document.getElementById('event-lines').innerText.includes('group 1 destroyed')");
    browser.expect("document.querySelectorAll('.map span').length === 0");
    drop(browser);
    let _ = std::fs::remove_dir_all(profile);
}
