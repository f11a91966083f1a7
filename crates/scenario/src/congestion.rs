//! Congestion on a packet fabric: traffic of others, what queues do with frames, and what ranks do about it.

use crate::{PacketFabric, text};
use quincunx_units::{BitRate, ByteCount};
use serde::Deserialize;

/// What there is of congestion, and what is done about it: nothing by default.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CongestionSetup {
    /// What traffic of others takes of a link's rate.
    #[serde(deserialize_with = "text::maybe::deserialize")]
    pub background: Option<BitRate>,
    /// On how many links: those of the first hosts, both ways.
    pub links: u16,
    /// Bytes that may wait for a link, what is being sent among them; a frame that finds no room is dropped.
    #[serde(deserialize_with = "text::maybe::deserialize")]
    pub queue: Option<ByteCount>,
    /// A frame that finds more than this waiting is marked.
    #[serde(deserialize_with = "text::maybe::deserialize")]
    pub mark_above: Option<ByteCount>,
    /// Ranks slow down as DCQCN has it.
    pub dcqcn: bool,
    /// Switches pause who sends to them.
    pub pause: Option<PauseSetup>,
}

/// When a switch has the sender of a link pause (PFC).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseSetup {
    /// More bytes than this from one link, in the switch's queues, pause it.
    #[serde(deserialize_with = "text::deserialize")]
    pub xoff: ByteCount,
    /// So few resume it.
    #[serde(deserialize_with = "text::deserialize")]
    pub xon: ByteCount,
}

impl Default for CongestionSetup {
    fn default() -> Self {
        Self { background: None, links: 1, queue: None, mark_above: None, dcqcn: false, pause: None }
    }
}

/// What was expected, what was found, what to do.
type Contradiction = (&'static str, String, &'static str);

impl CongestionSetup {
    /// Refuses what no run on `fabric` could make sense of.
    pub(crate) fn check(&self, fabric: &PacketFabric) -> Result<(), Contradiction> {
        let (ranks, rate) = (fabric.ranks(), fabric.link.rate);
        if self.links == 0 || self.links > ranks {
            let found = format!("{} with {ranks} hosts", self.links);
            return Err((
                "`congestion.links` of one to the number of hosts",
                found,
                "name links that there are",
            ));
        }
        if let Some(background) = self.background
            && background >= rate
        {
            let found = format!("{background} of {rate}");
            return Err(("`congestion.background` below `link.rate`", found, "leave some of the link"));
        }
        let longest = fabric.group.mtu + fabric.link.framing.unwrap_or_default();
        if let Some(queue) = self.queue
            && queue < longest
        {
            let found = format!("{queue} with packets of {longest}");
            return Err(("`congestion.queue` of a packet at least", found, "nothing could be sent"));
        }
        if let Some(PauseSetup { xoff, xon }) = &self.pause
            && xon > xoff
        {
            let found = format!("{xon} above {xoff}");
            return Err(("`congestion.pause.xon` of at most `congestion.pause.xoff`", found, "lower it"));
        }
        if let Some(mark_above) = self.mark_above {
            if let Some(queue) = self.queue
                && mark_above >= queue
            {
                let found = format!("{mark_above} of {queue}");
                return Err((
                    "`congestion.mark_above` below `congestion.queue`",
                    found,
                    "no frame would be marked",
                ));
            }
            if !self.dcqcn {
                return Err((
                    "`congestion.dcqcn` with `congestion.mark_above`",
                    "marks that nobody reads".into(),
                    "set congestion.dcqcn=true",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Fabric, Override};

    fn refusal(changes: &[&str]) -> Option<String> {
        let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        Fabric::find("epic-star8", &changes).err().map(|error| error.to_string())
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_key() {
        for (changes, key) in [
            (&["congestion.links=0"][..], "congestion.links"),
            (&["congestion.links=9"], "congestion.links"),
            (&["congestion.background=100Gbit/s"], "congestion.background"),
            (&["congestion.background=-1"], "congestion.background"),
            (&["congestion.queue=4096B"], "congestion.queue"),
            (&["congestion.mark_above=64KiB"], "congestion.dcqcn"),
            (
                &["congestion.dcqcn=true", "congestion.queue=64KiB", "congestion.mark_above=64KiB"],
                "mark_above",
            ),
            (&["congestion.link=1"], "unknown field `link`"),
            (&["congestion.pause=true"], "congestion.pause"),
            (&["congestion.pause.xoff=64KiB"], "missing field `xon` in `congestion.pause`"),
            (&["congestion.pause.xoff=1KiB", "congestion.pause.xon=2KiB"], "congestion.pause.xon"),
        ] {
            let message = refusal(changes).unwrap_or_else(|| panic!("{changes:?} is taken"));
            assert!(message.contains(key) && !message.contains('\n'), "{changes:?}: {message}");
        }
    }

    #[test]
    fn what_makes_sense_is_taken() {
        let changes = ["congestion.dcqcn=true", "congestion.queue=1MiB", "congestion.mark_above=64KiB"];
        assert_eq!(refusal(&changes), None);
        assert_eq!(refusal(&["congestion.background=99Gbit/s", "congestion.links=8"]), None);
        assert_eq!(refusal(&["congestion.pause.xoff=64KiB", "congestion.pause.xon=64KiB"]), None);
    }
}
