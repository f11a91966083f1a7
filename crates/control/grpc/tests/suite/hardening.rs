//! Strangers who connect and say nothing, half of something, or too much: memory stays flat, groups go on, and whoever has something to say gets
//! in. With ten thousand of them: `cargo run -p quincunx-control-grpc --example strangers`.

use crate::cluster::{Cluster, config, request};
use crate::metrics::{scrape, value};
use quincunx_control_grpc::{ClientConfig, ControlClient, ServerConfig, proto};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What HTTP/2 begins with (RFC 9113, 3.4), and empty settings.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// As many as the manager takes of those who say nothing; the limits of one with few connections are reached with few strangers.
const MOST: usize = 64;

fn small() -> ServerConfig {
    ServerConfig { max_connections: MOST, metrics: Some("127.0.0.1:0".parse().unwrap()), ..config() }
}

/// Connections that nobody hears of again; those that cannot be had are left out.
fn connect(count: usize, to: SocketAddr, said: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2)).ok()?;
        stream.write_all(said).ok()?;
        Some(stream)
    };
    (0..count).filter_map(connect).collect()
}

/// Waits until something holds, for as long as a busy machine may take.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not in 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn connections(cluster: &Cluster) -> f64 {
    value(&scrape(cluster.metrics_address()), "quincunx_connections ")
}

#[test]
fn whoever_says_nothing_or_half_of_something_is_dropped_and_those_who_speak_get_in() {
    let cluster = Cluster::start(0, 2, small());
    let group = cluster.init_group(&request(2, "ring")).unwrap();
    let before = connections(&cluster);
    for said in [&b""[..], &OPENING[..10], OPENING] {
        let strangers = connect(4 * MOST, cluster.address(), said);
        assert!(connections(&cluster) <= MOST as f64);
        eventually("an end of the strangers", || connections(&cluster) <= before);
        drop(strangers);
        let client = ControlClient::connect(cluster.address(), ClientConfig::default()).unwrap();
        assert_eq!(client.list_groups().unwrap()[0].summary, group);
    }
    assert!(value(&scrape(cluster.metrics_address()), "quincunx_connections_refused_total") > 0.0);
}

#[test]
fn a_connection_that_is_too_many_is_closed_at_once() {
    let cluster = Cluster::start(0, 1, small());
    let strangers = connect(2 * MOST, cluster.address(), OPENING);
    let mut last = strangers.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let read = last.read(&mut [0; 64]);
    assert!(
        matches!(&read, Ok(0))
            || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    );
}

#[test]
fn what_is_no_http_ends_its_own_connection_and_nothing_else() {
    let cluster = Cluster::start(0, 2, config());
    let group = cluster.init_group(&request(2, "ring")).unwrap();
    let mut noise = vec![0_u8; 4096];
    let mut state = 1_u32;
    for byte in &mut noise {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    for said in [noise.clone(), [OPENING, &noise].concat(), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()] {
        for mut stranger in connect(8, cluster.address(), &said) {
            stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // To its end, whatever is answered before.
            let mut answer = Vec::new();
            let end = stranger.read_to_end(&mut answer);
            assert!(
                end.is_ok() || end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
            );
        }
    }
    assert_eq!(cluster.client.list_groups().unwrap()[0].summary, group);
}

#[test]
fn a_message_that_is_too_long_is_refused_and_changes_nothing() {
    let cluster = Cluster::start(0, 2, config());
    let group = cluster.init_group(&request(2, "ring")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let address = format!("http://{}", cluster.address());
        let mut client = proto::control_client::ControlClient::connect(address).await.unwrap();
        let wanted = proto::InitGroupRequest { name: "x".repeat(5 << 20), ..Default::default() };
        client.init_group(wanted).await.unwrap_err()
    });
    assert_eq!(status.code(), tonic::Code::OutOfRange, "{status}");
    assert_eq!(cluster.client.list_groups().unwrap()[0].summary, group);
}
