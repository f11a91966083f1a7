//! Published figures are what the papers' texts state: `data/papers` has the lines, and `tools/papers.py` finds them in the texts.

use quincunx_scenario::{Elsewhere, Experiment};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A line of a paper that states figures of an experiment.
struct Line {
    id: String,
    /// Figures that the line has in other digits, or in words.
    written: Vec<Written>,
    quote: String,
}

/// How a line has a figure.
struct Written {
    /// The figure; all of the experiment's if there is none.
    figure: Option<f64>,
    /// A part of the quote.
    text: String,
    /// Whether the text is the same number, in another unit or as a fraction. Else ours is worked out from it, and a note says how.
    is_number: bool,
}

/// A number in a text, and whether it is of a hundred.
type Number = (f64, bool);

fn root() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.filter(|folder| folder.join("data/papers").is_dir()).last().expect("the repository").to_owned()
}

fn lines(paper: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(root().join("data/papers").join(format!("{paper}.tsv"))).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn line(text: &str) -> Line {
    let columns: Vec<&str> = text.split('\t').collect();
    let &[id, figures, quote] = &columns[..] else { panic!("three columns: {text}") };
    let written = figures.split("; ").filter(|part| !part.is_empty()).map(written).collect();
    Line { id: id.into(), written, quote: quote.into() }
}

fn written(part: &str) -> Written {
    let at = part.find(['=', '~']).expect("FIGURE=NUMBER or FIGURE~WORDS");
    let (figure, text) = (&part[..at], &part[at + 1..]);
    let figure = (figure != "*").then(|| figure.parse().expect("a figure"));
    Written { figure, text: text.into(), is_number: part[at..].starts_with('=') }
}

fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        rest = &rest[start..];
        let mut end =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let exponent = rest[end..].strip_prefix('E').map_or("", |after| {
            &after[..after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len())]
        });
        if !exponent.is_empty() {
            end += 1 + exponent.len();
        }
        let number = rest[..end].trim_end_matches('.').parse().expect("a number");
        rest = &rest[end..];
        found.push((number, rest.starts_with('%') || rest.starts_with("\\%")));
    }
    found
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn says((number, is_percent): Number, figure: f64) -> bool {
    is_near(number, figure) || is_percent && is_near(number / 100.0, figure)
}

/// Whether a text of a number, with a unit or as a fraction, is the figure.
fn is_number(text: &str, figure: f64) -> bool {
    let numbers = numbers(text);
    if let (&[(a, _), (b, _)], true) = (&numbers[..], text.contains('/')) {
        return (a / b - figure).abs() < 5e-4;
    }
    let &[(number, _)] = &numbers[..] else { return false };
    [1e-3, 1.0, 1e3].iter().any(|unit| is_near(number * unit, figure))
}

/// Which of `lines` have the figures of a table's row, each as it is written or one beside the other; none if a figure is in no line.
fn backed(lines: &[&Line], figures: &[f64]) -> Option<BTreeSet<usize>> {
    let mut used = BTreeSet::new();
    let is_written = |line: &Line, figure: f64| {
        line.written.iter().any(|written| written.figure.is_none_or(|other| is_near(other, figure)))
    };
    let mut plain: Vec<f64> = Vec::new();
    for &figure in figures {
        let found: Vec<usize> = (0..lines.len()).filter(|&place| is_written(lines[place], figure)).collect();
        if found.is_empty() && plain.last() != Some(&figure) {
            plain.push(figure);
        }
        used.extend(found);
    }
    let in_a_row = |line: &&Line| {
        let mut numbers = numbers(&line.quote);
        numbers.dedup();
        numbers
            .windows(plain.len())
            .any(|run| run.iter().zip(&plain).all(|(&number, &figure)| says(number, figure)))
    };
    if plain.is_empty() {
        return Some(used);
    }
    // Two lines of a table may have the same figures.
    let rows: Vec<usize> = (0..lines.len()).filter(|&place| in_a_row(&lines[place])).collect();
    if !rows.is_empty() {
        used.extend(rows);
        return Some(used);
    }
    // Each in a line of its own, in the order of lines.
    let mut place = 0;
    for figure in plain {
        let has = |line: &&Line| numbers(&line.quote).into_iter().any(|number| says(number, figure));
        place += lines[place..].iter().position(has)? + 1;
        used.insert(place - 1);
    }
    Some(used)
}

/// Rows of figures below a file's `published`.
fn rows(value: &Value) -> Vec<Vec<f64>> {
    let number = |value: &Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    match value {
        Value::Table(table) => table.values().flat_map(rows).collect(),
        Value::Array(array) => vec![array.iter().map(|value| number(value).unwrap()).collect()],
        value => vec![vec![number(value).unwrap()]],
    }
}

/// What is asked of an experiment: the rows of figures that are the paper's and have digits, and whether a note explains them.
struct Claim {
    paper: String,
    id: String,
    rows: Vec<Vec<f64>>,
    has_note: bool,
}

fn claims() -> Vec<Claim> {
    let here = Experiment::find("").unwrap().into_iter().map(|experiment| {
        let counted = experiment.series.iter().filter(|series| series.kind.is_counted());
        Claim {
            rows: counted.clone().map(|series| series.published.clone()).collect(),
            has_note: experiment.note.is_some() || counted.clone().all(|series| series.note.is_some()),
            paper: experiment.paper,
            id: experiment.id,
        }
    });
    let elsewhere = Elsewhere::find("").unwrap().into_iter().map(|Elsewhere { paper, id, .. }| {
        let file = root().join(format!("experiments/{paper}/{id}.toml"));
        let table: Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
        Claim { rows: rows(&table["published"]), has_note: true, paper, id }
    });
    here.chain(elsewhere).filter(|claim| !claim.rows.is_empty()).collect()
}

#[test]
fn each_figure_that_is_the_papers_is_in_a_line_of_its_text() {
    let mut faults = Vec::new();
    for Claim { paper, id, rows, .. } in claims() {
        let all = lines(&paper);
        let of: Vec<&Line> = all.iter().filter(|line| line.id == id).collect();
        if of.is_empty() {
            faults.push(format!("{paper}/{id} has no line"));
        }
        let missing = rows.iter().filter(|row| backed(&of, row).is_none());
        faults.extend(missing.map(|row| format!("{paper}/{id}: {row:?} are in no line")));
    }
    assert!(faults.is_empty(), "expected each figure in data/papers/PAPER.tsv:\n{}", faults.join("\n"));
}

#[test]
fn each_line_of_a_paper_states_a_figure() {
    let claims = claims();
    for paper in ["ars", "cais", "epic", "multiwrite", "scin"] {
        let all = lines(paper);
        for id in all.iter().map(|line| &line.id).collect::<BTreeSet<_>>() {
            let claim = claims.iter().find(|claim| claim.paper == paper && claim.id == *id);
            let rows = &claim.unwrap_or_else(|| panic!("{paper}/{id} has a line and no figures")).rows;
            let of: Vec<&Line> = all.iter().filter(|line| line.id == *id).collect();
            let used: BTreeSet<usize> = rows.iter().filter_map(|row| backed(&of, row)).flatten().collect();
            let is_formula = rows.iter().all(Vec::is_empty);
            for (place, line) in of.iter().enumerate() {
                assert!(is_formula || used.contains(&place), "{paper}/{id}: nothing is in {}", line.quote);
            }
        }
    }
}

#[test]
fn what_is_written_otherwise_is_in_the_line_and_the_same_number_or_explained() {
    for claim in claims() {
        for line in lines(&claim.paper).iter().filter(|line| line.id == claim.id) {
            for Written { figure, text, is_number: same } in &line.written {
                assert!(line.quote.contains(text), "{}/{}: {text}", claim.paper, claim.id);
                assert!(
                    claim.has_note || *same,
                    "{}/{}: no note says how {text} is meant",
                    claim.paper,
                    claim.id
                );
                assert!(
                    !same || figure.is_some_and(|figure| is_number(text, figure)),
                    "{}: {text}",
                    claim.id
                );
                let is_one = |figure| claim.rows.iter().flatten().any(|&one| is_near(one, figure));
                assert!(figure.is_none_or(is_one), "{}/{}: {figure:?}", claim.paper, claim.id);
            }
        }
    }
}

#[test]
fn what_is_ours_says_so_in_a_note() {
    for experiment in Experiment::find("").unwrap() {
        for series in experiment.series.iter().filter(|series| !series.kind.is_counted()) {
            let has_note = experiment.note.is_some() || series.note.is_some();
            assert!(has_note, "{}/{}: {:?}", experiment.paper, experiment.id, series.label);
        }
    }
}

#[test]
fn a_figure_that_no_line_states_is_noticed() {
    let [row, time] = ["t\t\tEPIC-II 6.10 20.35 88.30", "t\t2270=2.27 ms\tand 2.27 ms for 16MB"].map(line);
    let lines = [&row, &time];
    assert_eq!(backed(&lines, &[6.1, 20.35]), Some(BTreeSet::from([0])));
    assert_eq!(backed(&lines, &[2270.0]), Some(BTreeSet::from([1])));
    assert_eq!(
        backed(&lines, &[6.1, 88.3, 20.35]),
        None,
        "figures of a row stand side by side, or in lines of their own"
    );
    assert_eq!(backed(&lines, &[6.11]), None);
    assert!(is_number("2.27 ms", 2270.0) && !is_number("2.27 ms", 2280.0) && is_number("2/3", 0.667));
    assert_eq!(numbers("6.18% of 2E5, v1."), [(6.18, true), (2e5, false), (1.0, false)]);
}
