//! What somebody asks nodes by way of the manager: whom ranks wait for, what they have called when, and what paths carry.

use crate::calls::{CallRecord, GroupArrivals, GroupCalls, RankArrivals, RankCalls};
use crate::paths::{NodeAnswer, NodePaths};
use crate::questions::{Answers, Questions};
use crate::reach::has_taken_all;
use crate::service::{Asker, Service};
use crate::state::{Shared, State};
use crate::status::{GroupName, GroupStatus};
use crate::waits::{Connection, RankStanding, Waits};
use crate::{convert, proto};
use proto::ask_group_request::Group as Wanted;
use quincunx_collective::GroupId;
use quincunx_control::{
    Call, GroupState, GroupSummary, Instruction, NodeDescription, PathTarget, ProbePaths, Role, Standing,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tonic::{Response, Status};

/// How long ranks have to answer: they look for instructions every few milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Other groups that are looked into for what somebody waits for there: the newest.
const MOST_ELSEWHERE: usize = 16;

/// Where questions of a kind are kept.
type Kind<A, K = GroupId> = fn(&mut State) -> &mut Questions<A, K>;

type Called = (Vec<Call>, Standing);

const CALLS: Kind<Called> = |state| &mut state.questions;
const PATHS: Kind<(NodePaths, u64, u64), u64> = |state| &mut state.questions_of_paths;
const ARRIVALS: Kind<Vec<RankArrivals>> = |state| &mut state.questions_of_arrivals;
const TIMES: Kind<(CallRecord, u64, u64)> = |state| &mut state.questions_of_times;

impl Service {
    pub(crate) async fn try_ask_waits(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::AskWaitsResponse>, Status> {
        let (group, (answers, _)) =
            self.ask_nodes(asker, wanted, Instruction::TellCalls, CALLS, of_group).await?;
        let mut waits = waits_of(&self.shared.lock(), group, &answers);
        self.look_elsewhere(asker, &mut waits).await;
        Ok(Response::new(convert::answers::encode_waits(&waits)))
    }

    /// Finds what those who are waited for wait for themselves, in other groups that the asker may see.
    async fn look_elsewhere(&self, asker: &Asker, waits: &mut Waits) {
        let late = waits.late_nodes();
        let this = waits.group.summary.group;
        let others: Vec<_> = {
            let mut state = self.shared.lock();
            let is_meant = |group: &GroupSummary| {
                let has_late = group.members.iter().any(|member| late.contains(member));
                group.group != this
                    && group.state == GroupState::Ready
                    && has_late
                    && state.owns(&asker.who, group.group)
            };
            let meant: Vec<_> = state.manager.groups().filter(is_meant).collect();
            let newest = meant.into_iter().rev().take(MOST_ELSEWHERE).map(|group| state.status(group));
            let newest: Vec<GroupStatus> = newest.collect();
            let open = newest.into_iter().map(|status| {
                let question = self.open(&mut state, &status, Instruction::TellCalls, CALLS, of_group);
                (status, question)
            });
            open.collect()
        };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        for (status, question) in others {
            let (answers, _) = question.answers(deadline).await;
            waits.add_elsewhere(&waits_of(&self.shared.lock(), status, &answers));
        }
    }

    pub(crate) async fn try_ask_calls(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::AskCallsResponse>, Status> {
        let (group, (answers, asked)) =
            self.ask_nodes(asker, wanted, Instruction::TellTimes, TIMES, members).await?;
        let clock = Clock::now();
        let state = self.shared.lock();
        let ranks = group.summary.members.iter().map(|node| {
            let is_attached = state.streams.contains_key(node);
            let Some(((record, its_now, machine), heard)) = answers.get(node) else {
                return RankCalls::silent(is_attached);
            };
            let (ahead, error) = clock.ahead(*its_now, [asked, *heard]);
            RankCalls { is_attached, record: Some(record.clone()), machine: *machine, ahead, error }
        });
        let calls = GroupCalls { ranks: ranks.collect(), group };
        Ok(Response::new(convert::answers::encode_group_calls(&calls)))
    }

    pub(crate) async fn try_ask_arrivals(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::AskArrivalsResponse>, Status> {
        let (group, (answers, _)) =
            self.ask_nodes(asker, wanted, Instruction::TellTimes, ARRIVALS, switches).await?;
        let switches = switches(&group.summary).into_iter();
        let switches = switches.map(|node| {
            let arrivals = answers.get(&node).map(|(arrivals, _)| arrivals.clone());
            (node, arrivals)
        });
        let arrivals = GroupArrivals { switches: switches.collect(), group };
        Ok(Response::new(convert::answers::encode_group_arrivals(&arrivals)))
    }

    /// Has nodes send each other what finds out about the paths between them.
    pub(crate) fn try_probe_paths(
        &self,
        asker: &mut Asker,
        request: &proto::ProbePathsRequest,
    ) -> Result<Response<proto::ProbePathsResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        let nodes = meant(&state, asker, &request.nodes)?;
        let targets = nodes.iter().zip(0..).map(|(node, number)| PathTarget {
            number,
            address: node.address,
            share: node.share,
        });
        let targets: Vec<PathTarget> = targets.collect();
        for (own, node) in nodes.iter().enumerate() {
            // Each begins with another one, so that no node gets all streams at once.
            let others = targets.iter().cycle().skip(own + 1).take(targets.len() - 1);
            let (own, targets) = (own as u32, others.copied().collect());
            let probe = ProbePaths { run: request.run, own, targets };
            state.instruct(&node.name, &Instruction::ProbePaths(Box::new(probe)));
        }
        Ok(Response::new(proto::ProbePathsResponse {}))
    }

    /// Asks them what they have found out.
    pub(crate) async fn try_ask_paths(
        &self,
        asker: &mut Asker,
        request: proto::AskPathsRequest,
    ) -> Result<Response<proto::AskPathsResponse>, Status> {
        let proto::AskPathsRequest { run, nodes } = request;
        let question = {
            let mut state = self.shared.lock();
            self.ask(asker, &mut state)?;
            meant(&state, asker, &nodes)?;
            self.open_of(&mut state, run, &nodes, &Instruction::TellPaths(run), PATHS)
        };
        let (answers, asked) = question.answers(tokio::time::Instant::now() + PATIENCE).await;
        let clock = Clock::now();
        let answer = |node: &String| {
            answers.get(node).map(|((paths, its_now, machine), heard)| {
                let (ahead, error) = clock.ahead(*its_now, [asked, *heard]);
                NodeAnswer { paths: paths.clone(), machine: *machine, ahead, error }
            })
        };
        let nodes = nodes.iter().map(|node| convert::paths::encode_answer(answer(node).as_ref()));
        Ok(Response::new(proto::AskPathsResponse { nodes: nodes.collect() }))
    }

    /// Has nodes of a group tell something, and waits for their answers.
    async fn ask_nodes<A: Clone>(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
        instruction: fn(GroupId) -> Instruction,
        kind: Kind<A>,
        nodes: Nodes,
    ) -> Result<(GroupStatus, Answers<A>), Status> {
        let wanted = match wanted {
            Some(Wanted::Number(number)) => GroupName::Number(GroupId(number)),
            Some(Wanted::Name(name)) => GroupName::Name(name),
            None => return Err(Status::invalid_argument("expected a group, found none; name one")),
        };
        let (status, question) = {
            let mut state = self.shared.lock();
            self.ask(asker, &mut state)?;
            let status = state.find_group(&asker.who, &wanted).ok_or_else(|| {
                Status::not_found("expected a group that exists, found none; list the groups")
            })?;
            let question = self.open(&mut state, &status, instruction, kind, nodes);
            (status, question)
        };
        let answers = question.answers(tokio::time::Instant::now() + PATIENCE).await;
        Ok((status, answers))
    }

    /// Asks nodes of a group, if nobody else has just done so.
    fn open<A: Clone>(
        &self,
        state: &mut State,
        status: &GroupStatus,
        instruction: fn(GroupId) -> Instruction,
        kind: Kind<A>,
        nodes: Nodes,
    ) -> Question<A> {
        let (group, nodes) = (status.summary.group, nodes(&status.summary));
        self.open_of(state, group, &nodes, &instruction(group), kind)
    }

    /// Asks these nodes, if nobody else has just asked the same.
    fn open_of<A: Clone, K: Copy + Eq>(
        &self,
        state: &mut State,
        of: K,
        nodes: &[String],
        instruction: &Instruction,
        kind: Kind<A, K>,
    ) -> Question<A, K> {
        let (number, is_asked) = kind(state).begin(of, Instant::now());
        for node in nodes.iter().filter(|_| is_asked) {
            state.instruct(node, instruction);
        }
        Question { number, nodes: nodes.len(), shared: Arc::clone(&self.shared), kind }
    }
}

/// The manager's clock.
struct Clock {
    now: Instant,
    shows: SystemTime,
}

impl Clock {
    fn now() -> Self {
        Self { now: Instant::now(), shows: SystemTime::now() }
    }

    /// In nanoseconds since 1970.
    fn nanos(&self, then: Instant) -> i64 {
        let passed = self.now.saturating_duration_since(then);
        let then = self.shows.checked_sub(passed).unwrap_or(SystemTime::UNIX_EPOCH);
        then.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
    }

    /// By how much a node's clock is ahead that it has looked at somewhen between question and answer, and how wrong that may be.
    fn ahead(&self, shown: u64, between: [Instant; 2]) -> (i64, u64) {
        let [asked, heard] = between.map(|then| self.nanos(then));
        let error = heard.saturating_sub(asked) / 2;
        ((shown as i64).saturating_sub(asked + error), error.unsigned_abs())
    }
}

/// Nodes that somebody names: attached, switches or his own hosts, each once.
fn meant(state: &State, asker: &Asker, names: &[String]) -> Result<Vec<NodeDescription>, Status> {
    if names.len() > convert::paths::MOST_NODES || names.iter().collect::<BTreeSet<_>>().len() < names.len() {
        return Err(Status::invalid_argument(format!(
            "expected at most {} nodes, each once, found {}; name fewer",
            convert::paths::MOST_NODES,
            names.len()
        )));
    }
    let attached: BTreeMap<&str, &NodeDescription> =
        state.manager.nodes().map(|node| (node.name.as_str(), node)).collect();
    let find = |name: &String| {
        let node = attached
            .get(name.as_str())
            .filter(|node| node.role == Role::Switch || state.may_use(&asker.who, name));
        node.map(|node| (*node).clone()).ok_or_else(|| {
            let name: String = name.chars().take(64).flat_map(char::escape_default).collect();
            Status::not_found(format!(
                "expected attached nodes, found \"{name}\", which is none; list the nodes"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// Which nodes of a group are asked.
type Nodes = fn(&GroupSummary) -> Vec<String>;

fn members(group: &GroupSummary) -> Vec<String> {
    group.members.clone()
}

fn switches(group: &GroupSummary) -> Vec<String> {
    group.switches.iter().map(|held| held.node.clone()).collect()
}

fn of_group(group: &GroupSummary) -> Vec<String> {
    let mut all = members(group);
    all.extend(switches(group));
    all
}

/// What the nodes of a group have answered, and what the manager knows of those who have not.
fn waits_of(state: &State, group: GroupStatus, answers: &BTreeMap<String, (Called, Instant)>) -> Waits {
    let connection = |node: &String| {
        let stream = state.streams.get(node);
        let is_reached = || stream.and_then(|stream| stream.peer).and_then(has_taken_all);
        Connection { is_attached: stream.is_some(), is_reached: is_reached() }
    };
    let ranks = group.summary.members.iter().map(|node| match answers.get(node) {
        Some((answer, _)) => RankStanding::answering(answer.clone()),
        None => RankStanding::silent(connection(node)),
    });
    let switches = group.summary.switches.iter().map(|held| &held.node);
    let silent = switches.filter(|node| !answers.contains_key(*node));
    let silent_switches = silent.map(|node| (node.clone(), connection(node))).collect();
    Waits { ranks: ranks.collect(), silent_switches, group }
}

/// A question that is open for as long as somebody waits.
struct Question<A: Clone, K: Copy + Eq = GroupId> {
    number: u64,
    /// Who are asked.
    nodes: usize,
    shared: Arc<Shared>,
    kind: Kind<A, K>,
}

impl<A: Clone, K: Copy + Eq> Question<A, K> {
    /// Waits until all have answered, or until then.
    async fn answers(&self, deadline: tokio::time::Instant) -> Answers<A> {
        let told = Arc::clone(&(self.kind)(&mut self.shared.lock()).told);
        loop {
            let next = told.notified();
            tokio::pin!(next);
            // From here on it hears of what comes, whenever it waits for that.
            next.as_mut().enable();
            if (self.kind)(&mut self.shared.lock()).count(self.number) == self.nodes {
                break;
            }
            if tokio::time::timeout_at(deadline, next).await.is_err() {
                break;
            }
        }
        let answers = (self.kind)(&mut self.shared.lock()).answers(self.number);
        answers.expect("it is open until it is dropped")
    }
}

impl<A: Clone, K: Copy + Eq> Drop for Question<A, K> {
    fn drop(&mut self) {
        (self.kind)(&mut self.shared.lock()).end(self.number);
    }
}
