//! What ranks' programs print, by whole lines: those of several ranks are never in each other's middle.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long what somebody prints may come in when the rank itself has ended: a process that it has left behind may hold the other end for ever.
const GRACE: Duration = Duration::from_secs(1);

/// Where it goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Printed {
    /// To this process's output and errors.
    #[default]
    Lines,
    /// The same, each line with the rank's number before it.
    Labelled,
    /// To files of this folder, two for each rank: `rank0.out` and `rank0.err`.
    Files(PathBuf),
}

impl Printed {
    /// Has a rank's output come here, if it does not go to files by itself.
    pub(crate) fn prepare(&self, rank: usize, command: &mut Command) -> io::Result<()> {
        let Self::Files(folder) = self else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            // Python would keep back what it prints to a pipe.
            if std::env::var_os("PYTHONUNBUFFERED").is_none() {
                command.env("PYTHONUNBUFFERED", "1");
            }
            return Ok(());
        };
        let file = |ending: &str| create(&folder.join(format!("rank{rank}.{ending}")));
        command.stdout(file("out")?).stderr(file("err")?);
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::create(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Passes on what ranks print.
pub(crate) struct Printer {
    /// Each thread that passes something on has one.
    sender: Sender<()>,
    ended: Receiver<()>,
}

impl Default for Printer {
    fn default() -> Self {
        let (sender, ended) = channel();
        Self { sender, ended }
    }
}

impl Printer {
    /// Takes what a rank prints from now on.
    pub(crate) fn take(&self, printed: &Printed, rank: usize, child: &mut Child) {
        let label = match printed {
            Printed::Labelled => format!("{rank}: "),
            Printed::Lines | Printed::Files(_) => String::new(),
        };
        if let Some(out) = child.stdout.take() {
            let (label, sender) = (label.clone(), self.sender.clone());
            thread::spawn(move || pass_on(out, &label, stdout, &sender));
        }
        if let Some(errors) = child.stderr.take() {
            let sender = self.sender.clone();
            thread::spawn(move || pass_on(errors, &label, stderr, &sender));
        }
    }

    /// Waits until all has come that ended ranks have printed.
    pub(crate) fn finish(self) {
        let Self { sender, ended } = self;
        drop(sender);
        let end = Instant::now() + GRACE;
        // Each thread drops its sender when it ends: the last one ends the wait.
        let _ = ended.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Writes what comes line by line, until it ends or nobody takes it any more. `_alive` is dropped then.
fn pass_on<W: Write>(from: impl Read, label: &str, to: impl Fn() -> W, _alive: &Sender<()>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(label.as_bytes());
        match from.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // What has no end is a line, too, where something stands before it.
        if !label.is_empty() && line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut to = to();
        // One call: other ranks' lines come before or after it.
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<String>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_whole_with_what_stands_before_them() {
        let written = |label| {
            let writes = Writes::default();
            pass_on(&b"sum 2.0\n\nlast"[..], label, || writes.clone(), &channel().0);
            Arc::into_inner(writes.0).unwrap().into_inner().unwrap()
        };
        assert_eq!(written(""), ["sum 2.0\n", "\n", "last"]);
        assert_eq!(written("3: "), ["3: sum 2.0\n", "3: \n", "3: last\n"]);
    }
}
