//! Activity of the rest of the machine during a run, from `/proc`.

use crate::experiments::row::{MIN_SECONDS_OF_VARIATION, Noise};
use crate::experiments::statistics::{deviation, mean};
use std::fs;
use std::time::{Duration, Instant};

/// CPU time of the whole machine since boot, in clock ticks summed over cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks {
    /// Total, including idle and stolen time.
    pub total: u64,
    pub idle: u64,
    /// Time that the hypervisor took.
    pub steal: u64,
}

/// Counters at one point in time.
pub struct Meter {
    at: Instant,
    ticks: Option<Ticks>,
    /// Total time during which at least one thread waited for a core, in microseconds.
    waited_us: Option<u64>,
    /// CPU time of this process and of the children it has reaped.
    own: Duration,
}

impl Ticks {
    /// Parses the first line of `/proc/stat`; `None` if it is not as documented in proc(5).
    pub fn parse(stat: &str) -> Option<Ticks> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user nice system idle iowait irq softirq steal; the guest times after them are part of user and nice.
        let all = fields.get(..8)?;
        Some(Ticks { total: all.iter().sum(), idle: all[3] + all[4], steal: all[7] })
    }
}

/// Parses the total of the `some` line of `/proc/pressure/cpu`, in microseconds.
pub fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

impl Meter {
    pub fn start() -> Meter {
        let read = |path: &str| fs::read_to_string(path).ok();
        Meter {
            at: Instant::now(),
            ticks: read("/proc/stat").and_then(|text| Ticks::parse(&text)),
            waited_us: read("/proc/pressure/cpu").and_then(|text| parse_pressure(&text)),
            own: processor_time(libc::RUSAGE_SELF) + processor_time(libc::RUSAGE_CHILDREN),
        }
    }

    /// Returns the noise since the start; `None` if the kernel does not report it. `per_second` is the throughput of
    /// each whole second of the run.
    pub fn noise(&self, per_second: &[f64]) -> Option<Noise> {
        let now = Meter::start();
        let (before, after) = (self.ticks?, now.ticks?);
        let mut noise = noise_of(before, after, now.own.saturating_sub(self.own), ticks_per_second())?;
        let wall_us = (now.at - self.at).as_micros() as f64;
        let waited = self.waited_us.zip(now.waited_us).map(|(from, to)| to.saturating_sub(from) as f64);
        noise.pressure_percent = waited.map(|waited| (waited / wall_us * 100.0).clamp(0.0, 100.0));
        Some(noise.varying(per_second))
    }
}

impl Noise {
    /// Returns the noise with the variation of the throughput of each whole second.
    pub fn varying(self, per_second: &[f64]) -> Noise {
        Noise { variation_percent: variation_percent(per_second), ..self }
    }
}

/// Returns the noise between two points in time; `None` if no time has passed.
pub fn noise_of(before: Ticks, after: Ticks, own: Duration, ticks_per_second: f64) -> Option<Noise> {
    let grown = |of: fn(&Ticks) -> u64| of(&after).saturating_sub(of(&before)) as f64;
    let (total, steal) = (grown(|ticks| ticks.total), grown(|ticks| ticks.steal));
    if total <= 0.0 {
        return None;
    }
    let busy = total - steal - grown(|ticks| ticks.idle);
    let others = busy - own.as_secs_f64() * ticks_per_second;
    let percent = |ticks: f64| (ticks / total * 100.0).clamp(0.0, 100.0);
    Some(Noise { steal_percent: percent(steal), others_percent: percent(others), ..Noise::default() })
}

/// Returns the coefficient of variation in percent; `None` with fewer than [`MIN_SECONDS_OF_VARIATION`] values, or if
/// nothing completed.
pub fn variation_percent(per_second: &[f64]) -> Option<f64> {
    if per_second.len() < MIN_SECONDS_OF_VARIATION {
        return None;
    }
    let percent = deviation(per_second)? / mean(per_second)? * 100.0;
    percent.is_finite().then_some(percent)
}

fn ticks_per_second() -> f64 {
    // SAFETY: the call only returns a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

fn processor_time(of: libc::c_int) -> Duration {
    // SAFETY: an all-zero rusage is a valid value, and the call only fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(of, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
