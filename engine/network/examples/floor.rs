//! Minimum cost of a payload on this machine: hashing it once, copying it once, and sending it once over a loopback
//! connection. A cluster of n replicas that receive every command from the clients pays n times the sum before it
//! orders anything.
//!
//! `cargo run --release -p quorate-network --example floor -- 4096`

use quorate_types::Hasher;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Bytes processed for each figure.
const VOLUME_BYTES: usize = 1 << 30;
/// Bytes in one write and one read of the connection.
const CHUNK_BYTES: usize = 256 << 10;

/// User plus system time of this process so far.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid location for the result.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "every kernel that this runs on counts a process's CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(what: &str, payload: usize, work: impl FnOnce()) -> f64 {
    let before = cpu();
    work();
    let us = (cpu() - before).as_secs_f64() * 1e6 / (VOLUME_BYTES / payload) as f64;
    println!("{what:>24} {us:7.2} us per {payload} B   {:6.0} MB/s per core", payload as f64 / us);
    us
}

fn main() {
    let payload: usize = std::env::args().nth(1).map_or(4096, |text| text.parse().expect("a number of bytes"));
    assert!((1..=CHUNK_BYTES).contains(&payload), "between 1 and {CHUNK_BYTES} bytes");
    let (source, mut target) = (vec![7u8; VOLUME_BYTES / 16], vec![0u8; VOLUME_BYTES / 16]);
    let hash = report("SHA-256", payload, || {
        for at in 0..VOLUME_BYTES / payload {
            let start = at * payload % (source.len() - payload);
            let mut hasher = Hasher::new(*b"exam");
            hasher.update(&source[start..start + payload]);
            black_box(hasher.finish());
        }
    });
    let copy = report("copy in memory", payload, || {
        for _ in 0..16 {
            target.copy_from_slice(black_box(&source));
            black_box(&target);
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be listened on");
    let address = listener.local_addr().expect("the listener has an address");
    let tcp = report("loopback, both ends", payload, || {
        let writer = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("the listener accepts");
            let chunk = vec![7u8; CHUNK_BYTES];
            (0..VOLUME_BYTES / CHUNK_BYTES).for_each(|_| stream.write_all(&chunk).expect("the reader reads"));
        });
        let (mut stream, _) = listener.accept().expect("the writer connects");
        let mut chunk = vec![0u8; CHUNK_BYTES];
        while stream.read(&mut chunk).expect("the writer writes") > 0 {}
        writer.join().expect("the writer does not panic");
    });
    println!("{:>24} {:7.2} us", "hash and loopback", hash + tcp);
    println!("{:>24} {:7.2} us", "hash and copy", hash + copy);
}
