//! What somebody asks the ranks of a group by way of the manager: whom they wait for, and what they have called when.

use crate::calls::{GroupCalls, RankCalls};
use crate::questions::{Answers, Questions};
use crate::reach::has_taken_all;
use crate::service::{Asker, Service};
use crate::state::{Shared, State};
use crate::status::{GroupName, GroupStatus};
use crate::waits::{RankStanding, Waits};
use crate::{convert, proto};
use proto::ask_group_request::Group as Wanted;
use quincunx_collective::GroupId;
use quincunx_control::Instruction;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tonic::{Response, Status};

/// How long ranks have to answer: they look for instructions every few milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where questions of a kind are kept.
type Kind<A> = fn(&mut State) -> &mut Questions<A>;

impl Service {
    pub(crate) async fn try_ask_waits(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::AskWaitsResponse>, Status> {
        let kind: Kind<_> = |state| &mut state.questions;
        let (group, (answers, _)) = self.ask_ranks(asker, wanted, Instruction::TellCalls, kind).await?;
        let state = self.shared.lock();
        let ranks = group.summary.members.iter().map(|node| {
            let (stream, answer) =
                (state.streams.get(node), answers.get(node).map(|(answer, _)| answer.clone()));
            let is_reached = match answer {
                Some(_) => Some(true),
                None => stream.and_then(|stream| stream.peer).and_then(has_taken_all),
            };
            RankStanding { is_attached: stream.is_some(), is_reached, answer }
        });
        let waits = Waits { ranks: ranks.collect(), group };
        Ok(Response::new(convert::answers::encode_waits(&waits)))
    }

    pub(crate) async fn try_ask_calls(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::AskCallsResponse>, Status> {
        let kind: Kind<_> = |state| &mut state.questions_of_times;
        let (group, (answers, asked)) = self.ask_ranks(asker, wanted, Instruction::TellTimes, kind).await?;
        let (now, clock) = (Instant::now(), SystemTime::now());
        let nanos = |then: Instant| {
            let then =
                clock.checked_sub(now.saturating_duration_since(then)).unwrap_or(SystemTime::UNIX_EPOCH);
            then.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
        };
        let state = self.shared.lock();
        let ranks = group.summary.members.iter().map(|node| {
            let is_attached = state.streams.contains_key(node);
            let Some(((calls, its_now), heard)) = answers.get(node) else {
                return RankCalls::silent(is_attached);
            };
            // It looked at its clock somewhen between question and answer.
            let [asked, heard] = [asked, *heard].map(nanos);
            let error = heard.saturating_sub(asked) / 2;
            let ahead = (*its_now as i64).saturating_sub(asked + error);
            RankCalls { is_attached, calls: Some(calls.clone()), ahead, error: error.unsigned_abs() }
        });
        let calls = GroupCalls { ranks: ranks.collect(), group };
        Ok(Response::new(convert::answers::encode_group_calls(&calls)))
    }

    /// Has all ranks of a group told something, and waits for their answers.
    async fn ask_ranks<A: Clone>(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
        instruction: fn(GroupId) -> Instruction,
        kind: Kind<A>,
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
            let group = status.summary.group;
            let (number, is_asked) = kind(&mut state).begin(group, Instant::now());
            for member in status.summary.members.iter().filter(|_| is_asked) {
                state.instruct(member, &instruction(group));
            }
            (status, Question { number, shared: Arc::clone(&self.shared), kind })
        };
        let answers = question.answers(status.summary.members.len()).await;
        Ok((status, answers))
    }
}

/// A question that is open for as long as somebody waits.
struct Question<A: Clone> {
    number: u64,
    shared: Arc<Shared>,
    kind: Kind<A>,
}

impl<A: Clone> Question<A> {
    /// Waits until so many have answered, or time is up.
    async fn answers(&self, count: usize) -> Answers<A> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let told = Arc::clone(&(self.kind)(&mut self.shared.lock()).told);
        loop {
            let next = told.notified();
            tokio::pin!(next);
            // From here on it hears of what comes, whenever it waits for that.
            next.as_mut().enable();
            if (self.kind)(&mut self.shared.lock()).count(self.number) == count {
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

impl<A: Clone> Drop for Question<A> {
    fn drop(&mut self) {
        (self.kind)(&mut self.shared.lock()).end(self.number);
    }
}
