//! Sections of `sim jobs`: when each job ran, how much longer than alone, and what links of trees and others carried.

use crate::ReportError;
use crate::bars::{Bar, BarGroup, bars};
use crate::gantt::{Lane, gantt};
use crate::plot::{Line, Styles, numbered, shares};
use crate::rows::{FellBack, Job, Output, SharedLink, Stream, parts, rows};
use serde::Serialize;

/// One file's jobs.
#[derive(Serialize)]
pub(crate) struct Jobs {
    title: String,
    plots: Vec<String>,
    rows: Vec<Job>,
    traffic: Vec<Stream>,
}

pub(crate) fn jobs(name: &str, output: &Output, styles: &Styles) -> Result<Jobs, ReportError> {
    let rows = rows::<Job>(name, output)?;
    let links = parts::<SharedLink>(name, output, &output.links)?;
    let traffic = parts::<Stream>(name, output, &output.traffic)?;
    let title = format!("jobs on {} ({name}.json)", output.fabric);
    let lane = |row: &Job| Lane {
        name: format!("{}: {}, {} ranks", row.job, row.design, row.ranks),
        remark: match &row.fell_back {
            Some(FellBack { asked, .. }) => format!("instead of {asked}"),
            None => String::new(),
        },
        spans: row.runs_us.clone(),
        style: styles.of(&row.design),
    };
    let slowdown = |row: &Job| Bar {
        name: format!("{}: {}", row.job, row.design),
        value: row.slowdown,
        published: None,
        style: styles.of(&row.design),
    };
    let mut plots = vec![gantt(&title, &rows.iter().map(lane).collect::<Vec<_>>())];
    if rows.iter().any(|row| row.slowdown.is_some()) {
        let group = BarGroup { name: String::new(), bars: rows.iter().map(slowdown).collect() };
        plots.push(bars(&title, "time beside the others over time alone", &[group]));
    }
    let of = |name: &str, is_tree: bool| {
        let meant = links.iter().filter(|link| !link.access && link.trees.is_empty() != is_tree);
        let mut used: Vec<f64> = meant.map(|link| link.utilisation).collect();
        used.sort_by(|a, b| b.total_cmp(a));
        let last = used.len().saturating_sub(1).max(1) as f64;
        let points = used.iter().enumerate().map(|(at, &used)| (at as f64 / last, used)).collect();
        Line { name: name.into(), points, ..Line::default() }
    };
    let lines = [of("of trees", true), of("others", false)].into_iter().filter(|line| line.points.len() > 1);
    plots.push(shares(&format!("links between switches: {title}"), &numbered(lines.collect()))?);
    Ok(Jobs { title, plots, rows, traffic })
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page};

    const JOBS: &str = r#"{"schema":1,"command":"sim jobs","fabric":"leaf-spine-2x2x2","rows":[
        {"job":"a","design":"epic-3","collective":"all_reduce","size":4096,"ranks":2,"begin_us":0.0,"end_us":20.0,"time_us":10.0,
         "algbw_GBps":1.0,"busbw_GBps":1.0,"switches":["spine-0","leaf-0"],"marked":0,"lost":0,"wrong":0,
         "runs_us":[[0.0,10.0],[10.0,20.0]],"slowdown":1.5},
        {"job":"b","design":"ring","collective":"all_reduce","size":4096,"ranks":2,"begin_us":5.0,"end_us":40.0,"time_us":35.0,
         "algbw_GBps":0.5,"busbw_GBps":0.5,"switches":[],"marked":7,"lost":2,"wrong":3,"runs_us":[[5.0,40.0]],
         "fell_back":{"asked":"epic-3","reason":"expected a tree <of> switches"},"slowdown":2.0}],
        "traffic":[{"traffic":"storage","sent":10,"arrived":9,"rate_GBps":1.0,"latency_mean_us":3.0,"latency_p50_us":2.0,"latency_p99_us":9.0}],
        "links":[{"name":"leaf-0 > spine-0","access":false,"trees":["a"],"utilisation":0.5},
                 {"name":"spine-0 > leaf-0","access":false,"trees":["a"],"utilisation":0.25},
                 {"name":"leaf-0 > spine-1","access":false,"trees":[],"utilisation":0.75},
                 {"name":"spine-1 > leaf-0","access":false,"trees":[],"utilisation":0.125},
                 {"name":"host-0 > leaf-0","access":true,"trees":["a"],"utilisation":1.0}]}"#;

    #[test]
    fn jobs_have_bars_over_time_their_slowdown_and_the_use_of_links() {
        let html = page(&output(JOBS));
        assert!(html.contains("jobs on leaf-spine-2x2x2 (run.json)"), "{html}");
        assert!(html.contains("a: epic-3, 2 ranks") && html.contains("instead of epic-3"), "{html}");
        assert_eq!((html.matches("<svg").count(), html.matches("stroke=\"white\"").count()), (3, 3));
        assert!(html.contains("over time alone") && html.contains("of trees") && html.contains("others"));
        assert!(html.contains("expected a tree &lt;of&gt; switches") && html.contains("class=\"wrong\">3"));
        assert_eq!(html.matches("links marked").count(), 1, "{html}");
        assert!(html.contains("b: links marked 7 of its frames, and lost 2"), "{html}");
        assert!(html.contains("storage") && html.contains("spine-0 +1"));
    }

    #[test]
    fn jobs_that_nobody_ran_alone_have_no_slowdown() {
        let text = JOBS.replace(",\"slowdown\":1.5", "").replace(",\"slowdown\":2.0", "");
        let html = page(&output(&text));
        assert_eq!(html.matches("<svg").count(), 2);
    }
}
