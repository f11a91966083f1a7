//! What the manager is told of calls.

use quincunx_collective::GroupId;
use quincunx_control::Report;
use std::collections::BTreeSet;

use super::Rank;
use crate::calls::{NewCall, PendingMessage};
use crate::ports::RankPorts;

impl<P: RankPorts> Rank<P> {
    /// Notes that the application has called a collective, for the manager to see whether all ranks call the same. [`run`](Self::run) does that
    /// itself; who begins collectives with [`begin`](Self::begin) says what they are parts of, when the first has begun.
    pub fn note_call(&mut self, group: GroupId, call: NewCall) {
        if let Some(life) = self.lives.get_mut(&group) {
            life.calls.add(call, self.ports.now());
        }
    }

    /// Notes what the application waits for longest of what others send it in a group, or that it waits for nothing.
    pub fn note_message(&mut self, group: GroupId, message: Option<PendingMessage>) {
        if let Some(life) = self.lives.get_mut(&group) {
            life.calls.wait_for(message);
        }
    }

    /// Notes that the oldest call of the application that has not ended has ended: for who has said what it has begun.
    pub fn note_end(&mut self, group: GroupId) {
        let (ways, now) = (self.ways(group), self.ports.now());
        if let Some(life) = self.lives.get_mut(&group) {
            life.complete_call(ways, now);
        }
    }

    /// Answers somebody who asks the manager when this rank has called what.
    pub(crate) fn tell_times(&mut self, wire: GroupId) {
        let life = self.lives.values().find(|life| life.wire == wire);
        let record = life.map(|life| life.calls.record()).unwrap_or_default();
        self.ports.tell_times(wire, &record);
    }

    /// Tells the manager what it has asked for, and what is stalled.
    pub(crate) fn tell_calls(&mut self, mut asked: BTreeSet<GroupId>) {
        let now = self.ports.now();
        self.end_doubts(now);
        for life in self.lives.values_mut() {
            let is_due = life.calls.is_due(life.is_busy() || life.suspicion.is_some(), now);
            let is_asked = asked.remove(&life.wire);
            if is_asked || is_due {
                self.ports.report(life.wire, life.calls.report(!is_asked, now));
            }
            // The manager may not have heard it.
            if let Some(suspicion) = life.suspicion.as_ref().filter(|_| is_due && !is_asked) {
                self.ports.report(life.wire, suspicion.report());
            }
        }
        // What is given up here already has called nothing.
        for wire in asked {
            self.ports.report(wire, Report::called_nothing());
        }
    }
}
