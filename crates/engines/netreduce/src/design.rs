//! AllReduce-Switch as a design: parameters, ranks in a ring around one switch, and what runs on both.

use crate::config::{MAX_PORTS, Shape};
use crate::host::{NetReduce, NetReduceConfig};
use crate::mutation::Mutation;
use crate::passage::{Latencies, Passage, PassageConfig};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, DataType, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{
    Connection, Design, FabricKind, GroupContext, Help, Member, Model, Node, Params, Placement, Plan,
    Refusal, SwitchPart, SwitchPlan, Transport,
};
use quincunx_engine::verbs::AnyProgram;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Framing, netreduce};
use serde::{Deserialize, Serialize};

/// NetReduce's exchange through an AllReduce-Switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetReduceDesign;

/// The design.
pub const NETREDUCE: NetReduceDesign = NetReduceDesign;

/// The parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NetReduceParams {
    /// The queue pairs.
    pub group: Transport,
    /// The switch.
    pub aggregation: AggregationSwitch,
}

/// How the switch is set up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AggregationSwitch {
    /// AGG_MODE: adds floating-point numbers (binary32), otherwise integers of 32 bits that wrap.
    pub floating: bool,
    /// Messages that the buffers hold of each port.
    pub flows: u16,
    /// Frames of each.
    pub frames: u16,
    /// Simulated: from the last of the frames that are added up to the results' departure. What a real switch takes it takes.
    pub sum_latency: Duration,
    /// The same from a frame that comes again to the answer.
    pub repeat_latency: Duration,
    /// The same from a frame that is not added up, such as an acknowledge, until it goes on.
    pub forward_latency: Duration,
}

impl Default for NetReduceParams {
    /// The paper's frames and buffers (table IV); floating point, as its training tasks have it (V.B).
    fn default() -> Self {
        Self {
            group: Transport {
                mtu: ByteCount::new(netreduce::PAYLOAD as u64),
                message: u32::from(netreduce::MAX_FRAMES),
                window: 4,
                ..Transport::default()
            },
            aggregation: AggregationSwitch::default(),
        }
    }
}

impl Default for AggregationSwitch {
    fn default() -> Self {
        let Shape { flows, frames, .. } = Shape::of_ports(MAX_PORTS);
        let none = Duration::ZERO;
        Self { floating: true, flows, frames, sum_latency: none, repeat_latency: none, forward_latency: none }
    }
}

impl AsRef<Transport> for NetReduceParams {
    fn as_ref(&self) -> &Transport {
        &self.group
    }
}

impl NetReduceParams {
    const fn shape(&self, ports: u16) -> Shape {
        let AggregationSwitch { flows, frames, .. } = self.aggregation;
        Shape { ports, flows, frames, payload: self.group.mtu.as_usize() }
    }

    const fn data_type(&self) -> DataType {
        if self.aggregation.floating { DataType::F32 } else { DataType::I32 }
    }

    const fn reduction(&self) -> Reduction {
        Reduction { op: ReduceOp::Sum, data_type: self.data_type() }
    }
}

impl Params for NetReduceParams {
    fn help() -> Vec<Help> {
        let own: [Help; 6] = [
            ("aggregation.floating", "add binary32 numbers; otherwise integers of 32 bits"),
            ("aggregation.flows", "messages that the switch's buffers hold of each port"),
            ("aggregation.frames", "frames of each"),
            ("aggregation.sum_latency", "simulated: from the last of the frames that are added up"),
            ("aggregation.repeat_latency", "simulated: from a frame that comes again to the answer"),
            (
                "aggregation.forward_latency",
                "simulated: of a frame that is not added up, such as an acknowledge",
            ),
        ];
        Transport::HELP.into_iter().chain(own).collect()
    }
}

impl NetReduceParams {
    /// Refuses what the switch has no buffers for.
    fn check(&self) -> Result<(), Refusal> {
        let (Transport { message, window, selective, .. }, AggregationSwitch { flows, frames, .. }) =
            (&self.group, &self.aggregation);
        self.shape(2).check().map_err(|error| Refusal::of(&error))?;
        if !(2..=u32::from(*frames)).contains(message) {
            return Err(Refusal::new(
                format!("`group.message` of 2 to {frames} frames, as `aggregation.frames` says"),
                message,
                "change the group's parameters",
            ));
        }
        if *window > u32::from(*flows) {
            return Err(Refusal::new(
                format!("`group.window` of {flows} messages at most, as `aggregation.flows` says"),
                window,
                "lower it: a message more would take the column of one that is not over",
            ));
        }
        if *selective {
            return Err(Refusal::new(
                "`group.selective` off",
                "on",
                "leave it out: the switch takes frames in their order alone",
            ));
        }
        Ok(())
    }
}

impl Design for NetReduceDesign {
    type Params = NetReduceParams;
    type RankRole = ();
    type SwitchRole = ();

    fn name(&self) -> &'static str {
        "netreduce"
    }

    fn summary(&self) -> &'static str {
        "AllReduce-Switch: writes from rank to rank are added up as they pass"
    }

    fn fabrics(&self) -> &'static [FabricKind] {
        &[FabricKind::Tree]
    }

    fn collectives(&self, _: FabricKind) -> &'static [Collective] {
        &[Collective::AllReduce, Collective::Barrier]
    }

    fn keeps(&self) -> &'static [&'static str] {
        &["group.mtu", "group.message", "group.window"]
    }

    fn framing(&self) -> Framing {
        Framing::RoceV1
    }

    fn plan(&self, params: &NetReduceParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        params.check()?;
        let ranks = placement.ranks;
        let one = placement.tree.as_ref().map(|tree| tree.switches()).filter(|switches| switches.len() == 1);
        let Some(&[node]) = one.as_deref() else {
            return Err(Refusal::new(
                "one switch with all hosts at it for netreduce",
                "another fabric",
                "choose a star such as star-8",
            ));
        };
        if !(2..=MAX_PORTS).contains(&ranks) {
            return Err(Refusal::new(
                format!("2 to {MAX_PORTS} ranks for netreduce"),
                ranks,
                "change the group's members",
            ));
        }
        let to_next = |rank| {
            Connection::new((Member::Rank(Rank(rank)), 0), (Member::Rank(Rank((rank + 1) % ranks)), 1))
        };
        let shape = params.shape(ranks);
        let places = shape.places() as u64;
        Ok(Plan {
            ranks: vec![(); usize::from(ranks)],
            switches: vec![SwitchPlan {
                node,
                role: (),
                memory: params.group.mtu * (u64::from(ranks) + 1) * places,
                passes: (0..usize::from(ranks)).collect(),
            }],
            connections: (0..ranks).map(to_next).collect(),
            remote_write: true,
            relayed: None,
        })
    }

    fn rank<P: Payload>(
        &self,
        params: &NetReduceParams,
        (): (),
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal> {
        let Node::Rank(rank) = context.node else {
            return Err(Refusal::new("a rank", "a switch", "run the same version at both ends"));
        };
        if context.connections.len() != 2 {
            let found = context.connections.len();
            return Err(Refusal::new("two connections", found, "run the same version at both ends"));
        }
        params.check()?;
        let config = NetReduceConfig {
            rank,
            ranks: context.ranks,
            payload: params.group.mtu.as_usize(),
            frames: params.group.message as usize,
            window: params.group.window.into(),
            data_type: params.data_type(),
            mutation: parse(mutation)?,
        };
        Ok(Box::new(NetReduce::new(config)))
    }

    fn switch<P: Payload>(
        &self,
        params: &NetReduceParams,
        (): (),
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<SwitchPart<P>, Refusal> {
        params.check()?;
        let shape = params.shape(context.connections.len() as u16);
        let ranks = context.connections.iter().map(|connection| connection.remote.ip).collect();
        let AggregationSwitch { sum_latency, repeat_latency, forward_latency, .. } = params.aggregation;
        let config = PassageConfig {
            shape,
            reduction: params.reduction(),
            ranks,
            initial_psn: context.initial_psn,
            latencies: Latencies { sum: sum_latency, repeat: repeat_latency, forward: forward_latency },
        };
        let passage = Passage::new(config, parse(mutation)?);
        Ok(SwitchPart::Passage(Box::new(passage.map_err(|error| Refusal::of(&error))?)))
    }

    fn model(&self) -> Model {
        Model {
            mutations: || Mutation::all().map(Mutation::name).collect(),
            request: |_| "data",
            smallest: &[
                ("group.mtu", "24B"),
                ("group.message", "2"),
                ("group.window", "2"),
                ("aggregation.floating", "false"),
                ("aggregation.flows", "2"),
                // More than a message has, so that a number fits two columns.
                ("aggregation.frames", "4"),
            ],
            ..Model::PLAIN
        }
    }
}

fn parse(mutation: Option<&str>) -> Result<Option<Mutation>, Refusal> {
    mutation.map(str::parse).transpose().map_err(|error| Refusal::of(&error))
}
