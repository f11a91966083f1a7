//! Whatever peers send: no panic, invariants after each step, and every collective ends at most once.

use crate::common::{Graph, Port, config, port};
use proptest::prelude::*;
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction, Routes};
use quincunx_engine::Terms;
use quincunx_engine::routing::Routed;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RegionId, Slice, WorkId,
};
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Experts, ExpertsConfig, Part, RelayCost, WriterConfig,
};
use quincunx_units::{Duration, Instant};

/// Two slots of four bytes for each of four ranks, of which three gather.
const RANKS: usize = 4;
const WINDOW: usize = RANKS * 2 * 4;

/// Stands for what this rank tells as well.
const ALL_HERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
enum Event {
    Start {
        length: usize,
    },
    Written {
        qp: u16,
        offset: usize,
        length: usize,
        immediate: u32,
    },
    Received {
        qp: u16,
        length: usize,
        immediate: Option<u32>,
    },
    Failed {
        qp: u16,
    },
    /// The oldest message of a queue pair is acknowledged.
    Sent {
        qp: u16,
    },
    Alarm,
}

fn event() -> impl Strategy<Value = Event> {
    let qp = || 0..RANKS as u16 - 1;
    let announced = (0..3_u32, any::<bool>()).prop_map(|(count, back)| Some(u32::from(back) << 30 | count));
    let told = prop_oneof![4 => Just(Some(ALL_HERE)), 4 => announced, 1 => any::<Option<u32>>()];
    prop_oneof![
        2 => (0..3_usize).prop_map(|words| Event::Start { length: 4 * words }),
        8 => (qp(), 0..WINDOW / 4, 0..5_usize, 0..20_u32)
            .prop_map(|(qp, word, length, immediate)| Event::Written { qp, offset: 4 * word, length, immediate }),
        1 => (qp(), 0..WINDOW - 8, 0..9_usize, any::<u32>())
            .prop_map(|(qp, offset, length, immediate)| Event::Written { qp, offset, length, immediate }),
        4 => (qp(), prop_oneof![9 => Just(0), 1 => 1..3_usize], told)
            .prop_map(|(qp, length, immediate)| Event::Received { qp, length, immediate }),
        1 => qp().prop_map(|qp| Event::Failed { qp }),
        8 => qp().prop_map(|qp| Event::Sent { qp }),
        2 => Just(Event::Alarm),
    ]
}

const PREPARATION: Duration = Duration::from_nanos(1);

struct Bench<A> {
    program: A,
    port: Port,
    /// What is asked of the program for so many bytes, after so many collectives: which, and how long its buffers are.
    request: fn(&mut A, usize, usize) -> (Collective, [usize; 2]),
    /// What this rank tells at the end of its last collective.
    word: u32,
    started: usize,
    ended: usize,
}

fn writer(cost: RelayCost) -> WriterConfig {
    WriterConfig { cost, ..config(&Graph::mesh(RANKS), 0, 2, 4) }
}

fn gathers(cost: RelayCost) -> Bench<AllGather> {
    let parts =
        vec![Part { way: 0, weight: 1, is_shared: true }, Part { way: 1, weight: 1, is_shared: false }];
    let group = [0, 1, 2].map(Rank).to_vec();
    let config = AllGatherConfig { writer: writer(cost), group, parts, preparation: PREPARATION };
    let request = |_: &mut AllGather, length, _| (Collective::AllGather, [length, 3 * length]);
    Bench::new(AllGather::new(config).unwrap(), request)
}

/// Dispatches tokens of four bytes to the ranks 0 and 2, and combines them.
fn has_experts(cost: RelayCost) -> Bench<Experts> {
    let config = ExpertsConfig {
        writer: writer(cost),
        preparation: PREPARATION,
        announces: true,
        patience: Duration::ZERO,
    };
    let request = |program: &mut Experts, length, started| {
        if started % 2 == 1 {
            return (Collective::Combine, [WINDOW, length]);
        }
        let routes: Routes = (0..length / 4).map(|_| [Rank(0), Rank(2)]).collect();
        program.route(&routes).unwrap();
        (Collective::Dispatch, [length, WINDOW])
    };
    Bench::new(Experts::new(config).unwrap(), request)
}

impl<A: Program<Numbers>> Bench<A> {
    fn new(mut program: A, request: fn(&mut A, usize, usize) -> (Collective, [usize; 2])) -> Self {
        let mut port = port(&Graph::mesh(RANKS), 0);
        program.initialise(&mut port);
        Self { program, port, request, word: 0, started: 0, ended: 0 }
    }

    fn start(&mut self, length: usize) {
        let (collective, lengths) = (self.request)(&mut self.program, length, self.started);
        let memory = &mut self.port.memory;
        let [input, output] = lengths.map(|length| Slice {
            region: memory.register(Numbers::zeroed(length)),
            offset: 0,
            length,
        });
        let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        let request = CollectiveRequest { collective, reduction, input, output, terms: Terms::WHOLE };
        if let Ok(outcome) = self.program.start(Instant::ZERO, request, &mut self.port) {
            self.started += 1;
            let whole = if collective == Collective::AllGather { output.length } else { 4 };
            self.word = 1 << 31 | request.digest(whole, 30);
            self.end(outcome);
        }
    }

    fn end(&mut self, outcome: Option<Outcome>) {
        self.ended += usize::from(outcome.is_some());
        assert!(self.ended <= self.started, "a collective ends once");
        self.program.assert_invariants();
    }

    fn takes_receive(&mut self, qp: u16) -> bool {
        let receives = &mut self.port.lines[usize::from(qp)].receives;
        let was_posted = *receives > 0;
        *receives -= usize::from(was_posted);
        was_posted
    }

    fn complete(&mut self, qp: u16, completion: Completion) {
        let outcome = self.program.handle_completion(Instant::ZERO, QpIndex(qp), completion, &mut self.port);
        self.end(outcome);
    }

    fn step(&mut self, event: Event) {
        let id = WorkId(0);
        match event {
            Event::Start { length } => self.start(length),
            // Without a receive request nothing completes.
            Event::Written { qp, .. } | Event::Received { qp, .. } if !self.takes_receive(qp) => {}
            Event::Written { qp, offset, length, immediate } => {
                let target = Slice { region: RegionId(0), offset, length: length.min(WINDOW - offset) };
                self.complete(qp, Completion::Written { id, target, immediate });
            }
            Event::Received { qp, length, immediate } => {
                let immediate = immediate.map(|bits| if bits == ALL_HERE { self.word } else { bits });
                self.complete(qp, Completion::Received { id, length, immediate });
            }
            Event::Failed { qp } => {
                self.complete(qp, Completion::Failed { id, failure: Failure::RetryExceeded });
            }
            Event::Sent { qp } => {
                if let Some(send) = self.port.lines[usize::from(qp)].sends.pop_front() {
                    self.complete(qp, Completion::Sent { id: send.id });
                }
            }
            Event::Alarm => {
                if let Some(alarm) = self.port.alarms.pop_first() {
                    let outcome = self.program.handle_alarm(Instant::ZERO, alarm, &mut self.port);
                    self.end(outcome);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_peer_never_makes_it_panic(events in prop::collection::vec(event(), 1..60), takes_time in any::<bool>()) {
        let nanos = Duration::from_nanos(u64::from(takes_time));
        let cost = RelayCost { message: nanos, copy: nanos };
        let (mut gathers, mut has_experts) = (gathers(cost), has_experts(cost));
        for event in events {
            gathers.step(event.clone());
            has_experts.step(event);
        }
    }
}
