//! How many accelerators the jobs of a cluster had: a table with a column `gpus`, or `worker.csv` of Alibaba's Lingjun data set of 2023 (Cao et
//! al., "Crux: GPU-Efficient Communication Scheduling for Deep Learning Training", SIGCOMM 2024), from which EPIC has its traces 2 and 3 (L.2).

use quincunx_scenario::read_text;
use std::collections::BTreeMap;

/// The sizes of a file's jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    /// Accelerators of each job that can be run here.
    pub(crate) jobs: Vec<u32>,
    /// Jobs of the data set that cannot: they have none, more than the cluster, or a number that does not share layers evenly.
    pub(crate) left_out: u64,
}

/// What a worker of the data set says how many accelerators it asks for by; a text in most rows.
const ACCELERATORS: &str = "nvidia.com/gpu";

/// Reads the file at `path`. Jobs run on multiples of `together` accelerators, and on `most` of them at most; in a table of sizes others are a
/// mistake, in the data set they are left out.
///
/// # Errors
/// If it cannot be read, is neither of the two, or has no job that can be run; the message names the line.
pub(crate) fn sizes_of(path: &str, together: u32, most: u32) -> Result<Sizes, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let mut table =
        csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = table.headers().map_err(|error| error.to_string())?.clone();
    let column = |name| header.iter().position(|found| found == name);
    let fits = |gpus: u64| gpus > 0 && gpus.is_multiple_of(together.into()) && gpus <= most.into();
    let all: Vec<u64> = match (column("gpus"), column("job_name"), column("RES")) {
        (Some(gpus), ..) => {
            let expected = format!("a number of accelerators in multiples of {together}, {most} at most");
            read(&mut table, |row| {
                let cell = row.get(gpus).unwrap_or("");
                cell.parse().ok().filter(|&gpus| fits(gpus)).ok_or((expected.clone(), cell.to_owned()))
            })?
        }
        (None, Some(job), Some(resources)) => {
            let mut jobs = BTreeMap::new();
            for (job, gpus) in read(&mut table, |row| worker(row, job, resources))? {
                let all: &mut u64 = jobs.entry(job).or_default();
                *all = all.saturating_add(gpus);
            }
            jobs.into_values().collect()
        }
        _ => {
            let found = header.iter().collect::<Vec<_>>().join(",");
            return Err(format!(
                "expected a column `gpus` in the first line, or `job_name` and `RES`, found \"{found}\"; name it so"
            ));
        }
    };
    let jobs: Vec<u32> = all.iter().filter(|&&gpus| fits(gpus)).map(|&gpus| gpus as u32).collect();
    if jobs.is_empty() {
        return Err(format!(
            "expected a job on a multiple of {together} accelerators, {most} at most, found none among {}; take another file, or other models",
            all.len()
        ));
    }
    let left_out = (all.len() - jobs.len()) as u64;
    Ok(Sizes { jobs, left_out })
}

/// The rows of a table, each by `parse`, which says what it expected and found.
fn read<T>(
    table: &mut csv::Reader<&[u8]>,
    parse: impl Fn(&csv::StringRecord) -> Result<T, (String, String)>,
) -> Result<Vec<T>, String> {
    let mut rows = Vec::new();
    for row in table.records() {
        let row = row.map_err(|error| error.to_string())?;
        let line = row.position().map_or(0, csv::Position::line);
        let parsed = parse(&row).map_err(|(expected, found)| {
            format!("line {line}: expected {expected}, found \"{found}\"; write one, or leave the line out")
        });
        rows.push(parsed?);
    }
    Ok(rows)
}

/// A worker's job, and its accelerators: 0 if it asks for none.
fn worker(row: &csv::StringRecord, job: usize, resources: usize) -> Result<(String, u64), (String, String)> {
    let (name, cell) = (row.get(job).unwrap_or("").to_owned(), row.get(resources).unwrap_or(""));
    let wrong = || {
        let expected = format!("what a worker asks for, {{\"{ACCELERATORS}\": \"8\"}}");
        (expected, cell.chars().take(60).collect())
    };
    if cell.is_empty() {
        return Ok((name, 0));
    }
    let asked: serde_json::Map<_, _> = serde_json::from_str(cell).map_err(|_| wrong())?;
    let gpus = match asked.get(ACCELERATORS) {
        None => 0,
        Some(serde_json::Value::String(text)) => text.parse().map_err(|_| wrong())?,
        Some(number) => number.as_u64().ok_or_else(wrong)?,
    };
    Ok((name, gpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a file with that text, of jobs in multiples of eight on 64 accelerators.
    fn found(name: &str, text: &str) -> Result<Sizes, String> {
        let path = std::env::temp_dir().join(format!("quincunx-sizes-{}-{name}.csv", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let found = sizes_of(path.to_str().unwrap(), 8, 64);
        std::fs::remove_file(&path).unwrap();
        found
    }

    #[test]
    fn a_table_has_a_job_a_line() {
        let sizes = found("table", "name, gpus\na, 8\n\"b, c\",64\n").unwrap();
        assert_eq!(sizes, Sizes { jobs: vec![8, 64], left_out: 0 });
    }

    #[test]
    fn the_workers_of_a_job_of_the_data_set_are_added_up() {
        let workers = r#"id,job_name,worker_name,RES
1,dlc-a,dlc-a-master-0,"{""cpu"": ""88"", ""memory"": ""800Gi"", ""nvidia.com/gpu"": ""8""}"
2,dlc-b,dlc-b-worker-0,"{""nvidia.com/gpu"": 8}"
3,dlc-a,dlc-a-worker-0,"{""nvidia.com/gpu"": ""8""}"
"#;
        assert_eq!(found("added", workers).unwrap(), Sizes { jobs: vec![16, 8], left_out: 0 });
    }

    #[test]
    fn jobs_of_the_data_set_that_cannot_be_run_are_counted() {
        let mut workers = "job_name,RES\nnone,\ncpu,\"{\"\"cpu\"\": \"\"8\"\"}\"\n".to_owned();
        for (job, gpus) in [("odd", 12), ("fits", 64), ("large", 72)] {
            workers += &format!("{job},\"{{\"\"nvidia.com/gpu\"\": {gpus}}}\"\n");
        }
        assert_eq!(found("counted", &workers).unwrap(), Sizes { jobs: vec![64], left_out: 4 });
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        fn wrong(name: &str, text: &str) -> String {
            found(name, text).unwrap_err()
        }
        let sizes = "expected a number of accelerators in multiples of 8, 64 at most";
        let end = "; write one, or leave the line out";
        for (name, cell) in [("text", "many"), ("none", "0"), ("odd-row", "12"), ("over", "72")] {
            let text = format!("gpus\n8\n{cell}\n");
            assert_eq!(wrong(name, &text), format!("line 3: {sizes}, found \"{cell}\"{end}"));
        }
        let asks = "expected what a worker asks for, {\"nvidia.com/gpu\": \"8\"}";
        for (name, cell) in [("list", "[8]"), ("minus", "{\"\"nvidia.com/gpu\"\": -8}"), ("word", "eight")] {
            let text = format!("job_name,RES\na,\"{cell}\"\n");
            let found = cell.replace("\"\"", "\"");
            assert_eq!(wrong(name, &text), format!("line 2: {asks}, found \"{found}\"{end}"));
        }
        assert!(wrong("header", "name,size\na,8\n").contains("found \"name,size\"; name it so"));
        let none = "found none among 1; take another file, or other models";
        assert!(wrong("all-odd", "job_name,RES\na,\"{\"\"nvidia.com/gpu\"\": 4}\"\n").ends_with(none));
        assert!(wrong("empty", "gpus\n").contains("found none among 0"));
    }
}
