//! Ranks that run collectives themselves hear it, too, if one calls something else than the others; a rank that is late is waited for.

use crate::common;
use quincunx_collective::{
    Collective, DataType, Numbers, Payload, Rank as RankNumber, ReduceOp, Reduction, pattern,
};
use quincunx_control::GroupRequest;
use quincunx_control_grpc::{ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_engine::Terms;
use quincunx_runtime::{Ended, Finished, NewCall, Rank, RuntimeError};
use quincunx_units::{ByteCount, Duration};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Instant;

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LIMIT: Duration = Duration::from_secs(30);
const RANKS: u16 = 3;
const BYTES: usize = 4096;

/// What each of three ranks in a ring hears of what it does in a group that is ready.
fn on_ranks<T: Send>(job: impl Fn(&mut Rank, quincunx_runtime::JoinedGroup) -> T + Sync) -> Vec<T> {
    let _alone = common::alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let (manager, job) = (server.address(), &job);
    thread::scope(|scope| {
        let ranks: Vec<_> =
            (0..RANKS).map(|number| scope.spawn(move || on_rank(manager, number, job))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn on_rank<T>(
    manager: SocketAddr,
    number: u16,
    job: &impl Fn(&mut Rank, quincunx_runtime::JoinedGroup) -> T,
) -> T {
    let mut rank = Rank::attach(CATALOG, &common::rank_process(manager, number)).unwrap();
    let asked = (number == 0).then(|| {
        let client = rank.control().clone();
        let members: Vec<String> = (0..RANKS).map(|rank| format!("rank{rank}")).collect();
        client.wait_for_nodes(&members, 0, LIMIT).unwrap();
        let parameters = [("group.mtu", 1024), ("group.message", 1), ("group.window", 4)];
        let parameters = parameters.map(|(key, value)| (key, Value::from(value)));
        let (ring, settings) = common::design("ring", FabricKind::Tree, &parameters);
        let request = GroupRequest { settings, ..GroupRequest::new(members, ring, ByteCount::new(1 << 20)) };
        thread::spawn(move || client.init_group(&request).unwrap())
    });
    let group = rank.join(LIMIT).unwrap();
    if let Some(asked) = asked {
        asked.join().unwrap();
    }
    let done = job(&mut rank, group);
    rank.serve(Duration::from_millis(200)).unwrap();
    done
}

/// Whether an error names the odd rank, one other, and what they differ in. Which other depends on who has come by then.
fn names(text: &str, odd: u16, what: &str) -> bool {
    let named = |rank: &u16| text.contains(&format!("rank {rank} (\"rank{rank}\") "));
    let named: Vec<u16> = (0..RANKS).filter(named).collect();
    text.starts_with("expected all ranks of group 1 to call the same collective (number ")
        && text.contains(&format!("found another {what}: rank "))
        && named.len() == 2
        && named.contains(&odd)
}

fn input(rank: RankNumber, bytes: usize) -> [Numbers; 2] {
    [pattern(rank, bytes, SUM.data_type), Numbers::zeroed(bytes)]
}

#[test]
fn each_rank_that_runs_a_collective_hears_which_two_differ() {
    let heard = on_ranks(|rank, group| {
        let collective = if group.rank.0 == 1 {
            Collective::Broadcast { root: RankNumber(0) }
        } else {
            Collective::AllReduce
        };
        for collective in [Collective::AllReduce, collective] {
            let [input, output] = input(group.rank, BYTES);
            if let Err(error) = rank.run(group.id, collective, SUM, input, output, LIMIT) {
                return Some(error.to_string());
            }
        }
        None
    });
    for heard in heard {
        let text = heard.expect("an error");
        assert!(names(&text, 1, "collective"), "{text}");
        assert!(text.contains("broadcast of 4096 bytes with root 0"), "{text}");
        assert!(text.contains("all_reduce of 4096 bytes, sum of i32"), "{text}");
    }
}

#[test]
fn whoever_begins_collectives_himself_is_told_as_what_he_has_noted() {
    let heard = on_ranks(|rank, group| {
        let bytes = if group.rank.0 == 2 { 2 * BYTES } else { BYTES };
        let [input, output] = input(group.rank, bytes);
        rank.begin(group.id, Collective::AllReduce, SUM, Terms::WHOLE, Finished { input, output }).unwrap();
        // Of all that is exchanged so, this is the first part.
        let call = NewCall {
            collective: Collective::AllReduce,
            reduction: (SUM.op.into(), SUM.data_type),
            bytes: 10 * bytes as u64,
            site: None,
            called: Instant::now(),
        };
        rank.note_call(group.id, call);
        loop {
            let mut ended = rank.step(Duration::from_millis(5)).unwrap();
            ended.extend(rank.look().unwrap());
            match ended.pop() {
                Some(Ended::Group { error, .. }) => break error,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
    });
    for heard in &heard {
        let RuntimeError::Disagreement(text) = heard else { panic!("{heard}") };
        assert!(names(text, 2, "length"), "{text}");
        assert!(text.contains(" of 81920 bytes") && text.contains(" of 40960 bytes"), "{text}");
    }
}

#[test]
fn a_rank_that_comes_late_is_waited_for() {
    let ended = on_ranks(|rank, group| {
        // The others are stalled by then, and have said so.
        if group.rank.0 == 1 {
            rank.serve(Duration::from_millis(150)).unwrap();
        }
        let [input, output] = input(group.rank, BYTES);
        rank.run(group.id, Collective::AllReduce, SUM, input, output, LIMIT)
            .map(|finished| finished.output)
            .unwrap()
    });
    assert!(ended.windows(2).all(|pair| pair[0] == pair[1]));
}
