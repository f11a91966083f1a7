//! What has become of jobs, and of what was beside them.

use super::prepare::Job;
use crate::measurement::standard_error;
use quincunx_collective::{Bandwidths, Collective, Reduction};
use quincunx_nodes::Ways;
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobMeasurement {
    /// What people call it.
    pub name: String,
    /// Its line in the file.
    pub line: usize,
    /// The design that was asked for.
    pub asked: String,
    /// The one that ran.
    pub design: &'static str,
    /// Why that is not what was asked for, if it is not, in the manager's words.
    pub fell_back: Option<String>,
    /// Which collective.
    pub collective: Collective,
    /// How elements were combined.
    pub reduction: Reduction,
    /// Bytes as nccl-tests count them.
    pub size: ByteCount,
    /// Ranks.
    pub ranks: u16,
    /// The switches of its tree by name, from the root down; none if it ran among its hosts.
    pub switches: Vec<String>,
    /// When each of its collectives began and ended at all ranks.
    pub runs: Vec<[Instant; 2]>,
    /// Rates over the mean time; what crossed its ranks' links is not told from what others sent there, so none of the network.
    pub bandwidths: Bandwidths,
    /// Wrong elements, over all ranks and runs; none if memory held no numbers.
    pub wrong: Option<u64>,
    /// Frames of its own that links marked for congestion.
    pub marked: u64,
    /// Frames of its own that found no room in a queue, or were lost.
    pub lost: u64,
    /// Data frames that nodes of its group sent more than once.
    pub retransmitted: u64,
    /// How many of its collectives ran in its tree and how many among its hosts, if it locks its switches' memory for each.
    pub ways: Option<Ways>,
}

impl JobMeasurement {
    /// Of a job that ran so, with so many wrong elements, and so many frames that were marked, lost and sent again.
    pub(super) fn of(
        job: Job,
        runs: Vec<[Instant; 2]>,
        wrong: Option<u64>,
        [marked, lost, retransmitted]: [u64; 3],
    ) -> Self {
        let Job {
            line, name, asked, design, fell_back, switches, collective, reduction, size, hosts, ..
        } = job;
        let ranks = hosts.len() as u16;
        let bandwidths = Bandwidths::default();
        let mut measured = Self {
            name,
            line,
            asked,
            design,
            fell_back,
            collective,
            reduction,
            size,
            ranks,
            switches,
            runs,
            bandwidths,
            wrong,
            marked,
            lost,
            retransmitted,
            ways: None,
        };
        measured.bandwidths = collective.bandwidths(ranks, size, ByteCount::new(0), measured.mean());
        measured
    }

    /// When it began.
    pub fn begin(&self) -> Instant {
        self.runs.iter().map(|run| run[0]).min().unwrap_or_default()
    }

    /// When it had ended.
    pub fn end(&self) -> Instant {
        self.runs.iter().map(|run| run[1]).max().unwrap_or_default()
    }

    /// How long its collectives took.
    pub fn times(&self) -> impl Iterator<Item = Duration> {
        self.runs.iter().map(|[begin, end]| end.since(*begin))
    }

    /// The mean of that.
    pub fn mean(&self) -> Duration {
        self.times().sum::<Duration>() / (self.runs.len() as u64).max(1)
    }

    /// The collectives of several runs of the same job with other seeds, and the standard error of their mean.
    fn pooled(seeds: &[&Self]) -> (Self, Duration) {
        let mut pooled = Self {
            runs: seeds.iter().flat_map(|job| &job.runs).copied().collect(),
            wrong: seeds.iter().map(|job| job.wrong).sum(),
            marked: seeds.iter().map(|job| job.marked).sum(),
            lost: seeds.iter().map(|job| job.lost).sum(),
            retransmitted: seeds.iter().map(|job| job.retransmitted).sum(),
            ways: seeds
                .iter()
                .map(|job| job.ways)
                .reduce(|all, more| all.zip(more).map(|(a, b)| a + b))
                .flatten(),
            ..seeds[0].clone()
        };
        let Self { collective, ranks, size, .. } = pooled;
        pooled.bandwidths = collective.bandwidths(ranks, size, ByteCount::new(0), pooled.mean());
        (pooled, standard_error(seeds.iter().map(|job| job.mean())))
    }
}

/// A stream of traffic, until the last job's end.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamMeasurement {
    /// What people call it.
    pub name: String,
    /// Its line in the file.
    pub line: usize,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that arrived, headers and all.
    pub arrived: u64,
    /// Their payload over the time from its beginning on; none if none arrived.
    pub rate: Option<BitRate>,
    /// How long packets took, on average, half of them, and all but one of a hundred, at the longest; none if none arrived.
    pub latencies: Option<[Duration; 3]>,
}

impl StreamMeasurement {
    /// The packets of several runs of the same stream with other seeds: the means of their rates and latencies.
    fn pooled(seeds: &[&Self]) -> Self {
        let bits = seeds.iter().filter_map(|stream| stream.rate).map(BitRate::bits_per_second).sum::<u64>();
        let latencies: Vec<[Duration; 3]> = seeds.iter().filter_map(|stream| stream.latencies).collect();
        let mean = |which: usize| {
            latencies.iter().map(|found| found[which]).sum::<Duration>() / latencies.len() as u64
        };
        Self {
            sent: seeds.iter().map(|stream| stream.sent).sum(),
            arrived: seeds.iter().map(|stream| stream.arrived).sum(),
            rate: BitRate::new(bits / seeds.len() as u64),
            latencies: (!latencies.is_empty()).then(|| [0, 1, 2].map(mean)),
            ..seeds[0].clone()
        }
    }
}

/// A direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedLink {
    /// Where it leads: `leaf-0 > spine-1`.
    pub name: String,
    /// Whether it joins a host with its switch.
    pub is_access: bool,
    /// The share of the time that it was busy.
    pub utilisation: f64,
    /// Bytes, headers among them.
    pub bytes: ByteCount,
    /// The most bytes that were in its queue at once.
    pub peak_queue: ByteCount,
    /// Jobs whose trees lead over it, by their place in the file.
    pub trees: Vec<usize>,
}

impl SharedLink {
    /// The same link in several runs: means, and the fullest queue.
    fn pooled(seeds: &[&Self]) -> Self {
        let count = seeds.len() as u64;
        Self {
            utilisation: seeds.iter().map(|link| link.utilisation).sum::<f64>() / count as f64,
            bytes: ByteCount::new(seeds.iter().map(|link| link.bytes.bytes()).sum::<u64>() / count),
            peak_queue: seeds.iter().map(|link| link.peak_queue).max().unwrap_or_default(),
            ..seeds[0].clone()
        }
    }
}

/// All of it.
#[derive(Clone, PartialEq, Debug)]
pub struct JobsMeasurement {
    /// In the order of the file.
    pub jobs: Vec<JobMeasurement>,
    /// The same.
    pub traffic: Vec<StreamMeasurement>,
    /// Both directions of every link.
    pub links: Vec<SharedLink>,
    /// Until the last job's end.
    pub time: Duration,
    /// Steps of the simulation.
    pub steps: u64,
    /// Frames on all links.
    pub frames: u64,
}

impl JobsMeasurement {
    /// Several runs of one request with other seeds as one, and by job the standard error of its mean time.
    ///
    /// # Panics
    /// If there are none.
    pub fn pooled(seeds: &[Self]) -> (Self, Vec<Duration>) {
        let count = seeds.len() as u64;
        let (jobs, errors) = across(seeds, |run| &run.jobs).map(|jobs| JobMeasurement::pooled(&jobs)).unzip();
        let pooled = Self {
            jobs,
            traffic: across(seeds, |run| &run.traffic)
                .map(|found| StreamMeasurement::pooled(&found))
                .collect(),
            links: across(seeds, |run| &run.links).map(|found| SharedLink::pooled(&found)).collect(),
            time: seeds.iter().map(|run| run.time).sum::<Duration>() / count,
            steps: seeds.iter().map(|run| run.steps).sum(),
            frames: seeds.iter().map(|run| run.frames).sum(),
        };
        (pooled, errors)
    }
}

/// By place in a list that all runs have: what each has there.
fn across<'a, T: 'a>(
    runs: &'a [JobsMeasurement],
    list: impl Fn(&'a JobsMeasurement) -> &'a [T],
) -> impl Iterator<Item = Vec<&'a T>> {
    (0..list(&runs[0]).len()).map(move |place| runs.iter().map(|run| &list(run)[place]).collect())
}
