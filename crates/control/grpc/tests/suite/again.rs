//! Calls while no manager serves: made again when the next one does, by those that have patience.

use quincunx_control::{GroupState, Instruction, Report};
use quincunx_control_grpc::{
    Attachment, ClientConfig, ClientError, ControlClient, ManagerAddress, ManagerServer, Managers,
    ServerConfig, StorePlace,
};
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::cluster::{WAIT, host, request, switch};

/// A manager that can be stopped and started again at its address, with what it kept.
struct Restartable {
    store: PathBuf,
    address: ManagerAddress,
    server: Option<ManagerServer>,
}

impl Restartable {
    fn start(name: &str) -> Self {
        let store = std::env::temp_dir().join(format!("quincunx-again-{name}-{}.sqlite", std::process::id()));
        let mut manager = Self { store, address: "127.0.0.1:0".parse().unwrap(), server: None };
        manager.remove();
        manager.serve();
        manager.address = manager.server.as_ref().unwrap().address().into();
        manager
    }

    fn serve(&mut self) {
        let store = Some(StorePlace::File(self.store.clone()));
        let listener = ManagerServer::bind(&self.address).unwrap();
        let config = ServerConfig { store, ..ServerConfig::default() };
        self.server = Some(ManagerServer::start(listener, CATALOG, config).unwrap());
    }

    fn client(&self, patience: Duration) -> ControlClient {
        let config = ClientConfig { patience, ..ClientConfig::default() };
        ControlClient::connect(self.address.clone(), config).unwrap()
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.store.display()));
        }
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        self.server = None;
        self.remove();
    }
}

/// Ends the nodes, however a test ends.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Installs and removes what it is told to, until it is to stop.
fn answer(node: &Attachment, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match node.instructions().recv_timeout(std::time::Duration::from_millis(5)) {
            Ok(Ok(Instruction::Install(context))) => node.report(context.group, Report::Installed),
            Ok(Ok(Instruction::Remove(group))) => node.report(group, Report::Removed),
            _ => {}
        }
    }
}

#[test]
fn a_group_that_is_ended_while_no_manager_serves_is_ended_by_the_next_one() {
    let mut manager = Restartable::start("ended");
    let patient = Duration::from_secs(20);
    let nodes = [0, 1].map(|index| manager.client(patient).attach(&host(index)).unwrap());
    let (client, hasty) = (manager.client(patient), manager.client(Duration::ZERO));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in nodes {
            let stop = &stop;
            scope.spawn(move || answer(&node, stop));
        }
        let _end = End(&stop);
        let group = client.init_group(&request(2, "ring")).unwrap().group;
        manager.server = None;
        let lost = hasty.destroy_group(group).unwrap_err();
        assert!(matches!(lost, ClientError::Lost { .. }), "{lost}");
        let asking = client.clone();
        let ended = scope.spawn(move || asking.destroy_group(group));
        std::thread::sleep(std::time::Duration::from_millis(300));
        manager.serve();
        assert_eq!(ended.join().unwrap(), Ok(Vec::new()), "all nodes have said that they have forgotten it");
        assert_eq!(client.list_groups().unwrap().len(), 0);
        // One that has never been is no group that is ended already.
        assert!(matches!(client.destroy_group(group), Err(ClientError::Refused(_))));
    });
}

#[test]
fn what_a_node_reports_while_no_manager_serves_the_next_one_hears() {
    let mut manager = Restartable::start("reported");
    let patient = Duration::from_secs(20);
    let nodes = [0, 1].map(|index| manager.client(patient).attach(&host(index)).unwrap());
    let reporter = nodes[0].reporter().clone();
    let client = manager.client(patient);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in nodes {
            let stop = &stop;
            scope.spawn(move || answer(&node, stop));
        }
        let _end = End(&stop);
        let group = client.init_group(&request(2, "ring")).unwrap().group;
        manager.server = None;
        reporter.report(group, Report::DataPlaneFailed { reason: "rank-1 does not answer".into() });
        // It has been tried in vain by then.
        std::thread::sleep(std::time::Duration::from_millis(300));
        manager.serve();
        let limit = Instant::now() + WAIT;
        loop {
            let groups = client.list_groups().unwrap();
            let state = groups.iter().map(|listed| &listed.summary.state).next();
            if let Some(GroupState::Failed(failure)) = state {
                assert_eq!(
                    (failure.node.as_str(), failure.reason.as_str()),
                    ("rank-0", "rank-1 does not answer")
                );
                break;
            }
            assert!(Instant::now() < limit, "nobody has heard of it: {groups:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

/// Installs what nodes are told to, until one of them hears what is waited for.
fn hear(nodes: &[Attachment], awaited: impl Fn(&Instruction) -> bool) -> Instruction {
    let end = Instant::now() + WAIT;
    loop {
        for node in nodes {
            let heard = node.instructions().recv_timeout(std::time::Duration::from_millis(5));
            let Ok(Ok(instruction)) = heard else { continue };
            if let Instruction::Install(context) = &instruction {
                node.report(context.group, Report::Installed);
            }
            if awaited(&instruction) {
                return instruction;
            }
        }
        assert!(Instant::now() < end, "nobody has heard it");
    }
}

#[test]
fn what_a_manager_has_heard_and_not_decided_when_it_ends_the_next_one_hears() {
    let mut manager = Restartable::start("undecided");
    let patient = Duration::from_secs(20);
    let nodes = [0, 1].map(|index| manager.client(patient).attach(&host(index)).unwrap());
    let client = manager.client(patient);
    std::thread::scope(|scope| {
        let made = scope.spawn(move || client.init_group(&request(2, "ring")).unwrap().group);
        hear(&nodes, |instruction| matches!(instruction, Instruction::Ready(_)));
        let group = made.join().unwrap();
        let reason = "rank-1 does not answer".to_owned();
        nodes[0].report(group, Report::DataPlaneFailed { reason: reason.clone() });
        // It asks what ranks have called before it decides.
        hear(&nodes, |instruction| matches!(instruction, Instruction::TellCalls(_)));
        manager.server = None;
        manager.serve();
        let over = hear(&nodes, |instruction| matches!(instruction, Instruction::Failed { .. }));
        let Instruction::Failed { failure, .. } = over else { unreachable!("it is what was waited for") };
        assert_eq!((failure.node, failure.reason), ("rank-0".to_owned(), reason));
    });
}

#[test]
fn a_group_that_ranks_are_done_with_ends_though_its_manager_has_heard_of_one_of_them_alone() {
    let mut manager = Restartable::start("released");
    let patient = Duration::from_secs(20);
    let nodes = [0, 1].map(|index| manager.client(patient).attach(&host(index)).unwrap());
    let [first, second] = [0, 1].map(|index: usize| nodes[index].reporter().clone());
    let (heard, client) = (nodes[0].client().clone(), manager.client(patient));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in nodes {
            let stop = &stop;
            scope.spawn(move || answer(&node, stop));
        }
        let _end = End(&stop);
        let group = client.init_group(&request(2, "ring")).unwrap().group;
        first.report(group, Report::Released);
        heard.wait_for_releases();
        manager.server = None;
        second.report(group, Report::Released);
        manager.serve();
        let end = Instant::now() + WAIT;
        while !client.list_groups().unwrap().is_empty() {
            assert!(Instant::now() < end, "group {group} is there still");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        manager.server = None;
        manager.serve();
        assert_eq!(client.list_groups().unwrap(), [], "it is not kept either");
    });
}

/// Stands before a manager, and once it is told to keeps back what that says: the caller's words arrive, and no answer comes.
struct Muffle {
    address: SocketAddr,
    is_silent: AtomicBool,
}

impl Muffle {
    /// Hands on the bytes of one connection; its end is the other's.
    fn carry(&self, caller: &TcpStream, manager: &TcpStream) {
        std::thread::scope(|scope| {
            scope.spawn(|| copy(caller, manager, || false));
            copy(manager, caller, || self.is_silent.load(Ordering::Relaxed));
        });
    }
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, is_dropped: impl Fn() -> bool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_dropped() && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // It fails where the other end is gone already.
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_group_whose_manager_ends_between_its_store_and_its_answer_is_the_next_managers_answer_and_the_only_one()
{
    let mut first = Restartable::start("gap");
    let second: ManagerAddress = format!("127.0.0.1:{}", free_port()).parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let muffle = Muffle { address: listener.local_addr().unwrap(), is_silent: AtomicBool::new(false) };
    let patient = ClientConfig { patience: Duration::from_secs(20), ..ClientConfig::default() };
    let managers = |first: &str| format!("{first},{second}").parse::<Managers>().unwrap();
    let direct = managers(&first.address.to_string());
    let nodes = [host(0), host(1), switch(0)]
        .map(|node| ControlClient::connect(direct.clone(), patient.clone()).unwrap().attach(&node).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for node in nodes {
            let stop = &stop;
            scope.spawn(move || answer(&node, stop));
        }
        let _end = End(&stop);
        let manager = TcpStream::connect(first.address.to_string()).unwrap();
        let (muffle, through) = (&muffle, managers(&muffle.address.to_string()));
        scope.spawn(move || {
            let (caller, _) = listener.accept().unwrap();
            // Nobody else comes: who tries again goes to the next manager.
            drop(listener);
            muffle.carry(&caller, &manager);
        });
        let asking = ControlClient::connect(through, patient.clone()).unwrap();
        muffle.is_silent.store(true, Ordering::Relaxed);
        let asked = scope.spawn(move || asking.init_group(&request(2, "epic-3")));
        let watching = first.client(Duration::ZERO);
        let limit = Instant::now() + WAIT;
        let made = loop {
            if let [made] = &watching.list_groups().unwrap()[..]
                && made.summary.state == GroupState::Ready
            {
                break made.summary.clone();
            }
            assert!(Instant::now() < limit, "no group");
        };
        assert!(!asked.is_finished(), "nobody has been answered");
        drop(watching);
        first.server = None;
        first.address = second.clone();
        first.serve();
        let answered = asked.join().unwrap().unwrap();
        assert_eq!((answered.group, &answered.switches), (made.group, &made.switches));
        let watching = first.client(Duration::ZERO);
        let all: Vec<_> = watching.list_groups().unwrap().iter().map(|group| group.summary.group).collect();
        assert_eq!(all, [made.group]);
        assert_eq!(watching.destroy_group(made.group), Ok(Vec::new()));
    });
}

#[test]
fn who_asks_a_manager_that_has_just_taken_over_gets_a_tree_though_nodes_are_still_on_their_way() {
    let mut manager = Restartable::start("soon");
    let patience = Duration::from_secs(20);
    let client = manager.client(patience);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = |node: quincunx_control::NodeDescription| {
            let (node, stop) = (client.attach(&node).unwrap(), &stop);
            scope.spawn(move || answer(&node, stop));
        };
        let _end = End(&stop);
        [host(0), host(1), switch(0)].into_iter().for_each(start);
        let group = client.init_group(&request(2, "epic-3")).unwrap().group;
        client.destroy_group(group).unwrap();
        manager.server = None;
        let asking = client.clone();
        let asked = scope.spawn(move || asking.init_group(&request(2, "epic-3")));
        manager.serve();
        let made = asked.join().unwrap().unwrap();
        assert_eq!((made.design.as_str(), made.fallback), ("epic-3", None));
        client.destroy_group(made.group).unwrap();
    });
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
