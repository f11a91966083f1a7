//! IncEngine: the part of a switch that takes part in collectives (EPIC 3.2, 4.1), for Mode-II and Mode-III groups.
//! It finds the group and the edge of a packet by the queue pair that the packet is for (LookupTable, first half).

use crate::mode::Mode;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use quincunx_collective::{GroupId, Payload};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::Instant;
use quincunx_wire::{QpNumber, RoceHeader};

use crate::config::{ConfigError, GroupConfig};
use crate::mode_ii::ModeII;
use crate::mode_iii::ModeIII;

/// A switch's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// Packets on an edge wait for their ACK (Mode-III).
    Resend {
        /// The group.
        group: GroupId,
        /// Index of the edge in the group's context.
        edge: u16,
    },
    /// ACKs wait for results to travel with (Mode-III).
    Acknowledge {
        /// The group.
        group: GroupId,
    },
}

/// What the control plane asks of a switch.
#[derive(Clone, Debug)]
pub enum Command {
    /// Installs a group's context.
    Install(Box<GroupConfig>),
    /// Removes a group; its packets are foreign from now on.
    Remove(GroupId),
}

/// What a switch tells the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The neighbour on an edge has not answered within the retry count, or has failed.
    Unreachable {
        /// The group.
        group: GroupId,
        /// Index of the edge in the group's context.
        edge: u16,
    },
}

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Rejected {
    /// The context makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The group is installed already.
    #[error("expected a new group, found group {0:?} installed; remove it first")]
    GroupExists(GroupId),
    /// The group is not installed.
    #[error("expected an installed group, found no group {0:?}; install it first")]
    NoSuchGroup(GroupId),
    /// A queue pair is taken.
    #[error("expected free queue pair numbers, found {0:?} in use; give each edge its own")]
    QpInUse(QpNumber),
    /// Mode-I is not a matter of this engine.
    #[error("expected Mode-II or Mode-III, found Mode-I; it runs over queue pairs")]
    ModeI,
}

/// Why a packet was dropped. What senders do about it is their time-out, or the answer that some of these get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// No group has an edge with this queue pair.
    ForeignQueuePair,
    /// The edge has another neighbour.
    ForeignSource,
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
    /// It acknowledges what was never sent.
    BadAcknowledge,
    /// It comes from a neighbour that counts as unreachable: the group has failed.
    Unreachable,
}

impl DropReason {
    /// What operators call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForeignQueuePair => "foreign-queue-pair",
            Self::ForeignSource => "foreign-source",
            Self::UnexpectedOperation => "unexpected-operation",
            Self::Malformed => "malformed",
            Self::NoCollective => "no-collective",
            Self::TableFull => "table-full",
            Self::WrongDirection => "wrong-direction",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::AheadOfRange => "ahead-of-range",
            Self::Mismatch => "mismatch",
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

/// One group of a switch: what a switch among others runs for it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncGroup<P> {
    config: GroupConfig,
    realisation: Realisation<P>,
}

/// The collectives of a switch. Work per call is bounded by the window and the fan-out of one group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IncEngine<P> {
    groups: BTreeMap<GroupId, IncGroup<P>>,
    lookup: BTreeMap<QpNumber, (GroupId, u16)>,
}

impl<P: Payload> IncGroup<P> {
    /// A group before its first packet.
    ///
    /// # Errors
    /// If the context makes no sense, or is Mode-I's.
    pub fn new(config: GroupConfig) -> Result<Self, Rejected> {
        config.validate()?;
        // A count with the initial PSN in its low bits, and room below for a window.
        let first = (1 << 24) + u64::from(config.initial_psn.value());
        let realisation = match config.mode {
            Mode::I => return Err(Rejected::ModeI),
            Mode::II => Realisation::II(ModeII::new(config.clone(), first)),
            Mode::III => Realisation::III(ModeIII::new(config.clone(), first)),
        };
        Ok(Self { config, realisation })
    }

    /// Its context.
    pub(crate) fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// Bytes of payload and degree buffers in use (EPIC F.3).
    pub fn buffer_bytes(&self) -> usize {
        match &self.realisation {
            Realisation::II(mode) => mode.buffer_bytes(),
            Realisation::III(mode) => mode.buffer_bytes(),
        }
    }

    /// Takes a frame of the neighbour on an edge.
    pub(crate) fn handle_frame(
        &mut self,
        now: Instant,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<IncEngine<P>>,
    ) -> Result<(), DropReason> {
        let config = &self.config.edges[edge];
        if config.remote.ip != frame.header.source || config.local.ip != frame.header.destination {
            return Err(DropReason::ForeignSource);
        }
        match &mut self.realisation {
            Realisation::II(mode) => mode.handle_frame(edge, frame, out),
            Realisation::III(mode) => mode.handle_frame(now, edge, frame, out),
        }
    }

    pub(crate) fn handle_timer(&mut self, timer: Timer, out: &mut impl Sink<IncEngine<P>>) {
        let Realisation::III(mode) = &mut self.realisation else { return };
        match timer {
            Timer::Resend { edge, .. } => mode.handle_resend_timer(usize::from(edge), out),
            Timer::Acknowledge { .. } => mode.handle_acknowledge_timer(out),
        }
    }

    /// All timers that it may have armed.
    pub(crate) fn timers(&self) -> impl Iterator<Item = Timer> + use<P> {
        let group = self.config.group;
        let edges = match self.realisation {
            Realisation::II(_) => 0,
            Realisation::III(_) => self.config.edges.len() as u16,
        };
        let resend = (0..edges).map(move |edge| Timer::Resend { group, edge });
        core::iter::once(Timer::Acknowledge { group }).chain(resend)
    }

    pub(crate) fn wants_transmit(&self, edge: usize) -> bool {
        match &self.realisation {
            Realisation::II(_) => false,
            Realisation::III(mode) => mode.wants_transmit(edge),
        }
    }

    /// The first edge of a port that wants a slot.
    fn wanting(&self, port: PortId) -> Option<usize> {
        let mut edges = 0..self.config.edges.len();
        edges.find(|&edge| self.config.edges[edge].port == port && self.wants_transmit(edge))
    }

    pub(crate) fn may_want_transmit(&self) -> bool {
        match &self.realisation {
            Realisation::II(_) => false,
            Realisation::III(mode) => mode.is_resending(),
        }
    }

    pub(crate) fn handle_transmit_slot(&mut self, edge: usize, out: &mut impl Sink<IncEngine<P>>) {
        if let Realisation::III(mode) = &mut self.realisation {
            mode.handle_transmit_slot(edge, out);
        }
    }

    pub(crate) fn assert_invariants(&self) {
        match &self.realisation {
            Realisation::II(mode) => mode.assert_invariants(),
            Realisation::III(mode) => mode.assert_invariants(),
        }
    }
}

impl<P: Payload> IncEngine<P> {
    /// Bytes of payload and degree buffers in use (EPIC F.3).
    pub fn buffer_bytes(&self) -> usize {
        self.groups.values().map(IncGroup::buffer_bytes).sum()
    }

    /// The context of an installed group.
    pub fn group(&self, group: GroupId) -> Option<&GroupConfig> {
        self.groups.get(&group).map(|group| &group.config)
    }

    fn install(&mut self, config: GroupConfig) -> Result<(), Rejected> {
        config.validate()?;
        if self.groups.contains_key(&config.group) {
            return Err(Rejected::GroupExists(config.group));
        }
        for (index, edge) in config.edges.iter().enumerate() {
            let twice = config.edges[..index].iter().any(|other| other.local.qp == edge.local.qp);
            if twice || self.lookup.contains_key(&edge.local.qp) {
                return Err(Rejected::QpInUse(edge.local.qp));
            }
        }
        let group = IncGroup::new(config)?;
        for (index, edge) in group.config.edges.iter().enumerate() {
            self.lookup.insert(edge.local.qp, (group.config.group, index as u16));
        }
        self.groups.insert(group.config.group, group);
        Ok(())
    }

    fn remove(&mut self, id: GroupId, out: &mut impl Sink<Self>) -> Result<(), Rejected> {
        let group = self.groups.remove(&id).ok_or(Rejected::NoSuchGroup(id))?;
        group.timers().for_each(|timer| out.cancel_timer(timer));
        self.lookup.retain(|_, (of, _)| *of != id);
        Ok(())
    }

    fn dispatch(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), DropReason> {
        let &(id, edge) =
            self.lookup.get(&frame.header.destination_qp).ok_or(DropReason::ForeignQueuePair)?;
        let edge = usize::from(edge);
        let group = self.groups.get_mut(&id).expect("the lookup table names installed groups");
        if group.config.edges[edge].port != port {
            return Err(DropReason::ForeignSource);
        }
        group.handle_frame(now, edge, frame, out)
    }
}

impl<P: Payload> Engine for IncEngine<P> {
    type Config = ();
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = Timer;
    type Command = Command;
    type Rejected = Rejected;
    type Event = Event;
    type DropReason = DropReason;

    fn new((): ()) -> Result<Self, Self::ConfigError> {
        Ok(Self { groups: BTreeMap::new(), lookup: BTreeMap::new() })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        if let Err(reason) = self.dispatch(now, port, frame, out) {
            out.drop_frame(port, reason);
        }
    }

    fn handle_timer(&mut self, _: Instant, timer: Timer, out: &mut impl Sink<Self>) {
        let (Timer::Resend { group, .. } | Timer::Acknowledge { group }) = timer;
        if let Some(of) = self.groups.get_mut(&group) {
            of.handle_timer(timer, out);
        }
    }

    fn handle_command(
        &mut self,
        _: Instant,
        command: Command,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Rejected> {
        match command {
            Command::Install(config) => self.install(*config),
            Command::Remove(group) => self.remove(group, out),
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.groups.values().any(|group| group.wanting(port).is_some())
    }

    fn may_want_transmit(&self) -> bool {
        self.groups.values().any(IncGroup::may_want_transmit)
    }

    fn handle_transmit_slot(&mut self, _: Instant, port: PortId, out: &mut impl Sink<Self>) {
        for group in self.groups.values_mut() {
            if let Some(edge) = group.wanting(port) {
                return group.handle_transmit_slot(edge, out);
            }
        }
    }

    fn assert_invariants(&self) {
        self.groups.values().for_each(IncGroup::assert_invariants);
    }
}
