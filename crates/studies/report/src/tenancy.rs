//! Sections of `sim cluster`: how long jobs take under each policy; of many the shares that stay below a time (EPIC figures 16 and 20 to 24); and
//! which switches and links are used when, and by whom.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::gantt::{Lane, gantt};
use crate::heat::{Row, heat};
use crate::plot::{Line, Styles, distribution};
use crate::rows::{HeldSwitch, Output, TenancyRun, Tenant, UsedPart, parts, rows};
use serde::Serialize;

/// What jobs of a policy came to together.
#[derive(Serialize)]
struct Together {
    policy: String,
    units: u32,
    jobs: usize,
    mean_s: f64,
    median_s: f64,
    p99_s: f64,
    last_end_s: f64,
    in_network: f64,
}

/// One file's jobs.
#[derive(Serialize)]
pub(crate) struct Tenancies {
    title: String,
    plots: Vec<String>,
    rows: Vec<Together>,
    /// Of each run that is drawn: switches and links over its time.
    used: Vec<String>,
    /// How to have that drawn, where there are too many.
    hint: &'static str,
}

/// The most jobs that have a bar each.
const WITH_BARS: usize = 8;

/// What a file says that has many runs, or is of an earlier version.
const ASK_FOR_FEWER: &str = "Which switches and links are used when is told of up to eight runs: ask for fewer with --policy, --memory-units and --seeds.";

/// The most switches and jobs that have a line of their own.
const LANES: usize = 40;

pub(crate) fn tenancies(name: &str, output: &Output, styles: &Styles) -> Result<Tenancies, ReportError> {
    let rows = rows::<Tenant>(name, output)?;
    let title = format!("jobs of a cluster ({name}.json)");
    let (mut units, mut policies, mut jobs): (Vec<u32>, Vec<&str>, Vec<&str>) = Default::default();
    for row in &rows {
        if !units.contains(&row.units) {
            units.push(row.units);
        }
        if !policies.contains(&&*row.policy) {
            policies.push(&row.policy);
        }
        if jobs.len() <= WITH_BARS && !jobs.contains(&&*row.job) {
            jobs.push(&row.job);
        }
    }
    let (mut plots, mut together) = (Vec::new(), Vec::new());
    for memory in units {
        let of = |policy: &str| {
            let meant = rows.iter().filter(|row| row.units == memory && row.policy == policy);
            let mut times: Vec<f64> = meant.map(|row| row.jct_s).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let title = format!("{memory} units of memory: {title}");
        if jobs.len() > WITH_BARS {
            let line = |policy: &&str| {
                let times = of(policy);
                let share = |at: usize| (at + 1) as f64 / times.len() as f64;
                let points = times.iter().enumerate().map(|(at, &time)| (time, share(at))).collect();
                Line { name: (*policy).into(), points, style: styles.of(policy), ..Line::default() }
            };
            plots.push(distribution(
                &title,
                "job completion time (s)",
                &policies.iter().map(line).collect::<Vec<_>>(),
            )?);
        } else {
            let group = |job: &&str| {
                let of_job = rows.iter().filter(|row| row.units == memory && row.job == *job);
                let bar = |row: &Tenant| Bar {
                    name: row.policy.clone(),
                    value: Some(row.jct_s),
                    published: None,
                    style: styles.of(&row.policy),
                };
                BarGroup { name: (*job).into(), bars: of_job.map(bar).collect() }
            };
            plots.push(bars(&title, "job completion time (s)", &jobs.iter().map(group).collect::<Vec<_>>()));
        }
        for policy in &policies {
            let meant = || rows.iter().filter(|row| row.units == memory && row.policy == *policy);
            let times = of(policy);
            let at = |share: f64| {
                let rank = (share * times.len() as f64).ceil() as usize;
                times.get(rank.max(1) - 1).copied().unwrap_or_default()
            };
            let shares: Vec<f64> = meant().filter_map(|row| row.in_network).collect();
            together.push(Together {
                policy: (*policy).into(),
                units: memory,
                jobs: times.len(),
                mean_s: times.iter().sum::<f64>() / times.len().max(1) as f64,
                median_s: at(0.5),
                p99_s: at(0.99),
                last_end_s: meant().map(|row| row.ended_s).fold(0.0, f64::max),
                in_network: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
            });
        }
    }
    let runs = parts::<TenancyRun>(name, output, &output.runs)?;
    let is_told = runs.iter().all(|run| run.part_s > 0.0);
    let hint = if is_told { "" } else { ASK_FOR_FEWER };
    let used = runs.iter().filter(|run| run.part_s > 0.0).flat_map(drawn).collect();
    Ok(Tenancies { title, plots, rows: together, used, hint })
}

/// Switches, links, and of few jobs who held which switch.
fn drawn(run: &TenancyRun) -> Vec<String> {
    let job = run.job.as_ref().map_or(String::new(), |job| format!("{job}, "));
    let of = format!("{job}{}, {} units, seed {}", run.policy, run.units, run.seed);
    let map = |title: &str, used: &[UsedPart]| {
        let rows: Vec<Row<'_>> =
            used.iter().map(|used| Row { name: &used.name, shares: &used.shares }).collect();
        heat(&format!("{title}: {of}"), run.part_s * 1e6, &rows)
    };
    let mut jobs = Styles::default();
    jobs.know(run.held.iter().map(|held| &*held.job));
    let fullest =
        run.switches.iter().flat_map(|used| run.held.iter().filter(|held| held.switch == used.name));
    let lane = |held: &HeldSwitch| Lane {
        name: format!("{}: {}", held.switch, held.job),
        remark: String::new(),
        spans: held.spans_s.iter().map(|span| span.map(|time| time * 1e6)).collect(),
        style: jobs.of(&held.job),
    };
    let lanes: Vec<Lane> = fullest.take(LANES).map(lane).collect();
    let plots = [
        map("memory of switches that groups hold", &run.switches),
        gantt(&format!("who holds which switch: {of}"), &lanes),
        map("bits that links carry", &run.links),
    ];
    plots.into_iter().filter(|plot| !plot.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page};

    fn text(jobs: usize) -> String {
        let row = |policy: &str, job: usize| {
            let time = (job + 1) * if policy == "ring" { 20 } else { 10 };
            format!(
                r#"{{"policy":"{policy}","units":4,"job":"job-{job}","jct_s":{time}.5,"ended_s":{time}.5,"in_network":0.25}}"#
            )
        };
        let rows: Vec<_> =
            ["ring", "edt"].iter().flat_map(|policy| (0..jobs).map(move |job| row(policy, job))).collect();
        format!(r#"{{"schema":1,"command":"sim cluster","rows":[{}]}}"#, rows.join(","))
    }

    #[test]
    fn few_jobs_have_a_bar_for_each_policy() {
        let html = page(&output(&text(2)));
        assert!(html.contains("jobs of a cluster (run.json)") && html.contains("job-1"), "{html}");
        assert!(
            html.contains("<td>ring</td><td>4</td><td>2</td><td>30.5</td><td>20.5</td><td>40.5</td>"),
            "{html}"
        );
    }

    /// The same with so many runs, of one switch, two links and one job.
    fn with_runs(runs: usize) -> String {
        let run = r#"{"policy":"edt","job":"job-1","units":4,"seed":1,"part_s":0.5,"switches":[{"name":"spine-1","shares":[0.5,1.0]}],
            "links":[{"name":"leaf-1 > spine-1","shares":[0.0,0.9]},{"name":"spine-1 > leaf-1","shares":[0.2]}],
            "held":[{"switch":"spine-1","job":"job-1","spans_s":[[0.1,0.6],[0.8,1.0]]}]}"#;
        text(2).replacen('{', &format!(r#"{{"runs":[{}],"#, vec![run; runs].join(",")), 1)
    }

    #[test]
    fn a_run_shows_which_switches_and_links_were_used_when_and_by_whom() {
        let html = page(&output(&with_runs(1)));
        for text in [
            "memory of switches that groups hold: job-1, edt, 4 units, seed 1",
            "spine-1: job-1",
            "leaf-1 &gt; spine-1",
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert_eq!(html.matches("<svg").count(), 4);
        assert!(!html.contains("ask for fewer"));
    }

    #[test]
    fn where_that_is_not_told_it_is_said_how_to_have_it() {
        let html = page(&output(&with_runs(1).replace("\"part_s\":0.5,", "")));
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("is told of up to eight runs: ask for fewer"), "{html}");
        assert!(!page(&output(&text(2))).contains("ask for fewer"));
    }

    #[test]
    fn many_jobs_have_a_line_for_each_policy() {
        let html = page(&output(&text(100)));
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(html.contains("job completion time (s)") && html.contains("\nedt\n</text>"), "{html}");
        assert!(
            html.contains("<td>edt</td><td>4</td><td>100</td><td>505.5</td><td>500.5</td><td>990.5</td>"),
            "{html}"
        );
    }
}
