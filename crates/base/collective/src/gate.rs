//! Which experts tokens go to: what a gate network decides in a model, here drawn from a seed, and what stands for the experts' work.

use crate::name::{ParseNameError, find};
use crate::simd::bf16_from_f32;
use crate::{Rank, SplitMix64};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

/// How a token's experts are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GateKind {
    /// Each as likely as any other.
    Uniform,
    /// The n-th as likely as one n-th of the first.
    Skewed,
    /// As [`Uniform`](Self::Uniform), but no expert gets two tokens of a rank more than another (MultiWrite 6.1, "expert load balancing").
    Balanced,
}

/// Experts on ranks, and how tokens choose among them. Rank r hosts the r-th part of the experts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// Experts; a multiple of the ranks.
    pub experts: u16,
    /// Different experts of a token; at most all.
    pub top_k: u16,
    /// How they are chosen.
    pub kind: GateKind,
}

/// An expert of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Choice {
    /// Its number.
    pub expert: u16,
    /// The weight that its result will have, as the bits of a BF16.
    pub weight: u16,
}

/// A token's routing: its experts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Routing(pub Vec<Choice>);

/// The share of the first expert, of which the others of a skewed gate have parts.
const FIRST: u64 = 1 << 20;

impl GateKind {
    const NAMES: [(&str, Self); 3] =
        [("uniform", Self::Uniform), ("skewed", Self::Skewed), ("balanced", Self::Balanced)];
}

impl fmt::Display for GateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, kind)| kind == self).map(|(name, _)| *name);
        f.pad(name.expect("every kind has a name"))
    }
}

impl FromStr for GateKind {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        find(&Self::NAMES, "uniform, skewed, balanced", text)
    }
}

impl Gate {
    /// The routing of `tokens` tokens of `rank`; the same for the same seed.
    pub fn route(&self, rank: Rank, tokens: usize, seed: u64) -> Vec<Routing> {
        let mut random = SplitMix64::new(seed ^ u64::from(rank.0) << 48 ^ 0x6a7e);
        let mut load = vec![0_u64; usize::from(self.experts)];
        let mut token = || {
            let mut chosen = vec![false; load.len()];
            let expert = |_| {
                let weights = self.weights(&load, &chosen);
                let expert = draw(&weights, &mut random);
                chosen[expert] = true;
                load[expert] += 1;
                // A share above zero; the top bits of one draw.
                (expert as u16, (random.draw() >> 44) + 1)
            };
            let choices: Vec<(u16, u64)> = (0..self.top_k).map(expert).collect();
            let whole: u64 = choices.iter().map(|(_, share)| share).sum();
            Routing::new(choices.iter().map(|&(expert, share)| (expert, share as f32 / whole as f32)))
        };
        (0..tokens).map(|_| token()).collect()
    }

    /// How likely each expert is to be the next of a token that has chosen some.
    fn weights(&self, load: &[u64], chosen: &[bool]) -> Vec<u64> {
        let free = load.iter().zip(chosen).filter(|(_, chosen)| !**chosen);
        let least = free.map(|(load, _)| *load).min().unwrap_or_default();
        let weight = |(expert, (load, chosen)): (usize, (&u64, &bool))| match self.kind {
            _ if *chosen => 0,
            GateKind::Uniform => 1,
            GateKind::Skewed => FIRST / (expert as u64 + 1),
            GateKind::Balanced => u64::from(*load == least),
        };
        load.iter().zip(chosen).enumerate().map(weight).collect()
    }
}

/// An index, as likely as its weight says.
fn draw(weights: &[u64], random: &mut SplitMix64) -> usize {
    let whole: u64 = weights.iter().sum();
    let mut left = random.draw() % whole.max(1);
    let is_it = |weight: &u64| match left.checked_sub(*weight) {
        None => true,
        Some(rest) => {
            left = rest;
            false
        }
    };
    weights.iter().position(is_it).expect("what is drawn is below the sum")
}

impl Routing {
    /// Bytes that the routing of a token with `top_k` experts takes.
    pub const fn length(top_k: u16) -> usize {
        4 * top_k as usize
    }

    /// From experts with their weights.
    pub fn new(choices: impl IntoIterator<Item = (u16, f32)>) -> Self {
        let choice = |(expert, weight)| Choice { expert, weight: bf16_from_f32(weight) };
        Self(choices.into_iter().map(choice).collect())
    }

    /// The ranks that host its experts, of which each has `each`; ascending, each once.
    pub fn ranks(&self, each: u16) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = self.0.iter().map(|choice| Rank(choice.expert / each)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// As it travels with the token's values: 16 bits of the expert and 16 of the weight for each.
    pub fn bytes(&self) -> Vec<u8> {
        let pair = |choice: &Choice| [choice.expert.to_le_bytes(), choice.weight.to_le_bytes()].concat();
        self.0.iter().flat_map(pair).collect()
    }

    /// What has travelled.
    pub fn parse(bytes: &[u8]) -> Self {
        let choice = |&[expert_low, expert_high, weight_low, weight_high]: &[u8; 4]| Choice {
            expert: u16::from_le_bytes([expert_low, expert_high]),
            weight: u16::from_le_bytes([weight_low, weight_high]),
        };
        Self(bytes.as_chunks().0.iter().map(choice).collect())
    }

    /// What stands for the work of those of its experts that are in `experts`, summed up: each word of the token's values times the bits of
    /// the expert's weight, and the expert's number more, all of it modulo 2^32. So a result that a rank lacks, or has from another
    /// expert, another token or with another weight, shows; and sums of 32-bit integers are the same in every order.
    ///
    /// # Panics
    /// If the values are not whole words.
    pub fn work(&self, experts: Range<u16>, values: &[u8]) -> Vec<u8> {
        let (words, rest) = values.as_chunks();
        assert!(rest.is_empty(), "values of whole words, found {} bytes", values.len());
        let of = |word: &[u8; 4]| {
            let word = u32::from_le_bytes(*word);
            let own = self.0.iter().filter(|choice| experts.contains(&choice.expert));
            let sum = own.fold(0_u32, |sum, choice| {
                let result = word.wrapping_mul(u32::from(choice.weight));
                sum.wrapping_add(result).wrapping_add(u32::from(choice.expert))
            });
            sum.to_le_bytes()
        };
        words.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const KINDS: [GateKind; 3] = [GateKind::Uniform, GateKind::Skewed, GateKind::Balanced];

    fn gate(kind: GateKind) -> Gate {
        Gate { experts: 64, top_k: 8, kind }
    }

    fn experts(routing: &Routing) -> Vec<u16> {
        routing.0.iter().map(|choice| choice.expert).collect()
    }

    /// How many tokens each expert gets.
    fn loads(kind: GateKind, tokens: usize) -> Vec<usize> {
        let mut loads = vec![0; 64];
        for routing in gate(kind).route(Rank(3), tokens, 1) {
            experts(&routing).iter().for_each(|expert| loads[usize::from(*expert)] += 1);
        }
        loads
    }

    #[test]
    fn a_token_has_as_many_experts_as_asked_for_and_each_once() {
        for kind in KINDS {
            for routing in gate(kind).route(Rank(0), 100, 1) {
                let mut experts = experts(&routing);
                experts.sort_unstable();
                experts.dedup();
                assert_eq!(experts.len(), 8, "{kind}");
                assert!(experts.iter().all(|expert| *expert < 64), "{kind}");
            }
        }
    }

    #[test]
    fn the_weights_of_a_token_add_up_to_one() {
        for Routing(choices) in gate(GateKind::Uniform).route(Rank(0), 100, 1) {
            let weight = |choice: &Choice| f32::from_bits(u32::from(choice.weight) << 16);
            let sum: f32 = choices.iter().map(weight).sum();
            assert!((sum - 1.0).abs() < 0.01, "{choices:?}");
        }
    }

    #[test]
    fn with_load_balancing_no_expert_has_more_than_a_token_more_than_another() {
        for tokens in [1, 8, 13, 100] {
            let loads = loads(GateKind::Balanced, tokens);
            assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{tokens} tokens");
        }
    }

    #[test]
    fn a_skewed_gate_prefers_the_first_experts_and_a_uniform_one_none() {
        let (skewed, uniform) = (loads(GateKind::Skewed, 1000), loads(GateKind::Uniform, 1000));
        assert!(skewed[0] > 5 * skewed[63] && skewed[63] > 0, "{skewed:?}");
        assert!(uniform.iter().all(|load| (75..175).contains(load)), "{uniform:?}");
    }

    #[test]
    fn a_seed_replays_the_routing_and_ranks_differ() {
        let route = |rank, seed| gate(GateKind::Uniform).route(Rank(rank), 10, seed);
        assert_eq!(route(0, 1), route(0, 1));
        assert!(route(0, 1) != route(1, 1) && route(0, 1) != route(0, 2));
    }

    #[test]
    fn a_token_with_two_experts_on_a_rank_is_for_it_once() {
        let routing = Routing::new([(0, 1.0), (63, 0.5), (3, 0.25)]);
        assert_eq!(routing.ranks(4), [Rank(0), Rank(15)]);
    }

    #[test]
    fn a_routing_reads_back_as_it_was_written() {
        let routing = Routing::new([(0, 1.0), (300, 0.5)]);
        assert_eq!(routing.bytes(), [0, 0, 0x80, 0x3f, 44, 1, 0, 0x3f]);
        assert_eq!(Routing::parse(&routing.bytes()), routing);
        assert_eq!(routing.bytes().len(), Routing::length(2));
    }

    #[test]
    fn the_work_of_ranks_adds_up_to_that_of_all_experts() {
        let routing = Routing::new([(1, 0.75), (5, 0.25), (6, 0.5)]);
        let values: Vec<u8> = (0..64).map(|byte| byte * 3).collect();
        let word = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().unwrap());
        let parts = [0..2, 2..6, 6..8].map(|experts| routing.work(experts, &values));
        let whole = routing.work(0..8, &values);
        for at in (0..64).step_by(4) {
            let sum = parts.iter().fold(0_u32, |sum, part| sum.wrapping_add(word(&part[at..])));
            assert_eq!(sum, word(&whole[at..]));
        }
    }

    #[test]
    fn kinds_read_back_by_name() {
        for kind in KINDS {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "even".parse::<GateKind>().unwrap_err().to_string();
        assert_eq!(error, "expected one of uniform, skewed, balanced, found \"even\"");
    }
}
