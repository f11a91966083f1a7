//! What waits for what within a trace: ids, dependencies, cycles.

use crate::{Node, TraceError};
use std::collections::BTreeMap;

/// The place of each id in the file.
pub(crate) type Places = BTreeMap<u64, usize>;

/// Where each node is.
///
/// # Errors
/// If two nodes have one id.
pub(crate) fn places(place: &str, nodes: &[Node]) -> Result<Places, TraceError> {
    let mut places = Places::new();
    for (at, node) in nodes.iter().enumerate() {
        if places.insert(node.id, at).is_some() {
            return Err(TraceError::Duplicate { place: place.into(), id: node.id });
        }
    }
    Ok(places)
}

/// Refuses nodes that can never begin.
///
/// # Errors
/// If an id is there twice, a dependency is not there, or there is a cycle.
pub(crate) fn check(place: &str, nodes: &[Node]) -> Result<(), TraceError> {
    let places = places(place, nodes)?;
    let mut waits_for = vec![0_usize; nodes.len()];
    let mut followers = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for id in node.dependencies() {
            let unknown = || TraceError::Unknown { place: place.into(), id: node.id, found: id };
            followers[*places.get(&id).ok_or_else(unknown)?].push(at);
            waits_for[at] += 1;
        }
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&at| waits_for[at] == 0).collect();
    while let Some(at) = ready.pop() {
        for &next in &followers[at] {
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.push(next);
            }
        }
    }
    let Some(stuck) = waits_for.iter().position(|&count| count > 0) else { return Ok(()) };
    // What is stuck waits for something that is stuck, so that this walk ends on a cycle.
    let before = |at: usize| {
        let mut all = nodes[at].dependencies().map(|id| places[&id]);
        all.find(|&other| waits_for[other] > 0).unwrap_or(at)
    };
    let on_cycle = (0..nodes.len()).fold(stuck, |at, _| before(at));
    let cycle = std::iter::successors(Some(before(on_cycle)), |&at| (at != on_cycle).then(|| before(at)));
    let id = cycle.map(|at| nodes[at].id).min().unwrap_or(nodes[stuck].id);
    Err(TraceError::Cycle { place: place.into(), id })
}
