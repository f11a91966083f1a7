//! Commands in the documentation and in helps are commands that there are: each is parsed, none is run.

use crate::{Cli, describe};
use clap::{Command, FromArgMatches};
use std::path::{Path, PathBuf};

/// Lines of fenced blocks that call the command: without a prompt or `sudo`, and without what a shell takes for itself.
fn commands(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            found.extend(command(line));
        }
    }
    found
}

/// A line's command, if it has one.
fn command(line: &str) -> Option<String> {
    let line = line.trim_start().trim_start_matches("$ ").trim_start_matches("sudo ");
    let rest = line.strip_prefix("quincunx ")?;
    let ends = [" #", "  ", " > ", " &", " |", " ..."];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    Some(format!("quincunx {}", rest[..end].trim_end()))
}

/// Why it is none of ours.
fn fault(cli: &Command, line: &str) -> Option<String> {
    let parsed = cli.clone().try_get_matches_from(line.split_whitespace());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches).map(|_| ()));
    let error = parsed.err()?;
    let is_text =
        matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
    (!is_text).then(|| error.to_string())
}

fn markdown() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut pages: Vec<PathBuf> =
        ["README.md", "benches/README.md", "python/quincunx/README.md", "examples/gpt/README.md"]
            .iter()
            .map(|name| root.join(name))
            .collect();
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    pages.extend(
        docs.map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    pages
}

#[test]
fn each_command_of_the_documentation_is_one() {
    let cli = describe(quincunx_designs::CATALOG);
    let mut count = 0;
    for page in markdown() {
        for line in commands(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            assert_eq!(fault(&cli, &line), None, "{}: {line}", page.display());
        }
    }
    assert!(count > 60, "{count} commands");
}

#[test]
fn each_example_of_a_help_is_one() {
    fn of(cli: &Command, command: &Command, count: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  ")).filter_map(self::command) {
            *count += 1;
            assert_eq!(fault(cli, &line), None, "the help of {}: {line}", command.get_name());
        }
        command.get_subcommands().for_each(|command| of(cli, command, count));
    }
    let cli = describe(quincunx_designs::CATALOG);
    let mut count = 0;
    of(&cli, &cli, &mut count);
    assert!(count > 60, "{count} examples");
}
