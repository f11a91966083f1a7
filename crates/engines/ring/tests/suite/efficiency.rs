//! How much of their links the algorithms use, in virtual time, with the default chunk and window: hosts on links of
//! 500 Mbit/s (16 ns a byte), 100 us from host to host.

use crate::common::timed::{Links, Timing};
use crate::common::{ProgramGroup, config, lengths};
use quincunx_collective::{Collective, DataType, LengthOnly, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::CollectiveRequest;
use quincunx_ring::{Algorithm, Config, DEFAULT_CHUNK, DEFAULT_WINDOW};

const LINKS: Links = Links { per_byte: 16, latency: 100_000 };
const MIB: usize = 1024 * 1024;

fn time(algorithm: Algorithm, collective: Collective, ranks: usize, bytes: usize, starts: &[u64]) -> Timing {
    let group = ProgramGroup::new(algorithm, ranks, DEFAULT_CHUNK.bytes(), DEFAULT_WINDOW, 0);
    run(group, collective, bytes, starts)
}

fn run(mut group: ProgramGroup<LengthOnly>, collective: Collective, bytes: usize, starts: &[u64]) -> Timing {
    let ranks = group.hosts.len();
    let requests: Vec<_> = (0..ranks)
        .map(|rank| {
            let (input, output) = lengths(collective, rank, ranks, bytes);
            CollectiveRequest {
                collective,
                reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                input: group.register(rank, LengthOnly::new(input)),
                output: group.register(rank, LengthOnly::new(output)),
                terms: Terms::WHOLE,
            }
        })
        .collect();
    group.run_timed(&requests, starts, &LINKS)
}

/// Time of the busiest link's bytes over the time taken.
fn efficiency(
    algorithm: Algorithm,
    collective: Collective,
    ranks: usize,
    bytes: usize,
    link_bytes: usize,
) -> f64 {
    let timing = time(algorithm, collective, ranks, bytes, &vec![0; ranks]);
    assert_eq!(timing.not_ready, 0, "every message finds a receive request");
    let found = (link_bytes as u64 * LINKS.per_byte) as f64 / timing.end as f64;
    println!("{algorithm} {collective} {ranks} ranks {bytes} bytes: {found:.3} of its bound");
    found
}

fn all_reduce_link_bytes(ranks: usize, bytes: usize) -> usize {
    2 * bytes * (ranks - 1) / ranks
}

#[test]
fn ring_all_reduce_comes_within_a_tenth_of_its_bound() {
    for ranks in [2, 4, 8, 16] {
        for bytes in [MIB / 4, MIB, 16 * MIB] {
            let bound = all_reduce_link_bytes(ranks, bytes);
            let found = efficiency(Algorithm::Ring, Collective::AllReduce, ranks, bytes, bound);
            assert!(found >= 0.9, "{ranks} ranks, {bytes} bytes: {found:.3}");
        }
    }
}

#[test]
fn ring_chains_stream() {
    for collective in [Collective::Reduce { root: Rank(3) }, Collective::Broadcast { root: Rank(3) }] {
        let found = efficiency(Algorithm::Ring, collective, 8, 16 * MIB, 16 * MIB);
        assert!(found >= 0.9, "{collective}: {found:.3}");
    }
}

#[test]
fn ring_reduce_scatter_and_all_gather_come_within_a_tenth_of_their_bounds() {
    for collective in [Collective::ReduceScatter, Collective::AllGather] {
        let found = efficiency(Algorithm::Ring, collective, 8, 2 * MIB, 7 * 2 * MIB);
        assert!(found >= 0.9, "{collective}: {found:.3}");
    }
}

#[test]
fn direct_all_reduce_of_a_short_vector_takes_two_hops_and_the_links_time() {
    let (ranks, bytes) = (8, 4096);
    let timing = time(Algorithm::Direct, Collective::AllReduce, ranks, bytes, &vec![0; ranks]);
    assert_eq!(timing.not_ready, 0);
    // The last message's acknowledgement takes a third hop.
    let bound = 3 * LINKS.latency + all_reduce_link_bytes(ranks, bytes) as u64 * LINKS.per_byte;
    assert!(timing.end <= bound * 11 / 10, "{} for {bound}", timing.end);
}

#[test]
fn direct_all_reduce_of_a_long_vector_comes_within_a_tenth_of_its_bound() {
    let bound = all_reduce_link_bytes(8, 16 * MIB);
    let found = efficiency(Algorithm::Direct, Collective::AllReduce, 8, 16 * MIB, bound);
    assert!(found >= 0.9, "{found:.3}");
}

/// What a rank of direct has under way fills queues wherever senders meet: more ranks must not fill them more.
#[test]
fn direct_has_as_much_under_way_to_all_others_as_to_one() {
    for (ranks, bytes) in [(2, 8 * MIB), (9, 2 * MIB), (40, MIB)] {
        for collective in [Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce] {
            let mut group =
                ProgramGroup::new(Algorithm::Direct, ranks, DEFAULT_CHUNK.bytes(), DEFAULT_WINDOW, 0);
            let (input, output) = lengths(collective, 0, ranks, bytes);
            let [input, output] = [input, output].map(|length| group.register(0, LengthOnly::new(length)));
            let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
            assert_eq!(
                group.start(
                    0,
                    CollectiveRequest { collective, reduction, input, output, terms: Terms::WHOLE }
                ),
                Ok(None)
            );
            let posted: Vec<usize> = (0..ranks - 1).map(|qp| group.posted(0, qp)).collect();
            let all: usize = posted.iter().sum();
            assert!(all > MIB / 2 && all <= MIB, "{collective}, {ranks} ranks: {all}");
            // To the next ranks first, a piece each in turn.
            assert!(posted.is_sorted_by(|earlier, later| earlier >= later), "{posted:?}");
            assert!(posted[0] - posted[ranks - 2] <= DEFAULT_CHUNK.as_usize(), "{posted:?}");
        }
    }
}

#[test]
fn direct_sends_to_all_others_at_once_what_is_short() {
    for (collective, bytes) in [(Collective::AllGather, 4096), (Collective::Barrier, 0)] {
        let mut group = ProgramGroup::new(Algorithm::Direct, 120, DEFAULT_CHUNK.bytes(), DEFAULT_WINDOW, 0);
        let (input, output) = lengths(collective, 0, 120, bytes);
        let [input, output] = [input, output].map(|length| group.register(0, LengthOnly::new(length)));
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        assert_eq!(
            group.start(0, CollectiveRequest { collective, reduction, input, output, terms: Terms::WHOLE }),
            Ok(None)
        );
        assert!((0..119).all(|qp| group.messages_posted(0, qp) == 1), "{collective}");
    }
}

#[test]
fn a_tree_streams_twice_the_vector_over_its_busiest_link() {
    let found = efficiency(Algorithm::Tree, Collective::AllReduce, 8, 16 * MIB, 3 * 16 * MIB);
    assert!(found >= 0.9, "{found:.3}");
}

#[test]
fn a_rank_that_comes_late_costs_its_delay_and_little_more() {
    let together = time(Algorithm::Ring, Collective::AllReduce, 8, 16 * MIB, &[0; 8]);
    let mut starts = [0; 8];
    starts[5] = 50_000_000;
    let late = time(Algorithm::Ring, Collective::AllReduce, 8, 16 * MIB, &starts);
    assert!(late.end <= (together.end + starts[5]) * 105 / 100, "{} after {}", late.end, together.end);
}

#[test]
fn a_barrier_takes_as_many_hops_as_it_says() {
    for (algorithm, hops) in [(Algorithm::Ring, 14), (Algorithm::Tree, 6), (Algorithm::Direct, 1)] {
        let timing = time(algorithm, Collective::Barrier, 8, 0, &[0; 8]);
        // The last message's acknowledgement takes one more.
        assert_eq!(timing.end, (hops + 1) * LINKS.latency, "{algorithm}");
    }
}

#[test]
fn a_barrier_at_rank_0_goes_there_and_back() {
    let config = |rank| Config {
        barrier_at_root: true,
        ..config(Algorithm::Direct, rank, 8, DEFAULT_CHUNK.bytes(), DEFAULT_WINDOW)
    };
    let timing = run(ProgramGroup::of(&config, 8, 0), Collective::Barrier, 0, &[0; 8]);
    assert_eq!(timing.end, (2 + 1) * LINKS.latency, "with the last message's acknowledgement");
}

/// Each link carries two vectors each way, and both ways are in use from the first piece to the last.
#[test]
fn double_tree_all_reduce_of_a_long_vector_comes_within_a_tenth_of_its_bound() {
    for (ranks, bytes) in [(2, MIB), (8, 16 * MIB), (16, 16 * MIB)] {
        let vectors = if ranks == 2 { 1 } else { 2 };
        let found = efficiency(Algorithm::DoubleTree, Collective::AllReduce, ranks, bytes, vectors * bytes);
        assert!(found >= 0.9, "{ranks} ranks: {found:.3}");
    }
}

#[test]
fn halving_and_doubling_carries_what_a_ring_does_and_a_short_vector_takes_a_hop_for_each_exchange() {
    for (ranks, exchanges) in [(2, 1), (8, 3), (16, 4), (64, 6)] {
        let found = efficiency(
            Algorithm::HalvingDoubling,
            Collective::AllReduce,
            ranks,
            16 * MIB,
            all_reduce_link_bytes(ranks, 16 * MIB),
        );
        assert!(found >= 0.9, "{ranks} ranks: {found:.3}");
        let (bytes, starts) = (4096, vec![0; ranks]);
        let timing = time(Algorithm::HalvingDoubling, Collective::AllReduce, ranks, bytes, &starts);
        // The last message's acknowledgement takes one more.
        let hops = exchanges * (LINKS.latency + bytes as u64 * LINKS.per_byte) + LINKS.latency;
        assert_eq!(timing.end, hops, "{ranks} ranks");
    }
}
