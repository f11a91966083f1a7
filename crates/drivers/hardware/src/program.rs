//! A program that answers lines. Each line is answered by any number of lines, and one that begins with `end`.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long an answer is waited for. Simulators end a run that has no end by themselves, after some minutes at most.
const LONGEST: Duration = Duration::from_secs(600);

/// Why a program is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It does not start.
    #[error(
        "expected a simulator of hardware at {program}, found \"{error}\"; `python3 rtl/bench/simulators.py` builds one and prints where it is"
    )]
    Start {
        /// Where it should be.
        program: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is no more.
    #[error(
        "expected {program} to answer \"{line}\", but it has ended; see whether it is a simulator of rtl/bench/simulators.py"
    )]
    Ended {
        /// Where it is.
        program: PathBuf,
        /// The last thing that it was told.
        line: String,
    },
    /// It says nothing.
    #[error("expected {program} to answer \"{line}\" within {} s, found nothing; see what it does", LONGEST.as_secs())]
    Silent {
        /// Where it is.
        program: PathBuf,
        /// The last thing that it was told.
        line: String,
    },
    /// It does not take what it was told, or has found a fault of its own.
    #[error("expected {program} to take \"{line}\", found \"{answer}\"; build a simulator for such a group")]
    Refused {
        /// Where it is.
        program: PathBuf,
        /// The last thing that it was told.
        line: String,
        /// What it says.
        answer: String,
    },
}

/// A running program. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    child: Child,
    told: ChildStdin,
    /// What it says, by a thread that ends with it.
    says: Receiver<String>,
}

impl Program {
    pub(crate) fn start(path: &Path) -> Result<Self, ProgramError> {
        let started = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| ProgramError::Start { program: path.into(), error })?;
        let (told, said) = (child.stdin.take(), child.stdout.take());
        let (told, said) = told.zip(said).expect("both are pipes");
        let (sender, says) = channel();
        thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { path: path.into(), child, told, says })
    }

    /// What answers so many lines, each with its end, without the lines that end the answers.
    pub(crate) fn ask(&mut self, lines: &str) -> Result<Vec<String>, ProgramError> {
        let (program, line) = (self.path.clone(), lines.lines().last().unwrap_or_default());
        // Of a frame the beginning says enough.
        let line: String = line.chars().take(80).collect();
        if self.told.write_all(lines.as_bytes()).is_err() {
            return Err(ProgramError::Ended { program, line });
        }
        let (mut open, mut answers) = (lines.lines().count(), Vec::new());
        while open > 0 {
            match self.says.recv_timeout(LONGEST) {
                Ok(answer) if answer.starts_with("end") => open -= 1,
                Ok(answer) if answer.starts_with("error") || answer.starts_with("fault") => {
                    return Err(ProgramError::Refused { program, line, answer });
                }
                Ok(answer) => answers.push(answer),
                Err(RecvTimeoutError::Timeout) => return Err(ProgramError::Silent { program, line }),
                Err(RecvTimeoutError::Disconnected) => return Err(ProgramError::Ended { program, line }),
            }
        }
        Ok(answers)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
