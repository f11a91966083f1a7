//! What is seen beside the results: at a terminal a progress bar, and errors in colour; elsewhere how far a run is in lines, of simulations
//! once in ten seconds and of all else if somebody asks.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quincunx_design::Catalog;
use quincunx_perf::launch::{LaunchError, Processes};
use quincunx_perf::{Case, FellBack, PerfError, Plan, Row, run_by_framing};
use quincunx_report::Columns;
use quincunx_runtime::Drops;
use quincunx_sim::Progress;
use quincunx_units::Instant;
use quincunx_wire::Framing;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::interrupt;
use crate::out::say;

/// Runs a plan, on processes that `start` starts for each framing, with a bar over its cases, and with `is_table` prints a table row by row as its results come. `rows` gets
/// them. Below the table it says what ranks and switches have dropped; `drops` gets what switches have. Returns how many elements were wrong.
pub(crate) fn run_with_bar(
    catalog: Catalog,
    plan: &Plan,
    start: impl FnMut(Framing) -> Result<Processes, LaunchError>,
    is_table: bool,
    rows: &mut Vec<Row>,
    drops: &mut BTreeMap<String, Drops>,
) -> Result<u64, PerfError> {
    let bar = quiet_bar(plan.cases.len());
    let width = Columns::width(plan.cases.iter().map(|case| &*case.design));
    if is_table {
        if plan.cases.iter().any(Case::is_for_the_library) {
            bar.suspend(|| {
                say!("# through the library that programs use: copies of their memory are in the times")
            });
        }
        bar.suspend(|| say!("{}", Columns::header(width)));
    }
    let mut told = None;
    let (mut count, mut bandwidths) = (0_u32, 0.0);
    let mut of_ranks = Drops::new();
    let mut cases = plan.cases.iter().skip(1);
    let each = |row: Row| {
        for (reason, frames) in &row.drops {
            *of_ranks.entry(reason.clone()).or_default() += frames;
        }
        (count, bandwidths) = (count + 1, bandwidths + row.busbw_GBps);
        if is_table {
            bar.suspend(|| {
                if let Some(split) = row.split.filter(|_| told.as_ref() != Some(&row.design)) {
                    say!("# {}: {split}", row.design);
                    told = Some(row.design.clone());
                }
                if let Some(FellBack { asked, reason }) =
                    row.fell_back.as_ref().filter(|fell| told.as_ref() != Some(&fell.asked))
                {
                    say!("# {asked} fell back to {}: {reason}", row.design);
                    told = Some(asked.clone());
                }
                say!("{row:width$}");
                if let Some(spent) = row.spent() {
                    say!("# {}: {spent}", row.design);
                }
                if let Some(ways) = row.ways {
                    say!("# {}: {ways}", row.design);
                }
            });
        }
        rows.push(row);
        let next = cases.next().map(|case| format!("{} {} {} B", case.design, case.collective, case.bytes));
        bar.set_message(next.unwrap_or_default());
        bar.inc(1);
    };
    let done = run_by_framing(catalog, plan, start, each, drops);
    bar.finish_and_clear();
    if is_table {
        let ranks = (!of_ranks.is_empty()).then_some(("ranks", &of_ranks));
        let switches = drops.iter().map(|(switch, dropped)| (switch.as_str(), dropped));
        for (node, dropped) in ranks.into_iter().chain(switches) {
            let reasons: Vec<String> =
                dropped.iter().map(|(reason, frames)| format!("{frames} {reason}")).collect();
            say!("# frames dropped by {node}: {}", reasons.join(", "));
        }
        let of = |case: &Case| (case.design.clone(), case.collective.clone());
        if count > 0 && plan.cases.windows(2).all(|pair| of(&pair[0]) == of(&pair[1])) {
            // As nccl-tests close; of several designs it would mean nothing.
            say!("# Avg bus bandwidth    : {:.4}", bandwidths / f64::from(count));
        }
    }
    done
}

/// Asks for lines on standard error in place of a bar, by being set: for programs that show them, and for logs.
const LINES: &str = "QUINCUNX_PROGRESS";

/// What a bar over so many steps shows.
const STEPS: &str = "{bar:32} {pos}/{len}  {msg}";

/// How often lines come: the first after so long, for nobody wants to hear of what is over by then, and how long after each the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pace {
    first: Duration,
    next: Duration,
}

/// When a run says in lines how far it is.
#[derive(Clone, Copy)]
enum Lines {
    /// If somebody asks for them.
    IfAsked,
    /// Where no terminal shows a bar, too, but seldom.
    WithoutTerminal,
}

impl Lines {
    /// How often, if at all.
    fn pace(self, are_asked: bool, is_terminal: bool) -> Option<Pace> {
        let every =
            |first, next| Some(Pace { first: Duration::from_secs(first), next: Duration::from_secs(next) });
        match self {
            _ if are_asked => every(2, 1),
            Self::WithoutTerminal if !is_terminal => every(10, 10),
            _ => None,
        }
    }
}

/// A bar over `steps` steps of a simulation on standard error; where that is no terminal, a line once in ten seconds.
pub(crate) fn bar(steps: usize) -> ProgressBar {
    shown(Some(steps as u64), STEPS, Lines::WithoutTerminal)
}

/// A bar over `steps` steps on standard error; nothing when that is no terminal, unless lines are asked for.
pub(crate) fn quiet_bar(steps: usize) -> ProgressBar {
    shown(Some(steps as u64), STEPS, Lines::IfAsked)
}

/// The same of work whose length nobody knows: it turns with each tick.
pub(crate) fn spinner() -> ProgressBar {
    shown(None, "{spinner} {msg}", Lines::IfAsked)
}

fn shown(steps: Option<u64>, template: &str, lines: Lines) -> ProgressBar {
    let are_asked = std::env::var_os(LINES).is_some_and(|value| !value.is_empty());
    let pace = lines.pace(are_asked, stderr().is_terminal());
    let target = if pace.is_some() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).expect("the template is right");
    let bar = ProgressBar::with_draw_target(steps, target).with_style(style);
    if let Some(pace) = pace {
        print_lines(&bar, pace);
    }
    bar
}

/// Prints lines on standard error until the bar has gone. If nobody reads them any more, as when a notebook's kernel has died, that
/// is an interrupt: nobody will read the results either.
fn print_lines(bar: &ProgressBar, pace: Pace) {
    let bar = bar.downgrade();
    thread::spawn(move || {
        thread::sleep(pace.first);
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            if writeln!(stderr(), "progress: {}", progress_line(&bar)).is_err() {
                if let Some(stop) = interrupt::current() {
                    stop.store(true, Ordering::Relaxed);
                }
                return;
            }
            drop(bar);
            thread::sleep(pace.next);
        }
    });
}

/// How far a bar is, in words.
fn progress_line(bar: &ProgressBar) -> String {
    let steps = bar.length().map_or(String::new(), |all| format!("{} of {all}, ", bar.position()));
    format!("{steps}{}  {}", spoken(bar.elapsed().as_secs_f64().floor()), bar.message())
}

/// How far a run has come after `elapsed`, and how long it takes yet if it goes on as it did.
pub(crate) fn estimate(at: Progress, elapsed: Duration) -> String {
    let Some(share) = at.share else { return format!("at {}", position(at)) };
    let percent = (share * 100.0).floor();
    // Before anything is done nobody knows.
    let left = if share > 0.0 {
        let left = elapsed.as_secs_f64() * (1.0 - share) / share;
        format!(", {} left", spoken(left))
    } else {
        String::new()
    };
    format!("{percent:.0} %{left}, at {}", position(at))
}

/// A time as people say it.
fn spoken(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// One line on standard error; nothing if nobody reads that any more.
pub(crate) fn print_error(message: &str) {
    let mut output = stderr();
    let label = error_label(output.is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    // There is nowhere else to say it.
    let _ = writeln!(output, "{label} {message}");
}

/// What an error begins with: in colour on a terminal, unless NO_COLOR is set (no-color.org). A guest's console is a terminal, too, but
/// what reads it looks for the plain word.
fn error_label(is_terminal: bool, no_color: Option<&OsStr>) -> &'static str {
    let has_colour = is_terminal && no_color.is_none_or(OsStr::is_empty);
    if has_colour { "\x1b[31merror:\x1b[0m" } else { "error:" }
}

/// How far a run has come, as people read it.
pub(crate) fn position(at: Progress) -> String {
    format!("{:.1} us, {} steps", at.now.since(Instant::ZERO).as_micros_f64(), at.steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_colour_on_terminals_where_nobody_has_said_no() {
        assert_eq!(error_label(true, None), "\x1b[31merror:\x1b[0m");
        assert_eq!(error_label(true, Some(OsStr::new(""))), "\x1b[31merror:\x1b[0m");
        assert_eq!(error_label(true, Some(OsStr::new("1"))), "error:");
        assert_eq!(error_label(false, None), "error:");
    }

    #[test]
    fn a_simulation_says_how_far_it_is_where_no_terminal_shows_it() {
        let seconds = |lines: Lines, are_asked, is_terminal| {
            lines.pace(are_asked, is_terminal).map(|pace| (pace.first.as_secs(), pace.next.as_secs()))
        };
        assert_eq!(seconds(Lines::WithoutTerminal, false, false), Some((10, 10)));
        assert_eq!(seconds(Lines::WithoutTerminal, false, true), None);
        assert_eq!(seconds(Lines::IfAsked, false, false), None);
        assert_eq!(seconds(Lines::IfAsked, true, true), Some((2, 1)));
    }

    fn text(share: Option<f64>, seconds: u64) -> String {
        let at = Progress { now: Instant::from_picos(103_200_000), steps: 4_194_304, share };
        estimate(at, Duration::from_secs(seconds))
    }

    #[test]
    fn a_run_whose_work_is_known_says_how_much_is_done_and_how_long_the_rest_takes() {
        assert_eq!(text(Some(0.25), 4), "25 %, 12 s left, at 103.2 us, 4194304 steps");
        assert_eq!(text(Some(0.5), 200), "50 %, 3 min 20 s left, at 103.2 us, 4194304 steps");
        assert_eq!(text(Some(0.01), 100), "1 %, 2 h 45 min left, at 103.2 us, 4194304 steps");
    }

    #[test]
    fn a_run_that_is_not_over_is_never_said_to_be_done() {
        assert!(text(Some(0.9999), 10).starts_with("99 %, 1 s left"));
    }

    #[test]
    fn a_line_says_how_many_steps_are_done_and_what_is_under_way() {
        let bar = ProgressBar::hidden().with_elapsed(Duration::from_secs(75));
        bar.set_message("ring 1 MiB");
        assert_eq!(progress_line(&bar), "1 min 15 s  ring 1 MiB");
        bar.set_length(8);
        bar.inc(3);
        assert_eq!(progress_line(&bar), "3 of 8, 1 min 15 s  ring 1 MiB");
    }

    #[test]
    fn without_anything_done_or_known_there_is_no_estimate() {
        assert_eq!(text(Some(0.0), 3), "0 %, at 103.2 us, 4194304 steps");
        assert_eq!(text(None, 3), "at 103.2 us, 4194304 steps");
    }
}
