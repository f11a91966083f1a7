//! How long something went on, and how long of that nothing else did.

use quincunx_units::Duration;

/// From when to when.
pub(crate) type Interval = (Duration, Duration);

/// The same times as intervals that do not touch, in order.
pub(crate) fn union(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    let mut union: Vec<Interval> = Vec::new();
    for (begin, end) in intervals {
        match union.last_mut() {
            Some((_, last)) if begin <= *last => *last = end.max(*last),
            _ => union.push((begin, end)),
        }
    }
    union
}

/// How long intervals that do not overlap last.
pub(crate) fn length(union: &[Interval]) -> Duration {
    union.iter().map(|&(begin, end)| end - begin).sum()
}

/// How long both of two unions go on.
pub(crate) fn overlap(mut one: &[Interval], mut other: &[Interval]) -> Duration {
    let mut both = Duration::ZERO;
    while let ([first, ones @ ..], [second, others @ ..]) = (one, other) {
        // Saturating: zero where they do not overlap.
        both += first.1.min(second.1) - first.0.max(second.0);
        match first.1 <= second.1 {
            true => one = ones,
            false => other = others,
        }
    }
    both
}
