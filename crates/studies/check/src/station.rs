//! Nodes that have been told their part.

use quincunx_collective::Provenance;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_nodes::{
    NodeDrop, Station, StationCommand, StationEvent, StationKind, StationRejected, StationTimer,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

/// A node that has been told its part.
pub(crate) fn station(
    kind: StationKind,
    commands: impl IntoIterator<Item = StationCommand<Provenance>>,
) -> Result<Station<Provenance>, StationRejected> {
    let Ok(mut station) = Station::new(kind);
    for command in commands {
        station.handle_command(Instant::ZERO, command, &mut Nobody)?;
    }
    Ok(station)
}

/// Takes the answers to the installation of a group: there are none.
struct Nobody;

impl Sink<Station<Provenance>> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Provenance>) {
        unreachable!("a group that is installed sends nothing yet");
    }
    fn set_timer(&mut self, _: StationTimer, _: Duration) {
        unreachable!("a group that is installed waits for nothing yet");
    }
    fn cancel_timer(&mut self, _: StationTimer) {}
    fn emit(&mut self, _: StationEvent<Provenance>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}
