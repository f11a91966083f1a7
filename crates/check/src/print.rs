//! A way to a fault as a sequence that people can read: a line for each step, who, what, and what it led to.

use core::fmt;

use quincunx_collective::Contributions;
use quincunx_driver_check::{End, NodeId, Path, Step, What};
use quincunx_engine::PortId;
use quincunx_epic::Timer;
use quincunx_nodes::{Station, StationTimer, SwitchTimer};
use quincunx_wire::{Operation, RoceHeader, Syndrome};

use crate::group::{FIRST_PSN, Group};

/// A path with its group, to be printed.
pub struct Sequence<'a> {
    /// Whose names are used.
    pub group: &'a Group,
    /// The steps.
    pub path: &'a Path<Group>,
}

impl fmt::Display for Sequence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().iter().enumerate() {
            writeln!(f, "{:>4}  {line}", index + 1)?;
        }
        Ok(())
    }
}

impl Sequence<'_> {
    /// A line for each step.
    pub fn lines(&self) -> Vec<String> {
        self.path.0.iter().map(|step| self.line(step)).collect()
    }

    fn line(&self, step: &Step<Station<Contributions>>) -> String {
        format!("{:<9} {}", self.group.name(step.node), self.words(step))
    }

    /// What a node does in a step.
    pub(crate) fn words(&self, step: &Step<Station<Contributions>>) -> String {
        let from = |end: &End| self.group.name(end.node);
        let mut line = match &step.what {
            What::Arrival { from: end, header, payload, late } => {
                let late = if *late { ", late," } else { "" };
                format!("takes  {}{late} from {}", frame(header, payload), from(end))
            }
            What::Duplicate { from: end, header, payload } => {
                let (frame, from) = (frame(header, payload), from(end));
                format!("takes  {frame} from {from}, a copy of which is on its way")
            }
            What::Delay { from: end, header, payload } => {
                format!("awaits {} from {}, which is late", frame(header, payload), from(end))
            }
            What::Loss { from: end, header, payload } => {
                format!("misses {} from {}", frame(header, payload), from(end))
            }
            What::Timer { timer, early } => {
                let early = if *early { " early" } else { "" };
                format!("waits no longer{early}: {}", self.timer(step.node, *timer))
            }
            What::Slot(_) => "may send".to_owned(),
            What::Command => "starts".to_owned(),
        };
        for reason in &step.drops {
            line += &format!("; drops it: {reason:?}");
        }
        for (end, header, payload) in &step.sent {
            let to = self.group.name(self.group.across(*end).node);
            line += &format!("; sends {} to {to}", frame(header, payload));
        }
        line
    }
}

impl Sequence<'_> {
    fn timer(&self, node: NodeId, timer: StationTimer) -> String {
        let toward = |port| self.group.name(self.group.across(End { node, port: PortId(port) }).node);
        match timer {
            StationTimer::Host(_) => "a timer of its queue pair".to_owned(),
            StationTimer::Switch(SwitchTimer::IncEngine(Timer::Resend { edge, .. })) => {
                format!("its retransmission timer toward {}", toward(edge))
            }
            StationTimer::Switch(SwitchTimer::IncEngine(Timer::Acknowledge { .. })) => {
                "its acknowledge timer".to_owned()
            }
            StationTimer::Switch(SwitchTimer::QueuePair(_, index, _)) => {
                format!("a timer of its queue pair with {}", toward(index.0))
            }
        }
    }
}

/// A frame in a few words; packets are numbered from the first of the run, which is the control message.
pub(crate) fn frame(header: &RoceHeader, payload: &Contributions) -> String {
    let number = header.psn.distance_from(FIRST_PSN);
    match header.operation {
        Operation::SendOnlyImmediate(_) => format!("control {number}"),
        Operation::Acknowledge(aeth) => match aeth.syndrome {
            Syndrome::Ack(_) => format!("ACK {number}"),
            Syndrome::ReceiverNotReady(_) => format!("RNR NAK {number}"),
            Syndrome::Nak(_) => format!("NAK {number}"),
        },
        Operation::CongestionNotification => "CNP".to_owned(),
        _ => format!("data {number} {payload}"),
    }
}
