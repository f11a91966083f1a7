//! Writes of the application's own: they end when every destination has them, and only then.

use crate::common::{Graph, Port, Random, config, full_mesh, port, step};
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RegionId, RequestError, Slice, WorkId,
};
use quincunx_engine::writes::{Notice, OneSided, Target, WriteError};
use quincunx_multiwrite::{WriterConfig, Writes};
use quincunx_units::Instant;

const RANKS: usize = 4;
const SLOTS: usize = 2;
const DATA: usize = 8;
/// The way over the partner.
const RELAYED: usize = 1;

/// Two domains of two: 0 and 1, relayed by 2 and 3.
struct Ranks {
    graph: Graph,
    programs: Vec<Writes>,
    ports: Vec<Port>,
    random: Random,
    /// Writes that have ended, by rank.
    written: Vec<Vec<u64>>,
    /// Receiver, source, slot, bytes.
    delivered: Vec<(usize, u16, usize, Vec<u8>)>,
    outcomes: Vec<Vec<Outcome>>,
}

impl Ranks {
    fn new(seed: u64) -> Self {
        let graph = Graph::mesh(RANKS);
        let mut ports: Vec<Port> = (0..RANKS).map(|rank| port(&graph, rank)).collect();
        let program = |rank: usize| {
            let table = full_mesh((2, 2), rank as u16);
            Writes::new(WriterConfig { table, ..config(&graph, rank, SLOTS, DATA) })
        };
        let mut programs: Vec<Writes> = (0..RANKS).map(program).collect();
        for (program, port) in programs.iter_mut().zip(&mut ports) {
            program.initialise(port);
        }
        let (written, outcomes) = (vec![Vec::new(); RANKS], vec![Vec::new(); RANKS]);
        Self { graph, programs, ports, random: Random(seed), written, delivered: Vec::new(), outcomes }
    }

    fn write(&mut self, id: u64, to: &[(u16, usize)], way: usize, bytes: &[u8]) -> Result<(), WriteError> {
        let targets: Vec<Target> = to.iter().map(|&(rank, slot)| Target { rank: Rank(rank), slot }).collect();
        let data = Numbers::from(bytes.to_vec());
        let view = data.view(0..data.length());
        self.programs[0].write(WorkId(id), (&targets, way), view, &mut self.ports[0])
    }

    fn complete(&mut self, rank: usize, qp: QpIndex, completion: Completion) {
        let (program, port) = (&mut self.programs[rank], &mut self.ports[rank]);
        self.outcomes[rank].extend(program.handle_completion(Instant::ZERO, qp, completion, port));
        Program::<Numbers>::assert_invariants(program);
        while let Some(notice) = OneSided::<Numbers>::next_notice(program) {
            match notice {
                Notice::Written { id } => self.written[rank].push(id.0),
                Notice::Delivered { source, slot, data } => {
                    self.delivered.push((rank, source.0, slot, port.memory.view(data).to_vec()));
                }
            }
        }
    }

    fn run(&mut self) {
        while let Some(completions) = step(&self.graph, &mut self.ports, &mut self.random) {
            for (rank, qp, completion) in completions {
                self.complete(rank, qp, completion);
            }
        }
    }
}

#[test]
fn a_write_ends_when_its_destination_has_it() {
    let mut ranks = Ranks::new(1);
    ranks.write(7, &[(3, 1)], 0, b"abc").unwrap();
    assert!(ranks.written[0].is_empty());
    ranks.run();
    assert_eq!(ranks.delivered, [(3, 0, 1, b"abc".to_vec())]);
    assert_eq!(ranks.written[0], [7]);
}

#[test]
fn a_write_to_several_ends_when_the_last_of_them_has_it() {
    for way in [0, RELAYED] {
        for seed in 0..20 {
            let mut ranks = Ranks::new(seed);
            ranks.write(7, &[(1, 0), (2, 0), (3, 1)], way, b"abc").unwrap();
            ranks.run();
            ranks.delivered.sort();
            let all = [(1, 0, 0), (2, 0, 0), (3, 0, 1)];
            assert_eq!(ranks.delivered, all.map(|(to, from, slot)| (to, from, slot, b"abc".to_vec())));
            assert_eq!(ranks.written, [vec![7], vec![], vec![], vec![]]);
        }
    }
}

#[test]
fn the_callers_buffer_is_its_own_again_at_once_and_the_slot_when_the_write_has_ended() {
    let mut ranks = Ranks::new(1);
    ranks.write(7, &[(1, 0)], 0, b"abc").unwrap();
    assert_eq!(ranks.write(8, &[(3, 0)], 0, b"def"), Err(WriteError::Busy { slot: 0 }));
    ranks.write(8, &[(3, 1)], 0, b"def").unwrap();
    ranks.run();
    ranks.write(9, &[(1, 0)], 0, b"ghi").unwrap();
    ranks.run();
    assert_eq!(ranks.delivered.last(), Some(&(1, 0, 0, b"ghi".to_vec())));
}

#[test]
fn a_relay_that_has_taken_a_write_and_dies_does_not_let_it_count_as_whole() {
    let mut ranks = Ranks::new(1);
    // By way of 2, which relays for 0 and passes nothing on: it is gone.
    ranks.write(7, &[(1, 0)], RELAYED, b"abc").unwrap();
    let to_relay = QpIndex(1);
    let send = ranks.ports[0].lines[1].sends.pop_front().unwrap();
    ranks.complete(0, to_relay, Completion::Sent { id: send.id });
    assert!(ranks.written[0].is_empty(), "the relay has it, and nobody else");
    let failure = Failure::RetryExceeded;
    ranks.complete(0, to_relay, Completion::Failed { id: WorkId(0), failure });
    assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp: to_relay, failure }]);
    assert!(ranks.written[0].is_empty());
    assert_eq!(ranks.write(8, &[(1, 1)], 0, b"abc"), Err(WriteError::GroupFailed));
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_sent() {
    let mut ranks = Ranks::new(1);
    let long = [0; DATA + 1];
    for (to, bytes, error) in [
        (&[][..], &b"abc"[..], WriteError::NoDestination),
        (&[(4, 0)], b"abc", WriteError::UnknownRank { ranks: 4, found: 4 }),
        (&[(0, 0)], b"abc", WriteError::SelfAddressed { rank: 0 }),
        (&[(1, 0), (0, 0)], b"abc", WriteError::SelfAddressed { rank: 0 }),
        (&[(1, 0), (1, 0)], b"abc", WriteError::Twice { rank: 1, slot: 0 }),
        (&[(1, SLOTS)], b"abc", WriteError::NoSlot { slots: SLOTS, found: SLOTS }),
        (&[(1, 0)], &long, WriteError::Source { limit: DATA, found: DATA + 1 }),
    ] {
        assert_eq!(ranks.write(7, to, 0, bytes), Err(error));
        assert!(!error.to_string().contains('\n'));
        assert_eq!(ranks.ports[0].posts, 0);
    }
}

#[test]
fn a_word_about_a_write_that_nobody_made_ends_the_group() {
    let mut ranks = Ranks::new(1);
    let window = DATA * 2 * SLOTS;
    let target = Slice { region: RegionId(0), offset: window + SLOTS * DATA, length: 0 };
    ranks.complete(0, QpIndex(0), Completion::Written { id: WorkId(0), target, immediate: 1 });
    let failed = Outcome::Failed { qp: QpIndex(0), failure: Failure::InvalidRequest };
    assert_eq!(ranks.outcomes[0], [failed]);
}

#[test]
fn there_are_no_collectives_beside() {
    let mut ranks = Ranks::new(1);
    let nothing = Slice { region: RegionId(0), offset: 0, length: 0 };
    let request = CollectiveRequest {
        collective: Collective::Barrier,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        input: nothing,
        output: nothing,
        terms: Terms::WHOLE,
    };
    let refused = ranks.programs[0].start(Instant::ZERO, request, &mut ranks.ports[0]);
    assert_eq!(refused, Err(RequestError::NotOffered { found: Collective::Barrier }));
}
