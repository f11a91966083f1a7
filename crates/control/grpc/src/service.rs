//! The calls: each learns who asks, sees whether that one may, lets the manager take a step, and answers. Every call is counted, and what
//! would change something, or is refused, goes into the audit log.

use crate::identity::Forbidden;
use crate::passed::Passed;
use crate::quota::TooOften;
use crate::records::Record;
use crate::revoked::{Revoked, refusal, serial_of};
use crate::state::{Caller, Instructions, Shared, State, Stream};
use crate::{Identity, convert, proto};
use proto::ask_group_request::Group as Wanted;
use proto::control_server::Control;
use quincunx_collective::GroupId;
use quincunx_control::{
    AttachError, CableReport, Fallback, GroupRequest, InitGroupError, Report, ReportError, Role,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Request, Response, Status};

/// Instructions that may wait for a node that does not take them; one more, and it counts as gone.
const UNREAD: usize = 4096;

pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    /// Whether connections have certificates; without, all are this machine's own.
    pub(crate) has_tls: bool,
}

/// Who makes a call.
pub(crate) struct Asker {
    pub(crate) who: Identity,
    /// Of its certificate.
    serial: String,
    peer: Option<SocketAddr>,
    call: &'static str,
    /// Whether it changes something, or speaks for a node: reads are only logged if they are refused.
    changes: bool,
    /// Whether it is one of so many that it is told of at most once a second.
    is_silent: bool,
}

impl Service {
    fn asker<T>(&self, request: &Request<T>, call: &'static str, changes: bool) -> Asker {
        let (who, serial) = if self.has_tls {
            let certificates = request.peer_certs();
            let first = certificates.as_ref().and_then(|certificates| certificates.first());
            let who = first.map(Identity::of_certificate).unwrap_or_default();
            (who, first.map(serial_of).unwrap_or_default())
        } else {
            (Identity::local(), String::new())
        };
        // A socket for both families has those of IPv4 within IPv6, and agents name them as they are.
        let peer = request.remote_addr().map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        Asker { who, serial, peer, call, changes, is_silent: false }
    }

    /// Whether it may ask at all, and does not ask too often.
    fn take(&self, asker: &mut Asker, state: &mut State, as_node: bool) -> Result<(), Status> {
        if let Some(revoked) = state.revoked.find(&asker.who, &asker.serial) {
            return Err(refusal(revoked));
        }
        let State { rates, quotas, .. } = state;
        rates.take(&asker.who, as_node, quotas, Instant::now()).map_err(|(over, is_news)| {
            asker.is_silent = !is_news;
            over.into()
        })
    }

    /// A tenant or an operator asks.
    pub(crate) fn ask(&self, asker: &mut Asker, state: &mut State) -> Result<(), Status> {
        self.take(asker, state, false)?;
        Ok(asker.who.check_asks()?)
    }

    /// Counts and logs a call that has come to its end.
    fn close<T>(
        &self,
        asker: &Asker,
        what: &str,
        result: Result<Response<T>, Status>,
    ) -> Result<Response<T>, Status> {
        let code = result.as_ref().err().map_or(Code::Ok, Status::code);
        let mut state = self.shared.lock();
        state.metrics.note_call(asker.call, name(code));
        let (verdict, reason) = match &result {
            Ok(_) if !asker.changes => return result,
            Err(_) if asker.is_silent => return result,
            Ok(_) => ("done", ""),
            Err(status) => ("refused", status.message()),
        };
        if matches!(code, Code::PermissionDenied | Code::ResourceExhausted) {
            tracing::warn!(who = %asker.who, call = asker.call, what, reason, "call refused");
        }
        let peer = asker.peer.map_or_else(String::new, |peer| peer.to_string());
        state.write_audit(asker.who.to_string(), peer, asker.call, what, verdict, reason);
        result
    }

    fn try_attach(
        &self,
        asker: &mut Asker,
        request: proto::AttachRequest,
    ) -> Result<Response<Instructions>, Status> {
        let missing =
            || Status::invalid_argument("expected a node description, found none; say who attaches");
        let node = convert::decode_node(request.node.ok_or_else(missing)?).map_err(invalid)?;
        let held = convert::decode_held(request.held).map_err(invalid)?;
        let mut state = self.shared.lock();
        asker.who.check_attaches(&node)?;
        self.take(asker, &mut state, true)?;
        let (name, role, address) = (node.name.clone(), node.role, node.address_list());
        // One that comes back with what it had is still the same.
        if let Some(over) = state.bereaved.find(&name).filter(|_| held.is_empty()) {
            tracing::warn!(node = name, reason = %over, "node refused");
            return Err(Status::failed_precondition(over.to_string()));
        }
        let mut actions = Vec::new();
        state.manager.attach(node, &held, &mut actions).map_err(|error| {
            tracing::warn!(node = name, reason = %error, "node refused");
            let code = match error {
                AttachError::NoName => Code::InvalidArgument,
                AttachError::NameTaken { .. } | AttachError::AddressTaken { .. } => Code::AlreadyExists,
            };
            Status::new(code, error.to_string())
        })?;
        tracing::info!(node = name, %role, %address, who = %asker.who, "node attached");
        state.events.note(format!("{role} {name} attached from {address}"));
        let (sender, receiver) = mpsc::channel(UNREAD);
        let stream = Stream {
            sender,
            peer: asker.peer,
            tenant: asker.who.owner().to_owned(),
            who: asker.who.clone(),
            serial: asker.serial.clone(),
            is_passed_on: false,
            leaves: false,
        };
        state.attached(name.clone(), stream);
        self.shared.perform(&mut state, actions);
        Ok(Response::new(Instructions { node: name, receiver, shared: self.shared.clone() }))
    }

    fn try_report(
        &self,
        asker: &mut Asker,
        request: proto::ReportRequest,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        let proto::ReportRequest { node, group, report } = request;
        let mut state = self.shared.lock();
        self.take(asker, &mut state, true)?;
        asker.who.check_is(&node)?;
        Self::check_connection(asker, &state, &node)?;
        if let Some(proto::report_request::Report::Timed(timed)) = report {
            let timed = convert::decode_timed(timed).map_err(invalid)?;
            state.questions_of_times.hear(&node, GroupId(group), timed);
            return Ok(Response::new(proto::ReportResponse {}));
        }
        if let Some(proto::report_request::Report::Arrivals(arrivals)) = report {
            let arrivals = convert::decode_arrivals(arrivals).map_err(invalid)?;
            state.hear_arrivals(&node, GroupId(group), arrivals);
            return Ok(Response::new(proto::ReportResponse {}));
        }
        if let Some(proto::report_request::Report::Paths(paths)) = report {
            let run = paths.run;
            let paths = convert::paths::decode_paths(paths).map_err(invalid)?;
            state.questions_of_paths.hear(&node, run, paths);
            return Ok(Response::new(proto::ReportResponse {}));
        }
        let report = convert::decode_report(report).map_err(invalid)?;
        match &report {
            Report::Installed => tracing::info!(node, group, "node joined group"),
            Report::Refused { reason } => tracing::warn!(node, group, reason, "node refused group"),
            Report::DataPlaneFailed { reason } => tracing::warn!(node, group, reason, "data plane failed"),
            Report::Corrupted { reason } => tracing::warn!(node, group, reason, "result corrupted"),
            Report::Locked(_) => {}
            Report::Called { calls, is_stalled, standing } => {
                state.questions.hear(&node, GroupId(group), (calls.clone(), standing.clone()));
                if *is_stalled {
                    state.note_stall(GroupId(group), standing.idle);
                }
                tracing::debug!(node, group, calls = calls.len(), is_stalled, "rank tells its calls");
            }
            Report::Removed => tracing::debug!(node, group, "node forgot group"),
            Report::Released => tracing::debug!(node, group, "rank is done with group"),
            Report::Suspended(progress) => {
                tracing::info!(node, group, complete = progress.complete, "rank stopped");
            }
        }
        let mut actions = Vec::new();
        let result = state.manager.handle_report(&node, GroupId(group), report, &mut actions);
        self.shared.perform(&mut state, actions);
        result.map_err(|error| {
            let code = match error {
                ReportError::UnknownGroup { .. } => Code::NotFound,
                ReportError::NotAttached { .. } | ReportError::NotInGroup { .. } => Code::FailedPrecondition,
            };
            Status::new(code, error.to_string())
        })?;
        Ok(Response::new(proto::ReportResponse {}))
    }

    /// Has the manager begin, and says who waits for the answer.
    fn begin_group(
        &self,
        asker: &mut Asker,
        mut message: proto::InitGroupRequest,
    ) -> Result<(Caller, oneshot::Receiver<Result<quincunx_control::GroupSummary, InitGroupError>>), Status>
    {
        let name = std::mem::take(&mut message.name);
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        let wanted = convert::decode_request(message).map_err(invalid)?;
        let tenant = asker.who.owner().to_owned();
        let wanted = GroupRequest { owner: tenant.clone(), ..wanted };
        if state.manager.made_for(&wanted).is_some() {
            // It is asked again, and has been held to all of this before.
            return Ok(self.ask_again(&mut state, &wanted));
        }
        state.check_name(&name, &tenant).map_err(invalid)?;
        let record = Record { name, tenant: tenant.clone(), asked: wanted.design.clone(), lack: None };
        // Of hosts that are not its own a tenant hears as of such that are not there.
        if let Some(member) = wanted.members.iter().find(|member| !state.may_use(&asker.who, member)) {
            let missing = InitGroupError::MissingMember { name: member.clone() };
            let status = Status::new(init_code(&missing), missing.to_string());
            state.records.note_refusal(record, status.message().to_owned());
            return Err(status);
        }
        let request = state.request();
        state.records.ask(request, record);
        let mut actions = Vec::new();
        state.manager.init_group(request, &wanted, &mut actions);
        let (sender, answer) = oneshot::channel();
        state.callers.insert(request, sender);
        self.shared.perform(&mut state, actions);
        Ok((Caller { request, shared: self.shared.clone() }, answer))
    }

    /// Has the manager answer what it has been asked before.
    fn ask_again(
        &self,
        state: &mut State,
        wanted: &GroupRequest,
    ) -> (Caller, oneshot::Receiver<Result<quincunx_control::GroupSummary, InitGroupError>>) {
        let request = state.request();
        let (sender, answer) = oneshot::channel();
        state.callers.insert(request, sender);
        let mut actions = Vec::new();
        state.manager.init_group(request, wanted, &mut actions);
        self.shared.perform(state, actions);
        (Caller { request, shared: self.shared.clone() }, answer)
    }

    async fn try_init_group(
        &self,
        asker: &mut Asker,
        message: proto::InitGroupRequest,
    ) -> Result<Response<proto::InitGroupResponse>, Status> {
        let name = message.name.clone();
        self.shared.settle(&message.members).await;
        let (_caller, answer) = self.begin_group(asker, message)?;
        // The manager answers within the install timeout.
        let answer =
            answer.await.map_err(|_| Status::unavailable("expected an answer, but the manager stops"))?;
        let group = answer.map_err(|error| {
            tracing::warn!(name, reason = %error, "group not made");
            self.shared.lock().events.trouble(format!("group not made: {error}"));
            Status::new(init_code(&error), error.to_string())
        })?;
        let mut state = self.shared.lock();
        let lack = group.fallback.as_ref().map(ToString::to_string);
        if let Some(lack) = &group.fallback {
            state.metrics.note_fallback(lack);
        }
        tracing::info!(
            group = %group.group, name, tenant = asker.who.owner(), design = group.design,
            members = group.members.len(), fallback = lack, "group made"
        );
        let made = format!("group {} made of {} ranks, {}", group.group, group.members.len(), group.design);
        match lack {
            None => state.events.note(made),
            Some(lack) => state.events.trouble(format!("{made}, for {lack}")),
        }
        let group = state.status(group);
        Ok(Response::new(proto::InitGroupResponse { group: Some(convert::encode_status(&group)) }))
    }

    /// Has the manager end a group, and says who waits for its nodes to forget it.
    fn begin_end(
        &self,
        asker: &mut Asker,
        group: GroupId,
    ) -> Result<(Caller, oneshot::Receiver<Vec<String>>), Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        self.check_owns(asker, &state, group)?;
        let (sender, answer) = oneshot::channel();
        let request = state.request();
        let mut actions = Vec::new();
        let group = state.manager.current(group);
        let result = state.manager.destroy_group(request, group, &mut actions);
        result.map_err(|error| Status::not_found(error.to_string()))?;
        state.records.forget(group);
        state.enders.insert(request, sender);
        self.shared.perform(&mut state, actions);
        tracing::info!(%group, who = %asker.who, "group destroyed");
        state.events.note(format!("group {group} destroyed by {}", asker.who));
        Ok((Caller { request, shared: self.shared.clone() }, answer))
    }

    /// Of others' groups one hears as of such that are not there.
    fn check_owns(&self, asker: &Asker, state: &State, group: GroupId) -> Result<(), Status> {
        if state.owns(&asker.who, group) {
            return Ok(());
        }
        Err(Status::not_found(quincunx_control::UnknownGroup { group }.to_string()))
    }

    async fn try_destroy_group(
        &self,
        asker: &mut Asker,
        group: GroupId,
    ) -> Result<Response<proto::DestroyGroupResponse>, Status> {
        let (_caller, answer) = self.begin_end(asker, group)?;
        // The manager answers within the install timeout.
        let silent =
            answer.await.map_err(|_| Status::unavailable("expected an answer, but the manager stops"))?;
        Ok(Response::new(proto::DestroyGroupResponse { silent }))
    }

    fn try_renew_group(
        &self,
        asker: &mut Asker,
        group: GroupId,
    ) -> Result<Response<proto::RenewGroupResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        self.check_owns(asker, &state, group)?;
        let mut actions = Vec::new();
        let result = state.manager.renew(group, &mut actions);
        self.shared.perform(&mut state, actions);
        result.map_err(|error| Status::not_found(error.to_string()))?;
        Ok(Response::new(proto::RenewGroupResponse {}))
    }

    fn try_list_groups(&self, asker: &mut Asker) -> Result<Response<proto::ListGroupsResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        let groups = state.manager.groups().filter(|group| state.owns(&asker.who, group.group));
        let groups = groups.map(|group| convert::encode_status(&state.status(group))).collect();
        Ok(Response::new(proto::ListGroupsResponse { groups }))
    }

    fn try_list_nodes(
        &self,
        asker: &mut Asker,
        request: proto::ListNodesRequest,
    ) -> Result<Response<proto::ListNodesResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        let nodes = state.nodes_for(&asker.who);
        let nodes = nodes.iter().map(convert::encode_node_status).collect();
        // They name the machines of all tenants.
        if request.with_links {
            asker.who.check_operates()?;
        }
        let links = if request.with_links { state.manager.links() } else { Vec::new() };
        let links = links.iter().map(convert::cables::encode_row).collect();
        Ok(Response::new(proto::ListNodesResponse { nodes, links }))
    }

    fn try_drain_node(
        &self,
        asker: &mut Asker,
        request: &proto::DrainNodeRequest,
    ) -> Result<Response<proto::DrainNodeResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        asker.who.check_operates()?;
        let is_switch =
            state.manager.nodes().any(|node| node.name == request.node && node.role == Role::Switch);
        if !is_switch {
            return Err(Status::not_found(format!(
                "expected an attached switch, found \"{}\", which is none; list the nodes",
                start_of(&request.node)
            )));
        }
        state
            .manager
            .drain(&request.node, request.drains)
            .map_err(|error| Status::not_found(error.to_string()))?;
        tracing::info!(node = request.node, drains = request.drains, who = %asker.who, "switch drained");
        let groups = state.manager.holdings(&request.node).into_iter().map(|(group, _)| group.0).collect();
        Ok(Response::new(proto::DrainNodeResponse { groups }))
    }

    fn try_update_links(
        &self,
        asker: &mut Asker,
        request: proto::UpdateLinksRequest,
    ) -> Result<Response<proto::UpdateLinksResponse>, Status> {
        let proto::UpdateLinksRequest { node, links } = request;
        let links = convert::decode_links(links).map_err(invalid)?;
        let mut state = self.shared.lock();
        self.take(asker, &mut state, true)?;
        asker.who.check_is(&node)?;
        Self::check_connection(asker, &state, &node)?;
        tracing::info!(node, links = links.len(), "links changed");
        let mut actions = Vec::new();
        let result = state.manager.update_links(&node, links, &mut actions);
        self.shared.perform(&mut state, actions);
        result.map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(proto::UpdateLinksResponse {}))
    }

    fn try_report_cables(
        &self,
        asker: &mut Asker,
        request: proto::ReportCablesRequest,
    ) -> Result<Response<proto::ReportCablesResponse>, Status> {
        let proto::ReportCablesRequest { machine, ports } = request;
        let ports = convert::cables::decode_ports(ports).map_err(invalid)?;
        let mut state = self.shared.lock();
        self.take(asker, &mut state, true)?;
        // Nobody tells of ports in another's name: frames with that name would be taken for his.
        asker.who.check_is(&machine)?;
        // By a certificate the machine's agent may speak, too.
        if !self.has_tls {
            Self::check_connection(asker, &state, &machine)?;
        }
        let report = CableReport { machine, speaker: asker.who.speaker(), ports };
        let mut actions = Vec::new();
        let result = state.manager.report_cables(report, &mut actions);
        self.shared.perform(&mut state, actions);
        result.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(Response::new(proto::ReportCablesResponse {}))
    }

    fn try_detach(&self, asker: &mut Asker, node: &str) -> Result<Response<proto::DetachResponse>, Status> {
        let mut state = self.shared.lock();
        self.take(asker, &mut state, true)?;
        asker.who.check_is(node)?;
        Self::check_connection(asker, &state, node)?;
        if let Some(stream) = state.streams.get_mut(node) {
            stream.leaves = true;
        }
        Ok(Response::new(proto::DetachResponse {}))
    }

    fn try_relay(
        &self,
        asker: &mut Asker,
        request: &proto::RelayRequest,
    ) -> Result<Response<proto::RelayResponse>, Status> {
        let mut state = self.shared.lock();
        self.take(asker, &mut state, true)?;
        let connection = request.connection.parse().map_err(|_| {
            let found = start_of(&request.connection);
            invalid(format!(
                "expected a connection as ADDRESS:PORT, found \"{found}\"; say which is passed on"
            ))
        })?;
        let passed = Passed { connection, who: asker.who.clone(), serial: asker.serial.clone() };
        if request.ended {
            self.shared.end_passed(&mut state, &passed);
        } else {
            state.passed.begin(passed);
        }
        Ok(Response::new(proto::RelayResponse {}))
    }

    fn try_revoke(
        &self,
        asker: &mut Asker,
        request: &proto::RevokeRequest,
    ) -> Result<Response<proto::RevokeResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        asker.who.check_operates()?;
        if !self.has_tls {
            return Err(Status::failed_precondition(
                "expected a manager with certificates, found one that hears all of this machine; start it with --identity",
            ));
        }
        let mut outcome = (Vec::new(), false);
        let proto::RevokeRequest { who, lift } = request;
        if !who.is_empty() {
            Revoked::check(who).map_err(invalid)?;
            if Revoked::new([who.clone()]).find(&asker.who, &asker.serial).is_some() && !lift {
                return Err(Status::invalid_argument(format!(
                    "expected somebody else's certificate, found one's own ({who}); let another operator revoke it"
                )));
            }
            let done = self.shared.revoke(&mut state, who, *lift);
            outcome = done.map_err(|error| Status::internal(error.to_string()))?;
            tracing::warn!(revoked = who, lift, by = %asker.who, "certificates revoked");
            let what = if *lift { "are heard again" } else { "are revoked" };
            state.events.trouble(format!("certificates of {who} {what}, by {}", asker.who));
        }
        let (detached, kept) = outcome;
        let revoked = state.revoked.all().cloned().collect();
        Ok(Response::new(proto::RevokeResponse { detached, revoked, kept }))
    }

    /// Without certificates that is all that tells a node from its neighbour on the machine.
    fn check_connection(asker: &Asker, state: &State, node: &str) -> Result<(), Status> {
        if state.streams.get(node).is_some_and(|stream| stream.peer != asker.peer) {
            return Err(Status::permission_denied(
                "expected the report on the connection that the node attached by, found another; report there",
            ));
        }
        Ok(())
    }

    fn try_explain_group(
        &self,
        asker: &mut Asker,
        wanted: Option<Wanted>,
    ) -> Result<Response<proto::ExplainGroupResponse>, Status> {
        let mut state = self.shared.lock();
        self.ask(asker, &mut state)?;
        let explained = match wanted {
            Some(Wanted::Number(number)) => {
                let group = GroupId(number);
                state.explain(&asker.who, group).filter(|_| state.owns(&asker.who, group))
            }
            Some(Wanted::Name(name)) => state.explain_name(&asker.who, &name),
            None => return Err(Status::invalid_argument("expected a group, found none; name one")),
        };
        let explained = explained.ok_or_else(|| {
            Status::not_found(
                "expected a group that exists, or a request under that name, found neither; list the groups",
            )
        })?;
        Ok(Response::new(convert::encode_explanation(&explained)))
    }
}

#[tonic::async_trait]
impl Control for Service {
    type AttachStream = Instructions;

    async fn attach(&self, request: Request<proto::AttachRequest>) -> Result<Response<Instructions>, Status> {
        let mut asker = self.asker(&request, "Attach", true);
        let node = request.get_ref().node.as_ref();
        let what = node.map(|node| format!("node {}", start_of(&node.name)));
        let name = node.map(|node| node.name.clone()).unwrap_or_default();
        self.shared.outlast(&name).await;
        let result = self.try_attach(&mut asker, request.into_inner());
        self.close(&asker, &what.unwrap_or_default(), result)
    }

    async fn report(
        &self,
        request: Request<proto::ReportRequest>,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        let mut asker = self.asker(&request, "Report", false);
        let message = request.into_inner();
        let what = format!("group {} of node {}", message.group, start_of(&message.node));
        let result = self.try_report(&mut asker, message);
        self.close(&asker, &what, result)
    }

    async fn init_group(
        &self,
        request: Request<proto::InitGroupRequest>,
    ) -> Result<Response<proto::InitGroupResponse>, Status> {
        let mut asker = self.asker(&request, "InitGroup", true);
        let message = request.into_inner();
        let design = message.design.as_ref().map_or("", |design| design.name.as_str());
        let (design, name, members) = (start_of(design), start_of(&message.name), message.members.len());
        let result = self.try_init_group(&mut asker, message).await;
        let number = match result.as_ref().map(|made| &made.get_ref().group) {
            Ok(Some(group)) => format!(" as group {}", group.group),
            _ => String::new(),
        };
        let called = if name.is_empty() { String::new() } else { format!(", called \"{name}\"") };
        let what = format!("{design} for {members} members{called}{number}");
        self.close(&asker, &what, result)
    }

    async fn destroy_group(
        &self,
        request: Request<proto::DestroyGroupRequest>,
    ) -> Result<Response<proto::DestroyGroupResponse>, Status> {
        let mut asker = self.asker(&request, "DestroyGroup", true);
        let group = GroupId(request.into_inner().group);
        let result = self.try_destroy_group(&mut asker, group).await;
        self.close(&asker, &format!("group {group}"), result)
    }

    async fn renew_group(
        &self,
        request: Request<proto::RenewGroupRequest>,
    ) -> Result<Response<proto::RenewGroupResponse>, Status> {
        let mut asker = self.asker(&request, "RenewGroup", false);
        let group = GroupId(request.into_inner().group);
        let result = self.try_renew_group(&mut asker, group);
        self.close(&asker, &format!("group {group}"), result)
    }

    async fn list_groups(
        &self,
        request: Request<proto::ListGroupsRequest>,
    ) -> Result<Response<proto::ListGroupsResponse>, Status> {
        let mut asker = self.asker(&request, "ListGroups", false);
        let result = self.try_list_groups(&mut asker);
        self.close(&asker, "", result)
    }

    async fn list_nodes(
        &self,
        request: Request<proto::ListNodesRequest>,
    ) -> Result<Response<proto::ListNodesResponse>, Status> {
        let mut asker = self.asker(&request, "ListNodes", false);
        let result = self.try_list_nodes(&mut asker, request.into_inner());
        self.close(&asker, "", result)
    }

    async fn drain_node(
        &self,
        request: Request<proto::DrainNodeRequest>,
    ) -> Result<Response<proto::DrainNodeResponse>, Status> {
        let mut asker = self.asker(&request, "DrainNode", true);
        let message = request.into_inner();
        let what = format!("node {}, {}", start_of(&message.node), if message.drains { "on" } else { "off" });
        let result = self.try_drain_node(&mut asker, &message);
        self.close(&asker, &what, result)
    }

    async fn detach(
        &self,
        request: Request<proto::DetachRequest>,
    ) -> Result<Response<proto::DetachResponse>, Status> {
        let mut asker = self.asker(&request, "Detach", false);
        let proto::DetachRequest { node } = request.into_inner();
        let result = self.try_detach(&mut asker, &node);
        self.close(&asker, &node, result)
    }

    async fn update_links(
        &self,
        request: Request<proto::UpdateLinksRequest>,
    ) -> Result<Response<proto::UpdateLinksResponse>, Status> {
        let mut asker = self.asker(&request, "UpdateLinks", true);
        let message = request.into_inner();
        let what = format!("node {}, {} links", start_of(&message.node), message.links.len());
        let result = self.try_update_links(&mut asker, message);
        self.close(&asker, &what, result)
    }

    async fn report_cables(
        &self,
        request: Request<proto::ReportCablesRequest>,
    ) -> Result<Response<proto::ReportCablesResponse>, Status> {
        // Said every few seconds: what it changes is an event.
        let mut asker = self.asker(&request, "ReportCables", false);
        let message = request.into_inner();
        let what = format!("machine {}, {} ports", start_of(&message.machine), message.ports.len());
        let result = self.try_report_cables(&mut asker, message);
        self.close(&asker, &what, result)
    }

    async fn relay(
        &self,
        request: Request<proto::RelayRequest>,
    ) -> Result<Response<proto::RelayResponse>, Status> {
        let mut asker = self.asker(&request, "Relay", false);
        let message = request.into_inner();
        let result = self.try_relay(&mut asker, &message);
        self.close(&asker, &start_of(&message.connection), result)
    }

    async fn revoke(
        &self,
        request: Request<proto::RevokeRequest>,
    ) -> Result<Response<proto::RevokeResponse>, Status> {
        let mut asker = self.asker(&request, "Revoke", true);
        let message = request.into_inner();
        let what = format!("{}, {}", start_of(&message.who), if message.lift { "lifted" } else { "revoked" });
        let result = self.try_revoke(&mut asker, &message);
        self.close(&asker, &what, result)
    }

    async fn ask_waits(
        &self,
        request: Request<proto::AskGroupRequest>,
    ) -> Result<Response<proto::AskWaitsResponse>, Status> {
        let mut asker = self.asker(&request, "AskWaits", false);
        let result = self.try_ask_waits(&mut asker, request.into_inner().group).await;
        self.close(&asker, "", result)
    }

    async fn ask_calls(
        &self,
        request: Request<proto::AskGroupRequest>,
    ) -> Result<Response<proto::AskCallsResponse>, Status> {
        let mut asker = self.asker(&request, "AskCalls", false);
        let result = self.try_ask_calls(&mut asker, request.into_inner().group).await;
        self.close(&asker, "", result)
    }

    async fn ask_arrivals(
        &self,
        request: Request<proto::AskGroupRequest>,
    ) -> Result<Response<proto::AskArrivalsResponse>, Status> {
        let mut asker = self.asker(&request, "AskArrivals", false);
        let result = self.try_ask_arrivals(&mut asker, request.into_inner().group).await;
        self.close(&asker, "", result)
    }

    async fn probe_paths(
        &self,
        request: Request<proto::ProbePathsRequest>,
    ) -> Result<Response<proto::ProbePathsResponse>, Status> {
        let mut asker = self.asker(&request, "ProbePaths", true);
        let message = request.into_inner();
        let what = format!("{} nodes", message.nodes.len());
        let result = self.try_probe_paths(&mut asker, &message);
        self.close(&asker, &what, result)
    }

    async fn ask_paths(
        &self,
        request: Request<proto::AskPathsRequest>,
    ) -> Result<Response<proto::AskPathsResponse>, Status> {
        let mut asker = self.asker(&request, "AskPaths", false);
        let result = self.try_ask_paths(&mut asker, request.into_inner()).await;
        self.close(&asker, "", result)
    }

    async fn explain_group(
        &self,
        request: Request<proto::AskGroupRequest>,
    ) -> Result<Response<proto::ExplainGroupResponse>, Status> {
        let mut asker = self.asker(&request, "ExplainGroup", false);
        let result = self.try_explain_group(&mut asker, request.into_inner().group);
        self.close(&asker, "", result)
    }
}

impl From<Forbidden> for Status {
    fn from(forbidden: Forbidden) -> Self {
        Self::permission_denied(forbidden.to_string())
    }
}

impl From<TooOften> for Status {
    fn from(over: TooOften) -> Self {
        Self::resource_exhausted(over.to_string())
    }
}

fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

/// How a text begins that may be of any length and hold anything, in one line.
fn start_of(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}

/// A code as gRPC names it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

fn init_code(error: &InitGroupError) -> Code {
    match error {
        InitGroupError::NoMembers
        | InitGroupError::DuplicateMember { .. }
        | InitGroupError::NotAHost { .. }
        | InitGroupError::Refused(_) => Code::InvalidArgument,
        InitGroupError::MissingMember { .. } => Code::NotFound,
        InitGroupError::NoSwitch { .. }
        | InitGroupError::MixedFamilies { .. }
        | InitGroupError::MixedEncapsulation { .. }
        | InitGroupError::NoRoom(Fallback::OtherVersion { .. }) => Code::FailedPrecondition,
        InitGroupError::HostEndpoints { .. } | InitGroupError::NoRoom(_) => Code::ResourceExhausted,
        InitGroupError::Failed(_) | InitGroupError::Destroyed => Code::Aborted,
    }
}
