//! What a person at a terminal sees beside the results: a progress bar, and errors in colour.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// A bar over `steps` steps on standard error; nothing when that is no terminal.
pub(crate) fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}").expect("the template is right");
    bar.with_style(style)
}

/// One line on standard error.
pub(crate) fn print_error(message: &str) {
    if stderr().is_terminal() {
        eprintln!("\x1b[31merror:\x1b[0m {message}");
    } else {
        eprintln!("error: {message}");
    }
}
