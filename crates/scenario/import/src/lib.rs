//! Fabrics as other tools describe them, made files of the project's own: NCCL's topology XML, SimAI's and ns-3's lists of links, ASTRA-sim's
//! dimensions. What a file is, its text says.
//!
//! Nothing is dropped in silence: what was understood and has no place in a fabric here, and what was not understood, is a [`Note`], a line
//! each. What makes no fabric is an [`ImportError`], in one line. Nothing here runs anything or reads a file: whether the result is a fabric
//! that can run, `quincunx-scenario` finds out when it reads it.

mod astra;
mod body;
mod error;
mod lines;
mod links;
mod nccl;
mod notes;
mod shape;
mod units;

pub use error::ImportError;
pub use notes::Note;

use notes::{Notes, on_one_line};

/// What came of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// A file of a fabric, as `--fabric` takes it.
    pub text: String,
    /// What of the file is not in it.
    pub notes: Vec<Note>,
}

/// Makes a fabric of `text`, which came from `place`: a file's name, for messages.
///
/// # Errors
/// If it is none of the formats, or makes no fabric.
pub fn import(place: &str, text: &str) -> Result<Imported, ImportError> {
    let text = text.trim_start_matches('\u{feff}');
    let mut notes = Notes::new(place, text);
    let body = match text.trim_start().chars().next() {
        Some('<') => nccl::import(text, &mut notes)?,
        Some(digit) if digit.is_ascii_digit() => lines::import(text, &mut notes)?,
        Some(_) => astra::import(text, &mut notes)?,
        None => {
            return Err(notes.wrong(
                None,
                "NCCL's topology XML, a topology of SimAI or ns-3, or a network of ASTRA-sim",
                "an empty file",
                "name another",
            ));
        }
    };
    let notes = notes.into_notes();
    let mut text = format!("# What {} describes.", on_one_line(place));
    for line in &body.about {
        text.push_str("\n# ");
        text.push_str(&on_one_line(line));
    }
    for note in &notes {
        text.push_str("\n# Not here: ");
        text.push_str(&on_one_line(&note.to_string()));
    }
    text.push('\n');
    text.push_str(&body.text);
    Ok(Imported { text, notes })
}
