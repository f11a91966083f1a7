//! A rank: the application's side.

mod calls;
mod doubt;
mod life;
mod under_way;
mod writes;

pub use under_way::Ended;

use quincunx_collective::{Collective, GroupId, Numbers, Rank as RankNumber, Reduction};
use quincunx_control::{Instruction, Report};
use quincunx_control_grpc::ControlClient;
use quincunx_design::{Catalog, FabricKind, GroupContext, Node, Peer};
use quincunx_driver_net::{BLOCKING_MARGIN, Statistics, Traffic, Waker};
use quincunx_engine::verbs::{Failure, WorkId};
use quincunx_nodes::{HostCommand, HostEvent, Ways};
use quincunx_units::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use crate::delivered::Delivered;
use crate::doubt::{End, Fault};
use crate::drops::Drops;
use crate::joined::{Finished, JoinedGroup};
use crate::life::{Life, Recreation};
use crate::ports::{ProcessPorts, RankPorts};
use crate::process::{INSTRUCTION_POLL, ProcessOptions, RuntimeError};

/// A rank process's place in the world: its node and its connection to the manager. Frames are answered only while one of
/// its methods runs: between collectives an application that computes for long calls [`serve`](Self::serve).
pub struct Rank<P = ProcessPorts> {
    pub(crate) ports: P,
    pub(crate) groups: BTreeMap<GroupId, JoinedGroup>,
    pub(crate) lives: BTreeMap<GroupId, Life>,
    /// Of groups that were made anew: by their number at the manager, the one that the application knows.
    pub(crate) wires: BTreeMap<GroupId, GroupId>,
    pub(crate) recreations: Vec<Recreation>,
    /// What the node has said and nobody has taken.
    pub(crate) unheard: VecDeque<HostEvent<Numbers>>,
    pub(crate) failed: BTreeMap<GroupId, End>,
    /// Groups that this rank is done with, and in which it answers its peers still.
    pub(crate) released: BTreeSet<GroupId>,
    ready: Vec<GroupId>,
    /// Installed, and neither handed out nor removed.
    pub(crate) expected: Vec<GroupId>,
    /// Of these, one that has failed: who waits for it is told.
    lost: Option<GroupId>,
    /// Writes of this rank's that have ended, and when.
    pub(crate) written: BTreeMap<(GroupId, WorkId), Instant>,
    /// What others have written, oldest first.
    pub(crate) delivered: BTreeMap<GroupId, VecDeque<Delivered>>,
    pub(crate) next_write: u64,
}

/// How often a rank whose collective is under way looks for what the manager says.
const LOOK: Duration = Duration::from_millis(10);
const _: () = assert!(
    LOOK.as_nanos() > BLOCKING_MARGIN.as_nanos(),
    "frames that come in between are waited for by receiving"
);

impl Rank {
    /// Opens the rank's socket and attaches it to the manager, to run any of these designs.
    ///
    /// # Errors
    /// If the socket or the manager cannot be had.
    pub fn attach(catalog: Catalog, options: &ProcessOptions) -> Result<Self, RuntimeError> {
        Ok(Self::on(ProcessPorts::open(catalog, options)?))
    }

    /// The connection to the manager, to make and end groups with.
    pub fn control(&self) -> &ControlClient {
        self.ports.attachment.client()
    }

    /// What the node has counted.
    pub fn statistics(&self) -> &Statistics {
        self.ports.node.statistics()
    }

    /// What it has dropped, by reason.
    pub fn drops(&self) -> Drops {
        self.ports.node.drops()
    }

    /// Ends waits of [`step`](Self::step) from another thread.
    pub fn waker(&self) -> Waker {
        self.ports.node.waker()
    }

    /// What has left it, by the peer that it was for.
    pub fn sent_to(&self) -> &BTreeMap<SocketAddr, Traffic> {
        self.ports.node.sent_to()
    }

    /// Waits until this rank is in a group that is ready, one that it did not know before.
    ///
    /// # Errors
    /// If none comes within `limit`, one that was coming has failed, or the manager goes.
    pub fn join(&mut self, limit: Duration) -> Result<JoinedGroup, RuntimeError> {
        let end = Instant::now() + std::time::Duration::from(limit);
        loop {
            self.take_instructions()?;
            if let Some(lost) = self.lost.take() {
                self.check(lost)?;
            }
            if let Some(id) = self.ready.pop() {
                self.expected.retain(|expected| *expected != id);
                return Ok(self.groups[&id].clone());
            }
            if Instant::now() >= end {
                return Err(RuntimeError::TimedOut { what: "a group to join".into(), limit });
            }
            self.ports.turn(INSTRUCTION_POLL)?;
        }
    }

    /// Runs a collective to its end. Lengths are as [`quincunx_engine::verbs::CollectiveRequest`] says.
    ///
    /// # Errors
    /// If the group fails, its peers do not answer, or it takes longer than `limit`; the group is of no use then.
    pub fn run(
        &mut self,
        group: GroupId,
        collective: Collective,
        reduction: Reduction,
        input: Numbers,
        output: Numbers,
        limit: Duration,
    ) -> Result<Finished, RuntimeError> {
        self.check(group)?;
        self.begin_own(group, (collective, reduction), [input, output])?;
        let mut next_look = Instant::now() + std::time::Duration::from(LOOK);
        let end = Instant::now() + std::time::Duration::from(limit);
        loop {
            while let Some(event) = self.next_event() {
                if let Some(finished) = self.note(event, group)? {
                    return Ok(finished);
                }
            }
            self.ports.turn(LOOK)?;
            let now = Instant::now();
            if now >= next_look {
                next_look = now + std::time::Duration::from(LOOK);
                self.take_instructions()?;
                self.check(group)?;
                if let Some(finished) = self.take_done(group) {
                    return Ok(finished);
                }
                if now >= end {
                    let wire = self.lives.get(&group).map_or(group, |life| life.wire);
                    self.forget(wire);
                    return Err(RuntimeError::TimedOut { what: format!("the end of {collective}"), limit });
                }
            }
        }
    }

    /// Answers peers for `time` while the application waits for something else.
    ///
    /// # Errors
    /// If the socket or the manager goes.
    pub fn serve(&mut self, time: Duration) -> Result<(), RuntimeError> {
        let end = Instant::now() + std::time::Duration::from(time);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.ports.node.serve(left.min(INSTRUCTION_POLL.into()).into())?;
            self.take_instructions()?;
            // What others lack of a group that was made anew is run again meanwhile.
            if self.was_made_anew() {
                self.drain();
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    /// Ends a group, and answers peers until all its nodes have forgotten it, this rank among them.
    ///
    /// # Errors
    /// If there is no such group, or the socket or the manager goes.
    pub fn end_group(&mut self, group: GroupId) -> Result<(), RuntimeError> {
        let client = self.control().clone();
        let ending = std::thread::spawn(move || client.destroy_group(group));
        while !ending.is_finished() {
            self.serve(INSTRUCTION_POLL)?;
        }
        ending.join().expect("the control client does not panic")?;
        Ok(())
    }
}

impl<P> Rank<P> {
    /// A rank that stands on these, and is in no group. The call loop of who does not want to block: [`step`](Self::step) when the node has
    /// something to say, [`look`](Self::look) when the manager may have.
    pub fn on(ports: P) -> Self {
        Self {
            ports,
            groups: BTreeMap::new(),
            lives: BTreeMap::new(),
            wires: BTreeMap::new(),
            recreations: Vec::new(),
            unheard: VecDeque::new(),
            failed: BTreeMap::new(),
            released: BTreeSet::new(),
            ready: Vec::new(),
            expected: Vec::new(),
            lost: None,
            written: BTreeMap::new(),
            delivered: BTreeMap::new(),
            next_write: 0,
        }
    }

    /// What it stands on.
    pub const fn ports(&self) -> &P {
        &self.ports
    }

    /// The same, to be changed by its owner.
    pub const fn ports_mut(&mut self) -> &mut P {
        &mut self.ports
    }
}

impl<P: RankPorts> Rank<P> {
    /// How often a group's collectives have run in its tree and among its hosts, if its switches' memory is locked for each.
    pub fn ways(&self, group: GroupId) -> Option<Ways> {
        let wire = self.lives.get(&group).map_or(group, |life| life.wire);
        self.ports.ways(wire)
    }

    /// Whether this rank is in a group still, as far as it has heard of the manager.
    pub fn is_in(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
    }

    /// Takes an event, while the application waits for something of `group`: the end of its collective is the answer.
    pub(crate) fn note(
        &mut self,
        event: HostEvent<Numbers>,
        group: GroupId,
    ) -> Result<Option<Finished>, RuntimeError> {
        match self.settle(event) {
            Err((of, error)) if of == group => Err(error),
            Ok(()) | Err(_) => Ok(self.take_done(group)),
        }
    }

    pub(crate) fn check(&self, group: GroupId) -> Result<(), RuntimeError> {
        self.failed.get(&group).map_or(Ok(()), |end| Err(end.error(group)))
    }

    /// A result did not agree with its checksum: the manager hears of it, and tells everybody. Nobody knows which results were wrong before:
    /// the group is not made anew.
    pub(crate) fn corrupted(&mut self, group: GroupId, collective: Collective) {
        let rank = self.groups.get(&group).map_or(0, |group| group.rank.0);
        self.suspect(group, Fault::Corrupted { rank, collective });
    }

    /// A queue pair gave up: the manager hears of it, and tells everybody.
    pub(crate) fn peer_failed(&mut self, group: GroupId, index: usize, failure: Failure) {
        let peer = self.groups.get(&group).and_then(|group| group.peers.get(index)).cloned();
        let peer = peer.unwrap_or_else(|| "the peer".into());
        self.suspect(group, Fault::Peer { peer, failure });
    }

    pub(crate) fn take_instructions(&mut self) -> Result<(), RuntimeError> {
        let mut asked = BTreeSet::new();
        while let Some(instruction) = self.ports.next_instruction()? {
            match instruction {
                Instruction::Install(context) => self.install(&context)?,
                Instruction::Ready(group) => {
                    // A manager that the node comes back to says it again, for it may not have been heard: whoever has the group already is in it.
                    if self.expected.contains(&group) && !self.ready.contains(&group) {
                        self.ready.push(group);
                    }
                }
                Instruction::Remove(group) => {
                    self.forget(group);
                    self.ports.report(group, Report::Removed);
                }
                Instruction::Suspend { group, failure } => self.suspend(group, failure),
                Instruction::Resume { group, from, first } => self.resume(group, from, first)?,
                Instruction::Failed { group, failure } => {
                    self.take_end(group, failure);
                    if self.expected.contains(&group) {
                        self.lost = Some(group);
                    }
                    self.forget(group);
                    self.ports.report(group, Report::Removed);
                }
                Instruction::TellCalls(group) => _ = asked.insert(group),
                Instruction::TellTimes(group) => self.tell_times(group),
                Instruction::ProbePaths(probe) => self.ports.begin_probe(*probe),
                Instruction::TellPaths(run) => self.ports.tell_paths(run),
                // It has none.
                Instruction::MoveMemory(_) => {}
            }
        }
        self.tell_calls(asked);
        Ok(())
    }

    fn install(&mut self, context: &GroupContext) -> Result<(), RuntimeError> {
        let id = context.group;
        let report = match self.ports.install(context)? {
            Ok(()) => Report::Installed,
            Err(refusal) => Report::Refused { reason: refusal.to_string() },
        };
        let peers = context.all_connections();
        let in_switches = context.fabric == FabricKind::Tree
            && context.connections.iter().any(|other| matches!(other.peer, Peer::Switch(_)));
        let joined = JoinedGroup {
            id,
            in_switches,
            rank: match context.node {
                Node::Rank(rank) => rank,
                Node::Switch => RankNumber(0),
            },
            ranks: context.ranks,
            fabric: context.fabric,
            domains: context.domains,
            design: context.design.clone(),
            peers: peers.map(|peer| format!("{} at {}", peer.peer, peer.remote.ip)).collect(),
        };
        self.lives.insert(id, Life::new(id, joined.runs_in_switches()));
        self.groups.insert(id, joined);
        self.expected.push(id);
        self.ports.report(id, report);
        Ok(())
    }

    /// Takes the group with that number at the manager off the node.
    pub(crate) fn forget(&mut self, wire: GroupId) {
        // Others are at work on it: what they have heard of a generation of before says nothing.
        let group = self.known_as(wire);
        let is_present = self.lives.get(&group).is_none_or(|life| life.wire == wire);
        let _ = self.ports.command(HostCommand::Remove(wire));
        if !is_present {
            return;
        }
        self.groups.remove(&group);
        self.lives.remove(&group);
        self.wires.remove(&wire);
        self.ready.retain(|ready| *ready != group);
        self.expected.retain(|expected| *expected != group);
        self.written.retain(|(of, _), _| *of != group);
        self.delivered.remove(&group);
        if self.released.remove(&group) {
            self.failed.remove(&group);
        }
    }
}
