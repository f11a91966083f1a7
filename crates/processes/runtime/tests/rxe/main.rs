//! Our queue pair speaks with one that nobody here wrote: the Linux kernel's software RoCE, live, in a guest that
//! `tools/rxe-guest` boots. Needs root, iproute2, QEMU, the verbs programs and, the first time, Debian's packages.

mod guest;
mod peer;
mod pingpong;
mod write;

use guest::{Guest, OUR_PLACE};
use peer::EXCHANGE_PORT;
use pingpong::Kernel;
use quincunx_needs::{Missing, need};
use std::net::TcpListener;
use std::sync::OnceLock;

/// Bytes of a message.
const ONE_PACKET: usize = 64;
const FOUR_PACKETS: usize = 4096;

/// Messages each way.
const COUNT: usize = 100;

const fn ping_pong(kernel: Kernel, size: usize, loss: bool) -> pingpong::PingPongRun {
    pingpong::PingPongRun { kernel, size, count: COUNT, loss }
}

/// All runs to and fro ...
const PING_PONGS: [pingpong::PingPongRun; 6] = [
    ping_pong(Kernel::Client, ONE_PACKET, false),
    ping_pong(Kernel::Client, FOUR_PACKETS, false),
    ping_pong(Kernel::Server, ONE_PACKET, false),
    ping_pong(Kernel::Server, FOUR_PACKETS, false),
    ping_pong(Kernel::Client, FOUR_PACKETS, true),
    ping_pong(Kernel::Server, FOUR_PACKETS, true),
];

/// ... and all that write.
const WRITES: [write::WriteRun; 2] =
    [write::WriteRun { count: COUNT, loss: false }, write::WriteRun { count: COUNT, loss: true }];

/// What became of them.
struct Reports {
    ping_pongs: Vec<pingpong::Report>,
    writes: Vec<write::Report>,
}

/// The reports of all runs, which one guest has for its job: booting is what takes the time, so whichever test comes first
/// does it for all.
fn reports() -> Result<&'static Reports, Missing> {
    static REPORTS: OnceLock<Result<Reports, Missing>> = OnceLock::new();
    REPORTS.get_or_init(play_all).as_ref().map_err(Missing::clone)
}

fn play_all() -> Result<Reports, Missing> {
    let image = guest::image()?;
    let commands = PING_PONGS
        .iter()
        .map(pingpong::PingPongRun::command)
        .chain(WRITES.iter().map(write::WriteRun::command));
    let mut guest = Guest::boot(&image, &commands.collect::<Vec<_>>());
    let play_here = || {
        guest.fabric().enter(OUR_PLACE).expect("the namespace is there");
        let listener = TcpListener::bind((OUR_PLACE.address(), EXCHANGE_PORT)).expect("nobody else is here");
        listener.set_nonblocking(true).expect("a socket");
        let mut index = 0..;
        let mut next = || index.next().expect("there is no end");
        let ping_pongs =
            PING_PONGS.iter().map(|run| pingpong::play(&mut guest, &listener, next(), run)).collect();
        let writes = WRITES.iter().map(|run| write::play(&mut guest, &listener, next(), run)).collect();
        Reports { ping_pongs, writes }
    };
    // In a thread of its own, for it goes to another network.
    let reports = std::thread::scope(|scope| scope.spawn(play_here).join());
    let reports = reports.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    for line in guest.console() {
        println!("{line}");
    }
    PING_PONGS.iter().zip(&reports.ping_pongs).for_each(|(run, report)| println!("{run:?}\n  {report:?}"));
    WRITES.iter().zip(&reports.writes).for_each(|(run, report)| println!("{run:?}\n  {report:?}"));
    Ok(reports)
}

/// The runs to and fro that `pick` picks. Everything arrived, and both ends say so.
fn complete(
    reports: &'static Reports,
    pick: impl Fn(&pingpong::PingPongRun) -> bool,
) -> impl Iterator<Item = &'static pingpong::Report> {
    PING_PONGS.iter().zip(&reports.ping_pongs).filter(move |(run, _)| pick(run)).map(|(run, report)| {
        assert_eq!((report.status, report.complaint), (0, false), "the program is content: {run:?}");
        assert_eq!(report.received, run.count, "{run:?}");
        // The last acknowledge may be lost, and the program gone when we ask for it again.
        let may_lack = usize::from(run.kernel == Kernel::Client);
        assert!((run.count - may_lack..=run.count).contains(&report.sent), "{} sent: {run:?}", report.sent);
        assert!(report.echo_is_right, "{run:?}");
        report.tally.assert_understood();
        report
    })
}

#[test]
fn the_kernel_as_client_gets_its_messages_through_and_ours() {
    let found = complete(need!(reports()), |run| run.kernel == Kernel::Client && !run.loss).count();
    assert_eq!(found, 2);
}

#[test]
fn the_kernel_as_server_gets_our_messages_and_answers_them() {
    let found = complete(need!(reports()), |run| run.kernel == Kernel::Server && !run.loss).count();
    assert_eq!(found, 2);
}

#[test]
fn both_ends_go_back_when_frames_are_lost_each_way() {
    for report in complete(need!(reports()), |run| run.loss) {
        report.tally.assert_repaired();
        // Four packets and an acknowledge for each message would do without loss.
        let least = 5 * COUNT as u64;
        assert!(report.tally.sent > least && report.tally.received > least, "{report:?}");
    }
}

#[test]
fn what_we_write_to_the_kernels_memory_it_writes_to_ours() {
    let reports = need!(reports());
    for (run, report) in WRITES.iter().zip(&reports.writes) {
        assert_eq!(report.status, 0, "the program is content: {run:?}");
        assert!(report.is_right, "{run:?}");
        assert_eq!(report.executed, 4 * COUNT as u32, "{run:?}");
        report.tally.assert_understood();
        if run.loss {
            report.tally.assert_repaired();
        }
    }
}
