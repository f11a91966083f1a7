//! Explorations of the checker: a table, and each run that is wrong as a sequence diagram, a lane for each node, time downwards.

use crate::ReportError;
use crate::rows::{Output, rows};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// A row of `check`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Exploration {
    design: String,
    collective: String,
    #[serde(default)]
    tree: Option<String>,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    losses: u64,
    #[serde(default)]
    duplicate: u64,
    #[serde(default)]
    reorder: u64,
    #[serde(default)]
    mutation: Option<String>,
    states: u64,
    verdict: String,
    #[serde(default)]
    fault: Option<String>,
    /// After so many steps no run is right any more.
    #[serde(default)]
    decided: Option<usize>,
    #[serde(default, skip_serializing)]
    nodes: Option<Vec<String>>,
    #[serde(default, skip_serializing)]
    steps: Option<Vec<Step>>,
}

/// A step.
#[derive(Clone, Debug, Deserialize)]
struct Step {
    node: String,
    what: String,
    from: Option<String>,
    frame: Option<String>,
    words: Option<String>,
    drops: Vec<String>,
    sent: Vec<Sent>,
}

#[derive(Clone, Debug, Deserialize)]
struct Sent {
    to: String,
    frame: String,
}

/// A file's explorations.
#[derive(Serialize)]
pub(crate) struct Explored {
    title: String,
    rows: Vec<Exploration>,
    drawn: Vec<Drawn>,
}

/// A run that is wrong.
#[derive(Serialize)]
struct Drawn {
    title: String,
    svg: String,
}

/// The section of a file.
pub(crate) fn explored(name: &str, output: &Output) -> Result<Explored, ReportError> {
    let rows = rows::<Exploration>(name, output)?;
    let draw = |row: &Exploration| {
        let (Some(nodes), Some(steps)) = (&row.nodes, &row.steps) else { return None };
        let title =
            format!("{} {}: {}", row.design, row.collective, row.fault.as_deref().unwrap_or_default());
        Some(Drawn { svg: sequence(nodes, steps, row.decided), title })
    };
    let drawn = rows.iter().filter_map(draw).collect();
    Ok(Explored { title: format!("Explored ({name}.json)"), rows, drawn })
}

/// Between two lanes, if there are few or many, and between two steps, in pixels.
const LANES: [usize; 2] = [230, 160];
const FEW: usize = 4;
const STEP: usize = 34;
/// Left of the first lane, and above the first step.
const LEFT: usize = 130;
const TOP: usize = 52;

/// A frame on its way: from which lane, since which step.
struct Flight {
    from: usize,
    to: usize,
    frame: String,
    since: usize,
}

/// The diagram as SVG. What the file says of lanes that it does not name is left out.
fn sequence(nodes: &[String], steps: &[Step], decided: Option<usize>) -> String {
    let gap = LANES[usize::from(nodes.len() > FEW)];
    let x = |lane: usize| LEFT + lane * gap;
    let y = |step: usize| TOP + step * STEP;
    let lane = |name: &str| nodes.iter().position(|node| node == name);
    // What nodes do is written to the right of their lanes.
    let (width, height) = (x(nodes.len()) + 60, y(steps.len()) + STEP);
    let mut lanes = String::new();
    for (index, name) in nodes.iter().enumerate() {
        let x = x(index);
        lanes += &format!(r##"<line x1="{x}" y1="30" x2="{x}" y2="{height}" stroke="#bbb"/>"##);
        lanes += &text((x, 20), "middle", "#1a1a1a", true, name);
    }
    let (mut arrows, mut words) = (String::new(), String::new());
    let mut flights: Vec<Flight> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(at) = lane(&step.node) else { continue };
        let here = (x(at), y(index));
        words += &text((8, here.1 + 4), "start", "#888", false, &(index + 1).to_string());
        let frame = step.from.as_deref().and_then(lane).zip(step.frame.as_deref());
        if let Some((from, frame)) = frame {
            let is_it = |flight: &Flight| flight.from == from && flight.to == at && flight.frame == frame;
            let place = flights.iter().position(is_it);
            let since = place.map_or(index, |place| flights[place].since);
            let stays = matches!(step.what.as_str(), "duplicate" | "delay");
            if let Some(place) = place.filter(|_| !stays) {
                flights.remove(place);
            }
            let (way, there) = ((x(from), y(since)), here);
            match step.what.as_str() {
                "loss" => {
                    let cross = between(way, there, 60);
                    arrows += &arrow(way, cross, "#b3261e", "", false);
                    arrows += &text((cross.0, cross.1 + 5), "middle", "#b3261e", true, "✕");
                    arrows += &label(way, cross, "#b3261e", frame);
                }
                "delay" => words += &beside(here, "#b3261e", &format!("{frame} is late")),
                what => {
                    let (colour, dash) = match what {
                        "late-arrival" => ("#b3261e", "5 3"),
                        "duplicate" => ("#b3261e", ""),
                        _ => ("#0072b2", ""),
                    };
                    arrows += &arrow(way, there, colour, dash, true);
                    arrows += &label(way, there, colour, frame);
                    if what == "duplicate" {
                        words += &beside(here, colour, "and a copy comes later");
                    }
                }
            }
        }
        if let Some(deed) = &step.words {
            words += &beside(here, "#1a1a1a", deed);
        }
        if let Some(reason) = step.drops.first() {
            words += &beside((here.0, here.1 + 12), "#888", &format!("drops it: {reason}"));
        }
        arrows += &format!(r##"<circle cx="{}" cy="{}" r="3" fill="#1a1a1a"/>"##, here.0, here.1);
        flights.extend(step.sent.iter().filter_map(|Sent { to, frame }| {
            Some(Flight { from: at, to: lane(to)?, frame: frame.clone(), since: index })
        }));
    }
    // What is still on its way at the end, in a fan where it left together.
    for (index, Flight { from, to, frame, since }) in flights.iter().enumerate() {
        let beside =
            flights[..index].iter().filter(|other| (other.from, other.since) == (*from, *since)).count();
        let way = (x(*from), y(*since));
        let there = between(way, (x(*to), y(*since) + STEP * (1 + beside)), 60);
        arrows += &arrow(way, there, "#888", "2 3", true);
        arrows += &label(way, there, "#888", frame);
    }
    if let Some(decided) = decided.filter(|decided| *decided < steps.len()) {
        let at = y(decided) - STEP / 2;
        arrows += &format!(
            r##"<line x1="0" y1="{at}" x2="{width}" y2="{at}" stroke="#b3261e" stroke-dasharray="8 4"/>"##
        );
        words += &text(
            (width - 6, at - 4),
            "end",
            "#b3261e",
            false,
            "from here on no run is right, unless more faults happen",
        );
    }
    format!(
        r#"<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="system-ui, sans-serif" font-size="12">{lanes}{arrows}{words}</svg>"#
    )
}

/// A point so many hundredths of the way.
fn between(from: (usize, usize), to: (usize, usize), hundredths: usize) -> (usize, usize) {
    let part = |a: usize, b: usize| (a * (100 - hundredths) + b * hundredths) / 100;
    (part(from.0, to.0), part(from.1, to.1))
}

/// A line, with a head if it arrives.
fn arrow(from: (usize, usize), to: (usize, usize), colour: &str, dash: &str, arrives: bool) -> String {
    let mut svg = format!(
        r#"<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{colour}" stroke-width="1.3""#,
        from.0, from.1, to.0, to.1
    );
    if !dash.is_empty() {
        write!(svg, r#" stroke-dasharray="{dash}""#).expect("a string takes it");
    }
    svg += "/>";
    if arrives {
        let [run, rise] = [to.0 as f64 - from.0 as f64, to.1 as f64 - from.1 as f64];
        let length = run.hypot(rise).max(1.0);
        let (run, rise) = (run / length, rise / length);
        let corner = |side: f64| {
            let (right, down) = (-9.0 * run - side * 4.0 * rise, -9.0 * rise + side * 4.0 * run);
            format!("{:.1},{:.1}", to.0 as f64 + right, to.1 as f64 + down)
        };
        let tip = format!("{},{}", to.0, to.1);
        write!(svg, r#"<polygon points="{tip} {} {}" fill="{colour}"/>"#, corner(1.0), corner(-1.0))
            .expect("a string takes it");
    }
    svg
}

/// What is on an arrow, beyond its middle, where those that leave together are apart.
fn label(from: (usize, usize), to: (usize, usize), colour: &str, frame: &str) -> String {
    let (x, y) = between(from, to, 62);
    text((x, y.saturating_sub(4)), "middle", colour, false, frame)
}

/// What a node does, beside its lane.
fn beside((x, y): (usize, usize), colour: &str, words: &str) -> String {
    text((x + 8, y + 4), "start", colour, false, words)
}

/// Text with a rim of the page's colour, so that lines do not run through it.
fn text((x, y): (usize, usize), anchor: &str, colour: &str, bold: bool, words: &str) -> String {
    let weight = if bold { "600" } else { "400" };
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        r##"<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}" stroke="#fff" stroke-width="3" paint-order="stroke">{words}</text>"##
    )
}

#[cfg(test)]
mod tests {
    use crate::page::tests::{output, page};

    const WRONG: &str = r#"{"schema":1,"command":"check","rows":[{"design":"epic-2","collective":"all_reduce","tree":"star-2",
        "packets":1,"losses":1,"duplicate":1,"reorder":0,"mutation":"no-duplicate-check","states":65,"verdict":"wrong",
        "fault":"a sum of 2","decided":2,"nodes":["switch 0","rank 0"],"steps":[
        {"node":"rank 0","what":"other","from":null,"frame":null,"words":"starts","drops":[],
         "sent":[{"to":"switch 0","frame":"data 1"},{"to":"switch 0","frame":"data 2"}]},
        {"node":"switch 0","what":"loss","from":"rank 0","frame":"data 1","words":null,"drops":[],"sent":[]},
        {"node":"switch 0","what":"arrival","from":"rank 0","frame":"data 2","words":null,"drops":["NoSlot"],
         "sent":[{"to":"rank 0","frame":"<ACK>"}]}]}]}"#;

    #[test]
    fn a_wrong_run_is_drawn_with_a_lane_a_node_and_an_arrow_a_frame() {
        let html = page(&output(WRONG));
        for part in [
            ">switch 0<",
            ">rank 0<",
            ">starts<",
            ">data 1<",
            "✕",
            ">data 2<",
            "drops it: NoSlot",
            "no run is right",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        // Two frames arrive or may still, one is lost.
        assert_eq!(html.matches("<polygon").count(), 2);
        assert!(html.contains("&lt;ACK&gt;") && !html.contains("<ACK>"));
        assert!(!html.contains("http"), "nothing is fetched from anywhere");
    }

    #[test]
    fn a_right_exploration_is_a_row() {
        let html = page(&output(
            r#"{"schema":1,"command":"check","rows":[{"design":"ring","collective":"all_reduce","states":123,
               "verdict":"correct","fault":null,"counterexample":null,"decided":null,"nodes":null,"steps":null}]}"#,
        ));
        assert!(html.contains("<td>123</td>") && html.contains("correct") && !html.contains("<svg"));
    }
}
