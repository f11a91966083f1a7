//! Parameters of the designs.

use crate::mode::Levels;
use alloc::format;
use alloc::vec::Vec;
use quincunx_design::{Help, Params, Refusal, Transport};
use serde::{Deserialize, Serialize};

/// EPIC's parameters.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EpicParams {
    /// How the group is set up.
    pub group: GroupParams,
}

/// How a group of EPIC is set up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupParams {
    /// Its queue pairs.
    #[serde(flatten)]
    pub transport: Transport,
    /// Combine in rank order, for equal bits every time, for a buffer per edge (footnote 4).
    pub reproducible: bool,
    /// Mode-III: packets in each of a switch's pipes (N of table 2); a rank's window if it is not said.
    pub slots: Option<u32>,
    /// Mode-III: switches acknowledge at once and ranks count acknowledges alone, so that fast ranks run ahead of slow ones
    /// (4.4); otherwise acknowledges and windows wait for results.
    pub run_ahead: bool,
    /// Mode-II: a switch sends a result once more to the rank that asks for it; otherwise, as the paper has it, ranks send their own packets
    /// again, which are answered (4.3, 7.4).
    pub resend_results: bool,
    /// Mode-III: a switch answers what lies ahead of its range, so that the sender slows down (4.4, rate
    /// synchronisation); otherwise it drops it in silence.
    pub synchronize_rates: bool,
    /// Invocations follow each other at once, as window and buffers allow, those of ReduceScatter and AllGather too; otherwise
    /// each waits until the one before is over on its rank (table 29's AllGather).
    pub overlap: bool,
    /// The control message of a short vector, a message's at most, carries its first data, and ReduceScatter and AllGather of one are an
    /// AllReduce; otherwise it goes ahead of all data, and they are a Reduce or Broadcast for each rank, as the paper has it.
    pub eager: bool,
    /// Reduce, Broadcast, ReduceScatter and AllGather end when all ranks have confirmed that they ask for the same; otherwise when this rank has
    /// sent and received all, as the paper has it: a rank that asks for something else goes unnoticed then.
    pub confirm: bool,
    /// The modes of a mixed tree's switches, from the root down; all in Mode-III if it is not said.
    pub modes: Option<Levels>,
    /// Run mixtures of modes, too, that were found wrong, to see how.
    pub unproved: bool,
    /// Ranks' queue pairs are standard ones, a NIC's or the kernel's: they cannot skip PSNs, so first hops translate, and a rank waits until
    /// its switch knows what comes before. They go back N, whatever `selective` says.
    pub standard_verbs: bool,
    /// Check each result from end to end, by a second collective over checksums, which costs its time. Collectives follow each other then.
    pub verify: bool,
}

impl Default for GroupParams {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            reproducible: false,
            slots: None,
            run_ahead: false,
            synchronize_rates: true,
            resend_results: true,
            overlap: true,
            eager: true,
            confirm: true,
            modes: None,
            unproved: false,
            standard_verbs: false,
            verify: false,
        }
    }
}

impl GroupParams {
    /// Standard queue pairs go back N, and so do those that are connected with them.
    pub(crate) fn is_selective(&self) -> bool {
        self.transport.selective && !self.standard_verbs
    }
}

impl Params for EpicParams {
    fn help() -> Vec<Help> {
        let own: [Help; 12] = [
            ("group.reproducible", "combine in rank order, for equal bits every time"),
            ("group.slots", "Mode-III: packets in each of a switch's pipes; default: a window"),
            ("group.run_ahead", "Mode-III: fast ranks run ahead of slow ones, as far as the pipes reach"),
            ("group.synchronize_rates", "Mode-III: answer ranks that are ahead, so that they slow down"),
            (
                "group.resend_results",
                "Mode-II: switches send a result again to ranks that miss it; otherwise, as in the paper, ranks send their own packets again",
            ),
            ("group.overlap", "begin the next Reduce or Broadcast before the last one ends"),
            (
                "group.eager",
                "vectors of a message at most travel in their control message, ReduceScatter and AllGather of them as one AllReduce; otherwise as in the paper",
            ),
            (
                "group.confirm",
                "all but AllReduce and Barrier end when all ranks have confirmed the same; otherwise, as in papers, when each has sent and received all",
            ),
            ("group.modes", "epic-mixed: the modes of switches from the root down, such as III/I"),
            (
                "group.unproved",
                "epic-mixed: take modes that are wrong together, too, for the checker to show it",
            ),
            (
                "group.standard_verbs",
                "ranks' queue pairs cannot skip PSNs, as those of NICs and of the kernel: their first hops translate; losses go back N",
            ),
            (
                "group.verify",
                "check each result by a collective over checksums: sums of i32, Broadcast, AllGather; else that ranks agree",
            ),
        ];
        Transport::HELP.into_iter().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(Transport { selective: self.group.is_selective(), ..self.group.transport.clone() })
    }

    fn check(&self) -> Result<(), Refusal> {
        let GroupParams { transport, slots, .. } = &self.group;
        match slots {
            Some(slots) if *slots < transport.message.get() => Err(Refusal::new(
                "`group.slots` of a message at least",
                format!("{slots} with messages of {} packets", transport.message),
                "raise it, or shorten `group.message`",
            )),
            Some(slots) if u64::from(*slots) > Transport::MAX_WINDOW_PACKETS => Err(Refusal::new(
                format!("`group.slots` of {} at most", Transport::MAX_WINDOW_PACKETS),
                slots,
                "change the group's parameters",
            )),
            _ => Ok(()),
        }
    }
}
