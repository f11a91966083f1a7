//! Whether what all ranks of this machine hold fits into its memory: said before anything starts.

use quincunx_units::ByteCount;

use crate::Failure;

/// Vectors of a rank at once: what it gives, what it gets, and what it compares that with.
const VECTORS: u64 = 3;

/// Refuses vectors of `bytes` that so many ranks on this machine cannot hold; where nobody says how much memory there is, nothing.
pub(crate) fn refuse_more(bytes: u64, ranks: u16) -> Result<(), Failure> {
    let Some(available) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text))
    else {
        return Ok(());
    };
    let needed = ByteCount::new(bytes) * (VECTORS * u64::from(ranks));
    if needed > available {
        return Err(Failure::Input(format!(
            "expected vectors that fit into this machine's memory, {:.1} GiB now, found {ranks} ranks with {VECTORS} of {} each; choose a smaller size, fewer ranks, or simulate it",
            available.bytes() as f64 / f64::from(1 << 30),
            ByteCount::new(bytes)
        )));
    }
    Ok(())
}

/// What the kernel says can be had without swapping.
fn available(text: &str) -> Option<ByteCount> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(ByteCount::new(kibibytes) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_in_kibibytes() {
        let text = "MemTotal:       24689764 kB\nMemFree:         1 kB\nMemAvailable:   20971520 kB\n";
        assert_eq!(available(text), Some(ByteCount::new(20 << 30)));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn vectors_beyond_all_memory_are_refused_in_a_line() {
        assert!(refuse_more(4096, 8).is_ok());
        let Err(Failure::Input(line)) = refuse_more(u64::MAX, 8) else { panic!("it fits") };
        assert!(line.contains("8 ranks") && line.lines().count() == 1, "{line}");
    }
}
