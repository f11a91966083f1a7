//! Figures from the curves that `reproduce` prints: lines where the axis has numbers, bars where it has names or a single value; what is
//! published lies beside ours wherever somebody stated it.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::plot::{Line, Style, Styles, curves};
use crate::rows::Curve;
use serde::Serialize;

/// An experiment, drawn.
#[derive(Serialize)]
pub(crate) struct Figure {
    title: String,
    source: String,
    plots: Vec<String>,
}

/// All experiments of these curves, each with a plot a quantity and axis.
pub(crate) fn figures(all: &[Curve], styles: &Styles) -> Result<Vec<Figure>, ReportError> {
    let mut figures: Vec<Figure> = Vec::new();
    for experiment in all.chunk_by(|a, b| (&a.paper, &a.id) == (&b.paper, &b.id)) {
        let first = &experiment[0];
        let mut plots = Vec::new();
        let mut drawn: Vec<(&str, &str)> = Vec::new();
        for curve in experiment {
            let what = (curve.quantity.as_str(), curve.axis.as_str());
            if drawn.contains(&what) {
                continue;
            }
            drawn.push(what);
            let same: Vec<&Curve> = experiment
                .iter()
                .filter(|curve| (curve.quantity.as_str(), curve.axis.as_str()) == what)
                .collect();
            plots.push(plot(&first.title, &same, styles)?);
        }
        plots.retain(|plot| !plot.is_empty());
        let title = format!("{}/{}: {}", first.paper, first.id, first.title);
        figures.push(Figure { title, source: first.source.clone(), plots });
    }
    Ok(figures)
}

/// Whose style a curve has: its design's, where all have another one; else that of what it is compared with; else its own.
pub(crate) fn key<'a>(curve: &'a Curve, all: &[&Curve]) -> &'a str {
    let differ = |of: &dyn Fn(&Curve) -> Option<String>| {
        let mut keys: Vec<_> = all.iter().map(|curve| of(curve)).collect();
        keys.sort();
        keys.iter().all(Option::is_some) && keys.windows(2).all(|pair| pair[0] != pair[1])
    };
    match &curve.baseline {
        _ if differ(&|curve| Some(curve.design.clone())) => &curve.design,
        Some(baseline) if differ(&|curve| curve.baseline.clone()) => baseline,
        _ => &curve.label,
    }
}

fn plot(title: &str, all: &[&Curve], styles: &Styles) -> Result<String, ReportError> {
    let style = |curve: &Curve| styles.of(key(curve, all));
    let is_line =
        all.iter().all(|curve| curve.points.len() > 1 && curve.points.iter().all(|point| point.x.is_some()));
    if !is_line {
        let groups: Vec<BarGroup> = all.iter().map(|curve| group(curve, style(curve))).collect();
        return Ok(bars(title, &all[0].quantity, &groups));
    }
    let named = |curve: &Curve, of: &str| format!("{}{of}", curve.label.trim_end_matches(':'));
    let ours = all.iter().map(|curve| Line {
        name: named(curve, ""),
        points: curve.points.iter().filter_map(|point| Some((point.x?, point.ours?))).collect(),
        style: style(curve),
        ..Line::default()
    });
    let published = all.iter().map(|curve| Line {
        name: named(curve, ", published"),
        points: curve.points.iter().filter_map(|point| Some((point.x?, point.published?))).collect(),
        style: style(curve),
        ..Line::default()
    });
    let ours: Vec<Line> = ours.collect();
    let published: Vec<Line> = published.filter(|line| !line.points.is_empty()).collect();
    let mut svg = curves(title, [&all[0].axis, &all[0].quantity], &ours, &published)?;
    // What is published for all points together is no point of the lines.
    let summaries: Vec<BarGroup> = all.iter().filter_map(|curve| summary(curve, style(curve))).collect();
    svg.push_str(&bars(title, &all[0].quantity, &summaries));
    Ok(svg)
}

fn group(curve: &Curve, style: Style) -> BarGroup {
    let bar = |point: &crate::rows::CurvePoint| Bar {
        name: point.value.clone(),
        value: point.ours,
        published: point.published,
        style,
    };
    let mut bars: Vec<Bar> = curve.points.iter().map(bar).collect();
    bars.extend(summary(curve, style).into_iter().flat_map(|group| group.bars));
    BarGroup { name: format!("{} ({})", curve.label.trim_end_matches(':'), curve.kind), bars }
}

fn summary(curve: &Curve, style: Style) -> Option<BarGroup> {
    let summary = curve.summary.as_ref()?;
    let bar =
        Bar { name: summary.pick.clone(), value: summary.ours, published: Some(summary.published), style };
    Some(BarGroup {
        name: format!("{} ({})", curve.label.trim_end_matches(':'), curve.kind),
        bars: vec![bar],
    })
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page as page_of};

    fn curve(label: &str, design: &str, baseline: &str, axis: &str, points: &str, summary: &str) -> String {
        format!(
            r#"{{"paper":"cais","id":"fig","title":"a figure","source":"section V","label":"{label}","design":"{design}",
            "baseline":{baseline},"kind":"predicted","quantity":"speedup","axis":"{axis}","points":[{points}],
            "summary":{summary}}}"#
        )
    }

    fn point(value: &str, x: &str, ours: f64, published: &str) -> String {
        format!(r#"{{"value":"{value}","x":{x},"ours":{ours},"published":{published}}}"#)
    }

    fn page(curves: &[String]) -> String {
        let curves = curves.join(",");
        page_of(&output(&format!(r#"{{"schema":1,"command":"reproduce","rows":[],"curves":[{curves}]}}"#)))
    }

    #[test]
    fn an_axis_of_numbers_has_lines_and_published_points_where_somebody_stated_them() {
        let points = |published: &str| {
            let all = [(320, 0.9, published), (640, 0.95, "null"), (1280, 1.0, "null")].map(
                |(entries, ours, published)| {
                    point(&entries.to_string(), &entries.to_string(), ours, published)
                },
            );
            all.join(",")
        };
        let html = page(&[
            curve("with", "a", "null", "merge.entries", &points("0.95"), "null"),
            curve("without", "b", "null", "merge.entries", &points("null"), "null"),
        ]);
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(
            html.contains("merge.entries")
                && html.contains("with, published")
                && html.contains("fig: a figure")
        );
        // A hollow mark at the published point, and one in the legend.
        assert_eq!(html.matches("<circle").count(), 2);
        assert!(!html.contains("without, published"));
    }

    #[test]
    fn an_axis_of_names_has_bars_and_what_is_published_for_all_of_them_beside_their_mean() {
        let points = [point("llama-7b", "null", 1.9, "null"), point("mega-gpt-4b", "null", 1.7, "null")];
        let summary = r#"{"pick":"geometric mean","ours":1.797,"published":1.89}"#;
        let over = |label: &str, baseline: &str| {
            curve(label, "cais", &format!("\"{baseline}\""), "layer.model", &points.join(","), summary)
        };
        let html = page(&[over("over sp-nvls:", "sp-nvls"), over("over t3:", "t3")]);
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(
            html.contains("1.80 (published 1.89)") && html.contains(">over t3 (predicted)</text>"),
            "{html}"
        );
        // Two models and their mean, of each; what is compared with has a colour of its own.
        for colour in ["rgb(0,114,178)", "rgb(213,94,0)"] {
            assert_eq!(html.matches(&format!("fill=\"{colour}\"")).count(), 3, "{colour}");
        }
    }

    #[test]
    fn a_line_that_nobody_published_is_drawn_alone() {
        let points = [point("8", "8", 1.0, "null"), point("32", "32", 0.6, "null")];
        let html = page(&[curve("per GPU", "cais", "null", "accelerators", &points.join(","), "null")]);
        assert!(html.contains("<svg") && !html.contains("published</"), "{html}");
    }
}
