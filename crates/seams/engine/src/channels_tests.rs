//! Channels seen from below: what a program in each asks of the node's queue pairs and alarms, and what it is told.

use super::*;
use crate::terms::Terms;
use crate::verbs::{RegionId, WorkId};
use quincunx_collective::{DataType, LengthOnly, ReduceOp, Reduction};
use quincunx_units::Packets;

const QUEUE_PAIRS: u16 = 2;
const MESSAGE: usize = 4;
const NOW: Instant = Instant::ZERO;

/// A program that ends a collective with each completion, and fails on its second queue pair at its alarm.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Toy;

impl Program<LengthOnly> for Toy {
    fn initialise(&mut self, verbs: &mut dyn Verbs<LengthOnly>) {
        verbs.set_alarm(Alarm(3), Duration::from_nanos(5));
        verbs.skip(QpIndex(0), 1, 2);
        verbs.skip_next(QpIndex(1), Packets::new(7));
    }

    fn start(
        &mut self,
        _: Instant,
        _: CollectiveRequest,
        _: &mut dyn Verbs<LengthOnly>,
    ) -> Result<Option<Outcome>, RequestError> {
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        _: Completion,
        _: &mut dyn Verbs<LengthOnly>,
    ) -> Option<Outcome> {
        assert!(qp.0 < QUEUE_PAIRS, "a program knows its own queue pairs");
        Some(Outcome::Done)
    }

    fn handle_alarm(&mut self, _: Instant, alarm: Alarm, _: &mut dyn Verbs<LengthOnly>) -> Option<Outcome> {
        assert_eq!(alarm, Alarm(3));
        Some(Outcome::Failed { qp: QpIndex(1), failure: Failure::RetryExceeded })
    }

    fn assert_invariants(&self) {}
}

/// What programs have asked of the node.
#[derive(Default)]
struct RecordingVerbs {
    memory: Memory<LengthOnly>,
    alarms: Vec<Alarm>,
    skipped: Vec<(QpIndex, u32, u32)>,
    skipped_next: Vec<(QpIndex, u32)>,
}

impl Verbs<LengthOnly> for RecordingVerbs {
    fn memory(&mut self) -> &mut Memory<LengthOnly> {
        &mut self.memory
    }

    fn post_send(&mut self, _: QpIndex, _: SendRequest) {
        unreachable!("the program sends nothing");
    }

    fn post_receive(&mut self, _: QpIndex, _: ReceiveRequest) {
        unreachable!("the program receives nothing");
    }

    fn set_alarm(&mut self, alarm: Alarm, _: Duration) {
        self.alarms.push(alarm);
    }

    fn skip(&mut self, qp: QpIndex, sends: u32, receives: u32) {
        self.skipped.push((qp, sends, receives));
    }

    fn skip_next(&mut self, qp: QpIndex, packets: Packets) {
        self.skipped_next.push((qp, packets.get()));
    }
}

/// Two channels that have been initialised, and what that has asked for.
fn two() -> (Channels<LengthOnly>, RecordingVerbs) {
    let programs: Vec<Box<dyn AnyProgram<LengthOnly>>> = alloc::vec![Box::new(Toy), Box::new(Toy)];
    let (mut channels, mut verbs) =
        (Channels::new(programs, QUEUE_PAIRS, MESSAGE), RecordingVerbs::default());
    channels.initialise(&mut verbs);
    (channels, verbs)
}

/// Starts an AllReduce of two messages: one for each channel.
fn start(channels: &mut Channels<LengthOnly>, verbs: &mut RecordingVerbs) {
    let slice = |region| Slice { region: RegionId(region), offset: 0, length: 2 * MESSAGE };
    let request = CollectiveRequest {
        collective: Collective::AllReduce,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
        input: slice(0),
        output: slice(1),
        terms: Terms::WHOLE,
    };
    assert_eq!(channels.start(NOW, request, verbs), Ok(None));
    channels.assert_invariants();
}

/// What the node is told when something was sent on its queue pair `qp`.
fn sent(channels: &mut Channels<LengthOnly>, verbs: &mut RecordingVerbs, qp: u16) -> Option<Outcome> {
    let told = channels.handle_completion(NOW, QpIndex(qp), Completion::Sent { id: WorkId(0) }, verbs);
    channels.assert_invariants();
    told
}

#[test]
fn each_channel_has_queue_pairs_and_alarms_of_its_own() {
    let (_, verbs) = two();
    assert_eq!(verbs.skipped, [(QpIndex(0), 1, 2), (QpIndex(2), 1, 2)]);
    assert_eq!(verbs.skipped_next, [(QpIndex(1), 7), (QpIndex(3), 7)]);
    assert_eq!(verbs.alarms.len(), 2);
    assert_ne!(verbs.alarms[0], verbs.alarms[1]);
}

#[test]
fn an_alarm_is_the_channels_that_has_set_it_and_a_failure_names_the_nodes_queue_pair() {
    for (channel, qp) in [(0, 1), (1, 3)] {
        let (mut channels, mut verbs) = two();
        start(&mut channels, &mut verbs);
        let failed = Outcome::Failed { qp: QpIndex(qp), failure: Failure::RetryExceeded };
        assert_eq!(channels.handle_alarm(NOW, verbs.alarms[channel], &mut verbs), Some(failed));
    }
}

#[test]
fn a_channel_that_is_ahead_ends_its_oldest_collective_first() {
    let (mut channels, mut verbs) = two();
    start(&mut channels, &mut verbs);
    start(&mut channels, &mut verbs);
    // The second channel's part of the older one, then the first channel's: the older one has ended, and it alone.
    assert_eq!(sent(&mut channels, &mut verbs, 2), None);
    assert_eq!(sent(&mut channels, &mut verbs, 0), Some(Outcome::Done));
    assert_eq!(channels.next_outcome(), None);
    assert_eq!(sent(&mut channels, &mut verbs, 1), None);
    assert_eq!(sent(&mut channels, &mut verbs, 3), Some(Outcome::Done));
    assert_eq!(channels.next_outcome(), None);
}

#[test]
fn ranks_agree_on_how_many_parts_a_request_has() {
    let (channels, _) = two();
    let slice = |region, length| Slice { region: RegionId(region), offset: 0, length };
    let request = |length| CollectiveRequest {
        collective: Collective::AllReduce,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::I32 },
        input: slice(0, length),
        output: slice(1, length),
        terms: Terms::WHOLE,
    };
    let parts = |length| channels.cut(&request(length));
    // The first part of two messages is as long as the only one of one.
    let [one, two] = [parts(MESSAGE), parts(2 * MESSAGE)];
    assert_eq!((one.len(), two.len(), one[0].input), (1, 2, two[0].input));
    assert_ne!(one[0].terms, two[0].terms);
    assert_eq!(one[0].terms, two[1].terms, "nothing follows either");
}
