//! Responses out of order, the same in every run.

use quincunx_units::Duration;

/// How far responses stray from their order: each takes up to `spread` longer, by the seed. Accelerators are highly
/// concurrent, so that the order of their responses is not determined (SCIN 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// Which order.
    pub seed: u64,
    /// The most that a response is late.
    pub spread: Duration,
}

impl Scatter {
    /// What the `sequence`-th response takes longer: a hash of it by splitmix64's finaliser (Steele, Lea and Flood
    /// 2014).
    pub fn delay(&self, sequence: u64) -> Duration {
        let mut mixed = self.seed ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let picos = (u128::from(mixed) * u128::from(self.spread.as_picos())) >> 64;
        Duration::from_picos(picos as u64)
    }
}
