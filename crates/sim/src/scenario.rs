//! From a scenario, as files and the command line write it, to a measurement: any design on any fabric.

use crate::memory_fabric::{self, MemoryMesh, RunError};
use crate::packet_fabric::{
    self, Accelerators, Background, Case, Composition, Congestion, Contents, Counted, ExpertsCase, Framing,
    HostPieces, LinkUse, LossyLinks, Mesh, MeshCase, MeshRow, Servers, Setup, SimulationError,
};
use crate::progress::Watch;
use crate::traffic::Offered;
use crate::{Designs, Outputs};
use quincunx_collective::{Bandwidths, Collective, LengthOnly, Numbers, Reduction};
use quincunx_control::Retry;
use quincunx_driver_des::{BusyOverTime, LinkConfig, PauseConfig, QueueConfig};
use quincunx_fabric::{LinkProperties, Relays};
use quincunx_multiwrite::{RelayCost, Strategy};
use quincunx_ring::Pace;
use quincunx_roce::RateConfig;
use quincunx_scenario::{self as scenario, TopologyName};
use quincunx_units::{BitRate, ByteCount, Duration};

/// Virtual time that a collective may take.
const LIMIT: Duration = Duration::from_secs(10);

/// One collective to simulate.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Where.
    pub fabric: scenario::Fabric,
    /// How: a design that the fabric allows.
    pub design: String,
    /// Which.
    pub collective: Collective,
    /// How elements combine, and what an element is.
    pub reduction: Reduction,
    /// Bytes as nccl-tests count them.
    pub size: ByteCount,
    /// What memory holds.
    pub contents: Contents,
    /// What others send on the same network meanwhile.
    pub background: Option<Offered>,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// What one direction of a link has carried.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkLoad {
    /// Where it leads.
    pub name: String,
    /// The share of the time that it was busy.
    pub utilisation: f64,
    /// Bytes, headers among them.
    pub bytes: ByteCount,
}

/// What a simulation has measured, on either kind of fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// Bytes; none for a Barrier.
    pub size: ByteCount,
    /// How long it took.
    pub time: Duration,
    /// Rates over that time.
    pub bandwidths: Bandwidths,
    /// Wrong elements over all ranks; none if memory held no numbers.
    pub wrong: Option<u64>,
    /// What the collective takes of the fullest switch: payload and degree buffers, wave tables, or the entries of a multicast
    /// unit.
    pub switch_buffer: ByteCount,
    /// Steps of the simulation.
    pub steps: u64,
    /// Frames or packets on all links.
    pub frames: u64,
    /// Directions of links.
    pub links: Vec<LinkLoad>,
    /// The most bytes that left a rank by one link.
    pub uplink: ByteCount,
    /// The most bytes that reached a rank by one link.
    pub downlink: ByteCount,
    /// How busy each of them was over time; nothing in a mean of several runs.
    pub busy_over_time: BusyOverTime,
    /// The most payload that an accelerator's links can carry, where requests and responses share them with data.
    pub payload_bound: Option<BitRate>,
}

impl Measurement {
    /// The mean of several runs of one request with other seeds, and the standard error of its time. Rates are over the
    /// mean time, wrong elements those of all.
    ///
    /// # Panics
    /// If there are none.
    pub fn mean(runs: &[Self]) -> (Self, Duration) {
        if let [only] = runs {
            return (only.clone(), Duration::ZERO);
        }
        let (count, first) = (runs.len() as u64, runs.first().expect("a run at least"));
        let total: Duration = runs.iter().map(|run| run.time).sum();
        let time = total / count;
        // What a rate counts is the same in every run, so that its mean is weighted by the time.
        let weighted = |rate: &dyn Fn(&Self) -> f64| match total {
            Duration::ZERO => 0.0,
            _ => runs.iter().map(|run| rate(run) * run.time.as_secs_f64()).sum::<f64>() / total.as_secs_f64(),
        };
        let squares = runs.iter().map(|run| (run.time.as_picos() as f64 - time.as_picos() as f64).powi(2));
        let variance = squares.sum::<f64>() / (count - 1) as f64;
        let mean_bytes = |bytes: &dyn Fn(&Self) -> ByteCount| {
            ByteCount::new(runs.iter().map(|run| bytes(run).bytes()).sum::<u64>() / count)
        };
        let link = |(at, link): (usize, &LinkLoad)| LinkLoad {
            name: link.name.clone(),
            utilisation: weighted(&|run| run.links[at].utilisation),
            bytes: mean_bytes(&|run| run.links[at].bytes),
        };
        let mean = Self {
            time,
            bandwidths: Bandwidths {
                algorithm: weighted(&|run| run.bandwidths.algorithm),
                bus: weighted(&|run| run.bandwidths.bus),
                network: weighted(&|run| run.bandwidths.network),
            },
            wrong: runs.iter().map(|run| run.wrong).sum(),
            switch_buffer: runs.iter().map(|run| run.switch_buffer).max().unwrap_or_default(),
            steps: runs.iter().map(|run| run.steps).sum::<u64>() / count,
            frames: runs.iter().map(|run| run.frames).sum::<u64>() / count,
            busy_over_time: BusyOverTime::default(),
            links: first.links.iter().enumerate().map(link).collect(),
            uplink: mean_bytes(&|run| run.uplink),
            downlink: mean_bytes(&|run| run.downlink),
            ..first.clone()
        };
        (mean, Duration::from_picos((variance / count as f64).sqrt() as u64))
    }
}

/// Why there is no measurement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MeasureError {
    /// The packet simulation's reason.
    #[error(transparent)]
    Packet(SimulationError),
    /// The memory simulation's reason.
    #[error(transparent)]
    Memory(RunError),
    /// The fabric has no such design.
    #[error("expected a design for this kind of fabric ({known}), found \"{found}\"")]
    Design {
        /// What there is.
        known: Designs,
        /// The name as given.
        found: String,
    },
    /// The owner has stopped it.
    #[error("stopped after {after} of virtual time")]
    Stopped {
        /// When.
        after: Duration,
    },
}

impl MeasureError {
    pub(crate) fn unknown(request: &Request) -> Self {
        Self::Design { known: Designs::of(&request.fabric), found: request.design.clone() }
    }
}

impl From<SimulationError> for MeasureError {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Stopped { after } => Self::Stopped { after },
            error => Self::Packet(error),
        }
    }
}

impl From<RunError> for MeasureError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Stopped { after } => Self::Stopped { after },
            error => Self::Memory(error),
        }
    }
}

/// Simulates `request`, writing every frame to `outputs`, and telling how far it has come from time to time; whoever is told
/// may stop it.
///
/// # Errors
/// If the design does not exist or does not run on the fabric, the collective does not end or was stopped, or an output
/// cannot be written.
pub fn measure(
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    match (&request.fabric, request.contents) {
        (scenario::Fabric::Packet(fabric), _) => packet(fabric, request, outputs, progress),
        (scenario::Fabric::Memory(fabric), Contents::LengthOnly) => {
            memory_fabric::measure::<LengthOnly>(fabric, request, outputs, progress)
        }
        (scenario::Fabric::Memory(fabric), Contents::Numbers) => {
            memory_fabric::measure::<Numbers>(fabric, request, outputs, progress)
        }
        (scenario::Fabric::Mesh(fabric), _) => mesh(fabric, request, outputs, progress),
        (scenario::Fabric::MemoryMesh(fabric), _) => memory_mesh(fabric, request, outputs, progress),
        (scenario::Fabric::Servers(fabric), _) => servers(fabric, request, outputs, progress),
    }
}

fn packet(
    fabric: &scenario::PacketFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    let design = request.design.parse().map_err(|_| MeasureError::unknown(request))?;
    let Request { collective, reduction, size, contents, seed, .. } = *request;
    let case = Case { design, collective, reduction, size, contents, seed };
    let setup = Setup { traffic: request.background, ..Setup::from(fabric) };
    let row = packet_fabric::simulate_watched(&setup, &case, outputs, progress)?;
    Ok(Measurement {
        size: row.size,
        time: row.time,
        bandwidths: row.bandwidths,
        wrong: row.wrong,
        switch_buffer: row.switch_buffer,
        steps: row.steps,
        frames: row.frames,
        links: loads(&row.links),
        uplink: busiest(&row.links, 0),
        downlink: busiest(&row.links, 1),
        busy_over_time: row.busy_over_time,
        payload_bound: None,
    })
}

fn mesh(
    fabric: &scenario::MeshFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    let row = packet_fabric::simulate_mesh(&Mesh::from(fabric), &mesh_case(request)?, outputs, progress)?;
    Ok(of_mesh(row))
}

fn memory_mesh(
    fabric: &scenario::MemoryMeshFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    let (mesh, case) = (MemoryMesh::from(fabric), mesh_case(request)?);
    Ok(of_mesh(memory_fabric::simulate_memory_mesh(&mesh, &case, outputs, progress)?))
}

fn mesh_case(request: &Request) -> Result<MeshCase, MeasureError> {
    let strategy = match request.design.as_str() {
        "direct" => Strategy::Direct,
        "unicast-multipath" => Strategy::Unicast,
        "multiwrite" => Strategy::MultiWrite,
        _ => return Err(MeasureError::unknown(request)),
    };
    let Request { collective, reduction, size, contents, seed, .. } = *request;
    if request.background.is_some() {
        return Err(SimulationError::NoWay.into());
    }
    Ok(MeshCase { strategy, collective, reduction, size, contents, seed })
}

fn servers(
    fabric: &scenario::ServersFabric,
    request: &Request,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<Measurement, MeasureError> {
    let relays = match request.design.as_str() {
        "direct" => false,
        "multiwrite" => true,
        _ => return Err(MeasureError::unknown(request)),
    };
    let Request { collective, contents, seed, .. } = *request;
    if request.background.is_some() {
        return Err(SimulationError::NoWay.into());
    }
    let case = ExpertsCase { relays, collective, contents, seed };
    Ok(of_mesh(packet_fabric::simulate_experts(&Servers::from(fabric), &case, outputs, progress)?))
}

fn of_mesh(row: MeshRow) -> Measurement {
    Measurement {
        size: row.size,
        time: row.time,
        bandwidths: row.bandwidths,
        wrong: row.wrong,
        switch_buffer: ByteCount::new(0),
        steps: row.steps,
        frames: row.frames,
        links: loads(&row.links),
        uplink: busiest(&row.links, 0),
        downlink: busiest(&row.links, 1),
        busy_over_time: row.busy_over_time,
        payload_bound: None,
    }
}

/// What each direction of links has carried.
pub(crate) fn loads(links: &[LinkUse]) -> Vec<LinkLoad> {
    let load = |link: &LinkUse| LinkLoad {
        name: format!("{} > {}", link.from, link.to),
        utilisation: link.utilisation,
        bytes: link.statistics.bytes,
    };
    links.iter().map(load).collect()
}

/// The most bytes on a direction that comes from a rank, or, for end 1, that goes to one.
pub(crate) fn busiest(links: &[LinkUse], end: usize) -> ByteCount {
    let of_ranks = links.iter().filter(|link| link.joins_ranks[end]);
    of_ranks.map(|link| link.statistics.bytes).max().unwrap_or_default()
}

impl From<&scenario::PacketFabric> for Setup {
    fn from(fabric: &scenario::PacketFabric) -> Self {
        let (group, congestion, measure) = (&fabric.group, &fabric.congestion, fabric.measure);
        let (loss, default) = (fabric.loss.as_ref(), HostPieces::default());
        Self {
            fabric: match &fabric.topology {
                TopologyName::Tree(shape) => packet_fabric::Fabric::Tree(shape.clone()),
                TopologyName::Ring(ranks) => packet_fabric::Fabric::Ring(*ranks),
            },
            link: LinkProperties { rate: fabric.link.rate, latency: fabric.link.latency },
            framing: fabric.link.framing.map_or(Framing::Ethernet, Framing::Fixed),
            mtu: group.mtu,
            message: group.message,
            window: group.window,
            acknowledge_every: group.acknowledge_every,
            retry: Retry { timeout: group.retry_timeout, count: group.retry_count },
            selective: group.selective,
            slots: group.slots,
            run_ahead: group.run_ahead,
            synchronize_rates: group.synchronize_rates,
            reproducible: group.reproducible,
            hosts: HostPieces {
                chunk: fabric.hosts.chunk.unwrap_or(default.chunk),
                window: fabric.hosts.window.unwrap_or(default.window),
                pace: if fabric.hosts.lockstep { Pace::Lockstep } else { default.pace },
            },
            composition: if measure.stepwise { Composition::Stepwise } else { Composition::Pipelined },
            counted: if measure.receivers_only { Counted::Receivers } else { Counted::AllRanks },
            lossy: loss.map(|loss| LossyLinks { links: loss.links, loss: loss.probability }),
            congestion: Congestion {
                queue: QueueConfig { limit: congestion.queue, mark_above: congestion.mark_above },
                background: congestion.background.map(|rate| Background { links: congestion.links, rate }),
                control: congestion.dcqcn.then(|| RateConfig::dcqcn(fabric.link.rate)),
                pause: congestion
                    .pause
                    .as_ref()
                    .map(|pause| PauseConfig { xoff: pause.xoff, xon: pause.xon }),
            },
            traffic: None,
            relay: RelayCost { message: fabric.relay.message, copy: fabric.relay.copy },
            longest: ByteCount::new(0),
            limit: LIMIT,
        }
    }
}

/// What meshes and servers are set up with alike.
fn accelerators(
    [groups, members]: [u16; 2],
    (link, group, loss): (&scenario::PacketLink, &scenario::GroupSetup, Option<&scenario::Loss>),
    (preparation, cost): (Duration, RelayCost),
) -> Accelerators {
    Accelerators {
        groups,
        members,
        link: LinkProperties { rate: link.rate, latency: link.latency },
        framing: link.framing.map_or(Framing::Ethernet, Framing::Fixed),
        mtu: group.mtu,
        outstanding: group.message * group.window,
        acknowledge_every: group.acknowledge_every,
        retry: Retry { timeout: group.retry_timeout, count: group.retry_count },
        selective: group.selective,
        lossy: loss.map(|loss| LossyLinks { links: loss.links, loss: loss.probability }),
        preparation,
        cost,
        limit: LIMIT,
    }
}

impl From<&scenario::MeshFabric> for Mesh {
    fn from(fabric: &scenario::MeshFabric) -> Self {
        let relay = &fabric.relay;
        let cost = RelayCost { message: relay.message, copy: relay.copy };
        let links = (&fabric.link, &fabric.group, fabric.loss.as_ref());
        Self {
            accelerators: accelerators([fabric.groups, fabric.members], links, (relay.preparation, cost)),
            full: relay.relays == Relays::Full,
            piece: relay.piece,
        }
    }
}

impl From<&scenario::MemoryMeshFabric> for MemoryMesh {
    fn from(fabric: &scenario::MemoryMeshFabric) -> Self {
        let (link, relay) = (&fabric.link, &fabric.relay);
        Self {
            groups: fabric.groups,
            members: fabric.members,
            link: LinkConfig { rate: link.rate, latency: link.latency },
            format: memory_fabric::flit_format(link),
            full: relay.relays == Relays::Full,
            piece: relay.piece,
            preparation: relay.preparation,
            cost: RelayCost { message: relay.message, copy: relay.copy },
            limit: LIMIT,
        }
    }
}

impl From<&scenario::ServersFabric> for Servers {
    fn from(fabric: &scenario::ServersFabric) -> Self {
        let relay = &fabric.relay;
        let cost = RelayCost { message: relay.message, copy: relay.copy };
        let links = (&fabric.link, &fabric.group, fabric.loss.as_ref());
        Self {
            accelerators: accelerators([fabric.servers, fabric.members], links, (relay.preparation, cost)),
            network: LinkProperties { rate: fabric.network.rate, latency: fabric.network.latency },
            experts: fabric.experts,
            top_k: fabric.top_k,
            gate: fabric.gate.clone(),
            tokens: fabric.most_tokens(),
            token: fabric.token,
        }
    }
}
