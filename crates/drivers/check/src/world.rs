//! What each node answers to each input: all computed once, and kept by number, whatever the engines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quincunx_network::OrderingClass;

use crate::fault::Fault;
use crate::input::Input;
use crate::interned::Id;
use crate::nodes::{Facts, NewFrame, NewNodeState, News, Nodes, Reply};
use crate::system::{End, NodeId, Renaming};

/// What exploring needs to know of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// The direction of a link together with the ordering class: frames of one channel keep their order.
    pub(crate) channel: u16,
    /// Where it arrives.
    pub(crate) to: NodeId,
}

/// Sorts frames by channel, those of one channel in their order. Not a part of what is generic: sorting is long, and compiled once.
pub(crate) fn by_channel(sends: &mut [Id], ways: &[Way]) {
    sends.sort_by_key(|&flight| ways[flight as usize].channel);
}

/// A node's answer.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) next: Id,
    pub(crate) sends: Arc<[Id]>,
    pub(crate) fault: Option<Fault>,
}

/// An answer, and whether the input is known to come.
#[derive(Clone, Copy)]
struct Known {
    outcome: u32,
    is_asked: bool,
}

pub(crate) struct World<'n> {
    nodes: &'n mut dyn Nodes,
    /// How many notices the control plane may give.
    notices: u8,
    /// The symmetries; the first changes nothing.
    renamings: Arc<[Renaming]>,
    /// `after[g][h]`: the number of renaming `g` after renaming `h`.
    after: Vec<Vec<usize>>,
    /// The first channel of each end of a link.
    channels: BTreeMap<End, u16>,
    /// For each node state its node.
    nodes_of: Vec<NodeId>,
    /// For each state of a node and each symmetry: the state that it is renamed to, and that state's hash.
    images: Vec<Id>,
    hashes: Vec<u64>,
    facts: Vec<Facts>,
    flight_images: Vec<Id>,
    flight_hashes: Vec<u64>,
    ways: Vec<Way>,
    answers: HashMap<(Id, u32), Known, FixedState>,
    outcomes: Vec<Outcome>,
    /// States of nodes and inputs that may come there, in the order in which that became known.
    asked: Vec<(Id, Input)>,
    frames_call: bool,
    pub(crate) initial: Vec<Id>,
}

/// Not known yet.
const NONE: Id = Id::MAX;

impl<'n> World<'n> {
    /// The world of `nodes` on `links`, which `renamings` leave as it is, with so many `notices` of the control plane.
    pub(crate) fn new(
        nodes: &'n mut dyn Nodes,
        notices: u8,
        renamings: Arc<[Renaming]>,
        links: &[[End; 2]],
    ) -> Self {
        let number = |renaming: &Renaming| {
            renamings.iter().position(|other| other == renaming).expect("symmetries make a group")
        };
        let after = renamings
            .iter()
            .map(|g| renamings.iter().map(|h| number(&g.after(h, links))).collect())
            .collect();
        let ends: BTreeSet<End> = links.iter().flatten().copied().collect();
        let channels = ends.into_iter().zip((0..).step_by(OrderingClass::COUNT.into())).collect();
        let mut world = Self {
            nodes,
            notices,
            renamings,
            after,
            channels,
            nodes_of: Vec::new(),
            images: Vec::new(),
            hashes: Vec::new(),
            facts: Vec::new(),
            flight_images: Vec::new(),
            flight_hashes: Vec::new(),
            ways: Vec::new(),
            answers: HashMap::with_hasher(FixedState::with_seed(0)),
            outcomes: Vec::new(),
            asked: Vec::new(),
            frames_call: false,
            initial: Vec::new(),
        };
        world.initial = world.nodes.begin();
        world.take_news();
        let (order, initial) = (world.order(), world.initial.clone());
        for (node, &id) in initial.iter().enumerate() {
            for g in 0..order {
                let image = world.renamings[g].node(NodeId(node as u16));
                world.images[id as usize * order + g] = initial[image.index()];
            }
        }
        world.refresh_hashes(&initial);
        world
    }

    /// How many symmetries there are.
    pub(crate) fn order(&self) -> usize {
        self.renamings.len()
    }

    /// How many node states are known.
    pub(crate) fn node_states(&self) -> usize {
        self.nodes_of.len()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(crate) fn facts(&self) -> &[Facts] {
        &self.facts
    }

    pub(crate) fn flight_hashes(&self) -> &[u64] {
        &self.flight_hashes
    }

    pub(crate) fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// States of nodes with inputs that may come there.
    pub(crate) fn asked(&self) -> &[(Id, Input)] {
        &self.asked
    }

    /// The answer of a node in state `node_state` to an input, whether or not that may come there.
    pub(crate) fn outcome(&mut self, node_state: Id, input: Input) -> &Outcome {
        let known = self.known(node_state, input);
        &self.outcomes[known.outcome as usize]
    }

    fn known(&mut self, node_state: Id, input: Input) -> Known {
        let key = (node_state, input.encode());
        match self.answers.get(&key) {
            Some(&known) => known,
            None => {
                self.compute(node_state, input);
                self.answers[&key]
            }
        }
    }

    /// The answer of a node in state `node_state` to an input that may come there; then so may all that is symmetric to it.
    pub(crate) fn ask(&mut self, node_state: Id, input: Input) -> &Outcome {
        let known = self.known(node_state, input);
        if !known.is_asked {
            for g in 0..self.order() {
                let (case, input) = self.image(g, node_state, input);
                let known = self.answers.get_mut(&(case, input.encode())).expect("all cases are computed");
                if !core::mem::replace(&mut known.is_asked, true) {
                    let next = self.outcomes[known.outcome as usize].next;
                    let calls = |node_state: Id| self.facts[node_state as usize].calls;
                    self.frames_call |= input.frame().is_some() && calls(next) != calls(case);
                    self.asked.push((case, input));
                }
            }
        }
        &self.outcomes[known.outcome as usize]
    }

    /// An answer that is known.
    pub(crate) fn answer(&self, node_state: Id, input: Input) -> &Outcome {
        &self.outcomes[self.answers[&(node_state, input.encode())].outcome as usize]
    }

    /// Computes an answer, and those of all cases that are symmetric to it.
    fn compute(&mut self, node_state: Id, input: Input) {
        let order = self.order();
        let mut cases = Vec::with_capacity(order);
        for g in 0..order {
            let (case, input) = self.image(g, node_state, input);
            cases.push(self.compute_one(case, input));
        }
        if order == 1 {
            let next = self.outcomes[cases[0] as usize].next;
            self.images[next as usize] = next;
            return self.refresh_hashes(&[next]);
        }
        if !self.is_symmetric(&cases) {
            let node = self.nodes_of[node_state as usize];
            self.outcomes[cases[0] as usize].fault.get_or_insert(Fault::Asymmetry { node });
        }
    }

    /// Compares the answers to cases that are symmetric, and notes which states are renamed to which.
    fn is_symmetric(&mut self, cases: &[u32]) -> bool {
        let order = self.order();
        let first = self.outcomes[cases[0] as usize].clone();
        let next: Vec<Id> = cases.iter().map(|&case| self.outcomes[case as usize].next).collect();
        let mut symmetric = true;
        for (g, &case) in cases.iter().enumerate() {
            let case = &self.outcomes[case as usize];
            // Frames of one channel are compared in order, channels are not.
            let in_order = |mut sends: Vec<Id>| {
                by_channel(&mut sends, &self.ways);
                sends
            };
            let renamed = first.sends.iter().map(|&flight| self.flight_images[flight as usize * order + g]);
            symmetric &= in_order(renamed.collect()) == in_order(case.sends.to_vec());
            symmetric &= first.fault.is_some() == case.fault.is_some();
        }
        for (h, &state) in next.iter().enumerate() {
            for g in 0..order {
                let image = &mut self.images[state as usize * order + g];
                let expected = next[self.after[g][h]];
                if *image == NONE {
                    *image = expected;
                }
                symmetric &= *image == expected;
            }
        }
        self.refresh_hashes(&next);
        symmetric
    }

    /// What a state and an input are renamed to.
    fn image(&self, g: usize, node_state: Id, input: Input) -> (Id, Input) {
        let renaming = &self.renamings[g];
        let node = self.nodes_of[node_state as usize];
        let frame = |id: Id| self.flight_images[id as usize * self.order() + g];
        let input = match input {
            Input::Frame(id) => Input::Frame(frame(id)),
            Input::Late(id) => Input::Late(frame(id)),
            Input::Timer(id) if g == 0 => Input::Timer(id),
            Input::Timer(id) => Input::Timer(self.nodes.renamed_timer(renaming, node, id).unwrap_or(id)),
            Input::Slot(port) => Input::Slot(renaming.port(node, port)),
            Input::Command | Input::Notice(_) | Input::Clock => input,
        };
        (self.images[node_state as usize * self.order() + g], input)
    }

    fn compute_one(&mut self, node_state: Id, input: Input) -> u32 {
        let known = |input: Input| self.answers.get(&(node_state, input.encode())).map(|known| known.outcome);
        if let Some(outcome) = known(input) {
            return outcome;
        }
        if let Some(outcome) = input.twin().and_then(known) {
            self.answers.insert((node_state, input.encode()), Known { outcome, is_asked: false });
            return outcome;
        }
        let Reply { next, sends, fault } = self.nodes.reply(node_state, input);
        self.take_news();
        let index = self.outcomes.len() as u32;
        self.outcomes.push(Outcome { next: next.unwrap_or(node_state), sends: sends.into(), fault });
        self.answers.insert((node_state, input.encode()), Known { outcome: index, is_asked: false });
        index
    }

    /// How many notices the control plane may give.
    pub(crate) fn notices(&self) -> u8 {
        self.notices
    }

    /// Whether a frame's arrival has made an owner call for a notice.
    pub(crate) fn frames_call(&self) -> bool {
        self.frames_call
    }

    /// A frame as a congested link marks it, if it can be marked.
    pub(crate) fn marked(&mut self, id: Id) -> Option<Id> {
        let marked = self.nodes.marked(id)?;
        self.take_news();
        Some(marked)
    }

    /// Notes what has got a number.
    fn take_news(&mut self) {
        let order = self.order();
        let News { node_states, frames, orbits } = self.nodes.take_news();
        for NewNodeState { node, facts } in node_states {
            self.nodes_of.push(node);
            self.facts.push(facts);
        }
        self.images.resize(self.nodes_of.len() * order, NONE);
        self.hashes.resize(self.nodes_of.len() * order, 0);
        for NewFrame { from, to, class } in frames {
            self.ways.push(Way { channel: self.channels[&from] + class.number(), to });
        }
        self.flight_images.resize(self.ways.len() * order, NONE);
        self.flight_hashes.resize(self.ways.len() * order, 0);
        for orbit in orbits {
            for (h, &(flight, _)) in orbit.iter().enumerate() {
                for g in 0..order {
                    let (image, hash) = orbit[self.after[g][h]];
                    self.flight_images[flight as usize * order + g] = image;
                    self.flight_hashes[flight as usize * order + g] = hash;
                }
            }
        }
    }

    /// Puts down the hashes of the images of states whose images are known.
    fn refresh_hashes(&mut self, states: &[Id]) {
        let order = self.order();
        for &state in states {
            for g in 0..order {
                let at = state as usize * order + g;
                if self.hashes[at] == 0 && self.images[at] != NONE {
                    self.hashes[at] = self.nodes.hash(self.images[at]);
                }
            }
        }
    }
}

/// Symmetries in use at most: each costs a hash per state, and a star of eight has 40,320.
const MOST_SYMMETRIES: usize = 64;

/// The group that a system's symmetries generate, the one that changes nothing first. Generators that would make it too
/// large are left out: any part of the symmetries that is a group will do.
pub(crate) fn renamings(nodes: usize, symmetries: Vec<Vec<NodeId>>, links: &[[End; 2]]) -> Arc<[Renaming]> {
    let nothing = Renaming::new((0..nodes as u16).map(NodeId).collect(), links);
    let mut group = vec![nothing];
    let mut generators = Vec::new();
    for nodes in symmetries {
        generators.push(Renaming::new(nodes, links));
        match closure(&group, &generators, links) {
            Some(larger) => group = larger,
            None => {
                generators.pop();
            }
        }
    }
    group.into()
}

/// The group that `generators` make of `group`, if it is not too large.
fn closure(group: &[Renaming], generators: &[Renaming], links: &[[End; 2]]) -> Option<Vec<Renaming>> {
    let mut group = group.to_vec();
    let mut next = 0;
    while next < group.len() {
        for generator in generators {
            let product = generator.after(&group[next], links);
            if !group.contains(&product) {
                group.push(product);
            }
        }
        if group.len() > MOST_SYMMETRIES {
            return None;
        }
        next += 1;
    }
    Some(group)
}
