//! Plots as SVG that a paper could print: thin lines, a mark at each point, colours that differ in grey too.

use crate::ReportError;
use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// Width and height in pixels; the names of lines take a part of the width at the right, where they hide nothing.
const SIZE: (u32, u32) = (880, 400);
const NAMES: i32 = 180;

/// Labels on the horizontal axis, at most.
const LABELS: usize = 10;

/// Okabe and Ito's colours, which most people can tell apart.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(120, 120, 120),
];

/// A named line of points.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Of each point its standard error; empty if none is known.
    pub(crate) errors: Vec<f64>,
    pub(crate) style: Style,
}

/// A colour and a mark. Equal names have equal styles in all plots of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Style(usize);

impl Style {
    /// Its colour.
    pub(crate) const fn colour(self) -> RGBColor {
        COLOURS[self.0 % COLOURS.len()]
    }

    /// Its mark: as many kinds of marks as have no divisor in common with the number of colours, so that both together repeat late.
    const fn mark(self) -> Mark {
        [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond, Mark::Plus][self.0 % 5]
    }

    /// The outline of its mark around a place, in pixels.
    fn outline(self, (x, y): (i32, i32)) -> Vec<(i32, i32)> {
        let outline: &[(i32, i32)] = match self.mark() {
            Mark::Circle => &[(-3, -1), (-1, -3), (1, -3), (3, -1), (3, 1), (1, 3), (-1, 3), (-3, 1)],
            Mark::Square => &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
            Mark::Triangle => &[(0, -4), (4, 3), (-4, 3)],
            Mark::Diamond => &[(0, -5), (4, 0), (0, 5), (-4, 0)],
            Mark::Plus => &[
                (-1, -4),
                (1, -4),
                (1, -1),
                (4, -1),
                (4, 1),
                (1, 1),
                (1, 4),
                (-1, 4),
                (-1, 1),
                (-4, 1),
                (-4, -1),
                (-1, -1),
            ],
        };
        outline.iter().map(|&(right, down)| (x + right, y + down)).collect()
    }
}

/// The shape of a mark.
#[derive(Clone, Copy)]
enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Plus,
}

/// The names on a page, in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Styles(Vec<String>);

impl Styles {
    /// Makes names known.
    pub(crate) fn know<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            if !self.0.iter().any(|known| known == name) {
                self.0.push(name.into());
            }
        }
    }

    /// The style of a name; that of the first where it is not known.
    pub(crate) fn of(&self, name: &str) -> Style {
        Style(self.0.iter().position(|known| known == name).unwrap_or(0))
    }
}

/// Styles for lines that no other plot has: in their order.
pub(crate) fn numbered(mut lines: Vec<Line>) -> Vec<Line> {
    lines.iter_mut().enumerate().for_each(|(number, line)| line.style = Style(number));
    lines
}

/// Throughput in GB/s over size in bytes, the size on a logarithmic axis. Nothing of fewer than two sizes.
pub(crate) fn throughput(title: &str, lines: &[Line]) -> Result<String, ReportError> {
    let sized = |line: &Line| {
        let errors = line.errors.iter().copied().map(Some).chain(std::iter::repeat(None));
        let sized = line.points.iter().copied().zip(errors).filter(|(point, _)| point.0 > 0.0);
        let (points, errors): (Vec<_>, Vec<_>) = sized.unzip();
        let errors = errors.into_iter().flatten().collect();
        Line { name: line.name.clone(), points, errors, style: line.style }
    };
    let lines: Vec<Line> = lines.iter().map(sized).collect();
    let Some((first, last, top)) = bounds(&lines) else { return Ok(String::new()) };
    let axes =
        Axes { title, x: "bytes", y: "algbw (GB/s)", top: top * 1.08, marks: Marks::All, label: &size_name };
    svg(&axes, &lines, &[], (first..last).log_scale().base(2.0))
}

/// The share of time in which links were busy, over time in microseconds. Nothing of fewer than two moments.
pub(crate) fn utilisation(title: &str, lines: &[Line]) -> Result<String, ReportError> {
    let Some((first, last, _)) = bounds(lines) else { return Ok(String::new()) };
    let label = |time: f64| time.to_string();
    let axes = Axes { title, x: "time (us)", y: "busy", top: 1.02, marks: Marks::Few, label: &label };
    svg(&axes, lines, &[], first..last)
}

/// A quantity over time in microseconds. Nothing of fewer than two moments, or if it is zero all the time.
pub(crate) fn over_time(title: &str, quantity: &str, lines: &[Line]) -> Result<String, ReportError> {
    let Some((first, last, top)) = bounds(lines) else { return Ok(String::new()) };
    let label = |time: f64| time.to_string();
    let axes = Axes { title, x: "time (us)", y: quantity, top: top * 1.08, marks: Marks::Few, label: &label };
    svg(&axes, lines, &[], first..last)
}

/// The share of time in which links were busy, the busiest first, over the share of the links. Nothing of fewer than two links.
pub(crate) fn shares(title: &str, lines: &[Line]) -> Result<String, ReportError> {
    let Some((first, last, _)) = bounds(lines) else { return Ok(String::new()) };
    let label = |share: f64| format!("{:.0} %", share * 100.0);
    let axes =
        Axes { title, x: "links, the busiest first", y: "busy", top: 1.02, marks: Marks::Few, label: &label };
    svg(&axes, lines, &[], first..last)
}

/// Shares that stay below a value. Nothing of fewer than two values.
pub(crate) fn distribution(title: &str, x: &str, lines: &[Line]) -> Result<String, ReportError> {
    let Some((first, last, _)) = bounds(lines) else { return Ok(String::new()) };
    let label = |value: f64| value.to_string();
    let axes = Axes { title, x, y: "share of jobs", top: 1.02, marks: Marks::Few, label: &label };
    svg(&axes, lines, &[], first..last)
}

/// Ours as lines over an axis, and beside them what is published as hollow marks of the same colour; on a logarithmic axis where values
/// grow by factors. Nothing of fewer than two values.
pub(crate) fn curves(
    title: &str,
    [x, y]: [&str; 2],
    ours: &[Line],
    published: &[Line],
) -> Result<String, ReportError> {
    let (Some((first, last, top)), Some((.., highest))) = (bounds(ours), bounds_of_all(ours, published))
    else {
        return Ok(String::new());
    };
    let is_size = x == "size";
    let label = |value: f64| if is_size { size_name(value) } else { value.to_string() };
    let axes = Axes { title, x, y, top: highest.max(top) * 1.08, marks: Marks::All, label: &label };
    if first > 0.0 && last / first >= 8.0 {
        svg(&axes, ours, published, (first..last).log_scale().base(2.0))
    } else {
        svg(&axes, ours, published, first..last)
    }
}

fn bounds_of_all(ours: &[Line], published: &[Line]) -> Option<(f64, f64, f64)> {
    let points = ours.iter().chain(published).flat_map(|line| line.points.iter().copied()).collect();
    bounds(&[Line { points, ..Line::default() }])
}

/// How long packets take in microseconds, over the load. Nothing of fewer than two loads.
pub(crate) fn latency(title: &str, lines: &[Line]) -> Result<String, ReportError> {
    let Some((first, last, top)) = bounds(lines) else { return Ok(String::new()) };
    let label = |load: f64| format!("{load:.2}");
    let axes =
        Axes { title, x: "load", y: "latency (us)", top: top * 1.08, marks: Marks::All, label: &label };
    svg(&axes, lines, &[], first..last)
}

/// The least and the greatest x, and the greatest y; none if there is nothing between them.
fn bounds(lines: &[Line]) -> Option<(f64, f64, f64)> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    (first < last && top > 0.0).then_some((first, last, top))
}

/// What stands around the lines.
struct Axes<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    /// The greatest y that is shown.
    top: f64,
    /// Which points have a mark.
    marks: Marks,
    label: &'a dyn Fn(f64) -> String,
}

/// Which points of a line have a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    All,
    /// About eight: as many as tell lines apart.
    Few,
}

/// Half of the height of a hollow mark in pixels.
const HOLLOW: i32 = 6;

fn svg<X>(axes: &Axes<'_>, lines: &[Line], hollow: &[Line], range: X) -> Result<String, ReportError>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut svg = String::new();
    draw(&mut svg, axes, lines, hollow, range)
        .map_err(|error| ReportError::Drawing { what: axes.title.to_owned(), error: error.to_string() })?;
    // Inside a page the namespace is known; a page without it names no place outside.
    Ok(svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1))
}

fn draw<X>(
    svg: &mut String,
    axes: &Axes<'_>,
    lines: &[Line],
    hollow: &[Line],
    range: X,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.title, ("sans-serif", 16))
        .margin(12)
        .margin_right(NAMES + 12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(range, 0.0..axes.top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(LABELS)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|x| (axes.label)(*x))
        .draw()?;
    for Line { points, errors, style, .. } in lines {
        let (style, colour) = (*style, style.colour());
        let bars = points.iter().zip(errors).filter(|(_, error)| **error > 0.0);
        let bar = |(&(x, y), &error): (&(f64, f64), &f64)| {
            ErrorBar::new_vertical(x, y - error, y, y + error, colour.stroke_width(1), 9)
        };
        chart.draw_series(bars.map(bar))?;
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        let every = if axes.marks == Marks::All { 1 } else { points.len().div_ceil(8).max(1) };
        // Lines that lie on each other have their marks at different places.
        let first = if every > 1 { style.0 % every } else { 0 };
        let marked = points.iter().skip(first).step_by(every);
        let mark = |&point: &(f64, f64)| {
            EmptyElement::at(point) + Polygon::new(style.outline((0, 0)), colour.filled())
        };
        chart.draw_series(marked.map(mark))?;
    }
    for Line { points, style, .. } in hollow {
        let colour = style.colour();
        let mark = move |at| EmptyElement::at(at) + Circle::new((0, 0), HOLLOW, colour.stroke_width(2));
        chart.draw_series(points.iter().map(|&point| mark(point)))?;
    }
    let (left, mut y) = (SIZE.0 as i32 - NAMES, 46);
    for (Line { name, style, .. }, is_hollow) in
        lines.iter().map(|line| (line, false)).chain(hollow.iter().map(|line| (line, true)))
    {
        let colour = style.colour();
        if is_hollow {
            area.draw(&Circle::new((left + 9, y), HOLLOW, colour.stroke_width(2)))?;
        } else {
            area.draw(&PathElement::new(vec![(left, y), (left + 18, y)], colour.stroke_width(2)))?;
            area.draw(&Polygon::new(style.outline((left + 9, y)), colour.filled()))?;
        }
        area.draw(&Text::new(name.clone(), (left + 25, y - 6), ("sans-serif", 12)))?;
        y += 18;
    }
    area.present()?;
    Ok(())
}

/// A size as people say it: binary where it is a whole number of something.
fn size_name(bytes: f64) -> String {
    let names = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let found = names.iter().find(|(_, shift)| bytes >= (1_u64 << shift) as f64);
    match found {
        Some((name, shift)) => format!("{:.0} {name}", bytes / (1_u64 << shift) as f64),
        None => format!("{bytes:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let line = |name: &str, factor: f64| Line {
            name: name.into(),
            points: vec![(4096.0, factor), (16384.0, 2.0 * factor), (65536.0, 3.0 * factor)],
            ..Line::default()
        };
        let svg = throughput("all_reduce", &[line("epic-3", 1.0), line("ring", 0.5)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("epic-3") && svg.contains("ring"));
        // A mark at each point, and one in the legend.
        assert_eq!(svg.matches("<polygon").count(), 2 * (3 + 1));
    }

    #[test]
    fn links_are_drawn_over_time_and_latencies_over_load() {
        let line = |name: &str| Line {
            name: name.into(),
            points: vec![(0.5, 0.2), (1.5, 0.9), (2.5, 0.0)],
            ..Line::default()
        };
        let svg = utilisation("all_reduce", &[line("host-0 > switch-0")]).unwrap();
        assert!(svg.contains("host-0") && svg.contains("time (us)"));
        let svg = latency("traffic", &[line("uniform, mean"), line("uniform, p99")]).unwrap();
        assert!(svg.contains("uniform, p99") && svg.matches("<polygon").count() == 2 * (3 + 1));
    }

    #[test]
    fn points_with_an_error_have_a_bar() {
        let points = vec![(4096.0, 1.0), (16384.0, 2.0), (65536.0, 3.0)];
        let plain = Line { name: "ring".into(), points: points.clone(), ..Line::default() };
        let barred = Line { name: "ring".into(), points, errors: vec![0.1, 0.0, 0.2], ..Line::default() };
        let count = |line| throughput("all_reduce", &[line]).unwrap().matches("<line ").count();
        let [without, with] = [plain, barred].map(count);
        assert!(with > without, "{with} lines with bars, {without} without");
    }

    #[test]
    fn one_size_is_no_line() {
        let line = Line { name: "barrier".into(), points: vec![(0.0, 0.0)], ..Line::default() };
        assert_eq!(throughput("barrier", &[line]).unwrap(), "");
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!([4096.0, 1048576.0, 12.0].map(size_name), ["4 KiB", "1 MiB", "12 B"]);
    }
}
