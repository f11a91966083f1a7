//! What is run: a collective of a group on a small fabric, and the frames that are lost.

use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Rank, ReduceOp, Reduction, noise, reference,
};
use quincunx_control::{Design, GroupParameters, LinkRates, MeshSetup, Retry};
use quincunx_fabric::{MeshShape, Relays, Shape};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::Psn;

/// Frames that are lost on the way from one node to a neighbour, counted from 0 in the order in which they are sent;
/// ascending. Nodes are called `rank-N` and `switch-N`; `switch-0` is the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Losses {
    /// Who sends them.
    pub from: &'static str,
    /// Who does not receive them.
    pub to: &'static str,
    /// Which.
    pub frames: &'static [u64],
}

/// One collective of one group.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// How it is carried out: EPIC's designs on a tree of switches, a ring on links between neighbours, MultiWrite's on a mesh.
    pub design: Design,
    /// The tree or the mesh; a ring has as many hosts as the tree has leaves.
    pub shape: Shape,
    /// Who relays on a mesh.
    pub relays: Relays,
    /// Which collective.
    pub collective: Collective,
    /// What it adds up.
    pub data_type: DataType,
    /// Bytes of a rank's vector: whole elements.
    pub length: usize,
    /// Decides the ranks' data.
    pub seed: u64,
    /// Bytes of payload in a full packet.
    pub mtu: u64,
    /// Packets in a message.
    pub message: u32,
    /// Messages that may be outstanding.
    pub window: u32,
    /// After how long a sender that hears nothing sends again.
    pub retry: Duration,
    /// What is lost.
    pub losses: Vec<Losses>,
}

/// A time-out that no run reaches.
const NEVER: Duration = Duration::from_secs(1000);

/// A time-out that repairs what is lost: more than an answer takes, mostly; and no run waits for long.
const SOON: Duration = Duration::from_millis(50);

impl Scenario {
    /// The sum of floating-point numbers, ten packets and a half of them; one packet on its way at most, nothing lost, no
    /// time-outs.
    ///
    /// # Panics
    /// If there is no such design or shape.
    pub fn stop_and_wait(design: &str, shape: &str, collective: Collective) -> Self {
        Self {
            design: design.parse().expect("a design"),
            shape: match shape.parse::<MeshShape>() {
                Ok(mesh) => Shape::Mesh(mesh),
                Err(_) => Shape::Tree(shape.parse().expect("a shape")),
            },
            relays: Relays::Paired,
            collective,
            data_type: DataType::F32,
            length: 10 * 32 + 16,
            seed: 1,
            mtu: 32,
            message: 1,
            window: 1,
            retry: NEVER,
            losses: Vec::new(),
        }
    }

    /// The same in messages of `message` packets, of which `window` may be on their way.
    pub fn windowed(self, message: u32, window: u32) -> Self {
        Self { message, window, ..self }
    }

    /// The same with all ranks of the next domain as relays, on a mesh.
    pub fn relayed_by_all(self) -> Self {
        Self { relays: Relays::Full, ..self }
    }

    /// The same of whole numbers, whose sum does not depend on the order.
    pub fn of_integers(self) -> Self {
        Self { data_type: DataType::I32, ..self }
    }

    /// The same with losses.
    pub fn losing(self, losses: &[Losses]) -> Self {
        Self { losses: losses.to_vec(), ..self }
    }

    /// The same with time-outs that are reached.
    pub fn with_time_outs(self) -> Self {
        Self { retry: SOON, ..self }
    }

    /// How elements combine.
    pub fn reduction(&self) -> Reduction {
        Reduction { op: ReduceOp::Sum, data_type: self.data_type }
    }

    /// Each rank's vector.
    pub fn inputs(&self) -> Vec<Numbers> {
        let input = |rank| noise(self.seed << 16 | u64::from(rank), self.length, self.data_type);
        (0..self.shape.ranks()).map(input).collect()
    }

    /// Each rank's right result: if the order matters, the one in rank order; on a mesh that of its domain.
    pub fn expected(&self) -> Vec<Numbers> {
        let together = match &self.shape {
            Shape::Tree(tree) => tree.ranks(),
            Shape::Mesh(mesh) => mesh.members(),
        };
        let inputs = self.inputs();
        let domains = inputs.chunks(together.into());
        domains.flat_map(|inputs| reference(self.collective, self.reduction(), inputs)).collect()
    }

    /// Whether a rank's output is a result: nobody but the root gets one from a Reduce.
    pub fn has_result(&self, rank: Rank) -> bool {
        !matches!(self.collective, Collective::Reduce { root } if root != rank)
    }

    /// How a group uses a mesh: a message for each slot, and links that are all alike.
    pub(crate) fn mesh(&self, shape: MeshShape) -> MeshSetup {
        let rate = BitRate::new(1).expect("above zero");
        MeshSetup {
            shape,
            relays: self.relays,
            piece: ByteCount::new(self.mtu * u64::from(self.message)),
            limit: ByteCount::new(self.length as u64),
            rates: LinkRates { direct: rate, cross: rate },
        }
    }

    pub(crate) fn parameters(&self) -> GroupParameters {
        GroupParameters {
            group: GroupId(1),
            ranks: self.shape.ranks(),
            mtu: ByteCount::new(self.mtu),
            message_packets: self.message,
            window_messages: self.window,
            reproducible: true,
            // They wrap on the way.
            initial_psn: Psn::new(0xff_fffc),
            retry: Retry { timeout: self.retry, count: u8::MAX },
        }
    }
}
