//! Times of collectives that are known, and as text.

use quincunx_units::Duration;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Times of collectives by what decides them, so that none is simulated twice.
#[derive(Default, Debug)]
pub struct KnownTimes(Mutex<BTreeMap<String, Duration>>);

impl KnownTimes {
    /// Those that somebody has kept: lines of a key, a tab and picoseconds. Others are passed over, for they are simulated again.
    pub fn read(text: &str) -> Self {
        let pair = |line: &str| {
            let (key, picos) = line.rsplit_once('\t')?;
            Some((key.to_owned(), Duration::from_picos(picos.parse().ok()?)))
        };
        Self(Mutex::new(text.lines().filter_map(pair).collect()))
    }

    /// The same, to be kept.
    pub fn text(&self) -> String {
        let known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.iter().map(|(key, time)| format!("{key}\t{}\n", time.as_picos())).collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, key: &str) -> Option<Duration> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(key).copied()
    }

    pub(crate) fn set(&self, key: String, time: Duration) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, time);
    }
}
