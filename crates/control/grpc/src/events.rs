//! What has happened lately, for somebody who looks: the last lines, each with its number.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Lines that are kept; the oldest go first.
const KEPT: usize = 200;

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Event {
    /// From one, without a gap: who has seen the last one knows what is new.
    number: u64,
    /// Milliseconds since 1970.
    time: u64,
    /// Whether it is something that an operator should see to.
    is_trouble: bool,
    text: String,
}

/// The last events, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    last: VecDeque<Event>,
    next: u64,
}

impl Events {
    /// Something has happened that is as it should be.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.push(false, text.into());
    }

    /// Something has happened that somebody should see to.
    pub(crate) fn trouble(&mut self, text: impl Into<String>) {
        self.push(true, text.into());
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Event> {
        self.last.iter()
    }

    fn push(&mut self, is_trouble: bool, text: String) {
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.next += 1;
        // A clock before 1970 is none.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.last.push_back(Event { number: self.next, time, is_trouble, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_with_numbers_that_go_on() {
        let mut events = Events::default();
        for count in 0..KEPT + 3 {
            events.note(format!("event {count}"));
        }
        let numbers: Vec<u64> = events.all().map(|event| event.number).collect();
        assert_eq!(numbers, (4..=KEPT as u64 + 3).collect::<Vec<_>>());
    }
}
