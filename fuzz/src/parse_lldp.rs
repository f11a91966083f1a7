//! Any bytes as a frame of LLDP: no panic, and what is taken is the same after it was written again.

use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{LONGEST_FRAME, LldpFrame};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let Ok(frame) = LldpFrame::parse(bytes) else { return };
    let mut again = [0; LONGEST_FRAME];
    let length = frame.emit(MacAddress([2; 6]), &mut again);
    assert_eq!(LldpFrame::parse(&again[..length]), Ok(frame));
    for text in [frame.chassis.to_string(), frame.port.to_string()] {
        assert!(text.is_ascii() && !text.contains(|letter: char| letter.is_ascii_control()), "{text:?}");
        assert!(text.len() <= 4 * 255 + 10, "{} bytes", text.len());
    }
}
