//! IncEngine: the part of a switch that takes part in the collectives of one group (EPIC 3.2, 4.1), in Mode-II or Mode-III. The
//! switch that it is in has found the group and the edge by the queue pair that a packet is for (LookupTable, first half).

use crate::mode::Mode;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use quincunx_collective::Payload;
use quincunx_design::{Datapath, DatapathSink, DatapathTimer, Refusal};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::RoceHeader;

use crate::config::{ConfigError, GroupConfig};
use crate::mode_ii::ModeII;
use crate::mode_iii::ModeIII;
use crate::numbering::{Numbering, Translated};
use crate::timers::{ACKNOWLEDGE_TIMER, resend_timer};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::upper_case_acronyms, reason = "a numeral, as the paper writes it")]
enum Realisation {
    II(ModeII),
    III(ModeIII),
}

/// What a switch runs for one group. Work per call is bounded by the group's window and fan-out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncEngine<P> {
    realisation: Realisation,
    /// Translates the PSNs of ranks that cannot skip any.
    numbering: Option<Numbering>,
    edges: u16,
    payload: PhantomData<P>,
}

impl Realisation {
    fn handle_frame<P: Payload>(
        &mut self,
        now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let handled = match self {
            Self::II(mode) => mode.handle_frame(usize::from(edge), frame, out),
            Self::III(mode) => mode.handle_frame(now, usize::from(edge), frame, out),
        };
        if let Err(reason) = handled {
            out.drop_frame(edge, reason.name());
        }
    }

    fn handle_timer<P: Payload>(
        &mut self,
        now: Instant,
        timer: DatapathTimer,
        out: &mut dyn DatapathSink<P>,
    ) {
        let Self::III(mode) = self else { return };
        match timer.edge {
            Some(edge) => mode.handle_resend_timer(now, usize::from(edge), out),
            None => mode.handle_acknowledge_timer(out),
        }
    }

    /// Everything before this number has been forgotten.
    fn base(&self) -> u64 {
        match self {
            Self::II(mode) => mode.base(),
            Self::III(mode) => mode.base(),
        }
    }
}

impl<P: Payload> IncEngine<P> {
    /// A group before its first packet.
    ///
    /// # Errors
    /// If the context makes no sense, or is Mode-I's.
    pub fn new(config: GroupConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        // A count with the initial PSN in its low bits, and room below for a window.
        let first = (1 << 24) + u64::from(config.initial_psn.value());
        let edges = config.edges.len() as u16;
        let numbering = Numbering::new(&config, first);
        let realisation = match config.mode {
            Mode::I => return Err(ConfigError::ModeI),
            Mode::II => Realisation::II(ModeII::new(config, first)),
            Mode::III => Realisation::III(ModeIII::new(config, first)),
        };
        Ok(Self { realisation, numbering, edges, payload: PhantomData })
    }
}

impl<P: Payload> Datapath<P> for IncEngine<P> {
    fn handle_frame(
        &mut self,
        now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let Some(numbering) = &mut self.numbering else {
            return self.realisation.handle_frame(now, edge, frame, out);
        };
        let header = numbering.incoming(usize::from(edge), frame.header);
        let frame = Frame { header: &header, payload: P::reborrow(frame.payload) };
        self.realisation.handle_frame(now, edge, frame, &mut Translated { numbering, out });
        numbering.forget(self.realisation.base());
    }

    fn handle_timer(&mut self, now: Instant, timer: DatapathTimer, out: &mut dyn DatapathSink<P>) {
        match &self.numbering {
            Some(numbering) => self.realisation.handle_timer(now, timer, &mut Translated { numbering, out }),
            None => self.realisation.handle_timer(now, timer, out),
        }
    }

    fn wants_transmit(&self, edge: u16) -> bool {
        match &self.realisation {
            Realisation::II(_) => false,
            Realisation::III(mode) => mode.wants_transmit(usize::from(edge)),
        }
    }

    fn may_want_transmit(&self) -> bool {
        match &self.realisation {
            Realisation::II(_) => false,
            Realisation::III(mode) => mode.is_resending(),
        }
    }

    fn handle_transmit_slot(&mut self, now: Instant, edge: u16, out: &mut dyn DatapathSink<P>) {
        let Realisation::III(mode) = &mut self.realisation else { return };
        match &self.numbering {
            Some(numbering) => {
                mode.handle_transmit_slot(now, usize::from(edge), &mut Translated { numbering, out })
            }
            None => mode.handle_transmit_slot(now, usize::from(edge), out),
        }
    }

    fn timers(&self) -> Vec<DatapathTimer> {
        match &self.realisation {
            Realisation::II(_) => Vec::new(),
            Realisation::III(_) => {
                let resend = (0..usize::from(self.edges)).map(resend_timer);
                core::iter::once(ACKNOWLEDGE_TIMER).chain(resend).collect()
            }
        }
    }

    fn told_to_hardware(&self) -> Result<String, Refusal> {
        match &self.realisation {
            Realisation::II(mode) => mode.told_to_hardware(),
            Realisation::III(_) => Err(Refusal::new(
                "a group in Mode-II",
                "one in Mode-III",
                "there is hardware for Mode-II alone",
            )),
        }
    }

    fn buffer_bytes(&self) -> usize {
        match &self.realisation {
            Realisation::II(mode) => mode.buffer_bytes(),
            Realisation::III(mode) => mode.buffer_bytes(),
        }
    }

    fn assert_invariants(&self) {
        if let Some(numbering) = &self.numbering {
            numbering.assert_invariants();
        }
        match &self.realisation {
            Realisation::II(mode) => mode.assert_invariants(),
            Realisation::III(mode) => mode.assert_invariants(),
        }
    }
}
