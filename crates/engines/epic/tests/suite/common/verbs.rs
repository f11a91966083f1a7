//! What a program above queue pairs posts.

use quincunx_collective::LengthOnly;
use quincunx_engine::verbs::{Alarm, Memory, QpIndex, ReceiveRequest, SendRequest, Slice, Verbs};
use quincunx_units::{Duration, Packets};

/// Memory, and what was posted since it was taken out last.
#[derive(Default)]
pub(crate) struct Posted {
    pub(crate) memory: Memory<LengthOnly>,
    pub(crate) sends: Vec<(QpIndex, SendRequest)>,
    pub(crate) receives: Vec<(QpIndex, Slice)>,
    pub(crate) skipped: Vec<(u32, u32)>,
}

impl Verbs<LengthOnly> for Posted {
    fn memory(&mut self) -> &mut Memory<LengthOnly> {
        &mut self.memory
    }
    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        self.sends.push((qp, request));
    }
    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        self.receives.push((qp, request.sink));
    }
    fn set_alarm(&mut self, _: Alarm, _: Duration) {}
    fn skip(&mut self, _: QpIndex, sends: u32, receives: u32) {
        self.skipped.push((sends, receives));
    }
    fn skip_next(&mut self, _: QpIndex, packets: Packets) {
        self.skipped.push((0, packets.get()));
    }
}
