//! An address and port that several processes of a machine have, each by a socket of its own: the kernel hands a frame to the process whose
//! share of the numbers it names (SO_REUSEPORT, with a program that reads one byte of the frame).
//!
//! The program answers with an index into the sockets bound there, in the order in which they were bound. When one of them is closed, the
//! kernel moves the last one to its index. So **each process holds a beginning of that order**, its own socket in it: processes hand each
//! other their sockets (SCM_RIGHTS). However a process ends, what the kernel closes then is an end of the order, and no index moves. Whoever
//! comes next takes a share that is free, with its socket if others hold one.
//!
//! Each process has a door, an abstract Unix socket with its share in its name: the name is taken for as long as the process lives. A
//! newcomer asks at all doors, and no two newcomers at a time. No privilege is needed; the kernel wants all processes to be of one user.

use crate::sys::{self, rights};
use crate::transport::OpenError;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, getsockopt, recv, setsockopt,
    shutdown, socket, sockopt::PeerCredentials, sockopt::ReusePort,
};
use nix::unistd::geteuid;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as DoorAddress, UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Processes that may have one address: one message hands over as many sockets.
pub(crate) const MAX_SHARES: u8 = rights::MOST as u8;

/// How long newcomers wait for each other, and for the answer of those who are there.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a newcomer that stands in the door may be silent.
const VISIT: Duration = Duration::from_secs(10);

/// How long the sockets of a process that ends may outlive its door.
const CLOSING: Duration = Duration::from_millis(500);

/// What processes at one address know each other's messages by.
pub(crate) type Token = [u8; 8];

/// The sockets of an address as far as this process holds them, by share.
#[derive(Default)]
struct Held {
    sockets: Mutex<Vec<OwnedFd>>,
    /// How many these are.
    count: AtomicUsize,
}

impl Held {
    fn add(&self, share: u8, socket: OwnedFd) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        // Of what comes after one that is missing here nothing is held: it would not be a beginning.
        if sockets.len() == usize::from(share) {
            sockets.push(socket);
            self.count.store(sockets.len(), Ordering::Release);
        }
    }
}

/// A process's share of an address. It ends with the value.
pub(crate) struct Share {
    number: u8,
    token: Token,
    held: Arc<Held>,
    door: Arc<UnixListener>,
    keeper: Option<JoinHandle<()>>,
}

impl Share {
    /// Takes a free share of `local`; frames name it in their byte `at`.
    ///
    /// # Errors
    /// If the address is not this machine's or somebody has it alone, and if those who share it are another user's, do not answer, or are too many.
    pub(crate) fn take(local: SocketAddr, at: usize) -> Result<(UdpSocket, Self), OpenError> {
        let failed =
            |expected, error, remedy| OpenError { expected, place: local.to_string(), error, remedy };
        let limits = "see the limits of the process";
        let _lock = lock(local).map_err(|error| {
            failed(
                "to be the only newcomer at the address",
                error,
                "see whether a process hangs while it starts",
            )
        })?;
        let mut call = Call::everybody(local)
            .map_err(|error| failed("to ask those who share the address", error, limits))?;
        if let Some(user) = call.foreigner {
            let error = io::Error::other(format!("a process of user {user}"));
            let remedy = "start all as one user, or give those of another user another address";
            return Err(failed("processes of one user at the address", error, remedy));
        }
        let Some((number, door)) = call.free.take() else {
            let error = io::Error::other(format!("{MAX_SHARES} processes"));
            return Err(failed("a free share of the address", error, "give some processes another address"));
        };
        let known = call.sockets.len() >= usize::from(number);
        if !known || (call.sockets.is_empty() && !call.neighbours.is_empty()) {
            let error = io::Error::other("silence");
            let remedy = "see whether processes there are stopped, or were killed and left children behind";
            return Err(failed("an answer of those who share the address", error, remedy));
        }
        let in_use = "stop who has it alone or as another user, or choose another address";
        let bound = call.socket(local, number, at);
        let (own, held, token) =
            bound.map_err(|error| failed("a UDP port at an address of this machine", error, in_use))?;
        let share = Self::open(door, number, token, held)
            .map_err(|error| failed("a door for others at the address", error, limits))?;
        Ok((UdpSocket::from(own), share))
    }

    fn open(door: UnixListener, number: u8, token: Token, held: Held) -> io::Result<Self> {
        let (door, held) = (Arc::new(door), Arc::new(held));
        let (visited, shown) = (Arc::clone(&door), Arc::clone(&held));
        let keeper = thread::Builder::new().name("quincunx-door".into());
        let keeper = keeper.spawn(move || keep(&visited, &shown, token))?;
        Ok(Self { number, token, held, door, keeper: Some(keeper) })
    }

    /// Which it is.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Shares that have a socket, this one among them; a number beyond them is nobody's.
    pub(crate) fn count(&self) -> usize {
        self.held.count.load(Ordering::Acquire)
    }

    /// What those at the address know each other's messages by.
    pub(crate) fn token(&self) -> Token {
        self.token
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // This ends the keeper's wait.
        let _ = shutdown(self.door.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Lets newcomers in, until the door is shut.
fn keep(door: &UnixListener, held: &Held, token: Token) {
    loop {
        match door.accept() {
            Ok((visitor, _)) => {
                // One that goes away in between is none.
                let _ = receive(&visitor, held, token);
            }
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return,
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Shows a newcomer all sockets, and takes his.
fn receive(visitor: &UnixStream, held: &Held, token: Token) -> io::Result<()> {
    if user(visitor)? != geteuid().as_raw() {
        return Ok(());
    }
    visitor.set_read_timeout(Some(VISIT))?;
    visitor.set_write_timeout(Some(VISIT))?;
    {
        let sockets = held.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        // One that is gone may have left its socket.
        let _ = rights::send(visitor.as_fd(), &token, &files);
    }
    let mut number = [0];
    while let Some(files) = rights::receive(visitor.as_fd(), &mut number)? {
        files.into_iter().for_each(|socket| held.add(number[0], socket));
    }
    Ok(())
}

/// Whom a newcomer has found at the doors, and what they have told.
#[derive(Default)]
struct Call {
    /// Each with whether it has answered.
    neighbours: Vec<(UnixStream, bool)>,
    /// The first share that is nobody's, and its door.
    free: Option<(u8, UnixListener)>,
    /// The user of somebody who is another user's.
    foreigner: Option<u32>,
    /// The most sockets that one of them holds, in their order.
    sockets: Vec<OwnedFd>,
    token: Token,
}

impl Call {
    /// Asks at all doors; once more, if somebody was about to leave.
    fn everybody(local: SocketAddr) -> io::Result<Self> {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut call = Self::knock(local)?;
            if call.foreigner.is_some() || call.listen(end) || Instant::now() >= end {
                return Ok(call);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn knock(local: SocketAddr) -> io::Result<Self> {
        let mut call = Self::default();
        for share in 0..MAX_SHARES {
            match UnixStream::connect_addr(&door_name(local, share)?) {
                Ok(stream) => {
                    let user = user(&stream)?;
                    if user != geteuid().as_raw() {
                        call.foreigner = Some(user);
                    }
                    call.neighbours.push((stream, false));
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    if call.free.is_none() {
                        // Children that a process has left behind may have its door.
                        let door = UnixListener::bind_addr(&door_name(local, share)?);
                        call.free = door.ok().map(|door| (share, door));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(call)
    }

    /// Hears what all say, or that they are silent; false if one has hung up.
    fn listen(&mut self, end: Instant) -> bool {
        for (stream, has_answered) in &mut self.neighbours {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            let mut token = Token::default();
            let answer = stream
                .set_read_timeout(Some(left))
                .and_then(|()| rights::receive(stream.as_fd(), &mut token));
            match answer {
                Ok(Some(sockets)) => {
                    *has_answered = true;
                    if sockets.len() > self.sockets.len() {
                        (self.sockets, self.token) = (sockets, token);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// The socket of a share that is free, and what this process holds then.
    fn socket(mut self, local: SocketAddr, share: u8, at: usize) -> io::Result<(OwnedFd, Held, Token)> {
        let own = match self.sockets.get(usize::from(share)) {
            Some(left) => {
                let own = left.try_clone()?;
                forget_waiting(&own);
                own
            }
            None => {
                let is_first = self.sockets.is_empty();
                if is_first {
                    await_nobody(local)?;
                    File::open("/dev/urandom")?.read_exact(&mut self.token)?;
                }
                for other in &self.sockets {
                    setsockopt(other, ReusePort, &true)?;
                }
                let own = bind_shared(local, is_first.then_some(at))?;
                // As long as it is alone the kernel need not look whose a frame is. Whoever comes next opens it again.
                setsockopt(&own, ReusePort, &!is_first)?;
                self.sockets.push(own.try_clone()?);
                self.show(share, &own);
                own
            }
        };
        let held = Held { count: AtomicUsize::new(self.sockets.len()), sockets: Mutex::new(self.sockets) };
        Ok((own, held, self.token))
    }

    /// Hands all a new socket. Whoever does not get it holds a shorter beginning.
    fn show(&self, share: u8, socket: &OwnedFd) {
        let tell = |stream: &UnixStream| {
            rights::send(stream.as_fd(), &[share], &[socket.as_fd()])?;
            stream.shutdown(Shutdown::Write)
        };
        let told: Vec<_> = self.neighbours.iter().filter(|(stream, _)| tell(stream).is_ok()).collect();
        for (stream, _) in told.into_iter().filter(|(_, has_answered)| *has_answered) {
            let mut stream: &UnixStream = stream;
            // They hang up when they have it.
            let heard = stream.set_read_timeout(Some(VISIT)).and_then(|()| stream.read(&mut [0]));
            drop(heard);
        }
    }
}

/// The user at the other end.
fn user(stream: &UnixStream) -> io::Result<u32> {
    Ok(getsockopt(stream, PeerCredentials)?.uid())
}

/// Waits until no other newcomer is at the address.
fn lock(local: SocketAddr) -> io::Result<UnixListener> {
    let name = DoorAddress::from_abstract_name(format!("quincunx/{local}/newcomer"))?;
    until(PATIENCE, || UnixListener::bind_addr(&name))
}

fn door_name(local: SocketAddr, share: u8) -> io::Result<DoorAddress> {
    DoorAddress::from_abstract_name(format!("quincunx/{local}/{share}"))
}

/// Waits until all sockets at `local` are closed: those of a process that has just ended are so a moment later.
fn await_nobody(local: SocketAddr) -> io::Result<()> {
    until(CLOSING, || UdpSocket::bind(local)).map(drop)
}

/// Tries again for a while, as long as somebody has the address.
fn until<T>(limit: Duration, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let end = Instant::now() + limit;
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                thread::sleep(Duration::from_millis(1));
            }
            bound => return bound,
        }
    }
}

/// A socket at `local` beside others; the first brings the program, for all.
fn bind_shared(local: SocketAddr, program: Option<usize>) -> io::Result<OwnedFd> {
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let own = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&own, ReusePort, &true)?;
    if let Some(at) = program {
        // Before anybody can send to it.
        sys::set_program(own.as_fd(), libc::SO_ATTACH_REUSEPORT_CBPF, &by_byte(at))?;
    }
    bind(own.as_raw_fd(), &SockaddrStorage::from(local))?;
    Ok(own)
}

/// The program: a frame is for the socket whose index its byte `at` is. Where there is none, and of what is shorter, the kernel chooses one.
fn by_byte(at: usize) -> [libc::sock_filter; 2] {
    let step = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    [step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, at as u32), step(libc::BPF_RET | libc::BPF_A, 0)]
}

/// What waits in a socket was for the process before.
fn forget_waiting(socket: &OwnedFd) {
    let end = Instant::now() + CLOSING;
    while Instant::now() < end {
        match recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
