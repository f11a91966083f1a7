//! SwitchML as a design: parameters, ranks around one switch, and what runs on both.

use crate::config::PoolShape;
use crate::mutation::Mutation;
use crate::pools::{Pools, PoolsConfig};
use crate::worker::{Worker, WorkerConfig};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, FixedPoint, Payload, Rank};
use quincunx_design::{
    About, Connection, Context, Design, Endpoint, FabricKind, Form, Help, Member, Model, Params, Placement,
    Plan, Refusal, SwitchPart, SwitchPlan, Transport,
};
use quincunx_engine::verbs::UNLIMITED_RETRIES;
use quincunx_units::{ByteCount, Duration, Messages, Packets};
use serde::{Deserialize, Serialize};

/// SwitchML's exchange through a pool of slots.
#[derive(Clone, Copy, Debug)]
pub struct SwitchMlDesign {
    about: About,
}

/// The design.
pub const SWITCHML: SwitchMlDesign = SwitchMlDesign {
    about: About {
        version: 2,
        pinned_keys: &[
            "group.mtu",
            "group.message",
            "group.window",
            "group.acknowledge_every",
            "group.retry_timeout",
        ],
        sends_datagrams: true,
        is_exact: false,
        model: Model {
            mutations: |_| Mutation::all().map(Mutation::name).collect(),
            request: |_| "piece",
            smallest: &[("group.mtu", "4B"), ("group.window", "2")],
            ..Model::PLAIN
        },
        ..About::new(
            "switchml",
            "SwitchML: integers are added up in slots of a switch, datagram by datagram",
            &[(FabricKind::Tree, &[Collective::AllReduce, Collective::Barrier])],
        )
    },
};

/// The parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchMlParams {
    /// Packets and slots: as many slots as a window has packets.
    pub group: Transport,
    /// How numbers become integers.
    pub aggregation: Aggregation,
}

/// How numbers become integers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Aggregation {
    /// Bits behind the point of binary32 numbers, wherever they are; what is too large saturates. If it is not said, ranks agree for each
    /// packet, and nothing is too large.
    pub fraction_bits: Option<i8>,
}

impl Default for SwitchMlParams {
    /// The paper's larger packets (256 elements), twice its slots at 10 Gbit/s, and its time-out.
    fn default() -> Self {
        Self {
            group: Transport {
                mtu: ByteCount::new(1024),
                message: Packets::new(1),
                window: Messages::new(256),
                retry_timeout: Duration::from_millis(1),
                retry_count: UNLIMITED_RETRIES,
                selective: false,
                congestion_window: None,
                ..Transport::default()
            },
            aggregation: Aggregation::default(),
        }
    }
}

impl SwitchMlParams {
    fn shape(&self) -> PoolShape {
        PoolShape { slots: self.group.window_packets().get(), piece: self.group.mtu.as_usize() }
    }

    /// Refuses what there is no pool for, and what datagrams know nothing of.
    fn check(&self) -> Result<PoolShape, Refusal> {
        let shape = self.shape();
        shape.check().map_err(|error| Refusal::of(&error))?;
        let Transport { selective, acknowledge_every, dcqcn, .. } = &self.group;
        let is_set = [
            ("selective", *selective),
            ("acknowledge_every", acknowledge_every.is_some()),
            ("dcqcn", dcqcn.is_some()),
        ];
        match is_set.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(Refusal::new(
                "`group` without acknowledges: datagrams have none",
                alloc::format!("`group.{key}`"),
                "leave it out",
            )),
            None => Ok(shape),
        }
    }
}

impl Params for SwitchMlParams {
    fn help() -> Vec<Help> {
        let own: [Help; 1] = [(
            "aggregation.fraction_bits",
            "bits behind the point of binary32 numbers, -128 to 127; default: agreed on packet by packet",
        )];
        Transport::help_without_congestion_window().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }
}

impl Design for SwitchMlDesign {
    type Params = SwitchMlParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, params: &SwitchMlParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let shape = params.check()?;
        let ranks = placement.ranks;
        let one = placement.tree.as_ref().map(|tree| tree.switches()).filter(|switches| switches.len() == 1);
        let Some(&[node]) = one.as_deref() else {
            return Err(Refusal::new(
                "one switch with all hosts at it for switchml",
                "another fabric",
                "choose a star such as star-8",
            ));
        };
        let to_switch = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Switch(node), rank));
        let connections = (0..ranks).map(to_switch).collect();
        Ok(Plan {
            switches: vec![SwitchPlan {
                node,
                role: (),
                // Each slot has two pools.
                memory: ByteCount::new(shape.piece as u64) * (2 * u64::from(shape.slots)),
                passes: Vec::new(),
            }],
            form: Form::FixedPoint,
            ..Plan::new(vec![(); usize::from(ranks)], connections)
        })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &SwitchMlParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let group = context.group()?;
        if group.connections.len() != 1 {
            let found = group.connections.len();
            return Err(Refusal::new("one connection", found, "run the same version at both ends"));
        }
        let config = WorkerConfig {
            rank: group.rank()?,
            ranks: group.ranks,
            shape: params.check()?,
            scale: params.aggregation.fraction_bits.map(FixedPoint::new),
            timeout: params.group.retry_timeout,
            retries: params.group.retry_count,
            initial_psn: group.initial_psn,
            mutation: context.mutation()?,
        };
        Ok(Endpoint::Program(Box::new(Worker::new(config))))
    }

    fn switch<P: Payload>(
        &self,
        params: &SwitchMlParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let group = context.group()?;
        let config = PoolsConfig {
            shape: params.check()?,
            edges: group.connections.iter().map(|edge| [edge.local, edge.remote]).collect(),
            initial_psn: group.initial_psn,
            mutation: context.mutation()?,
        };
        let pools = Pools::new(config).map_err(|error| Refusal::of(&error))?;
        Ok(SwitchPart::Datapath(Box::new(pools)))
    }
}
