//! Networks that silently drop everything: missing acknowledgements reveal the cut, long before TCP gives up.

use bytes::{Bytes, BytesMut};
use quorate_network::channels::{ChannelFactory, Side};
use quorate_network::transports::{TcpConfig, WireSettings};
use quorate_testkit::ends::{End, Ground, R1, TcpPlain, drive, drive_with, quick, replica_end};
use quorate_types::{Lane, ReplicaId};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Settings that end a link after this time without an acknowledgement.
fn impatient(unacknowledged_ms: u64) -> WireSettings {
    WireSettings {
        links: quick(),
        tcp: TcpConfig { unacknowledged_ms, ..TcpConfig::default() },
        ..WireSettings::default()
    }
}

/// Replica 0 as a transport, and replica 1 as a bare stream after the handshake.
fn transport_and_stream(config: WireSettings) -> (Ground, End, TcpListener, TcpStream) {
    let mut ground = Ground::new(2);
    let listener = ground.listeners[1].take().expect("not used yet");
    listener.set_nonblocking(true).expect("non-blocking");
    let end = replica_end(ground.committee.cluster, 0, 0);
    let mut a = ground.end::<TcpPlain>(0, end, config);
    let stream = accept(&ground, &mut a, &listener);
    (ground, a, listener, stream)
}

fn accept(ground: &Ground, a: &mut End, listener: &TcpListener) -> TcpStream {
    let mut accepted = None;
    drive_with([a], "replica 0 dials", |_| {
        accepted = accepted.take().or_else(|| listener.accept().ok());
        accepted.is_some()
    });
    let (mut stream, _) = accepted.expect("just accepted");
    stream.set_nonblocking(true).expect("non-blocking");
    let mut channel = replica_end(ground.committee.cluster, 1, 1).open(Side::Responder).expect("a channel");
    let (mut wire, mut plain, mut out) = (BytesMut::new(), BytesMut::new(), Vec::new());
    channel.start(&mut out);
    drive_with([a], "the handshake", |_| {
        let mut buffer = [0; 4_096];
        if let Ok(count) = stream.read(&mut buffer) {
            wire.extend_from_slice(&buffer[..count]);
            channel.receive(&mut wire, &mut plain, &mut out).expect("an honest replica");
        }
        stream.write_all(&std::mem::take(&mut out)).expect("write");
        channel.remote().is_some()
    });
    drive([a], "the other end is convinced, too", |[a]| a.transport.is_connected(ReplicaId(1)));
    stream
}

/// Makes the kernel drop every packet that arrives for the stream: data is not acknowledged, and nothing else is
/// answered. Packets begin with a TTL of 64, and those with less than 255 are refused. Unlike a filter, this needs no
/// privileges on any kernel.
#[cfg(target_os = "linux")]
fn make_deaf(stream: &TcpStream) {
    let least: libc::c_int = 255;
    // SAFETY: the kernel reads one integer, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MINTTL,
            (&raw const least).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_on_which_nothing_is_acknowledged_is_dialled_again() {
    let (ground, mut a, listener, deaf) = transport_and_stream(impatient(300));
    make_deaf(&deaf);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"into the void"), Lane::Ordinary);
    drive([&mut a], "the cut is noticed", |[a]| a.lost(R1).is_some());
    let why = a.lost(R1).expect("just seen");
    assert!(why.contains("nothing was acknowledged for 300 ms"), "{why}");
    let mut healed = accept(&ground, &mut a, &listener);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"through"), Lane::Ordinary);
    let mut heard = Vec::new();
    drive_with([&mut a], "a frame on the new link", |_| {
        let mut buffer = [0; 4_096];
        let count = healed.read(&mut buffer).unwrap_or(0);
        heard.extend_from_slice(&buffer[..count]);
        heard.ends_with(b"through")
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_remote_that_only_does_not_read_is_kept() {
    let (_ground, mut a, _listener, mut stream) = transport_and_stream(impatient(40));
    let frame = Bytes::from(vec![1; 100_000]);
    let mut before = u64::MAX;
    while a.transport.counters().bytes_sent != before {
        before = a.transport.counters().bytes_sent;
        (0..20).for_each(|_| a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary));
        (0..5).for_each(|_| a.poll());
    }
    // Its window is closed; the kernel probes it, and it answers.
    for _ in 0..300 {
        a.poll();
    }
    assert_eq!(a.lost(R1), None);
    let mut buffer = vec![0; 1 << 20];
    drive_with([&mut a], "the remote reads again", |[a]| {
        let _ = stream.read(&mut buffer);
        a.transport.counters().bytes_sent > before
    });
}
