//! Switches of several cores and groups of several channels, as people start them.

use crate::processes::{listens_at, quincunx, rows, start};
use crate::secured::{says, scrape};
use serde_json::Value;
use std::io::BufReader;
use std::time::{Duration, Instant};

const CHANNELS: &str = "--set group.channels=2";

#[test]
fn halves_of_vectors_in_two_channels_on_two_cores_are_right_also_on_bad_links() {
    let faults = "--loss 3% --reorder 3% --duplicate 1% --seed 5 --retry-timeout 2ms";
    for collective in ["all_reduce", "reduce", "broadcast", "all_gather"] {
        let run = format!(
            "perf {collective} --ranks 4 --tree tree-2x2 --design epic-1,epic-2,epic-3 --cores 2 {CHANNELS} \
             --payload 1024 --size 80KiB --iterations 2 {faults} --json"
        );
        let rows = rows(&quincunx(&run));
        assert_eq!(rows.len(), 3);
        rows.iter().for_each(|row| assert_eq!(row["wrong"], 0, "{row}"));
    }
}

#[test]
fn a_program_s_memory_goes_through_channels_too() {
    let run = format!(
        "perf all_reduce --ranks 3 --cores 2 {CHANNELS} --in-place --size 4MiB --iterations 2 --json"
    );
    rows(&quincunx(&run)).iter().for_each(|row| assert_eq!(row["wrong"], 0, "{row}"));
}

#[test]
fn channels_are_simulated_as_they_run() {
    let sim = format!("sim all_reduce --fabric star-4 --design epic-3,ring --size 256KiB {CHANNELS} --json");
    let output = quincunx(&sim);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["wrong"]).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn a_switch_counts_for_each_of_its_cores() {
    let mut manager = start("manager --listen 127.0.0.1:0", None);
    let at = listens_at(&mut manager);
    let block = format!("127.{}.{}", 160 + std::process::id() % 30, std::process::id() / 30 % 250);
    let (first, second) = (format!("{block}.1"), format!("{block}.2"));
    let switch =
        format!("switch --name leaf --address {first},{second} --manager {at} --metrics 127.0.0.1:0");
    let mut switch = start(&switch, None);
    let metrics = says(&mut BufReader::new(switch.0.stdout.take().unwrap()), "metrics at ");
    let limit = Instant::now() + Duration::from_secs(20);
    let has_switch =
        || String::from_utf8_lossy(&quincunx(&format!("nodes --manager {at}")).stdout).contains("leaf");
    while !has_switch() {
        assert!(Instant::now() < limit, "the switch does not attach");
    }
    let run =
        format!("perf all_reduce --ranks 2 {CHANNELS} --size 1MiB --iterations 2 --json --manager {at}");
    rows(&quincunx(&run)).iter().for_each(|row| assert_eq!(row["wrong"], 0, "{row}"));
    let listed = String::from_utf8(quincunx(&format!("nodes --manager {at}")).stdout).unwrap();
    assert!(listed.contains(&format!("{first},{second}")), "{listed}");
    // The page is a tenth of a second old at most, while the switch has work.
    let counted = || {
        let page = scrape(&metrics);
        let frames = |core: &str| {
            let begins =
                format!("quincunx_core_frames_total{{switch=\"leaf\",core=\"{core}\",direction=\"in\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&begins));
            line.map_or(0, |count| count.parse::<u64>().expect("a number"))
        };
        [frames(&first), frames(&second)]
    };
    while counted().iter().any(|frames| *frames < 256) {
        assert!(Instant::now() < limit, "{:?} of {}", counted(), scrape(&metrics));
    }
}

#[test]
fn what_has_one_core_or_channel_says_so_in_one_line() {
    let two = "--name leaf --address 127.0.0.2,127.0.0.3";
    for (arguments, expected) in [
        (format!("switch {two} --pace 1Gbit/s"), "--pace"),
        ("switch --name leaf --address 10.0.0.2/24,10.0.0.3/24 --port eth9".into(), "--port"),
        ("perf all_reduce --cores 2 --link paced --rate 1Gbit/s".into(), "--link udp"),
        ("perf all_reduce --cores 2 --design netreduce".into(), "netreduce"),
        ("perf all_reduce --set group.channels=17 --size 4KiB".into(), "1 to 16"),
        (
            format!("sim all_reduce --fabric star-4 --design netreduce --size 256KiB {CHANNELS}"),
            "group.channels",
        ),
        (format!("check epic-2 all_reduce --tree star-2 --packets 2 {CHANNELS}"), "group.channels"),
    ] {
        let output = quincunx(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
    }
}
