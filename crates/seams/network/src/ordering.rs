//! Which frames of a direction of a link keep their order among each other.

/// An ordering class. Frames of one class keep their order on a direction of a link; frames of different classes may overtake each
/// other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OrderingClass(u8);

/// More classes are asked for than there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected an ordering class below {}, found {found}; put frames into fewer classes",
    OrderingClass::COUNT
)]
pub struct UnsupportedClass {
    /// The number of the class.
    pub found: u16,
}

impl OrderingClass {
    /// Classes that a direction may have.
    pub const COUNT: u16 = 8;

    /// The class of all frames, where nothing overtakes.
    pub const FIRST: Self = Self(0);

    /// Another class.
    pub const SECOND: Self = Self(1);

    /// The class of that number.
    ///
    /// # Errors
    /// If it is not below [`COUNT`](Self::COUNT).
    pub const fn new(number: u16) -> Result<Self, UnsupportedClass> {
        if number < Self::COUNT { Ok(Self(number as u8)) } else { Err(UnsupportedClass { found: number }) }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0 as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_ninth_class_is_refused() {
        assert_eq!(OrderingClass::new(7).map(OrderingClass::number), Ok(7));
        let error = OrderingClass::new(8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected an ordering class below 8, found 8; put frames into fewer classes"
        );
    }
}
