//! The page: sections from rows, HTML from the template. Everything is inside the one file.

use crate::ReportError;
use crate::figures::{figures, key};
use crate::jobs::jobs;
use crate::layers::layers;
use crate::pictures;
use crate::plot::{Line, Styles, latency, numbered, throughput, utilisation};
use crate::predictions::predictions;
use crate::rows::{Curve, LinkUtilisation, Machine, Measured, Output, Reproduced, Traffic, read, rows};
use crate::sequence::explored;
use crate::tenancy::tenancies;
use crate::training::trained;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One file's sweep of one collective.
#[derive(Serialize)]
struct Sweep {
    title: String,
    svg: String,
    rows: Vec<Measured>,
    /// Some row was chosen among several.
    has_candidates: bool,
    links: Vec<Links>,
}

/// How busy the links of a row were.
#[derive(Serialize)]
struct Links {
    title: String,
    /// Over time; empty if that is not known.
    svg: String,
    busiest: Vec<LinkUtilisation>,
}

/// One file's traffic.
#[derive(Serialize)]
struct Load {
    title: String,
    svg: String,
    rows: Vec<Traffic>,
}

/// Links that are listed a row: the busiest.
const LISTED_LINKS: usize = 16;

/// Links that are drawn over time: as many as have a colour of their own.
const DRAWN_LINKS: usize = 8;

/// A file's run, as the page tells of it.
#[derive(Serialize)]
struct ReportedRun {
    file: String,
    command: String,
    version: String,
    machine: String,
    time: String,
}

/// A page, and what it does not show.
#[derive(Debug)]
pub struct Page {
    /// Where it is.
    pub path: PathBuf,
    /// Its plots as files of their own, if they were asked for.
    pub pictures: Vec<PathBuf>,
    /// Why files of the folder are not in it, a line each; the page says so, too.
    pub left_out: Vec<ReportError>,
}

/// Reads the `*.json` files of `folder` and writes `report.html` beside them, and its plots as SVG into `pictures`, if that is a folder.
///
/// # Errors
/// If there are none, if none was printed by a command, or if the page or a plot cannot be written.
pub fn write(folder: &Path, pictures: Option<&Path>) -> Result<Page, ReportError> {
    let (outputs, mut left_out) = read(folder)?;
    let all = outputs.len() + left_out.len();
    let html = render(&outputs, &mut left_out)?;
    if left_out.len() == all {
        return Err(left_out.swap_remove(0));
    }
    let path = folder.join("report.html");
    std::fs::write(&path, &html).map_err(|error| ReportError::File {
        what: "write",
        path: path.display().to_string(),
        error,
    })?;
    let pictures = pictures.map_or(Ok(Vec::new()), |folder| pictures::write(&html, folder))?;
    Ok(Page { path, pictures, left_out })
}

/// What a file's run was.
fn run((name, output): &(String, Output)) -> ReportedRun {
    let Machine { processor, cores } = &output.machine;
    let machine = processor.as_ref().map(|processor| format!("{processor}, {cores} cores"));
    ReportedRun {
        file: format!("{name}.json"),
        command: match &output.arguments[..] {
            [] => output.command.clone(),
            arguments => format!("quincunx {}", arguments.join(" ")),
        },
        version: output.version.clone(),
        machine: machine.unwrap_or_default(),
        time: output.time.clone(),
    }
}

/// The page of these; those that are odd are added to `left_out`, and the page goes on without them.
pub(crate) fn render(
    outputs: &[(String, Output)],
    left_out: &mut Vec<ReportError>,
) -> Result<String, ReportError> {
    let styles = styles(outputs);
    let (mut sweeps, mut loads, mut layered, mut trainings, mut explorations) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut shared, mut clusters, mut predicted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut reproduced, mut drawn): (Vec<Reproduced>, Vec<_>) = (Vec::new(), Vec::new());
    let mut runs = Vec::new();
    for file in outputs {
        let (name, output) = file;
        let mut add = || {
            match output.command.as_str() {
                "reproduce" => {
                    reproduced.extend(rows::<Reproduced>(name, output)?);
                    drawn.extend(figures(&output.curves, &styles)?);
                }
                "sim layer" => layered.push(layers(name, output, &styles)?),
                "sim jobs" => shared.push(jobs(name, output, &styles)?),
                "sim train" => trainings.push(trained(name, output, &styles)?),
                "predict" | "plan" => predicted.push(predictions(name, output, &styles)?),
                "sim cluster" => clusters.push(tenancies(name, output, &styles)?),
                "check" => explorations.push(explored(name, output)?),
                "sim traffic" => loads.push(load(name, output)?),
                "perf" | "sim" | "demo" => sweeps.extend(sweep(name, output, &styles)?),
                other => {
                    return Err(ReportError::Foreign {
                        path: format!("{name}.json"),
                        found: format!("the command \"{other}\", of which a report shows nothing"),
                    });
                }
            }
            Ok(())
        };
        match add() {
            Ok(()) => runs.push(run(file)),
            Err(odd @ ReportError::Foreign { .. }) => left_out.push(odd),
            Err(error) => return Err(error),
        }
    }
    let odd: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    #[expect(
        deprecated,
        reason = "it asks for a feature `serde` that this release of the library does not have"
    )]
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let failed = |error: minijinja::Error| ReportError::Drawing {
        what: "the page".into(),
        error: format!("{error:#}").replace('\n', " "),
    };
    environment.add_template("report", include_str!("../templates/report.html")).map_err(failed)?;
    let template = environment.get_template("report").map_err(failed)?;
    template
        .render(context! { sweeps, loads, layered, trainings, shared, clusters, predicted, explorations, reproduced, drawn, runs, odd })
        .map_err(failed)
}

/// The names of all designs, so that each has its style in all plots; and those of curves that are told apart by something else.
fn styles(outputs: &[(String, Output)]) -> Styles {
    let mut styles = Styles::default();
    for (_, output) in outputs {
        styles.know(output.rows.iter().filter_map(|row| row["design"].as_str()));
        styles.know(output.rows.iter().filter_map(|row| row["policy"].as_str()));
        let candidates = output.rows.iter().filter_map(|row| row["candidates"].as_array()).flatten();
        styles.know(candidates.filter_map(|candidate| candidate["design"].as_str()));
        for experiment in output.curves.chunk_by(|a, b| (&a.paper, &a.id) == (&b.paper, &b.id)) {
            let all: Vec<&Curve> = experiment.iter().collect();
            styles.know(experiment.iter().map(|curve| key(curve, &all)));
        }
    }
    styles
}

/// The fabric or tree that was asked for, if one was.
fn place(output: &Output) -> String {
    let asked = output.arguments.windows(2).find(|pair| matches!(pair[0].as_str(), "--fabric" | "--tree"));
    asked.map_or_else(String::new, |pair| format!(" on {}", pair[1]))
}

/// The sweeps of a file, one a collective.
fn sweep(name: &str, output: &Output, styles: &Styles) -> Result<Vec<Sweep>, ReportError> {
    let mut by_collective: BTreeMap<String, Vec<Measured>> = BTreeMap::new();
    for row in rows::<Measured>(name, output)? {
        by_collective.entry(row.collective.clone()).or_default().push(row);
    }
    let one = |(collective, rows): (String, Vec<Measured>)| {
        let mut lines: Vec<Line> = Vec::new();
        let mut add = |design: &str, size: u64, rate: f64, error: f64| {
            let index = lines.iter().position(|line| line.name == design).unwrap_or_else(|| {
                let (name, style) = (design.to_owned(), styles.of(design));
                lines.push(Line { name, style, ..Line::default() });
                lines.len() - 1
            });
            lines[index].points.push((size as f64, rate));
            lines[index].errors.push(error);
        };
        for row in &rows {
            // Of a rate it is the same share as of the time.
            let share = row.time_stderr_us.unwrap_or_default() / row.time_us.max(f64::MIN_POSITIVE);
            add(&row.design, row.size, row.algbw_GBps, row.algbw_GBps * share);
            for other in row.candidates.iter().filter(|other| other.design != row.design) {
                if let Some(time) = other.time_us {
                    add(&other.design, row.size, row.algbw_GBps * row.time_us / time, 0.0);
                }
            }
        }
        let title = format!("{collective}{} ({}, {name}.json)", place(output), output.command);
        let links = rows.iter().filter(|row| !row.links.is_empty()).map(busiest).collect::<Result<_, _>>()?;
        let has_candidates = rows.iter().any(|row| !row.candidates.is_empty());
        Ok(Sweep { svg: throughput(&title, &lines)?, title, rows, has_candidates, links })
    };
    by_collective.into_iter().map(one).collect()
}

fn busiest(row: &Measured) -> Result<Links, ReportError> {
    let mut links = row.links.clone();
    links.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then_with(|| a.name.cmp(&b.name)));
    links.truncate(LISTED_LINKS);
    let title = format!("{}, {} B", row.design, row.size);
    let line = |link: &LinkUtilisation| {
        // A bin stands at its middle.
        let point = |(bin, &share): (usize, &f64)| ((bin as f64 + 0.5) * row.bin_us, share);
        let points = link.over_time.iter().enumerate().map(point).collect();
        Line { name: link.name.clone(), points, ..Line::default() }
    };
    let lines = numbered(links.iter().take(DRAWN_LINKS).map(line).collect());
    let svg = utilisation(&format!("busiest links: {title}"), &lines)?;
    Ok(Links { title, svg, busiest: links })
}

fn load(name: &str, output: &Output) -> Result<Load, ReportError> {
    let rows = rows::<Traffic>(name, output)?;
    let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in &rows {
        for (what, latency) in [("mean", row.latency_mean_us), ("p99", row.latency_p99_us)] {
            lines.entry(format!("{}, {what}", row.pattern)).or_default().push((row.load, latency));
        }
    }
    let line = |(name, points)| Line { name, points, ..Line::default() };
    let lines = numbered(lines.into_iter().map(line).collect());
    let title = format!("traffic ({name}.json)");
    Ok(Load { svg: latency(&title, &lines)?, title, rows })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn output(text: &str) -> Vec<(String, Output)> {
        vec![("run".into(), serde_json::from_str(text).unwrap())]
    }

    /// The page of files that are all shown.
    pub(crate) fn page(outputs: &[(String, Output)]) -> String {
        let mut left_out = Vec::new();
        let html = render(outputs, &mut left_out).unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        html
    }

    const SIM: &str = r#"{"schema":1,"command":"sim","rows":[
        {"design":"epic-3","collective":"all_reduce","size":4096,"time_us":3.0,"algbw_GBps":1.4,"busbw_GBps":2.4,
         "netbw_GBps":1.5,"wrong":0,"links":[{"name":"rank0 > switch0","utilisation":0.91}]},
        {"design":"epic-3","collective":"all_reduce","size":16384,"time_us":4.0,"algbw_GBps":4.1,"busbw_GBps":7.2,
         "netbw_GBps":4.3,"wrong":0}]}"#;

    #[test]
    fn a_sweep_becomes_a_plot_a_table_and_its_busiest_links() {
        let html = page(&output(SIM));
        assert!(html.contains("<svg") && html.contains("epic-3") && html.contains("rank0 &gt; switch0"));
        assert!(!html.contains("http"), "nothing is fetched from anywhere");
    }

    #[test]
    fn what_was_not_chosen_is_drawn_and_says_why() {
        let auto = SIM.replace(
            "\"wrong\":0",
            r#""wrong":0,"candidates":[{"design":"epic-3","time_us":3.0,"verdict":"chosen"},
               {"design":"tree","time_us":6.0,"verdict":"slower by a factor of 2.0"},{"design":"scin","verdict":"refuses"}]"#,
        );
        let html = page(&output(&auto));
        assert!(html.contains("slower by a factor of 2.0") && html.contains("refuses"), "{html}");
        // In the names of lines beside the plot.
        assert!(html.contains("\ntree\n"), "{html}");
    }

    #[test]
    fn links_that_have_bins_are_drawn_over_time() {
        let binned = SIM.replace("\"utilisation\":0.91", "\"utilisation\":0.91,\"over_time\":[0.5,1.0,0.25]");
        let html = page(&output(&binned.replace("\"wrong\":0", "\"wrong\":0,\"bin_us\":0.5")));
        assert_eq!((html.matches("<svg").count(), html.matches("time (us)").count()), (2, 1 + 1));
    }

    #[test]
    fn traffic_becomes_latencies_over_load_and_a_table() {
        let row = |load: f64| {
            format!(
                r#"{{"pattern":"uniform","load":{load},"accepted":{load},"accepted_GBps":1.5,"packets":100,
                "latency_mean_us":2.0,"latency_p50_us":1.9,"latency_p99_us":4.0,"latency_max_us":5.0}}"#
            )
        };
        let text = format!(r#"{{"schema":1,"command":"sim traffic","rows":[{},{}]}}"#, row(0.3), row(0.9));
        let html = page(&output(&text));
        assert!(
            html.contains("<svg") && html.contains("uniform, p99") && html.contains("<td>0.9</td>"),
            "{html}"
        );
    }

    #[test]
    fn a_run_of_lengths_alone_has_nobody_to_say_what_is_wrong() {
        let html = page(&output(&SIM.replace("\"wrong\":0", "\"wrong\":null")));
        assert!(html.contains("<td>-</td>"));
    }

    #[test]
    fn published_figures_stand_beside_ours() {
        let html = page(&output(
            r#"{"schema":1,"command":"reproduce","rows":[{"paper":"epic","id":"table25","figure":"epic-3 4KiB",
               "kind":"predicted","published":3.0,"ours":3.1,"error":0.03,"verdict":"met"}]}"#,
        ));
        assert!(html.contains("epic/table25") && html.contains("predicted") && html.contains("met"));
    }

    #[test]
    fn a_file_that_is_odd_is_named_and_the_others_are_shown() {
        for (text, found) in [
            (r#"{"schema":1,"command":"compare","rows":[]}"#, "of which a report shows nothing"),
            (r#"{"schema":1,"command":"sim","rows":[{"design":3}]}"#, "a row of sim that is not one"),
        ] {
            let mut outputs = output(SIM);
            outputs.push(("odd".into(), serde_json::from_str(text).unwrap()));
            let mut left_out = Vec::new();
            let html = render(&outputs, &mut left_out).unwrap();
            let [odd] = &left_out[..] else { panic!("{left_out:?}") };
            let odd = odd.to_string();
            assert!(odd.starts_with("odd.json: expected") && odd.contains(found), "{odd}");
            assert!(html.contains("<svg") && html.contains("odd.json: expected"), "{html}");
        }
    }

    #[test]
    fn a_folder_of_odd_files_alone_is_an_error_and_one_among_others_is_not() {
        let folder = std::env::temp_dir().join(format!("quincunx-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("odd.json"), "nonsense").unwrap();
        let alone = write(&folder, None).unwrap_err().to_string();
        std::fs::write(folder.join("sim.json"), SIM).unwrap();
        let page = write(&folder, None).unwrap();
        assert!(page.path.is_file());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(alone.starts_with("odd.json: expected an object"), "{alone}");
        assert_eq!(page.left_out.len(), 1);
    }

    #[test]
    fn the_page_says_what_was_run_on_which_machine_and_when() {
        let described = SIM.replace(
            "\"schema\":1",
            r#""schema":1,"version":"0.1.0","arguments":["sim","all_reduce","--fabric","star-4","--seed","7"],"time":"2026-01-02T03:04:05Z",
               "machine":{"processor":"Some CPU","cores":2}"#,
        );
        let html = page(&output(&described));
        for part in [
            "quincunx sim all_reduce --fabric star-4 --seed 7",
            "all_reduce on star-4 (sim, run.json)",
            "0.1.0",
            "Some CPU, 2 cores",
            "2026-01-02T03:04:05Z",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn means_over_seeds_have_error_bars() {
        let lines = |text: &str| page(&output(text)).matches("<line ").count();
        let barred = SIM.replace("\"time_us\":3.0", "\"time_us\":3.0,\"time_stderr_us\":0.3");
        assert!(lines(&barred) > lines(SIM));
    }

    #[test]
    fn names_in_files_cannot_become_markup() {
        let html = page(&output(&SIM.replace("epic-3", "<script>x</script>")));
        assert!(!html.contains("<script>"));
    }
}
