//! The in-switch accelerator: controllers, wave tables, accumulator and write-back put together (SCIN 3.4, figure 4).
//!
//! Its owner hands it the packets of its channels, and asks it, port by port, for those that it wants to send. After
//! each call there may be [events](Isa::next_event), and a [timer](Isa::arm) to arm.

use crate::controller::{Controller, Operation, Operations};
use crate::wave::{EntryPacket, Ready, Wave, WaveTables};
use crate::write_back::WriteBacks;
use crate::{ConfigError, Instruction, InstructionError, IsaConfig, Mutation};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::WordId;
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::flit::{Channel, Class, FlitHeader, MAX_TAG, NodeId, Transaction};

/// What has become of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IsaEvent {
    /// Its participants are all there; reads go out now.
    Started {
        /// Whose.
        controller: u16,
        /// Which.
        instruction: u16,
    },
    /// All its results are written: every write response has come.
    Written {
        /// Whose.
        controller: u16,
        /// Which.
        instruction: u16,
    },
    /// A wave of it has taken an entry of the wave tables: its operands are asked for.
    WaveTaken {
        /// Which of the entries.
        entry: u16,
        /// Whose wave it is.
        controller: u16,
        /// Which.
        instruction: u16,
        /// Where in the vector the wave begins.
        offset: u32,
        /// Bytes of it.
        length: u32,
    },
    /// A wave has been read out, and its entry is idle.
    WaveReleased {
        /// Which of the entries.
        entry: u16,
    },
}

/// Why an instruction is not loaded; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such controller.
    #[error("expected a controller below {controllers}, found {found}")]
    Controller {
        /// Controllers.
        controllers: usize,
        /// As given.
        found: u16,
    },
    /// It cannot be run.
    #[error(transparent)]
    Instruction(#[from] InstructionError),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IsaDrop {
    /// Not from the accelerator at that port.
    Source,
    /// A response that nobody waits for, or with a payload that does not fit.
    UnexpectedResponse,
    /// No transaction that it serves, or a word that is no counter.
    UnexpectedTransaction,
}

/// Packets of a wave that go to or come from one accelerator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Burst {
    /// Of the next packet.
    tag: u32,
    /// Of the next packet.
    address: u64,
    /// Bytes left.
    remaining: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum WriteJob {
    Data { place: u16, scales: bool, offset: u32, burst: Burst },
    Flag { word: WordId, value: u64 },
}

/// The transmit queues of one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Queues {
    reads: VecDeque<Burst>,
    writes: VecDeque<WriteJob>,
}

/// A result in the accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Computing {
    done_at: Instant,
    place: u16,
}

/// The accelerator in a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Isa<P> {
    config: IsaConfig,
    /// What the configuration says, once and for all: every packet asks.
    offset_bits: u32,
    wave_packets: usize,
    controllers: Vec<Controller>,
    operations: Operations,
    tables: WaveTables<P>,
    /// What is ready and waits for a place among the results.
    ready: VecDeque<Ready>,
    /// In the order in which they come out.
    accumulator: VecDeque<Computing>,
    /// When its first stage has taken in all of the last result's operands.
    taken_in_at: Instant,
    results: WriteBacks<P>,
    ports: Vec<Queues>,
    /// Something has been put into these since it was asked last.
    has_queued: bool,
    /// The controller that takes the next idle entry.
    turn: usize,
    armed: Option<Instant>,
    events: VecDeque<IsaEvent>,
}

const READS: Channel = Channel::new(Class::Read, true);
const WRITES: Channel = Channel::new(Class::Write, true);

impl<P: Payload> Isa<P> {
    /// An in-switch accelerator without instructions.
    pub fn new(config: IsaConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let results = ((MAX_TAG as usize + 1) >> config.offset_bits()).min(usize::from(u16::MAX));
        Ok(Self {
            controllers: vec![Controller::default(); config.flags.len()],
            operations: Operations::default(),
            tables: WaveTables::new(&config),
            ready: VecDeque::new(),
            accumulator: VecDeque::new(),
            taken_in_at: Instant::ZERO,
            results: WriteBacks::new(results),
            ports: vec![Queues::default(); usize::from(config.accelerators)],
            has_queued: false,
            turn: 0,
            armed: None,
            events: VecDeque::new(),
            offset_bits: config.offset_bits(),
            wave_packets: config.packets(),
            config,
        })
    }

    /// Queues instructions for a controller, all or none.
    pub fn load(&mut self, controller: u16, instructions: Vec<Instruction>) -> Result<(), LoadError> {
        let controllers = self.controllers.len();
        let Some(queue) = self.controllers.get_mut(usize::from(controller)).map(|found| &mut found.queue)
        else {
            return Err(LoadError::Controller { controllers, found: controller });
        };
        check_all(&instructions, &self.config)?;
        queue.extend(instructions);
        self.schedule();
        Ok(())
    }

    /// Takes a packet of the in-switch accelerator's channels.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        port: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<(), IsaDrop> {
        if header.source != NodeId(port.0) || header.destination != self.config.node {
            return Err(IsaDrop::Source);
        }
        match header.transaction {
            Transaction::ReadResponse => self.take_operand(now, port, header.tag, payload),
            Transaction::WriteResponse => self.take_answer(now, header.tag),
            Transaction::Add { operand } => self.count(header.address, operand),
            _ => Err(IsaDrop::UnexpectedTransaction),
        }
    }

    /// The timer has fired: what it was armed for has passed the accumulator, whatever a driver without a clock calls now.
    pub fn handle_timer(&mut self, now: Instant) {
        let due = self.armed.take().map_or(now, |armed| armed.max(now));
        self.advance(due);
    }

    /// Lets what has passed the accumulator by now take its place among the writes.
    pub fn advance(&mut self, now: Instant) {
        while self.accumulator.front().is_some_and(|first| first.done_at <= now) {
            let first = self.accumulator.pop_front().expect("there is a first");
            self.write_back(first.place);
        }
    }

    /// How long until the next result; `None` if there is none or the timer is armed already. To be asked after every
    /// call.
    pub fn arm(&mut self, now: Instant) -> Option<Duration> {
        let done_at = self.accumulator.front()?.done_at;
        if self.armed.is_some_and(|armed| armed > now && armed <= done_at) {
            return None;
        }
        self.armed = Some(done_at);
        Some(done_at.since(now))
    }

    /// What has become of instructions, in order.
    pub fn next_event(&mut self) -> Option<IsaEvent> {
        self.events.pop_front()
    }

    /// Whether there is a packet to send by `port`, of the channel of reads and of that of writes.
    pub fn ready(&self, port: PortId) -> [(Channel, bool); 2] {
        let queues = &self.ports[usize::from(port.0)];
        [(READS, !queues.reads.is_empty()), (WRITES, !queues.writes.is_empty())]
    }

    /// Whether packets have been queued for any port since the last call of this.
    pub fn has_queued(&mut self) -> bool {
        core::mem::take(&mut self.has_queued)
    }

    /// Bytes of the wave tables of all accelerators: data, and scale factors if there is a quantizer.
    pub fn buffer_bytes(&self) -> usize {
        let IsaConfig { accelerators, waves, wave, .. } = self.config;
        usize::from(accelerators) * usize::from(waves) * (wave + self.config.scale_bytes(wave))
    }

    /// The next packet of a channel.
    ///
    /// # Panics
    /// If there is none.
    pub fn next_packet(&mut self, port: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        let (node, to, limit) = (self.config.node, NodeId(port.0), self.config.format.max_payload as u32);
        let header = |address, tag, transaction| FlitHeader::new(node, to, true, address, tag, transaction);
        let queues = &mut self.ports[usize::from(port.0)];
        if channel == READS {
            let burst = queues.reads.front_mut().expect("a read to send");
            let Burst { tag, address, .. } = *burst;
            let piece = burst.advance(limit);
            if burst.remaining == 0 {
                queues.reads.pop_front();
            }
            return (header(address, tag, Transaction::Read { length: piece as u16 }), P::empty());
        }
        match queues.writes.front_mut().expect("a write to send") {
            &mut WriteJob::Flag { word, value } => {
                queues.writes.pop_front();
                let address = quincunx_wire::flit::word_address(word.0);
                (header(address, 0, Transaction::Store { operand: value }), P::empty())
            }
            WriteJob::Data { place, scales, offset, burst } => {
                let Burst { tag, address, .. } = *burst;
                let (place, scales, start) = (*place, *scales, *offset as usize);
                let piece = burst.advance(limit);
                *offset += piece;
                if burst.remaining == 0 {
                    queues.writes.pop_front();
                }
                let sum = self.results.get(place);
                let part = if scales { &sum.scales } else { &sum.data };
                let bytes = part.view(start..start + piece as usize);
                (header(address, tag, Transaction::Write), bytes)
            }
        }
    }

    fn take_operand(
        &mut self,
        now: Instant,
        port: PortId,
        tag: u32,
        data: P::View<'_>,
    ) -> Result<(), IsaDrop> {
        let (entry, index) = self.split(tag);
        let wave = self.tables.wave(entry).ok_or(IsaDrop::UnexpectedResponse)?;
        // Scale factors have the places behind those of a full wave's data.
        let payload = self.config.format.max_payload;
        let (scales, index, whole) = match index.checked_sub(self.wave_packets) {
            Some(index) => (true, index, wave.scales),
            None => (false, index, wave.length),
        };
        let offset = index * payload;
        let left = (whole as usize).checked_sub(offset).ok_or(IsaDrop::UnexpectedResponse)?;
        let length = P::view_length(P::reborrow(data));
        if length == 0 || length != left.min(payload) {
            return Err(IsaDrop::UnexpectedResponse);
        }
        let stored = self.tables.store(entry, port.0, EntryPacket { scales, index }, data);
        if let Some(ready) = stored.map_err(|()| IsaDrop::UnexpectedResponse)? {
            self.ready.push_back(ready);
            self.read_out(now);
        }
        Ok(())
    }

    /// Sends what is ready through the accumulator, and makes new waves of the entries that this releases.
    fn read_out(&mut self, now: Instant) {
        while self.results.has_room()
            && let Some(ready) = self.ready.pop_front()
        {
            let (sum, released) = self.tables.read_out(ready, self.config.reduction);
            self.events.extend(released.map(|entry| IsaEvent::WaveReleased { entry }));
            let payload = self.config.format.max_payload;
            let packets = sum.wave.packets(payload) + sum.wave.scale_packets(payload);
            let operation = self.operations.get(sum.wave.operation);
            let answers = operation.instruction.destinations.count() * packets;
            let done_at = match sum.wave {
                wave @ Wave { scales: 1.., .. } => self.take_in(now, wave) + self.config.latency.quantized,
                // Operations without computation bypass the accumulator (SCIN 3.4).
                wave if wave.sources.count() == 1 => now,
                wave => self.take_in(now, wave) + self.config.latency.regular,
            };
            let place = self.results.put(sum, answers);
            let last = self.accumulator.back().map_or(Instant::ZERO, |last| last.done_at);
            self.accumulator.push_back(Computing { done_at: last.max(done_at), place });
        }
        self.advance(now);
        self.schedule();
    }

    /// When the compute units begin with a wave: they take in one behind the other. Its first flit leaves as it comes out.
    fn take_in(&mut self, now: Instant, wave: Wave) -> Instant {
        let Some(rate) = self.config.compute_rate else { return now };
        let begins = self.taken_in_at.max(now);
        self.taken_in_at = begins + rate.time_for(ByteCount::new(u64::from(wave.length)));
        begins
    }

    fn write_back(&mut self, place: u16) {
        let Wave { operation, offset, length, scales, .. } = self.results.get(place).wave;
        let Operation { instruction, scales: scale_addresses, .. } = self.operations.get(operation);
        let tag = u32::from(place) << self.offset_bits;
        self.has_queued = true;
        for destination in instruction.destinations.iter() {
            let mut address = instruction.addresses.at(destination) + u64::from(offset);
            if self.config.mutation == Some(Mutation::NextAddress) {
                address += u64::from(length);
            }
            let burst = Burst { tag, address, remaining: length };
            let writes = &mut self.ports[usize::from(destination)].writes;
            writes.push_back(WriteJob::Data { place, scales: false, offset: 0, burst });
            // The scale factors follow their data (SCIN 3.4).
            if let Some(addresses) = scale_addresses {
                let from = self.config.scales_from(offset, Mutation::ScalesToFirst);
                let address = addresses.at(destination) + from;
                let burst = Burst { tag, address, remaining: scales };
                writes.push_back(WriteJob::Data { place, scales: true, offset: 0, burst });
            }
        }
    }

    fn take_answer(&mut self, now: Instant, tag: u32) -> Result<(), IsaDrop> {
        let (place, _) = self.split(tag);
        let wave = self.results.answer(place).map_err(|()| IsaDrop::UnexpectedResponse)?;
        if let Some(wave) = wave {
            self.operations.get_mut(wave.operation).open -= wave.length;
            self.close(wave.operation);
            self.read_out(now);
        }
        Ok(())
    }

    /// The barrier manager: counts an accelerator that has arrived (SCIN 3.3).
    fn count(&mut self, address: u64, operand: u64) -> Result<(), IsaDrop> {
        let word = quincunx_wire::flit::word_at(address).ok_or(IsaDrop::UnexpectedTransaction)?;
        let controller = self.controllers.get_mut(usize::from(word)).ok_or(IsaDrop::UnexpectedTransaction)?;
        controller.counter = controller.counter.saturating_add(operand);
        self.schedule();
        Ok(())
    }

    /// Begins what may begin, and makes waves for as long as there are idle entries; controllers take them in turn.
    fn schedule(&mut self) {
        let mut resting = 0;
        while resting < self.controllers.len() {
            let controller = self.turn;
            self.turn = (self.turn + 1) % self.controllers.len();
            resting = if self.step(controller) { 0 } else { resting + 1 };
        }
    }

    /// Does the next thing that a controller can do; whether there was one.
    fn step(&mut self, number: usize) -> bool {
        let controller = &mut self.controllers[number];
        let spared = u32::from(self.config.mutation == Some(Mutation::BarrierShort));
        if let Some(instruction) = controller.next_instruction(spared) {
            if instruction.notify {
                controller.notify = Some(instruction.participants());
            }
            let (number, id) = (number as u16, instruction.id);
            self.events.push_back(IsaEvent::Started { controller: number, instruction: id });
            // The instruction behind a quantised one says where its scale factors lie (SCIN 3.4).
            let scales = match instruction.quantize {
                true => controller.queue.pop_front().map(|scales| scales.addresses),
                false => None,
            };
            let operation = Operation { controller: number, instruction, scales, issued: 0, open: 0 };
            controller.open += 1;
            controller.current = Some(self.operations.put(operation));
            return true;
        }
        let Some(current) = controller.current else { return false };
        if self.operations.get(current).fully_issued() {
            controller.current = None;
            self.close(current);
            return true;
        }
        if !self.tables.has_idle() {
            return false;
        }
        self.issue(current);
        true
    }

    /// Makes the next wave of an operation, and asks its sources for their operands.
    fn issue(&mut self, number: u16) {
        let operation = self.operations.get_mut(number);
        let offset = operation.issued;
        let length = (operation.instruction.length - offset).min(self.config.wave as u32);
        operation.issued += length;
        let scales =
            if operation.scales.is_some() { self.config.scale_bytes(length as usize) as u32 } else { 0 };
        let sources = operation.instruction.sources;
        let wave = Wave { operation: number, offset, length, scales, sources };
        operation.open += length;
        let entry = self.tables.take(wave);
        let (controller, instruction) = (operation.controller, operation.instruction.id);
        self.events.push_back(IsaEvent::WaveTaken { entry, controller, instruction, offset, length });
        let tag = u32::from(entry) << self.offset_bits;
        self.has_queued = true;
        for source in sources.iter() {
            if let Some(addresses) = &operation.scales {
                // Scale factors first, then the data (SCIN 3.4).
                let address = addresses.at(source) + self.config.scales_from(offset, Mutation::FirstScales);
                let tag = tag + self.wave_packets as u32;
                self.ports[usize::from(source)].reads.push_back(Burst { tag, address, remaining: scales });
            }
            let address = operation.instruction.addresses.at(source) + u64::from(offset);
            self.ports[usize::from(source)].reads.push_back(Burst { tag, address, remaining: length });
        }
    }

    /// Ends an operation if it is over, and with the last of a collective tells the participants.
    fn close(&mut self, number: u16) {
        let operation = self.operations.get(number);
        let controller = &mut self.controllers[usize::from(operation.controller)];
        if !operation.is_over() || controller.current == Some(number) {
            return;
        }
        let Operation { controller: at, instruction, .. } = self.operations.take(number);
        self.events.push_back(IsaEvent::Written { controller: at, instruction: instruction.id });
        controller.open -= 1;
        if controller.open > 0 {
            return;
        }
        let Some(participants) = controller.notify.take() else { return };
        controller.notified += 1;
        let (word, value) = (self.config.flags[usize::from(at)], controller.notified);
        self.has_queued = true;
        for participant in participants.iter() {
            self.ports[usize::from(participant)].writes.push_back(WriteJob::Flag { word, value });
        }
    }

    /// The entry and the packet that a tag names.
    const fn split(&self, tag: u32) -> (usize, usize) {
        let bits = self.offset_bits;
        ((tag >> bits) as usize, (tag & ((1 << bits) - 1)) as usize)
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        self.tables.assert_invariants();
        self.results.assert_invariants();
        for (controller, number) in self.controllers.iter().zip(0..) {
            let open = self.operations.iter().filter(|operation| operation.controller == number).count();
            assert_eq!(open as u32, controller.open, "operations that are not over");
            assert!(controller.notify.is_none() || controller.open > 0, "notifies at the end of something");
        }
        let times = self.accumulator.iter().map(|computing| computing.done_at);
        assert!(times.is_sorted(), "results come out of the accumulator in order");
        assert!(self.ready.is_empty() || !self.results.has_room(), "waves wait for a place alone");
    }
}

/// Whether instructions can be run one after the other.
fn check_all(instructions: &[Instruction], config: &IsaConfig) -> Result<(), InstructionError> {
    let mut rest = instructions.iter();
    while let Some(instruction) = rest.next() {
        if !instruction.quantize {
            instruction.check(config.accelerators, config.reduction.data_type.size())?;
            continue;
        }
        instruction.check(config.accelerators, 1)?;
        if config.quantization.is_none() {
            return Err(InstructionError::NoQuantizer);
        }
        let expected = config.scale_bytes(instruction.length as usize);
        let fits = |scales: &&Instruction| {
            scales.length as usize == expected
                && (scales.sources, scales.destinations) == (instruction.sources, instruction.destinations)
                && !(scales.quantize || scales.wait || scales.notify)
        };
        let scales = rest.next().filter(fits).ok_or(InstructionError::Scales { expected })?;
        scales.check(config.accelerators, 1)?;
    }
    Ok(())
}

impl Burst {
    /// Cuts off a packet of at most `limit` bytes; returns its length.
    fn advance(&mut self, limit: u32) -> u32 {
        let piece = self.remaining.min(limit);
        self.tag += 1;
        self.address += u64::from(piece);
        self.remaining -= piece;
        piece
    }
}
