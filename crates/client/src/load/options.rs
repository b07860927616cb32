//! How much load, and for how long.

use quorate_types::limits::MAX_BUNDLE_COMMANDS;
use std::time::Duration;
use thiserror::Error;

/// How clients decide when to send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LoadMode {
    /// Each client has this many commands without an answer and sends the next as soon as one is answered.
    Closed {
        /// Commands per client.
        outstanding: usize,
    },
    /// Commands are sent at evenly spaced times whatever the answers; a latency counts from the time at which the command was
    /// meant to be sent, so that a stalled cluster cannot hide behind commands that were not sent (no coordinated omission).
    Open {
        /// Commands per second of all clients together.
        rate: f64,
        /// Most commands of all clients without an answer. Those that are due beyond it wait, and their wait counts.
        most_outstanding: usize,
    },
}

/// Commands without an answer in open loop, unless told otherwise.
pub const DEFAULT_MOST_OUTSTANDING: usize = 100_000;

/// A load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadOptions {
    /// Logical clients.
    pub clients: usize,
    /// When they send.
    pub mode: LoadMode,
    /// Most commands in one message.
    pub bundle: usize,
    /// Open loop: how long a command that is due may wait for others to fill its message. The wait counts in its latency.
    pub bundle_wait: Duration,
    /// How long the load runs before it is measured.
    pub warmup: Duration,
    /// How long it is measured.
    pub duration: Duration,
    /// How long the answers to what was sent are waited for at the end.
    pub drain: Duration,
    /// How long the commands that the workload needs beforehand may take.
    pub preload_timeout: Duration,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            clients: 4,
            mode: LoadMode::Closed { outstanding: 1600 },
            bundle: 100,
            bundle_wait: Duration::ZERO,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            preload_timeout: Duration::from_secs(60),
        }
    }
}

/// Most logical clients: their index takes 16 bits of a client id.
pub const MAX_CLIENTS: usize = 1 << 16;
/// Most commands without an answer, of all clients together.
pub const MAX_OUTSTANDING: usize = 1 << 24;
/// Highest rate in commands per second: one each nanosecond.
pub const MAX_RATE: f64 = 1e9;
/// Longest warm-up, measurement or drain.
pub const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A load that cannot be.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LoadOptionsError {
    /// A number is outside its range.
    #[error("`{key}` is {value} and has to be between {least} and {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: usize,
        /// The least that it may be.
        least: usize,
        /// The most that it may be.
        most: usize,
    },
    /// The rate is not a rate.
    #[error("`rate` is {0} commands per second and has to be over 0 and at most {MAX_RATE}")]
    Rate(f64),
    /// All clients together would have too many commands without an answer.
    #[error(
        "{clients} clients with {outstanding} commands each are over the limit of {MAX_OUTSTANDING} commands without an answer"
    )]
    TooManyOutstanding {
        /// Clients.
        clients: usize,
        /// Commands per client.
        outstanding: usize,
    },
    /// A duration is outside its range.
    #[error("`{key}` is {value:?} and has to be {}at most {MAX_DURATION:?}", if *.positive { "over 0 and " } else { "" })]
    Duration {
        /// The key.
        key: &'static str,
        /// Its value.
        value: Duration,
        /// Whether it has to be longer than nothing.
        positive: bool,
    },
}

impl LoadOptions {
    /// Names the first value that cannot be.
    pub fn validate(&self) -> Result<(), LoadOptionsError> {
        let range = |key, value: usize, most| match value {
            0 => Err(LoadOptionsError::Range { key, value, least: 1, most }),
            _ if value > most => Err(LoadOptionsError::Range { key, value, least: 1, most }),
            _ => Ok(()),
        };
        range("clients", self.clients, MAX_CLIENTS)?;
        range("bundle", self.bundle, MAX_BUNDLE_COMMANDS)?;
        match self.mode {
            LoadMode::Closed { outstanding } => {
                range("outstanding", outstanding, MAX_OUTSTANDING)?;
                if outstanding.saturating_mul(self.clients) > MAX_OUTSTANDING {
                    return Err(LoadOptionsError::TooManyOutstanding { clients: self.clients, outstanding });
                }
            }
            LoadMode::Open { rate, most_outstanding } => {
                range("most_outstanding", most_outstanding, MAX_OUTSTANDING)?;
                // The rate is also refused when it is not a number.
                if !(rate > 0.0 && rate <= MAX_RATE) {
                    return Err(LoadOptionsError::Rate(rate));
                }
            }
        }
        let durations = [
            ("bundle_wait", self.bundle_wait, false),
            ("warmup", self.warmup, false),
            ("duration", self.duration, true),
            ("drain", self.drain, false),
            ("preload_timeout", self.preload_timeout, true),
        ];
        for (key, value, positive) in durations {
            if value > MAX_DURATION || (positive && value.is_zero()) {
                return Err(LoadOptionsError::Duration { key, value, positive });
            }
        }
        Ok(())
    }

    /// Most commands without an answer, of all clients together.
    pub fn most_outstanding(&self) -> usize {
        match self.mode {
            LoadMode::Closed { outstanding } => outstanding * self.clients,
            LoadMode::Open { most_outstanding, .. } => most_outstanding,
        }
    }
}
