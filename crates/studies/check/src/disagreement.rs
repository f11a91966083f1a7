//! One rank of a group, the last, asks for something else than the others, or for nothing. Nobody may be told of a result then, in no run. That ranks fail, or
//! wait for ever, is right: to end such a group is the control plane's business.

use core::fmt;
use core::str::FromStr;
use quincunx_collective::{Collective, DataType, Rank, ReduceOp, Reduction};
use quincunx_design::Refusal;

use crate::network::SUM;
use crate::tasks::TasksSetup;

/// In what the last rank's request differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Disagreement {
    /// Another collective.
    Collective,
    /// Another type, whose elements are as long.
    Type,
    /// Another operation.
    Operation,
    /// Another root.
    Root,
    /// A packet more.
    Length,
    /// It never asks.
    Absence,
}

impl Disagreement {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Collective, Self::Type, Self::Operation, Self::Root, Self::Length, Self::Absence];

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective => "collective",
            Self::Type => "type",
            Self::Operation => "operation",
            Self::Root => "root",
            Self::Length => "length",
            Self::Absence => "absence",
        }
    }

    /// How elements combine for the rank that differs.
    pub(crate) const fn reduction(self) -> Reduction {
        match self {
            Self::Type => Reduction { data_type: DataType::F32, ..SUM },
            Self::Operation => Reduction { op: ReduceOp::Max, ..SUM },
            _ => SUM,
        }
    }

    /// What the rank that differs is asked for, where the others are asked for that; a collective is one of those `offered`.
    ///
    /// # Errors
    /// If there is no such difference.
    pub(crate) fn tasks(self, setup: &TasksSetup, offered: &[Collective]) -> Result<TasksSetup, Refusal> {
        let [collective] = setup.collectives[..] else {
            return Err(Refusal::new(
                "one collective where ranks disagree",
                setup.collectives.len(),
                "leave --times out",
            ));
        };
        let no_such = |what: &str| Refusal::new(what.to_owned(), collective, "name another difference");
        let other = match self {
            Self::Collective => {
                let others = offered.iter().copied().filter(|other| other.name() != collective.name());
                // A Barrier waits for the least.
                let other = others.max_by_key(|other| *other == Collective::Barrier);
                other.ok_or_else(|| no_such("a design that offers another collective"))?
            }
            Self::Root => match collective.root() {
                Some(Rank(0)) => collective.with_root(Rank(1)),
                Some(_) => collective.with_root(Rank(0)),
                None => return Err(no_such("a collective with a root")),
            },
            Self::Operation if !collective.reduces() => return Err(no_such("a collective that combines")),
            Self::Type | Self::Length if collective == Collective::Barrier => {
                return Err(no_such("a collective with data"));
            }
            Self::Type | Self::Operation | Self::Length => collective,
            Self::Absence => return Ok(TasksSetup { collectives: Vec::new(), ..setup.clone() }),
        };
        let packets = setup.packets + usize::from(self == Self::Length);
        Ok(TasksSetup { collectives: vec![other], packets, ..setup.clone() })
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Disagreement {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found
            .ok_or_else(|| Refusal::new(format!("one of {names}"), format!("\"{text}\""), "name one of them"))
    }
}
