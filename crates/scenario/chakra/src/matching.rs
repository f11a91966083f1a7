//! Which nodes of different ranks belong together: the n-th collective of a group at one rank and the n-th at another, the n-th message between
//! two ranks with a tag at both ends. What counts is the order of ids, as programs have it, not who is ready when.
//!
//! A group is the ranks in whose traces its name stands; one without a name has all ranks.

use crate::{Operation, ReplayError, Trace, Work};
use quincunx_collective::{Collective, Rank};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;

/// What ranks do together, for who knows how long it takes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Communication {
    /// What.
    pub exchange: Exchange,
    /// Bytes, as the traces count them.
    pub size: ByteCount,
    /// Who, in ascending order; of a message the sender and the receiver.
    pub members: Vec<Rank>,
}

/// A collective or a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exchange {
    /// A collective of the members.
    Collective(Operation),
    /// From the first member to the second.
    Message,
}

impl std::fmt::Display for Communication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.exchange {
            Exchange::Collective(operation) => write!(f, "{} of {}", operation.name(), self.size),
            Exchange::Message => {
                let [from, to] =
                    [self.members.first(), self.members.last()].map(|one| one.map_or(0, |one| one.0));
                write!(f, "a message of {} from rank {from} to rank {to}", self.size)
            }
        }
    }
}

/// A communication, and the nodes that take part.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) communication: Communication,
    /// Ranks and places of their nodes.
    pub(crate) parties: Vec<(usize, usize)>,
}

impl Meeting {
    /// Whether all that must come have a node at all.
    pub(crate) fn is_whole(&self) -> bool {
        self.parties.len() == self.communication.members.len()
    }
}

/// What tells meetings apart, but for their number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Channel<'a> {
    Group(Option<&'a str>),
    Message { from: Rank, to: Rank, tag: u64 },
}

/// All meetings, and for each rank which of its nodes goes to which.
#[derive(Debug)]
pub(crate) struct Meetings {
    pub(crate) all: Vec<Meeting>,
    pub(crate) of: Vec<BTreeMap<usize, usize>>,
}

/// A rank's nodes in the order of ids.
pub(crate) fn by_id(trace: &Trace) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trace.nodes.len()).collect();
    order.sort_unstable_by_key(|&at| trace.nodes[at].id);
    order
}

/// Brings nodes together.
///
/// # Errors
/// If a node names a rank that has no part in it, or two that belong together differ.
pub(crate) fn meetings<E>(traces: &[&Trace]) -> Result<Meetings, ReplayError<E>> {
    let groups = groups(traces);
    let everybody: Vec<Rank> = (0..traces.len()).map(|rank| Rank(rank as u16)).collect();
    let mut known: BTreeMap<(Channel<'_>, usize), usize> = BTreeMap::new();
    let mut meetings = Meetings { all: Vec::new(), of: vec![BTreeMap::new(); traces.len()] };
    for (rank, trace) in traces.iter().enumerate() {
        // A send and a receive of one rank never belong together: who sends to itself is refused.
        let mut counts: BTreeMap<Channel<'_>, usize> = BTreeMap::new();
        for at in by_id(trace) {
            let node = &trace.nodes[at];
            let me = Rank(rank as u16);
            let absent =
                |found: Rank, among: String| ReplayError::Peer { rank, id: node.id, among, found: found.0 };
            let other = |peer: Rank| match peer != me && peer.index() < traces.len() {
                true => Ok(peer),
                false => Err(absent(peer, format!("{}", traces.len()))),
            };
            let (channel, communication) = match &node.work {
                Work::Collective { operation, size, group } => {
                    let group = group.as_deref();
                    let members = group.and_then(|name| groups.get(name)).unwrap_or(&everybody).clone();
                    if let Operation::Collective(collective) = operation
                        && let Some(root) = collective.root().filter(|root| !members.contains(root))
                    {
                        return Err(absent(root, format!("group {:?}", group.unwrap_or_default())));
                    }
                    let exchange = Exchange::Collective(*operation);
                    (Channel::Group(group), Communication { exchange, size: *size, members })
                }
                Work::Send { peer, tag, size } => message((me, other(*peer)?), *tag, *size),
                Work::Receive { peer, tag, size } => message((other(*peer)?, me), *tag, *size),
                _ => continue,
            };
            let count = counts.entry(channel.clone()).or_default();
            let index = *known.entry((channel, *count)).or_insert(meetings.all.len());
            *count += 1;
            if index == meetings.all.len() {
                meetings.all.push(Meeting { communication: communication.clone(), parties: Vec::new() });
            }
            let meeting = &mut meetings.all[index];
            if meeting.communication != communication {
                let (other, place) = meeting.parties[0];
                return Err(ReplayError::Mismatch {
                    rank,
                    id: node.id,
                    other,
                    other_id: traces[other].nodes[place].id,
                    expected: described(&meeting.communication),
                    found: described(&communication),
                });
            }
            meeting.parties.push((rank, at));
            meetings.of[rank].insert(at, index);
        }
    }
    Ok(meetings)
}

/// With the root, by which two may differ.
fn described(communication: &Communication) -> String {
    match communication.exchange {
        Exchange::Collective(Operation::Collective(
            collective @ (Collective::Reduce { root } | Collective::Broadcast { root }),
        )) => format!("{collective} of {} with root {root}", communication.size),
        _ => communication.to_string(),
    }
}

fn message<'a>((from, to): (Rank, Rank), tag: u64, size: ByteCount) -> (Channel<'a>, Communication) {
    let communication = Communication { exchange: Exchange::Message, size, members: vec![from, to] };
    (Channel::Message { from, to, tag }, communication)
}

/// The members of each group with a name.
fn groups<'a>(traces: &[&'a Trace]) -> BTreeMap<&'a str, Vec<Rank>> {
    let mut groups: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for (rank, trace) in traces.iter().enumerate() {
        for node in &trace.nodes {
            if let Work::Collective { group: Some(name), .. } = &node.work {
                let members = groups.entry(name).or_default();
                if members.last() != Some(&Rank(rank as u16)) {
                    members.push(Rank(rank as u16));
                }
            }
        }
    }
    groups
}
