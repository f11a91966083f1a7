//! What of a file is not in the fabric, a line each: alike things once, with how many there are.

use crate::ImportError;
use std::collections::BTreeMap;
use std::fmt;

/// The longest piece of a file that a message shows, in characters.
const LONGEST: usize = 60;

/// Something that is not in the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The file, and the line of the first one if it has lines.
    place: String,
    what: String,
    why: String,
    count: usize,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, what, why, count } = self;
        match count {
            1 => write!(f, "{place}: {what}: {why}"),
            count => write!(f, "{place}: {what} ({count} times): {why}"),
        }
    }
}

/// The notes on a file as it is read.
pub(crate) struct Notes {
    place: String,
    /// Where lines begin, from the second on.
    starts: Vec<usize>,
    notes: Vec<Note>,
    /// By what and why.
    known: BTreeMap<(String, String), usize>,
}

impl Notes {
    /// On `text`, which came from `place`.
    pub(crate) fn new(place: &str, text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        Self { place: on_one_line(place), starts, notes: Vec::new(), known: BTreeMap::new() }
    }

    /// The line of a place in the text, counted from one.
    pub(crate) fn line_at(&self, at: usize) -> Option<usize> {
        Some(1 + self.starts.partition_point(|start| *start <= at))
    }

    /// Something at a line, counted from one, is not in the fabric.
    pub(crate) fn add(&mut self, line: Option<usize>, what: impl Into<String>, why: impl Into<String>) {
        let (what, why) = (what.into(), why.into());
        if let Some(&known) = self.known.get(&(what.clone(), why.clone())) {
            self.notes[known].count += 1;
            return;
        }
        self.known.insert((what.clone(), why.clone()), self.notes.len());
        self.notes.push(Note { place: self.at(line), what, why, count: 1 });
    }

    /// What is wrong at a line, counted from one, or with the whole file.
    pub(crate) fn wrong(
        &self,
        line: Option<usize>,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ImportError {
        let (expected, found, remedy) = (expected.into(), found.into(), remedy.into());
        ImportError { place: self.at(line), expected, found, remedy }
    }

    fn at(&self, line: Option<usize>) -> String {
        line.map_or_else(|| self.place.clone(), |line| format!("{}:{line}", self.place))
    }

    pub(crate) fn into_notes(self) -> Vec<Note> {
        self.notes
    }
}

/// Some of a file, as a message may show it: short, and on one line.
pub(crate) fn piece(text: &str) -> String {
    let mut shown: String = on_one_line(text).chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push_str("...");
    }
    shown
}

/// A text without line ends and other control characters, as messages and comments may have it.
pub(crate) fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
