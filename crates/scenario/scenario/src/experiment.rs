//! An experiment: published figures as data, what to run for each, and how far off we may be.

use crate::{Document, ScenarioError, text};
use include_dir::{Dir, include_dir};
use quincunx_collective::Collective;
use quincunx_design::ClosedForm;
use quincunx_units::{ByteCount, Duration};
use serde::Deserialize;
use toml::{Table, Value};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../../experiments");

/// One file of `experiments/PAPER/ID.toml`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The paper: `epic`, `scin`.
    pub paper: String,
    /// Its name within the paper: `table25`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where it is published.
    pub source: String,
    /// The fabric's preset or file.
    pub fabric: String,
    /// The collective that is run.
    #[serde(deserialize_with = "text::deserialize")]
    pub collective: Collective,
    /// What the published figures say.
    pub quantity: Quantity,
    /// How far ours may be from them.
    pub tolerance: Tolerance,
    /// Keys of the fabric that differ from the preset, for all series.
    #[serde(default)]
    pub set: Table,
    /// What a reader should know: why a figure cannot be met, with the number that was measured.
    pub note: Option<String>,
    /// The lines of the table or figure.
    pub series: Vec<Series>,
}

/// One design's line of a table.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in the paper, if it is not the design's.
    pub label: Option<String>,
    /// What its figures are worth as evidence.
    pub kind: FigureKind,
    /// What its figures say, if they do not say what the experiment's others do.
    pub quantity: Option<Quantity>,
    /// The design.
    pub design: String,
    /// What it is compared with, where the quantity is a ratio.
    pub baseline: Option<String>,
    /// Keys of the fabric that differ for this line.
    #[serde(default)]
    pub set: Table,
    /// Keys of the fabric that differ for what it is compared with.
    #[serde(default)]
    pub baseline_set: Table,
    /// Whether the axis' key differs from point to point for what it is compared with, too.
    #[serde(default)]
    pub baseline_axis: bool,
    /// The key that differs from point to point; `size` is the vector's length.
    #[serde(default = "size_axis")]
    pub axis: String,
    /// Its values.
    pub values: Vec<Value>,
    /// The vector's length, where another key differs.
    pub size: Option<ByteCount>,
    /// The published figures, one a value; or one for all values. Empty where a formula is published, and where nothing is: a derived
    /// line, which is drawn and not judged.
    #[serde(default)]
    pub published: Vec<f64>,
    /// Which of all values a single figure is for.
    #[serde(default)]
    pub pick: Pick,
    /// The published formula, which gives a figure for each value.
    pub formula: Option<ClosedForm>,
    /// The share of the vector that a published rate counts: an AllGather may count what a rank receives, and not its own part.
    #[serde(default = "whole")]
    pub counted_share: f64,
    /// Whether ours must come near the figure, reach it or stay under it.
    #[serde(default)]
    pub bound: Bound,
    /// How many of its figures no other says, if not all: one number under several names counts once.
    pub independent: Option<usize>,
    /// A note on this line.
    pub note: Option<String>,
}

fn whole() -> f64 {
    1.0
}

fn size_axis() -> String {
    "size".into()
}

/// What a figure is worth as evidence: whether it could have come out otherwise, and whether anybody published it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// The paper's, an engine ran, and no parameter was set by it.
    Predicted,
    /// The paper's, and a closed form or a bound answers it: no run of an engine could have told otherwise, but by a fault. Counted by itself.
    Formula,
    /// The paper's; it, or another figure of its table, has set a parameter.
    Calibrated,
    /// Ours, and not the paper's: worked out from what the paper says, or a bound that we chose. Never counted.
    Derived,
    /// True by construction, whatever the engines do. Never counted.
    Identity,
}

impl FigureKind {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 5] =
        [Self::Predicted, Self::Formula, Self::Calibrated, Self::Derived, Self::Identity];

    /// Whether totals count it, and a miss is a fault.
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Predicted | Self::Formula | Self::Calibrated)
    }

    /// As files and `reproduce` have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Formula => "formula",
            Self::Calibrated => "calibrated",
            Self::Derived => "derived",
            Self::Identity => "identity",
        }
    }
}

impl std::fmt::Display for FigureKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What a figure says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Microseconds.
    Time,
    /// Gibit/s of a completion time rounded to whole microseconds, as EPIC's packet simulation prints; times are compared.
    GibitPerSecond,
    /// Gbit/s of the vector over the time.
    GigabitPerSecond,
    /// Barriers a second; times are compared.
    Rate,
    /// Algorithm bandwidth as a share of the links' bound for payload.
    PayloadShare,
    /// Time of the baseline over time of the design.
    Speedup,
    /// The same of an iteration of training, of what `train` says.
    TrainingSpeedup,
    /// The same of a part of a model's layer, of what `layer` says; design and baseline are schedules.
    LayerSpeedup,
    /// Operations of an accelerator a second, in such a part, over those of the baseline.
    LayerThroughput,
    /// How busy links are in its sub-layers.
    LayerUtilisation,
    /// The same in the middle half of each sub-layer's time; over that of the baseline, if there is one.
    LayerSteady,
    /// By how much that changes from bin to bin of time there: its standard deviation; over that of the baseline, if there is one.
    LayerFluctuation,
    /// KiB of the fullest port's merging table.
    LayerTable,
    /// KiB of the merging tables of all ports of all switches, each at its fullest.
    LayerTables,
    /// Microseconds from the first to the last request for an address.
    LayerWait,
    /// Bytes on all links in its sub-layers, over those of the baseline, if there is one.
    LayerBytes,
    /// The share of all SMs' time in which they compute, in such a part.
    LayerComputing,
    /// Time of the AllReduces of a layer's forward pass by the design, over that of its computation.
    LayerCommunication,
    /// The share of the baseline's time that the design saves.
    Saving,
    /// Seconds from a job's arrival to its end, as the mean of all jobs of a cluster; designs are policies.
    JobTime,
    /// The same over the baseline's.
    JobTimeShare,
    /// The share of the time to a model's first token that is communication.
    FirstTokenShare,
    /// The same from one token to the next.
    NextTokenShare,
    /// The baseline's time to the first token over the design's.
    FirstTokenSpeedup,
    /// The same from one token to the next.
    NextTokenSpeedup,
    /// The share of the baseline's iteration of training that the design saves.
    IterationSaving,
    /// Bytes of payload and degree buffers of the switch with most of them.
    SwitchBuffer,
    /// The most bytes that left a rank by one link.
    Uplink,
    /// The most bytes that reached a rank by one link.
    Downlink,
}

/// Which of several values a published figure is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The largest: "up to".
    #[default]
    Best,
    /// The smallest: "from".
    Least,
    /// The arithmetic mean of all: "average".
    Mean,
    /// The geometric mean of all.
    Geomean,
}

impl Pick {
    /// As files and `reproduce` have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Least => "least",
            Self::Mean => "mean",
            Self::Geomean => "geometric mean",
        }
    }

    /// What it is of `values`, and the place of the one that it is, if it is one.
    pub fn of(self, values: &[f64]) -> Option<(Option<usize>, f64)> {
        let order = |(_, a): &(usize, f64), (_, b): &(usize, f64)| a.total_cmp(b);
        let numbered = values.iter().copied().enumerate();
        let one = |(place, value)| (Some(place), value);
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
        match self {
            // The first of those that are equal.
            Self::Best => numbered.rev().max_by(order).map(one),
            Self::Least => numbered.min_by(order).map(one),
            _ if values.is_empty() => None,
            Self::Mean => Some((None, mean(&mut values.iter().copied(), values.len()))),
            Self::Geomean => {
                Some((None, mean(&mut values.iter().map(|value| value.ln()), values.len()).exp()))
            }
        }
    }
}

/// How a figure is to be met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Within the tolerance on either side.
    #[default]
    Near,
    /// No less than the figure.
    AtLeast,
    /// No more than the figure.
    AtMost,
}

/// How far off is still right: the wider of the two.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// A share of the published figure.
    pub relative: f64,
    /// A time, where times are compared.
    pub absolute: Option<Duration>,
    /// Why it is that wide, in a sentence.
    pub why: Reason,
}

/// A sentence that a file must have.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Reason(String);

impl TryFrom<String> for Reason {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.split_whitespace().count() < 3 {
            return Err("expected a sentence that says why, found less than three words; say it in `why`");
        }
        Ok(Self(text))
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// One run of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// The axis' value as text.
    pub value: String,
    /// The vector's length.
    pub size: ByteCount,
    /// Keys of the fabric to set.
    pub set: Table,
    /// Keys of the fabric to set for what it is compared with.
    pub baseline_set: Table,
}

/// What a file has that is run elsewhere: a language model, say, needs Python and no fabric. Its runner has found what it says here, and reads the
/// rest of it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Elsewhere {
    /// The command that runs it.
    pub runner: String,
    /// The paper.
    pub paper: String,
    /// What it is called there.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What its figures are worth as evidence.
    pub kind: FigureKind,
    /// What its runner has found.
    pub found: Found,
    /// How far ours may be from the figures, where its runner asks that.
    pub tolerance: Option<Tolerance>,
}

/// How many figures a runner has found to be so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// Within their tolerance.
    pub met: usize,
    /// Outside it.
    pub missed: usize,
}

impl Elsewhere {
    /// All that are run elsewhere and whose paper, or paper and id, is `filter`; all with an empty one.
    ///
    /// # Errors
    /// If a file is wrong.
    pub fn find(filter: &str) -> Result<Vec<Self>, ScenarioError> {
        let texts = texts().into_iter().filter(|(name, text)| is_found(filter, name) && is_elsewhere(text));
        texts.map(|(name, text)| Self::parse(&format!("experiments/{name}.toml"), text)).collect()
    }

    fn parse(place: &str, text: &str) -> Result<Self, ScenarioError> {
        Document::parse(place, text)?.get()
    }
}

/// All files by name, in its order.
fn texts() -> Vec<(String, &'static str)> {
    let files = FILES.find("**/*.toml").into_iter().flatten();
    let mut texts: Vec<_> = files
        .filter_map(|file| {
            let text = file.as_file().and_then(|file| file.contents_utf8())?;
            Some((file.path().with_extension("").to_string_lossy().into_owned(), text))
        })
        .collect();
    texts.sort();
    texts
}

/// Whether a name is meant: all, a paper's, or just that.
fn is_found(filter: &str, name: &str) -> bool {
    filter.is_empty() || filter == name || name.starts_with(&format!("{filter}/"))
}

fn is_elsewhere(text: &str) -> bool {
    text.parse::<Table>().is_ok_and(|file| file.contains_key("runner"))
}

impl Experiment {
    /// All experiments that are run here and whose paper, or paper and id, is `filter`; all with an empty one. In order of
    /// their names.
    ///
    /// # Errors
    /// If a file is wrong, none is of that name, or the only one of that name is run elsewhere.
    pub fn find(filter: &str) -> Result<Vec<Self>, ScenarioError> {
        let mut known = Vec::new();
        let mut found = Vec::new();
        let mut elsewhere = None;
        for (name, text) in texts() {
            if is_found(filter, &name) {
                let place = format!("experiments/{name}.toml");
                if is_elsewhere(text) {
                    elsewhere = Some((place.clone(), Elsewhere::parse(&place, text)?.runner));
                } else {
                    found.push(Self::parse(&place, text)?);
                }
            }
            known.push(name);
        }
        if let (true, Some((place, runner))) = (found.is_empty(), elsewhere) {
            return Err(ScenarioError::Contradiction {
                place,
                expected: "an experiment of the simulator".into(),
                found: "one with a runner of its own".into(),
                remedy: format!("run `{runner}`"),
            });
        }
        if found.is_empty() {
            return Err(ScenarioError::Unknown {
                what: "an experiment",
                known: known.join(", "),
                found: filter.into(),
            });
        }
        Ok(found)
    }

    /// Reads one.
    ///
    /// # Errors
    /// If a key is unknown or missing, or a series has not as many figures as values.
    pub fn parse(place: &str, text: &str) -> Result<Self, ScenarioError> {
        let experiment: Self = Document::parse(place, text)?.get()?;
        for series in &experiment.series {
            if let Some(formula) = series.formula
                && (!series.published.is_empty() || experiment.quantity_of(series) != quantity_of(formula))
            {
                return Err(ScenarioError::Contradiction {
                    place: place.into(),
                    expected: format!("a formula alone, of the quantity {:?}", quantity_of(formula)),
                    found: format!(
                        "{} published figures and the quantity {:?} in the series of {}",
                        series.published.len(),
                        experiment.quantity_of(series),
                        series.design
                    ),
                    remedy: "take `series.published` out, or change `quantity`".into(),
                });
            }
            let counts = (series.values.len(), series.published.len());
            let is_complete = match series.formula {
                Some(_) => counts.0 > 0,
                // Ours alone, where the text of a paper states no number.
                None if counts.1 == 0 => counts.0 > 0 && series.kind == FigureKind::Derived,
                None => counts.0 > 0 && (counts.1 == counts.0 || counts.1 == 1),
            };
            if !is_complete {
                return Err(ScenarioError::Contradiction {
                    place: place.into(),
                    expected:
                        "as many published figures as values in a series, one for all, or none of a derived one"
                            .into(),
                    found: format!("{} for {} of {}", counts.1, counts.0, series.design),
                    remedy: "give each value its figure".into(),
                });
            }
            if let Some(independent) = series.independent.filter(|&some| some > series.figures()) {
                return Err(ScenarioError::Contradiction {
                    place: place.into(),
                    expected: format!(
                        "at most {} independent figures, as many as there are",
                        series.figures()
                    ),
                    found: format!("{independent} in the series of {}", series.design),
                    remedy: "count those that no other figure says".into(),
                });
            }
            let is_ratio = matches!(
                experiment.quantity_of(series),
                Quantity::Speedup
                    | Quantity::TrainingSpeedup
                    | Quantity::LayerSpeedup
                    | Quantity::LayerThroughput
                    | Quantity::Saving
                    | Quantity::JobTimeShare
                    | Quantity::FirstTokenSpeedup
                    | Quantity::NextTokenSpeedup
                    | Quantity::IterationSaving
            );
            let may_be_ratio = matches!(
                experiment.quantity_of(series),
                Quantity::LayerSteady | Quantity::LayerFluctuation | Quantity::LayerBytes
            );
            if is_ratio != series.baseline.is_some() && !may_be_ratio {
                return Err(ScenarioError::Contradiction {
                    place: place.into(),
                    expected: "a baseline where the quantity is a speedup or a saving, and nowhere else"
                        .into(),
                    found: format!("the series of {}", series.design),
                    remedy: "name the baseline's design, or take it out".into(),
                });
            }
            let has_no_size = matches!(
                experiment.quantity_of(series),
                Quantity::JobTime
                    | Quantity::JobTimeShare
                    | Quantity::FirstTokenShare
                    | Quantity::NextTokenShare
                    | Quantity::FirstTokenSpeedup
                    | Quantity::NextTokenSpeedup
                    | Quantity::IterationSaving
            );
            if series.axis != "size" && series.size.is_none() && !has_no_size {
                return Err(ScenarioError::Contradiction {
                    place: place.into(),
                    expected: "a size in a series whose axis is another key".into(),
                    found: format!("none in the series of {}", series.design),
                    remedy: "say how long the vector is: size = \"4MiB\"".into(),
                });
            }
            series.points(place)?;
        }
        Ok(experiment)
    }

    /// What the figures of one of its series say.
    pub fn quantity_of(&self, series: &Series) -> Quantity {
        series.quantity.unwrap_or(self.quantity)
    }
}

impl Series {
    /// How many figures it has.
    pub fn figures(&self) -> usize {
        if self.formula.is_some() { self.values.len() } else { self.published.len() }
    }

    /// How many of them no other figure says: the first ones.
    pub fn independent(&self) -> usize {
        self.independent.unwrap_or_else(|| self.figures())
    }

    /// Its runs, in order.
    ///
    /// # Errors
    /// If a size is none.
    pub fn points(&self, place: &str) -> Result<Vec<Point>, ScenarioError> {
        self.values.iter().map(|value| self.point(place, value)).collect()
    }

    fn point(&self, place: &str, value: &Value) -> Result<Point, ScenarioError> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut sets = [self.set.clone(), self.baseline_set.clone()];
        let size = if self.axis == "size" {
            text.parse::<ByteCount>().map_err(|error| ScenarioError::Key {
                place: place.into(),
                error: format!("{error} in `series.values`"),
            })?
        } else {
            let differing = if self.baseline_axis { &mut sets[..] } else { &mut sets[..1] };
            for set in differing {
                let mut document = Document::parse(place, "")?;
                document.merge(set)?;
                document.set(&crate::Override { key: self.axis.clone(), value: value.clone() })?;
                *set = document.get()?;
            }
            self.size.unwrap_or_default()
        };
        let [set, baseline_set] = sets;
        Ok(Point { value: text, size, set, baseline_set })
    }
}

impl Quantity {
    /// What stands at the axis of a plot of it, with the unit in which figures are compared.
    pub const fn axis(self) -> &'static str {
        match self {
            Self::Time | Self::GibitPerSecond | Self::Rate => "time (us)",
            Self::GigabitPerSecond => "rate (Gbit/s)",
            Self::PayloadShare => "share of the payload bound",
            Self::Speedup | Self::TrainingSpeedup | Self::LayerSpeedup => "speedup",
            Self::LayerThroughput => "throughput over the baseline's",
            Self::LayerUtilisation | Self::LayerSteady => "links busy",
            Self::LayerFluctuation => "standard deviation of links busy",
            Self::LayerTable => "table (KiB)",
            Self::LayerTables => "tables of all ports (KiB)",
            Self::LayerWait => "wait (us)",
            Self::LayerBytes => "bytes on links over the baseline's",
            Self::LayerComputing => "share of the time that SMs compute",
            Self::LayerCommunication => "communication over computation",
            Self::Saving => "share of time saved",
            Self::JobTime => "job completion time (s)",
            Self::FirstTokenShare | Self::NextTokenShare => "share of communication",
            Self::FirstTokenSpeedup | Self::NextTokenSpeedup => "speedup",
            Self::IterationSaving => "share of time saved",
            Self::JobTimeShare => "job completion time over the baseline's",
            Self::SwitchBuffer => "switch memory (B)",
            Self::Uplink | Self::Downlink => "bytes on a link",
        }
    }

    /// The time in microseconds that a published figure stands for, where it stands for one; whole ones where the paper rounds.
    /// `bytes` are those that it counts.
    pub fn published_time(self, figure: f64, bytes: f64) -> Option<f64> {
        match self {
            Self::Time => Some(figure),
            // EPIC's table 25: 10.17 at 4 KB is 3 us.
            Self::GibitPerSecond => Some((bytes * 8.0 / (1u64 << 30) as f64 / figure * 1e6).round()),
            Self::Rate => Some(1e6 / figure),
            Self::GigabitPerSecond
            | Self::PayloadShare
            | Self::Speedup
            | Self::TrainingSpeedup
            | Self::LayerSpeedup
            | Self::LayerThroughput
            | Self::LayerUtilisation
            | Self::LayerSteady
            | Self::LayerFluctuation
            | Self::LayerTable
            | Self::LayerTables
            | Self::LayerWait
            | Self::LayerBytes
            | Self::LayerComputing
            | Self::LayerCommunication
            | Self::Saving
            | Self::JobTime
            | Self::JobTimeShare
            | Self::FirstTokenShare
            | Self::NextTokenShare
            | Self::FirstTokenSpeedup
            | Self::NextTokenSpeedup
            | Self::IterationSaving
            | Self::SwitchBuffer
            | Self::Uplink
            | Self::Downlink => None,
        }
    }
}

/// What the values of a closed form are.
const fn quantity_of(form: ClosedForm) -> Quantity {
    match form {
        ClosedForm::Latency => Quantity::Time,
        ClosedForm::SwitchMemory => Quantity::SwitchBuffer,
        ClosedForm::LossTolerance => Quantity::Speedup,
    }
}

impl Tolerance {
    /// Whether `ours` meets `published`; both in microseconds if `times`.
    pub fn accepts(&self, bound: Bound, published: f64, ours: f64, times: bool) -> bool {
        let absolute = self.absolute.filter(|_| times).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        // What both were rounded to must not decide.
        let margin = (published.abs() * self.relative).max(absolute) + 1e-9;
        match bound {
            Bound::Near => (ours - published).abs() <= margin,
            Bound::AtLeast => ours >= published - 1e-9,
            Bound::AtMost => ours <= published + 1e-9,
        }
    }

    /// Whether the absolute tolerance alone accepts a time, as one of a few microseconds.
    pub fn accepts_by_absolute_alone(&self, bound: Bound, published: f64, ours: f64, times: bool) -> bool {
        let relative = Self { absolute: None, ..self.clone() };
        self.accepts(bound, published, ours, times) && !relative.accepts(bound, published, ours, times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        paper = "epic"
        id = "table25"
        title = "AllReduce"
        source = "table 25"
        fabric = "epic-star8"
        collective = "all_reduce"
        quantity = "gibit-per-second"
        tolerance = { relative = 0.1, absolute = "1us", why = "times are rounded to it" }
        [[series]]
        design = "epic-3"
        kind = "predicted"
        values = ["4KiB", "1MiB"]
        published = [10.17, 88.78]
    "#;

    #[test]
    fn published_rates_of_rounded_times_give_the_times_back() {
        let time = |figure, bytes| Quantity::GibitPerSecond.published_time(figure, f64::from(bytes));
        assert_eq!(
            [time(10.17, 4096), time(88.78, 1 << 20), time(6.10, 4096)],
            [Some(3.0), Some(88.0), Some(5.0)]
        );
        assert_eq!(Quantity::Rate.published_time(2e5, 0.0), Some(5.0));
    }

    #[test]
    fn a_derived_line_may_have_no_published_figure_and_then_counts_for_none() {
        let text = TEXT.replace("published = [10.17, 88.78]", "").replace("\"predicted\"", "\"derived\"");
        assert_eq!(Experiment::parse("test", &text).unwrap().series[0].figures(), 0);
    }

    #[test]
    fn each_value_of_a_series_is_a_run() {
        let experiment = Experiment::parse("test", TEXT).unwrap();
        let points = experiment.series[0].points("test").unwrap();
        assert_eq!(points.iter().map(|point| point.size.bytes()).collect::<Vec<_>>(), [4096, 1 << 20]);
    }

    #[test]
    fn another_axis_sets_its_key() {
        let text = TEXT.replace(
            r#"values = ["4KiB", "1MiB"]"#,
            "axis = \"loss.links\"\nsize = \"4MiB\"\nvalues = [1, 2]",
        );
        let points = Experiment::parse("test", &text).unwrap().series[0].points("test").unwrap();
        assert_eq!(points[1].size.bytes(), 4 << 20);
        assert_eq!(points[1].set["loss"]["links"].as_integer(), Some(2));
        assert!(points[1].baseline_set.is_empty(), "a baseline differs only where the file says so");
    }

    #[test]
    fn another_axis_sets_its_key_for_the_baseline_if_the_file_says_so() {
        let text = TEXT.replace("gibit-per-second", "speedup").replace(
            r#"values = ["4KiB", "1MiB"]"#,
            "baseline = \"ring\"\nbaseline_axis = true\naxis = \"topology\"\nsize = \"4MiB\"\nvalues = [\"star-2\", \"star-3\"]",
        );
        let points = Experiment::parse("test", &text).unwrap().series[0].points("test").unwrap();
        let found = [&points[1].set, &points[1].baseline_set].map(|set| set["topology"].as_str());
        assert_eq!(found, [Some("star-3"); 2]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (from, to) in [
            ("[10.17, 88.78]", "[1.0, 2.0, 3.0]"),
            ("design = \"epic-3\"", "design = \"epic-3\"\nbaseline = \"ring\""),
            ("gibit-per-second", "speedup"),
            ("\"4KiB\"", "\"4Kb\""),
            ("title", "titel"),
            ("kind = \"predicted\"", ""),
            ("\"predicted\"", "\"measured\""),
            ("published = [10.17, 88.78]", ""),
            ("published = [10.17, 88.78]", "formula = \"latency\""),
            ("[10.17, 88.78]", "[10.17, 88.78]\nformula = \"switch-memory\""),
        ] {
            assert!(Experiment::parse("test", &TEXT.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn the_wider_tolerance_counts_and_bounds_are_one_sided() {
        let tolerance = Tolerance {
            relative: 0.1,
            absolute: Some(Duration::from_micros(1)),
            why: "times are rounded to it".to_owned().try_into().unwrap(),
        };
        assert!(tolerance.accepts(Bound::Near, 3.0, 4.0, true));
        assert!(!tolerance.accepts(Bound::Near, 3.0, 4.1, true));
        assert!(!tolerance.accepts(Bound::Near, 3.0, 4.0, false));
        assert!(tolerance.accepts_by_absolute_alone(Bound::Near, 3.0, 4.0, true));
        assert!(!tolerance.accepts_by_absolute_alone(Bound::Near, 3.0, 3.2, true));
        assert!(
            tolerance.accepts(Bound::AtLeast, 0.97, 1.2, false)
                && !tolerance.accepts(Bound::AtMost, 0.97, 1.2, false)
        );
    }

    #[test]
    fn a_tolerance_says_in_a_sentence_why_it_is_that_wide() {
        let error = |why: &str| {
            let text = TEXT.replace(", why = \"times are rounded to it\"", why);
            Experiment::parse("test", &text).unwrap_err().to_string()
        };
        assert!(error("").contains("`why`"), "{}", error(""));
        assert!(error(", why = \"as ever\"").contains("a sentence"), "{}", error(", why = \"as ever\""));
        let elsewhere = "runner = \"make it\"\npaper = \"p\"\nid = \"i\"\ntitle = \"t\"\nkind = \"formula\"\n\
            found = { met = 1, missed = 0 }\ntolerance = { relative = 0.1 }";
        assert!(Elsewhere::parse("test", elsewhere).unwrap_err().to_string().contains("`why`"));
    }

    #[test]
    fn a_figure_for_all_values_is_for_the_best_or_the_least_of_them() {
        let values = [1.2, 1.5, 1.1, 1.5, 1.1];
        assert_eq!(Pick::Best.of(&values), Some((Some(1), 1.5)));
        assert_eq!(Pick::Least.of(&values), Some((Some(2), 1.1)));
        assert_eq!(Pick::Mean.of(&[1.0, 4.0]), Some((None, 2.5)));
        let (_, geometric) = Pick::Geomean.of(&[1.0, 4.0]).unwrap();
        assert!((geometric - 2.0).abs() < 1e-12, "{geometric}");
        assert_eq!(Pick::Geomean.of(&[]), None);
        assert_eq!(Pick::Best.of(&[]), None);
    }

    #[test]
    fn a_kind_is_written_as_it_is_printed() {
        for kind in FigureKind::ALL {
            let text = TEXT.replace("\"predicted\"", &format!("\"{kind}\""));
            assert_eq!(Experiment::parse("test", &text).unwrap().series[0].kind, kind);
        }
    }

    #[test]
    fn what_is_ours_and_what_cannot_fail_is_not_counted() {
        let counted = FigureKind::ALL.map(FigureKind::is_counted);
        assert_eq!(counted, [true, true, true, false, false]);
    }

    #[test]
    fn every_experiment_in_the_project_is_right() {
        assert!(!Experiment::find("").unwrap().is_empty());
        assert!(Experiment::find("no-such-paper").unwrap_err().to_string().contains("epic/table25"));
    }

    #[test]
    fn figures_that_are_run_elsewhere_say_their_kind_too() {
        let error = |kind: &str| {
            let text = format!(
                "runner = \"make it\"\npaper = \"p\"\nid = \"i\"\ntitle = \"t\"\nfound = {{ met = 1, missed = 0 }}\n{kind}"
            );
            Elsewhere::parse("test", &text).expect_err("a refusal").to_string()
        };
        assert!(error("").contains("kind"));
        assert!(error("kind = \"measured\"").contains("measured"));
    }

    #[test]
    fn every_file_is_run_here_or_elsewhere() {
        let all = Experiment::find("").unwrap().len() + Elsewhere::find("").unwrap().len();
        assert_eq!(all, texts().len());
        assert_eq!(Elsewhere::find("scin").unwrap()[0].found, Found { met: 7, missed: 3 });
    }

    #[test]
    fn a_series_has_no_more_independent_figures_than_figures() {
        let text =
            |count: usize| TEXT.replace("[10.17, 88.78]", &format!("[10.17, 88.78]\nindependent = {count}"));
        assert_eq!(Experiment::parse("test", &text(1)).unwrap().series[0].independent(), 1);
        assert!(Experiment::parse("test", &text(3)).is_err());
        assert_eq!(Experiment::parse("test", TEXT).unwrap().series[0].independent(), 2);
    }

    #[test]
    fn a_row_of_figures_that_a_paper_prints_twice_counts_once() {
        let mut counted = std::collections::BTreeSet::new();
        for experiment in Experiment::find("").unwrap() {
            // One or two figures may be the same by chance.
            let rows = experiment.series.iter().filter(|series| series.kind.is_counted());
            for series in rows.filter(|series| series.published.len() > 2 && series.independent() > 0) {
                let row = (experiment.paper.clone(), format!("{:?}", series.published));
                assert!(counted.insert(row), "{}/{} counts a row again", experiment.paper, experiment.id);
            }
        }
    }

    #[test]
    fn an_experiment_that_is_run_elsewhere_says_how() {
        let error = Experiment::find("scin/table1").unwrap_err();
        assert!(error.to_string().ends_with("run `make experiment-scin-table1`"), "{error}");
    }
}
