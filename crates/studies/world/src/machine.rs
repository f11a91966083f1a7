//! A machine: its process, its clock, and what waits while the process is stopped.

use crate::due::Ticket;
use crate::effects::{Effects, OwnedFrame, TimerName};
use crate::manager::ManagerProcess;
use crate::rank::RankProcess;
use crate::store::StoreReply;
use crate::switch::SwitchProcess;
use quincunx_collective::SplitMix64;
use quincunx_units::{Duration, Instant};
use std::collections::BTreeMap;

/// What runs on a machine.
pub(crate) enum Process {
    Rank(Box<RankProcess>),
    Switch(Box<SwitchProcess>),
    Manager(Box<ManagerProcess>),
}

/// What comes to a process.
#[derive(Debug)]
pub(crate) enum Input {
    Frame(OwnedFrame),
    Timer(TimerName),
    Store(StoreReply),
}

/// A machine's clock: it runs from its own beginning, and too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Millionths by which it is too fast.
    pub(crate) fast: i32,
    pub(crate) offset: Duration,
}

const MILLION: u128 = 1_000_000;

impl Clock {
    fn rate(self) -> u128 {
        (MILLION as i128 + i128::from(self.fast)) as u128
    }

    /// What it shows at a true time.
    pub(crate) fn shows(self, at: Instant) -> Instant {
        let picos = u128::from(at.as_picos()) * self.rate() / MILLION;
        Instant::from_picos(picos as u64) + self.offset
    }

    /// How long a time of its own really is.
    pub(crate) fn truly(self, own: Duration) -> Duration {
        // Not a moment less: a timer that fires before its time is set again for no time at all.
        let truly = (u128::from(own.as_picos()) * MILLION).div_ceil(self.rate()) as u64;
        Duration::from_picos(if truly > 0 && self.fast != 0 { truly + 1 } else { truly })
    }
}

pub(crate) struct Machine {
    pub(crate) process: Option<Process>,
    /// Of its processes, the how-manieth.
    pub(crate) life: u32,
    pub(crate) pauses: u32,
    /// Faults that keep its process from running.
    pub(crate) downs: u32,
    pub(crate) backlog: Vec<Input>,
    pub(crate) clock: Clock,
    pub(crate) draws: SplitMix64,
    /// When its port has sent all that it was given.
    pub(crate) free_at: Instant,
    /// The timers that its process has set.
    pub(crate) timers: BTreeMap<TimerName, Ticket>,
}

/// Frames that wait for a process that is stopped; the kernel keeps no more.
pub(crate) const SOCKET_ROOM: usize = 512;

impl Process {
    /// Something comes.
    pub(crate) fn take(&mut self, input: Input, out: &mut Effects) {
        match (self, input) {
            (Self::Rank(rank), Input::Frame(frame)) => rank.take_frame(&frame, out),
            (Self::Rank(rank), Input::Timer(timer)) => match timer {
                TimerName::Host(timer) => rank.expire(timer, out),
                TimerName::Client => {
                    rank.client().drive(out);
                    rank.take_answers(out);
                }
                TimerName::Look => rank.look_now(out),
                _ => rank.turn(out),
            },
            (Self::Switch(switch), Input::Frame(frame)) => switch.take_frame(&frame, out),
            (Self::Switch(switch), Input::Timer(timer)) => match timer {
                TimerName::Switch(timer) => switch.expire(timer, out),
                TimerName::Client => switch.client.drive(out),
                _ => switch.look(out),
            },
            (Self::Manager(manager), Input::Timer(timer)) => manager.expire(timer, out),
            (Self::Manager(manager), Input::Store(reply)) => manager.hear_store(reply, out),
            (Self::Rank(_) | Self::Switch(_), Input::Store(_)) | (Self::Manager(_), Input::Frame(_)) => {}
        }
    }

    /// Whether it does nothing else now, because it waits for the store.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self, Self::Manager(manager) if manager.is_keeping())
    }
}
