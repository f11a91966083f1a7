//! Frames on their way: what a link does to them, by the plan and the seed.

use super::{Event, World};
use crate::effects::OwnedFrame;
use crate::fabric::Place;
use crate::plan::FaultKind;
use quincunx_collective::{Numbers, Payload, SplitMix64};
use quincunx_network::{Delay, Fate, Injector};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{
    Gid, Operation, Psn, QpNumber, RoceHeader, UdpPath, datagram_length, emit_datagram,
    parse_identified_datagram,
};

/// From a machine to its neighbour.
const HOP: Duration = Duration::from_micros(1);

/// Picoseconds that a byte takes on a link of 10 Gbit/s.
const BYTE: u64 = 800;

/// Of a packet's headers, and what is around them.
const OVERHEAD: u64 = 80;

impl World {
    /// A frame leaves a machine.
    pub(super) fn send(&mut self, from: Place, frame: OwnedFrame) {
        self.note(u64::from(frame.header.psn.value()) << 24 | u64::from(frame.header.destination_qp.value()));
        let Some(to) = self.fabric.at(frame.header.destination) else {
            return self.coverage.meet("frame for nobody");
        };
        let length = frame.payload.length() as u64 + OVERHEAD;
        let sent = self.now.max(self.machines[from].free_at) + Duration::from_picos(length * BYTE);
        self.machines[from].free_at = sent;
        let pair = from * self.machines.len() + to;
        let index = self.pairs[pair].0;
        self.pairs[pair].0 += 1;
        let Some(hops) = self.fabric.hops(from, to) else {
            self.tell_frame([from, to], [None; 2], &frame);
            return self.coverage.meet("frame lost on a link that is cut");
        };
        let last = &mut self.pairs[pair].1;
        let in_turn = (sent + HOP * hops).max(*last + Duration::from_picos(1));
        *last = in_turn;
        if self.is_calm {
            self.tell_frame([from, to], [Some(in_turn), None], &frame);
            return self.arrive(in_turn, to, frame);
        }
        let number = (from as u64) << 20 | to as u64;
        let frame = match self.corrupt(frame, number, index) {
            Some(frame) => frame,
            None => return,
        };
        let fate = Injector::of_direction(self.rates.into(), self.plan.seed, number).fate(index);
        match fate {
            Fate::Lost => {
                self.tell_frame([from, to], [None; 2], &frame);
                return self.coverage.meet("frame lost");
            }
            Fate::Late(_) => self.coverage.meet("frame late"),
            Fate::DUPLICATED => self.coverage.meet("frame doubled"),
            _ => {}
        }
        let mut arrivals = fate.arrivals().map(|delay| match delay {
            Some(Delay::HeldBack(time)) => in_turn + time,
            _ => in_turn,
        });
        let Some(first) = arrivals.next() else { return };
        let second = arrivals.next();
        self.tell_frame([from, to], [Some(first), second], &frame);
        match second {
            None => self.arrive(first, to, frame),
            Some(second) => {
                self.arrive(first, to, frame.clone());
                self.arrive(second, to, frame);
            }
        }
    }

    fn tell_frame(&mut self, ends: [Place; 2], arrivals: [Option<Instant>; 2], frame: &OwnedFrame) {
        if let Some(story) = &mut self.story {
            story.send(self.now, ends, arrivals, frame);
        }
    }

    fn arrive(&mut self, at: Instant, to: Place, frame: OwnedFrame) {
        let after = if at > self.now { at.since(self.now) } else { Duration::ZERO };
        self.push(after, Event::Frame { to, frame });
    }

    /// The frame, perhaps with bits turned; nothing if the receiver finds that its checksum is wrong.
    fn corrupt(&mut self, frame: OwnedFrame, number: u64, index: u64) -> Option<OwnedFrame> {
        let mut draws = SplitMix64::new(self.plan.seed ^ number.rotate_left(24) ^ index);
        if draws.draw() % 1_000_000 >= u64::from(self.plan.weather.corruption) {
            return Some(frame);
        }
        self.coverage.meet("frame with bits turned");
        let mut bytes = vec![0; datagram_length(&frame.header.operation, frame.payload.length())];
        let length = emit_datagram(&frame.header, frame.payload.bytes(), &mut bytes);
        bytes.truncate(length);
        for _ in 0..1 + draws.draw() % 3 {
            let bit = draws.draw() as usize % (length * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let path = UdpPath {
            source: frame.header.source,
            destination: frame.header.destination,
            source_port: frame.header.source_port,
            traffic_class: frame.header.traffic_class,
        };
        match parse_identified_datagram(&path, 0, &bytes) {
            Ok((header, payload)) => {
                self.coverage.meet("frame with bits turned that no checksum covers");
                Some(OwnedFrame { header, payload: Numbers::from_view(payload) })
            }
            Err(_) => {
                self.coverage.meet("frame with a wrong checksum");
                None
            }
        }
    }

    /// Somebody sends frames that are nobody's.
    pub(super) fn send_strange(&mut self, number: usize) {
        if !self.active.contains(&number) {
            return;
        }
        let FaultKind::Stranger(name) = &self.plan.faults[number].kind else { return };
        let Some(to) = self.fabric.find(name) else { return };
        let payload = Numbers::from_view(&vec![0xa5; 4 * self.draw(64) as usize][..]);
        let operation = match self.draw(5) {
            0 => Operation::WriteMiddle,
            1 => Operation::Send(quincunx_wire::Position::Only),
            2 => Operation::Send(quincunx_wire::Position::First),
            3 => Operation::WriteLast,
            _ => Operation::Send(quincunx_wire::Position::Middle),
        };
        let source = Gid::from([10, 9, 9, 9]);
        let queue_pair = QpNumber::new(self.draw(64) as u32 + 8);
        let psn = Psn::new(self.draw(1 << 24) as u32);
        let header = RoceHeader::new(source, self.fabric.address(to), queue_pair, psn, operation);
        self.coverage.meet("frame of a stranger");
        self.arrive(self.now, to, OwnedFrame { header, payload });
        let after = self.draw_between(Duration::from_micros(50), Duration::from_millis(5));
        self.push(after, Event::Stranger { number });
    }
}
