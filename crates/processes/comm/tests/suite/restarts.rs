//! Endpoints whose manager ends, and starts again or does not: what is under way goes on, and what is over says why.

use quincunx_comm::{
    Buffers, CommError, DataType, Endpoint, Group, Handle, Operation, Options, ReduceOp, Sink,
};
use quincunx_control_grpc::{
    ClientConfig, ControlClient, ManagerAddress, ManagerServer, ServerConfig, StorePlace,
};
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const RANKS: u16 = 2;
/// More than anything takes here.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
/// Elements of a vector.
const COUNT: usize = 4096;
/// Collectives of a rank that are begun and have not ended.
const DEPTH: usize = 2;

/// Leave to use the addresses of [`attach`], which serve one test of this process at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ADDRESSES: Mutex<()> = Mutex::new(());
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A manager that is stopped and started again at its address, with what it kept.
struct Manager {
    store: PathBuf,
    address: ManagerAddress,
    server: Option<ManagerServer>,
}

impl Manager {
    fn start(name: &str) -> Self {
        let store = std::env::temp_dir().join(format!("quincunx-comm-{name}-{}.sqlite", std::process::id()));
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

    fn attach(&self, rank: u16) -> Endpoint {
        let [.., high, low] = std::process::id().to_be_bytes();
        let mut options = Options::new(self.address.clone().into(), "job.", rank, RANKS);
        options.address = Some(IpAddr::from([127, high, low, 1 + rank as u8]));
        options.design = "ring".into();
        [options.join_limit, options.limit] = [Duration::from(LIMIT); 2];
        Endpoint::attach(CATALOG, options).unwrap()
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.store.display()));
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.server = None;
        self.remove();
    }
}

/// Where a sum goes.
#[derive(Clone)]
struct Sum(Arc<Mutex<Vec<u8>>>);

impl Sink for Sum {
    fn length(&self) -> usize {
        4 * COUNT
    }
    fn write(&mut self, offset: usize, from: &[u8]) {
        self.0.lock().unwrap()[offset..][..from.len()].copy_from_slice(from);
    }
}

/// Two ranks that always have something under way.
#[derive(Default)]
struct Busy {
    is_over: AtomicBool,
    ended: [AtomicU64; RANKS as usize],
}

impl Busy {
    /// Ends when all ranks have learned from one sum that it is over.
    fn run(&self, endpoint: &Endpoint) -> Result<(), CommError> {
        let group = endpoint.world()?;
        let mut under_way = VecDeque::new();
        let (mut number, mut last) = (0, None);
        loop {
            while under_way.len() < DEPTH && last.is_none() {
                under_way.push_back((number, self.begin(&group, number)?));
                number += 1;
            }
            let Some((number, (handle, Sum(sum)))) = under_way.pop_front() else { return Ok(()) };
            handle.wait()?;
            let sum = sum.lock().unwrap();
            let elements: Vec<i32> =
                sum.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect();
            assert!(elements[1..].iter().all(|element| *element == 2 * number + 1), "a wrong sum");
            last = last.or((elements[0] > 0).then_some(number));
            self.ended[usize::from(group.rank())].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn begin(&self, group: &Group, number: i32) -> Result<(Handle, Sum), CommError> {
        let mut vector = vec![number + i32::from(group.rank()); COUNT];
        vector[0] = i32::from(group.rank() == 0 && self.is_over.load(Ordering::Relaxed));
        let source: Vec<u8> = vector.iter().flat_map(|element| element.to_le_bytes()).collect();
        let sum = Sum(Arc::new(Mutex::new(vec![0; 4 * COUNT])));
        let buffers = Buffers { source: Box::new(source), sink: Box::new(sum.clone()) };
        let handle = group.start(Operation::AllReduce(DataType::I32, ReduceOp::Sum.into()), buffers)?;
        Ok((handle, sum))
    }

    /// Until each rank has ended some more, or one of them is over.
    fn wait_for_more(&self, is_over: impl Fn() -> bool) {
        let begun = Instant::now();
        let now = || self.ended.each_ref().map(|ended| ended.load(Ordering::Relaxed));
        let before = now();
        while now().iter().zip(before).any(|(now, before)| *now < before + 2 * DEPTH as u64) && !is_over() {
            assert!(begun.elapsed() < LIMIT, "a rank stands still");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Ends the ranks, however a test ends.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn ranks_that_are_always_busy_do_not_notice_a_manager_that_starts_again() {
    let _alone = alone();
    let mut manager = Manager::start("busy");
    let endpoints = [0, 1].map(|rank| manager.attach(rank));
    let busy = Busy::default();
    std::thread::scope(|scope| {
        let _end = End(&busy.is_over);
        let ranks: Vec<_> = endpoints.iter().map(|endpoint| scope.spawn(|| busy.run(endpoint))).collect();
        let is_over = || ranks.iter().any(|rank| rank.is_finished());
        busy.wait_for_more(is_over);
        for _ in 0..2 {
            manager.server = None;
            busy.wait_for_more(is_over);
            manager.serve();
            let watching = ControlClient::connect(manager.address.clone(), ClientConfig::default()).unwrap();
            let names = [0, 1].map(|rank| format!("job.{rank}"));
            watching.wait_for_nodes(&names, 0, LIMIT.into()).unwrap();
            busy.wait_for_more(is_over);
        }
        busy.is_over.store(true, Ordering::Relaxed);
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), Ok(()));
        }
    });
    // A group that is made later is none that there was before.
    std::thread::scope(|scope| {
        let [first, second] = &endpoints;
        let numbers = first.make_group(&[0, 1]).unwrap();
        let other = scope.spawn(move || second.join_group(&[0, 1], numbers).unwrap().barrier());
        assert_eq!(first.join_group(&[0, 1], numbers).unwrap().barrier(), Ok(()));
        assert_eq!(other.join().unwrap(), Ok(()));
    });
}

#[test]
fn what_has_ended_an_endpoint_is_said_to_whoever_asks_later() {
    let _alone = alone();
    let mut manager = Manager::start("ended");
    let endpoint = manager.attach(0);
    manager.server = None;
    let begun = Instant::now();
    let error = loop {
        match endpoint.traffic() {
            Ok(_) => assert!(begun.elapsed() < LIMIT, "the endpoint runs without a manager"),
            Err(error) => break error,
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let text = error.to_string();
    assert!(text.starts_with("expected a connection to the manager, but it is gone"), "{text}");
    let joined = |endpoint: &Endpoint| endpoint.join_group(&[0, 1], [1, 2]).unwrap_err();
    assert_eq!(joined(&endpoint), error);
    endpoint.close().unwrap();
    assert_eq!((endpoint.traffic().unwrap_err(), joined(&endpoint)), (error.clone(), error));
}

#[test]
fn an_endpoint_that_was_closed_says_that() {
    let _alone = alone();
    let manager = Manager::start("closed");
    let endpoint = manager.attach(0);
    endpoint.close().unwrap();
    let error = endpoint.traffic().unwrap_err().to_string();
    assert!(error.contains("found it closed"), "{error}");
}

#[test]
fn closing_comes_to_an_end_though_the_manager_goes_meanwhile() {
    let _alone = alone();
    let mut manager = Manager::start("closing");
    let [first, second] = [0, 1].map(|rank| manager.attach(rank));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.world().unwrap());
        (first.world().unwrap(), other.join().unwrap())
    });
    manager.server = None;
    let (ended, end) = channel();
    // It waits for the end of the group, which the other rank is to ask for.
    std::thread::spawn(move || ended.send(second.close()));
    assert_eq!(end.recv_timeout(LIMIT), Ok(Ok(())), "it hangs");
}
