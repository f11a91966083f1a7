//! The in-switch accelerator by itself: what it asks for and when, what it refuses, how controllers and tables share.

use quincunx_collective::*;
use quincunx_design::SwitchUnit;
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{Span, WordId};
use quincunx_scin::*;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};
use quincunx_wire::flit::*;

const NODE: NodeId = NodeId(9);
const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LATENCY: Duration = Duration::from_nanos(20);
const PAYLOAD: usize = 16;

fn config(accelerators: u16, waves: u16) -> IsaConfig {
    IsaConfig {
        node: NODE,
        accelerators,
        flags: vec![WordId(5), WordId(6)],
        waves,
        wave: 2 * PAYLOAD,
        format: FlitFormat { flit: 16, header_flits: 1, max_payload: PAYLOAD },
        reduction: SUM,
        latency: ComputeLatency { regular: LATENCY, quantized: LATENCY * 5 },
        compute_rate: None,
        quantization: None,
        mutation: None,
    }
}

fn isa(accelerators: u16, waves: u16) -> Isa<Numbers> {
    Isa::new(config(accelerators, waves)).expect("a set-up that makes sense")
}

fn at(nanos: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(nanos)
}

fn all_reduce(accelerators: u16, length: usize) -> Vec<Instruction> {
    let span = Span { offset: 0, length };
    instructions(Collective::AllReduce, accelerators, span, (0, 1), PAYLOAD)
}

/// What it wants to send by `port` now.
fn sent(isa: &mut Isa<Numbers>, port: u16) -> Vec<(FlitHeader, Vec<u8>)> {
    let mut packets = Vec::new();
    while let Some((channel, _)) = isa.ready(PortId(port)).into_iter().find(|(_, ready)| *ready) {
        let (header, payload) = isa.next_packet(PortId(port), channel);
        packets.push((header, payload.to_vec()));
        isa.assert_invariants();
    }
    packets
}

/// What has become of instructions.
fn events(isa: &mut Isa<Numbers>) -> Vec<IsaEvent> {
    let all = std::iter::from_fn(|| isa.next_event());
    all.filter(|event| matches!(event, IsaEvent::Started { .. } | IsaEvent::Written { .. })).collect()
}

/// Accelerator `port` counts up the counter of a controller.
fn arrive(isa: &mut Isa<Numbers>, port: u16, controller: u16) {
    let add = Transaction::Add { operand: 1 };
    let header = FlitHeader::new(NodeId(port), NODE, true, word_address(controller), 0, add);
    isa.handle_packet(at(0), PortId(port), &header, &[]).expect("a counter");
}

/// Answers a read with the same byte throughout.
fn answer(isa: &mut Isa<Numbers>, now: Instant, port: u16, read: &FlitHeader, byte: u8) {
    let Transaction::Read { length } = read.transaction else { panic!("{read:?} is no read") };
    let data = vec![byte; usize::from(length)];
    let response = read.response(Transaction::ReadResponse);
    isa.handle_packet(now, PortId(port), &response, &data).expect("an operand");
    isa.assert_invariants();
}

fn started(controller: u16) -> IsaEvent {
    IsaEvent::Started { controller, instruction: 0 }
}

#[test]
fn nothing_is_read_before_all_participants_have_come() {
    let mut isa = isa(2, 2);
    isa.load(0, all_reduce(2, 40)).expect("instructions");
    arrive(&mut isa, 0, 0);
    assert_eq!(sent(&mut isa, 0), []);
    assert_eq!(events(&mut isa), []);
    arrive(&mut isa, 1, 0);
    assert_eq!(events(&mut isa), [started(0)]);
    let reads: Vec<_> =
        sent(&mut isa, 0).iter().map(|(header, _)| (header.address, header.transaction)).collect();
    let read = |length| Transaction::Read { length };
    assert_eq!(reads, [(0, read(16)), (16, read(16)), (32, read(8))]);
}

#[test]
fn that_packets_wait_is_told_once() {
    let mut isa = isa(2, 2);
    isa.load(0, all_reduce(2, 40)).expect("instructions");
    assert!(!isa.has_queued());
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    assert_eq!([isa.has_queued(), isa.has_queued()], [true, false]);
}

#[test]
fn operands_go_through_the_accumulator_at_its_rate_one_result_behind_the_other() {
    // 16 bytes in 10 ns.
    let compute_rate = BitRate::new(12_800_000_000);
    let mut isa = Isa::<Numbers>::new(IsaConfig { compute_rate, ..config(2, 2) }).expect("a set-up");
    isa.load(0, all_reduce(2, 2 * PAYLOAD)).expect("instructions");
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    let reads = [0, 1].map(|port| sent(&mut isa, port));
    for (port, (header, _)) in
        (0..2).flat_map(|port| reads[usize::from(port)].iter().map(move |read| (port, read)))
    {
        answer(&mut isa, at(100), port, header, 1);
    }
    let writes = |isa: &mut Isa<Numbers>, nanos| {
        isa.advance(at(nanos));
        sent(isa, 0).len()
    };
    assert_eq!([119, 120, 129, 130].map(|nanos| writes(&mut isa, nanos)), [0, 1, 0, 1]);
}

#[test]
fn results_leave_after_the_latency_and_the_flag_when_all_writes_are_answered() {
    let mut isa = isa(2, 1);
    isa.load(0, all_reduce(2, 4)).expect("instructions");
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    for (port, byte) in [(1, 2), (0, 1)] {
        let reads = sent(&mut isa, port);
        answer(&mut isa, at(100), port, &reads[0].0, byte);
    }
    assert_eq!(isa.arm(at(100)), Some(LATENCY));
    isa.advance(at(119));
    assert_eq!(sent(&mut isa, 0), []);
    isa.advance(at(120));
    let writes: Vec<_> = (0..2).map(|port| sent(&mut isa, port).remove(0)).collect();
    assert!(writes.iter().all(|(header, data)| header.transaction == Transaction::Write && *data == [3; 4]));
    for (port, (header, _)) in (0..2).zip(&writes) {
        assert!(sent(&mut isa, 0).is_empty() && sent(&mut isa, 1).is_empty(), "no flag yet");
        let response = header.response(Transaction::WriteResponse);
        isa.handle_packet(at(500), PortId(port), &response, &[]).expect("a write response");
    }
    assert_eq!(events(&mut isa).last(), Some(&IsaEvent::Written { controller: 0, instruction: 0 }));
    for port in 0..2 {
        let (header, _) = sent(&mut isa, port).remove(0);
        assert_eq!(header.address, word_address(5));
        assert_eq!(header.transaction, Transaction::Store { operand: 1 });
    }
}

#[test]
fn no_more_waves_are_outstanding_than_the_tables_hold() {
    let mut isa = isa(2, 2);
    isa.load(0, all_reduce(2, 10 * 2 * PAYLOAD)).expect("instructions");
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    let reads: Vec<_> = (0..2).map(|port| sent(&mut isa, port)).collect();
    assert!(reads.iter().all(|reads| reads.len() == 4), "two waves of two packets");
    // The second wave is ready first, and makes room for a third.
    for (port, reads) in (0..).zip(&reads) {
        for (read, _) in &reads[2..] {
            answer(&mut isa, at(0), port, read, 1);
        }
    }
    assert_eq!(sent(&mut isa, 0).len(), 2);
}

#[test]
fn a_wave_is_told_when_it_takes_an_entry_and_when_it_is_read_out() {
    let mut isa = isa(1, 1);
    isa.load(0, all_reduce(1, 3 * PAYLOAD)).expect("instructions");
    arrive(&mut isa, 0, 0);
    let taken =
        |offset, length| IsaEvent::WaveTaken { entry: 0, controller: 0, instruction: 0, offset, length };
    let all = |isa: &mut Isa<Numbers>| std::iter::from_fn(|| isa.next_event()).collect::<Vec<_>>();
    assert_eq!(all(&mut isa), [started(0), taken(0, 32)]);
    for (read, _) in sent(&mut isa, 0) {
        answer(&mut isa, at(0), 0, &read, 1);
    }
    assert_eq!(all(&mut isa), [IsaEvent::WaveReleased { entry: 0 }, taken(32, 16)]);
}

#[test]
fn a_packet_of_a_wave_is_added_when_it_has_come_from_all_sources() {
    let mut isa = isa(2, 1);
    isa.load(0, all_reduce(2, 4 * PAYLOAD)).expect("instructions");
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    let reads: Vec<_> = (0..2).map(|port| sent(&mut isa, port)).collect();
    for (port, reads) in (0..).zip(&reads) {
        answer(&mut isa, at(100), port, &reads[1].0, 1);
    }
    isa.advance(at(120));
    let (write, data) = sent(&mut isa, 0).remove(0);
    assert_eq!((write.address, data), (PAYLOAD as u64, vec![2; PAYLOAD]));
    // The entry is held until the other packet has come, too.
    assert!(sent(&mut isa, 1).iter().all(|(header, _)| header.transaction == Transaction::Write));
    for (port, reads) in (0..).zip(&reads) {
        answer(&mut isa, at(200), port, &reads[0].0, 1);
    }
    let next: Vec<_> = sent(&mut isa, 0).iter().map(|(header, _)| header.address).collect();
    assert_eq!(next, [2 * PAYLOAD as u64, 3 * PAYLOAD as u64]);
}

#[test]
fn the_tables_hold_the_waves_of_all_accelerators_and_their_scale_factors() {
    assert_eq!(isa(3, 2).buffer_bytes(), 3 * 2 * 2 * PAYLOAD);
    assert_eq!(SwitchUnit::<Numbers>::buffer_bytes(&isa(3, 2)), 3 * 2 * 2 * PAYLOAD);
    // SCIN 4.3: 64 KB for data and 2 KB for quantization parameters.
    let format = FlitFormat::DGX;
    let quantization = Some(BlockQuantization::INT8_BY_64);
    let dgx = IsaConfig { waves: 16, wave: 4096, format, quantization, ..config(1, 16) };
    assert_eq!(Isa::<Numbers>::new(dgx).expect("a set-up").buffer_bytes(), 66 << 10);
}

#[test]
fn responses_in_any_order_find_their_place() {
    let mut isa = isa(1, 2);
    let instruction = Instruction { wait: false, ..all_reduce(1, 4 * PAYLOAD).remove(0) };
    isa.load(0, vec![instruction]).expect("instructions");
    let mut reads = sent(&mut isa, 0);
    reads.reverse();
    for (read, _) in &reads {
        answer(&mut isa, at(0), 0, read, read.address as u8);
    }
    let mut writes = sent(&mut isa, 0);
    writes.sort_by_key(|(header, _)| header.address);
    let bytes: Vec<_> = writes.iter().flat_map(|(_, data)| data.clone()).collect();
    let right: Vec<_> = [0, 16, 32, 48].iter().flat_map(|byte| [*byte; PAYLOAD]).collect();
    assert_eq!(bytes, right);
}

#[test]
fn controllers_take_idle_entries_in_turn() {
    let mut isa = isa(1, 2);
    for controller in 0..2 {
        isa.load(controller, all_reduce(1, 100 * PAYLOAD)).expect("instructions");
        arrive(&mut isa, 0, controller);
    }
    // The first has taken both entries before the second began.
    let first = sent(&mut isa, 0);
    assert_eq!(events(&mut isa), [started(0), started(1)]);
    for (read, _) in &first {
        answer(&mut isa, at(0), 0, read, 0);
    }
    let mut reads: Vec<_> = sent(&mut isa, 0)
        .into_iter()
        .filter(|(header, _)| matches!(header.transaction, Transaction::Read { .. }))
        .map(|(header, _)| header.address)
        .collect();
    reads.sort_unstable();
    assert_eq!(reads, [0, 16, 64, 80], "one wave of the second, the third wave of the first");
}

#[test]
fn masks_and_addresses_say_who_gives_and_who_gets() {
    let mut isa = isa(3, 1);
    let instruction = Instruction {
        id: 0,
        length: 4,
        addresses: Addresses::Each(vec![100, 200, 300]),
        sources: Accelerators::only(0).union(Accelerators::only(2)),
        destinations: Accelerators::only(1),
        quantize: false,
        wait: false,
        notify: true,
    };
    isa.load(1, vec![instruction]).expect("an instruction");
    assert_eq!(sent(&mut isa, 1), []);
    for (port, address) in [(0, 100), (2, 300)] {
        let reads = sent(&mut isa, port);
        assert_eq!(reads[0].0.address, address);
        answer(&mut isa, at(0), port, &reads[0].0, 1);
    }
    isa.advance(at(20));
    assert_eq!((sent(&mut isa, 0), sent(&mut isa, 2)), (vec![], vec![]));
    let (write, data) = sent(&mut isa, 1).remove(0);
    assert_eq!((write.address, data), (200, vec![2; 4]));
    isa.handle_packet(at(40), PortId(1), &write.response(Transaction::WriteResponse), &[])
        .expect("a response");
    let flags: Vec<_> = (0..3).map(|port| sent(&mut isa, port)[0].0.address).collect();
    assert_eq!(flags, [word_address(6); 3], "the flag of the second controller, at every participant");
}

#[test]
fn reasons_to_drop_are_told_apart_when_they_are_counted() {
    let reasons = [IsaDrop::Source, IsaDrop::UnexpectedResponse, IsaDrop::UnexpectedTransaction];
    let told: std::collections::BTreeSet<_> = reasons.map(IsaDrop::reason).into();
    assert!(told.len() == 3 && !told.contains(""), "{told:?}");
}

#[test]
fn each_part_of_a_vector_lies_behind_the_one_before_wherever_the_vector_lies() {
    let span = Span { offset: 64, length: 3 * PAYLOAD };
    for collective in [Collective::ReduceScatter, Collective::AllGather] {
        let parts = instructions(collective, 3, span, (0, 1), PAYLOAD);
        let addresses: Vec<_> = parts.into_iter().map(|part| part.addresses).collect();
        assert_eq!(addresses, [64, 80, 96].map(Addresses::Region), "{collective:?}");
    }
}

#[test]
fn scale_factors_follow_codes_where_there_are_any() {
    let (codes, scales) = (Span { offset: 0, length: 128 }, Span { offset: 128, length: 8 });
    let plan = |codes| quantized_all_reduce(2, BlockQuantization::INT8_BY_64, (codes, scales), (0, 1), 64);
    let lengths = |codes| plan(codes).iter().map(|part| (part.length, part.quantize)).collect::<Vec<_>>();
    assert_eq!(lengths(codes), [(128, true), (4, false)]);
    assert_eq!(lengths(Span { length: 0, ..codes }), [(0, false)]);
}

#[test]
fn what_makes_no_sense_is_dropped_for_a_reason() {
    let mut isa = isa(2, 1);
    isa.load(0, all_reduce(2, 2 * PAYLOAD)).expect("instructions");
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    let (read, _) = sent(&mut isa, 0).remove(0);
    let right = read.response(Transaction::ReadResponse);
    let mut reason = |port: u16, header: FlitHeader, payload: &[u8]| {
        isa.handle_packet(at(0), PortId(port), &header, payload).expect_err("a drop")
    };
    assert_eq!(reason(1, right, &[0; PAYLOAD]), IsaDrop::Source);
    assert_eq!(reason(0, right, &[0; PAYLOAD - 1]), IsaDrop::UnexpectedResponse);
    assert_eq!(reason(0, FlitHeader { tag: MAX_TAG, ..right }, &[0; PAYLOAD]), IsaDrop::UnexpectedResponse);
    assert_eq!(reason(0, FlitHeader { tag: 2, ..right }, &[0; PAYLOAD]), IsaDrop::UnexpectedResponse);
    let answer = FlitHeader { transaction: Transaction::WriteResponse, ..right };
    assert_eq!(reason(0, answer, &[]), IsaDrop::UnexpectedResponse);
    let counter =
        FlitHeader { address: word_address(2), transaction: Transaction::Add { operand: 1 }, ..right };
    assert_eq!(reason(0, counter, &[]), IsaDrop::UnexpectedTransaction);
    assert_eq!(
        reason(0, FlitHeader { transaction: Transaction::Write, ..right }, &[1]),
        IsaDrop::UnexpectedTransaction
    );
}

#[test]
fn instructions_that_cannot_run_are_refused_all_together() {
    let mut isa = isa(2, 1);
    let right = all_reduce(2, 8).remove(0);
    let mut refusal = |wrong: Instruction| isa.load(0, vec![right.clone(), wrong]).expect_err("a refusal");
    let odd = Instruction { length: 6, ..right.clone() };
    assert_eq!(refusal(odd), InstructionError::Length { element: 4, found: 6 }.into());
    let quantized = Instruction { quantize: true, ..right.clone() };
    assert_eq!(refusal(quantized), InstructionError::NoQuantizer.into());
    let beyond = Instruction { addresses: Addresses::Region(MAX_ADDRESS), ..right.clone() };
    assert_eq!(refusal(beyond), InstructionError::Address(MAX_ADDRESS + 8).into());
    let many = Instruction { sources: Accelerators::first(3), ..right.clone() };
    assert!(matches!(refusal(many), LoadError::Instruction(InstructionError::Masks { accelerators: 2, .. })));
    let few = Instruction { addresses: Addresses::Each(vec![0]), ..right.clone() };
    assert_eq!(refusal(few), InstructionError::AddressCount { expected: 2, found: 1 }.into());
    assert_eq!(isa.load(2, vec![]), Err(LoadError::Controller { controllers: 2, found: 2 }));
    (0..2).for_each(|port| arrive(&mut isa, port, 0));
    assert_eq!(events(&mut isa), [], "nothing was loaded");
}

#[test]
fn a_quantised_instruction_needs_its_scale_factors_behind_it() {
    let quantization = BlockQuantization::new(CodeType::Int8, 32).expect("a block size");
    let with = IsaConfig { quantization: Some(quantization), ..config(2, 1) };
    let mut isa = Isa::<Numbers>::new(with).expect("a set-up that makes sense");
    let data = Instruction { quantize: true, ..all_reduce(2, 64).remove(0) };
    let refused = InstructionError::Scales { expected: 4 };
    assert_eq!(isa.load(0, vec![data.clone()]), Err(refused.into()));
    assert_eq!(isa.load(0, vec![data.clone(), data.clone()]), Err(refused.into()));
    let scales = Instruction { length: 4, quantize: false, wait: false, notify: false, ..data.clone() };
    for flagged in [
        Instruction { quantize: true, ..scales.clone() },
        Instruction { wait: true, ..scales.clone() },
        Instruction { notify: true, ..scales.clone() },
    ] {
        assert_eq!(isa.load(0, vec![data.clone(), flagged]), Err(refused.into()));
    }
    assert_eq!(isa.load(0, vec![data, scales]), Ok(()));
}

#[test]
fn set_ups_that_make_no_sense_are_refused() {
    let refusal = |config| Isa::<Numbers>::new(config).expect_err("a refusal");
    assert_eq!(refusal(config(65, 1)), ConfigError::Accelerators(65));
    assert_eq!(refusal(IsaConfig { flags: vec![], ..config(2, 1) }), ConfigError::NoController);
    let waves = ConfigError::Waves { payload: PAYLOAD, waves: 0, wave: 32 };
    assert_eq!(refusal(config(2, 0)), waves);
    let large = IsaConfig { wave: 1 << 20, ..config(2, 1024) };
    assert_eq!(refusal(large), ConfigError::Tags(1 << 26));
    let blocks = IsaConfig { quantization: Some(BlockQuantization::INT8_BY_64), ..config(2, 1) };
    assert_eq!(refusal(blocks), ConfigError::Blocks { block: 64, wave: 32 });
}

/// SCIN 4.4: 64 KB are enough for a link of 90 GB/s of payload and 250 ns.
#[test]
fn a_table_covers_one_round_trip() {
    let rate = BitRate::new(720_000_000_000).expect("a rate");
    let least = minimum_capacity(rate, Duration::from_nanos(250), Duration::from_nanos(30));
    assert_eq!(least, ByteCount::new(47_700));
}
