//! How long a collective takes on a network by a design.
//!
//! Collectives are simulated at lengths of powers of two from 1 KiB to 16 MiB (of packets 64 MiB), with lines between them and behind. Messages between
//! stages, and tokens on their way to experts, take what their bytes take at the rate of an accelerator's links, and the links' latency: no engine runs.

use super::error::PredictionError;
use crate::times::{LONGEST, NoTime, Times, Why};
use crate::{Contents, KnownTimes, MeasureError, ProgressFn, Request};
use quincunx_cluster::Wiring;
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog};
use quincunx_language::{Exchange, NetworkSetup};
use quincunx_scenario::{Fabric, Scenario};
use quincunx_units::{ByteCount, Duration};

/// In place of a design: the fastest of those that change no result.
pub const AUTO: &str = "auto";

/// The longest one on a fabric of packets, whose rings of 16 and 32 hosts that wait for acknowledges take less a byte the longer their pieces are: 512 MiB
/// of 16 take 89.0 ms, 89.6 as a line from 32 and 64 MiB on, 91.6 as one from 8 and 16 MiB on.
const LONGEST_OF_PACKETS: ByteCount = ByteCount::new(64 << 20);

/// A fabric, and what decides its times in one line.
pub(super) struct Network {
    pub(super) fabric: String,
    pub(super) scenario: Scenario,
    key: String,
    catalog: Catalog,
    /// Each once, in the order of the file.
    pub(super) designs: Vec<String>,
}

impl Network {
    pub(super) fn new(setup: &NetworkSetup, catalog: Catalog) -> Result<Self, PredictionError> {
        let mut document = Scenario::document(&setup.fabric)?;
        document.merge(&setup.set)?;
        let key = document.get::<toml::Table>()?.to_string().replace(['\n', '\t'], " ");
        let scenario = Scenario::read(document, catalog)?;
        scenario.refuse_training()?;
        let designs: Vec<String> =
            setup.designs.iter().flat_map(|design| design.split('/')).map(str::to_owned).collect();
        let mut network = Self { fabric: setup.fabric.clone(), scenario, key, catalog, designs };
        let candidates = network.candidates();
        let expand = |design: String| if design == AUTO { candidates.clone() } else { vec![design] };
        network.designs = network.designs.into_iter().flat_map(expand).collect();
        let all: Vec<&'static dyn AnyDesign> =
            network.designs.iter().map(|design| network.design(design)).collect::<Result<_, _>>()?;
        network.scenario.refuse_unused(&all)?;
        Ok(network)
    }

    /// The designs of the fabric's kind that leave what a collective is to leave.
    pub(super) fn candidates(&self) -> Vec<String> {
        let choices = self.catalog.choices(self.scenario.kind());
        let exact = choices.filter(|design| design.about().is_exact && design.about().offers_any());
        exact.map(|design| design.name().to_owned()).collect()
    }

    pub(super) fn design(&self, name: &str) -> Result<&'static dyn AnyDesign, PredictionError> {
        Ok(self.scenario.design(self.catalog, name)?)
    }

    /// Why a request has no time.
    pub(super) fn no_run(&self, request: &Request, size: ByteCount, error: MeasureError) -> PredictionError {
        PredictionError::Run {
            collective: request.collective,
            size,
            design: request.design.name().into(),
            fabric: self.fabric.clone(),
            error: Box::new(error),
        }
    }

    /// How long an exchange takes.
    pub(super) fn time(
        &self,
        model: &str,
        design: &str,
        exchange: &Exchange,
        known: &KnownTimes,
        progress: ProgressFn<'_>,
    ) -> Result<Duration, PredictionError> {
        let group = exchange.group.name();
        let collective = match exchange.collective {
            Some(collective) if !matches!(collective, Collective::Dispatch | Collective::Combine) => {
                collective
            }
            _ => return self.message(exchange.bytes, group),
        };
        let found = self.scenario.ranks();
        if u32::from(found) != exchange.ranks {
            let (expected, fabric, model) = (exchange.ranks, self.fabric.clone(), model.into());
            return Err(PredictionError::Ranks { group, expected, found, fabric, model });
        }
        let request = Request {
            scenario: self.scenario.clone(),
            design: self.design(design)?,
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F16 },
            size: exchange.bytes,
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        };
        let longest = match self.scenario.fabric {
            Fabric::Packet(_) => LONGEST_OF_PACKETS,
            _ => LONGEST,
        };
        let mut times = Times::new(&request, &self.key, known, progress);
        let time = times.between(collective, exchange.bytes, longest);
        time.map_err(|NoTime { size, why }| match why {
            Why::Run(error) => self.no_run(&request, size, error),
            Why::Wrong(wrong) => PredictionError::Wrong { collective, size, design: design.into(), wrong },
        })
    }

    /// What a message takes by the rate of its sender's links: from one end to the other, by a switch.
    fn message(&self, bytes: ByteCount, group: &'static str) -> Result<Duration, PredictionError> {
        let no_rate = || PredictionError::NoRate { group, fabric: self.fabric.clone() };
        match &self.scenario.fabric {
            Fabric::Memory(fabric) => {
                let each = bytes / u64::from(fabric.switches);
                Ok(fabric.link.rate.time_for(each) + fabric.link.latency * 2)
            }
            fabric @ Fabric::Packet(_) => {
                let wiring = Wiring::of(fabric).ok_or_else(no_rate)?;
                let link = wiring.links().first().ok_or_else(no_rate)?.properties;
                Ok(link.rate.time_for(bytes) + link.latency * 2)
            }
            _ => Err(no_rate()),
        }
    }
}
