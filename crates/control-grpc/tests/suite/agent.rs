//! The agent of a machine: nodes without certificates are whom its certificate names, and attach again after its end.

use quincunx_control_grpc::{
    AgentServer, Authority, ClientConfig, ControlClient, Credentials, ManagerServer, ServerConfig, Subject,
};
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use std::net::{SocketAddr, TcpListener};

use crate::cluster::{WAIT, host, switch};

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

#[test]
fn an_agent_listens_on_loopback_alone() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let manager: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let error = AgentServer::start(listener, manager.into(), None).unwrap_err().to_string();
    assert!(error.starts_with("expected an agent to listen on loopback"), "{error}");
}
