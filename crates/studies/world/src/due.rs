//! What is due when: the simulator's queue of keys, and beside it what each key stands for. What is taken back leaves an empty place, and what is
//! put off stays where it is in the queue; the key finds out when its time has come. So a timer that is set anew again and again costs nothing
//! but its new time.

use quincunx_driver_des::EventQueue;
use quincunx_units::Instant;

/// What is due, each at its time; at one instant in the order in which it was put in, or put off.
#[derive(Debug)]
pub(crate) struct Due<E> {
    queue: EventQueue,
    places: Vec<Option<Entry<E>>>,
    free: Vec<u32>,
    next: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    number: u64,
    /// When its key comes up: then, or before.
    looked_at: Instant,
    event: E,
}

/// Names something that is due, until it happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u32);

impl<E> Due<E> {
    pub(crate) fn new() -> Self {
        Self { queue: EventQueue::new(), places: Vec::new(), free: Vec::new(), next: 0 }
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Something is due then.
    pub(crate) fn push(&mut self, at: Instant, event: E) -> Ticket {
        let number = self.next_number();
        let entry = Some(Entry { at, number, looked_at: at, event });
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = entry;
                place
            }
            None => {
                self.places.push(entry);
                self.places.len() as u32 - 1
            }
        };
        self.queue.push(at, number, place);
        Ticket(place)
    }

    /// It will not happen.
    pub(crate) fn take_back(&mut self, ticket: Ticket) {
        self.places[ticket.0 as usize] = None;
    }

    /// It happens then, and not when it was to.
    pub(crate) fn put_off(&mut self, ticket: Ticket, at: Instant) -> Ticket {
        let number = self.next_number();
        let place = &mut self.places[ticket.0 as usize];
        match place.take_if(|entry| at < entry.looked_at) {
            Some(entry) => self.push(at, entry.event),
            None => {
                let entry = place.as_mut().expect("a ticket is of what is due");
                (entry.at, entry.number) = (at, number);
                ticket
            }
        }
    }

    /// What is due first: when, and the how-manieth it was that was put in.
    pub(crate) fn pop(&mut self) -> Option<(Instant, u64, E)> {
        loop {
            let (_, key, place) = self.queue.pop()?;
            let due = &mut self.places[place as usize];
            match due.take_if(|entry| entry.number == key) {
                Some(Entry { at, number, event, .. }) => {
                    self.free.push(place);
                    return Some((at, number, event));
                }
                None => match due {
                    Some(later) => {
                        later.looked_at = later.at;
                        self.queue.push(later.at, later.number, place);
                    }
                    None => self.free.push(place),
                },
            }
        }
    }
}
