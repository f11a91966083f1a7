//! Sections of `sim train`: how much faster, and where the time of an iteration goes.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::plot::Styles;
use crate::rows::{Output, Training, rows};
use serde::Serialize;

/// One file's iterations.
#[derive(Serialize)]
pub(crate) struct Trained {
    title: String,
    plots: Vec<String>,
    rows: Vec<Training>,
}

pub(crate) fn trained(name: &str, output: &Output, styles: &Styles) -> Result<Trained, ReportError> {
    let rows = rows::<Training>(name, output)?;
    let what = rows.first().map_or_else(String::new, |row| {
        format!("an iteration of {}, {} samples on each of {} ranks ", row.model, row.batch, row.ranks)
    });
    let title = format!("{what}({name}.json)");
    let bar = |row: &Training, name: &str, value| Bar {
        name: name.into(),
        value,
        published: None,
        style: styles.of(&row.design),
    };
    let baseline = rows.iter().find_map(|row| row.baseline.clone());
    let speedups = rows.iter().map(|row| bar(row, &row.design, row.speedup)).collect();
    let times = |row: &Training| {
        let parts = [
            ("computation", row.compute_us),
            ("communication", row.communication_us),
            ("of it hidden", row.hidden_us),
            ("iteration", row.time_us),
        ];
        let bars = parts.map(|(part, time)| bar(row, part, Some(time / 1e3)));
        BarGroup { name: row.design.clone(), bars: bars.into() }
    };
    let mut plots = Vec::new();
    if let Some(baseline) = baseline {
        let group = BarGroup { name: String::new(), bars: speedups };
        plots.push(bars(&title, &format!("speedup over {baseline}"), &[group]));
    }
    plots.push(bars(&title, "time (ms)", &rows.iter().map(times).collect::<Vec<_>>()));
    Ok(Trained { title, plots, rows })
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page};

    #[test]
    fn iterations_have_speedups_and_where_their_time_goes() {
        let row = |design: &str, speedup: f64| {
            format!(
                r#"{{"design":"{design}","model":"resnet-50","batch":32,"ranks":8,"time_us":90000.0,"compute_us":80000.0,
                "communication_us":30000.0,"hidden_us":20000.0,"samples_per_second":2844.4,"baseline":"ring","speedup":{speedup}}}"#
            )
        };
        let text = format!(
            r#"{{"schema":1,"command":"sim train","rows":[{},{}]}}"#,
            row("epic-3", 1.25),
            row("ring", 1.0)
        );
        let html = page(&output(&text));
        assert!(html.contains("an iteration of resnet-50, 32 samples on each of 8 ranks (run.json)"));
        assert!(html.contains("speedup over ring") && html.contains(">1.25</text>"));
        assert_eq!((html.matches("<svg").count(), html.matches(">of it hidden</text>").count()), (2, 2));
        assert!(html.contains("<td>2844.4</td>"));
    }
}
