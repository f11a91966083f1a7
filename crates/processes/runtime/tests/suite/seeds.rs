//! All six primitives in all three modes on real sockets, under loss, reordering and duplication by seed: ranks and
//! switches are threads of this process, each a node on an address of 127.0.0.0/8, and know their groups from the
//! start. `QUINCUNX_SEEDS=1000 cargo test -p quincunx-runtime --test suite seeds::` runs a thousand seeds. A failure
//! prints its seed and the command that injects the same faults again. Every wait has an end.

use crate::common;
use crate::common::{HostNode, StaticGroup, SwitchNode, UdpNode, address};
use quincunx_collective::{Collective, GroupId, Numbers, Payload, Rank, Reduction};
use quincunx_collective::{SplitMix64, exact, reference, wrong_elements};
use quincunx_design::Value;
use quincunx_driver_net::NodeOptions;
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, Terms};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_network::FaultRates;
use quincunx_nodes::{HostCommand, HostEvent};
use quincunx_units::{Duration, Probability};
use quincunx_wire::{Psn, RoceHeader};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

const DESIGNS: [&str; 3] = ["epic-1", "epic-2", "epic-3"];

/// How long one collective may take.
const LIMIT: Duration = Duration::from_secs(20);

/// After this long a seed's threads end, whatever has happened.
const SEED_LIMIT: Duration = Duration::from_secs(60);

/// What a seed decides.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.draw() % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// One collective of one group, for all ranks.
struct Job {
    group: GroupId,
    design: &'static str,
    collective: Collective,
    inputs: Vec<Numbers>,
    output: usize,
    expected: Vec<Numbers>,
}

/// Everything that a seed decides, but faults.
struct Scene {
    tree: IncTree,
    groups: Vec<StaticGroup>,
    reduction: Reduction,
    jobs: Vec<Job>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut random = Random(SplitMix64::new(seed));
        let shape = random.one_of(&["star-2", "star-3", "star-4", "tree-2x2"]);
        let tree = IncTree::from_shape(&shape.parse().unwrap());
        // Of numbers: tiles are longer than the shortest packets.
        let of_numbers = |one: &Reduction| one.data_type.block_format().is_none();
        let reduction = random.one_of(&Reduction::all().filter(of_numbers).collect::<Vec<_>>());
        let (mut groups, mut jobs) = (Vec::new(), Vec::new());
        for design in DESIGNS {
            let group = GroupId(groups.len() as u32);
            let mtu = random.one_of(&[8, 256, 1024]);
            let parameters = [
                ("group.mtu", Value::from(mtu)),
                ("group.message", Value::from(1 + random.below(4))),
                ("group.window", Value::from(1 + random.below(4))),
                ("group.reproducible", Value::from(random.below(2) == 0)),
                ("group.retry_timeout", Value::from("1ms")),
                ("group.retry_count", Value::from(u16::MAX)),
            ];
            groups.push(StaticGroup::on_tree(group.0, &tree, design, &parameters, Psn::new(0xff_fff0)));
            let root = Rank(random.below(u64::from(tree.ranks())) as u16);
            for collective in Collective::PRIMITIVES.map(|collective| collective.with_root(root)) {
                let length = 8 * random.below(1 + 5 * mtu) as usize;
                let all = length * usize::from(tree.ranks());
                let (input, output) = match collective {
                    Collective::Barrier => (0, 0),
                    Collective::ReduceScatter => (all, length),
                    Collective::AllGather => (length, all),
                    _ => (length, length),
                };
                let salt = jobs.len() as u16 * tree.ranks();
                let inputs: Vec<_> =
                    (0..tree.ranks()).map(|rank| exact(Rank(salt + rank), input, reduction)).collect();
                let expected = reference(collective, reduction, &inputs);
                jobs.push(Job { group, design, collective, inputs, output, expected });
            }
        }
        Self { tree, groups, reduction, jobs }
    }
}

fn options(id: TreeNodeId, seed: u64) -> NodeOptions {
    let percent = |percent: f64| Probability::new(percent / 100.0).unwrap();
    let faults = FaultRates {
        loss: percent(5.0),
        duplication: percent(2.0),
        reordering: percent(5.0),
        ..FaultRates::default()
    };
    let seed = seed << 16 | u64::from(id.0);
    // Threads share few processors: whoever has nothing to do sleeps.
    NodeOptions { spin: Duration::ZERO, faults, seed, ..NodeOptions::default() }
}

/// Answers peers until all ranks are done.
fn serve<E>(node: &mut UdpNode<E>, unfinished: &AtomicUsize) -> Result<(), String>
where
    E: Engine<Header = RoceHeader, Payload = Numbers>,
{
    let end = Instant::now() + std::time::Duration::from(SEED_LIMIT);
    while unfinished.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        node.turn(Duration::from_millis(1)).map_err(|error| error.to_string())?;
    }
    node.engine().assert_invariants();
    Ok(())
}

fn run_job(node: &mut HostNode, job: &Job, reduction: Reduction, rank: Rank) -> Result<(), String> {
    let start = HostCommand::Start {
        group: job.group,
        collective: job.collective,
        reduction,
        input: job.inputs[rank.index()].clone(),
        output: Numbers::zeroed(job.output),
        terms: Terms::WHOLE,
    };
    node.command(start).map_err(|error| error.to_string())?;
    let finished = node.run_until(LIMIT, Some).map_err(|error| error.to_string())?;
    let HostEvent::Finished { outcome, output, .. } = finished else { panic!("nobody writes: {finished:?}") };
    if outcome != Outcome::Done {
        return Err(format!("it ended as {outcome:?}"));
    }
    let nothing = matches!(job.collective, Collective::Reduce { root } if root != rank);
    match wrong_elements(&job.expected[rank.index()], &output, reduction.data_type) {
        wrong if wrong > 0 && !nothing => Err(format!("{wrong} elements are wrong")),
        _ => Ok(()),
    }
}

/// Runs all of a seed; what went wrong, rank by rank and switch by switch.
fn run(seed: u64) -> Vec<String> {
    let scene = &Scene::new(seed);
    // All are bound before the first one sends.
    let Scene { tree, groups, .. } = scene;
    let switches = tree.switches().into_iter().map(|id| common::switch(groups, id, options(id, seed)));
    let switches: Vec<_> = switches.collect();
    let hosts = (0..tree.ranks()).map(Rank);
    let hosts = hosts.map(|rank| {
        let leaf = tree.leaf(rank);
        common::host(groups, address(leaf.0), rank, options(leaf, seed))
    });
    let hosts: Vec<_> = hosts.collect();
    let unfinished = &AtomicUsize::new(hosts.len());
    let run_rank = |mut node: HostNode, rank: Rank| {
        let failure = scene.jobs.iter().find_map(|job| {
            let fault = run_job(&mut node, job, scene.reduction, rank).err()?;
            Some(format!("{} with {} at rank {rank}: {fault}", job.collective, job.design))
        });
        unfinished.fetch_sub(1, Ordering::Relaxed);
        failure.map_or(Ok(()), Err).and_then(|()| serve(&mut node, unfinished))
    };
    let run_switch = |mut node: SwitchNode| {
        serve(&mut node, unfinished)?;
        node.next_event().map_or(Ok(()), |event| Err(format!("a switch says {event:?}")))
    };
    thread::scope(|scope| {
        let switches = switches.into_iter().map(|node| scope.spawn(move || run_switch(node)));
        let ranks = hosts.into_iter().enumerate();
        let ranks = ranks.map(|(rank, node)| scope.spawn(move || run_rank(node, Rank(rank as u16))));
        let threads: Vec<_> = switches.chain(ranks).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err("it panicked".into())));
        ended.filter_map(Result::err).collect()
    })
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn all_primitives_in_all_modes_are_right_on_real_sockets_under_faults() {
    let _alone = common::alone();
    let first = number("QUINCUNX_FIRST_SEED", 0);
    for seed in first..first + number("QUINCUNX_SEEDS", 10) {
        let failures = run(seed);
        assert!(
            failures.is_empty(),
            "{}\nseed {seed} fails; replay with: QUINCUNX_FIRST_SEED={seed} QUINCUNX_SEEDS=1 cargo test -p \
             quincunx-runtime --test suite seeds::",
            failures.join("\n")
        );
    }
}
