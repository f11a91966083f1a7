//! Open files on their way from process to process, with a few bytes each time.

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Files in one message; the kernel takes 253.
pub(crate) const MOST: usize = 128;

/// Sends `bytes` with `files`, which stay open here, too.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let files: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let message = [ControlMessage::ScmRights(&files)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &message, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives what [`send`] has sent, as many bytes; nothing if the other end is closed.
pub(crate) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Option<Vec<OwnedFd>>> {
    let length = bytes.len();
    let mut pieces = [IoSliceMut::new(bytes)];
    let mut space = nix::cmsg_space!([RawFd; MOST]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            received => break received?,
        }
    };
    let mut files = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            // SAFETY: the kernel has just opened these files for this process, and nobody else here knows their numbers.
            files.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    match message.bytes {
        0 => Ok(None),
        whole if whole == length => Ok(Some(files)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
