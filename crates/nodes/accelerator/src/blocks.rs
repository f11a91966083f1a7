//! How far kernels and blocks have come: who waits for which counter, who is ready, who may be dispatched next.

use crate::{CounterId, KernelPlace, Program, Wait};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A block of a program: the kernels' blocks are numbered one after the other.
pub(crate) type BlockNumber = u32;

/// How far a block has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// Waits for counters, for its kernel, or for a place.
    Waiting,
    /// Its group has been asked to begin.
    Registered,
    /// It has a place, and waits for its group before it loads.
    Entering,
    /// It loads and computes.
    Running,
    /// It has computed, and waits for its group before it sends.
    Leaving,
    /// Its group is there, and it waits until this accelerator is not ahead of the others.
    Held,
    /// What it sends is leaving.
    Sending,
    /// It has ended.
    Done,
}

/// A block's state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockState {
    pub(crate) kernel: u16,
    pub(crate) phase: Phase,
    /// Counters that have not come far enough.
    unmet: u16,
    /// The SM that holds it.
    pub(crate) sm: Option<u16>,
    /// Stages that are computed.
    pub(crate) stage: u16,
    /// Stages whose tiles have been asked for.
    pub(crate) asked: u16,
    /// Tiles that are missing, of each stage that has been asked for and is not computed.
    pub(crate) missing: Vec<u32>,
    /// Its stage is being computed.
    pub(crate) computing: bool,
    /// Packets that have not left.
    pub(crate) unsent: u32,
}

/// A kernel's state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct KernelState {
    first: BlockNumber,
    unmet: u16,
    pub(crate) launched: bool,
    /// Blocks that may be dispatched as soon as their group may.
    ready: BTreeSet<BlockNumber>,
    /// Blocks that have a place, or have been promised one.
    pub(crate) claimed: u32,
    /// Blocks that may be dispatched: to places that kernels share in the order of their claims, else in their own.
    released: BTreeSet<(u64, BlockNumber)>,
    /// Blocks that have a place.
    pub(crate) resident: u16,
    /// Blocks that have ended.
    pub(crate) done: u32,
}

/// Who waits for a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Waiter {
    Kernel(u16),
    Block(BlockNumber),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Counter {
    value: u64,
    /// By target; those before `met` have been told.
    waiters: Vec<(u64, Waiter)>,
    met: usize,
}

/// A kernel's turn among those that share places.
pub(crate) type Turn = (Reverse<u8>, u64);

/// A kernel's share of the SMs, where two kernels have a group of them each (CAIS III-C2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// The kernels' weights.
    pub(crate) mine: u32,
    pub(crate) its: u32,
    /// Its group is the first.
    pub(crate) is_first: bool,
    /// The other one has no block that waits for a place.
    pub(crate) has_all: bool,
}

/// All kernels and blocks of a program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Blocks {
    pub(crate) blocks: Vec<BlockState>,
    pub(crate) kernels: Vec<KernelState>,
    counters: Vec<Counter>,
    /// Blocks of a group, by the group's number.
    groups: Vec<Option<BlockNumber>>,
    /// Claims of places that kernels share, so far, and those that are not given back.
    claims: u64,
    pub(crate) claimed: usize,
}

impl Blocks {
    pub(crate) fn new(program: &Program) -> Self {
        let mut all = Self {
            blocks: Vec::new(),
            kernels: Vec::new(),
            counters: vec![Counter::default(); usize::from(program.counters)],
            groups: Vec::new(),
            claims: 0,
            claimed: 0,
        };
        for (kernel, number) in program.kernels.iter().zip(0..) {
            let first = all.blocks.len() as BlockNumber;
            let unmet = all.watch(&kernel.waits, Waiter::Kernel(number));
            all.kernels.push(KernelState {
                first,
                unmet,
                launched: false,
                ready: BTreeSet::new(),
                claimed: 0,
                released: BTreeSet::new(),
                resident: 0,
                done: 0,
            });
            for (block, number_of_block) in kernel.blocks.iter().zip(first..) {
                let unmet = all.watch(&block.waits, Waiter::Block(number_of_block));
                all.blocks.push(BlockState {
                    kernel: number,
                    phase: Phase::Waiting,
                    unmet,
                    sm: None,
                    stage: 0,
                    asked: 0,
                    missing: Vec::new(),
                    computing: false,
                    unsent: 0,
                });
                if let Some(group) = block.group {
                    let group = group as usize;
                    all.groups.resize(all.groups.len().max(group + 1), None);
                    all.groups[group] = Some(number_of_block);
                }
            }
        }
        for counter in &mut all.counters {
            counter.waiters.sort_unstable();
        }
        all
    }

    fn watch(&mut self, waits: &[Wait], waiter: Waiter) -> u16 {
        let mut unmet = 0;
        for wait in waits.iter().filter(|wait| wait.target > 0) {
            self.counters[usize::from(wait.counter.0)].waiters.push((wait.target, waiter));
            unmet += 1;
        }
        unmet
    }

    /// Where a block is in its program.
    pub(crate) fn place(&self, block: BlockNumber) -> (usize, usize) {
        let kernel = usize::from(self.blocks[block as usize].kernel);
        (kernel, (block - self.kernels[kernel].first) as usize)
    }

    pub(crate) fn of_group(&self, group: u64) -> Option<BlockNumber> {
        self.groups.get(usize::try_from(group).ok()?).copied().flatten()
    }

    pub(crate) fn has_counter(&self, counter: u16) -> bool {
        usize::from(counter) < self.counters.len()
    }

    /// Adds to a counter; the kernels that may be launched now are appended.
    pub(crate) fn add(&mut self, counter: CounterId, amount: u64, launching: &mut Vec<u16>) {
        let number = usize::from(counter.0);
        let counter = &mut self.counters[number];
        counter.value = counter.value.saturating_add(amount);
        let value = counter.value;
        while let Some(&(target, waiter)) = self.counters[number].waiters.get(self.counters[number].met) {
            if target > value {
                break;
            }
            self.counters[number].met += 1;
            match waiter {
                Waiter::Kernel(kernel) => {
                    let state = &mut self.kernels[usize::from(kernel)];
                    state.unmet -= 1;
                    if state.unmet == 0 {
                        launching.push(kernel);
                    }
                }
                Waiter::Block(block) => {
                    let state = &mut self.blocks[block as usize];
                    state.unmet -= 1;
                    if state.unmet == 0 {
                        let kernel = &mut self.kernels[usize::from(state.kernel)];
                        if kernel.launched {
                            kernel.ready.insert(block);
                        }
                    }
                }
            }
        }
    }

    /// Sets a counter, which never becomes less; the kernels that may be launched now are appended.
    pub(crate) fn store(&mut self, counter: CounterId, value: u64, launching: &mut Vec<u16>) {
        let missing = value.saturating_sub(self.counters[usize::from(counter.0)].value);
        self.add(counter, missing, launching);
    }

    /// Kernels that wait for nothing from the beginning.
    pub(crate) fn unconditional(&self) -> Vec<u16> {
        (0..).zip(&self.kernels).filter(|(_, kernel)| kernel.unmet == 0).map(|(number, _)| number).collect()
    }

    /// A kernel's blocks may be dispatched from now on.
    pub(crate) fn launch(&mut self, kernel: u16, blocks: usize) {
        let state = &mut self.kernels[usize::from(kernel)];
        state.launched = true;
        for block in state.first..state.first + blocks as u32 {
            if self.blocks[block as usize].unmet == 0 {
                state.ready.insert(block);
            }
        }
    }

    /// The next block that claims a place: of kernels with ready blocks that of the highest priority, and among equals that of the kernel
    /// which has the fewest for its weight. Places that kernels share are claimed up to `most`.
    pub(crate) fn claim(&mut self, program: &Program, most: usize) -> Option<BlockNumber> {
        let mut best: Option<usize> = None;
        for (kernel, state) in self.kernels.iter().enumerate() {
            let shares = program.kernels[kernel].place == KernelPlace::Sm;
            if state.ready.is_empty() || shares && self.claimed >= most {
                continue;
            }
            let is_better = best.is_none_or(|other| {
                let [a, b] = [kernel, other].map(|kernel| program.kernels[kernel].priority);
                // Each kernel's claims, by the other's weight.
                let [mine, its] = [(kernel, other), (other, kernel)].map(|(of, other)| {
                    u64::from(self.kernels[of].claimed) * u64::from(self.weight(program, other))
                });
                a > b || a == b && mine < its
            });
            if is_better {
                best = Some(kernel);
            }
        }
        let kernel = best?;
        self.kernels[kernel].claimed += 1;
        if program.kernels[kernel].place == KernelPlace::Sm {
            self.claimed += 1;
        }
        self.kernels[kernel].ready.pop_first()
    }

    /// The weight of a kernel that has ready blocks.
    fn weight(&self, program: &Program, kernel: usize) -> u32 {
        self.weight_at(program, kernel, self.kernels[kernel].ready.first().copied())
    }

    /// A kernel's weight from a block on.
    fn weight_at(&self, program: &Program, kernel: usize, block: Option<BlockNumber>) -> u32 {
        let next = block.map_or(0, |block| block - self.kernels[kernel].first);
        let weights =
            if program.coordination.pre_launch { &[][..] } else { &program.kernels[kernel].weights[..] };
        weights.get(next as usize).copied().unwrap_or(1)
    }

    /// A block that has claimed a place may be dispatched.
    pub(crate) fn release(&mut self, program: &Program, block: BlockNumber) {
        let kernel = usize::from(self.blocks[block as usize].kernel);
        let shares = program.kernels[kernel].place == KernelPlace::Sm;
        self.claims += u64::from(shares);
        let claim = if shares { self.claims } else { 0 };
        self.kernels[kernel].released.insert((claim, block));
    }

    /// A block has ended.
    pub(crate) fn give_back(&mut self, program: &Program, kernel: usize) {
        let state = &mut self.kernels[kernel];
        state.resident -= 1;
        state.claimed -= 1;
        state.done += 1;
        if program.kernels[kernel].place == KernelPlace::Sm {
            self.claimed -= 1;
        }
    }

    /// The kernel whose block is the next for a place that kernels share, behind one that got none: the highest priority first, and then in the
    /// order of claims.
    pub(crate) fn next_for_place(&self, program: &Program, behind: Option<Turn>) -> Option<(Turn, usize)> {
        let shared = self.kernels.iter().zip(&program.kernels).enumerate();
        let waiting = shared.filter_map(|(number, (state, kernel))| {
            let &(claim, _) = state.released.first().filter(|_| kernel.place == KernelPlace::Sm)?;
            Some(((Reverse(kernel.priority), claim), number))
        });
        waiting.filter(|(turn, _)| behind.is_none_or(|behind| *turn > behind)).min()
    }

    /// The share of the SMs that a kernel has beside the one that it shares them with, and whether it may use the others, too: that one has no
    /// block for them.
    pub(crate) fn share(&self, program: &Program, kernel: usize) -> Option<Share> {
        let other = usize::from(program.kernels[kernel].beside?);
        let [mine, its] = [kernel, other].map(|kernel| {
            let waiting = self.kernels[kernel].released.first();
            self.weight_at(program, kernel, waiting.map(|&(_, block)| block))
        });
        Some(Share { mine, its, is_first: kernel < other, has_all: self.kernels[other].released.is_empty() })
    }

    /// Takes the next block of a kernel.
    pub(crate) fn next_of(&mut self, kernel: usize) -> Option<BlockNumber> {
        self.kernels[kernel].released.pop_first().map(|(_, block)| block)
    }

    /// Whether a kernel has a block for a place.
    pub(crate) fn has_released_of(&self, kernel: usize) -> bool {
        !self.kernels[kernel].released.is_empty()
    }

    /// SMs that launched kernels have for themselves.
    pub(crate) fn whole_sms(&self, program: &Program) -> u16 {
        let wanted = self.kernels.iter().zip(&program.kernels).map(|(state, kernel)| match kernel.place {
            KernelPlace::WholeSm(most) if state.launched && (state.done as usize) < kernel.blocks.len() => {
                most
            }
            _ => 0,
        });
        wanted.sum()
    }

    pub(crate) fn is_over(&self, program: &Program) -> bool {
        self.kernels
            .iter()
            .zip(&program.kernels)
            .all(|(state, kernel)| state.done as usize == kernel.blocks.len())
    }

    pub(crate) fn assert_invariants(&self, program: &Program) {
        for (state, kernel) in self.kernels.iter().zip(&program.kernels) {
            assert!(state.done as usize <= kernel.blocks.len(), "no block ends twice");
            let most = match kernel.place {
                KernelPlace::Sm => u16::MAX,
                KernelPlace::WholeSm(most) | KernelPlace::CopyEngine(most) => most,
            };
            assert!(state.resident <= most, "a kernel has the places that it may have");
            assert!(
                state.launched || state.ready.is_empty(),
                "no block is ready before its kernel is launched"
            );
        }
    }
}
