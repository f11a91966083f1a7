//! What a check has found: that all is well, or what to do and what that brings.

use serde_json::{Value, json};

use crate::table::{Align, table};

/// What to make of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// As it should be.
    Well,
    /// Good to know.
    Note,
    /// What to do, and what it brings.
    Mend(String),
}

/// A line of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    /// Where: a machine, a node, a path.
    pub(super) place: String,
    /// What was seen.
    pub(super) found: String,
    pub(super) verdict: Verdict,
}

impl Finding {
    pub(super) fn new(check: &'static str, place: &str, found: impl Into<String>, verdict: Verdict) -> Self {
        Self { check, place: place.into(), found: found.into(), verdict }
    }

    pub(super) fn is_fault(&self) -> bool {
        matches!(self.verdict, Verdict::Mend(_))
    }

    pub(super) fn json(&self) -> Value {
        let (verdict, remedy) = match &self.verdict {
            Verdict::Well => ("well", None),
            Verdict::Note => ("note", None),
            Verdict::Mend(remedy) => ("mend", Some(remedy)),
        };
        json!({
            "check": self.check,
            "place": self.place,
            "verdict": verdict,
            "found": self.found,
            "remedy": remedy,
        })
    }
}

/// A line each; what is to be mended has what to do below it.
pub(super) fn in_words(findings: &[Finding]) -> String {
    let row = |finding: &Finding| {
        let verdict = match &finding.verdict {
            Verdict::Well => "well",
            Verdict::Note => "note",
            Verdict::Mend(_) => "MEND",
        };
        vec![verdict.into(), finding.place.clone(), finding.check.into(), finding.found.clone()]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let columns = [("", Align::Left), ("where", Align::Left), ("what", Align::Left), ("found", Align::Left)];
    let text = table(&columns, &rows);
    let mut lines = text.lines();
    let mut told = lines.next().map(|header| format!("{header}\n")).unwrap_or_default();
    for (line, finding) in lines.zip(findings) {
        told += &format!("{line}\n");
        if let Verdict::Mend(remedy) = &finding.verdict {
            told += &format!("      -> {remedy}\n");
        }
    }
    told
}
