//! What the figures were measured on.

use serde::Serialize;
use std::fmt;
use std::fs::read_to_string;

/// The machine, as it says of itself.
#[derive(Serialize)]
pub(crate) struct Machine {
    /// Processor, by name.
    processor: String,
    /// How many of them this process may use.
    processors: usize,
    /// Kernel release.
    kernel: String,
    /// How its TCP tells congestion.
    tcp: String,
    /// Processes that ran or waited for a processor in the last minute before the run: work beside it.
    load: String,
}

/// Looks the machine up.
pub(crate) fn describe() -> Machine {
    let text = |path: &str| read_to_string(path).unwrap_or_default();
    let named = |line: &str| {
        line.strip_prefix("model name").map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned())
    };
    Machine {
        processor: text("/proc/cpuinfo")
            .lines()
            .find_map(named)
            .unwrap_or_else(|| std::env::consts::ARCH.into()),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: text("/proc/sys/kernel/osrelease").trim().into(),
        tcp: text("/proc/sys/net/ipv4/tcp_congestion_control").trim().into(),
        load: text("/proc/loadavg").split(' ').next().unwrap_or_default().into(),
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, processors, kernel, tcp, load } = self;
        write!(f, "{processors} x {processor}, Linux {kernel}, TCP {tcp}, load {load} before the run")
    }
}
