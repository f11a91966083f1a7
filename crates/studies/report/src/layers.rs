//! Sections of `sim layer`: how much faster, and what links, SMs and merging tables did over time.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::plot::{Line, Styles, numbered, over_time, utilisation};
use crate::rows::{Layer, Output, SubLayer, rows};
use serde::Serialize;

/// One file's layers.
#[derive(Serialize)]
pub(crate) struct Layers {
    title: String,
    plots: Vec<String>,
    rows: Vec<Layer>,
    sub_layers: Vec<Section>,
}

/// A sub-layer by all designs.
#[derive(Serialize)]
struct Section {
    title: String,
    plots: Vec<String>,
    /// What is for those who want to know more: SMs by kernel, a design at a time.
    details: Vec<String>,
}

pub(crate) fn layers(name: &str, output: &Output, styles: &Styles) -> Result<Layers, ReportError> {
    let rows = rows::<Layer>(name, output)?;
    let what = rows.first().map_or_else(String::new, |Layer { model, part, ranks, fabric, .. }| {
        let part = if part.is_empty() { String::new() } else { format!(", {part}") };
        let fabric = if fabric.is_empty() { String::new() } else { format!(" of {fabric}") };
        format!("{model}{part} on {ranks} accelerators{fabric} ")
    });
    let title = format!("{what}({name}.json)");
    let mut names: Vec<&str> = Vec::new();
    for part in rows.iter().flat_map(|row| &row.sub_layers) {
        if !names.contains(&part.sub_layer.as_str()) {
            names.push(&part.sub_layer);
        }
    }
    let sub_layers = names.iter().map(|part| section(part, &rows, styles)).collect::<Result<_, _>>()?;
    let bar = |row: &Layer, value| Bar {
        name: row.design.clone(),
        value,
        published: None,
        style: styles.of(&row.design),
    };
    let mut plots = Vec::new();
    match rows.iter().find_map(|row| row.baseline.clone()) {
        Some(baseline) => {
            let all = rows.iter().map(|row| bar(row, row.speedup)).collect();
            let mut groups = vec![BarGroup { name: "all of it".into(), bars: all }];
            if names.len() > 1 {
                groups.extend(
                    names.iter().map(|&name| BarGroup {
                        name: name.into(),
                        bars: rows
                            .iter()
                            .map(|row| bar(row, of(row, name).and_then(|part| part.speedup)))
                            .collect(),
                    }),
                );
            } else {
                groups[0].name.clear();
            }
            plots.push(bars(&title, &format!("speedup over {baseline}"), &groups));
        }
        // Not all designs ran to their end, and there is nothing to compare them with.
        None => {
            let all = rows.iter().map(|row| bar(row, Some(row.time_us))).collect();
            plots.push(bars(&title, "time (us)", &[BarGroup { name: String::new(), bars: all }]));
        }
    }
    Ok(Layers { title, plots, rows, sub_layers })
}

fn of<'a>(row: &'a Layer, name: &str) -> Option<&'a SubLayer> {
    row.sub_layers.iter().find(|part| part.sub_layer == name)
}

/// Bins as points at their middles; those without a value are left out.
fn points(bin: f64, values: impl IntoIterator<Item = Option<f64>>) -> Vec<(f64, f64)> {
    let place = |(bin_number, value): (usize, Option<f64>)| Some(((bin_number as f64 + 0.5) * bin, value?));
    values.into_iter().enumerate().filter_map(place).collect()
}

fn section(name: &str, rows: &[Layer], styles: &Styles) -> Result<Section, ReportError> {
    let lines = |values: &dyn Fn(&SubLayer) -> Vec<Option<f64>>| -> Vec<Line> {
        let line = |row: &Layer| {
            let part = of(row, name)?;
            let points = points(part.bin_us, values(part));
            (!points.is_empty()).then(|| Line {
                name: row.design.clone(),
                points,
                style: styles.of(&row.design),
                ..Line::default()
            })
        };
        rows.iter().filter_map(line).collect()
    };
    let all = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let links = lines(&|part| {
        let ways = part.uplinks_over_time.iter().zip(&part.downlinks_over_time);
        ways.map(|(up, down)| Some((up + down) / 2.0)).collect()
    });
    let sms = lines(&|part| {
        let bins = part.sms_over_time.values().map(Vec::len).max().unwrap_or(0);
        let at = |bin: usize| part.sms_over_time.values().filter_map(|values| values.get(bin)).sum();
        (0..bins).map(at).map(Some).collect()
    });
    let titled = |what: &str| format!("{name}: {what}");
    let plots = [
        utilisation(&titled("links, the mean of both directions"), &links)?,
        utilisation(&titled("links to switches"), &lines(&|part| all(&part.uplinks_over_time)))?,
        utilisation(&titled("links from switches"), &lines(&|part| all(&part.downlinks_over_time)))?,
        over_time(&titled("SMs of an accelerator that compute"), "SMs", &sms)?,
        over_time(
            &titled("the fullest port's merging table"),
            "entries",
            &lines(&|part| all(&part.table_fullest_over_time)),
        )?,
        over_time(
            &titled("merging tables, the mean of all ports"),
            "entries",
            &lines(&|part| all(&part.table_mean_over_time)),
        )?,
        over_time(
            &titled("requests that wait in a port's table, the mean of all ports"),
            "requests",
            &lines(&|part| all(&part.waiting_over_time)),
        )?,
        over_time(
            &titled("mean wait from the first to the last request"),
            "wait (us)",
            &lines(&|part| part.wait_us_over_time.clone()),
        )?,
    ];
    let kernels = |row: &Layer| {
        let part = of(row, name)?;
        let line = |(kernel, values): (&String, &Vec<f64>)| Line {
            name: kernel.clone(),
            points: points(part.bin_us, all(values)),
            ..Line::default()
        };
        let lines = numbered(part.sms_over_time.iter().map(line).collect());
        Some(over_time(&titled(&format!("{}, SMs by kernel", row.design)), "SMs", &lines))
    };
    let details = rows.iter().filter_map(kernels).collect::<Result<Vec<_>, _>>()?;
    let drawn = |plots: Vec<String>| plots.into_iter().filter(|plot| !plot.is_empty()).collect();
    Ok(Section { title: name.into(), plots: drawn(plots.into()), details: drawn(details) })
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page as page_of};

    const BINS: &str = r#""bin_us":4.0,"uplinks_over_time":[0.5,1.0,0.25],"downlinks_over_time":[0.5,0.5,0.5],
        "sms_over_time":{"product 1":[60.0,30.0,0.0],"product 2":[0.0,30.0,60.0]}"#;
    const TABLES: &str = r#""table_mean_over_time":[1.0,5.0,2.0],"table_fullest_over_time":[9.0,12.0,3.0],
        "waiting_over_time":[2.0,7.0,1.0],"wait_us_over_time":[null,0.25,0.5]"#;

    fn row(design: &str, speedup: &str, bins: &str, parts: &[&str]) -> String {
        let part = |name: &&str| {
            format!(
                r#"{{"sub_layer":"{name}","time_us":250.0,"speedup":{speedup},"sm_utilisation":0.6,
                "uplink_utilisation":0.5,"downlink_utilisation":0.5,{bins}}}"#
            )
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        format!(
            r#"{{"design":"{design}","model":"a-model","ranks":8,"part":"L2","fabric":"a-fabric","time_us":250.0,
            "outside_us":0.0,"peak_table_bytes":40448,"mean_table_bytes":9000.5,"mean_wait_us":0.25,"baseline":"t3",
            "speedup":{speedup},"sub_layers":[{}]}}"#,
            parts.join(",")
        )
    }

    fn page(rows: &[String]) -> String {
        page_of(&output(&format!(r#"{{"schema":1,"command":"sim layer","rows":[{}]}}"#, rows.join(","))))
    }

    #[test]
    fn a_layer_is_titled_by_what_was_run_and_drawn_over_time() {
        let merging = format!("{BINS},{TABLES}");
        let html = page(&[row("cais", "1.5", &merging, &["L2"]), row("t3", "1.0", BINS, &["L2"])]);
        assert!(html.contains("a-model, L2 on 8 accelerators of a-fabric (run.json)"), "{html}");
        // Speedups; links and both ways of them, SMs; tables, requests that wait, waits; SMs by kernel of each design.
        assert_eq!(html.matches("<svg").count(), 1 + 4 + 4 + 2);
        for shown in ["speedup over t3", "fullest port", "requests that wait", "product 2", "39.5"] {
            assert!(html.contains(shown), "{shown}");
        }
    }

    #[test]
    fn a_design_has_one_colour_in_all_plots() {
        let html =
            page(&[row("first", "1.5", BINS, &["L1", "L2"]), row("second", "1.0", BINS, &["L1", "L2"])]);
        // Its bars, of all and of each sub-layer, and its lines.
        let second = "rgb(213,94,0)";
        assert_eq!(html.matches(&format!("fill=\"{second}\"")).count(), 3);
        assert!(html.contains("#D55E00"), "lines have the same colour in other words");
        assert_eq!(html.matches(">L1</text>").count(), 1, "speedups of each sub-layer");
    }

    #[test]
    fn without_a_baseline_there_are_times_instead_of_speedups() {
        let rows = [row("cais", "null", BINS, &["L2"]).replace("\"t3\"", "null")];
        let html = page(&rows);
        assert!(html.contains(">time (us)</text>") && !html.contains("speedup over"), "{html}");
    }
}
