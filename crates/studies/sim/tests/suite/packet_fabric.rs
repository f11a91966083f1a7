//! Every design gives the right result of every collective, on every kind of fabric, with and without loss.

use quincunx_collective::{Collective, LengthOnly, Rank};
use quincunx_driver_des::{Departure, Observer};
use quincunx_engine::Frame;
use quincunx_nodes::Node;
use quincunx_scenario::{Fabric, Scenario};
use quincunx_sim::packet_fabric::{LinkUse, Row, SimulatedGroup, SimulationError, simulate};
use quincunx_sim::{Request, ignore_progress};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::RoceHeader;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::requests::{SUM, lengths, request, scenario};

const REDUCE: Collective = Collective::Reduce { root: Rank(0) };
const EPIC: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const HOSTS: [&str; 3] = ["ring", "tree", "direct"];

/// Small packets and windows.
fn on(fabric: &str, changes: &[&str]) -> Scenario {
    scenario(fabric, &[&["group.mtu=256B", "group.message=4", "group.window=4"], changes].concat())
}

fn run(scenario: &Scenario, design: &str, collective: Collective, size: u64) -> Row {
    simulate(&request(scenario, design, collective, size)).unwrap()
}

fn refused(scenario: &Scenario, design: &str, collective: Collective, size: u64) -> SimulationError {
    simulate(&request(scenario, design, collective, size)).unwrap_err()
}

fn assert_right(row: &Row) {
    assert_eq!(row.wrong, Some(0), "{} {}", row.design, row.collective);
}

#[test]
fn every_design_gives_the_right_result_of_every_collective_on_a_star() {
    for name in EPIC.into_iter().chain(HOSTS) {
        for collective in Collective::PRIMITIVES {
            assert_right(&run(&on("star-8", &[]), name, collective, 16 << 10));
        }
    }
}

#[test]
fn many_senders_to_one_host_wait_for_its_link_and_do_not_give_up() {
    let preset = scenario("epic-star8", &[]);
    for name in HOSTS {
        let request = lengths(request(&preset, name, Collective::AllReduce, 16 << 20));
        let row = simulate(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(row.time < Duration::from_millis(10), "{name} sends again what was not lost: {}", row.time);
    }
}

#[test]
fn hosts_that_relay_gather_everything_whatever_the_tree_and_whatever_is_lost() {
    for shape in ["star-2", "star-8", "tree-3-2", "tree-2x4", "tree-2x2x2"] {
        for size in [0, 16 << 10, 200 << 10] {
            for loss in ["loss.probability=0%", "loss.probability=2%"] {
                let lossy = on(shape, &["loss.links=2", loss]);
                assert_right(&run(&lossy, "multiwrite", Collective::AllGather, size));
            }
        }
    }
}

#[test]
fn hosts_that_relay_send_once_what_several_need_under_another_switch() {
    // Of the two links between three switches, each carries what the hosts under its switch gather from the others: four
    // vectors, or sixteen where each is sent for each host.
    let between = |name| {
        let row = run(&on("tree-2x4", &[]), name, Collective::AllGather, 512 << 10);
        let is_between = |link: &&LinkUse| link.joins_ranks == [false, false];
        row.links.iter().filter(is_between).map(|link| link.statistics.bytes.bytes()).max().unwrap()
    };
    let share = between("multiwrite") as f64 / between("direct") as f64;
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn where_a_rank_has_one_link_the_way_to_it_limits_an_all_gather_however_little_goes_up() {
    // Short windows, so that no queue pair holds its link for long; what waits behind others is not lost.
    let changes = ["group.window=2", "group.acknowledge_every=16", "group.retry_timeout=10ms"];
    let scenario = scenario("epic-star8", &changes);
    // Of the ranks' 4 MiB each seven reach every one by a link of 100 Gbit/s.
    let vector = 4 << 20;
    let limit = Duration::from_nanos(7 * vector * 8 / 100);
    for (name, up, slack) in [("direct", 7.0, 1.08), ("multiwrite", 7.0, 1.03), ("epic-3", 1.0, 1.22)] {
        let row = simulate(&lengths(request(&scenario, name, Collective::AllGather, 8 * vector))).unwrap();
        let vectors = |end: usize| {
            let of_ranks = row.links.iter().filter(|link| link.joins_ranks[end]);
            of_ranks.map(|link| link.statistics.bytes.bytes()).max().unwrap() as f64 / vector as f64
        };
        let found = [vectors(0), vectors(1)];
        assert!(
            (found[0] / up - 1.0).abs() < 0.05 && (found[1] / 7.0 - 1.0).abs() < 0.05,
            "{name}: {found:?}"
        );
        let share = row.time.as_secs_f64() / limit.as_secs_f64();
        assert!((1.0..slack).contains(&share), "{name}: {share:.3} of what the links to ranks take");
    }
}

#[test]
fn more_hosts_than_an_immediate_names_relay_only_what_has_contents() {
    let gather = request(&on("tree-4x10", &[]), "multiwrite", Collective::AllGather, 160 << 10);
    assert_right(&simulate(&gather).unwrap());
    let refused = simulate(&lengths(gather)).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 40"),
        "{refused}"
    );
}

#[test]
fn every_design_gives_the_right_result_of_every_collective_on_a_tree() {
    for name in EPIC.into_iter().chain(HOSTS) {
        for collective in Collective::PRIMITIVES {
            assert_right(&run(&on("tree-3-2", &[]), name, collective, 16 << 10));
        }
    }
}

#[test]
fn a_ring_of_hosts_without_switches_gives_the_right_result_of_every_collective() {
    for ranks in [2, 3, 8] {
        for collective in Collective::PRIMITIVES {
            assert_right(&run(&on(&format!("ring-{ranks}"), &[]), "ring", collective, 12 << 10));
        }
    }
}

/// What a run of tiny windows takes at most if nobody waits for a retry time-out.
const LESS_THAN_A_TIME_OUT: Duration = Duration::from_millis(2);

/// The next root used to begin before an earlier rank took part; what that one turned away was repaired by a time-out each.
#[test]
fn no_root_that_begins_early_costs_a_time_out_when_nothing_is_lost() {
    for selective in ["group.selective=true", "group.selective=false"] {
        for overlap in ["group.overlap=true", "group.overlap=false"] {
            for (window, message) in [(1, 1), (2, 1), (2, 2), (4, 1)] {
                let shape = [
                    format!("group.window={window}"),
                    format!("group.message={message}"),
                    "group.mtu=16B".to_owned(),
                ];
                let [window, message, mtu] = &shape;
                let timeout = "group.retry_timeout=20ms";
                let changes = [selective, overlap, window, message, mtu, timeout, "measure.stepwise=false"];
                for name in EPIC {
                    for collective in [Collective::AllGather, Collective::ReduceScatter] {
                        for size in [64, 1024] {
                            let row = run(&scenario("tree-2x2", &changes), name, collective, size);
                            assert_right(&row);
                            assert!(
                                row.time < LESS_THAN_A_TIME_OUT,
                                "{name} {collective} {changes:?} {}",
                                row.time
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn invocations_overlap_unless_the_design_is_told_otherwise() {
    for name in ["epic-2", "epic-3"] {
        for collective in [Collective::ReduceScatter, Collective::AllGather] {
            let [together, in_turn] = ["group.overlap=true", "group.overlap=false"].map(|overlap| {
                let mut changes = vec![overlap];
                // An AllGather's confirmation is a round that follows its Broadcasts either way.
                if collective == Collective::AllGather {
                    changes.push("group.confirm=false");
                }
                let row = run(&scenario("epic-star8", &changes), name, collective, 4 << 10);
                assert_right(&row);
                row.time
            });
            assert!(together <= Duration::from_micros(5), "{name} {collective}: {together}");
            assert!(in_turn > together * 5, "{name} {collective}: {in_turn}, one after the other");
        }
    }
}

#[test]
fn parts_that_run_as_one_collective_give_the_same_as_parts_that_run_step_by_step() {
    for stepwise in ["measure.stepwise=false", "measure.stepwise=true"] {
        for collective in [Collective::ReduceScatter, Collective::AllGather] {
            assert_right(&run(
                &on("star-4", &[stepwise, "group.overlap=false"]),
                "epic-3",
                collective,
                16 << 10,
            ));
        }
    }
}

#[test]
fn results_are_right_when_every_link_loses_frames() {
    let lossy = on("star-8", &["loss.links=8", "loss.probability=5%"]);
    for name in EPIC.into_iter().chain(HOSTS) {
        for seed in 0..3 {
            let request = Request { seed, ..request(&lossy, name, Collective::AllReduce, 16 << 10) };
            let row = simulate(&request).unwrap();
            assert!(row.lost > 0);
            assert_right(&row);
        }
    }
}

#[test]
fn lengths_alone_take_the_same_time_as_numbers() {
    for name in EPIC.into_iter().chain(HOSTS) {
        let numbers = request(&on("star-8", &[]), name, Collective::AllReduce, 64 << 10);
        let [numbers, lengths] =
            [numbers.clone(), lengths(numbers)].map(|request| simulate(&request).unwrap());
        assert_eq!(Row { wrong: None, ..numbers }, lengths);
    }
}

#[test]
fn an_aggregate_crosses_each_link_once() {
    let star = on("star-8", &["group.acknowledge_every=1"]);
    let [row, ring] = ["epic-3", "ring"].map(|name| run(&star, name, Collective::AllReduce, 64 << 10));
    let busiest =
        |row: &Row| row.links.iter().map(|link| link.statistics.bytes).max().unwrap().bytes() as f64;
    let ratio = busiest(&ring) / busiest(&row);
    // 2(n-1)/n of the vector against one; acknowledges and control messages make the rest.
    assert!((1.5..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_mode_iii_switch_holds_two_windows() {
    let row = run(&on("star-8", &[]), "epic-3", Collective::AllReduce, 64 << 10);
    assert_eq!(row.switch_buffer, ByteCount::new(2 * 16 * (256 + 4)));
}

#[test]
fn an_ethernet_frame_counts_from_its_preamble_to_the_gap_behind_it() {
    let mut scenario = on("star-2", &[]);
    let Fabric::Packet(fabric) = &mut scenario.fabric else { panic!("a packet fabric") };
    fabric.link.framing = None;
    let row = run(&scenario, "epic-2", Collective::Barrier, 0);
    // The control message: Ethernet 14, IPv4 20, UDP 8, BTH 12, immediate 4, ICRC 4; 24 around it. The ACK is as long.
    let upward = &row.links[0].statistics;
    assert_eq!((upward.frames, upward.bytes), (2, ByteCount::new(2 * (62 + 24))));
}

#[test]
fn background_traffic_on_one_link_slows_an_aggregate_down_to_what_it_leaves() {
    let time = |changes: &[&str]| {
        run(&scenario("epic-star8", changes), "epic-3", Collective::AllReduce, 1 << 20).time
    };
    let slowed = time(&["congestion.background=50Gbit/s"]);
    let ratio = slowed.as_micros_f64() / time(&[]).as_micros_f64();
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

/// Seven ranks send to one at once. Control begins when the first marks have come back, so what is on its way by then is
/// queued all the same.
#[test]
fn marks_and_rate_control_keep_the_queue_of_an_incast_short() {
    let reduce = |is_controlled: bool| {
        let changes = ["hosts.chunk=64KiB", "hosts.lockstep=false", "hosts.window=64"];
        let mut scenario = scenario("epic-star8", &changes);
        if is_controlled {
            let controlled = [&changes[..], &["congestion.dcqcn=true"]].concat();
            scenario = crate::requests::scenario("epic-star8", &controlled);
        }
        // A file with marks that nobody reads would be refused.
        scenario.faults.congestion.mark_above = Some(ByteCount::new(64 << 10));
        let row = run(&scenario, "direct", REDUCE, 4 << 20);
        assert_right(&row);
        let peak = row.links.iter().map(|link| link.statistics.peak_queue).max().unwrap();
        (peak, row.links.iter().map(|link| link.statistics.marked).sum::<u64>())
    };
    let (free, unmarked) = reduce(false);
    let (controlled, marked) = reduce(true);
    assert_eq!(unmarked, 0, "senders without control allow no marks");
    assert!(marked > 0);
    assert!(controlled < free, "{controlled} with control, {free} without");
}

#[test]
fn a_queue_with_a_limit_drops_and_what_it_drops_is_sent_again() {
    let row = run(&scenario("epic-star8", &["congestion.queue=64KiB"]), "direct", REDUCE, 1 << 20);
    assert!(row.links.iter().any(|link| link.statistics.refused > 0));
    assert_right(&row);
}

/// Seven ranks send to one at once, with room at the switch for 256 KiB.
#[test]
fn pauses_keep_an_incast_from_dropping_and_its_receiver_busy() {
    let reduce = |pause: &[&str]| {
        let changes = [&["congestion.queue=256KiB"], pause].concat();
        let row = run(&scenario("epic-star8", &changes), "direct", REDUCE, 1 << 20);
        assert_right(&row);
        row
    };
    let refused = |row: &Row| row.links.iter().map(|link| link.statistics.refused).sum::<u64>();
    let pause = ["congestion.pause.xoff=4KiB", "congestion.pause.xon=4KiB"];
    let (dropping, pausing) = (reduce(&[]), reduce(&pause));
    assert!(refused(&dropping) > 0);
    assert_eq!(refused(&pausing), 0);
    assert!(pausing.links.iter().any(|link| link.statistics.pauses > 0));
    let receiver = pausing.links.iter().find(|link| link.to == "host-0").unwrap();
    assert!(receiver.utilisation > 0.95, "{}", receiver.utilisation);
    assert!(pausing.time < dropping.time, "{} with pauses, {} without", pausing.time, dropping.time);
}

#[test]
fn results_are_right_with_pauses_wherever_frames_meet() {
    // At zero every frame pauses its link; acknowledges must go on, or data that fills a buffer waits for them and they for it.
    for xoff in [0, 600] {
        let thresholds =
            [format!("congestion.pause.xoff={xoff}B"), format!("congestion.pause.xon={}B", xoff / 2)];
        let pauses = on("tree-3-2", &thresholds.each_ref().map(String::as_str));
        for name in EPIC.into_iter().chain(HOSTS) {
            for collective in Collective::PRIMITIVES {
                assert_right(&run(&pauses, name, collective, 16 << 10));
            }
        }
    }
}

#[test]
fn a_run_that_ends_in_a_pause_says_which_link_is_paused() {
    let changes = ["congestion.pause.xoff=600B", "congestion.pause.xon=300B", "measure.limit=8us"];
    let error = refused(&on("star-8", &changes), "direct", REDUCE, 1 << 20);
    let SimulationError::Paused { links, .. } = &error else { panic!("{error}") };
    assert!(links.starts_with("host-") && links.contains(" > switch-0"), "{error}");
}

#[test]
fn a_design_with_switches_is_refused_on_a_ring_of_hosts() {
    for name in ["epic-3", "tree", "multiwrite"] {
        let error = refused(&on("ring-4", &[]), name, Collective::AllGather, 64).to_string();
        let expected = format!(
            "expected a fabric with switches for {name}, found hosts that are joined directly; choose a tree such as star-8"
        );
        // Hosts that relay want domains, if there are no switches.
        assert!(error == expected || name == "multiwrite" && error.contains("two domains"), "{error}");
    }
}

#[test]
fn a_size_that_does_not_split_over_the_ranks_is_refused() {
    let error = refused(&on("star-8", &[]), "ring", Collective::AllGather, 100);
    assert_eq!(error, SimulationError::Parts { ranks: 8, size: 100 });
}

#[test]
fn a_collective_that_cannot_end_in_time_says_how_far_it_came() {
    let error = refused(&on("star-8", &["measure.limit=2us"]), "epic-3", Collective::AllReduce, 1 << 20);
    let after = Duration::from_micros(2);
    assert_eq!(error, SimulationError::Unfinished { unfinished: 8, ranks: 8, after });
}

/// Hashes every frame that is sent.
#[derive(Default)]
struct Trace(DefaultHasher);

impl Observer<Node<LengthOnly>> for Trace {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, LengthOnly>) {
        (departure, frame.header, frame.payload).hash(&mut self.0);
    }
}

#[test]
fn a_seed_replays_a_lossy_collective_to_the_bit() {
    let trace = |name: &str, seed| {
        let lossy = on("star-8", &["loss.links=3", "loss.probability=5%"]);
        let request = Request { seed, ..request(&lossy, name, Collective::AllReduce, 32 << 10) };
        let mut group = SimulatedGroup::with_observer(&request, Trace::default()).unwrap();
        let buffer = LengthOnly::new(32 << 10);
        let buffers = vec![(buffer, buffer); 8];
        group.run(Collective::AllReduce, SUM, buffers, Duration::from_secs(1), &mut ignore_progress).unwrap();
        group.simulation().observer().0.finish()
    };
    for name in EPIC.into_iter().chain(HOSTS) {
        assert_eq!(trace(name, 7), trace(name, 7), "{name}");
        assert_ne!(trace(name, 7), trace(name, 8), "{name}");
    }
}

/// A frame from host to host passes a host's end, a switch and another host's end.
#[test]
fn time_in_hosts_and_switches_comes_to_that_on_links() {
    let time = |changes: &[&str]| {
        let scenario = scenario("star-2", &[&["hosts.confirm=false"], changes].concat());
        run(&scenario, "direct", Collective::AllGather, 64).time
    };
    let micros = Duration::from_micros;
    // There with the data and back with its acknowledge.
    assert_eq!(time(&["switch.latency=3us"]) - time(&[]), micros(6));
    assert_eq!(time(&["nic.latency=1us"]) - time(&[]), micros(4));
    assert_eq!(
        time(&["nic.latency=1us", "switch.latency=3us"]) - time(&["link.latency=3.5us"]),
        Duration::ZERO
    );
}
