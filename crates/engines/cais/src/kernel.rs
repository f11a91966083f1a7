//! Collectives of loads and reductions that merge in the switches, on one accelerator.
//!
//! Each rank is the home of its part of the vector. ReduceScatter is `red.cais` to the home of each part, AllGather `ld.cais` from it, and
//! AllReduce one after the other, part by part. Requests go line by line, of all homes in turn, in the same order at all ranks, so that they
//! meet in the tables of the switches; or, if asked for, part by part, each rank beginning with the one after its own, so that they do not.
//!
//! How a rank knows what it must know: a word of each other rank says what that one has begun, another for which collectives its part is
//! ready. Nobody sends to a home that has not begun, for its memory may still be used; a home is ready when the contributions that have come
//! are those of all others, byte by byte; a collective with loads ends at a boundary in every switch, so that none begins anew while others
//! still load, and no switch keeps data of before.

use crate::groups::{BOUNDARY, PRE_ACCESS};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{
    InPlaceRequest, Kernel, KernelRefusal, MemoryEvent, SharedMemory, Span, WordId, link_of,
};

/// A rank among the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CaisConfig {
    /// Ranks, at most 64.
    pub ranks: u16,
    /// This one.
    pub rank: Rank,
    /// Bytes of a line: a packet's payload.
    pub line: usize,
    /// The first of two words of each rank: what it has begun; then, behind those of all, for what its part is ready.
    pub first_word: WordId,
    /// The number of the stream at the units of the switches.
    pub stream: u16,
    /// Lines that are asked for at once.
    pub window: usize,
    /// Whether a rank waits for all others at a switch before it sends to a home or loads from it (III-B2, pre-access).
    pub pre_access: bool,
    /// Whether all go through the vector in the same order.
    pub in_step: bool,
}

/// Why a collective is refused; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum CaisRejected {
    /// One at a time.
    #[error("expected an idle accelerator, found one that still runs a collective; wait for its end")]
    Busy,
    /// A collective that it does not do.
    #[error("expected all_reduce, reduce_scatter or all_gather by CAIS, found {0}")]
    Unsupported(Collective),
}

/// How far a rank is with a home's part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    /// The part is not ready, as far as the rank knows.
    Unready,
    /// The rank waits for all others to be about to load.
    Aligning,
    /// So many bytes of it have been asked for.
    Loading(usize),
}

/// A collective that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct KernelRun {
    request: InPlaceRequest,
    /// All others have begun, too.
    entered: bool,
    /// What belongs to other homes is on its way.
    sent: bool,
    /// Contributions that this rank's part still waits for, times their bytes.
    uncontributed: usize,
    /// Others know that the part is ready.
    announced: bool,
    /// The part of each rank.
    stages: Vec<Stage>,
    /// The home whose turn it is to be loaded from.
    turn: u16,
    /// Bytes that have not been loaded.
    unloaded: usize,
    /// Lines that have been asked for and have not come.
    in_flight: usize,
    /// Switches that have not said that all have come to the boundary; none if this rank has not come there.
    boundary: Option<u16>,
}

/// One rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CaisKernel {
    config: CaisConfig,
    /// Collectives begun: what words are set to.
    begun: u64,
    run: Option<KernelRun>,
}

impl From<CaisRejected> for KernelRefusal {
    fn from(rejected: CaisRejected) -> Self {
        Self::of(&rejected)
    }
}

impl CaisKernel {
    /// A rank that has not run yet.
    pub const fn new(config: CaisConfig) -> Self {
        Self { config, begun: 0, run: None }
    }

    /// The other ranks, in order; from the next one on if ranks are not in step.
    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let CaisConfig { rank, ranks, in_step, .. } = self.config;
        let first = if in_step { 0 } else { rank.0 };
        (0..ranks).map(move |step| Rank((first + step) % ranks)).filter(move |&other| other != rank)
    }

    /// A rank's part of the vector.
    fn part(&self, request: &InPlaceRequest, rank: Rank) -> Span {
        let ranks = usize::from(self.config.ranks);
        let granule = match request.collective {
            Collective::AllReduce => self.config.line,
            // A rank's part is its part, whatever lines are.
            _ => request.span.length.div_ceil(ranks).max(1),
        };
        request.span.part(rank.index(), ranks, granule)
    }

    const fn begun_word(&self, rank: Rank) -> WordId {
        WordId(self.config.first_word.0 + rank.0)
    }

    const fn ready_word(&self, rank: Rank) -> WordId {
        WordId(self.config.first_word.0 + self.config.ranks + rank.0)
    }

    /// The group of all who are about to load from a home; one more of those who are about to send.
    const fn group(&self, home: u16) -> u64 {
        let number = self.begun * (self.config.ranks as u64 + 1) + home as u64;
        (self.config.stream as u64) << 32 | number & 0xffff_ffff
    }

    /// Comes to the point before an access of a group.
    fn align<P: Payload>(&self, home: u16, memory: &mut dyn SharedMemory<P>) {
        let group = self.group(home);
        let link = PortId((group % u64::from(memory.links())) as u16);
        memory.synchronise(link, group, PRE_ACCESS);
    }

    /// Goes on as far as it can; whether the collective is over.
    fn proceed<P: Payload>(&mut self, memory: &mut dyn SharedMemory<P>) -> bool {
        let Some(mut run) = self.run.take() else { return false };
        let (me, collective) = (self.config.rank, run.request.collective);
        if !run.entered && self.others().all(|rank| memory.word(self.begun_word(rank)) >= self.begun) {
            run.entered = true;
            match collective {
                Collective::AllGather => {}
                _ if self.config.pre_access => self.align(self.config.ranks, memory),
                _ => self.send(&mut run, memory),
            }
        }
        if run.entered && run.uncontributed == 0 && !run.announced {
            run.announced = true;
            if collective != Collective::AllGather {
                for rank in self.others() {
                    memory.store(PortId(0), rank, self.ready_word(me), self.begun);
                }
            }
        }
        for rank in self.others() {
            let is_ready = match collective {
                Collective::AllGather => run.entered,
                _ => memory.word(self.ready_word(rank)) >= self.begun,
            };
            if is_ready && run.stages[rank.index()] == Stage::Unready {
                let aligns = self.config.pre_access && collective != Collective::ReduceScatter;
                run.stages[rank.index()] = if aligns { Stage::Aligning } else { Stage::Loading(0) };
                if aligns {
                    self.align(rank.0, memory);
                }
            }
        }
        // A home comes to the point before loads from it, too, though it has nothing to load.
        if run.announced && run.stages[me.index()] == Stage::Unready {
            run.stages[me.index()] = Stage::Loading(0);
            if self.config.pre_access && collective != Collective::ReduceScatter {
                self.align(me.0, memory);
            }
        }
        if collective != Collective::ReduceScatter {
            self.load(&mut run, memory);
        }
        let is_over = self.end(&mut run, memory);
        if !is_over {
            self.run = Some(run);
        }
        is_over
    }

    /// Whether all is done, and everybody knows.
    fn end<P: Payload>(&self, run: &mut KernelRun, memory: &mut dyn SharedMemory<P>) -> bool {
        // What others have sent here has come, and where others are ready what was sent there has.
        let known = |stage: &Stage| matches!(stage, Stage::Loading(_));
        if !run.announced || !run.stages.iter().all(known) || run.unloaded > 0 {
            return false;
        }
        if run.request.collective == Collective::ReduceScatter || self.config.ranks == 1 {
            return true;
        }
        let links = memory.links();
        *run.boundary.get_or_insert_with(|| {
            (0..links).for_each(|link| memory.synchronise(PortId(link), self.config.stream.into(), BOUNDARY));
            links
        }) == 0
    }

    /// Sends what belongs to other homes, line by line.
    fn send<P: Payload>(&self, run: &mut KernelRun, memory: &mut dyn SharedMemory<P>) {
        if core::mem::replace(&mut run.sent, true) {
            return;
        }
        let (line, links) = (self.config.line, memory.links());
        let longest = self.part(&run.request, Rank(0)).length;
        let mut reduce = |home, start| {
            let part = self.part(&run.request, home);
            if start < part.length {
                let span = Span { offset: part.offset + start, length: line.min(part.length - start) };
                let link = link_of(span.offset as u64, line, links);
                memory.merged_reduce(link, home, span, span.offset);
            }
        };
        let starts = || (0..longest).step_by(line);
        if self.config.in_step {
            starts().for_each(|start| self.others().for_each(|home| reduce(home, start)));
        } else {
            self.others().for_each(|home| starts().for_each(|start| reduce(home, start)));
        }
    }

    /// Asks for as many lines as may be under way, from the homes that are ready, in turn.
    fn load<P: Payload>(&self, run: &mut KernelRun, memory: &mut dyn SharedMemory<P>) {
        let (line, links, ranks) = (self.config.line, memory.links(), self.config.ranks);
        let mut idle = 0;
        while run.in_flight < self.config.window && idle < ranks {
            let home = Rank(run.turn);
            run.turn = (run.turn + 1) % ranks;
            idle += 1;
            if home == self.config.rank {
                continue;
            }
            let part = self.part(&run.request, home);
            let Stage::Loading(asked) = &mut run.stages[home.index()] else { continue };
            if *asked < part.length {
                let span = Span { offset: part.offset + *asked, length: line.min(part.length - *asked) };
                *asked += span.length;
                run.in_flight += 1;
                idle = 0;
                if !self.config.in_step {
                    run.turn = home.0;
                }
                let link = link_of(span.offset as u64, line, links);
                memory.merged_load(link, home, span.offset, span);
            }
        }
    }

    /// A switch has answered.
    fn released<P: Payload>(&mut self, group: u64, point: u32, memory: &mut dyn SharedMemory<P>) {
        let (first, stream) = (self.group(0), u64::from(self.config.stream));
        let (ranks, pre_access) = (self.config.ranks, self.config.pre_access);
        let Some(mut run) = self.run.take() else { return };
        match (point, &mut run.boundary) {
            (BOUNDARY, Some(missing)) if group == stream => *missing = missing.saturating_sub(1),
            (PRE_ACCESS, _) if pre_access && (first..=first + u64::from(ranks)).contains(&group) => {
                match run.stages.get_mut((group - first) as usize) {
                    Some(stage @ Stage::Aligning) => *stage = Stage::Loading(0),
                    None if run.entered => self.send(&mut run, memory),
                    _ => {}
                }
            }
            _ => {}
        }
        self.run = Some(run);
    }
}

impl<P: Payload> Kernel<P> for CaisKernel {
    fn start(
        &mut self,
        request: InPlaceRequest,
        memory: &mut dyn SharedMemory<P>,
    ) -> Result<bool, KernelRefusal> {
        if self.run.is_some() {
            return Err(CaisRejected::Busy.into());
        }
        match request.collective {
            Collective::AllReduce | Collective::ReduceScatter | Collective::AllGather => {}
            other => return Err(CaisRejected::Unsupported(other).into()),
        }
        self.begun += 1;
        let (ranks, own) = (usize::from(self.config.ranks), self.part(&request, self.config.rank).length);
        let reduces = request.collective != Collective::AllGather;
        let loads = request.collective != Collective::ReduceScatter;
        self.run = Some(KernelRun {
            request,
            entered: false,
            sent: false,
            uncontributed: if reduces { own * (ranks - 1) } else { 0 },
            announced: false,
            stages: vec![Stage::Unready; ranks],
            turn: if self.config.in_step { 0 } else { self.config.rank.0 },
            unloaded: if loads { request.span.length - own } else { 0 },
            in_flight: 0,
            boundary: None,
        });
        for rank in self.others() {
            memory.store(PortId(0), rank, self.begun_word(self.config.rank), self.begun);
        }
        Ok(self.proceed(memory))
    }

    fn handle_event(&mut self, event: MemoryEvent, memory: &mut dyn SharedMemory<P>) -> bool {
        let Some(run) = &mut self.run else { return false };
        match event {
            MemoryEvent::Contributed { span, contributions } => {
                let bytes = span.length.saturating_mul(contributions as usize);
                run.uncontributed = run.uncontributed.saturating_sub(bytes);
            }
            MemoryEvent::Loaded { span, .. } => {
                run.unloaded = run.unloaded.saturating_sub(span.length);
                run.in_flight = run.in_flight.saturating_sub(1);
            }
            MemoryEvent::Released { group, point, .. } => self.released(group, point, memory),
            MemoryEvent::Changed { .. } => {}
            MemoryEvent::Fenced | MemoryEvent::Computed => return false,
        }
        self.proceed(memory)
    }

    fn assert_invariants(&self) {
        let Some(run) = &self.run else { return };
        assert!(run.in_flight <= self.config.window, "no more lines under way than may be");
        assert!(run.boundary.is_none() || run.unloaded == 0, "a boundary is behind all loads");
        assert!(!run.announced || run.uncontributed == 0, "a part is ready when all is in it");
    }
}
