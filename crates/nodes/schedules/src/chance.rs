//! What chance decides on an accelerator: by a seed, the same in every run.

use quincunx_accelerator::{Machine, Program};
use quincunx_units::Duration;

/// A sequence of numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Of an accelerator's kernel, by its name.
    pub(crate) fn new(machine: &Machine, rank: u16, kernel: &str) -> Self {
        let mut chance = Self(machine.seed ^ u64::from(rank) << 32);
        for byte in kernel.bytes() {
            chance.0 ^= u64::from(byte);
            chance.next();
        }
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

/// The lowest rate that there is, over that of others, however far rates drift.
const LEAST_RATE: f64 = 0.001;

/// The rate at which an accelerator's block scheduler serves a kernel, over that at which it serves others, and so how many of the SMs that two
/// kernels share are the one's: it wanders, in time that the kernel
/// computes, from one value to the next that chance gives. A drift of 90 % is a rate from a tenth of the others' to ten times as much, whose
/// logarithm is uniform: as a ratio of two kernels' rates it is as often for the one as for the other. A kernel that is alone has all SMs, and whoever
/// waits for its end, or for a barrier, takes the accelerators together again. So what accelerators drift apart is time (CAIS III-B: "TBs are independently scheduled by the GPU runtime,
/// leading to execution drift across devices"), by every schedule that has kernels compete.
struct Wander {
    chance: Chance,
    /// The logarithm of the highest rate.
    most: f64,
    /// Of a step.
    length: f64,
    /// Its number, and the rates' logarithms at its ends.
    step: u64,
    ends: [f64; 2],
}

impl Wander {
    fn new(chance: Chance, machine: &Machine) -> Self {
        let length = machine.drift_time.as_picos() as f64;
        let most = -(1.0 - machine.drift).max(LEAST_RATE).ln();
        let mut wander = Self { chance, most, length, step: 0, ends: [0.0; 2] };
        wander.ends = [wander.draw(), wander.draw()];
        wander
    }

    fn draw(&mut self) -> f64 {
        self.most * (2.0 * self.chance.share() - 1.0)
    }

    /// The rate when the kernel has computed so many picoseconds; asked in their order.
    fn at(&mut self, computed: f64) -> f64 {
        while computed >= (self.step + 1) as f64 * self.length {
            self.step += 1;
            self.ends = [self.ends[1], self.draw()];
        }
        let [from, to] = self.ends;
        (from + (to - from) * (computed / self.length - self.step as f64)).exp()
    }
}

/// Lets chance act on an accelerator's kernels: when they are launched, how long their stages take, and how fast they are served beside others. The
/// same kernel is lucky or unlucky by every schedule.
pub(crate) fn disturb(program: &mut Program, machine: &Machine, rank: u16) {
    for kernel in &mut program.kernels {
        let mut chance = Chance::new(machine, rank, &kernel.name);
        kernel.launch += chance.up_to(machine.skew);
        let mut wander = Wander::new(Chance::new(machine, rank, &format!("{}, drift", kernel.name)), machine);
        let mut computed = 0.0;
        for block in &mut kernel.blocks {
            kernel.weights.push((wander.at(computed) * 1e6) as u32 + 1);
            for stage in &mut block.stages {
                let time = stage.compute.as_picos() as f64;
                let factor = 1.0 + machine.jitter * (2.0 * chance.share() - 1.0);
                computed += time / f64::from(machine.sms);
                stage.compute = Duration::from_picos((time * factor) as u64);
            }
        }
    }
}
