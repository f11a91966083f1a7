//! Closed forms that papers publish, evaluated for a run: what [`reproduce`](crate::reproduce()) holds a simulation against where a
//! figure is a formula. As printed; where a simulation finds another count, the experiment says so.

use crate::Request;
use quincunx_control::Design;
use quincunx_fabric::{Mode, TreeShape};
use quincunx_scenario::{Fabric, Formula, PacketFabric, TopologyName};

/// A formula that says nothing of a run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected an EPIC design on a tree for this formula, found {found}; choose epic-1, epic-2 or epic-3 and a tree"
)]
pub struct FormulaError {
    /// The design, and what it runs on.
    pub found: String,
}

/// The symbols of EPIC's table 2, as far as appendix F uses them.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Epic {
    mode: Mode,
    /// H: levels of the tree, the ranks among them.
    depth: f64,
    /// D: edges of the switch with most of them.
    degree: f64,
    /// B in bytes a microsecond.
    bandwidth: f64,
    /// L in microseconds.
    latency: f64,
    /// U in bytes.
    packet: f64,
    /// M in packets.
    message: f64,
    /// S in bytes.
    size: f64,
    /// Whether numbers are added in rank order.
    reproducible: bool,
    /// r: how likely a frame arrives.
    success: f64,
}

/// What `formula` says of `request`: microseconds, bytes or a share.
///
/// # Errors
/// If it says nothing of such a design or fabric.
pub(crate) fn evaluate(formula: Formula, request: &Request) -> Result<f64, FormulaError> {
    let symbols = Epic::of(request)?;
    Ok(match formula {
        Formula::EpicLatency => symbols.latency(),
        Formula::EpicSpace => symbols.space(),
        Formula::EpicLossTolerance => symbols.loss_tolerance(),
    })
}

impl Epic {
    fn of(request: &Request) -> Result<Self, FormulaError> {
        match (&request.fabric, request.design.parse()) {
            (Fabric::Packet(fabric), Ok(Design::Epic(mode))) => match &fabric.topology {
                TopologyName::Tree(shape) => Ok(Self::on(fabric, shape, mode, request.size.bytes() as f64)),
                TopologyName::Ring(_) => Err(FormulaError { found: format!("{} on a ring", request.design) }),
            },
            _ => Err(FormulaError { found: request.design.clone() }),
        }
    }

    fn on(fabric: &PacketFabric, shape: &TreeShape, mode: Mode, size: f64) -> Self {
        let group = &fabric.group;
        let edges = |(level, &branches): (usize, &u16)| branches + u16::from(level > 0);
        let degree = shape.branches().iter().enumerate().map(edges).max().unwrap_or_default();
        Self {
            mode,
            depth: shape.depth() as f64,
            degree: f64::from(degree),
            bandwidth: fabric.link.rate.bits_per_second() as f64 / 8e6,
            latency: fabric.link.latency.as_micros_f64(),
            packet: group.mtu.bytes() as f64,
            message: f64::from(group.message),
            size,
            reproducible: group.reproducible,
            success: 1.0 - fabric.loss.as_ref().map_or(0.0, |loss| loss.probability.value()),
        }
    }

    /// F.1, equations 1 and 2: propagation, store and forward of a message (Mode-I) or a packet (Modes II and III), and the
    /// vector itself.
    fn latency(&self) -> f64 {
        let unit = match self.mode {
            Mode::I => self.message * self.packet,
            Mode::II | Mode::III => self.packet,
        };
        (2.0 * self.depth - 2.0) * self.latency
            + (2.0 * self.depth - 1.0) * unit / self.bandwidth
            + self.size / self.bandwidth
    }

    /// F.3: buffers for the bandwidth-delay product of a hop (Modes I and III) or of the path (Mode-II).
    fn space(&self) -> f64 {
        let hop = 2.0 * self.bandwidth * self.latency;
        let path = 2.0 * (self.depth - 1.0) * hop;
        match (self.mode, self.reproducible) {
            (Mode::I, _) | (Mode::III, true) => (self.degree + 1.0) * hop,
            (Mode::II, false) => path,
            (Mode::II, true) => (self.degree + 1.0) * path,
            (Mode::III, false) => 2.0 * hop,
        }
    }

    /// F.4 with F(r) = r, over B: hops slow each other down one after the other, and in Mode-II those beside each other too.
    fn loss_tolerance(&self) -> f64 {
        let hops = 2.0 * (self.depth - 1.0);
        self.success.powf(match self.mode {
            Mode::I | Mode::III => hops,
            Mode::II => hops * (self.degree - 1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;
    use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
    use quincunx_units::ByteCount;

    fn value(formula: Formula, fabric: &str, design: &str, changes: &[&str]) -> Result<f64, FormulaError> {
        let changes: Vec<_> = changes.iter().map(|change| change.parse().unwrap()).collect();
        let request = Request {
            fabric: Fabric::find(fabric, &changes).unwrap(),
            design: design.into(),
            collective: Collective::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            size: ByteCount::new(125_000),
            contents: Contents::LengthOnly,
            background: None,
            seed: 1,
        };
        evaluate(formula, &request)
    }

    /// 100 Gbit/s are 12,500 bytes a microsecond.
    #[test]
    fn a_message_is_stored_and_forwarded_in_mode_i_and_a_packet_in_the_others() {
        let with = ["group.mtu=1250B", "group.message=10"];
        let latency = |fabric, design| value(Formula::EpicLatency, fabric, design, &with).unwrap();
        // 2 us on the way, three messages of 1 us or packets of 0.1 us, and 10 us for the vector.
        assert_eq!([latency("star-8", "epic-1"), latency("star-8", "epic-2")], [15.0, 12.3]);
        assert_eq!(latency("tree-3-2", "epic-3"), 4.0 + 0.5 + 10.0);
    }

    #[test]
    fn mode_ii_pays_for_the_path_and_the_others_for_a_hop() {
        let space = |design, reproducible: &str| {
            value(Formula::EpicSpace, "tree-3-2", design, &[reproducible]).unwrap() / 12_500.0
        };
        let both =
            |design| [space(design, "group.reproducible=false"), space(design, "group.reproducible=true")];
        // In BL, of a switch with three edges in a tree of three levels.
        assert_eq!([both("epic-1"), both("epic-2"), both("epic-3")], [[8.0, 8.0], [8.0, 32.0], [4.0, 8.0]]);
    }

    #[test]
    fn losses_beside_each_other_add_up_in_mode_ii_alone() {
        let share = |design| {
            value(Formula::EpicLossTolerance, "tree-3-2", design, &["loss.probability=50%"]).unwrap()
        };
        assert_eq!(
            [share("epic-1"), share("epic-3"), share("epic-2")],
            [1.0 / 16.0, 1.0 / 16.0, 1.0 / 256.0]
        );
    }

    #[test]
    fn a_formula_says_nothing_of_other_designs_and_fabrics() {
        for (fabric, design) in [("star-8", "ring"), ("ring-8", "epic-3"), ("scin-dgx8", "scin")] {
            assert!(value(Formula::EpicLatency, fabric, design, &[]).is_err(), "{fabric} {design}");
        }
    }
}
