//! Machine of a measurement, without which figures are meaningless.

use serde::{Deserialize, Serialize};
use std::fs;

/// Machine of a measurement, as named in results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor, or `unknown` with the architecture.
    pub cpu: String,
    /// Cores available to this process.
    pub cores: usize,
    /// Memory in MB of 1,000,000 bytes; 0 if unknown.
    pub memory_mb: u64,
    /// Operating system and kernel release.
    pub kernel: String,
}

impl Machine {
    /// Describes this machine, from `/proc`.
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

/// Returns the value of the first `name : value` line with this name.
fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_string())
}
