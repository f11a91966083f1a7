//! `quincunx group`: groups made, listed, shown, destroyed and explained by hand.

use clap::{Args, Subcommand};
use quincunx_control::{GroupRequest, GroupState, LockUse, Phase, SharedMemory};
use quincunx_control_grpc::{
    ClientError, ControlClient, Explanation, GroupName, GroupStatus, Holder, OTHERS, Ran, Reason, Waits,
};
use quincunx_design::{Catalog, FabricKind};
use quincunx_fabric::MeshShape;
use quincunx_scenario::Override;
use quincunx_units::{ByteCount, Duration};
use serde_json::{Value, json};

use crate::Failure;
use crate::calls::Calls;
use crate::groups::{group_json, reason, state, title};
use crate::operate::ManagerOptions;
use crate::out::say;
use crate::results::{described, rows_and};
use crate::stragglers::Stragglers;
use crate::table::{Align, or_dash, table};

/// `quincunx group`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx group create train --members rank0,rank1,rank2,rank3 --design epic-3
  quincunx group list --manager manager.example:4790
  quincunx group show train
  quincunx group waits              something hangs: whom everybody waits for, in all groups
  quincunx group waits train        the same of one group
  quincunx group calls train        what each rank has called when, and who comes last
  quincunx group why train          why the network is not used, and who is in the way
  quincunx group destroy train")]
pub(crate) struct Group {
    #[command(flatten)]
    manager_options: ManagerOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a group of hosts that are attached, and wait until all its nodes have installed it
    Create(Box<Create>),
    /// List all groups; of those that failed, the last ones
    List,
    /// Show a group: who is in it, on which switches, and what it holds there
    Show(Which),
    /// End a group and free what it holds; of one that failed, remove the record
    Destroy(Which),
    /// Say whom everybody waits for: which ranks are in which collective, and who has not called it, is stopped or is gone
    Waits(AnyGroup),
    /// Show what each rank has called lately and when, and who comes last
    Calls(Calls),
    /// Say who comes last to its collectives and by how much, by the switches' clocks
    Stragglers(Stragglers),
    /// Explain why a group does not use the network or was refused: which switch, which resource, who holds it
    Why(Which),
}

#[derive(Args)]
struct AnyGroup {
    /// The group's name or number; all groups in which somebody waits if it is not given
    #[arg(value_name = "NAME|NUMBER")]
    group: Option<GroupName>,
}

#[derive(Args)]
struct Which {
    /// The group's name or number
    #[arg(value_name = "NAME|NUMBER")]
    group: GroupName,
}

#[derive(Args)]
#[command(after_help = "Examples:
  quincunx group create train --members rank0,rank1,rank2,rank3 --design epic-3
  quincunx group create --members a,b,c,d --design epic-2 --longest 64MiB --lease 10m
  quincunx group create small --members a,b --design epic-3 --set group.window=2

`quincunx sim --show DESIGN` lists a design's keys for --set.")]
struct Create {
    /// The group's name; without one it has only a number
    name: Option<String>,
    /// Hosts by node name, in rank order
    #[arg(long, value_delimiter = ',', required = true)]
    members: Vec<String>,
    /// The design that the group runs, if its switches have room
    #[arg(long)]
    design: String,
    /// The mesh that its hosts make, for designs of meshes: mesh-2x4 (domains by ranks of each); otherwise the manager chooses switches
    #[arg(long)]
    mesh: Option<MeshShape>,
    /// End the group when nobody has renewed it for this time [default: it lives until it is destroyed]
    #[arg(long)]
    lease: Option<Duration>,
    /// The job whose groups communicate by turns, and when in its iteration this one does: with the policy `temporal` groups of a job in
    /// different phases may have one part of a switch's memory
    #[arg(long, value_name = "NAME", requires = "phase")]
    job: Option<String>,
    /// A number, with --job
    #[arg(long, value_name = "NUMBER", requires = "job")]
    phase: Option<u16>,
    /// Share of the time that the phase takes, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=100))]
    duty: u8,
    /// Length of a rank's longest vector
    #[arg(long, default_value = "16MiB")]
    longest: ByteCount,
    /// Set a parameter of the design
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
}

impl Group {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let json = self.manager_options.json;
        match self.command {
            Command::Create(create) => {
                let wanted = create.request(catalog)?;
                let client = self.manager_options.connect()?;
                let name = create.name.as_deref().unwrap_or_default();
                let group = client.init_named_group(name, &wanted).map_err(Failure::input)?;
                if json {
                    print_json("group create", "group", group_json(&group));
                } else {
                    crate::out::print(&shown(&group));
                }
            }
            Command::List => {
                let groups = self.manager_options.connect()?.list_groups().map_err(Failure::input)?;
                if json {
                    let rows: Vec<Value> = groups.iter().map(group_json).collect();
                    say!("{}", rows_and("group list", "groups", &rows));
                } else if groups.is_empty() {
                    say!("no group is there; make one with `quincunx group create`");
                } else {
                    crate::out::print(&groups_table(&groups));
                }
            }
            Command::Show(Which { group }) => {
                let client = self.manager_options.connect()?;
                let found = find(&client, &group)?;
                // Ranks that do not answer have told nothing.
                let calls = match found.summary.state {
                    GroupState::Ready => Some(client.ask_calls(&group).map_err(Failure::input)?),
                    _ => None,
                };
                let ran = calls.map(|calls| calls.ran());
                if json {
                    let mut group = group_json(&found);
                    group["ran"] = ran.map_or(Value::Null, ran_json);
                    print_json("group show", "group", group);
                } else {
                    crate::out::print(&(shown(&found) + &ran.map_or_else(String::new, ran_table)));
                }
            }
            Command::Destroy(Which { group }) => {
                let client = self.manager_options.connect()?;
                let group = find(&client, &group)?;
                client.destroy_group(group.summary.group).map_err(Failure::input)?;
                if json {
                    print_json("group destroy", "group", group_json(&group));
                } else {
                    say!("{} is destroyed", title(&group));
                }
            }
            Command::Waits(AnyGroup { group: Some(group) }) => {
                let waits =
                    self.manager_options.connect_briefly()?.ask_waits(&group).map_err(Failure::input)?;
                if json {
                    print_json("group waits", "waits", waits_json(&waits));
                } else {
                    say!("{waits}");
                }
            }
            Command::Waits(AnyGroup { group: None }) => {
                let waits = all_waits(&self.manager_options.connect_briefly()?).map_err(Failure::input)?;
                if json {
                    print_json("group waits", "all", waits.iter().map(waits_json).collect());
                } else if waits.is_empty() {
                    say!("no rank waits in any group");
                } else {
                    waits.iter().for_each(|waits| say!("{waits}"));
                }
            }
            Command::Stragglers(stragglers) => {
                stragglers.run(&self.manager_options.connect_briefly()?, json)?;
            }
            Command::Calls(calls) => calls.run(&self.manager_options.connect_briefly()?, json)?,
            Command::Why(Which { group }) => {
                let why = self.manager_options.connect()?.explain_group(&group).map_err(Failure::input)?;
                if json {
                    print_json("group why", "why", why_json(&why));
                } else {
                    crate::out::print(&in_words(&why, &group));
                }
            }
        }
        Ok(())
    }
}

impl Create {
    fn request(&self, catalog: Catalog) -> Result<GroupRequest, Failure> {
        let kind = if self.mesh.is_some() { FabricKind::Mesh } else { FabricKind::Tree };
        let design = catalog.find(&self.design, kind).map_err(Failure::input)?;
        let phase = self.job.clone().zip(self.phase);
        let mut wanted = GroupRequest {
            mesh: self.mesh,
            lease: self.lease,
            phase: phase.map(|(job, number)| Phase { job, number, duty: self.duty }),
            ..GroupRequest::new(self.members.clone(), design, self.longest)
        };
        for change in &self.set {
            let (key, value) = change.assignment();
            design.set(&mut wanted.settings, &key, &value).map_err(Failure::input)?;
        }
        Ok(wanted)
    }
}

/// Of all groups in which somebody waits.
fn all_waits(client: &ControlClient) -> Result<Vec<Waits>, ClientError> {
    let groups = client.list_groups()?;
    let ready = groups.iter().filter(|group| group.summary.state == GroupState::Ready);
    let mut waits = Vec::new();
    for group in ready {
        match client.ask_waits(&GroupName::Number(group.summary.group)) {
            Ok(found) => waits.push(found),
            // It is over meanwhile.
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    waits.retain(|waits| waits.call().is_some() || waits.messages().next().is_some());
    Ok(waits)
}

fn print_json(command: &str, key: &str, value: Value) {
    let mut object = described(command);
    object[key] = value;
    say!("{object}");
}

/// The last group of that name or number.
fn find(client: &ControlClient, wanted: &GroupName) -> Result<GroupStatus, Failure> {
    let groups = client.list_groups().map_err(Failure::input)?;
    groups.into_iter().rev().find(|group| wanted.is(group)).ok_or_else(|| {
        let wanted = match wanted {
            GroupName::Number(number) => number.to_string(),
            GroupName::Name(name) => format!("\"{name}\""),
        };
        Failure::Input(format!(
            "expected a group that exists, found no group {wanted}; `quincunx group list` lists them"
        ))
    })
}

fn memory(group: &GroupStatus) -> ByteCount {
    group.summary.switches.iter().map(|held| held.memory).sum()
}

/// All groups, a line each; what went wrong comes last, for it is long.
pub(crate) fn groups_table(groups: &[GroupStatus]) -> String {
    let row = |group: &GroupStatus| {
        vec![
            group.summary.group.to_string(),
            or_dash(&group.name),
            or_dash(&group.tenant),
            state(group).into(),
            or_dash(&group.asked),
            group.summary.design.clone(),
            group.summary.members.len().to_string(),
            group.summary.switches.len().to_string(),
            memory(group).to_string(),
            or_dash(&reason(group)),
        ]
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    let columns = [
        ("group", Align::Right),
        ("name", Align::Left),
        ("tenant", Align::Left),
        ("state", Align::Left),
        ("asked", Align::Left),
        ("runs", Align::Left),
        ("ranks", Align::Right),
        ("switches", Align::Right),
        ("memory", Align::Right),
        ("reason", Align::Left),
    ];
    table(&columns, &rows)
}

/// A group with all that is known of it.
fn shown(group: &GroupStatus) -> String {
    let summary = &group.summary;
    let mut lines = vec![
        title(group),
        format!("state    {}", state(group)),
        format!("asked    {}", or_dash(&group.asked)),
        format!("runs     {}", summary.design),
        format!("members  {}", summary.members.join(" ")),
    ];
    if !group.tenant.is_empty() {
        lines.insert(1, format!("tenant   {}", group.tenant));
    }
    if !reason(group).is_empty() {
        lines.push(format!("reason   {}", reason(group)));
    }
    let mut text = lines.join("\n") + "\n";
    if !summary.switches.is_empty() {
        let rows: Vec<_> = summary
            .switches
            .iter()
            .map(|held| vec![held.node.clone(), held.endpoints.to_string(), held.memory.to_string()])
            .collect();
        let columns = [("switch", Align::Left), ("qps", Align::Right), ("memory", Align::Right)];
        text += &format!("\n{}", table(&columns, &rows));
    }
    if let Some(shared) = &summary.shared {
        text += &format!(
            "\nit locks this memory for each collective, or runs among its hosts\n{}",
            locks_table(shared)
        );
    }
    text
}

/// What has ended in the network and among the hosts, if anything has.
fn ran_table(ran: [Ran; 2]) -> String {
    let ways = ["in the network", "among the hosts"].into_iter().zip(ran);
    let row = |(way, ran): (&str, Ran)| {
        let seconds = ran.time.as_secs_f64();
        vec![
            way.to_owned(),
            ran.collectives.to_string(),
            ByteCount::new(ran.bytes).to_string(),
            format!("{seconds:.3}"),
            format!("{:.3}", ran.bytes as f64 * 8e-9 / seconds.max(1e-9)),
        ]
    };
    let rows: Vec<_> = ways.filter(|(_, ran)| ran.collectives > 0).map(row).collect();
    if rows.is_empty() {
        return "\nno rank has told of a collective that has ended\n".into();
    }
    let columns = [
        ("ran", Align::Left),
        ("collectives", Align::Right),
        ("bytes", Align::Right),
        ("time(s)", Align::Right),
        ("Gbit/s", Align::Right),
    ];
    format!("\n{}", table(&columns, &rows))
}

fn ran_json(ran: [Ran; 2]) -> Value {
    let [in_network, among_hosts] = ran.map(|Ran { collectives, bytes, time }| {
        json!({ "collectives": collectives, "bytes": bytes, "time_s": time.as_secs_f64() })
    });
    json!({ "in_network": in_network, "among_hosts": among_hosts })
}

/// What a group shares at each switch, and how often it got it.
fn locks_table(shared: &[SharedMemory]) -> String {
    let row = |shared: &SharedMemory| {
        let LockUse { granted, refused, in_vain, held_by, held } = shared.uses;
        let with: Vec<String> = shared.with.iter().map(ToString::to_string).collect();
        vec![
            shared.switch.clone(),
            or_dash(&with.join(" ")),
            granted.to_string(),
            refused.to_string(),
            in_vain.to_string(),
            or_dash(&held_by.map_or_else(String::new, |group| group.to_string())),
            format!("{:.3}", held.as_secs_f64()),
            shared.duty.map_or("-".into(), |duty| format!("{duty} %")),
        ]
    };
    let rows: Vec<_> = shared.iter().map(row).collect();
    let columns = [
        ("switch", Align::Left),
        ("shared with", Align::Left),
        ("granted", Align::Right),
        ("refused", Align::Right),
        ("in vain", Align::Right),
        ("last held by", Align::Right),
        ("held(s)", Align::Right),
        ("block in use", Align::Right),
    ];
    table(&columns, &rows)
}

fn waits_json(waits: &Waits) -> Value {
    let (waiting, longest) = waits.waiting();
    let state = |reason: &Reason<'_>| match reason {
        Reason::Gone => "gone",
        Reason::Stopped => "stopped",
        Reason::CutOff => "cut_off",
        Reason::Silent => "silent",
        Reason::NotCalled { elsewhere: None, .. } => "not_called",
        Reason::NotCalled { elsewhere: Some(_), .. } => "elsewhere",
    };
    let ranks = waits.waited_for().into_iter().map(|(rank, reason)| {
        let node = &waits.group.summary.members[usize::from(rank)];
        json!({ "rank": rank, "node": node, "state": state(&reason), "reason": reason.to_string() })
    });
    let switches = waits.silent_switches().map(
        |(node, reason)| json!({ "switch": node, "state": state(&reason), "reason": reason.to_string() }),
    );
    let waited_for = ranks.chain(switches);
    json!({
        "group": group_json(&waits.group),
        "number": waits.number(),
        "call": waits.call().map(ToString::to_string),
        "waiting": waiting,
        "longest_us": longest.as_micros_f64(),
        "waited_for": waited_for.collect::<Vec<_>>(),
    })
}

fn why_json(why: &Explanation) -> Value {
    let holders = |holders: &[Holder]| {
        let holder = |holder: &Holder| {
            json!({
                "group": (holder.group != OTHERS).then_some(holder.group.0),
                "name": holder.name,
                "tenant": holder.tenant,
                "switch": holder.holding.node,
                "endpoints": holder.holding.endpoints,
                "memory_bytes": holder.holding.memory.bytes(),
            })
        };
        holders.iter().map(holder).collect::<Vec<_>>()
    };
    json!({
        "asked": why.asked,
        "group": why.group.as_ref().map(group_json),
        "reason": why.reason,
        "switch_memory_bytes": why.capacity.map(|(memory, _)| memory),
        "switch_endpoints": why.capacity.map(|(_, endpoints)| endpoints),
        "holders_then": holders(&why.then),
        "holders_now": holders(&why.now),
    })
}

/// How a group that locks its memory came by it.
fn in_turn(shared: &[SharedMemory]) -> String {
    let refused = shared.iter().find(|shared| shared.uses.refused > 0);
    let Some(SharedMemory { switch, uses, .. }) = refused else {
        return "it locks the memory of its switches for each collective, and was never refused\n".into();
    };
    let by = uses
        .held_by
        .map_or_else(String::new, |group| format!(", the last time because group {group} had it"));
    let asked = uses.granted + uses.refused;
    format!(
        "of {asked} collectives for which it asked switch {switch} for memory, {} ran among its hosts{by}; `quincunx group show` counts all\n",
        uses.refused
    )
}

/// The explanation as one would tell it.
fn in_words(why: &Explanation, asked_for: &GroupName) -> String {
    let (group, failed) = match &why.group {
        Some(group) => (title(group), matches!(group.summary.state, GroupState::Failed(_))),
        None => {
            let name = match asked_for {
                GroupName::Name(name) => format!("\"{name}\""),
                GroupName::Number(number) => number.to_string(),
            };
            (format!("group {name}"), false)
        }
    };
    let asked = &why.asked;
    let mut text = match &why.group {
        None => format!("{group} was asked for as {asked}, and refused\n"),
        Some(_) if failed => format!("{group} has failed\n"),
        Some(status) if status.summary.fallback.is_some() => {
            format!("{group} runs {} among its hosts, for {asked} found no room\n", status.summary.design)
        }
        Some(status) if status.summary.switches.is_empty() => {
            format!("{group} runs {} as asked for, which uses no switch\n", status.summary.design)
        }
        Some(status) => {
            let switches: Vec<&str> = status.summary.switches.iter().map(|held| held.node.as_str()).collect();
            format!("{group} uses the network: {} on {}\n", status.summary.design, switches.join(", "))
        }
    };
    if let Some(shared) = why.group.as_ref().and_then(|group| group.summary.shared.as_ref()) {
        text += &in_turn(shared);
    }
    if why.reason.is_empty() {
        return text;
    }
    text += &format!("why: {}\n", why.reason);
    let Some((memory, endpoints)) = why.capacity else { return text };
    let switch = why.then.iter().chain(&why.now).map(|holder| holder.holding.node.as_str()).next();
    let size = format!("{} of memory and {endpoints} queue pairs", ByteCount::new(memory));
    match switch {
        Some(switch) => text += &format!("switch {switch} has {size}; who held them when it was decided:\n"),
        None => {
            return text
                + &format!(
                    "the switch has {size}, and nobody held any of them: the group is too large for it\n"
                );
        }
    }
    let row = |holder: &Holder| {
        let now = why.now.iter().any(|now| now.group == holder.group);
        let name = if holder.group == OTHERS { "others".into() } else { holder.group.to_string() };
        vec![
            name,
            or_dash(&holder.name),
            or_dash(&holder.tenant),
            holder.holding.endpoints.to_string(),
            holder.holding.memory.to_string(),
            if now { "still" } else { "no longer" }.into(),
        ]
    };
    let rows: Vec<_> = why.then.iter().map(row).collect();
    let columns = [
        ("group", Align::Right),
        ("name", Align::Left),
        ("tenant", Align::Left),
        ("qps", Align::Right),
        ("memory", Align::Right),
        ("now", Align::Left),
    ];
    text += &table(&columns, &rows);
    if why.then.iter().any(|then| !why.now.iter().any(|now| now.group == then.group)) {
        text += "some of it is free by now: make the group again\n";
    }
    text
}
