//! Samples with bytes, words and lines changed: a fabric or a refusal in one line, and never a panic. `PROPTEST_CASES=100000 cargo test -p
//! quincunx-import mutated` tries more.

use crate::{samples, scenario};
use proptest::prelude::*;
use quincunx_import::import;

/// Words that readers stumble over.
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "65536",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "NaN",
    "\"",
    "<",
    "[",
    "{",
    "Gbps",
    "\u{0}",
];

/// A change of a text.
#[derive(Clone, Debug)]
enum Change {
    /// A byte becomes another.
    Byte(prop::sample::Index, u8),
    /// A run of digits becomes a word.
    Number(prop::sample::Index, prop::sample::Index),
    /// A line stands there twice, or no more.
    Line(prop::sample::Index, bool),
    /// The rest is missing.
    End(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        6 => (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(at, word)| Change::Number(at, word)),
        2 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, twice)| Change::Line(at, twice)),
        1 => any::<prop::sample::Index>().prop_map(Change::End),
    ]
}

fn apply(text: &str, change: &Change) -> String {
    if text.is_empty() {
        return String::new();
    }
    match change {
        Change::Byte(at, byte) => {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = *byte;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Change::Number(at, word) => {
            let is_digit = |at: &usize| text.as_bytes()[*at].is_ascii_digit();
            let begins: Vec<usize> =
                (0..text.len()).filter(|at| is_digit(at) && (*at == 0 || !is_digit(&(at - 1)))).collect();
            if begins.is_empty() {
                return text.to_owned();
            }
            let begin = begins[at.index(begins.len())];
            let end = (begin..text.len()).find(|at| !is_digit(at)).unwrap_or(text.len());
            format!("{}{}{}", &text[..begin], WORDS[word.index(WORDS.len())], &text[end..])
        }
        Change::Line(at, twice) => {
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            let at = at.index(lines.len());
            if *twice {
                lines.insert(at, lines[at]);
            } else {
                lines.remove(at);
            }
            lines.concat()
        }
        Change::End(at) => text.chars().take(at.index(text.chars().count() + 1)).collect(),
    }
}

proptest! {
    #[test]
    fn a_changed_file_is_a_fabric_or_one_line(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..6)) {
        let samples = samples();
        let (name, text) = &samples[which.index(samples.len())];
        let text = changes.iter().fold(text.clone(), |text, change| apply(&text, change));
        match import(name, &text) {
            // Whether it can run, its reader says: two parts of it may not hang together.
            Ok(imported) => {
                let read = scenario(&imported).map(|_| ()).map_err(|error| error.to_string());
                prop_assert!(read.as_ref().map_or_else(|error| !error.contains('\n') && !error.contains("TOML"), |()| true), "{read:?}");
                prop_assert!(imported.notes.iter().all(|note| !note.to_string().contains('\n')));
            }
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }

    #[test]
    fn any_text_is_a_fabric_or_one_line(text in "\\PC{0,200}") {
        if let Err(error) = import("any", &text) {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
