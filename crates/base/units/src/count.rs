//! Counts of what networks send: packets, and the messages that are made of them. A window is of one or the other, and which one its type says.

use core::fmt;
use core::ops::Mul;

use crate::ByteCount;
use serde::{Deserialize, Serialize};

macro_rules! counts {
    ($($(#[$doc:meta])* $Count:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $Count(u32);

        impl $Count {
            /// So many.
            pub const fn new(count: u32) -> Self {
                Self(count)
            }

            /// How many.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// How many, for indexing memory.
            pub const fn as_usize(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $Count {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$Count> for u64 {
            fn from(count: $Count) -> Self {
                count.0.into()
            }
        }
    )+};
}

counts!(
    /// Packets: M and N in EPIC's table 2.
    Packets,
    /// Messages of packets: W in EPIC's table 2.
    Messages,
);

impl Packets {
    /// The messages that so many packets make, of at most `each`; the last one may be shorter.
    ///
    /// # Panics
    /// If `each` is zero.
    pub const fn in_messages_of(self, each: Self) -> Messages {
        Messages(self.0.div_ceil(each.0))
    }
}

impl Messages {
    /// The packets in so many messages of `each`.
    ///
    /// # Panics
    /// If there are more than 2^32, in builds that check arithmetic.
    pub const fn of_packets(self, each: Packets) -> Packets {
        Packets(self.0 * each.0)
    }
}

impl Mul<Packets> for ByteCount {
    type Output = Self;

    /// Bytes of so many packets of this size.
    fn mul(self, packets: Packets) -> Self {
        self * u64::from(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::{Messages, Packets};
    use crate::ByteCount;

    #[test]
    fn the_last_message_may_be_shorter() {
        assert_eq!(Packets::new(9).in_messages_of(Packets::new(4)), Messages::new(3));
        assert_eq!(Messages::new(3).of_packets(Packets::new(4)), Packets::new(12));
    }

    #[test]
    fn packets_of_a_size_are_bytes() {
        assert_eq!(ByteCount::new(1024) * Packets::new(3), ByteCount::new(3072));
    }
}
