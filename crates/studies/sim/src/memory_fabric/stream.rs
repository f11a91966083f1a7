//! Which streams of collectives can run side by side on a memory fabric.

use super::{MemoryFabric, RunError};
use quincunx_cluster::{MemoryLayout, MemorySetup, Stream};

/// What nodes are set up with to run these streams side by side.
pub(super) fn layout(
    fabric: &MemoryFabric,
    streams: &[Stream],
    times: u16,
) -> Result<MemoryLayout, RunError> {
    check(streams)?;
    Ok(MemoryLayout::new(&MemorySetup { times, ..fabric.setup() }, streams)?)
}

/// Whether streams can run side by side.
fn check(streams: &[Stream]) -> Result<(), RunError> {
    if let Some(stream) = streams.iter().find(|stream| stream.request.collective.is_routed()) {
        return Err(RunError::Routed(stream.request.collective));
    }
    let working = streams.iter().filter(|stream| !stream.design.about().runs_in_switches).count();
    if working > 1 {
        return Err(RunError::Streams(working));
    }
    let mut reductions = streams.iter().map(|stream| stream.request.reduction);
    let first = reductions.next();
    if reductions.all(|other| Some(other) == first) { Ok(()) } else { Err(RunError::Reductions) }
}
