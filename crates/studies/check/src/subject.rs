//! What the checker is asked to explore: a design of the catalog, or a [`Study`](crate::Study). Nobody who asks needs to know which.

use quincunx_design::Refusal;

use crate::explored::Explored;

/// Something to explore, and how it was understood.
pub struct Subject {
    /// What is explored.
    pub network: Box<dyn Explored>,
    /// The network's name, where there is a choice.
    pub tree: Option<String>,
    /// Packets of each sender, or of each message.
    pub packets: u32,
    /// Ranks that send, where some may not.
    pub senders: Option<u16>,
    /// Frames are not lost there, whatever happens.
    pub is_lossless: bool,
    /// Nor are they doubled.
    pub is_single: bool,
}

impl Subject {
    /// Frames that may be lost: as many as are asked for, or else one where any can be.
    ///
    /// # Errors
    /// If losses or copies are asked for where there are none.
    pub fn losses(&self, losses: Option<u8>, duplicates: u8) -> Result<u8, Refusal> {
        let asked = [("--losses", losses.unwrap_or(0)), ("--duplicate", duplicates)];
        match asked.into_iter().find(|(_, count)| *count > 0) {
            Some((option, count)) if self.is_single => Err(Refusal::new(
                format!("no {option} on a memory fabric, which neither loses packets nor doubles them"),
                count,
                "leave it out",
            )),
            Some((option @ "--losses", count)) if self.is_lossless => {
                Err(Refusal::new(format!("no {option} where nothing is lost"), count, "leave it out"))
            }
            _ => Ok(losses.unwrap_or(if self.is_lossless { 0 } else { 1 })),
        }
    }
}
