//! A set of a node's channels by their places, a bit each. Nearly all nodes have no more than a word holds, which is looked at with every
//! event, so that the first word lies here and not behind a pointer.

/// Places below a number that [`grow`](Self::grow) was told last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    first: u64,
    /// Those from 64 on.
    more: Vec<u64>,
}

impl Places {
    /// Makes room for places below `count`.
    pub(crate) fn grow(&mut self, count: usize) {
        self.more.resize(count.div_ceil(64).saturating_sub(1), 0);
    }

    fn word_mut(&mut self, place: usize) -> &mut u64 {
        match place / 64 {
            0 => &mut self.first,
            word => &mut self.more[word - 1],
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, place: usize) {
        *self.word_mut(place) |= 1 << (place % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, place: usize) {
        *self.word_mut(place) &= !(1 << (place % 64));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == 0 && self.more.iter().all(|&word| word == 0)
    }

    /// Whether there is none but `place`.
    #[inline]
    pub(crate) fn is_only(&self, place: usize) -> bool {
        if place < 64 && self.more.is_empty() {
            return self.first & !(1 << place) == 0;
        }
        let others = |(number, word)| if number == place / 64 { word & !(1 << (place % 64)) } else { word };
        (0..).zip(self.words()).map(others).all(|word| word == 0)
    }

    /// How many words there are, and one of them: 64 places each.
    #[inline]
    pub(crate) fn count_words(&self) -> usize {
        1 + self.more.len()
    }

    #[inline]
    pub(crate) fn word(&self, number: usize) -> u64 {
        if number == 0 { self.first } else { self.more[number - 1] }
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn places_are_a_set(
            count in 1_usize..200,
            steps in proptest::collection::vec((any::<bool>(), 0_usize..200), 0..40),
        ) {
            let mut places = Places::default();
            // As channels are added one by one.
            (1..=count).for_each(|count| places.grow(count));
            let mut plain = BTreeSet::new();
            for (is_in, place) in steps {
                let place = place % count;
                if is_in {
                    places.insert(place);
                    plain.insert(place);
                } else {
                    places.remove(place);
                    plain.remove(&place);
                }
                prop_assert_eq!(places.is_empty(), plain.is_empty());
                for place in 0..count {
                    prop_assert_eq!(places.is_only(place), plain.iter().all(|&other| other == place));
                }
                let words = (0..places.count_words()).map(|word| (word, places.word(word)));
                let found = words.flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit));
                prop_assert!(found.eq(plain.iter().copied()));
            }
        }
    }
}
