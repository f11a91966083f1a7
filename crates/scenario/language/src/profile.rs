//! Layers of models, measured on a GPU: rows of a profile's phases `prefill` and `decode` (`data/profiles`).

use crate::{Decoder, Phase, Products};
use quincunx_units::Duration;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How a layer's kernels follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Launches {
    /// In one graph, as an engine runs them: `layer` of a row.
    #[default]
    Graph,
    /// Each by itself, and their times added up, as a profiler tells them (SCIN 4.1): `kernels` of a row, norm and addition twice.
    Apart,
}

/// What a GPU has been measured to take for layers.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerProfile {
    /// The GPU, as its driver calls it.
    pub device: String,
    rows: Vec<Row>,
}

/// A layer, measured.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) model: Decoder,
    pub(crate) tp: u32,
    pub(crate) phase: Phase,
    pub(crate) products: Products,
    /// Microseconds: the layer in a graph, its kernels added up, and attention alone, which is among both.
    layer: f64,
    apart: f64,
    attention: f64,
}

/// Why a text is no profile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {error}")]
pub struct LayerProfileError {
    /// The file.
    pub place: String,
    /// What was expected and found.
    pub error: String,
}

#[derive(Deserialize)]
struct File {
    device: String,
    unit: String,
    rows: Vec<FileRow>,
}

#[derive(Deserialize)]
struct FileRow {
    model: String,
    tp: u32,
    phase: String,
    batch: u64,
    length: u64,
    gemm: String,
    kernels: BTreeMap<String, f64>,
    layer: Option<f64>,
}

/// The profiles that the project has: what it measured itself.
const BUILT_IN: [(&str, &str); 2] = [
    ("h100", include_str!("../../../../data/profiles/h100.json")),
    ("h200", include_str!("../../../../data/profiles/h200.json")),
];

impl LayerProfile {
    /// The text of the profile of that name, if the project has it.
    pub fn text(name: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Reads a profile. Rows of models that are not known, and of other phases, are passed over.
    ///
    /// # Errors
    /// If it is no profile in microseconds, or has no layers.
    pub fn parse(place: &str, text: &str) -> Result<Self, LayerProfileError> {
        let wrong = |error: String| LayerProfileError { place: place.into(), error };
        let file: File = serde_json::from_str(text)
            .map_err(|error| wrong(format!("expected a profile of a GPU, found {error}")))?;
        if file.unit != "us" {
            return Err(wrong(format!("expected times in \"us\", found \"{}\" in `unit`", file.unit)));
        }
        let mut rows = Vec::new();
        for row in file.rows {
            let FileRow { batch, length, .. } = row;
            let phase = match row.phase.as_str() {
                "prefill" => Phase::Prefill { batch, length },
                "decode" => Phase::Decode { batch, length },
                _ => continue,
            };
            let products = match row.gemm.as_str() {
                "fp16" => Products::Fp16,
                "fp8" => Products::Fp8,
                _ => continue,
            };
            let Ok(model) = Decoder::find(&row.model) else { continue };
            let kernel = |name: &str| row.kernels.get(name).copied();
            let apart = row.kernels.values().sum::<f64>()
                + kernel("norm").unwrap_or_default()
                + kernel("add").unwrap_or_default();
            let (Some(layer), Some(attention)) = (row.layer, kernel("attention")) else {
                return Err(wrong(format!(
                    "expected `layer` and `kernels.attention` in a row of {}, found one missing; measure it again",
                    row.phase
                )));
            };
            let is_time = |micros: f64| micros.is_finite() && micros > 0.0;
            if !row.kernels.values().copied().chain([layer]).all(is_time)
                || batch * length * u64::from(row.tp) == 0
            {
                return Err(wrong(format!(
                    "expected times and sizes above zero, found another in a row of {}, batch {batch}; measure it again",
                    row.model
                )));
            }
            rows.push(Row { model, tp: row.tp, phase, products, layer, apart, attention });
        }
        if rows.is_empty() {
            return Err(wrong(
                "expected rows of phase prefill or decode, found none; measure the phases of layers, too"
                    .into(),
            ));
        }
        Ok(Self { device: file.device, rows })
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// How long a layer takes, and whether that was measured; none without rows of such a layer, so split, in that phase.
    ///
    /// Between measured rows time is a line, in tokens for all but attention, and in the tokens that tokens look at for attention.
    pub fn layer(
        &self,
        model: &Decoder,
        tp: u32,
        phase: Phase,
        products: Products,
        launches: Launches,
    ) -> Option<(Duration, bool)> {
        let of_phase = |row: &&Row| {
            row.tp == tp
                && row.products == products
                && core::mem::discriminant(&row.phase) == core::mem::discriminant(&phase)
                && row.model.has_layers_of(model)
        };
        let rows: Vec<&Row> = self.rows.iter().filter(of_phase).collect();
        if let Some(row) = rows.iter().find(|row| row.phase == phase) {
            return Some((micros(row.micros(launches)), true));
        }
        let others =
            line(rows.iter().map(|row| (row.phase.tokens() as f64, row.micros(launches) - row.attention)));
        let attention = line(rows.iter().map(|row| (row.phase.scores(), row.attention)));
        let time = at(&others, phase.tokens() as f64)? + at(&attention, phase.scores())?;
        Some((micros(time), false))
    }
}

impl Row {
    pub(crate) const fn micros(&self, launches: Launches) -> f64 {
        match launches {
            Launches::Graph => self.layer,
            Launches::Apart => self.apart,
        }
    }
}

fn micros(time: f64) -> Duration {
    Duration::from_picos((time.max(0.0) * 1e6).round() as u64)
}

/// Points in the order of their places, those at one place as their mean.
fn line(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean =
        |same: &[(f64, f64)]| (same[0].0, same.iter().map(|point| point.1).sum::<f64>() / same.len() as f64);
    points.chunk_by(|a, b| a.0 == b.0).map(mean).collect()
}

/// What a line says at a place: before its first point as much as there, behind its last as it rose before.
pub(crate) fn at(line: &[(f64, f64)], place: f64) -> Option<f64> {
    let [first, ..] = line else { return None };
    if place <= first.0 || line.len() == 1 {
        return Some(first.1);
    }
    let upper = line.partition_point(|point| point.0 < place).clamp(1, line.len() - 1);
    let [(x, y), (to_x, to_y)] = [line[upper - 1], line[upper]];
    // Noise makes no time fall for ever.
    let slope = (to_y - y) / (to_x - x);
    let slope = if place > to_x { slope.max(0.0) } else { slope };
    Some(y + slope * (place - x))
}
