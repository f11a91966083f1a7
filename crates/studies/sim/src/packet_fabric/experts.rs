//! Tokens for experts: dispatches of a batch, and what comes back (MultiWrite 3.2).

use quincunx_cluster::token_length;
use quincunx_collective::{
    Collective, DataType, Gate, GroupId, Rank, ReduceOp, Reduction, Routes, Routing, reference_dispatch,
};
use quincunx_nodes::{HostCommand, NodeCommand};
use quincunx_scenario::{GateSource, TokenBatch};
use quincunx_units::Duration;

use super::SimulationError;
use super::data::Data;
use super::group::{Finished, ObservedGroup};
use crate::progress::ProgressFn;

/// Words of a token: what is wrong is counted in them, to the bit, and the experts' results are sums of them.
pub(super) const WORDS: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// The tokens of all ranks, and whom they are for.
pub(super) struct Batch<'a> {
    batch: &'a TokenBatch,
    ranks: u16,
    /// The most tokens of a rank: its slots at each other one.
    slots: usize,
    /// Bytes of a token as it travels: its values, and behind them its routing.
    length: usize,
    /// By rank and token.
    routings: Vec<Vec<Routing>>,
    /// By rank.
    routes: Vec<Routes>,
}

impl<'a> Batch<'a> {
    /// The tokens of `ranks` ranks; those that are drawn are drawn by `seed`.
    pub(super) fn new(batch: &'a TokenBatch, ranks: u16, seed: u64) -> Self {
        let TokenBatch { experts, top_k, .. } = *batch;
        let slots = batch.most_tokens();
        let route = |rank: u16| match &batch.gate {
            GateSource::Drawn(kind) => Gate { experts, top_k, kind: *kind }.route(Rank(rank), slots, seed),
            GateSource::Written(written) => {
                written.tokens[usize::from(rank)].iter().take(slots).cloned().collect()
            }
        };
        let routings: Vec<_> = (0..ranks).map(route).collect();
        let each = experts / ranks;
        let routes = |of: &Vec<Routing>| of.iter().map(|routing| routing.ranks(each)).collect();
        let routes = Routes::with_incoming(routings.iter().map(routes).collect());
        let length = token_length(batch).as_usize();
        Self { batch, ranks, slots, length, routes, routings }
    }

    /// Bytes of a token's values.
    fn values(&self) -> usize {
        self.batch.token.as_usize()
    }

    /// Places of a rank's tokens and of everybody's.
    fn places(&self) -> usize {
        usize::from(self.ranks) * self.slots
    }

    /// A rank's tokens: the values of each, and its routing behind them.
    fn input<P: Data>(&self, rank: u16) -> P {
        let routings = &self.routings[usize::from(rank)];
        let mut input = P::input(Rank(rank), routings.len() * self.length, WORDS.data_type);
        for (number, routing) in routings.iter().enumerate() {
            input.inscribe(number * self.length + self.values(), &routing.bytes());
        }
        input
    }

    pub(super) fn dispatch<P: Data>(
        &self,
        group: &mut ObservedGroup<P>,
        limit: Duration,
        progress: ProgressFn<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        for (rank, routes) in (0..self.ranks).map(Rank).zip(&self.routes) {
            let route = HostCommand::Route { group: GroupId(1), routes: routes.clone() };
            let node = group.node(rank);
            group.simulation_mut().command(node, NodeCommand::Host(route))?;
        }
        let places = self.places() * self.length;
        let buffers = (0..self.ranks).map(|rank| (self.input(rank), P::zeroed(places))).collect();
        group.run(Collective::Dispatch, WORDS, buffers, limit, progress)
    }

    /// Takes back what the experts have made of the tokens that were `dispatched`.
    pub(super) fn combine<P: Data>(
        &self,
        group: &mut ObservedGroup<P>,
        dispatched: &Finished<P>,
        limit: Duration,
        progress: ProgressFn<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        let buffers = (0..self.ranks).zip(&dispatched.outputs).map(|(rank, places)| {
            let sums = self.routes[usize::from(rank)].tokens() * self.values();
            (self.work(rank, places), P::zeroed(sums))
        });
        group.run(Collective::Combine, WORDS, buffers.collect(), limit, progress)
    }

    /// What a rank's experts make of the tokens in its places, by the routing that has travelled with each.
    fn work<P: Data>(&self, rank: u16, places: &P) -> P {
        let (token, values) = (self.length, self.values());
        let each = self.batch.experts / self.ranks;
        let mut results = P::zeroed(self.places() * values);
        for (source, routes) in self.routes.iter().enumerate() {
            for (number, _) in routes.iter().enumerate().filter(|(_, ranks)| ranks.contains(&Rank(rank))) {
                let place = source * self.slots + number;
                let view = places.view(place * token..(place + 1) * token);
                if let Some((values_there, routing)) = P::contents(view).map(|bytes| bytes.split_at(values)) {
                    let routing = Routing::parse(routing);
                    results.inscribe(
                        place * values,
                        &routing.work(rank * each..(rank + 1) * each, values_there),
                    );
                }
            }
        }
        results
    }

    /// Words that are not as they were sent, or not where they belong.
    pub(super) fn wrong_tokens<P: Data>(&self, inputs: &[P], outputs: &[P]) -> Option<u64> {
        let wrong = |(rank, found)| {
            let expected = reference_dispatch(&self.routes, inputs, Rank(rank), self.slots, self.length);
            P::differing(&expected, found, WORDS.data_type)
        };
        (0..).zip(outputs).map(wrong).sum()
    }

    /// Words that are not the sum of what all experts make of them.
    pub(super) fn wrong_sums<P: Data>(&self, inputs: &[P], outputs: &[P]) -> Option<u64> {
        let (token, values) = (self.length, self.values());
        let wrong = |((input, routings), found): ((&P, &Vec<Routing>), &P)| {
            let mut expected = P::zeroed(routings.len() * values);
            for (number, routing) in routings.iter().enumerate() {
                let view = input.view(number * token..number * token + values);
                let sum = routing.work(0..self.batch.experts, P::contents(view)?);
                expected.inscribe(number * values, &sum);
            }
            P::differing(&expected, found, WORDS.data_type)
        };
        inputs.iter().zip(&self.routings).zip(outputs).map(wrong).sum()
    }
}
