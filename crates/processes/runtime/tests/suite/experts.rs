//! Dispatch and Combine over MultiWrite on real sockets, under loss, reordering and duplication: two servers of four ranks, each a thread of
//! this process on an address of 127.0.0.0/8. Tokens take their routing with them, and go to the other server by way of the rank of
//! the same index; what each rank makes of them by the routing that came with them comes back and is added up. Every wait has an end.

use crate::common;
use crate::common::{HostNode, StaticGroup, address};
use quincunx_collective::{
    Collective, DataType, Gate, GateKind, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, Routes,
    Routing, noise, reference_dispatch,
};
use quincunx_design::{Demand, FabricKind, Placement, Value};
use quincunx_driver_net::NodeOptions;
use quincunx_engine::Terms;
use quincunx_engine::verbs::Outcome;
use quincunx_network::FaultRates;
use quincunx_nodes::{HostCommand, HostEvent};
use quincunx_units::{ByteCount, Duration, Probability};
use quincunx_wire::Psn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

type RankNode = HostNode;

const RANKS: u16 = 8;
const MEMBERS: u16 = 4;
const GATE: Gate = Gate { experts: 16, top_k: 5, kind: GateKind::Uniform };
const EACH: u16 = GATE.experts / RANKS;
const SLOTS: usize = 12;
const VALUES: usize = 600;
const TOKEN: usize = VALUES + Routing::length(GATE.top_k);
const BATCHES: u64 = 3;
const WORDS: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const GROUP: GroupId = GroupId(1);

/// How long one collective, and how long all of it, may take.
const LIMIT: Duration = Duration::from_secs(20);
const TEST_LIMIT: Duration = Duration::from_secs(60);

/// Two servers of four, in which tokens for the other server go by way of the rank of the same index there.
fn group() -> StaticGroup {
    let parameters = [
        ("group.mtu", Value::from(256)),
        ("group.message", Value::from(4)),
        ("group.window", Value::from(4)),
        ("group.retry_timeout", Value::from("1ms")),
        ("group.retry_count", Value::from(u16::MAX)),
    ];
    let multiwrite = common::design("multiwrite", FabricKind::Servers, &parameters);
    let length = ByteCount::new(TOKEN as u64);
    let demand = Demand::Tokens { most: SLOTS as u32, length };
    let placement = Placement { domains: RANKS / MEMBERS, demand, ..Placement::new(RANKS, None, length) };
    StaticGroup::new(GROUP.0, multiwrite, (FabricKind::Servers, &placement), Psn::new(0xff_fff0))
}

fn node(rank: u16) -> RankNode {
    let percent = |percent: f64| Probability::new(percent / 100.0).unwrap();
    let (loss, duplication, reordering) = (percent(3.0), percent(2.0), percent(3.0));
    let faults = FaultRates { loss, duplication, reordering, ..FaultRates::default() };
    // Threads share few processors: whoever has nothing to do sleeps.
    let options =
        NodeOptions { spin: Duration::ZERO, faults, seed: u64::from(rank), ..NodeOptions::default() };
    common::host(&[group()], address(rank), Rank(rank), options)
}

/// A batch, as everybody can work it out.
struct Batch {
    routings: Vec<Vec<Routing>>,
    routes: Vec<Routes>,
    inputs: Vec<Numbers>,
}

impl Batch {
    fn new(seed: u64) -> Self {
        // Not all ranks have as many tokens.
        let tokens = |rank: u16| SLOTS - usize::from(rank) % 3;
        let routings: Vec<Vec<Routing>> =
            (0..RANKS).map(|rank| GATE.route(Rank(rank), tokens(rank), seed)).collect();
        let input = |(rank, of): (usize, &Vec<Routing>)| {
            let mut input = noise(seed << 8 | rank as u64, of.len() * TOKEN, DataType::I32);
            for (token, routing) in of.iter().enumerate() {
                input.inscribe(token * TOKEN + VALUES, &routing.bytes());
            }
            input
        };
        Self {
            inputs: routings.iter().enumerate().map(input).collect(),
            routes: routings
                .iter()
                .map(|of| of.iter().map(|routing| routing.ranks(EACH)).collect())
                .collect(),
            routings,
        }
    }

    /// What a rank's experts make of the tokens that it has got, by the routing that came with each.
    fn work(&self, rank: u16, places: &Numbers) -> Numbers {
        let mut results = Numbers::zeroed(usize::from(RANKS) * SLOTS * VALUES);
        for (source, routes) in self.routes.iter().enumerate() {
            for (token, _) in routes.iter().enumerate().filter(|(_, ranks)| ranks.contains(&Rank(rank))) {
                let place = source * SLOTS + token;
                let (values, routing) = places.bytes()[place * TOKEN..(place + 1) * TOKEN].split_at(VALUES);
                let result = Routing::parse(routing).work(rank * EACH..(rank + 1) * EACH, values);
                results.inscribe(place * VALUES, &result);
            }
        }
        results
    }

    /// What all experts together make of a rank's tokens.
    fn sums(&self, rank: u16) -> Numbers {
        let (input, routings) = (&self.inputs[usize::from(rank)], &self.routings[usize::from(rank)]);
        let of = |(token, routing): (usize, &Routing)| {
            routing.work(0..GATE.experts, &input.bytes()[token * TOKEN..token * TOKEN + VALUES])
        };
        Numbers::from(routings.iter().enumerate().flat_map(of).collect::<Vec<u8>>())
    }
}

fn run(node: &mut RankNode, collective: Collective, input: Numbers, output: usize) -> Numbers {
    let output = Numbers::zeroed(output);
    node.command(HostCommand::Start {
        group: GROUP,
        collective,
        reduction: WORDS,
        input,
        output,
        terms: Terms::WHOLE,
    })
    .unwrap();
    match node.run_until(LIMIT, Some).unwrap() {
        HostEvent::Finished { outcome: Outcome::Done, output, .. } => output,
        other => panic!("{collective} ended as {other:?}"),
    }
}

fn dispatch_and_combine(node: &mut RankNode, rank: u16) {
    for seed in 0..BATCHES {
        let batch = Batch::new(seed);
        let at = usize::from(rank);
        node.command(HostCommand::Route { group: GROUP, routes: batch.routes[at].clone() }).unwrap();
        let places = usize::from(RANKS) * SLOTS * TOKEN;
        let places = run(node, Collective::Dispatch, batch.inputs[at].clone(), places);
        let expected = reference_dispatch(&batch.routes, &batch.inputs, Rank(rank), SLOTS, TOKEN);
        assert!(places == expected, "batch {seed} at rank {rank}");
        let results = batch.work(rank, &places);
        let sums = run(node, Collective::Combine, results, batch.routings[at].len() * VALUES);
        assert!(sums == batch.sums(rank), "sums of batch {seed} at rank {rank}");
    }
}

#[test]
fn tokens_go_to_their_experts_and_come_back_on_real_sockets_under_faults() {
    let _alone = common::alone();
    // All are bound before the first one sends.
    let nodes: Vec<RankNode> = (0..RANKS).map(node).collect();
    let unfinished = &AtomicUsize::new(nodes.len());
    thread::scope(|scope| {
        for (rank, mut node) in (0..).zip(nodes) {
            scope.spawn(move || {
                dispatch_and_combine(&mut node, rank);
                // Others may still miss an answer, or need a relay.
                unfinished.fetch_sub(1, Ordering::Relaxed);
                let end = Instant::now() + std::time::Duration::from(TEST_LIMIT);
                while unfinished.load(Ordering::Relaxed) > 0 && Instant::now() < end {
                    node.turn(Duration::from_millis(1)).unwrap();
                }
            });
        }
    });
}
