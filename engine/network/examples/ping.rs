//! CPU time per message over loopback: one replica exchanges 128-byte messages with three peers.
//!
//! `cargo run --release -p quorate-network --example ping`
//!
//! Each exchange is two messages, a request and its echo. The figure is the user plus system time of the whole process
//! (both ends) per message. `depth` is the number of requests in flight to each peer. `raw` is the minimum with epoll:
//! one epoll_wait, one recv and one send per message, without framing.

use bytes::Bytes;
use quorate_network::channels::{ChannelConfig, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Sessions, Versions};
use quorate_network::transports::{Event, LinkConfig, TcpTransport, Transport};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{Committee, Lane, Member, Parameters, ReplicaId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PEERS: u16 = 3;
const MESSAGE_BYTES: usize = 128;
const MESSAGES: u64 = 600_000;

struct Unsigned(ReplicaId);

impl Signer for Unsigned {
    fn replica(&self) -> ReplicaId {
        self.0
    }
    fn sign(&self, _message: &[u8]) -> Bytes {
        Bytes::new()
    }
}

impl Verifier for Unsigned {
    fn verify(&self, _replica: ReplicaId, _message: &[u8], _signature: &[u8]) -> bool {
        true
    }
}

fn cpu_seconds() -> f64 {
    // SAFETY: an all-zero rusage is valid, and the call fills in the one passed.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn transports() -> Vec<TcpTransport> {
    let listeners: Vec<_> = (0..=PEERS).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("a bound address");
    let none = Bytes::new;
    let member = |listener| Member {
        address: address(listener).into(),
        identity_key: none(),
        voting_key: none(),
        possession: none(),
    };
    let members = listeners.iter().map(member).collect();
    let committee = Committee::new("ping", members).expect("a small committee");
    let ends = committee.replicas().zip(listeners).map(|(me, listener)| {
        let channel = ChannelConfig {
            kind: ChannelKind::PLAIN,
            cluster: committee.cluster,
            epoch: committee.epoch,
            me: LocalEnd::Replica(Arc::new(Unsigned(me))),
            verifier: Arc::new(Unsigned(me)),
            parameters: Parameters::default(),
            versions: Versions::ALL,
            key_update_records: KEY_UPDATE_RECORDS,
            sessions: Sessions::default(),
        };
        TcpTransport::replica(&committee, Some(listener), channel, LinkConfig::default()).expect("a transport")
    });
    ends.collect()
}

fn echo(mut transport: TcpTransport, stop: &AtomicBool) {
    let mut events = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        transport.poll(Some(Duration::from_millis(100)), &mut events).expect("poll");
        for event in events.drain(..) {
            if let Event::Received { link, frame, .. } = event {
                transport.send(link, frame);
            }
        }
    }
}

fn quorate(depth: u64) {
    let mut transports = transports();
    let mut center = transports.remove(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for transport in transports {
            let stop = &stop;
            scope.spawn(move || echo(transport, stop));
        }
        let mut events = Vec::new();
        while !(1..=PEERS).all(|peer| center.is_connected(ReplicaId(peer))) {
            center.poll(Some(Duration::from_millis(10)), &mut events).expect("poll");
        }
        events.clear();
        let message = Bytes::from(vec![7; MESSAGE_BYTES]);
        let (cpu, clock, before) = (cpu_seconds(), Instant::now(), center.counters());
        for peer in 1..=PEERS {
            (0..depth).for_each(|_| center.send_to(ReplicaId(peer), message.clone(), Lane::Ordinary));
        }
        let mut echoed = 0;
        while echoed < MESSAGES / 2 {
            center.poll(None, &mut events).expect("poll");
            for event in events.drain(..) {
                if let Event::Received { link, frame, .. } = event {
                    echoed += 1;
                    center.send(link, frame);
                }
            }
        }
        let writes = center.counters().write_calls - before.write_calls;
        report(&format!("quorate, depth {depth}"), cpu, clock, echoed * 2, Some(writes));
        stop.store(true, Ordering::Relaxed);
    });
}

/// Uses epoll although a blocking recv would be cheaper, because a blocking recv can serve only one peer.
fn raw_end(mut streams: Vec<TcpStream>, opens: bool, rounds: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: plain system calls on descriptors that live as long as `streams`.
    let epoll = unsafe { libc::epoll_create1(0) };
    for (at, stream) in streams.iter_mut().enumerate() {
        stream.set_nodelay(true).expect("nodelay");
        stream.set_nonblocking(true).expect("non-blocking");
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: at as u64 };
        // SAFETY: see above.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event) };
        if opens {
            stream.write_all(&[7; MESSAGE_BYTES]).expect("room for one message");
        }
    }
    let mut done = 0;
    let mut buffer = [0; 65_536];
    let mut ready = [libc::epoll_event { events: 0, u64: 0 }; 64];
    while done < rounds {
        // SAFETY: the array outlives the call, and its length is passed.
        let count = unsafe { libc::epoll_wait(epoll, ready.as_mut_ptr(), ready.len() as i32, -1) };
        for event in &ready[..count.max(0) as usize] {
            let stream = &mut streams[event.u64 as usize];
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(bytes) => {
                    done += 1;
                    if stream.write_all(&buffer[..bytes]).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

fn raw() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    std::thread::scope(|scope| {
        let mut center = Vec::new();
        for _ in 0..PEERS {
            center.push(TcpStream::connect(address).expect("connect"));
            let peer = listener.accept().expect("accept").0;
            scope.spawn(move || raw_end(vec![peer], false, u64::MAX));
        }
        let (cpu, clock) = (cpu_seconds(), Instant::now());
        raw_end(center, true, MESSAGES / 2);
        report("raw epoll, depth 1", cpu, clock, MESSAGES, None);
    });
}

fn report(what: &str, cpu: f64, clock: Instant, messages: u64, writes: Option<u64>) {
    let cpu = (cpu_seconds() - cpu) * 1e6 / messages as f64;
    let rate = messages as f64 / clock.elapsed().as_secs_f64();
    let per_write =
        writes.map_or(String::new(), |w| format!(", {:.1} messages per write", messages as f64 / 2.0 / w as f64));
    println!("{what}: {cpu:.2} us CPU per message, both ends; {rate:.0} messages/s{per_write}");
}

fn main() {
    raw();
    for depth in [1, 8, 64, 512] {
        quorate(depth);
    }
}
