//! What a group on a full mesh agrees on (MultiWrite 3.1, 5.2).

use crate::group::parameter;
use crate::{Design, HostDesign, InitGroupError, MeshDesign};
use alloc::format;
use alloc::string::ToString;
use quincunx_fabric::{MeshShape, Relays};
use quincunx_units::{BitRate, ByteCount};
use quincunx_wire::multiwrite::MAX_RANKS;

/// How a group uses a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MeshSetup {
    /// Its domains: ranks that gather together.
    pub shape: MeshShape,
    /// Who relays for a rank, if the design has it so.
    pub relays: Relays,
    /// Bytes of a message: what lands in one slot of a window.
    pub piece: ByteCount,
    /// Bytes that a rank may have in the windows of the others at once: the longest input of an AllGather.
    pub limit: ByteCount,
    /// What the links carry: the design splits data accordingly (5.2, step 2).
    pub rates: LinkRates,
}

/// What links carry one way, as measured or as known. Only their ratio matters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkRates {
    /// A link between ranks of one domain.
    pub direct: BitRate,
    /// A link between ranks of two domains.
    pub cross: BitRate,
}

/// A window that no node could map.
const MAX_WINDOW: ByteCount = ByteCount::new(1 << 36);

impl MeshSetup {
    /// Slots that each rank has in each window.
    pub fn slots(&self) -> u64 {
        self.limit.bytes().div_ceil(self.piece.bytes()).max(1)
    }

    /// Refuses what no set of hosts could carry out with `design`.
    pub(crate) fn check(&self, design: Design, ranks: u16) -> Result<(), InitGroupError> {
        let shape = self.shape;
        match design {
            Design::Host(HostDesign::Direct) | Design::Mesh(_) => {}
            Design::Epic(_) | Design::Host(HostDesign::Ring | HostDesign::Tree) => {
                let expected = "multiwrite, unicast-multipath, direct or writes on a mesh";
                return Err(parameter("a design", expected, design.to_string()));
            }
        }
        if ranks != shape.ranks() || ranks > MAX_RANKS {
            let expected = format!("{shape}, {MAX_RANKS} ranks at most");
            return Err(parameter("members", &expected, ranks.to_string()));
        }
        let relays = matches!(design, Design::Mesh(MeshDesign::MultiWrite | MeshDesign::Unicast));
        if relays && shape.domains() < 2 {
            let expected = format!("two domains at least for {design}");
            return Err(parameter("a mesh", &expected, shape.to_string()));
        }
        let piece = self.piece.bytes();
        if piece == 0 || !piece.is_multiple_of(4) {
            return Err(parameter("a piece", "a multiple of 4 bytes", self.piece.to_string()));
        }
        let slot = u128::from(piece) * u128::from(self.slots());
        if slot * u128::from(ranks) > u128::from(MAX_WINDOW.bytes()) {
            let expected = format!("windows up to {MAX_WINDOW}");
            let found = format!("{ranks} ranks with up to {} each", self.limit);
            return Err(parameter("a limit", &expected, found));
        }
        Ok(())
    }
}
