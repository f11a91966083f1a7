//! Sections of `sim cluster`: how long jobs take under each policy; of many the shares that stay below a time (EPIC figures 16 and 20 to 24).

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::plot::{Line, Styles, distribution};
use crate::rows::{Output, Tenant, rows};
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
}

/// The most jobs that have a bar each.
const WITH_BARS: usize = 8;

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
    Ok(Tenancies { title, plots, rows: together })
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
