//! From a file of jobs to groups on a fabric: who is in which, and what each is told.

use super::JobsError;
use super::streams::{Hosts, Stream};
use crate::Contents;
use crate::packet_fabric::{SimulationError, lengths};
use quincunx_cluster::{Cluster, ManagedCluster, ManagedSetup, Wiring};
use quincunx_collective::{Collective, GroupId, Rank, Reduction, SplitMix64};
use quincunx_design::{AnyDesign, Catalog, Demand, FabricKind, Settings};
use quincunx_scenario::{Amount, Ends, HostList, JobSetup, Jobs, Load, Scenario};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// Jobs to run.
#[derive(Clone, Debug)]
pub struct JobsRequest {
    /// Where, and under which circumstances.
    pub scenario: Scenario,
    /// What, and when.
    pub jobs: Jobs,
    /// The designs that there are.
    pub catalog: Catalog,
    /// What groups run for which there is no tree, by name.
    pub fallback: Option<&'static str>,
    /// Decides all that chance decides: which way flows take, and when traffic is sent.
    pub seed: u64,
    /// Of all jobs this one alone, by its place in the file, and no traffic: what the others cost it is what is missing then.
    pub only: Option<usize>,
}

/// A job that is about to run.
pub(super) struct Job {
    /// Its place in the file.
    pub(super) place: usize,
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) asked: String,
    pub(super) group: GroupId,
    pub(super) design: &'static str,
    pub(super) fell_back: Option<String>,
    pub(super) switches: Vec<String>,
    pub(super) collective: Collective,
    pub(super) reduction: Reduction,
    pub(super) size: ByteCount,
    /// Bytes of a rank's input and output.
    pub(super) lengths: [usize; 2],
    /// By rank.
    pub(super) hosts: Vec<usize>,
    pub(super) at: Instant,
    pub(super) times: u32,
}

impl JobsRequest {
    /// The jobs that run, each with its place and line in the file.
    pub(super) fn chosen(&self) -> impl Iterator<Item = (usize, usize, &JobSetup)> {
        let all = self.jobs.jobs().enumerate().map(|(place, (line, job))| (place, line, job));
        all.filter(|(place, ..)| self.only.is_none_or(|only| only == *place))
    }

    /// Numbers, and so checked results, if no job has a longer vector than runs of one collective check.
    pub(super) fn contents(&self) -> Contents {
        let longest = self.chosen().map(|(_, _, job)| job.size).max().unwrap_or_default();
        Contents::on(&self.scenario, longest)
    }

    /// The fabric with all groups, and the jobs that they are for.
    pub(super) fn groups(&self) -> Result<(Cluster, Vec<Job>), JobsError> {
        let wiring = Wiring::of(&self.scenario.fabric).filter(|_| self.scenario.kind() == FabricKind::Tree);
        let Some(wiring) = wiring else {
            return Err(JobsError::Fabric { found: self.scenario.place().into() });
        };
        self.jobs.check_hosts(wiring.ranks())?;
        let setup = ManagedSetup {
            catalog: self.catalog,
            policy: self.jobs.policy.as_deref().unwrap_or(ManagedSetup::POLICY),
            patience: self.jobs.patience.unwrap_or_default(),
            memory: self.jobs.memory.unwrap_or(ManagedSetup::MEMORY),
            fallback: self.fallback,
        };
        let mut managed = ManagedCluster::new(wiring.clone(), &setup)?;
        let (mut jobs, mut designs) = (Vec::new(), Vec::new());
        for (place, line, job) in self.chosen() {
            let refused = |error: String| self.jobs.refused_at(line, error);
            let numbers = job.hosts.numbers();
            let (design, settings) = self.design_of(line, job, FabricKind::Tree)?;
            designs.push(design);
            let hosts = numbers.iter().map(|&host| wiring.host(Rank(host))).collect();
            let wanted = self.job(place, line, job, design.name(), hosts);
            let lengths = wanted.lengths;
            let demand = Demand::Vectors { longest: ByteCount::new(lengths[0] as u64) };
            let made = managed.add(numbers, design, settings, demand);
            let made = made.map_err(|error| refused(error.to_string()))?;
            jobs.push(Job {
                group: made.group,
                design: made.design.name(),
                fell_back: made.fell_back,
                switches: made.switches,
                ..wanted
            });
        }
        // A job by itself leaves the keys of the others' designs alone.
        if self.only.is_none() {
            self.scenario.refuse_unused(&designs)?;
        }
        let mut cluster = managed.into_cluster();
        cluster.set_hash_seed(self.seed);
        if self.only.is_none() && self.jobs.traffic().next().is_some() {
            cluster.forward_everything();
        }
        Ok((cluster, jobs))
    }

    /// The design that a line asks for, and its settings, if it offers the collective on that kind of fabric.
    pub(super) fn design_of(
        &self,
        line: usize,
        job: &JobSetup,
        kind: FabricKind,
    ) -> Result<(&'static dyn AnyDesign, Settings), JobsError> {
        let refused = |error: String| self.jobs.refused_at(line, error);
        let ranks = job.hosts.numbers().len();
        let bytes = job.collective.counted_size(job.size).as_usize();
        let in_parts = matches!(job.collective, Collective::ReduceScatter | Collective::AllGather);
        if in_parts && !bytes.is_multiple_of(ranks * job.dtype.size()) {
            let error = SimulationError::Parts { ranks: ranks as u16, size: bytes as u64 };
            return Err(refused(error.to_string()).into());
        }
        let design = self.scenario.design(self.catalog, &job.design);
        let design = design.map_err(|error| refused(error.to_string()))?;
        if !design.about().offers(job.collective, kind) {
            let offered: Vec<&str> = design.collectives(kind).iter().map(|one| one.name()).collect();
            let expected = format!("a collective of {} ({})", design.name(), offered.join(", "));
            let remedy = "name one of them, or another design";
            return Err(self.jobs.wrong_at(line, expected, job.collective.name(), remedy).into());
        }
        Ok((design, self.scenario.settings(design)?))
    }

    /// A job as the file has it, before it has a group.
    pub(super) fn job(
        &self,
        place: usize,
        line: usize,
        job: &JobSetup,
        design: &'static str,
        hosts: Vec<usize>,
    ) -> Job {
        let bytes = job.collective.counted_size(job.size).as_usize();
        Job {
            place,
            line,
            name: job.name(place + 1),
            asked: design.to_owned(),
            group: GroupId(0),
            design,
            fell_back: None,
            switches: Vec::new(),
            collective: job.collective.with_root(Rank(job.root)),
            reduction: Reduction { op: job.op, data_type: job.dtype },
            size: job.size,
            lengths: lengths(job.collective, hosts.len(), bytes),
            hosts,
            at: Instant::ZERO + job.at,
            times: job.times,
        }
    }

    /// The streams of traffic, each with its line and name, where a packet takes so long on a host's link of a rate.
    pub(super) fn streams(
        &self,
        rate: BitRate,
        packet: Duration,
    ) -> Result<Vec<(usize, String, Stream)>, JobsError> {
        let mut streams = Vec::new();
        let all = self.jobs.traffic().filter(|_| self.only.is_none());
        for ((line, traffic), number) in all.zip(0_u64..) {
            let said = "the file has been checked";
            let hosts = match traffic.ends().expect(said) {
                Ends::Pattern(pattern, hosts) => {
                    let hosts = hosts.unwrap_or_else(|| HostList::first(self.scenario.ranks()));
                    Hosts::Pattern(pattern, hosts.numbers().to_vec())
                }
                Ends::Between(from, to) => Hosts::Between(from.numbers().to_vec(), to.numbers().to_vec()),
            };
            let load = match traffic.amount().expect(said) {
                Amount::Load(load) => load,
                Amount::Rate(asked) => Load::new(
                    asked.bits_per_second() as f64 / rate.bits_per_second() as f64,
                )
                .map_err(|_| {
                    let expected = format!("a `rate` of at most {rate}, which a host's link has");
                    self.jobs.wrong_at(line, expected, asked, "lower it")
                })?,
            };
            let seed = SplitMix64::new(self.seed ^ (number + 1).rotate_right(16)).draw();
            let stream = Stream::new(hosts, load, packet, Instant::ZERO + traffic.at, seed);
            streams.push((line, traffic.name(number as usize + 1), stream));
        }
        Ok(streams)
    }
}
