//! What holds whatever nodes, callers and timers do, in whatever order.

use crate::site::{config, host, request, set, switch};
use proptest::prelude::*;
use quincunx_collective::{Collective, GroupId};
use quincunx_control::{Action, Call, Instruction, Manager, ManagerTimer, Report, RequestId, Standing};
use quincunx_designs::CATALOG;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Step {
    Attach(usize),
    Detach(usize),
    Init { ranks: u16, design: &'static str, large: bool },
    Destroy(u32),
    Abandon(u64),
    Report { node: usize, group: u32, report: Report },
    Expire(usize),
}

const NODES: usize = 7;

fn node(number: usize) -> quincunx_control::NodeDescription {
    if number < 3 { switch(number as u8) } else { host(number as u8 - 3) }
}

fn any_step() -> impl Strategy<Value = Step> {
    let designs = prop::sample::select(vec!["epic-1", "epic-2", "epic-3", "ring", "direct"]);
    let installed = (0..NODES, 1u32..12);
    prop_oneof![
        3 => (0..NODES).prop_map(Step::Attach),
        1 => (0..NODES).prop_map(Step::Detach),
        3 => (1u16..5, designs, any::<bool>())
            .prop_map(|(ranks, design, large)| Step::Init { ranks, design, large }),
        1 => (1u32..12).prop_map(Step::Destroy),
        1 => (0u64..20).prop_map(Step::Abandon),
        12 => installed.clone().prop_map(|(node, group)| Step::Report { node, group, report: Report::Installed }),
        6 => installed.prop_map(|(node, group)| Step::Report { node, group, report: Report::Removed }),
        1 => (0..NODES, 1u32..12, any::<bool>()).prop_map(|(node, group, refused)| {
            let reason = "test".to_string();
            let report =
                if refused { Report::Refused { reason } } else { Report::DataPlaneFailed { reason } };
            Step::Report { node, group, report }
        }),
        3 => (0..NODES, 1u32..12, 1u64..4, any::<bool>(), any::<bool>()).prop_map(
            |(node, group, number, differs, is_stalled)| {
                let collective = if differs { Collective::Barrier } else { Collective::AllGather };
                let calls = vec![Call { number, collective, reduction: None, bytes: 0, place: None }];
                Step::Report { node, group, report: Report::Called { calls, is_stalled, standing: Standing::default() } }
            },
        ),
        4 => (0..NODES, 1u32..12)
            .prop_map(|(node, group)| Step::Report { node, group, report: Report::Released }),
        1 => (0usize..12).prop_map(Step::Expire),
    ]
}

/// What an outside observer knows: the driver, and each node of its groups.
#[derive(Default, Debug)]
struct Observer {
    attached: BTreeSet<String>,
    waiting: BTreeSet<RequestId>,
    timers: BTreeSet<ManagerTimer>,
    /// By node and group: whether it is ready.
    installed: BTreeMap<(String, GroupId), bool>,
    /// What has been told to be forgotten: it may be said again.
    over: BTreeSet<(String, GroupId)>,
}

impl Observer {
    fn see(&mut self, actions: Vec<Action>) -> Result<(), TestCaseError> {
        for action in actions {
            match action {
                Action::Answer { request, .. } => {
                    prop_assert!(self.waiting.remove(&request), "{request:?} is answered twice, or unasked");
                }
                Action::Destroyed { request, .. } => {
                    prop_assert!(self.waiting.remove(&request), "{request:?} is answered twice, or unasked");
                }
                Action::SetTimer { timer, .. } => {
                    self.timers.insert(timer);
                }
                Action::CancelTimer { timer } => {
                    self.timers.remove(&timer);
                }
                Action::Keep(_)
                | Action::Begin { .. }
                | Action::Recreate { .. }
                | Action::GivenBack { .. } => {}
                Action::Instruct { node, instruction } => {
                    prop_assert!(
                        self.attached.contains(&node),
                        "{node} is gone, and is told {instruction:?}"
                    );
                    self.instruct(node, instruction)?;
                }
            }
        }
        Ok(())
    }

    /// Install, then perhaps ready, then remove or failed: once each.
    fn instruct(&mut self, node: String, instruction: Instruction) -> Result<(), TestCaseError> {
        let seen = format!("{node}: {instruction:?}");
        match instruction {
            Instruction::Install(context) => {
                prop_assert_eq!(self.installed.insert((node, context.group), false), None, "{}", seen);
            }
            Instruction::Ready(group) => {
                prop_assert_eq!(self.installed.insert((node, group), true), Some(false), "{}", seen);
            }
            Instruction::Suspend { .. }
            | Instruction::Resume { .. }
            | Instruction::TellTimes(_)
            | Instruction::ProbePaths(_)
            | Instruction::MoveMemory(_)
            | Instruction::TellPaths(_) => {
                prop_assert!(false, "nothing is made anew or moved here, and nobody asks: {}", seen);
            }
            Instruction::TellCalls(group) => {
                prop_assert_eq!(self.installed.get(&(node, group)), Some(&true), "{}", seen);
            }
            Instruction::Remove(group) | Instruction::Failed { group, .. } => {
                let key = (node, group);
                prop_assert!(self.installed.remove(&key).is_some() || self.over.contains(&key), "{}", seen);
                self.over.insert(key);
            }
        }
        Ok(())
    }

    /// Whoever waits, waits for something with a time-out.
    fn check(&self, manager: &Manager) -> Result<(), TestCaseError> {
        use quincunx_control::GroupState::{Installing, Ready};
        let set = |of: fn(&ManagerTimer) -> bool| self.timers.iter().filter(|timer| of(timer)).count();
        let installing = manager.groups().filter(|group| group.state == Installing).count();
        prop_assert_eq!(set(|timer| matches!(timer, ManagerTimer::Install(_))), installing, "no end");
        for timer in &self.timers {
            if let ManagerTimer::Inquiry(group) = timer {
                let is_ready = manager.group(*group).is_some_and(|group| group.state == Ready);
                prop_assert!(is_ready, "{timer:?} of a group that nobody asks");
            }
        }
        prop_assert!(self.waiting.len() <= self.timers.len(), "a caller waits in vain: {:?}", self);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_request_is_answered_once_and_every_node_is_told_in_order(
        steps in prop::collection::vec(any_step(), 0..120),
    ) {
        let mut manager = Manager::new(CATALOG, config());
        let mut observer = Observer::default();
        let mut requests = 0;
        // A cluster that works, so that most histories come far.
        let start = (0..NODES).map(Step::Attach);
        for step in start.chain(steps) {
            let mut out = Vec::new();
            match step {
                Step::Attach(number) => {
                    if manager.attach(node(number), &[], &mut out).is_ok() {
                        prop_assert!(observer.attached.insert(node(number).name));
                    }
                }
                Step::Detach(number) => {
                    let name = node(number).name;
                    observer.attached.remove(&name);
                    observer.installed.retain(|(node, _), _| *node != name);
                    manager.detach(&name, "test", &mut out);
                }
                Step::Init { ranks, design, large } => {
                    let mut wanted = request(ranks, design);
                    set(&mut wanted, "group.message", if large { 32 } else { 2 });
                    requests += 1;
                    observer.waiting.insert(RequestId(requests));
                    manager.init_group(RequestId(requests), &wanted, &mut out);
                }
                Step::Destroy(group) => {
                    requests += 1;
                    if manager.destroy_group(RequestId(requests), GroupId(group), &mut out).is_ok() {
                        observer.waiting.insert(RequestId(requests));
                    }
                }
                Step::Abandon(request) => {
                    observer.waiting.remove(&RequestId(request));
                    manager.abandon(RequestId(request), &mut out);
                }
                Step::Report { node: number, group, report } => {
                    let _ = manager.handle_report(&node(number).name, GroupId(group), report, &mut out);
                }
                Step::Expire(group) => {
                    let timer = observer.timers.iter().nth(group).copied();
                    if let Some(timer) = timer.filter(|timer| observer.timers.remove(timer)) {
                        manager.handle_timer(timer, &mut out);
                    }
                }
            }
            observer.see(out)?;
            observer.check(&manager)?;
            manager.assert_invariants();
        }
    }
}
