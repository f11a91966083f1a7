//! The lines of an experiment's figures, with all points: what is drawn, where [`Reproduced`](crate::Reproduced) is what is judged.

use quincunx_scenario::{Experiment, FigureKind, Point, Series};

/// A line of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its name in the paper, or the design's.
    pub label: String,
    /// The design.
    pub design: String,
    /// What it is compared with.
    pub baseline: Option<String>,
    /// What it is worth as evidence.
    pub kind: FigureKind,
    /// What its values say, with their unit.
    pub quantity: &'static str,
    /// The key that differs from point to point.
    pub axis: String,
    /// In the order of the file.
    pub points: Vec<CurvePoint>,
    /// What is published for all points together, if that is one figure.
    pub summary: Option<Summary>,
}

/// A point of a line.
#[derive(Clone, PartialEq, Debug)]
pub struct CurvePoint {
    /// The axis' value as text.
    pub value: String,
    /// The same as a number, if it is one: a size in bytes.
    pub x: Option<f64>,
    /// Ours; none if it was not run to its end.
    pub ours: Option<f64>,
    /// As published, in the same unit; none where nobody stated it.
    pub published: Option<f64>,
}

/// One figure for all points.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The largest, the mean.
    pub pick: &'static str,
    /// Ours; none if not all points were run.
    pub ours: Option<f64>,
    /// As published.
    pub published: f64,
}

impl Curve {
    /// The line of a series: its points, what is published and what is ours of them.
    pub(crate) fn new(
        experiment: &Experiment,
        series: &Series,
        points: &[Point],
        published: &[f64],
        ours: &[Option<f64>],
    ) -> Self {
        let quantity = experiment.quantity_of(series);
        let is_each = published.len() == points.len();
        let published_at = |number: usize, point: &Point| {
            let figure = published.get(number).copied().filter(|_| is_each)?;
            let time = quantity.published_time(figure, point.size.bytes() as f64 * series.counted_share);
            Some(time.unwrap_or(figure))
        };
        let x = |point: &Point| match series.axis.as_str() {
            "size" => Some(point.size.bytes() as f64),
            _ => point.value.parse().ok(),
        };
        let point = |(number, point): (usize, &Point)| CurvePoint {
            value: point.value.clone(),
            x: x(point),
            ours: ours.get(number).copied().flatten(),
            published: published_at(number, point),
        };
        let summary = published.first().filter(|_| !is_each).map(|&published| {
            let all: Option<Vec<f64>> = ours.iter().copied().collect();
            let picked = all.and_then(|all| series.pick.of(&all));
            Summary { pick: series.pick.name(), ours: picked.map(|(_, ours)| ours), published }
        });
        Self {
            label: series.label.clone().unwrap_or_else(|| series.design.clone()),
            design: series.design.clone(),
            baseline: series.baseline.clone(),
            kind: series.kind,
            quantity: quantity.axis(),
            axis: series.axis.clone(),
            points: points.iter().enumerate().map(point).collect(),
            summary,
        }
    }
}
