//! Whom the tokens of a batch are for, and what a Dispatch and a Combine must give (MultiWrite 2.3.2).
//!
//! Ranks keep tokens of others in **places**: so many for each source, one source after the other, each as long as a token. A Dispatch
//! fills the places of the tokens that are for the rank; a Combine takes from the same places what the rank has made of them.

use crate::{Payload, Rank, Reduction};
use alloc::vec::Vec;

/// For each token of a batch the ranks that host one of its experts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Routes {
    ranks: Vec<Rank>,
    /// By token: where its ranks end.
    ends: Vec<usize>,
    /// By rank: how many of its tokens are for this rank; empty if that is not known.
    incoming: Vec<usize>,
}

impl Routes {
    /// Tokens of the batch.
    pub fn tokens(&self) -> usize {
        self.ends.len()
    }

    /// The ranks that a token is for.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn of(&self, token: usize) -> &[Rank] {
        let start = token.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ranks[start..self.ends[token]]
    }

    /// How many tokens of each rank are for this rank; empty if that is not known.
    pub fn incoming(&self) -> &[usize] {
        &self.incoming
    }

    /// The routes of all ranks, each of which knows how many tokens come from whom, as callers of an AllToAllV do.
    ///
    /// # Panics
    /// If a token is for a rank that there is not.
    pub fn with_incoming(all: Vec<Self>) -> Vec<Self> {
        let mut incoming = alloc::vec![alloc::vec![0; all.len()]; all.len()];
        for (source, routes) in all.iter().enumerate() {
            for ranks in routes.iter() {
                let once = ranks.iter().enumerate().filter(|(index, rank)| !ranks[..*index].contains(rank));
                for (_, rank) in once {
                    incoming[rank.index()][source] += 1;
                }
            }
        }
        all.into_iter().zip(incoming).map(|(routes, incoming)| Self { incoming, ..routes }).collect()
    }

    /// The ranks of each token, one after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Rank]> {
        (0..self.tokens()).map(|token| self.of(token))
    }
}

/// From the ranks of each token.
impl<T: IntoIterator<Item = Rank>> FromIterator<T> for Routes {
    fn from_iter<I: IntoIterator<Item = T>>(tokens: I) -> Self {
        let mut routes = Self::default();
        for token in tokens {
            routes.ranks.extend(token);
            routes.ends.push(routes.ranks.len());
        }
        routes
    }
}

/// What a Dispatch must give `rank`, from every rank's batch of tokens of `length` bytes: `slots` places for each source, with zeroes where
/// a token is not for it.
///
/// # Panics
/// If a batch has more tokens than places, or not as many as its input.
pub fn reference_dispatch<P: Payload>(
    routes: &[Routes],
    inputs: &[P],
    rank: Rank,
    slots: usize,
    length: usize,
) -> P {
    let mut places = P::zeroed(inputs.len() * slots * length);
    for (source, (routes, input)) in routes.iter().zip(inputs).enumerate() {
        assert!(routes.tokens() <= slots, "{} tokens in {slots} places", routes.tokens());
        assert_eq!(input.length(), routes.tokens() * length, "an input of whole tokens");
        for (token, _) in routes.iter().enumerate().filter(|(_, ranks)| ranks.contains(&rank)) {
            places.write((source * slots + token) * length, input.view(token * length..(token + 1) * length));
        }
    }
    places
}

/// What a Combine must give `rank`, whose batch went to `routes`, from every rank's places of `length` bytes: for each token the reduction of
/// what its ranks have in its place, in rank order.
///
/// # Panics
/// If a token has no rank, or a place lies outside.
pub fn reference_combine<P: Payload>(
    routes: &Routes,
    places: &[P],
    rank: Rank,
    slots: usize,
    length: usize,
    reduction: Reduction,
) -> P {
    let mut combined = P::zeroed(routes.tokens() * length);
    for (token, ranks) in routes.iter().enumerate() {
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable();
        ranks.dedup();
        let at = (rank.index() * slots + token) * length;
        let (first, others) = ranks.split_first().expect("a token has a rank at least");
        combined.write(token * length, places[first.index()].view(at..at + length));
        for other in others {
            combined.reduce(token * length, places[other.index()].view(at..at + length), reduction);
        }
    }
    combined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Numbers, ReduceOp};

    const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

    fn i32s(values: &[i32]) -> Numbers {
        Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn each_rank_knows_how_many_tokens_come_from_whom() {
        let all = [&[&[0, 1][..], &[1, 1]][..], &[&[0]], &[]].map(routes);
        let all = Routes::with_incoming(all.into());
        let incoming: Vec<_> = all.iter().map(Routes::incoming).collect();
        assert_eq!(incoming, [[1, 1, 0], [2, 0, 0], [0, 0, 0]]);
        assert!(routes(&[&[1]]).incoming().is_empty());
    }

    fn routes(tokens: &[&[u16]]) -> Routes {
        tokens.iter().map(|ranks| ranks.iter().copied().map(Rank)).collect()
    }

    #[test]
    fn a_dispatch_gives_each_rank_the_tokens_that_are_for_it_in_their_places() {
        let (routes, inputs) = ([routes(&[&[1], &[0, 1]]), routes(&[&[0]])], [i32s(&[10, 11]), i32s(&[20])]);
        assert_eq!(reference_dispatch(&routes, &inputs, Rank(0), 2, 4), i32s(&[0, 11, 20, 0]));
        assert_eq!(reference_dispatch(&routes, &inputs, Rank(1), 2, 4), i32s(&[10, 11, 0, 0]));
    }

    #[test]
    fn a_combine_gives_each_token_the_sum_of_what_its_ranks_have_in_its_place() {
        let places = [i32s(&[0, 1, 2, 0]), i32s(&[10, 20, 0, 0])];
        assert_eq!(
            reference_combine(&routes(&[&[1], &[0, 1]]), &places, Rank(0), 2, 4, SUM),
            i32s(&[10, 21])
        );
        assert_eq!(reference_combine(&routes(&[&[0]]), &places, Rank(1), 2, 4, SUM), i32s(&[2]));
    }

    #[test]
    fn a_batch_says_whom_each_of_its_tokens_is_for() {
        let routes = routes(&[&[2], &[], &[0, 1]]);
        assert_eq!(routes.tokens(), 3);
        assert_eq!(routes.iter().collect::<Vec<_>>(), [&[Rank(2)][..], &[], &[Rank(0), Rank(1)]]);
    }
}
