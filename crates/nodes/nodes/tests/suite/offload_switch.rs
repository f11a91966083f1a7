//! A switch whose queue pairs somebody else executes, between hosts of the same kind: work requests come out, messages are carried from one
//! end of a connection to the other, and no frame passes.

use crate::common::{GROUP, NetworkSetup, groups, star};
use quincunx_collective::{Collective, DataType, Numbers, ReduceOp, Reduction};
use quincunx_engine::verbs::{Completion, Outcome, QpIndex, ReceiveRequest, SendRequest};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_epic::Mode;
use quincunx_nodes::{
    Host, HostCommand, HostEvent, Offloadable, PostedWork, Switch, SwitchCommand, SwitchRejected, Work,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;
use std::collections::{BTreeMap, VecDeque};

const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// What a node says; a frame or a timer would be a fault.
struct RecordingSink<E: Engine>(Vec<E::Event>);

impl<E: Engine<Header = RoceHeader>> Sink<E> for RecordingSink<E> {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, E::Payload>) {
        panic!("a frame of an offloaded queue pair: {:?}", frame.header);
    }
    fn set_timer(&mut self, timer: E::Timer, _: Duration) {
        panic!("a timer of an offloaded queue pair: {timer:?}");
    }
    fn cancel_timer(&mut self, _: E::Timer) {}
    fn emit(&mut self, event: E::Event) {
        self.0.push(event);
    }
    fn drop_frame(&mut self, _: PortId, _: E::DropReason) {}
}

/// A node, and the work that its queue pairs have.
struct Offloaded<E: Engine> {
    engine: E,
    sink: RecordingSink<E>,
    sends: BTreeMap<QpIndex, VecDeque<SendRequest>>,
    receives: BTreeMap<QpIndex, VecDeque<ReceiveRequest>>,
}

impl<E: Offloadable<Header = RoceHeader, Payload = Numbers>> Offloaded<E> {
    fn new(engine: E) -> Self {
        Self { engine, sink: RecordingSink(Vec::new()), sends: BTreeMap::new(), receives: BTreeMap::new() }
    }

    fn tell(&mut self, command: E::Command) -> Result<(), E::Rejected> {
        self.engine.handle_command(Instant::ZERO, command, &mut self.sink)?;
        self.engine.assert_invariants();
        while let Some(PostedWork { group, queue_pair, work }) = self.engine.take_work() {
            assert_eq!(group, GROUP);
            match work {
                Work::Send(request) => self.sends.entry(queue_pair).or_default().push_back(request),
                Work::Receive(request) => self.receives.entry(queue_pair).or_default().push_back(request),
            }
        }
        Ok(())
    }

    fn end(&mut self, queue_pair: QpIndex, completion: Completion) {
        self.tell(E::ended(GROUP, queue_pair, completion)).expect("the group is installed");
    }

    fn next_send(&self, queue_pair: QpIndex) -> Option<SendRequest> {
        self.sends.get(&queue_pair)?.front().copied()
    }
}

/// Carries the oldest message of one end to the other, if there is one, and the other is ready for it.
fn carry<A, B>((from, out): (&mut Offloaded<A>, QpIndex), (to, into): (&mut Offloaded<B>, QpIndex)) -> bool
where
    A: Offloadable<Header = RoceHeader, Payload = Numbers>,
    B: Offloadable<Header = RoceHeader, Payload = Numbers>,
{
    let Some(send) = from.next_send(out) else { return false };
    let Some(receive) = to.receives.get_mut(&into).and_then(VecDeque::pop_front) else { return false };
    from.sends.get_mut(&out).expect("it is there").pop_front();
    let bytes = from.engine.memory(GROUP).expect("installed").view(send.source).to_vec();
    assert!(bytes.len() <= receive.sink.length);
    let sink = quincunx_engine::verbs::Slice { length: bytes.len(), ..receive.sink };
    to.engine.memory(GROUP).expect("installed").write(sink, &bytes);
    to.end(into, Completion::Received { id: receive.id, length: bytes.len(), immediate: send.immediate });
    from.end(out, Completion::Sent { id: send.id });
    true
}

#[test]
fn a_switch_whose_connections_end_there_adds_up_what_somebody_else_has_received() {
    let (hosts, mut switches) = groups(&star(3), NetworkSetup::tiny(Mode::I));
    let Ok(switch) = Switch::new(());
    let mut switch = Offloaded::new(switch);
    let mut group = switches.remove(0);
    group.are_offloaded = true;
    switch.tell(SwitchCommand::Install(Box::new(group))).unwrap();
    let mut hosts: Vec<_> = hosts
        .into_iter()
        .map(|mut group| {
            let Ok(host) = Host::new(());
            let mut host = Offloaded::new(host);
            group.are_offloaded = true;
            host.tell(HostCommand::Install(Box::new(group))).unwrap();
            host
        })
        .collect();
    // Three messages of two packets of 8 bytes, the last one shorter.
    let input = |rank: i32| Numbers::from((0..10).flat_map(|i| (i * rank).to_le_bytes()).collect::<Vec<_>>());
    for (rank, host) in hosts.iter_mut().enumerate() {
        let (input, output) = (input(rank as i32 + 1), Numbers::from(vec![0; 40]));
        let collective = Collective::AllReduce;
        host.tell(HostCommand::Start {
            group: GROUP,
            collective,
            reduction: SUM,
            input,
            output,
            terms: Terms::WHOLE,
        })
        .unwrap();
    }
    let mut carried = true;
    while carried {
        carried = false;
        for (edge, host) in hosts.iter_mut().enumerate() {
            let (edge, own) = (QpIndex(edge as u16), QpIndex(0));
            carried |= carry((host, own), (&mut switch, edge)) | carry((&mut switch, edge), (host, own));
        }
    }
    for host in &hosts {
        let [HostEvent::Finished { outcome, output, .. }] = &host.sink.0[..] else {
            panic!("{:?}", host.sink.0)
        };
        assert_eq!((*outcome, output), (Outcome::Done, &input(1 + 2 + 3)));
    }
}

#[test]
fn a_group_whose_frames_pass_a_switch_is_none_for_one_whose_queue_pairs_somebody_else_executes() {
    for mode in [Mode::II, Mode::III] {
        let (_, mut switches) = groups(&star(3), NetworkSetup::tiny(mode));
        let Ok(switch) = Switch::new(());
        let mut switch = Offloaded::new(switch);
        let mut group = switches.remove(0);
        group.are_offloaded = true;
        let refused = switch.tell(SwitchCommand::Install(Box::new(group)));
        assert_eq!(refused, Err(SwitchRejected::PassesThrough(GROUP)));
        assert_eq!(switch.tell(SwitchCommand::Remove(GROUP)), Err(SwitchRejected::NoSuchGroup(GROUP)));
    }
}
