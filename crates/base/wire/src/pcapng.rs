//! Writes captures that Wireshark opens (the pcapng format, little-endian, times in nanoseconds).
//!
//! The writer fills a buffer and knows no file: its owner takes the bytes now and then and puts them where they belong.
//!
//! ```text
//! +------------+--------------+-----------+----------------+--------------+
//! | Block type | Total length |  Body ... | pad to 4 bytes | Total length |
//! +------------+--------------+-----------+----------------+--------------+
//!       4             4                                           4            bytes
//! ```

use alloc::vec::Vec;
use core::time::Duration;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LENGTH_UNKNOWN: u64 = u64::MAX;
const NO_SNAP_LENGTH: u32 = 0;

const OPTION_END: u16 = 0;
const OPTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
/// Times count units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// What the packets of an interface begin with, by the numbers that tcpdump.org registers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet = 1,
    /// What no registry knows (USER0): readers show bytes, or have been told what they mean.
    User = 147,
}

/// An interface of one capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceId(u32);

/// A capture in the making.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    buffer: Vec<u8>,
    interfaces: u32,
}

impl Writer {
    /// A capture that says it was made by `application`, with no interface and no packet yet.
    pub fn new(application: &str) -> Self {
        let mut writer = Self { buffer: Vec::new(), interfaces: 0 };
        writer.block(SECTION_HEADER, |buffer| {
            buffer.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            buffer.extend(1u16.to_le_bytes()); // version 1.0
            buffer.extend(0u16.to_le_bytes());
            buffer.extend(LENGTH_UNKNOWN.to_le_bytes());
            option(buffer, OPTION_APPLICATION, application.as_bytes());
            option(buffer, OPTION_END, &[]);
        });
        writer
    }

    /// Describes an Ethernet interface; its packets come after it.
    pub fn interface(&mut self, name: &str) -> InterfaceId {
        self.interface_of(name, LinkType::Ethernet)
    }

    /// Describes an interface whose packets are of another kind.
    pub fn interface_of(&mut self, name: &str, packets: LinkType) -> InterfaceId {
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        self.block(INTERFACE_DESCRIPTION, |buffer| {
            buffer.extend((packets as u16).to_le_bytes());
            buffer.extend(0u16.to_le_bytes());
            buffer.extend(NO_SNAP_LENGTH.to_le_bytes());
            option(buffer, OPTION_INTERFACE_NAME, name.as_bytes());
            option(buffer, OPTION_TIME_RESOLUTION, &[NANOSECONDS]);
            option(buffer, OPTION_END, &[]);
        });
        id
    }

    /// Adds a whole packet as its interface's link type has it, seen `since_epoch` after the beginning of 1970 (or of the simulation).
    ///
    /// # Panics
    /// If `interface` is another capture's and unknown to this one.
    pub fn packet(&mut self, interface: InterfaceId, since_epoch: Duration, frame: &[u8]) {
        assert!(interface.0 < self.interfaces, "{interface:?} is not one of {} interfaces", self.interfaces);
        // 64 bits of nanoseconds last until the year 2554.
        let time = since_epoch.as_nanos() as u64;
        let length = (frame.len() as u32).to_le_bytes();
        self.block(ENHANCED_PACKET, |buffer| {
            buffer.extend(interface.0.to_le_bytes());
            buffer.extend(((time >> 32) as u32).to_le_bytes());
            buffer.extend((time as u32).to_le_bytes());
            buffer.extend(length); // captured
            buffer.extend(length); // on the wire
            buffer.extend(frame);
        });
    }

    /// Hands over what was written since the last call; all of it together, in order, is the file.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.buffer)
    }

    /// Bytes that `take` would hand over.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        self.buffer.extend(kind.to_le_bytes());
        self.buffer.extend([0; 4]);
        body(&mut self.buffer);
        pad(&mut self.buffer, start);
        let length = ((self.buffer.len() + 4 - start) as u32).to_le_bytes();
        self.buffer[start + 4..start + 8].copy_from_slice(&length);
        self.buffer.extend(length);
    }
}

fn option(buffer: &mut Vec<u8>, code: u16, value: &[u8]) {
    let start = buffer.len();
    // A longer text than the length field can say is cut.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    buffer.extend(code.to_le_bytes());
    buffer.extend((value.len() as u16).to_le_bytes());
    buffer.extend(value);
    pad(buffer, start);
}

/// Zeros up to the next multiple of four bytes from `start`.
fn pad(buffer: &mut Vec<u8>, start: usize) {
    let length = (buffer.len() - start).next_multiple_of(4);
    buffer.resize(start + length, 0);
}
