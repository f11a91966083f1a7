//! How a process joins groups.

use crate::CommError;
use crate::endpoint::Endpoint;
use crate::group::Group;
use crate::worker::{Command, Wanted};
use quincunx_collective::GroupId;
use quincunx_design::FabricKind;

impl Endpoint {
    /// The group of all ranks of the job. Every rank calls it, once.
    ///
    /// # Errors
    /// If not all of them come in time, or the manager refuses the group.
    pub fn world(&self) -> Result<Group, CommError> {
        let options = self.options();
        let members: Vec<u16> = (0..options.world).collect();
        if options.rank == 0 {
            let numbers = self.make_group(&members)?;
            return self.join_group(&members, numbers);
        }
        let (tree, mesh) = (Wanted::First(FabricKind::Tree), Wanted::First(FabricKind::Mesh));
        self.join_as(&members, [tree, mesh])
    }

    /// Joins a group that one of its members has made.
    ///
    /// # Errors
    /// If this rank is none of them, or the group is not ready in time.
    pub fn join_group(&self, members: &[u16], numbers: [u32; 2]) -> Result<Group, CommError> {
        self.join_as(members, numbers.map(|number| Wanted::Numbered(GroupId(number))))
    }

    fn join_as(&self, members: &[u16], [tree, mesh]: [Wanted; 2]) -> Result<Group, CommError> {
        self.place(members)?;
        if members.len() == 1 {
            return Ok(Group::alone(self.clone()));
        }
        let joined = self.await_group(tree).and_then(|tree| Ok((tree, self.await_group(mesh)?)));
        let (tree, mesh) = joined.inspect_err(|_| {
            // The others are not to wait for this rank before it ends.
            for wanted in [tree, mesh] {
                if let Wanted::Numbered(group) = wanted {
                    self.command(Command::Release { group });
                }
            }
        })?;
        Ok(Group::new(self.clone(), &tree, &mesh, members.to_vec()))
    }
}
