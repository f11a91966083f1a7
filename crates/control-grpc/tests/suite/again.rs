//! Calls while no manager serves: made again when the next one does, by those that have patience.

use quincunx_control::{Instruction, Report};
use quincunx_control_grpc::{
    Attachment, ClientConfig, ClientError, ControlClient, ManagerAddress, ManagerServer, ServerConfig,
    StorePlace,
};
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cluster::{host, request};

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
