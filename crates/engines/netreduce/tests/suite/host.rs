//! What a rank writes to the next one, and what it makes of what comes.

use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Memory, Outcome, Program, QpIndex, ReceiveRequest,
    RegionId, RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_netreduce::{NetReduce, NetReduceConfig};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::netreduce::{LENGTH, NetReduceHeader};

/// Payloads of so many bytes: a header, the digest and an element, or eight of them.
const PAYLOAD: usize = 32;
/// Bytes before the elements of the vector.
const HEAD: usize = LENGTH + 8;
/// Elements of a full message of two frames.
const FULL: usize = (2 * PAYLOAD - HEAD) / 4;
const RANKS: u16 = 4;
const NEXT: QpIndex = QpIndex(0);
const PREVIOUS: QpIndex = QpIndex(1);

/// Keeps what is posted.
#[derive(Default)]
struct Posted {
    memory: Memory<Numbers>,
    sends: Vec<SendRequest>,
    receives: usize,
}

impl Verbs<Numbers> for Posted {
    fn memory(&mut self) -> &mut Memory<Numbers> {
        &mut self.memory
    }
    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        assert_eq!(qp, NEXT);
        self.sends.push(request);
    }
    fn post_receive(&mut self, qp: QpIndex, _: ReceiveRequest) {
        assert_eq!(qp, PREVIOUS);
        self.receives += 1;
    }
    fn set_alarm(&mut self, _: Alarm, _: Duration) {
        unreachable!("the design has no alarm");
    }
    fn skip(&mut self, _: QpIndex, _: u32, _: u32) {
        unreachable!("numbers follow each other");
    }
    fn skip_next(&mut self, _: QpIndex, _: Packets) {
        unreachable!("numbers follow each other");
    }
}

/// Rank 3 with two messages of two frames under way.
struct Host {
    program: NetReduce,
    verbs: Posted,
    input: RegionId,
    output: RegionId,
    elements: usize,
    /// What its messages say that it asks for.
    digest: [i32; 2],
}

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

fn words(values: impl IntoIterator<Item = i32>) -> Vec<u8> {
    values.into_iter().flat_map(i32::to_le_bytes).collect()
}

impl Host {
    /// With a vector of 0, 1, 2 and so on.
    fn new(elements: usize) -> Self {
        let config = NetReduceConfig {
            rank: Rank(3),
            ranks: RANKS,
            payload: PAYLOAD,
            frames: 2,
            window: 2,
            data_type: DataType::I32,
            mutation: None,
        };
        let mut program = NetReduce::new(config);
        let mut verbs = Posted::default();
        program.initialise(&mut verbs);
        let input = verbs.memory.register(Numbers::from(words(0..elements as i32)));
        let output = verbs.memory.register(Numbers::zeroed(4 * elements));
        Self { program, verbs, input, output, elements, digest: [0; 2] }
    }

    fn start(
        &mut self,
        collective: Collective,
        reduction: Reduction,
    ) -> Result<Option<Outcome>, RequestError> {
        let slice = |region| Slice { region, offset: 0, length: 4 * self.elements };
        let (input, output) = (slice(self.input), slice(self.output));
        let request = CollectiveRequest { collective, reduction, input, output, terms: Terms::WHOLE };
        let outcome = self.program.start(Instant::ZERO, request, &mut self.verbs)?;
        let last = self.verbs.sends.last().expect("a collective has a message").source;
        let said = &self.verbs.memory.view(last)[LENGTH..HEAD];
        self.digest = [0, 4].map(|at| i32::from_le_bytes(said[at..at + 4].try_into().unwrap()));
        Ok(outcome)
    }

    fn complete(&mut self, qp: QpIndex, completion: Completion) -> Option<Outcome> {
        let outcome = self.program.handle_completion(Instant::ZERO, qp, completion, &mut self.verbs);
        Program::<Numbers>::assert_invariants(&self.program);
        outcome
    }

    fn acknowledge(&mut self, message: u64) -> Option<Outcome> {
        self.complete(NEXT, Completion::Sent { id: WorkId(message) })
    }

    /// The result of a message lands in its slot: all elements are `value`.
    fn answer(&mut self, message: u32, value: i32) -> Option<Outcome> {
        let offset = message as usize % 2 * 2 * PAYLOAD;
        let target = Slice { region: RegionId(0), offset, length: 2 * PAYLOAD };
        // All ranks say what this one says.
        let said = self.digest.map(|half| half * i32::from(RANKS));
        let mut landed = vec![0; LENGTH];
        landed.extend(words(said.into_iter().chain([value; FULL])));
        self.verbs.memory.write(target, &landed);
        self.complete(PREVIOUS, Completion::Written { id: WorkId(0), target, immediate: message })
    }

    /// What a message says as it lies in the memory of this rank.
    fn message(&self, index: usize) -> (&SendRequest, NetReduceHeader, &[u8]) {
        let request = &self.verbs.sends[index];
        let bytes = self.verbs.memory.view(request.source);
        (request, NetReduceHeader::parse(bytes).unwrap(), &bytes[HEAD..])
    }

    fn result(&self) -> Vec<u8> {
        self.verbs.memory.view(Slice { region: self.output, offset: 0, length: 4 * self.elements }).to_vec()
    }
}

#[test]
fn a_vector_is_cut_into_messages_with_a_header_each() {
    let mut host = Host::new(FULL + 2);
    assert_eq!(host.start(Collective::AllReduce, SUM), Ok(None));
    let (request, header, data) = host.message(0);
    assert_eq!(request.verb, Verb::Write { remote_address: 0, remote_key: 0 });
    assert_eq!((request.immediate, request.source.length), (Some(0), 2 * PAYLOAD));
    let expected = NetReduceHeader { message: 0, rank: 3, frames: 2, elements: FULL as u32, collective: 0 };
    assert_eq!((header, data), (expected, &words(0..FULL as i32)[..]));
    let (request, header, data) = host.message(1);
    assert_eq!(request.verb, Verb::Write { remote_address: 2 * PAYLOAD as u64, remote_key: 0 });
    // Two frames, though one would hold it: there is no Write Only for aggregation.
    assert_eq!((header.message, header.elements, header.frames), (1, 2, 2));
    assert_eq!(data[..8], words([FULL as i32, FULL as i32 + 1]));
    assert!(data[8..].iter().all(|byte| *byte == 0), "what fills the frame up is nobody's data");
}

#[test]
fn what_fills_a_message_up_is_not_what_its_slot_had_before() {
    let mut host = Host::new(2 * FULL + 2);
    host.start(Collective::AllReduce, SUM).unwrap();
    host.answer(0, 7);
    host.acknowledge(0);
    let (request, _, data) = host.message(2);
    assert_eq!(request.verb, Verb::Write { remote_address: 0, remote_key: 0 }, "the first one's slot");
    assert_eq!(data[..8], words([2 * FULL as i32, 2 * FULL as i32 + 1]));
    assert!(data[8..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_message_is_over_when_it_is_acknowledged_and_the_next_one_but_one_follows() {
    let mut host = Host::new(4 * FULL);
    host.start(Collective::AllReduce, SUM).unwrap();
    assert_eq!(host.verbs.sends.len(), 2);
    host.answer(0, 7);
    assert_eq!(host.verbs.sends.len(), 2, "its own may still be on its way");
    host.acknowledge(0);
    assert_eq!(host.verbs.sends.len(), 3);
    assert_eq!(host.message(2).0.verb, Verb::Write { remote_address: 0, remote_key: 0 });
}

#[test]
fn it_ends_when_all_results_are_here_and_the_next_rank_has_its_own() {
    let mut host = Host::new(FULL + 2);
    host.start(Collective::AllReduce, SUM).unwrap();
    assert_eq!(host.answer(0, 5), None);
    assert_eq!(host.answer(1, 6), None);
    assert_eq!(host.acknowledge(0), None);
    assert_eq!(host.acknowledge(1), Some(Outcome::Done));
    assert_eq!(host.result(), [words([5; FULL]), words([6; 2])].concat());
    assert_eq!(host.verbs.receives, 2 + 2, "a receive request in place of each that was used");
}

#[test]
fn messages_are_numbered_through_all_collectives() {
    let mut host = Host::new(2);
    for round in 0..3 {
        assert_eq!(host.start(Collective::AllReduce, SUM), Ok(None));
        assert_eq!(host.start(Collective::AllReduce, SUM), Err(RequestError::Busy));
        let header = host.message(round).1;
        assert_eq!((header.message, header.collective), (round as u32, round as u32));
        host.answer(round as u32, 1);
        assert_eq!(host.acknowledge(round as u64), Some(Outcome::Done));
    }
}

#[test]
fn a_barrier_is_a_message_without_elements() {
    let mut host = Host::new(0);
    assert_eq!(host.start(Collective::Barrier, SUM), Ok(None));
    assert_eq!(host.message(0).1.elements, 0);
    host.answer(0, 0);
    assert_eq!(host.acknowledge(0), Some(Outcome::Done));
    assert_eq!(host.start(Collective::AllReduce, SUM), Ok(None), "of nothing, of which all must know");
}

#[test]
fn a_sum_in_which_one_asks_for_something_else_ends_the_group() {
    for change in [[1, 0], [0, 1], [-1, 1]] {
        let mut host = Host::new(2);
        host.start(Collective::AllReduce, SUM).unwrap();
        host.acknowledge(0);
        // The sum is not that of ranks that all say what this one does.
        for (half, by) in host.digest.iter_mut().zip(change) {
            *half += by;
        }
        let failed = Outcome::Failed { qp: PREVIOUS, failure: Failure::Disagreement };
        assert_eq!(host.answer(0, 5), Some(failed));
        assert_eq!(host.start(Collective::AllReduce, SUM), Err(RequestError::GroupFailed));
    }
}

#[test]
fn what_ranks_must_agree_on_is_in_every_message() {
    let digest = |elements, collective| {
        let mut host = Host::new(elements);
        host.start(collective, SUM).unwrap();
        host.digest
    };
    let all = [
        (0, Collective::Barrier),
        (0, Collective::AllReduce),
        (1, Collective::AllReduce),
        (2, Collective::AllReduce),
    ];
    let mut digests = all.map(|(elements, collective)| digest(elements, collective));
    digests.sort_unstable();
    assert!(digests.windows(2).all(|pair| pair[0] != pair[1]), "{digests:?}");
    // The halves do not follow lengths: one rank more and one less do not make up for each other.
    let half = |elements| digest(elements, Collective::AllReduce)[1];
    assert_ne!(half(1) + half(3), 2 * half(2));
}

#[test]
fn what_the_switch_cannot_do_is_refused() {
    let mut host = Host::new(2);
    let found = Reduction { op: ReduceOp::Max, ..SUM };
    let refused = host.start(Collective::AllReduce, found).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "expected sum of i32, found max of i32; set the group up for that, or choose another design"
    );
    let floating = Reduction { data_type: DataType::F32, ..SUM };
    assert!(matches!(host.start(Collective::AllReduce, floating), Err(RequestError::Reduction { .. })));
    let found = Collective::AllGather;
    assert_eq!(host.start(found, SUM), Err(RequestError::NotOffered { found }));
    host.output = host.input;
    let region = host.input;
    assert_eq!(host.start(Collective::AllReduce, SUM), Err(RequestError::SameRegion { region }));
    host.elements = 3;
    assert!(matches!(host.start(Collective::AllReduce, SUM), Err(RequestError::Length { .. })));
    assert!(host.verbs.sends.is_empty());
}

#[test]
fn a_result_that_is_not_the_next_one_ends_the_group() {
    for message in [1, 2, 3] {
        let mut host = Host::new(4 * FULL);
        host.start(Collective::AllReduce, SUM).unwrap();
        let failed = Outcome::Failed { qp: PREVIOUS, failure: Failure::InvalidRequest };
        assert_eq!(host.answer(message, 9), Some(failed));
        assert_eq!(host.start(Collective::AllReduce, SUM), Err(RequestError::GroupFailed));
    }
    let in_place = Slice { region: RegionId(0), offset: 0, length: 2 * PAYLOAD };
    for target in [
        Slice { region: RegionId(1), ..in_place },
        Slice { offset: 4, ..in_place },
        Slice { length: 2 * PAYLOAD - 4, ..in_place },
    ] {
        let mut host = Host::new(4 * FULL);
        host.start(Collective::AllReduce, SUM).unwrap();
        let elsewhere = Completion::Written { id: WorkId(0), target, immediate: 0 };
        assert!(matches!(host.complete(PREVIOUS, elsewhere), Some(Outcome::Failed { .. })), "{target:?}");
    }
    let mut idle = Host::new(2);
    assert!(matches!(idle.answer(0, 9), Some(Outcome::Failed { .. })), "nobody has asked for any");
}

#[test]
fn a_queue_pair_that_gives_up_ends_the_group_once() {
    let mut host = Host::new(2);
    host.start(Collective::AllReduce, SUM).unwrap();
    let failed = Completion::Failed { id: WorkId(0), failure: Failure::RetryExceeded };
    assert_eq!(
        host.complete(NEXT, failed),
        Some(Outcome::Failed { qp: NEXT, failure: Failure::RetryExceeded })
    );
    assert_eq!(host.complete(PREVIOUS, failed), None);
}

#[test]
fn its_buffers_are_slots_to_send_from_and_to_land_in() {
    let host = Host::new(2);
    assert_eq!(Program::<Numbers>::buffer_bytes(&host.program), 2 * 2 * 2 * PAYLOAD);
}
