//! `quincunx group stragglers`: who comes last to a group's collectives and by how much, by the switches' own clocks.

use clap::Args;
use quincunx_control_grpc::{
    ControlClient, GroupArrivals, GroupCalls, GroupName, LATENESS_BOUNDS, RankArrivals,
};
use quincunx_units::Duration;
use serde_json::{Value, json};

use crate::Failure;
use crate::groups::{group_json, title};
use crate::out::say;
use crate::results::described;
use crate::table::{Align, table};

#[derive(Args)]
#[command(after_help = "Examples:
  quincunx group stragglers train
  quincunx group stragglers train --json

A switch sees when each of its ranks begins a collective, by one clock: what is counted are collectives to which all of them contribute, since the
group was made, in modes II and III. `within` says how often a rank came no later than that after the first. Where no switch sees it, ranks' own clocks say it, for
their latest collectives. Prometheus has the same of each switch as histograms (lateness_seconds).")]
pub(crate) struct Stragglers {
    /// The group's name or number
    #[arg(value_name = "NAME|NUMBER")]
    group: GroupName,
}

/// How late one rank comes.
struct Late {
    rank: u16,
    by: String,
    collectives: u64,
    last: u64,
    mean: Duration,
    longest: Duration,
    /// Of those that a switch has counted.
    buckets: Option<[u64; LATENESS_BOUNDS.len() + 1]>,
}

impl Stragglers {
    pub(crate) fn run(self, client: &ControlClient, json: bool) -> Result<(), Failure> {
        let arrivals = client.ask_arrivals(&self.group).map_err(Failure::input)?;
        let mut late = by_switches(&arrivals);
        if late.is_empty() {
            late = by_ranks(&client.ask_calls(&self.group).map_err(Failure::input)?);
        }
        let silent: Vec<&str> = arrivals
            .switches
            .iter()
            .filter(|(_, ranks)| ranks.is_none())
            .map(|(node, _)| node.as_str())
            .collect();
        if json {
            let mut object = described("group stragglers");
            object["group"] = group_json(&arrivals.group);
            object["rows"] = late.iter().map(|late| late.json(&arrivals)).collect::<Vec<Value>>().into();
            object["silent_switches"] = json!(silent);
            say!("{object}");
            return Ok(());
        }
        crate::out::print(&in_words(&arrivals, &late));
        for switch in silent {
            say!("switch {switch} does not answer");
        }
        Ok(())
    }
}

/// By rank, what its switch has counted.
fn by_switches(arrivals: &GroupArrivals) -> Vec<Late> {
    let of = |switch: &str, rank: &RankArrivals| Late {
        rank: rank.rank,
        by: switch.into(),
        collectives: rank.collectives,
        last: rank.last,
        mean: Duration::from_nanos(rank.total.as_nanos() / rank.collectives.max(1)),
        longest: rank.longest,
        buckets: Some(rank.buckets),
    };
    let switches = arrivals.switches.iter();
    let mut late: Vec<Late> = switches
        .flat_map(|(switch, ranks)| ranks.iter().flatten().map(move |rank| of(switch, rank)))
        .collect();
    late.retain(|late| late.collectives > 0);
    late.sort_by_key(|late| late.rank);
    late
}

/// By what ranks have told of themselves.
fn by_ranks(calls: &GroupCalls) -> Vec<Late> {
    let lateness = calls.lateness().into_iter().zip(0..).filter(|(late, _)| late.calls > 0);
    let of = |(late, rank): (quincunx_control_grpc::Lateness, u16)| Late {
        rank,
        by: "ranks' clocks".into(),
        collectives: late.calls,
        last: late.last,
        mean: late.mean,
        longest: late.longest,
        buckets: None,
    };
    lateness.map(of).collect()
}

impl Late {
    /// The least bound that a share of its contributions keep, if it is one of those that are counted.
    fn within(&self, share: f64) -> Option<Duration> {
        let buckets = self.buckets?;
        let wanted = (share * self.collectives as f64).ceil() as u64;
        let mut sum = 0;
        let kept = buckets.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        LATENESS_BOUNDS.get(kept).copied()
    }

    fn json(&self, arrivals: &GroupArrivals) -> Value {
        let bounds = LATENESS_BOUNDS.iter().map(|bound| bound.as_micros_f64());
        json!({
            "rank": self.rank,
            "node": arrivals.group.summary.members[usize::from(self.rank)],
            "by": self.by,
            "collectives": self.collectives,
            "last": self.last,
            "mean_us": self.mean.as_micros_f64(),
            "longest_us": self.longest.as_micros_f64(),
            "bounds_us": bounds.collect::<Vec<_>>(),
            "counts": self.buckets,
        })
    }
}

fn in_words(arrivals: &GroupArrivals, late: &[Late]) -> String {
    use Align::{Left, Right};
    let text = title(&arrivals.group) + "\n";
    if late.is_empty() {
        return text + "nothing is known yet of when its ranks come; ask again when it has run\n";
    }
    let node = |late: &Late| &arrivals.group.summary.members[usize::from(late.rank)];
    let millis = |time: Duration| format!("{:.3}", time.as_micros_f64() / 1e3);
    let within = |late: &Late, share| match (late.buckets, late.within(share)) {
        (None, _) => "-".to_owned(),
        (_, Some(bound)) => bound.to_string(),
        (_, None) => format!("more than {}", LATENESS_BOUNDS[LATENESS_BOUNDS.len() - 1]),
    };
    let row = |late: &Late| {
        vec![
            late.rank.to_string(),
            node(late).clone(),
            late.by.clone(),
            late.collectives.to_string(),
            late.last.to_string(),
            millis(late.mean),
            millis(late.longest),
            within(late, 0.5),
            within(late, 0.99),
        ]
    };
    let columns = [
        ("rank", Right),
        ("node", Left),
        ("seen by", Left),
        ("collectives", Right),
        ("last", Right),
        ("late, mean(ms)", Right),
        ("longest(ms)", Right),
        ("half within", Right),
        ("99% within", Right),
    ];
    let mut text = text + &table(&columns, &late.iter().map(row).collect::<Vec<_>>());
    // Who is waited for more often than all others together.
    if let Some(worst) = late.iter().find(|late| 2 * late.last > late.collectives) {
        text += &format!(
            "\nthe others wait for rank {} ({}): it came last in {} of {} collectives, {} ms after the first on average\n",
            worst.rank,
            node(worst),
            worst.last,
            worst.collectives,
            millis(worst.mean)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_collective::GroupId;
    use quincunx_control::{GroupState, GroupSummary};
    use quincunx_control_grpc::GroupStatus;

    /// Two ranks at a switch, of which the second is 5 ms late nine times of ten; another switch says nothing.
    fn arrivals() -> GroupArrivals {
        let summary = GroupSummary {
            group: GroupId(3),
            design: "epic-3".into(),
            fallback: None,
            state: GroupState::Ready,
            owner: String::new(),
            members: ["a", "b"].map(String::from).into(),
            switches: Vec::new(),
            conflicts: 0,
            lease: None,
            recreated: None,
            shared: None,
        };
        let [name, tenant, asked] = ["train", "", "epic-3"].map(String::from);
        let [mut punctual, mut slow] = [[0; LATENESS_BOUNDS.len() + 1]; 2];
        [punctual[0], slow[0], slow[6]] = [10, 1, 9];
        let late = Duration::from_millis(5);
        let of = |rank, last, total, longest, buckets| RankArrivals {
            rank,
            collectives: 10,
            last,
            total,
            longest,
            buckets,
        };
        let ranks = vec![of(0, 1, Duration::ZERO, Duration::ZERO, punctual), of(1, 9, late * 9, late, slow)];
        let group = GroupStatus { summary, name, tenant, asked, stalled: None };
        GroupArrivals { group, switches: vec![("leaf1".into(), Some(ranks)), ("leaf2".into(), None)] }
    }

    #[test]
    fn who_comes_last_is_a_table_and_a_sentence() {
        let arrivals = arrivals();
        assert_eq!(
            in_words(&arrivals, &by_switches(&arrivals)),
            "group 3 \"train\"\n\
             rank  node  seen by  collectives  last  late, mean(ms)  longest(ms)  half within  99% within\n\
             \x20  0  a     leaf1             10     1           0.000        0.000         10us        10us\n\
             \x20  1  b     leaf1             10     9           4.500        5.000         10ms        10ms\n\n\
             the others wait for rank 1 (b): it came last in 9 of 10 collectives, 4.500 ms after the first on average\n"
        );
        let none = GroupArrivals { switches: Vec::new(), ..arrivals };
        assert!(in_words(&none, &by_switches(&none)).contains("nothing is known yet"));
    }

    #[test]
    fn what_passes_the_last_bound_is_told_so() {
        let mut late = by_switches(&arrivals()).remove(1);
        late.buckets = Some(std::array::from_fn(|place| if place == LATENESS_BOUNDS.len() { 10 } else { 0 }));
        assert!(in_words(&arrivals(), &[late]).contains("more than 1s"));
    }
}
