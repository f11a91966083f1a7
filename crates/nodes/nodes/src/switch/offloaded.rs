//! A switch whose queue pairs somebody else executes: connections end there, so the same program runs above them.

use quincunx_collective::{GroupId, Payload};
use quincunx_engine::Sink;
use quincunx_engine::verbs::{Completion, Memory, QpIndex};
use quincunx_units::Instant;

use super::{Part, Switch, SwitchCommand, SwitchRejected};
use crate::offload::{Offloadable, PostedWork};
use crate::transport::GroupSink;

impl<P: Payload> Offloadable for Switch<P> {
    fn take_work(&mut self) -> Option<PostedWork> {
        self.groups.iter_mut().find_map(|(&id, group)| match &mut group.part {
            Part::Terminated(transport, _) => transport.take_work(id),
            Part::Passing(_) => None,
        })
    }

    fn memory(&mut self, group: GroupId) -> Option<&mut Memory<P>> {
        match &mut self.groups.get_mut(&group)?.part {
            Part::Terminated(transport, _) => Some(&mut transport.memory),
            Part::Passing(_) => None,
        }
    }

    fn ended(group: GroupId, queue_pair: QpIndex, completion: Completion) -> SwitchCommand<P> {
        SwitchCommand::Complete { group, queue_pair, completion }
    }

    fn removes(command: &SwitchCommand<P>) -> Option<GroupId> {
        match command {
            SwitchCommand::Remove(group) => Some(*group),
            _ => None,
        }
    }
}

impl<P: Payload> Switch<P> {
    /// Takes the end of a work request that somebody else has executed.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        id: GroupId,
        (queue_pair, completion): (QpIndex, Completion),
        out: &mut impl Sink<Self>,
    ) -> Result<(), SwitchRejected> {
        let group = self.groups.get_mut(&id).ok_or(SwitchRejected::NoSuchGroup(id))?;
        if let Part::Terminated(transport, _) = &mut group.part {
            transport.complete(queue_pair, completion);
        }
        self.settle(now, id, None, &mut GroupSink::new(id, out));
        Ok(())
    }
}
