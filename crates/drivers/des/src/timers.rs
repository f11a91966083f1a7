//! Deadlines of the nodes' named timers.
//!
//! Engines re-arm a timer far more often than it fires (a retry timer moves with every acknowledge), so moving a
//! deadline further away only notes the new one: it is queued again when the old one comes. A timer keeps its state here
//! once it has been armed, even when it is disarmed.
//!
//! When timers fire may be prescribed instead: then a deadline says no more than that a timer is armed.

use quincunx_units::Instant;

/// One timer of a node.
#[derive(Clone, Copy, Debug)]
struct TimerState<T> {
    node: u32,
    timer: T,
    /// When it shall fire; none while disarmed.
    deadline: Option<Instant>,
    /// The earliest of its entries in the queue; none if it has none.
    queued: Option<Instant>,
}

/// What to do when an entry of a timer comes up.
pub(crate) enum Due<T> {
    /// The entry has been overtaken, or the timer disarmed.
    Nothing,
    /// It shall fire later: queue it again.
    Later(Instant),
    /// It fires on this node.
    Fire(u32, T),
}

/// The timers of one node.
#[derive(Clone, Debug, Default)]
struct NodeTimers {
    /// Their numbers, in the order of the timers.
    numbers: Vec<u32>,
    /// The index of the one that was set last: most often it, or the one after it, is set next.
    recent: usize,
}

/// All nodes' timers, numbered in the order in which they were first armed.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T> {
    timers: Vec<TimerState<T>>,
    by_node: Vec<NodeTimers>,
    /// All firings are in the queue already, and deadlines do not count.
    prescribed: bool,
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) const fn new() -> Self {
        Self { timers: Vec::new(), by_node: Vec::new(), prescribed: false }
    }

    pub(crate) fn add_node(&mut self) {
        self.by_node.push(NodeTimers::default());
    }

    /// The index among the node's timers, or where it would be.
    fn search(&self, node: u32, timer: T) -> Result<usize, usize> {
        let NodeTimers { numbers, recent } = &self.by_node[node as usize];
        let timer_of = |number: u32| self.timers[number as usize].timer;
        for index in [*recent, recent + 1] {
            if numbers.get(index).is_some_and(|&number| timer_of(number) == timer) {
                return Ok(index);
            }
        }
        numbers.binary_search_by(|&number| timer_of(number).cmp(&timer))
    }

    /// The number of a timer, armed or not.
    fn number(&mut self, node: u32, timer: T) -> u32 {
        let found = self.search(node, timer);
        let of_node = &mut self.by_node[node as usize];
        if let Err(index) = found {
            let number = self.timers.len() as u32;
            self.timers.push(TimerState { node, timer, deadline: None, queued: None });
            of_node.numbers.insert(index, number);
        }
        let (Ok(index) | Err(index)) = found;
        of_node.recent = index;
        of_node.numbers[index]
    }

    /// From now on timers fire when the owner has had the queue told so, and then only: the number of each.
    pub(crate) fn prescribe(&mut self, firings: impl Iterator<Item = (u32, T)>) -> Vec<u32> {
        self.prescribed = true;
        firings.map(|(node, timer)| self.number(node, timer)).collect()
    }

    /// Arms a timer for `deadline`, in place of any earlier one. Its number, if the queue must be told.
    pub(crate) fn set(&mut self, node: u32, timer: T, deadline: Instant) -> Option<u32> {
        let number = self.number(node, timer);
        let state = &mut self.timers[number as usize];
        state.deadline = Some(deadline);
        if self.prescribed || state.queued.is_some_and(|queued| queued <= deadline) {
            return None;
        }
        state.queued = Some(deadline);
        Some(number)
    }

    /// Disarms a timer; nothing happens if it is not armed.
    pub(crate) fn cancel(&mut self, node: u32, timer: T) {
        if let Ok(index) = self.search(node, timer) {
            let number = self.by_node[node as usize].numbers[index];
            self.timers[number as usize].deadline = None;
        }
    }

    /// An entry of timer `number` has come up at `now`.
    pub(crate) fn due(&mut self, number: u32, now: Instant) -> Due<T> {
        let state = &mut self.timers[number as usize];
        if self.prescribed {
            return state.deadline.take().map_or(Due::Nothing, |_| Due::Fire(state.node, state.timer));
        }
        if state.queued != Some(now) {
            return Due::Nothing;
        }
        state.queued = None;
        match state.deadline {
            None => Due::Nothing,
            Some(deadline) if deadline > now => {
                state.queued = Some(deadline);
                Due::Later(deadline)
            }
            Some(_) => {
                state.deadline = None;
                Due::Fire(state.node, state.timer)
            }
        }
    }
}
