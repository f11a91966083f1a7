//! ATP's switch, whose aggregators belong to whoever finds them free, and the parameter server that everything falls back to.

use quincunx_collective::{Contributions, Payload};
use quincunx_engine::{PortId, Sink};

use crate::earlier::Setup;
use crate::earlier::node::{self, DropReason, Event, Header, Node, Timer, View, Workers};

/// What becomes of a contribution. Each rule adds to the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// It takes the aggregator that its hash names, joins its chunk there, or goes to the server if another chunk is there. What is
    /// sent again is treated like anything else. An aggregator is free again when the result passes.
    Fallback,
    /// What is sent again reserves nothing, takes along what has been aggregated of its chunk, and frees the aggregator.
    ResendsBypass,
    /// An aggregator whose result does not pass in time is sent to the server as it is, and freed.
    Deadlines,
}

/// ATP's switch. The server is behind the port after the workers'.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Aggregators {
    rule: Rule,
    workers: u16,
    aggregators: Vec<Option<Partial>>,
}

/// What there is of a chunk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Partial {
    chunk: u8,
    workers: Workers,
    sum: Contributions,
}

impl Aggregators {
    pub(crate) fn new(setup: &Setup, rule: Rule) -> Self {
        Self { rule, workers: setup.workers, aggregators: vec![None; usize::from(setup.aggregators)] }
    }

    /// Takes a frame of a worker or of the server.
    pub(crate) fn take(
        &mut self,
        port: PortId,
        header: Header,
        payload: View<'_>,
        out: &mut impl Sink<Node>,
    ) -> Result<(), DropReason> {
        match header {
            Header::Result { chunk } if port == self.server() => {
                self.free(self.index(chunk), |partial| partial.chunk == chunk, out);
                node::send_to_all(self.workers, chunk, &Contributions::from_view(payload), out);
                Ok(())
            }
            Header::Contribution { chunk, workers, again } if port != self.server() => {
                let partial = Partial { chunk, workers, sum: Contributions::from_view(payload) };
                self.aggregate(partial, again, out)
            }
            _ => Err(DropReason::NoPlace),
        }
    }

    fn aggregate(&mut self, new: Partial, again: bool, out: &mut impl Sink<Node>) -> Result<(), DropReason> {
        let bypasses = again && self.rule >= Rule::ResendsBypass;
        let (index, server, all) = (self.index(new.chunk), self.server(), Workers::all(self.workers));
        match &mut self.aggregators[index] {
            free @ None if !bypasses => {
                *free = Some(new);
                self.tell(out);
                if self.rule >= Rule::Deadlines {
                    node::arm(Timer::Deadline(index as u8), out);
                }
            }
            Some(partial) if partial.chunk == new.chunk => {
                let is_new = !partial.workers.overlaps(new.workers);
                if is_new {
                    partial.workers = partial.workers.union(new.workers);
                    node::add(&mut partial.sum, new.sum.view(0..new.sum.length()));
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
    pub(crate) fn expire(&mut self, index: u8, out: &mut impl Sink<Node>) {
        let (index, server) = (usize::from(index), self.server());
        if let Some(partial) = &self.aggregators[index] {
            partial.send(server, false, out);
            self.free(index, |_| true, out);
        }
    }

    fn free(&mut self, index: usize, which: impl FnOnce(&mut Partial) -> bool, out: &mut impl Sink<Node>) {
        if self.aggregators[index].take_if(which).is_some() {
            out.cancel_timer(Timer::Deadline(index as u8));
            self.tell(out);
        }
    }

    fn tell(&self, out: &mut impl Sink<Node>) {
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
    fn send(&self, port: PortId, again: bool, out: &mut impl Sink<Node>) {
        let header = Header::Contribution { chunk: self.chunk, workers: self.workers, again };
        node::send(port, header, &self.sum, out);
    }
}

/// ATP's parameter server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    all: Workers,
    /// Whose contributions it has of each chunk, and their sum.
    chunks: Vec<(Workers, Contributions)>,
}

impl Server {
    pub(crate) fn new(setup: &Setup) -> Self {
        let chunks = vec![(Workers::NONE, setup.nothing()); usize::from(setup.chunks())];
        Self { all: Workers::all(setup.workers), chunks }
    }

    /// Takes what there is of a chunk. What is whole replaces what it has; what it has a part of is of no use, and its other
    /// parts come again.
    pub(crate) fn take(
        &mut self,
        chunk: u8,
        workers: Workers,
        payload: View<'_>,
        out: &mut impl Sink<Node>,
    ) -> Result<(), DropReason> {
        let (have, sum) = self.chunks.get_mut(usize::from(chunk)).ok_or(DropReason::NoPlace)?;
        if workers == self.all {
            (*have, *sum) = (workers, Contributions::from_view(payload));
        } else if !have.overlaps(workers) {
            *have = have.union(workers);
            node::add(sum, payload);
        } else if *have != self.all {
            return Err(DropReason::HasIt);
        }
        if *have == self.all {
            node::send(PortId(0), Header::Result { chunk }, sum, out);
        }
        Ok(())
    }
}
