//! What designs above queue pairs have in common: how messages are cut into packets, and when those are sent again.

use crate::{Help, Refusal};
use alloc::format;
use quincunx_engine::MAX_CHANNELS;
use quincunx_units::{BitRate, ByteCount, Duration, Messages, Packets};
use serde::{Deserialize, Deserializer, Serialize};

/// How a group's queue pairs are set up. Its fields are keys below `group`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Transport {
    /// Bytes of payload in a full packet: U in EPIC's table 2.
    pub mtu: ByteCount,
    /// Packets in a full message: M.
    pub message: Packets,
    /// Messages that a rank may have outstanding: W.
    pub window: Messages,
    /// Packets between two that ask for an acknowledge; a message if it is not said.
    pub acknowledge_every: Option<Packets>,
    /// The longest that a sender waits for an answer before it asks for it; it follows the round-trip time. Without `selective` it is always
    /// this, and then all is sent again.
    pub retry_timeout: Duration,
    /// How often in a row it does so, after that time, before the peer counts as dead.
    pub retry_count: u16,
    /// Send again what is missing and nothing else, as soon as a round trip allows; otherwise everything from there on, as RoCE NICs do.
    pub selective: bool,
    /// The rate that senders slow down from when links mark congestion, as DCQCN has it; they do not if it is not said.
    pub dcqcn: Option<BitRate>,
    /// Fewer packets than a window on the wire while the way is congested, as losses while the round trip is long tell, and notifications; where
    /// `selective`. A design that says nothing of it has no such key.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    pub congestion_window: Option<bool>,
    /// Queue pairs of each member side by side: each has a part of every vector, and is on a core of a switch by itself.
    pub channels: u16,
}

/// A value that is there, and is one: a design that has the key cannot be told to have none.
fn said<'de, D: Deserializer<'de>>(source: D) -> Result<Option<bool>, D::Error> {
    bool::deserialize(source).map(Some)
}

impl Default for Transport {
    /// Packets of 4 KiB, messages of 16, windows of 32 messages; two seconds of silence are a fault.
    fn default() -> Self {
        Self {
            mtu: ByteCount::new(4096),
            message: Packets::new(16),
            window: Messages::new(32),
            acknowledge_every: None,
            retry_timeout: Duration::from_millis(20),
            retry_count: 100,
            selective: true,
            dcqcn: None,
            congestion_window: Some(false),
            channels: 1,
        }
    }
}

impl Transport {
    /// The largest window: two of them are half the PSN space, so that an old packet is never taken for a new one.
    pub const MAX_WINDOW_PACKETS: u64 = 1 << 22;

    /// The key of the window that congestion narrows.
    pub const CONGESTION_WINDOW: &str = "group.congestion_window";

    /// The largest path MTU of a queue pair.
    const MAX_MTU: u64 = 4096;

    /// Its keys.
    pub const HELP: [Help; 10] = [
        ("group.mtu", "bytes of payload in a full packet"),
        ("group.message", "packets in a full message"),
        ("group.window", "messages that a rank may have outstanding"),
        (
            "group.acknowledge_every",
            "a sender asks for an acknowledge after this number of packets; default: once a message",
        ),
        (
            "group.retry_timeout",
            "the longest that a sender waits before it asks for what it has no answer to; with go-back-N it then sends all again",
        ),
        ("group.retry_count", "retries in a row before the peer counts as dead"),
        ("group.selective", "retransmit only missing packets (selective repeat); off: go-back-N"),
        ("group.dcqcn", "DCQCN: the senders' initial rate; default: no DCQCN"),
        (
            Self::CONGESTION_WINDOW,
            "narrow the window while the path is congested: by notifications, and by losses while the round trip is long; on real links by default",
        ),
        (
            "group.channels",
            "queue pairs side by side, each with a part of every vector and a core of a switch",
        ),
    ];

    /// The keys without that of a window that congestion narrows, for a design whose queue pairs have none.
    pub fn help_without_congestion_window() -> impl Iterator<Item = Help> {
        Self::HELP.into_iter().filter(|(key, _)| *key != Self::CONGESTION_WINDOW)
    }

    /// Packets that a rank may have outstanding: M times W.
    pub const fn window_packets(&self) -> Packets {
        self.window.of_packets(self.message)
    }

    /// Bytes of payload that a neighbour may have under way to a node.
    pub fn window_bytes(&self) -> ByteCount {
        self.mtu * self.window_packets()
    }

    /// Packets between two that ask for an acknowledge.
    pub fn acknowledge_every(&self) -> Packets {
        self.acknowledge_every.unwrap_or(self.message)
    }

    /// Refuses what no queue pair could carry out.
    ///
    /// # Errors
    /// If there is any of that.
    pub fn check(&self) -> Result<(), Refusal> {
        let mtu = self.mtu.bytes();
        if mtu == 0 || mtu > Self::MAX_MTU || !mtu.is_multiple_of(4) {
            return Err(Refusal::new(
                "`group.mtu` of a multiple of 4 bytes up to 4096",
                self.mtu,
                "change the group's parameters",
            ));
        }
        let window = u64::from(self.message) * u64::from(self.window);
        if window == 0 || window > Self::MAX_WINDOW_PACKETS {
            return Err(Refusal::new(
                "`group.message` times `group.window` of 1 to 4194304 packets",
                format!("{} packets times {} messages", self.message, self.window),
                "change the group's parameters",
            ));
        }
        if self.acknowledge_every == Some(Packets::new(0)) {
            return Err(Refusal::new("`group.acknowledge_every` of one or more", 0, "nothing could be sent"));
        }
        if self.channels == 0 || self.channels > MAX_CHANNELS {
            let expected = format!("`group.channels` of 1 to {MAX_CHANNELS}");
            return Err(Refusal::new(expected, self.channels, "change the group's parameters"));
        }
        if self.retry_timeout == Duration::ZERO {
            return Err(Refusal::new("`group.retry_timeout` above zero", "0s", "use a few round-trip times"));
        }
        Ok(())
    }
}
