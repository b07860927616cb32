//! Resources of a thread, as reported by the operating system.

use quorate_network::transports::Counters;
use quorate_types::meter::{self, Tallies};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Resources used by the load generator's thread and its connections since their start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub cpu: Duration,
    /// Time running or runnable; `None` if the kernel does not report it.
    pub busy: Option<Duration>,
    /// Cryptography of the thread.
    pub crypto: Tallies,
    pub transport: Counters,
}

impl Usage {
    /// Reads the usage of the calling thread.
    pub fn of_thread(transport: Counters) -> Usage {
        Usage { cpu: thread_cpu_time(), busy: thread_schedule(), crypto: meter::of_this_thread(), transport }
    }

    /// Returns the usage since an earlier reading.
    pub fn since(&self, earlier: &Usage) -> Usage {
        let (now, then) = (&self.transport, &earlier.transport);
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            busy: self.busy.zip(earlier.busy).map(|(now, then)| now.saturating_sub(then)),
            crypto: self.crypto.since(&earlier.crypto),
            transport: Counters {
                bytes_sent: now.bytes_sent - then.bytes_sent,
                frames_sent: now.frames_sent - then.frames_sent,
                write_calls: now.write_calls - then.write_calls,
                packets_sent: now.packets_sent - then.packets_sent,
                retransmissions: now.retransmissions - then.retransmissions,
                retransmission_timeouts: now
                    .retransmission_timeouts
                    .map(|timeouts| timeouts - then.retransmission_timeouts.unwrap_or(0)),
                bytes_received: now.bytes_received - then.bytes_received,
                frames_received: now.frames_received - then.frames_received,
                frames_dropped: now.frames_dropped - then.frames_dropped,
                ..*now
            },
        }
    }
}

/// Lets a sample of the cryptography be timed from now on.
pub(crate) fn time_crypto() {
    meter::time_with(|| thread_cpu_time().as_nanos() as u64);
}

/// Returns the CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "every supported kernel counts a thread's CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the time that the calling thread ran or was runnable; `None` if the kernel does not report it.
pub fn thread_schedule() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (ran, waited) = (numbers.next()??, numbers.next()??);
    Some(Duration::from_nanos(ran.saturating_add(waited)))
}
