//! A sweep: one flag, many values.

use super::ModelOptions;
use quorate_simulator::models::{Answer, Protocol};
use quorate_types::Fault;
use quorate_types::choice::nearest;
use serde::Serialize;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

/// Maximum number of values.
const MAX_VALUES: usize = 1000;
/// Values are rounded to multiples of 1/`ROUNDED_TO`, so that 0.1 + 0.2 is 0.3.
const ROUNDED_TO: f64 = 1e9;
/// Flags that can be swept.
const FLAGS: &[&str] = &[
    "loss",
    "bit-error-rate",
    "burst-packets",
    "replicas",
    "faults",
    "silent",
    "segments",
    "retransmissions",
    "repeat",
    "pre-prepare-repeat",
    "delay-ms",
    "jitter-ms",
    "min-rto-ms",
    "client-loss",
    "timeout-ms",
];

/// Values of one flag.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// Name of the flag, without its leading hyphens.
    pub flag: String,
    pub values: Vec<f64>,
}

impl FromStr for Sweep {
    type Err = String;

    /// Parses `loss=0..0.3/0.01`. The end is included.
    fn from_str(text: &str) -> Result<Sweep, String> {
        let form = || format!("`{text}` is no sweep; write FLAG=FROM..TO/STEP, such as loss=0..0.3/0.01");
        let (flag, range) = text.split_once('=').ok_or_else(form)?;
        let flag = flag.trim_start_matches('-').to_owned();
        if !FLAGS.contains(&flag.as_str()) {
            let hint = nearest(&flag, FLAGS).map_or(String::new(), |name| format!(" (did you mean `{name}`?)"));
            return Err(format!("`{flag}` cannot be swept: one of {}{hint}", FLAGS.join(", ")));
        }
        let (ends, step) = range.split_once('/').ok_or_else(form)?;
        let (from, to) = ends.split_once("..").ok_or_else(form)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(form);
        let (from, to, step) = (number(from)?, number(to)?, number(step)?);
        if step <= 0.0 || to < from {
            return Err(format!("`{text}` has no values; write a positive step, and an end not below the beginning"));
        }
        let steps = ((to - from) / step + 1e-9).floor();
        if steps >= MAX_VALUES as f64 {
            return Err(format!("`{text}` has more than {MAX_VALUES} values; use a larger step"));
        }
        let value = |index: usize| ((from + index as f64 * step) * ROUNDED_TO).round() / ROUNDED_TO;
        Ok(Sweep { flag, values: (0..=steps as usize).map(value).collect() })
    }
}

/// Answers of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Swept {
    pub flag: String,
    pub values: Vec<f64>,
    /// Answers in the order of the values.
    pub answers: Vec<Answer>,
}

impl Sweep {
    /// Computes the answers for all values, on all cores.
    ///
    /// # Errors
    /// The first invalid value, with a remedy.
    pub fn answers(&self, options: &ModelOptions, protocol: Protocol) -> Result<Swept, Fault> {
        let question = |value: &f64| options.with(&self.flag, *value)?.question(protocol);
        let questions = self.values.iter().map(question).collect::<Result<Vec<_>, Fault>>()?;
        let next = AtomicUsize::new(0);
        let work = || {
            let mut own = Vec::new();
            while let Some((at, question)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, questions.get(at)?)))
            {
                own.push((at, question.answer()));
            }
            own
        };
        let cores = thread::available_parallelism().map_or(1, usize::from).min(questions.len());
        let mut answers: Vec<(usize, Answer)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|why| panic::resume_unwind(why)))
                .collect()
        });
        answers.sort_by_key(|(at, _)| *at);
        let answers = answers.into_iter().map(|(_, answer)| answer).collect();
        Ok(Swept { flag: self.flag.clone(), values: self.values.clone(), answers })
    }
}

impl ModelOptions {
    /// Returns the options with another value of a flag from [`FLAGS`].
    ///
    /// # Errors
    /// If the flag takes whole numbers and the value is not one.
    fn with(&self, flag: &str, value: f64) -> Result<ModelOptions, Fault> {
        let mut own = self.clone();
        let whole = || match value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
            true => Ok(value as u32),
            false => {
                let what = format!("--{flag} {value} is no whole number");
                Err(Fault::new("--sweep", what, "use whole numbers from 0 and a whole step"))
            }
        };
        match flag {
            "loss" => own.loss = value,
            "bit-error-rate" => own.bit_error_rate = Some(value),
            "burst-packets" => own.burst_packets = Some(value),
            "replicas" => own.replicas = whole()? as usize,
            "faults" => own.faults = Some(whole()? as usize),
            "silent" => own.silent = whole()? as usize,
            "segments" => own.segments = whole()?,
            "retransmissions" => own.retransmissions = whole()?,
            "repeat" => own.repeat = whole()?,
            "pre-prepare-repeat" => own.pre_prepare_repeat = whole()?,
            "delay-ms" => own.delay_ms = value,
            "jitter-ms" => own.jitter_ms = value,
            "min-rto-ms" => own.min_rto_ms = value,
            "client-loss" => own.client_loss = Some(value),
            "timeout-ms" => own.timeout_ms = Some(value),
            other => unreachable!("{other} was refused when the sweep was read"),
        }
        Ok(own)
    }
}
