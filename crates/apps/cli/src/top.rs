//! `quincunx top`: a manager's switches and groups, again and again.

use clap::Args;
use quincunx_control::{GroupState, Role};
use quincunx_control_grpc::{GroupStatus, Managers, NodeStatus};
use quincunx_units::Duration;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write, stdout};

use crate::Failure;
use crate::group::groups_table;
use crate::groups::group_json;
use crate::operate::{ManagerOptions, endpoints_held, memory_held, node_json};
use crate::table::{Align, table};

/// `quincunx top`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx top --manager manager.example:4790
  quincunx top --interval 5s
  quincunx top --count 1                 once, for a script or a ticket
  quincunx top --count 10 --json         a JSON object a line")]
pub(crate) struct Top {
    #[command(flatten)]
    manager_options: ManagerOptions,
    /// Time from one look to the next
    #[arg(long, default_value = "1s")]
    interval: Duration,
    /// Looks to take [default: until it is interrupted]
    #[arg(long)]
    count: Option<u64>,
}

impl Top {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let client = self.manager_options.connect()?;
        let mut looks = 0;
        loop {
            let nodes = client.list_nodes().map_err(Failure::input)?;
            let groups = client.list_groups().map_err(Failure::input)?;
            let text = if self.manager_options.json {
                let nodes: Vec<Value> = nodes.iter().map(|node| node_json(node, &groups)).collect();
                let groups: Vec<Value> = groups.iter().map(group_json).collect();
                json!({ "schema": 1, "command": "top", "nodes": nodes, "groups": groups }).to_string() + "\n"
            } else {
                // Home, and what is below the cursor goes.
                let clear = if stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
                format!("{clear}{}", page(self.manager_options.manager(), &nodes, &groups))
            };
            // Nobody reads any more, as when it is piped into `head`.
            if stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()).is_err() {
                return Ok(());
            }
            looks += 1;
            if self.count.is_some_and(|count| looks >= count) {
                return Ok(());
            }
            std::thread::sleep(self.interval.into());
        }
    }
}

fn page(manager: &Managers, nodes: &[NodeStatus], groups: &[GroupStatus]) -> String {
    let switches: Vec<&NodeStatus> =
        nodes.iter().filter(|node| node.description.role == Role::Switch).collect();
    let hosts = nodes.len() - switches.len();
    let count = |is: &dyn Fn(&GroupStatus) -> bool| groups.iter().filter(|group| is(group)).count();
    let ready = count(&|group| group.summary.state == GroupState::Ready);
    let failed = count(&|group| matches!(group.summary.state, GroupState::Failed(_)));
    let fallen = count(&|group| group.summary.fallback.is_some());
    let mut text = format!(
        "manager {manager}: {} switches, {hosts} hosts; {} groups, {ready} ready, {failed} failed, {fallen} without the network for want of room\n",
        switches.len(),
        groups.len()
    );
    if !switches.is_empty() {
        let row = |node: &&NodeStatus| {
            let (held, all) = (memory_held(node).bytes(), node.description.memory.bytes());
            vec![
                node.description.name.clone(),
                bar(held, all),
                format!("{}/{}", memory_held(node), node.description.memory),
                format!("{}/{}", endpoints_held(node), node.description.max_endpoints),
                node.uses.len().to_string(),
            ]
        };
        let columns = [
            ("switch", Align::Left),
            ("", Align::Left),
            ("memory", Align::Right),
            ("qps", Align::Right),
            ("groups", Align::Right),
        ];
        text += &format!("\n{}", table(&columns, &switches.iter().map(row).collect::<Vec<_>>()));
    }
    if !groups.is_empty() {
        text += &format!("\n{}", groups_table(groups));
    }
    text
}

/// A part of a whole in twenty places; what is there at all shows.
fn bar(part: u64, whole: u64) -> String {
    let full = (u128::from(part) * 20).div_ceil(u128::from(whole.max(1))).min(20) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(20 - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_what_little_there_is_and_never_more_than_all() {
        assert_eq!(bar(0, 100), format!("[{}]", ".".repeat(20)));
        assert_eq!(bar(1, u64::MAX), format!("[#{}]", ".".repeat(19)));
        assert_eq!(bar(u64::MAX, u64::MAX), format!("[{}]", "#".repeat(20)));
        assert_eq!(bar(5, 0), format!("[{}]", "#".repeat(20)));
    }
}
