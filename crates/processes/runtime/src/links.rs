//! Which of a switch's links are up: the manager hears of it when that changes (EPIC 6.1, link-state reporting).
//!
//! A link is up while the interface that leads over it is, as the kernel says: administratively up and with a carrier. Of links of which
//! nobody has said which interface leads over them that is not known, and they are taken to be up.

use quincunx_control::LinkReport;
use quincunx_control_grpc::Reporter;
use quincunx_sockets::running_interfaces;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How often the kernel is asked.
const LOOK: Duration = Duration::from_millis(100);

/// The links of a switch.
pub(crate) struct Links {
    all: Vec<LinkReport>,
    /// By neighbour.
    interfaces: BTreeMap<String, String>,
    /// Neighbours whose links are down, as the manager knows.
    down: BTreeSet<String>,
    next: Instant,
}

impl Links {
    pub(crate) fn new(all: &[LinkReport], interfaces: &BTreeMap<String, String>) -> Self {
        let (all, interfaces) = (all.to_vec(), interfaces.clone());
        Self { all, interfaces, down: BTreeSet::new(), next: Instant::now() }
    }

    /// Asks the kernel, now and then, and tells the manager what has changed.
    pub(crate) fn look(&mut self, reporter: &Reporter) {
        if Instant::now() >= self.next {
            self.look_now(reporter);
        }
    }

    /// The same at once: what is reported next may follow from it, and the manager is to know both.
    pub(crate) fn look_now(&mut self, reporter: &Reporter) {
        if self.interfaces.is_empty() {
            return;
        }
        self.next = Instant::now() + LOOK;
        let running = match running_interfaces() {
            Ok(running) => running,
            Err(error) => return tracing::warn!(%error, "the interfaces cannot be listed"),
        };
        if let Some(links) = self.change(&running) {
            tracing::warn!(down = ?self.down, "links changed");
            reporter.update_links(&links);
        }
    }

    /// All links, those that are down without a lane, if that has changed.
    fn change(&mut self, running: &BTreeSet<String>) -> Option<Vec<LinkReport>> {
        let is_down = |neighbour: &&String| {
            self.interfaces.get(*neighbour).is_some_and(|interface| !running.contains(interface))
        };
        let down: BTreeSet<String> =
            self.all.iter().map(|link| &link.neighbour).filter(is_down).cloned().collect();
        if down == self.down {
            return None;
        }
        self.down = down;
        let now = |link: &LinkReport| LinkReport {
            parallel_links: if self.down.contains(&link.neighbour) { 0 } else { link.parallel_links },
            ..link.clone()
        };
        Some(self.all.iter().map(now).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_which_links_are_up_each_time_that_this_changes() {
        let link = |name: &str| LinkReport {
            interface: None,
            neighbour: name.into(),
            parallel_links: 1,
            rate: None,
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let interfaces = [("a", "eth1"), ("b", "eth2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let mut links = Links::new(&["a", "b", "c"].map(link), &interfaces.into());
        let up = |found: Option<Vec<LinkReport>>| {
            let up = |links: Vec<LinkReport>| links.into_iter().filter(|link| link.parallel_links > 0);
            found.map(|links| up(links).map(|link| link.neighbour).collect::<BTreeSet<_>>())
        };
        assert_eq!(up(links.change(&names(&["eth1", "eth2"]))), None, "all are up from the start");
        assert_eq!(up(links.change(&names(&["eth2"]))), Some(names(&["b", "c"])));
        assert_eq!(up(links.change(&names(&["eth2"]))), None);
        assert_eq!(up(links.change(&names(&[]))), Some(names(&["c"])), "of c nobody knows the interface");
        assert_eq!(up(links.change(&names(&["eth1", "eth2", "eth3"]))), Some(names(&["a", "b", "c"])));
    }
}
