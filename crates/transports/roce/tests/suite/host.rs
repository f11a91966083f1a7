//! The smallest node: what its owner may ask, and what is refused. Set-ups that make no sense are refused too.

use crate::common::{ALICE, ALICE_PSN, BOB, Bytes, RETRY_TIMEOUT, alice, receive, slice};
use quincunx_engine::verbs::{Completion, RegionId, WorkId};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_roce::{
    ConfigError, DropReason, PostError, QueuePairConfig, QueuePairTimer, RoceCommand, RoceEvent, RoceHost,
    RoceRejected,
};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Aeth, Operation, RoceHeader, Syndrome};

/// Keeps events, and what becomes of timers: set to expire after so long, or cancelled. Ignores the rest.
#[derive(Default)]
struct Events {
    events: Vec<RoceEvent<Bytes>>,
    timers: Vec<(QueuePairTimer, Option<Duration>)>,
}

impl Sink<RoceHost<Bytes>> for Events {
    fn transmit(&mut self, _port: PortId, _frame: Frame<'_, RoceHeader, Bytes>) {}

    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration) {
        self.timers.push((timer, Some(after)));
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.timers.push((timer, None));
    }

    fn emit(&mut self, event: RoceEvent<Bytes>) {
        self.events.push(event);
    }

    fn drop_frame(&mut self, _port: PortId, _reason: DropReason) {}
}

fn command(
    host: &mut RoceHost<Bytes>,
    command: RoceCommand<Bytes>,
) -> Result<Vec<RoceEvent<Bytes>>, RoceRejected> {
    let mut events = Events::default();
    host.handle_command(Instant::ZERO, command, &mut events)?;
    Ok(events.events)
}

#[test]
fn a_region_comes_back_with_what_it_held() {
    let mut host = RoceHost::new(alice()).unwrap();
    let registered = command(&mut host, RoceCommand::Register(Bytes(vec![1, 2])));
    assert_eq!(registered, Ok(vec![RoceEvent::Registered(RegionId(0))]));
    let released = command(&mut host, RoceCommand::Release(RegionId(0)));
    assert_eq!(released, Ok(vec![RoceEvent::Released(Bytes(vec![1, 2]))]));
    let again = command(&mut host, RoceCommand::Release(RegionId(0)));
    assert_eq!(again, Err(RoceRejected::NoSuchRegion(RegionId(0))));
}

#[test]
fn a_region_that_a_request_names_is_not_released() {
    for request in [
        RoceCommand::PostSend(crate::common::send(1, slice(RegionId(0), 0, 1))),
        RoceCommand::PostReceive(receive(1, slice(RegionId(0), 0, 1))),
    ] {
        let mut host = RoceHost::new(alice()).unwrap();
        command(&mut host, RoceCommand::Register(Bytes(vec![1]))).unwrap();
        command(&mut host, request).unwrap();
        let refused = command(&mut host, RoceCommand::Release(RegionId(0)));
        assert_eq!(refused, Err(RoceRejected::RegionInUse(RegionId(0))));
    }
}

#[test]
fn what_the_queue_pair_refuses_the_host_refuses() {
    let mut host = RoceHost::<Bytes>::new(alice()).unwrap();
    let unregistered = slice(RegionId(3), 0, 1);
    let refused = command(&mut host, RoceCommand::PostReceive(receive(1, unregistered)));
    assert_eq!(refused, Err(RoceRejected::Post(PostError::NotRegistered(unregistered))));
}

#[test]
fn only_the_first_port_sends() {
    let mut host = RoceHost::<Bytes>::new(alice()).unwrap();
    let request = crate::common::send(1, slice(RegionId(0), 0, 0));
    assert_eq!(request.id, WorkId(1));
    command(&mut host, RoceCommand::PostSend(request)).unwrap();
    host.handle_transmit_slot(Instant::ZERO, PortId(1), &mut Events::default());
    assert!(host.wants_transmit(PortId(0)) && !host.wants_transmit(PortId(1)));
}

#[test]
fn the_retry_timer_runs_from_the_first_packet_until_all_are_acknowledged() {
    let mut host = RoceHost::<Bytes>::new(alice()).unwrap();
    let request = crate::common::send(1, slice(RegionId(0), 0, 0));
    command(&mut host, RoceCommand::PostSend(request)).unwrap();
    let mut out = Events::default();
    host.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
    assert_eq!(out.timers, [(QueuePairTimer::Retry, Some(RETRY_TIMEOUT))]);

    let mut out = Events::default();
    let acknowledge = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 1 });
    let header = RoceHeader::new(BOB.ip, ALICE.ip, ALICE.qp, ALICE_PSN, acknowledge);
    let frame = Frame { header: &header, payload: &[][..] };
    host.handle_frame(Instant::ZERO, PortId(0), frame, &mut out);
    assert_eq!(out.timers, [(QueuePairTimer::Retry, None)]);
    assert_eq!(out.events, [RoceEvent::Completion(Completion::Sent { id: WorkId(1) })]);
}

#[test]
fn set_ups_that_make_no_sense_are_refused_by_name() {
    let refusals = [
        (QueuePairConfig { mtu: 0, ..alice() }, ConfigError::Mtu(0)),
        (QueuePairConfig { mtu: 1022, ..alice() }, ConfigError::Mtu(1022)),
        (QueuePairConfig { mtu: 4100, ..alice() }, ConfigError::Mtu(4100)),
        (QueuePairConfig { acknowledge_every: Packets::new(0), ..alice() }, ConfigError::AcknowledgeEvery),
        (QueuePairConfig { retry_timeout: Duration::ZERO, ..alice() }, ConfigError::RetryTimeout),
        (QueuePairConfig { rnr_timer: 32, ..alice() }, ConfigError::RnrTimer(32)),
        (QueuePairConfig { rnr_retry_count: 8, ..alice() }, ConfigError::RnrRetryCount(8)),
        (QueuePairConfig { window: Packets::new(0), ..alice() }, ConfigError::Window(Packets::new(0))),
        (
            QueuePairConfig { window: Packets::new(1 << 23), ..alice() },
            ConfigError::Window(Packets::new(1 << 23)),
        ),
    ];
    for (config, refusal) in refusals {
        assert_eq!(RoceHost::<Bytes>::new(config), Err(refusal));
    }
}
