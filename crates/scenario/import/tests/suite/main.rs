//! Other tools' files, right ones and wrong ones, and what becomes of them.

mod golden;
mod mutated;
mod refused;

use quincunx_designs::CATALOG;
use quincunx_import::{ImportError, Imported, import};
use quincunx_scenario::{Document, Scenario, ScenarioError};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

/// The samples: each file's name and text, in the order of names.
fn samples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .filter(|path| path.is_file() && path.file_name().unwrap() != "README.md")
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn sample(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn scenario(imported: &Imported) -> Result<Scenario, ScenarioError> {
    Scenario::read(Document::parse("imported", &imported.text)?, CATALOG)
}

fn refusal(text: &str) -> String {
    import("file", text).map_err(|error: ImportError| error.to_string()).expect_err(text)
}
