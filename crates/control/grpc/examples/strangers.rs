//! Ten thousand connections at once that say nothing, half of something, or open HTTP/2 and then say no more, round after round, at a manager
//! with a group: prints what memory that takes, and ends with an error if it grows or the group is gone.
//!
//! `cargo run -p quincunx-control-grpc --example strangers [-- COUNT]`; needs a hard limit of some more descriptors than that (`ulimit -Hn`).

use quincunx_control::{GroupRequest, GroupState, Instruction, NodeDescription, Report};
use quincunx_control_grpc::{ClientConfig, ControlClient, ManagerServer, ServerConfig};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_units::ByteCount;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What HTTP/2 begins with (RFC 9113, 3.4), and empty settings.
const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Each kind of stranger eight times. The first half may make room: the allocator keeps what the most connections at once have taken.
const ROUNDS: usize = 24;

/// Memory that the second half may take beyond the first.
const SLACK: u64 = 16 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse::<usize>())?;
    let config = ServerConfig { metrics: Some("127.0.0.1:0".parse()?), ..ServerConfig::default() };
    let server = ManagerServer::start(TcpListener::bind("127.0.0.1:0")?, CATALOG, config)?;
    let metrics = server.metrics_address().ok_or("metrics were asked for")?;
    let client = ControlClient::connect(server.address(), ClientConfig::default())?;
    let node = NodeDescription::host("a".into(), IpAddr::V4(Ipv4Addr::LOCALHOST), 64);
    let host = client.attach(&node)?;
    let design = CATALOG.named(FALLBACK).map_err(|refusal| refusal.to_string())?;
    let wanted = GroupRequest::new(vec!["a".into()], design, ByteCount::new(4096));
    let waiting = {
        let client = client.clone();
        std::thread::spawn(move || client.init_group(&wanted))
    };
    if let Instruction::Install(context) = host.instructions().recv()?? {
        host.report(context.group, Report::Installed);
    }
    let group = waiting.join().map_err(|_| "the request panicked")??;
    let mut resident = Vec::new();
    for round in 0..ROUNDS {
        let (kind, said) = [("silent", &b""[..]), ("half", &OPENING[..10]), ("idle", OPENING)][round % 3];
        let before = open(metrics)?;
        let start = Instant::now();
        let strangers: Vec<TcpStream> = (0..count).filter_map(|_| connect(server.address(), said)).collect();
        let (taken, at) = (open(metrics)?, memory()?);
        client.list_groups()?;
        println!(
            "{kind:<6}  {} connected in {:.1} s, {taken} of them open, {} KiB resident",
            strangers.len(),
            start.elapsed().as_secs_f64(),
            at / 1024
        );
        if strangers.len() < count {
            return Err(
                format!("expected {count} connections, found {}; raise ulimit -Hn", strangers.len()).into()
            );
        }
        resident.push(at);
        // They are dropped by the manager: the strangers keep them open.
        let end = Instant::now() + Duration::from_secs(30);
        while open(metrics)? > before {
            if Instant::now() > end {
                return Err("expected the strangers to be dropped within 30 s, found some still there".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let most = |rounds: &[u64]| rounds.iter().copied().max().unwrap_or(0);
    let (first, second) = resident.split_at(ROUNDS / 2);
    let grown = most(second).saturating_sub(most(first));
    println!("the second half took {} KiB more than the first", grown / 1024);
    if grown > SLACK || client.list_groups()?[0].summary != group || group.state != GroupState::Ready {
        return Err("expected memory to stay and the group to live, found otherwise".into());
    }
    Ok(())
}

/// A connection that has said something.
fn connect(to: SocketAddr, said: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok()?;
    // One that is refused is closed by now.
    let _ = stream.write_all(said);
    Some(stream)
}

/// Connections that the manager has.
fn open(metrics: SocketAddr) -> Result<u64, Box<dyn Error>> {
    let mut connection = TcpStream::connect(metrics)?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut page = String::new();
    connection.read_to_string(&mut page)?;
    let line = page.lines().find_map(|line| line.strip_prefix("quincunx_connections "));
    Ok(line.ok_or("a page without connections")?.parse()?)
}

/// What this process really has, in bytes.
fn memory() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("a status without VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
