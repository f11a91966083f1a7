//! The control plane over real sockets: bootstrap, groups, and everything that can go wrong. No test waits for a
//! fixed time: each waits for a message, and fails with a bound.

use crate::cluster;
use crate::cluster::{Cluster, WAIT, config, fast, names, request};
use quincunx_collective::{Collective, DataType, GroupId, Rank, ReduceOp};
use quincunx_control::{Call, Fallback, GroupState, InitGroupError, Instruction, Place, Report, Standing};
use quincunx_control_grpc::{
    CallRecord, ClientConfig, ClientError, ControlClient, GroupName, Holder, ManagerAddress, ManagerServer,
    Ran, RankCalls, Reason, ServerConfig, TimedCall,
};
use quincunx_design::{Node, Peer, Settings, Value};
use quincunx_designs::CATALOG;
use quincunx_needs::{ipv6, need};
use quincunx_units::{ByteCount, Duration};
use std::net::TcpListener;

#[test]
fn three_switches_and_eight_ranks_get_their_contexts_and_lose_them() {
    let cluster = Cluster::tree(8, config());
    let group = cluster.init_group(&request(8, "epic-3")).unwrap();
    assert_eq!(group.state, GroupState::Ready);
    assert_eq!(group.fallback, None);
    assert_eq!(group.switches.iter().map(|held| held.node.clone()).collect::<Vec<_>>(), names("switch", 3));
    cluster.destroy(group.group);
    assert_eq!(cluster.client.list_groups().unwrap(), []);
}

#[test]
fn each_node_is_told_its_own_place() {
    let cluster = Cluster::start(1, 2, config());
    let installs = cluster.begin_group(&request(2, "epic-2"));
    let [Instruction::Install(switch), Instruction::Install(first), Instruction::Install(second)] =
        &installs[..]
    else {
        panic!("expected a switch and two ranks, found {installs:?}");
    };
    assert_eq!(switch.node, Node::Switch);
    for ((number, context), edge) in (0..).map(Rank).zip([first, second]).zip(&switch.connections) {
        assert_eq!((context.node, &edge.peer), (Node::Rank(number), &Peer::Rank(number)));
        let [own] = &context.connections[..] else { panic!("a rank has one: {context:?}") };
        assert_eq!((edge.local, edge.remote), (own.remote, own.local));
    }
}

#[test]
fn operators_see_nodes_and_who_holds_what() {
    let cluster = Cluster::start(1, 2, config());
    let group = cluster.init_group(&request(2, "epic-2")).unwrap();
    let nodes = cluster.client.list_nodes().unwrap();
    let switch = nodes.iter().find(|node| node.description.name == "switch-0").unwrap();
    // Two windows of 2 x 4 packets of 1 KiB, and a degree of 4 bytes each.
    let expected = ByteCount::new(16 * 1024 + 16 * 4);
    assert_eq!(switch.uses[0].0, group.group);
    assert_eq!((switch.uses[0].1.memory, switch.uses[0].1.endpoints), (expected, 2));
    assert_eq!(cluster.client.list_groups().unwrap()[0].summary, group);
}

#[test]
fn a_missing_member_is_named() {
    let cluster = Cluster::start(1, 2, config());
    let error = cluster.client.init_group(&request(3, "epic-2")).unwrap_err();
    let expected = InitGroupError::MissingMember { name: "rank-2".to_string() };
    assert_eq!(error, ClientError::Refused(expected.to_string()));
}

#[test]
fn a_full_switch_makes_the_group_a_host_ring_and_says_so() {
    let cluster = Cluster::start(1, 4, config());
    let mut wanted = request(4, "epic-2");
    let epic = CATALOG.named("epic-2").unwrap();
    epic.set(&mut wanted.settings, "group.message", &Value::from(1 << 20)).unwrap();
    let group = cluster.init_group(&wanted).unwrap();
    assert_eq!(group.design, "ring");
    assert!(matches!(group.fallback, Some(Fallback::SwitchMemory { switch, .. }) if switch == "switch-0"));
}

#[test]
fn when_a_node_drops_out_the_others_are_told_who() {
    let mut cluster = Cluster::tree(8, config());
    let group = cluster.init_group(&request(8, "epic-1")).unwrap().group;
    drop(cluster.take("rank-5"));
    cluster.expect_failure(group, "rank-5");
}

#[test]
fn a_group_that_all_ranks_are_done_with_is_over_and_nothing_is_told_of_it_any_more() {
    let cluster = Cluster::start(1, 2, config());
    let wanted = request(2, "epic-2");
    // A name is taken as long as its group lives.
    for _ in 0..3 {
        let group = cluster.init_named("train", &wanted).unwrap().summary.group;
        for rank in names("rank", 2) {
            assert_eq!(cluster.client.list_groups().unwrap().len(), 1);
            let node = &cluster.nodes[&rank];
            node.report(group, Report::Released);
            node.client().wait_for_releases();
        }
        for node in cluster.nodes.keys() {
            assert_eq!(cluster.next(node), Instruction::Remove(group));
            cluster.nodes[node].report(group, Report::Removed);
        }
        assert_eq!(cluster.client.list_groups().unwrap(), []);
        let gone = cluster.client.explain_group(&GroupName::Name("train".to_string())).unwrap_err();
        assert!(gone.to_string().starts_with("expected a group that exists"), "{gone}");
    }
}

#[test]
fn a_rank_that_is_done_with_a_group_that_never_was_is_not_ended_by_that() {
    let cluster = Cluster::start(0, 1, config());
    let node = &cluster.nodes["rank-0"];
    node.report(quincunx_collective::GroupId(999), Report::Released);
    node.client().wait_for_releases();
    assert!(node.instructions().try_recv().is_err(), "it hears nothing of it");
}

#[test]
fn a_node_that_hangs_is_noticed_by_keep_alive() {
    let config = ServerConfig { keep_alive: Duration::from_secs(1), ..config() };
    let cluster = Cluster::start(1, 1, config);
    let hung = cluster.attach_hanging("rank-1");
    let group = cluster.begin_group(&request(2, "epic-1"));
    assert_eq!(group.len(), 2, "the switch and the rank that listens");
    cluster.expect_any_failure("rank-1");
    drop(hung);
}

#[test]
fn a_dead_peer_that_a_data_plane_reports_ends_the_group_for_all() {
    let cluster = Cluster::start(1, 2, config());
    let group = cluster.init_group(&request(2, "epic-3")).unwrap().group;
    let reason = "retry count exceeded toward rank 1".to_string();
    cluster.nodes["switch-0"].report(group, Report::DataPlaneFailed { reason: reason.clone() });
    answer(&cluster, group, [DataType::F32; 2]);
    let failure = cluster.expect_failure(group, "switch-0");
    assert_eq!(failure.reason, reason);
    let state = cluster.client.list_groups().unwrap().remove(0).summary.state;
    assert_eq!(state, GroupState::Failed(failure));
}

/// Both ranks are asked what they have called last, and say so.
fn answer(cluster: &Cluster, group: GroupId, types: [DataType; 2]) {
    for (rank, data_type) in ["rank-0", "rank-1"].into_iter().zip(types) {
        assert_eq!(cluster.next(rank), Instruction::TellCalls(group));
        let call = Call::new(9, Collective::AllReduce, (ReduceOp::Sum.into(), data_type), 64);
        cluster.nodes[rank].report(
            group,
            Report::Called { calls: vec![call], is_stalled: false, standing: Standing::default() },
        );
    }
}

#[test]
fn ranks_that_have_called_different_collectives_are_what_a_group_ends_by() {
    let cluster = Cluster::start(1, 2, config());
    let group = cluster.init_group(&request(2, "epic-3")).unwrap().group;
    cluster.nodes["switch-0"].report(group, Report::DataPlaneFailed { reason: "no answer".to_string() });
    answer(&cluster, group, [DataType::F32, DataType::I32]);
    let failure = cluster.expect_failure(group, "rank-1");
    let found = "found another data type: rank 1 (\"rank-1\") calls all_reduce of 64 bytes, sum of i32, rank 0 (\"rank-0\") ";
    assert!(failure.is_disagreement() && failure.reason.contains(found), "{failure}");
    let why = cluster.client.explain_group(&GroupName::Number(group)).unwrap();
    assert_eq!(why.reason, failure.reason);
}

#[test]
fn who_asks_for_whom_a_group_waits_hears_what_ranks_answer_and_who_does_not() {
    let cluster = Cluster::start(1, 3, config());
    let group = cluster.init_group(&request(3, "epic-3")).unwrap().group;
    let waits = std::thread::scope(|scope| {
        let asked = scope.spawn(|| cluster.client.ask_waits(&GroupName::Number(group)).unwrap());
        let sum = (ReduceOp::Sum.into(), DataType::F32);
        for (rank, called) in [("rank-0", 2), ("rank-1", 1)] {
            assert_eq!(cluster.next(rank), Instruction::TellCalls(group));
            let calls =
                (1..=called).map(|number| Call::new(number, Collective::AllReduce, sum, 64)).collect();
            let standing = Standing { complete: 1, idle: Duration::from_millis(70), message: None };
            cluster.nodes[rank].report(group, Report::Called { calls, is_stalled: false, standing });
        }
        // Rank 2 is asked, and says nothing.
        asked.join().unwrap()
    });
    assert_eq!((waits.number(), waits.waiting()), (Some(2), (vec![0], Duration::from_millis(70))));
    let [(1, Reason::NotCalled { last: Some(last), .. }), (2, Reason::Stopped)] = waits.waited_for()[..]
    else {
        panic!("{waits}")
    };
    assert_eq!(last.number, 1);
    let unknown = cluster.client.ask_waits(&GroupName::Name("nobody".into())).unwrap_err().to_string();
    assert!(unknown.contains("expected a group that exists, found none; list the groups"), "{unknown}");
}

#[test]
fn a_group_whose_ranks_tell_that_they_wait_for_long_is_listed_so() {
    let cluster = Cluster::start(1, 2, config());
    let group = cluster.init_group(&request(2, "epic-3")).unwrap().group;
    let stalled = || cluster.client.list_groups().unwrap().remove(0).stalled;
    let tell = |idle| {
        let call = Call::new(1, Collective::AllReduce, (ReduceOp::Sum.into(), DataType::F32), 64);
        let standing = Standing { complete: 0, idle, message: None };
        cluster.nodes["rank-0"]
            .report(group, Report::Called { calls: vec![call], is_stalled: true, standing });
    };
    tell(Duration::from_millis(960));
    // Rank 1 is asked what it has called: by then the report has been heard.
    assert_eq!((cluster.next("rank-1"), stalled()), (Instruction::TellCalls(group), None));
    tell(Duration::from_secs(7));
    let deadline = std::time::Instant::now() + WAIT;
    while stalled().is_none() {
        assert!(std::time::Instant::now() < deadline, "nobody has noted it");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(stalled().is_some_and(|stalled| stalled >= Duration::from_secs(7)));
}

#[test]
fn who_asks_for_calls_hears_when_they_were_and_how_clocks_differ() {
    let cluster = Cluster::start(1, 2, config());
    let group = cluster.init_group(&request(2, "epic-3")).unwrap().group;
    let call = Call {
        place: Some(Place { file: "train.py".into(), line: 88 }),
        ..Call::new(1, Collective::AllReduce, (ReduceOp::Sum.into(), DataType::F32), 64)
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let timed = TimedCall { call, called: now, begun: now + 1, ended: None };
    let ran = |bytes| Ran { collectives: 2, bytes, time: Duration::from_micros(bytes) };
    let record = CallRecord { calls: vec![timed], in_network: ran(7), among_hosts: ran(9) };
    let calls = std::thread::scope(|scope| {
        let asked = scope.spawn(|| cluster.client.ask_calls(&GroupName::Number(group)).unwrap());
        for rank in ["rank-0", "rank-1"] {
            assert_eq!(cluster.next(rank), Instruction::TellTimes(group));
        }
        // Rank 1 is asked, and says nothing.
        cluster.nodes["rank-0"].reporter().tell_times(group, &record);
        asked.join().unwrap()
    });
    assert_eq!(calls.ranks[0].record, Some(record));
    assert_eq!(calls.ran(), [ran(7), ran(9)], "who does not answer counts for nothing");
    assert!(
        calls.ranks[0].ahead.unsigned_abs() <= 2 * calls.ranks[0].error,
        "they have one clock: {calls:?}"
    );
    assert!(calls.ranks[0].machine != 0, "the kernel says which");
    assert_eq!(calls.ranks[1], RankCalls::silent(true));
}

#[test]
fn a_node_that_does_not_install_is_named_when_the_time_is_over() {
    let mut config = config();
    config.manager.install_timeout = Duration::from_millis(50);
    let cluster = Cluster::start(1, 2, config);
    let error = cluster.client.init_group(&request(2, "epic-3")).unwrap_err().to_string();
    assert!(error.contains("did not install the group within 50ms (nor did 2 others)"), "{error}");
    assert!(error.contains("\"rank-0\""), "{error}");
}

#[test]
fn a_node_that_refuses_its_context_ends_the_request() {
    let cluster = Cluster::start(1, 2, config());
    let waiting = cluster.call_init_group(&request(2, "epic-3"));
    let group = cluster::group_of(&cluster.next("switch-0"));
    cluster.nodes["switch-0"].report(group, Report::Refused { reason: "no table entry left".to_string() });
    let error = waiting.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("\"switch-0\": no table entry left"), "{error}");
}

#[test]
fn a_group_whose_caller_gives_up_is_taken_back() {
    let cluster = Cluster::start(1, 2, config());
    let config = ClientConfig { call_timeout: Duration::from_millis(500), ..ClientConfig::default() };
    let hasty = ControlClient::connect(cluster.address(), config).unwrap();
    let error = hasty.init_group(&request(2, "epic-3")).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { call: "InitGroup", .. }), "{error}");
    let group = cluster::group_of(&cluster.next("rank-0"));
    assert_eq!(cluster.next("rank-0"), Instruction::Remove(group));
}

#[test]
fn two_nodes_of_one_name_cannot_attach() {
    let cluster = Cluster::start(0, 1, config());
    let error = cluster.client.attach(&cluster::host(0)).unwrap_err().to_string();
    assert!(error.contains("expected a new node name, found \"rank-0\""), "{error}");
}

#[test]
fn a_node_that_has_left_can_come_back() {
    let mut cluster = Cluster::start(0, 1, config());
    drop(cluster.take("rank-0"));
    let deadline = std::time::Instant::now() + WAIT;
    while let Err(error) = cluster.client.attach(&cluster::host(0)) {
        assert!(std::time::Instant::now() < deadline, "{error}");
        std::thread::yield_now();
    }
}

#[test]
fn destroying_twice_is_an_error() {
    let cluster = Cluster::start(0, 2, config());
    let group = cluster.init_group(&request(2, "ring")).unwrap().group;
    cluster.destroy(group);
    let error = cluster.client.destroy_group(group).unwrap_err().to_string();
    assert_eq!(error, format!("expected a group that exists, found no group {group}; list the groups"));
}

#[test]
fn a_wrong_report_comes_back_to_the_node() {
    let cluster = Cluster::start(0, 2, config());
    let group = cluster.init_group(&request(1, "ring")).unwrap().group;
    cluster.nodes["rank-1"].report(group, Report::Installed);
    let error = cluster.nodes["rank-1"].instructions().recv_timeout(WAIT).unwrap().unwrap_err().to_string();
    assert!(error.contains("does not have it"), "{error}");
}

#[test]
fn when_the_manager_stops_nodes_and_callers_are_told() {
    let mut cluster = Cluster::start(0, 1, config());
    cluster.stop_manager();
    let last = cluster.nodes["rank-0"].instructions().recv_timeout(WAIT).unwrap();
    assert!(matches!(last, Err(ClientError::Lost { .. })), "{last:?}");
    let error = cluster.client.list_nodes().unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
}

#[test]
fn an_address_without_a_manager_is_an_error_in_time() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let error = ControlClient::connect(address, fast()).unwrap_err();
    assert!(
        matches!(&error, ClientError::Connect { address: found, .. } if *found == address.into()),
        "{error}"
    );
}

#[test]
fn a_server_that_never_answers_is_an_error_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let result = ControlClient::connect(silent.local_addr().unwrap(), fast())
        .and_then(|client| client.attach(&cluster::host(0)).map(|_| ()));
    assert!(result.is_err());
}

#[test]
fn waiting_for_nodes_says_who_is_missing() {
    let cluster = Cluster::start(1, 2, config());
    let wait = |ranks, switches| {
        cluster.client.wait_for_nodes(&names("rank", ranks), switches, Duration::from_millis(20))
    };
    assert_eq!(wait(2, 1), Ok(()));
    assert!(wait(3, 1).unwrap_err().to_string().contains("host \"rank-2\""));
    assert!(wait(2, 2).unwrap_err().to_string().contains("2 switches"));
}

#[test]
fn parameters_that_make_no_sense_are_refused_by_the_manager_in_a_line() {
    let cluster = Cluster::start(1, 2, config());
    let cases = [
        (
            r#"{"group":{"window":0}}"#,
            "expected `group.message` times `group.window` of 1 to 4194304 packets",
        ),
        (
            r#"{"group":{"window":1099511627776}}"#,
            "expected u32, found integer `1099511627776` in `group.window`",
        ),
        (r#"{"group":{"mtu":5}}"#, "expected `group.mtu` of a multiple of 4 bytes up to 4096, found 5B"),
        (r#"{"group":{"mtu":[]}}"#, "expected a number with its unit, found sequence in `group.mtu`"),
        (r#"{"hosts":{"window":4}}"#, "expected one of the keys group.acknowledge_every, "),
    ];
    for (settings, expected) in cases {
        let mut wanted = request(2, "epic-2");
        wanted.settings = Settings::parse(settings).unwrap();
        let error = cluster.client.init_group(&wanted).unwrap_err().to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
    assert_eq!(cluster.client.list_groups().unwrap(), []);
}

#[test]
fn a_design_of_another_version_is_refused_by_the_manager() {
    let cluster = Cluster::start(1, 2, config());
    let mut wanted = request(2, "epic-2");
    wanted.version = 7;
    let error = cluster.client.init_group(&wanted).unwrap_err().to_string();
    let expected = "expected version 6 of the parameters of epic-2, found version 7; the manager is older than the program that asks: \
                    upgrade it, and run the same version at both ends";
    assert_eq!(error, expected);
}

#[test]
fn a_manager_is_reached_by_its_hosts_name() {
    let cluster = Cluster::start(0, 1, config());
    let manager: ManagerAddress = format!("localhost:{}", cluster.address().port()).parse().unwrap();
    let client = ControlClient::connect(manager, ClientConfig::default()).unwrap();
    assert_eq!(client.list_nodes().unwrap().len(), 1);
}

#[test]
fn a_manager_is_reached_over_ipv6() {
    need!(ipv6());
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let manager: ManagerAddress = format!("[::1]:{}", listener.local_addr().unwrap().port()).parse().unwrap();
    let _server = ManagerServer::start(listener, CATALOG, config()).unwrap();
    let client = ControlClient::connect(manager, ClientConfig::default()).unwrap();
    assert_eq!(client.list_nodes().unwrap(), []);
}

#[test]
fn a_name_that_nobody_has_is_an_error_in_a_line() {
    let manager: ManagerAddress = "no-such-host.invalid:1".parse().unwrap();
    let error = ControlClient::connect(manager, fast()).unwrap_err().to_string();
    assert!(
        error.starts_with("expected a manager at no-such-host.invalid:1") && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn a_group_has_a_name_of_its_own_for_as_long_as_it_lives() {
    let cluster = Cluster::start(0, 2, config());
    let group = cluster.init_named("train", &request(2, "ring")).unwrap();
    assert_eq!((group.name.as_str(), group.asked.as_str()), ("train", "ring"));
    let again = cluster.client.init_named_group("train", &request(2, "ring")).unwrap_err().to_string();
    let number = group.summary.group;
    assert!(again.contains(&format!("found \"train\", which group {number} has")), "{again}");
    cluster.destroy(number);
    assert_eq!(cluster.init_named("train", &request(2, "ring")).unwrap().name, "train");
    for name in ["7", "a b", "a\n"] {
        let error = cluster.client.init_named_group(name, &request(2, "ring")).unwrap_err().to_string();
        assert!(error.starts_with("expected a group name of letters") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn why_the_network_is_not_used_names_the_switch_and_who_held_it_even_when_that_group_is_gone() {
    let cluster = Cluster::start(1, 4, config());
    let big = |epic: &str, message: u64| {
        let mut wanted = request(4, epic);
        let design = CATALOG.named(epic).unwrap();
        design.set(&mut wanted.settings, "group.message", &Value::from(message)).unwrap();
        wanted
    };
    let first = cluster.init_named("first", &big("epic-2", 80)).unwrap();
    assert_eq!(first.summary.fallback, None);
    let second = cluster.init_named("second", &big("epic-2", 80)).unwrap();
    assert_eq!(second.summary.design, "ring");
    let why = cluster.client.explain_group(&"second".parse().unwrap()).unwrap();
    let held = first.summary.switches[0].clone();
    let holder =
        Holder { group: first.summary.group, holding: held, name: "first".into(), tenant: String::new() };
    assert_eq!(why.asked, "epic-2");
    assert_eq!(why.group, Some(second.clone()));
    assert_eq!(why.reason, second.summary.fallback.as_ref().unwrap().to_string());
    assert_eq!(why.capacity, Some((1 << 20, 64)));
    assert_eq!((&why.then, &why.now), (&vec![holder.clone()], &vec![holder.clone()]));
    cluster.destroy(first.summary.group);
    let later = cluster.client.explain_group(&GroupName::Number(second.summary.group)).unwrap();
    assert_eq!((later.then, later.now), (vec![holder], vec![]));
}

#[test]
fn why_a_request_was_refused_is_known_by_its_name_until_a_group_has_it() {
    let cluster = Cluster::start(0, 2, config());
    let error = cluster.client.init_named_group("train", &request(2, "epic-2")).unwrap_err().to_string();
    let why = cluster.client.explain_group(&"train".parse().unwrap()).unwrap();
    assert_eq!((why.group, why.asked.as_str(), why.reason), (None, "epic-2", error));
    let group = cluster.init_named("train", &request(2, "ring")).unwrap();
    let why = cluster.client.explain_group(&"train".parse().unwrap()).unwrap();
    assert_eq!((why.group, why.reason), (Some(group), String::new()));
    let error = cluster.client.explain_group(&"other".parse().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("expected a group that exists"), "{error}");
}

#[test]
fn a_switch_that_says_its_link_is_down_ends_the_group_on_it() {
    let mut config = config();
    config.manager.recreates = false;
    let cluster = Cluster::tree(4, config);
    let group = cluster.init_group(&request(4, "epic-2")).unwrap().group;
    let nodes = cluster.client.list_nodes().unwrap();
    let leaf = nodes.iter().find(|node| node.description.name == "switch-1").unwrap();
    let mut links = leaf.description.links.clone();
    links.iter_mut().filter(|link| link.neighbour == "switch-0").for_each(|link| link.parallel_links = 0);
    cluster.nodes["switch-1"].reporter().update_links(&links);
    let failure = cluster.expect_failure(group, "switch-1");
    assert!(failure.reason.contains("its link between") && failure.reason.contains("is down"), "{failure}");
    let now = cluster.client.list_nodes().unwrap();
    let leaf = now.iter().find(|node| node.description.name == "switch-1").unwrap();
    assert_eq!(leaf.description.links, links);
}
