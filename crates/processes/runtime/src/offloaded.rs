//! A node whose queue pairs an RDMA device executes, a rank's or that of a switch at which connections end: work requests go from the
//! engine to the device, their ends come back, and messages are copied between the group's memory and the device's.

use quincunx_collective::{GroupId, Numbers};
use quincunx_design::Refusal;
use quincunx_driver_net::{Statistics, Traffic, Waker};
use quincunx_driver_verbs::{Connection, Device, DeviceError, Ended};
use quincunx_engine::verbs::{Completion, QpIndex, Slice};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{
    Host, HostCommand, HostGroup, Offloadable, PostedWork, Switch, SwitchCommand, SwitchGroup, Work,
};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant};
use quincunx_wire::QpNumber;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::codec::ROCE_PORT;

/// Queue pairs that a node has at once, over all its groups: a rank's of a group among 17, or a switch's to 16 neighbours.
const QUEUE_PAIRS: usize = 16;

/// Bytes around a packet's payload that a node on a socket counts: BTH and invariant CRC.
const AROUND: usize = 16;

/// One of a group's queue pairs.
struct Line {
    config: QueuePairConfig,
    /// Where messages go that are to come, oldest first.
    sinks: VecDeque<Slice>,
}

/// What the engine says while it is called.
struct EngineOutput<E: Engine> {
    now: Instant,
    events: VecDeque<E::Event>,
    timers: BTreeMap<E::Timer, Instant>,
}

impl<E: Engine> Sink<E> for EngineOutput<E> {
    /// Queue pairs are the device's: nothing else here has frames.
    fn transmit(&mut self, _: PortId, _: Frame<'_, E::Header, E::Payload>) {}

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        self.timers.insert(timer, self.now + after);
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.timers.remove(&timer);
    }

    fn emit(&mut self, event: E::Event) {
        self.events.push_back(event);
    }

    fn drop_frame(&mut self, _: PortId, _: E::DropReason) {}
}

/// An engine and its device.
pub(crate) struct OffloadedNode<E: Engine> {
    engine: E,
    device: Device,
    /// By their numbers there.
    lines: BTreeMap<QpNumber, (GroupId, QpIndex, Line)>,
    output: EngineOutput<E>,
    start: std::time::Instant,
    statistics: Statistics,
    sent_to: BTreeMap<SocketAddr, Traffic>,
    waker: Waker,
}

impl OffloadedNode<Host<Numbers>> {
    /// Brings a group's queue pairs up and joins it.
    pub(crate) fn install(&mut self, group: HostGroup<Numbers>) -> Result<(), Refusal> {
        let (id, locks) = (group.group, group.contention.is_some());
        let queue_pairs: Vec<_> = group.queue_pairs.iter().map(|(_, config)| *config).collect();
        let group = HostGroup { are_offloaded: true, ..group };
        self.join((id, locks), &queue_pairs, HostCommand::Install(Box::new(group)))
    }
}

impl OffloadedNode<Switch<Numbers>> {
    /// The same of a switch.
    pub(crate) fn install(&mut self, group: SwitchGroup<Numbers>) -> Result<(), Refusal> {
        let (id, locks) = (group.group, group.locks.is_some());
        let queue_pairs: Vec<_> = group.edges.iter().map(|(_, config)| *config).collect();
        let group = SwitchGroup { are_offloaded: true, ..group };
        self.join((id, locks), &queue_pairs, SwitchCommand::Install(Box::new(group)))
    }
}

impl<E: Offloadable<Payload = Numbers>> OffloadedNode<E> {
    pub(crate) fn open(engine: E, address: IpAddr) -> Result<Self, DeviceError> {
        let waker = Waker::new().map_err(|error| DeviceError::Call { call: "eventfd", error })?;
        Ok(Self {
            engine,
            device: Device::open(address, QUEUE_PAIRS)?,
            lines: BTreeMap::new(),
            output: EngineOutput { now: Instant::ZERO, events: VecDeque::new(), timers: BTreeMap::new() },
            start: std::time::Instant::now(),
            statistics: Statistics::default(),
            sent_to: BTreeMap::new(),
            waker,
        })
    }

    pub(crate) fn queue_pairs(&self) -> Vec<QpNumber> {
        self.device.numbers().into_iter().map(QpNumber::new).collect()
    }

    /// Brings a group's queue pairs up, and installs it.
    fn join(
        &mut self,
        (id, locks): (GroupId, bool),
        queue_pairs: &[QueuePairConfig],
        install: E::Command,
    ) -> Result<(), Refusal> {
        if locks {
            return Err(Refusal::new(
                "a group that has its switches' memory to itself",
                "one that locks it, in frames of our own",
                "choose another policy, or --transport udp",
            ));
        }
        if queue_pairs.iter().any(|config| config.reliability == Reliability::Datagrams) {
            return Err(Refusal::new(
                "a group whose queue pairs are connected",
                "one that sends datagrams",
                "choose another design, or --transport udp",
            ));
        }
        if queue_pairs.iter().any(|config| config.reliability == Reliability::Selective) {
            return Err(Refusal::new(
                "a group that goes back N, as devices do",
                "one whose nodes ask for what is missing alone",
                "create it with `group.selective=false`, or `group.standard_verbs=true` where the design has it",
            ));
        }
        let numbers: Vec<QpNumber> = queue_pairs.iter().map(|config| config.local.qp).collect();
        for (index, config) in queue_pairs.iter().enumerate() {
            let number = config.local.qp;
            if let Err(error) = self.device.connect(number.value(), &connection(config)) {
                self.take_down(&numbers);
                return Err(Refusal::of(&error));
            }
            let line = Line { config: *config, sinks: VecDeque::new() };
            self.lines.insert(number, (id, QpIndex(index as u16), line));
        }
        self.command(install).map_err(|rejected| {
            self.take_down(&numbers);
            Refusal::of(&rejected)
        })
    }

    fn take_down(&mut self, numbers: &[QpNumber]) {
        for number in numbers {
            self.lines.remove(number);
            // What it cannot take down is not used again: the next connection says so.
            let _ = self.device.disconnect(number.value());
        }
    }

    pub(crate) fn command(&mut self, command: E::Command) -> Result<(), E::Rejected> {
        let removed = E::removes(&command);
        self.output.now = self.now();
        let done = self.engine.handle_command(self.output.now, command, &mut self.output);
        self.hand_over();
        if let Some(group) = removed {
            let of_group = self.lines.iter().filter(|(_, (of, ..))| *of == group);
            let numbers: Vec<QpNumber> = of_group.map(|(number, _)| *number).collect();
            self.take_down(&numbers);
        }
        done
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Gives the device all work that the engine has posted.
    fn hand_over(&mut self) {
        while let Some(PostedWork { group, queue_pair, work }) = self.engine.take_work() {
            let found =
                self.lines.iter_mut().find(|(_, (of, index, _))| (*of, *index) == (group, queue_pair));
            let Some((&number, (_, _, line))) = found else { continue };
            match work {
                Work::Send(request) => {
                    let Some(memory) = self.engine.memory(group) else { continue };
                    let bytes = memory.view(request.source);
                    let traffic = packets(&line.config, bytes.len());
                    add(&mut self.statistics.sent, traffic);
                    let peer = SocketAddr::new(line.config.remote.ip.address(), ROCE_PORT);
                    add(self.sent_to.entry(peer).or_default(), traffic);
                    self.device.post_send(number.value(), request.id, bytes, request.immediate);
                }
                Work::Receive(request) => {
                    line.sinks.push_back(request.sink);
                    self.device.post_receive(number.value(), request.id, request.sink.length);
                }
            }
        }
    }

    /// Tells the engine what has ended; whether anything has.
    fn take_ended(&mut self) -> Result<bool, DeviceError> {
        let mut ended = Vec::new();
        let Self { engine, device, lines, statistics, .. } = self;
        device.poll(|number, end| {
            let Some((group, queue_pair, line)) = lines.get_mut(&QpNumber::new(number)) else { return };
            let completion = match end {
                Ended::Sent(id) => Completion::Sent { id },
                Ended::Received { id, bytes, immediate } => {
                    add(&mut statistics.received, packets(&line.config, bytes.len()));
                    if let (Some(sink), Some(memory)) = (line.sinks.pop_front(), engine.memory(*group)) {
                        memory.write(Slice { length: bytes.len(), ..sink }, bytes);
                    }
                    Completion::Received { id, length: bytes.len(), immediate }
                }
                Ended::Failed(id, failure) => Completion::Failed { id, failure },
            };
            ended.push(E::ended(*group, *queue_pair, completion));
        })?;
        let any = !ended.is_empty();
        for command in ended {
            // A group that is gone meanwhile does not miss it.
            let _ = self.command(command);
        }
        Ok(any)
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        let due = |timers: &BTreeMap<E::Timer, Instant>| {
            timers.iter().find(|(_, deadline)| **deadline <= now).map(|(timer, _)| *timer)
        };
        while let Some(timer) = due(&self.output.timers) {
            self.output.timers.remove(&timer);
            self.output.now = now;
            self.engine.handle_timer(now, timer, &mut self.output);
            self.hand_over();
        }
    }

    pub(crate) fn next_event(&mut self) -> Option<E::Event> {
        self.output.events.pop_front()
    }

    /// Does what is due. If nothing is, and no event waits to be taken, waits for at most `max_wait` first.
    pub(crate) fn turn(&mut self, max_wait: Duration) -> Result<(), DeviceError> {
        self.statistics.turns += 1;
        self.fire_timers();
        if self.take_ended()? || !self.output.events.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let end = self.output.timers.values().copied().fold(now + max_wait, Instant::min);
        self.statistics.waits += 1;
        self.device.wait(end.since(now), self.waker.file())?;
        self.waker.clear();
        self.fire_timers();
        self.take_ended()?;
        Ok(())
    }

    /// Turns for `time`; events wait for the next call.
    pub(crate) fn serve(&mut self, time: Duration) -> Result<(), DeviceError> {
        let end = self.now() + time;
        loop {
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            self.device.wait(end.since(now), self.waker.file())?;
            self.fire_timers();
            self.take_ended()?;
        }
    }

    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(crate) fn sent_to(&self) -> &BTreeMap<SocketAddr, Traffic> {
        &self.sent_to
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

fn connection(config: &QueuePairConfig) -> Connection {
    Connection {
        remote_address: config.remote.ip.address(),
        remote_number: config.remote.qp.value(),
        mtu: config.mtu,
        send_psn: config.send_psn.value(),
        expected_psn: config.expected_psn.value(),
        retry_timeout: config.retry_timeout,
        retry_count: config.retry_count,
        rnr_timer: config.rnr_timer,
        rnr_retry_count: config.rnr_retry_count,
        window: config.mtu * config.window.as_usize(),
    }
}

/// What a message is on the wire when nothing of it is lost.
fn packets(config: &QueuePairConfig, length: usize) -> Traffic {
    let frames = length.div_ceil(config.mtu).max(1);
    Traffic { frames: frames as u64, bytes: (length + frames * AROUND) as u64, ..Traffic::default() }
}

fn add(to: &mut Traffic, traffic: Traffic) {
    to.frames += traffic.frames;
    to.bytes += traffic.bytes;
}
