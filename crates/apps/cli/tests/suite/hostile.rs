//! A switch under hostile and broken frames, beside collectives: results stay right, its memory stays flat, and frames are counted by reason.
//! Real processes in network namespaces. Longer, faster, with a table of what it costs:
//!
//! ```text
//! QUINCUNX_HOSTILE=100000,60 cargo test --release -p quincunx-cli --test suite hostile -- --nocapture
//! ```
//!
//! That is frames a second, and seconds of each design. A third of them come from the third party's own port, with all that one of a rank's
//! next frames has, addresses, PSN and CRC; the others by the rank's own link, as of a peer gone wrong: frames that it has sent before, next
//! ones with some bits turned over, cut ones, and nothing but noise.

use crate::intruder::{Intruder, PAYLOAD, Tap, datagram, raw_sender, shell, watch};
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_needs::{namespaces, need};
use quincunx_netns::NetnsNode;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, run};
use quincunx_scenario::Scenario;
use quincunx_wire::{Gid, Operation, Position, Psn, QpNumber, RoceHeader, UdpPath, parse_datagram};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// Bytes of each vector.
const VECTOR: u64 = 256 << 10;

/// Frames that were seen last, of which some come again.
const REMEMBERED: usize = 512;

/// How far ahead of what was seen last frames are forged.
const AHEAD: usize = 16;

/// How much of it there is.
#[derive(Clone, Copy)]
struct Attack {
    frames_a_second: u64,
    /// Cases before the attack, in it and after it. Results are compared in the first and the last repetition of each.
    cases: usize,
    /// Repetitions of the collective in a case.
    iterations: u32,
}

/// What a switch process has used so far.
#[derive(Clone, Copy, Default)]
struct Used {
    resident: u64,
    processor: Duration,
}

impl Used {
    fn of(process: u32) -> Self {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
        let resident = read("status").lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        });
        // After the name, which may have blanks: the 14th and 15th field, in hundredths of a second.
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Self { resident: resident.unwrap() << 10, processor: Duration::from_millis(10 * ticks) }
    }
}

/// A phase of a run: what a collective took, and what the switch used meanwhile.
struct Phase {
    microseconds: f64,
    wall: Duration,
    used: Used,
    sent: u64,
}

struct Outcome {
    wrong: u64,
    ended: bool,
    phases: Vec<Phase>,
    dropped: BTreeMap<String, u64>,
}

fn attacked(design: &str, attack: Attack) -> Outcome {
    let links = RealLinks { mtu: 1500, is_limited: false };
    let changes = ["group.mtu=1024", "group.message=1", "group.window=16"].map(|text| text.parse().unwrap());
    let scenario = Scenario::find_for(&links, "star-2", &changes, CATALOG).unwrap();
    let one = CATALOG.find(design, FabricKind::Tree).unwrap();
    let setup = GroupsSetup::new(CATALOG, &[one], &scenario).unwrap();
    let case = Case {
        design: design.into(),
        collective: "all_reduce".into(),
        in_place: false,
        root: 0,
        bytes: VECTOR,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: attack.iterations,
        warm_up: 1,
        tokens: None,
    };
    let plan = Plan { setup, cases: vec![case; 3 * attack.cases] };
    let shape = scenario.fabric.shape().unwrap();
    let kind = LinkKind::Netns { rate: None, mtu: 1500 };
    let mut fabric =
        Processes::start(&shape, kind, Path::new(PROGRAM), ChildArguments::default(), None).unwrap();
    let namespaces = fabric.namespaces().unwrap();
    let (hub, host) = (NetnsNode::Switch(0), NetnsNode::Host(0));
    let intruder = Intruder::attach(namespaces);
    shell(namespaces, hub, "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $each; done");
    let tap = Tap::new(namespaces);
    let (foreign, own) = (raw_sender(intruder.namespace()), raw_sender(&namespaces.namespace(host)));
    let switch = fabric.process("switch0").unwrap();

    let (stop, on, sent) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let seen = Mutex::new(Seen::default());
    let (mut wrong, mut ended, mut phases) = (0, false, Vec::new());
    thread::scope(|scope| {
        let (halt, seen, on, count) = (&stop, &seen, &on, &sent);
        scope.spawn(move || remember(&tap, halt, seen));
        scope.spawn(move || send([&foreign, &own], attack, [halt, on], seen, count));
        let mut before = (Instant::now(), Used::of(switch), 0);
        let mut times = Vec::new();
        let done = run(&mut fabric, &plan, |row| {
            wrong += row.wrong;
            times.push(row.time_us);
            if times.len() < attack.cases {
                return;
            }
            let microseconds = times.drain(..).sum::<f64>() / attack.cases as f64;
            on.store(phases.is_empty(), Ordering::Relaxed);
            let now = (Instant::now(), Used::of(switch), sent.load(Ordering::Relaxed));
            let used = Used { resident: now.1.resident, processor: now.1.processor - before.1.processor };
            phases.push(Phase { microseconds, wall: now.0 - before.0, used, sent: now.2 - before.2 });
            before = now;
        });
        ended = done.is_ok();
        stop.store(true, Ordering::Relaxed);
    });
    let dropped = fabric.end_switches().remove("switch0").unwrap_or_default();
    Outcome { wrong, ended, phases, dropped }
}

/// What the first rank has sent last, the first frame of each batch.
#[derive(Default)]
struct Seen {
    frames: VecDeque<(RoceHeader, Vec<u8>)>,
    /// The newest that has a full payload.
    newest: Option<RoceHeader>,
}

fn remember(tap: &Tap, stop: &AtomicBool, seen: &Mutex<Seen>) {
    watch(tap, stop, |header, payload| {
        let mut seen = seen.lock().unwrap();
        seen.frames.push_back((header, payload.to_vec()));
        if seen.frames.len() > REMEMBERED {
            seen.frames.pop_front();
        }
        if payload.len() == PAYLOAD {
            seen.newest = Some(header);
        }
    });
}

/// Numbers in no order: xorshift, of a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// Sends at the rate that is asked for, while it is on.
fn send(
    [foreign, own]: [&OwnedFd; 2],
    attack: Attack,
    [stop, on]: [&AtomicBool; 2],
    seen: &Mutex<Seen>,
    sent: &AtomicU64,
) {
    let to = SockaddrStorage::from(SocketAddr::new(NetnsNode::Switch(0).address(), 0));
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut begun, mut due) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let newest = seen.lock().unwrap().newest;
        let Some(newest) = newest.filter(|_| on.load(Ordering::Relaxed)) else {
            thread::sleep(Duration::from_millis(1));
            (begun, due) = (Instant::now(), 0);
            continue;
        };
        // What the machine could not keep up with does not come later all at once.
        let asked = (begun.elapsed().as_nanos() * u128::from(attack.frames_a_second) / 1_000_000_000) as u64;
        due = due.max(asked.saturating_sub(attack.frames_a_second / 100));
        if due >= asked {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        let (header, payload) = {
            let seen = seen.lock().unwrap();
            seen.frames[chance.below(seen.frames.len())].clone()
        };
        let next = |chance: &mut Chance| {
            let psn = Psn::new(newest.psn.value() + 1 + chance.below(AHEAD) as u32);
            datagram(&RoceHeader { psn, ..newest }, &[0x42; PAYLOAD])
        };
        while due < asked {
            due += 1;
            let (by, frame) = match due % 6 {
                0 | 1 => (foreign, next(&mut chance)),
                2 => (own, datagram(&header, &payload)),
                3 => (own, mutated(next(&mut chance), &mut chance)),
                4 => (own, cut(datagram(&header, &payload), &mut chance)),
                _ => (own, noise(datagram(&header, &payload), &mut chance)),
            };
            if sendto(by.as_raw_fd(), &frame, &to, MsgFlags::empty()).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
            if due % 16 == 0 {
                break;
            }
        }
    }
}

/// IPv4 and UDP, which stay as they are: what does not reach the switch says nothing of it.
const BELOW: usize = 28;

/// The byte of the transport header that switches may change on the way (FECN and BECN): the CRC does not cover it.
const UNCOVERED: usize = BELOW + 4;

/// One to eight bits turned over, without another CRC.
fn mutated(mut frame: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    // As many bits twice would be none.
    let first = BELOW + chance.below(frame.len() - BELOW);
    let first = if first == UNCOVERED { first + 1 } else { first };
    frame[first] ^= 1 << chance.below(8);
    for _ in 0..chance.below(8) {
        let place = BELOW + chance.below(frame.len() - BELOW);
        if place != first {
            frame[place] ^= 1 << chance.below(8);
        }
    }
    frame
}

/// The lengths of IPv4 and UDP follow.
fn cut(mut frame: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    frame.truncate(BELOW + chance.below(frame.len() - BELOW));
    let total = frame.len() as u16;
    frame[2..4].copy_from_slice(&total.to_be_bytes());
    frame[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    frame
}

/// Anything, below the same addresses.
fn noise(mut frame: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    for byte in &mut frame[BELOW..] {
        *byte = chance.below(256) as u8;
    }
    frame
}

/// From the environment: frames a second, and seconds of each design.
fn asked() -> Option<(u64, usize)> {
    let said = std::env::var("QUINCUNX_HOSTILE").ok()?;
    let (rate, seconds) = said.split_once(',').expect("frames a second, and seconds: 100000,60");
    Some((rate.parse().expect("frames a second"), seconds.parse().expect("seconds")))
}

#[test]
fn hostile_frames_change_no_result_and_take_no_memory() {
    need!(namespaces());
    let long = asked();
    for design in ["epic-1", "epic-2", "epic-3"] {
        let attack = match long {
            // An AllReduce takes some milliseconds, more of them meanwhile.
            Some((frames_a_second, seconds)) => {
                Attack { frames_a_second, cases: 10 * seconds, iterations: 10 }
            }
            None => Attack { frames_a_second: 20_000, cases: 10, iterations: 2 },
        };
        let Outcome { wrong, ended, phases, dropped } = attacked(design, attack);
        assert!(ended && wrong == 0, "{design}: {wrong} wrong elements, {dropped:?}");
        let [before, during, after] = &phases[..] else { panic!("three phases, found {}", phases.len()) };
        if long.is_some() {
            table(design, &phases, &dropped);
        }
        assert!(during.sent > 100, "{design}: {} frames", during.sent);
        // Three of six are no frames at all, two come by another port: a socket that overflows loses some before anybody looks.
        let refused: u64 = dropped.values().sum();
        assert!(refused > during.sent / 3, "{design}: {refused} of {}: {dropped:?}", during.sent);
        let grown = after.used.resident.saturating_sub(before.used.resident);
        assert!(grown < 4 << 20, "{design}: the switch has grown by {grown} bytes");
    }
}

#[test]
fn what_is_mutated_is_no_frame() {
    let mut chance = Chance(1);
    let ends = [1, 2].map(|last| Gid::from([10, 0, 0, last]));
    let header =
        RoceHeader::new(ends[0], ends[1], QpNumber::new(17), Psn::new(5), Operation::Send(Position::Middle));
    let path =
        UdpPath { source: ends[0], destination: ends[1], source_port: header.source_port, traffic_class: 0 };
    let whole = datagram(&header, &[7; PAYLOAD]);
    assert!(parse_datagram(&path, &whole[BELOW..]).is_ok());
    for _ in 0..50_000 {
        let frame = mutated(whole.clone(), &mut chance);
        assert!(parse_datagram(&path, &frame[BELOW..]).is_err(), "{:?}", &frame[BELOW..][..12]);
    }
}

/// What it costs.
fn table(design: &str, phases: &[Phase], dropped: &BTreeMap<String, u64>) {
    println!("{design}: {dropped:?}");
    println!("  {:<8}{:>14}{:>14}{:>12}{:>12}", "", "AllReduce us", "frames/s", "switch", "MiB");
    for (name, Phase { microseconds, wall, used, sent }) in ["before", "under it", "after"].iter().zip(phases)
    {
        let (share, rate) =
            (used.processor.as_secs_f64() / wall.as_secs_f64(), *sent as f64 / wall.as_secs_f64());
        println!(
            "  {name:<8}{microseconds:>14.0}{rate:>14.0}{:>11.0}%{:>12.1}",
            100.0 * share,
            used.resident as f64 / f64::from(1 << 20)
        );
    }
}
