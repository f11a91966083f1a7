//! What is refused, and how a group fails.

use crate::common::{ProgramGroup, config, qp_to};
use quincunx_collective::{Collective, DataType, LengthOnly, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, QpIndex, RegionId, RequestError, Slice, WorkId,
};
use quincunx_ring::{Algorithm, ConfigError, HostProgram};
use quincunx_units::ByteCount;

fn group() -> ProgramGroup<LengthOnly> {
    ProgramGroup::new(Algorithm::Ring, 3, 64, 4, 1)
}

fn request(
    group: &mut ProgramGroup<LengthOnly>,
    collective: Collective,
    input: usize,
    output: usize,
) -> CollectiveRequest {
    CollectiveRequest {
        collective,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        input: group.register(0, LengthOnly::new(input)),
        output: group.register(0, LengthOnly::new(output)),
        terms: Terms::WHOLE,
    }
}

#[test]
fn lengths_must_fit_the_collective() {
    let root = Rank(0);
    let expectations = [
        (Collective::AllReduce, 8, 12, "an output", 8),
        (Collective::Reduce { root }, 8, 4, "an output", 8),
        (Collective::Broadcast { root }, 8, 4, "an output", 8),
        (Collective::Barrier, 4, 0, "an input", 0),
        (Collective::ReduceScatter, 8, 4, "an input", 12),
        (Collective::AllGather, 8, 8, "an output", 24),
    ];
    for (collective, input, output, what, expected) in expectations {
        let mut group = group();
        let request = request(&mut group, collective, input, output);
        let found = if what == "an input" { input } else { output };
        assert_eq!(
            group.start(0, request),
            Err(RequestError::Length { what, expected, found }),
            "{collective}"
        );
    }
}

#[test]
fn what_is_routed_is_not_offered() {
    for found in [Collective::Dispatch, Collective::Combine] {
        let mut group = group();
        let request = request(&mut group, found, 8, 8);
        assert_eq!(group.start(0, request), Err(RequestError::NotOffered { found }));
    }
}

#[test]
fn a_reduce_elsewhere_than_at_its_root_needs_no_output() {
    let mut group = group();
    let request = request(&mut group, Collective::Reduce { root: Rank(1) }, 8, 0);
    assert_eq!(group.start(0, request), Ok(None));
}

#[test]
fn memory_must_be_registered() {
    let mut group = group();
    let mut request = request(&mut group, Collective::AllReduce, 8, 8);
    request.input = Slice { region: RegionId(77), offset: 0, length: 8 };
    let refusal = RequestError::Length { what: "an input", expected: 8, found: 0 };
    assert_eq!(group.start(0, request), Err(refusal));
}

#[test]
fn input_and_output_must_lie_apart() {
    let mut group = group();
    let mut request = request(&mut group, Collective::AllReduce, 8, 8);
    request.output = request.input;
    assert_eq!(group.start(0, request), Err(RequestError::SameRegion { region: request.input.region }));
}

#[test]
fn a_vector_must_be_whole_elements() {
    let mut group = group();
    let request = request(&mut group, Collective::AllReduce, 6, 6);
    assert_eq!(group.start(0, request), Err(RequestError::Element { element: 4, found: 6 }));
}

#[test]
fn bits_of_floating_point_numbers_are_refused() {
    let mut group = group();
    let found = Reduction { op: ReduceOp::BitOr, data_type: DataType::F32 };
    let request = CollectiveRequest { reduction: found, ..request(&mut group, Collective::AllReduce, 8, 8) };
    assert_eq!(group.start(0, request), Err(RequestError::Undefined { found }));
}

#[test]
fn elements_may_not_lie_across_messages() {
    let mut group: ProgramGroup<LengthOnly> = ProgramGroup::new(Algorithm::Ring, 3, 12, 4, 1);
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F64 };
    let request = CollectiveRequest { reduction, ..request(&mut group, Collective::AllReduce, 48, 48) };
    let refusal = RequestError::Piece { element: 8, key: "hosts.chunk", found: 12 };
    assert_eq!(group.start(0, request), Err(refusal));
}

#[test]
fn a_root_must_be_a_rank() {
    let mut group = group();
    let request = request(&mut group, Collective::Broadcast { root: Rank(3) }, 8, 8);
    assert_eq!(group.start(0, request), Err(RequestError::NoSuchRoot { ranks: 3, found: 3 }));
}

#[test]
fn one_collective_at_a_time() {
    let mut group = group();
    let request = request(&mut group, Collective::AllReduce, 8, 8);
    assert_eq!(group.start(0, request), Ok(None));
    assert_eq!(group.start(0, request), Err(RequestError::Busy));
}

#[test]
fn a_failed_queue_pair_fails_the_collective_once_and_the_group_for_good() {
    let mut group = group();
    let request = request(&mut group, Collective::AllReduce, 8, 8);
    assert_eq!(group.start(0, request), Ok(None));
    let failure = Failure::RetryExceeded;
    let outcome = Outcome::Failed { qp: QpIndex(qp_to(0, 1) as u16), failure };
    assert_eq!(group.fail(0, 1, failure), Some(outcome));
    assert_eq!(group.fail(0, 2, Failure::Flushed), None);
    assert_eq!(group.start(0, request), Err(RequestError::GroupFailed));
}

#[test]
fn a_queue_pair_that_fails_between_collectives_shows_at_the_next_start() {
    let mut group = group();
    assert_eq!(group.fail(0, 1, Failure::RetryExceeded), None);
    let request = request(&mut group, Collective::Barrier, 0, 0);
    assert_eq!(group.start(0, request), Err(RequestError::GroupFailed));
}

#[test]
fn a_peer_that_runs_another_collective_fails_the_group() {
    let mut group = group();
    let request = request(&mut group, Collective::AllReduce, 24, 24);
    assert_eq!(group.start(0, request), Ok(None));
    let message = Completion::Received { id: WorkId(0), length: 12, immediate: Some(0) };
    let qp = qp_to(0, 2);
    let outcome = Outcome::Failed { qp: QpIndex(qp as u16), failure: Failure::Disagreement };
    assert_eq!(group.complete(0, qp, message), Some(outcome));
}

#[test]
fn a_piece_of_another_length_fails_the_group() {
    let mut group = group();
    let request = request(&mut group, Collective::AllReduce, 24, 24);
    assert_eq!(group.start(0, request), Ok(None));
    // The window of 4 takes 3 bits of the immediate, the digest 28.
    let immediate = Some(request.digest(24, 28) << 3);
    let message = Completion::Received { id: WorkId(0), length: 12, immediate };
    let qp = qp_to(0, 2);
    let outcome = Outcome::Failed { qp: QpIndex(qp as u16), failure: Failure::Length };
    assert_eq!(group.complete(0, qp, message), Some(outcome));
}

#[test]
fn a_peer_that_does_not_count_slots_or_frees_more_than_it_got_fails_the_group() {
    for immediate in [None, Some(2)] {
        let mut group = group();
        let request = request(&mut group, Collective::AllReduce, 24, 24);
        assert_eq!(group.start(0, request), Ok(None));
        let message = Completion::Received { id: WorkId(0), length: 8, immediate };
        let qp = qp_to(0, 1);
        let outcome = Outcome::Failed { qp: QpIndex(qp as u16), failure: Failure::InvalidRequest };
        assert_eq!(group.complete(0, qp, message), Some(outcome), "{immediate:?}");
    }
}

#[test]
fn a_group_of_one_is_done_at_once() {
    let mut group = ProgramGroup::<LengthOnly>::new(Algorithm::Ring, 1, 64, 4, 1);
    let request = request(&mut group, Collective::AllReduce, 8, 8);
    assert_eq!(group.start(0, request), Ok(Some(Outcome::Done)));
}

#[test]
fn set_ups_that_cannot_work_are_refused() {
    let good = config(Algorithm::Ring, 1, 4, 64, 4);
    let refusal = |change: &dyn Fn(&mut quincunx_ring::Config)| {
        let mut config = good.clone();
        change(&mut config);
        HostProgram::new(&config).unwrap_err()
    };
    assert_eq!(
        refusal(&|config| config.rank = Rank(4)),
        ConfigError::NoSuchRank { ranks: 4, found: Rank(4) }
    );
    assert_eq!(
        refusal(&|config| config.peers[2] = None),
        ConfigError::NoQueuePair { algorithm: Algorithm::Ring, rank: Rank(1), peer: Rank(2) }
    );
    assert_eq!(
        refusal(&|config| config.peers[2] = config.peers[0]),
        ConfigError::SharedQueuePair { peer: Rank(2), qp: QpIndex(0) }
    );
    assert_eq!(refusal(&|config| config.chunk = ByteCount::new(6)), ConfigError::Chunk { found: 6 });
    assert_eq!(refusal(&|config| config.window = 1), ConfigError::Window { found: 1 });
}

#[test]
fn a_ring_needs_no_queue_pair_beyond_its_neighbours() {
    let mut config = config(Algorithm::Ring, 1, 4, 64, 4);
    config.peers[3] = None;
    assert!(HostProgram::new(&config).is_ok());
}
