//! A fabric of nodes and links that are listed one by one, as it is written.

use crate::ImportError;
use crate::body::Body;
use crate::notes::Notes;
use quincunx_units::{BitRate, Duration};
use std::fmt::Write;

/// The most nodes of a fabric: their numbers have 16 bits.
const MOST_NODES: u64 = 65_534;

/// The most links that are written down: each is a paragraph of the result.
const MOST_LINKS: u64 = 1 << 18;

/// Hosts, switches, and what joins them.
#[derive(Default)]
pub(crate) struct Listed {
    hosts: Vec<String>,
    switches: Vec<String>,
    links: Vec<ParallelLinks>,
}

/// Links side by side between two nodes.
pub(crate) struct ParallelLinks {
    pub(crate) between: [String; 2],
    /// Of each, each way.
    pub(crate) rate: BitRate,
    pub(crate) latency: Duration,
    pub(crate) count: u16,
    /// What ways over it cost.
    pub(crate) cost: u16,
}

impl ParallelLinks {
    /// One that costs as much as any.
    pub(crate) fn one(between: [String; 2], rate: BitRate, latency: Duration) -> Self {
        Self { between, rate, latency, count: 1, cost: 1 }
    }

    pub(crate) fn at_cost(self, cost: u16) -> Self {
        Self { cost, ..self }
    }
}

impl Listed {
    pub(crate) fn host(&mut self, name: String) {
        self.hosts.push(name);
    }

    pub(crate) fn switch(&mut self, name: String) {
        self.switches.push(name);
    }

    pub(crate) fn link(&mut self, link: ParallelLinks) {
        self.links.push(link);
    }

    /// As keys of a file. Hosts are in the order of ranks.
    pub(crate) fn write(&self, mut about: Vec<String>, notes: &Notes) -> Result<Body, ImportError> {
        refuse_more((self.hosts.len() + self.switches.len()) as u64, self.links.len() as u64, notes)?;
        let mut text = "kind = \"packet\"\n".to_owned();
        for (names, kind) in [(&self.hosts, "host"), (&self.switches, "switch")] {
            for name in names {
                let _ = write!(text, "\n[[node]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
            }
        }
        for ParallelLinks { between: [a, b], rate, latency, count, cost } in &self.links {
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\nlatency = \"{latency}\"\n"
            );
            for (key, number) in
                [("count", count), ("cost", cost)].into_iter().filter(|(_, number)| **number != 1)
            {
                let _ = writeln!(text, "{key} = {number}");
            }
        }
        about.push("Nodes and links are the file's.".into());
        Ok(Body { about, text })
    }
}

/// Refuses what is too large, before it is made.
pub(crate) fn refuse_more(nodes: u64, links: u64, notes: &Notes) -> Result<(), ImportError> {
    if nodes > MOST_NODES || links > MOST_LINKS {
        return Err(notes.wrong(
            None,
            format!("a fabric of at most {MOST_NODES} nodes and {MOST_LINKS} links"),
            format!("{nodes} nodes and {links} links"),
            "take a part of it",
        ));
    }
    Ok(())
}
