//! How long layers take: measured where somebody has, by a roofline elsewhere.

use crate::kernels::head;
use crate::{
    Accelerator, AcceleratorError, Decoder, Launches, LayerProfile, Phase, Products, Split, kernels,
};
use quincunx_units::Duration;

/// What says how long layers take.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    /// Where nothing has been measured.
    pub accelerator: Accelerator,
    /// What has been.
    pub profile: Option<LayerProfile>,
    /// What products are made of.
    pub products: Products,
    /// How kernels follow each other, where they are measured.
    pub launches: Launches,
    /// How many times as long everything takes as all of that says: 1 but for who asks what an error would do.
    pub stretch: f64,
}

/// Where a time is from, the surest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// Such a layer was measured.
    Measured,
    /// Others of its shape were, with other numbers of tokens.
    Between,
    /// By the roofline.
    Roofline,
}

/// By which share the roofline is off what was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Error {
    /// Rows.
    pub rows: usize,
    /// In the middle of all; below zero: too fast.
    pub median: f64,
    /// Of the fastest and of the slowest against what was measured.
    pub range: [f64; 2],
}

impl Timing {
    /// All layers that tokens go through on one stage, or on all of them.
    ///
    /// # Errors
    /// If the accelerator has no such products.
    pub fn layers(
        &self,
        model: &Decoder,
        split: &Split,
        phase: Phase,
        layers: u64,
    ) -> Result<(Duration, Source), AcceleratorError> {
        let (time, source) = self.layer(model, split, phase)?;
        let Some(experts) = model.experts else { return Ok((time * layers, source)) };
        // Those without experts are at the beginning; of several stages the longest has none of them.
        let dense_layers = if layers == model.layers { experts.dense_layers } else { 0 };
        let dense = Decoder { experts: None, ..model.clone() };
        let (other, _) = self.layer(&dense, split, phase)?;
        Ok((time * (layers - dense_layers) + other * dense_layers, source))
    }

    /// One layer.
    ///
    /// # Errors
    /// As [`layers`](Self::layers).
    pub fn layer(
        &self,
        model: &Decoder,
        split: &Split,
        phase: Phase,
    ) -> Result<(Duration, Source), AcceleratorError> {
        if let (Some(profile), false) = (&self.profile, split.sequence_parallel)
            && let Some((time, is_exact)) =
                profile.layer(model, split.tp, phase, self.products, self.launches)
        {
            let source = if is_exact { Source::Measured } else { Source::Between };
            return Ok((stretched(time, self.stretch), source));
        }
        Ok((stretched(self.roofline(model, split, phase)?, self.stretch), Source::Roofline))
    }

    fn roofline(&self, model: &Decoder, split: &Split, phase: Phase) -> Result<Duration, AcceleratorError> {
        let of = |kernel| self.accelerator.seconds(&kernel, self.products);
        let times: Result<f64, AcceleratorError> =
            kernels(model, split, phase, self.products).into_iter().map(of).sum();
        Ok(seconds(times?))
    }

    /// The product at the end, whose result says which token comes next; or, in training, all of them.
    ///
    /// # Errors
    /// As [`layers`](Self::layers).
    pub fn head(&self, model: &Decoder, split: &Split, tokens: u64) -> Result<Duration, AcceleratorError> {
        let kernel = head(model, split, tokens, self.products);
        Ok(stretched(seconds(self.accelerator.seconds(&kernel, self.products)?), self.stretch))
    }

    /// The roofline against all measured layers of `model`'s shape that `phase` is like, or of all shapes; none without.
    ///
    /// # Errors
    /// As [`layers`](Self::layers).
    pub fn error(&self, model: Option<&Decoder>, phase: Phase) -> Result<Option<Error>, AcceleratorError> {
        let Some(profile) = &self.profile else { return Ok(None) };
        let mut errors = Vec::new();
        for row in profile.rows() {
            let is_like = model.is_none_or(|model| row.model.has_layers_of(model))
                && core::mem::discriminant(&row.phase) == core::mem::discriminant(&phase)
                && row.products == self.products;
            if is_like {
                let split = Split { tp: row.tp, ..Split::default() };
                let time = self.roofline(&row.model, &split, row.phase)?;
                errors.push(time.as_micros_f64() / row.micros(self.launches) - 1.0);
            }
        }
        errors.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (errors.first(), errors.last()) else { return Ok(None) };
        let (rows, median) = (errors.len(), errors[errors.len() / 2]);
        Ok(Some(Error { rows, median, range: [least, most] }))
    }
}

impl Source {
    /// By which share layers may be off, as tests of the project's own profiles hold it: what was measured is taken as it is; a row that was left out is
    /// 12 % off at most, and a roofline 23 %.
    pub const fn doubt(self) -> f64 {
        match self {
            Self::Measured => 0.0,
            Self::Between => 0.12,
            Self::Roofline => 0.23,
        }
    }

    /// For those who look.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Between => "between measured",
            Self::Roofline => "roofline",
        }
    }
}

/// A time, so many times as long.
pub fn stretched(time: Duration, by: f64) -> Duration {
    if by == 1.0 { time } else { Duration::from_picos((time.as_picos() as f64 * by).round() as u64) }
}

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_picos((seconds.max(0.0) * 1e12).round() as u64)
}
