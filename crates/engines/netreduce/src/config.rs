//! The dimensions of the switch's buffers.

use quincunx_wire::netreduce;

/// The most ports of a switch in software. The paper's has 8.
pub(crate) const MAX_PORTS: u16 = 16;

/// The dimensions of the switch's buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Ports, 2 to 16.
    pub ports: u16,
    /// Messages that the buffers hold of each port (table IV: 4).
    pub flows: u16,
    /// Frames of each (table IV: 128).
    pub frames: u16,
    /// Bytes of layer-5 payload in every frame, NetReduce's header included (III.A: 1,024).
    pub payload: usize,
}

/// Why a switch cannot be made so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Too few ports, or too many.
    #[error("expected 2 to {MAX_PORTS} ports, found {found}; choose a smaller switch")]
    Ports {
        /// As given.
        found: u16,
    },
    /// Nothing could be buffered.
    #[error("expected buffers for at least one flow of two frames, found {flows} of {frames}; raise them")]
    Buffers {
        /// As given.
        flows: u16,
        /// As given.
        frames: u16,
    },
    /// A payload without room for header and an element, or of no whole elements.
    #[error(
        "expected a payload of whole 4-byte elements behind a header of 20 bytes, found {found} bytes; use 1024"
    )]
    Payload {
        /// As given.
        found: usize,
    },
}

impl Shape {
    /// The paper's buffers for so many ports.
    pub const fn of_ports(ports: u16) -> Self {
        Self { ports, flows: 4, frames: netreduce::MAX_FRAMES, payload: netreduce::PAYLOAD }
    }

    /// Refuses what is no switch.
    ///
    /// # Errors
    /// If it is none.
    pub const fn check(&self) -> Result<(), ConfigError> {
        let Self { ports, flows, frames, payload } = *self;
        if ports < 2 || ports > MAX_PORTS {
            return Err(ConfigError::Ports { found: ports });
        }
        if flows == 0 || frames < 2 {
            return Err(ConfigError::Buffers { flows, frames });
        }
        if payload <= netreduce::LENGTH || !payload.is_multiple_of(4) {
            return Err(ConfigError::Payload { found: payload });
        }
        Ok(())
    }

    /// Places in each buffer: 512 in the paper.
    pub const fn places(&self) -> usize {
        self.flows as usize * self.frames as usize
    }
}
