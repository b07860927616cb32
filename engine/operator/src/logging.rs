//! Logging of a replica's process to standard error.

use clap::{Args, ValueEnum};
use quorate_node::log_level::LogLevel;
use std::fs::File;
use std::io::{self, Write, stderr};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Logging flags of a process.
#[derive(Args)]
pub struct LogArgs {
    /// Minimum level to log: error, warn, info, debug or trace; after a comma, the level of a target, as in
    /// warn,quorate::network=debug. The targets are quorate::network, ::consensus, ::journal, ::state and ::replica
    /// [default: log_level in config.toml, or info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Format of an event: a line of text, or a JSON object. Text for systemd's journal begins with the priority, and
    /// has no time, which the journal adds.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Time, level, target, message, fields.
    Text,
    /// The same, as the keys of one JSON object per line.
    Json,
}

/// Returns the filter for levels.
fn targets(levels: &LogLevel) -> Targets {
    levels.parts().fold(Targets::new(), |targets, (target, level)| {
        let level: LevelFilter = level.parse().expect("it is one of the levels");
        match target {
            None => targets.with_default(level),
            Some(target) => targets.with_target(target, level),
        }
    })
}

/// Returns whether standard error is the stream of systemd's journal that the variable names by device and inode.
fn is_journal(variable: Option<&str>) -> bool {
    let Some((device, inode)) = variable.and_then(|stream| stream.split_once(':')) else { return false };
    // SAFETY: the descriptor is only examined, and never closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    file.metadata().is_ok_and(|about| device.parse() == Ok(about.dev()) && inode.parse() == Ok(about.ino()))
}

/// Writer of lines that begin with a priority, as in sd-daemon(3), so that `journalctl --priority` selects them.
struct Prioritized;

struct Prefixed(&'static str);

impl<'a> MakeWriter<'a> for Prioritized {
    type Writer = Prefixed;

    fn make_writer(&'a self) -> Prefixed {
        Prefixed("<6>")
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Prefixed {
        Prefixed(match *about.level() {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            _ => "<7>",
        })
    }
}

impl Write for Prefixed {
    /// Writes a whole line, in one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        stderr().write_all(&[self.0.as_bytes(), line].concat())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Changes the levels of the log while the process runs.
pub struct Levels {
    handle: reload::Handle<Targets, Registry>,
    /// Levels without a configuration of them.
    usual: LogLevel,
}

impl Levels {
    /// Sets the levels of a configuration.
    pub fn set(&self, configured: Option<&LogLevel>) {
        // The logger stays until the process ends.
        let _ = self.handle.reload(targets(configured.unwrap_or(&self.usual)));
    }
}

impl LogArgs {
    /// Installs the logger. `configured` are the levels of the configuration.
    pub fn begin(&self, configured: Option<LogLevel>) -> Levels {
        let usual = self.log_level.clone().unwrap_or_default();
        let first = self.log_level.clone().or(configured).unwrap_or_default();
        let (filter, handle) = reload::Layer::new(targets(&first));
        // A closed standard error must neither stop a replica nor cause a panic.
        let lines = fmt::layer().with_writer(stderr).with_ansi(false).log_internal_errors(false);
        let layer = match self.log_format {
            LogFormat::Text if is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()) => {
                lines.without_time().with_level(false).with_writer(Prioritized).boxed()
            }
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
        };
        tracing_subscriber::registry().with(layer.with_filter(filter)).init();
        Levels { handle, usual }
    }

    /// Logs the reason for the process's exit, if the log is JSON; otherwise the final error message suffices.
    pub fn end(&self, error: &dyn std::error::Error) {
        if self.log_format == LogFormat::Json {
            tracing::error!(target: "quorate::replica", "{error}");
        }
    }
}
