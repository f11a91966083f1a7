//! From a scenario to a measurement: the sub-layers of a model's layer by a schedule, and what lies outside of them.

use super::kept::Remembered;
use super::run::{LayerError, LayerOutcome, LayerRun, machine, run_sampled};
use super::samples::SeriesOf;
use crate::measurement::standard_error;
use crate::memory_fabric::MemoryFabric;
use crate::progress::{Progress, ProgressFn};
use crate::{Contents, Outputs, Request, measure};
use quincunx_accelerator::{Machine, Schedule, SubLayer as Shape};
use quincunx_collective::{Collective, LengthOnly};
use quincunx_design::{AnyDesign, Catalog, Value};
use quincunx_scenario::{DataSheet, Fabric, MachineSetup, Scenario};
use quincunx_units::{ByteCount, Duration, FlopRate};
use quincunx_workload::{Direction, KernelKind, Profile, ProfileError, SubLayer, Transformer, Work};

/// The schedules that there are.
pub type Schedules = &'static [&'static dyn Schedule];

/// What is to be measured: the part of a model that the scenario names, by a schedule.
#[derive(Clone, Debug)]
pub struct LayerRequest {
    /// Fabric, machine, model.
    pub scenario: Scenario,
    /// How.
    pub schedule: &'static dyn Schedule,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// A sub-layer, measured.
#[derive(Clone, PartialEq, Debug)]
pub struct PartMeasurement {
    /// Which.
    pub sub_layer: SubLayer,
    /// What it gave.
    pub outcome: LayerOutcome<LengthOnly>,
}

/// What a part of a model took.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerMeasurement {
    /// The model's name.
    pub model: String,
    /// Accelerators.
    pub ranks: u16,
    /// Its sub-layers.
    pub parts: Vec<PartMeasurement>,
    /// What is computed outside of them: attention, activations, gradients of weights. The same by every schedule.
    pub outside: Duration,
    /// All of it, one after the other.
    pub time: Duration,
    /// Operations of an accelerator in all of that time.
    pub operations: u64,
    /// Bytes of an entry of a merging table.
    pub entry: u64,
    /// Switches that each simulated one stands for.
    pub planes: u16,
}

impl LayerMeasurement {
    /// The mean of one request's runs with several seeds, and the standard error of its time. Counts are sums and peaks over all of them;
    /// a mean of several has no kernels, and nothing over time.
    ///
    /// # Panics
    /// If there are none.
    pub fn mean(runs: &[Self]) -> (Self, Duration) {
        if let [only] = runs {
            return (only.clone(), Duration::ZERO);
        }
        let (first, count) = (runs.first().expect("a run at least"), runs.len() as u64);
        let part = |(place, part): (usize, &PartMeasurement)| {
            let of_part = runs.iter().map(|run| &run.parts[place].outcome);
            PartMeasurement { outcome: LayerOutcome::mean(of_part), ..part.clone() }
        };
        let mean = Self {
            parts: first.parts.iter().enumerate().map(part).collect(),
            time: runs.iter().map(|run| run.time).sum::<Duration>() / count,
            ..first.clone()
        };
        (mean, standard_error(runs.iter().map(|run| run.time)))
    }

    /// The mean over sub-layers of how busy links were, over all links and both directions (CAIS figure 15).
    pub fn link_utilisation(&self) -> f64 {
        let all: f64 = self.parts.iter().map(|part| part.outcome.link_utilisation).sum();
        all / self.parts.len().max(1) as f64
    }

    /// The share of all SMs' time in which they compute (CAIS II-C); outside of sub-layers all of them do.
    pub fn computing(&self) -> f64 {
        let of = |part: &PartMeasurement| part.outcome.sm_utilisation * part.outcome.time.as_secs_f64();
        let inside: f64 = self.parts.iter().map(of).sum();
        (inside + self.outside.as_secs_f64()) / self.time.as_secs_f64()
    }

    /// How long a link was busy in each direction, in seconds, on average over all links and both directions, in all sub-layers together: in
    /// proportion to the bytes of all packets, headers included.
    pub fn link_busy(&self) -> f64 {
        let of = |part: &PartMeasurement| part.outcome.link_utilisation * part.outcome.time.as_secs_f64();
        self.parts.iter().map(of).sum()
    }

    /// The mean of how busy links are in the middle half of a sub-layer's time, over all links and both directions, and the standard deviation
    /// of that from bin to bin of time; means over sub-layers (CAIS figure 16).
    pub fn steady_utilisation(&self) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for part in &self.parts {
            let LayerOutcome { time, busy_over_time, .. } = &part.outcome;
            // Time-outs of switches expire behind the end.
            let over = time.as_picos().div_ceil(busy_over_time.bin.as_picos().max(1)) as usize;
            let over_time = busy_over_time.mean();
            let over = over.min(over_time.len());
            let bins = &over_time[over / 4..over - over / 4];
            let count = bins.len().max(1) as f64;
            let mean = bins.iter().sum::<f64>() / count;
            let variance = bins.iter().map(|bin| (bin - mean).powi(2)).sum::<f64>() / count;
            sums[0] += mean;
            sums[1] += variance.sqrt();
        }
        sums.map(|sum| sum / self.parts.len().max(1) as f64)
    }

    /// Bytes that the fullest port's merging table has held (CAIS figure 13a).
    pub fn peak_table(&self) -> u64 {
        let peak =
            |part: &PartMeasurement| part.outcome.counted.get("peak entries").map_or(0, |&(_, most)| most);
        self.parts.iter().map(peak).max().unwrap_or(0) * self.entry
    }

    /// Bytes that the tables of all ports of all switches have held, each at its fullest (CAIS V-C2).
    pub fn all_tables(&self) -> u64 {
        let all =
            |part: &PartMeasurement| part.outcome.counted.get("peak entries").map_or(0, |&(all, _)| all);
        self.parts.iter().map(all).max().unwrap_or(0) * self.entry * u64::from(self.planes)
    }

    /// Bytes that a port's table held on average over ports, the time and the sub-layers; none without samples.
    pub fn mean_table(&self) -> Option<f64> {
        let entries = self.mean_of(|of| matches!(of, SeriesOf::Table { .. }))?;
        Some(entries * self.entry as f64)
    }

    /// Requests that wait in a port's table, on average over ports, the time and the sub-layers, and the most that were seen; none
    /// without samples.
    pub fn waiting(&self) -> Option<(f64, f64)> {
        let is_waiting = |of| matches!(of, SeriesOf::Waiting { .. });
        let peak = |part: &PartMeasurement| {
            part.outcome
                .over_time
                .as_ref()
                .map_or(0.0, |found| found.peak(is_waiting).into_iter().fold(0.0, f64::max))
        };
        Some((self.mean_of(is_waiting)?, self.parts.iter().map(peak).fold(0.0, f64::max)))
    }

    /// The mean over some series, the time and the sub-layers; none if no sub-layer has such.
    fn mean_of(&self, wanted: impl Fn(SeriesOf) -> bool + Copy) -> Option<f64> {
        let of = |part: &PartMeasurement| {
            let over_time = part.outcome.over_time.as_ref()?;
            let values = over_time.mean(wanted);
            (!values.is_empty()).then(|| over_time.over_all(&values))
        };
        let means: Vec<f64> = self.parts.iter().filter_map(of).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// From the first to the last request for an address, on average (CAIS figure 13b).
    pub fn mean_wait(&self) -> Duration {
        let sum = |name: &str| -> u64 {
            let of = |part: &PartMeasurement| part.outcome.counted.get(name).map_or(0, |&(all, _)| all);
            self.parts.iter().map(of).sum()
        };
        Duration::from_picos(sum("waited") / sum("ended").max(1))
    }

    /// Operations of an accelerator in a second.
    pub fn throughput(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// The schedule of that name.
///
/// # Errors
/// If there is none; the message has those that there are.
pub fn find_schedule(schedules: Schedules, name: &str) -> Result<&'static dyn Schedule, LayerError> {
    schedules.iter().copied().find(|schedule| schedule.name() == name).ok_or_else(|| {
        let names: Vec<_> = schedules.iter().map(|schedule| schedule.name()).collect();
        LayerError::Expected {
            expected: format!("a schedule ({})", names.join(", ")),
            found: format!("\"{name}\"; name one of them"),
        }
    })
}

/// What of a layer runs: sub-layers, and passes whose work outside of sub-layers is counted.
fn parts(part: &str) -> Result<(Vec<SubLayer>, Vec<Direction>), LayerError> {
    let both = [Direction::Forward, Direction::Backward];
    let whole = |passes: &[Direction]| {
        (passes.iter().flat_map(|pass| pass.sub_layers()).collect::<Vec<_>>(), passes.to_vec())
    };
    match part {
        "both" => Ok(whole(&both)),
        "sub-layers" => Ok((SubLayer::ALL.to_vec(), Vec::new())),
        _ => {
            if let Ok(direction) = part.parse::<Direction>() {
                return Ok(whole(&[direction]));
            }
            let sub_layer: Result<SubLayer, _> = part.parse();
            sub_layer.map(|sub_layer| (vec![sub_layer], Vec::new())).map_err(|_| LayerError::Expected {
                expected: "a part of a layer (L1, L2, L3, L4, sub-layers, forward, backward, both)".into(),
                found: format!("\"{part}\"; name one of them"),
            })
        }
    }
}

fn model(scenario: &Scenario) -> Result<Transformer, LayerError> {
    let name = scenario.layer.model.as_deref().ok_or_else(|| LayerError::Expected {
        expected: format!("a model in `layer.model` ({})", Transformer::names().join(", ")),
        found: "none; name one".into(),
    })?;
    Ok(Transformer::find(name)?.scaled(scenario.layer.scale))
}

fn fabric(scenario: &Scenario) -> Result<MemoryFabric, LayerError> {
    match &scenario.fabric {
        Fabric::Memory(fabric) => Ok(MemoryFabric::from(fabric)),
        _ => Err(LayerError::Expected {
            expected: "a fabric of accelerators around switches".into(),
            found: format!("{}; take a preset of that kind", scenario.place()),
        }),
    }
}

/// The fabric with the switches that are simulated, and how many each of them stands for.
fn simulated(scenario: &Scenario) -> Result<(MemoryFabric, u16), LayerError> {
    let whole = fabric(scenario)?;
    let (switches, simulated) = (whole.switches, scenario.layer.planes);
    if simulated == 0 {
        return Ok((whole, 1));
    }
    if !switches.is_multiple_of(simulated) {
        return Err(LayerError::Expected {
            expected: format!("a number of `layer.planes` that divides {switches} switches"),
            found: format!("{simulated}; name another, or 0 for all of them"),
        });
    }
    Ok((MemoryFabric { switches: simulated, ..whole }, switches / simulated))
}

/// A roofline: the longer of arithmetic and traffic to memory, each at the share of its rate that kernels of its kind reach.
pub fn outside(work: &Work, machine: &Machine, setup: &MachineSetup) -> Duration {
    let bytes = ByteCount::new(work.values() * u64::from(machine.element));
    let (arithmetic, traffic) = (machine.tensor.time_for(work.operations()), machine.memory.time_for(bytes));
    let at = |time: Duration, share: f64| Duration::from_picos((time.as_picos() as f64 / share) as u64);
    let time = match work {
        Work::Gemm(_) => arithmetic.max(traffic),
        Work::Fused { .. } => at(arithmetic, setup.attention_efficiency).max(traffic),
        Work::Elements { .. } => at(traffic, setup.element_efficiency),
    };
    time + machine.launch
}

/// The profile that a machine names, and the data sheet of the whole GPU that it is of.
///
/// # Errors
/// If it cannot be read, or is of another GPU.
pub fn profile(setup: &MachineSetup) -> Result<Option<(Profile, DataSheet)>, LayerError> {
    let Some(path) = &setup.profile else { return Ok(None) };
    let place = path.display().to_string();
    let wrong = |error: String| ProfileError::Wrong { place: place.clone(), error };
    let text = quincunx_scenario::read_text(path).map_err(|error| wrong(error.to_string()))?;
    let (profile, sheet) = (Profile::parse(&place, &text)?, setup.gpu.whole().data_sheet());
    if profile.sms != sheet.sms {
        let error = format!(
            "expected a profile of the whole GPU of `machine.gpu`, {} SMs, found {}",
            sheet.sms, profile.sms
        );
        return Err(wrong(error).into());
    }
    Ok(Some((profile, sheet)))
}

/// The machine of a scenario, with what its profile says.
///
/// # Errors
/// As [`profile`].
pub fn calibrated(scenario: &Scenario) -> Result<MachineSetup, LayerError> {
    let mut setup = scenario.machine.clone();
    if let Some((profile, sheet)) = profile(&setup)? {
        let of = |kind| profile.fit(kind, sheet.tensor, sheet.memory).map(|fit| fit.efficiency);
        let products = of(KernelKind::Product).expect("a profile has products");
        let share = f64::from(setup.gpu().sms) / f64::from(sheet.sms) * products;
        setup.scale = 1.0;
        setup.tensor = FlopRate::new((sheet.tensor.operations_per_second() as f64 * share) as u64);
        let attention = of(KernelKind::Attention).map(|attention| (attention / products).min(1.0));
        for (key, measured) in [
            (&mut setup.attention_efficiency, attention),
            (&mut setup.norm_efficiency, of(KernelKind::Norm)),
            (&mut setup.norm_backward_efficiency, of(KernelKind::NormBackward)),
            (&mut setup.element_efficiency, of(KernelKind::Elements)),
        ] {
            *key = measured.unwrap_or(*key);
        }
    }
    Ok(setup)
}

/// Simulates a part of a model's layer, sub-layer by sub-layer.
///
/// # Errors
/// If there is no such model, or no such part, if it cannot be split, or if a run does not end.
pub fn measure_layer(
    request: &LayerRequest,
    catalog: Catalog,
    progress: ProgressFn<'_>,
) -> Result<LayerMeasurement, LayerError> {
    measure_remembered(request, catalog, &Remembered::default(), progress)
}

/// The same; sub-layers that `remembered` has are not run again, and those that are run it has from then on.
///
/// # Errors
/// As [`measure_layer`].
pub fn measure_remembered(
    request: &LayerRequest,
    catalog: Catalog,
    remembered: &Remembered,
    progress: ProgressFn<'_>,
) -> Result<LayerMeasurement, LayerError> {
    measure_by(request, catalog, &|run, progress| remembered.run(run, progress), progress)
}

/// The same, and what each sub-layer looks like over time, in at most `intervals` intervals.
///
/// # Errors
/// As [`measure_layer`].
pub fn measure_over_time(
    request: &LayerRequest,
    catalog: Catalog,
    intervals: Option<usize>,
    progress: ProgressFn<'_>,
) -> Result<LayerMeasurement, LayerError> {
    measure_by(request, catalog, &|run, progress| run_sampled(run, intervals, progress), progress)
}

/// How a sub-layer is run.
type RunPart<'a> = &'a dyn Fn(&LayerRun<'_>, ProgressFn<'_>) -> Result<LayerOutcome<LengthOnly>, LayerError>;

fn measure_by(
    request: &LayerRequest,
    catalog: Catalog,
    run_part: RunPart<'_>,
    progress: ProgressFn<'_>,
) -> Result<LayerMeasurement, LayerError> {
    let LayerRequest { scenario, schedule, seed } = request;
    let (model, (fabric, planes)) = (model(scenario)?, simulated(scenario)?);
    let (sub_layers, passes) = parts(&scenario.layer.part)?;
    let unit = match schedule.unit() {
        None => None,
        Some(unit) => {
            let design = scenario.design(catalog, unit.design)?;
            let mut settings = scenario.settings(design)?;
            for (key, value) in unit.set {
                let value = value.parse::<u64>().map_or_else(|_| Value::from(*value), Value::from);
                design.set(&mut settings, key, &value)?;
            }
            Some((design, settings))
        }
    };
    let setup = &calibrated(scenario)?;
    let machine = machine(&fabric, setup, planes, *seed);
    let mut measured = LayerMeasurement {
        model: model.name.clone(),
        ranks: fabric.accelerators,
        parts: Vec::new(),
        outside: Duration::ZERO,
        time: Duration::ZERO,
        operations: 0,
        entry: fabric.format.max_payload as u64,
        planes,
    };
    let count = sub_layers.len() as f64;
    for (place, sub_layer) in (0..).map(f64::from).zip(sub_layers) {
        let shape = model.sub_layer(sub_layer, fabric.accelerators)?;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let layer = Shape {
            rows: small(shape.before.m),
            inner: small(shape.before.k),
            hidden: small(shape.before.n),
            columns: small(shape.after.n),
            backward: sub_layer.direction() == Direction::Backward,
        };
        let (schedule, unit, seed) = (*schedule, unit.clone(), *seed);
        let run = LayerRun { fabric: &fabric, setup, planes, layer, schedule, unit, seed };
        // Sub-layers of a model send the same, and take about as long as each other.
        let mut progress =
            |at: Progress| progress(Progress { share: at.share.map(|share| (place + share) / count), ..at });
        let outcome = run_part(&run, &mut progress)?;
        measured.time += outcome.time;
        measured.operations += shape.before.operations() + shape.after.operations();
        measured.parts.push(PartMeasurement { sub_layer, outcome });
    }
    for pass in passes {
        for (_, work) in model.outside(pass, fabric.accelerators)? {
            measured.outside += outside(&work, &machine, setup);
            measured.operations += work.operations();
        }
    }
    measured.time += measured.outside;
    Ok(measured)
}

/// How long the AllReduces of a layer's forward pass take by `design`, over how long all of its kernels do, every accelerator normalising
/// all rows (CAIS figure 2: basic tensor parallelism, no NVLS assumed).
///
/// # Errors
/// As [`measure_layer`].
pub fn communication_share(
    scenario: &Scenario,
    design: &'static dyn AnyDesign,
    seed: u64,
    progress: ProgressFn<'_>,
) -> Result<f64, LayerError> {
    let (model, (fabric, planes)) = (model(scenario)?, simulated(scenario)?);
    let setup = &calibrated(scenario)?;
    let machine = machine(&fabric, setup, 1, seed);
    let vector = ByteCount::new(model.tokens() * u64::from(model.hidden) * u64::from(machine.element));
    // All switches have the same share of the vector.
    let mut part = scenario.clone();
    if let Fabric::Memory(whole) = &mut part.fabric {
        whole.switches = fabric.switches;
    }
    let request = Request {
        scenario: part,
        design,
        collective: Collective::AllReduce,
        reduction: super::run::reduction(machine.element),
        size: vector / u64::from(planes),
        contents: Contents::LengthOnly,
        background: None,
        seed,
    };
    let reduced = measure(&request, Outputs::default(), progress).map_err(Box::new)?;
    let mut computed = Duration::ZERO;
    let mut reduces = 0;
    for sub_layer in Direction::Forward.sub_layers() {
        let shape = model.sub_layer(sub_layer, fabric.accelerators)?;
        computed += machine.norm_time(vector, false) + machine.launch;
        for product in [shape.before, shape.after] {
            computed += outside(&Work::Gemm(product), &machine, setup);
        }
        reduces += 1;
    }
    for (_, work) in model.outside(Direction::Forward, fabric.accelerators)? {
        computed += outside(&work, &machine, setup);
    }
    Ok(reduced.time.as_secs_f64() * f64::from(reduces) / computed.as_secs_f64())
}
