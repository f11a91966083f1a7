//! What a run measures. It travels to rank processes as one line of JSON.

use quincunx_design::{
    AnyDesign, Assignment, Catalog, FabricKind, Placement, Refusal, Settings, Transport, Value,
};
use quincunx_fabric::{IncTree, Shape, ShapeError};
use quincunx_units::{BitRate, ByteCount, Duration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What groups run on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Ranks of every group.
    pub ranks: u16,
    /// Switches that must be there before a group is made.
    pub switches: usize,
    /// The tree of switches or the mesh, by name.
    pub tree: String,
    /// How long one collective may take, in seconds.
    pub limit_seconds: u64,
    /// By design: the values of its parameters, as a line of JSON.
    pub settings: BTreeMap<String, String>,
}

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Design by name. Consecutive cases of one design share a group.
    pub design: String,
    /// Collective by name.
    pub collective: String,
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
}

/// All of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// How groups are set up.
    pub setup: Setup,
    /// What is measured, in order.
    pub cases: Vec<Case>,
}

/// Links between real nodes, as far as groups depend on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Links {
    /// What one carries at once, in bytes.
    pub mtu: u16,
    /// What one carries in a second; as much as the machine, if it is not said.
    pub rate: Option<BitRate>,
}

impl Links {
    /// What serves well as a design's parameters on such links: values by key, for [`quincunx_design::settings`]. `overrides` come on
    /// top of them: packets of another length make other messages, and other windows other time-outs.
    pub fn defaults(self, overrides: &[Assignment]) -> Vec<Assignment> {
        let overridden = |wanted: &str| {
            overrides.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value.clone())
        };
        let number = |key, default: u64| overridden(key).and_then(|value| value.as_u64()).unwrap_or(default);
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mtu = overridden("group.mtu").and_then(|value| text(value).parse::<ByteCount>().ok());
        let mtu = mtu.unwrap_or(ByteCount::new(Setup::payload_for(self.mtu)));
        let message = number("group.message", Setup::message_for(mtu.bytes()).into());
        let window = number("group.window", Setup::WINDOW.into());
        // Slow links hold a window for long, and the acknowledges behind one of the other direction.
        let bytes = mtu.bytes().saturating_mul(message).saturating_mul(window).saturating_mul(4);
        let windows = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(ByteCount::new(bytes)));
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
}

impl Setup {
    /// Groups of `designs` on `shape`, with the defaults of the links and what somebody sets. On a mesh, what measures its links has
    /// its place, too.
    ///
    /// # Errors
    /// If a parameter is none of the designs', or one of them refuses its value or the shape.
    pub fn new(
        catalog: Catalog,
        designs: &[&dyn AnyDesign],
        shape: &Shape,
        links: Links,
        overrides: &[Assignment],
    ) -> Result<Self, Refusal> {
        let mut all = quincunx_design::settings(designs, &links.defaults(overrides), overrides)?;
        let (domains, tree) = match shape {
            Shape::Tree(tree) => (1, Some(IncTree::from_shape(tree))),
            Shape::Mesh(mesh) => (mesh.domains(), None),
        };
        let placement = Placement { domains, ..Placement::new(shape.ranks(), tree, ByteCount::new(1)) };
        for (design, settings) in designs.iter().zip(&all) {
            design.plan(settings, &placement)?;
        }
        let mut designs = designs.to_vec();
        if let Shape::Mesh(_) = shape
            && let Some(measuring) = catalog.on(FabricKind::Mesh).find(|design| design.offers_writes())
        {
            let shared: Vec<Assignment> =
                overrides.iter().filter(|(key, _)| measuring.defaults().has(key)).cloned().collect();
            all.extend(quincunx_design::settings(&[measuring], &links.defaults(overrides), &shared)?);
            designs.push(measuring);
        }
        let named = designs.iter().zip(&all);
        Ok(Self {
            ranks: shape.ranks(),
            switches: shape.switches(),
            tree: shape.to_string(),
            limit_seconds: 60,
            settings: named
                .map(|(design, settings)| (design.name().to_owned(), settings.to_text()))
                .collect(),
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

    /// Messages in flight that serve well: W.
    pub const WINDOW: u32 = 4;

    /// Bytes of payload in a full packet that links of `mtu` bytes carry.
    pub fn payload_for(mtu: u16) -> u64 {
        // Both are path MTUs of RoCE. IPv4, UDP, BTH, RETH, immediate and ICRC add up to 64 bytes.
        if mtu < 4096 + 64 { 1024 } else { 4096 }
    }

    /// Packets of `payload` bytes in a message that serve well: as many as one merged datagram holds, headers included,
    /// so that a message passes each system call whole.
    pub fn message_for(payload: u64) -> u32 {
        // The largest UDP datagram; BTH and ICRC.
        (65_507 / (payload + 16)).clamp(1, 64) as u32
    }
}

impl Case {
    /// Repetitions that take about as long at every size.
    pub fn iterations_for(bytes: u64) -> u32 {
        ((128 << 20) / bytes.max(1)).clamp(5, 400) as u32
    }
}
