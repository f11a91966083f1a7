//! A parameter server in the switch: every rank sends its vector there in messages, the switch adds them up, and sends each sum back to
//! all. Connections end at the switch, so that both sides are programs above queue pairs, and neither knows of packets.
//!
//! This is all that a design is: parameters, a plan, what runs on a rank, what runs in a switch. The commands, the simulator, the
//! checker and the tests of all drivers come with it.

mod rank;
mod server;

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    Connection, Design, FabricKind, GroupContext, Help, Member, Model, Params, Placement, Plan, Refusal,
    SwitchPart, SwitchPlan, Transport,
};
use quincunx_engine::verbs::AnyProgram;
use serde::{Deserialize, Serialize};

/// A parameter server in the switch.
#[derive(Debug)]
pub struct ParameterServer;

/// The value that goes into a catalog.
pub const PARAMETER_SERVER: ParameterServer = ParameterServer;

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
    slots: Option<u32>,
}

impl ServerParams {
    fn slots(&self) -> u32 {
        self.server.slots.unwrap_or(self.group.window)
    }
}

impl AsRef<Transport> for ServerParams {
    fn as_ref(&self) -> &Transport {
        &self.group
    }
}

impl Params for ServerParams {
    fn help() -> Vec<Help> {
        let own = ("server.slots", "sums that the switch holds at once; a window if not said");
        Transport::HELP.into_iter().chain([own]).collect()
    }

    fn check(&self) -> Result<(), Refusal> {
        let (slots, window) = (self.slots(), self.group.window);
        if slots == 0 || slots > window {
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

    fn name(&self) -> &'static str {
        "parameter-server"
    }

    fn summary(&self) -> &'static str {
        "a parameter server in the switch: it adds up messages, and sends each sum to all"
    }

    fn fabrics(&self) -> &'static [FabricKind] {
        &[FabricKind::Tree]
    }

    fn collectives(&self, _: FabricKind) -> &'static [Collective] {
        &[Collective::AllReduce, Collective::Barrier]
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
        Ok(Plan {
            ranks: vec![(); placement.ranks.into()],
            switches: vec![SwitchPlan { node, role: (), memory, passes: Vec::new() }],
            connections: (0..placement.ranks).map(connection).collect(),
            remote_write: false,
            relayed: None,
        })
    }

    fn rank<P: Payload>(
        &self,
        params: &ServerParams,
        (): (),
        _: &GroupContext,
        _: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal> {
        Ok(Box::new(rank::Worker::new(&params.group)))
    }

    fn switch<P: Payload>(
        &self,
        params: &ServerParams,
        (): (),
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<SwitchPart<P>, Refusal> {
        let missing = u16::from(mutation == Some(ONE_SHORT));
        Ok(SwitchPart::Program(Box::new(server::Server::new(
            &params.group,
            params.slots(),
            context.ranks,
            missing,
        ))))
    }

    fn model(&self) -> Model {
        Model { mutations: || vec![ONE_SHORT], ..Model::PLAIN }
    }
}
