//! ATP as a design: parameters, ranks around one switch, and what runs on both.

use crate::aggregators::{Aggregators, AggregatorsConfig};
use crate::config::AtpShape;
use crate::mutation::Mutation;
use crate::rank::AtpRank;
use crate::worker::WorkerConfig;
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

/// ATP's exchange through aggregators and a parameter server.
#[derive(Clone, Copy, Debug)]
pub struct AtpDesign {
    about: About,
}

/// The design.
pub const ATP: AtpDesign = AtpDesign {
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
            smallest: &[("group.mtu", "4B"), ("group.window", "2"), ("aggregation.aggregators", "1")],
            ..Model::PLAIN
        },
        ..About::new(
            "atp",
            "ATP: aggregators of a switch, first come, first served, and a parameter server behind it",
            &[(FabricKind::Tree, &[Collective::AllReduce, Collective::Barrier])],
        )
    },
};

/// The parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct AtpParams {
    /// Packets, and how many a rank may have under way.
    pub group: Transport,
    /// Where and how they are added up.
    pub aggregation: Aggregation,
}

/// Where and how packets are added up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Aggregation {
    /// Aggregators in the switch, each for a packet.
    pub aggregators: u32,
    /// Whether rank 0, which hosts the server, sends its part to the switch.
    pub server_sends: bool,
    /// Bits behind the point of binary32 numbers, wherever they are; what is too large saturates. If it is not said, ranks agree for each
    /// packet, and nothing is too large.
    pub fraction_bits: Option<i8>,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self { aggregators: 1024, server_sends: false, fraction_bits: None }
    }
}

impl Default for AtpParams {
    /// Packets and window of `switchml`, so that the two are compared as they work; four aggregators for each packet under way.
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

impl AtpParams {
    /// Refuses what there is no group of, and what datagrams know nothing of.
    fn shape(&self, ranks: u16) -> Result<AtpShape, Refusal> {
        let Aggregation { aggregators, server_sends, .. } = self.aggregation;
        let (window, piece) = (self.group.window_packets().get(), self.group.mtu.as_usize());
        let shape = AtpShape { ranks, server_sends, window, aggregators, piece };
        shape.tags().map_err(|error| Refusal::of(&error))?;
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

impl Params for AtpParams {
    fn help() -> Vec<Help> {
        let own: [Help; 3] = [
            ("aggregation.aggregators", "packets that the switch adds up at once; others go to the server"),
            (
                "aggregation.server_sends",
                "rank 0, which hosts the server, sends its part to the switch (8-to-1); off: the server adds it (7-to-1)",
            ),
            (
                "aggregation.fraction_bits",
                "bits behind the point of binary32 numbers, -128 to 127; default: agreed on packet by packet",
            ),
        ];
        Transport::help_without_congestion_window().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }
}

impl Design for AtpDesign {
    type Params = AtpParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, params: &AtpParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let ranks = placement.ranks;
        let shape = params.shape(ranks)?;
        let one = placement.tree.as_ref().map(|tree| tree.switches()).filter(|switches| switches.len() == 1);
        let Some(&[node]) = one.as_deref() else {
            return Err(Refusal::new(
                "one switch with all hosts at it for atp",
                "another fabric",
                "choose a star such as star-8",
            ));
        };
        let to_switch = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Switch(node), rank));
        // Rank 0 as a worker, beside the server.
        let as_worker = Connection::new((Member::Rank(Rank(0)), 1), (Member::Switch(node), ranks));
        let connections = (0..ranks).map(to_switch).chain(shape.server_sends.then_some(as_worker)).collect();
        Ok(Plan {
            switches: vec![SwitchPlan {
                node,
                role: (),
                memory: ByteCount::new(shape.piece as u64) * u64::from(shape.aggregators),
                passes: Vec::new(),
            }],
            form: Form::FixedPoint,
            ..Plan::new(vec![(); usize::from(ranks)], connections)
        })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &AtpParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let group = context.group()?;
        let config = WorkerConfig {
            rank: group.rank()?,
            shape: params.shape(group.ranks)?,
            scale: params.aggregation.fraction_bits.map(FixedPoint::new),
            timeout: params.group.retry_timeout,
            retries: params.group.retry_count,
            initial_psn: group.initial_psn,
            mutation: context.mutation()?,
        };
        let rank = AtpRank::new(config).map_err(|error| Refusal::of(&error))?;
        let (expected, found) = (usize::from(rank.queue_pairs()), group.connections.len());
        if found != expected {
            let expected = alloc::format!("{expected} connections");
            return Err(Refusal::new(&*expected, found, "run the same version at both ends"));
        }
        Ok(Endpoint::Program(Box::new(rank)))
    }

    fn switch<P: Payload>(
        &self,
        params: &AtpParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let group = context.group()?;
        let config = AggregatorsConfig {
            shape: params.shape(group.ranks)?,
            edges: group.connections.iter().map(|edge| [edge.local, edge.remote]).collect(),
            initial_psn: group.initial_psn,
            mutation: context.mutation()?,
        };
        let aggregators = Aggregators::new(config).map_err(|error| Refusal::of(&error))?;
        Ok(SwitchPart::Datapath(Box::new(aggregators)))
    }
}
