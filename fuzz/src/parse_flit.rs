//! Any bytes as a packet of the memory fabric: no panic, and what is taken is the same after it was written again.

use quincunx_wire::flit::{FlitFormat, FlitHeader, Transaction};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let Ok((header, payload)) = FlitHeader::parse(bytes) else { return };
    let mut again = vec![0; header.emitted_length(payload.len())];
    header.emit(payload, &mut again);
    assert_eq!(FlitHeader::parse(&again), Ok((header, payload)));
    assert!(payload.is_empty() || header.transaction.carries_data());
    for format in [FlitFormat::DGX, FlitFormat::PROTOTYPE] {
        let flits = format.flits(header.transaction, payload.len());
        assert_eq!(flits == 0, header.transaction == Transaction::Credit);
        assert_eq!(flits == 0, header.channel().is_none(), "what takes no flits takes no buffer");
    }
}
