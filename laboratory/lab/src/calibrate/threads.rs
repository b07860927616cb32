//! Costs of system calls, and of putting a thread to sleep and waking it.

use super::{CalibrateError, LARGE_BYTES, MEASURED, ROUNDS, SMALL_BYTES, US_PER_NS, time};
use crate::affinity::{self, Pinned};
use quorate_client::load::thread_cpu_time;
use quorate_simulator::CostTable;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// Writes, and then reads, between two readings of the CPU time, which is a system call itself. They fit into the
/// buffers of a connection.
const CALLS: u32 = 64;
/// Messages exchanged by two threads in one round.
const PINGS: u32 = 2_000;
/// Requested sleep, the same as the load generator's.
const ASLEEP: Duration = Duration::from_micros(100);
const SLEEPS: usize = 200;
/// Time for which each core is watched for other work.
const SPINNING: Duration = Duration::from_secs(1);
/// Lower bounds of the classes of interruptions, in microseconds. Shorter ones are part of every measured cost.
const GAP_CLASSES_US: [u64; 4] = [20, 100, 1_000, 10_000];
/// File in which Linux reports the time after which a thread that never sleeps yields its core, if debugfs is mounted.
const SLICE_NS_FILE: &str = "/sys/kernel/debug/sched/base_slice_ns";
/// The same in Linux 6.18 on one core. Each doubling of the cores, up to 8, adds as much again.
const BASE_SLICE_US: f64 = 700.0;
const MAX_SLICE_CORES: usize = 8;
/// Time between two ticks of a kernel with 250 per second. The end of a slice is noticed at the next one.
const TICK_US: f64 = 4_000.0;
/// Links of a replica among four: its peers and one client machine.
const LINKS: usize = 4;
/// Interval between balancings, in which an idle core takes a thread from another. Estimated: scheduler traces show
/// zero to twelve per second.
const BALANCE_US: f64 = 100_000.0;
/// Maximum plausible cost of a wake-up, in nanoseconds.
const MAX_WAKE_NS: f64 = 1e6;

/// Returns both ends of a new connection over loopback.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Measures a write and a read of a small message over loopback on one thread, a wait without events, and the cost per
/// byte of a large message.
pub(super) fn system_calls(table: &mut CostTable) -> Result<(), CalibrateError> {
    let (mut sender, mut receiver) = connection()?;
    let (mut write, mut read) = (f64::MAX, f64::MAX);
    let mut buffer = vec![0; LARGE_BYTES];
    for _ in 0..ROUNDS {
        let (mut writing, mut reading, mut calls) = (Duration::ZERO, Duration::ZERO, 0u32);
        let start = Instant::now();
        while start.elapsed() < MEASURED / ROUNDS as u32 {
            let before = thread_cpu_time();
            for _ in 0..CALLS {
                sender.write_all(&[1; SMALL_BYTES])?;
            }
            let between = thread_cpu_time();
            for _ in 0..CALLS {
                receiver.read_exact(&mut buffer[..SMALL_BYTES])?;
            }
            reading += thread_cpu_time() - between;
            writing += between - before;
            calls += CALLS;
        }
        write = write.min(writing.as_nanos() as f64 / f64::from(calls));
        read = read.min(reading.as_nanos() as f64 / f64::from(calls));
    }
    table.wire.write_call_us = write * US_PER_NS;
    table.wire.read_call_us = read * US_PER_NS;
    table.client.further_write_us = write * US_PER_NS;
    table.core.turn_us = waiting()? * US_PER_NS;
    let mut failed = None;
    let part = LARGE_BYTES / 4;
    let both = time(|| {
        let moved = sender.write_all(&buffer[..part]).and_then(|()| receiver.read_exact(&mut buffer[..part]));
        failed = failed.take().or(moved.err());
    });
    if let Some(error) = failed {
        return Err(error.into());
    }
    let bytes = (both - write - read).max(0.0) / part as f64;
    table.wire.receive_byte_ns = bytes / 2.0;
    table.wire.send_byte_ns += bytes / 2.0;
    table.client.send_byte_ns = bytes / 2.0;
    Ok(())
}

/// Measures a wait that does not block, with which each iteration of a replica begins: `epoll` over as many links as it
/// has, one of them ready. Returns nanoseconds.
fn waiting() -> io::Result<f64> {
    let links = (0..LINKS).map(|_| connection()).collect::<io::Result<Vec<_>>>()?;
    // SAFETY: no arguments are pointers.
    let poll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if poll < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else closes it.
    let poll = unsafe { OwnedFd::from_raw_fd(poll) };
    for (at, (own, _)) in links.iter().enumerate() {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: at as u64 };
        // SAFETY: both descriptors are open, and `event` is valid.
        if unsafe { libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, own.as_raw_fd(), &raw mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    (&links[0].1).write_all(&[1; SMALL_BYTES])?;
    let mut ready = [libc::epoll_event { events: 0, u64: 0 }; LINKS];
    Ok(time(|| {
        // SAFETY: `ready` has as many entries as the call is allowed to write.
        black_box(unsafe { libc::epoll_wait(poll.as_raw_fd(), ready.as_mut_ptr(), LINKS as i32, 0) });
    }))
}

/// Measures a wake-up with two threads that wait for each other's messages: the CPU time of a message, less a write and
/// a read. The excess of a sleep over its requested time, less a wake-up, is the scheduling delay.
pub(super) fn wake_ups(table: &mut CostTable) -> Result<(), CalibrateError> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push(ping_pong()?);
    }
    let calls = table.wire.write_call_us + table.wire.read_call_us;
    table.core.wake_us = (median(&mut rounds).min(MAX_WAKE_NS) * US_PER_NS - calls).max(0.0);
    let mut late: Vec<f64> = (0..SLEEPS)
        .map(|_| {
            let start = Instant::now();
            thread::sleep(ASLEEP);
            start.elapsed().saturating_sub(ASLEEP).as_nanos() as f64
        })
        .collect();
    let (cpu, wall) = pinned_ping_pong()?;
    let delay = wall.saturating_sub(cpu).as_nanos() as f64;
    table.scheduler.idle_delay_us = delay.min(MAX_WAKE_NS) * US_PER_NS;
    let on_time = table.core.wake_us + table.scheduler.idle_delay_us;
    table.client.late_us = (median(&mut late) * US_PER_NS - on_time).max(0.0);
    Ok(())
}

/// Returns both threads' CPU time and the time per message, with each thread on its own core and asleep until a message
/// arrives.
fn pinned_ping_pong() -> io::Result<(Duration, Duration)> {
    let (one, other) = connection()?;
    let answering = thread::spawn(move || {
        let _pinned = Pinned::at(1)?;
        exchange(other, false)
    });
    let _pinned = Pinned::at(0)?;
    let start = Instant::now();
    let sent = exchange(one, true)?;
    let wall = start.elapsed();
    let answered = answering.join().expect("an exchange does not panic")?;
    Ok(((sent + answered) / (2 * PINGS), wall / (2 * PINGS)))
}

/// Measures the work of other threads on each core: periods in which a thread that never waits does not run. The time
/// slice comes from the kernel. The kernel does not publish its balancing interval, so that is [`BALANCE_US`].
pub(super) fn scheduler(table: &mut CostTable) -> Result<(), CalibrateError> {
    let cores = affinity::available().max(1);
    let spinning: Vec<_> = (0..cores).map(|core| thread::spawn(move || gaps(core))).collect();
    let mut classes = [(0u64, Duration::ZERO); GAP_CLASSES_US.len()];
    for gaps in spinning {
        for gap in gaps.join().expect("a thread that spins does not panic")? {
            let us = gap.as_micros() as u64;
            let class = GAP_CLASSES_US.iter().rposition(|least| us >= *least).expect("shorter gaps are not kept");
            (classes[class].0, classes[class].1) = (classes[class].0 + 1, classes[class].1 + gap);
        }
    }
    let seconds = SPINNING.as_secs_f64() * cores as f64;
    let class = |(count, total): &(u64, Duration)| {
        (*count as f64 / seconds, total.as_nanos() as f64 * US_PER_NS / *count as f64)
    };
    table.scheduler.interruptions = classes.iter().filter(|(count, _)| *count > 0).map(class).collect();
    let said = std::fs::read_to_string(SLICE_NS_FILE).ok().and_then(|text| text.trim().parse::<f64>().ok());
    let base_us = said.map_or_else(|| base_slice_us(cores), |ns| ns * US_PER_NS);
    table.scheduler.slice_us = (base_us / TICK_US).ceil().max(1.0) * TICK_US;
    (table.scheduler.balance_us, table.scheduler.preempts) = (BALANCE_US, true);
    Ok(())
}

/// Returns the slice of a kernel that does not report its own.
fn base_slice_us(cores: usize) -> f64 {
    BASE_SLICE_US * (1 + cores.clamp(1, MAX_SLICE_CORES).ilog2()) as f64
}

/// Returns the periods in which a thread on this core did not run although it never waited.
fn gaps(core: usize) -> io::Result<Vec<Duration>> {
    let _pinned = Pinned::at(core)?;
    let start = Instant::now();
    let (mut gaps, mut last) = (Vec::new(), start);
    while last - start < SPINNING {
        let now = Instant::now();
        if now - last >= Duration::from_micros(GAP_CLASSES_US[0]) {
            gaps.push(now - last);
        }
        last = now;
    }
    Ok(gaps)
}

/// Returns both threads' CPU time per message, in nanoseconds.
fn ping_pong() -> io::Result<f64> {
    let (one, other) = connection()?;
    let answering = thread::spawn(move || exchange(other, false));
    let sent = exchange(one, true)?;
    let answered = answering.join().expect("an exchange does not panic")?;
    Ok((sent + answered).as_nanos() as f64 / f64::from(2 * PINGS))
}

/// Exchanges messages, and returns this thread's CPU time.
fn exchange(mut stream: TcpStream, begins: bool) -> io::Result<Duration> {
    let (before, mut message) = (thread_cpu_time(), [1; SMALL_BYTES]);
    for _ in 0..PINGS {
        if begins {
            stream.write_all(&message)?;
        }
        stream.read_exact(&mut message)?;
        if !begins {
            stream.write_all(&message)?;
        }
    }
    Ok(thread_cpu_time() - before)
}

/// Returns the median of at least one value. Other work delays some rounds, and shared cores make others cheaper than
/// they are, so neither extreme counts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
