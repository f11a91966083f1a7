//! A worker of either system: it sends its chunks as far as its pace allows, each again until it has the result.

use quincunx_collective::{Payload, Provenance, Rank};
use quincunx_engine::{PortId, Sink};

use crate::prior_systems::frame::{self, DropReason, Event, Header, Timer, View, Whole, Workers};
use crate::prior_systems::rules::Rules;
use crate::prior_systems::setup::{StarSetup, contribution};

/// How far a chunk has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Progress {
    Unsent,
    Sent,
    Answered,
}

/// When a chunk may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pace {
    /// When the chunk that was in its slot before has its result.
    Slots(u8),
    /// When all chunks but so many before it have their results.
    Window(u8),
}

/// A worker.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Worker {
    rank: Rank,
    pace: Pace,
    /// What is sent again is marked.
    marks: bool,
    chunks: Vec<Progress>,
}

/// A worker is told to start once, and nobody else is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected to start a worker that has not sent anything, found another node; start each worker once")]
pub struct AlreadyStarted;

/// The port to the switch.
const PORT: PortId = PortId(0);

impl Worker {
    pub(crate) fn new(setup: &StarSetup, rank: Rank) -> Self {
        let (pace, marks) = match setup.rules {
            Rules::SwitchMl(_) => (Pace::Slots(setup.window), false),
            Rules::Atp(_) => (Pace::Window(setup.window), true),
        };
        Self { rank, pace, marks, chunks: vec![Progress::Unsent; usize::from(setup.chunks)] }
    }

    pub(crate) fn start<E: Whole>(&mut self, out: &mut impl Sink<E>) -> Result<(), AlreadyStarted> {
        if self.chunks.iter().any(|&chunk| chunk != Progress::Unsent) {
            return Err(AlreadyStarted);
        }
        self.send_due(out);
        Ok(())
    }

    /// Takes a result.
    pub(crate) fn take<E: Whole>(
        &mut self,
        chunk: u8,
        sum: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let progress =
            self.chunks.get_mut(usize::from(chunk)).filter(|progress| **progress == Progress::Sent);
        *progress.ok_or(DropReason::NotAwaited)? = Progress::Answered;
        out.cancel_timer(Timer::Resend(chunk));
        out.emit(Event::Result { chunk, sum: Provenance::from_view(sum) });
        self.send_due(out);
        Ok(())
    }

    pub(crate) fn send_again<E: Whole>(&self, chunk: u8, out: &mut impl Sink<E>) {
        if self.chunks[usize::from(chunk)] == Progress::Sent {
            self.send(chunk, self.marks, out);
        }
    }

    fn send_due<E: Whole>(&mut self, out: &mut impl Sink<E>) {
        for chunk in 0..self.chunks.len() as u8 {
            if self.chunks[usize::from(chunk)] == Progress::Unsent && self.may_send(chunk) {
                self.chunks[usize::from(chunk)] = Progress::Sent;
                self.send(chunk, false, out);
            }
        }
    }

    fn may_send(&self, chunk: u8) -> bool {
        let is_answered = |chunk: u8| self.chunks[usize::from(chunk)] == Progress::Answered;
        match self.pace {
            Pace::Slots(slots) => chunk < slots || is_answered(chunk - slots),
            Pace::Window(chunks) => (0..chunk.saturating_sub(chunks - 1)).all(is_answered),
        }
    }

    fn send<E: Whole>(&self, chunk: u8, again: bool, out: &mut impl Sink<E>) {
        let header = Header::Contribution { chunk, workers: Workers::one(self.rank), again };
        frame::send(PORT, header, &contribution(self.rank, chunk), out);
        frame::arm(Timer::Resend(chunk), out);
    }
}
