//! Groups that are in doubt.

use quincunx_collective::GroupId;
use quincunx_control::GroupFailure;

use std::time::Instant;

use super::Rank;
use crate::doubt::{End, Fault, Suspicion};
use crate::ports::RankPorts;

impl<P: RankPorts> Rank<P> {
    /// Something is wrong with a group: the manager hears of it, and decides. What this rank has called it hears first, for that alone may be
    /// what is wrong, and its question may come too late.
    pub(crate) fn suspect(&mut self, group: GroupId, fault: Fault) {
        let Some(life) = self.lives.get_mut(&group).filter(|life| life.suspicion.is_none()) else { return };
        let suspicion = Suspicion { since: self.ports.now(), fault };
        self.ports.report(life.wire, life.calls.report(false, suspicion.since));
        self.ports.report(life.wire, suspicion.report());
        life.suspicion = Some(suspicion);
    }

    /// The manager has said that a group is over. Whoever has found something himself tells that, if ranks agree; only a group that might
    /// have gone on is over by the manager's words.
    pub(crate) fn take_end(&mut self, wire: GroupId, failure: GroupFailure) {
        let known = self.known_as(wire);
        let life = self.lives.get_mut(&known).filter(|life| life.wire == wire && !failure.is_disagreement());
        let found = life.and_then(|life| {
            let suspicion = life.suspicion.take()?;
            let is_own = matches!(suspicion.fault, Fault::Corrupted { .. }) || !life.may_go_on;
            is_own.then_some(suspicion.fault)
        });
        self.failed.insert(known, found.map_or(End::FromManager(failure), End::Found));
    }

    /// Gives up groups of which the manager says nothing.
    pub(crate) fn end_doubts(&mut self, now: Instant) {
        for (group, life) in &mut self.lives {
            if let Some(suspicion) = life.suspicion.take_if(|suspicion| suspicion.is_old(now)) {
                self.failed.insert(*group, End::Found(suspicion.fault));
            }
        }
    }

    /// Whether something is wrong with a group, and the manager has not yet said what becomes of it, or what others lack of it is run again.
    /// Nothing can be begun meanwhile.
    pub fn is_in_doubt(&self, group: GroupId) -> bool {
        self.lives.get(&group).is_some_and(|life| !life.takes_more())
    }
}
