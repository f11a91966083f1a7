//! What the help says of designs.

use quincunx_design::{Catalog, FabricKind};

/// Says what an argument takes, where it stands: clap's `mut_arg` moves it behind all others, so that arguments without a name change
/// places.
pub(crate) fn with_help(command: clap::Command, name: &str, help: &str) -> clap::Command {
    command.mut_args(
        |argument| {
            if argument.get_id() == name { argument.help(help.to_owned()) } else { argument }
        },
    )
}

/// The designs that run on any of these kinds of fabrics, each once.
pub(crate) fn names(catalog: Catalog, fabrics: &[FabricKind]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for design in fabrics.iter().flat_map(|&fabric| catalog.on(fabric)) {
        if !names.contains(&design.name()) {
            names.push(design.name());
        }
    }
    names.join(", ")
}

pub(crate) fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
