//! What a memory fabric is made of.

use crate::traffic::Offered;
use quincunx_cluster::{EARLY_WRITE_RESPONSE, MemorySetup};
use quincunx_design::AcceleratorFabric;
use quincunx_driver_des::LinkConfig;
use quincunx_memory::{PortConfig, Scatter};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::flit::{FlitFormat, Transaction};

/// A memory fabric: every accelerator has a link to every switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryFabric {
    /// Accelerators.
    pub accelerators: u16,
    /// Switches.
    pub switches: u16,
    /// Each link.
    pub link: LinkConfig,
    /// How packets are cut.
    pub format: FlitFormat,
    /// What a link idles behind each packet with data, in bytes that it would carry meanwhile.
    pub gap: ByteCount,
    /// From a request's arrival at an accelerator to its response: L_acc of SCIN's equation 1.
    pub response_latency: Duration,
    /// How fast an accelerator adds vectors; none if that takes no time.
    pub add_rate: Option<BitRate>,
    /// How much later some responses come than others.
    pub scatter: Option<Scatter>,
    /// What the accelerators send to each other beside the collective, packet by packet, and what decides its chances.
    pub traffic: Option<(Offered, u64)>,
}

impl MemoryFabric {
    /// The most payload that one accelerator can send while it receives as much, when every packet of data is
    /// answered by a packet without: 360 GB/s of the DGX (SCIN 4.3).
    pub fn payload_bound(&self) -> BitRate {
        let data = self.format.wire_bytes(Transaction::Write, self.format.max_payload);
        let answer = self.format.wire_bytes(Transaction::WriteResponse, 0);
        let bits = u128::from(self.link.rate.bits_per_second()) * u128::from(self.switches);
        let turn = (data + answer) as u128 + u128::from(self.gap.bytes());
        let payload = bits * self.format.max_payload as u128 / turn;
        BitRate::new(payload as u64).expect("a link that carries something")
    }

    /// What its nodes are, beside what they run.
    pub(super) fn setup(&self) -> MemorySetup {
        MemorySetup {
            fabric: self.parts(),
            port: self.port(),
            response_latency: self.response_latency,
            add_rate: self.add_rate,
            scatter: self.scatter,
            early_write_response: EARLY_WRITE_RESPONSE,
            // The packets of traffic are cut out of memory.
            memory: if self.traffic.is_some() { self.format.max_payload } else { 0 },
            times: 1,
            mutation: None,
        }
    }

    /// What designs are told of it.
    pub(crate) fn parts(&self) -> AcceleratorFabric {
        AcceleratorFabric {
            accelerators: self.accelerators,
            switches: self.switches,
            format: self.format,
            load_window: self.load_window(),
        }
    }

    fn port(&self) -> PortConfig {
        PortConfig::covering_round_trip(self.link.rate, self.link.latency, &self.format)
    }

    /// Reduced loads that an accelerator keeps outstanding on a link: as many as answer one round trip through the
    /// switch to the members and back, when all accelerators share the links of each, and once more, so that answers
    /// that come late leave no gap.
    fn load_window(&self) -> u16 {
        let round_trip = self.link.latency * 4 + self.response_latency;
        let answer =
            ByteCount::new(self.format.wire_bytes(Transaction::ReadResponse, self.format.max_payload) as u64);
        let answer = answer + self.gap;
        let loads = self.link.rate.bytes_in(round_trip).pieces_of(answer);
        (2 * loads.div_ceil(u64::from(self.accelerators))) as u16
    }
}
