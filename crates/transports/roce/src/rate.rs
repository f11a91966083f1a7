//! DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015): the rate of a queue pair,
//! cut by every congestion notification and raised again while none comes.
//!
//! The sender (reaction point) keeps a current rate, a target rate and alpha, its estimate of how much is marked:
//! - a notification: target = current; current *= 1 - alpha / 2; alpha = (1 - g) alpha + g; the raises start anew;
//! - alpha's timer without a notification: alpha = (1 - g) alpha;
//! - a raise, whenever the raise timer or the byte counter comes round: the first [`FAST_RECOVERY`] of either only halve the
//!   distance to the target; after that the target rises too, by the additive step, or, when both are past them, by the
//!   hyper step times how far they are.
//!
//! At the line's rate nothing is kept and no timer runs: an uncongested queue pair pays nothing. All arithmetic is in whole
//! numbers, so that a state can be compared and a run replayed.

use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// Raises by one clock before the target itself rises (F).
const FAST_RECOVERY: u32 = 5;

/// One, in the fixed-point numbers that alpha is kept in.
const ONE: u64 = 1 << 20;

/// What DCQCN is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RateConfig {
    /// The rate of the link, where a queue pair begins and beyond which it never sends.
    pub line: BitRate,
    /// The rate below which no notification brings it.
    pub least: BitRate,
    /// g is one over two to this power.
    pub gain_shift: u32,
    /// Time without a notification after which alpha shrinks (K).
    pub alpha_interval: Duration,
    /// Time after which the rate is raised (T).
    pub raise_interval: Duration,
    /// Bytes after which the rate is raised (B).
    pub raise_bytes: ByteCount,
    /// The additive step (R_AI).
    pub additive: BitRate,
    /// The hyper step (R_HAI).
    pub hyper: BitRate,
    /// A receiver sends at most one notification in this time (N).
    pub notification_interval: Duration,
}

impl RateConfig {
    /// The values of the paper (its table 14 and section 5) on a link of rate `line`.
    pub fn dcqcn(line: BitRate) -> Self {
        let rate = |bits| BitRate::new(bits).unwrap_or(line);
        Self {
            line,
            least: rate(10_000_000),
            gain_shift: 8,
            alpha_interval: Duration::from_micros(55),
            raise_interval: Duration::from_micros(55),
            raise_bytes: ByteCount::new(10_000_000),
            additive: rate(40_000_000),
            hyper: rate(400_000_000),
            notification_interval: Duration::from_micros(50),
        }
    }
}

/// What a sender keeps while it is below the line's rate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slowed {
    current: u64,
    target: u64,
    /// In parts of [`ONE`].
    alpha: u64,
    /// Raises by time and by bytes since the last notification.
    raises: (u32, u32),
    /// Bytes sent since the last raise by bytes.
    bytes: u64,
    /// The next packet may leave then.
    clear_at: Instant,
    /// The driver holds the timer for that.
    is_waiting: bool,
}

/// The rate of one queue pair.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rate {
    config: RateConfig,
    slowed: Option<Slowed>,
    /// When the peer was last told of congestion.
    notified: Option<Instant>,
}

impl Rate {
    pub(crate) fn new(config: RateConfig) -> Self {
        Self { config, slowed: None, notified: None }
    }

    pub(crate) fn config(&self) -> &RateConfig {
        &self.config
    }

    /// The rate at which packets leave now.
    pub(crate) fn current(&self) -> BitRate {
        let slowed = self.slowed.as_ref().and_then(|slowed| BitRate::new(slowed.current));
        slowed.unwrap_or(self.config.line)
    }

    /// Whether the next packet has to wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.slowed.as_ref().is_some_and(|slowed| slowed.is_waiting)
    }

    /// Whether the timers for alpha and the raises run.
    pub(crate) fn is_slowed(&self) -> bool {
        self.slowed.is_some()
    }

    /// Takes a notification. Both timers start anew.
    pub(crate) fn slow_down(&mut self, now: Instant) {
        let (line, least, shift) =
            (self.config.line.bits_per_second(), self.config.least.bits_per_second(), self.config.gain_shift);
        let slowed = self.slowed.get_or_insert(Slowed {
            current: line,
            target: line,
            alpha: ONE,
            raises: (0, 0),
            bytes: 0,
            clear_at: now,
            is_waiting: false,
        });
        slowed.target = slowed.current;
        let cut = u128::from(slowed.current) * u128::from(slowed.alpha) / u128::from(2 * ONE);
        slowed.current = (slowed.current - cut as u64).max(least);
        slowed.alpha += (ONE - slowed.alpha) >> shift;
        slowed.raises = (0, 0);
        slowed.bytes = 0;
    }

    /// Takes the expiry of alpha's timer.
    pub(crate) fn shrink_alpha(&mut self) {
        if let Some(slowed) = &mut self.slowed {
            slowed.alpha -= slowed.alpha >> self.config.gain_shift;
        }
    }

    /// Takes the expiry of the raise timer.
    pub(crate) fn raise_by_time(&mut self) {
        if let Some(slowed) = &mut self.slowed {
            slowed.raises.0 += 1;
        }
        self.raise();
    }

    /// A packet of `length` bytes leaves. Returns how long the next one has to wait, if it has to.
    pub(crate) fn sent(&mut self, now: Instant, length: ByteCount) -> Option<Duration> {
        self.slowed.as_ref()?;
        let pause = self.current().time_for(length);
        let slowed = self.slowed.as_mut()?;
        slowed.clear_at = slowed.clear_at.max(now) + pause;
        slowed.bytes += length.bytes();
        let clear_at = slowed.clear_at;
        if slowed.bytes >= self.config.raise_bytes.bytes() {
            slowed.bytes -= self.config.raise_bytes.bytes();
            slowed.raises.1 += 1;
            self.raise();
        }
        // At the line's rate again the link itself does the pacing.
        self.slowed.as_mut()?.is_waiting = true;
        Some(clear_at.since(now))
    }

    /// The next packet need not wait any more.
    pub(crate) fn clear(&mut self) {
        if let Some(slowed) = &mut self.slowed {
            slowed.is_waiting = false;
        }
    }

    /// Whether a marked frame that arrives now is worth a notification.
    pub(crate) fn notifies(&mut self, now: Instant) -> bool {
        let due = self.notified.is_none_or(|last| now.since(last) >= self.config.notification_interval);
        if due {
            self.notified = Some(now);
        }
        due
    }

    fn raise(&mut self) {
        let config = self.config;
        let Some(slowed) = &mut self.slowed else { return };
        let (time, bytes) = slowed.raises;
        let step = if time.max(bytes) <= FAST_RECOVERY {
            0
        } else if time.min(bytes) > FAST_RECOVERY {
            config.hyper.bits_per_second().saturating_mul(u64::from(time.min(bytes) - FAST_RECOVERY))
        } else {
            config.additive.bits_per_second()
        };
        let line = config.line.bits_per_second();
        slowed.target = slowed.target.saturating_add(step).min(line);
        slowed.current = slowed.current.midpoint(slowed.target);
        // Halving a distance never ends; what is left is less than a step.
        if slowed.current >= line - (line - slowed.target).max(config.additive.bits_per_second()).min(line)
            && slowed.target == line
        {
            self.slowed = None;
        }
    }

    pub(crate) fn assert_invariants(&self) {
        if let Some(slowed) = &self.slowed {
            let line = self.config.line.bits_per_second();
            assert!(slowed.current <= line && slowed.target <= line, "faster than the line");
            assert!(slowed.current > 0 && slowed.alpha <= ONE, "{} {}", slowed.current, slowed.alpha);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line() -> BitRate {
        BitRate::new(100_000_000_000).unwrap()
    }

    fn gigabits(rate: &Rate) -> u64 {
        rate.current().bits_per_second() / 1_000_000_000
    }

    #[test]
    fn the_first_notification_halves_the_rate_and_fast_recovery_brings_it_back() {
        let mut rate = Rate::new(RateConfig::dcqcn(line()));
        assert!(!rate.is_slowed());
        rate.slow_down(Instant::ZERO);
        assert_eq!(gigabits(&rate), 50);
        let climb: [u64; 5] = core::array::from_fn(|_| {
            rate.raise_by_time();
            gigabits(&rate)
        });
        assert_eq!(climb, [75, 87, 93, 96, 98]);
    }

    #[test]
    fn alpha_shrinks_while_no_notification_comes_so_that_the_next_cut_is_smaller() {
        let mut rate = Rate::new(RateConfig::dcqcn(line()));
        rate.slow_down(Instant::ZERO);
        for _ in 0..256 {
            rate.shrink_alpha();
        }
        rate.slow_down(Instant::ZERO);
        // (1 - 1/256)^256 = 0.367: half of that is cut from 50.
        assert_eq!(gigabits(&rate), 40);
    }

    #[test]
    fn at_the_line_rate_nothing_is_kept() {
        let mut rate = Rate::new(RateConfig::dcqcn(line()));
        rate.slow_down(Instant::ZERO);
        for _ in 0..100 {
            rate.raise_by_time();
        }
        assert!(!rate.is_slowed() && rate.sent(Instant::ZERO, ByteCount::new(4096)).is_none());
    }

    #[test]
    fn packets_leave_at_the_current_rate() {
        let mut rate = Rate::new(RateConfig::dcqcn(line()));
        rate.slow_down(Instant::ZERO);
        // 5,000 bytes at 50 Gbit/s are 800 ns.
        let pause = Duration::from_nanos(800);
        assert_eq!(rate.sent(Instant::ZERO, ByteCount::new(5000)), Some(pause));
        assert!(rate.is_waiting());
        rate.clear();
        assert_eq!(rate.sent(Instant::ZERO + pause, ByteCount::new(5000)), Some(pause));
    }

    #[test]
    fn a_receiver_notifies_once_in_its_interval() {
        let mut rate = Rate::new(RateConfig::dcqcn(line()));
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        assert_eq!(
            [0, 10, 49, 50, 60].map(|micros| rate.notifies(at(micros))),
            [true, false, false, true, false]
        );
    }

    proptest! {
        #[test]
        fn the_rate_stays_between_its_bounds(steps in proptest::collection::vec(0_u8..4, 0..300)) {
            let config = RateConfig::dcqcn(line());
            let mut rate = Rate::new(config);
            for step in steps {
                match step {
                    0 => rate.slow_down(Instant::ZERO),
                    1 => rate.shrink_alpha(),
                    2 => rate.raise_by_time(),
                    _ => drop(rate.sent(Instant::ZERO, ByteCount::new(3_000_000))),
                }
                rate.assert_invariants();
                prop_assert!((config.least..=config.line).contains(&rate.current()));
            }
        }
    }
}
