//! Logging of a replica's process to standard error.

use clap::{Args, ValueEnum};
use std::io::stderr;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Logging flags of a process.
#[derive(Args)]
pub struct LogArgs {
    /// Minimum level to log: error, warn, info, debug or trace; after a comma, the level of a target, as in
    /// warn,quorate::network=debug. The targets are quorate::network, ::consensus, ::journal, ::state and ::replica.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_level)]
    log_level: Targets,
    /// Format of an event: a line of text, or a JSON object.
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

fn parse_level(text: &str) -> Result<Targets, String> {
    let mut targets = Targets::new();
    for part in text.split(',') {
        let (target, level) = part.split_once('=').map_or((None, part), |(target, level)| (Some(target), level));
        let known = ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
        let level: LevelFilter = level
            .parse()
            .ok()
            .filter(|_| known)
            .ok_or_else(|| format!("`{level}` is not a level; use error, warn, info, debug, trace or off"))?;
        targets = match target {
            None => targets.with_default(level),
            Some(target) if target == "quorate" || target.starts_with("quorate::") => {
                targets.with_target(target, level)
            }
            Some(target) => return Err(format!("`{target}` is not a target; use one that begins with quorate::")),
        };
    }
    Ok(targets)
}

impl LogArgs {
    /// Installs the logger.
    pub fn begin(&self) {
        // A closed standard error must neither stop a replica nor cause a panic.
        let lines = fmt::layer().with_writer(stderr).with_ansi(false).log_internal_errors(false);
        let layer = match self.log_format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
        };
        tracing_subscriber::registry().with(layer.with_filter(self.log_level.clone())).init();
    }

    /// Logs the reason for the process's exit, if the log is JSON; otherwise the final error message suffices.
    pub fn end(&self, error: &dyn std::error::Error) {
        if self.log_format == LogFormat::Json {
            tracing::error!(target: "quorate::replica", "{error}");
        }
    }
}
