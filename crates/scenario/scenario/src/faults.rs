//! What happens to frames on their way: loss, traffic of others, what queues do with frames, and pauses. Nothing by default.

use crate::Fabric;
use crate::fabric::Contradiction;
use quincunx_units::{BitRate, ByteCount, Probability};
use schemars::JsonSchema;
use serde::Deserialize;

/// What there is of it.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Loss on links of hosts.
    pub loss: Option<Loss>,
    /// Traffic of others, limits of queues, marks and pauses.
    pub congestion: CongestionSetup,
}

/// Frames that are lost, on the links of the first hosts, both ways: those to their switch, to the next host of a ring, to the network of
/// servers; on a mesh all links of these hosts.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Probability that a frame is lost.
    #[serde(default)]
    pub probability: Probability,
    /// Number of hosts, the first ones, whose links lose frames.
    #[serde(default = "one")]
    pub links: u16,
}

fn one() -> u16 {
    1
}

/// Congestion, and what links do about it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CongestionSetup {
    /// Rate that background traffic takes on a link.
    pub background: Option<BitRate>,
    /// Number of hosts, the first ones, whose links carry `background`, both ways.
    pub links: u16,
    /// Queue length of a link in bytes, the frame being sent included; a full queue drops frames.
    pub queue: Option<ByteCount>,
    /// The link marks a frame if more bytes than this are queued.
    pub mark_above: Option<ByteCount>,
    /// Ranks use DCQCN, starting from the link's rate: short for `group.dcqcn` with that rate.
    pub dcqcn: bool,
    /// Switches pause who sends to them.
    pub pause: Option<PauseSetup>,
}

/// When a switch has the sender of a link pause (PFC).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSetup {
    /// A switch pauses a link when more bytes from it than this are queued.
    pub xoff: ByteCount,
    /// A switch resumes the link when no more bytes from it than this are queued.
    pub xon: ByteCount,
}

impl Default for CongestionSetup {
    fn default() -> Self {
        Self { background: None, links: 1, queue: None, mark_above: None, dcqcn: false, pause: None }
    }
}

impl Faults {
    /// Refuses what no run on `fabric` could make sense of. `packet` is the payload of a full packet, `is_controlled` whether ranks slow
    /// down where links mark.
    pub(crate) fn check(
        &self,
        fabric: &Fabric,
        packet: ByteCount,
        is_controlled: bool,
    ) -> Result<(), Contradiction> {
        let ranks = fabric.ranks();
        if let Some(loss) = &self.loss
            && loss.links == 0
        {
            return Err(("`loss.links` of one or more", "0".into(), "name at least one, or set no loss"));
        }
        if let Some(loss) = &self.loss
            && loss.links > ranks
        {
            let found = format!("{} with {ranks} hosts", loss.links);
            return Err(("`loss.links` of at most the hosts", found, "name fewer links"));
        }
        match fabric.packet_link() {
            Some(link) => {
                let framing = link.framing.unwrap_or_default();
                self.congestion.check(fabric, link.rate, packet + framing, is_controlled)
            }
            None => Ok(()),
        }
    }
}

impl CongestionSetup {
    fn check(
        &self,
        fabric: &Fabric,
        rate: BitRate,
        longest: ByteCount,
        is_controlled: bool,
    ) -> Result<(), Contradiction> {
        let ranks = fabric.ranks();
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
        if let Some(queue) = self.queue
            && queue < longest
        {
            let found = format!("{queue} with packets of {longest}");
            return Err(("`congestion.queue` of a packet at least", found, "nothing could be sent"));
        }
        if let Some(PauseSetup { xoff, xon }) = &self.pause {
            if let Some(queue) = self.queue.filter(|queue| xoff > queue) {
                let found = format!("{xoff} above {queue}");
                let what =
                    "`congestion.pause.xoff` of at most `congestion.queue`, where frames are lost before it";
                return Err((what, found, "lower it"));
            }
            if xon > xoff {
                let found = format!("{xon} above {xoff}");
                return Err(("`congestion.pause.xon` of at most `congestion.pause.xoff`", found, "lower it"));
            }
            if !fabric.has_switches() {
                let found = "hosts that are joined directly".into();
                return Err(("switches for `congestion.pause`", found, "nobody else pauses a sender"));
            }
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
            if !is_controlled {
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
    use crate::{Override, Scenario};
    use quincunx_designs::CATALOG;

    fn refusal(fabric: &str, changes: &[&str]) -> Option<String> {
        let changes: Vec<Override> = changes.iter().map(|text| text.parse().unwrap()).collect();
        Scenario::find(fabric, &changes, CATALOG).err().map(|error| error.to_string())
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
            let message = refusal("epic-star8", changes).unwrap_or_else(|| panic!("{changes:?} is taken"));
            assert!(message.contains(key) && !message.contains('\n'), "{changes:?}: {message}");
        }
        let pause = ["congestion.pause.xoff=64KiB", "congestion.pause.xon=64KiB"];
        for fabric in ["ring-8", "mesh8"] {
            assert!(refusal(fabric, &pause).unwrap().contains("switches for `congestion.pause`"), "{fabric}");
        }
    }

    #[test]
    fn what_makes_sense_is_taken() {
        let changes = ["congestion.dcqcn=true", "congestion.queue=1MiB", "congestion.mark_above=64KiB"];
        assert_eq!(refusal("epic-star8", &changes), None);
        assert_eq!(refusal("epic-star8", &["group.dcqcn=50Gbit/s", "congestion.mark_above=64KiB"]), None);
        assert_eq!(refusal("epic-star8", &["congestion.background=99Gbit/s", "congestion.links=8"]), None);
        assert_eq!(
            refusal("epic-star8", &["congestion.pause.xoff=64KiB", "congestion.pause.xon=64KiB"]),
            None
        );
    }
}
