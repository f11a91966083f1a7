//! Processor time that processes have used, their own and the kernel's on their behalf: what a host gives for a collective, and what its
//! switches do, which are other machines mostly.

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The clocks of this process and of the switches that run beside it.
pub(crate) struct Processors {
    switches: Vec<ClockId>,
}

/// Processor time in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spent {
    /// This process's.
    pub(crate) own: f64,
    /// All switches', if they are known and run.
    pub(crate) switches: Option<f64>,
}

impl Processors {
    /// Of this process, and of those switches.
    pub(crate) fn new(switches: &[u32]) -> Self {
        let clock = |process: &u32| clock_getcpuclockid(Pid::from_raw(*process as i32)).ok();
        let clocks: Option<Vec<_>> = switches.iter().map(clock).collect();
        Self { switches: clocks.unwrap_or_default() }
    }

    /// Since each has begun.
    pub(crate) fn now(&self) -> Spent {
        let switches: Option<Vec<f64>> = self.switches.iter().map(|clock| micros(*clock)).collect();
        Spent {
            own: micros(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default(),
            switches: switches.filter(|all| !all.is_empty()).map(|all| all.iter().sum()),
        }
    }
}

impl Spent {
    /// From `before` to here, for each of so many repetitions.
    pub(crate) fn since(self, before: Self, repetitions: f64) -> Self {
        Self {
            own: (self.own - before.own) / repetitions,
            switches: self.switches.zip(before.switches).map(|(now, then)| (now - then) / repetitions),
        }
    }
}

/// What a clock shows, in microseconds.
fn micros(clock: ClockId) -> Option<f64> {
    let time = clock.now().ok()?;
    Some(time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_of_the_process_that_does_it() {
        // This process stands for a switch, too.
        let processors = Processors::new(&[std::process::id()]);
        let before = processors.now();
        // One is read after the other, while other threads of the process work: both come to any time, not to the same.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let each = processors.now().since(before, 2.0);
            if each.own >= 2.5e3 && each.switches >= Some(2.5e3) {
                break;
            }
            assert!(std::time::Instant::now() < end, "{each:?}");
        }
    }

    #[test]
    fn switches_that_are_not_known_have_no_time() {
        assert_eq!(Processors::new(&[]).now().switches, None);
    }
}
