//! docs/wire.md and the code agree to the byte. Every example and every table of the page that lies between `<!-- NAME -->` and `<!-- end -->`
//! is made here by asking the code; a test fails when the two differ.

mod examples;
mod programs;
mod switch;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// What the page has between its marks, by name.
type Parts = BTreeMap<&'static str, String>;

/// A part of a frame that is longer than this is shown by its beginning.
const LONGEST: usize = 64;

/// Bytes by what they are, as the page shows them: sixteen to a line.
fn block(rows: &[(&str, &[u8])]) -> String {
    let mut text = String::from("```text\n");
    for (name, bytes) in rows {
        let mut name = *name;
        let shown = if bytes.len() > LONGEST { &bytes[..16] } else { bytes };
        for line in shown.chunks(16) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{name:<12}{}", hex.join(" ")).unwrap();
            name = "";
        }
        if shown.len() < bytes.len() {
            writeln!(text, "{:12}... {} more", "", bytes.len() - shown.len()).unwrap();
        }
    }
    text.push_str("```\n");
    text
}

/// A table with a line for its columns.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).unwrap();
    }
    text
}

/// The parts of a page, by name: what lies between their marks.
fn parts_of(page: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for marked in page.split("<!-- ").skip(1) {
        let (name, rest) = marked.split_once(" -->\n").expect("a mark ends in its line");
        if name != "end" {
            assert!(found.insert(name, rest).is_none(), "two parts called {name}");
        }
    }
    found
}

/// The page with these parts in the places of those that it has.
fn with_parts(page: &str, parts: &Parts) -> String {
    let mut text = page.to_owned();
    for (name, part) in parts {
        let begin = format!("<!-- {name} -->\n");
        let at = text.find(&begin).unwrap_or_else(|| panic!("no {begin} in the page")) + begin.len();
        let end = at + text[at..].find("<!-- end -->").expect("what begins has an end");
        text.replace_range(at..end, part);
    }
    text
}

#[test]
fn what_the_page_shows_is_what_the_code_writes() {
    let made: Parts = [examples::parts(), words::parts(), switch::parts(), programs::parts()]
        .into_iter()
        .flatten()
        .collect();
    let path = root().join("docs/wire.md");
    let mut page = std::fs::read_to_string(&path).expect("the page is there");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        page = with_parts(&page, &made);
        std::fs::write(&path, &page).expect("the page is writable");
    }
    let shown = parts_of(&page);
    let names = |parts: Vec<&str>| parts.join("\n");
    assert_eq!(
        names(shown.keys().copied().collect()),
        names(made.keys().copied().collect()),
        "parts of the page"
    );
    for (name, part) in &made {
        assert_eq!(shown[name], part, "{name}: run with UPDATE_SNAPSHOTS=1 and review the difference");
    }
}
