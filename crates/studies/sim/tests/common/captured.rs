//! What a simulation of a memory fabric has written.

use quincunx_sim::Out;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Bytes that are looked at when all have been written.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub(crate) fn out(&self) -> Option<Out> {
        Some(Box::new(self.clone()))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The packets of a capture, as bytes, by interface; every interface must have the link type USER0.
pub(crate) fn packets(capture: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut packets, mut at) = (Vec::new(), 0);
    while at < capture.len() {
        let word = |place: usize| u32::from_le_bytes(capture[at + place..][..4].try_into().expect("a word"));
        match word(0) {
            1 => assert_eq!(word(8) & 0xffff, 147),
            6 => packets.push((word(8), capture[at + 28..][..word(20) as usize].to_vec())),
            _ => {}
        }
        at += word(4) as usize;
    }
    packets
}
