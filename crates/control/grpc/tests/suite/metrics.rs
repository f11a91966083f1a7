//! What a scraper gets of a manager.

use crate::cluster::{Cluster, config, request};
use quincunx_control_grpc::{MetricsServer, ServerConfig};
use quincunx_design::Value;
use quincunx_designs::CATALOG;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The page, as Prometheus asks for it.
pub(crate) fn scrape(address: SocketAddr) -> String {
    let (head, body) = ask(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    body
}

/// The value of the only line that begins so.
pub(crate) fn value(page: &str, begins: &str) -> f64 {
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with(begins)).collect();
    let [line] = lines[..] else { panic!("{begins}: {lines:?} in {page}") };
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

pub(crate) fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_scrape_tells_of_nodes_groups_fallbacks_memory_and_calls() {
    let config = ServerConfig { metrics: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let cluster = Cluster::start(1, 4, config);
    let group = cluster.init_group(&request(4, "epic-2")).unwrap();
    let mut large = request(4, "epic-2");
    let design = CATALOG.named("epic-2").unwrap();
    design.set(&mut large.settings, "group.message", &Value::from(1 << 20)).unwrap();
    cluster.init_group(&large).unwrap();
    cluster.client.init_group(&request(5, "epic-2")).unwrap_err();
    let page = scrape(cluster.metrics_address());
    let held = group.switches[0].memory.bytes() as f64;
    for (begins, expected) in [
        ("quincunx_nodes{role=\"host\"}", 4.0),
        ("quincunx_nodes{role=\"switch\"}", 1.0),
        ("quincunx_groups{state=\"ready\",design=\"epic-2\"}", 1.0),
        ("quincunx_groups{state=\"ready\",design=\"ring\"}", 1.0),
        ("quincunx_fallbacks_total{reason=\"switch_memory\",switch=\"switch-0\"}", 1.0),
        ("quincunx_switch_memory_bytes{switch=\"switch-0\"}", f64::from(1 << 20)),
        ("quincunx_switch_memory_held_bytes{switch=\"switch-0\"}", held),
        ("quincunx_queue_pairs{switch=\"switch-0\"}", 64.0),
        ("quincunx_queue_pairs_held{switch=\"switch-0\"}", 4.0),
        ("quincunx_calls_total{call=\"Attach\",result=\"OK\"}", 5.0),
        ("quincunx_calls_total{call=\"InitGroup\",result=\"OK\"}", 2.0),
        ("quincunx_calls_total{call=\"InitGroup\",result=\"NOT_FOUND\"}", 1.0),
        ("quincunx_connections ", 6.0),
    ] {
        assert_eq!(value(&page, begins), expected, "{begins}");
    }
    cluster.destroy(group.group);
    let page = scrape(cluster.metrics_address());
    assert_eq!(value(&page, "quincunx_switch_memory_held_bytes{switch=\"switch-0\"}"), 0.0);
}

#[test]
fn a_scraper_that_says_nothing_or_asks_for_something_else_keeps_nobody_waiting() {
    let server = MetricsServer::start("127.0.0.1:0", || "# EOF\n".to_owned()).unwrap();
    let silent = TcpStream::connect(server.address()).unwrap();
    assert_eq!(scrape(server.address()), "# EOF\n");
    drop(silent);
    assert!(ask(server.address(), "GET / HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 404 "));
    assert!(ask(server.address(), "POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 405 "));
    assert_eq!(ask(server.address(), "GET /metrics HTTP/1.0\r\n\r\n").1, "# EOF\n");
}
