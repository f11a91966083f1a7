//! Machines, the links between hosts and switches, and the control network beside them: who reaches whom at the moment.

use crate::plan::Plan;
use quincunx_wire::Gid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A machine, by its number.
pub(crate) type Place = usize;

/// What a machine is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Host(u16),
    Switch(u16),
    Manager(usize),
    Store,
}

/// The links that a frame crosses.
type Way = Vec<(Place, Place)>;

/// Who reaches whom.
#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    kinds: Vec<Kind>,
    names: Vec<String>,
    addresses: Vec<Gid>,
    links: BTreeSet<(Place, Place)>,
    /// Directions that are cut, and how often: each fault gives back what it has taken.
    cut: BTreeMap<(Place, Place), u32>,
    deaf: BTreeMap<(Place, Place), u32>,
    /// Machines that the control network does not reach, and that it does not hear.
    isolated: BTreeMap<Place, u32>,
    mute: BTreeMap<Place, u32>,
    /// Pairs of machines that do not hear each other there, and are heard by all others.
    parted: BTreeMap<(Place, Place), u32>,
    off: BTreeMap<Place, u32>,
    /// Links on the way from one machine to another, as long as nothing changes.
    ways: Vec<Option<Option<Way>>>,
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, what: K, begins: bool) {
    let entry = counts.entry(what).or_default();
    *entry = if begins { *entry + 1 } else { entry.saturating_sub(1) };
    counts.retain(|_, count| *count > 0);
}

impl Fabric {
    pub(crate) fn new(plan: &Plan) -> Self {
        let (mut kinds, mut names, mut links) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut add = |kind, name: String| {
            kinds.push(kind);
            names.push(name);
            kinds.len() - 1
        };
        let hosts: Vec<Place> =
            (0..plan.hosts()).map(|host| add(Kind::Host(host), format!("h{host}"))).collect();
        let leaves: Vec<Place> =
            (0..plan.hosts.len() as u16).map(|leaf| add(Kind::Switch(leaf), format!("s{leaf}"))).collect();
        let first = plan.hosts.len() as u16;
        let spines: Vec<Place> =
            (first..first + plan.spines).map(|spine| add(Kind::Switch(spine), format!("s{spine}"))).collect();
        (0..usize::from(plan.managers))
            .for_each(|manager| _ = add(Kind::Manager(manager), format!("m{manager}")));
        add(Kind::Store, "e0".to_owned());
        let mut next = hosts.iter();
        for (leaf, count) in leaves.iter().zip(&plan.hosts) {
            links.extend(next.by_ref().take(usize::from(*count)).map(|host| (*host, *leaf)));
            links.extend(spines.iter().map(|spine| (*leaf, *spine)));
        }
        let count = kinds.len();
        let address = |place: Place| Gid::from([10, 0, (place >> 8) as u8, (place & 255) as u8 + 1]);
        Self {
            kinds,
            names,
            addresses: (0..count).map(address).collect(),
            links,
            cut: BTreeMap::new(),
            deaf: BTreeMap::new(),
            isolated: BTreeMap::new(),
            mute: BTreeMap::new(),
            parted: BTreeMap::new(),
            off: BTreeMap::new(),
            ways: vec![None; count * count],
        }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (Place, Kind)> + use<> {
        self.kinds.clone().into_iter().enumerate()
    }

    pub(crate) fn kind(&self, place: Place) -> Kind {
        self.kinds[place]
    }

    pub(crate) fn name(&self, place: Place) -> &str {
        &self.names[place]
    }

    pub(crate) fn find(&self, name: &str) -> Option<Place> {
        self.names.iter().position(|known| known == name)
    }

    pub(crate) fn find_kind(&self, kind: Kind) -> Option<Place> {
        self.kinds.iter().position(|known| *known == kind)
    }

    /// The address of a machine's data plane.
    pub(crate) fn address(&self, place: Place) -> Gid {
        self.addresses[place]
    }

    pub(crate) fn at(&self, address: Gid) -> Option<Place> {
        self.addresses.iter().position(|known| *known == address)
    }

    /// The neighbours of a machine, and whether the link to each is up.
    pub(crate) fn neighbours(&self, place: Place) -> impl Iterator<Item = (Place, bool)> {
        let other = move |&(a, b): &(Place, Place)| match place {
            _ if place == a => Some(b),
            _ if place == b => Some(a),
            _ => None,
        };
        self.links.iter().filter_map(other).map(move |far| (far, self.is_up(place, far)))
    }

    fn is_up(&self, a: Place, b: Place) -> bool {
        !self.cut.contains_key(&(a.min(b), a.max(b)))
    }

    pub(crate) fn has_link(&self, a: Place, b: Place) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    /// A link is cut, or mended.
    pub(crate) fn cut(&mut self, [a, b]: [Place; 2], begins: bool) {
        count(&mut self.cut, (a.min(b), a.max(b)), begins);
        self.ways.fill(None);
    }

    /// What goes from one machine over a link to another is lost, and no carrier is missing.
    pub(crate) fn deafen(&mut self, [from, to]: [Place; 2], begins: bool) {
        count(&mut self.deaf, (from, to), begins);
    }

    pub(crate) fn isolate(&mut self, place: Place, begins: bool) {
        count(&mut self.isolated, place, begins);
    }

    pub(crate) fn mute(&mut self, place: Place, begins: bool) {
        count(&mut self.mute, place, begins);
    }

    pub(crate) fn part(&mut self, [a, b]: [Place; 2], begins: bool) {
        count(&mut self.parted, (a.min(b), a.max(b)), begins);
    }

    pub(crate) fn power(&mut self, place: Place, is_off: bool) {
        count(&mut self.off, place, is_off);
        self.ways.fill(None);
    }

    pub(crate) fn is_off(&self, place: Place) -> bool {
        self.off.contains_key(&place)
    }

    /// Whether a word on the control network comes from one machine to another now.
    pub(crate) fn hears(&self, from: Place, to: Place) -> bool {
        let is_there = |place: &Place| !self.isolated.contains_key(place) && !self.off.contains_key(place);
        let are_parted = self.parted.contains_key(&(from.min(to), from.max(to)));
        is_there(&from) && is_there(&to) && !self.mute.contains_key(&from) && !are_parted
    }

    /// How many links a frame crosses from one machine to another now; none if it does not come there.
    pub(crate) fn hops(&mut self, from: Place, to: Place) -> Option<u64> {
        let pair = from * self.kinds.len() + to;
        if self.ways[pair].is_none() {
            self.ways[pair] = Some(self.find_way(from, to));
        }
        let way = self.ways[pair].as_ref()?.as_ref()?;
        let is_lost = !self.deaf.is_empty() && way.iter().any(|hop| self.deaf.contains_key(hop));
        (!is_lost).then_some(way.len() as u64)
    }

    /// A shortest way; switches without power pass nothing on, whatever their process does.
    fn find_way(&self, from: Place, to: Place) -> Option<Way> {
        let mut before: BTreeMap<Place, Place> = BTreeMap::from([(from, from)]);
        let mut queue = VecDeque::from([from]);
        while let Some(place) = queue.pop_front() {
            if place == to {
                let mut way = Vec::new();
                let mut at = to;
                while at != from {
                    way.push((before[&at], at));
                    at = before[&at];
                }
                return Some(way);
            }
            let is_host = matches!(self.kinds[place], Kind::Host(_));
            if self.is_off(place) || is_host && place != from {
                continue;
            }
            let next: Vec<Place> = self.neighbours(place).filter(|(_, up)| *up).map(|(far, _)| far).collect();
            for far in next {
                if let std::collections::btree_map::Entry::Vacant(entry) = before.entry(far) {
                    entry.insert(place);
                    queue.push_back(far);
                }
            }
        }
        None
    }
}
