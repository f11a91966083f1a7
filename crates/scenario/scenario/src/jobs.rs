//! Several collectives on one fabric, and traffic beside them, as a file says them: who runs what, when, how often and how.

use crate::{HostList, Load, Pattern, ScenarioError, syntax, text};
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_units::{BitRate, ByteCount, Duration};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A file of jobs.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The fabric: a preset, a shape or a file.
    pub fabric: Option<String>,
    /// The manager's policy for groups' trees; default: `edge-disjoint`.
    pub policy: Option<String>,
    /// How long groups ask for locks that are not free, by the policy that has them; default: not at all.
    pub patience: Option<Duration>,
    /// Memory of each switch for groups' buffers; default: 64MiB.
    pub memory: Option<ByteCount>,
    /// One group each, which is made before the first one begins, in the order of the file.
    #[serde(default)]
    #[schemars(with = "Vec<JobSetup>")]
    job: Vec<Spanned<JobSetup>>,
    /// What others send meanwhile.
    #[serde(default)]
    #[schemars(with = "Vec<TrafficSetup>")]
    traffic: Vec<Spanned<TrafficSetup>>,
    #[serde(skip)]
    place: FileLocation,
}

/// Where a file is, and where its lines begin.
#[derive(Clone, PartialEq, Debug, Default)]
struct FileLocation {
    path: String,
    /// By line, from the second on.
    starts: Vec<usize>,
}

/// Some hosts that run a collective together, once or several times in a row.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSetup {
    /// The job's name; default: `job-1`, `job-2`, ... in the order of the file.
    pub name: Option<String>,
    /// Earliest start.
    #[serde(default)]
    pub at: Duration,
    /// The job's hosts in rank order: `0-15`, `0,8,1,9`, `0-56:8`.
    #[serde(deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    pub hosts: HostList,
    /// The collective: `all_reduce`, `broadcast`.
    #[serde(deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    pub collective: Collective,
    /// The root of Reduce and Broadcast.
    #[serde(default)]
    pub root: u16,
    /// Size, as nccl-tests count it.
    #[serde(default)]
    pub size: ByteCount,
    /// Element type; default: f32.
    #[serde(default = "f32", deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    pub dtype: DataType,
    /// Reduction operation; default: sum.
    #[serde(default = "sum", deserialize_with = "text::deserialize")]
    #[schemars(with = "String")]
    pub op: ReduceOp,
    /// The design's name: `epic-3`.
    pub design: String,
    /// Number of runs, one after the other.
    #[serde(default = "once")]
    pub times: u32,
}

/// Packets from hosts to hosts, at times that chance decides.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficSetup {
    /// The traffic's name; default: `traffic-1`, ....
    pub name: Option<String>,
    /// When it begins. It ends with the last job.
    #[serde(default)]
    pub at: Duration,
    /// Hosts that take part in a pattern; default: all.
    #[serde(default, deserialize_with = "text::deserialize_some")]
    #[schemars(with = "Option<String>")]
    pub hosts: Option<HostList>,
    /// Traffic pattern among `hosts`: `uniform`, `neighbor` or `hotspot`.
    #[serde(default, deserialize_with = "text::deserialize_some")]
    #[schemars(with = "Option<String>")]
    pub pattern: Option<Pattern>,
    /// Senders, without a pattern.
    #[serde(default, deserialize_with = "text::deserialize_some")]
    #[schemars(with = "Option<String>")]
    pub from: Option<HostList>,
    /// Receivers, each equally likely.
    #[serde(default, deserialize_with = "text::deserialize_some")]
    #[schemars(with = "Option<String>")]
    pub to: Option<HostList>,
    /// Load that each sender offers, as a share of its link: `0.3`.
    pub load: Option<f64>,
    /// Rate of each sender in bits a second, headers included.
    pub rate: Option<BitRate>,
}

/// Where a stream of traffic goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ends {
    /// A pattern over some hosts; over all if none are named.
    Pattern(Pattern, Option<HostList>),
    /// From each of some to any of some.
    Between(HostList, HostList),
}

/// How much each host sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// Of what its link carries.
    Load(Load),
    /// In bits a second.
    Rate(BitRate),
}

const fn once() -> u32 {
    1
}

const fn f32() -> DataType {
    DataType::F32
}

const fn sum() -> ReduceOp {
    ReduceOp::Sum
}

/// What was expected, what was found, and what to do.
type Wrong = (String, String, String);

impl Jobs {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read or is no file of jobs; the message has the line.
    pub fn read(path: &str) -> Result<Self, ScenarioError> {
        let text = crate::read_text(path)
            .map_err(|error| ScenarioError::Unreadable { path: path.into(), error: error.to_string() })?;
        Self::parse(path, &text)
    }

    /// Reads `text`, which came from `place`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(place: &str, text: &str) -> Result<Self, ScenarioError> {
        let mut jobs: Self = toml::from_str(text)
            .map_err(|error| ScenarioError::Syntax { place: place.into(), error: syntax(text, &error) })?;
        let starts = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        jobs.place = FileLocation { path: place.into(), starts };
        jobs.check()?;
        Ok(jobs)
    }

    /// The jobs, each with its line.
    pub fn jobs(&self) -> impl Iterator<Item = (usize, &JobSetup)> {
        self.job.iter().map(|job| (self.place.line(job), job.get_ref()))
    }

    /// The traffic, each with its line.
    pub fn traffic(&self) -> impl Iterator<Item = (usize, &TrafficSetup)> {
        self.traffic.iter().map(|traffic| (self.place.line(traffic), traffic.get_ref()))
    }

    /// What is wrong with a line.
    pub fn wrong_at(
        &self,
        line: usize,
        expected: impl Into<String>,
        found: impl ToString,
        remedy: &str,
    ) -> ScenarioError {
        let (expected, found) = (expected.into(), found.to_string());
        ScenarioError::Line { path: self.place.path.clone(), line, expected, found, remedy: remedy.into() }
    }

    /// What a line asks for and does not get, in the words of who refuses it.
    pub fn refused_at(&self, line: usize, error: impl ToString) -> ScenarioError {
        ScenarioError::Key { place: format!("{}:{line}", self.place.path), error: error.to_string() }
    }

    /// Refuses what makes no sense on any fabric.
    fn check(&self) -> Result<(), ScenarioError> {
        if self.job.is_empty() {
            return Err(self.wrong_at(1, "a [[job]] at least", "none", "nothing would end the run"));
        }
        let mut names: Vec<String> = Vec::new();
        for (number, (line, job)) in (1..).zip(self.jobs()) {
            let name = job.name(number);
            if names.contains(&name) {
                return Err(self.wrong_at(line, "each name once", format!("\"{name}\" twice"), "rename one"));
            }
            names.push(name);
            job.check().map_err(|wrong| self.at(line, wrong))?;
        }
        for (line, traffic) in self.traffic() {
            traffic.ends().map(|_| ()).map_err(|wrong| self.at(line, wrong))?;
            traffic.amount().map(|_| ()).map_err(|wrong| self.at(line, wrong))?;
        }
        Ok(())
    }

    fn at(&self, line: usize, (expected, found, remedy): Wrong) -> ScenarioError {
        self.wrong_at(line, expected, found, &remedy)
    }

    /// Refuses hosts that a fabric of so many does not have.
    ///
    /// # Errors
    /// If there are any; the message has the line.
    pub fn check_hosts(&self, hosts: u16) -> Result<(), ScenarioError> {
        let jobs = self.jobs().map(|(line, job)| (line, Some(&job.hosts)));
        let traffic = self.traffic().flat_map(|(line, traffic)| {
            [&traffic.hosts, &traffic.from, &traffic.to].map(|hosts| (line, hosts.as_ref()))
        });
        for (line, list) in jobs.chain(traffic) {
            let beyond = list.into_iter().flat_map(HostList::numbers).find(|&&host| host >= hosts);
            if let Some(beyond) = beyond {
                let expected = format!("hosts below {hosts}, which the fabric has");
                return Err(self.wrong_at(line, expected, beyond, "name others, or a larger fabric"));
            }
        }
        Ok(())
    }
}

impl FileLocation {
    /// Counted from one. A table's span begins with its header.
    fn line<T>(&self, part: &Spanned<T>) -> usize {
        1 + self.starts.partition_point(|start| *start <= part.span().start)
    }
}

impl JobSetup {
    /// What people call it; `number` is its place in the file, from one.
    pub fn name(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("job-{number}"))
    }

    fn check(&self) -> Result<(), Wrong> {
        let members = self.hosts.numbers().len();
        if members < 2 {
            return Err((
                "two `hosts` at least".into(),
                members.to_string(),
                "nobody exchanges anything alone".into(),
            ));
        }
        if usize::from(self.root) >= members {
            let expected = format!("a `root` below {members}");
            return Err((expected, self.root.to_string(), "name a rank of the job".into()));
        }
        if self.root != 0 && self.collective.root().is_none() {
            let expected = "a `root` with reduce or broadcast, which have one".into();
            return Err((expected, self.collective.name().into(), "leave it out".into()));
        }
        if self.size.bytes() > 0 && self.collective == Collective::Barrier {
            return Err(("no `size` with barrier".into(), self.size.to_string(), "leave it out".into()));
        }
        if self.times == 0 {
            return Err(("`times` of one or more".into(), "0".into(), "leave the job out".into()));
        }
        let is_routed = matches!(self.collective, Collective::Dispatch | Collective::Combine);
        if is_routed {
            let expected = "a collective of vectors as `collective`".into();
            return Err((expected, self.collective.name().into(), "run it by itself: quincunx sim".into()));
        }
        let reduction = Reduction { op: self.op, data_type: self.dtype };
        if self.collective.reduces() && !reduction.is_defined() {
            let expected =
                format!("an `op` that is defined: {}, without avg", self.dtype.defined_operations());
            let found = format!("{} of {}", self.op, self.dtype);
            return Err((expected, found, "say another, or another `dtype`".into()));
        }
        let element = self.dtype.size() as u64;
        let is_empty = self.size.bytes() == 0 && self.collective != Collective::Barrier;
        if is_empty || !self.size.bytes().is_multiple_of(element) {
            let expected = format!("a `size` of whole elements, {element} bytes each as {}", self.dtype);
            return Err((expected, self.size.to_string(), "say another size".into()));
        }
        Ok(())
    }
}

impl TrafficSetup {
    /// What people call it; `number` is its place in the file, from one.
    pub fn name(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("traffic-{number}"))
    }

    /// Where it goes.
    ///
    /// # Errors
    /// If that is said twice, or not at all.
    pub fn ends(&self) -> Result<Ends, Wrong> {
        let enough = |hosts: &Option<HostList>| hosts.as_ref().is_none_or(|hosts| hosts.numbers().len() > 1);
        match (self.pattern, &self.from, &self.to) {
            (Some(pattern), None, None) if enough(&self.hosts) => {
                Ok(Ends::Pattern(pattern, self.hosts.clone()))
            }
            (None, Some(from), Some(to)) if self.hosts.is_none() => match (from.numbers(), to.numbers()) {
                ([one], [other]) if one == other => Err((
                    "`from` and `to` with two hosts".into(),
                    format!("{one} alone"),
                    "name another".into(),
                )),
                _ => Ok(Ends::Between(from.clone(), to.clone())),
            },
            _ => Err((
                "a `pattern` of two `hosts` or more, or `from` and `to`".into(),
                "something else".into(),
                "say one of the two".into(),
            )),
        }
    }

    /// How much there is of it.
    ///
    /// # Errors
    /// If that is said twice or not at all, or is no load.
    pub fn amount(&self) -> Result<Amount, Wrong> {
        match (self.load, self.rate) {
            (Some(load), None) => Load::new(load).map(Amount::Load).map_err(|_| {
                ("a `load` from a millionth to 1".into(), load.to_string(), "say a share of a link".into())
            }),
            (None, Some(rate)) => Ok(Amount::Rate(rate)),
            (load, _) => Err((
                "`load` or `rate`".into(),
                if load.is_some() { "both".into() } else { "neither".into() },
                "say one of the two".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str =
        "[[job]]\nhosts = \"0-3\"\ncollective = \"all_reduce\"\nsize = \"4KiB\"\ndesign = \"ring\"\n";

    fn refusal(text: &str) -> String {
        Jobs::parse("jobs.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_job_has_its_line_its_name_and_what_is_not_said() {
        let text = format!("# two jobs\n{JOB}\n{JOB}at = \"3us\"\ntimes = 2\nname = \"b\"\n");
        let jobs = Jobs::parse("jobs.toml", &text).unwrap();
        let found: Vec<_> = jobs.jobs().collect();
        assert_eq!((found[0].0, found[1].0), (2, 8));
        assert_eq!((found[0].1.name(1), found[1].1.name(2)), ("job-1".into(), "b".into()));
        let JobSetup { at, times, dtype, op, .. } = found[0].1;
        assert_eq!((*at, *times, *dtype, *op), (Duration::ZERO, 1, DataType::F32, ReduceOp::Sum));
        assert_eq!((found[1].1.at, found[1].1.times), (Duration::from_micros(3), 2));
    }

    #[test]
    fn traffic_is_a_pattern_or_goes_between_hosts() {
        let text = format!(
            "{JOB}[[traffic]]\npattern = \"uniform\"\nload = 0.3\n[[traffic]]\nfrom = \"1\"\nto = \"0,2\"\nrate = \"10Gbit/s\"\n"
        );
        let jobs = Jobs::parse("jobs.toml", &text).unwrap();
        let found: Vec<_> =
            jobs.traffic().map(|(_, traffic)| (traffic.ends().unwrap(), traffic.amount().unwrap())).collect();
        assert_eq!(found[0], (Ends::Pattern(Pattern::Uniform, None), Amount::Load(Load::new(0.3).unwrap())));
        assert_eq!(found[1].0, Ends::Between("1".parse().unwrap(), "0,2".parse().unwrap()));
        assert_eq!(jobs.check_hosts(4), Ok(()));
        let beyond = jobs.check_hosts(3).unwrap_err().to_string();
        assert_eq!(
            beyond,
            "jobs.toml:1: expected hosts below 3, which the fabric has, found 3; name others, or a larger fabric"
        );
    }

    #[test]
    fn what_is_wrong_is_one_line_with_the_line_of_the_file() {
        for (text, line, named) in [
            ("".to_owned(), "jobs.toml:1:", "[[job]]"),
            (format!("{JOB}time = 3\n"), "line 6", "`time`"),
            (format!("{JOB}{}", JOB.replace("0-3", "3-0")), "line 7", "3-0"),
            (format!("{JOB}{}", JOB.replace("0-3", "3")), "jobs.toml:6:", "`hosts`"),
            (JOB.replace("4KiB", "6B"), "jobs.toml:1:", "`size`"),
            (JOB.replace("all_reduce", "dispatch"), "jobs.toml:1:", "`collective`"),
            (format!("{JOB}root = 4\n"), "jobs.toml:1:", "`root` below 4"),
            (format!("{JOB}root = 3\n"), "jobs.toml:1:", "found all_reduce"),
            (JOB.replace("all_reduce", "barrier"), "jobs.toml:1:", "no `size` with barrier"),
            (format!("{JOB}times = 0\n"), "jobs.toml:1:", "`times`"),
            (
                format!("{JOB}op = \"bxor\"\n"),
                "jobs.toml:1:",
                "prod or avg of floating-point numbers, without avg, found bxor of f32",
            ),
            (format!("{JOB}op = \"min\"\ndtype = \"mxfp8\"\n"), "jobs.toml:1:", "found min of mxfp8"),
            (format!("{JOB}name = \"a\"\n{JOB}name = \"a\"\n"), "jobs.toml:7:", "\"a\" twice"),
            (format!("{JOB}[[traffic]]\nload = 0.5\n"), "jobs.toml:6:", "`pattern`"),
            (format!("{JOB}[[traffic]]\npattern = \"uniform\"\n"), "jobs.toml:6:", "neither"),
            (format!("{JOB}[[traffic]]\npattern = \"uniform\"\nload = 2.0\n"), "jobs.toml:6:", "found 2"),
            (format!("{JOB}[[traffic]]\npattern = \"even\"\nload = 0.2\n"), "line 7", "even"),
            (format!("{JOB}[[traffic]]\nfrom = \"1\"\nto = \"1\"\nload = 0.2\n"), "jobs.toml:6:", "1 alone"),
        ] {
            let message = refusal(&text);
            assert!(message.contains(line) && message.contains(named), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
