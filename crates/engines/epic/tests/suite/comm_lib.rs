//! What a rank's library posts for a collective, and when (EPIC 4.1, table 2): control message first, a window of messages, twice as
//! many receive requests.

use crate::common::verbs::Posted;
use quincunx_collective::{Collective, DataType, LengthOnly, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Outcome, Program, QpIndex, RegionId, RequestError, Slice, WorkId,
};
use quincunx_epic::{Agreement, CommLib, CommLibConfig, ControlMessage, MAX_DATA_PACKETS, Pattern};
use quincunx_units::{Instant, Messages, Packets};

const MTU: usize = 8;
const REDUCTION: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// Rank 1 of three, with packets of 8 bytes, messages of two packets, and a window of two messages.
fn config() -> CommLibConfig {
    CommLibConfig {
        ranks: 3,
        rank: Rank(1),
        mtu: MTU,
        message: Packets::new(2),
        window: Messages::new(2),
        run_ahead: false,
        overlap: true,
        eager: false,
        confirm: true,
        synchronize_psn: true,
        window_in_packets: true,
    }
}

/// What an AllReduce says that has a further invocation.
const CONTINUES: u16 = 1 << 6;

/// A rank, and what it has posted.
struct Bench {
    library: CommLib,
    posted: Posted,
    data_type: DataType,
    terms: Terms,
}

impl Bench {
    fn new(config: CommLibConfig) -> Self {
        Self {
            library: CommLib::new(config).expect("valid"),
            posted: Posted::default(),
            data_type: DataType::F32,
            terms: Terms::WHOLE,
        }
    }

    /// Asks for a collective with so many bytes in and out.
    fn start(&mut self, collective: Collective, input: usize, output: usize) -> Result<(), RequestError> {
        let mut region = |length| {
            let region = self.posted.memory.register(LengthOnly::zeroed(length));
            Slice { region, offset: 0, length }
        };
        let request = CollectiveRequest {
            collective,
            reduction: Reduction { data_type: self.data_type, ..REDUCTION },
            input: region(input),
            output: region(output),
            terms: self.terms,
        };
        self.library.start(Instant::ZERO, request, &mut self.posted).map(|outcome| assert_eq!(outcome, None))
    }

    fn complete(&mut self, completion: Completion) -> Option<Outcome> {
        let outcome = self.library.handle_completion(Instant::ZERO, QpIndex(0), completion, &mut self.posted);
        Program::<LengthOnly>::assert_invariants(&self.library);
        outcome
    }

    fn sent(&mut self) -> Option<Outcome> {
        self.complete(Completion::Sent { id: WorkId(0) })
    }

    fn received(&mut self, length: usize, immediate: Option<u32>) -> Option<Outcome> {
        self.complete(Completion::Received { id: WorkId(0), length, immediate })
    }

    /// The lengths of the messages posted since the last call.
    fn sends(&mut self) -> Vec<usize> {
        self.posted.sends.drain(..).map(|(_, request)| request.source.length).collect()
    }

    /// The control messages posted since the last call.
    fn announced(&mut self) -> Vec<ControlMessage> {
        let immediates = self.posted.sends.drain(..).filter_map(|(_, request)| request.immediate);
        immediates.map(|bits| ControlMessage::decode(bits).expect("it makes sense")).collect()
    }
}

#[test]
fn a_control_message_announces_whole_messages_as_far_as_it_can() {
    for (message, announced) in [(1, 8191), (2, 8190), (4, 8188), (100_000, 8191)] {
        let mut bench = Bench::new(CommLibConfig { message: Packets::new(message), ..config() });
        let length = usize::from(MAX_DATA_PACKETS) * MTU + MTU;
        bench.start(Collective::AllReduce, length, length).unwrap();
        let (pattern, agreement) = (Pattern::AllReduce, Agreement::Detail(CONTINUES));
        let expected = ControlMessage { pattern, reduction: REDUCTION, data_packets: announced, agreement };
        assert_eq!(bench.announced()[0], expected, "messages of {message} packets");
    }
}

#[test]
fn a_message_follows_when_one_is_acknowledged_and_its_result_is_here() {
    let mut bench = Bench::new(config());
    // The control message, two whole ones and a rest.
    bench.start(Collective::AllReduce, 40, 40).unwrap();
    let control = bench.posted.sends[0].1.immediate;
    assert_eq!((bench.sends(), bench.posted.receives.len()), (vec![0, 16], 4));
    assert_eq!(bench.sent(), None);
    assert_eq!(bench.sent(), None);
    assert_eq!(bench.sends(), [0; 0]);
    bench.received(0, control);
    assert_eq!(bench.sends(), [16]);
    bench.received(16, None);
    assert_eq!(bench.sends(), [8]);
    bench.sent();
    bench.sent();
    bench.received(16, None);
    assert_eq!(bench.received(8, None), Some(Outcome::Done));
}

#[test]
fn ranks_that_run_ahead_wait_for_acknowledges_alone() {
    let mut bench = Bench::new(CommLibConfig { run_ahead: true, ..config() });
    bench.start(Collective::AllReduce, 40, 40).unwrap();
    assert_eq!(bench.sends(), [0, 16]);
    bench.sent();
    assert_eq!(bench.sends(), [16]);
}

#[test]
fn what_a_rank_neither_sends_nor_receives_is_skipped() {
    let mut bench = Bench::new(config());
    // Five packets and the control message, of which rank 1 receives none and then sends none.
    bench.start(Collective::Reduce { root: Rank(0) }, 40, 0).unwrap();
    assert_eq!((bench.posted.receives.len(), bench.posted.skipped[0]), (1, (0, 6)), "a confirmation follows");
    let mut bench = Bench::new(config());
    bench.start(Collective::Broadcast { root: Rank(0) }, 0, 40).unwrap();
    assert_eq!((bench.sends(), bench.posted.skipped.contains(&(6, 0))), (Vec::<usize>::new(), true));
}

#[test]
fn where_numbers_are_not_shared_none_are_skipped() {
    let mut bench =
        Bench::new(CommLibConfig { synchronize_psn: false, window_in_packets: false, ..config() });
    bench.start(Collective::Reduce { root: Rank(0) }, 40, 0).unwrap();
    bench.sent();
    bench.sent();
    bench.sent();
    bench.sent();
    let confirmation = bench.posted.sends.last().unwrap().1.immediate;
    bench.received(0, confirmation);
    assert_eq!((bench.sent(), bench.posted.skipped), (Some(Outcome::Done), vec![]));
    let mut bench =
        Bench::new(CommLibConfig { synchronize_psn: false, window_in_packets: false, ..config() });
    bench.start(Collective::Broadcast { root: Rank(0) }, 0, 40).unwrap();
    assert_eq!(bench.posted.skipped, []);
}

#[test]
fn places_for_two_windows_are_ready() {
    for (message, window, synchronize_psn, expected) in
        [(1, 5, true, 10), (1, 5, false, 10), (3, 5, false, 10)]
    {
        let mut bench = Bench::new(CommLibConfig {
            message: Packets::new(message),
            window: Messages::new(window),
            synchronize_psn,
            window_in_packets: synchronize_psn,
            ..config()
        });
        bench.start(Collective::AllReduce, 800, 800).unwrap();
        assert_eq!(bench.posted.receives.len(), expected, "messages of {message}, {synchronize_psn}");
    }
}

#[test]
fn parts_of_an_all_gather_land_behind_each_other() {
    let mut bench = Bench::new(CommLibConfig { window: Messages::new(8), ..config() });
    bench.start(Collective::AllGather, 16, 48).unwrap();
    let output = bench.posted.receives[0].1.region;
    // Of each other rank a control message, and one of data.
    let expected = [(0, 0), (0, 16), (32, 0), (32, 16)];
    let expected = expected.map(|(offset, length)| (QpIndex(0), Slice { region: output, offset, length }));
    assert_eq!(bench.posted.receives, expected);
}

#[test]
fn parts_of_a_reduce_scatter_come_from_behind_each_other() {
    let mut bench = Bench::new(CommLibConfig { window: Messages::new(8), ..config() });
    bench.start(Collective::ReduceScatter, 48, 16).unwrap();
    let data = bench.posted.sends.iter().filter(|(_, send)| send.immediate.is_none());
    let offsets: Vec<usize> = data.map(|(_, send)| send.source.offset).collect();
    assert_eq!(offsets, [0, 32]);
}

/// With short vectors in their control messages: packets of 12 bytes, messages of three.
fn eager() -> CommLibConfig {
    let message = Packets::new(3);
    CommLibConfig { eager: true, mtu: 12, message, window: Messages::new(4), ..config() }
}

#[test]
fn what_fits_in_a_packet_is_in_the_control_message() {
    for length in [0, 4, 12] {
        let mut bench = Bench::new(eager());
        bench.start(Collective::AllReduce, length, length).unwrap();
        let control = bench.posted.sends[0].1.immediate;
        assert_eq!((bench.sends(), bench.posted.receives.len()), (vec![length], 1));
        assert_eq!(bench.sent(), None);
        assert_eq!(bench.received(length, control), Some(Outcome::Done));
    }
}

#[test]
fn packets_of_what_fits_in_a_message_have_one_length_with_the_immediate() {
    let mut bench = Bench::new(eager());
    bench.start(Collective::AllReduce, 36, 36).unwrap();
    let control = bench.posted.sends[0].1;
    assert_eq!(ControlMessage::decode(control.immediate.unwrap()).unwrap().data_packets, 3);
    let sources = |bench: &Bench| -> Vec<(usize, usize)> {
        bench.posted.sends.iter().map(|(_, send)| (send.source.offset, send.source.length)).collect()
    };
    // Four bytes of immediate and eight of data; then 12, 12 and 4.
    assert_eq!(sources(&bench), [(0, 8), (8, 28)]);
    let sinks: Vec<usize> = bench.posted.receives.iter().map(|(_, sink)| sink.length).collect();
    assert_eq!(sinks, [8, 28]);
}

#[test]
fn what_does_not_fit_in_a_message_follows_its_control_message() {
    let mut bench = Bench::new(eager());
    bench.start(Collective::AllReduce, 40, 40).unwrap();
    assert_eq!(bench.sends(), [0, 36, 4]);
}

#[test]
fn elements_are_not_cut_by_what_the_control_message_carries() {
    let mut bench = Bench::new(CommLibConfig { mtu: 16, ..eager() });
    bench.data_type = DataType::F64;
    bench.start(Collective::AllReduce, 24, 24).unwrap();
    assert_eq!(bench.sends(), [8, 16]);
}

#[test]
fn a_short_reduce_scatter_is_an_all_reduce_of_which_a_rank_takes_its_part() {
    let mut bench = Bench::new(eager());
    bench.start(Collective::ReduceScatter, 12, 4).unwrap();
    let control = bench.posted.sends[0].1.immediate;
    let message = ControlMessage::decode(control.unwrap()).unwrap();
    assert_eq!((message.pattern, message.agreement), (Pattern::AllReduce, Agreement::Detail(1 << 8)));
    assert_eq!(bench.sends(), [12]);
    // The whole sum comes to other memory than the application's, which is gone when it ends.
    let sink = bench.posted.receives[0].1;
    assert_eq!((sink.length, bench.posted.memory.contains(sink)), (12, true));
    bench.sent();
    assert_eq!(bench.received(12, control), Some(Outcome::Done));
    assert!(!bench.posted.memory.contains(sink));
}

#[test]
fn a_short_all_gather_is_an_all_reduce_with_zeros_in_place_of_others_parts() {
    let mut bench = Bench::new(eager());
    bench.start(Collective::AllGather, 4, 12).unwrap();
    let send = bench.posted.sends[0].1;
    let message = ControlMessage::decode(send.immediate.unwrap()).unwrap();
    assert_eq!(message, ControlMessage::gather(0, DataType::F32, 0));
    assert_eq!((send.source.length, bench.posted.memory.contains(send.source)), (12, true));
    bench.sent();
    assert_eq!(bench.received(12, send.immediate), Some(Outcome::Done));
    assert!(!bench.posted.memory.contains(send.source));
}

#[test]
fn a_short_reduce_scatter_and_all_gather_say_their_type_and_terms() {
    let terms = Terms { averages: true, ..Terms::WHOLE };
    let said = |collective, input, output| {
        let mut bench = Bench::new(eager());
        (bench.data_type, bench.terms) = (DataType::I32, terms);
        bench.start(collective, input, output).unwrap();
        bench.announced()[0]
    };
    let bits = terms.bits() as u16;
    assert_eq!(said(Collective::AllGather, 4, 12), ControlMessage::gather(bits, DataType::I32, 0));
    let scattered = said(Collective::ReduceScatter, 12, 4);
    assert_eq!(scattered.agreement, Agreement::Detail(1 << 8 | bits));
    assert_eq!(scattered.reduction.data_type, DataType::I32);
}

#[test]
fn an_all_gather_of_more_than_a_message_is_a_broadcast_for_each_rank() {
    let mut bench = Bench::new(CommLibConfig { window: Messages::new(16), ..eager() });
    bench.start(Collective::AllGather, 16, 48).unwrap();
    let patterns: Vec<Pattern> = bench.announced().iter().map(|message| message.pattern).collect();
    assert_eq!(patterns, [Pattern::Broadcast { root: Rank(1) }]);
}

#[test]
fn parts_longer_than_a_control_message_announces_are_cut_each_by_itself() {
    // A part is a whole step and a packet; a step has 4095 messages and a control message.
    let part = 8190 * MTU + MTU;
    let mut bench = Bench::new(CommLibConfig { window: Messages::new(200_000), ..config() });
    bench.start(Collective::AllGather, part, 3 * part).unwrap();
    let announced: Vec<u16> = bench.announced().iter().map(|message| message.data_packets).collect();
    assert_eq!(announced, [8190, 1], "the confirmation waits for the others' parts");
    let lands = |message: usize| bench.posted.receives[message].1.offset;
    // The first data of each step: two steps from rank 0, and two from rank 2.
    let starts = [1, 4097, 4099, 8195].map(lands);
    assert_eq!(starts, [0, 8190 * MTU, 2 * part, 2 * part + 8190 * MTU]);
}

#[test]
fn where_numbers_are_not_shared_nothing_is_sent_before_the_switch_knows_of_what_comes_before() {
    let reduce = Pattern::Reduce { root: Rank(1) };
    let agreement = Agreement::Follows;
    let control = ControlMessage { pattern: reduce, reduction: REDUCTION, data_packets: 1, agreement };
    for (synchronize_psn, at_once) in [(true, vec![0, 0, 8]), (false, vec![])] {
        let mut bench = Bench::new(CommLibConfig {
            window: Messages::new(8),
            synchronize_psn,
            window_in_packets: synchronize_psn,
            ..config()
        });
        bench.start(Collective::Reduce { root: Rank(1) }, 8, 8).unwrap();
        bench.start(Collective::AllReduce, 8, 8).unwrap();
        assert_eq!(bench.sends(), at_once);
        bench.received(0, Some(control.encode()));
        let later = if synchronize_psn { vec![] } else { vec![0, 0, 8] };
        assert_eq!(bench.sends(), later);
    }
}

#[test]
fn a_message_that_others_announce_otherwise_ends_the_group() {
    let (pattern, agreement) = (Pattern::Reduce { root: Rank(1) }, Agreement::Follows);
    let reduce = ControlMessage { pattern, reduction: REDUCTION, data_packets: 5, agreement };
    for (length, immediate) in [(0, Some(reduce.encode())), (0, None), (8, None)] {
        let mut bench = Bench::new(config());
        bench.start(Collective::AllReduce, 40, 40).unwrap();
        assert!(matches!(bench.received(length, immediate), Some(Outcome::Failed { .. })));
        assert_eq!(bench.start(Collective::AllReduce, 8, 8), Err(RequestError::GroupFailed));
    }
}

#[test]
fn nobody_is_done_before_the_confirmation_of_all() {
    for (collective, input, output) in
        [(Collective::Broadcast { root: Rank(1) }, 8, 8), (Collective::Reduce { root: Rank(0) }, 8, 0)]
    {
        let mut bench = Bench::new(CommLibConfig { window: Messages::new(16), ..config() });
        bench.start(collective, input, output).unwrap();
        let sends: Vec<_> = bench.posted.sends.iter().map(|(_, send)| send.immediate).collect();
        let receives: Vec<_> = bench.posted.receives.iter().map(|(_, sink)| sink.length).collect();
        for _ in &sends {
            assert_eq!(bench.sent(), None, "{collective}");
        }
        let (last, before) = receives.split_last().expect("a confirmation is received");
        assert!(before.is_empty(), "rank 1 receives nothing else of {collective}");
        assert_eq!(bench.received(*last, *sends.last().unwrap()), Some(Outcome::Done), "{collective}");
    }
}

/// It was sent at once, further ahead of what a tree of Mode-III knows than any data: refused, until a time-out.
#[test]
fn an_all_gather_is_confirmed_when_all_parts_are_here() {
    let mut bench = Bench::new(CommLibConfig { window: Messages::new(16), ..config() });
    bench.start(Collective::AllGather, 8, 24).unwrap();
    for length in bench.sends() {
        assert_eq!(bench.sent(), None, "{length}");
    }
    for root in [0, 2] {
        assert_eq!(bench.sends(), [0; 0], "the part of rank {root} is missing");
        let control = ControlMessage {
            pattern: Pattern::Broadcast { root: Rank(root) },
            reduction: REDUCTION,
            data_packets: 1,
            agreement: Agreement::Follows,
        };
        assert_eq!(bench.received(0, Some(control.encode())), None);
        assert_eq!(bench.received(8, None), None);
    }
    let confirmation = bench.announced();
    let [ControlMessage { agreement: Agreement::Confirmation(_), .. }] = confirmation[..] else {
        panic!("{confirmation:?}")
    };
    assert_eq!(bench.sent(), None);
    assert_eq!(bench.received(0, Some(confirmation[0].encode())), Some(Outcome::Done));
}

#[test]
fn an_empty_all_reduce_is_no_barrier() {
    let announced = |collective| {
        let mut bench = Bench::new(config());
        bench.start(collective, 0, 0).unwrap();
        bench.announced()
    };
    assert_ne!(announced(Collective::AllReduce), announced(Collective::Barrier));
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    let length = |what, expected, found| Err(RequestError::Length { what, expected, found });
    let cases = [
        (Collective::AllReduce, 8, 16, length("an output", 8, 16)),
        (Collective::Reduce { root: Rank(1) }, 8, 16, length("an output", 8, 16)),
        (Collective::Reduce { root: Rank(0) }, 8, 16, Ok(())),
        (Collective::Broadcast { root: Rank(1) }, 8, 16, length("an output", 8, 16)),
        (Collective::Broadcast { root: Rank(0) }, 8, 16, Ok(())),
        (Collective::Barrier, 0, 8, length("an output", 0, 8)),
        (Collective::ReduceScatter, 16, 8, length("an input", 24, 16)),
        (Collective::ReduceScatter, 24, 8, Ok(())),
        (Collective::AllGather, 8, 16, length("an output", 24, 16)),
        (Collective::AllGather, 8, 24, Ok(())),
        (Collective::AllReduce, 6, 6, Err(RequestError::Element { element: 4, found: 6 })),
        (Collective::Reduce { root: Rank(3) }, 8, 8, Err(RequestError::NoSuchRoot { ranks: 3, found: 3 })),
    ];
    for (collective, input, output, expected) in cases {
        assert_eq!(Bench::new(config()).start(collective, input, output), expected, "{collective:?}");
    }
}

#[test]
fn buffers_that_are_not_registered_are_refused() {
    let mut bench = Bench::new(config());
    let nowhere = Slice { region: RegionId(7), offset: 0, length: 8 };
    let request = CollectiveRequest {
        collective: Collective::AllReduce,
        reduction: REDUCTION,
        input: nowhere,
        output: nowhere,
        terms: Terms::WHOLE,
    };
    let refused = bench.library.start(Instant::ZERO, request, &mut bench.posted);
    assert_eq!(refused, Err(RequestError::Length { what: "an input", expected: 8, found: 0 }));
}

#[test]
fn input_and_output_in_one_region_are_refused() {
    let mut bench = Bench::new(config());
    let region = bench.posted.memory.register(LengthOnly::zeroed(16));
    let slice = |offset| Slice { region, offset, length: 8 };
    let request = CollectiveRequest {
        collective: Collective::Broadcast { root: Rank(1) },
        reduction: REDUCTION,
        input: slice(0),
        output: slice(8),
        terms: Terms::WHOLE,
    };
    let refused = bench.library.start(Instant::ZERO, request, &mut bench.posted);
    assert_eq!(refused, Err(RequestError::SameRegion { region }));
}

#[test]
fn as_many_collectives_are_under_way_as_the_window_has_messages_and_one_without_overlap() {
    for (overlap, depth) in [(true, 2), (false, 1)] {
        let mut bench = Bench::new(CommLibConfig { overlap, ..config() });
        for _ in 0..depth {
            bench.start(Collective::AllReduce, 8, 8).unwrap();
        }
        assert_eq!(bench.start(Collective::AllReduce, 8, 8), Err(RequestError::Busy));
    }
}

#[test]
fn every_piece_of_every_part_of_a_long_vector_is_taken_where_it_lies() {
    let message = u32::from(MAX_DATA_PACKETS);
    let mut bench =
        Bench::new(CommLibConfig { message: Packets::new(message), window: Messages::new(8), ..config() });
    // A packet more than a control message can announce: each part is two invocations.
    let piece = usize::from(MAX_DATA_PACKETS) * MTU;
    let part = piece + MTU;
    bench.start(Collective::ReduceScatter, 3 * part, part).unwrap();
    let data = bench.posted.sends.iter().filter(|(_, send)| send.source.length > 0);
    let taken: Vec<_> = data.map(|(_, send)| (send.source.offset, send.source.length)).collect();
    // Rank 1 is the root of the second part.
    assert_eq!(taken, [(0, piece), (piece, MTU), (2 * part, piece), (2 * part + piece, MTU)]);
}
