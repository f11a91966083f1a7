//! The store in etcd: whoever holds a lease there is the manager, and each change is a transaction that fails when the lease is not his any
//! more. So a manager that was stopped, or cut off, and wakes up beside its successor changes nothing, and ends.

use super::kept::{Store, StoreError, StoredState, VERSION};
use crate::client::root_cause;
use crate::{Credentials, ManagerAddress, convert, proto};
use etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use etcdserverpb::kv_client::KvClient;
use etcdserverpb::lease_client::LeaseClient;
use etcdserverpb::request_op::Request;
use etcdserverpb::{
    Compare, DeleteRangeRequest, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
    PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use prost::Message;
use quincunx_control::Change;
use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod etcdserverpb {
    include!("../generated/etcdserverpb.rs");
}

/// How long a manager that says nothing any more keeps the next one waiting. etcd grants no less.
const LEASE_SECONDS: i64 = 2;

/// How long etcd may take to answer when the store is opened.
const OPENING: Duration = Duration::from_secs(5);

/// Pause between tries.
const AGAIN: Duration = Duration::from_millis(50);

/// How long a store that is closed tries to give its lease back: without, the next manager waits for the lease's end.
const CLOSING: Duration = Duration::from_millis(500);

/// A fabric's keys, as long as the lease is this manager's.
#[derive(Debug)]
pub(super) struct EtcdStore {
    runtime: Option<Runtime>,
    etcd: Etcd,
    lease: i64,
    /// What tells this manager's lease from any other's.
    revision: i64,
    granted: Duration,
}

/// The way to it.
#[derive(Clone, Debug)]
struct Etcd {
    /// For errors.
    place: String,
    prefix: String,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
}

impl EtcdStore {
    /// Takes the lease, which must be free, and reads what was kept.
    pub(super) fn open(
        place: String,
        members: &[ManagerAddress],
        prefix: &str,
        credentials: Option<&Credentials>,
        lost: &mpsc::Sender<StoreError>,
    ) -> Result<(Self, StoredState), StoreError> {
        if credentials.is_none() && !members.iter().all(ManagerAddress::is_loopback) {
            return Err(StoreError::Bare { place });
        }
        let wrong = |reason: String| StoreError::Etcd { place: place.clone(), reason };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let channel = {
            let _context = runtime.enter();
            let endpoints = members.iter().map(|member| endpoint(member, credentials));
            let endpoints =
                endpoints.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(root_cause(&error)))?;
            Channel::balance_list(endpoints.into_iter())
        };
        let etcd = Etcd {
            place: place.clone(),
            prefix: prefix.to_owned(),
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(channel),
        };
        let until = Instant::now() + OPENING;
        let (lease, granted, revision, stored) = runtime.block_on(etcd.take(until))?;
        let hold = etcd.clone().hold(lease, granted, lost.clone());
        runtime.spawn(hold);
        Ok((Self { runtime: Some(runtime), etcd, lease, revision, granted }, stored))
    }

    /// Makes a change, if the lease is still this manager's.
    fn change(&self, request: Request) -> Result<(), StoreError> {
        let txn = TxnRequest {
            compare: vec![created(self.etcd.leader(), self.revision)],
            success: vec![RequestOp { request: Some(request) }],
            failure: Vec::new(),
        };
        let (etcd, until) = (self.etcd.clone(), Instant::now() + self.granted);
        let (done, answer) = sync_channel(1);
        // The caller is asynchronous itself, and its step must not end before this does.
        self.runtime.as_ref().expect("it is taken only when dropped").spawn(async move {
            let _ = done.send(etcd.txn(txn, until).await);
        });
        match answer.recv_timeout(self.granted + AGAIN) {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(StoreError::Lost { place: self.etcd.place.clone() }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.etcd.silent()),
        }
    }
}

impl Store for EtcdStore {
    fn keep(&self, change: &Change, name: &str) -> Result<(), StoreError> {
        self.change(match change {
            Change::Numbers(numbers) => self.etcd.put("numbers", numbers.to_string()),
            Change::Put(record) => {
                let bytes = convert::encode_record(record, name).encode_to_vec();
                self.etcd.put(&format!("groups/{}", record.group.0), bytes)
            }
            Change::Remove(group) => self.etcd.delete(&format!("groups/{}", group.0)),
        })
    }

    fn keep_revoked(&self, who: &str, lift: bool) -> Result<(), StoreError> {
        let key = format!("revoked/{who}");
        self.change(if lift { self.etcd.delete(&key) } else { self.etcd.put(&key, "") })
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let (mut lease, request) = (self.etcd.lease.clone(), LeaseRevokeRequest { id: self.lease });
        let (done, answer) = sync_channel(1);
        runtime.spawn(async move {
            let _ = done.send(lease.lease_revoke(request).await.is_ok());
        });
        let _ = answer.recv_timeout(CLOSING);
        runtime.shutdown_background();
    }
}

impl Etcd {
    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.prefix).into_bytes()
    }

    /// The key that is the manager's as long as its lease runs.
    fn leader(&self) -> Vec<u8> {
        self.key("manager")
    }

    fn put(&self, name: &str, value: impl Into<Vec<u8>>) -> Request {
        Request::RequestPut(PutRequest { key: self.key(name), value: value.into(), lease: 0 })
    }

    fn delete(&self, name: &str) -> Request {
        Request::RequestDeleteRange(DeleteRangeRequest { key: self.key(name), range_end: Vec::new() })
    }

    fn silent(&self) -> StoreError {
        StoreError::Etcd { place: self.place.clone(), reason: "no answer".to_owned() }
    }

    fn contents(&self, found: impl Into<String>) -> StoreError {
        StoreError::Contents { place: self.place.clone(), found: found.into() }
    }

    /// Calls until there is an answer: what is asked of etcd here may be asked twice.
    async fn call<T, A>(&self, until: Instant, mut ask: impl FnMut() -> A) -> Result<T, StoreError>
    where
        A: Future<Output = Result<T, Status>>,
    {
        let mut reason = "no answer".to_owned();
        loop {
            match tokio::time::timeout_at(until.into(), ask()).await {
                Err(_) => return Err(StoreError::Etcd { place: self.place.clone(), reason }),
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => {
                    reason = match std::error::Error::source(&status) {
                        Some(source) => root_cause(source),
                        None => status.message().to_owned(),
                    };
                    if !matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled) {
                        return Err(StoreError::Etcd { place: self.place.clone(), reason });
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn range(
        &self,
        key: Vec<u8>,
        range_end: Vec<u8>,
        until: Instant,
    ) -> Result<Vec<KeyValue>, StoreError> {
        let request = RangeRequest { key, range_end };
        let range = || {
            let (mut kv, request) = (self.kv.clone(), request.clone());
            async move { kv.range(request).await }
        };
        self.call(until, range).await.map(|answer| answer.into_inner().kvs)
    }

    /// Whether it was done.
    async fn txn(&self, txn: TxnRequest, until: Instant) -> Result<bool, StoreError> {
        let ask = || {
            let (mut kv, txn) = (self.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        };
        self.call(until, ask).await.map(|answer| answer.into_inner().succeeded)
    }

    /// Becomes the manager, if nobody is: the lease, how long it runs, its revision, and what was kept.
    async fn take(&self, until: Instant) -> Result<(i64, Duration, i64, StoredState), StoreError> {
        let taken = || StoreError::Taken { place: self.place.clone() };
        if !self.range(self.leader(), Vec::new(), until).await?.is_empty() {
            return Err(taken());
        }
        let grant = || {
            let mut lease = self.lease.clone();
            async move { lease.lease_grant(LeaseGrantRequest { ttl: LEASE_SECONDS, id: 0 }).await }
        };
        let granted = self.call(until, grant).await?.into_inner();
        let who = std::process::id().to_string().into_bytes();
        let put = PutRequest { key: self.leader(), value: who, lease: granted.id };
        let txn = TxnRequest {
            compare: vec![created(self.leader(), 0)],
            success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
            failure: Vec::new(),
        };
        self.txn(txn, until).await?;
        // Whether it was done this one says, even if the answer was lost and it was asked for twice.
        let revision = match &self.range(self.leader(), Vec::new(), until).await?[..] {
            [leader] if leader.lease == granted.id => leader.create_revision,
            _ => return Err(taken()),
        };
        // '0' comes after '/'.
        let (first, end) = (self.key(""), format!("{}0", self.prefix).into_bytes());
        let stored = self.read(self.range(first, end, until).await?)?;
        if stored.is_none() {
            let compare = vec![created(self.leader(), revision)];
            let success = vec![RequestOp { request: Some(self.put("version", VERSION.to_string())) }];
            if !self.txn(TxnRequest { compare, success, failure: Vec::new() }, until).await? {
                return Err(taken());
            }
        }
        let seconds = u64::try_from(granted.ttl).unwrap_or_default();
        Ok((granted.id, Duration::from_secs(seconds), revision, stored.unwrap_or_default()))
    }

    /// What was kept; nothing, if nobody has kept anything.
    fn read(&self, found: Vec<KeyValue>) -> Result<Option<StoredState>, StoreError> {
        let (mut stored, mut version) = (StoredState::default(), None);
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse::<u32>().ok();
        for KeyValue { key, value, .. } in found {
            let key = String::from_utf8(key).map_err(|_| self.contents("a key that is no text"))?;
            let name =
                key.strip_prefix(&*self.prefix).and_then(|key| key.strip_prefix('/')).unwrap_or_default();
            let wrong = || self.contents(format!("{} bytes under {key}", value.len()));
            match name.split_once('/') {
                None if name == "manager" => {}
                None if name == "version" => version = Some(number(&value).ok_or_else(wrong)?),
                None if name == "numbers" => stored.numbers = number(&value).ok_or_else(wrong)?,
                Some(("groups", _)) => {
                    let record = proto::GroupRecord::decode(&value[..]).map_err(|_| wrong())?;
                    stored.groups.push(
                        convert::decode_record(record).map_err(|error| self.contents(error.to_string()))?,
                    );
                }
                Some(("revoked", who)) => stored.revoked.push(who.to_owned()),
                _ => return Err(wrong()),
            }
        }
        stored.groups.sort_by_key(|(record, _)| record.group);
        match version {
            None if stored.groups.is_empty() => Ok(None),
            Some(VERSION) => Ok(Some(stored)),
            None => Err(self.contents("no version")),
            Some(other) => Err(self.contents(format!("version {other}"))),
        }
    }

    /// Holds the lease until that fails, and says so: before etcd may give it to somebody else.
    async fn hold(mut self, id: i64, granted: Duration, lost: mpsc::Sender<StoreError>) {
        let mut until = Instant::now() + granted;
        while Instant::now() < until {
            tokio::time::sleep(granted / 4).await;
            let sent = Instant::now();
            match tokio::time::timeout_at(until.into(), self.renew(id)).await {
                // It runs from when etcd heard of it, which was later.
                Ok(Ok(true)) => until = sent + granted,
                Ok(Ok(false)) => break,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let _ = lost.try_send(StoreError::Lost { place: self.place });
    }

    /// Whether the lease was still there.
    async fn renew(&mut self, id: i64) -> Result<bool, Status> {
        let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
        let mut answers = self.lease.lease_keep_alive(requests).await?.into_inner();
        Ok(answers.message().await?.is_some_and(|answer| answer.ttl > 0))
    }
}

/// Holds if `key` was made by that revision; 0: if it is not there.
fn created(key: Vec<u8>, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key,
        target_union: Some(TargetUnion::CreateRevision(revision)),
    }
}

fn endpoint(
    member: &ManagerAddress,
    credentials: Option<&Credentials>,
) -> Result<Endpoint, tonic::transport::Error> {
    let scheme = if credentials.is_some() { "https" } else { "http" };
    let endpoint =
        Endpoint::from_shared(format!("{scheme}://{member}"))?.connect_timeout(Duration::from_secs(1));
    match credentials {
        Some(credentials) => endpoint.tls_config(credentials.client().domain_name(member.host())),
        None => Ok(endpoint),
    }
}

#[cfg(test)]
mod tests {
    //! Against an etcd of one member, which Debian's etcd-server brings.

    use super::super::tests::record;
    use super::*;
    use quincunx_collective::GroupId;
    use quincunx_needs::{need, program};
    use std::net::TcpListener;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    /// Gone at the end of a test, with its folder.
    struct Server {
        member: ManagerAddress,
        folder: PathBuf,
        process: Child,
    }

    impl Server {
        fn start(name: &str) -> Self {
            let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let [client, peer] = [port(), port()].map(|port| format!("http://127.0.0.1:{port}"));
            let folder = std::env::temp_dir().join(format!("quincunx-etcd-{name}-{}", std::process::id()));
            let mut command = Command::new("etcd");
            command.arg("--data-dir").arg(&folder);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &format!("default={peer}")]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let process = command.spawn().unwrap();
            let at = client.strip_prefix("http://").unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while std::net::TcpStream::connect(at).is_err() {
                assert!(Instant::now() < until, "no etcd at {at}");
                std::thread::sleep(AGAIN);
            }
            Self { member: at.parse().unwrap(), folder, process }
        }

        fn open(&self, prefix: &str) -> Result<(EtcdStore, StoredState), StoreError> {
            let (lost, _) = mpsc::channel(1);
            EtcdStore::open(prefix.into(), std::slice::from_ref(&self.member), prefix, None, &lost)
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Does to etcd what nobody asked this manager for.
    fn meddle(store: &EtcdStore, request: Request) {
        let txn = TxnRequest { success: vec![RequestOp { request: Some(request) }], ..TxnRequest::default() };
        let done = store.runtime.as_ref().unwrap().block_on(store.etcd.txn(txn, Instant::now() + OPENING));
        assert!(done.unwrap());
    }

    #[test]
    fn what_was_kept_is_there_for_the_next_manager_and_for_no_other_fabrics() {
        need!(program("etcd", "etcd-server"));
        let server = Server::start("kept");
        let (store, stored) = server.open("one").unwrap();
        assert_eq!((stored.numbers, stored.groups.len()), (1, 0));
        store.keep(&Change::Numbers(65), "").unwrap();
        for group in [11, 3, 4] {
            store.keep(&Change::Put(record(group)), "train").unwrap();
        }
        store.keep(&Change::Numbers(129), "").unwrap();
        store.keep(&Change::Remove(GroupId(4)), "").unwrap();
        for (who, lift) in [("node/leaf1", false), ("tenant/blue", false), ("node/leaf1", true)] {
            store.keep_revoked(who, lift).unwrap();
        }
        drop(store);
        let (_one, stored) = server.open("one").unwrap();
        let groups = [3, 11].map(|group| (*record(group), "train".to_owned())).to_vec();
        assert_eq!(
            (stored.numbers, stored.groups, stored.revoked),
            (129, groups, vec!["tenant/blue".to_owned()])
        );
        let (_other, stored) = server.open("one-more").unwrap();
        assert_eq!((stored.numbers, stored.groups.len()), (1, 0));
    }

    #[test]
    fn a_manager_that_does_not_know_yet_that_its_lease_is_over_changes_nothing() {
        need!(program("etcd", "etcd-server"));
        let server = Server::start("fence");
        let (first, _) = server.open("one").unwrap();
        first.keep(&Change::Numbers(65), "").unwrap();
        assert!(matches!(server.open("one"), Err(StoreError::Taken { .. })));
        // As if etcd had not heard of it for so long, and it not of that.
        let leader = first.etcd.leader();
        meddle(
            &first,
            Request::RequestDeleteRange(DeleteRangeRequest { key: leader, range_end: Vec::new() }),
        );
        let late = first.keep(&Change::Numbers(129), "");
        assert!(matches!(late, Err(StoreError::Lost { .. })), "{late:?}");
        let (second, stored) = server.open("one").unwrap();
        assert_eq!(stored.numbers, 65);
        second.keep(&Change::Put(record(3)), "").unwrap();
        for change in [Change::Numbers(193), Change::Put(record(5)), Change::Remove(GroupId(3))] {
            assert!(matches!(first.keep(&change, ""), Err(StoreError::Lost { .. })), "{change:?}");
        }
        assert!(first.keep_revoked("node/leaf1", false).is_err());
        drop((first, second));
        let (_third, stored) = server.open("one").unwrap();
        assert_eq!((stored.numbers, stored.groups.len(), stored.revoked.len()), (65, 1, 0));
    }

    #[test]
    fn a_lease_is_held_longer_than_it_runs_and_is_given_back_at_the_end() {
        need!(program("etcd", "etcd-server"));
        let server = Server::start("held");
        let (first, _) = server.open("one").unwrap();
        std::thread::sleep(first.granted * 2);
        first.keep(&Change::Numbers(65), "").unwrap();
        drop(first);
        let (_second, stored) = server.open("one").unwrap();
        assert_eq!(stored.numbers, 65);
    }

    #[test]
    fn what_is_no_store_of_this_version_is_refused_in_a_line() {
        need!(program("etcd", "etcd-server"));
        let server = Server::start("other");
        for (name, value) in
            [("version", "2"), ("numbers", "many"), ("groups/1", "\u{1}"), ("colour", "blue")]
        {
            let prefix = format!("of-{name}");
            let (store, _) = server.open(&prefix).unwrap();
            meddle(&store, store.etcd.put(name, value));
            drop(store);
            let error = server.open(&prefix).unwrap_err();
            assert!(matches!(error, StoreError::Contents { .. }), "{name}: {error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }
}
