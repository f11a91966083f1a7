//! Four ranks, one of which calls something else than the others: every rank gets the error that names two ranks and what they differ in, in every
//! design that runs for real, and nobody is told of a result.

use quincunx_collective::{DataType, ReduceOp};
use quincunx_comm::{Buffers, CommError, Endpoint, Operation, Options, Sink};
use quincunx_control::{NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ManagerServer, ServerConfig};
use quincunx_designs::CATALOG;
use quincunx_driver_net::{NodeOptions, TransportOptions};
use quincunx_runtime::{ProcessOptions, SwitchSnapshot, serve_switch};
use quincunx_sockets::UdpOptions;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::Framing;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

const RANKS: u16 = 4;
const BYTES: usize = 4096;

/// Nothing here takes so long.
const LIMIT: Duration = Duration::from_secs(30);

const SUM: Operation = Operation::AllReduce(DataType::F32, quincunx_collective::Op::Reduce(ReduceOp::Sum));

/// An operation, with the bytes of a vector.
type Called = (Operation, usize);

/// What three ranks call and what rank 1 calls, and what they differ in.
const KINDS: [(Called, Called, &str); 9] = [
    ((SUM, BYTES), (SUM, 2 * BYTES), "length"),
    ((SUM, BYTES), (SUM, 0), "length"),
    ((SUM, BYTES), (Operation::AllReduce(DataType::I32, op(ReduceOp::Sum)), BYTES), "data type"),
    ((SUM, BYTES), (Operation::AllReduce(DataType::F32, op(ReduceOp::Max)), BYTES), "operation"),
    (
        (Operation::Broadcast(DataType::F32, 0), BYTES),
        (Operation::Broadcast(DataType::F32, 1), BYTES),
        "root",
    ),
    ((reduce(0), BYTES), (reduce(1), BYTES), "root"),
    (
        (Operation::Broadcast(DataType::F32, 0), BYTES),
        (Operation::Broadcast(DataType::I32, 0), BYTES),
        "data type",
    ),
    ((Operation::AllGather(DataType::F32), BYTES), (Operation::AllGather(DataType::U8), BYTES), "data type"),
    ((SUM, BYTES), (Operation::Broadcast(DataType::F32, 0), BYTES), "collective"),
];

const fn op(op: ReduceOp) -> quincunx_collective::Op {
    quincunx_collective::Op::Reduce(op)
}

const fn reduce(root: u16) -> Operation {
    Operation::Reduce(DataType::F32, op(ReduceOp::Sum), root)
}

/// Room for a result that nobody looks at.
struct Room(usize);

impl Sink for Room {
    fn length(&self) -> usize {
        self.0
    }
    fn write(&mut self, _: usize, _: &[u8]) {}
}

/// Ends a switch also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The first address of ranks.
const OF_JOBS: u8 = 16;

/// No other test process uses these addresses, and tests of this one take turns.
fn address(index: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    IpAddr::from([127, high, low, 1 + index])
}

fn call(group: &quincunx_comm::Group, (operation, bytes): Called) -> Result<(), CommError> {
    let me = group.rank();
    let (given, room) = match operation {
        Operation::Broadcast(_, root) if root == me => (bytes, 0),
        Operation::Broadcast(..) => (0, bytes),
        Operation::Reduce(_, _, root) if root != me => (bytes, 0),
        Operation::AllGather(_) => (bytes, bytes * usize::from(RANKS)),
        _ => (bytes, bytes),
    };
    group
        .start(operation, Buffers { source: Box::new(vec![1_u8; given]), sink: Box::new(Room(room)) })?
        .wait()
}

/// Whether an error names the odd rank, one other, and what they differ in. Which other, and which of the two first, depends on who has come by then.
fn names(text: &str, (job, odd): (&str, u16), what: &str) -> bool {
    let start = "expected all ranks of group ";
    let found = format!(" to call the same collective (number 2), found another {what}: rank ");
    let named = |rank: &u16| text.contains(&format!("rank {rank} (\"{job}{rank}\") "));
    let named: Vec<u16> = (0..RANKS).filter(named).collect();
    text.starts_with(start) && text.contains(&found) && named.len() == 2 && named.contains(&odd)
}

/// What each rank hears.
fn disagree(
    manager: SocketAddr,
    (design, number): (&str, usize),
    [usual, other]: [Called; 2],
) -> Vec<Result<(), CommError>> {
    let rank = |rank: u16| {
        let options = Options {
            // The manager may not have heard yet that the ranks of the job before are gone.
            address: Some(address(OF_JOBS + number as u8 * RANKS as u8 + rank as u8)),
            design: design.into(),
            switches: 1,
            limit: LIMIT,
            join_limit: LIMIT,
            ..Options::new(manager.into(), format!("job{number}-"), rank, RANKS)
        };
        let endpoint = Endpoint::attach(CATALOG, options).unwrap();
        let world = endpoint.world().unwrap();
        assert_eq!(world.design(), design);
        // In several parts. The group ends where its ranks differ: who is slow and still at this one then hears so here.
        let heard = call(&world, (SUM, 3 << 20));
        let heard = heard.and_then(|()| call(&world, if rank == 1 { other } else { usual }));
        // So does whatever is called later.
        let later = world.barrier();
        assert!(heard.is_ok() || later == heard, "{later:?} after {heard:?}");
        endpoint.close().unwrap();
        heard
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..RANKS).map(|number| scope.spawn(move || rank(number))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// Runs something with a manager and a switch; one test at a time.
fn with_a_manager(run: impl FnOnce(SocketAddr)) {
    static ADDRESSES: Mutex<()> = Mutex::new(());
    let _alone = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap();
    let manager = server.address();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let switch =
            scope.spawn(|| serve_switch(CATALOG, &switch(manager), &stop, &SwitchSnapshot::default()));
        let stop = Stop(&stop);
        run(manager);
        drop(stop);
        switch.join().unwrap().unwrap();
    });
}

fn every_rank_hears_what_differs(design: &str) {
    with_a_manager(|manager| {
        let mut wrong = Vec::new();
        for (number, (usual, other, what)) in KINDS.into_iter().enumerate() {
            for (rank, heard) in disagree(manager, (design, number), [usual, other]).into_iter().enumerate() {
                let said = |text: &str| names(text, (&format!("job{number}-"), 1), what);
                match heard {
                    Err(CommError::Group(text)) if said(&text) => {}
                    heard => {
                        wrong.push(format!("{:?} and {:?}: rank {rank} heard {heard:?}", usual.0, other.0))
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{design}:\n{}", wrong.join("\n"));
    });
}

fn switch(manager: SocketAddr) -> ProcessOptions {
    let description = NodeDescription {
        role: Role::Switch,
        designs: ["epic-1", "epic-2", "epic-3", "netreduce"].map(String::from).into(),
        memory: ByteCount::new(64 << 20),
        ..NodeDescription::host("leaf".into(), address(100), 64)
    };
    ProcessOptions {
        description,
        manager: manager.into(),
        control: ClientConfig::default(),
        framing: Framing::RoceV2,
        transport: TransportOptions::Udp(UdpOptions::default()),
        any_interface: false,
        offload: false,
        hardware: None,
        lose_sent: false,
        node: NodeOptions::default(),
        capture: None,
    }
}

#[test]
fn a_call_is_told_as_a_whole_however_many_parts_it_is_cut_into() {
    let bytes = 3 << 20;
    with_a_manager(|manager| {
        for heard in
            disagree(manager, ("epic-3", 0), [(SUM, bytes), (Operation::Broadcast(DataType::F32, 0), bytes)])
        {
            let Err(CommError::Group(text)) = heard else { panic!("{heard:?}") };
            assert!(names(&text, ("job0-", 1), "collective"), "{text}");
            assert!(text.contains("broadcast of 3145728 bytes with root 0"), "{text}");
            assert!(text.contains("all_reduce of 3145728 bytes, sum of f32"), "{text}");
        }
    });
}

#[test]
fn with_epic_in_mode_i_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("epic-1");
}

#[test]
fn with_epic_in_mode_ii_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("epic-2");
}

#[test]
fn with_epic_in_mode_iii_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("epic-3");
}

#[test]
fn with_a_ring_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("ring");
}

#[test]
fn with_a_tree_of_hosts_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("tree");
}

#[test]
fn with_direct_exchanges_every_rank_hears_what_differs() {
    every_rank_hears_what_differs("direct");
}
