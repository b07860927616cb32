//! System calls, and what it costs to put a thread to sleep and wake it.

use super::{CalibrateError, LARGE_BYTES, MEASURED, ROUNDS, SMALL_BYTES, US_PER_NS, time};
use quorate_client::load::thread_cpu_time;
use quorate_simulator::CostTable;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

/// Writes, and then reads, between two readings of the processor time, which is a system call itself. They fit into the
/// buffers of a connection.
const CALLS: u32 = 64;
/// Messages that two threads send to each other in one round.
const PINGS: u32 = 2_000;
/// Time for which a thread asks to sleep, as the load generator does.
const ASLEEP: Duration = Duration::from_micros(100);
const SLEEPS: usize = 200;
/// Maximum number of nanoseconds that a wake-up is believed to cost.
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

/// Measures a write and a read of a small message over loopback on one thread, a wait that finds nothing, and the cost
/// per byte of a large message.
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
    let waiting = time(|| {
        black_box(is_readable(&receiver));
    });
    table.core.turn_us = waiting * US_PER_NS;
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

/// Returns whether a stream has bytes to read, without waiting.
fn is_readable(stream: &TcpStream) -> bool {
    let mut wait = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `wait` is one valid entry, and its descriptor is open.
    unsafe { libc::poll(&raw mut wait, 1, 0) > 0 }
}

/// Measures a wake-up by two threads that wait for each other's messages: the processor time of a message, less a
/// write and a read. The time of a sleep beyond the one asked for, less a wake-up, is how late a thread runs again.
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
    table.client.late_us = (median(&mut late) * US_PER_NS - table.core.wake_us).max(0.0);
    Ok(())
}

/// Returns the processor time of both threads per message, in nanoseconds.
fn ping_pong() -> io::Result<f64> {
    let (one, other) = connection()?;
    let answering = thread::spawn(move || exchange(other, false));
    let sent = exchange(one, true)?;
    let answered = answering.join().expect("an exchange does not panic")?;
    Ok((sent + answered).as_nanos() as f64 / f64::from(2 * PINGS))
}

/// Exchanges messages, and returns the processor time of this thread.
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
