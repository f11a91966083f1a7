//! EPIC with hosts that nobody here wrote: four Linux kernels, each in a guest of its own with its software RoCE, below our switches on
//! the paper's tree (EPIC 7.2, J.1). CommLib runs in the guests, over libibverbs. Needs root, iproute2, QEMU, the verbs programs and,
//! the first time, Debian's packages; one boot of four guests has all runs without losses, another all with, a third those over IPv6, and a
//! fourth those in which switches tell hosts to slow down. In a fifth the three switches are kernels, too, in Mode-I.

mod wire;

use quincunx_designs::CATALOG;
use quincunx_fabric::Shape;
use quincunx_needs::{Missing, guest_image, guest_tool, need};
use quincunx_netns::NetnsNode;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, Row, run};
use quincunx_scenario::{Override, Scenario};
use quincunx_units::Duration;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use wire::{Frames, Tap};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// A spine, two leaves, four hosts.
const TREE: &str = "tree-3-2";

const DESIGNS: [&str; 3] = ["epic-1", "epic-2", "epic-3"];

const PRIMITIVES: [&str; 6] =
    ["all_reduce", "reduce", "broadcast", "barrier", "reduce_scatter", "all_gather"];

/// A folder for captures, which goes with this value.
struct Captures(PathBuf);

impl Captures {
    /// For whoever has the turn.
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests-captures");
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        Self(folder)
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        // What is left of a run is overwritten by the next.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What desynchronises the numbers of queue pairs that nobody synchronises: what flows one way only, from several roots, between what
/// flows both ways.
const MIXED: [(&str, u16); 8] = [
    ("reduce", 2),
    ("all_reduce", 0),
    ("broadcast", 0),
    ("broadcast", 1),
    ("broadcast", 2),
    ("broadcast", 3),
    ("reduce", 3),
    ("all_reduce", 0),
];

/// Several messages of several packets, the last of each shorter.
const BYTES: u64 = 200_000;

/// How long seven guests may take to boot and join.
const JOIN_LIMIT: Duration = Duration::from_secs(300);

/// How long a collective may take, and for how long a guest may be silent, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(300);
const SILENCE: &str = "60s";

/// What starts a rank in a guest.
fn launcher() -> Result<PathBuf, Missing> {
    let image = guest_image(Path::new(env!("CARGO_TARGET_TMPDIR")), Some(PROGRAM))?;
    let launcher = image.join("rank");
    let script = format!(
        "#!/bin/sh\nRXE_GUEST='{}' exec '{}' \"$@\"\n",
        image.display(),
        guest_tool("node.sh").display()
    );
    std::fs::write(&launcher, script).expect("the folder was built in");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&launcher, executable).expect("the file is ours");
    Ok(launcher)
}

fn case(design: &str, collective: &str, root: u16, bytes: u64) -> Case {
    Case {
        design: design.into(),
        collective: collective.into(),
        in_place: false,
        root,
        bytes,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 3,
        warm_up: 1,
        tokens: None,
    }
}

/// All cases of all designs.
fn cases() -> Vec<Case> {
    let each = PRIMITIVES.iter().map(|collective| (*collective, 1));
    let each: Vec<_> = each.chain(MIXED).collect();
    in_all_designs(&each, BYTES)
}

/// A barrier has no vector.
fn bytes_of(collective: &str, bytes: u64) -> u64 {
    if collective == "barrier" { 0 } else { bytes }
}

fn in_all_designs(collectives: &[(&str, u16)], bytes: u64) -> Vec<Case> {
    let of = |design| {
        collectives
            .iter()
            .map(move |(collective, root)| case(design, collective, *root, bytes_of(collective, bytes)))
    };
    DESIGNS.into_iter().flat_map(of).collect()
}

/// What four guests run, and how.
#[derive(Default)]
struct Play {
    /// What the switches do to frames, there and back.
    faults: &'static [&'static str],
    /// Keys of the groups.
    changes: &'static [&'static str],
    /// Addresses, and with them the GIDs of the guests' devices, are of IPv6.
    ipv6: bool,
    cases: Vec<Case>,
    /// Where the switches write their frames.
    captures: Option<PathBuf>,
    /// The switches are guests as well, with queue pairs of their kernels'.
    switches_are_guests: bool,
}

/// Runs a play among four guests.
fn play(launcher: &Path, play: Play) -> Result<Vec<Row>, String> {
    play_tapped(launcher, play).map(|(rows, _)| rows)
}

/// The same, with what each switch has sent if the switches are guests.
fn play_tapped(launcher: &Path, play: Play) -> Result<(Vec<Row>, Vec<Frames>), String> {
    let shape = Shape::for_ranks(TREE, 4).expect("a tree");
    let over_ipv4 = RealLinks { mtu: 1500, is_limited: false };
    let links = if play.ipv6 { over_ipv4.over_ipv6() } else { over_ipv4 };
    // Guests are slow: what is late is not lost.
    let changes = ["group.standard_verbs=true", "group.retry_timeout=200ms"].iter().chain(play.changes);
    let changes: Vec<Override> = changes.map(|text| text.parse().expect("a key")).collect();
    let scenario = Scenario::find_for(&links, &shape.to_string(), &changes, CATALOG).expect("a scenario");
    let played = DESIGNS.iter().filter(|name| play.cases.iter().any(|case| case.design == **name));
    let designs: Vec<_> = played.map(|name| CATALOG.named(name).expect("a design")).collect();
    let setup = GroupsSetup::new(CATALOG, &designs, &scenario).expect("they fit");
    let plan = Plan { setup: GroupsSetup { join: JOIN_LIMIT, limit: LIMIT, ..setup }, cases: play.cases };
    let arguments = ChildArguments {
        manager: ["--keep-alive", SILENCE].map(str::to_owned).into(),
        nodes: play.faults.iter().map(|word| (*word).to_owned()).collect(),
        packet_sockets: true,
        ipv6: play.ipv6,
        verbs: true,
        rank_launcher: Some(launcher.to_owned()),
        switch_launcher: play.switches_are_guests.then(|| launcher.to_owned()),
        ..ChildArguments::default()
    };
    let kind = LinkKind::Netns { rate: None, mtu: 1500 };
    let mut fabric = Processes::start(&shape, kind, Path::new(PROGRAM), arguments, play.captures)
        .expect("there are namespaces");
    let namespaces = fabric.namespaces().expect("there are some");
    let tapped = (0..shape.switches()).filter(|_| play.switches_are_guests);
    let taps: Vec<Tap> = tapped.map(|switch| Tap::at(namespaces, NetnsNode::Switch(switch))).collect();
    let mut rows = Vec::new();
    let done = run(&mut fabric, &plan, |row| {
        println!("{row}");
        rows.push(row);
    });
    for (switch, drops) in fabric.end_switches() {
        println!("{switch}: {drops:?}");
    }
    let sent = taps.into_iter().map(Tap::end).collect();
    match done {
        Ok(0) => Ok((rows, sent)),
        Ok(wrong) => Err(format!("{wrong} wrong elements")),
        Err(error) => Err(format!("after {} of {} cases: {error}", rows.len(), plan.cases.len())),
    }
}

/// Four guests at a time are enough for any machine, and one builds their image.
static TURN: Mutex<()> = Mutex::new(());

/// The rows without losses, and those with: whichever test comes first plays for all.
fn rows(with_loss: bool) -> Result<&'static [Row], Missing> {
    type Played = Result<Result<Vec<Row>, String>, Missing>;
    static ROWS: [OnceLock<Played>; 2] = [const { OnceLock::new() }; 2];
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let faults: &[&str] = if with_loss { &["--loss", "1%", "--seed", "7"] } else { &[] };
    let all = Play { faults, cases: cases(), ..Play::default() };
    let played = ROWS[usize::from(with_loss)].get_or_init(|| Ok(play(&launcher()?, all)));
    let rows = played.as_ref().map_err(Missing::clone)?;
    Ok(rows.as_ref().unwrap_or_else(|failure| panic!("{failure}")))
}

/// Every case of a design ran there, on its switches, and was right at every rank.
fn all_are_right(rows: &[Row], design: &str) {
    let found: Vec<(&str, i32)> = rows
        .iter()
        .filter(|row| row.design == design)
        .inspect(|row| assert_eq!((row.wrong, &row.fell_back), (0, &None), "{row}"))
        .map(|row| (row.collective.as_str(), row.root))
        .collect();
    let cases = cases();
    let expected: Vec<(&str, i32)> = cases
        .iter()
        .filter(|case| case.design == design)
        .map(|case| {
            let has_root = matches!(case.collective.as_str(), "reduce" | "broadcast");
            (case.collective.as_str(), if has_root { i32::from(case.root) } else { -1 })
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn all_primitives_are_right_among_kernels_below_switches_that_end_connections() {
    all_are_right(need!(rows(false)), "epic-1");
}

#[test]
fn all_primitives_are_right_among_kernels_below_switches_that_translate_connections() {
    all_are_right(need!(rows(false)), "epic-2");
}

#[test]
fn all_primitives_are_right_among_kernels_below_switches_that_augment_connections() {
    all_are_right(need!(rows(false)), "epic-3");
}

#[test]
fn all_of_it_is_right_when_one_in_a_hundred_frames_is_lost_there_and_back() {
    let rows = need!(rows(true));
    for design in DESIGNS {
        all_are_right(rows, design);
    }
}

/// The GIDs of the guests' devices are IPv6 addresses.
#[test]
fn all_primitives_are_right_in_all_modes_among_kernels_over_ipv6() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let launcher = need!(launcher());
    let captures = Captures::new();
    let cases = in_all_designs(&PRIMITIVES.map(|collective| (collective, 1)), 20_000);
    let count = cases.len();
    let played = Play { ipv6: true, cases, captures: Some(captures.0.clone()), ..Play::default() };
    let rows = play(&launcher, played).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(rows.iter().all(|row| row.wrong == 0 && row.fell_back.is_none()), "{rows:?}");
    assert_eq!(rows.len(), count);
    for leaf in ["switch1.pcapng", "switch2.pcapng"] {
        let kinds: Vec<_> = frames(&captures.0.join(leaf)).iter().map(|it| [it[12], it[13]]).collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == [0x86, 0xdd]), "{leaf}: IPv6 alone");
    }
}

/// The Ethernet frames of a switch's capture.
fn frames(capture: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(capture).expect("the switch has written it");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (mut at, mut found) = (0, Vec::new());
    while at + 8 <= bytes.len() {
        let (kind, length) = (word(at), word(at + 4));
        // An enhanced packet block.
        if let Some(frame) = bytes.get(at + 28..at + length)
            && kind == 6
        {
            found.push(frame.to_vec());
        }
        at += length;
    }
    found
}

/// Congestion notifications (opcode 0x81, annex A17) in a capture, and to whom.
fn notifications(capture: &Path) -> Vec<IpAddr> {
    // Ethernet 14, IPv4 20, UDP 8, and the BTH.
    let all = frames(capture).into_iter().filter(|frame| frame.get(42) == Some(&0x81));
    all.map(|frame| IpAddr::from([frame[30], frame[31], frame[32], frame[33]])).collect()
}

/// Ranks that run ahead of small pipes are told to slow down (EPIC 4.4). The kernel does not know what that means, and goes on.
#[test]
fn all_is_right_though_switches_send_kernels_congestion_notifications() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let launcher = need!(launcher());
    let captures = Captures::new();
    let rows = play(
        &launcher,
        Play {
            changes: &["group.slots=62", "group.run_ahead=true"],
            cases: vec![case("epic-3", "all_reduce", 0, 1 << 20), case("epic-3", "reduce", 2, 1 << 20)],
            captures: Some(captures.0.clone()),
            ..Play::default()
        },
    );
    let leaves = ["switch1.pcapng", "switch2.pcapng"].map(|name| notifications(&captures.0.join(name)));
    let rows = rows.unwrap_or_else(|failure| panic!("{failure}"));
    println!("congestion notifications: {:?}", leaves.each_ref().map(Vec::len));
    assert!(rows.iter().all(|row| row.wrong == 0) && rows.len() == 2, "{rows:?}");
    assert!(leaves.iter().any(|sent| !sent.is_empty()), "none was sent");
}

/// The switch's engine is the one that runs above our own queue pairs; whose they are is all that differs (EPIC J.1).
#[test]
fn all_primitives_are_right_in_mode_i_where_the_queue_pairs_of_switches_are_kernels_as_well() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let launcher = need!(launcher());
    let each: Vec<_> = PRIMITIVES.iter().map(|collective| (*collective, 1)).chain(MIXED).collect();
    let cases: Vec<Case> =
        each.iter().map(|&(name, root)| case("epic-1", name, root, bytes_of(name, BYTES))).collect();
    let count = cases.len();
    let played = Play { cases, switches_are_guests: true, ..Play::default() };
    let (rows, sent) = play_tapped(&launcher, played).unwrap_or_else(|failure| panic!("{failure}"));
    println!("frames of switches: {sent:?}");
    assert!(rows.iter().all(|row| row.wrong == 0 && row.fell_back.is_none()), "{rows:?}");
    assert_eq!(rows.len(), count);
    assert!(sent.len() == 3 && sent.iter().all(|of| of.kernels > 0 && of.others == 0), "{sent:?}");
}
