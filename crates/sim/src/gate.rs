//! Which experts tokens go to: what a gate network decides in a model, here drawn from a seed.

use quincunx_collective::SplitMix64;
use quincunx_scenario::GateKind;
use quincunx_wire::multiwrite::Destinations;

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

/// A token's routing: each of its experts, with the weight that its result will have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing(pub Vec<(u16, u16)>);

/// The share of the first expert, of which the others of a skewed gate have parts.
const FIRST: u64 = 1 << 20;

impl Gate {
    /// Bytes of a token's routing.
    pub const fn routing_bytes(&self) -> usize {
        4 * self.top_k as usize
    }

    /// The routing of `tokens` tokens of `rank`; the same for the same seed.
    pub fn route(&self, rank: u16, tokens: usize, seed: u64) -> Vec<Routing> {
        let mut random = SplitMix64::new(seed ^ u64::from(rank) << 48 ^ 0x6a7e);
        let mut load = vec![0_u64; usize::from(self.experts)];
        let mut token = || {
            let mut chosen = vec![false; load.len()];
            let expert = |_| {
                let weights = self.weights(&load, &chosen);
                let expert = draw(&weights, &mut random);
                chosen[expert] = true;
                load[expert] += 1;
                (expert as u16, random.draw() as u16)
            };
            Routing((0..self.top_k).map(expert).collect())
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
    /// The ranks that host its experts, of which each has `each`.
    pub fn ranks(&self, each: u16) -> Destinations {
        let mut ranks = Destinations::NONE;
        self.0.iter().for_each(|(expert, _)| ranks.insert(expert / each));
        ranks
    }

    /// As it travels with the token's values: 16 bits of the expert and 16 of the weight for each.
    pub fn bytes(&self) -> Vec<u8> {
        let pair = |(expert, weight): &(u16, u16)| [expert.to_le_bytes(), weight.to_le_bytes()].concat();
        self.0.iter().flat_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [GateKind; 3] = [GateKind::Uniform, GateKind::Skewed, GateKind::Balanced];

    fn gate(kind: GateKind) -> Gate {
        Gate { experts: 64, top_k: 8, kind }
    }

    /// How many tokens each expert gets.
    fn loads(kind: GateKind, tokens: usize) -> Vec<usize> {
        let mut loads = vec![0; 64];
        for Routing(experts) in gate(kind).route(3, tokens, 1) {
            experts.iter().for_each(|(expert, _)| loads[usize::from(*expert)] += 1);
        }
        loads
    }

    #[test]
    fn a_token_has_as_many_experts_as_asked_for_and_each_once() {
        for kind in KINDS {
            for Routing(mut experts) in gate(kind).route(0, 100, 1) {
                experts.sort_unstable();
                experts.dedup_by_key(|(expert, _)| *expert);
                assert_eq!(experts.len(), 8, "{kind:?}");
                assert!(experts.iter().all(|(expert, _)| *expert < 64), "{kind:?}");
            }
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
        let route = |rank, seed| gate(GateKind::Uniform).route(rank, 10, seed);
        assert_eq!(route(0, 1), route(0, 1));
        assert!(route(0, 1) != route(1, 1) && route(0, 1) != route(0, 2));
    }

    #[test]
    fn a_token_with_two_experts_on_a_rank_is_for_it_once() {
        let routing = Routing(vec![(0, 7), (3, 8), (63, 9)]);
        assert_eq!(routing.ranks(4).iter().collect::<Vec<_>>(), [0, 15]);
        assert_eq!(routing.bytes(), [0, 0, 7, 0, 3, 0, 8, 0, 63, 0, 9, 0]);
    }
}
