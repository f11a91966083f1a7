//! Counts what is sent again. Without loss that is nothing, or a sender's time-out is too short for what it waits for.

use quincunx_cluster::Cluster;
use quincunx_collective::{GroupId, Payload};
use quincunx_driver_des::{NodeIndex, Observer};
use quincunx_engine::Frame;
use quincunx_nodes::Node;
use quincunx_wire::{Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader};
use std::collections::BTreeMap;

/// Data frames that a node sends to a queue pair whose number it has sent before, switches at which connections end among the nodes. What
/// has no payload asks what has arrived, and is no data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retransmissions {
    /// By node: the queue pairs that it sends to.
    senders: Vec<Sender>,
    /// So far, by group.
    pub(crate) frames: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Sender {
    places: BTreeMap<Endpoint, usize>,
    sent: Vec<Sent>,
    /// The place of the frame before.
    last: usize,
}

/// What a node has sent to a queue pair.
#[derive(Clone, Debug)]
struct Sent {
    remote: Endpoint,
    /// The place of its group among those that count.
    group: usize,
    numbers: Option<Numbers>,
}

impl Sender {
    fn new(remotes: impl Iterator<Item = (Endpoint, usize)>) -> Self {
        let sent: Vec<_> = remotes.map(|(remote, group)| Sent { remote, group, numbers: None }).collect();
        let places = sent.iter().enumerate().map(|(place, sent)| (sent.remote, place)).collect();
        Self { places, sent, last: 0 }
    }

    /// Places that are looked at before the map is: most frames go where the one before went, or where the one after that goes.
    const NEAR: usize = 2;

    /// The place of a queue pair; none if this node sends nothing of its own to it.
    #[inline]
    fn place(&self, ip: Gid, qp: QpNumber) -> Option<usize> {
        let mut place = self.last;
        for _ in 0..Self::NEAR {
            let Sent { remote, .. } = self.sent.get(place)?;
            if remote.qp == qp && remote.ip == ip {
                return Some(place);
            }
            place = if place + 1 == self.sent.len() { 0 } else { place + 1 };
        }
        self.places.get(&Endpoint { ip, qp }).copied()
    }
}

/// The numbers that have been sent to a queue pair, as counts without end. A switch that passes on what several roots send may send later
/// ones first, and some numbers nobody sends.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Numbers {
    /// One more than the newest.
    next: u64,
    /// Those before it that have not been sent: where a range of them begins, and where it ends.
    gaps: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Numbers this far back count: half of those that are told apart by 24 bits.
    const SPAN: u64 = 1 << 23;

    /// Ranges that are kept.
    const MOST_GAPS: usize = 1 << 10;

    /// Before the first of them.
    fn before(psn: Psn) -> Self {
        let next = (1 << 24) + u64::from(psn.value());
        Self { next, gaps: [(next - Self::SPAN, next)].into() }
    }

    /// Sends a number; whether it has been sent before.
    #[inline]
    fn send(&mut self, psn: Psn) -> bool {
        if Psn::from_count(self.next) == psn {
            self.next += 1;
            return false;
        }
        self.send_out_of_order(psn)
    }

    fn send_out_of_order(&mut self, psn: Psn) -> bool {
        let count = psn.to_count_near(self.next);
        if count >= self.next {
            if count > self.next {
                self.gaps.insert(self.next, count);
                if self.gaps.len() > Self::MOST_GAPS {
                    self.gaps.pop_first();
                }
            }
            self.next = count + 1;
            return false;
        }
        match self.gaps.range(..=count).next_back() {
            Some((&start, &end)) if count < end => {
                self.gaps.remove(&start);
                let rest = [(start, count), (count + 1, end)];
                self.gaps.extend(rest.into_iter().filter(|(start, end)| start < end));
                false
            }
            _ => true,
        }
    }
}

impl Retransmissions {
    /// Of the connections of groups.
    pub(crate) fn of(cluster: &Cluster, groups: &[GroupId]) -> Self {
        let of_node = |node| {
            let of_group = |(place, &group)| {
                cluster.connections(node, group).map(move |connection| (connection.remote, place))
            };
            Sender::new(groups.iter().enumerate().flat_map(of_group))
        };
        let senders = (0..cluster.wiring().nodes().len()).map(of_node).collect();
        Self { senders, frames: vec![0; groups.len()] }
    }

    /// A node sends a frame.
    #[inline]
    pub(crate) fn sent(&mut self, node: NodeIndex, header: &RoceHeader, is_empty: bool) {
        if matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification) {
            return;
        }
        let Some(sender) = self.senders.get_mut(node.0 as usize) else { return };
        // What only passes here is somebody else's.
        let Some(place) = sender.place(header.destination, header.destination_qp) else { return };
        sender.last = place;
        let sent = &mut sender.sent[place];
        let numbers = sent.numbers.get_or_insert_with(|| Numbers::before(header.psn));
        // What was sent before and is empty now asks what has arrived.
        self.frames[sent.group] += u64::from(numbers.send(header.psn) && !is_empty);
    }
}

impl<P: Payload> Observer<Node<P>> for Retransmissions {
    fn sees_departures(&self) -> bool {
        false
    }

    #[inline]
    fn sent(&mut self, node: NodeIndex, frame: Frame<'_, RoceHeader, P>) {
        self.sent(node, frame.header, P::view_length(frame.payload) == 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_wire::{Aeth, Position, Syndrome};

    fn header(to: u8, psn: u32, operation: Operation) -> RoceHeader {
        let [from, to] = [1, to].map(|last| Gid::from([10, 0, 0, last]));
        RoceHeader::new(from, to, QpNumber::new(16), Psn::new(psn), operation)
    }

    fn count(frames: &[(u8, u32)]) -> u64 {
        let remotes = [2, 3].map(|to| Endpoint { ip: [10, 0, 0, to].into(), qp: QpNumber::new(16) });
        let senders = vec![Sender::new(remotes.into_iter().zip([0, 1]))];
        let mut counter = Retransmissions { senders, frames: vec![0; 2] };
        for &(to, psn) in frames {
            counter.sent(NodeIndex(0), &header(to, psn, Operation::Send(Position::Only)), false);
        }
        counter.frames.iter().sum()
    }

    #[test]
    fn a_number_that_comes_again_counts_for_each_queue_pair_by_itself() {
        assert_eq!(
            count(&[(2, 0), (3, 0), (2, 1), (3, 1), (2, 7)]),
            0,
            "numbers that are skipped are not sent"
        );
        assert_eq!(count(&[(2, 0), (3, 0), (2, 1), (2, 0), (2, 1), (2, 2), (3, 1)]), 2);
        assert_eq!(count(&[(2, 0xff_ffff), (2, 0), (2, 0xff_ffff)]), 1, "numbers wrap");
    }

    #[test]
    fn a_number_that_comes_late_counts_when_it_comes_again() {
        assert_eq!(count(&[(2, 5), (2, 3), (2, 9), (2, 8), (2, 7), (2, 4)]), 0);
        assert_eq!(count(&[(2, 5), (2, 3), (2, 9), (2, 8), (2, 3), (2, 7), (2, 8), (2, 9), (2, 6)]), 3);
    }

    #[test]
    fn a_question_is_no_data() {
        let remote = Endpoint { ip: [10, 0, 0, 2].into(), qp: QpNumber::new(16) };
        let senders = vec![Sender::new([(remote, 0)].into_iter())];
        let mut counter = Retransmissions { senders, frames: vec![0] };
        for (number, is_empty) in [(0, false), (1, false), (0, true), (1, false)] {
            counter.sent(NodeIndex(0), &header(2, number, Operation::Send(Position::Only)), is_empty);
        }
        assert_eq!(counter.frames, [1]);
    }

    #[test]
    fn acknowledges_and_what_passes_count_nothing() {
        assert_eq!(count(&[(4, 5), (4, 5)]), 0);
        let mut counter = Retransmissions::default();
        let acknowledge = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 0 });
        counter.sent(NodeIndex(0), &header(2, 0, acknowledge), true);
        assert!(counter.frames.is_empty());
    }
}
