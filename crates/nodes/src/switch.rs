//! A switch: an IncEngine for its Mode-II and Mode-III groups, queue pairs with aggregation above them for its Mode-I
//! groups.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::net::Ipv4Addr;
use quincunx_collective::{GroupId, Payload};
use quincunx_engine::verbs::{Alarm, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::mode_i::{Broken, ModeI};
use quincunx_epic::{Command, Event, GroupConfig, IncEngine, Rejected, Timer};
use quincunx_fabric::Mode;
use quincunx_roce::{QueuePairConfig, QueuePairTimer, Reliability};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{QpNumber, RoceHeader};

use crate::transport::{GroupSink, NodeDrop, QueuePairNode, Transport, TransportVerbs};

/// What a switch needs for one group: the same context in every mode.
pub type SwitchGroup = GroupConfig;

/// What the control plane asks of a switch.
#[derive(Clone, Debug)]
pub enum SwitchCommand {
    /// Installs a group's context.
    Install(Box<SwitchGroup>),
    /// Removes a group; its packets are foreign from now on.
    Remove(GroupId),
    /// Sends on what is for `destination` and comes to this switch, from now on through `port`.
    Route {
        /// An address that is not the switch's own.
        destination: Ipv4Addr,
        /// Where it goes.
        port: PortId,
    },
}

/// What a switch tells the control plane.
pub type SwitchEvent = Event;

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SwitchRejected {
    /// The context makes no sense, or is not there.
    #[error(transparent)]
    Context(#[from] Rejected),
    /// A queue pair of a Mode-I group makes no sense.
    #[error(transparent)]
    QueuePair(#[from] quincunx_roce::ConfigError),
}

/// A switch's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SwitchTimer {
    /// Of the IncEngine.
    IncEngine(Timer),
    /// Of a queue pair of a Mode-I group.
    QueuePair(GroupId, QpIndex, QueuePairTimer),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Terminated<P> {
    transport: Transport<P>,
    mode: ModeI,
}

/// A switch with collectives in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Switch<P> {
    inc: IncEngine<P>,
    terminated: BTreeMap<GroupId, Terminated<P>>,
    lookup: BTreeMap<QpNumber, (GroupId, QpIndex)>,
    routes: BTreeMap<Ipv4Addr, PortId>,
}

impl<P: Payload> QueuePairNode for Switch<P> {
    fn queue_pair_timer(group: GroupId, index: QpIndex, timer: QueuePairTimer) -> SwitchTimer {
        SwitchTimer::QueuePair(group, index, timer)
    }

    fn alarm_timer(_: GroupId, _: Alarm) -> Option<SwitchTimer> {
        None
    }
}

/// The switch's sink, as its IncEngine sees it.
struct IncSink<'a, P, S> {
    out: &'a mut S,
    payload: PhantomData<P>,
}

impl<P: Payload, S: Sink<Switch<P>>> Sink<IncEngine<P>> for IncSink<'_, P, S> {
    fn transmit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, P>) {
        self.out.transmit(port, frame);
    }

    fn replicate(&mut self, payload: P::View<'_>, copies: impl Iterator<Item = (PortId, RoceHeader)>) {
        self.out.replicate(payload, copies);
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.out.set_timer(SwitchTimer::IncEngine(timer), after);
    }

    fn cancel_timer(&mut self, timer: Timer) {
        self.out.cancel_timer(SwitchTimer::IncEngine(timer));
    }

    fn emit(&mut self, event: Event) {
        self.out.emit(event);
    }

    fn drop_frame(&mut self, port: PortId, reason: quincunx_epic::DropReason) {
        self.out.drop_frame(port, NodeDrop::IncEngine(reason));
    }
}

fn inc_sink<P: Payload, S: Sink<Switch<P>>>(out: &mut S) -> IncSink<'_, P, S> {
    IncSink { out, payload: PhantomData }
}

impl<P: Payload> Switch<P> {
    /// Bytes of payload and degree buffers in use (EPIC F.3).
    pub fn buffer_bytes(&self) -> usize {
        let terminated: usize = self.terminated.values().map(|group| group.mode.buffer_bytes()).sum();
        self.inc.buffer_bytes() + terminated
    }

    fn install_mode_i(
        &mut self,
        config: GroupConfig,
        out: &mut impl Sink<Self>,
    ) -> Result<(), SwitchRejected> {
        let id = config.group;
        if self.terminated.contains_key(&id) || self.inc.group(id).is_some() {
            return Err(Rejected::GroupExists(id).into());
        }
        for (index, edge) in config.edges.iter().enumerate() {
            let twice = config.edges[..index].iter().any(|other| other.local.qp == edge.local.qp);
            if twice || self.lookup.contains_key(&edge.local.qp) {
                return Err(Rejected::QpInUse(edge.local.qp).into());
            }
        }
        let queue_pairs: Vec<_> =
            config.edges.iter().map(|edge| (edge.port, queue_pair(&config, edge))).collect();
        let mut transport = Transport::new(queue_pairs)?;
        let numbers: Vec<_> = config.edges.iter().map(|edge| edge.local.qp).collect();
        let mut sink = GroupSink::new(id, out);
        let mut verbs = TransportVerbs { transport: &mut transport, sink: &mut sink };
        let mode = ModeI::new(config, &mut verbs).map_err(Rejected::from)?;
        for (index, number) in numbers.into_iter().enumerate() {
            self.lookup.insert(number, (id, QpIndex(index as u16)));
        }
        self.terminated.insert(id, Terminated { transport, mode });
        Ok(())
    }

    /// Lets a Mode-I group see what has completed.
    fn settle<S: Sink<Self>>(&mut self, id: GroupId, sink: &mut GroupSink<'_, Self, S>) {
        let Some(group) = self.terminated.get_mut(&id) else { return };
        while let Some((qp, completion)) = group.transport.next_completion() {
            let mut verbs = TransportVerbs { transport: &mut group.transport, sink: &mut *sink };
            if let Err(Broken { edge }) = group.mode.handle_completion(qp, completion, &mut verbs) {
                group.transport.shut_down(sink);
                sink.out.emit(Event::Unreachable { group: id, edge: edge as u16 });
            }
        }
    }
}

/// The queue pair of an edge of a Mode-I group.
fn queue_pair(config: &GroupConfig, edge: &quincunx_epic::EdgeConfig) -> QueuePairConfig {
    QueuePairConfig {
        local: edge.local,
        remote: edge.remote,
        mtu: config.mtu,
        send_psn: config.initial_psn,
        expected_psn: config.initial_psn,
        acknowledge_every: config.message,
        retry_timeout: config.resend_timeout,
        retry_count: config.retry_count,
        rnr_timer: 1,
        rnr_retry_count: quincunx_roce::INFINITE_RNR_RETRIES,
        max_outstanding_packets: config.window,
        // Neighbours send into posted receive buffers; the pipes are none of their business.
        remote_write: false,
        reliability: if config.selective { Reliability::Selective } else { Reliability::GoBackN },
        rate: None,
        mutation: None,
    }
}

impl<P: Payload> Engine for Switch<P> {
    type Config = ();
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = SwitchTimer;
    type Command = SwitchCommand;
    type Rejected = SwitchRejected;
    type Event = SwitchEvent;
    type DropReason = NodeDrop;

    fn new((): ()) -> Result<Self, Self::ConfigError> {
        let Ok(inc) = IncEngine::new(());
        Ok(Self { inc, terminated: BTreeMap::new(), lookup: BTreeMap::new(), routes: BTreeMap::new() })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        if let Some(&port) = self.routes.get(&frame.header.destination) {
            return out.transmit(port, frame);
        }
        match self.lookup.get(&frame.header.destination_qp) {
            Some(&(id, index)) => {
                let group = self.terminated.get_mut(&id).expect("the lookup table names installed groups");
                let mut sink = GroupSink::new(id, out);
                group.transport.handle_frame(now, index, frame, &mut sink);
                self.settle(id, &mut sink);
            }
            None => self.inc.handle_frame(now, port, frame, &mut inc_sink(out)),
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: SwitchTimer, out: &mut impl Sink<Self>) {
        match timer {
            SwitchTimer::IncEngine(timer) => self.inc.handle_timer(now, timer, &mut inc_sink(out)),
            SwitchTimer::QueuePair(id, index, timer) => {
                let Some(group) = self.terminated.get_mut(&id) else { return };
                let mut sink = GroupSink::new(id, out);
                group.transport.handle_timer(now, index, timer, &mut sink);
                self.settle(id, &mut sink);
            }
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: SwitchCommand,
        out: &mut impl Sink<Self>,
    ) -> Result<(), SwitchRejected> {
        match command {
            SwitchCommand::Install(config) if config.mode == Mode::I => self.install_mode_i(*config, out),
            SwitchCommand::Install(config) => {
                if self.terminated.contains_key(&config.group) {
                    return Err(Rejected::GroupExists(config.group).into());
                }
                if let Some(edge) = config.edges.iter().find(|edge| self.lookup.contains_key(&edge.local.qp))
                {
                    return Err(Rejected::QpInUse(edge.local.qp).into());
                }
                Ok(self.inc.handle_command(now, Command::Install(config), &mut inc_sink(out))?)
            }
            SwitchCommand::Route { destination, port } => {
                self.routes.insert(destination, port);
                Ok(())
            }
            SwitchCommand::Remove(id) => match self.terminated.remove(&id) {
                Some(mut group) => {
                    group.transport.shut_down(&mut GroupSink::new(id, out));
                    self.lookup.retain(|_, (owner, _)| *owner != id);
                    Ok(())
                }
                None => Ok(self.inc.handle_command(now, Command::Remove(id), &mut inc_sink(out))?),
            },
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.inc.wants_transmit(port)
            || self.terminated.values().any(|group| group.transport.wants_transmit(port))
    }

    fn may_want_transmit(&self) -> bool {
        self.inc.may_want_transmit() || !self.terminated.is_empty()
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        for (&id, group) in &mut self.terminated {
            if group.transport.wants_transmit(port) {
                return group.transport.handle_transmit_slot(now, port, &mut GroupSink::new(id, out));
            }
        }
        self.inc.handle_transmit_slot(now, port, &mut inc_sink(out));
    }

    fn assert_invariants(&self) {
        self.inc.assert_invariants();
        for group in self.terminated.values() {
            group.transport.assert_invariants();
            group.mode.assert_invariants();
        }
    }
}
