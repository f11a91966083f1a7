//! Bars over time as SVG: a row a job, a bar for each time that it ran.

use crate::bars::{escaped, text};
use crate::plot::Style;
use std::fmt::Write;

/// A row.
pub(crate) struct Lane {
    pub(crate) name: String,
    /// What stands behind its last bar.
    pub(crate) remark: String,
    /// From when to when, in microseconds.
    pub(crate) spans: Vec<[f64; 2]>,
    pub(crate) style: Style,
}

/// Pixels: of the page, of names and remarks, of a row and of its bar.
const WIDTH: f64 = 880.0;
const NAMES: f64 = 210.0;
const REMARKS: f64 = 130.0;
const ROW: f64 = 20.0;
const BAR: f64 = 12.0;

/// Between two marks of the axis, at least so many of the whole.
const MARKS: f64 = 8.0;

/// Draws them; nothing if no time passes.
pub(crate) fn gantt(title: &str, lanes: &[Lane]) -> String {
    let last = lanes.iter().flat_map(|lane| &lane.spans).map(|span| span[1]).fold(0.0, f64::max);
    if last <= 0.0 {
        return String::new();
    }
    let across = |time: f64| NAMES + time.max(0.0) / last * (WIDTH - NAMES - REMARKS);
    let bottom = 34.0 + ROW * lanes.len() as f64;
    let mut body = String::new();
    let (step, (unit, name)) = (step(last), unit(last));
    for mark in 0..=(last / step) as u32 {
        let x = across(f64::from(mark) * step);
        let _ = write!(
            body,
            "<line x1=\"{x:.1}\" y1=\"30\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"rgb(225,225,225)\"/>"
        );
        text(&mut body, (x, bottom + 14.0), "middle", "", &label(f64::from(mark) * step / unit));
    }
    for (lane, row) in lanes.iter().zip(0_u32..) {
        let y = 34.0 + ROW * f64::from(row);
        text(&mut body, (NAMES - 6.0, y + 10.0), "end", "", &escaped(&lane.name));
        let colour = lane.style.colour();
        for &[from, to] in &lane.spans {
            let (x, width) = (across(from), (across(to) - across(from)).max(1.0));
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"rgb({},{},{})\" stroke=\"white\"/>",
                colour.0, colour.1, colour.2
            );
        }
        let end = lane.spans.iter().map(|span| span[1]).fold(0.0, f64::max);
        text(&mut body, (across(end) + 6.0, y + 10.0), "start", "", &escaped(&lane.remark));
    }
    text(&mut body, (NAMES, bottom + 32.0), "start", "", &format!("time ({name})"));
    let (height, title) = (bottom + 42.0, escaped(title));
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\
         <text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"15\">{title}</text>{body}</svg>",
        WIDTH / 2.0
    )
}

/// A unit of time in which the last mark has few digits: how many microseconds it has, and its name.
pub(crate) fn unit(last: f64) -> (f64, &'static str) {
    match last {
        long if long >= 1e6 => (1e6, "s"),
        long if long >= 1e4 => (1e3, "ms"),
        _ => (1.0, "us"),
    }
}

/// A mark's number.
pub(crate) fn label(value: f64) -> String {
    // Steps are round, but not their multiples in binary.
    ((value * 1e6).round() / 1e6).to_string()
}

/// A round step that gives the axis no more marks than there is room for.
pub(crate) fn step(last: f64) -> f64 {
    let power = 10_f64.powf((last / MARKS).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| last / step <= MARKS)
        .unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_a_bar_for_each_time_that_it_ran_where_that_was() {
        let lane = |name: &str, spans| Lane {
            name: name.into(),
            remark: String::new(),
            spans,
            style: Style::default(),
        };
        let svg =
            gantt("jobs", &[lane("a", vec![[0.0, 10.0], [10.0, 20.0]]), lane("<b>", vec![[30.0, 40.0]])]);
        assert_eq!(svg.matches("stroke=\"white\"").count(), 3);
        // 540 pixels for 40 us.
        assert!(svg.contains("x=\"345.0\" y=\"34.0\" width=\"135.0\""), "{svg}");
        assert!(svg.contains("x=\"615.0\" y=\"54.0\" width=\"135.0\""), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains(">40</text>"), "{svg}");
        assert_eq!(gantt("none", &[lane("a", vec![[0.0, 0.0]])]), "");
    }

    #[test]
    fn marks_are_at_round_times() {
        assert_eq!([40.0, 95.0, 1234.0, 0.7].map(step), [5.0, 20.0, 200.0, 0.1]);
        assert_eq!(label(3.0 * 0.1), "0.3");
    }

    #[test]
    fn long_times_are_in_longer_units() {
        assert_eq!([40.0, 25_000.0, 3e6].map(|last| unit(last).1), ["us", "ms", "s"]);
    }
}
