//! Bugs that are planted on purpose, one a run: rules of the control plane, of nodes and of designs that their rooms can break. A checker
//! that finds nothing in a cluster with such a rule has not looked.

use crate::generate::designs;
use quincunx_control::Mutation as ControlMutation;
use quincunx_design::{Catalog, FabricKind};
use quincunx_nodes::Mutation as NodeMutation;

/// Rules that nothing here could break: words on a connection come in order and once, and belong to that connection; who asks for a group asks
/// again with a key of its own as it is; and so who is to forget a group hears that before it hears of one in the same place. `check control` explores
/// them.
const ELSEWHERE: [ControlMutation; 5] = [
    ControlMutation::FreesAtOnce,
    ControlMutation::TakesOldWords,
    ControlMutation::ObeysOldWords,
    ControlMutation::InstallsLate,
    ControlMutation::AsksAnew,
];

/// What algorithm 3 of EPIC prints costs a packet now and then, and changes no result: `check epic-3 ... --mutate` explores it.
const HARMLESS: &str = "answers-as-printed";

/// The rule that all processes of a run break; none by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Planted {
    control: Option<ControlMutation>,
    node: Option<NodeMutation>,
    design: Option<&'static str>,
}

impl Planted {
    /// A rule by its name.
    ///
    /// # Errors
    /// One line, if there is no such rule.
    pub fn find(catalog: Catalog, name: &str) -> Result<Self, String> {
        if let Ok(control) = name.parse() {
            return Ok(Self { control: Some(control), ..Self::default() });
        }
        if let Ok(node) = name.parse() {
            return Ok(Self { node: Some(node), ..Self::default() });
        }
        match of_designs(catalog).into_iter().find(|known| *known == name) {
            Some(design) => Ok(Self { design: Some(design), ..Self::default() }),
            None => {
                let known = Self::names(catalog).join(", ");
                Err(format!("expected one of the planted bugs {known}, found \"{name}\"; name one of them"))
            }
        }
    }

    /// All rules that can be broken.
    pub fn names(catalog: Catalog) -> Vec<&'static str> {
        let control =
            ControlMutation::all().filter(|rule| !ELSEWHERE.contains(rule)).map(ControlMutation::name);
        let nodes = NodeMutation::all().map(NodeMutation::name);
        let designs = of_designs(catalog).into_iter().filter(|rule| *rule != HARMLESS);
        control.chain(nodes).chain(designs).collect()
    }

    pub(crate) const fn control(self) -> Option<ControlMutation> {
        self.control
    }

    pub(crate) const fn node(self) -> Option<NodeMutation> {
        self.node
    }

    pub(crate) const fn design(self) -> Option<&'static str> {
        self.design
    }

    pub(crate) fn keeps_for_anybody(self) -> bool {
        self.control == Some(ControlMutation::KeepsForAnybody)
    }
}

/// Rules of designs that jobs may ask for.
fn of_designs(catalog: Catalog) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let (designs, _) = designs(catalog);
    for design in designs.into_iter().filter_map(|name| catalog.named(name).ok()) {
        for name in (design.about().model.mutations)(FabricKind::Tree) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}
