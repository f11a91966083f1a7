//! A host whose queue pairs somebody else executes: work requests come out, their ends go in, and no frame passes.

use quincunx_collective::{Collective, DataType, GroupId, Numbers, Rank, ReduceOp, Reduction};
use quincunx_engine::verbs::{Completion, Failure, Outcome, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_epic::{CommLib, CommLibConfig};
use quincunx_nodes::{
    Host, HostCommand, HostEvent, HostGroup, HostTimer, NodeDrop, Offloadable as _, PostedWork, Work,
};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant, Messages, Packets};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};

const GROUP: GroupId = GroupId(1);
const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// What a host says; a frame would be a fault.
#[derive(Default)]
struct RecordingSink(Vec<HostEvent<Numbers>>);

impl Sink<Host<Numbers>> for RecordingSink {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        panic!("a frame of an offloaded queue pair: {:?}", frame.header);
    }
    fn set_timer(&mut self, timer: HostTimer, _: Duration) {
        panic!("a timer of an offloaded queue pair: {timer:?}");
    }
    fn cancel_timer(&mut self, _: HostTimer) {}
    fn emit(&mut self, event: HostEvent<Numbers>) {
        self.0.push(event);
    }
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}

/// Rank 0 of two, with messages of 8 bytes.
fn host(synchronize_psn: bool) -> (Host<Numbers>, RecordingSink) {
    let Ok(mut host) = Host::new(());
    let (ranks, rank, mtu, message, window) = (2, Rank(0), 8, 1, 4);
    let library = CommLibConfig {
        ranks,
        rank,
        mtu,
        message: Packets::new(message),
        window: Messages::new(window),
        run_ahead: false,
        overlap: false,
        eager: false,
        confirm: true,
        synchronize_psn,
        window_in_packets: synchronize_psn,
    };
    let end = |last| Endpoint { ip: Gid::from([10, 0, 0, last]), qp: QpNumber::new(0x11) };
    let queue_pair = QueuePairConfig {
        local: end(1),
        remote: end(2),
        mtu,
        send_psn: Psn::new(0),
        expected_psn: Psn::new(0),
        acknowledge_every: Packets::new(1),
        retry_timeout: Duration::from_millis(1),
        retry_count: 3,
        rnr_timer: 1,
        rnr_retry_count: 7,
        credits: false,
        window: Packets::new(window),
        congestion_window: false,
        remote_write: false,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let group = HostGroup {
        group: GROUP,
        queue_pairs: vec![(PortId(0), queue_pair)],
        are_offloaded: true,
        program: Box::new(CommLib::new(library).unwrap()),
        contention: None,
    };
    let mut sink = RecordingSink::default();
    host.handle_command(Instant::ZERO, HostCommand::Install(Box::new(group)), &mut sink).unwrap();
    (host, sink)
}

fn start(host: &mut Host<Numbers>, collective: Collective, sink: &mut RecordingSink) {
    let input = Numbers::from(vec![1, 0, 0, 0, 2, 0, 0, 0]);
    let output = Numbers::from(vec![0; 8]);
    let start =
        HostCommand::Start { group: GROUP, collective, reduction: SUM, input, output, terms: Terms::WHOLE };
    host.handle_command(Instant::ZERO, start, sink).unwrap();
}

fn complete(host: &mut Host<Numbers>, completion: Completion, sink: &mut RecordingSink) {
    let command = HostCommand::Complete { group: GROUP, queue_pair: QpIndex(0), completion };
    host.handle_command(Instant::ZERO, command, sink).unwrap();
    host.assert_invariants();
}

fn work(host: &mut Host<Numbers>) -> Vec<Work> {
    let all = std::iter::from_fn(|| host.take_work());
    let of_the_group = |posted: PostedWork| {
        assert_eq!((posted.group, posted.queue_pair), (GROUP, QpIndex(0)));
        posted.work
    };
    all.map(of_the_group).collect()
}

#[test]
fn a_collective_becomes_work_for_somebody_else_and_ends_when_that_has_ended() {
    let (mut host, mut sink) = host(false);
    start(&mut host, Collective::AllReduce, &mut sink);
    let posted = work(&mut host);
    let [Work::Receive(control), Work::Receive(data), Work::Send(announce), Work::Send(send)] = posted[..]
    else {
        panic!("{posted:?}")
    };
    assert_eq!((control.sink.length, data.sink.length), (0, 8));
    assert_eq!(work(&mut host), [], "what was taken is not handed out again");
    let memory = host.memory(GROUP).expect("the group is installed");
    assert_eq!(
        (memory.view(announce.source), memory.view(send.source)),
        (&[][..], &[1, 0, 0, 0, 2, 0, 0, 0][..])
    );
    memory.write(data.sink, &[5, 0, 0, 0, 7, 0, 0, 0]);
    for request in [announce, send] {
        complete(&mut host, Completion::Sent { id: request.id }, &mut sink);
    }
    let immediate = announce.immediate;
    complete(&mut host, Completion::Received { id: control.id, length: 0, immediate }, &mut sink);
    assert_eq!(sink.0, []);
    complete(&mut host, Completion::Received { id: data.id, length: 8, immediate: None }, &mut sink);
    let [HostEvent::Finished { outcome, output, .. }] = &sink.0[..] else { panic!("{:?}", sink.0) };
    assert_eq!((*outcome, output.bytes()), (Outcome::Done, &[5, 0, 0, 0, 7, 0, 0, 0][..]));
}

#[test]
fn when_work_fails_the_collective_does() {
    let (mut host, mut sink) = host(false);
    start(&mut host, Collective::AllReduce, &mut sink);
    let Some(Work::Receive(first)) = work(&mut host).into_iter().next() else { panic!("a receive request") };
    let failure = Failure::RetryExceeded;
    complete(&mut host, Completion::Failed { id: first.id, failure }, &mut sink);
    let [HostEvent::Finished { outcome, .. }] = &sink.0[..] else { panic!("{:?}", sink.0) };
    assert_eq!(*outcome, Outcome::Failed { qp: QpIndex(0), failure });
}

#[test]
fn a_program_that_skips_numbers_fails_where_nobody_can() {
    let (mut host, mut sink) = host(true);
    start(&mut host, Collective::Reduce { root: Rank(0) }, &mut sink);
    let failed = |event: &HostEvent<Numbers>| {
        matches!(event, HostEvent::Finished { outcome: Outcome::Failed { .. }, .. })
    };
    assert!(sink.0.iter().any(failed), "{:?}", sink.0);
}
