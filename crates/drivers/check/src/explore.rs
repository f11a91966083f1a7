//! The exploration: breadth first, in rounds. In a round threads take pieces of the frontier and find what follows, then
//! share the fingerprints that are new among the shards of what has been visited. Pieces and shards are the same for any
//! number of threads, and so is the outcome.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use quincunx_units::ByteCount;

use crate::choice::Choice;
use crate::decided;
use crate::exploration::{Exploration, Progress, Statistics, Unfinished};
use crate::fault::Fault;
use crate::independence::{Halt, Independence, ProgressFn};
use crate::nodes::Engines;
use crate::parallel::share;
use crate::path::{self, Path};
use crate::state::{Move, Part, View};
use crate::step::Setting;
use crate::system::System;
use crate::visited::{SHARDS, Shard, StateId, place_of, shard_of};
use crate::world::{self, World};

/// How an exploration ends.
#[derive(Debug)]
pub enum Verdict<S: System> {
    /// Every run that the rules allow is right, and ends.
    Correct,
    /// One is not.
    Wrong {
        /// What is wrong.
        fault: Fault,
        /// A short way there.
        path: Path<S>,
        /// After so many of its steps no run is right any more, if no more faults happen. All of them, where it is not known.
        decided: usize,
    },
    /// Everything that was seen is right, but not everything was seen.
    Unfinished(Unfinished),
}

/// States to expand: their words one after the other.
#[derive(Default)]
struct Frontier {
    ids: Vec<StateId>,
    ends: Vec<usize>,
    words: Vec<u32>,
}

impl Frontier {
    fn push(&mut self, id: StateId, state: &[u32]) {
        self.ids.push(id);
        self.words.extend_from_slice(state);
        self.ends.push(self.words.len());
    }

    fn state(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.words[start..self.ends[index]]
    }
}

/// A state that may be new.
struct Candidate {
    fingerprint: u64,
    parent: StateId,
    /// Where its words end in the piece.
    end: usize,
    /// Which of the piece's edges leads to it.
    edge: Option<usize>,
}

/// What is found from a piece of the frontier.
#[derive(Default)]
struct Piece {
    frontier: usize,
    range: core::ops::Range<usize>,
    candidates: Vec<Vec<Candidate>>,
    words: Vec<Vec<u32>>,
    states: u64,
    /// Steps that are nobody's fault, for each state of the piece, and where they lead.
    degrees: Vec<u8>,
    edges: Vec<StateId>,
    /// Whether only some steps were looked at, for each state of the piece.
    partial: Vec<bool>,
    ends: Vec<StateId>,
    /// The first fault: the state before it, the code of the step that leads to it, what it is.
    fault: Option<(StateId, u64, Fault)>,
}

/// The steps from the states that have been expanded, in that order.
#[derive(Default)]
struct Graph {
    pieces: Vec<Expanded>,
    ends: Vec<StateId>,
}

/// A piece of the frontier that has been expanded; as in [`Piece`].
struct Expanded {
    ids: Vec<StateId>,
    partial: Vec<bool>,
    degrees: Vec<u8>,
    edges: Vec<StateId>,
}

/// Fewer states are explored to the end before what was learnt is made use of.
const MUCH: u64 = 1 << 16;

/// States in a piece; pieces in a round.
const PIECE: usize = 2048;
const ROUND: usize = 32;

/// Explores `system`.
pub fn explore<S: System>(
    system: &S,
    rules: Exploration,
    progress: Progress<'_>,
) -> (Statistics, Verdict<S>) {
    explore_in_turns(system, rules, Patience::FIRST, progress)
}

/// The same, with and without persistent sets in turns, where it may be either: each for longer than `patience` at first.
pub fn explore_in_turns<S: System>(
    system: &S,
    rules: Exploration,
    patience: Patience,
    progress: Progress<'_>,
) -> (Statistics, Verdict<S>) {
    let links = system.links();
    let symmetries = if rules.symmetry { system.symmetries() } else { Vec::new() };
    let renamings = world::renamings(system.members().len(), symmetries, &links);
    let mut engines = Engines::new(Setting::new(system, rules.at_once, &links), renamings.clone());
    let world = World::new(&mut engines, system.notices(), renamings, &links);
    let (statistics, conclusion) = take_turns(world, rules, patience, progress);
    let verdict = match conclusion {
        Conclusion::Correct => Verdict::Correct,
        Conclusion::Unfinished(why) => Verdict::Unfinished(why),
        Conclusion::Wrong { fault, steps, states, decided } => {
            let path = path::describe_all(&engines, &steps, &states);
            Verdict::Wrong { fault, path, decided }
        }
    };
    (statistics, verdict)
}

/// How an exploration ends, by numbers.
enum Conclusion {
    Correct,
    Wrong {
        fault: Fault,
        /// A short way there.
        steps: Vec<Move>,
        /// The states on that way, the first one before its first step.
        states: Vec<Vec<u32>>,
        decided: usize,
    },
    Unfinished(Unfinished),
}

fn take_turns(
    world: World<'_>,
    rules: Exploration,
    patience: Patience,
    progress: Progress<'_>,
) -> (Statistics, Conclusion) {
    let world = Mutex::new(world);
    let mut independence = Independence::new(&world.lock().expect("no thread panics with the world"));
    let (mut is_careful, is_reduced) = (false, Cell::new(true));
    let asked = rules;
    let mut found_out = |rules: Exploration, patience: Patience| loop {
        let rules = Exploration { persistent_sets: rules.persistent_sets && is_reduced.get(), ..rules };
        // Without a choice there is nothing to lose patience for.
        let has_choice = asked.uses_persistent_sets() && is_reduced.get();
        let patience = if has_choice { patience } else { Patience::ENDLESS };
        match attempt(&world, rules, is_careful, patience, &mut independence, &mut *progress) {
            Ok(found) => return Some(found),
            Err(Restart::Dependence) => {}
            Err(Restart::PutOff) => is_careful = true,
            Err(Restart::Notice) => is_reduced.set(false),
            Err(Restart::Patience) => return None,
        }
    };
    let mut patience = patience;
    // Small explorations find out at little cost most of what is independent of what.
    for rules in rules.speculative() {
        if !is_reduced.get() {
            break;
        }
        match found_out(rules, patience) {
            Some((_, Conclusion::Correct)) => {}
            // What is wrong with few faults is wrong with more, and shows better so.
            Some(found) => return found,
            None => break,
        }
    }
    // Where there is more to learn than to explore all is looked at; and so in turns, each for longer than the last time.
    loop {
        for persistent_sets in [asked.persistent_sets, false] {
            if let Some(found) = found_out(Exploration { persistent_sets, ..asked }, patience) {
                return found;
            }
        }
        patience = patience.more();
    }
}

/// For how long something is tried before something else is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// With persistent sets: states of nodes that are learnt, if they are more than the steps that are taken.
    pub learnt: u64,
    /// Without them: steps that are taken.
    pub states: u64,
}

impl Patience {
    /// A few seconds of each.
    pub const FIRST: Self = Self { learnt: 1 << 13, states: 1 << 18 };
    const ENDLESS: Self = Self { learnt: u64::MAX, states: u64::MAX };

    fn more(self) -> Self {
        let more = |count: u64| count.saturating_mul(8).saturating_add(1);
        Self { learnt: more(self.learnt), states: more(self.states) }
    }
}

/// Why an exploration must begin again: it looked at too little.
enum Restart {
    /// A frame was taken for independent that is not.
    Dependence,
    /// Frames that are taken first may follow on each other for ever, and put off all else.
    PutOff,
    /// A frame calls for a notice, which may come to others before what is on its way to them.
    Notice,
    /// It takes too long; something else is tried meanwhile.
    Patience,
}

/// Explores all. With `is_careful` whatever comes back to an earlier state is looked at whole.
fn attempt(
    world: &Mutex<World<'_>>,
    rules: Exploration,
    is_careful: bool,
    patience: Patience,
    independence: &mut Independence,
    progress: Progress<'_>,
) -> Result<(Statistics, Conclusion), Restart> {
    let mut views: Vec<_> = (0..rules.threads.max(1)).map(|_| View::new(world, rules)).collect();
    let mut shards: Vec<Shard> = (0..SHARDS).map(Shard::new).collect();
    let mut graph = Graph::default();
    let mut statistics = Statistics { states: 1, distinct: 1, ..Statistics::default() };
    let known = world.lock().expect("no thread panics with the world").node_states() as u64;

    let initial = views[0].initial();
    let fingerprint = views[0].fingerprint(&initial);
    let (root, _) = shards[shard_of(fingerprint)].insert(fingerprint, 0);
    let mut level = vec![Frontier::default()];
    level[0].push(root, &initial);

    // How many states there were when an answer turned out to be wrong.
    let mut wrong_since = None;
    while level.iter().any(|frontier| !frontier.ids.is_empty()) {
        let mut next: Vec<Frontier> = (0..SHARDS).map(|_| Frontier::default()).collect();
        shards.iter_mut().for_each(Shard::begin_level);
        let is_too_much = |node_states: u64, states: u64| {
            node_states - known > patience.learnt && node_states - known > states
        };
        let mut progress_fn = |node_states| {
            statistics.node_states = node_states as u64;
            if is_too_much(statistics.node_states, statistics.states) {
                return Err(Halt::Patience);
            }
            look(&statistics, rules.memory, progress).map_err(Halt::Unfinished)
        };
        let holds = match rules.uses_persistent_sets() {
            true => settle(world, independence, &mut views, &level, &mut progress_fn),
            false => Ok(true),
        };
        let holds = match holds {
            Ok(holds) => holds,
            Err(Halt::Patience) => return Err(Restart::Patience),
            Err(Halt::Unfinished(why)) => return Ok((statistics, Conclusion::Unfinished(why))),
        };
        if rules.uses_persistent_sets() {
            let node_states = world.lock().expect("no thread panics with the world").node_states() as u64;
            if is_too_much(node_states, statistics.states) {
                return Err(Restart::Patience);
            }
        }
        if !holds {
            wrong_since.get_or_insert(statistics.distinct);
        }
        // Something is learnt from going on, but there is nothing to be found.
        if wrong_since.is_some_and(|then| statistics.distinct > then + then / 4 + MUCH) {
            return Err(Restart::Dependence);
        }
        let mut pieces = pieces_of(&level).peekable();
        while pieces.peek().is_some() {
            let mut round: Vec<Piece> = pieces.by_ref().take(ROUND).collect();
            share(&mut views, round.iter_mut(), |view, piece| {
                expand(view, &level[piece.frontier], piece, &shards, is_careful);
            });
            if let Some((state, step, fault)) = round.iter_mut().find_map(|piece| piece.fault.take()) {
                if wrong_since.is_some() {
                    return Err(Restart::Dependence);
                }
                statistics.distinct = shards.iter().map(|shard| shard.len() as u64).sum();
                let way = path::to(&mut views[0], &shards, root, state, Some(step));
                let decided = decided::after(&mut views[0], &way.states);
                let path::Way { steps, states, fault: found } = way;
                let fault = found.unwrap_or(fault);
                return Ok((statistics, Conclusion::Wrong { fault, steps, states, decided }));
            }
            take_in(&mut views, &mut round, &mut shards, &mut next);
            for piece in round {
                statistics.states += piece.states;
                let ids = level[piece.frontier].ids[piece.range].to_vec();
                let Piece { partial, degrees, edges, ends, .. } = piece;
                graph.pieces.push(Expanded { ids, partial, degrees, edges });
                graph.ends.extend(ends);
            }
            statistics.distinct = shards.iter().map(|shard| shard.len() as u64).sum();
            statistics.waiting = next.iter().map(|frontier| frontier.ids.len() as u64).sum();
            statistics.node_states =
                world.lock().expect("no thread panics with the world").node_states() as u64;
            if !rules.uses_persistent_sets() && statistics.states > patience.states {
                return Err(Restart::Patience);
            }
            if let Err(why) = look(&statistics, rules.memory, progress) {
                return Ok((statistics, Conclusion::Unfinished(why)));
            }
        }
        drop(pieces);
        if next.iter().any(|frontier| !frontier.ids.is_empty()) {
            statistics.diameter += 1;
        }
        level = next;
    }
    drop(level);
    let last = match rules.uses_persistent_sets() {
        true => independence.settle(
            &mut world.lock().expect("no thread panics with the world"),
            BTreeSet::new(),
            true,
            &mut |_| look(&statistics, rules.memory, progress).map_err(Halt::Unfinished),
        ),
        false => Ok(true),
    };
    match last {
        Ok(holds) if holds && wrong_since.is_none() => {}
        Ok(_) => return Err(Restart::Dependence),
        Err(Halt::Patience) => return Err(Restart::Patience),
        Err(Halt::Unfinished(why)) => return Ok((statistics, Conclusion::Unfinished(why))),
    }
    if rules.uses_persistent_sets() && world.lock().expect("no thread panics with the world").frames_call() {
        return Err(Restart::Notice);
    }
    if !is_careful && graph.puts_off(&shards) {
        return Err(Restart::PutOff);
    }
    Ok(match graph.first_without_end(&shards) {
        None => (statistics, Conclusion::Correct),
        Some(state) => {
            let way = path::to(&mut views[0], &shards, root, state, None);
            let decided = decided::after(&mut views[0], &way.states);
            let path::Way { steps, states, .. } = way;
            (statistics, Conclusion::Wrong { fault: Fault::Livelock, steps, states, decided })
        }
    })
}

/// Finds out what must be known of the frames of a level before it is expanded; whether all that was known before still holds.
fn settle(
    world: &Mutex<World<'_>>,
    independence: &mut Independence,
    views: &mut [View<'_, '_>],
    level: &[Frontier],
    progress_fn: ProgressFn<'_>,
) -> Result<bool, Halt> {
    let mut holds = true;
    let mut questions = BTreeSet::new();
    loop {
        let before = independence.revision();
        views.iter_mut().for_each(|view| view.chooser.forget());
        let mut world = world.lock().expect("no thread panics with the world");
        holds &= independence.settle(&mut world, questions, false, &mut *progress_fn)?;
        drop(world);
        views.iter_mut().for_each(|view| view.chooser.learn(independence.answers(), independence.revision()));
        let is_unsure = views.iter().any(|view| view.is_unsure);
        views.iter_mut().for_each(|view| view.is_unsure = false);
        if !is_unsure && before == independence.revision() {
            return Ok(holds);
        }
        let mut asked: Vec<_> = level.iter().map(|frontier| (frontier, BTreeSet::new())).collect();
        share(views, asked.iter_mut(), |view, (frontier, questions)| {
            view.refresh();
            for index in 0..frontier.ids.len() {
                view.choose(frontier.state(index), Some(questions));
            }
        });
        questions = asked.into_iter().flat_map(|(_, questions)| questions).collect();
        if questions.is_empty() {
            return Ok(holds);
        }
    }
}

fn pieces_of(level: &[Frontier]) -> impl Iterator<Item = Piece> {
    level.iter().enumerate().flat_map(|(frontier, states)| {
        let states = states.ids.len();
        (0..states).step_by(PIECE).map(move |start| Piece {
            frontier,
            range: start..(start + PIECE).min(states),
            candidates: (0..SHARDS).map(|_| Vec::new()).collect(),
            words: vec![Vec::new(); SHARDS],
            ..Piece::default()
        })
    })
}

/// Finds what follows the states of a piece.
fn expand(
    view: &mut View<'_, '_>,
    frontier: &Frontier,
    piece: &mut Piece,
    shards: &[Shard],
    is_careful: bool,
) {
    view.refresh();
    let mut onward = Vec::new();
    for index in piece.range.clone() {
        let (id, state) = (frontier.ids[index], frontier.state(index));
        let first_edge = piece.edges.len();
        let mut steps = 0;
        // Whether a step leads back: then the others might be put off for ever.
        let leads_back = Cell::new(false);
        let mut note = |view: &mut View<'_, '_>, step: Move, next: Result<&[u32], Fault>| {
            steps += 1;
            let next = match next {
                Ok(next) => next,
                Err(fault) => {
                    piece.fault.get_or_insert((id, path::code(step), fault));
                    return;
                }
            };
            onward.clear();
            onward.extend_from_slice(next);
            steps += view.compress_chain(&mut onward);
            let next = &onward[..];
            let fingerprint = view.fingerprint(next);
            let shard = shard_of(fingerprint);
            let known = shards[shard].find(fingerprint);
            if !step.is_fault() && known.is_some_and(|id| shards[shard].is_settled(place_of(id).1)) {
                leads_back.set(true);
            }
            let edge = (!step.is_fault()).then(|| {
                piece.edges.push(known.unwrap_or(0));
                piece.edges.len() - 1
            });
            if known.is_none() {
                piece.words[shard].extend_from_slice(next);
                let end = piece.words[shard].len();
                piece.candidates[shard].push(Candidate { fingerprint, parent: id, end, edge });
            }
        };
        let choice = view.choose(state, None);
        match &choice {
            Choice::All | Choice::Unknown => view.each_step(state, Part::All, &mut note),
            Choice::Only(frames) => {
                view.each_step(state, Part::Only(frames), &mut note);
                if is_careful && leads_back.get() {
                    view.each_step(state, Part::AllBut(frames), &mut note);
                }
            }
        }
        piece.partial.push(matches!(choice, Choice::Only(_)));
        piece.states += steps;
        let degree = piece.edges.len() - first_edge;
        piece.degrees.push(u8::try_from(degree).expect("a network of few frames"));
        if view.is_end(state) {
            piece.ends.push(id);
        } else if degree == 0 && piece.fault.is_none() {
            piece.fault = Some((id, path::NO_STEP, Fault::Stuck));
        }
    }
}

/// Gives new states their numbers, and completes the edges that lead to them.
fn take_in<W: Send>(workers: &mut [W], round: &mut [Piece], shards: &mut [Shard], next: &mut [Frontier]) {
    let mut found: Vec<Vec<Vec<(usize, StateId)>>> = vec![Vec::new(); SHARDS];
    let jobs = shards.iter_mut().zip(next).zip(&mut found).enumerate();
    share(workers, jobs, |_, (number, ((shard, frontier), found))| {
        for piece in &*round {
            let mut resolved = Vec::new();
            let mut start = 0;
            for candidate in &piece.candidates[number] {
                let (id, new) = shard.insert(candidate.fingerprint, candidate.parent);
                if new {
                    frontier.push(id, &piece.words[number][start..candidate.end]);
                }
                start = candidate.end;
                resolved.extend(candidate.edge.map(|edge| (edge, id)));
            }
            found.push(resolved);
        }
    });
    for found in found {
        for (piece, resolved) in round.iter_mut().zip(found) {
            for (edge, id) in resolved {
                piece.edges[edge] = id;
            }
        }
    }
}

impl Graph {
    /// The first state, in the order of expansion, from which no end can be reached.
    fn first_without_end(&self, shards: &[Shard]) -> Option<StateId> {
        let reaches = self
            .sweep(shards, &self.ends, |edges, reaches, _| edges.iter().any(|&edge| reaches[edge as usize]));
        let expanded = self.pieces.iter().flat_map(|piece| &piece.ids);
        expanded.copied().find(|&id| !reaches[id as usize])
    }

    /// Whether some states whose steps were not all looked at lead to each other for ever.
    fn puts_off(&self, shards: &[Shard]) -> bool {
        let leads_on = self.sweep(shards, &[], |edges, leads_on, partial| {
            !partial || edges.iter().all(|&edge| leads_on[edge as usize])
        });
        self.pieces.iter().flat_map(|piece| &piece.ids).any(|&id| !leads_on[id as usize])
    }

    /// The least set of states that has those of `first` and every state for which `is_in` says so of the states that its steps lead
    /// to, of the set so far, and of whether not all steps were looked at.
    fn sweep(
        &self,
        shards: &[Shard],
        first: &[StateId],
        is_in: impl Fn(&[StateId], &[bool], bool) -> bool,
    ) -> Vec<bool> {
        let most = shards.iter().map(Shard::len).max().unwrap_or(0);
        let mut set = vec![false; most * SHARDS];
        for &id in first {
            set[id as usize] = true;
        }
        // Nearly all steps lead to states that were expanded later, so the second sweep hardly finds any more.
        loop {
            let mut changed = false;
            for Expanded { ids, partial, degrees, edges } in self.pieces.iter().rev() {
                let mut end = edges.len();
                for ((&id, &partial), &degree) in ids.iter().zip(partial).zip(degrees).rev() {
                    let start = end - usize::from(degree);
                    if !set[id as usize] && is_in(&edges[start..end], &set, partial) {
                        set[id as usize] = true;
                        changed = true;
                    }
                    end = start;
                }
            }
            if !changed {
                return set;
            }
        }
    }
}

/// Tells the owner how far it is; whether to go on.
fn look(statistics: &Statistics, memory: ByteCount, progress: Progress<'_>) -> Result<(), Unfinished> {
    if progress(statistics).is_break() {
        return Err(Unfinished::Stopped);
    }
    match resident().filter(|resident| *resident > memory) {
        Some(resident) => Err(Unfinished::Memory { resident }),
        None => Ok(()),
    }
}

/// What the process holds in memory, where the system tells.
fn resident() -> Option<ByteCount> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(ByteCount::new(pages * 4096))
}
