//! Plots as SVG that a paper could print: thin lines, a mark at each point, colours that differ in grey too.

use crate::ReportError;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

/// Width and height in pixels.
const SIZE: (u32, u32) = (720, 400);

/// Marks on the axis of sizes, at most.
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
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Throughput in GB/s over size in bytes, the size on a logarithmic axis.
pub(crate) fn throughput(title: &str, lines: &[Line]) -> Result<String, ReportError> {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|point| point.0 > 0.0);
    let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max) * 1.08;
    if first >= last || top <= 0.0 {
        return Ok(String::new());
    }
    let mut svg = String::new();
    draw(&mut svg, title, lines, (first, last), top)
        .map_err(|error| ReportError::Drawing { what: title.to_owned(), error: error.to_string() })?;
    // Inside a page the namespace is known; a page without it names no place outside.
    Ok(svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1))
}

fn draw(
    svg: &mut String,
    title: &str,
    lines: &[Line],
    (first, last): (f64, f64),
    top: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .margin_right(32)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d((first..last).log_scale().base(2.0), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(LABELS)
        .x_desc("bytes")
        .y_desc("algbw (GB/s)")
        .x_label_formatter(&|bytes| size_name(*bytes))
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<_> = line.points.iter().copied().filter(|point| point.0 > 0.0).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
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
        };
        let svg = throughput("all_reduce", &[line("epic-3", 1.0), line("ring", 0.5)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("epic-3") && svg.contains("ring"));
        assert_eq!(svg.matches("<circle").count(), 6);
    }

    #[test]
    fn one_size_is_no_line() {
        let line = Line { name: "barrier".into(), points: vec![(0.0, 0.0)] };
        assert_eq!(throughput("barrier", &[line]).unwrap(), "");
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!([4096.0, 1048576.0, 12.0].map(size_name), ["4 KiB", "1 MiB", "12 B"]);
    }
}
