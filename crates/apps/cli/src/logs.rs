//! The log of a manager or a switch, on standard error: a line an event, as text or as JSON.

use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

/// How events are logged.
#[derive(Args)]
pub(crate) struct Logs {
    /// What a line of the log, on standard error, looks like
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
    /// The least important events that are logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
}

impl Logs {
    /// Logs from now on, in the whole process.
    pub(crate) fn start(&self) {
        let builder = tracing_subscriber::fmt().with_max_level(self.log_level).with_writer(std::io::stderr);
        // A second start in one process leaves the first as it is: nothing to tell anybody.
        let _ = match self.log_format {
            Format::Text => builder.try_init(),
            Format::Json => {
                builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
            }
        };
    }
}
