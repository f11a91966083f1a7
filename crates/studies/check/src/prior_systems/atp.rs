//! ATP's switch, whose aggregators belong to whoever finds them free, and the parameter server that everything falls back to.

use quincunx_collective::{Payload, Provenance};
use quincunx_engine::{PortId, Sink};

use crate::prior_systems::frame::{self, DropReason, Event, Header, Timer, View, Whole, Workers};
use crate::prior_systems::rules::AtpRule;
use crate::prior_systems::setup::StarSetup;

/// ATP's switch. The server is behind the port after the workers'.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Aggregators {
    rule: AtpRule,
    workers: u16,
    aggregators: Vec<Option<Partial>>,
}

/// What there is of a chunk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Partial {
    chunk: u8,
    workers: Workers,
    sum: Provenance,
}

impl Aggregators {
    pub(crate) fn new(setup: &StarSetup, rule: AtpRule) -> Self {
        Self { rule, workers: setup.workers, aggregators: vec![None; usize::from(setup.aggregators)] }
    }

    /// Takes a frame of a worker or of the server.
    pub(crate) fn take<E: Whole>(
        &mut self,
        port: PortId,
        header: Header,
        payload: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        match header {
            Header::Result { chunk } if port == self.server() => {
                self.free(self.index(chunk), |partial| partial.chunk == chunk, out);
                frame::send_to_all(self.workers, chunk, &Provenance::from_view(payload), out);
                Ok(())
            }
            Header::Contribution { chunk, workers, again } if port != self.server() => {
                let partial = Partial { chunk, workers, sum: Provenance::from_view(payload) };
                self.aggregate(partial, again, out)
            }
            _ => Err(DropReason::NoPlace),
        }
    }

    fn aggregate<E: Whole>(
        &mut self,
        new: Partial,
        again: bool,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let bypasses = again && self.rule >= AtpRule::ResendsBypass;
        let (index, server, all) = (self.index(new.chunk), self.server(), Workers::all(self.workers));
        match &mut self.aggregators[index] {
            free @ None if !bypasses => {
                *free = Some(new);
                self.tell(out);
                if self.rule >= AtpRule::Deadlines {
                    frame::arm(Timer::Deadline(index as u8), out);
                }
            }
            Some(partial) if partial.chunk == new.chunk => {
                let is_new = !partial.workers.overlaps(new.workers);
                if is_new {
                    partial.workers = partial.workers.union(new.workers);
                    frame::add(&mut partial.sum, new.sum.view(0..new.sum.length()));
                } else if !bypasses {
                    return Err(DropReason::HasIt);
                }
                if bypasses || partial.workers == all {
                    partial.send(server, again, out);
                }
                if bypasses {
                    self.free(index, |_| true, out);
                }
            }
            _ => new.send(server, again, out),
        }
        Ok(())
    }

    /// An aggregator's result has not passed in time.
    pub(crate) fn expire<E: Whole>(&mut self, index: u8, out: &mut impl Sink<E>) {
        let (index, server) = (usize::from(index), self.server());
        if let Some(partial) = &self.aggregators[index] {
            partial.send(server, false, out);
            self.free(index, |_| true, out);
        }
    }

    fn free<E: Whole>(
        &mut self,
        index: usize,
        which: impl FnOnce(&mut Partial) -> bool,
        out: &mut impl Sink<E>,
    ) {
        if self.aggregators[index].take_if(which).is_some() {
            out.cancel_timer(Timer::Deadline(index as u8));
            self.tell(out);
        }
    }

    fn tell<E: Whole>(&self, out: &mut impl Sink<E>) {
        out.emit(Event::Held(self.aggregators.iter().flatten().count()));
    }

    /// What the published system takes a hash for: no two chunks in flight need have aggregators of their own.
    fn index(&self, chunk: u8) -> usize {
        usize::from(chunk) % self.aggregators.len()
    }

    fn server(&self) -> PortId {
        PortId(self.workers)
    }
}

impl Partial {
    fn send<E: Whole>(&self, port: PortId, again: bool, out: &mut impl Sink<E>) {
        let header = Header::Contribution { chunk: self.chunk, workers: self.workers, again };
        frame::send(port, header, &self.sum, out);
    }
}

/// ATP's parameter server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    all: Workers,
    /// Whose contributions it has of each chunk, and their sum.
    chunks: Vec<(Workers, Provenance)>,
}

impl Server {
    pub(crate) fn new(setup: &StarSetup) -> Self {
        let chunks = vec![(Workers::NONE, setup.nothing()); usize::from(setup.chunks)];
        Self { all: Workers::all(setup.workers), chunks }
    }

    /// Takes what there is of a chunk. What is whole replaces what it has; what it has a part of is of no use, and its other
    /// parts come again.
    pub(crate) fn take<E: Whole>(
        &mut self,
        chunk: u8,
        workers: Workers,
        payload: View<'_>,
        out: &mut impl Sink<E>,
    ) -> Result<(), DropReason> {
        let (have, sum) = self.chunks.get_mut(usize::from(chunk)).ok_or(DropReason::NoPlace)?;
        if workers == self.all {
            (*have, *sum) = (workers, Provenance::from_view(payload));
        } else if !have.overlaps(workers) {
            *have = have.union(workers);
            frame::add(sum, payload);
        } else if *have != self.all {
            return Err(DropReason::HasIt);
        }
        if *have == self.all {
            frame::send(PortId(0), Header::Result { chunk }, sum, out);
        }
        Ok(())
    }
}
