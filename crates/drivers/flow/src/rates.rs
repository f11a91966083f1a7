//! Waterfilling: all flows' rates rise together; where a link is full, those on it stay.

use crate::LinkId;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What a flow asks of a link: `weight` bits for each bit of the flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// Which link, which way.
    pub link: LinkId,
    /// Bits there for one of the flow; above zero.
    pub weight: f64,
}

/// A link that may be the next one to be full: the one with the lowest level is, and of these the first.
#[derive(PartialEq)]
struct Filling {
    level: f64,
    link: usize,
}

impl Eq for Filling {}

impl Ord for Filling {
    fn cmp(&self, other: &Self) -> Ordering {
        other.level.total_cmp(&self.level).then(other.link.cmp(&self.link))
    }
}

impl PartialOrd for Filling {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Links and flows that have something to do with each other, numbered among themselves.
#[derive(Default)]
pub(crate) struct Component {
    /// By link: what is left of its capacity, in bits a second.
    pub(crate) left: Vec<f64>,
    /// By link: the flows on it, and what each asks of it.
    pub(crate) on: Vec<Vec<(u32, f64)>>,
    /// By flow: the links that it is on, and what it asks of each.
    pub(crate) over: Vec<Vec<(u32, f64)>>,
}

impl Component {
    /// Each flow's rate in bits a second: none could be higher without another's, that is no higher, being lower.
    pub(crate) fn rates(mut self) -> Vec<f64> {
        let mut asked: Vec<f64> =
            self.on.iter().map(|flows| flows.iter().map(|(_, weight)| weight).sum()).collect();
        let mut waiting: Vec<usize> = self.on.iter().map(Vec::len).collect();
        let level = |left: f64, asked: f64| left.max(0.0) / asked;
        let mut filling: BinaryHeap<Filling> = (0..self.on.len())
            .filter(|&link| waiting[link] > 0)
            .map(|link| Filling { level: level(self.left[link], asked[link]), link })
            .collect();
        let mut rates = vec![f64::NAN; self.over.len()];
        while let Some(Filling { level: before, link }) = filling.pop() {
            if waiting[link] == 0 {
                continue;
            }
            // Its level has risen since, where flows on it have stayed below.
            let now = level(self.left[link], asked[link]);
            if now > before {
                filling.push(Filling { level: now, link });
                continue;
            }
            for &(flow, _) in &self.on[link] {
                let flow = flow as usize;
                if !rates[flow].is_nan() {
                    continue;
                }
                rates[flow] = before;
                for &(link, weight) in &self.over[flow] {
                    let link = link as usize;
                    self.left[link] -= before * weight;
                    asked[link] -= weight;
                    waiting[link] -= 1;
                }
            }
        }
        rates
    }
}
