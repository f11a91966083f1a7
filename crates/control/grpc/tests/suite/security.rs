//! What a stranger, another tenant or a node may not do: with certificates over TLS, and without them on loopback.

use crate::cluster;
use crate::cluster::{Cluster, WAIT, group_of, host, request, switch};
use quincunx_collective::GroupId;
use quincunx_control::{
    Fallback, GroupRequest, GroupState, Holding, Instruction, LinkReport, LinkState, NodeDescription,
    Progress, Report,
};
use quincunx_control_grpc::{
    Attachment, Authority, ClientConfig, ClientError, ControlClient, Credentials, GroupName, ManagerServer,
    OTHERS, Quota, Quotas, ServerConfig, StorePlace, Subject, proto,
};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_units::{ByteCount, Duration};
use std::net::TcpListener;
use std::path::PathBuf;

/// A manager with TLS, and an authority to make certificates for it.
struct Secured {
    authority: Authority,
    server: ManagerServer,
}

impl Secured {
    fn start(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let authority = Authority::new().unwrap();
        let mut config = ServerConfig::default();
        config.manager.fallback = Some(FALLBACK);
        config.credentials = Some(issue(&authority, &Subject::Manager));
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = ManagerServer::start(listener, CATALOG, config).unwrap();
        Self { authority, server }
    }

    fn connect(&self, subject: &Subject) -> ControlClient {
        self.connect_with(Some(issue(&self.authority, subject))).unwrap()
    }

    fn connect_with(&self, credentials: Option<Credentials>) -> Result<ControlClient, ClientError> {
        let config = ClientConfig {
            credentials,
            connect_timeout: Duration::from_millis(300),
            ..ClientConfig::default()
        };
        ControlClient::connect(self.server.address(), config)
    }

    fn operator(&self) -> ControlClient {
        self.connect(&Subject::Operator("alice".into()))
    }

    fn tenant(&self, name: &str) -> ControlClient {
        self.connect(&Subject::Tenant(name.into()))
    }

    /// A host of a tenant's, by that tenant's certificate.
    fn host(&self, tenant: &str, number: u8) -> (ControlClient, Attachment) {
        let client = self.tenant(tenant);
        let node = NodeDescription { name: format!("{tenant}/{number}"), ..host(number) };
        let attachment = client.attach(&node).unwrap();
        (client, attachment)
    }

    /// A group of a tenant's only host.
    fn group(&self, tenant: &(ControlClient, Attachment), name: &str) -> Result<GroupId, ClientError> {
        let mut wanted = request(1, "ring");
        wanted.members = vec![tenant.1.node().to_owned()];
        Self::named(&[tenant], name, &wanted)
    }

    /// A group of hosts, as the first of them wants it.
    fn named(
        hosts: &[&(ControlClient, Attachment)],
        name: &str,
        wanted: &GroupRequest,
    ) -> Result<GroupId, ClientError> {
        let (client, name, wanted) = (hosts[0].0.clone(), name.to_owned(), wanted.clone());
        let waiting = std::thread::spawn(move || client.init_named_group(&name, &wanted));
        while !waiting.is_finished() {
            for (_, node) in hosts {
                if let Ok(Ok(Instruction::Install(context))) = node.instructions().try_recv() {
                    node.report(context.group, Report::Installed);
                }
            }
            std::thread::yield_now();
        }
        Ok(waiting.join().unwrap()?.summary.group)
    }
}

fn issue(authority: &Authority, subject: &Subject) -> Credentials {
    Credentials::parse(&authority.issue(subject, 1).unwrap(), "the authority's").unwrap()
}

/// The manager's own words.
fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
    match result {
        Err(ClientError::Refused(reason)) => {
            assert!(!reason.contains('\n'), "{reason}");
            reason
        }
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn a_manager_that_listens_elsewhere_than_on_loopback_does_not_start_without_credentials() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let error = ManagerServer::start(listener, CATALOG, ServerConfig::default()).unwrap_err().to_string();
    assert!(error.starts_with("expected credentials for a manager at 0.0.0.0:"), "{error}");
    assert!(error.contains("quincunx manager init") && !error.contains('\n'), "{error}");
}

#[test]
fn who_has_no_certificate_or_another_authoritys_is_not_even_heard() {
    let secured = Secured::start(|_| {});
    let stranger = issue(&Authority::new().unwrap(), &Subject::Operator("alice".into()));
    for credentials in [None, Some(stranger)] {
        let asked = secured.connect_with(credentials).and_then(|client| client.list_groups());
        assert!(
            matches!(
                asked,
                Err(ClientError::Connect { .. } | ClientError::Lost { .. } | ClientError::Protocol { .. })
            ),
            "{asked:?}"
        );
    }
    assert_eq!(secured.operator().list_nodes().unwrap(), [], "and others are");
}

#[test]
fn a_node_takes_nobody_else_for_the_manager() {
    let secured = Secured::start(|_| {});
    let mut config = ServerConfig::default();
    let fake = Subject::Node("leaf".into());
    config.credentials = Some(issue(&secured.authority, &fake));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ManagerServer::start(listener, CATALOG, config).unwrap();
    let credentials = Some(issue(&secured.authority, &Subject::Tenant("blue".into())));
    let config =
        ClientConfig { credentials, connect_timeout: Duration::from_millis(300), ..ClientConfig::default() };
    let error = ControlClient::connect(server.address(), config).unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
}

#[test]
fn a_tenant_sees_and_ends_its_own_groups_alone() {
    let secured = Secured::start(|_| {});
    let (blue, red) = (secured.host("blue", 1), secured.host("red", 2));
    let group = secured.group(&blue, "train").unwrap();
    let own = secured.group(&red, "train").unwrap();
    assert_eq!(
        red.0.list_groups().unwrap().iter().map(|group| group.summary.group).collect::<Vec<_>>(),
        [own]
    );
    let stranger = refused(red.0.destroy_group(group));
    assert_eq!(
        stranger,
        refused(red.0.destroy_group(GroupId(99))).replace("99", &group.to_string()),
        "as if it were not there"
    );
    assert!(
        refused(red.0.explain_group(&GroupName::Number(group))).starts_with("expected a group that exists")
    );
    let all = secured.operator().list_groups().unwrap();
    let all: Vec<_> =
        all.iter().map(|group| (group.summary.group, group.tenant.as_str(), &group.summary.state)).collect();
    assert_eq!(all, [(group, "blue", &GroupState::Ready), (own, "red", &GroupState::Ready)]);
    blue.0.destroy_group(group).unwrap();
    secured.operator().destroy_group(own).unwrap();
}

#[test]
fn a_tenant_makes_no_group_of_anothers_hosts_and_does_not_hear_of_them() {
    let secured = Secured::start(|_| {});
    let (_blue, red) = (secured.host("blue", 1), secured.host("red", 2));
    let mut wanted = request(2, "ring");
    wanted.members = vec!["red/2".into(), "blue/1".into()];
    let theirs = refused(red.0.init_group(&wanted));
    wanted.members[1] = "blue/9".into();
    assert_eq!(theirs.replace("blue/1", "blue/9"), refused(red.0.init_group(&wanted)));
    let seen: Vec<_> = red.0.list_nodes().unwrap().into_iter().map(|node| node.description.name).collect();
    assert_eq!(seen, ["red/2"]);
}

#[test]
fn nodes_attach_as_themselves_alone_and_tenants_never_as_a_switch() {
    let secured = Secured::start(|_| {});
    let attach =
        |subject: Subject, node: NodeDescription| secured.connect(&subject).attach(&node).map(|_| ());
    let leaf = |name: &str| NodeDescription { name: name.into(), ..switch(0) };
    let blue = || Subject::Tenant("blue".into());
    attach(Subject::Node("leaf".into()), leaf("leaf")).unwrap();
    let other = refused(attach(Subject::Node("leaf".into()), leaf("root")));
    assert!(other.starts_with("expected the certificate of node \"root\", found node leaf"), "{other}");
    let fake = refused(attach(blue(), leaf("blue/0")));
    assert!(
        fake.starts_with("expected a host with a tenant's certificate, found switch \"blue/0\""),
        "{fake}"
    );
    let gpu = Subject::Host { node: "gpu".into(), tenant: "blue".into() };
    refused(attach(gpu.clone(), leaf("gpu")));
    attach(gpu, NodeDescription { name: "gpu".into(), ..host(1) }).unwrap();
    for name in ["red/1", "blue", "bluered/1", ""] {
        refused(attach(blue(), NodeDescription { name: name.into(), ..host(2) }));
    }
    refused(attach(Subject::Operator("alice".into()), host(3)));
}

#[test]
fn a_switch_makes_and_sees_no_groups() {
    let secured = Secured::start(|_| {});
    let leaf = secured.connect(&Subject::Node("leaf".into()));
    for reason in [
        refused(leaf.list_groups()),
        refused(leaf.list_nodes()),
        refused(leaf.destroy_group(GroupId(1))),
        refused(leaf.init_group(&request(1, "ring"))),
    ] {
        assert!(
            reason.starts_with("expected the certificate of a tenant or an operator, found node leaf"),
            "{reason}"
        );
    }
}

/// What anybody may send: the client's own calls speak for its own node alone.
fn report_as(
    client: &proto::control_client::ControlClient<tonic::transport::Channel>,
    node: &str,
    group: GroupId,
) -> tonic::Status {
    let report =
        proto::report_request::Report::DataPlaneFailed(proto::DataPlaneFailed { reason: "forged".into() });
    let request = proto::ReportRequest { node: node.into(), group: group.0, report: Some(report) };
    let mut client = client.clone();
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| runtime.block_on(client.report(request))).unwrap_err()
}

/// A connection on which anything can be said, with a certificate.
async fn anything_as(
    secured: &Secured,
    subject: &Subject,
) -> proto::control_client::ControlClient<tonic::transport::Channel> {
    let credentials = secured.authority.issue(subject, 1).unwrap();
    let (own, authority) = credentials.rsplit_once("-----BEGIN CERTIFICATE-----").unwrap();
    let authority = format!("-----BEGIN CERTIFICATE-----{authority}");
    let tls = tonic::transport::ClientTlsConfig::new()
        .identity(tonic::transport::Identity::from_pem(own, own))
        .ca_certificate(tonic::transport::Certificate::from_pem(authority))
        .domain_name("manager.quincunx");
    let address = format!("https://{}", secured.server.address());
    let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    proto::control_client::ControlClient::new(channel)
}

/// A port that is up and has one at its other end.
fn port(interface: &str, addresses: &[&str], (machine, other): (&str, &str)) -> proto::MachinePort {
    let heard = proto::PortNeighbour {
        chassis: format!("local {machine}"),
        port: format!("ifname {other}"),
        name: machine.into(),
    };
    proto::MachinePort {
        interface: interface.into(),
        is_up: true,
        addresses: addresses.iter().map(ToString::to_string).collect(),
        neighbours: vec![heard],
    }
}

#[test]
fn a_machine_tells_of_its_ports_in_its_own_name_and_for_its_own_nodes_alone() {
    let secured = Secured::start(|_| {});
    let client = secured.connect(&Subject::Node("switch-0".into()));
    let _switch = client.attach(&switch(0)).unwrap();
    let _hosts = [secured.host("blue", 1), secured.host("red", 2)];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let tell = |subject: Subject, machine: &str, ports: Vec<proto::MachinePort>| {
        let request = proto::ReportCablesRequest { machine: machine.into(), ports };
        runtime.block_on(async { anything_as(&secured, &subject).await.report_cables(request).await })
    };
    let red = || Subject::Tenant("red".into());
    let lies = [
        ("switch-0", "expected the certificate of node \"switch-0\", found tenant red"),
        ("blue/gpu", "expected the certificate of node \"blue/gpu\", found tenant red"),
        ("gpu", "expected the certificate of node \"gpu\", found tenant red"),
    ];
    for (machine, line) in lies {
        let refused = tell(red(), machine, Vec::new()).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert!(refused.message().starts_with(line), "{refused}");
    }
    let of_switch = vec![port("eth1", &[], ("red/gpu", "eth0"))];
    tell(Subject::Node("switch-0".into()), "switch-0", of_switch).unwrap();
    // It says to have the address of blue's host, too.
    let ports = vec![port("eth0", &["127.0.1.1", "127.0.1.2"], ("switch-0", "eth1"))];
    tell(red(), "red/gpu", ports).unwrap();
    let links = secured.operator().list_links().unwrap();
    let found: Vec<_> =
        links.iter().map(|link| (link.state, link.ends.each_ref().map(|end| end.nodes.clone()))).collect();
    let ends = [vec!["red/2".to_owned()], vec!["switch-0".to_owned()]];
    assert_eq!(found, [(LinkState::Found, ends)]);
    // Links name the machines of all tenants.
    let refused = secured.connect(&red()).list_links().unwrap_err().to_string();
    assert!(refused.contains("expected the certificate of an operator, found tenant red"), "{refused}");
}

#[test]
fn nobody_reports_for_another_node_and_the_group_goes_on() {
    let secured = Secured::start(|_| {});
    let blue = secured.host("blue", 1);
    let group = secured.group(&blue, "train").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let client = anything_as(&secured, &Subject::Tenant("red".into())).await;
        tokio::spawn(async move { report_as(&client, "blue/1", group) }).await.unwrap()
    });
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert!(
        status.message().starts_with("expected the certificate of node \"blue/1\", found tenant red"),
        "{status}"
    );
    assert_eq!(blue.0.list_groups().unwrap()[0].summary.state, GroupState::Ready);
}

#[test]
fn without_certificates_a_report_counts_on_the_nodes_own_connection_alone() {
    let cluster = Cluster::start(0, 2, cluster::config());
    let group = cluster.init_group(&request(2, "ring")).unwrap().group;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let address = format!("http://{}", cluster.address());
        let client = proto::control_client::ControlClient::connect(address).await.unwrap();
        tokio::spawn(async move { report_as(&client, "rank-0", group) }).await.unwrap()
    });
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    assert_eq!(cluster.client.list_groups().unwrap()[0].summary.state, GroupState::Ready);
}

#[test]
fn who_holds_a_switch_is_told_of_ones_own_groups_and_of_others_in_sum() {
    let secured = Secured::start(|_| {});
    let leaf = secured.connect(&Subject::Node("switch-0".into())).attach(&switch(0)).unwrap();
    let (blue, red) =
        ([1, 2].map(|number| secured.host("blue", number)), [3, 4].map(|number| secured.host("red", number)));
    let make = |[first, second]: &[(ControlClient, Attachment); 2]| {
        let mut wanted = request(2, "epic-3");
        wanted.members = [first, second].map(|(_, host)| host.node().to_owned()).into();
        let client = first.0.clone();
        let waiting = std::thread::spawn(move || client.init_group(&wanted));
        for node in [&leaf, &first.1, &second.1] {
            while let Ok(next) = node.instructions().recv_timeout(WAIT) {
                if let Instruction::Install(context) = next.unwrap() {
                    node.report(context.group, Report::Installed);
                    break;
                }
            }
        }
        waiting.join().unwrap().unwrap()
    };
    let (own, theirs) = (make(&blue), make(&red));
    let seen = blue[0].0.list_nodes().unwrap();
    let uses: Vec<_> = seen.iter().find(|node| node.description.name == "switch-0").unwrap().uses.clone();
    // What others have together begins nowhere.
    let theirs = Holding { offset: ByteCount::new(0), ..theirs.switches[0].clone() };
    assert_eq!(uses, [(own.group, own.switches[0].clone()), (OTHERS, theirs)]);
}

/// A group of a tenant's four hosts under one switch, which also have a way to each other over two; the tenant may have so much memory. What the group took, what the hosts hear when the one switch goes, and why it runs
/// among them then, if it does.
fn made_anew_with(limit: Option<ByteCount>) -> (ByteCount, Instruction, Option<Fallback>) {
    let secured = Secured::start(|config| {
        config.manager.recreates = true;
        config.quotas.default = Quota { switch_memory: limit, ..Quota::default() };
    });
    let linked = |node: NodeDescription, neighbours: &[&str]| {
        let link = |name: &&str| LinkReport {
            interface: None,
            neighbour: (*name).into(),
            parallel_links: 1,
            rate: None,
        };
        NodeDescription { links: neighbours.iter().map(link).collect(), ..node }
    };
    let leaf = |number: u8, neighbours: &[&str]| {
        let client = secured.connect(&Subject::Node(format!("switch-{number}")));
        client.attach(&linked(switch(number), neighbours)).unwrap()
    };
    let one = leaf(0, &["red/1", "red/2", "red/3", "red/4"]);
    let two = [leaf(1, &["red/1", "red/2", "switch-2"]), leaf(2, &["red/3", "red/4", "switch-1"])];
    let hosts = [1, 2, 3, 4].map(|number| secured.host("red", number));
    let mut wanted = request(4, "epic-3");
    wanted.members = hosts.iter().map(|(_, node)| node.node().to_owned()).collect();
    let client = hosts[0].0.clone();
    let asked = std::thread::spawn(move || client.init_group(&wanted).unwrap());
    let answer = |node: &Attachment| {
        let instruction = node.instructions().try_recv().ok()?.unwrap();
        let report = match &instruction {
            Instruction::Install(_) => Report::Installed,
            Instruction::Suspend { .. } => Report::Suspended(Progress { complete: 0, repeats_from: 1 }),
            Instruction::Remove(_) => Report::Removed,
            _ => return Some(instruction),
        };
        node.report(group_of(&instruction), report);
        Some(instruction)
    };
    while !asked.is_finished() {
        for node in two.iter().chain([&one]).chain(hosts.iter().map(|(_, node)| node)) {
            answer(node);
        }
    }
    let made = asked.join().unwrap();
    assert_eq!(made.switches.len(), 1, "the lower tree");
    drop(one);
    let until = std::time::Instant::now() + WAIT;
    loop {
        assert!(std::time::Instant::now() < until, "the hosts hear nothing");
        two.iter().for_each(|node| drop(answer(node)));
        let heard: Vec<_> = hosts.iter().filter_map(|(_, node)| answer(node)).collect();
        let end =
            |heard: &Instruction| matches!(heard, Instruction::Resume { .. } | Instruction::Failed { .. });
        if let Some(end) = heard.into_iter().find(end) {
            let [group] = &secured.operator().list_groups().unwrap()[..] else { panic!("one group") };
            return (made.switches[0].memory, end, group.summary.fallback.clone());
        }
    }
}

#[test]
fn a_group_that_is_made_anew_where_it_takes_more_than_its_tenant_may_have_goes_on_among_its_hosts() {
    let (taken, end, lack) = made_anew_with(None);
    assert!(matches!(end, Instruction::Resume { .. }), "{end:?}");
    assert_eq!(lack, None, "it has other switches");
    let (_, end, lack) = made_anew_with(Some(taken));
    assert!(matches!(end, Instruction::Resume { .. }), "{end:?}");
    let reason = lack.unwrap().to_string();
    assert!(
        reason.starts_with(&format!("expected tenant red to hold at most {taken} of switch memory")),
        "{reason}"
    );
}

#[test]
fn a_tenant_has_no_more_groups_in_switches_and_no_more_memory_of_them_than_it_may() {
    let quota = Quota { groups: Some(0), switch_memory: Some(ByteCount::new(1)), calls_per_second: None };
    let secured = Secured::start(|config| {
        config.quotas =
            Quotas { default: quota, tenants: [("red".into(), Quota { groups: Some(9), ..quota })].into() };
    });
    let [blue, red] = [("blue", [1, 2]), ("red", [3, 4])]
        .map(|(tenant, numbers)| numbers.map(|number| secured.host(tenant, number)));
    let leaf = secured.connect(&Subject::Node("switch-0".into())).attach(&switch(0)).unwrap();
    for (tenant, expected) in [
        (&blue, "expected tenant blue to have at most 0 groups in switches, found another asked for"),
        (&red, "expected tenant red to hold at most 1B of switch memory, found "),
    ] {
        let mut wanted = request(2, "epic-3");
        wanted.members = tenant.iter().map(|host| host.1.node().to_owned()).collect();
        Secured::named(&[&tenant[0], &tenant[1]], "train", &wanted).unwrap();
        let why = tenant[0].0.explain_group(&"train".parse().unwrap()).unwrap();
        assert!(why.reason.starts_with(expected), "{why:?}");
    }
    assert!(leaf.instructions().try_recv().is_err(), "the switch has not been told anything");
    assert_eq!(secured.operator().list_nodes().unwrap().last().unwrap().uses, []);
}

#[test]
fn who_asks_too_often_is_refused_and_others_are_not() {
    let quota = Quota { calls_per_second: Some(5), ..Quota::default() };
    let secured = Secured::start(|config| config.quotas.default = quota);
    let (blue, red) = (secured.tenant("blue"), secured.tenant("red"));
    let refusals: Vec<_> = (0..200).filter_map(|_| blue.list_groups().err()).collect();
    assert!(!refusals.is_empty());
    let expected = "expected at most 5 calls a second of tenant blue, found more; wait a second";
    assert!(refusals.iter().all(|error| error.to_string() == expected), "{refusals:?}");
    red.list_groups().unwrap();
    secured.operator().list_groups().unwrap();
}

#[test]
fn a_node_whose_certificate_is_revoked_hears_that_and_not_that_the_manager_has_stopped() {
    let secured = Secured::start(|_| {});
    let (_, node) = secured.host("blue", 1);
    secured.operator().revoke("tenant/blue", false).unwrap();
    let reason = refused(node.instructions().recv_timeout(WAIT).unwrap());
    assert!(
        reason.starts_with("expected a certificate that counts, found one that is revoked (tenant/blue)"),
        "{reason}"
    );
}

#[test]
fn a_rank_that_comes_back_alone_hears_that_its_job_is_over_until_nobody_is_left_of_it() {
    let secured = Secured::start(|_| {});
    let (first, second) = (secured.host("blue", 1), secured.host("blue", 2));
    let mut wanted = request(2, "ring");
    wanted.members = [&first, &second].map(|host| host.1.node().to_owned()).into();
    Secured::named(&[&first, &second], "train", &wanted).unwrap();
    drop(first);
    let again = |number| {
        let client = secured.tenant("blue");
        client.attach(&NodeDescription { name: format!("blue/{number}"), ..host(number) })
    };
    let over = refused(again(1));
    assert!(over.starts_with("expected a job that goes on for \"blue/1\", found it over: group "), "{over}");
    assert!(over.contains("\"blue/2\" is left of it"), "{over}");
    drop(second);
    again(1).unwrap();
}

/// A file that goes when this does.
struct AuditFile(PathBuf);

impl Drop for AuditFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_audit_log_says_who_asked_for_what_and_what_became_of_it() {
    let file = AuditFile(std::env::temp_dir().join(format!("quincunx-audit-{}.jsonl", std::process::id())));
    let secured = Secured::start(|config| config.audit = Some(file.0.clone()));
    let (blue, red) = (secured.host("blue", 1), secured.host("red", 2));
    let group = secured.group(&blue, "train").unwrap();
    refused(red.0.destroy_group(group));
    red.0.list_groups().unwrap();
    secured.operator().destroy_group(group).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| ["who", "call", "what", "verdict"].map(|key| line[key].as_str().unwrap().to_owned()))
        .collect();
    let expected = [
        ["tenant blue", "Attach", "node blue/1", "done"],
        ["tenant red", "Attach", "node red/2", "done"],
        ["tenant blue", "InitGroup", "ring for 1 members, called \"train\" as group 1", "done"],
        ["tenant red", "DestroyGroup", "group 1", "refused"],
        ["operator alice", "DestroyGroup", "group 1", "done"],
    ];
    assert_eq!(told, expected.map(|line| line.map(str::to_owned)));
    assert!(lines[3]["reason"].as_str().unwrap().starts_with("expected a group that exists"));
    assert!(lines.iter().all(|line| line["peer"].as_str().unwrap().starts_with("127.0.0.1:")));
}

#[test]
fn an_authority_that_was_kept_makes_certificates_that_are_good() {
    let secured = Secured::start(|_| {});
    let again = Authority::load(secured.authority.certificate(), secured.authority.key()).unwrap();
    let late = issue(&again, &Subject::Tenant("late".into()));
    assert_eq!(late.tenant().as_deref(), Some("late"));
    secured.connect_with(Some(late)).unwrap().list_groups().unwrap();
    let name = again.issue(&Subject::Tenant("a/b".into()), 1).unwrap_err().to_string();
    assert!(name.starts_with("expected a name of at most 64 letters"), "{name}");
}

#[test]
fn a_certificate_whose_days_are_over_is_not_heard() {
    let secured = Secured::start(|_| {});
    // It was good until now.
    let old = issue_for(&secured.authority, &Subject::Tenant("blue".into()), 0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let asked = secured.connect_with(Some(old)).and_then(|client| client.list_groups());
    assert!(asked.is_err(), "{asked:?}");
}

fn issue_for(authority: &Authority, subject: &Subject, days: u32) -> Credentials {
    Credentials::parse(&authority.issue(subject, days).unwrap(), "the authority's").unwrap()
}

#[test]
fn a_file_without_all_that_it_must_have_is_refused_in_a_line() {
    let whole = Authority::new().unwrap().issue(&Subject::Manager, 1).unwrap();
    let key = whole.find("-----BEGIN PRIVATE").unwrap();
    for (text, found) in [("", "0 certificates and 0 keys"), (&whole[..key], "1 certificates and 0 keys")] {
        let error = Credentials::parse(text, "some.pem").unwrap_err().to_string();
        assert!(error.contains("in some.pem") && error.contains(found) && !error.contains('\n'), "{error}");
    }
    assert!(!format!("{:?}", Credentials::parse(&whole, "").unwrap()).contains("PRIVATE"));
}

#[test]
fn a_revoked_tenant_is_refused_at_once_and_its_hosts_are_gone() {
    let secured = Secured::start(|_| {});
    let (operator, blue, red) = (secured.operator(), secured.host("blue", 1), secured.host("red", 2));
    secured.group(&blue, "train").unwrap();
    let revocation = operator.revoke("tenant/blue", false).unwrap();
    assert_eq!(revocation.detached, ["blue/1"]);
    assert_eq!((revocation.revoked, revocation.kept), (vec!["tenant/blue".to_owned()], false));
    let said = refused(blue.0.list_groups());
    assert!(said.contains("found one that is revoked (tenant/blue)"), "{said}");
    assert!(
        refused(secured.tenant("blue").list_groups()).contains("revoked"),
        "a new certificate of the name"
    );
    let nodes: Vec<_> =
        operator.list_nodes().unwrap().into_iter().map(|node| node.description.name).collect();
    assert_eq!(nodes, ["red/2"]);
    assert_eq!(red.0.list_groups().map(|groups| groups.len()), Ok(0));
    operator.revoke("tenant/blue", true).unwrap();
    secured.tenant("blue").list_groups().unwrap();
}

#[test]
fn one_certificate_is_revoked_by_its_number_and_another_of_the_name_counts() {
    let secured = Secured::start(|_| {});
    let stolen = issue(&secured.authority, &Subject::Node("leaf".into()));
    let node = NodeDescription { name: "leaf".into(), ..switch(0) };
    let attachment = secured.connect_with(Some(stolen.clone())).unwrap().attach(&node).unwrap();
    let who = format!("serial/{}", stolen.serial().unwrap());
    assert_eq!(secured.operator().revoke(&who, false).unwrap().detached, ["leaf"]);
    drop(attachment);
    let again = secured.connect_with(Some(stolen)).unwrap().attach(&node);
    assert!(refused(again).contains("revoked"));
    secured.connect(&Subject::Node("leaf".into())).attach(&node).unwrap();
}

#[test]
fn operators_alone_revoke_and_not_themselves() {
    let secured = Secured::start(|_| {});
    assert!(
        refused(secured.tenant("blue").revoke("tenant/red", false)).contains("certificate of an operator")
    );
    assert!(refused(secured.operator().revoke("operator/alice", false)).contains("one's own"));
    assert!(refused(secured.operator().revoke("blue", false)).contains("expected tenant/NAME"));
    assert_eq!(secured.operator().revoke("", false).unwrap().revoked, Vec::<String>::new());
}

#[test]
fn who_is_revoked_is_so_for_the_next_manager() {
    let folder = std::env::temp_dir().join(format!("quincunx-revoked-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = folder.join("groups.sqlite");
    let mut secured = Secured::start(|config| config.store = Some(StorePlace::File(store.clone())));
    assert!(secured.operator().revoke("node/leaf", false).unwrap().kept);
    let mut config = ServerConfig { store: Some(StorePlace::File(store)), ..ServerConfig::default() };
    config.credentials = Some(issue(&secured.authority, &Subject::Manager));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let spare =
        ManagerServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), CATALOG, ServerConfig::default());
    drop(std::mem::replace(&mut secured.server, spare.unwrap()));
    secured.server = ManagerServer::start(listener, CATALOG, config).unwrap();
    let node = NodeDescription { name: "leaf".into(), ..switch(0) };
    let attached = secured.connect(&Subject::Node("leaf".into())).attach(&node);
    assert!(refused(attached).contains("revoked (node/leaf)"));
    std::fs::remove_dir_all(folder).unwrap();
}
