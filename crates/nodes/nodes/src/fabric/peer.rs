//! An accelerator that is linked to others without a switch between, and runs a collective program over these links.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use quincunx_collective::{Collective, Payload, Reduction};
use quincunx_engine::verbs::{
    Alarm, AnyProgram, CollectiveRequest, Outcome, RegionId, RequestError, Slice, Verbs,
};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_memory::{MemoryDrop, Messages, MessagesConfig, Port, PortConfig};
use quincunx_units::Instant;
use quincunx_wire::flit::FlitHeader;

use super::sink::credit_alone;

/// What it is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerConfig<P: Payload> {
    /// Its links.
    pub messages: MessagesConfig,
    /// The buffers of each.
    pub port: PortConfig,
    /// The algorithm.
    pub program: Box<dyn AnyProgram<P>>,
}

/// What is asked of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerCommand<P> {
    /// Starts a collective; its buffers come back with [`PeerEvent::Finished`].
    Start {
        /// Which collective.
        collective: Collective,
        /// How elements combine.
        reduction: Reduction,
        /// This rank's data; lengths as [`CollectiveRequest`] says.
        input: P,
        /// Where the result goes.
        output: P,
    },
}

/// What it tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerEvent<P> {
    /// A collective has ended.
    Finished {
        /// How.
        outcome: Outcome,
        /// The input as it was given.
        input: P,
        /// The result, whole only if the outcome is [`Outcome::Done`].
        output: P,
    },
}

/// An accelerator with a link to each of its peers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FabricPeer<P: Payload> {
    messages: Messages<P>,
    ports: Vec<Port>,
    program: Box<dyn AnyProgram<P>>,
    /// Input and output of the collective that runs.
    running: Option<[RegionId; 2]>,
}

impl<P: Payload> FabricPeer<P> {
    /// Lets the program see what has completed, gives back the buffers of a collective that has ended, frees buffers of ports, and sets
    /// alarms.
    fn settle(&mut self, now: Instant, mut outcome: Option<Outcome>, out: &mut impl Sink<Self>) {
        while let Some((link, completion)) = self.messages.next_completion() {
            let ended = self.program.handle_completion(now, link, completion, &mut self.messages);
            outcome = outcome.or(ended);
        }
        while let Some((link, channel)) = self.messages.next_freed() {
            self.ports[usize::from(link.0)].release(channel);
        }
        while let Some((alarm, after)) = self.messages.next_alarm() {
            out.set_timer(alarm, after);
        }
        if let (Some(outcome), Some(regions)) = (outcome, self.running) {
            self.running = None;
            if outcome != Outcome::Done {
                // Messages that have not left may be of these buffers.
                self.messages.shut_down();
            }
            let memory = self.messages.memory();
            let [input, output] =
                regions.map(|region| memory.release(region).expect("a running collective has its buffers"));
            out.emit(PeerEvent::Finished { outcome, input, output });
        }
    }
}

impl<P: Payload> Engine for FabricPeer<P> {
    type Config = PeerConfig<P>;
    type ConfigError = Infallible;
    type Header = FlitHeader;
    type Payload = P;
    type Timer = Alarm;
    type Command = PeerCommand<P>;
    type Rejected = RequestError;
    type Event = PeerEvent<P>;
    type DropReason = MemoryDrop;

    fn new(config: PeerConfig<P>) -> Result<Self, Infallible> {
        let PeerConfig { messages, port, mut program } = config;
        let ports = vec![Port::new(port); messages.neighbours.len()];
        let mut messages = Messages::new(messages);
        program.initialise(&mut messages);
        Ok(Self { messages, ports, program, running: None })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, FlitHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        let link = &mut self.ports[usize::from(port.0)];
        let channel = match link.accept(frame.header) {
            Ok(Some(channel)) => channel,
            Ok(None) => return,
            Err(fault) => return out.drop_frame(port, fault.into()),
        };
        if let Err(reason) = self.messages.handle_packet(port, frame.header, frame.payload) {
            link.release(channel);
            out.drop_frame(port, reason);
        }
        self.settle(now, None, out);
    }

    fn handle_timer(&mut self, now: Instant, alarm: Alarm, out: &mut impl Sink<Self>) {
        let outcome = self.program.handle_alarm(now, alarm, &mut self.messages);
        self.settle(now, outcome, out);
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: PeerCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), RequestError> {
        let PeerCommand::Start { collective, reduction, input, output } = command;
        if self.running.is_some() {
            return Err(RequestError::Busy);
        }
        let memory = self.messages.memory();
        let [input, output] = [input, output].map(|buffer| {
            let length = buffer.length();
            Slice { region: memory.register(buffer), offset: 0, length }
        });
        let request = CollectiveRequest { collective, reduction, input, output, terms: Terms::WHOLE };
        match self.program.start(now, request, &mut self.messages) {
            Ok(outcome) => {
                self.running = Some([input.region, output.region]);
                self.settle(now, outcome, out);
                Ok(())
            }
            Err(error) => {
                for slice in [input, output] {
                    self.messages.memory().release(slice.region);
                }
                Err(error)
            }
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.ports[usize::from(port.0)].wants_transmit(self.messages.ready(port))
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        let link = &mut self.ports[usize::from(port.0)];
        match link.arbitrate(self.messages.ready(port)) {
            Some(channel) => {
                let (mut header, payload) = self.messages.next_packet(port, channel);
                link.seal(&mut header, P::view_length(P::reborrow(payload)));
                out.transmit(port, Frame { header: &header, payload });
            }
            None => {
                if let Some(header) = credit_alone(link) {
                    out.transmit(port, Frame { header: &header, payload: P::empty() });
                }
            }
        }
        self.settle(now, None, out);
    }

    fn assert_invariants(&self) {
        self.messages.assert_invariants();
        self.program.assert_invariants();
        for (port, link) in self.ports.iter().zip(0..) {
            port.assert_invariants();
            self.messages.assert_holds(PortId(link), |channel| port.buffered(channel).into());
        }
    }
}
