//! Connections that agents pass on (`relay.rs`), as their manager knows them. An agent says when a node has closed one; a node whose connection ends
//! without that word has lost its agent, and may come back by the next one. Who says so is whom the node's certificate names, too.

use crate::Identity;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// So many are known at once; the oldest go first. One that is forgotten is like one that nobody passes on: the node's end is noticed, and
/// that of its agent is taken for it.
const MOST: usize = 4096;

/// A connection by way of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Passed {
    /// The agent's end of it.
    pub(crate) connection: SocketAddr,
    /// By whose certificate, and by which one.
    pub(crate) who: Identity,
    pub(crate) serial: String,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct PassedOn {
    /// Neither closed nor lost, as far as is known.
    open: VecDeque<Passed>,
    /// Nodes whose connections have ended without a word of their agent's.
    away: VecDeque<(String, Passed)>,
}

impl PassedOn {
    /// An agent passes a connection on.
    pub(crate) fn begin(&mut self, passed: Passed) {
        if self.open.contains(&passed) {
            return;
        }
        self.open.truncate(MOST - 1);
        self.open.push_front(passed);
    }

    /// A node attaches by such a connection: whether an agent passes it on.
    pub(crate) fn attach(&mut self, node: &str, by: &Passed) -> bool {
        self.away.retain(|(other, _)| other != node);
        self.open.contains(by)
    }

    /// The connection of a node has ended without a word of its agent's.
    pub(crate) fn lose(&mut self, node: &str, by: Passed) {
        self.open.retain(|passed| *passed != by);
        self.away.truncate(MOST - 1);
        self.away.push_front((node.to_owned(), by));
    }

    /// An agent says that a node has closed a connection: nodes that are waited for, and were attached by it.
    pub(crate) fn end(&mut self, passed: &Passed) -> Vec<String> {
        self.open.retain(|other| other != passed);
        let over = self.away.iter().filter(|(_, by)| by == passed).map(|(node, _)| node.clone()).collect();
        self.away.retain(|(_, by)| by != passed);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(port: u16, node: &str) -> Passed {
        let who = Identity { node: Some(node.into()), ..Identity::default() };
        Passed { connection: SocketAddr::from(([127, 0, 0, 1], port)), who, serial: String::new() }
    }

    #[test]
    fn a_node_is_waited_for_until_it_is_back_or_its_agent_says_that_it_has_ended() {
        let mut all = PassedOn::default();
        all.begin(passed(1, "leaf"));
        assert!(all.attach("leaf", &passed(1, "leaf")));
        assert!(all.attach("other", &passed(1, "leaf")), "several nodes may attach by one");
        all.lose("leaf", passed(1, "leaf"));
        assert!(!all.attach("other", &passed(1, "leaf")), "another connection may have that address now");
        all.begin(passed(2, "leaf"));
        assert!(all.attach("leaf", &passed(2, "leaf")), "it is back by another connection");
        assert!(all.end(&passed(1, "leaf")).is_empty());
        all.lose("leaf", passed(2, "leaf"));
        assert_eq!(all.end(&passed(2, "leaf")), ["leaf"]);
        assert!(all.end(&passed(2, "leaf")).is_empty(), "once");
    }

    #[test]
    fn nobody_speaks_for_the_connections_of_another_certificate() {
        let mut all = PassedOn::default();
        all.begin(passed(1, "stranger"));
        assert!(!all.attach("leaf", &passed(1, "leaf")));
        all.lose("leaf", passed(1, "leaf"));
        assert!(all.end(&passed(1, "stranger")).is_empty());
        assert_eq!(all.end(&passed(1, "leaf")), ["leaf"]);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut all = PassedOn::default();
        for port in 0..MOST as u16 + 100 {
            all.lose("leaf", passed(0, "leaf"));
            all.begin(passed(port, "leaf"));
        }
        assert_eq!((all.open.len(), all.away.len()), (MOST, MOST));
        assert!(all.attach("leaf", &passed(MOST as u16 + 99, "leaf")), "the newest are");
    }
}
