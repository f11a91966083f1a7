//! Every design gives the right result of every collective, on every kind of fabric, with and without loss.

use quincunx_collective::{Collective, DataType, LengthOnly, Rank, ReduceOp, Reduction};
use quincunx_control::Retry;
use quincunx_driver_des::{Departure, Observer, PauseConfig, QueueConfig};
use quincunx_engine::Frame;
use quincunx_fabric::TreeShape;
use quincunx_nodes::Station;
use quincunx_roce::RateConfig;
use quincunx_sim::packet_fabric::{
    Background, Case, Composition, Congestion, Contents, Design, Fabric, Framing, Group, HostPieces, LinkUse,
    LossyLinks, Row, Setup, SimulationError, simulate,
};
use quincunx_sim::unwatched;
use quincunx_units::{BitRate, ByteCount, Duration, Probability};
use quincunx_wire::RoceHeader;
use std::hash::{DefaultHasher, Hash, Hasher};

fn preset(name: &str) -> Setup {
    Setup::preset(name).expect("a preset of the paper")
}

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
const REDUCE: Collective = Collective::Reduce { root: Rank(0) };
const EPIC: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const HOSTS: [&str; 3] = ["ring", "tree", "direct"];

fn design(name: &str) -> Design {
    name.parse().unwrap()
}

fn on(fabric: Fabric) -> Setup {
    Setup { fabric, mtu: ByteCount::new(256), message: 4, window: 4, ..preset("epic-star8") }
}

fn tree(shape: &str) -> Fabric {
    Fabric::Tree(shape.parse::<TreeShape>().unwrap())
}

fn case(design: Design, collective: Collective, size: u64) -> Case {
    let size = ByteCount::new(size);
    Case { design, collective, reduction: SUM, size, contents: Contents::Numbers, seed: 1 }
}

fn assert_right(row: &Row) {
    assert_eq!(row.wrong, Some(0), "{} {}", row.design, row.collective);
}

#[test]
fn every_design_gives_the_right_result_of_every_collective_on_a_star() {
    for name in EPIC.into_iter().chain(HOSTS) {
        for collective in Collective::PRIMITIVES {
            assert_right(&simulate(&on(tree("star-8")), &case(design(name), collective, 16 << 10)).unwrap());
        }
    }
}

#[test]
fn hosts_that_relay_gather_everything_whatever_the_tree_and_whatever_is_lost() {
    for shape in ["star-2", "star-8", "tree-3-2", "tree-2x4", "tree-2x2x2"] {
        for size in [0, 16 << 10, 200 << 10] {
            let gather = case(design("multiwrite"), Collective::AllGather, size);
            assert_right(&simulate(&on(tree(shape)), &gather).unwrap());
            let lossy = Some(LossyLinks { links: 2, loss: Probability::new(0.02).unwrap() });
            let setup = Setup { lossy, ..on(tree(shape)) };
            assert_right(&simulate(&setup, &gather).unwrap());
        }
    }
}

#[test]
fn hosts_that_relay_send_once_what_several_need_under_another_switch() {
    // Of the two links between three switches, each carries what the hosts under its switch gather from the others: four
    // vectors, or sixteen where each is sent for each host.
    let between = |name| {
        let row =
            simulate(&on(tree("tree-2x4")), &case(design(name), Collective::AllGather, 512 << 10)).unwrap();
        let is_between = |link: &&LinkUse| link.joins_ranks == [false, false];
        row.links.iter().filter(is_between).map(|link| link.statistics.bytes.bytes()).max().unwrap()
    };
    let share = between("multiwrite") as f64 / between("direct") as f64;
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn where_a_rank_has_one_link_the_way_to_it_limits_an_all_gather_however_little_goes_up() {
    // Short windows, so that no queue pair holds its link for long; what waits behind others is not lost.
    let retry = Retry { timeout: Duration::from_millis(10), count: 7 };
    let setup = Setup { window: 2, acknowledge_every: 16, retry, ..preset("epic-star8") };
    // Of the ranks' 4 MiB each seven reach every one by a link of 100 Gbit/s.
    let vector = 4 << 20;
    let limit = Duration::from_nanos(7 * vector * 8 / 100);
    for (name, up, slack) in [("direct", 7.0, 1.08), ("multiwrite", 7.0, 1.03), ("epic-3", 1.0, 1.22)] {
        let gather = case(design(name), Collective::AllGather, 8 * vector);
        let row = simulate(&setup, &Case { contents: Contents::LengthOnly, ..gather }).unwrap();
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
    let lengths = Case {
        contents: Contents::LengthOnly,
        ..case(design("multiwrite"), Collective::AllGather, 160 << 10)
    };
    let refused = simulate(&on(tree("tree-4x10")), &lengths).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 40"),
        "{refused}"
    );
    assert_right(
        &simulate(&on(tree("tree-4x10")), &Case { contents: Contents::Numbers, ..lengths }).unwrap(),
    );
}

#[test]
fn every_design_gives_the_right_result_of_every_collective_on_a_tree() {
    for name in EPIC.into_iter().chain(HOSTS) {
        for collective in Collective::PRIMITIVES {
            assert_right(
                &simulate(&on(tree("tree-3-2")), &case(design(name), collective, 16 << 10)).unwrap(),
            );
        }
    }
}

#[test]
fn a_ring_of_hosts_without_switches_gives_the_right_result_of_every_collective() {
    for ranks in [2, 3, 8] {
        for collective in Collective::PRIMITIVES {
            let row =
                simulate(&on(Fabric::Ring(ranks)), &case(design("ring"), collective, 12 << 10)).unwrap();
            assert_right(&row);
        }
    }
}

#[test]
fn parts_that_run_as_one_collective_give_the_same_as_parts_that_run_step_by_step() {
    for composition in [Composition::Pipelined, Composition::Stepwise] {
        for collective in [Collective::ReduceScatter, Collective::AllGather] {
            let setup = Setup { composition, ..on(tree("star-4")) };
            assert_right(&simulate(&setup, &case(design("epic-3"), collective, 16 << 10)).unwrap());
        }
    }
}

#[test]
fn results_are_right_when_every_link_loses_frames() {
    let lossy = Some(LossyLinks { links: 8, loss: Probability::new(0.05).unwrap() });
    for name in EPIC.into_iter().chain(HOSTS) {
        for seed in 0..3 {
            let setup = Setup { lossy, ..on(tree("star-8")) };
            let case = Case { seed, ..case(design(name), Collective::AllReduce, 16 << 10) };
            let row = simulate(&setup, &case).unwrap();
            assert!(row.lost > 0);
            assert_right(&row);
        }
    }
}

#[test]
fn lengths_alone_take_the_same_time_as_numbers() {
    for name in EPIC.into_iter().chain(HOSTS) {
        let numbers = case(design(name), Collective::AllReduce, 64 << 10);
        let lengths = Case { contents: Contents::LengthOnly, ..numbers };
        let [numbers, lengths] = [numbers, lengths].map(|case| simulate(&on(tree("star-8")), &case).unwrap());
        assert_eq!(Row { wrong: None, ..numbers }, lengths);
    }
}

#[test]
fn an_aggregate_crosses_each_link_once() {
    let row =
        simulate(&on(tree("star-8")), &case(design("epic-3"), Collective::AllReduce, 64 << 10)).unwrap();
    let ring = simulate(&on(tree("star-8")), &case(design("ring"), Collective::AllReduce, 64 << 10)).unwrap();
    let busiest =
        |row: &Row| row.links.iter().map(|link| link.statistics.bytes).max().unwrap().bytes() as f64;
    let ratio = busiest(&ring) / busiest(&row);
    // 2(n-1)/n of the vector against one; acknowledges and control messages make the rest.
    assert!((1.5..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_mode_iii_switch_holds_two_windows() {
    let row =
        simulate(&on(tree("star-8")), &case(design("epic-3"), Collective::AllReduce, 64 << 10)).unwrap();
    assert_eq!(row.switch_buffer, ByteCount::new(2 * 16 * (256 + 4)));
}

#[test]
fn an_ethernet_frame_counts_from_its_preamble_to_the_gap_behind_it() {
    let setup = Setup { framing: Framing::Ethernet, ..on(tree("star-2")) };
    let row = simulate(&setup, &case(design("epic-2"), Collective::Barrier, 0)).unwrap();
    // The control message: Ethernet 14, IPv4 20, UDP 8, BTH 12, immediate 4, ICRC 4; 24 around it. The ACK is as long.
    let upward = &row.links[0].statistics;
    assert_eq!((upward.frames, upward.bytes), (2, ByteCount::new(2 * (62 + 24))));
}

#[test]
fn background_traffic_on_one_link_slows_an_aggregate_down_to_what_it_leaves() {
    let time = |background| {
        let congestion = Congestion { background, ..Congestion::default() };
        let setup = Setup { congestion, ..preset("epic-star8") };
        simulate(&setup, &case(design("epic-3"), Collective::AllReduce, 1 << 20)).unwrap().time
    };
    let half = BitRate::new(50_000_000_000).unwrap();
    let slowed = time(Some(Background { links: 1, rate: half }));
    let ratio = slowed.as_micros_f64() / time(None).as_micros_f64();
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

/// Seven ranks send to one at once. Control begins when the first marks have come back, so what is on its way by then is
/// queued all the same.
#[test]
fn marks_and_rate_control_keep_the_queue_of_an_incast_short() {
    let reduce = |control: Option<RateConfig>| {
        let queue = QueueConfig { limit: None, mark_above: Some(ByteCount::new(64 << 10)) };
        let congestion = Congestion { queue, control, ..Congestion::default() };
        let hosts = HostPieces { window: 64, ..HostPieces::default() };
        let setup = Setup { congestion, hosts, ..preset("epic-star8") };
        let row = simulate(&setup, &case(design("direct"), REDUCE, 4 << 20)).unwrap();
        assert_right(&row);
        let peak = row.links.iter().map(|link| link.statistics.peak_queue).max().unwrap();
        (peak, row.links.iter().map(|link| link.statistics.marked).sum::<u64>())
    };
    let (free, unmarked) = reduce(None);
    let (controlled, marked) = reduce(Some(RateConfig::dcqcn(preset("epic-star8").link.rate)));
    assert_eq!(unmarked, 0, "senders without control allow no marks");
    assert!(marked > 0);
    assert!(controlled < free, "{controlled} with control, {free} without");
}

#[test]
fn a_queue_with_a_limit_drops_and_what_it_drops_is_sent_again() {
    let queue = QueueConfig { limit: Some(ByteCount::new(64 << 10)), mark_above: None };
    let congestion = Congestion { queue, ..Congestion::default() };
    let setup = Setup { congestion, ..preset("epic-star8") };
    let row = simulate(&setup, &case(design("direct"), REDUCE, 1 << 20)).unwrap();
    assert!(row.links.iter().any(|link| link.statistics.refused > 0));
    assert_right(&row);
}

/// Seven ranks send to one at once, with room at the switch for 256 KiB.
#[test]
fn pauses_keep_an_incast_from_dropping_and_its_receiver_busy() {
    let reduce = |pause| {
        let queue = QueueConfig { limit: Some(ByteCount::new(256 << 10)), mark_above: None };
        let congestion = Congestion { queue, pause, ..Congestion::default() };
        let setup = Setup { congestion, ..preset("epic-star8") };
        let row = simulate(&setup, &case(design("direct"), REDUCE, 1 << 20)).unwrap();
        assert_right(&row);
        row
    };
    let refused = |row: &Row| row.links.iter().map(|link| link.statistics.refused).sum::<u64>();
    let (dropping, pausing) = (
        reduce(None),
        reduce(Some(PauseConfig { xoff: ByteCount::new(4 << 10), xon: ByteCount::new(4 << 10) })),
    );
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
        let pause = Some(PauseConfig { xoff: ByteCount::new(xoff), xon: ByteCount::new(xoff / 2) });
        let congestion = Congestion { pause, ..Congestion::default() };
        for name in EPIC.into_iter().chain(HOSTS) {
            for collective in Collective::PRIMITIVES {
                let setup = Setup { congestion, ..on(tree("tree-3-2")) };
                assert_right(&simulate(&setup, &case(design(name), collective, 16 << 10)).unwrap());
            }
        }
    }
}

#[test]
fn a_run_that_ends_in_a_pause_says_which_link_is_paused() {
    let pause = Some(PauseConfig { xoff: ByteCount::new(600), xon: ByteCount::new(300) });
    let congestion = Congestion { pause, ..Congestion::default() };
    let limit = Duration::from_micros(8);
    let setup = Setup { congestion, limit, ..on(tree("star-8")) };
    let error = simulate(&setup, &case(design("direct"), REDUCE, 1 << 20)).unwrap_err();
    let SimulationError::Paused { links, .. } = &error else { panic!("{error}") };
    assert!(links.starts_with("host-") && links.contains(" > switch-0"), "{error}");
}

#[test]
fn a_design_with_switches_is_refused_on_a_ring_of_hosts() {
    let error =
        simulate(&on(Fabric::Ring(4)), &case(design("epic-3"), Collective::AllReduce, 64)).unwrap_err();
    assert_eq!(error, SimulationError::Fabric { design: design("epic-3") });
}

#[test]
fn a_size_that_does_not_split_over_the_ranks_is_refused() {
    let error = simulate(&on(tree("star-8")), &case(design("ring"), Collective::AllGather, 100)).unwrap_err();
    assert_eq!(error, SimulationError::Parts { ranks: 8, size: 100 });
}

#[test]
fn a_collective_that_cannot_end_in_time_says_how_far_it_came() {
    let setup = Setup { limit: Duration::from_micros(2), ..on(tree("star-8")) };
    let error = simulate(&setup, &case(design("epic-3"), Collective::AllReduce, 1 << 20)).unwrap_err();
    let after = Duration::from_micros(2);
    assert_eq!(error, SimulationError::Unfinished { unfinished: 8, ranks: 8, after });
}

/// Hashes every frame that is sent.
#[derive(Default)]
struct Trace(DefaultHasher);

impl Observer<Station<LengthOnly>> for Trace {
    fn departed(&mut self, departure: &Departure, frame: Frame<'_, RoceHeader, LengthOnly>) {
        (departure, frame.header, frame.payload).hash(&mut self.0);
    }
}

#[test]
fn a_seed_replays_a_lossy_collective_to_the_bit() {
    let trace = |name: &str, seed| {
        let lossy = Some(LossyLinks { links: 3, loss: Probability::new(0.05).unwrap() });
        let setup = Setup { lossy, ..on(tree("star-8")) };
        let mut group = Group::with_observer(&setup, design(name), seed, Trace::default()).unwrap();
        let buffer = LengthOnly::new(32 << 10);
        let buffers = vec![(buffer, buffer); 8];
        group.run(Collective::AllReduce, SUM, buffers, setup.limit, &mut unwatched).unwrap();
        group.simulation().observer().0.finish()
    };
    for name in EPIC.into_iter().chain(HOSTS) {
        assert_eq!(trace(name, 7), trace(name, 7), "{name}");
        assert_ne!(trace(name, 7), trace(name, 8), "{name}");
    }
}
