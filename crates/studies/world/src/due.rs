//! What is due when: the simulator's queue of keys, and beside it what each key stands for. What is taken back leaves an empty place, which
//! its key finds when its time has come.

use quincunx_driver_des::EventQueue;
use quincunx_units::Instant;

/// What is due, each at its time; at one instant in the order in which it was put in.
#[derive(Debug)]
pub(crate) struct Due<E> {
    queue: EventQueue,
    places: Vec<Option<E>>,
    free: Vec<u32>,
    next: u64,
}

/// Names something that is due, until it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u32);

impl<E> Due<E> {
    pub(crate) fn new() -> Self {
        Self { queue: EventQueue::new(), places: Vec::new(), free: Vec::new(), next: 0 }
    }

    /// Something is due then.
    pub(crate) fn push(&mut self, at: Instant, event: E) -> Ticket {
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(event);
                place
            }
            None => {
                self.places.push(Some(event));
                self.places.len() as u32 - 1
            }
        };
        self.queue.push(at, self.next, place);
        self.next += 1;
        Ticket(place)
    }

    /// It will not happen.
    pub(crate) fn take_back(&mut self, ticket: Ticket) {
        self.places[ticket.0 as usize] = None;
    }

    /// What is due first: when, and the how-manieth it was that was put in.
    pub(crate) fn pop(&mut self) -> Option<(Instant, u64, E)> {
        loop {
            let (at, number, place) = self.queue.pop()?;
            self.free.push(place);
            if let Some(event) = self.places[place as usize].take() {
                return Some((at, number, event));
            }
        }
    }
}
