//! A manager with switches `s0`, `s1`, ... and hosts `r0`, `r1`, ... attached.

use quincunx_collective::GroupId;
use quincunx_control::{
    Action, Encapsulation, GroupRequest, GroupState, GroupSummary, InitGroupError, Instruction, Manager,
    ManagerConfig, NodeDescription, Report, RequestId, Role, UnknownGroup,
};
use quincunx_design::{LinkRates, Value};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_fabric::Shape;
use quincunx_units::ByteCount;
use std::net::Ipv4Addr;

pub(crate) struct Site {
    pub(crate) manager: Manager,
    requests: u64,
}

pub(crate) fn host(number: u8) -> NodeDescription {
    NodeDescription {
        name: format!("r{number}"),
        role: Role::Host,
        address: Ipv4Addr::new(127, 0, 1, number),
        encapsulation: Encapsulation::Udp,
        designs: [].into(),
        max_endpoints: 16,
        memory: ByteCount::new(0),
    }
}

pub(crate) fn switch(number: u8) -> NodeDescription {
    NodeDescription {
        name: format!("s{number}"),
        role: Role::Switch,
        address: Ipv4Addr::new(127, 0, 2, number),
        encapsulation: Encapsulation::Udp,
        designs: ["epic-1", "epic-2", "epic-3"].map(String::from).into(),
        max_endpoints: 16,
        memory: ByteCount::new(1 << 20),
    }
}

/// Falls back to the ring.
pub(crate) fn config() -> ManagerConfig {
    ManagerConfig { fallback: Some(FALLBACK), ..ManagerConfig::default() }
}

/// A group of the first hosts, with an MTU of 1 KiB, messages of two packets and a window of four.
pub(crate) fn request(ranks: u16, design: &str, shape: &str) -> GroupRequest {
    let members = (0..ranks).map(|rank| format!("r{rank}")).collect();
    let shape = match shape {
        "star" => Shape::for_ranks("star", ranks).unwrap(),
        name if name.starts_with("mesh") => Shape::Mesh(name.parse().unwrap()),
        name => Shape::Tree(name.parse().unwrap()),
    };
    let fabric = match shape {
        Shape::Tree(_) => quincunx_design::FabricKind::Tree,
        Shape::Mesh(_) => quincunx_design::FabricKind::Mesh,
    };
    let found = CATALOG.find(design, fabric).or_else(|_| CATALOG.named(design)).unwrap();
    let longest = ByteCount::new(1 << 20);
    let mut wanted =
        GroupRequest { rates: LinkRates::ALIKE, ..GroupRequest::new(members, found, shape, longest) };
    for (key, value) in [("group.mtu", 1024), ("group.message", 2), ("group.window", 4)] {
        set(&mut wanted, key, value);
    }
    wanted
}

/// Sets a parameter of the design that is asked for.
pub(crate) fn set(wanted: &mut GroupRequest, key: &str, value: impl Into<Value>) {
    let design =
        CATALOG.find(&wanted.design, wanted.fabric()).or_else(|_| CATALOG.named(&wanted.design)).unwrap();
    design.set(&mut wanted.settings, key, &value.into()).unwrap();
}

impl Site {
    pub(crate) fn new(switches: u8, hosts: u8) -> Self {
        Self::with(config(), switches, hosts)
    }

    pub(crate) fn with(config: ManagerConfig, switches: u8, hosts: u8) -> Self {
        let mut manager = Manager::new(CATALOG, config);
        for node in (0..switches).map(switch).chain((0..hosts).map(host)) {
            manager.attach(node).unwrap();
        }
        Self { manager, requests: 0 }
    }

    pub(crate) fn last_request(&self) -> RequestId {
        RequestId(self.requests)
    }

    /// Who is told to install what; or why nobody is.
    pub(crate) fn begin(
        &mut self,
        wanted: &GroupRequest,
    ) -> Result<Vec<(String, Instruction)>, InitGroupError> {
        self.requests += 1;
        let mut actions = Vec::new();
        self.manager.init_group(RequestId(self.requests), wanted, &mut actions);
        if let [Action::Answer { answer, .. }] = &actions[..] {
            return Err(answer.clone().unwrap_err());
        }
        assert!(matches!(actions[0], Action::SetInstallTimer { .. }), "{actions:?}");
        let told = |action| match action {
            Action::Instruct { node, instruction } => (node, instruction),
            other => panic!("{other:?}"),
        };
        Ok(actions.drain(1..).map(told).collect())
    }

    pub(crate) fn begin_id(&mut self, wanted: &GroupRequest) -> GroupId {
        self.begin(wanted).unwrap();
        self.manager.groups().map(|group| group.group).max().unwrap()
    }

    /// Makes a group that all nodes install.
    pub(crate) fn init(&mut self, wanted: &GroupRequest) -> GroupId {
        let told = self.begin(wanted).unwrap();
        let group = self.manager.groups().map(|group| group.group).max().unwrap();
        for (node, _) in told {
            self.report(&node, group, Report::Installed);
        }
        assert_eq!(self.state(group), GroupState::Ready);
        group
    }

    pub(crate) fn report(&mut self, node: &str, group: GroupId, report: Report) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.handle_report(node, group, report, &mut actions).unwrap();
        actions
    }

    pub(crate) fn expire(&mut self, group: GroupId) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.handle_install_timeout(group, &mut actions);
        actions
    }

    pub(crate) fn detach(&mut self, node: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.detach(node, "test", &mut actions);
        actions
    }

    pub(crate) fn destroy(&mut self, group: GroupId) -> Result<Vec<Action>, UnknownGroup> {
        let mut actions = Vec::new();
        self.manager.destroy_group(group, &mut actions)?;
        Ok(actions)
    }

    pub(crate) fn summary(&self, group: GroupId) -> GroupSummary {
        self.manager.groups().find(|summary| summary.group == group).unwrap()
    }

    pub(crate) fn state(&self, group: GroupId) -> GroupState {
        self.summary(group).state
    }
}
