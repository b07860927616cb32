//! Shape and duration of a load.

use crate::load::samples::MAX_SAMPLES;
use quorate_types::limits::MAX_BUNDLE_COMMANDS;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Rule for when clients send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LoadMode {
    /// Each client keeps `outstanding` commands unanswered, and sends the next as soon as one is answered.
    Closed { outstanding: usize },
    /// Commands are sent at evenly spaced times regardless of answers. Latency counts from the intended send time, so a
    /// stalled cluster cannot hide behind commands that were not sent (no coordinated omission).
    Open {
        /// Commands per second of all clients together.
        rate: f64,
        /// Maximum number of unanswered commands of all clients. Further commands wait, and the wait counts in their
        /// latency.
        max_outstanding: usize,
    },
}

/// A value for [`LoadOptions::burst`] that saves many messages, and delays a command by half of it on average.
pub const USUAL_BURST: Duration = Duration::from_millis(1);
/// Default maximum number of unanswered commands in an open loop.
pub const DEFAULT_MAX_OUTSTANDING: usize = 1_000_000;

/// Shape and duration of a load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadOptions {
    /// Number of logical clients.
    pub clients: usize,
    pub mode: LoadMode,
    /// Maximum number of commands in a bundle.
    pub bundle: usize,
    /// Open loop: maximum time that a due command waits for others to fill its bundle. The wait counts in its latency.
    pub bundle_wait: Duration,
    /// Open loop without `bundle_wait`: maximum time that due commands wait for others, to be sent in one burst of
    /// messages. The wait counts in their latency. Zero: each is sent when it is due.
    pub burst: Duration,
    /// Time before the measured window.
    pub warmup: Duration,
    /// Length of the measured window.
    pub duration: Duration,
    /// Maximum time to wait for answers at the end.
    pub drain: Duration,
    /// Maximum time for the workload's preload commands.
    pub preload_timeout: Duration,
    /// Consecutive paces from the start of the measured window; the last one lasts to its end. Before the window, and
    /// without steps, `mode` determines the pace.
    pub steps: Vec<LoadStep>,
    /// Maximum number of requests in [`LoadReport::samples`](crate::load::LoadReport::samples).
    pub samples: usize,
    /// Time after which a request is abandoned instead of being resent; `None`: never. The load then counts the replies
    /// to each request.
    pub give_up_after: Option<Duration>,
}

/// Part of the measured window with its own pace.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadStep {
    pub lasts: Duration,
    /// Pace at the start: commands per second of all clients (open loop), or unanswered commands of each (closed loop).
    pub from: f64,
    /// Pace at the end; it changes linearly. In a closed loop it is constant, and no lower than in the previous step.
    pub to: f64,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            clients: 4,
            mode: LoadMode::Closed { outstanding: 1600 },
            bundle: 100,
            bundle_wait: Duration::ZERO,
            burst: Duration::ZERO,
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            preload_timeout: Duration::from_secs(60),
            steps: Vec::new(),
            samples: 0,
            give_up_after: None,
        }
    }
}

/// Maximum number of logical clients; a client's index takes 16 bits of its id.
pub const MAX_CLIENTS: usize = 1 << 16;
/// Maximum number of unanswered commands of all clients together.
pub const MAX_OUTSTANDING: usize = 1 << 24;
/// Maximum rate in commands per second.
pub const MAX_RATE: f64 = 1e9;
/// Maximum number of steps; each has a separate histogram.
pub const MAX_STEPS: usize = 256;
/// Maximum length of each phase of a load.
pub const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Invalid option of a load.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LoadOptionsError {
    #[error("`{key}` is {value}, expected 1 to {most}")]
    Range { key: &'static str, value: usize, most: usize },
    #[error("`rate` is {0} commands per second, expected more than 0 and at most {MAX_RATE}")]
    Rate(f64),
    #[error("{clients} clients with {outstanding} commands each exceed the limit of {MAX_OUTSTANDING} unanswered ones")]
    TooManyOutstanding { clients: usize, outstanding: usize },
    #[error("`samples` is {0}, expected at most {MAX_SAMPLES}")]
    Samples(usize),
    #[error("step {number}: {why}")]
    Step { number: usize, why: &'static str },
    #[error("`{key}` is {value:?}, expected {}at most {MAX_DURATION:?}", if *.positive { "over 0 and " } else { "" })]
    Duration { key: &'static str, value: Duration, positive: bool },
}

impl LoadOptions {
    /// Checks all values.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn validate(&self) -> Result<(), LoadOptionsError> {
        let range = |key, value: usize, most| {
            if (1..=most).contains(&value) { Ok(()) } else { Err(LoadOptionsError::Range { key, value, most }) }
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
            LoadMode::Open { rate, max_outstanding } => {
                range("max_outstanding", max_outstanding, MAX_OUTSTANDING)?;
                // Written so that NaN is refused too.
                if !(rate > 0.0 && rate <= MAX_RATE) {
                    return Err(LoadOptionsError::Rate(rate));
                }
            }
        }
        let durations = [
            ("bundle_wait", self.bundle_wait, false),
            ("burst", self.burst, false),
            ("warmup", self.warmup, false),
            ("duration", self.duration, true),
            ("drain", self.drain, false),
            ("preload_timeout", self.preload_timeout, true),
            ("give_up_after", self.give_up_after.unwrap_or(Duration::from_millis(1)), true),
        ];
        for (key, value, positive) in durations {
            if value > MAX_DURATION || (positive && value.is_zero()) {
                return Err(LoadOptionsError::Duration { key, value, positive });
            }
        }
        if self.samples > MAX_SAMPLES {
            return Err(LoadOptionsError::Samples(self.samples));
        }
        self.validate_steps()
    }

    fn validate_steps(&self) -> Result<(), LoadOptionsError> {
        if self.steps.len() > MAX_STEPS {
            return Err(LoadOptionsError::Range { key: "steps", value: self.steps.len(), most: MAX_STEPS });
        }
        let mut before = match self.mode {
            LoadMode::Closed { outstanding } => outstanding as f64,
            LoadMode::Open { .. } => 0.0,
        };
        for (number, step) in self.steps.iter().enumerate() {
            let refuse = |why| Err(LoadOptionsError::Step { number, why });
            if step.lasts.is_zero() || step.lasts > MAX_DURATION {
                return refuse("its time is zero or too long");
            }
            match self.mode {
                LoadMode::Open { .. } => {
                    if ![step.from, step.to].iter().all(|rate| *rate > 0.0 && *rate <= MAX_RATE) {
                        return refuse("its rate is out of range");
                    }
                }
                LoadMode::Closed { .. } => {
                    if !(step.from >= before && step.from == step.to && step.from.fract() == 0.0) {
                        return refuse("its number of unanswered commands falls, or is not a whole number");
                    }
                    if step.from * self.clients as f64 > MAX_OUTSTANDING as f64 {
                        return refuse("it has too many unanswered commands");
                    }
                    before = step.from;
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum number of unanswered commands of all clients together.
    pub fn max_outstanding(&self) -> usize {
        match self.mode {
            LoadMode::Closed { outstanding } => {
                self.steps.last().map_or(outstanding, |step| step.from as usize) * self.clients
            }
            LoadMode::Open { max_outstanding, .. } => max_outstanding,
        }
    }
}
