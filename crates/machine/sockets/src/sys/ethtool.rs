//! What an interface's driver says of it, and whether it takes VLAN tags off: `SIOCETHTOOL`.

use super::frames::request;
use nix::libc;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const GET_CHANNELS: u32 = 0x3c;

/// Of the flags: tags are taken off what comes.
const TAKES_TAGS_OFF: u32 = 1 << 8;

/// `struct ethtool_drvinfo` begins with the command and these, and has 196 bytes.
const DRIVER_NAME: std::ops::Range<usize> = 4..36;
const DRIVER_WORDS: usize = 49;

/// Asks the driver of the interface `name` something: the first of `words` is the command, the others are as it says. `socket` is any.
///
/// # Safety
/// There must be as many words as the command reads and writes.
unsafe fn ask<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    name: &str,
    mut words: [u32; WORDS],
) -> io::Result<[u32; WORDS]> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the pointer is to an `ifreq` that lives for the call, as do the words that it points to, as many as the caller vouches for.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(words) }
}

/// Receive queues of the interface `name`; one if its driver does not say.
pub fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> u32 {
    let mut words = [0; 9];
    words[0] = GET_CHANNELS;
    // SAFETY: `struct ethtool_channels` has nine words.
    let found = unsafe { ask(socket, name, words) };
    // Behind four maxima: those that receive, that send, that do something else, that do both.
    found.map_or(1, |words| (words[5] + words[8]).max(1))
}

/// The name of the driver; empty if there is none.
pub fn driver(socket: BorrowedFd<'_>, name: &str) -> String {
    let mut words = [0; DRIVER_WORDS];
    words[0] = GET_DRIVER;
    // SAFETY: `struct ethtool_drvinfo` has so many words.
    let words = unsafe { ask(socket, name, words) }.unwrap_or([0; DRIVER_WORDS]);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = &bytes[DRIVER_NAME];
    String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Has the driver leave VLAN tags in frames, or take them off again; whether it took them off before.
pub fn take_tags_off(socket: BorrowedFd<'_>, name: &str, wanted: bool) -> io::Result<bool> {
    // SAFETY: `struct ethtool_value` has two words.
    let get = || unsafe { ask(socket, name, [GET_FLAGS, 0]) }.map(|words| words[1]);
    let before = get()?;
    let flags = if wanted { before | TAKES_TAGS_OFF } else { before & !TAKES_TAGS_OFF };
    if flags != before {
        // SAFETY: as above.
        unsafe { ask(socket, name, [SET_FLAGS, flags]) }?;
        if get()? & TAKES_TAGS_OFF != flags & TAKES_TAGS_OFF {
            return Err(io::Error::other("a driver that keeps them off"));
        }
    }
    Ok(before & TAKES_TAGS_OFF != 0)
}
