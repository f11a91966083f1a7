//! Traffic alone on a fabric: a warm-up, a window in which packets are counted, and the rest of their way.

use super::meter::Latencies;
use super::{Carrying, Meter, Metered, Offered, Source};
use crate::Outputs;
use crate::measurement::standard_error;
use crate::memory_fabric::{self, MemoryFabric, RunError};
use crate::packet_fabric::{self, SimulationError};
use crate::progress::ProgressFn;
use crate::session::{Interrupted, Next, Session};
use quincunx_cluster::{Cluster, Wiring, address};
use quincunx_collective::LengthOnly;
use quincunx_design::FabricKind;
use quincunx_driver_des::Limits;
use quincunx_scenario::{Fabric, Scenario};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// How many times as long as queues take to fill the warm-up is.
const WARM_UP: u64 = 10;

/// Traffic to simulate.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficRequest {
    /// Where.
    pub scenario: Scenario,
    /// How much, and where it goes.
    pub offered: Offered,
    /// Packets that are measured, on average.
    pub packets: u64,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// What has become of traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrafficMeasurement {
    /// Hosts, or accelerators.
    pub hosts: u16,
    /// Payload of a packet.
    pub payload: ByteCount,
    /// Packets that arrived in the window, in the unit of the load: as a share of what the links of all senders carry.
    pub accepted: f64,
    /// Their payload over the window; none if none arrived.
    pub rate: Option<BitRate>,
    /// Packets that were made in the window and arrived at any time: those that the latencies are of.
    pub packets: u64,
    /// From when a packet is made until all of it is there, on average.
    pub mean: Duration,
    /// Half of the packets take longer.
    pub p50: Duration,
    /// One of a hundred takes longer.
    pub p99: Duration,
    /// The longest that one takes.
    pub max: Duration,
    /// Steps of the simulation.
    pub steps: u64,
}

impl TrafficMeasurement {
    /// The mean of several runs of one request with other seeds, and the standard error of its mean latency; the longest of all.
    ///
    /// # Panics
    /// If there are none.
    pub fn mean(runs: &[Self]) -> (Self, Duration) {
        let (first, count) = (runs.first().expect("a run at least"), runs.len() as u64);
        let mean = |latency: fn(&Self) -> Duration| runs.iter().map(latency).sum::<Duration>() / count;
        let bits = runs.iter().filter_map(|run| run.rate).map(BitRate::bits_per_second).sum::<u64>();
        let mean = Self {
            accepted: runs.iter().map(|run| run.accepted).sum::<f64>() / count as f64,
            rate: BitRate::new(bits / count),
            packets: runs.iter().map(|run| run.packets).sum(),
            mean: mean(|run| run.mean),
            p50: mean(|run| run.p50),
            p99: mean(|run| run.p99),
            max: runs.iter().map(|run| run.max).max().unwrap_or_default(),
            steps: runs.iter().map(|run| run.steps).sum(),
            ..*first
        };
        (mean, standard_error(runs.iter().map(|run| run.mean)))
    }
}

/// Why traffic could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrafficError {
    /// The packet simulation's reason.
    #[error(transparent)]
    Packet(#[from] SimulationError),
    /// The memory simulation's reason.
    #[error(transparent)]
    Memory(#[from] RunError),
    /// Nothing was measured.
    #[error(
        "expected packets in the measured window that arrive, found none; measure more `packets`, or lose less"
    )]
    Nothing,
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
}

/// Runs traffic on an idle fabric.
///
/// After the warm-up packets are measured that are made in a window of time. Then no more are made, and those
/// under way arrive. A load that the fabric cannot take has no steady state: its latencies grow with the window.
///
/// # Errors
/// If the fabric has nobody to send to or no way there, or if whoever is told how far it has come stops it.
pub fn measure_traffic(
    request: &TrafficRequest,
    progress: ProgressFn<'_>,
) -> Result<TrafficMeasurement, TrafficError> {
    measure_traffic_with_outputs(request, Outputs::default(), progress)
}

/// The same, writing every frame to `outputs`.
///
/// # Errors
/// As [`measure_traffic`], or if an output cannot be written.
pub fn measure_traffic_with_outputs(
    request: &TrafficRequest,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<TrafficMeasurement, TrafficError> {
    let (offered, seed) = (request.offered, request.seed);
    match &request.scenario.fabric {
        Fabric::Packet(fabric) => {
            let scenario = &request.scenario;
            let wiring = Wiring::of(&scenario.fabric).filter(|_| scenario.kind() == FabricKind::Tree);
            let mut cluster = Cluster::bare(wiring.ok_or(SimulationError::NoWay)?, address);
            cluster.forward_everything();
            let outputs =
                packet_fabric::OutputObserver::new(outputs, &cluster).map_err(SimulationError::output)?;
            let observer = (Meter::default(), outputs);
            let mut built = packet_fabric::Built::<LengthOnly, _>::new(scenario, cluster, seed, observer)?;
            let source = Source::new(offered, built.population()?, seed);
            let (latency, payload) = (fabric.link.latency, scenario.packet);
            let measured = measure_on(&mut built, source, latency, payload, request.packets, progress)?;
            built.simulation.into_observer().1.finish().map_err(SimulationError::output)?;
            Ok(measured)
        }
        Fabric::Mesh(_) | Fabric::MemoryMesh(_) | Fabric::Servers(_) => Err(SimulationError::NoWay.into()),
        Fabric::Memory(fabric) => {
            let setup = MemoryFabric { traffic: Some((offered, seed)), ..MemoryFabric::from(fabric) };
            let outputs = memory_fabric::OutputObserver::of(outputs, &setup).map_err(RunError::output)?;
            let observer = (Meter::default(), outputs);
            let mut built = memory_fabric::Built::<LengthOnly, _>::new(&setup, &[], 1, observer)?;
            let source = Source::new(offered, setup.population()?, seed);
            let (latency, payload) = (setup.link.latency, ByteCount::new(setup.format.max_payload as u64));
            let measured = measure_on(&mut built, source, latency, payload, request.packets, progress)?;
            built.simulation.into_observer().1.finish().map_err(RunError::output)?;
            Ok(measured)
        }
    }
}

fn measure_on<C: Metered>(
    carrier: &mut C,
    mut source: Source,
    latency: Duration,
    payload: ByteCount,
    packets: u64,
    progress: ProgressFn<'_>,
) -> Result<TrafficMeasurement, TrafficError> {
    let start = Instant::ZERO + source.settling_time(latency) * WARM_UP;
    let window = source.time_for(packets);
    let end = start + window;
    *carrier.meter() = Meter::new(start..end);
    let mut session = Session::new(carrier.progress(), progress);
    // Nobody runs a collective: what nodes tell is nothing.
    let mut carrying = Carrying { source: Some(&mut source), carrier };
    while let Next::Event(_) = session.next(&mut carrying, end)? {}
    while let Next::Event(_) = session.next(carrier, Limits::NONE.time)? {}
    let meter = std::mem::take(carrier.meter());
    let accepted = meter.accepted();
    let Latencies { packets, mean, p50, p99, max } = meter.latencies().ok_or(TrafficError::Nothing)?;
    let capacity = window.as_secs_f64() * source.sending_links() as f64;
    Ok(TrafficMeasurement {
        hosts: source.hosts(),
        payload,
        accepted: source.packet_time().as_secs_f64() * accepted as f64 / capacity,
        rate: BitRate::of_transfer(payload * accepted, window),
        packets,
        mean,
        p50,
        p99,
        max,
        steps: carrier.progress().steps,
    })
}
