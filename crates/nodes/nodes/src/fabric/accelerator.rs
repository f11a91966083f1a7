//! An accelerator: its memory on the fabric, a link to each switch, and communication kernels, one for each stream.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest, KernelRefusal};
use quincunx_engine::{Frame, PortId};
use quincunx_memory::{Endpoint, EndpointConfig, MemoryDrop, Port, PortConfig};
use quincunx_units::Instant;
use quincunx_wire::flit::FlitHeader;

use super::sink::{FabricDrop, FabricEvent, FabricRejected, FabricSink, FabricTimer, send_credit};

/// What an accelerator is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AcceleratorConfig<P: Payload> {
    /// Its memory.
    pub endpoint: EndpointConfig,
    /// The buffers of each link.
    pub port: PortConfig,
    /// What runs on it, one for each stream of collectives. They share words that somebody changes; fences, loads and arithmetic are
    /// one kernel's alone, so that at most one of them may use these: the others leave the work to the switches.
    pub kernels: Vec<Box<dyn AnyKernel<P>>>,
}

/// An accelerator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Accelerator<P: Payload> {
    endpoint: Endpoint<P>,
    ports: Vec<Port>,
    kernels: Vec<Box<dyn AnyKernel<P>>>,
}

impl<P: Payload> Accelerator<P> {
    pub(super) fn new(config: AcceleratorConfig<P>) -> Self {
        let ports = vec![Port::new(config.port); config.endpoint.switches.len()];
        Self { endpoint: Endpoint::new(config.endpoint), ports, kernels: config.kernels }
    }

    /// Its memory.
    pub const fn memory(&self) -> &P {
        self.endpoint.contents()
    }

    pub(super) fn exchange_memory(&mut self, memory: P) -> P {
        self.endpoint.exchange_memory(memory)
    }

    /// Whether there is a kernel of that number.
    pub(super) fn has_kernel(&self, number: u16) -> bool {
        usize::from(number) < self.kernels.len()
    }

    pub(super) fn start(
        &mut self,
        now: Instant,
        kernel: u16,
        request: InPlaceRequest,
        out: &mut impl FabricSink<P>,
    ) -> Result<(), KernelRefusal> {
        if self.kernels[usize::from(kernel)].start(request, &mut self.endpoint)? {
            out.emit(FabricEvent::Finished { kernel });
        }
        self.settle(out);
        self.arm_all(now, out);
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        link: PortId,
        to: Rank,
        length: usize,
        address: u64,
    ) -> Result<(), FabricRejected> {
        let (links, most) = (self.ports.len() as u16, self.endpoint.longest_unsolicited());
        if link.0 >= links || length > most {
            return Err(FabricRejected::Packet { links, most, link: link.0, length });
        }
        self.endpoint.send_unsolicited(link, to, length, address);
        Ok(())
    }

    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, P>,
        out: &mut impl FabricSink<P>,
    ) {
        let done = self.ports[usize::from(port.0)].accept(frame.header).map_err(MemoryDrop::from);
        let done = done.and_then(|channel| match channel {
            None => Ok(()),
            Some(channel) => {
                // Memory takes whatever comes at once.
                self.ports[usize::from(port.0)].release(channel);
                self.endpoint.handle_packet(now, port, frame.header, frame.payload)
            }
        });
        if let Err(reason) = done {
            out.drop_frame(port, FabricDrop::Memory(reason));
        }
        self.settle(out);
        self.arm(now, port, out);
    }

    pub(super) fn handle_timer(&mut self, now: Instant, link: PortId, out: &mut impl FabricSink<P>) {
        self.endpoint.handle_timer(now, link);
        self.arm(now, link, out);
    }

    /// What the kernel has computed is done.
    pub(super) fn handle_computed(&mut self, now: Instant, out: &mut impl FabricSink<P>) {
        self.endpoint.computed();
        self.settle(out);
        self.arm_all(now, out);
    }

    #[inline]
    pub(super) fn wants_transmit(&self, port: PortId) -> bool {
        self.ports[usize::from(port.0)].wants_transmit(self.endpoint.ready(port))
    }

    #[inline]
    pub(super) fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl FabricSink<P>) {
        self.endpoint.advance(now, port);
        let link = &mut self.ports[usize::from(port.0)];
        match link.arbitrate(self.endpoint.ready(port)) {
            Some(channel) => {
                let (mut header, payload) = self.endpoint.next_packet(port, channel);
                link.seal(&mut header, P::view_length(P::reborrow(payload)));
                out.transmit(port, Frame { header: &header, payload });
            }
            None => send_credit(port, link, out),
        }
        self.arm(now, port, out);
    }

    /// Lets the kernels see what has come of their requests.
    #[inline]
    fn settle(&mut self, out: &mut impl FabricSink<P>) {
        while let Some(event) = self.endpoint.next_event() {
            for (kernel, number) in self.kernels.iter_mut().zip(0..) {
                if kernel.handle_event(event, &mut self.endpoint) {
                    out.emit(FabricEvent::Finished { kernel: number });
                }
            }
        }
        if let Some(after) = self.endpoint.arm_computation() {
            out.set_timer(FabricTimer::Compute, after);
        }
    }

    fn arm_all(&mut self, now: Instant, out: &mut impl FabricSink<P>) {
        for link in 0..self.ports.len() {
            self.arm(now, PortId(link as u16), out);
        }
    }

    #[inline]
    fn arm(&mut self, now: Instant, link: PortId, out: &mut impl FabricSink<P>) {
        if !self.wants_transmit(link)
            && let Some(after) = self.endpoint.arm(now, link)
        {
            out.set_timer(FabricTimer::Respond(link), after);
        }
    }

    pub(super) fn assert_invariants(&self) {
        self.endpoint.assert_invariants();
        self.kernels.iter().for_each(|kernel| kernel.assert_invariants());
        for port in &self.ports {
            port.assert_invariants();
        }
    }
}
