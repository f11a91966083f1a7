//! What users type, right or wrong, comes to an end: in time, by a known exit status, with one line where something is not right.

use crate::simulations::{error, json, quincunx};
use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn refused(arguments: &[&str], part: &str) {
    let output = quincunx(arguments);
    let line = error(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(line.contains(part), "{arguments:?}: {line}");
}

#[test]
fn a_size_that_is_not_whole_elements_is_refused() {
    for collective in ["all_reduce", "broadcast"] {
        for size in ["3", "6", "5:100:2"] {
            refused(&["sim", collective, "--size", size], "whole elements, 4 bytes each as f32");
            refused(&["perf", collective, "--sizes", size], "whole elements, 4 bytes each as f32");
        }
    }
    refused(&["sim", "all_reduce", "--size", "3", "--design", "auto"], "whole elements");
    refused(
        &["sim", "all_reduce", "--size", "3", "--fabric", "scin-dgx8", "--design", "scin"],
        "whole elements",
    );
    refused(&["sim", "all_reduce", "--size", "3", "--dtype", "bf16"], "2 bytes each as bf16");
}

#[test]
fn an_option_that_means_nothing_with_the_collective_is_refused_by_name() {
    for command in ["sim", "perf"] {
        refused(&[command, "all_reduce", "--root", "1"], "--root");
        refused(&[command, "barrier", "--op", "max"], "--op");
        refused(&[command, "broadcast", "--op", "min"], "--op");
        refused(&[command, "barrier", "--size", "4KiB"], "--size");
    }
    for command in ["sim", "perf"] {
        refused(&[command, "all_reduce", "--op", "bor"], "floating-point numbers, found bor of f32");
        let maximum = [command, "all_reduce", "--op", "max", "--dtype", "mxfp8"];
        refused(&maximum, "sum or avg of block formats, found max of mxfp8");
        refused(
            &[command, "all_reduce", "--dtype", "mxfp8", "--size", "1000"],
            "1024 bytes each as mxfp8, found 1000",
        );
    }
    let short_packets = ["perf", "all_reduce", "--dtype", "mxfp8", "--set", "group.mtu=512"];
    refused(&short_packets, "`group.mtu` of whole elements, 1024 bytes each as mxfp8, found 512");
    refused(&["perf", "all_reduce", "--mtu", "9000"], "--mtu");
    refused(&["perf", "all_reduce", "--rate", "1Gbit/s"], "--link paced or netns");
    refused(&["perf", "all_reduce", "--link", "paced"], "--rate");
    refused(&["perf", "all_reduce", "--link", "paced", "--rate", "1Gbit/s", "--mtu", "1500"], "--mtu");
    refused(&["perf", "all_to_all", "--root", "1"], "--root");
    refused(&["perf", "gather", "--op", "max"], "--op");
    refused(&["perf", "gather", "--root", "8"], "a root below 8");
    refused(&["perf", "gather", "--in-place"], "--in-place");
    refused(&["perf", "scatter", "--design", "epic-1"], "found epic-1");
    refused(&["perf", "send_receive", "--tree", "mesh-2x4"], "mesh-2x4");
    refused(&["perf", "all_reduce", "--in-place", "--design", "netreduce"], "found netreduce");
    refused(
        &["perf", "all_reduce", "--dtype", "f64", "--payload", "1004"],
        "`group.mtu` of whole elements, 8 bytes each as f64, found 1004B",
    );
    refused(&["perf", "all_reduce", "--iterations", "0"], "--iterations");
    refused(&["perf", "all_reduce", "--pcap", "/nonexistent/folder"], "/nonexistent/folder");
    refused(&["sim", "all_reduce", "--loss", "5%@0"], "loss.links");
    for fabric in ["scin-dgx8", "mesh8-memory"] {
        refused(&["sim", "all_gather", "--fabric", fabric, "--loss", "1%"], "packets for --loss, found");
    }
    refused(&["sim", "dispatch"], "that epic-3 offers on epic-star8 (all_reduce, ");
    refused(&["sim", "reduce", "--design", "epic-3,netreduce"], "that netreduce offers on epic-star8");
    refused(&["sim", "--show", "packet", "--json"], "--show");
    refused(&["sim", "--show", "nowhere.toml"], "nowhere.toml");
    let sizes = ["sim", "dispatch", "--fabric", "two-servers", "--design", "multiwrite", "--size", "1MiB"];
    refused(&sizes, "--size");
}

#[test]
fn what_no_memory_holds_is_refused_before_anything_starts() {
    refused(&["perf", "all_reduce", "--sizes", "1TiB"], "memory");
    refused(&["check", "epic-3", "all_reduce", "--packets", "4294967295"], "fewer packets");
    refused(&["sim", "all_reduce", "--set", "group.window=100000000", "--size", "64MiB"], "group.window");
}

#[test]
fn a_load_that_would_never_end_is_refused() {
    refused(&["sim", "traffic", "--load", "1e-300"], "a load from 0.000001 to 1");
}

#[test]
fn a_manager_that_nobody_could_ask_does_not_start() {
    refused(&["manager", "--listen", "127.0.0.1:0", "--max-connections", "0"], "--max-connections");
}

#[test]
fn what_the_environment_sets_holds_for_perf_too() {
    let perf = |set: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
        command.args(["perf", "barrier", "--ranks", "2", "-n", "1", "--json"]);
        command.env("QUINCUNX_SET", set).output().unwrap()
    };
    let line = error(&perf("banana"));
    assert!(line.contains("in QUINCUNX_SET, found \"banana\""), "{line}");
    assert!(error(&perf("group.window=0")).contains("group.window"));
    assert_eq!(perf("group.window=8,group.message=2").status.code(), Some(0));
}

#[test]
fn a_capture_that_the_disk_has_no_room_for_is_an_error_of_perf() {
    let folder = std::env::temp_dir().join(format!("quincunx-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for rank in 0..2 {
        std::os::unix::fs::symlink("/dev/full", folder.join(format!("rank{rank}.pcapng"))).unwrap();
    }
    let output = quincunx(&["perf", "barrier", "--ranks", "2", "--pcap", folder.to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    let line = error(&output);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("expected to write all frames to") && line.contains("make room"), "{line}");
}

#[test]
fn perf_that_measured_nothing_prints_no_average() {
    let output = quincunx(&["perf", "all_reduce", "--ranks", "2", "--addresses", "192.0.2.1"]);
    assert_eq!(output.status.code(), Some(2));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(!table.contains("Avg bus bandwidth"), "{table}");
}

#[test]
fn a_file_without_an_end_is_refused() {
    refused(&["sim", "all_reduce", "--fabric", "/dev/zero"], "more than 256 MiB");
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_the_line_that_is_wrong() {
    let path = std::env::temp_dir().join(format!("quincunx-syntax-{}.toml", std::process::id()));
    let file = path.to_str().unwrap();
    std::fs::write(&path, "kind = \"packet\"\ntopology = star-2\n").unwrap();
    refused(&["sim", "all_reduce", "--fabric", file], "in line 2, `topology = star-2`");
    std::fs::write(&path, "[default]\n\ngroups = \"many\"\n").unwrap();
    refused(&["manager", "--listen", "127.0.0.1:0", "--tenants", file], "in line 3, `groups = \"many\"`");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_argument_that_nobody_knows_is_one_line() {
    refused(&["sim", "all_reduce", "--sise", "4KiB"], "--size");
    refused(&["perf"], "<COLLECTIVE>");
    refused(&["perf", "all_reduce", "--sizes", "many"], "4KiB:16MiB:4");
    refused(&["nonsense"], "nonsense");
}

#[test]
fn sizes_are_written_as_in_nccl_tests_and_by_either_name() {
    let one = quincunx(&["sim", "all_reduce", "--sizes", "4K:64K:16", "--json"]);
    let other = quincunx(&["sim", "all_reduce", "--size", "4KiB:64KiB:16", "--json"]);
    assert_eq!(one.status.code(), Some(0));
    assert_eq!(json(&one)["rows"], json(&other)["rows"]);
}

#[test]
fn options_of_nccl_tests_mean_what_they_mean_there() {
    let arguments = "perf all_reduce -b 4K -e 64K -f 4 -g 2 -d half -o max -n 2 --design ring";
    let output = quincunx(&arguments.split(' ').collect::<Vec<_>>());
    let table = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("ring"))
        .map(|line| line.split_whitespace().take(6).collect())
        .collect();
    let row = |size, count| vec!["ring", "all_reduce", size, count, "f16", "max"];
    assert_eq!(rows, [row("4096", "2048"), row("16384", "8192"), row("65536", "32768")]);
    let average =
        table.lines().last().unwrap().strip_prefix("# Avg bus bandwidth    : ").expect("the last line");
    assert!(average.parse::<f64>().unwrap() > 0.0, "{table}");
    refused(&["perf", "all_reduce", "-b", "4K", "--sizes", "4K"], "--sizes");
    refused(&["perf", "all_reduce", "-b", "64K", "-e", "4K"], "-b 64K -e 4K -f 2");
    refused(&["perf", "all_reduce", "-e", "4K"], "--minbytes");
    refused(&["perf", "all_reduce", "-d", "quad"], "f32, f16, bf16, i32");
}

#[test]
fn loss_without_links_is_of_all_hosts_links() {
    let time = |loss: &str| {
        let output = quincunx(&["sim", "all_reduce", "--size", "256KiB", "--loss", loss, "--json"]);
        json(&output)["rows"].clone()
    };
    assert_eq!(time("5%"), time("5%@8"));
    assert_ne!(time("5%"), time("5%@1"));
}

/// Every command that prints something soon.
const PRINTING: [&[&str]; 8] = [
    &["--help"],
    &["sim", "--help"],
    &["sim", "--show", "epic-3"],
    &["sim", "--show", "epic-star8"],
    &["sim", "all_reduce", "--size", "4KiB:64KiB:2"],
    &["sim", "all_reduce", "--size", "4KiB", "--json"],
    &["check", "epic-3", "all_reduce", "--tree", "star-2"],
    &["reproduce", "multiwrite/sec2.3.1", "--json"],
];

#[test]
fn a_full_disk_behind_standard_output_is_one_line() {
    for arguments in PRINTING {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_quincunx")).args(arguments).stdout(full).output().unwrap();
        let line = error(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
        assert!(line.contains("standard output"), "{arguments:?}: {line}");
    }
}

#[test]
fn who_closes_standard_output_has_seen_enough() {
    for arguments in PRINTING {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quincunx"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments:?}: {text}");
        assert_eq!(text, "", "{arguments:?}");
    }
}

/// A generator of command lines, by a seed (Knuth's multiplier, the upper bits).
struct Lines(u64);

impl Lines {
    fn draw(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.draw(from.len())]
    }

    fn value(&mut self) -> &'static str {
        self.pick(&[
            "0",
            "1",
            "2",
            "3",
            "7",
            "64",
            "65535",
            "65536",
            "4294967295",
            "18446744073709551615",
            "99999999999999999999",
            "-1",
            "0.5",
            "1e9",
            "",
            " ",
            "nonsense",
            "4KiB",
            "1KiB:2KiB",
            "2KiB:1KiB",
            "64KiB:64KiB:1",
            "16EiB",
            "4K",
            "5%",
            "100%",
            "5%@3",
            "5%@65535",
            "%",
            "@",
            "1ms",
            "0s",
            "200Gbit/s",
            "0bit/s",
            "f64",
            "i32",
            "bf16",
            "prod",
            "max",
            "true",
            "star-4",
            "star-1",
            "tree-2x2",
            "tree-99-99",
            "ring-3",
            "mesh-2x2",
            "servers-2x2",
            "memory-4x2",
            "epic-3",
            "epic-1,ring",
            "ring,ring",
            "scin",
            "auto",
            "auto,ring",
            "multiwrite",
            "cais",
            "/dev/null",
            "/nonexistent/x",
            "/",
            "uniform",
            "uniform:0.5",
            "hotspot:2",
            "group.window=0",
            "group.mtu=3",
            "group.message=4294967295",
            "link.rate=1bit/s",
            "link.latency=1h",
            "a.b.c=1",
            "=",
            "a=",
            "loss.probability=1",
            "congestion.queue=1B",
            "merge.entries=0",
        ])
    }

    /// A command line that a person might have typed in haste. Those that run, run something small.
    fn line(&mut self) -> Vec<String> {
        let collectives = [
            "all_reduce",
            "reduce",
            "broadcast",
            "barrier",
            "reduce_scatter",
            "all_gather",
            "dispatch",
            "combine",
            "all_to_all",
            "",
        ];
        let (mut line, options): (Vec<String>, &[&str]) = match self.draw(4) {
            0 | 1 => {
                let fabric = self.pick(&[
                    "epic-star8",
                    "star-2",
                    "ring-3",
                    "mesh-2x2",
                    "memory-2x2",
                    "scin-dgx8",
                    "tree-2x2",
                ]);
                (
                    ["sim", self.pick(&collectives), "--fabric", fabric, "--size", "4KiB"]
                        .map(str::to_owned)
                        .into(),
                    &[
                        "--size",
                        "--design",
                        "--dtype",
                        "--op",
                        "--root",
                        "--set",
                        "--loss",
                        "--seed",
                        "--seeds",
                        "--background",
                        "--fabric",
                        "--json",
                        "--utilisation",
                        "--show",
                    ],
                )
            }
            2 => (
                ["sim", "traffic", "--fabric", "star-2", "--packets", "100"].map(str::to_owned).into(),
                &["--pattern", "--load", "--packets", "--set", "--seed", "--fabric", "--json"],
            ),
            _ => (
                [
                    "check",
                    self.pick(&["epic-3", "epic-1", "ring", "scin", "nonsense"]),
                    self.pick(&collectives),
                    "--tree",
                    "star-2",
                    "--memory",
                    "256MiB",
                ]
                .map(str::to_owned)
                .into(),
                &[
                    "--packets",
                    "--losses",
                    "--set",
                    "--mutate",
                    "--dtype",
                    "--op",
                    "--root",
                    "--tree",
                    "--json",
                    "--reorder",
                ],
            ),
        };
        self.add_options(&mut line, options);
        line
    }

    /// The same of what runs processes.
    fn measuring_line(&mut self) -> Vec<String> {
        let collectives =
            ["all_reduce", "reduce", "broadcast", "barrier", "reduce_scatter", "all_gather", "dispatch", ""];
        let mut line: Vec<String> = vec!["perf".into(), self.pick(&collectives).into()];
        let usual =
            [("--ranks", "2"), ("--sizes", "4KiB"), ("--iterations", "2"), ("--retry-timeout", "1ms")];
        for (option, value) in usual {
            // Each at most once, or all would be refused for that.
            let value = if self.draw(5) == 0 { self.value() } else { value };
            line.extend([option.to_owned(), value.to_owned()]);
        }
        let options = [
            "--design",
            "--tree",
            "--dtype",
            "--op",
            "--root",
            "--set",
            "--seed",
            "--loss",
            "--reorder",
            "--duplicate",
            "--message",
            "--window",
            "--payload",
            "--rate",
            "--mtu",
            "--link",
            "--fabric",
            "--join-timeout",
            "--json",
            "--reproducible",
            "--addresses",
            "-b",
            "-e",
            "-g",
        ];
        self.add_options(&mut line, &options);
        line
    }

    fn add_options(&mut self, line: &mut Vec<String>, options: &[&'static str]) {
        for _ in 0..self.draw(4) {
            let option = self.pick(options);
            line.push(option.into());
            let is_flag = matches!(option, "--json" | "--utilisation" | "--reproducible")
                || option == "--reorder" && line[0] == "check";
            if !is_flag || self.draw(8) == 0 {
                line.push(self.value().into());
            }
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a line, which ends in time by a known exit status, and with one line of error if that is not 0.
fn ends_in_words(number: u64, line: &[String]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quincunx"))
        .args(line)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // Five seconds of a quiet machine, and what runs is told to end as by a user.
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("{number}: {line:?} did not end in 20 s");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let code = status.code();
    assert!(matches!(code, Some(0..=2)), "{number}: {line:?}: {status}: {text}");
    let expected = usize::from(code != Some(0));
    assert_eq!(text.trim_end().lines().count(), expected, "{number}: {line:?}: {text}");
}

#[test]
fn command_lines_typed_in_haste_end_in_time_and_in_words() {
    let mut lines = Lines(setting("QUINCUNX_INPUTS_SEED", 1));
    for number in 0..setting("QUINCUNX_INPUTS", 300) {
        ends_in_words(number, &lines.line());
    }
}

#[test]
fn measurements_typed_in_haste_end_in_time_and_in_words() {
    let mut lines = Lines(setting("QUINCUNX_INPUTS_SEED", 1));
    for number in 0..setting("QUINCUNX_INPUTS", 300) / 5 {
        ends_in_words(number, &lines.measuring_line());
    }
}
