//! What all programs above the [`Writer`] do alike: they relay, take what the writer delivers, and end their group when a queue pair
//! fails or a peer breaks the protocol.

use quincunx_collective::Payload;
use quincunx_engine::verbs::{Alarm, Completion, Failure, Outcome, QpIndex, Verbs, WorkId};

use crate::writer::{Delivery, ProtocolViolation, RELAY, Writer};

/// Fires when everything is prepared for several ways.
pub(crate) const PREPARED: Alarm = Alarm(1);

/// Fires when a rank has waited long for tokens of which it was told how many come.
pub(crate) const WAITED: Alarm = Alarm(2);

/// A program above the writer: it says what is its own, and handles completions and alarms as all of them do.
pub(crate) trait Relaying<P: Payload> {
    fn writer(&mut self) -> &mut Writer;

    /// Whether the group has ended.
    fn has_failed(&self) -> bool;

    /// Ends the group. Returns the outcome if somebody waits for one.
    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome>;

    /// Takes the end of a message that was sent.
    fn handle_sent(&mut self, id: WorkId, verbs: &mut dyn Verbs<P>);

    /// Takes data for this rank. Returns whether the protocol allows it.
    fn deliver(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) -> bool;

    /// Takes a message without data from a neighbour. Returns whether the protocol allows it.
    fn handle_message(&mut self, _qp: QpIndex, _immediate: u32, _verbs: &mut dyn Verbs<P>) -> bool {
        false
    }

    /// Writes this rank's own data, once everything is prepared.
    fn post(&mut self, _verbs: &mut dyn Verbs<P>) {}

    /// Says what this rank has sent, if it waits still.
    fn wait_long(&mut self, _verbs: &mut dyn Verbs<P>) {}

    /// Does what the last event has made possible. Returns the outcome when the collective is done.
    fn proceed(&mut self, _verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        None
    }

    /// The `handle_completion` of the program.
    fn relay_completion(
        &mut self,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.has_failed() {
            return None;
        }
        let is_allowed = match completion {
            Completion::Sent { id } => {
                self.handle_sent(id, verbs);
                true
            }
            Completion::Written { target, immediate, .. } => {
                match self.writer().handle_written(qp, target, immediate, verbs) {
                    Ok(Some(delivery)) => self.deliver(delivery, verbs),
                    Ok(None) => true,
                    Err(ProtocolViolation { .. }) => false,
                }
            }
            Completion::Received { length: 0, immediate: Some(immediate), .. } => {
                self.handle_message(qp, immediate, verbs)
            }
            Completion::Received { .. } => false,
            Completion::Failed { failure, .. } => return self.fail(qp, failure),
        };
        if is_allowed { self.proceed(verbs) } else { self.fail(qp, Failure::InvalidRequest) }
    }

    /// The `handle_alarm` of the program.
    fn relay_alarm(&mut self, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        if self.has_failed() {
            return None;
        }
        match alarm {
            RELAY => {
                let ProtocolViolation { peer } = self.writer().relay(verbs).err()?;
                let qp = self.writer().table().queue_pair(peer).expect("neighbours are connected");
                self.fail(qp, Failure::InvalidRequest)
            }
            PREPARED => {
                self.post(verbs);
                self.proceed(verbs)
            }
            WAITED => {
                self.wait_long(verbs);
                None
            }
            _ => None,
        }
    }
}
