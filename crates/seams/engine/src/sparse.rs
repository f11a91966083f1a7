//! What is known of a few numbers of a window.

use alloc::collections::VecDeque;

/// Values by number, in order. Numbers come near the end and go at the front, and what held them once holds the next: once warm, it
/// allocates nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sparse<V>(VecDeque<(u64, V)>);

impl<V> Default for Sparse<V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<V> Sparse<V> {
    /// Sets what is known of `number`.
    pub fn insert(&mut self, number: u64, value: V) {
        let place = self.place(number);
        match self.0.get_mut(place) {
            Some((there, known)) if *there == number => *known = value,
            _ => self.0.insert(place, (number, value)),
        }
    }

    /// Takes what is known of `number`.
    pub fn remove(&mut self, number: u64) -> Option<V> {
        let place = self.place(number);
        self.get(number)?;
        self.0.remove(place).map(|(_, value)| value)
    }

    /// Takes the least number, if it is less than `end`.
    pub fn pop_before(&mut self, end: u64) -> Option<(u64, V)> {
        if self.0.front()?.0 < end { self.0.pop_front() } else { None }
    }

    /// What is known of `number`.
    pub fn get(&self, number: u64) -> Option<&V> {
        self.0.get(self.place(number)).filter(|(there, _)| *there == number).map(|(_, value)| value)
    }

    /// Whether anything is known of `number`.
    pub fn contains(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    /// The numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(number, _)| *number)
    }

    /// The numbers, in order, with what is known of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut V)> {
        self.0.iter_mut().map(|(number, value)| (*number, value))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers have a place by now.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Where `number` is, or would be.
    fn place(&self, number: u64) -> usize {
        match self.0.back() {
            Some((last, _)) if *last < number => self.0.len(),
            _ => self.0.partition_point(|(there, _)| *there < number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        let (mut sparse, mut map) = (Sparse::default(), BTreeMap::new());
        let mut state = 1_u64;
        for step in 0..2_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (state >> 33) % 16;
            match (state >> 60) % 4 {
                0 | 1 => {
                    sparse.insert(number, step);
                    map.insert(number, step);
                }
                2 => assert_eq!(sparse.remove(number), map.remove(&number)),
                _ => {
                    let first =
                        map.first_key_value().map(|(first, _)| *first).filter(|first| *first < number);
                    assert_eq!(sparse.pop_before(number), first.and_then(|first| map.remove_entry(&first)));
                }
            }
            assert_eq!(sparse.get(number), map.get(&number));
            assert_eq!(sparse.contains(number), map.contains_key(&number));
            assert!(sparse.numbers().eq(map.keys().copied()));
            assert_eq!(sparse.is_empty(), map.is_empty());
        }
        sparse.clear();
        assert_eq!(sparse.numbers().count(), 0);
    }
}
