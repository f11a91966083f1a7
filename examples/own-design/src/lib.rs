//! A parameter server in the switch: every rank sends its vector there in messages, the switch adds them up, and sends each sum back to
//! all. Connections end at the switch, so that both sides are programs above queue pairs, and neither knows of packets.
//!
//! This is all that a design is: parameters, a plan, what runs on a rank, what runs in a switch. The commands, the simulator, the
//! checker and the tests of all drivers come with it.

mod rank;
mod server;

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    About, Connection, Context, Design, Endpoint, FabricKind, Help, Member, Model, Params, Placement, Plan,
    Refusal, SwitchPart, SwitchPlan, Transport,
};
use quincunx_units::Messages;
use serde::{Deserialize, Serialize};

/// A parameter server in the switch.
#[derive(Debug)]
pub struct ParameterServer {
    about: About,
}

/// The value that goes into a catalog: what the design is.
pub const PARAMETER_SERVER: ParameterServer = ParameterServer {
    about: About {
        model: Model { mutations: |_| vec![ONE_SHORT], ..Model::PLAIN },
        ..About::new(
            "parameter-server",
            "a parameter server in the switch: it adds up messages, and sends each sum to all",
            &[(FabricKind::Tree, &[Collective::AllReduce, Collective::Barrier])],
        )
    },
};

/// The rule that the checker can break: a sum is taken for complete when one rank is missing.
pub const ONE_SHORT: &str = "one-short";

/// Its parameters: those of the queue pairs, `group.mtu` and so on, and one of its own, `server.slots`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerParams {
    group: Transport,
    server: Slots,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Slots {
    /// Sums that the switch holds at once; as many as a window has messages if not said.
    slots: Option<Messages>,
}

impl ServerParams {
    fn slots(&self) -> Messages {
        self.server.slots.unwrap_or(self.group.window)
    }
}

impl Params for ServerParams {
    fn help() -> Vec<Help> {
        let own = ("server.slots", "sums that the switch holds at once; a window if not said");
        Transport::HELP.into_iter().chain([own]).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }

    fn check(&self) -> Result<(), Refusal> {
        let (slots, window) = (self.slots(), self.group.window);
        if slots == Messages::new(0) || slots > window {
            let expected = format!("`server.slots` of 1 to the {window} messages of `group.window`");
            return Err(Refusal::new(expected, slots, "change one of the two"));
        }
        Ok(())
    }
}

impl Design for ParameterServer {
    type Params = ServerParams;
    type RankRole = ();
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    /// One connection from each rank to the only switch; there, receive buffers for a window of each rank, and a slot for each sum.
    fn plan(&self, params: &ServerParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let tree = placement.tree.as_ref().filter(|tree| tree.switches().len() == 1).ok_or_else(|| {
            Refusal::new("one switch for parameter-server", "another fabric", "choose a star such as star-8")
        })?;
        let node = tree.root();
        let connection = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Switch(node), rank));
        let message = params.group.mtu * u64::from(params.group.message);
        let memory =
            params.group.window_bytes() * u64::from(placement.ranks) + message * u64::from(params.slots());
        let (ranks, connections) =
            (vec![(); placement.ranks.into()], (0..placement.ranks).map(connection).collect());
        let switches = vec![SwitchPlan { node, role: (), memory, passes: Vec::new() }];
        Ok(Plan { switches, ..Plan::new(ranks, connections) })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &ServerParams,
        (): (),
        _: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        Ok(Endpoint::Program(Box::new(rank::Worker::new(&params.group))))
    }

    fn switch<P: Payload>(
        &self,
        params: &ServerParams,
        (): (),
        context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let missing = u16::from(context.mutation == Some(ONE_SHORT));
        let server = server::Server::new(&params.group, params.slots(), context.group()?.ranks, missing);
        Ok(SwitchPart::Program(Box::new(server)))
    }
}
