//! What runs on a rank: it sends its vector in messages, at most a window of them before their sums, which it receives where they belong.

use quincunx_collective::{Collective, Payload, Rank, Reduction};
use quincunx_design::Transport;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Outcome, Program, QpIndex, ReceiveRequest, RequestError, SendRequest,
    Slice, Verb, Verbs, WorkId,
};
use quincunx_units::Instant;

/// The queue pair to the switch.
const SERVER: QpIndex = QpIndex(0);

/// A rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Worker {
    /// Bytes of a full message.
    message: usize,
    /// Messages before their sums.
    window: usize,
    running: Option<Running>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    request: CollectiveRequest,
    /// Messages in all, and of those: posted, acknowledged, and with their sum.
    messages: usize,
    posted: usize,
    sent: usize,
    summed: usize,
}

/// Bits of an immediate that say how elements are combined.
const REDUCTION_BITS: u32 = 8;

/// What each message of a collective of so many bytes says: how elements are combined and, in the other bits, a digest of all that ranks
/// must agree on.
pub(crate) fn encode(request: &CollectiveRequest, length: usize) -> u32 {
    let reduction = Reduction::all().position(|one| one == request.reduction).unwrap_or(0) as u32;
    request.digest(length, u32::BITS - REDUCTION_BITS) << REDUCTION_BITS | reduction
}

/// How elements are combined, read back; nothing if it makes no sense.
pub(crate) fn decode(immediate: u32) -> Option<Reduction> {
    Reduction::all().nth((immediate & ((1 << REDUCTION_BITS) - 1)) as usize)
}

impl Worker {
    pub(crate) fn new(transport: &Transport) -> Self {
        let message = transport.mtu.as_usize() * transport.message.as_usize();
        Self { message, window: transport.window.as_usize(), running: None }
    }

    /// Posts what the window allows: the receive request of a sum before the message that leads to it.
    fn post<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        let Some(running) = &mut self.running else { return };
        while running.posted < running.messages && running.posted < running.summed + self.window {
            let id = WorkId(running.posted as u64);
            let cut = |whole: Slice| {
                let offset = running.posted * self.message;
                let length = self.message.min(whole.length - offset);
                Slice { offset: whole.offset + offset, length, ..whole }
            };
            let CollectiveRequest { input, output, .. } = running.request;
            verbs.post_receive(SERVER, ReceiveRequest { id, sink: cut(output) });
            // A Barrier has no bytes, and all else is as long as its input.
            let immediate = Some(encode(&running.request, input.length));
            verbs.post_send(SERVER, SendRequest { id, verb: Verb::Send, source: cut(input), immediate });
            running.posted += 1;
        }
    }
}

impl<P: Payload> Program<P> for Worker {
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        if !matches!(request.collective, Collective::AllReduce | Collective::Barrier) {
            return Err(RequestError::NotOffered { found: request.collective });
        }
        if self.running.is_some() {
            return Err(RequestError::Busy);
        }
        // Of neither does it matter who this is, and among how many.
        let length = request.check(Rank(0), 1, verbs.memory())?;
        // A Barrier is an AllReduce of nothing: one empty message.
        let messages = length.div_ceil(self.message).max(1);
        self.running = Some(Running { request, messages, posted: 0, sent: 0, summed: 0 });
        self.post(verbs);
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if let Completion::Failed { failure, .. } = completion {
            return Some(Outcome::Failed { qp, failure });
        }
        let running = self.running.as_mut()?;
        match completion {
            Completion::Sent { .. } => running.sent += 1,
            _ => running.summed += 1,
        }
        if running.sent == running.messages && running.summed == running.messages {
            self.running = None;
            return Some(Outcome::Done);
        }
        self.post(verbs);
        None
    }

    fn assert_invariants(&self) {
        if let Some(running) = &self.running {
            assert!(running.posted <= running.summed + self.window, "a window is not exceeded");
        }
    }
}
