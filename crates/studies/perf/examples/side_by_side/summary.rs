//! What all turns come to: medians over the rounds, and shares of what the links could carry.

use quincunx_units::{BitRate, ByteCount, Probability};
use serde::Serialize;
use std::fmt;

use crate::contender::Contender;

/// The links of a fabric.
#[derive(Clone, Copy)]
pub(crate) struct FabricLinks {
    /// Ranks.
    pub(crate) ranks: u16,
    /// Rate of every link, each way.
    pub(crate) rate: Option<BitRate>,
    /// MTU in bytes.
    pub(crate) mtu: u16,
    /// Share of frames that every link loses, each way.
    pub(crate) loss: Option<Probability>,
}

impl fmt::Display for FabricLinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranks, rate, mtu, loss } = self;
        match rate {
            Some(rate) => write!(f, "{ranks} ranks, {rate}, MTU {mtu}"),
            None => write!(f, "{ranks} ranks, unlimited, MTU {mtu}"),
        }?;
        loss.map_or(Ok(()), |loss| write!(f, ", loss {loss}"))
    }
}

/// One size in one turn. Times in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Whose turn.
    pub(crate) contender: Contender,
    /// Bytes of a rank's vector; 0 for a barrier.
    pub(crate) bytes: u64,
    /// Mean of the slowest rank.
    pub(crate) mean_us: f64,
    /// Median of rank 0.
    pub(crate) median_us: f64,
    /// 99th percentile of rank 0.
    pub(crate) p99_us: f64,
    /// Wrong elements, over all ranks.
    pub(crate) wrong: u64,
    /// Processor time of a rank for a repetition, the mean of all ranks.
    pub(crate) rank_processor_us: f64,
    /// Processor time of the switch for a repetition: it is a machine of its own elsewhere. Nothing without one.
    pub(crate) switch_processor_us: Option<f64>,
}

/// A figure over all rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The most.
    pub(crate) max: f64,
}

impl Spread {
    /// None of nothing.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }
}

/// One contender at one size. Times in microseconds.
#[derive(Clone, Debug, Serialize)]
#[allow(non_snake_case, reason = "units as they are written")]
pub(crate) struct Summary {
    contender: Contender,
    ranks: u16,
    rate_Mbps: Option<f64>,
    mtu: u16,
    loss: Option<f64>,
    size: u64,
    rounds: usize,
    /// Of a repetition's mean time at the slowest rank.
    mean_us: Spread,
    /// Of a repetition's median time at rank 0.
    median_us: Spread,
    /// Of the 99th percentile at rank 0.
    p99_us: Spread,
    /// Size over the median of the mean times, in 10^6 bits a second.
    algbw_Mbps: f64,
    /// algbw over the rate of a link.
    share_of_link: Option<f64>,
    /// algbw over what a perfect ring would get of such links: N / (2 (N - 1)) of the rate.
    share_of_ring_bound: Option<f64>,
    /// Processor time of a rank for a repetition.
    rank_processor_us: Spread,
    /// The same of the switch, where there is one.
    switch_processor_us: Option<Spread>,
    wrong: u64,
}

impl Summary {
    /// One for each size and contender that had a turn, in order of size and of first appearance.
    pub(crate) fn of(link: FabricLinks, samples: &[Sample]) -> Vec<Self> {
        let mut keys: Vec<(u64, Contender)> = Vec::new();
        for sample in samples {
            let key = (sample.bytes, sample.contender);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.sort_by_key(|(bytes, _)| *bytes);
        keys.into_iter().filter_map(|(bytes, contender)| Self::one(link, bytes, contender, samples)).collect()
    }

    fn one(link: FabricLinks, size: u64, contender: Contender, samples: &[Sample]) -> Option<Self> {
        let turns = || samples.iter().filter(move |one| one.bytes == size && one.contender == contender);
        let over = |figure: fn(&Sample) -> f64| Spread::of(turns().map(figure));
        let mean_us = over(|one| one.mean_us)?;
        let algbw = size as f64 * 8.0 / mean_us.median.max(f64::MIN_POSITIVE);
        let rate = link.rate.map(|rate| rate.bits_per_second() as f64 / 1e6);
        let ranks = f64::from(link.ranks);
        // A barrier moves nothing: it has no share of anything.
        let share_of_link = rate.filter(|_| size > 0).map(|rate| algbw / rate);
        Some(Self {
            contender,
            ranks: link.ranks,
            rate_Mbps: rate,
            mtu: link.mtu,
            loss: link.loss.map(Probability::value),
            size,
            rounds: turns().count(),
            mean_us,
            median_us: over(|one| one.median_us)?,
            p99_us: over(|one| one.p99_us)?,
            algbw_Mbps: algbw,
            share_of_link,
            share_of_ring_bound: share_of_link.map(|share| share * 2.0 * (ranks - 1.0) / ranks),
            rank_processor_us: over(|one| one.rank_processor_us)?,
            switch_processor_us: Spread::of(turns().filter_map(|one| one.switch_processor_us)),
            wrong: turns().map(|one| one.wrong).sum(),
        })
    }
}

/// The header of the table that summaries print as.
pub(crate) fn table_header() -> String {
    let line = |cells: [&str; 16]| {
        let [
            contender,
            ranks,
            rate,
            mtu,
            loss,
            size,
            median,
            p99,
            mean,
            min,
            max,
            algbw,
            link,
            ring,
            rank,
            switch,
        ] = cells;
        format!(
            "{contender:<14} {ranks:>5} {rate:>9} {mtu:>5} {loss:>5} {size:>8} {median:>10} {p99:>10} {mean:>10} {min:>10} {max:>10} {algbw:>9} {link:>7} {ring:>7} {rank:>10} {switch:>10}"
        )
    };
    let names = [
        "",
        "ranks",
        "rate",
        "mtu",
        "loss",
        "size",
        "median",
        "p99",
        "mean",
        "min mean",
        "max mean",
        "algbw",
        "of link",
        "of ring",
        "rank cpu",
        "switch cpu",
    ];
    let units = [
        "", "", "(Mbit/s)", "(B)", "", "", "(us)", "(us)", "(us)", "(us)", "(us)", "(Mbit/s)", "rate",
        "bound", "(us)", "(us)",
    ];
    format!("{}\n{}", line(names), line(units))
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1}%", share * 100.0));
        let rate = self.rate_Mbps.map_or("none".into(), |rate| format!("{rate:.0}"));
        let barrier = self.size == 0;
        let size = if barrier { "barrier".into() } else { ByteCount::new(self.size).to_string() };
        let algbw = if barrier { "-".into() } else { format!("{:.1}", self.algbw_Mbps) };
        let Self { contender, ranks, mtu, mean_us, .. } = self;
        let loss = self.loss.map_or("-".into(), |loss| format!("{}%", loss * 100.0));
        let switch = self.switch_processor_us.map_or("-".into(), |time| format!("{:.1}", time.median));
        write!(
            f,
            "{contender:<14} {ranks:>5} {rate:>9} {mtu:>5} {loss:>5} {size:>8} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {algbw:>9} {:>7} {:>7} {:>10.1} {switch:>10}",
            self.median_us.median,
            self.p99_us.median,
            mean_us.median,
            mean_us.min,
            mean_us.max,
            share(self.share_of_link),
            share(self.share_of_ring_bound),
            self.rank_processor_us.median,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: FabricLinks =
        FabricLinks { ranks: 8, rate: BitRate::new(500_000_000), mtu: 1500, loss: None };

    fn sample(contender: Contender, bytes: u64, mean_us: f64) -> Sample {
        Sample {
            contender,
            bytes,
            mean_us,
            median_us: mean_us / 2.0,
            p99_us: mean_us * 2.0,
            wrong: 1,
            rank_processor_us: mean_us / 4.0,
            switch_processor_us: None,
        }
    }

    #[test]
    fn figures_are_medians_over_the_rounds() {
        let turns = [30.0, 10.0, 20.0, 90.0].map(|mean| sample(Contender::TcpRing, 4096, mean));
        let [one] = &Summary::of(LINK, &turns)[..] else { panic!("one contender, one size") };
        assert_eq!(one.mean_us, Spread { median: 25.0, min: 10.0, max: 90.0 });
        assert_eq!(one.median_us.median, 12.5);
        assert_eq!((one.rank_processor_us.max, one.switch_processor_us), (22.5, None));
        assert_eq!((one.rounds, one.wrong), (4, 4));
    }

    #[test]
    fn a_perfect_ring_has_all_of_its_bound_and_less_of_the_link() {
        // 1 MB in 28 ms over links of 500 Mbit/s: 8/14 of the rate.
        let [one] = &Summary::of(LINK, &[sample(Contender::TcpRing, 1_000_000, 28_000.0)])[..] else {
            panic!("one contender, one size")
        };
        assert!((one.share_of_link.unwrap() - 8.0 / 14.0).abs() < 1e-9);
        assert!((one.share_of_ring_bound.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_barrier_and_an_unlimited_link_have_no_shares() {
        let barrier = &Summary::of(LINK, &[sample(Contender::TcpRing, 0, 50.0)])[0];
        assert!(barrier.share_of_link.is_none());
        assert!(barrier.to_string().contains("barrier"));
        let unlimited =
            &Summary::of(FabricLinks { rate: None, ..LINK }, &[sample(Contender::TcpRing, 4, 50.0)])[0];
        assert!(unlimited.share_of_ring_bound.is_none());
    }

    #[test]
    fn rows_come_by_size_and_then_in_order_of_appearance() {
        let turns = [(Contender::OpenMpi, 4), (Contender::TcpRing, 4), (Contender::OpenMpi, 0)]
            .map(|(contender, bytes)| sample(contender, bytes, 1.0));
        let rows: Vec<_> = Summary::of(LINK, &turns).iter().map(|row| (row.size, row.contender)).collect();
        assert_eq!(rows, [(0, Contender::OpenMpi), (4, Contender::OpenMpi), (4, Contender::TcpRing)]);
    }
}
