//! A host whose queue pairs somebody else executes.

use quincunx_collective::{GroupId, Payload};
use quincunx_engine::verbs::{Completion, Memory, QpIndex};

use super::{Host, HostCommand};
use crate::offload::{Offloadable, PostedWork};

impl<P: Payload> Offloadable for Host<P> {
    fn take_work(&mut self) -> Option<PostedWork> {
        self.groups.iter_mut().find_map(|(&id, group)| group.transport.take_work(id))
    }

    fn memory(&mut self, group: GroupId) -> Option<&mut Memory<P>> {
        self.groups.get_mut(&group).map(|group| &mut group.transport.memory)
    }

    fn ended(group: GroupId, queue_pair: QpIndex, completion: Completion) -> HostCommand<P> {
        HostCommand::Complete { group, queue_pair, completion }
    }

    fn removes(command: &HostCommand<P>) -> Option<GroupId> {
        match command {
            HostCommand::Remove(group) => Some(*group),
            _ => None,
        }
    }
}
