//! IncEngine: the part of a switch that takes part in the collectives of one group (EPIC 3.2, 4.1), in Mode-II or Mode-III. The
//! switch that it is in has found the group and the edge by the queue pair that a packet is for (LookupTable, first half).

use crate::mode::Mode;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::RoceHeader;

use crate::config::{ConfigError, GroupConfig};
use crate::mode_ii::ModeII;
use crate::mode_iii::ModeIII;
use crate::numbering::{Numbering, Translated};

/// The kind of timers that wait for the ACK of packets on an edge (Mode-III).
pub(crate) const RESEND: u8 = 0;

/// ACKs wait for results to travel with (Mode-III).
pub(crate) const ACKNOWLEDGE_TIMER: DatapathTimer = DatapathTimer { kind: 1, edge: None };

/// Packets on `edge` wait for their ACK.
pub(crate) const fn resend_timer(edge: usize) -> DatapathTimer {
    DatapathTimer { kind: RESEND, edge: Some(edge as u16) }
}

/// Why a packet was dropped. What senders do about it is their time-out, or the answer that some of these get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// EPIC uses no such operation.
    UnexpectedOperation,
    /// The control message, or the packet's length, makes no sense.
    Malformed,
    /// No control message has announced this PSN (3.3.2).
    NoCollective,
    /// More unfinished collectives than a group can have.
    TableFull,
    /// The collective does not flow this way.
    WrongDirection,
    /// It has been here before, and was answered again.
    Duplicate,
    /// It is older than anything that can still be asked for.
    Stale,
    /// It lies ahead of the valid PSN range.
    AheadOfRange,
    /// It disagrees with the other contributions.
    Mismatch,
    /// Its control message announces another collective than that of another rank.
    Disagreement,
    /// It acknowledges what was never sent.
    BadAcknowledge,
    /// It comes from a neighbour that counts as unreachable: the group has failed.
    Unreachable,
}

impl DropReason {
    /// What operators call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnexpectedOperation => "unexpected-operation",
            Self::Malformed => "malformed",
            Self::NoCollective => "no-collective",
            Self::TableFull => "table-full",
            Self::WrongDirection => "wrong-direction",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::AheadOfRange => "ahead-of-range",
            Self::Mismatch => "mismatch",
            Self::Disagreement => "disagreement",
            Self::BadAcknowledge => "bad-acknowledge",
            Self::Unreachable => "unreachable",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::upper_case_acronyms, reason = "a numeral, as the paper writes it")]
enum Realisation<P> {
    II(ModeII<P>),
    III(ModeIII<P>),
}

/// What a switch runs for one group. Work per call is bounded by the group's window and fan-out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncEngine<P> {
    realisation: Realisation<P>,
    /// Translates the PSNs of ranks that cannot skip any.
    numbering: Option<Numbering>,
    edges: u16,
}

impl<P: Payload> Realisation<P> {
    fn handle_frame(
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

    fn handle_timer(&mut self, timer: DatapathTimer, out: &mut dyn DatapathSink<P>) {
        let Self::III(mode) = self else { return };
        match timer.edge {
            Some(edge) => mode.handle_resend_timer(usize::from(edge), out),
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
        Ok(Self { realisation, numbering, edges })
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

    fn handle_timer(&mut self, _: Instant, timer: DatapathTimer, out: &mut dyn DatapathSink<P>) {
        match &self.numbering {
            Some(numbering) => self.realisation.handle_timer(timer, &mut Translated { numbering, out }),
            None => self.realisation.handle_timer(timer, out),
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

    fn handle_transmit_slot(&mut self, _: Instant, edge: u16, out: &mut dyn DatapathSink<P>) {
        let Realisation::III(mode) = &mut self.realisation else { return };
        match &self.numbering {
            Some(numbering) => {
                mode.handle_transmit_slot(usize::from(edge), &mut Translated { numbering, out })
            }
            None => mode.handle_transmit_slot(usize::from(edge), out),
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
