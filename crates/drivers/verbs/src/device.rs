//! A device and its queue pairs: brought up and down, fed with work, asked what has ended.

use crate::abi::{
    AddressHandle, Capacity, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_WC_WITH_IMM,
    PairAttributes, WorkCompletion, gid_of, mask,
};
use crate::arena::Ring;
use crate::error::DeviceError;
use crate::sys::{Buffer, Opened, PORT, PairHandle};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quincunx_engine::verbs::{Failure, WorkId};
use quincunx_units::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Work requests that each queue of a queue pair holds; more wait here.
const DEPTH: usize = 256;

/// Completions taken at once.
const BATCH: usize = 32;

/// In the identifier of work: it is a receive request.
const RECEIVE: u64 = 1 << 63;

/// The most that a 3-bit count of retries says: for ever, or as near as hardware comes to it.
const MOST_RETRIES: u8 = 7;

/// How a queue pair is brought up: both ends must agree on the MTU and on each other's first PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The other end's address.
    pub remote_address: IpAddr,
    /// The number of its queue pair.
    pub remote_number: u32,
    /// Payload of a full packet in bytes: a path MTU of InfiniBand.
    pub mtu: usize,
    /// PSN of the first packet sent.
    pub send_psn: u32,
    /// PSN of the first packet expected.
    pub expected_psn: u32,
    /// How long nothing is acknowledged before everything outstanding is sent again; rounded up to what hardware has.
    pub retry_timeout: Duration,
    /// How many time-outs in a row are followed by another try.
    pub retry_count: u16,
    /// How long a peer is told to wait when no receive request is posted, as a code.
    pub rnr_timer: u8,
    /// How many such answers in a row are followed by another try.
    pub rnr_retry_count: u8,
    /// Bytes of messages that may be under way in each direction, at least.
    pub window: usize,
}

/// The end of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended<'a> {
    /// The peer has acknowledged a message.
    Sent(WorkId),
    /// A message has arrived.
    Received {
        /// The receive request.
        id: WorkId,
        /// What it holds.
        bytes: &'a [u8],
        /// The peer's 32 bits.
        immediate: Option<u32>,
    },
    /// It failed, and the queue pair takes no more.
    Failed(WorkId, Failure),
}

/// What waits for room in a queue.
enum Waiting {
    Send(Vec<u8>, Option<u32>),
    Receive(usize),
}

/// One direction of a queue pair.
struct Queue {
    buffer: Buffer,
    ring: Ring,
    /// What hardware has, oldest first: the request, and its place in the buffer.
    posted: VecDeque<(WorkId, usize)>,
    waiting: VecDeque<(WorkId, Waiting)>,
}

impl Queue {
    fn new(opened: &Opened, bytes: usize) -> Result<Self, DeviceError> {
        let ring = Ring::new(bytes);
        let buffer = opened.buffer(ring.capacity())?;
        Ok(Self { buffer, ring, posted: VecDeque::new(), waiting: VecDeque::new() })
    }

    fn take(&mut self, length: usize) -> Option<usize> {
        if self.posted.len() < DEPTH { self.ring.take(length) } else { None }
    }
}

struct Live {
    sends: Queue,
    receives: Queue,
}

struct QueuePair {
    pair: PairHandle,
    /// How often it has been brought up: what is left of a connection before says nothing.
    generation: u32,
    live: Option<Live>,
    /// Work that could not be posted.
    refused: VecDeque<WorkId>,
}

/// A device with RoCEv2 at an IP address.
pub struct Device {
    opened: Opened,
    pairs: BTreeMap<u32, QueuePair>,
}

impl Device {
    /// Opens the device that has `address`, and makes so many queue pairs there.
    ///
    /// # Errors
    /// Without libibverbs, without such a device, or if it refuses.
    pub fn open(address: IpAddr, queue_pairs: usize) -> Result<Self, DeviceError> {
        let completions = (2 * DEPTH * queue_pairs) as i32;
        let mut device = Self { opened: Opened::find(address, completions)?, pairs: BTreeMap::new() };
        let depth = DEPTH as u32;
        let capacity =
            Capacity { sends: depth, receives: depth, send_elements: 1, receive_elements: 1, inline: 0 };
        for _ in 0..queue_pairs {
            let pair = device.opened.make_pair(capacity)?;
            let number = device.opened.number(pair);
            let made = QueuePair { pair, generation: 0, live: None, refused: VecDeque::new() };
            device.pairs.insert(number, made);
        }
        device.opened.arm()?;
        Ok(device)
    }

    /// The numbers of its queue pairs.
    pub fn numbers(&self) -> Vec<u32> {
        self.pairs.keys().copied().collect()
    }

    /// Brings a queue pair up: RESET to INIT, to RTR with the PSN that it expects, to RTS with the PSN that it sends.
    ///
    /// # Errors
    /// If there is none of that number, or the device refuses; it is down then.
    pub fn connect(&mut self, number: u32, connection: &Connection) -> Result<(), DeviceError> {
        self.disconnect(number)?;
        let opened = &self.opened;
        let found = self.pairs.get_mut(&number);
        let entry = found.ok_or(DeviceError::NoQueuePair { found: number })?;
        bring_up(opened, entry.pair, connection)?;
        // Rings lose some room at their end.
        let sends = Queue::new(opened, 2 * connection.window)?;
        match Queue::new(opened, 4 * connection.window) {
            Ok(receives) => entry.live = Some(Live { sends, receives }),
            Err(error) => {
                opened.free(sends.buffer);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes a queue pair that is up and has no work to RESET and brings it up again, with other PSNs: the one way in which standard verbs
    /// change them. Its buffers stay registered.
    ///
    /// # Errors
    /// If there is none of that number that is up, or the device refuses; it is of no use then until it is [connected](Self::connect).
    pub fn restart(&mut self, number: u32, connection: &Connection) -> Result<(), DeviceError> {
        let found = self.pairs.get_mut(&number).filter(|entry| entry.live.is_some());
        let entry = found.ok_or(DeviceError::NoQueuePair { found: number })?;
        let reset = PairAttributes { state: IBV_QPS_RESET, ..PairAttributes::default() };
        self.opened.modify(entry.pair, reset, mask::STATE)?;
        bring_up(&self.opened, entry.pair, connection)
    }

    /// Takes a queue pair down, to RESET; what it had under way ends without a word.
    ///
    /// # Errors
    /// If there is none of that number, or the device refuses.
    pub fn disconnect(&mut self, number: u32) -> Result<(), DeviceError> {
        let found = self.pairs.get_mut(&number);
        let entry = found.ok_or(DeviceError::NoQueuePair { found: number })?;
        let reset = PairAttributes { state: IBV_QPS_RESET, ..PairAttributes::default() };
        self.opened.modify(entry.pair, reset, mask::STATE)?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.refused.clear();
        if let Some(Live { sends, receives }) = entry.live.take() {
            self.opened.free(sends.buffer);
            self.opened.free(receives.buffer);
        }
        Ok(())
    }

    /// Queues a message to the peer.
    pub fn post_send(&mut self, number: u32, id: WorkId, bytes: &[u8], immediate: Option<u32>) {
        self.post(number, id, Waiting::Send(bytes.to_vec(), immediate));
    }

    /// Queues a place for a message of at most so many bytes.
    pub fn post_receive(&mut self, number: u32, id: WorkId, length: usize) {
        self.post(number, id, Waiting::Receive(length));
    }

    fn post(&mut self, number: u32, id: WorkId, work: Waiting) {
        let Some(entry) = self.pairs.get_mut(&number) else { return };
        match &mut entry.live {
            Some(live) => {
                let queue = match work {
                    Waiting::Send(..) => &mut live.sends,
                    Waiting::Receive(_) => &mut live.receives,
                };
                queue.waiting.push_back((id, work));
                fill(&self.opened, entry);
            }
            None => entry.refused.push_back(id),
        }
    }

    /// Tells `each` what has ended, of which queue pair; returns how much that was.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn poll(&mut self, mut each: impl FnMut(u32, Ended<'_>)) -> Result<usize, DeviceError> {
        let mut batch = [WorkCompletion::default(); BATCH];
        let mut told = 0;
        for (number, entry) in &mut self.pairs {
            for id in entry.refused.drain(..) {
                each(*number, Ended::Failed(id, Failure::Flushed));
                told += 1;
            }
        }
        let count = self.opened.poll(&mut batch)?;
        for completion in &batch[..count] {
            let number = completion.number;
            let Some(entry) = self.pairs.get_mut(&number) else { continue };
            let of_now = completion.id & !RECEIVE == u64::from(entry.generation);
            let Some(live) = entry.live.as_mut().filter(|_| of_now) else { continue };
            let is_receive = completion.id & RECEIVE != 0;
            let queue = if is_receive { &mut live.receives } else { &mut live.sends };
            // Each queue's work ends in the order in which it was posted.
            let Some((id, at)) = queue.posted.pop_front() else { continue };
            queue.ring.give_back(queue.posted.front().map(|(_, at)| *at));
            let immediate =
                (completion.flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(completion.immediate));
            each(
                number,
                match failure(completion.status) {
                    Some(failure) => Ended::Failed(id, failure),
                    None if is_receive => {
                        let bytes = queue.buffer.view(at, completion.length as usize);
                        Ended::Received { id, bytes, immediate }
                    }
                    None => Ended::Sent(id),
                },
            );
            told += 1;
            fill(&self.opened, entry);
        }
        Ok(told)
    }

    /// Waits until something ends, `other` becomes readable, or `limit` is over.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn wait(&mut self, limit: Duration, other: BorrowedFd<'_>) -> Result<(), DeviceError> {
        let mut files = [self.opened.channel(), other].map(|file| PollFd::new(file, PollFlags::POLLIN));
        let milliseconds = (limit.as_micros_f64() / 1e3).ceil() as u16;
        match poll(&mut files, PollTimeout::from(milliseconds)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(DeviceError::Call { call: "poll", error: error.into() }),
        }
        if files[0].any().unwrap_or(false) {
            self.opened.take_event();
            // What ends from now on is told again; what has ended until now is polled next.
            self.opened.arm()?;
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        for (_, entry) in std::mem::take(&mut self.pairs) {
            self.opened.destroy(entry.pair);
            if let Some(Live { sends, receives }) = entry.live {
                self.opened.free(sends.buffer);
                self.opened.free(receives.buffer);
            }
        }
    }
}

/// Takes a queue pair from RESET to RTS.
fn bring_up(opened: &Opened, pair: PairHandle, connection: &Connection) -> Result<(), DeviceError> {
    let path_mtu = match connection.mtu {
        256 => 1,
        512 => 2,
        1024 => 3,
        2048 => 4,
        4096 => 5,
        found => return Err(DeviceError::Mtu { found }),
    };
    let init = PairAttributes { state: IBV_QPS_INIT, port: PORT, ..PairAttributes::default() };
    opened.modify(pair, init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
    let ready_to_receive = PairAttributes {
        state: IBV_QPS_RTR,
        path_mtu,
        remote_number: connection.remote_number,
        receive_psn: connection.expected_psn,
        reads_of_peer: 1,
        rnr_timer: connection.rnr_timer,
        address: AddressHandle {
            gid: gid_of(connection.remote_address),
            gid_index: opened.gid_index,
            hop_limit: 64,
            is_global: 1,
            port: PORT,
            ..AddressHandle::default()
        },
        ..PairAttributes::default()
    };
    opened.modify(
        pair,
        ready_to_receive,
        mask::STATE
            | mask::AV
            | mask::PATH_MTU
            | mask::DEST_QPN
            | mask::RQ_PSN
            | mask::MAX_DEST_RD_ATOMIC
            | mask::MIN_RNR_TIMER,
    )?;
    let ready_to_send = PairAttributes {
        state: IBV_QPS_RTS,
        send_psn: connection.send_psn,
        reads: 1,
        timeout: timeout_code(connection.retry_timeout),
        retry_count: connection.retry_count.min(MOST_RETRIES.into()) as u8,
        rnr_retry_count: connection.rnr_retry_count.min(MOST_RETRIES),
        ..PairAttributes::default()
    };
    opened.modify(
        pair,
        ready_to_send,
        mask::STATE
            | mask::TIMEOUT
            | mask::RETRY_CNT
            | mask::RNR_RETRY
            | mask::SQ_PSN
            | mask::MAX_QP_RD_ATOMIC,
    )
}

/// Hands hardware what has waited, as far as there is room.
fn fill(opened: &Opened, entry: &mut QueuePair) {
    let Some(live) = &mut entry.live else { return };
    let generation = u64::from(entry.generation);
    for queue in [&mut live.sends, &mut live.receives] {
        while let Some((id, work)) = queue.waiting.front() {
            let id = *id;
            let length = match work {
                Waiting::Send(bytes, _) => bytes.len(),
                Waiting::Receive(length) => *length,
            };
            let Some(at) = queue.take(length) else { break };
            let Some((_, work)) = queue.waiting.pop_front() else { break };
            let posted = match work {
                Waiting::Send(bytes, immediate) => {
                    queue.buffer.write(at, &bytes);
                    opened.post_send(entry.pair, generation, queue.buffer.element(at, length), immediate)
                }
                Waiting::Receive(_) => {
                    opened.post_receive(entry.pair, generation | RECEIVE, queue.buffer.element(at, length))
                }
            };
            match posted {
                Ok(()) => queue.posted.push_back((id, at)),
                Err(_) => {
                    entry.refused.push_back(id);
                    return;
                }
            }
        }
    }
}

/// The shortest time-out of hardware, 4.096 us times a power of two, that is not less than `time`.
fn timeout_code(time: Duration) -> u8 {
    (1..31).find(|code| 4.096 * f64::from(1_u32 << code) >= time.as_micros_f64()).unwrap_or(31)
}

/// What a status of `ibv_wc` says.
fn failure(status: u32) -> Option<Failure> {
    match status {
        0 => None,
        1 => Some(Failure::Length),
        9 => Some(Failure::InvalidRequest),
        10 => Some(Failure::RemoteAccess),
        11 => Some(Failure::RemoteOperational),
        12 => Some(Failure::RetryExceeded),
        13 => Some(Failure::ReceiverNotReadyRetryExceeded),
        _ => Some(Failure::Flushed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_is_rounded_up_to_one_that_hardware_has() {
        assert_eq!(timeout_code(Duration::from_millis(67)), 14, "67.1 ms");
        assert_eq!(timeout_code(Duration::from_millis(68)), 15);
        assert_eq!(timeout_code(Duration::from_micros(1)), 1);
        assert_eq!(timeout_code(Duration::from_secs(100_000)), 31);
    }

    #[test]
    fn where_there_is_no_device_an_error_says_so() {
        let error = match Device::open(IpAddr::from([203, 0, 113, 9]), 1) {
            Ok(_) => panic!("a device has an address of TEST-NET-3"),
            Err(error) => error.to_string(),
        };
        assert!(error.starts_with("expected "), "{error}");
    }
}
