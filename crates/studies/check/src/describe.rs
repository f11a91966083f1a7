//! What a reader calls the nodes, frames and timers of a system. A system that has such words can be printed, traced and replayed.

use std::ops::ControlFlow;

use quincunx_driver_check::{End, Exploration, NodeId, Statistics, System};
use quincunx_engine::Engine;

pub(crate) type EngineOf<S> = <S as System>::Engine;
pub(crate) type HeaderOf<S> = <EngineOf<S> as Engine>::Header;
pub(crate) type PayloadOf<S> = <EngineOf<S> as Engine>::Payload;
pub(crate) type TimerOf<S> = <EngineOf<S> as Engine>::Timer;
pub(crate) type EventOf<S> = <EngineOf<S> as Engine>::Event;
pub(crate) type CommandOf<S> = <EngineOf<S> as Engine>::Command;

/// A system with words for what is in it.
pub trait Describe: System {
    /// A node's name.
    fn name(&self, node: NodeId) -> String;

    /// A frame in a few words.
    fn frame(&self, header: &HeaderOf<Self>, payload: &PayloadOf<Self>) -> String;

    /// A timer of `node` in a few words.
    fn timer(&self, node: NodeId, timer: TimerOf<Self>) -> String;

    /// What a node is told by a notice of the control plane, in a few words.
    fn notice(&self, notice: u8) -> String {
        format!("gets notice {notice}")
    }

    /// Of a system with a broken rule, of which no run is wrong: whether that rule ever mattered, that is, any node answers otherwise than
    /// it would with the rule. None if no rule is broken, or it is not known.
    fn broken_rule_matters(
        &self,
        _rules: Exploration,
        _progress: &mut dyn FnMut(&Statistics) -> ControlFlow<()>,
    ) -> Option<bool> {
        None
    }

    /// The other end of a link.
    ///
    /// # Panics
    /// If no link begins there.
    fn across(&self, end: End) -> End {
        let ends = self.links().into_iter().flat_map(|[a, b]| [(a, b), (b, a)]);
        let mut far = ends.filter(|(near, _)| *near == end).map(|(_, far)| far);
        far.next().expect("a frame leaves where a link begins")
    }
}
