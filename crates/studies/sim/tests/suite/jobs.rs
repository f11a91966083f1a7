//! Several collectives at once: groups with trees of their own beside traffic that takes all ways.

use crate::captured::{Shared, packets};
use crate::requests;
use quincunx_collective::Collective;
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_fabric::{LinkProperties, NodeKind, SwitchedShape};
use quincunx_scenario::{Document, Jobs, Scenario};
use quincunx_sim::packet_fabric::simulate;
use quincunx_sim::{
    JobsMeasurement, JobsRequest, Outputs, ignore_progress, measure, measure_jobs, measure_jobs_with_outputs,
};
use quincunx_trace::read;
use quincunx_units::{Duration, Instant};

const ALL_REDUCE: Collective = Collective::AllReduce;

fn request(fabric: &str, changes: &[&str], text: &str) -> JobsRequest {
    let scenario = requests::scenario(fabric, changes);
    let jobs = Jobs::parse("jobs.toml", text).unwrap();
    JobsRequest { scenario, jobs, catalog: CATALOG, fallback: Some(FALLBACK), seed: 1, only: None }
}

fn run(fabric: &str, text: &str) -> JobsMeasurement {
    measure_jobs(&request(fabric, &[], text), &mut ignore_progress).unwrap()
}

fn job(hosts: &str, design: &str, more: &str) -> String {
    format!(
        "[[job]]\nhosts = \"{hosts}\"\ncollective = \"all_reduce\"\nsize = \"64KiB\"\ndesign = \"{design}\"\n{more}\n"
    )
}

/// How long the first job takes.
fn time(fabric: &str, text: &str) -> Duration {
    run(fabric, text).jobs[0].mean()
}

/// How long an AllReduce of all hosts takes on a fabric, as `sim` has it.
fn on(fabric: &str, design: &str) -> Duration {
    let request = requests::request(&requests::scenario(fabric, &[]), design, ALL_REDUCE, 64 << 10);
    let row = simulate(&request).unwrap();
    assert_eq!(row.wrong, Some(0));
    row.time
}

#[test]
fn a_group_with_a_tree_runs_beside_a_ring_over_all_ways() {
    let text = job("0-15", "epic-3", "times = 2") + &job("16-63", "ring", "at = \"3us\"");
    let found = run("leaf-spine-8x4x8", &text);
    let [epic, ring] = &found.jobs[..] else { panic!("two jobs") };
    assert_eq!((epic.design, epic.wrong, ring.design, ring.wrong), ("epic-3", Some(0), "ring", Some(0)));
    assert_eq!(epic.switches.len(), 3, "a spine and two leaves: {:?}", epic.switches);
    assert!(epic.switches[0].starts_with("spine-") && ring.switches.is_empty());
    assert_eq!((epic.runs.len(), ring.begin()), (2, Instant::ZERO + Duration::from_micros(3)));
    assert_eq!(epic.runs[0][1], epic.runs[1][0], "again at once");
    let tree = found.links.iter().filter(|link| link.trees == [0]).count();
    assert_eq!(tree, 2 * (16 + 2), "its hosts' links, and one of each leaf to the spine");
}

#[test]
fn a_group_alone_takes_as_long_as_on_the_fabric_that_its_tree_is() {
    for design in ["epic-1", "epic-2", "epic-3", "netreduce"] {
        assert_eq!(
            time("leaf-spine-4x2x8", &job("0-7", design, "")),
            on("star-8", design),
            "{design} at a leaf"
        );
    }
    for design in ["epic-1", "epic-2", "epic-3"] {
        let tree = on("tree-2x8", design);
        assert_eq!(time("leaf-spine-4x2x8", &job("8-23", design, "")), tree, "{design} below a spine");
        assert_eq!(time("rail-8x2x3", &job("0-14:2,1-15:2", design, "")), tree, "{design} on two rails");
        let pod = time("fat-tree-4", &job("0-3", design, ""));
        assert_eq!(pod, on("tree-2x2", design), "{design} in a pod");
        assert_eq!(
            time("fat-tree-4", &job("0-7", design, "")),
            on("tree-2x2x2", design),
            "{design} below a core"
        );
    }
}

#[test]
fn with_one_way_all_is_as_on_a_tree() {
    for design in ["ring", "tree", "direct", "epic-2", "epic-3"] {
        let tree = on("tree-4x2", design);
        assert_eq!(on("leaf-spine-4x1x2", design), tree, "{design} alone on the fabric");
        assert_eq!(time("leaf-spine-4x1x2", &job("0-7", design, "")), tree, "{design} as a job");
        assert_eq!(time("tree-4x2", &job("0-7", design, "")), tree, "{design} as a job on the tree itself");
    }
}

#[test]
fn trees_keep_to_their_links_and_leave_the_others_alone() {
    let found = run("leaf-spine-4x4x4", &(job("0-7", "epic-3", "") + &job("8-15", "epic-3", "")));
    for link in found.links.iter().filter(|link| !link.is_access) {
        assert_eq!(link.bytes.bytes() > 0, link.trees.len() == 1, "{}: {:?}", link.name, link.trees);
        assert!(link.trees.len() < 2, "two trees share {}", link.name);
    }
}

#[test]
fn trees_of_two_groups_between_the_same_switches_have_a_cable_each() {
    let text = job("0-1,4-5", "epic-3", "") + &job("2-3,6-7", "epic-3", "");
    let found = run("leaf-spine-2x1x4x2", &text);
    assert!(found.jobs.iter().all(|job| job.fell_back.is_none() && job.wrong == Some(0)));
    let mut cables: Vec<_> =
        found.links.iter().filter(|link| !link.is_access).map(|link| link.trees.clone()).collect();
    cables.sort();
    assert_eq!(cables, [vec![0], vec![0], vec![0], vec![0], vec![1], vec![1], vec![1], vec![1]]);
}

#[test]
fn an_edge_of_a_tree_crosses_switches_that_only_forward() {
    let text = "policy = \"spatial\"\n".to_owned() + &job("0,4,8,12", "epic-3", "times = 3");
    let found = run("leaf-spine-4x2x4", &text);
    let [only] = &found.jobs[..] else { panic!("one job") };
    assert_eq!((only.switches.len(), only.wrong), (1, Some(0)), "{:?}", only.switches);
    assert!(only.switches[0].starts_with("spine"));
    let used = found.links.iter().filter(|link| !link.is_access && link.bytes.bytes() > 0).count();
    assert_eq!(used, 2 * 4, "each leaf has its link to that spine and uses no other");
}

#[test]
fn a_group_without_a_tree_runs_among_its_hosts_and_says_why() {
    let found = run("leaf-spine-4x2x4", &(job("0-7", "epic-3", "") + &job("4-11", "epic-3", "")));
    let [first, second] = &found.jobs[..] else { panic!("two jobs") };
    assert_eq!((first.design, &first.fell_back), ("epic-3", &None));
    assert_eq!((second.asked.as_str(), second.design, second.wrong), ("epic-3", "ring", Some(0)));
    let reason = second.fell_back.as_deref().unwrap();
    let named = ["expected a tree", "host-4", "edge-disjoint", "group 1 has links"];
    assert!(named.iter().all(|part| reason.contains(part)), "{reason}");
    assert!(second.switches.is_empty());
}

#[test]
fn a_switch_gives_its_memory_away_once() {
    let text = |memory: &str| {
        let head = format!("policy = \"spatial\"\nmemory = \"{memory}\"\n");
        head + &job("0-3", "epic-3", "") + &job("0-3", "epic-3", "")
    };
    let found = run("leaf-spine-2x2x4", &text("64MiB"));
    assert!(found.jobs.iter().all(|job| job.fell_back.is_none()));
    let found = run("leaf-spine-2x2x4", &text("100KiB"));
    let reason = found.jobs[1].fell_back.as_deref().unwrap();
    assert!(reason.contains("of free memory at switch \"leaf-0\""), "{reason}");
    assert!(found.jobs.iter().all(|job| job.wrong == Some(0)));
}

#[test]
fn traffic_takes_all_spines_about_alike() {
    let text = job("0-7", "direct", "at = \"200us\"")
        + "[[traffic]]\npattern = \"uniform\"\nhosts = \"8-63\"\nload = 0.4\n";
    let found = run("leaf-spine-8x4x8", &text);
    let up: Vec<f64> = found
        .links
        .iter()
        .filter(|link| {
            link.name.starts_with("leaf") && link.name.contains("spine") && !link.name.starts_with("leaf-0")
        })
        .map(|link| link.utilisation)
        .collect();
    let mean = up.iter().sum::<f64>() / up.len() as f64;
    assert_eq!(up.len(), 7 * 4);
    assert!(up.iter().all(|used| (0.6..1.4).contains(&(used / mean))), "{mean}: {up:?}");
    let [stream] = &found.traffic[..] else { panic!("one stream") };
    assert!(stream.sent > 1000 && stream.arrived > stream.sent * 9 / 10, "{stream:?}");
}

#[test]
fn traffic_between_hosts_goes_from_these_to_those_as_much_as_was_said_from_its_time_on() {
    let text = job("0-7", "ring", "times = 4")
        + "[[traffic]]\nfrom = \"8-11\"\nto = \"11,16\"\nrate = \"10Gbit/s\"\n"
        + "[[traffic]]\nfrom = \"8-11\"\nto = \"11,16\"\nrate = \"10Gbit/s\"\n"
        + "[[traffic]]\nname = \"late\"\npattern = \"uniform\"\nload = 0.9\nat = \"1s\"\n";
    let found = run("leaf-spine-4x2x8", &text);
    let [first, second, late] = &found.traffic[..] else { panic!("three streams") };
    assert_eq!((late.sent, late.rate, &late.name), (0, None, &"late".to_owned()));
    assert_ne!(first.latencies, second.latencies, "each has its own chance");
    let rate = first.rate.unwrap().bits_per_second() as f64;
    assert!((0.85..1.15).contains(&(rate / 40e9)), "4 hosts, 10 Gbit/s each: {rate}");
    let carries = |name: &str| {
        let link = found.links.iter().find(|link| link.name == name).unwrap();
        link.bytes.bytes() > 0
    };
    for host in 8..12 {
        assert!(carries(&format!("host-{host} > leaf-1")), "host {host} sends");
    }
    assert!(carries("leaf-1 > host-11") && carries("leaf-2 > host-16"));
    assert!(!carries("leaf-1 > host-8") && !carries("host-16 > leaf-2") && !carries("host-12 > leaf-1"));
}

#[test]
fn long_vectors_travel_as_lengths_and_nobody_says_that_they_are_right() {
    let text = job("0-3", "epic-3", "").replace("64KiB", "2MiB") + &job("4-7", "ring", "");
    let found = run("leaf-spine-2x2x4", &text);
    assert_eq!(found.jobs.iter().map(|job| job.wrong).collect::<Vec<_>>(), [None, None]);
}

#[test]
fn every_collective_of_a_design_runs_as_a_job() {
    let collectives = ["all_reduce", "reduce", "broadcast", "barrier", "reduce_scatter", "all_gather"];
    let text: String = collectives
        .iter()
        .zip(0..)
        .map(|(collective, number)| {
            let job = job("0-7", "epic-2", &format!("at = \"{}us\"", 100 * number));
            let rooted = if ["reduce", "broadcast"].contains(collective) { "root = 3\n" } else { "" };
            let size = if *collective == "barrier" { "" } else { "size = \"64KiB\"" };
            job.replace("all_reduce", collective).replace("size = \"64KiB\"", size) + rooted
        })
        .collect();
    let found = run("leaf-spine-2x2x4", &("policy = \"spatial\"\n".to_owned() + &text));
    for (job, (collective, number)) in found.jobs.iter().zip(collectives.iter().zip(0..)) {
        assert_eq!((job.collective.name(), job.wrong, &job.fell_back), (*collective, Some(0), &None));
        assert_eq!(job.begin(), Instant::ZERO + Duration::from_micros(100) * number);
    }
}

#[test]
fn no_flow_is_overtaken_by_itself() {
    let mut request =
        requests::request(&requests::scenario("leaf-spine-4x4x4", &[]), "ring", ALL_REDUCE, 1 << 18);
    for seed in 1..4 {
        request.seed = seed;
        let row = simulate(&request).unwrap();
        assert_eq!((row.dropped, row.lost, row.wrong), (0, 0, Some(0)));
    }
}

#[test]
fn one_seed_is_one_run_and_another_one_takes_other_ways() {
    let text = job("0-15", "ring", "") + "[[traffic]]\npattern = \"uniform\"\nload = 0.2\n";
    let mut request = request("leaf-spine-4x4x4", &[], &text);
    let first = measure_jobs(&request, &mut ignore_progress).unwrap();
    assert_eq!(measure_jobs(&request, &mut ignore_progress).unwrap(), first);
    request.seed = 2;
    assert_ne!(measure_jobs(&request, &mut ignore_progress).unwrap().jobs, first.jobs);
}

#[test]
fn rings_that_share_links_slow_each_other_down_and_trees_do_not() {
    let text = |design: &str| job("0-3,8-11", design, "") + &job("4-7,12-15", design, "");
    let slowdown = |design: &str| {
        let mut request = request("leaf-spine-2x2x8", &[], &text(design));
        let beside = measure_jobs(&request, &mut ignore_progress).unwrap().jobs[0].mean();
        request.only = Some(0);
        let alone = measure_jobs(&request, &mut ignore_progress).unwrap();
        assert_eq!(alone.jobs.len(), 1);
        beside.as_secs_f64() / alone.jobs[0].mean().as_secs_f64()
    };
    assert_eq!(slowdown("epic-3"), 1.0);
    assert!(slowdown("direct") > 1.05, "{}", slowdown("direct"));
}

#[test]
fn what_links_mark_and_lose_of_a_job_is_its_own() {
    let text = job("0-7", "direct", "root = 0").replace("all_reduce", "reduce") + &job("8-9", "ring", "");
    let changes = [
        "congestion.queue=40KB",
        "congestion.mark_above=20KB",
        "congestion.dcqcn=true",
        "group.retry_timeout=100us",
    ];
    let found = measure_jobs(&request("leaf-spine-2x2x8", &changes, &text), &mut ignore_progress).unwrap();
    let [crowded, alone] = &found.jobs[..] else { panic!("two jobs") };
    assert!(crowded.marked > 0 && crowded.lost > 0, "{crowded:?}");
    assert_eq!((alone.marked, alone.lost, alone.wrong, crowded.wrong), (0, 0, Some(0), Some(0)));
}

/// Two jobs of half the hosts of a star each, whose switch has memory for one group of `epic-3`.
fn contending(times: u32, late: &str) -> String {
    let more = |at: &str| format!("times = {times}\nat = \"{at}\"");
    "policy = \"contention\"\nmemory = \"6MiB\"\n".to_owned()
        + &job("0-3", "epic-3", &more("0us"))
        + &job("4-7", "epic-3", &more(late))
}

#[test]
fn jobs_lock_the_memory_that_they_share_and_run_among_hosts_where_it_is_taken() {
    let found = run("star-8", &contending(20, "1us"));
    for job in &found.jobs {
        let ways = job.ways.unwrap();
        assert_eq!((job.wrong, job.fell_back.as_ref(), job.retransmitted), (Some(0), None, 0));
        assert_eq!(ways.tree + ways.hosts, 20, "{}", job.name);
    }
    let [first, second] = [0, 1].map(|job| found.jobs[job].ways.unwrap());
    assert!(first.tree > 0 && first.hosts + second.hosts > 0, "{first:?}, {second:?}");
}

#[test]
fn patient_jobs_use_memory_by_turns() {
    let patient = |patience: &str| format!("patience = \"{patience}\"\n{}", contending(20, "1us"));
    let among_hosts = |patience: &str| -> u64 {
        let found = run("star-8", &patient(patience));
        assert!(found.jobs.iter().all(|job| (job.wrong, job.retransmitted) == (Some(0), 0)));
        found.jobs.iter().map(|job| job.ways.unwrap().hosts).sum()
    };
    assert_eq!(among_hosts("1s"), 0);
    assert!(among_hosts("0us") > 0);
}

#[test]
fn a_job_alone_is_granted_every_lock_and_asking_takes_a_round_trip() {
    let text = contending(5, "1ms");
    let alone = run("star-8", &text);
    assert!(alone.jobs.iter().all(|job| job.ways.unwrap().tree == 5));
    let unlocked = time("star-8", &text.replace("contention", "spatial"));
    let asked = alone.jobs[0].mean() - unlocked;
    assert!(asked > Duration::ZERO && asked < unlocked, "{asked} for locks, {unlocked} without");
}

#[test]
fn a_switch_with_room_for_both_gives_each_a_part_of_its_own() {
    let found = run("star-8", &contending(5, "0us").replace("6MiB", "64MiB"));
    assert!(found.jobs.iter().all(|job| job.ways.unwrap().hosts == 0));
}

#[test]
fn what_a_line_asks_for_and_does_not_get_is_one_line_with_its_number() {
    let refused = |fabric: &str, text: &str| {
        let message =
            measure_jobs(&request(fabric, &[], text), &mut ignore_progress).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    };
    for (fabric, text, named) in [
        (
            "leaf-spine-2x2x2",
            job("0-3", "ring", "") + &job("2-5", "ring", ""),
            "jobs.toml:7: expected hosts below 4",
        ),
        ("leaf-spine-2x2x2", job("0-3", "rings", ""), "jobs.toml:1: "),
        (
            "leaf-spine-2x2x2",
            job("0-2", "ring", "").replace("all_reduce", "all_gather"),
            "splits into 3 parts",
        ),
        ("leaf-spine-2x2x2", job("0-3", "multiwrite", ""), "expected a collective of multiwrite (all_gather"),
        ("leaf-spine-2x2x2", "policy = \"best\"\n".to_owned() + &job("0-3", "ring", ""), "found \"best\""),
        (
            "leaf-spine-2x2x2",
            "patience = \"1ms\"\n".to_owned() + &job("0-3", "ring", ""),
            "expected no patience with the policy edge-disjoint",
        ),
        (
            "leaf-spine-2x2x2",
            job("0-3", "ring", "") + "[[traffic]]\npattern = \"uniform\"\nrate = \"1Tbit/s\"\n",
            "jobs.toml:7: expected a `rate` of at most 100Gbit/s",
        ),
        ("leaf-spine-2x2x2", job("0-3", "epic-3", "") + &job("0-3", "netreduce", ""), "frames of one kind"),
        ("ring-4", job("0-3", "ring", ""), "found ring-4"),
        ("mesh-2x2", job("0-3", "direct", ""), "found mesh-2x2"),
    ] {
        let message = refused(fabric, &text);
        assert!(message.contains(named), "{message}");
    }
    let unused = measure_jobs(
        &request("star-4", &["hosts.window=2"], &job("0-3", "epic-3", "")),
        &mut ignore_progress,
    );
    assert!(unused.unwrap_err().to_string().contains("found `hosts.window`; leave it out"));
    let changes = ["measure.limit=10us"];
    let late =
        measure_jobs(&request("leaf-spine-2x2x2", &changes, &job("0-3", "ring", "")), &mut ignore_progress);
    assert!(late.unwrap_err().to_string().contains("1 of 1 still running after 10us"));
}

#[test]
fn the_example_runs_trees_beside_a_ring_and_traffic() {
    let text = include_str!("../../../../../examples/jobs/leaf-spine-64.toml");
    let small = text.replace("1MiB", "64KiB").replace("256KiB", "16KiB");
    let file = Jobs::parse("leaf-spine-64.toml", text).unwrap();
    let found = run(file.fabric.as_deref().unwrap(), &small);
    assert!(found.jobs.iter().all(|job| job.wrong == Some(0)));
    let designs: Vec<_> = found.jobs.iter().map(|job| job.design).collect();
    assert_eq!(designs, ["epic-3", "epic-3", "ring", "ring", "ring"]);
    assert!(found.jobs[2].fell_back.is_some());
}

/// A file that lists the nodes and links of a fabric, and one that names its shape.
fn listed_and_named(shape: &str) -> [Scenario; 2] {
    let link = LinkProperties { rate: "100Gbit/s".parse().unwrap(), latency: Duration::from_micros(1) };
    let topology = shape.parse::<SwitchedShape>().unwrap().topology(link);
    let mut list = "kind = \"packet\"\n".to_owned();
    for node in topology.nodes() {
        let kind = if node.kind == NodeKind::Host { "host" } else { "switch" };
        list += &format!("[[node]]\nname = \"{}\"\nkind = \"{kind}\"\n", node.name);
    }
    for link in topology.links() {
        let [a, b] = link.ends.map(|end| &topology.node(end.node).name);
        list += &format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"100Gbit/s\"\nlatency = \"1us\"\n");
    }
    let named = format!(
        "kind = \"packet\"\ntopology = \"{shape}\"\n[link]\nrate = \"100Gbit/s\"\nlatency = \"1us\"\n"
    );
    [list, named].map(|text| Scenario::read(Document::parse("own.toml", &text).unwrap(), CATALOG).unwrap())
}

#[test]
fn a_fabric_of_a_list_is_the_one_of_the_name_if_it_has_its_nodes_and_links() {
    let time = |scenario: &Scenario, design: &str| {
        let row = simulate(&requests::request(scenario, design, ALL_REDUCE, 64 << 10)).unwrap();
        assert_eq!(row.wrong, Some(0));
        row.time
    };
    for (shape, design) in
        [("leaf-spine-2x2x4", "ring"), ("leaf-spine-2x2x2x2", "epic-3"), ("fat-tree-4", "direct")]
    {
        let [listed, named] = listed_and_named(shape);
        assert_eq!(time(&listed, design), time(&named, design), "{shape} {design}");
    }
}

#[test]
fn a_slow_link_of_a_list_is_slow() {
    let text = |rate: &str| {
        let node = |name: &str, kind| format!("[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
        let link = |a: &str, b: &str, rate: &str| {
            format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\nlatency = \"1us\"\n")
        };
        let nodes = node("s", "switch") + &node("t", "switch") + &node("a", "host") + &node("b", "host");
        let links = link("s", "t", rate) + &link("a", "s", "100Gbit/s") + &link("b", "t", "100Gbit/s");
        "kind = \"packet\"\n".to_owned() + &nodes + &links
    };
    let time = |rate: &str| {
        let scenario = Scenario::read(Document::parse("own.toml", &text(rate)).unwrap(), CATALOG).unwrap();
        simulate(&requests::request(&scenario, "ring", ALL_REDUCE, 1 << 20)).unwrap().time.as_secs_f64()
    };
    let ratio = time("10Gbit/s") / time("100Gbit/s");
    assert!((7.0..10.5).contains(&ratio), "{ratio}");
}

const PAUSES: [&str; 3] =
    ["group.retry_timeout=20ms", "congestion.pause.xoff=100KB", "congestion.pause.xon=60KB"];

/// Senders that slow down where links mark, before anybody is paused.
fn with_dcqcn() -> Vec<&'static str> {
    [&PAUSES[..], &["congestion.mark_above=40KB", "congestion.dcqcn=true"]].concat()
}

#[test]
fn a_flow_that_an_incasts_pauses_hold_up_is_free_where_senders_slow_down() {
    let text = include_str!("../../../../../examples/jobs/victim-flow.toml");
    let slowdown = |changes: &[&str]| {
        // Flows, which are done when they are sent: nobody waits for what the receiver confirms.
        let changes = [changes, &["hosts.confirm=false"]].concat();
        let mut request = request("leaf-spine-4x2x8", &changes, text);
        let beside = measure_jobs(&request, &mut ignore_progress).unwrap();
        assert!(beside.jobs.iter().all(|job| job.lost == 0), "nothing is lost where switches pause");
        request.only = Some(0);
        let alone = measure_jobs(&request, &mut ignore_progress).unwrap();
        beside.jobs[0].mean().as_secs_f64() / alone.jobs[0].mean().as_secs_f64()
    };
    let [paused, controlled] = [slowdown(&PAUSES), slowdown(&with_dcqcn())];
    assert!(paused > 2.5, "{paused}");
    assert!(controlled < 1.5, "{controlled}");
}

/// How many times a link's rate both jobs of a file have until the last of them is over, to two places.
fn line_rates(text: &str, window: &str) -> f64 {
    let found = measure_jobs(&request("epic-star8", &[window], text), &mut ignore_progress).unwrap();
    assert!(found.jobs.iter().all(|job| job.wrong.unwrap_or(0) == 0), "right results");
    let end = found.jobs.iter().map(|job| job.end()).max().unwrap();
    let bits = 2.0 * f64::from(32 << 20) * 8.0;
    (bits / end.since(Instant::ZERO).as_secs_f64() / 1e9).round() / 100.0
}

#[test]
fn opposite_collectives_of_figure_14_fill_both_directions_in_the_network_and_share_one_among_hosts() {
    let text = include_str!("../../../../../examples/jobs/opposite.toml");
    let figure: toml::Table = include_str!("../../../../../experiments/epic/fig14.toml").parse().unwrap();
    let number = |table: &str, key: &str| figure[table][key].as_float().unwrap();
    for (key, text) in [("opposite", text.to_owned()), ("ring", text.replace("epic-2", "ring"))] {
        let measured = line_rates(&text, "group.window=2");
        assert_eq!(measured, number("measured", key), "{key}");
        let published = number("published", key);
        assert!((measured / published - 1.0).abs() <= number("tolerance", "relative"), "{key}");
    }
    let with_long_windows = line_rates(text, "group.window=32");
    assert!(with_long_windows < 1.1, "{with_long_windows}");
}

#[test]
fn eight_that_send_to_one_get_fair_shares_by_dcqcn() {
    let text = include_str!("../../../../../examples/jobs/incast.toml");
    let steps = ["hosts.chunk=128KiB", "hosts.lockstep=true", "link.framing=73B"];
    let changes = [&with_dcqcn()[..], &steps].concat();
    let found = measure_jobs(&request("star-9", &changes, text), &mut ignore_progress).unwrap();
    let shares: Vec<f64> = found.jobs.iter().map(|job| job.bandwidths.algorithm).collect();
    assert!(found.jobs.iter().all(|job| job.marked > 0), "all of them are slowed down");
    // Jain's index: 1 if all are alike, an eighth if one has everything.
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let index = shares.iter().sum::<f64>().powi(2) / (8.0 * squares);
    assert!(index > 0.85, "{index}: {shares:?}");
}

/// How long an AllReduce of all accelerators takes, as `sim` has it.
fn on_memory(design: &str) -> Duration {
    let request = requests::request(&requests::scenario("memory-8", &[]), design, ALL_REDUCE, 64 << 10);
    let measured = measure(&request, Outputs::default(), &mut ignore_progress).unwrap();
    assert_eq!(measured.wrong, Some(0));
    measured.time
}

#[test]
fn a_job_alone_takes_as_long_on_a_memory_fabric_as_a_collective() {
    for design in ["nvls", "cais", "ring", "direct"] {
        let found = run("memory-8", &job("0-7", design, ""));
        assert_eq!((found.jobs[0].mean(), found.jobs[0].wrong), (on_memory(design), Some(0)), "{design}");
    }
}

#[test]
fn jobs_on_a_memory_fabric_share_its_links_and_are_right() {
    let scin = |at: &str| job("0-7", "scin", &format!("at = \"{at}\""));
    let alone = time("memory-8", &scin("0us"));
    let found = run("memory-8", &(scin("0us") + &scin("1us") + &job("0-7", "ring", "")));
    assert!(found.jobs.iter().all(|job| job.wrong == Some(0)), "{:?}", found.jobs);
    assert_eq!(found.jobs[1].begin(), Instant::ZERO + Duration::from_micros(1));
    assert!(found.jobs[0].mean() > alone && found.jobs[1].mean() > alone, "{:?}", found.jobs);
    assert_eq!((found.jobs[0].switches.is_empty(), found.jobs[2].switches.is_empty()), (false, true));
}

#[test]
fn a_job_on_a_memory_fabric_runs_as_often_as_it_is_to() {
    for design in ["scin", "nvls", "ring"] {
        let text = job("0-7", design, "times = 3\nat = \"2us\"");
        let found = run("memory-8", &text);
        let [job] = &found.jobs[..] else { panic!("one job") };
        assert_eq!((job.runs.len(), job.wrong), (3, None), "{design}");
        assert_eq!(job.begin(), Instant::ZERO + Duration::from_micros(2));
        assert!(job.runs.windows(2).all(|runs| runs[0][1] == runs[1][0]), "{design}: again at once");
    }
}

#[test]
fn what_a_memory_fabric_has_no_use_for_is_refused_in_one_line() {
    let refused = |text: &str| {
        measure_jobs(&request("memory-8", &[], text), &mut ignore_progress).unwrap_err().to_string()
    };
    let scin = job("0-7", "scin", "");
    for (text, expected) in [
        (
            job("0-3", "scin", ""),
            "jobs.toml:1: expected all accelerators of memory-8 in order, 0-7, found 0,1,2,3; ",
        ),
        (job("0-7", "scin-inq", ""), "jobs.toml:1: expected a design that changes no result, found scin-inq"),
        (job("0-7", "epic-3", ""), "jobs.toml:1: "),
        (format!("policy = \"edge-disjoint\"\n{scin}"), "expected no policy for jobs on a memory fabric"),
        (
            scin.clone() + "[[traffic]]\npattern = \"uniform\"\nload = 0.1\n",
            "expected no [[traffic]] for jobs on a memory fabric",
        ),
        (job("0-7", "ring", "") + &job("0-7", "direct", ""), "expected at most one stream beside"),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn every_frame_of_jobs_is_in_their_trace_and_their_capture_on_either_fabric() {
    for (fabric, text) in [
        ("leaf-spine-2x2x2", job("0-1", "epic-3", "") + &job("2-3", "ring", "at = \"2us\"")),
        ("memory-4", job("0-3", "scin", "") + &job("0-3", "ring", "at = \"2us\"")),
    ] {
        let (trace, capture) = (Shared::default(), Shared::default());
        let outputs = Outputs { trace: trace.out(), capture: capture.out() };
        let request = request(fabric, &[], &text);
        let found = measure_jobs_with_outputs(&request, outputs, &mut ignore_progress).unwrap();
        assert_eq!(found, measure_jobs(&request, &mut ignore_progress).unwrap(), "{fabric}: as without");
        if fabric.starts_with("memory") {
            assert_eq!(packets(&capture.bytes()).len() as u64, found.frames);
        }
        assert!(capture.bytes().len() as u64 > 60 * found.frames, "{fabric}");
        let tracks = read(&trace.bytes()).unwrap();
        for link in &found.links {
            assert!(tracks.iter().any(|track| track.name == link.name), "{fabric}: {}", link.name);
        }
    }
}

#[test]
fn a_broadcast_counts_until_the_receivers_have_it_where_that_is_asked() {
    let text = "[[job]]\nhosts = \"2,5\"\ncollective = \"broadcast\"\nsize = \"64KiB\"\ndesign = \"ring\"\n";
    let time = |changes: &[&str]| {
        let changes = [&["link.latency=50us", "hosts.confirm=false"], changes].concat();
        measure_jobs(&request("star-8", &changes, text), &mut ignore_progress).unwrap().jobs[0].mean()
    };
    // The acknowledge comes back over two links.
    let way = time(&[]) - time(&["measure.receivers_only=true"]);
    assert!((100.0..101.0).contains(&way.as_micros_f64()), "{way}");
}
