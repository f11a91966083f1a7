//! What the tests of ports share: leave to make namespaces, and a node that sends everything back.

use quincunx_needs::{Missing, namespaces};
use quincunx_sockets::{Flow, Inbox, Outbox, Transport};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of every node.
pub(crate) const PORT: u16 = 4791;

/// Leave to use namespaces, one test at a time: all that each forwards lies in memory.
pub(crate) fn leave() -> Result<MutexGuard<'static, ()>, Missing> {
    static ONE: Mutex<()> = Mutex::new(());
    namespaces().map(|()| ONE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A node without an engine: each frame goes back to its sender.
pub(crate) struct Echo {
    inbox: Inbox,
    outbox: Outbox,
}

impl Echo {
    pub(crate) fn new(transport: &impl Transport) -> Self {
        // Room for all that the inbox may hold.
        let outbox = Outbox::new(8 << 20, transport.max_frames());
        Self { inbox: Inbox::new(transport.receive_batch()), outbox }
    }

    /// Waits a moment for frames, and sends them back.
    pub(crate) fn turn(&mut self, transport: &mut impl Transport) {
        transport.receive(&mut self.inbox, true).expect("it works");
        while let Some((datagram, bytes)) = self.inbox.next_frame() {
            let flow = Flow { destination: datagram.source, share: 0, tos: datagram.tos };
            self.outbox.reserve(bytes.len()).expect("room for all that has come").copy_from_slice(bytes);
            self.outbox.commit(bytes.len(), flow, false);
        }
        while !self.outbox.is_empty() {
            let sent = transport.send(&self.outbox).expect("whoever has sent something is known");
            self.outbox.remove(sent);
        }
    }
}
