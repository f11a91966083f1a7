//! A block of hardware with one group, frame by frame. To the simulator edge N leads to 10.0.0.N+1, and its queue pair there is 0x100 + N: so it is
//! told of every group, and who they are only its users know.

use std::fmt::Write as _;
use std::path::Path;

use quincunx_wire::{Envelope, Gid, MacAddress, QpNumber, RoceHeader, emit_frame, frame_length, parse_frame};

use crate::program::{Program, ProgramError};

/// When frames that are told for one run come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// One after the other, each when nothing happens any more for the one before it: the same in every run.
    Serial,
    /// All at once, each as soon as its port is free.
    AtOnce,
}

/// What a run brings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A frame leaves over an edge.
    Left {
        /// The edge.
        edge: u16,
        /// Its header, with addresses and queue pairs as the simulator has them.
        header: RoceHeader,
        /// What it carries.
        payload: Vec<u8>,
    },
    /// A frame of an edge was dropped.
    Dropped {
        /// The edge.
        edge: u16,
        /// Why.
        reason: &'static str,
    },
}

/// The program, after a reset, with a group.
#[derive(Debug)]
pub struct Block {
    program: Program,
    /// What it will be told.
    lines: String,
    /// Over which edges the frames come that it will be told, in order.
    told: Vec<u16>,
    /// Cycles of all runs in which something was going on.
    cycles: u64,
}

/// What a block says of frames that it drops behind its entry.
const REASONS: [&str; 11] = [
    "unexpected-operation",
    "malformed",
    "no-collective",
    "table-full",
    "wrong-direction",
    "duplicate",
    "stale",
    "ahead-of-range",
    "mismatch",
    "disagreement",
    "bad-acknowledge",
];

impl Block {
    /// Finds out whether a program is such a simulator.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(program: &Path) -> Result<(), ProgramError> {
        Program::start(program)?.ask("pace 0 0\n").map(drop)
    }

    /// Starts a program, and tells it of its group.
    ///
    /// # Errors
    /// If that is none, or was built for other groups.
    pub fn begin(program: &Path, group: &str, pace: Pace) -> Result<Self, ProgramError> {
        let mut program = Program::start(program)?;
        program.ask(match pace {
            Pace::Serial => "serial\n",
            // Links of 100 Gbit/s at 250 MHz. A sum of sixteen takes 80 cycles.
            Pace::AtOnce => "pace 0 0\nwire 50\nquiet 100\n",
        })?;
        program.ask(&format!("{group}\n"))?;
        Ok(Self { program, lines: String::new(), told: Vec::new(), cycles: 0 })
    }

    /// A frame comes in over an edge, whose neighbour has sent it.
    pub fn tell(&mut self, edge: u16, header: &RoceHeader, payload: &[u8]) {
        let header = RoceHeader {
            source: address(Some(edge)),
            destination: address(None),
            destination_qp: QpNumber::new(0x100 + u32::from(edge)),
            ..*header
        };
        let mut bytes = vec![0; frame_length(&header.operation, payload.len())];
        emit_frame(&Envelope::new(mac(Some(edge)), mac(None)), &header, payload, &mut bytes);
        self.told.push(edge);
        let _ = write!(self.lines, "frame {edge} ");
        for byte in bytes {
            let _ = write!(self.lines, "{byte:02x}");
        }
        self.lines.push('\n');
    }

    /// Whether there is something to run.
    pub fn is_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Runs until nothing happens any more for what it was told.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run(&mut self) -> Result<Vec<Happened>, ProgramError> {
        self.lines.push_str("run\n");
        let answers = self.program.ask(&self.lines)?;
        self.lines.clear();
        let told = core::mem::take(&mut self.told);
        let (mut first, mut last) = (u64::MAX, 0);
        let mut happened = Vec::new();
        for answer in &answers {
            let words: Vec<&str> = answer.split(' ').collect();
            match words[..] {
                ["in", _, begins, ends] => {
                    first = first.min(number(begins));
                    last = last.max(number(ends));
                }
                ["out", edge, _, ends, digits] => {
                    last = last.max(number(ends));
                    if let Ok((_, header, payload)) = parse_frame(&bytes(digits)) {
                        let edge = number(edge) as u16;
                        happened.push(Happened::Left { edge, header, payload: payload.to_vec() });
                    }
                }
                ["done", frame, reason] if reason != "accepted" => {
                    let reason = REASONS.iter().find(|known| **known == reason);
                    happened.push(dropped(&told, frame, reason.unwrap_or(&"by-hardware")));
                }
                ["lost", frame] => happened.push(dropped(&told, frame, "no-room")),
                ["refused", frame] => happened.push(dropped(&told, frame, "refused")),
                _ => {}
            }
        }
        self.cycles += (last + 1).saturating_sub(first);
        Ok(happened)
    }

    /// Cycles of all runs, each from the first beat in to the last one out.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }
}

fn dropped(told: &[u16], frame: &str, reason: &'static str) -> Happened {
    let edge = told.get(number(frame) as usize).copied().unwrap_or_default();
    Happened::Dropped { edge, reason }
}

/// What a word of an answer counts.
fn number(word: &str) -> u64 {
    word.parse().unwrap_or_default()
}

/// The bytes of pairs of hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map_while(pair).collect()
}

/// Who is at an edge; the switch, if there is none.
fn address(edge: Option<u16>) -> Gid {
    Gid::from([10, 0, 0, edge.map_or(254, |edge| edge as u8 + 1)])
}

fn mac(edge: Option<u16>) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, edge.map_or(254, |edge| edge as u8 + 1)])
}
