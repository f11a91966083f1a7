//! AGG_PORT_CFG: which ports take part, and how many they are (table VII).

/// The ports that take part in aggregation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortConfig {
    enabled: u32,
}

/// Why a register is left as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefusedRegister {
    /// Bit 26 is set.
    #[error("expected bit 26 of AGG_PORT_CFG to be 0, found {value:#010x}; clear it")]
    Reserved {
        /// As given.
        value: u32,
    },
    /// The number is not that of the bits.
    #[error(
        "expected as many ports in agg_port_num as bits in agg_port_en, found {number} for {bits}; make them equal"
    )]
    Number {
        /// As given.
        number: u32,
        /// Bits that are set.
        bits: u32,
    },
    /// A sum of less than two.
    #[error("expected two ports at least, found {number}; one has nothing to add to")]
    Few {
        /// As given.
        number: u32,
    },
    /// A port that is not there.
    #[error("expected ports below {ports}, found {enabled:#x}; name ports of this switch")]
    NoSuchPort {
        /// Ports of the switch.
        ports: u16,
        /// As given.
        enabled: u32,
    },
}

const NUMBER_SHIFT: u32 = 27;
const RESERVED: u32 = 1 << 26;
const ENABLED: u32 = RESERVED - 1;

impl PortConfig {
    /// All ports of a switch take part.
    pub const fn all(ports: u16) -> Self {
        Self { enabled: (1 << ports) - 1 }
    }

    /// Reads the register's value, {agg_port_num (5 bits), 0, agg_port_en (26)}, for a switch with so many ports.
    ///
    /// # Errors
    /// If it makes no sense.
    pub const fn from_bits(value: u32, ports: u16) -> Result<Self, RefusedRegister> {
        let (number, enabled) = (value >> NUMBER_SHIFT, value & ENABLED);
        if value & RESERVED != 0 {
            return Err(RefusedRegister::Reserved { value });
        }
        if number != enabled.count_ones() {
            return Err(RefusedRegister::Number { number, bits: enabled.count_ones() });
        }
        if number < 2 {
            return Err(RefusedRegister::Few { number });
        }
        if enabled >> ports != 0 {
            return Err(RefusedRegister::NoSuchPort { ports, enabled });
        }
        Ok(Self { enabled })
    }

    /// The register's value.
    pub const fn to_bits(self) -> u32 {
        self.enabled.count_ones() << NUMBER_SHIFT | self.enabled
    }

    /// Whether a port takes part.
    pub const fn has(self, port: u16) -> bool {
        port < 32 && self.enabled >> port & 1 != 0
    }

    /// How many do: agg_port_num.
    pub const fn number(self) -> u16 {
        self.enabled.count_ones() as u16
    }

    /// Those that do.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        (0..26).filter(move |&port| self.has(port))
    }
}
