//! What a run measures. It travels to rank processes as one line of JSON.

use quincunx_design::{
    AnyDesign, Assignment, Catalog, FabricKind, Placement, Refusal, Settings, Transport, Value,
};
use quincunx_fabric::{IncTree, Shape, ShapeError, TreeShape};
use quincunx_scenario::{Driver, Fabric, Part, Scenario, ScenarioError};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::Framing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::task::Task;

/// How long ranks wait for each other unless somebody says otherwise: processes that start together are there within a second.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// What groups run on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupsSetup {
    /// Ranks of every group.
    pub ranks: u16,
    /// Switches that must be there before a group is made.
    pub switches: usize,
    /// The tree of switches or the mesh, by name.
    pub tree: String,
    /// How long one collective may take.
    pub limit: Duration,
    /// How long ranks wait for each other to form a group.
    pub join: Duration,
    /// Processes of the switches, where they run beside the ranks: their processor time is measured, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch_processes: Vec<u32>,
    /// By design: the values of its parameters, as a line of JSON.
    pub settings: BTreeMap<String, String>,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Design by name. Consecutive cases of one design share a group.
    pub design: String,
    /// What is done, by name.
    pub collective: String,
    /// Whether a collective's input and output are one memory.
    pub in_place: bool,
    /// The root, where there is one.
    pub root: u16,
    /// Bytes: of a rank's vector; for ReduceScatter and AllGather of the whole, over all ranks (as nccl-tests count).
    pub bytes: u64,
    /// Data type by name.
    pub data_type: String,
    /// Operation by name.
    pub op: String,
    /// Timed repetitions.
    pub iterations: u32,
    /// Repetitions before them; the first is checked.
    pub warm_up: u32,
    /// What goes to experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCase>,
}

/// Tokens, the experts that they go to, and the servers that these are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenCase {
    /// Experts, as many on each rank.
    pub experts: u16,
    /// Experts of a token.
    pub top_k: u16,
    /// Bytes of a token.
    pub token: u64,
    /// Ranks of a server.
    pub server: u16,
}

/// All of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How groups are set up.
    pub setup: GroupsSetup,
    /// What is measured, in order.
    pub cases: Vec<Case>,
}

/// Real nodes on real links, as a driver of scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RealLinks {
    /// What one carries at once, in bytes.
    pub mtu: u16,
    /// Whether they carry what the scenario says in a second, and no more; as much as the machine otherwise.
    pub is_limited: bool,
}

impl RealLinks {
    /// Loopback: datagrams of any size, as fast as the machine.
    pub const LOOPBACK: Self = Self { mtu: u16::MAX, is_limited: false };

    /// The same, held to a rate by the processes themselves.
    pub const PACED: Self = Self { is_limited: true, ..Self::LOOPBACK };

    /// The same where the header of IPv6 takes 20 bytes more of each packet than that of IPv4.
    #[must_use]
    pub fn over_ipv6(self) -> Self {
        Self { mtu: self.mtu.saturating_sub(20), ..self }
    }

    /// Messages in flight that serve well: more where a process that comes late is what a link waits for.
    fn window(self) -> u64 {
        if self == Self::PACED { 2 * WINDOW } else { WINDOW }
    }

    /// What one carries in a second, if that is limited.
    pub fn rate(self, fabric: &Fabric) -> Option<BitRate> {
        fabric.packet_link().filter(|_| self.is_limited).map(|link| link.rate)
    }
}

impl Driver for RealLinks {
    fn name(&self) -> &'static str {
        "real hosts and switches"
    }

    /// What serves well on such links: packets of another length make other messages, and other windows other time-outs.
    fn base(&self, fabric: &Fabric, keys: &[Assignment]) -> Vec<Assignment> {
        let said =
            |wanted: &str| keys.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value.clone());
        let number = |key, default: u64| said(key).and_then(|value| value.as_u64()).unwrap_or(default);
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mtu = said("group.mtu").and_then(|value| text(value).parse::<ByteCount>().ok());
        let mtu = mtu.unwrap_or(ByteCount::new(payload_for(self.mtu)));
        let is_standard = said("group.standard_verbs").is_some_and(|value| value == true);
        let longest = u64::from(message_for(mtu.bytes()));
        // The kernel's queue pairs may send a packet too many where they go back in a message of several that is acknowledged meanwhile.
        let message = number("group.message", if is_standard { 1 } else { longest });
        let window =
            if is_standard { (self.window() * longest / message.max(1)).max(1) } else { self.window() };
        let window = number("group.window", window);
        // Slow links hold a window for long, and the acknowledges behind one of the other direction.
        let bytes = mtu.bytes().saturating_mul(message).saturating_mul(window).saturating_mul(4);
        let windows = self.rate(fabric).map_or(Duration::ZERO, |rate| rate.time_for(ByteCount::new(bytes)));
        let retry = windows.max(Transport::default().retry_timeout);
        [
            ("group.mtu", mtu.to_string().into()),
            ("group.message", message.into()),
            ("group.window", window.into()),
            ("group.retry_timeout", retry.to_string().into()),
        ]
        .map(|(key, value): (&str, Value)| (key.to_owned(), value))
        .into()
    }

    /// Ranks whose frames are added up as they pass are in step, and all of them pass one switch: what is late has mostly waited for a
    /// processor, and sent again it costs all of them. What is lost is mostly noticed before that. Of datagrams nothing is, and what is late
    /// has waited for a processor, too: they wait as long as others do. Whoever else is on the links gets a share: windows give way.
    fn base_of(&self, design: &dyn AnyDesign, fabric: &Fabric) -> Vec<Assignment> {
        let about = design.about();
        let least = match about.framing {
            Framing::RoceV1 => IN_STEP,
            Framing::RoceV2 if about.sends_datagrams => Transport::default().retry_timeout,
            Framing::RoceV2 => {
                let has_window = design.defaults().has(Transport::CONGESTION_WINDOW);
                return Vec::from_iter(
                    has_window.then(|| (Transport::CONGESTION_WINDOW.to_owned(), true.into())),
                );
            }
        };
        let window = design.transport(&design.defaults()).map_or(ByteCount::new(0), |own| own.window_bytes());
        let windows = self.rate(fabric).map_or(Duration::ZERO, |rate| rate.time_for(window * 4));
        vec![("group.retry_timeout".to_owned(), windows.max(least).to_string().into())]
    }

    fn honours(&self, part: Part) -> bool {
        match part {
            Part::Rate => self.is_limited,
            Part::Loss | Part::Limit => true,
            Part::Placement
            | Part::Links
            | Part::Congestion
            | Part::Tokens
            | Part::Training
            | Part::Moments => false,
        }
    }
}

/// Messages in flight that serve well: W.
const WINDOW: u64 = 4;

/// Time without an acknowledge that serves well where ranks are in step.
const IN_STEP: Duration = Duration::from_millis(500);

/// How long a collective may take if the scenario does not say.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes of payload in a full packet that links of `mtu` bytes carry.
fn payload_for(mtu: u16) -> u64 {
    // Both are path MTUs of RoCE. IPv4, UDP, BTH, RETH, immediate and ICRC add up to 64 bytes.
    if mtu < 4096 + 64 { 1024 } else { 4096 }
}

/// Packets of `payload` bytes in a message that serve well: as many as one merged datagram holds, headers included,
/// so that a message passes each system call whole.
fn message_for(payload: u64) -> u32 {
    // The largest UDP datagram; BTH and ICRC.
    (65_507 / (payload + 16)).clamp(1, 64) as u32
}

impl GroupsSetup {
    /// Groups of `designs` as a scenario has them, which was read for [`RealLinks`]. On a mesh, what measures its links has its place, too.
    ///
    /// # Errors
    /// If the scenario's fabric is none of real nodes, if it has keys of none of the designs, or one of them refuses its value or the
    /// shape.
    pub fn new(
        catalog: Catalog,
        designs: &[&'static dyn AnyDesign],
        scenario: &Scenario,
    ) -> Result<Self, Refusal> {
        let shape = scenario.fabric.shape().ok_or_else(|| {
            Refusal::new(
                "a tree of switches, a mesh of hosts, or a shape such as leaf-spine-2x2x4",
                format!("{}, which is none of them", scenario.place()),
                "name another fabric, or simulate it",
            )
        })?;
        let (domains, tree) = match &shape {
            Shape::Tree(tree) => (1, Some(IncTree::from_shape(tree))),
            Shape::Mesh(mesh) => (mesh.domains(), None),
            // Which tree it is, the manager says; here a design refuses what it suits on none.
            Shape::Switched(shape) => {
                crate::switched::wiring(*shape)?;
                (1, TreeShape::star(shape.hosts()).map(|star| IncTree::from_shape(&star)))
            }
        };
        let placement = Placement { domains, ..Placement::new(shape.ranks(), tree, ByteCount::new(1)) };
        let refusal = |error: ScenarioError| Refusal::from(error.to_string());
        scenario.refuse_unused(designs).map_err(refusal)?;
        let mut settings = BTreeMap::new();
        for design in designs {
            let values = scenario.settings(*design).map_err(refusal)?;
            design.plan(&values, &placement)?;
            settings.insert(design.name().to_owned(), values.to_text());
        }
        if let Shape::Mesh(_) = shape
            && let Some(design) = catalog.on(FabricKind::Mesh).find(|design| design.about().writes)
        {
            let values = scenario.settings(design).map_err(refusal)?;
            settings.insert(design.name().to_owned(), values.to_text());
        }
        Ok(Self {
            ranks: shape.ranks(),
            switches: shape.switches(),
            tree: shape.to_string(),
            limit: scenario.measure.limit.unwrap_or(LIMIT),
            join: JOIN_LIMIT,
            switch_processes: Vec::new(),
            settings,
        })
    }

    /// The tree or the mesh.
    ///
    /// # Errors
    /// If its name says nothing, or something of another size.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        Shape::for_ranks(&self.tree, self.ranks)
    }

    /// The values of a design's parameters.
    ///
    /// # Errors
    /// If they are none.
    pub fn settings(&self, design: &str) -> Result<Settings, Refusal> {
        Settings::parse(self.settings.get(design).map_or("", String::as_str))
    }
}

impl Case {
    /// Whether it runs through the library that programs use: messages, what goes to experts, and what is in place.
    pub fn is_for_the_library(&self) -> bool {
        let is_routed = |task| matches!(task, Task::Collective(collective) if collective.is_routed());
        let task = self.collective.parse();
        self.in_place || task.is_ok_and(|task| matches!(task, Task::Exchange(_)) || is_routed(task))
    }

    /// Repetitions that take about as long at every size.
    pub fn iterations_for(bytes: u64) -> u32 {
        ((128 << 20) / bytes.max(1)).clamp(5, 400) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_designs::CATALOG;

    fn setup(links: RealLinks, changes: &[&str]) -> GroupsSetup {
        let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
        let scenario = Scenario::find_for(&links, "star-2", &changes, CATALOG).unwrap();
        GroupsSetup::new(CATALOG, &[CATALOG.named("epic-3").unwrap()], &scenario).unwrap()
    }

    fn value(setup: &GroupsSetup, key: &str) -> Value {
        setup.settings("epic-3").unwrap().value(key).unwrap().clone()
    }

    #[test]
    fn a_collective_may_take_what_the_scenario_says_or_a_minute() {
        assert_eq!(setup(RealLinks::LOOPBACK, &[]).limit, Duration::from_secs(60));
        assert_eq!(setup(RealLinks::LOOPBACK, &["measure.limit=7s"]).limit, Duration::from_secs(7));
    }

    #[test]
    fn windows_give_way_to_others_on_real_links_unless_they_are_told_not_to() {
        let gives_way =
            |changes: &[&str]| value(&setup(RealLinks::LOOPBACK, changes), Transport::CONGESTION_WINDOW);
        assert_eq!(gives_way(&[]), true);
        assert_eq!(gives_way(&["group.congestion_window=false"]), false);
    }

    #[test]
    fn ranks_in_step_are_patient_and_have_the_packets_of_their_own() {
        let patience = |links: RealLinks, changes: &[&str]| {
            let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
            let scenario = Scenario::find_for(&links, "star-2", &changes, CATALOG).unwrap();
            let design = CATALOG.named("netreduce").unwrap();
            let setup = GroupsSetup::new(CATALOG, &[design], &scenario).unwrap();
            let settings = setup.settings("netreduce").unwrap();
            ["group.mtu", "group.message", "group.retry_timeout"]
                .map(|key| settings.value(key).unwrap().clone())
        };
        let own = |patience: &str| [Value::from("1KiB"), Value::from(128), Value::from(patience)];
        assert_eq!(patience(RealLinks::LOOPBACK, &[]), own("500ms"));
        // Four windows of four messages of 128 packets of 1024 bytes at 1 Mbit/s.
        let slow = RealLinks { mtu: 1500, is_limited: true };
        assert_eq!(patience(slow, &["link.rate=1Mbit/s"]), own("16.777216s"));
        assert_eq!(patience(RealLinks::LOOPBACK, &["group.retry_timeout=5ms"]), own("5ms"));
    }

    #[test]
    fn datagrams_have_the_packets_of_their_own_and_wait_as_long_as_others() {
        let settings = |links: RealLinks, changes: &[&str]| {
            let changes: Vec<_> = changes.iter().map(|text| text.parse().unwrap()).collect();
            let scenario = Scenario::find_for(&links, "star-2", &changes, CATALOG).unwrap();
            let design = CATALOG.named("switchml").unwrap();
            let setup = GroupsSetup::new(CATALOG, &[design], &scenario).unwrap();
            let settings = setup.settings("switchml").unwrap();
            ["group.mtu", "group.window", "group.retry_timeout"]
                .map(|key| settings.value(key).unwrap().clone())
        };
        let own = |patience: &str| [Value::from("1KiB"), Value::from(256), Value::from(patience)];
        assert_eq!(settings(RealLinks::LOOPBACK, &[]), own("20ms"));
        // Four windows of 256 packets of 1024 bytes at 1 Mbit/s.
        let slow = RealLinks { mtu: 1500, is_limited: true };
        assert_eq!(settings(slow, &["link.rate=1Mbit/s"]), own("8.388608s"));
        assert_eq!(settings(RealLinks::LOOPBACK, &["group.retry_timeout=5ms"]), own("5ms"));
    }

    #[test]
    fn messages_of_standard_queue_pairs_are_packets_and_as_much_is_in_flight() {
        let of = |changes: &[&str]| {
            let setup = setup(RealLinks { mtu: 1500, is_limited: false }, changes);
            ["group.message", "group.window"].map(|key| value(&setup, key))
        };
        assert_eq!(of(&[]), [62, 4]);
        assert_eq!(of(&["group.standard_verbs=true"]), [1, 4 * 62]);
        assert_eq!(of(&["group.standard_verbs=true", "group.message=31"]), [31, 8]);
        assert_eq!(of(&["group.standard_verbs=true", "group.window=2"]), [1, 2]);
    }

    #[test]
    fn shorter_packets_make_longer_messages_and_slow_links_longer_time_outs() {
        let fast = setup(RealLinks::LOOPBACK, &["group.mtu=1KiB"]);
        assert_eq!(value(&fast, "group.message"), 62, "as many as one datagram holds");
        assert_eq!(value(&fast, "group.retry_timeout"), "20ms");
        let slow = RealLinks { mtu: 9000, is_limited: true };
        let slow = setup(slow, &["link.rate=1Mbit/s", "group.mtu=1KiB", "group.message=1"]);
        // Four windows of four messages of a packet of 1024 bytes at 1 Mbit/s.
        assert_eq!(value(&slow, "group.retry_timeout"), "131.072ms");
    }
}
