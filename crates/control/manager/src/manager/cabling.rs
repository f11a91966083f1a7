//! What a manager makes of machines' words on their ports: a map that follows the cables, groups made anew where one is gone, and a list of links
//! for people.

use super::Manager;
use super::action::{Action, ManagerTimer};
use super::managed::ManagedGroup;
use crate::cables::{CableEnd, CableError, CableReport, LocatedCables, REPORT_LIFE};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_wire::lldp::LldpId;

/// How a link stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkState {
    /// Both ends hear each other.
    Found,
    /// Nodes say that it is there; of cables nobody knows.
    Declared,
    /// Nodes say that it is there, and cables deny it: no tree leads over it.
    Denied,
    /// A node says that it is down.
    Down,
    /// Both ends heard each other, and do not any more; neither is down or joined with another. No new tree leads over it.
    Silent,
    /// One end alone hears or says it. No tree leads over it.
    OneEnd,
}

impl LinkState {
    /// As commands and the dashboard have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Declared => "declared",
            Self::Denied => "denied",
            Self::Down => "down",
            Self::Silent => "silent",
            Self::OneEnd => "one end",
        }
    }
}

/// An end of a link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LinkEnd {
    /// The machine that has the port, or the node that is said to be there, or who was heard.
    pub name: String,
    /// Empty: nobody has said by which.
    pub port: String,
    /// Attached nodes that are reached by it.
    pub nodes: Vec<String>,
}

/// A link for people.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRow {
    /// Both.
    pub ends: [LinkEnd; 2],
    /// How it stands.
    pub state: LinkState,
    /// Why, where that is not plain from the state.
    pub reason: String,
}

impl Manager {
    /// A machine tells of its ports and who is heard there. The map follows; groups whose trees led over a cable that is gone are made anew, or
    /// fail.
    ///
    /// # Errors
    /// If it is more than any machine has; nothing of it has been taken.
    pub fn report_cables(&mut self, report: CableReport, out: &mut Vec<Action>) -> Result<(), CableError> {
        let before = self.cables.is_news(&report).then(|| self.cables.clone());
        // First: what ends a cable is this word, not that another one holds no more.
        self.forget_cables();
        let is_news = before.is_some() || self.cables.is_news(&report);
        self.cables.report(self.now, report)?;
        out.push(Action::SetTimer { timer: ManagerTimer::Cables, after: REPORT_LIFE });
        let lost = if is_news { self.cables.compare() } else { Vec::new() };
        if !is_news || before.as_ref().is_some_and(|before| self.cables.joins_as(before)) {
            return Ok(());
        }
        self.rebuild_map();
        let located = before.as_ref().unwrap_or(&self.cables).located(self.nodes.iter());
        let mut broken = Vec::new();
        for lost in &lost {
            let [a, b] = lost.cable.each_ref().map(|end| located.nodes_at(end));
            for pair in a.iter().flat_map(|a| b.iter().map(move |b| [*a, *b])) {
                // Another cable may join them.
                if self.map.link(pair[0], pair[1]).is_none() {
                    let [a, b] = &lost.cable;
                    let reason = format!("its cable between {a} and {b} is gone: {}", lost.reason);
                    broken.push((pair.map(ToString::to_string), reason));
                }
            }
        }
        for (pair, reason) in broken {
            let has = |entry: &ManagedGroup| {
                let is_it = |[a, b]: &[String; 2]| pair.contains(a) && pair.contains(b);
                !entry.is_over() && entry.links.iter().any(is_it)
            };
            let cut: Vec<_> = self.groups.iter().filter(|(_, entry)| has(entry)).map(|(&id, _)| id).collect();
            for group in cut {
                self.lose(group, &pair[0], &reason, out);
            }
        }
        self.check();
        Ok(())
    }

    /// Nobody has told of ports for long: what was known of cables holds no more.
    pub(super) fn forget_cables(&mut self) {
        if self.cables.forget(self.now) {
            // What nobody tells of any more is not gone.
            let lost = self.cables.compare();
            assert!(lost.is_empty(), "{lost:?} is lost, and nobody has told of it");
            self.rebuild_map();
        }
        self.check();
    }

    /// All links that anybody has told of, as they stand.
    pub fn links(&self) -> Vec<LinkRow> {
        let located = self.cables.located(self.nodes.iter());
        let mut rows = self.cable_rows(&located);
        rows.extend(self.declared_rows(&located));
        rows.extend(self.stranger_rows(&located));
        rows.sort();
        rows
    }

    fn cable_rows(&self, located: &LocatedCables<'_>) -> Vec<LinkRow> {
        let row = |(cable, is_heard): (&[CableEnd; 2], bool)| {
            let [a, b] = cable;
            let reason =
                if is_heard { String::new() } else { format!("{a} and {b} heard each other before") };
            let state = if is_heard { LinkState::Found } else { LinkState::Silent };
            LinkRow { ends: cable.each_ref().map(|cable| end(cable, located)), state, reason }
        };
        self.cables.known().map(row).collect()
    }

    /// What nodes say, each link once, where no cable is known to join its ends.
    fn declared_rows(&self, located: &LocatedCables<'_>) -> Vec<LinkRow> {
        let denials = self.map.denials();
        let (mut rows, mut told) = (Vec::new(), BTreeSet::new());
        for node in self.nodes.iter() {
            for link in &node.links {
                let (a, b) = (node.name.as_str(), link.neighbour.as_str());
                if located.between(a, b) > 0 || told.contains(&[b, a]) || !told.insert([a, b]) {
                    continue;
                }
                let back = self.nodes.get(b).and_then(|other| {
                    let is_back = |back: &&crate::LinkReport| back.neighbour == a;
                    other.links.iter().find(is_back)
                });
                let is_it = |denial: &&crate::map::DeniedLink| {
                    denial.ends.each_ref() == [a, b] || denial.ends.each_ref() == [b, a]
                };
                let is_down = link.parallel_links == 0 || back.is_some_and(|back| back.parallel_links == 0);
                let (state, reason) = match denials.iter().find(is_it) {
                    Some(denial) => (LinkState::Denied, denial.reason.clone()),
                    None if is_down => (LinkState::Down, String::new()),
                    None if self.map.link(a, b).is_some() => (LinkState::Declared, String::new()),
                    None if self.nodes.get(b).is_none() => {
                        (LinkState::OneEnd, format!("{b} is not attached"))
                    }
                    None => (LinkState::OneEnd, format!("{b} says nothing of it")),
                };
                let said = |name: &str, link: Option<&crate::LinkReport>| LinkEnd {
                    name: name.to_string(),
                    port: link.and_then(|link| link.interface.clone()).unwrap_or_default(),
                    nodes: self.nodes.get(name).iter().map(|node| node.name.clone()).collect(),
                };
                rows.push(LinkRow { ends: [said(a, Some(link)), said(b, back)], state, reason });
            }
        }
        rows
    }

    /// Who is heard by one end alone.
    fn stranger_rows(&self, located: &LocatedCables<'_>) -> Vec<LinkRow> {
        let texts = |end: &CableEnd| {
            [LldpId::local(&end.machine).to_string(), LldpId::interface(&end.interface).to_string()]
        };
        let found: BTreeSet<(&CableEnd, [String; 2])> = self
            .cables
            .known()
            .filter(|(_, is_heard)| *is_heard)
            .flat_map(|([a, b], _)| [(a, texts(b)), (b, texts(a))])
            .collect();
        let mut rows = Vec::new();
        for (own, heard, count) in self.cables.heard() {
            if found.contains(&(&own, [heard.chassis.clone(), heard.port.clone()])) {
                continue;
            }
            let why = match self.cables.reports(&heard.chassis) {
                true => format!("it does not hear {own} there"),
                false => "it tells the manager nothing".to_string(),
            };
            let reason = match count {
                1 => why,
                _ => format!("{why}; {count} are heard at {own}, a segment that they share"),
            };
            let name = match heard.name.as_str() {
                "" => heard.chassis.clone(),
                name => format!("{name} ({})", heard.chassis),
            };
            let other = LinkEnd { name, port: heard.port.clone(), nodes: Vec::new() };
            rows.push(LinkRow { ends: [end(&own, located), other], state: LinkState::OneEnd, reason });
        }
        rows
    }
}

fn end(end: &CableEnd, located: &LocatedCables<'_>) -> LinkEnd {
    LinkEnd {
        name: end.machine.clone(),
        port: end.interface.clone(),
        nodes: located.nodes_at(end).iter().map(ToString::to_string).collect(),
    }
}
