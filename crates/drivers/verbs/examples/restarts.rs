//! What it costs to use queue pairs of standard verbs for another collective (EPIC 4.3): PSNs are set when a queue pair is brought up and
//! never after, so a group whose members do not all send the same takes them to RESET and up again, or has 2N + 1 sets of queue pairs.
//! Both are measured here on the RDMA device that has an address, by default one that `rdma link add` has made of a network card:
//!
//!     restarts 10.77.0.1 [ROUNDS]
//!
//! Two queue pairs of the device talk to each other. After each restart a message must come, under the new PSNs.
use quincunx_driver_verbs::{Connection, Device, Ended};
use quincunx_engine::verbs::WorkId;
use quincunx_units::Duration;
use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

/// Payload of a packet, and of each message here.
const MTU: usize = 1024;

/// What a queue pair may have under way: that of four guests' (`quincunx perf --transport verbs`).
const WINDOW: usize = 248 * MTU;

/// Sets of queue pairs that a host has for a group, of 2N + 1, by N.
const MEMBERS: [usize; 4] = [2, 4, 16, 31];

/// How long a message may take.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// A queue pair's connection to another one of the same device.
fn connection(address: IpAddr, peer: u32, [send_psn, expected_psn]: [u32; 2]) -> Connection {
    Connection {
        remote_address: address,
        remote_number: peer,
        mtu: MTU,
        send_psn,
        expected_psn,
        retry_timeout: Duration::from_millis(67),
        retry_count: 7,
        rnr_timer: 1,
        rnr_retry_count: 7,
        window: WINDOW,
    }
}

/// Sends a message and waits for both ends of it.
fn exchange(device: &mut Device, [from, to]: [u32; 2], round: u32) -> Result<(), Box<dyn Error>> {
    let message = [round as u8; MTU];
    device.post_receive(to, WorkId(round.into()), MTU);
    device.post_send(from, WorkId(round.into()), &message, None);
    let (mut sent, mut received) = (false, false);
    let end = Instant::now() + LIMIT;
    while !(sent && received) {
        let mut failed = None;
        device.poll(|number, ended| match ended {
            Ended::Sent(_) => sent |= number == from,
            Ended::Received { bytes, .. } => received |= number == to && bytes == message,
            Ended::Failed(_, failure) => failed = Some(failure),
        })?;
        if let Some(failure) = failed {
            return Err(format!("expected message {round} to arrive, found {failure:?}").into());
        }
        if Instant::now() > end {
            return Err(format!(
                "expected message {round} within {LIMIT:?}, found it sent: {sent}, received: {received}"
            )
            .into());
        }
    }
    Ok(())
}

/// The median and the largest, in microseconds.
fn shown(mut times: Vec<std::time::Duration>) -> String {
    times.sort();
    let of = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    format!("median {:.0} us, longest {:.0} us", of(times[times.len() / 2]), of(times[times.len() - 1]))
}

/// KiB that the machine has left.
fn left() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let word = line.and_then(|line| line.split_whitespace().next());
    Ok(word.ok_or("expected MemAvailable in /proc/meminfo, found none")?.parse()?)
}

fn measure(address: IpAddr, rounds: u32) -> Result<(), Box<dyn Error>> {
    let mut device = Device::open(address, 2)?;
    let numbers = device.numbers();
    let (here, there) = (numbers[0], numbers[1]);
    device.connect(here, &connection(address, there, [0, 0]))?;
    device.connect(there, &connection(address, here, [0, 0]))?;
    let (mut plain, mut again, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let begun = Instant::now();
        exchange(&mut device, [here, there], round)?;
        plain.push(begun.elapsed());
    }
    for round in 0..rounds {
        // Of each direction another one, as members that send and members that receive would have it.
        let psns = [round * 7919 % (1 << 24), round * 104_729 % (1 << 24)];
        let begun = Instant::now();
        device.restart(here, &connection(address, there, psns))?;
        restarts.push(begun.elapsed());
        device.restart(there, &connection(address, here, [psns[1], psns[0]]))?;
        exchange(&mut device, [here, there], round)?;
        again.push(begun.elapsed());
    }
    println!("{rounds} rounds, messages of {MTU} bytes");
    println!("a message: {}", shown(plain));
    println!("RESET, INIT, RTR, RTS of one queue pair: {}", shown(restarts));
    println!("the same of both ends, then a message: {}", shown(again));
    drop(device);
    for members in MEMBERS {
        let sets = 2 * members + 1;
        let before = left()?;
        let begun = Instant::now();
        let mut device = Device::open(address, sets)?;
        let made = begun.elapsed();
        let between = left()?;
        let numbers = device.numbers();
        let begun = Instant::now();
        for number in &numbers {
            device.connect(*number, &connection(address, *number, [0, 0]))?;
        }
        let connected = begun.elapsed();
        let after = left()?;
        println!(
            "N = {members}, 2N + 1 = {sets} queue pairs: made in {:.1} ms with {} KiB, brought up in {:.1} ms with {} KiB of buffers",
            made.as_secs_f64() * 1e3,
            before.saturating_sub(between),
            connected.as_secs_f64() * 1e3,
            between.saturating_sub(after),
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
    let rounds = words.next().map_or(Some(200), |word| word.parse::<u32>().ok().filter(|rounds| *rounds > 0));
    let (Some(address), Some(rounds)) = (address, rounds) else {
        eprintln!(
            "expected the address of an RDMA device, and rounds above 0 if any; restarts 10.77.0.1 200"
        );
        return ExitCode::from(2);
    };
    match measure(address, rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
