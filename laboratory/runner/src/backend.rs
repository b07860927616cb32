//! Backends that run the cells of experiments.

use quorate_types::Fault;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;

/// Maximum number of simultaneous simulations, or of jobs.
const MAX_JOBS: usize = 10_000;

/// Runs the cells, as chosen by `--on`: `local:K`, `shared`, `shared:K`, `ssh:FILE`, `slurm:N` or `kubernetes:N`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backend {
    /// This process, which has its directory alone.
    Local { slots: usize },
    /// This process, whose directory other processes share.
    Shared { slots: usize },
    /// Hosts of a file, which get single runs over SSH.
    Ssh { hosts: PathBuf },
    /// An array of jobs of Slurm that share a directory.
    Slurm { jobs: usize },
    /// Pods of an indexed Job of Kubernetes that share a volume.
    Kubernetes { pods: usize },
}

impl Backend {
    /// Returns the maximum number of simultaneous simulations of this process.
    pub fn slots(&self) -> usize {
        match self {
            Backend::Local { slots } | Backend::Shared { slots } => *slots,
            Backend::Ssh { .. } | Backend::Slurm { .. } | Backend::Kubernetes { .. } => cores(),
        }
    }

    pub fn is_shared(&self) -> bool {
        matches!(self, Backend::Shared { .. })
    }

    /// Returns the name of a place that only starts other calls, which run the cells.
    pub fn starter(&self) -> Option<&'static str> {
        match self {
            Backend::Slurm { .. } => Some("slurm"),
            Backend::Kubernetes { .. } => Some("kubernetes"),
            Backend::Local { .. } | Backend::Shared { .. } | Backend::Ssh { .. } => None,
        }
    }
}

impl Default for Backend {
    fn default() -> Backend {
        Backend::Local { slots: cores() }
    }
}

impl FromStr for Backend {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Backend, Fault> {
        let wrong = || {
            let what = format!("is `{text}`, not a place with a number from 1 to {MAX_JOBS}");
            Fault::new("--on", what, "set local:K, shared, shared:K, ssh:FILE.toml, slurm:N or kubernetes:N")
        };
        if let Some(file) = text.strip_prefix("ssh:") {
            let hosts = PathBuf::from(file);
            return if file.ends_with(".toml") { Ok(Backend::Ssh { hosts }) } else { Err(wrong()) };
        }
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<usize>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        if number.is_some_and(|number| !(1..=MAX_JOBS).contains(&number)) {
            return Err(wrong());
        }
        match (name, number) {
            ("local", slots) => Ok(Backend::Local { slots: slots.unwrap_or_else(cores) }),
            ("shared", slots) => Ok(Backend::Shared { slots: slots.unwrap_or_else(cores) }),
            ("slurm", Some(jobs)) => Ok(Backend::Slurm { jobs }),
            ("kubernetes", Some(pods)) => Ok(Backend::Kubernetes { pods }),
            _ => Err(wrong()),
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
