//! One HTML page, readable offline, from the JSON that `perf`, `sim`, `sim traffic`, `sim train`, `sim layer`, `sim jobs`, `predict`, `plan`,
//! `reproduce` and `check` print: a plot and a table for each sweep, layers and jobs over time, each published figure beside ours, as a number and in a
//! plot, and runs that the checker has found wrong as sequence diagrams. A design has the same
//! colour and mark in all plots. It computes no figure of its own, and knows no figure by its name.
//!
//! [`write`] reads every `*.json` of a folder and writes `report.html` there.

mod bars;
mod columns;
mod figures;
mod gantt;
mod heat;
mod jobs;
mod layers;
mod page;
mod pictures;
mod plot;
mod predictions;
mod rows;
mod sequence;
mod tenancy;
mod training;

pub use columns::Columns;
pub use page::{Page, write};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or folder cannot be read or written.
    #[error("expected to {what} {path}, found \"{error}\"; look at the path and its permissions")]
    File {
        /// Read or write.
        what: &'static str,
        /// Which.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// Nothing to report on.
    #[error(
        "expected *.json files in {0}, found none; save some: quincunx sim all_reduce --json > {0}/sim.json"
    )]
    Empty(String),
    /// A file is not what a command prints.
    #[error(
        "{path}: expected an object that a command printed with --json (schema 1), found {found}; take it out of the folder"
    )]
    Foreign {
        /// Which file.
        path: String,
        /// What it holds.
        found: String,
    },
    /// A plot or the page could not be drawn.
    #[error("expected to draw {what}, found \"{error}\"")]
    Drawing {
        /// What.
        what: String,
        /// What the library said.
        error: String,
    },
}
