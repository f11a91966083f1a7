//! Tokens that go to the ranks of their experts and come back, on real sockets: four ranks on two servers, each with two of eight experts, and not
//! as many tokens at each.

use crate::fabric::LoopbackFabric;
use quincunx_collective::{DataType, ReduceOp};
use quincunx_comm::{
    Arrival, CommError, Dispatch, ExpertLayout, Experts, Group, Nothing, Sink, Source, TokenBatch,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const RANKS: u16 = 4;
const SERVER: u16 = 2;
const TOP_K: u16 = 3;
const VALUES: usize = 5;
const LENGTH: usize = 4 * VALUES;
const LAYOUT: ExpertLayout = ExpertLayout::new(8, TOP_K, 6, LENGTH);

/// A rank's tokens: rank 1 has none. Token t chooses experts around r + t, which are of two or three ranks, others in each round.
struct Batch {
    values: Vec<f32>,
    experts: Vec<u16>,
    weights: Vec<f32>,
}

impl Batch {
    fn of(rank: u16, round: u16) -> Self {
        let tokens = if rank == 1 { 0 } else { 6 - rank };
        let experts = |token: u16| [0, 1, 5].map(|step| (2 * rank + token + step + 3 * round) % 8);
        let weights = |token: u16| [0.5, 0.25, 1.0 + f32::from(token)];
        let value = |index: usize| (usize::from(rank) * 100 + index) as f32;
        Self {
            values: (0..usize::from(tokens) * VALUES).map(value).collect(),
            experts: (0..tokens).flat_map(experts).collect(),
            weights: (0..tokens).flat_map(weights).collect(),
        }
    }

    /// How many tokens each rank has for a rank.
    fn incoming(me: u16, round: u16) -> Vec<usize> {
        let has = |experts: &&[u16]| experts.iter().any(|expert| expert / 2 == me);
        let from = |rank| Self::of(rank, round).experts.chunks(TOP_K.into()).filter(has).count();
        (0..RANKS).map(from).collect()
    }

    fn dispatch(&self, experts: &Experts, incoming: Option<&[usize]>) -> Result<(Dispatch, Came), CommError> {
        let came: Came = Arc::default();
        let into = Arc::clone(&came);
        let receiver = move |token: Arrival<'_>| {
            let values = token.token.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            into.lock().unwrap().push((token.source, token.number, values, token.choices().collect()));
        };
        let batch = TokenBatch {
            source: Box::new(bytes(&self.values)),
            length: LENGTH,
            experts: &self.experts,
            weights: Some(&self.weights),
            incoming,
        };
        Ok((experts.dispatch(None, batch, Box::new(receiver))?, came))
    }
}

/// By rank and number what has come: its values, its experts with their weights.
type Came = Arc<Mutex<Vec<(u16, u32, Vec<f32>, Vec<(u16, f32)>)>>>;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// What expert `number` makes of a value.
fn work(number: u16, value: f32) -> f32 {
    value * f32::from(number + 1)
}

#[derive(Clone)]
struct Room(Arc<Mutex<Vec<u8>>>);

impl Sink for Room {
    fn length(&self) -> usize {
        self.0.lock().unwrap().len()
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.0.lock().unwrap()[offset..][..from.len()].copy_from_slice(from);
    }
}

const SUM: (DataType, quincunx_comm::Op) = (DataType::F32, quincunx_comm::Op::Reduce(ReduceOp::Sum));

fn combine(
    experts: &Experts,
    dispatch: &Dispatch,
    results: &[f32],
    tokens: usize,
) -> Result<Vec<f32>, CommError> {
    let room = Room(Arc::new(Mutex::new(vec![0; tokens * LENGTH])));
    let sides = (Box::new(bytes(results)) as Box<dyn Source>, Box::new(room.clone()) as Box<dyn Sink>);
    experts.combine(None, dispatch, SUM, LENGTH, sides)?.wait()?;
    let bytes = room.0.lock().unwrap();
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Out and back, and everything is as it must be.
fn out_and_back(experts: &Experts, round: u16, incoming: Option<&[usize]>) {
    let me = experts.group().rank();
    let mine = Batch::of(me, round);
    let (dispatch, came) = mine.dispatch(experts, incoming).unwrap();
    dispatch.handle().wait().unwrap();
    let came = came.lock().unwrap();
    assert_eq!(dispatch.count(), came.len());
    let own = experts.own();
    let mut expected = Vec::new();
    for source in 0..experts.group().size() {
        let batch = Batch::of(source, round);
        for (number, chosen) in (0_u32..).zip(batch.experts.chunks(TOP_K.into())) {
            if chosen.iter().any(|expert| own.contains(expert)) {
                let number_ = number as usize;
                let values = batch.values[number_ * VALUES..(number_ + 1) * VALUES].to_vec();
                let weights = &batch.weights[number_ * usize::from(TOP_K)..];
                expected.push((
                    source,
                    number,
                    values,
                    chosen.iter().copied().zip(weights.iter().copied()).collect(),
                ));
            }
        }
    }
    assert_eq!(*came, expected, "what has come to rank {me}: each token once, with all its choices");
    let result = |(_, _, values, choices): &(u16, u32, Vec<f32>, Vec<(u16, f32)>)| {
        let here: Vec<(u16, f32)> =
            choices.iter().copied().filter(|(expert, _)| own.contains(expert)).collect();
        let sum = |value: &f32| here.iter().map(|(expert, weight)| weight * work(*expert, *value)).sum();
        values.iter().map(sum).collect::<Vec<f32>>()
    };
    let results: Vec<f32> = came.iter().flat_map(result).collect();
    let sums = combine(experts, &dispatch, &results, mine.experts.len() / usize::from(TOP_K)).unwrap();
    for (index, sum) in sums.iter().enumerate() {
        let choices = index / VALUES * usize::from(TOP_K)..(index / VALUES + 1) * usize::from(TOP_K);
        let weighed = mine.experts[choices.clone()].iter().zip(&mine.weights[choices]);
        let expected: f32 = weighed.map(|(expert, weight)| weight * work(*expert, mine.values[index])).sum();
        assert!((sum - expected).abs() <= 1e-5 * expected.abs(), "{sum}, not {expected}, at rank {me}");
    }
}

fn on_servers(settings: &[(&str, &str)], job: impl Fn(&Group) + Sync) {
    LoopbackFabric::with_room_for(4).run_on_servers(RANKS, SERVER, settings, job);
}

#[test]
fn tokens_reach_the_ranks_of_their_experts_once_each_and_come_back_as_weighted_sums() {
    on_servers(&[], |world| {
        let experts = world.experts(LAYOUT).unwrap();
        assert_eq!(experts.design(), "multiwrite");
        for round in 0..3 {
            out_and_back(&experts, round, None);
        }
        let straight = world.experts(ExpertLayout { design: Some("direct".into()), ..LAYOUT }).unwrap();
        assert_eq!(straight.design(), "direct");
        out_and_back(&straight, 0, None);
        out_and_back(&experts, 0, None);
    });
}

#[test]
fn where_nothing_is_announced_ranks_say_how_much_comes_from_whom() {
    on_servers(&[("relay.announce", "false")], |world| {
        let experts = world.experts(LAYOUT).unwrap();
        for round in 0..5 {
            out_and_back(&experts, round, Some(&Batch::incoming(world.rank(), round)));
        }
    });
}

/// How dispatches end where rank 2 expects so many tokens more or fewer of rank 0 than come.
fn ends_with(more: isize) {
    let begun = Instant::now();
    on_servers(&[("relay.announce", "false"), ("relay.patience", "50ms")], |world| {
        let experts = world.experts(LAYOUT).unwrap();
        let mut incoming = Batch::incoming(world.rank(), 0);
        if world.rank() == 2 {
            incoming[0] = incoming[0].strict_add_signed(more);
        }
        let (dispatch, _) = Batch::of(world.rank(), 0).dispatch(&experts, Some(&incoming)).unwrap();
        let ended = dispatch.handle().wait();
        // Who expects too many keeps all waiting. Who expects too few does not, and finds out itself: others may be done, and right, before.
        let must_hear = more > 0 || world.rank() == 2;
        assert!(!must_hear || ended.is_err(), "rank {} hears nothing", world.rank());
        if let Err(heard) = ended {
            assert!(matches!(heard, CommError::Group(_)) && !heard.to_string().contains('\n'), "{heard}");
            let found = world.rank() != 2
                || heard.to_string().contains(
                    "another number of tokens than this rank expects of it; give all ranks the same counts",
                );
            assert!(found, "rank 2 hears {heard}");
        }
        // The group of all goes on, and so may other experts.
        out_and_back(&world.experts(LAYOUT).unwrap(), 0, Some(&Batch::incoming(world.rank(), 0)));
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_rank_that_expects_a_token_too_many_ends_the_dispatch_at_all_ranks() {
    ends_with(1);
}

#[test]
fn a_rank_that_expects_a_token_too_few_hears_so() {
    ends_with(-1);
}

#[test]
fn a_rank_that_does_not_say_how_much_comes_ends_the_dispatch_at_all_ranks() {
    on_servers(&[("relay.announce", "false")], |world| {
        let experts = world.experts(LAYOUT).unwrap();
        let incoming = Batch::incoming(world.rank(), 0);
        let said = (world.rank() != 2).then_some(&incoming[..]);
        let (dispatch, _) = Batch::of(world.rank(), 0).dispatch(&experts, said).unwrap();
        let begun = Instant::now();
        let heard = dispatch.handle().wait().unwrap_err().to_string();
        assert!(!heard.contains('\n'), "{heard}");
        // What a collective may take is longer.
        assert!(begun.elapsed() < Duration::from_secs(25), "{heard} after {:?}", begun.elapsed());
    });
}

#[test]
fn misuse_is_refused_in_a_line_and_changes_nothing() {
    on_servers(&[], |world| {
        let wrong = |layout: ExpertLayout, what: &str| {
            let refused = world.experts(layout).unwrap_err().to_string();
            assert!(refused.starts_with("expected ") && refused.contains(what), "{refused}");
        };
        wrong(ExpertLayout { experts: 7, ..LAYOUT }, "7");
        wrong(ExpertLayout { experts: 0, ..LAYOUT }, "equal parts");
        wrong(ExpertLayout { top_k: 9, ..LAYOUT }, "found 9");
        wrong(ExpertLayout { tokens: 0, ..LAYOUT }, "0 of 20 bytes");
        wrong(
            ExpertLayout { length: LENGTH + usize::from(world.rank()), ..LAYOUT },
            "one layout at all ranks",
        );
        // One rank alone: nobody waits for it.
        let (top_k, what) = if world.rank() == 2 { (0, "1 to 8 experts") } else { (TOP_K, "top 0") };
        wrong(ExpertLayout { top_k, ..LAYOUT }, what);
        let experts = world.experts(LAYOUT).unwrap();
        let batch = |source: usize, length, experts: &'static [u16]| TokenBatch {
            source: Box::new(vec![0; source]),
            length,
            experts,
            weights: None,
            incoming: None,
        };
        let refused = |batch: TokenBatch<'_>, what: &str| {
            let refused = experts.dispatch(None, batch, Box::new(|_| {})).unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, CommError::Misuse(_)) && text.contains(what), "{text}");
        };
        refused(batch(LENGTH, LENGTH, &[0, 1, 8]), "experts below 8, found 8");
        refused(batch(LENGTH, LENGTH, &[0, 1]), "found 2 experts");
        refused(batch(2 * LENGTH, LENGTH, &[0, 1, 2]), "1 tokens of 20 bytes, found 40 bytes");
        refused(batch(LENGTH + 1, LENGTH + 1, &[0, 1, 2]), "tokens of 1 to 20 bytes");
        refused(batch(0, LENGTH, &[0; 21]), "up to 6 tokens");
        refused(
            TokenBatch { weights: Some(&[1.0]), ..batch(LENGTH, LENGTH, &[0, 1, 2]) },
            "a weight for each of 3",
        );
        refused(
            TokenBatch { incoming: Some(&[1]), ..batch(LENGTH, LENGTH, &[0, 1, 2]) },
            "from each of 4 ranks",
        );
        refused(
            TokenBatch { incoming: Some(&[7; 4]), ..batch(LENGTH, LENGTH, &[0, 1, 2]) },
            "up to 6 tokens from",
        );
        let (first, _) = Batch::of(world.rank(), 0).dispatch(&experts, None).unwrap();
        first.handle().wait().unwrap();
        let sides = || (Box::new(Nothing) as Box<dyn Source>, Box::new(Nothing) as Box<dyn Sink>);
        let wrong = |dispatch: &Dispatch, reduction, length, what: &str| {
            let text = experts.combine(None, dispatch, reduction, length, sides()).unwrap_err().to_string();
            assert!(text.contains(what), "{text}");
        };
        wrong(&first, SUM, LENGTH, "a vector for each token");
        wrong(&first, SUM, 6, "whole elements");
        wrong(&first, (DataType::F32, quincunx_comm::Op::Average), LENGTH, "avg");
        wrong(&first, SUM, 4 << 10, "up to 48 bytes");
        let (second, _) = Batch::of(world.rank(), 0).dispatch(&experts, None).unwrap();
        second.handle().wait().unwrap();
        wrong(&first, SUM, LENGTH, "the last dispatch");
        out_and_back(&experts, 0, None);
        experts.close();
        let closed = Batch::of(world.rank(), 0).dispatch(&experts, None).unwrap_err().to_string();
        assert!(closed.contains("closed"), "{closed}");
    });
}

#[test]
fn on_one_server_nobody_relays() {
    LoopbackFabric::with_room_for(4).run(RANKS, |world| {
        let experts = world.experts(LAYOUT).unwrap();
        assert_eq!(experts.design(), "direct");
        out_and_back(&experts, 0, None);
        let refused =
            world.experts(ExpertLayout { design: Some("multiwrite".into()), ..LAYOUT }).unwrap_err();
        let text = refused.to_string();
        let heard = if world.rank() == 0 { "two domains at least" } else { "rank 0 has said why" };
        assert!(text.contains(heard) && !text.contains('\n'), "{text}");
    });
}

#[test]
fn experts_that_are_dropped_are_given_back() {
    let fabric = LoopbackFabric::with_room_for(4);
    fabric.run_on_servers(RANKS, SERVER, &[], |world| {
        let experts = world.experts(LAYOUT).unwrap();
        out_and_back(&experts, 0, None);
        drop(experts);
        world.barrier().unwrap();
        if world.rank() == 0 {
            // Of all ranks one for collectives, one for messages.
            fabric.expect_groups(2);
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_rank_alone_has_all_experts() {
    LoopbackFabric::with_room_for(1).run(1, |world| {
        let experts = world.experts(LAYOUT).unwrap();
        assert_eq!(experts.own(), 0..8);
        out_and_back(&experts, 0, None);
    });
}
