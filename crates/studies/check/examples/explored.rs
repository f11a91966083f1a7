//! Explores what its arguments say, as `quincunx check` understands them: what `tools/explored.py` runs, for it needs counters in the engines
//! and nothing of what the whole command is made of. Prints how many states were kept, and what was found.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::str::FromStr;

use quincunx_check::{Arguments, Exploration, Finding, Subject};
use quincunx_designs::CATALOG;
use quincunx_units::ByteCount;

/// Options that are given without a value mean one.
const ONCE: &str = "1";

/// The value of an option.
fn number<T: FromStr>(option: &str, value: Option<&str>) -> Result<T, String> {
    let value = value.ok_or(format!("expected a value of {option}, found none; give one"))?;
    value.parse().map_err(|_| format!("expected a number as {option}, found {value}; correct it"))
}

struct Asked {
    names: Vec<String>,
    arguments: Arguments,
    losses: Option<u8>,
    rules: Exploration,
}

fn read(words: Vec<String>) -> Result<Asked, String> {
    let mut arguments = Arguments::default();
    let (mut names, mut losses) = (Vec::new(), None);
    let mut rules = Exploration {
        losses: 0,
        duplicates: 0,
        delays: 0,
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        persistent_sets: true,
        at_once: true,
        symmetry: true,
        threads: 1,
        memory: ByteCount::new(4 << 30),
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (option, given) = match word.split_once('=') {
            Some((option, value)) => (option.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let once = given.as_deref().or(Some(ONCE));
        let mut next = || given.clone().or_else(|| words.next());
        match option.as_str() {
            "--reorder" => rules.delays = number(&option, once)?,
            "--duplicate" => rules.duplicates = number(&option, once)?,
            "--clock" => rules.jumps = number(&option, once)?,
            "--marks" => rules.marks = number(&option, once)?,
            "--early-timeouts" => rules.early_timeouts = number(&option, next().as_deref())?,
            "--losses" => losses = Some(number(&option, next().as_deref())?),
            "--full" => (rules.persistent_sets, rules.at_once, rules.symmetry) = (false, false, false),
            "--slow" => arguments.slow = true,
            "--late-start" => arguments.late_start = true,
            "--tree" => arguments.tree = next(),
            "--mutate" => arguments.mutate = next(),
            "--disagree" => arguments.disagree = next(),
            "--rule" => arguments.rule = next(),
            "--packets" => arguments.packets = Some(number(&option, next().as_deref())?),
            "--senders" => arguments.senders = Some(number(&option, next().as_deref())?),
            "--window" => arguments.window = Some(number(&option, next().as_deref())?),
            "--times" => arguments.times = number(&option, next().as_deref())?,
            "--groups" => arguments.groups = number(&option, next().as_deref())?,
            "--in-flight" => arguments.in_flight = number(&option, next().as_deref())?,
            "--root" => {
                let roots = next().unwrap_or_default();
                let roots = roots.split(',').map(|root| number(&option, Some(root)));
                arguments.roots = roots.collect::<Result<_, _>>()?;
            }
            "--set" => {
                let change = next().unwrap_or_default();
                arguments.set.push(change.parse().map_err(|error| format!("{error}"))?);
            }
            name if !name.starts_with('-') => names.push(name.to_owned()),
            other => {
                return Err(format!("expected an option of `quincunx check`, found {other}; leave it out"));
            }
        }
    }
    Ok(Asked { names, arguments, losses, rules })
}

fn explore() -> Result<bool, String> {
    let Asked { names, arguments, losses, rules } = read(std::env::args().skip(1).collect())?;
    let [design, collective] = names.as_slice() else {
        return Err(format!("expected a design and a collective, found {names:?}; name both"));
    };
    let subject =
        Subject::find(CATALOG, design, collective, &arguments).map_err(|error| error.to_string())?;
    let losses = subject.losses(losses, rules.duplicates).map_err(|error| error.to_string())?;
    let rules = Exploration { losses, ..rules };
    let (statistics, finding) = subject.network.explore(rules, &mut |_| ControlFlow::Continue(()));
    let (verdict, is_right) = match finding {
        Finding::Correct => ("correct".to_owned(), true),
        Finding::NeverMattered => ("never-mattered".to_owned(), false),
        Finding::Wrong(found) => (format!("wrong: {}", found.fault), false),
        Finding::Unfinished(why) => return Err(format!("expected to see all, found {why:?}; explore less")),
    };
    println!("{}\t{verdict}", statistics.distinct);
    Ok(is_right)
}

fn main() -> ExitCode {
    match explore() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(line) => {
            eprintln!("{line}");
            ExitCode::from(2)
        }
    }
}
