//! What commands of operators have in common, and `quincunx nodes`.

use clap::{Args, Subcommand};
use quincunx_collective::GroupId;
use quincunx_control::{LinkRow, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ControlClient, GroupStatus, Managers, NodeStatus, OTHERS};
use quincunx_design::{AnyDesign, Catalog};
use quincunx_units::{ByteCount, Duration};
use serde_json::{Value, json};

use crate::Failure;
use crate::options::IdentityOptions;
use crate::out::say;
use crate::results::{described, rows_and};
use crate::table::{Align, or_dash, table};

/// Which manager is asked, and how its answer is printed.
#[derive(Args)]
pub(crate) struct ManagerOptions {
    /// Where the manager serves: a host name, or an address of IPv4 or IPv6
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        env = "QUINCUNX_MANAGER",
        hide_env_values = true,
        default_value = "127.0.0.1:4790"
    )]
    manager: Managers,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// Print one JSON object instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ManagerOptions {
    /// A connection to the manager, which must be there already.
    pub(crate) fn connect(&self) -> Result<ControlClient, Failure> {
        let config = ClientConfig {
            connect_timeout: Duration::from_secs(2),
            ..self.identity_options.or_environment().client()?
        };
        ControlClient::connect(self.manager.clone(), config).map_err(Failure::input)
    }

    /// For what is asked while something hangs: the manager may, too.
    pub(crate) fn connect_briefly(&self) -> Result<ControlClient, Failure> {
        let limit = Duration::from_millis(1500);
        let config = ClientConfig {
            connect_timeout: limit,
            call_timeout: limit,
            ..self.identity_options.or_environment().client()?
        };
        ControlClient::connect(self.manager.clone(), config).map_err(Failure::input)
    }

    /// Where the manager serves.
    pub(crate) fn manager(&self) -> &Managers {
        &self.manager
    }
}

/// `quincunx nodes`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx nodes
  quincunx nodes --manager manager.example:4790
  quincunx nodes --links
  quincunx nodes drain leaf1
  quincunx nodes undrain leaf1
  quincunx nodes --manager [fd00::9]:4790 --json

Columns: `qps` and `memory` are what groups hold, of what the node has. What other tenants hold is in the sums, and their groups are
together as `others`. A design of another version than this program's stands with its version, such as epic-3@4: until the node runs what the
manager runs, groups of that design pass it by.

With --links: each link with its ports, and how it stands: found (both ends hear each other, by LLDP), declared (a node says so, and of the cable
nobody knows), denied (a node says so, and cables deny it: no tree leads over it), down, silent (it was found, and is not heard any more: no new tree
leads over it), one end (one end alone hears or says it: no tree leads over it).")]
pub(crate) struct Nodes {
    #[command(subcommand)]
    change: Option<Change>,
    /// Show links, with their ports, in place of nodes
    #[arg(long)]
    links: bool,
    #[command(flatten)]
    manager_options: ManagerOptions,
}

#[derive(Subcommand)]
enum Change {
    /// Have new groups pass a switch by, so that it can be stopped when its last group is over
    Drain(Drained),
    /// Give a switch to new groups again
    Undrain(Drained),
}

#[derive(Args)]
struct Drained {
    /// The switch
    #[arg(value_name = "NAME")]
    name: String,
}

impl Nodes {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let client = self.manager_options.connect()?;
        if let Some(change) = &self.change {
            return self.change(&client, change);
        }
        if self.links {
            return self.show_links(&client.list_links().map_err(Failure::input)?);
        }
        let nodes = client.list_nodes().map_err(Failure::input)?;
        let groups = client.list_groups().map_err(Failure::input)?;
        if self.manager_options.json {
            let nodes: Vec<Value> = nodes.iter().map(|node| node_json(node, &groups)).collect();
            say!("{}", rows_and("nodes", "nodes", &nodes));
            return Ok(());
        }
        if nodes.is_empty() {
            say!(
                "no node is attached; start one with `quincunx switch --manager {}`",
                self.manager_options.manager
            );
            return Ok(());
        }
        crate::out::print(&nodes_table(&nodes, &groups, catalog));
        Ok(())
    }
}

impl Nodes {
    fn show_links(&self, links: &[LinkRow]) -> Result<(), Failure> {
        if self.manager_options.json {
            let rows: Vec<Value> = links.iter().map(link_json).collect();
            say!("{}", rows_and("nodes", "links", &rows));
            return Ok(());
        }
        if links.is_empty() {
            say!(
                "nobody has told of a link: start switches with --port or --neighbours, and hosts' agents with --port"
            );
            return Ok(());
        }
        crate::out::print(&links_table(links));
        Ok(())
    }

    fn change(&self, client: &ControlClient, change: &Change) -> Result<(), Failure> {
        let (name, drains) = match change {
            Change::Drain(Drained { name }) => (name, true),
            Change::Undrain(Drained { name }) => (name, false),
        };
        let groups = client.drain_node(name, drains).map_err(Failure::input)?;
        let numbers: Vec<u32> = groups.iter().map(|group| group.0).collect();
        if self.manager_options.json {
            let mut object = described("nodes");
            for (key, value) in [("node", json!(name)), ("drains", json!(drains)), ("groups", json!(numbers))]
            {
                object[key] = value;
            }
            say!("{object}");
            return Ok(());
        }
        let list = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match (drains, numbers.is_empty()) {
            (true, true) => say!("{name} drains, and no group has it: it can be stopped"),
            (true, false) => {
                say!("{name} drains, and still has groups {list}: stop it when they are over")
            }
            (false, _) => say!("{name} takes groups again"),
        }
        Ok(())
    }
}

fn nodes_table(nodes: &[NodeStatus], groups: &[GroupStatus], catalog: Catalog) -> String {
    let row = |node: &NodeStatus| {
        let description = &node.description;
        let designs: Vec<String> =
            description.designs.iter().map(|name| with_other_version(description, name, catalog)).collect();
        let held: Vec<String> = node.uses.iter().map(|(group, _)| label(*group, groups)).collect();
        vec![
            description.name.clone(),
            match node.drains {
                true => format!("{}, drains", description.role),
                false => description.role.to_string(),
            },
            description.address_list(),
            format!("{}/{}", endpoints_held(node), description.max_endpoints),
            match description.role {
                Role::Switch => format!("{}/{}", memory_held(node), description.memory),
                Role::Host => "-".into(),
            },
            or_dash(&held.join(",")),
            or_dash(&designs.join(",")),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    let columns = [
        ("node", Align::Left),
        ("role", Align::Left),
        ("address", Align::Left),
        ("qps", Align::Right),
        ("memory", Align::Right),
        ("groups", Align::Left),
        ("designs", Align::Left),
    ];
    table(&columns, &rows)
}

/// A design that a node has, with its version if this program has another.
fn with_other_version(description: &NodeDescription, name: &str, catalog: Catalog) -> String {
    let ours = |design: &&dyn AnyDesign| design.name() == name;
    match description.versions.get(name) {
        Some(version) if catalog.iter().filter(ours).any(|design| design.about().version != *version) => {
            format!("{name}@{version}")
        }
        _ => name.to_owned(),
    }
}

fn links_table(links: &[LinkRow]) -> String {
    let row = |link: &LinkRow| {
        let [a, b] = &link.ends;
        vec![
            a.name.clone(),
            or_dash(&a.port),
            b.name.clone(),
            or_dash(&b.port),
            link.state.name().into(),
            or_dash(&link.reason),
        ]
    };
    let rows: Vec<_> = links.iter().map(row).collect();
    let columns = ["one end", "port", "other end", "port", "state", "why"];
    table(&columns.map(|column| (column, Align::Left)), &rows)
}

fn link_json(link: &LinkRow) -> Value {
    let ends = link.ends.iter().map(|end| json!({ "name": end.name, "port": end.port, "nodes": end.nodes }));
    json!({ "ends": ends.collect::<Vec<_>>(), "state": link.state.name(), "reason": link.reason })
}

/// Memory that groups hold of a node.
pub(crate) fn memory_held(node: &NodeStatus) -> ByteCount {
    node.uses.iter().map(|(_, holding)| holding.memory).sum()
}

/// Queue pairs that groups hold of a node.
pub(crate) fn endpoints_held(node: &NodeStatus) -> u32 {
    node.uses.iter().map(|(_, holding)| holding.endpoints).sum()
}

/// What people call a group.
pub(crate) fn label(group: GroupId, groups: &[GroupStatus]) -> String {
    if group == OTHERS {
        return "others".into();
    }
    match groups.iter().find(|status| status.summary.group == group) {
        Some(status) if !status.name.is_empty() => status.name.clone(),
        _ => group.to_string(),
    }
}

/// A node with what groups hold of it.
pub(crate) fn node_json(node: &NodeStatus, groups: &[GroupStatus]) -> Value {
    let description = &node.description;
    let links = description.links.iter();
    let links = links.map(|link| json!({ "neighbour": link.neighbour, "is_up": link.parallel_links > 0 }));
    let uses = node.uses.iter().map(|(group, holding)| {
        json!({
            "group": (*group != OTHERS).then_some(group.0),
            "name": label(*group, groups),
            "endpoints": holding.endpoints,
            "memory_bytes": holding.memory.bytes(),
        })
    });
    json!({
        "name": description.name,
        "role": description.role.to_string(),
        "address": description.address.to_string(),
        "addresses": description.addresses().map(|core| core.to_string()).collect::<Vec<_>>(),
        "encapsulation": description.encapsulation.to_string(),
        "designs": description.designs,
        "versions": description.versions,
        "links": links.collect::<Vec<_>>(),
        "max_endpoints": description.max_endpoints,
        "endpoints_held": endpoints_held(node),
        "memory_bytes": description.memory.bytes(),
        "memory_held_bytes": memory_held(node).bytes(),
        "drains": node.drains,
        "uses": uses.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_designs::CATALOG;
    use std::net::Ipv4Addr;

    #[test]
    fn a_design_of_another_version_than_this_programs_stands_with_its_version() {
        let designs =
            CATALOG.above_queue_pairs().filter(|design| ["epic-2", "ring"].contains(&design.name()));
        let mut description =
            NodeDescription::host("gpu0".into(), Ipv4Addr::LOCALHOST.into(), 1).offering(designs);
        let cells = |description: &NodeDescription| {
            let status = NodeStatus { description: description.clone(), uses: Vec::new(), drains: false };
            let table = nodes_table(&[status], &[], CATALOG);
            table.split_whitespace().last().map(str::to_owned)
        };
        assert_eq!(cells(&description).as_deref(), Some("epic-2,ring"));
        *description.versions.get_mut("epic-2").expect("it was offered") = 4;
        assert_eq!(cells(&description).as_deref(), Some("epic-2@4,ring"));
        // A node of a build that does not tell.
        description.versions.clear();
        assert_eq!(cells(&description).as_deref(), Some("epic-2,ring"));
    }
}
