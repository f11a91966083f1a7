//! The terms of the application's call that a request is a part of.

/// What a request does not say of the call that it is a part of, and ranks must agree on, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Terms {
    /// Every rank divides the sum by the number of ranks when it has it.
    pub averages: bool,
    /// Bytes of the vector that are padding: below 8.
    pub padding: u8,
    /// Further requests follow that belong to the same call.
    pub continues: bool,
    /// A part of the same request runs in the next channel.
    pub in_next_channel: bool,
}

impl Terms {
    /// Those of a request that is a call of its own.
    pub const WHOLE: Self = Self { averages: false, padding: 0, continues: false, in_next_channel: false };

    /// How many bits [`bits`](Self::bits) has.
    pub const BITS: u32 = 6;

    /// All of it in so many bits.
    ///
    /// # Panics
    /// If the padding is 8 bytes or more.
    pub const fn bits(self) -> u32 {
        assert!(self.padding < 8, "padding is less than the longest element");
        (self.padding as u32) << 3
            | (self.averages as u32) << 2
            | (self.continues as u32) << 1
            | self.in_next_channel as u32
    }
}
