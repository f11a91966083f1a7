//! A heat map as SVG: a row for each name, and the darker a part of time is, the more of it was used.

use crate::bars::{escaped, text};
use crate::gantt::{label, step, unit};
use std::fmt::Write;

/// A row: what it is, and the share of it in each part, between 0 and 1.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) shares: &'a [f64],
}

/// Pixels: of the page, of names, of what is right of the parts, of a row.
const WIDTH: f64 = 880.0;
const NAMES: f64 = 210.0;
const RIGHT: f64 = 30.0;
const ROW: f64 = 14.0;

/// So many shades are told apart.
const SHADES: u8 = 20;

/// Draws them, each part of so many microseconds; nothing if there is no row.
pub(crate) fn heat(title: &str, part: f64, rows: &[Row<'_>]) -> String {
    let parts = rows.iter().map(|row| row.shares.len()).max().unwrap_or(0);
    if parts == 0 {
        return String::new();
    }
    let width = (WIDTH - NAMES - RIGHT) / parts as f64;
    let bottom = 34.0 + ROW * rows.len() as f64;
    let mut body = String::new();
    for (row, number) in rows.iter().zip(0_u32..) {
        let y = 34.0 + ROW * f64::from(number);
        text(&mut body, (NAMES - 6.0, y + 11.0), "end", " font-size=\"11\"", &escaped(row.name));
        let mut from = 0;
        for same in row.shares.chunk_by(|one, other| shade(*one) == shade(*other)) {
            if shade(same[0]) > 0 {
                let (x, long) = (NAMES + width * f64::from(from), width * same.len() as f64);
                let colour = colour(shade(same[0]));
                let _ = write!(
                    body,
                    "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{long:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                    ROW - 1.0
                );
            }
            from += same.len() as u32;
        }
    }
    let last = part * parts as f64;
    let (step, (unit, name)) = (step(last), unit(last));
    for mark in 0..=(last / step) as u32 {
        let at = f64::from(mark) * step;
        let x = NAMES + at / last * (WIDTH - NAMES - RIGHT);
        text(&mut body, (x, bottom + 14.0), "middle", "", &label(at / unit));
    }
    text(&mut body, (NAMES, bottom + 32.0), "start", "", &format!("time ({name})"));
    let x = WIDTH - RIGHT - 2.0 * f64::from(SHADES + 1) * 3.0;
    text(&mut body, (x - 6.0, bottom + 32.0), "end", "", "0");
    for shade in 0..=SHADES {
        let x = x + 6.0 * f64::from(shade);
        let colour = colour(shade);
        let y = bottom + 23.0;
        let _ = write!(body, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"6\" height=\"10\" fill=\"{colour}\"/>");
    }
    text(&mut body, (WIDTH - RIGHT + 4.0, bottom + 32.0), "start", "", "1");
    let (height, title) = (bottom + 42.0, escaped(title));
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\
         <text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"15\">{title}</text>{body}</svg>",
        WIDTH / 2.0
    )
}

/// Which shade a share has: what is used at all has one.
fn shade(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * f64::from(SHADES)).ceil() as u8
}

/// From nearly white to dark blue: one hue, so that it prints.
fn colour(shade: u8) -> String {
    let dark = f64::from(shade) / f64::from(SHADES);
    let [red, green, blue] = [(235.0, 8.0), (243.0, 48.0), (251.0, 107.0)]
        .map(|(light, full): (f64, f64)| (light + (full - light) * dark).round());
    format!("rgb({red},{green},{blue})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_shade_are_one_bar_and_what_is_unused_has_none() {
        let rows =
            [Row { name: "<a>", shares: &[0.5, 0.49, 0.0, 1.0] }, Row { name: "b", shares: &[0.0, 0.001] }];
        let svg = heat("links", 10.0, &rows);
        let bars = svg.matches("height=\"13\"").count();
        assert_eq!(bars, 3);
        // 640 pixels for four parts, of which the first two are one bar.
        assert!(svg.contains("x=\"210.0\" y=\"34\" width=\"320.0\""), "{svg}");
        assert!(
            svg.contains("x=\"690.0\" y=\"34\" width=\"160.0\" height=\"13\" fill=\"rgb(8,48,107)\""),
            "{svg}"
        );
        assert!(svg.contains("&lt;a&gt;") && svg.contains("time (us)"), "{svg}");
        assert_eq!(heat("none", 10.0, &[]), "");
    }

    #[test]
    fn more_is_darker() {
        let shades: Vec<String> = (0..=SHADES).map(colour).collect();
        assert_eq!([shades[0].as_str(), &shades[20]], ["rgb(235,243,251)", "rgb(8,48,107)"]);
        assert_eq!([0.0, 0.01, 0.05, 0.051, 1.0, 1.2].map(shade), [0, 1, 1, 2, 20, 20]);
    }
}
