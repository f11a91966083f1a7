//! Horizontal bars as SVG: groups of values with their names and numbers, and what is published as a line across its bar. Long names of
//! systems have room, and the page needs no more width for more of them.

use crate::plot::Style;
use std::fmt::Write;

/// A value.
pub(crate) struct Bar {
    pub(crate) name: String,
    /// Ours; none if there is none.
    pub(crate) value: Option<f64>,
    /// As published, where somebody did.
    pub(crate) published: Option<f64>,
    pub(crate) style: Style,
}

/// Values that belong together.
pub(crate) struct BarGroup {
    /// Empty if its bars say everything.
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

/// Pixels: of the page, of names, of numbers behind bars, of a row and of its bar.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 210.0;
const NUMBERS: f64 = 150.0;
const ROW: f64 = 18.0;
const BAR: f64 = 12.0;

/// Draws them; nothing if no value is above zero.
pub(crate) fn bars(title: &str, quantity: &str, groups: &[BarGroup]) -> String {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let values = all().flat_map(|bar| bar.value.into_iter().chain(bar.published));
    let top = values.fold(0.0, f64::max);
    if top <= 0.0 {
        return String::new();
    }
    let room = WIDTH - NAMES - NUMBERS;
    let across = |value: f64| value.max(0.0) / top * room;
    let (mut body, mut y) = (String::new(), 34.0);
    for group in groups {
        if !group.name.is_empty() {
            let name = escaped(&group.name);
            text(&mut body, (8.0, y + 12.0), "start", " font-weight=\"600\"", &name);
            y += ROW;
        }
        for bar in &group.bars {
            text(&mut body, (NAMES - 6.0, y + 10.0), "end", "", &escaped(&bar.name));
            if let Some(value) = bar.value {
                let (red, green, blue) = (bar.style.colour().0, bar.style.colour().1, bar.style.colour().2);
                let width = across(value);
                let _ = write!(
                    body,
                    "<rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"rgb({red},{green},{blue})\"/>"
                );
            }
            if let Some(published) = bar.published {
                let x = NAMES + across(published);
                let (from, to) = (y - 2.0, y + BAR + 2.0);
                let _ = write!(
                    body,
                    "<line x1=\"{x:.1}\" y1=\"{from:.1}\" x2=\"{x:.1}\" y2=\"{to:.1}\" stroke=\"black\" stroke-width=\"2\"/>"
                );
            }
            let numbers = match (bar.value.map(number), bar.published.map(number)) {
                (Some(ours), Some(published)) => format!("{ours} (published {published})"),
                (Some(ours), None) => ours,
                (None, Some(published)) => format!("- (published {published})"),
                (None, None) => "-".into(),
            };
            let furthest = bar.value.into_iter().chain(bar.published).fold(0.0, f64::max);
            text(&mut body, (NAMES + across(furthest) + 6.0, y + 10.0), "start", "", &numbers);
            y += ROW;
        }
        y += 6.0;
    }
    let bottom = y - 4.0;
    let _ = write!(
        body,
        "<line x1=\"{NAMES}\" y1=\"30\" x2=\"{NAMES}\" y2=\"{bottom:.1}\" stroke=\"rgb(120,120,120)\"/>"
    );
    let legend = if all().any(|bar| bar.published.is_some()) { "; the line: published" } else { "" };
    text(&mut body, (NAMES, y + 10.0), "start", "", &format!("{}{legend}", escaped(quantity)));
    let height = y + 20.0;
    let title = escaped(title);
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\
         <text x=\"{}\" y=\"20\" text-anchor=\"middle\" font-size=\"15\">{title}</text>{body}</svg>",
        WIDTH / 2.0
    )
}

pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, text: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{more}>{text}</text>");
}

/// A number with three digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        some if some >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: Option<f64>, published: Option<f64>) -> Bar {
        Bar { name: name.into(), value, published, style: Style::default() }
    }

    #[test]
    fn a_value_is_as_long_as_it_is_large_and_what_is_published_lies_across_it() {
        let group = BarGroup { name: "all".into(), bars: vec![bar("ours", Some(1.0), Some(2.0))] };
        let svg = bars("speed", "speedup", &[group]);
        assert!(svg.contains("width=\"180.0\" height=\"12\""), "half of the room: {svg}");
        assert!(svg.contains("x1=\"570.0\"") && svg.contains("1.00 (published 2.00)"), "{svg}");
    }

    #[test]
    fn what_was_not_measured_has_its_name_and_no_bar() {
        let bars = bars(
            "t",
            "q",
            &[BarGroup { name: String::new(), bars: vec![bar("a", Some(3.0), None), bar("b", None, None)] }],
        );
        assert_eq!((bars.matches("height=\"12\"").count(), bars.matches(">-</text>").count()), (1, 1));
        assert!(!bars.contains("published"));
    }

    #[test]
    fn names_cannot_become_markup() {
        let svg =
            bars("<b>", "q", &[BarGroup { name: "a&b".into(), bars: vec![bar("<i>", Some(1.0), None)] }]);
        assert!(!svg.contains("<b>") && !svg.contains("<i>") && svg.contains("a&amp;b"));
    }

    #[test]
    fn nothing_above_zero_is_no_plot() {
        assert_eq!(
            bars("t", "q", &[BarGroup { name: String::new(), bars: vec![bar("a", Some(0.0), None)] }]),
            ""
        );
    }
}
