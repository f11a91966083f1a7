//! Numbers of queue pairs.

/// The largest queue pair number: 24 bits.
pub const MAX_QPN: u32 = 0x00ff_ffff;

/// A queue pair number, 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QpNumber(u32);

impl QpNumber {
    /// The number `value` modulo 2^24.
    pub const fn new(value: u32) -> Self {
        Self(value & MAX_QPN)
    }

    /// The number's value, less than 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Which of the hosts at its address it belongs to, where several processes of a machine have one: the upper byte.
    pub const fn share(self) -> u8 {
        (self.0 >> 16) as u8
    }
}
