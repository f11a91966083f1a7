//! What a switch runs for a group whose datapath is simulated. A run is slow, and takes as long for many frames at once as for some: so frames
//! are waited for a while, as a batch.

use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quincunx_collective::{Numbers, Payload};
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, RoceHeader};

use crate::block::{Block, Happened};

/// When those who send at once have sent.
const BATCH: Duration = Duration::from_micros(500);

const RUN: DatapathTimer = DatapathTimer { kind: 0, edge: None };

/// Both ends of an edge's connection.
type Ends = (Endpoint, Endpoint);

/// A group whose switch is simulated. Copies of it are one, for a program cannot be copied.
#[derive(Clone, Debug)]
pub struct SimulatedDatapath(Arc<Mutex<Group>>);

#[derive(Debug)]
struct Group {
    edges: Vec<Ends>,
    /// None when it has failed.
    block: Option<Block>,
    /// Bytes of payload buffers.
    buffers: usize,
    frames: u64,
}

impl SimulatedDatapath {
    /// A block in the place of a datapath with such buffers. Of each edge the ends of its connection, this switch's first.
    pub fn new(block: Block, edges: Vec<Ends>, buffers: usize) -> Self {
        Self(Arc::new(Mutex::new(Group { edges, block: Some(block), buffers, frames: 0 })))
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    /// Runs what it was told. What fails once is not asked again: its group's ranks find out that nobody answers.
    fn run(&mut self, out: &mut dyn DatapathSink<Numbers>) {
        let Some(block) = &mut self.block else { return };
        let happened = match block.run() {
            Ok(happened) => happened,
            Err(error) => {
                tracing::error!(%error, "the group's hardware has failed");
                self.block = None;
                return;
            }
        };
        for one in happened {
            match one {
                Happened::Left { edge, header, payload } => {
                    let Some((local, remote)) = self.edges.get(usize::from(edge)) else { continue };
                    let (source, destination, destination_qp) = (local.ip, remote.ip, remote.qp);
                    let header = RoceHeader { source, destination, destination_qp, ..header };
                    out.transmit(edge, Frame { header: &header, payload: &payload });
                }
                Happened::Dropped { edge, reason } => out.drop_frame(edge, reason),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let cycles = self.block.as_ref().map_or(0, Block::cycles);
        tracing::info!(frames = self.frames, cycles, "a group's hardware ends");
    }
}

impl Datapath<Numbers> for SimulatedDatapath {
    fn handle_frame(
        &mut self,
        _now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, Numbers>,
        out: &mut dyn DatapathSink<Numbers>,
    ) {
        let mut group = self.group();
        group.frames += 1;
        let Some(block) = &mut group.block else { return out.drop_frame(edge, "hardware-failed") };
        if !block.is_told() {
            out.set_timer(RUN, BATCH);
        }
        block.tell(edge, frame.header, Numbers::contents(frame.payload).unwrap_or_default());
    }

    fn handle_timer(&mut self, _: Instant, _: DatapathTimer, out: &mut dyn DatapathSink<Numbers>) {
        self.group().run(out);
    }

    fn timers(&self) -> Vec<DatapathTimer> {
        vec![RUN]
    }

    fn buffer_bytes(&self) -> usize {
        self.group().buffers
    }

    fn assert_invariants(&self) {}
}

/// One is like no other, whatever its state.
impl PartialEq for SimulatedDatapath {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SimulatedDatapath {}

impl Hash for SimulatedDatapath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(Arc::as_ptr(&self.0), state);
    }
}
