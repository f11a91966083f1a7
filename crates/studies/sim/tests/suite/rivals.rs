//! What designs in the network are compared with runs as fast as its links allow, on fabrics that nobody's paper describes; and nothing is sent
//! again where nothing is lost. `benches/rivals.py` holds more sizes and fabrics against the same bounds.

use quincunx_collective::{Collective, Rank, SplitMix64};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_scenario::{Document, Scenario};
use quincunx_sim::packet_fabric::{Row, SimulationError, simulate};
use quincunx_units::{ByteCount, Duration};

use crate::requests::{lengths, request, scenario};

const MIB: u64 = 1 << 20;

/// What a collective may take over what its bytes take on a link: frames and acknowledges are 2 to 3 % more than their payload.
const BOUND: f64 = 1.06;

/// A fabric of one's own: its shape and its links, and nothing else.
fn links(shape: &str, gigabits: u64) -> Scenario {
    scenario(shape, &[&format!("link.rate={gigabits}Gbit/s"), "link.latency=500ns"])
}

fn run(on: &Scenario, design: &str, collective: Collective, size: u64) -> Row {
    let row = simulate(&lengths(request(on, design, collective, size)));
    row.unwrap_or_else(|error| panic!("{design} {collective} of {size} on {}: {error}", on.place()))
}

/// Bytes on the link with most of them.
fn busiest(row: &Row) -> ByteCount {
    row.links.iter().map(|link| link.statistics.bytes).max().unwrap()
}

/// How long `bytes` take on a link.
fn seconds(on: &Scenario, bytes: f64) -> f64 {
    bytes * 8.0 / on.fabric.packet_link().unwrap().rate.bits_per_second() as f64
}

#[test]
fn a_ring_takes_what_its_bytes_take_on_a_link() {
    for (shape, gigabits, size) in [
        ("star-8", 400, 16 * MIB),
        ("star-8", 400, 64 * MIB),
        ("star-8", 100, 16 * MIB),
        ("star-64", 100, 16 * MIB),
        ("leaf-spine-8x2x8", 400, 16 * MIB),
    ] {
        let on = links(shape, gigabits);
        let ranks = f64::from(on.ranks());
        let row = run(&on, "ring", Collective::AllReduce, size);
        let least = seconds(&on, 2.0 * (ranks - 1.0) / ranks * size as f64);
        let share = row.time.as_secs_f64() / least;
        assert!((1.0..BOUND).contains(&share), "{shape} at {gigabits} Gbit/s, {size}: {share:.3}");
    }
}

/// On 64 hosts at eight leaves the first and the last pieces pass 36 links, 18 us: 2.7 % of the time at 400 Gbit/s, beside 2.9 % for frames and
/// acknowledges.
#[test]
fn two_trees_take_what_two_vectors_take_on_a_link() {
    for (shape, gigabits, bound) in [
        ("star-8", 100, BOUND),
        ("star-8", 400, BOUND),
        ("star-64", 100, BOUND),
        ("star-64", 400, BOUND),
        ("leaf-spine-8x2x8", 100, BOUND),
        ("leaf-spine-8x2x8", 400, 1.065),
    ] {
        let on = links(shape, gigabits);
        let size = 16 * MIB;
        let row = run(&on, "double-tree", Collective::AllReduce, size);
        let share = row.time.as_secs_f64() / seconds(&on, 2.0 * size as f64);
        assert!((1.0..bound).contains(&share), "{shape} at {gigabits} Gbit/s, {size}: {share:.4}");
    }
}

/// Two vectors at most leave and enter a switch, so no choice of ways makes a link between switches busier than a rank's.
#[test]
fn two_trees_load_no_link_between_switches_more_than_a_ranks() {
    for shape in ["leaf-spine-8x2x8", "leaf-spine-4x1x3", "fat-tree-4", "tree-2x4"] {
        let on = links(shape, 400);
        let row = run(&on, "double-tree", Collective::AllReduce, MIB);
        let most = busiest(&row).bytes() as f64;
        assert!(most < 1.05 * 2.0 * MIB as f64, "{shape}: {most} bytes of a vector of 1 MiB on a link");
    }
}

/// An exchange begins with what the last one has brought: the faster links are, the more of the time that is.
#[test]
fn halving_and_doubling_takes_what_its_bytes_take_on_a_link() {
    for (shape, gigabits) in [("star-8", 100), ("star-8", 400), ("star-64", 100), ("star-64", 400)] {
        let on = links(shape, gigabits);
        let (ranks, size) = (f64::from(on.ranks()), 16 * MIB);
        let row = run(&on, "halving-doubling", Collective::AllReduce, size);
        let least = seconds(&on, 2.0 * (ranks - 1.0) / ranks * size as f64);
        let share = row.time.as_secs_f64() / least;
        assert!((1.0..BOUND).contains(&share), "{shape} at {gigabits} Gbit/s, {size}: {share:.4}");
    }
}

/// Six exchanges instead of the ring's 126 steps and a tree's eleven or twelve.
#[test]
fn short_vectors_are_fastest_in_as_many_exchanges_as_there_are_powers_of_two() {
    for shape in ["star-64", "leaf-spine-8x2x8"] {
        let on = links(shape, 400);
        for size in [1 << 10, 4 << 10, 16 << 10, 64 << 10] {
            let [best, others @ ..] = ["halving-doubling", "ring", "tree", "double-tree"]
                .map(|design| run(&on, design, Collective::AllReduce, size).time);
            assert!(others.iter().all(|time| best < *time), "{size} on {shape}: {best}, {others:?}");
            // An exchange is the way to a rank and what the vector takes on links.
            let links = if shape == "star-64" { 12 } else { 18 } * if size > 16 << 10 { 2 } else { 1 };
            let least = on.fabric.packet_link().unwrap().latency * links;
            assert!(best >= least, "{size} on {shape}: {best} for {least}");
        }
    }
}

#[test]
fn direct_takes_what_its_bytes_take_on_the_busiest_link() {
    for (shape, gigabits, size, collective) in [
        ("star-8", 400, 16 * MIB, Collective::AllReduce),
        ("star-8", 400, 64 * MIB, Collective::AllReduce),
        ("star-8", 100, 16 * MIB, Collective::AllGather),
        ("star-8", 400, 64 * MIB, Collective::ReduceScatter),
        ("star-64", 400, 16 * MIB, Collective::AllGather),
        ("leaf-spine-8x2x8", 400, 16 * MIB, Collective::ReduceScatter),
    ] {
        let on = links(shape, gigabits);
        let row = run(&on, "direct", collective, size);
        let share = row.time.as_secs_f64() / seconds(&on, busiest(&row).bytes() as f64);
        assert!(
            (1.0..BOUND).contains(&share),
            "{shape} at {gigabits} Gbit/s, {collective} of {size}: {share:.3}"
        );
        assert_eq!(row.retransmitted, 0, "{shape} at {gigabits} Gbit/s, {collective} of {size}");
        let parts = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
        let ranks = f64::from(on.ranks());
        let least = parts * (ranks - 1.0) / ranks * size as f64;
        let up = row.links.iter().filter(|link| link.joins_ranks[0]).map(|link| link.statistics.bytes).max();
        assert!(up.unwrap().bytes() as f64 <= 1.05 * least, "{up:?} from a rank, for {least}");
    }
}

/// All ranks' parts lead through a tree of them; what waited for 50 us was sent again, five times as much as there was.
#[test]
fn what_waits_long_in_a_tree_is_not_sent_again() {
    let on = links("leaf-spine-8x2x8", 400);
    let row = run(&on, "tree", Collective::AllGather, 4 * MIB);
    assert_eq!(row.retransmitted, 0);
    // A rank with three neighbours passes what it hears on to two of them.
    let up = row.links.iter().filter(|link| link.joins_ranks[0]).map(|link| link.statistics.bytes).max();
    assert!(up.unwrap().bytes() < 9 * MIB, "{up:?} from a rank");
}

/// How many cases are drawn: `docs/architects.md` has a command that draws more.
fn cases() -> usize {
    std::env::var("QUINCUNX_CASES").map_or(150, |count| count.parse().expect("a number of cases"))
}

/// Designs, collectives, fabrics, links and sizes that a seed draws.
#[test]
fn nothing_is_sent_again_where_nothing_is_lost() {
    let shapes = [
        "star-2",
        "star-8",
        "star-12",
        "tree-3-2",
        "tree-2x4",
        "leaf-spine-2x2x4",
        "leaf-spine-4x1x3",
        "fat-tree-4",
    ];
    let designs: Vec<_> = CATALOG.choices(FabricKind::Tree).collect();
    let mut random = SplitMix64::new(44);
    let mut draw = |count: usize| random.draw() as usize % count;
    let (mut runs, cases) = (0, cases());
    while runs < cases {
        let shape = shapes[draw(shapes.len())];
        let design = designs[draw(designs.len())];
        let gigabits = [1, 10, 100, 400, 800][draw(5)];
        let on = links(shape, gigabits);
        let collective = match Collective::PRIMITIVES[draw(Collective::PRIMITIVES.len())] {
            Collective::Reduce { .. } => Collective::Reduce { root: Rank(draw(on.ranks().into()) as u16) },
            Collective::Broadcast { .. } => {
                Collective::Broadcast { root: Rank(draw(on.ranks().into()) as u16) }
            }
            other => other,
        };
        let size = 192 * [1, 20, 400, 8_000, 40_000][draw(5)];
        if !design.about().offers(collective, FabricKind::Tree) {
            continue;
        }
        let case = format!("{} {collective} of {size} on {shape} at {gigabits} Gbit/s", design.name());
        let row = match simulate(&lengths(request(&on, design.name(), collective, size))) {
            Ok(row) => row,
            // It says why it does not run there.
            Err(SimulationError::Cluster(_) | SimulationError::Refused(_) | SimulationError::Rejected(_)) => {
                continue;
            }
            Err(error) => panic!("{case}: {error}"),
        };
        runs += 1;
        assert_eq!((row.lost, row.retransmitted), (0, 0), "{case}");
    }
}

/// Their messages wait for other ranks, and an acknowledge of a whole message with them: a sender that asked twice was asked for it.
#[test]
fn what_waits_for_other_ranks_in_a_switch_is_not_sent_again() {
    for (shape, gigabits, collective, size) in [
        ("star-8", 10, Collective::ReduceScatter, 7_680_000),
        ("leaf-spine-2x2x4", 100, Collective::ReduceScatter, 7_680_000),
        ("tree-2x4", 1, Collective::AllGather, 1_536_000),
    ] {
        let row = run(&links(shape, gigabits), "epic-2", collective, size);
        assert_eq!(row.retransmitted, 0, "{collective} of {size} on {shape} at {gigabits} Gbit/s");
    }
}

#[test]
fn what_is_lost_is_counted_when_it_is_sent_again() {
    for design in ["epic-1", "epic-2", "epic-3", "ring", "tree", "direct", "multiwrite"] {
        for selective in ["group.selective=true", "group.selective=false"] {
            let changes = [selective, "loss.links=4", "loss.probability=3%", "group.mtu=256B"];
            let row = run(&scenario("star-4", &changes), design, Collective::AllGather, 64 << 10);
            assert!(row.lost > 0 && row.retransmitted > 0, "{design} {selective}: {} lost", row.lost);
        }
    }
}

/// Acknowledges come once a message there, which takes longer to leave than a round trip.
#[test]
fn nothing_is_sent_again_in_vain_where_acknowledges_are_rare_and_links_are_slow() {
    let slow = ["link.rate=500Mbit/s", "link.latency=50us", "group.acknowledge_every=16", "group.mtu=1KiB"];
    for design in ["epic-1", "epic-2", "epic-3", "ring"] {
        let row = run(&scenario("star-4", &slow), design, Collective::AllReduce, MIB);
        assert_eq!(row.retransmitted, 0, "{design}");
    }
}

/// As long as the default time-out, 20 ms, no loss costs.
#[test]
fn losses_cost_round_trips_and_not_time_outs() {
    for design in ["epic-1", "epic-2", "epic-3", "ring", "direct"] {
        let lossy = run(
            &scenario("epic-star8", &["loss.links=8", "loss.probability=5%"]),
            design,
            Collective::AllReduce,
            4 * MIB,
        );
        assert!(lossy.lost > 1000, "{design}: {} lost", lossy.lost);
        assert!(lossy.time < Duration::from_millis(2), "{design}: {}", lossy.time);
    }
}

/// Nothing of it is sent again but what is missing, once.
#[test]
fn each_lost_packet_is_one_retransmission_where_reliability_is_selective() {
    let changes = ["group.selective=true", "loss.links=1", "loss.probability=1%", "link.rate=1Gbit/s"];
    let row = run(&scenario("star-2", &changes), "ring", Collective::Broadcast { root: Rank(0) }, 4 * MIB);
    let lost: u64 = row
        .links
        .iter()
        .filter(|link| link.from == "host-0" || link.to == "host-0")
        .map(|link| link.statistics.lost)
        .sum();
    assert!(row.retransmitted > 0 && row.retransmitted <= lost, "{} for {lost}", row.retransmitted);
}

#[test]
fn a_fabric_by_its_shape_and_by_a_file_that_says_the_same_are_one_to_the_bit() {
    for (shape, gigabits, latency) in [
        ("star-8", 400, "500ns"),
        ("tree-3-2", 100, "1us"),
        ("leaf-spine-2x2x4", 400, "500ns"),
        ("fat-tree-4", 25, "2us"),
    ] {
        let rate = format!("link.rate={gigabits}Gbit/s");
        let named = scenario(shape, &[&rate, &format!("link.latency={latency}")]);
        let text = format!(
            "kind = \"packet\"\ntopology = \"{shape}\"\n[link]\nrate = \"{gigabits}Gbit/s\"\nlatency = \"{latency}\""
        );
        let file = Scenario::read(Document::parse("own.toml", &text).unwrap(), CATALOG).unwrap();
        for design in ["epic-2", "epic-3", "ring", "tree", "direct", "multiwrite"] {
            for size in [4 << 10, 256 << 10] {
                let [named, file] = [&named, &file].map(|on| run(on, design, Collective::AllGather, size));
                assert_eq!(named, file, "{design} {size} on {shape}");
            }
        }
    }
}
