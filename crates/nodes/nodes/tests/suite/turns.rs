//! In which order the queue pairs of a host have its port.

use quincunx_collective::{Collective, DataType, GroupId, LengthOnly, Payload, ReduceOp, Reduction};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Outcome, Program, QpIndex, RequestError, SendRequest, Slice, Verb, Verbs,
    WorkId,
};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_nodes::{Host, HostCommand, HostEvent, HostGroup, HostTimer, NodeDrop};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};

const MTU: usize = 64;

/// Posts messages of so many packets to queue pairs, in this order, at the start of a collective.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Burst(Vec<(u16, usize)>);

impl Program<LengthOnly> for Burst {
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<LengthOnly>,
    ) -> Result<Option<Outcome>, RequestError> {
        for &(qp, packets) in &self.0 {
            let source = Slice { region: request.input.region, offset: 0, length: packets * MTU };
            verbs.post_send(
                QpIndex(qp),
                SendRequest { id: WorkId(0), verb: Verb::Send, source, immediate: None },
            );
        }
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        _: QpIndex,
        _: Completion,
        _: &mut dyn Verbs<LengthOnly>,
    ) -> Option<Outcome> {
        None
    }

    fn assert_invariants(&self) {}
}

/// The queue pairs that frames are from, in order.
#[derive(Default)]
struct Sent(Vec<u32>);

impl Sink<Host<LengthOnly>> for Sent {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, LengthOnly>) {
        self.0.push(frame.header.destination_qp.value() - 16);
    }
    fn set_timer(&mut self, _: HostTimer, _: Duration) {}
    fn cancel_timer(&mut self, _: HostTimer) {}
    fn emit(&mut self, _: HostEvent<LengthOnly>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}

fn end(last: u8, qp: u32) -> Endpoint {
    Endpoint { ip: Gid::from([10, 0, 0, last]), qp: QpNumber::new(qp) }
}

fn order(posted: &[(u16, usize)]) -> Vec<u32> {
    let config = |qp: u32| QueuePairConfig {
        local: end(1, 16 + qp),
        remote: end(2, 16 + qp),
        mtu: MTU,
        send_psn: Psn::new(0),
        expected_psn: Psn::new(0),
        acknowledge_every: Packets::new(1),
        retry_timeout: Duration::from_millis(20),
        retry_count: 7,
        rnr_timer: 1,
        rnr_retry_count: 7,
        window: Packets::new(64),
        congestion_window: false,
        remote_write: false,
        credits: false,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let group = GroupId(1);
    let queue_pairs = (0..4).map(|qp| (PortId(0), config(qp))).collect();
    let program = Box::new(Burst(posted.to_vec()));
    let installed = HostGroup { group, queue_pairs, are_offloaded: false, program, contention: None };
    let Ok(mut host) = Host::<LengthOnly>::new(());
    let mut sent = Sent::default();
    host.handle_command(Instant::ZERO, HostCommand::Install(Box::new(installed)), &mut sent).unwrap();
    let buffer = LengthOnly::zeroed(64 * MTU);
    let start = HostCommand::Start {
        group,
        collective: Collective::AllReduce,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        input: buffer,
        output: buffer,
        terms: Terms::WHOLE,
    };
    host.handle_command(Instant::ZERO, start, &mut sent).unwrap();
    while host.wants_transmit(PortId(0)) {
        host.handle_transmit_slot(Instant::ZERO, PortId(0), &mut sent);
        host.assert_invariants();
    }
    sent.0
}

/// A message of a few bytes waited for all data of another queue pair: a ring's words of free slots, until the link had run dry.
#[test]
fn a_queue_pair_leaves_its_port_to_the_next_when_a_message_is_over() {
    assert_eq!(order(&[(0, 3), (0, 3), (1, 1)]), [0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(order(&[(0, 2), (0, 2), (1, 2), (1, 2), (3, 1)]), [0, 0, 1, 1, 3, 0, 0, 1, 1]);
}

/// Ranks of a group that all send to all others, each to its neighbour first, all sent to the first of them.
#[test]
fn a_port_that_was_idle_begins_with_the_queue_pair_that_is_posted_to_first() {
    assert_eq!(order(&[(2, 1), (3, 1), (0, 1), (1, 1)]), [2, 3, 0, 1]);
}
