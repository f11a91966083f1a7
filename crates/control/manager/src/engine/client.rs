//! Whoever asks for groups: of the first manager by port 0, and when he has lost that of the other by port 1, what is not answered once more.
//! Over gRPC that is `ControlClient`.

use super::message::{ControlDrop, ControlEvent, Message};
use super::sink::{ControlSink, say};
use crate::GroupRequest;
use crate::mutation::Mutation;
use alloc::boxed::Box;
use quincunx_collective::GroupId;
use quincunx_engine::PortId;

/// What he waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Idle,
    Asks,
    Has(GroupId),
    /// Asked before of a manager that he has lost: it may be done.
    Ends {
        group: GroupId,
        may_be_done: bool,
    },
}

/// A client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientNode {
    wanted: Box<GroupRequest>,
    manager: PortId,
    /// Of his last request.
    key: u128,
    stage: Stage,
    mutation: Option<Mutation>,
}

impl ClientNode {
    pub(super) const fn new(wanted: Box<GroupRequest>, mutation: Option<Mutation>) -> Self {
        Self { wanted, manager: PortId(0), key: 0, stage: Stage::Idle, mutation }
    }

    /// Asks for the next group.
    pub(super) fn ask(&mut self, out: &mut impl ControlSink) {
        self.key += 1;
        self.stage = Stage::Asks;
        self.say(out);
    }

    /// Ends the group that he has.
    pub(super) fn end(&mut self, out: &mut impl ControlSink) {
        if let Stage::Has(group) = self.stage {
            self.stage = Stage::Ends { group, may_be_done: false };
            self.say(out);
        }
    }

    /// The first manager is gone.
    fn turn(&mut self, out: &mut impl ControlSink) {
        self.manager = PortId(1);
        out.emit(ControlEvent::Turned);
        match &mut self.stage {
            Stage::Asks if self.mutation == Some(Mutation::AsksAnew) => self.key += 100,
            Stage::Ends { may_be_done, .. } => *may_be_done = true,
            Stage::Idle | Stage::Asks | Stage::Has(_) => {}
        }
        self.say(out);
    }

    fn say(&self, out: &mut impl ControlSink) {
        match self.stage {
            Stage::Asks => {
                let wanted = GroupRequest { key: Some(self.key), ..(*self.wanted).clone() };
                say(self.manager, Message::Ask { wanted: Box::new(wanted) }, out);
            }
            Stage::Ends { group, .. } => say(self.manager, Message::End { group }, out),
            Stage::Idle | Stage::Has(_) => {}
        }
    }

    pub(super) fn hear(&mut self, port: PortId, message: &Message, out: &mut impl ControlSink) {
        match (message, self.stage) {
            (Message::Serves, _) if port == PortId(0) => out.emit(ControlEvent::MayAsk),
            (Message::Serves, _) => self.turn(out),
            _ if port != self.manager => out.drop_frame(port, ControlDrop::OldSession),
            (Message::Answer { key, group }, Stage::Asks) if *key == self.key => {
                self.stage = group.map_or(Stage::Idle, Stage::Has);
                out.emit(ControlEvent::Made(*group));
            }
            (Message::Ended { was_known, .. }, Stage::Ends { group, may_be_done }) => {
                self.stage = Stage::Idle;
                out.emit(ControlEvent::Ended { group, had_vanished: !was_known && !may_be_done });
            }
            _ => out.drop_frame(port, ControlDrop::ProtocolViolation),
        }
    }
}
