//! What runs above queue pairs and below the application: the seam between engines and what drives them.

use crate::routing::Routed;
use crate::verbs::{Alarm, CollectiveRequest, Completion, Outcome, QpIndex, RequestError, Verbs};
use crate::writes::OneSided;
use quincunx_collective::Payload;
use quincunx_units::Instant;

/// A collective algorithm on one node, above queue pairs and below the application: EPIC's CommLib, a ring, a tree; or what a switch
/// runs whose queue pairs end there.
pub trait Program<P: Payload> {
    /// Called once, when the node joins the group: what peers may reach before the first collective here is made ready.
    fn initialise(&mut self, _verbs: &mut dyn Verbs<P>) {}

    /// Begins a collective. It may end at once (a group of one): then the outcome is returned here.
    ///
    /// # Errors
    /// If the program does not offer the collective, or the request makes no sense. Nothing has changed then; nodes that no
    /// application runs on, such as switches, offer none.
    fn start(
        &mut self,
        _now: Instant,
        request: CollectiveRequest,
        _verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        Err(RequestError::NotOffered { found: request.collective })
    }

    /// Takes the end of a work request; returns the outcome of the collective when this was the last of it. A failure also ends a
    /// group that runs no collective.
    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome>;

    /// The outcome of the next collective that has ended already, after one that was returned: collectives end in the order in
    /// which they were started.
    fn next_outcome(&mut self) -> Option<Outcome> {
        None
    }

    /// How many collectives may be under way at once.
    fn depth(&self) -> usize {
        1
    }

    /// Takes an alarm that the program has set; returns the outcome of the collective when this was the last of it.
    fn handle_alarm(&mut self, _now: Instant, _alarm: Alarm, _verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        None
    }

    /// The program as one that also offers writes of the application's own, if it does.
    fn as_one_sided(&mut self) -> Option<&mut dyn OneSided<P>> {
        None
    }

    /// The program as one that dispatches tokens, and has to be told whom they are for, if it does.
    fn as_routed(&mut self) -> Option<&mut dyn Routed> {
        None
    }

    /// Bytes of buffers that the program has registered for what others send (EPIC F.3): what it takes of a switch's memory.
    fn buffer_bytes(&self) -> usize {
        0
    }

    /// Panics if the state breaks a rule that must always hold.
    fn assert_invariants(&self);
}

crate::erased! {
    /// A program of any type.
    pub trait AnyProgram<P: Payload>: Program<P>
}
