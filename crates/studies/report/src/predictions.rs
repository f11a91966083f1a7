//! Sections of `predict` and `plan`: what a model's step takes by each design; of a sweep over a number, lines over it.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::plot::{Line, Styles, curves};
use crate::rows::{Output, rows};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A row of `predict` or `plan`: keys of a sweep are beside what is said of each.
#[derive(Deserialize)]
struct Predicted {
    design: String,
    model: String,
    #[serde(flatten)]
    all: Map<String, Value>,
}

/// What is drawn and listed of a row, where it is there.
const QUANTITIES: [(&str, &str); 15] = [
    ("ttft_ms", "TTFT (ms)"),
    ("ttft_share", "share of network in TTFT"),
    ("tpot_ms", "TPOT (ms)"),
    ("tpot_share", "share of network in TPOT"),
    ("ttft_p50_ms", "TTFT, median (ms)"),
    ("ttft_p99_ms", "TTFT, 99 % (ms)"),
    ("tpot_p50_ms", "TPOT, median (ms)"),
    ("tpot_p99_ms", "TPOT, 99 % (ms)"),
    ("median_ttft_ms", "TTFT, median (ms)"),
    ("median_tpot_ms", "TPOT, median (ms)"),
    ("iteration_ms", "iteration (ms)"),
    ("iteration_s", "iteration (s)"),
    ("share", "share of network"),
    ("busy", "share of time with something to do"),
    ("tokens_per_second", "tokens a second"),
];

/// Texts that are no keys of a sweep.
const SAID: [&str; 5] = ["baseline", "prefill_computation", "decode_computation", "computation", "unit"];

/// One file's predictions.
#[derive(Serialize)]
pub(crate) struct Predictions {
    title: String,
    plots: Vec<String>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    words: Vec<String>,
}

pub(crate) fn predictions(name: &str, output: &Output, styles: &Styles) -> Result<Predictions, ReportError> {
    let rows = rows::<Predicted>(name, output)?;
    let model = rows.first().map_or("", |row| &row.model);
    let title = format!("{model}: {} ({name}.json)", output.command);
    let mut keys: Vec<&str> = Vec::new();
    for (key, value) in rows.iter().flat_map(|row| &row.all) {
        if value.is_string() && !SAID.contains(&&**key) && key != "verdict" && !keys.contains(&&**key) {
            keys.push(key);
        }
    }
    let number_of = |row: &Predicted, key: &str| row.all.get(key).and_then(Value::as_f64);
    let text_of =
        |row: &Predicted, key: &str| row.all.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let there: Vec<(&str, &str)> = QUANTITIES
        .into_iter()
        .filter(|(key, _)| rows.iter().any(|row| number_of(row, key).is_some()))
        .collect();
    let axis = keys.iter().find_map(|key| {
        Some((*key, numbers(&rows.iter().map(|row| text_of(row, key)).collect::<Vec<_>>())?))
    });
    let mut plots = Vec::new();
    for (quantity, what) in &there {
        match &axis {
            Some((key, (at, unit))) => {
                let others = |row: &Predicted| {
                    let rest = keys.iter().filter(|other| *other != key);
                    rest.map(|other| format!("{other}={}", text_of(row, other)))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let mut combinations: Vec<String> = Vec::new();
                rows.iter().map(others).for_each(|one| {
                    if !combinations.contains(&one) {
                        combinations.push(one)
                    }
                });
                let axis = if unit.is_empty() { (*key).to_owned() } else { format!("{key} ({unit})") };
                for combination in combinations {
                    let mut lines: Vec<Line> = Vec::new();
                    for (row, &x) in rows.iter().zip(at).filter(|(row, _)| others(row) == combination) {
                        let Some(y) = number_of(row, quantity) else { continue };
                        match lines.iter_mut().find(|line| line.name == row.design) {
                            Some(line) => line.points.push((x, y)),
                            None => lines.push(Line {
                                name: row.design.clone(),
                                points: vec![(x, y)],
                                style: styles.of(&row.design),
                                ..Line::default()
                            }),
                        }
                    }
                    let where_ = if combination.is_empty() {
                        title.clone()
                    } else {
                        format!("{combination}: {title}")
                    };
                    plots.push(curves(&where_, [&axis, what], &lines, &[])?);
                }
            }
            None => {
                let mut groups: Vec<BarGroup> = Vec::new();
                for row in &rows {
                    let name = keys
                        .iter()
                        .map(|key| format!("{key}={}", text_of(row, key)))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let bar = Bar {
                        name: row.design.clone(),
                        value: number_of(row, quantity),
                        published: None,
                        style: styles.of(&row.design),
                    };
                    match groups.iter_mut().find(|group| group.name == name) {
                        Some(group) => group.bars.push(bar),
                        None => groups.push(BarGroup { name, bars: vec![bar] }),
                    }
                }
                plots.push(bars(&title, what, &groups));
            }
        }
    }
    plots.retain(|plot| !plot.is_empty());
    let columns = keys.iter().copied().chain(["design"]).chain(there.iter().map(|(_, what)| *what));
    let cells = |row: &Predicted| {
        let named = keys.iter().map(|key| text_of(row, key)).chain([row.design.clone()]);
        let numbers = there
            .iter()
            .map(|(key, _)| number_of(row, key).map_or("-".into(), |number| format!("{number:.3}")));
        named.chain(numbers).collect()
    };
    let words = output.advice.iter().flat_map(|advice| advice.words.lines().map(str::to_owned)).collect();
    Ok(Predictions {
        title,
        plots,
        columns: columns.map(str::to_owned).collect(),
        rows: rows.iter().map(cells).collect(),
        words,
    })
}

/// The numbers that all of these texts begin with and the unit that follows in each, if there are at least two.
fn numbers(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let split = |text: &String| {
        let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
        Some((text[..end].parse::<f64>().ok()?, text[end..].to_owned()))
    };
    let all = texts.iter().map(split).collect::<Option<Vec<_>>>()?;
    let (first, unit) = all.first()?.clone();
    let is_axis =
        all.iter().all(|(_, other)| *other == unit) && all.iter().any(|(number, _)| *number != first);
    is_axis.then(|| (all.into_iter().map(|(number, _)| number).collect(), unit))
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page};

    fn row(design: &str, keys: &str, ttft: f64) -> String {
        format!(
            r#"{{"design":"{design}","model":"llama2-7b","baseline":"ring"{keys},"ttft_ms":{ttft},"exchanges":[]}}"#
        )
    }

    fn predicted(rows: &[String]) -> String {
        page(&output(&format!(r#"{{"schema":1,"command":"predict","rows":[{}]}}"#, rows.join(","))))
    }

    #[test]
    fn a_sweep_over_a_number_has_a_line_for_each_design_and_a_plot_for_each_value_of_the_other_key() {
        let mut rows = Vec::new();
        for products in ["fp16", "fp8"] {
            for (rate, time) in [("50GB/s", 4.0), ("100GB/s", 2.0)] {
                for design in ["ring", "scin"] {
                    let keys = format!(r#","products":"{products}","network.set.link.rate":"{rate}""#);
                    rows.push(row(design, &keys, time));
                }
            }
        }
        let html = predicted(&rows);
        assert_eq!(html.matches("<svg").count(), 2, "{html}");
        assert!(html.contains("network.set.link.rate (GB/s)") && html.contains("products=fp8: llama2-7b"));
        assert_eq!(html.matches("<td>scin</td>").count(), 4);
    }

    #[test]
    fn without_a_number_to_sweep_over_designs_have_bars() {
        let html = predicted(&[row("ring", "", 3.5), row("scin", "", 2.25)]);
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("TTFT (ms)") && html.contains("2.25") && !html.contains("TPOT"));
    }

    #[test]
    fn a_plan_is_told_in_words() {
        let row = r#"{"design":"scin","model":"llama2-7b","ttft_ms":3.5,"unit":"u"}"#;
        let text = format!(
            r#"{{"schema":1,"command":"plan","rows":[{row}],"advice":{{"words":"worth it: scin saves\nmuch"}}}}"#
        );
        let html = page(&output(&text));
        assert!(html.contains("<p>worth it: scin saves</p>") && html.contains("<p>much</p>"), "{html}");
    }
}
