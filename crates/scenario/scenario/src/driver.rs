//! Who carries a scenario out. Scenarios mean the same to all; drivers differ in what they set where nobody says otherwise, and in what
//! they can honour. What one cannot is refused by name.

use crate::Fabric;
use core::fmt::Debug;
use core::str::FromStr;
use quincunx_design::{AnyDesign, Assignment, Transport};
use quincunx_units::{ByteCount, Duration};

/// No queue of a simulation is waited for longer.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(100);

/// A part of a scenario that not every driver can honour. Fabrics, parameters of designs and the collective itself all can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `link.rate`.
    Rate,
    /// What else there is of links, and of time in what they join: `link.*`, `network.*`, `nic.*`, `switch.*`.
    Links,
    /// `placement`.
    Placement,
    /// `loss.*`.
    Loss,
    /// `congestion.*`.
    Congestion,
    /// `tokens` and what belongs to them.
    Tokens,
    /// `train`, `layer` and `machine`, and what belongs to them.
    Training,
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

    /// What it sets on top for one design on a fabric.
    fn base_of(&self, _design: &dyn AnyDesign, _fabric: &Fabric) -> Vec<Assignment> {
        Vec::new()
    }

    /// Whether it can honour a part.
    fn honours(&self, part: Part) -> bool;
}

/// Links and queues in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Simulator;

impl Driver for Simulator {
    fn name(&self) -> &'static str {
        "simulations"
    }

    /// A time-out is longer than what all ranks may have under way waits in one queue: what is late is not sent again.
    fn base(&self, fabric: &Fabric, keys: &[Assignment]) -> Vec<Assignment> {
        let own = Transport::default();
        let window = said(keys, "group.mtu").unwrap_or(own.mtu)
            * said(keys, "group.message").unwrap_or(u64::from(own.message))
            * said(keys, "group.window").unwrap_or(u64::from(own.window))
            * u64::from(fabric.ranks());
        vec![time_out(fabric, window, own.retry_timeout)]
    }

    /// In switches a message may wait for other ranks, and its acknowledge with it, until its sender asks twice. Here acknowledging each packet
    /// costs nobody a system call. Datagrams have none: what is lost waits for a time-out, which is as long as the design says if that is enough.
    fn base_of(&self, design: &dyn AnyDesign, fabric: &Fabric) -> Vec<Assignment> {
        if design.about().sends_datagrams {
            let Ok(own) = design.transport(&design.defaults()) else { return Vec::new() };
            return vec![time_out(fabric, own.window_bytes() * u64::from(fabric.ranks()), own.retry_timeout)];
        }
        let is_in_switches = design.smallest_plan().is_ok_and(|plan| !plan.switches.is_empty());
        let each = ("group.acknowledge_every".to_owned(), 1.into());
        if is_in_switches { vec![each] } else { Vec::new() }
    }

    fn honours(&self, _: Part) -> bool {
        true
    }
}

/// A time-out no shorter than what so many bytes take on the slowest link, nor than `least`.
fn time_out(fabric: &Fabric, bytes: ByteCount, least: Duration) -> Assignment {
    let waits = fabric.slowest_rate().map_or(Duration::ZERO, |rate| rate.time_for(bytes));
    ("group.retry_timeout".to_owned(), waits.clamp(least, LONGEST_TIMEOUT).to_string().into())
}

/// The value that keys give to `wanted`; none if they do not, or it is of another kind.
fn said<T: FromStr>(keys: &[Assignment], wanted: &str) -> Option<T> {
    let (_, value) = keys.iter().rev().find(|(key, _)| key == wanted)?;
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Override, Scenario, ScenarioError};
    use quincunx_design::Value;
    use quincunx_designs::CATALOG;

    /// Honours nothing, and has a window of its own.
    #[derive(Debug)]
    struct Bare;

    impl Driver for Bare {
        fn name(&self) -> &'static str {
            "bare runs"
        }

        fn base(&self, _: &Fabric, _: &[Assignment]) -> Vec<Assignment> {
            vec![("group.window".to_owned(), 7.into())]
        }

        fn honours(&self, _: Part) -> bool {
            false
        }
    }

    fn find(name: &str, changes: &[&str]) -> Result<Scenario, ScenarioError> {
        let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        Scenario::find_for(&Bare, name, &changes, CATALOG)
    }

    fn value(scenario: &Scenario, design: &str, key: &str) -> Value {
        let design = scenario.design(CATALOG, design).unwrap();
        scenario.settings(design).unwrap().value(key).unwrap().clone()
    }

    #[test]
    fn what_a_scenario_says_comes_above_what_its_driver_sets() {
        assert_eq!(value(&find("star-2", &[]).unwrap(), "epic-3", "group.window"), 7);
        assert_eq!(value(&find("star-2", &["group.window=3"]).unwrap(), "epic-3", "group.window"), 3);
        let mesh = Scenario::find("mesh8", &[], CATALOG).unwrap();
        let every = value(&mesh, "multiwrite", "group.acknowledge_every");
        assert_eq!(every, 16, "as that preset says");
    }

    #[test]
    fn simulations_have_each_packet_of_a_design_in_switches_acknowledged_and_others_once_a_message() {
        let star = Scenario::find("star-2", &[], CATALOG).unwrap();
        for name in ["epic-1", "epic-2", "epic-3", "epic-mixed"] {
            assert_eq!(value(&star, name, "group.acknowledge_every"), 1, "{name}");
        }
        for name in ["ring", "double-tree", "direct", "multiwrite", "switchml", "atp"] {
            assert!(value(&star, name, "group.acknowledge_every").is_null(), "{name}");
        }
        let said =
            Scenario::find("star-2", &["group.acknowledge_every=4".parse().unwrap()], CATALOG).unwrap();
        assert_eq!(value(&said, "epic-2", "group.acknowledge_every"), 4);
    }

    #[test]
    fn a_key_goes_to_each_design_that_has_it_and_must_find_one() {
        let scenario = find("star-2", &["group.window=5", "hosts.window=3"]).unwrap();
        let designs = ["epic-3", "ring"].map(|name| scenario.design(CATALOG, name).unwrap());
        let [epic, ring] = designs.map(|design| scenario.settings(design).unwrap());
        assert_eq!([epic.value("group.window"), ring.value("group.window")], [Some(&Value::from(5)); 2]);
        assert_eq!([epic.value("hosts.window"), ring.value("hosts.window")], [None, Some(&Value::from(3))]);
        assert_eq!(scenario.refuse_unused(&designs), Ok(()));
        let error =
            find("star-2", &["relay.piece=8"]).unwrap().refuse_unused(&designs).unwrap_err().to_string();
        assert!(
            error.contains("expected one of the keys of epic-3, ring: group.acknowledge_every, "),
            "{error}"
        );
        assert!(error.contains("found `relay.piece`"), "{error}");
    }

    #[test]
    fn a_simulated_time_out_outlasts_the_windows_of_all_ranks_on_the_slowest_link() {
        let timeout = |name: &str, changes: &[&str]| {
            let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
            value(&Scenario::find(name, &changes, CATALOG).unwrap(), "ring", "group.retry_timeout")
        };
        assert_eq!(timeout("star-8", &[]), "20ms", "1.3 ms of windows");
        // Eight windows of 32 messages of 16 packets of 4 KiB.
        assert_eq!(timeout("star-8", &["link.rate=1Gbit/s"]), "134.217728ms");
        let halved = ["link.rate=1Gbit/s", "group.mtu=1KiB", "group.message=8", "group.window=256"];
        assert_eq!(timeout("star-8", &halved), "134.217728ms");
        assert_eq!(timeout("star-8", &["link.rate=1bit/s"]), "100s");
        assert_eq!(timeout("star-8", &["link.rate=1Gbit/s", "group.retry_timeout=7us"]), "7us");
        // Datagrams wait for their design's own, or for eight windows of 256 packets of 1 KiB.
        let of_datagrams = |name: &str, changes: &[&str]| {
            let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
            value(&Scenario::find(name, &changes, CATALOG).unwrap(), "switchml", "group.retry_timeout")
        };
        assert_eq!(of_datagrams("epic-star8", &[]), "1ms", "not that of the preset");
        assert_eq!(of_datagrams("star-8", &["link.rate=1Gbit/s"]), "16.777216ms");
        assert_eq!(of_datagrams("epic-star8", &["group.retry_timeout=7us"]), "7us");
        // Two windows on the slower of the two links.
        let slow = "kind = \"packet\"\n[[node]]\nname = \"a\"\nkind = \"host\"\n[[node]]\nname = \"b\"\nkind = \"host\"\n\
                    [[node]]\nname = \"s\"\nkind = \"switch\"\n\
                    [[link]]\nbetween = [\"a\", \"s\"]\nrate = \"100Gbit/s\"\nlatency = \"1us\"\n\
                    [[link]]\nbetween = [\"b\", \"s\"]\nrate = \"500Mbit/s\"\nlatency = \"1us\"";
        let listed = Scenario::read(Document::parse("own.toml", slow).unwrap(), CATALOG).unwrap();
        assert_eq!(value(&listed, "ring", "group.retry_timeout"), "67.108864ms");
    }

    #[test]
    fn each_part_that_a_driver_cannot_honour_is_refused_by_its_key() {
        for (fabric, change, key) in [
            ("star-2", "placement=spread", "`placement`"),
            ("star-2", "loss.probability=1%", "`loss`"),
            ("star-2", "congestion.queue=64KiB", "`congestion`"),
            ("star-2", "link.rate=1Gbit/s", "`link.rate`"),
            ("star-2", "link.latency=1us", "`link.latency`"),
            ("star-2", "switch.latency=1us", "`switch.latency`"),
            ("servers-2x2", "network.latency=1us", "`network.latency`"),
            ("star-2", "measure.stepwise=true", "`measure.stepwise`"),
            ("star-2", "measure.receivers_only=true", "`measure.receivers_only`"),
            ("star-2", "measure.limit=1s", "`measure.limit`"),
            ("scin-dgx8", "measure.synchronised=false", "`measure.synchronised`"),
            ("star-2", "train.overlap=false", "`train.overlap`"),
            ("scin-dgx8", "machine.sms=32", "`machine.sms`"),
            ("scin-dgx8", "layer.scale=2", "`layer.scale`"),
            ("two-servers", "group.window=2", "`tokens`"),
        ] {
            let message = find(fabric, &[change]).unwrap_err().to_string();
            assert!(message.contains("bare runs") && message.contains(key), "{change}: {message}");
        }
        // What changes nothing is not refused, and neither are the links that every fabric has.
        for (fabric, change) in [
            ("star-2", "placement=packed"),
            ("star-2", "loss.probability=0%"),
            ("star-2", "measure.stepwise=false"),
            ("servers-2x2", "group.window=2"),
        ] {
            assert!(find(fabric, &[change]).is_ok(), "{fabric} {change}");
        }
    }
}
