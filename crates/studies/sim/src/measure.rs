//! From a request to a measurement: any design on any fabric.

use crate::measurement::{MeasureError, Measurement};
use crate::outputs::Outputs;
use crate::progress::ProgressFn;
use crate::request::{Contents, Request};
use crate::{memory_fabric, packet_fabric};
use quincunx_collective::{LengthOnly, Numbers};
use quincunx_scenario::Fabric;

/// Simulates `request`, writing every frame to `outputs`, and telling how far it has come from time to time; whoever is told
/// may stop it.
///
/// # Errors
/// If the design does not run on the fabric, the collective does not end or was stopped, or an output cannot be written.
pub fn measure(
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Measurement, MeasureError> {
    match (&request.scenario.fabric, request.contents) {
        (Fabric::Memory(fabric), Contents::LengthOnly) => {
            memory_fabric::measure::<LengthOnly>(fabric, request, outputs, progress)
        }
        (Fabric::Memory(fabric), Contents::Numbers) => {
            memory_fabric::measure::<Numbers>(fabric, request, outputs, progress)
        }
        (Fabric::MemoryMesh(fabric), _) => {
            Ok(memory_fabric::simulate_memory_mesh(fabric, request, outputs, progress)?.into())
        }
        (Fabric::Packet(_) | Fabric::Mesh(_) | Fabric::Servers(_), _) => {
            Ok(packet_fabric::simulate_with_outputs(request, outputs, progress)?.into())
        }
    }
}
