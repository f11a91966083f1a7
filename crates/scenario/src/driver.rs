//! Who carries a scenario out. Scenarios mean the same to all; drivers differ in what they set where nobody says otherwise, and in what
//! they can honour. What one cannot is refused by name.

use crate::{CongestionSetup, Fabric, Measure, Scenario, ScenarioError};
use core::fmt::Debug;
use quincunx_design::{Assignment, Value};

/// What every link carries in a second.
const RATE: &str = "link.rate";

/// A part of a scenario that not every driver can honour. Fabrics, parameters of designs and the collective itself all can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `link.rate`.
    Rate,
    /// What else there is of links: `link.*`, `network.*`.
    Links,
    /// `loss.*`.
    Loss,
    /// `congestion.*`.
    Congestion,
    /// `tokens` and what belongs to them.
    Tokens,
    /// `measure.stepwise`, `measure.receivers_only` and `measure.synchronised`.
    Moments,
    /// `measure.limit`.
    Limit,
}

/// Who carries a scenario out.
pub trait Driver: Debug {
    /// What people call it, for messages.
    fn name(&self) -> &'static str;

    /// Parameters of designs that it sets differently from their own defaults on a fabric. `keys` are those that the scenario sets,
    /// which come on top: some depend on others.
    fn base(&self, fabric: &Fabric, keys: &[Assignment]) -> Vec<Assignment>;

    /// Whether it can honour a part.
    fn honours(&self, part: Part) -> bool;

    /// Whether networks that are named by their shape have all that the preset of shapes says; their links alone otherwise.
    fn presets_shapes(&self) -> bool {
        false
    }
}

/// Links and queues in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Simulator;

impl Driver for Simulator {
    fn name(&self) -> &'static str {
        "simulations"
    }

    /// Links of a microsecond answer soon, and each packet is acknowledged.
    fn base(&self, _: &Fabric, _: &[Assignment]) -> Vec<Assignment> {
        let base: [(&str, Value); 2] =
            [("group.retry_timeout", "50us".into()), ("group.acknowledge_every", 1.into())];
        base.map(|(key, value)| (key.to_owned(), value)).into()
    }

    fn honours(&self, _: Part) -> bool {
        true
    }

    fn presets_shapes(&self) -> bool {
        true
    }
}

impl Scenario {
    /// Refuses what the scenario says and the driver cannot honour. Links are what every fabric has: only one that was changed counts as
    /// said.
    pub(crate) fn refuse_dishonoured(&self, driver: &dyn Driver) -> Result<(), ScenarioError> {
        let Measure { stepwise, receivers_only, synchronised, limit } = self.measure;
        let default = Measure::default();
        let is_link = |key: &&str| key.starts_with("link.") || key.starts_with("network.");
        let rate = self.changed().any(|key| key == RATE);
        let link = self.changed().filter(is_link).find(|key| *key != RATE);
        let said = [
            (Part::Rate, RATE, rate),
            (Part::Links, link.unwrap_or_default(), link.is_some()),
            (
                Part::Loss,
                "loss",
                self.faults.loss.as_ref().is_some_and(|loss| loss.probability.value() > 0.0),
            ),
            (Part::Congestion, "congestion", self.faults.congestion != CongestionSetup::default()),
            (Part::Tokens, "tokens", self.workload.is_some()),
            (Part::Moments, "measure.stepwise", stepwise != default.stepwise),
            (Part::Moments, "measure.receivers_only", receivers_only != default.receivers_only),
            (Part::Moments, "measure.synchronised", synchronised != default.synchronised),
            (Part::Limit, "measure.limit", limit.is_some()),
        ];
        match said.into_iter().find(|(part, _, is_said)| *is_said && !driver.honours(*part)) {
            None => Ok(()),
            Some((_, key, _)) => Err(self.key(format!(
                "expected only what {} can honour, found `{key}`; leave it out, or simulate it",
                driver.name()
            ))),
        }
    }
}
