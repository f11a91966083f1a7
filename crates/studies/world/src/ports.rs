//! What a rank stands on here: the host that ships, in virtual time, and a client of simulated managers. What the rank decides is
//! `quincunx_runtime::Rank`, as in a process.

use crate::client::Client;
use crate::effects::{Answers, Effects, OwnedFrame, PORT, TimerName};
use crate::planted::Planted;
use crate::switch::mutation_of;
use crate::version::VersionBefore;
use quincunx_collective::{GroupId, Numbers, Payload};
use quincunx_control::{Instruction, Mutation, ProbePaths, Progress, Report};
use quincunx_control_grpc::CallRecord;
use quincunx_design::{Catalog, GroupContext, Refusal};
use quincunx_engine::{Engine, Frame};
use quincunx_nodes::{
    Host, HostCommand, HostEvent, HostRejected, HostTimer, Ways, contended_host_group, host_group,
};
use quincunx_runtime::{RankPorts, RuntimeError};
use quincunx_units::{Duration, Instant};
use std::cell::{Cell, RefCell};

pub(crate) struct WorldPorts {
    catalog: Catalog,
    host: Host<Numbers>,
    answers: Answers<Host<Numbers>>,
    pub(crate) client: Client,
    /// Reports until the rank's step is over.
    reports: RefCell<Vec<(GroupId, Report)>>,
    now: Instant,
    /// What `now` counts from: `Rank` has times of the standard library, of which only differences count.
    base: std::time::Instant,
    planted: Planted,
    before: Option<VersionBefore>,
    /// Collectives that were complete when the rank was last suspended.
    complete: Cell<u64>,
}

impl WorldPorts {
    pub(crate) fn new(
        catalog: Catalog,
        client: Client,
        base: std::time::Instant,
        planted: Planted,
        before: Option<VersionBefore>,
    ) -> Self {
        let Ok(host) = Host::<Numbers>::new(());
        Self {
            catalog,
            host,
            answers: Answers::default(),
            client,
            reports: RefCell::default(),
            now: Instant::ZERO,
            base,
            planted,
            before,
            complete: Cell::new(0),
        }
    }

    /// It is so late.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = now;
    }

    pub(crate) fn take_frame(&mut self, frame: &OwnedFrame) {
        let payload = frame.payload.view(0..frame.payload.length());
        self.host.handle_frame(self.now, PORT, Frame { header: &frame.header, payload }, &mut self.answers);
    }

    pub(crate) fn expire(&mut self, timer: HostTimer) {
        self.host.handle_timer(self.now, timer, &mut self.answers);
    }

    /// Hands on what a step of the rank has led to.
    pub(crate) fn finish(&mut self, out: &mut Effects) {
        for (group, report) in self.reports.take() {
            self.client.report(group, report, out);
        }
        self.answers.hand_on(&mut self.host, TimerName::Host, out);
    }
}

impl RankPorts for WorldPorts {
    fn now(&self) -> std::time::Instant {
        self.base + std::time::Duration::from(self.now.since(Instant::ZERO))
    }

    fn install(&mut self, context: &GroupContext) -> Result<Result<(), Refusal>, RuntimeError> {
        let seen = self.before.map(|before| before.sees(context));
        let context = seen.as_ref().unwrap_or(context);
        let prepared = self.catalog.find(&context.design, context.fabric).and_then(|design| {
            let Some(among_hosts) = context.contention.as_ref().and_then(|with| with.fallback.as_ref())
            else {
                return host_group(design, context, mutation_of(design, self.planted.design()), |_| PORT);
            };
            let fallback = self.catalog.find(&among_hosts.design, among_hosts.fabric)?;
            contended_host_group(design, fallback, context, |_| PORT)
        });
        let install = match prepared {
            Ok(group) => HostCommand::Install(Box::new(group)),
            Err(refusal) => return Ok(Err(refusal)),
        };
        Ok(self.command(install).map_err(|rejected| Refusal::of(&rejected)))
    }

    fn command(&mut self, command: HostCommand<Numbers>) -> Result<(), HostRejected> {
        self.host.handle_command(self.now, command, &mut self.answers)
    }

    fn next_event(&mut self) -> Option<HostEvent<Numbers>> {
        self.answers.events.pop_front()
    }

    fn ways(&self, wire: GroupId) -> Option<Ways> {
        self.host.ways(wire)
    }

    fn turn(&mut self, _: Duration) -> Result<(), RuntimeError> {
        // The world moves frames.
        Ok(())
    }

    fn report(&self, wire: GroupId, report: Report) {
        let report = match report {
            Report::Suspended(progress) => {
                self.complete.set(progress.complete);
                let counts = self.planted.control() == Some(Mutation::CountsWhatIsUnderWay);
                Report::Suspended(Progress { complete: progress.complete + u64::from(counts), ..progress })
            }
            report => report,
        };
        self.reports.borrow_mut().push((wire, report));
    }

    fn next_instruction(&mut self) -> Result<Option<Instruction>, RuntimeError> {
        let mut heard = self.client.next_instruction().transpose()?;
        if let Some(Instruction::Resume { first, .. }) = &mut heard
            && self.planted.control() == Some(Mutation::GoesOnFromItsOwn)
        {
            *first = self.complete.get() + 1;
        }
        Ok(heard)
    }

    fn tell_times(&self, _: GroupId, _: &CallRecord) {}

    fn begin_probe(&mut self, _: ProbePaths) {}

    fn tell_paths(&mut self, _: u64) {}
}
