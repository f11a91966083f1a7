//! How tokens choose their experts: by seed, or as a file says, a line of JSON for each token.
//!
//! ```text
//! {"rank": 0, "experts": [3, 17], "weights": [0.75, 0.25]}
//! ```
//!
//! `rank` is the accelerator that has the token; its tokens are in the order of their lines. Of more than the scenario's `tokens` the first are
//! taken. Weights travel as BF16.

use crate::ScenarioError;
use quincunx_collective::{GateKind, ParseNameError, Routing};
use serde::Deserialize;
use std::str::FromStr;

const LINE: &str = r#"{"rank": 0, "experts": [3, 17], "weights": [0.75, 0.25]}"#;

/// How tokens choose their experts.
#[derive(Clone, PartialEq, Debug)]
pub enum GateSource {
    /// By seed.
    Drawn(GateKind),
    /// As a file says.
    Written(Written),
}

/// What a file says.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    path: String,
    /// By accelerator and token; nothing before the file is read.
    pub tokens: Vec<Vec<Routing>>,
}

/// What the file's tokens must agree with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ranks: u16,
    pub(crate) experts: u16,
    pub(crate) top_k: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    rank: u16,
    experts: Vec<u16>,
    weights: Vec<f32>,
}

impl FromStr for GateSource {
    type Err = ParseNameError;

    /// A name, or a file: what has a dot or a slash.
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        if text.contains(['/', '.']) {
            return Ok(Self::Written(Written { path: text.into(), tokens: Vec::new() }));
        }
        let expected = "uniform, skewed, balanced, or a file such as gate.jsonl";
        text.parse().map(Self::Drawn).map_err(|error| ParseNameError { expected, ..error })
    }
}

impl Written {
    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read, or a line contradicts `shape` or itself.
    pub(crate) fn read(&mut self, shape: Shape) -> Result<(), ScenarioError> {
        let text = crate::read_text(&self.path).map_err(|error| ScenarioError::Unreadable {
            path: self.path.clone(),
            error: error.to_string(),
        })?;
        self.tokens = parse(&text, shape).map_err(|(line, [expected, found, remedy])| {
            ScenarioError::Line { path: self.path.clone(), line, expected, found, remedy }
        })?;
        Ok(())
    }
}

/// What is wrong with a line: what was expected, what was found and what to do.
type Wrong = [String; 3];

fn parse(text: &str, shape: Shape) -> Result<Vec<Vec<Routing>>, (usize, Wrong)> {
    let mut tokens = vec![Vec::new(); usize::from(shape.ranks)];
    for (number, line) in (1..).zip(text.lines()) {
        let (rank, routing) = token(line, shape).map_err(|wrong| (number, wrong))?;
        tokens[usize::from(rank)].push(routing);
    }
    if tokens.iter().all(Vec::is_empty) {
        return Err((1, ["a token at least", "none", "nothing would be dispatched"].map(String::from)));
    }
    Ok(tokens)
}

fn token(line: &str, Shape { ranks, experts: all, top_k }: Shape) -> Result<(u16, Routing), Wrong> {
    let Token { rank, experts, weights } = serde_json::from_str(line).map_err(|error| {
        let found = error.to_string().replace(" at line 1 column", " at column");
        [LINE.into(), found, "write one such line for each token".into()]
    })?;
    let twice = |(index, expert): &(usize, &u16)| experts[..*index].contains(expert);
    let wrong = if rank >= ranks {
        Some([
            format!("a `rank` below {ranks}"),
            rank.to_string(),
            "name an accelerator of the fabric".into(),
        ])
    } else if experts.len() != usize::from(top_k) {
        let expected = format!("{top_k} `experts`, the scenario's `top_k`");
        Some([expected, experts.len().to_string(), "set `top_k` to what the file has".into()])
    } else if let Some(expert) = experts.iter().find(|expert| **expert >= all) {
        Some([format!("`experts` below {all}"), expert.to_string(), "set `experts` to what there are".into()])
    } else if let Some((_, expert)) = experts.iter().enumerate().find(twice) {
        Some(["each expert once".into(), format!("{expert} twice"), "name another".into()])
    } else if weights.len() != experts.len() {
        let expected = format!("{} `weights`, one for each expert", experts.len());
        Some([expected, weights.len().to_string(), "name as many".into()])
    } else {
        let infinite = weights.iter().find(|weight| !weight.is_finite());
        infinite.map(|weight| ["finite `weights`".into(), weight.to_string(), "take smaller ones".into()])
    };
    match wrong {
        Some(wrong) => Err(wrong),
        None => Ok((rank, Routing::new(experts.into_iter().zip(weights)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { ranks: 4, experts: 8, top_k: 2 };

    /// What is said of a text.
    fn refused(text: &str) -> String {
        let (line, [expected, found, remedy]) = parse(text, SHAPE).unwrap_err();
        ScenarioError::Line { path: "gate.jsonl".into(), line, expected, found, remedy }.to_string()
    }

    #[test]
    fn each_line_is_a_token_of_its_accelerator() {
        let text = r#"{"rank": 2, "experts": [3, 7], "weights": [0.75, 0.25]}
{"rank": 0, "experts": [1, 0], "weights": [1, 0]}
{"rank": 2, "experts": [5, 4], "weights": [0.5, 0.5]}
"#;
        let tokens = parse(text, SHAPE).unwrap();
        assert_eq!(tokens[0], [Routing::new([(1, 1.0), (0, 0.0)])]);
        assert_eq!(tokens[2], [Routing::new([(3, 0.75), (7, 0.25)]), Routing::new([(5, 0.5), (4, 0.5)])]);
        assert!(tokens[1].is_empty() && tokens[3].is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_file_and_line() {
        let good = r#"{"rank": 0, "experts": [1, 2], "weights": [1, 1]}"#;
        for (line, named) in [
            ("0,1,2", "found invalid type: integer `0`"),
            (r#"{"rank": 0, "experts": [1, 2]}"#, "missing field `weights`"),
            (r#"{"rank": 0, "experts": [1, 2], "weights": [1, 1], "token": 3}"#, "unknown field `token`"),
            (r#"{"rank": 4, "experts": [1, 2], "weights": [1, 1]}"#, "expected a `rank` below 4, found 4"),
            (
                r#"{"rank": 0, "experts": [1], "weights": [1]}"#,
                "expected 2 `experts`, the scenario's `top_k`, found 1",
            ),
            (r#"{"rank": 0, "experts": [1, 8], "weights": [1, 1]}"#, "expected `experts` below 8, found 8"),
            (
                r#"{"rank": 0, "experts": [1, 1], "weights": [1, 1]}"#,
                "expected each expert once, found 1 twice",
            ),
            (r#"{"rank": 0, "experts": [1, 2], "weights": [1]}"#, "expected 2 `weights`"),
            (r#"{"rank": 0, "experts": [1, 2], "weights": [1, 1e99]}"#, "found inf"),
            ("", "found EOF"),
        ] {
            let message = refused(&format!("{good}\n{line}\n{good}"));
            assert!(message.starts_with("gate.jsonl:2: expected "), "{message}");
            assert!(message.contains(named) && !message.contains('\n'), "{message}");
        }
        assert_eq!(
            refused(""),
            "gate.jsonl:1: expected a token at least, found none; nothing would be dispatched"
        );
    }

    #[test]
    fn a_gate_is_a_name_or_a_file() {
        assert_eq!("skewed".parse(), Ok(GateSource::Drawn(GateKind::Skewed)));
        assert!(matches!("routing/layer3.jsonl".parse(), Ok(GateSource::Written(_))));
        let error = "even".parse::<GateSource>().unwrap_err().to_string();
        assert!(error.ends_with("or a file such as gate.jsonl, found \"even\""), "{error}");
    }
}
