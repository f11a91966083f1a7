//! The accelerator as an engine: packets, timers and the beginning in; packets, timers and what has ended out.

mod ending;
mod fetching;
mod groups;
mod watching;

pub use watching::KernelProgress;

use crate::blocks::{BlockNumber, Blocks, Phase};
use crate::cache::Cache;
use crate::sending::{Job, Sending, Transfer};
use crate::sms::Sms;
use crate::{
    CounterId, Fetch, GpuConfig, Granularity, KernelPlace, Merges, Output, Requests, SECTOR, Send, Tile,
    TileId, To,
};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::link_of;
use quincunx_memory::Port;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::{FlitHeader, NodeId, Transaction, word_address, word_at};

/// What is waited for: the points at which a group's blocks wait for each other, the tags of their syncs and releases; then the tags of releases
/// for an address; the last a block waits for by itself.
const BEFORE_LAUNCH: u32 = 0;
const BEFORE_ACCESS: u32 = 1;
const LOADED: u32 = 2;
const ADDED: u32 = 3;
const IN_ORDER: u32 = 4;

/// An accelerator's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuTimer {
    /// Responses are ready for a link.
    Respond(PortId),
    /// A kernel is launched.
    Launch(u16),
    /// An SM has computed a stage.
    Compute(u16),
    /// Somebody may have waited long enough for its group.
    Sync,
}

/// What an accelerator tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GpuEvent {
    /// A kernel's first block may be dispatched.
    Launched {
        /// Which.
        kernel: u16,
    },
    /// All of a kernel's blocks have ended.
    Ended {
        /// Which.
        kernel: u16,
    },
    /// Everything has ended.
    Finished,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GpuDrop {
    /// Not for this accelerator.
    NoRoute,
    /// Bytes or words that it does not have, or more than a packet may have.
    NoSuchAddress,
    /// A response to nothing.
    UnexpectedResponse,
    /// A transaction that it does not serve.
    UnexpectedTransaction,
    /// The peer of the link has broken its rules.
    Port,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum TileState {
    Absent,
    /// Bytes are missing; blocks wait with a stage.
    Pending {
        missing: u32,
        waiters: Vec<(BlockNumber, u16)>,
    },
    Present,
    /// It was there.
    Evicted,
}

/// Tiles that follow each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Series {
    /// Those that are asked for as soon as the others have caught up.
    held: VecDeque<TileId>,
    /// Bytes of those of which the switch has not said that all others have asked for them.
    ahead: u64,
}

/// Sums that blocks add at one accelerator, where who is ahead waits for the others. All accelerators send them in the same order, or two could
/// wait for each other: each for a block that the other may not send yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Home {
    /// Blocks that have not sent, in the program's order.
    order: VecDeque<BlockNumber>,
    /// Those of them whose group is there.
    held: BTreeSet<BlockNumber>,
    /// Bytes of those of which the switch has not said that all others have added theirs.
    ahead: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pending {
    ready_at: Instant,
    response: Job,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GpuLink {
    port: Port,
    sending: Sending,
    pending: VecDeque<Pending>,
    armed: Option<Instant>,
}

/// Where an accelerator's answers go.
pub trait GpuSink<P: Payload> {
    /// Sends a packet.
    fn transmit(&mut self, port: PortId, header: &FlitHeader, payload: P::View<'_>);
    /// Arms a timer.
    fn set_timer(&mut self, timer: GpuTimer, after: Duration);
    /// Tells something.
    fn emit(&mut self, event: GpuEvent);
}

/// An accelerator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gpu<P> {
    config: GpuConfig,
    memory: P,
    links: Vec<GpuLink>,
    blocks: Blocks,
    tiles: Vec<TileState>,
    cache: Cache,
    sms: Sms,
    /// How long SMs have computed, together, by kernel.
    busy: Vec<Duration>,
    /// Who waits for what, and until when: blocks for their group or their turn, addresses for the others.
    syncs: VecDeque<(Instant, u64, u32)>,
    sync_armed: bool,
    /// By rank.
    homes: Vec<Home>,
    /// By number.
    series: Vec<Series>,
    /// The last address of tiles and of blocks' sums to which not all others have come, what is waited for, and the tile's or block's number.
    ahead: BTreeSet<(u64, u32, u32)>,
    sequence: u64,
    launching: Vec<u16>,
    is_over: bool,
}

impl<P: Payload> Gpu<P> {
    /// An accelerator that has not begun.
    pub fn new(config: GpuConfig) -> Self {
        let link = GpuLink {
            port: Port::new(config.port),
            sending: Sending::default(),
            pending: VecDeque::new(),
            armed: None,
        };
        let series = config.program.tiles.iter().filter_map(|tile| tile.series);
        let series = series.map(|series| series as usize + 1).max().unwrap_or(0);
        let mut homes = vec![Home::default(); usize::from(config.ranks)];
        if config.program.coordination.throttle {
            let kernels = config.program.kernels.iter();
            let blocks = kernels.flat_map(|kernel| kernel.blocks.iter().map(move |block| (kernel, block)));
            for ((kernel, block), number) in blocks.zip(0..) {
                if let Some(home) = kernel.home_of(block).and_then(|home| homes.get_mut(usize::from(home))) {
                    home.order.push_back(number);
                }
            }
        }
        Self {
            memory: P::zeroed(config.program.memory),
            links: vec![link; config.switches.len()],
            blocks: Blocks::new(&config.program),
            tiles: vec![TileState::Absent; config.program.tiles.len()],
            cache: Cache::new(config.l2),
            sms: Sms::new(config.sms, config.blocks_per_sm),
            busy: vec![Duration::ZERO; config.program.kernels.len()],
            syncs: VecDeque::new(),
            sync_armed: false,
            homes,
            series: vec![Series::default(); series],
            ahead: BTreeSet::new(),
            sequence: 0,
            launching: Vec::new(),
            is_over: false,
            config,
        }
    }

    /// Its memory.
    pub const fn memory(&self) -> &P {
        &self.memory
    }

    /// The same, to be filled before it begins.
    pub const fn memory_mut(&mut self) -> &mut P {
        &mut self.memory
    }

    /// Begins the program.
    pub fn start(&mut self, now: Instant, out: &mut impl GpuSink<P>) {
        self.launching = self.blocks.unconditional();
        self.settle(now, out);
    }

    /// Takes a packet that came by `link`.
    ///
    /// # Errors
    /// Why it is dropped: a peer's fault.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        link: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
        out: &mut impl GpuSink<P>,
    ) -> Result<(), GpuDrop> {
        let index = usize::from(link.0);
        let channel = self.links[index].port.accept(header).map_err(|_| GpuDrop::Port)?;
        let Some(channel) = channel else { return Ok(()) };
        // Memory takes whatever comes at once.
        self.links[index].port.release(channel);
        let done = self.take(now, link, header, payload, out);
        self.arm(now, link, out);
        done
    }

    fn take(
        &mut self,
        now: Instant,
        link: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
        out: &mut impl GpuSink<P>,
    ) -> Result<(), GpuDrop> {
        if header.destination != self.node() {
            return Err(GpuDrop::NoRoute);
        }
        let length = P::view_length(P::reborrow(payload));
        match header.transaction {
            Transaction::Read { length } => {
                let local = self.local(header.address, usize::from(length))?;
                self.respond(now, link, header, Transaction::ReadResponse, local, u32::from(length));
                return Ok(());
            }
            Transaction::Write => {
                let local = self.local(header.address, length)?;
                self.memory.write(local, payload);
                self.respond(now, link, header, Transaction::WriteResponse, 0, 0);
                self.count(header.address, length as u64);
            }
            Transaction::Reduce => {
                let local = self.local(header.address, length)?;
                if !length.is_multiple_of(self.config.reduction.data_type.size()) {
                    return Err(GpuDrop::NoSuchAddress);
                }
                self.memory.reduce(local, payload, self.config.reduction);
                self.count(header.address, length as u64 * u64::from(header.tag));
            }
            Transaction::ReadResponse => {
                self.fetched(now, link, header, payload, out)?;
                return Ok(());
            }
            // Nothing waits for what it has written.
            Transaction::WriteResponse => return Ok(()),
            Transaction::Add { operand } | Transaction::Store { operand } => {
                let counter = word_at(header.address).filter(|&word| self.blocks.has_counter(word));
                let counter = CounterId(counter.ok_or(GpuDrop::NoSuchAddress)?);
                match header.transaction {
                    Transaction::Add { .. } => self.blocks.add(counter, operand, &mut self.launching),
                    _ => self.blocks.store(counter, operand, &mut self.launching),
                }
            }
            Transaction::Release => {
                if matches!(header.tag, LOADED | ADDED) {
                    self.caught_up(now, header.address, header.tag, out);
                } else {
                    let block = self.blocks.of_group(header.address).ok_or(GpuDrop::NoSuchAddress)?;
                    self.go_on(now, block, header.tag, out);
                }
            }
            _ => return Err(GpuDrop::UnexpectedTransaction),
        }
        self.settle(now, out);
        Ok(())
    }

    /// Takes the expiry of a timer.
    pub fn handle_timer(&mut self, now: Instant, timer: GpuTimer, out: &mut impl GpuSink<P>) {
        match timer {
            GpuTimer::Respond(link) => {
                let due = self.links[usize::from(link.0)].armed.take().map_or(now, |armed| armed.max(now));
                self.advance(due, link);
                self.arm(now, link, out);
                return;
            }
            GpuTimer::Launch(kernel) => {
                let blocks = self.config.program.kernels[usize::from(kernel)].blocks.len();
                self.blocks.launch(kernel, blocks);
                self.sms.reserve(self.blocks.whole_sms(&self.config.program));
                out.emit(GpuEvent::Launched { kernel });
                if blocks == 0 {
                    self.end_kernel(usize::from(kernel), out);
                }
            }
            GpuTimer::Compute(sm) => {
                if let Some((block, length, next)) = self.sms.computed(sm) {
                    self.busy[usize::from(self.blocks.blocks[block as usize].kernel)] += length;
                    if let Some(length) = next {
                        out.set_timer(GpuTimer::Compute(sm), length);
                    }
                    self.computed(now, block, out);
                }
            }
            GpuTimer::Sync => {
                self.sync_armed = false;
                while let Some(&(until, who, point)) = self.syncs.front() {
                    if until > now {
                        break;
                    }
                    self.syncs.pop_front();
                    match point {
                        LOADED | ADDED => self.caught_up(now, who, point, out),
                        _ => self.go_on(now, who as BlockNumber, point, out),
                    }
                }
                self.arm_sync(now, out);
            }
        }
        self.settle(now, out);
    }

    /// Whether a transmit slot of `link` would be used.
    pub fn wants_transmit(&self, link: PortId) -> bool {
        let GpuLink { port, sending, .. } = &self.links[usize::from(link.0)];
        port.wants_transmit(sending.ready(self.config.load_window, self.config.shared_requests))
    }

    /// Sends at most one packet.
    pub fn handle_transmit_slot(&mut self, now: Instant, link: PortId, out: &mut impl GpuSink<P>) {
        self.advance(now, link);
        let window = self.config.load_window;
        let GpuLink { port, sending, .. } = &mut self.links[usize::from(link.0)];
        let ready = sending.ready(window, self.config.shared_requests);
        let Some(channel) = port.arbitrate(ready) else {
            let mut header = FlitHeader::new(NodeId(0), NodeId(0), false, 0, 0, Transaction::Credit);
            port.seal(&mut header, 0);
            if header.credit.packets > 0 {
                out.transmit(link, &header, P::empty());
            }
            return;
        };
        let mut cut = sending.cut(channel);
        port.seal(&mut cut.header, cut.carried.len());
        out.transmit(link, &cut.header, self.memory.view(cut.carried));
        if let Some(owner) = cut.owner {
            let block = &mut self.blocks.blocks[owner as usize];
            block.unsent -= 1;
            if block.unsent == 0 {
                self.end_block(owner, out);
                self.settle(now, out);
            }
        }
        self.arm(now, link, out);
    }

    fn node(&self) -> NodeId {
        NodeId(self.config.rank)
    }

    fn local(&self, address: u64, length: usize) -> Result<usize, GpuDrop> {
        let local = usize::try_from(address).map_err(|_| GpuDrop::NoSuchAddress)?;
        let inside = local.checked_add(length).is_some_and(|end| end <= self.memory.length());
        let is_packet = length <= self.config.format.max_payload && length > 0;
        if inside && is_packet { Ok(local) } else { Err(GpuDrop::NoSuchAddress) }
    }

    /// Counts bytes that have arrived.
    fn count(&mut self, address: u64, bytes: u64) {
        let regions = &self.config.program.regions;
        let after = regions.partition_point(|region| region.address <= address);
        let Some(region) = after.checked_sub(1).map(|at| regions[at]) else { return };
        let offset = address - region.address;
        if offset < region.length {
            let counter = CounterId(region.counter.0 + (offset / region.part) as u16);
            self.blocks.add(counter, bytes, &mut self.launching);
        }
    }

    fn respond(
        &mut self,
        now: Instant,
        link: PortId,
        request: &FlitHeader,
        transaction: Transaction,
        local: usize,
        length: u32,
    ) {
        let transfer = (length > 0).then(|| Transfer::single(request.address, local, length));
        let job = Job { header: request.response(transaction), transfer, owner: None, sequence: 0 };
        let ready_at = now + self.config.response_latency;
        self.links[usize::from(link.0)].pending.push_back(Pending { ready_at, response: job });
    }

    fn advance(&mut self, now: Instant, link: PortId) {
        let link = &mut self.links[usize::from(link.0)];
        while link.pending.front().is_some_and(|first| first.ready_at <= now) {
            let first = link.pending.pop_front().expect("there is a first");
            link.sending.push(first.response);
        }
    }

    fn arm(&mut self, now: Instant, link: PortId, out: &mut impl GpuSink<P>) {
        let wants = self.wants_transmit(link);
        let state = &mut self.links[usize::from(link.0)];
        let Some(first) = state.pending.front() else { return };
        if wants || state.armed.is_some_and(|armed| armed > now && armed <= first.ready_at) {
            return;
        }
        state.armed = Some(first.ready_at);
        out.set_timer(GpuTimer::Respond(link), first.ready_at.since(now));
    }

    /// Launches and dispatches what may be. Blocks without anything to compute end at once, and others may then go.
    fn settle(&mut self, now: Instant, out: &mut impl GpuSink<P>) {
        loop {
            let launching = core::mem::take(&mut self.launching);
            for &kernel in &launching {
                let after = self.config.program.kernels[usize::from(kernel)].launch;
                out.set_timer(GpuTimer::Launch(kernel), after);
            }
            let claimed = self.claim(now, out);
            let dispatched = self.dispatch(now, out);
            if launching.is_empty() && !claimed && !dispatched {
                break;
            }
        }
        if !self.is_over && self.blocks.is_over(&self.config.program) {
            self.is_over = true;
            out.emit(GpuEvent::Finished);
        }
    }

    /// Lets ready blocks claim places, as many as there are and some ahead; of those in a group the group is asked first. Whether there was one.
    fn claim(&mut self, now: Instant, out: &mut impl GpuSink<P>) -> bool {
        let program = self.config.program.clone();
        let most = self.sms.capacity() + usize::from(self.config.claims_ahead);
        let mut any = false;
        while let Some(block) = self.blocks.claim(&program, most) {
            any = true;
            match self.group(block).filter(|_| program.coordination.pre_launch) {
                None => self.blocks.release(&program, block),
                Some(group) => {
                    self.blocks.blocks[block as usize].phase = Phase::Registered;
                    self.sync(now, block, group, BEFORE_LAUNCH, out);
                }
            }
        }
        any
    }

    /// Puts a packet without data into a link's queue.
    fn push(&mut self, link: u64, header: FlitHeader) {
        self.sequence += 1;
        let sequence = self.sequence;
        let job = Job { header, transfer: None, owner: None, sequence };
        self.links[link as usize].sending.push(job);
    }

    /// Gives places to blocks that may be dispatched; whether there was one.
    fn dispatch(&mut self, now: Instant, out: &mut impl GpuSink<P>) -> bool {
        let program = self.config.program.clone();
        let mut any = false;
        for (kernel, place) in program.kernels.iter().map(|kernel| kernel.place).enumerate() {
            let (most, whole) = match place {
                KernelPlace::Sm => continue,
                KernelPlace::WholeSm(most) => (most, true),
                KernelPlace::CopyEngine(most) => (most, false),
            };
            while self.blocks.kernels[kernel].resident < most && self.blocks.has_released_of(kernel) {
                let sm = if whole { self.sms.take_whole() } else { None };
                if whole && sm.is_none() {
                    break;
                }
                any = true;
                let block = self.blocks.next_of(kernel).expect("it has one");
                self.enter(now, block, sm, out);
            }
        }
        let mut refused = None;
        while let Some((turn, kernel)) = self.blocks.next_for_place(&program, refused) {
            let share = self.blocks.share(&program, kernel);
            match self.sms.take(share) {
                Some(sm) => {
                    any = true;
                    let block = self.blocks.next_of(kernel).expect("it has one");
                    self.enter(now, block, Some(sm), out);
                }
                // Whoever may go anywhere has looked at all.
                None if share.is_none() => break,
                None => refused = Some(turn),
            }
        }
        any
    }

    /// A block has its place. If it loads what the switch may merge, it waits for its group.
    fn enter(&mut self, now: Instant, block: BlockNumber, sm: Option<u16>, out: &mut impl GpuSink<P>) {
        let program = self.config.program.clone();
        let (kernel, _) = self.blocks.place(block);
        self.blocks.kernels[kernel].resident += 1;
        self.blocks.blocks[block as usize].sm = sm;
        let waits = program.coordination.pre_access && program.kernels[kernel].merges == Merges::Loads;
        match self.group(block).filter(|_| waits) {
            Some(group) => {
                self.blocks.blocks[block as usize].phase = Phase::Entering;
                self.sync(now, block, group, BEFORE_ACCESS, out);
            }
            None => self.run(now, block, out),
        }
    }

    /// A block begins to load and to compute.
    fn run(&mut self, now: Instant, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let (kernel, place) = self.blocks.place(block);
        let stages = self.config.program.kernels[kernel].blocks[place].stages.len();
        let state = &mut self.blocks.blocks[block as usize];
        state.phase = Phase::Running;
        state.missing = vec![0; stages];
        self.ask(now, block, out);
        self.try_compute(now, block, out);
    }

    /// Computes the next stages of a block whose tiles are there.
    fn try_compute(&mut self, now: Instant, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let (kernel, place) = self.blocks.place(block);
        loop {
            let state = &self.blocks.blocks[block as usize];
            if state.phase != Phase::Running || state.computing {
                return;
            }
            let stage = usize::from(state.stage);
            let stages = &self.config.program.kernels[kernel].blocks[place].stages;
            let Some(next) = stages.get(stage) else { return self.leave(now, block, out) };
            if state.missing[stage] > 0 {
                return;
            }
            let length = next.compute;
            match state.sm {
                Some(sm) if length > Duration::ZERO => {
                    self.blocks.blocks[block as usize].computing = true;
                    if let Some(length) = self.sms.compute(sm, block, length) {
                        out.set_timer(GpuTimer::Compute(sm), length);
                    }
                    return;
                }
                _ => {
                    self.blocks.blocks[block as usize].stage += 1;
                    self.ask(now, block, out);
                }
            }
        }
    }

    /// A stage is computed.
    fn computed(&mut self, now: Instant, block: BlockNumber, out: &mut impl GpuSink<P>) {
        let state = &mut self.blocks.blocks[block as usize];
        state.computing = false;
        state.stage += 1;
        self.ask(now, block, out);
        self.try_compute(now, block, out);
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        self.sms.assert_invariants();
        self.cache.assert_invariants();
        self.blocks.assert_invariants(&self.config.program);
        self.assert_ahead();
        for link in &self.links {
            link.port.assert_invariants();
            link.sending.assert_invariants();
            assert!(link.sending.loads <= self.config.load_window, "no more loads than the window");
            assert!(!self.is_over || link.sending.loads == 0, "nothing is fetched when all has ended");
        }
    }
}
