//! Places where the runs of experiments take place.

use quorate_types::Fault;
use std::str::FromStr;
use std::thread;

/// Maximum number of simultaneous simulations, or of jobs.
const MAX_JOBS: usize = 10_000;

/// Where runs take place, as on the command line: `local:K`, `shared`, `shared:K` or `slurm:N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// In this process's directory, which it has alone.
    Local { slots: usize },
    /// In a directory that other processes share.
    Shared { slots: usize },
    /// In an array of jobs that share a directory.
    Slurm { jobs: usize },
}

impl On {
    /// Returns the maximum number of simultaneous simulations of this process.
    pub fn slots(self) -> usize {
        match self {
            On::Local { slots } | On::Shared { slots } => slots,
            On::Slurm { .. } => cores(),
        }
    }

    pub fn is_shared(self) -> bool {
        matches!(self, On::Shared { .. })
    }
}

impl Default for On {
    fn default() -> On {
        On::Local { slots: cores() }
    }
}

impl FromStr for On {
    type Err = Fault;

    fn from_str(text: &str) -> Result<On, Fault> {
        let wrong = || {
            let what = format!("is `{text}`, not a place with a number from 1 to {MAX_JOBS}");
            Fault::new("--on", what, "set local:K, shared, shared:K or slurm:N")
        };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<usize>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        if number.is_some_and(|number| !(1..=MAX_JOBS).contains(&number)) {
            return Err(wrong());
        }
        match (name, number) {
            ("local", slots) => Ok(On::Local { slots: slots.unwrap_or_else(cores) }),
            ("shared", slots) => Ok(On::Shared { slots: slots.unwrap_or_else(cores) }),
            ("slurm", Some(jobs)) => Ok(On::Slurm { jobs }),
            _ => Err(wrong()),
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
