//! The agent of a machine: nodes without certificates are whom its certificate names, and attach again after its end.

use quincunx_control::{GroupRequest, GroupState, Instruction, NodeDescription, Report};
use quincunx_control_grpc::{
    AgentServer, Attachment, Authority, ClientConfig, ControlClient, Credentials, ManagerServer,
    ServerConfig, Subject,
};
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use std::net::{SocketAddr, TcpListener};

use crate::cluster::{WAIT, host, request, switch};

fn issue(authority: &Authority, subject: &Subject) -> Credentials {
    Credentials::parse(&authority.issue(subject, 30).unwrap(), "test").unwrap()
}

/// A manager that asks for certificates.
fn secured(authority: &Authority) -> ManagerServer {
    let config =
        ServerConfig { credentials: Some(issue(authority, &Subject::Manager)), ..ServerConfig::default() };
    ManagerServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), CATALOG, config).unwrap()
}

fn agent(at: &str, manager: SocketAddr, credentials: Option<&Credentials>) -> AgentServer {
    // The last one's connections may still hold the port.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let listener = loop {
        match TcpListener::bind(at) {
            Ok(listener) => break listener,
            Err(error) => assert!(std::time::Instant::now() < until, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    AgentServer::start(listener, manager.into(), credentials).unwrap()
}

/// A client without a certificate.
fn client(at: SocketAddr, patience: Duration) -> ControlClient {
    let config =
        ClientConfig { patience, connect_timeout: Duration::from_secs(1), ..ClientConfig::default() };
    ControlClient::connect(at, config).unwrap()
}

#[test]
fn nodes_are_whom_the_certificate_of_their_agent_names() {
    let authority = Authority::new().unwrap();
    let manager = secured(&authority);
    let credentials = issue(&authority, &Subject::Node("switch-0".into()));
    let agent = agent("127.0.0.1:0", manager.address(), Some(&credentials));
    let node = client(agent.address(), Duration::ZERO);
    let _attached = node.attach(&switch(0)).unwrap();
    let refused = node.attach(&host(1)).unwrap_err().to_string();
    assert!(refused.contains("rank-1"), "{refused}");
    let operator = ControlClient::connect(
        manager.address(),
        ClientConfig {
            credentials: Some(issue(&authority, &Subject::Operator("alice".into()))),
            ..ClientConfig::default()
        },
    );
    let nodes = operator.unwrap().list_nodes().unwrap();
    assert_eq!(nodes.len(), 1);
}

#[test]
fn a_certificate_that_the_manager_does_not_know_leads_nowhere() {
    let manager = secured(&Authority::new().unwrap());
    let stranger = issue(&Authority::new().unwrap(), &Subject::Node("switch-0".into()));
    for credentials in [None, Some(&stranger)] {
        let agent = agent("127.0.0.1:0", manager.address(), credentials);
        let config = ClientConfig { connect_timeout: Duration::from_millis(300), ..ClientConfig::default() };
        let asked = ControlClient::connect(agent.address(), config).and_then(|client| client.list_nodes());
        assert!(asked.is_err(), "{asked:?}");
    }
}

#[test]
fn nodes_attach_again_when_their_agent_is_started_again() {
    let authority = Authority::new().unwrap();
    let manager = secured(&authority);
    let credentials = issue(&authority, &Subject::Node("switch-0".into()));
    let first = agent("127.0.0.1:0", manager.address(), Some(&credentials));
    let at = first.address().to_string();
    let operator = issue(&authority, &Subject::Operator("alice".into()));
    let config = ClientConfig { credentials: Some(operator), ..ClientConfig::default() };
    let operator = ControlClient::connect(manager.address(), config).unwrap();
    let wait_for = |nodes: usize| {
        let until = std::time::Instant::now() + WAIT;
        while operator.list_nodes().unwrap().len() != nodes {
            assert!(std::time::Instant::now() < until, "there are never {nodes} nodes");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let attached = client(first.address(), Duration::from(WAIT)).attach(&switch(0)).unwrap();
    wait_for(1);
    drop(first);
    wait_for(0);
    let _second = agent(&at, manager.address(), Some(&credentials));
    wait_for(1);
    assert!(attached.instructions().try_recv().is_err(), "nothing is said to a node that is back");
}

/// The hosts of a tenant behind their agent, in a group. The manager waits so long for nodes that have lost their agent.
struct Behind {
    _manager: ManagerServer,
    credentials: Credentials,
    agent: Option<AgentServer>,
    at: String,
    operator: ControlClient,
}

/// By name: a client of its own, as a process would have.
type Hosts = Vec<(ControlClient, Attachment)>;

impl Behind {
    fn start(waits: Duration) -> (Self, Hosts) {
        let authority = Authority::new().unwrap();
        let mut config = ServerConfig {
            credentials: Some(issue(&authority, &Subject::Manager)),
            ..ServerConfig::default()
        };
        config.manager.restart_timeout = waits;
        let manager =
            ManagerServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), CATALOG, config).unwrap();
        let credentials = issue(&authority, &Subject::Tenant("blue".into()));
        let agent = agent("127.0.0.1:0", manager.address(), Some(&credentials));
        let at = agent.address();
        let operator = Some(issue(&authority, &Subject::Operator("alice".into())));
        let config = ClientConfig { credentials: operator, ..ClientConfig::default() };
        let operator = ControlClient::connect(manager.address(), config).unwrap();
        let attach = |number: u8| {
            let client = client(at, WAIT.into());
            let node = NodeDescription { name: format!("blue/{number}"), ..host(number) };
            let node = client.attach(&node).unwrap();
            (client, node)
        };
        let hosts: Hosts = [0, 1].into_iter().map(attach).collect();
        let asking = client(at, Duration::ZERO);
        let wanted = GroupRequest { members: vec!["blue/0".into(), "blue/1".into()], ..request(2, "ring") };
        let asked = std::thread::spawn(move || asking.init_group(&wanted));
        for (_, node) in &hosts {
            let Instruction::Install(context) = next(node) else { panic!("nothing to install") };
            node.report(context.group, Report::Installed);
        }
        asked.join().unwrap().unwrap();
        hosts.iter().for_each(|(_, node)| assert!(matches!(next(node), Instruction::Ready(_))));
        (Self { _manager: manager, credentials, agent: Some(agent), at: at.to_string(), operator }, hosts)
    }

    fn stop(&mut self) {
        self.agent = None;
        self.wait_for(0);
    }

    fn start_again(&mut self) {
        self.agent = Some(agent(&self.at, self._manager.address(), Some(&self.credentials)));
    }

    fn wait_for(&self, nodes: usize) {
        let until = std::time::Instant::now() + WAIT;
        while self.operator.list_nodes().unwrap().len() != nodes {
            assert!(std::time::Instant::now() < until, "there are never {nodes} nodes");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn state(&self) -> GroupState {
        self.operator.list_groups().unwrap().remove(0).summary.state
    }

    fn wait_for_failure(&self) -> String {
        let until = std::time::Instant::now() + WAIT;
        loop {
            if let GroupState::Failed(failure) = self.state() {
                return failure.to_string();
            }
            assert!(std::time::Instant::now() < until, "the group does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

fn next(node: &Attachment) -> Instruction {
    node.instructions().recv_timeout(WAIT).unwrap().unwrap()
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

#[test]
fn a_group_goes_on_whose_agent_is_started_again() {
    let (mut behind, hosts) = Behind::start(LONG);
    behind.stop();
    behind.start_again();
    behind.wait_for(2);
    assert_eq!(behind.state(), GroupState::Ready);
    hosts.iter().for_each(|(_, node)| assert!(matches!(next(node), Instruction::Ready(_))));
    // And as often as it is.
    behind.stop();
    behind.start_again();
    behind.wait_for(2);
    assert_eq!(behind.state(), GroupState::Ready);
}

#[test]
fn a_node_that_ends_behind_its_agent_is_gone_at_once() {
    let (behind, mut hosts) = Behind::start(LONG);
    drop(hosts.pop());
    let failure = behind.wait_for_failure();
    assert!(failure.contains("blue/1") && failure.contains("connection to the manager is gone"), "{failure}");
}

#[test]
fn a_node_that_leaves_and_closes_its_connection_later_is_gone_then() {
    let (behind, mut hosts) = Behind::start(LONG);
    let (client, node) = hosts.pop().unwrap();
    drop(node);
    behind.wait_for(1);
    drop(client);
    let failure = behind.wait_for_failure();
    assert!(failure.contains("blue/1") && failure.contains("connection to the manager is gone"), "{failure}");
}

#[test]
fn a_group_ends_whose_agent_is_not_started_again_and_its_ranks_hear_why() {
    let (mut behind, hosts) = Behind::start(Duration::from_millis(50));
    behind.stop();
    let failure = behind.wait_for_failure();
    assert!(failure.contains("did not come back in time"), "{failure}");
    behind.start_again();
    for (_, node) in &hosts {
        let Instruction::Failed { failure: heard, .. } = next(node) else { panic!("no failure is told") };
        assert_eq!(heard.to_string(), failure);
    }
}

#[test]
fn who_calls_while_there_is_no_manager_is_answered_by_the_next_one() {
    let start = |at: SocketAddr| {
        let listener = ManagerServer::bind(&at.into()).unwrap();
        ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap()
    };
    let first = start(([127, 0, 0, 1], 0).into());
    let at = first.address();
    let agent = agent("127.0.0.1:0", at, None);
    drop(first);
    // Without patience of its own, and no manager has served it yet.
    let client = client(agent.address(), Duration::ZERO);
    let asked = std::thread::spawn(move || client.list_nodes());
    std::thread::sleep(std::time::Duration::from_millis(200));
    let _second = start(at);
    assert_eq!(asked.join().unwrap(), Ok(Vec::new()));
}

#[test]
fn an_agent_listens_on_loopback_alone() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let manager: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let error = AgentServer::start(listener, manager.into(), None).unwrap_err().to_string();
    assert!(error.starts_with("expected an agent to listen on loopback"), "{error}");
}

#[test]
fn a_node_that_starts_while_one_of_its_name_ends_is_taken_and_beside_one_that_stays_refused() {
    let manager =
        ManagerServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), CATALOG, ServerConfig::default())
            .unwrap();
    let ends = client(manager.address(), Duration::ZERO).attach(&host(0)).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(ends);
    });
    let next = client(manager.address(), Duration::ZERO);
    let _stays = next.attach(&host(0)).unwrap();
    ending.join().unwrap();
    let refused = next.attach(&host(0)).unwrap_err().to_string();
    assert!(refused.contains("which is attached"), "{refused}");
}
