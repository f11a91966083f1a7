//! Requests as somebody has recorded them: when each came, how long its prompt was, and its answer.
//!
//! Three forms are read, told apart by their columns: `arrival_s,prompt,answer`, seconds and tokens; Azure's LLM inference traces,
//! `TIMESTAMP,ContextTokens,GeneratedTokens` (Patel et al., Splitwise, ISCA 2024), and BurstGPT's, `Timestamp,…,Request tokens,Response tokens,…`
//! (Wang et al., 2024). Other columns are passed over.

use quincunx_scenario::read_text;
use quincunx_units::Duration;
use std::ops::Range;
use time::{Date, Month};

/// What somebody asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Request {
    /// After the first one.
    pub arrival: Duration,
    /// Tokens.
    pub prompt: u64,
    /// Tokens.
    pub answer: u64,
}

/// What many asked, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Requests {
    /// Each with a prompt and an answer.
    pub all: Vec<Request>,
    /// How many more had none of one of them, such as those that failed.
    pub empty: usize,
}

/// Why there are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {error}")]
pub struct RequestsError {
    /// Which file.
    pub place: String,
    /// What was expected and found, where, and what to do.
    pub error: String,
}

/// Those that the project has, which `tools/made_requests.py` made up.
const BUILT_IN: [(&str, &str); 1] = [("conversations", include_str!("../requests/conversations.csv"))];

/// Names of columns, in small letters, of a request's arrival, prompt and answer.
const COLUMNS: [[&str; 3]; 3] = [
    ["arrival_s", "prompt", "answer"],
    ["timestamp", "contexttokens", "generatedtokens"],
    ["timestamp", "request tokens", "response tokens"],
];

/// More tokens than any model looks at.
const LONGEST: u64 = 1 << 24;

/// Picoseconds.
const DAY: u64 = 24 * 3600 * 1_000_000_000_000;

impl Requests {
    /// Those of a name, or of the file at a path.
    ///
    /// # Errors
    /// If there are none, or the file is none of requests.
    pub fn find(name: &str) -> Result<Self, RequestsError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let text = read_text(name).map_err(|error| RequestsError {
            place: name.into(),
            error: format!("expected requests (conversations) or a file, found {error}; name one"),
        })?;
        Self::parse(name, &text)
    }

    /// Reads a file, which came from `place`.
    ///
    /// # Errors
    /// If it has other columns, or a row is none.
    pub fn parse(place: &str, text: &str) -> Result<Self, RequestsError> {
        let wrong = |error: String| RequestsError { place: place.into(), error };
        // Some editors put a mark at the beginning.
        let mut lines = text.trim_start_matches('\u{feff}').lines();
        let title = lines.next().unwrap_or_default();
        let names: Vec<String> = cells(title).map(str::to_lowercase).collect();
        let place_of = |name: &str| names.iter().position(|known| known == name);
        let columns = COLUMNS.iter().find_map(|[arrival, prompt, answer]| {
            Some([place_of(arrival)?, place_of(prompt)?, place_of(answer)?])
        });
        let columns = columns.ok_or_else(|| {
            let found: String = title.chars().take(60).collect();
            wrong(format!(
                "expected columns arrival_s,prompt,answer or those of Azure's or BurstGPT's traces, found \"{found}\"; name them in the first line"
            ))
        })?;
        let (mut all, mut empty) = (Vec::new(), 0);
        for (number, line) in (2..).zip(lines).filter(|(_, line)| !line.trim().is_empty()) {
            let row: Vec<&str> = cells(line).collect();
            let [arrival, prompt, answer] =
                columns.map(|column| row.get(column).copied().unwrap_or_default());
            let read = || Some((picos(arrival)?, prompt.parse::<u64>().ok()?, answer.parse::<u64>().ok()?));
            let (arrival, prompt, answer) = read()
                .filter(|(_, prompt, answer)| prompt.max(answer) <= &LONGEST)
                .ok_or_else(|| {
                    wrong(format!(
                        "expected a time and tokens, {LONGEST} at most, found \"{arrival}\", \"{prompt}\" and \"{answer}\" in line {number}; take it out"
                    ))
                })?;
            if prompt == 0 || answer == 0 {
                empty += 1;
                continue;
            }
            all.push((arrival, prompt, answer));
        }
        all.sort_by_key(|(arrival, ..)| *arrival);
        let Some(&(first, ..)) = all.first() else {
            return Err(wrong("expected requests with prompts and answers, found none; record some".into()));
        };
        let request = |(arrival, prompt, answer): (u128, u64, u64)| {
            let arrival = Duration::from_picos(u64::try_from(arrival - first).ok()?);
            Some(Request { arrival, prompt, answer })
        };
        let all = all.into_iter().map(request).collect::<Option<_>>().ok_or_else(|| {
            wrong(format!("expected requests of {} days at most, found more; cut the trace", u64::MAX / DAY))
        })?;
        Ok(Self { all, empty })
    }

    /// From the first one to the last.
    pub fn span(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, |last| last.arrival)
    }
}

/// What is between commas; quotes around it are none of it.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|cell| cell.trim().trim_matches('"'))
}

/// Picoseconds since some instant, of seconds or of a date with a time of day.
fn picos(text: &str) -> Option<u128> {
    const SECOND: f64 = 1e12;
    let fraction = |text: &str, range: Range<f64>| {
        let seconds: f64 = text.parse().ok()?;
        range.contains(&seconds).then_some((seconds * SECOND).round() as u128)
    };
    if text.parse::<f64>().is_ok() {
        return fraction(text, 0.0..1e12);
    }
    let (date, clock) = text.split_once([' ', 'T'])?;
    let mut parts = date.splitn(3, '-');
    let year: i32 = parts.next()?.parse().ok()?;
    let month: u8 = parts.next()?.parse().ok()?;
    let day: u8 = parts.next()?.parse().ok()?;
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    let days = u128::try_from(date.to_julian_day()).ok()?;
    // All of a file are of one zone.
    let clock = clock.trim_end_matches('Z');
    let clock = clock.split_once('+').map_or(clock, |(clock, _)| clock);
    let mut parts = clock.splitn(3, ':');
    let (hour, minute): (u8, u8) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    if hour > 23 || minute > 59 {
        return None;
    }
    let whole = days * 24 * 3600 + u128::from(hour) * 3600 + u128::from(minute) * 60;
    Some(whole * SECOND as u128 + fraction(parts.next()?, 0.0..61.0)?)
}
