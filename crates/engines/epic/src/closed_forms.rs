//! What EPIC publishes as formulas (appendix F), as printed: how long an AllReduce takes (F.1), what a switch's buffers take (F.3), and
//! what share of the throughput is left where frames are lost (F.4).

use crate::mode::Mode;

/// The symbols of EPIC's table 2, as far as appendix F uses them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Symbols {
    /// How switches are realised.
    pub mode: Mode,
    /// H: levels of the tree, the ranks among them.
    pub depth: u32,
    /// D: edges of the switch with most of them.
    pub degree: u32,
    /// B in bytes a microsecond.
    pub bandwidth: f64,
    /// L in microseconds.
    pub latency: f64,
    /// U in bytes.
    pub packet: f64,
    /// M in packets.
    pub message: f64,
    /// S in bytes.
    pub size: f64,
    /// Whether numbers are added in rank order.
    pub reproducible: bool,
    /// r: how likely a frame arrives.
    pub success: f64,
}

impl Symbols {
    /// F.1, equations 1 and 2, in microseconds: propagation, store and forward of a message (Mode-I) or a packet (Modes II and III), and
    /// the vector itself.
    pub fn latency(&self) -> f64 {
        let unit = match self.mode {
            Mode::I => self.message * self.packet,
            Mode::II | Mode::III => self.packet,
        };
        let depth = f64::from(self.depth);
        (2.0 * depth - 2.0) * self.latency
            + (2.0 * depth - 1.0) * unit / self.bandwidth
            + self.size / self.bandwidth
    }

    /// F.3, in bytes: buffers for the bandwidth-delay product of a hop (Modes I and III) or of the path (Mode-II).
    pub fn switch_memory(&self) -> f64 {
        let hop = 2.0 * self.bandwidth * self.latency;
        let path = 2.0 * (f64::from(self.depth) - 1.0) * hop;
        let degree = f64::from(self.degree);
        match (self.mode, self.reproducible) {
            (Mode::I, _) | (Mode::III, true) => (degree + 1.0) * hop,
            (Mode::II, false) => path,
            (Mode::II, true) => (degree + 1.0) * path,
            (Mode::III, false) => 2.0 * hop,
        }
    }

    /// F.4 with F(r) = r, as a share of B: hops slow each other down one after the other, and in Mode-II those beside each other too.
    pub fn loss_tolerance(&self) -> f64 {
        let hops = 2 * (self.depth - 1);
        let factors = match self.mode {
            Mode::I | Mode::III => hops,
            Mode::II => hops * (self.degree - 1),
        };
        (0..factors).map(|_| self.success).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Gbit/s, 1 us, packets of 1250 bytes, messages of ten, ten microseconds of data.
    fn symbols(mode: Mode, depth: u32, degree: u32) -> Symbols {
        Symbols {
            mode,
            depth,
            degree,
            bandwidth: 12_500.0,
            latency: 1.0,
            packet: 1250.0,
            message: 10.0,
            size: 125_000.0,
            reproducible: false,
            success: 0.5,
        }
    }

    #[test]
    fn a_message_is_stored_and_forwarded_in_mode_i_and_a_packet_in_the_others() {
        // 2 us on the way, three messages of 1 us or packets of 0.1 us, and 10 us for the vector.
        let found = [Mode::I, Mode::II].map(|mode| symbols(mode, 2, 8).latency());
        assert_eq!(found, [15.0, 12.3]);
        assert_eq!(symbols(Mode::III, 3, 3).latency(), 4.0 + 0.5 + 10.0);
    }

    #[test]
    fn mode_ii_pays_for_the_path_and_the_others_for_a_hop() {
        let both = |mode| {
            [false, true].map(|reproducible| {
                Symbols { reproducible, ..symbols(mode, 3, 3) }.switch_memory() / 12_500.0
            })
        };
        // In BL, of a switch with three edges in a tree of three levels.
        assert_eq!([Mode::I, Mode::II, Mode::III].map(both), [[8.0, 8.0], [8.0, 32.0], [4.0, 8.0]]);
    }

    #[test]
    fn losses_beside_each_other_add_up_in_mode_ii_alone() {
        let found = [Mode::I, Mode::III, Mode::II].map(|mode| symbols(mode, 3, 3).loss_tolerance());
        assert_eq!(found, [1.0 / 16.0, 1.0 / 16.0, 1.0 / 256.0]);
    }
}
