//! Running a sub-layer: accelerators with a program each, switches with the unit that the schedule wants, until all has ended.

use super::node::{LayerNode, LayerNodeCommand, LayerNodeConfig, LayerNodeEvent};
use super::samples::{OverTime, Sampler};
use crate::memory_fabric::{FlitMedium, MemoryFabric};
use crate::progress::{Progress, ProgressFn};
use crate::session::{Interrupted, Next, Runs, Session};
use quincunx_accelerator::{Coordination, GpuConfig, GpuEvent, Machine, Offload, Schedule, SubLayer};
use quincunx_cluster::unit_of;
use quincunx_collective::{Collective, DataType, LengthOnly, ReduceOp, Reduction};
use quincunx_design::{
    AcceleratorFabric, AnyDesign, Form, MemoryStream, PayloadKind, Placement, Refusal, Settings,
};
use quincunx_driver_des::{BusyOverTime, Limits, NodeIndex, Simulation, Stopped};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_engine::{Engine, PortId};
use quincunx_memory::PortConfig;
use quincunx_nodes::fabric::FabricSwitchConfig;
use quincunx_scenario::{MachineSetup, ScenarioError};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_workload::{ProfileError, TransformerError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What runs: a sub-layer on accelerators around switches, by a schedule.
#[derive(Clone, Debug)]
pub struct LayerRun<'a> {
    /// The fabric.
    pub fabric: &'a MemoryFabric,
    /// Its accelerators.
    pub setup: &'a MachineSetup,
    /// Switches that each of the fabric's stands for.
    pub planes: u16,
    /// Of each of them.
    pub layer: SubLayer,
    /// How.
    pub schedule: &'static dyn Schedule,
    /// The design whose unit the schedule wants, and its settings.
    pub unit: Option<(&'static dyn AnyDesign, Settings)>,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// When a kernel ran on an accelerator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelSpan {
    /// Its name.
    pub name: String,
    /// The accelerator.
    pub rank: u16,
    /// From its first block that may be dispatched.
    pub from: Duration,
    /// To the end of its last block.
    pub to: Duration,
}

/// What a run has given.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerOutcome<P> {
    /// Until the last accelerator has ended.
    pub time: Duration,
    /// The share of that time in which SMs computed.
    pub sm_utilisation: f64,
    /// The share in which links were busy, on average over all links and both directions.
    pub link_utilisation: f64,
    /// The same for packets to switches, and from switches.
    pub directions: [f64; 2],
    /// How busy every direction was over time.
    pub busy_over_time: BusyOverTime,
    /// What it looked like over time, if somebody asked.
    pub over_time: Option<OverTime>,
    /// When kernels ran.
    pub kernels: Vec<KernelSpan>,
    /// Packets on links.
    pub packets: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// What switches dropped, and accelerators: nothing, if all is right.
    pub drops: u64,
    /// What the units of all switches have counted, by name: of all ports together, and at the port with most.
    pub counted: BTreeMap<String, (u64, u64)>,
    /// The accelerators' memories.
    pub memories: Vec<P>,
}

impl LayerOutcome<LengthOnly> {
    /// Of several runs; what is counted is of all of them, and nothing is said over time.
    pub(super) fn mean<'a>(runs: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let count = runs.clone().count() as u64;
        let share = |of: fn(&Self) -> f64| runs.clone().map(of).sum::<f64>() / count as f64;
        let sum = |of: fn(&Self) -> u64| runs.clone().map(of).sum::<u64>();
        let mut counted = BTreeMap::new();
        for (name, &(all, most)) in runs.clone().flat_map(|run| &run.counted) {
            let (sum, peak) = counted.entry(name.clone()).or_insert((0, 0));
            *sum += all;
            *peak = most.max(*peak);
        }
        Self {
            time: runs.clone().map(|run| run.time).sum::<Duration>() / count,
            sm_utilisation: share(|run| run.sm_utilisation),
            link_utilisation: share(|run| run.link_utilisation),
            directions: [share(|run| run.directions[0]), share(|run| run.directions[1])],
            busy_over_time: BusyOverTime::default(),
            over_time: None,
            kernels: Vec::new(),
            packets: sum(|run| run.packets) / count,
            steps: sum(|run| run.steps) / count,
            drops: sum(|run| run.drops),
            counted,
            memories: Vec::new(),
        }
    }
}

/// Why there is none.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LayerError {
    /// It cannot be cut into tiles.
    #[error("{0}")]
    Plan(String),
    /// The switch's unit does not suit the fabric.
    #[error(transparent)]
    Unit(#[from] Refusal),
    /// The scenario has no such design, or no accelerators around switches.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The model, or its split.
    #[error(transparent)]
    Model(#[from] TransformerError),
    /// The profile of its machine.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// No schedule of that name, no model, or no such part of it.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What, and which there are.
        expected: String,
        /// What was said.
        found: String,
    },
    /// The collective that it is compared with.
    #[error(transparent)]
    Collective(#[from] Box<crate::MeasureError>),
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
    /// Nothing more happens, and it is not over.
    #[error(
        "expected {expected} accelerators to finish, found {found} when nothing more could happen; this is a fault of the schedule"
    )]
    Stalled {
        /// Accelerators.
        expected: u16,
        /// Of them, those that did.
        found: u16,
    },
}

/// How elements are added.
pub(crate) const fn reduction(element: u8) -> Reduction {
    let data_type = if element == 2 { DataType::F16 } else { DataType::F32 };
    Reduction { op: ReduceOp::Sum, data_type }
}

/// What schedules are told of the machine.
pub fn machine(fabric: &MemoryFabric, setup: &MachineSetup, planes: u16, seed: u64) -> Machine {
    let gpu = setup.gpu();
    Machine {
        ranks: fabric.accelerators,
        switches: fabric.switches,
        planes,
        sms: gpu.sms,
        blocks_per_sm: setup.blocks_per_sm,
        tensor: gpu.tensor,
        memory: gpu.memory,
        norm_efficiencies: [setup.norm_efficiency, setup.norm_backward_efficiency],
        l2: ByteCount::new(gpu.l2.bytes() / u64::from(planes)),
        element: setup.element,
        tile_rows: setup.tile_rows,
        tile_columns: setup.tile_columns,
        tile_inner: setup.tile_inner,
        norm_rows: setup.norm_rows,
        launch: setup.launch,
        skew: setup.skew,
        jitter: setup.jitter.value(),
        drift: setup.drift.value(),
        drift_time: setup.drift_time,
        coordination: Coordination {
            pre_launch: setup.pre_launch,
            pre_access: setup.pre_access,
            throttle: setup.throttle,
        },
        communication_sms: setup.communication_sms,
        copy_engines: setup.copy_engines,
        line: fabric.format.max_payload as u32,
        seed,
    }
}

/// Runs it over lengths alone.
///
/// # Errors
/// If the sub-layer cannot be cut, the unit refuses the fabric, or it does not end.
pub fn run_layer(
    run: &LayerRun<'_>,
    progress: ProgressFn<'_>,
) -> Result<LayerOutcome<LengthOnly>, LayerError> {
    run_filled(run, |_, _| None, progress)
}

/// Runs it over lengths alone, and keeps what it looks like over time in at most `intervals` intervals.
///
/// # Errors
/// As [`run_layer`].
pub fn run_sampled(
    run: &LayerRun<'_>,
    intervals: Option<usize>,
    progress: ProgressFn<'_>,
) -> Result<LayerOutcome<LengthOnly>, LayerError> {
    run_all(run, |_, _| None, intervals, progress)
}

/// Runs it with memories that `fill` gives, by rank and length; none: zero.
///
/// # Errors
/// As [`run_layer`].
pub fn run_filled<P: PayloadKind>(
    run: &LayerRun<'_>,
    fill: impl Fn(u16, usize) -> Option<P>,
    progress: ProgressFn<'_>,
) -> Result<LayerOutcome<P>, LayerError> {
    run_all(run, fill, None, progress)
}

fn run_all<P: PayloadKind>(
    run: &LayerRun<'_>,
    fill: impl Fn(u16, usize) -> Option<P>,
    intervals: Option<usize>,
    progress: ProgressFn<'_>,
) -> Result<LayerOutcome<P>, LayerError> {
    let LayerRun { fabric, setup, layer, schedule, .. } = run;
    let machine = machine(fabric, setup, run.planes, run.seed);
    let planes = u64::from(run.planes);
    let medium = FlitMedium { format: fabric.format, accelerators: fabric.accelerators, gap: fabric.gap };
    let port = PortConfig::covering_round_trip(fabric.link.rate, fabric.link.latency, &fabric.format);
    let parts = fabric.parts();
    let mut simulation = Simulation::new(medium, run.seed);
    let mut names = Vec::new();
    let mut gpus = Vec::new();
    let mut offloads: Option<Vec<Offload>> = None;
    for rank in 0..fabric.accelerators {
        let plan = schedule.plan(layer, &machine, rank).map_err(LayerError::Plan)?;
        names.push(plan.program.kernels.iter().map(|kernel| kernel.name.clone()).collect::<Vec<_>>());
        let packets = setup.load_window.bytes() / fabric.format.max_payload as u64;
        let window = (packets / (u64::from(fabric.switches) * planes)).clamp(1, u64::from(u32::MAX)) as u32;
        let length = plan.program.memory;
        let config = GpuConfig {
            rank,
            ranks: fabric.accelerators,
            switches: (0..fabric.switches).map(|index| parts.switch(index)).collect(),
            format: fabric.format,
            port,
            response_latency: fabric.response_latency,
            sms: machine.sms,
            blocks_per_sm: setup.blocks_per_sm,
            claims_ahead: setup.claims_ahead,
            prefetch: setup.prefetch,
            load_window: window,
            loads_ahead: setup.loads_ahead.bytes() / planes,
            l2: machine.l2.bytes(),
            sums_ahead: setup.sums_ahead.bytes() / planes,
            shared_requests: plan.shared_requests,
            sync_timeout: setup.sync_timeout,
            reduction: reduction(setup.element),
            program: Arc::new(plan.program),
        };
        let offloads = offloads.get_or_insert_with(|| plan.offloads.clone());
        assert_eq!(*offloads, plan.offloads, "what switches do is the same for all accelerators");
        let Ok(node) = LayerNode::new(LayerNodeConfig::Gpu(Box::new(config)));
        let node = simulation.add_node(node);
        if let Some(memory) = fill(rank, length) {
            simulation.command(node, LayerNodeCommand::Fill(memory)).expect("it is an accelerator");
        }
        gpus.push(node);
    }
    let streams = streams(run, parts, &offloads.unwrap_or_default())?;
    let mut switches = Vec::new();
    for index in 0..fabric.switches {
        let units = match &run.unit {
            None => Vec::new(),
            Some((design, settings)) => {
                vec![unit_of(*design, settings, parts, index, &streams, None)?]
            }
        };
        let config = FabricSwitchConfig {
            node: parts.switch(index),
            ports: fabric.accelerators,
            port,
            early_write_response: quincunx_cluster::EARLY_WRITE_RESPONSE,
            units,
        };
        let Ok(node) = LayerNode::new(LayerNodeConfig::Switch(config));
        switches.push(simulation.add_node(node));
    }
    for (&gpu, rank) in gpus.iter().zip(0..) {
        for (&switch, index) in switches.iter().zip(0..) {
            simulation.connect((gpu, &[PortId(index)][..]), (switch, &[PortId(rank)][..]), fabric.link);
        }
    }
    for &gpu in &gpus {
        simulation.command(gpu, LayerNodeCommand::Start).expect("it is an accelerator");
    }
    follow(run, simulation, &names, intervals.map(Sampler::new), progress)
}

/// The streams of the switches' unit: what it does by itself, each once; if that is nothing, one that says what it adds.
fn streams(
    run: &LayerRun<'_>,
    parts: AcceleratorFabric,
    offloads: &[Offload],
) -> Result<Vec<MemoryStream>, LayerError> {
    let nothing = Span { offset: 0, length: 0 };
    let reduction = reduction(run.setup.element);
    let none = MemoryStream {
        request: InPlaceRequest { collective: Collective::AllReduce, reduction, span: nothing },
        form: Form::Exact,
        number: 0,
        first_word: WordId(0),
        tail: nothing,
        scratch: nothing,
        times: 1,
    };
    let Some((design, settings)) = run.unit.as_ref().filter(|_| !offloads.is_empty()) else {
        return Ok(vec![none]);
    };
    let plan = |collective, span| {
        let request = InPlaceRequest { collective, reduction, span };
        Ok::<_, LayerError>((request, design.plan(settings, &Placement::on_memory(parts, request))?))
    };
    let stream = |(offload, number): (&Offload, u16)| {
        let whole = offload.values * usize::from(run.setup.element);
        // How long a vector is rests on its form.
        let length = match plan(offload.collective, nothing)?.1.form {
            Form::Exact | Form::Requantized(_) | Form::FixedPoint => whole,
            Form::Codes(scheme) => scheme.code_bytes(offload.values),
        };
        let span = Span { offset: offload.address as usize, length };
        let (request, plan) = plan(offload.collective, span)?;
        let (form, needs) = (plan.form, plan.memory);
        let fits = needs.words <= parts.switches && length + needs.tail <= whole && needs.scratch == 0;
        if !fits {
            return Err(LayerError::Expected {
                expected: format!(
                    "a vector of {length} bytes and {} behind it in the room of its elements",
                    needs.tail
                ),
                found: format!("{whole} bytes; take larger elements, or fewer bits of a code"),
            });
        }
        let tail = Span { offset: span.offset + length, length: needs.tail };
        Ok(MemoryStream { request, form, number, first_word: WordId(offload.done.0), tail, ..none })
    };
    offloads.iter().zip(0..).map(stream).collect()
}

/// A run whose work is known: blocks that have ended, of all that there are on all accelerators.
struct Counting<P: PayloadKind>(Simulation<LayerNode<P>, FlitMedium>);

impl<P: PayloadKind> Runs for Counting<P> {
    type Event = LayerNodeEvent;

    fn run(&mut self, limits: Limits) -> Stopped<LayerNodeEvent> {
        self.0.run(limits)
    }

    fn progress(&self) -> Progress {
        let (mut done, mut all) = (0, 0);
        for (_, node) in self.0.engines() {
            if let LayerNode::Gpu(gpu) = node {
                for kernel in gpu.kernels() {
                    done += u64::from(kernel.done);
                    all += u64::from(kernel.blocks);
                }
            }
        }
        let share = Some(done as f64 / f64::max(all as f64, 1.0));
        Progress { share, ..self.0.progress() }
    }
}

fn follow<P: PayloadKind>(
    run: &LayerRun<'_>,
    simulation: Simulation<LayerNode<P>, FlitMedium>,
    names: &[Vec<String>],
    mut sampler: Option<Sampler>,
    progress: ProgressFn<'_>,
) -> Result<LayerOutcome<P>, LayerError> {
    let (mut finished, mut end) = (0, Instant::ZERO);
    let mut launched = vec![Vec::new(); names.len()];
    let mut kernels = Vec::new();
    let mut simulation = Counting(simulation);
    let mut session = Session::new(simulation.progress(), progress);
    let mut until = Limits::NONE.time;
    let zero = Instant::ZERO;
    let (expected, switches) = (run.fabric.accelerators, run.fabric.switches);
    if let Some(sampler) = &sampler {
        until = sampler.next();
    }
    loop {
        match session.next(&mut simulation, until)? {
            Next::Event(emitted) => {
                let rank = emitted.node.0 as usize;
                match emitted.event {
                    LayerNodeEvent::Gpu(GpuEvent::Launched { kernel }) => {
                        launched[rank].push((kernel, emitted.at))
                    }
                    LayerNodeEvent::Gpu(GpuEvent::Ended { kernel }) => {
                        let began = launched[rank].iter().find(|(number, _)| *number == kernel);
                        let from = began.map_or(zero, |&(_, at)| at).since(zero);
                        let name = names[rank][usize::from(kernel)].clone();
                        kernels.push(KernelSpan {
                            name,
                            rank: rank as u16,
                            from,
                            to: emitted.at.since(zero),
                        });
                        session.tell(simulation.progress())?;
                    }
                    LayerNodeEvent::Gpu(GpuEvent::Finished) => {
                        finished += 1;
                        end = emitted.at;
                        // What comes later is no longer of the sub-layer.
                        if let Some(sampler) = sampler.as_mut().filter(|_| finished == expected) {
                            sampler.sample(&simulation.0, switches);
                            until = Limits::NONE.time;
                        }
                    }
                    LayerNodeEvent::Switch(_) => {}
                }
            }
            Next::TimeLimit => {
                let sampler = sampler.as_mut().expect("time has a limit for samples alone");
                sampler.sample(&simulation.0, switches);
                until = sampler.next();
            }
            Next::Idle => break,
        }
    }
    let Counting(simulation) = simulation;
    if finished < expected {
        return Err(LayerError::Stalled { expected, found: finished });
    }
    let time = end.since(zero);
    let share = |busy: Duration, of: f64| busy.as_secs_f64() / (time.as_secs_f64() * of);
    let mut busy = [Duration::ZERO; 2];
    let mut packets = 0;
    for (direction, statistics) in simulation.statistics() {
        busy[usize::from(direction.backward)] += statistics.busy;
        packets += statistics.frames;
    }
    let links = f64::from(run.fabric.accelerators) * f64::from(run.fabric.switches);
    let directions = busy.map(|busy| share(busy, links));
    let computed = simulation.engines().filter_map(|(_, node)| match node {
        LayerNode::Gpu(gpu) => Some(gpu.busy()),
        LayerNode::Switch(_) => None,
    });
    let sms = f64::from(run.setup.gpu().sms) * f64::from(expected);
    let nodes = 0..u32::from(run.fabric.accelerators + run.fabric.switches);
    let dropped = |node| simulation.drops(NodeIndex(node)).values().sum::<u64>();
    let mut counted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (_, node) in simulation.engines() {
        if let LayerNode::Switch(switch) = node {
            switch.count(&mut |counter| {
                let (all, most) = counted.entry(counter.name.to_owned()).or_default();
                *all += counter.value;
                *most = (*most).max(counter.value);
            });
        }
    }
    let memories = simulation.engines().filter_map(|(_, node)| match node {
        LayerNode::Gpu(gpu) => Some(gpu.memory().clone()),
        LayerNode::Switch(_) => None,
    });
    Ok(LayerOutcome {
        time,
        sm_utilisation: share(computed.sum(), sms),
        link_utilisation: (directions[0] + directions[1]) / 2.0,
        directions,
        busy_over_time: simulation.busy_over_time(),
        over_time: sampler.map(|sampler| sampler.finish(time, names)),
        kernels,
        packets,
        steps: simulation.steps(),
        drops: nodes.map(dropped).sum(),
        counted,
        memories: memories.collect(),
    })
}
