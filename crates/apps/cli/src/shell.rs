//! What shells and `man` know of the command: made from the same description as `--help`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

use crate::Failure;
use crate::out::say;

/// `quincunx completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  source <(quincunx completions bash)                              for this shell
  quincunx completions bash > /etc/bash_completion.d/quincunx
  quincunx completions zsh > ~/.zfunc/_quincunx
  quincunx completions fish > ~/.config/fish/completions/quincunx.fish")]
pub(crate) struct Completions {
    /// Whose
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: clap::Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "quincunx", &mut script);
        crate::out::print(&String::from_utf8_lossy(&script));
        Ok(())
    }
}

/// `quincunx man`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx man ~/.local/share/man/man1 && man quincunx-sim")]
pub(crate) struct Man {
    /// Folder to write quincunx.1, quincunx-perf.1 and so on to; it is made if it is not there
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self, mut command: clap::Command) -> Result<(), Failure> {
        let written = std::fs::create_dir_all(&self.folder).and_then(|()| {
            command.build();
            clap_mangen::generate_to(command, &self.folder)
        });
        written.map_err(|error| {
            Failure::Input(format!(
                "expected to write manual pages to {}, found \"{error}\"; name another folder",
                self.folder.display()
            ))
        })?;
        say!("{}", self.folder.join("quincunx.1").display());
        Ok(())
    }
}
