//! What the program prints. Whoever reads it may have gone, or the disk behind it may be full: then nothing more is printed, what runs ends
//! as by an interrupt, and the exit status says so.

use std::fmt::{Arguments, Display};
use std::io::{Error, ErrorKind, Write, stdout};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::Failure;
use crate::interrupt;

/// Why standard output takes no more.
static ENDED: Mutex<Option<Error>> = Mutex::new(None);

/// Prints a line.
macro_rules! say {
    () => { $crate::out::line(format_args!("")) };
    ($($text:tt)+) => { $crate::out::line(format_args!($($text)+)) };
}
pub(crate) use say;

/// Prints a line, at once.
pub(crate) fn line(text: Arguments<'_>) {
    print(&format_args!("{text}\n"));
}

/// Prints `text`, at once.
pub(crate) fn print(text: &impl Display) {
    let mut ended = ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if ended.is_some() {
        return;
    }
    let mut output = stdout().lock();
    if let Err(error) = write!(output, "{text}").and_then(|()| output.flush()) {
        *ended = Some(error);
        if let Some(stop) = interrupt::current() {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// What a command came to whose output may have ended before it: who closes standard output has seen enough, and is told nothing.
pub(crate) fn judge(done: Result<(), Failure>) -> Result<(), Failure> {
    let ended = ENDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    match (ended, done) {
        (None, done) => done,
        (Some(_), Err(other @ (Failure::Wrong(_) | Failure::Input(_)))) => Err(other),
        (Some(error), _) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        (Some(error), _) => Err(Failure::Input(format!(
            "expected to write to standard output, found \"{error}\"; part of what was to be printed is lost"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_gone_hides_an_interrupt_and_no_error() {
        let judged = |done| {
            *ENDED.lock().unwrap() = Some(ErrorKind::BrokenPipe.into());
            judge(done)
        };
        assert!(judged(Ok(())).is_ok());
        assert!(judged(Err(Failure::Interrupted("rows are missing".into()))).is_ok());
        assert!(matches!(judged(Err(Failure::Input("no such file".into()))), Err(Failure::Input(_))));
        assert!(matches!(judged(Err(Failure::Wrong("wrong".into()))), Err(Failure::Wrong(_))));
    }
}
