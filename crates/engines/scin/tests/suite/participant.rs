//! What is left to an accelerator: it comes to the barrier of every switch, and waits until each has set its flag (SCIN 3.3).

use quincunx_collective::{Collective, DataType, LengthOnly, Rank, ReduceOp, Reduction};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{InPlaceRequest, Kernel, MemoryEvent, SharedMemory, Span, WordId};
use quincunx_scin::{Participant, ParticipantConfig};

const COUNTER: WordId = WordId(3);
const FIRST_FLAG: WordId = WordId(8);
const REQUEST: InPlaceRequest = InPlaceRequest {
    collective: Collective::AllReduce,
    reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
    span: Span { offset: 0, length: 64 },
};

/// Links to so many switches, and what was added to words there.
struct Links {
    count: u16,
    added: Vec<(PortId, WordId, u64)>,
}

impl SharedMemory<LengthOnly> for Links {
    fn links(&self) -> u16 {
        self.count
    }
    fn add_at_switch(&mut self, link: PortId, word: WordId, operand: u64) {
        self.added.push((link, word, operand));
    }
    fn memory(&mut self) -> &mut LengthOnly {
        unreachable!("switches alone touch data")
    }
    fn word(&self, _: WordId) -> u64 {
        unreachable!("changes are told")
    }
    fn write(&mut self, _: PortId, _: Rank, _: Span, _: usize) {
        unreachable!("switches alone write")
    }
    fn store(&mut self, _: PortId, _: Rank, _: WordId, _: u64) {
        unreachable!("switches alone set flags")
    }
    fn fence(&mut self) {
        unreachable!("nothing was written")
    }
    fn compute(&mut self, _: usize) {
        unreachable!("switches alone compute")
    }
    fn reduced_load(&mut self, _: PortId, _: Span) {
        unreachable!("switches read by themselves")
    }
    fn multicast_store(&mut self, _: PortId, _: Span) {
        unreachable!("switches write by themselves")
    }
    fn merged_load(&mut self, _: PortId, _: Rank, _: usize, _: Span) {
        unreachable!("the switch loads");
    }
    fn merged_reduce(&mut self, _: PortId, _: Rank, _: Span, _: usize) {
        unreachable!("the switch reduces");
    }
    fn synchronise(&mut self, _: PortId, _: u64, _: u32) {
        unreachable!("flags and counters do");
    }
    fn multicast_reduce(&mut self, _: PortId, _: Span) {
        unreachable!("switches read by themselves")
    }
    fn multicast_add(&mut self, _: PortId, _: WordId, _: u64) {
        unreachable!("switches set flags by themselves")
    }
}

/// An accelerator with links to so many switches.
struct Bench {
    participant: Participant,
    links: Links,
}

impl Bench {
    fn new(switches: u16) -> Self {
        let config = ParticipantConfig { counter: COUNTER, first_flag: FIRST_FLAG };
        Self { participant: Participant::new(config), links: Links { count: switches, added: Vec::new() } }
    }

    fn start(&mut self) -> Result<bool, String> {
        self.participant.start(REQUEST, &mut self.links).map_err(|refusal| refusal.to_string())
    }

    /// A word becomes `value`; whether the collective is over.
    fn changed(&mut self, word: u16, value: u64) -> bool {
        let event = MemoryEvent::Changed { word: WordId(word), value };
        let is_over = self.participant.handle_event(event, &mut self.links);
        Kernel::<LengthOnly>::assert_invariants(&self.participant);
        is_over
    }
}

#[test]
fn an_accelerator_comes_once_to_the_barrier_of_every_switch() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.start(), Ok(false));
    assert_eq!(bench.links.added, [(PortId(0), COUNTER, 1), (PortId(1), COUNTER, 1)]);
}

#[test]
fn a_collective_is_over_when_every_switch_has_set_its_flag() {
    let mut bench = Bench::new(2);
    bench.start().unwrap();
    assert_eq!([bench.changed(9, 1), bench.changed(8, 1)], [false, true]);
}

#[test]
fn each_collective_waits_for_a_number_of_its_own() {
    let mut bench = Bench::new(1);
    for begun in 1..=3 {
        bench.start().unwrap();
        assert_eq!([begun - 1, begun + 1, begun].map(|value| bench.changed(8, value)), [false, false, true]);
    }
}

#[test]
fn words_that_are_no_flags_and_flags_that_nobody_waits_for_end_nothing() {
    let mut bench = Bench::new(2);
    assert!(!bench.changed(8, 0));
    bench.start().unwrap();
    assert_eq!([7, 10, 9].map(|word| bench.changed(word, 1)), [false; 3]);
    assert!(bench.changed(8, 1));
    assert!(!bench.changed(9, 1));
}

#[test]
fn an_accelerator_takes_part_in_one_collective_at_a_time() {
    let mut bench = Bench::new(1);
    bench.start().unwrap();
    let refused = bench.start().unwrap_err();
    assert!(refused.starts_with("expected an idle accelerator"), "{refused}");
    assert!(bench.changed(8, 1));
    assert_eq!(bench.start(), Ok(false));
}
