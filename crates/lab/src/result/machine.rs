//! The machine that a figure was measured on: without it no figure means anything.

use serde::{Deserialize, Serialize};
use std::fs;

/// What a reader needs to know about a machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name; `unknown` where the system does not tell.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MB of 1,000,000 bytes; 0 where the system does not tell.
    pub memory_mb: u64,
    /// The operating system and the release of its kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine, as `/proc` describes it.
    pub fn here() -> Machine {
        let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| field(&text, "model name"));
        let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal"));
        let kib = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: cpu.unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH)),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mb: kib * 1024 / 1_000_000,
            kernel: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_string(),
        }
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_string())
}
