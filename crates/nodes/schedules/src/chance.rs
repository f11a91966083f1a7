//! What chance decides on an accelerator: by a seed, the same in every run.

use quincunx_accelerator::{Kernel, Machine};
use quincunx_units::Duration;

/// A sequence of numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Of an accelerator's kernel.
    pub(crate) fn new(machine: &Machine, rank: u16, kernel: usize) -> Self {
        let mut chance = Self(machine.seed ^ u64::from(rank) << 32 ^ (kernel as u64) << 48);
        chance.next();
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From zero to one.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Up to `most`.
    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_picos((most.as_picos() as f64 * self.share()) as u64)
    }
}

/// Lets chance act on a kernel: when it is launched, how long its stages take, and, unless blocks keep their order, which goes first.
pub(crate) fn disturb(kernel: &mut Kernel, machine: &Machine, rank: u16, number: usize, keeps_order: bool) {
    let mut chance = Chance::new(machine, rank, number);
    kernel.launch += chance.up_to(machine.skew);
    for stage in kernel.blocks.iter_mut().flat_map(|block| &mut block.stages) {
        let factor = 1.0 + machine.jitter * (2.0 * chance.share() - 1.0);
        stage.compute = Duration::from_picos((stage.compute.as_picos() as f64 * factor) as u64);
    }
    if !keeps_order {
        let window = f64::from(machine.dispatch_window);
        let mut order: Vec<(f64, usize)> =
            (0..kernel.blocks.len()).map(|place| (place as f64 + window * chance.share(), place)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut blocks: Vec<_> = std::mem::take(&mut kernel.blocks).into_iter().map(Some).collect();
        kernel.blocks =
            order.iter().map(|&(_, place)| blocks[place].take().expect("each block once")).collect();
    }
}
