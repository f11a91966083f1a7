//! AllReduce-Switch as a design: parameters, ranks in a ring around one switch, and what runs on both.

use crate::config::{MAX_PORTS, Shape};
use crate::datapath::{Latencies, NetReduceDatapath, NetReduceDatapathConfig};
use crate::host::{NetReduce, NetReduceConfig};
use crate::mutation::Mutation;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, DataType, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{
    About, Connection, Context, Design, Endpoint, FabricKind, Help, Member, Model, Params, Placement, Plan,
    Refusal, SwitchPart, SwitchPlan, Transport,
};
use quincunx_units::{ByteCount, Duration, Messages, Packets};
use quincunx_wire::{Framing, netreduce};
use serde::{Deserialize, Serialize};

/// NetReduce's exchange through an AllReduce-Switch.
#[derive(Clone, Copy, Debug)]
pub struct NetReduceDesign {
    about: About,
}

/// The design.
pub const NETREDUCE: NetReduceDesign = NetReduceDesign {
    about: About {
        pinned_keys: &["group.mtu", "group.message", "group.window"],
        framing: Framing::RoceV1,
        model: Model {
            mutations: |_| Mutation::all().map(Mutation::name).collect(),
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
        },
        ..About::new(
            "netreduce",
            "AllReduce-Switch: writes from rank to rank are added up as they pass",
            &[(FabricKind::Tree, &[Collective::AllReduce, Collective::Barrier])],
        )
    },
};

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
    /// The paper's frames and buffers (table IV); floating point, as its training tasks have it (V.B). The switch takes frames in their
    /// order alone.
    fn default() -> Self {
        Self {
            group: Transport {
                mtu: ByteCount::new(netreduce::PAYLOAD as u64),
                message: Packets::new(netreduce::MAX_FRAMES.into()),
                window: Messages::new(4),
                selective: false,
                congestion_window: None,
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

impl NetReduceParams {
    const fn shape(&self, ports: u16) -> Shape {
        let AggregationSwitch { flows, frames, .. } = self.aggregation;
        Shape { ports, flows, frames, payload: self.group.mtu.as_usize() }
    }

    /// A payload of each rank and the sum, for each place.
    fn switch_memory(&self, ports: u16) -> ByteCount {
        self.group.mtu * ((u64::from(ports) + 1) * self.shape(ports).places() as u64)
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
            ("aggregation.frames", "frames of each message"),
            ("aggregation.sum_latency", "simulated: latency from the last frame of a sum to its result"),
            ("aggregation.repeat_latency", "simulated: latency from a retransmitted frame to the answer"),
            (
                "aggregation.forward_latency",
                "simulated: latency of a frame that the switch only forwards, such as an acknowledge",
            ),
        ];
        Transport::help_without_congestion_window().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }
}

impl NetReduceParams {
    /// Refuses what the switch has no buffers for.
    fn check(&self) -> Result<(), Refusal> {
        let (Transport { message, window, selective, .. }, AggregationSwitch { flows, frames, .. }) =
            (&self.group, &self.aggregation);
        self.shape(2).check().map_err(|error| Refusal::of(&error))?;
        if !(2..=u32::from(*frames)).contains(&message.get()) {
            return Err(Refusal::new(
                format!("`group.message` of 2 to {frames} frames, as `aggregation.frames` says"),
                message,
                "change the group's parameters",
            ));
        }
        if window.get() > u32::from(*flows) {
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

    fn about(&self) -> &About {
        &self.about
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
        let connections = (0..ranks).map(to_next).collect();
        Ok(Plan {
            switches: vec![SwitchPlan {
                node,
                role: (),
                memory: params.switch_memory(ranks),
                passes: (0..usize::from(ranks)).collect(),
            }],
            remote_write: true,
            ..Plan::new(vec![(); usize::from(ranks)], connections)
        })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &NetReduceParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let group = context.group()?;
        if group.connections.len() != 2 {
            let found = group.connections.len();
            return Err(Refusal::new("two connections", found, "run the same version at both ends"));
        }
        params.check()?;
        let config = NetReduceConfig {
            rank: group.rank()?,
            ranks: group.ranks,
            payload: params.group.mtu.as_usize(),
            frames: params.group.message.as_usize(),
            window: params.group.window.into(),
            data_type: params.data_type(),
            mutation: context.mutation()?,
        };
        Ok(Endpoint::Program(Box::new(NetReduce::new(config))))
    }

    fn switch<P: Payload>(
        &self,
        params: &NetReduceParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        params.check()?;
        let group = context.group()?;
        let ports = group.connections.len() as u16;
        // What the manager has booked bounds what is allocated here.
        let needed = params.switch_memory(ports);
        if needed > group.memory {
            return Err(Refusal::new(
                format!("{needed} of memory, booked for the group"),
                group.memory,
                "run the same version at both ends",
            ));
        }
        let shape = params.shape(ports);
        let ranks = group.connections.iter().map(|connection| connection.remote.ip).collect();
        let AggregationSwitch { sum_latency, repeat_latency, forward_latency, .. } = params.aggregation;
        let config = NetReduceDatapathConfig {
            shape,
            reduction: params.reduction(),
            ranks,
            initial_psn: group.initial_psn,
            latencies: Latencies { sum: sum_latency, repeat: repeat_latency, forward: forward_latency },
        };
        let datapath = NetReduceDatapath::new(config, context.mutation()?);
        Ok(SwitchPart::Passing(Box::new(datapath.map_err(|error| Refusal::of(&error))?)))
    }
}
