//! What a scenario says and its driver cannot honour.

use crate::{
    CongestionSetup, Driver, Fabric, Measure, PacketFabric, Part, RankPlacement, Scenario, ScenarioError,
};

/// What every link carries in a second.
const RATE: &str = "link.rate";

/// What keys of links begin with, and of time in what they join.
const LINKS: [&str; 4] = ["link.", "network.", "nic.", "switch."];

/// What keys of training begin with, and those of a model's layer and what it runs on.
const TRAINING: [&str; 3] = ["train.", "layer.", "machine."];

impl Scenario {
    /// Refuses what the scenario says and the driver cannot honour. Links are what every fabric has: only one that was changed counts as
    /// said.
    pub(crate) fn refuse_dishonoured(&self, driver: &dyn Driver) -> Result<(), ScenarioError> {
        let Measure { stepwise, receivers_only, synchronised, limit } = self.measure;
        let default = Measure::default();
        let is_link = |key: &&str| LINKS.iter().any(|table| key.starts_with(table));
        let rate = self.changed().any(|key| key == RATE);
        let link = self.changed().filter(is_link).find(|key| *key != RATE);
        let trained = self.changed().find(|key| TRAINING.iter().any(|table| key.starts_with(table)));
        let is_packed = match &self.fabric {
            Fabric::Packet(PacketFabric { placement, .. }) => *placement == RankPlacement::Packed,
            _ => true,
        };
        let said = [
            (Part::Placement, "placement", !is_packed),
            (Part::Rate, RATE, rate),
            (Part::Links, link.unwrap_or_default(), link.is_some()),
            (
                Part::Loss,
                "loss",
                self.faults.loss.as_ref().is_some_and(|loss| loss.probability.value() > 0.0),
            ),
            (Part::Congestion, "congestion", self.faults.congestion != CongestionSetup::default()),
            (Part::Tokens, "tokens", self.workload.is_some()),
            (Part::Training, trained.unwrap_or_default(), trained.is_some()),
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
