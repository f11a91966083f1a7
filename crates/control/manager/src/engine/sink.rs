//! Where the answers of managers, agents, clients and stores go.

use super::message::{ControlDrop, ControlEvent, ControlTimer, Message};
use quincunx_collective::LengthOnly;
use quincunx_engine::{Frame, PortId};
use quincunx_units::Duration;

/// Where they go.
pub(super) trait ControlSink {
    /// Sends a message.
    fn transmit(&mut self, port: PortId, frame: Frame<'_, Message, LengthOnly>);

    /// Arms `timer` to fire `after` from now, in place of any earlier deadline.
    fn set_timer(&mut self, timer: ControlTimer, after: Duration);

    /// Disarms `timer`; nothing happens if it is not armed.
    fn cancel_timer(&mut self, timer: ControlTimer);

    /// Tells the owner something.
    fn emit(&mut self, event: ControlEvent);

    /// Counts a message that was not heard.
    fn drop_frame(&mut self, port: PortId, reason: ControlDrop);
}

const NOTHING: LengthOnly = LengthOnly::new(0);

/// Says something.
pub(super) fn say(port: PortId, message: Message, out: &mut impl ControlSink) {
    out.transmit(port, Frame { header: &message, payload: NOTHING });
}
