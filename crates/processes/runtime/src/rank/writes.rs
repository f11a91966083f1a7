//! One-sided writes: to one rank, or to several at once (MultiWrite 4.3.2).

use quincunx_collective::{GroupId, Numbers};
use quincunx_engine::verbs::WorkId;
use quincunx_engine::writes::Target;
use quincunx_nodes::HostCommand;
use quincunx_units::Duration;
use std::time::Instant;

use super::Rank;
use crate::delivered::Delivered;
use crate::ports::RankPorts;
use crate::process::{INSTRUCTION_POLL, RuntimeError};

impl Rank {
    /// Writes `data` to a slot of another rank, by its way number `way`: 0 is the direct one, others lead over ranks that relay. Returns
    /// when it is there. The group's design must offer writes.
    ///
    /// # Errors
    /// If the write makes no sense, the group fails before its end (the destination or a relay has died), or `limit` is over.
    pub fn write(
        &mut self,
        group: GroupId,
        way: usize,
        target: Target,
        data: Numbers,
        limit: Duration,
    ) -> Result<(), RuntimeError> {
        self.multi_write(group, way, &[target], data, limit)
    }

    /// The same for several destinations at once: it travels as one where they share their way. Returns when all of them have it.
    ///
    /// # Errors
    /// As [`write`](Self::write). Then some of the destinations may have it and others not.
    pub fn multi_write(
        &mut self,
        group: GroupId,
        way: usize,
        targets: &[Target],
        data: Numbers,
        limit: Duration,
    ) -> Result<(), RuntimeError> {
        let id = self.begin_write(group, way, targets.to_vec(), data)?;
        let what = format!("the end of a write to {} ranks", targets.len());
        self.wait(group, &what, limit, |rank| rank.written.remove(&(group, id)).map(|_| ()))
    }

    /// What another rank has written here, in the order of arrival; waits for it. It is kept until it is taken.
    ///
    /// # Errors
    /// If the group fails, or nothing comes within `limit`.
    pub fn next_delivered(&mut self, group: GroupId, limit: Duration) -> Result<Delivered, RuntimeError> {
        self.wait(group, "a write of another rank", limit, |rank| {
            rank.delivered.get_mut(&group).and_then(std::collections::VecDeque::pop_front)
        })
    }

    /// Begins a write to slots of other ranks by their way number `way`. Its end is in `written`, or heard as [`Ended::Write`](crate::Ended).
    ///
    /// # Errors
    /// If the group has failed, or the write makes no sense.
    pub fn begin_write(
        &mut self,
        group: GroupId,
        way: usize,
        targets: Vec<Target>,
        data: Numbers,
    ) -> Result<WorkId, RuntimeError> {
        self.check(group)?;
        let id = WorkId(self.next_write);
        self.ports.command(HostCommand::Write { group, id, targets, way, data })?;
        self.next_write += 1;
        Ok(id)
    }

    /// Turns until there is what `take` takes.
    pub(crate) fn wait<T>(
        &mut self,
        group: GroupId,
        what: &str,
        limit: Duration,
        mut take: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, RuntimeError> {
        let end = Instant::now() + std::time::Duration::from(limit);
        let mut next_look = Instant::now() + std::time::Duration::from(INSTRUCTION_POLL);
        loop {
            while let Some(event) = self.next_event() {
                self.note(event, group)?;
            }
            if let Some(taken) = take(self) {
                return Ok(taken);
            }
            self.check(group)?;
            self.ports.turn(INSTRUCTION_POLL)?;
            let now = Instant::now();
            if now >= next_look {
                next_look = now + std::time::Duration::from(INSTRUCTION_POLL);
                self.take_instructions()?;
                self.check(group)?;
                if now >= end {
                    return Err(RuntimeError::TimedOut { what: what.into(), limit });
                }
            }
        }
    }
}
