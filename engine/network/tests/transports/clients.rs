//! Limits on client links: memory, time and places, and the order of eviction.

use bytes::Bytes;
use quorate_network::transports::framing::CHUNK_BYTES;
use quorate_network::transports::{Event, LinkConfig, LinkId};
use quorate_testkit::ends::{End, connected, drive_with};
use quorate_testkit::ends::{Ground, R0, Stack, TcpPlain, TcpTls, client, client_end, drive, quick, replica_end};
use quorate_types::{Lane, ReplicaId, ReplicaReply, decode_message};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

fn alone(config: LinkConfig) -> (Ground, End) {
    let mut ground = Ground::new(1);
    let end = replica_end(ground.committee.cluster, 0, 0);
    let a = ground.end::<TcpPlain>(0, end, config);
    (ground, a)
}

/// A client's connection from 127.0.0.`host` that completes the handshake, and then is controlled by the test.
fn dial(ground: &Ground, a: &mut End, id: u64, host: u8) -> (TcpStream, LinkId) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SockAddr::from(std::net::SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)))).expect("bind");
    socket.connect(&SockAddr::from(ground.address(0))).expect("connect");
    let mut stream = TcpStream::from(socket);
    let mut channel = TcpPlain::client_channel(client_end(ground.committee.cluster, id), ReplicaId(0));
    let mut hello = Vec::new();
    channel.start(&mut hello);
    stream.write_all(&hello).expect("write");
    drive([a], "the hello is answered", |[a]| a.link_to(client(id)).is_some());
    let link = a.link_to(client(id)).expect("just seen");
    (stream, link)
}

fn is_lost(a: &End, id: u64) -> bool {
    a.lost(client(id)).is_some()
}

/// Sends the first `sent` bytes of a frame announced with `announced` bytes.
fn partial(stream: &mut TcpStream, announced: u32, sent: usize) {
    stream.write_all(&announced.to_le_bytes()).expect("write");
    stream.write_all(&vec![7; sent]).expect("write");
}

#[test]
fn a_socket_is_not_read_while_its_frames_wait_to_be_served() {
    const WINDOW: usize = 64 << 10;
    const FRAMES: usize = 4_000;
    let (ground, mut a) = alone(LinkConfig { client_window_bytes: WINDOW, ..quick() });
    let mut c = ground.client::<TcpPlain>(5);
    drive([&mut a, &mut c], "a client connects", |[a, c]| a.link_to(client(5)).is_some() && c.link_to(R0).is_some());
    let frame = Bytes::from(vec![1; 1_000]);
    (0..FRAMES).for_each(|_| c.transport.send_to(ReplicaId(0), frame.clone(), Lane::Ordinary));
    for _ in 0..200 {
        a.poll();
        c.poll();
    }
    assert!(a.received() > 0 && a.received() * 1_000 <= WINDOW + (64 << 10), "{} frames", a.received());
    let mut served = 0;
    drive_with([&mut a, &mut c], "the rest, as it is served", |[a, _]| {
        for event in a.events.drain(..) {
            if let Event::Received { link, frame, .. } = event {
                a.transport.release(link, frame.len());
                served += 1;
            }
        }
        served == FRAMES
    });
    assert_eq!(c.transport.counters().frames_dropped, 0, "a frame was dropped instead of left in the socket");
}

#[test]
fn a_deferred_client_does_not_end_a_wait_and_a_peer_does() {
    const PATIENCE: Duration = Duration::from_millis(300);
    let mut ground = Ground::new(2);
    let (mut a, mut b) = (ground.replica::<TcpPlain>(0), ground.replica::<TcpPlain>(1));
    let (_stream, _) = dial(&ground, &mut a, 5, 1);
    let (mut stream, _) = dial(&ground, &mut a, 6, 1);
    drive([&mut a, &mut b], "the peers connect", |[a, b]| connected(a, b));
    let frame = [4, 0, 0, 0, 1, 2, 3, 4];
    a.transport.defer_clients(Some(PATIENCE));
    a.poll();
    let waits = |a: &mut End| {
        let (before, start) = (a.received(), Instant::now());
        a.transport.poll(Some(PATIENCE * 100), &mut a.events).expect("poll");
        (a.received() - before, start.elapsed())
    };
    stream.write_all(&frame).expect("write");
    let (frames, waited) = waits(&mut a);
    assert_eq!(frames, 1, "the frame is read at the end of the wait");
    assert!(waited >= PATIENCE, "a client's frame ended the wait after {waited:?}");
    stream.write_all(&frame).expect("write");
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"peer"), Lane::Ordinary);
    b.poll();
    let (frames, waited) = waits(&mut a);
    assert_eq!(frames, 2, "a peer's frame ends the wait, and the client's is read with it");
    assert!(waited < PATIENCE, "{waited:?}");
    a.transport.defer_clients(Some(PATIENCE));
    stream.write_all(&frame).expect("write");
    a.transport.defer_clients(None);
    let (frames, waited) = waits(&mut a);
    assert_eq!(frames, 1, "a frame that came meanwhile is not lost");
    assert!(waited < PATIENCE * 10, "{waited:?}");
}

#[test]
fn many_clients_that_were_deferred_are_all_read() {
    // More than one poll takes from the kernel.
    const CLIENTS: u64 = 260;
    let (ground, mut a) = alone(quick());
    let mut streams: Vec<_> = (0..CLIENTS).map(|id| dial(&ground, &mut a, id, 1).0).collect();
    a.transport.defer_clients(Some(Duration::from_millis(1)));
    a.poll();
    streams.iter_mut().for_each(|stream| stream.write_all(&[4, 0, 0, 0, 1, 2, 3, 4]).expect("write"));
    drive([&mut a], "all frames arrive", |[a]| a.received() == CLIENTS as usize);
}

#[test]
fn a_wait_of_less_than_a_millisecond_ends_on_time() {
    const WAIT: Duration = Duration::from_micros(300);
    let (_ground, mut a) = alone(quick());
    let shortest = (0..50).map(|_| {
        let start = Instant::now();
        a.transport.poll(Some(WAIT), &mut a.events).expect("poll");
        start.elapsed()
    });
    let shortest = shortest.min().expect("several");
    assert!(shortest >= WAIT && shortest < WAIT * 3, "{shortest:?}");
}

#[test]
fn unserved_frames_are_dropped_when_their_client_leaves() {
    const FRAMES: usize = 30_000;
    let (ground, mut a) = alone(LinkConfig { client_window_bytes: 4 << 10, ..quick() });
    let (mut stream, _) = dial(&ground, &mut a, 5, 1);
    stream.write_all(&[4, 0, 0, 0, 1, 2, 3, 4].repeat(FRAMES)).expect("write");
    drive([&mut a], "some are read", |[a]| a.received() > 0);
    drop(stream);
    drive([&mut a], "its end is detected though nothing was served", |[a]| is_lost(a, 5));
    assert!(a.received() * 8 <= CHUNK_BYTES, "{} of {FRAMES} were handed out: more than one read", a.received());
}

#[test]
fn a_client_that_reads_nothing_is_cut() {
    let config = LinkConfig { client_queue_bytes: 1 << 20, client_stall_ms: 200, ..quick() };
    let (ground, mut a) = alone(config);
    let (_silent, link) = dial(&ground, &mut a, 5, 1);
    let (_idle, _) = dial(&ground, &mut a, 6, 1);
    let frame = Bytes::from(vec![1; 100_000]);
    drive_with([&mut a], "the client is cut", |[a]| {
        (0..20).for_each(|_| a.transport.send(link, frame.clone()));
        is_lost(a, 5)
    });
    assert!(a.lost(client(5)).expect("just seen").contains("read nothing"));
    assert!(!is_lost(&a, 6), "a client with an empty queue was cut");
    let counters = a.transport.counters();
    assert!(counters.frames_dropped > 0 && counters.clients_cut == 1, "{counters:?}");
    assert!(counters.client_memory_peak_bytes <= (1 << 20) + 100_004, "{counters:?}");
}

/// Shutdown waits for clients that read, but not for one that does not, although its timeout is an hour.
#[test]
fn shutdown_does_not_wait_for_a_client_that_reads_nothing() {
    const FRAMES: usize = 10;
    let config = LinkConfig { client_queue_bytes: 32 << 20, client_stall_ms: 3_600_000, ..quick() };
    let (ground, mut a) = alone(config);
    let mut reads = ground.client::<TcpPlain>(6);
    drive([&mut a, &mut reads], "the client connects", |[a, c]| {
        a.link_to(client(6)).is_some() && c.link_to(R0).is_some()
    });
    let (_silent, silent) = dial(&ground, &mut a, 5, 1);
    let frame = Bytes::from(vec![1; 100_000]);
    (0..20 * FRAMES).for_each(|_| a.transport.send(silent, frame.clone()));
    let reading = a.link_to(client(6)).expect("just seen");
    (0..FRAMES).for_each(|_| a.transport.send(reading, frame.clone()));
    a.transport.stop_accepting();
    assert!(a.transport.has_unsent());
    drive([&mut a, &mut reads], "nothing is left", |[a, _]| !a.transport.has_unsent());
    assert!(is_lost(&a, 5) && !is_lost(&a, 6), "{:?} {:?}", a.lost(client(5)), a.lost(client(6)));
    drive([&mut a, &mut reads], "all of it is read", |[_, c]| c.received() == FRAMES);
}

#[test]
fn a_client_with_an_incomplete_frame_is_cut() {
    let (ground, mut a) = alone(LinkConfig { client_frame_timeout_ms: 200, client_frame_bytes: 1 << 20, ..quick() });
    let (mut stuck, _) = dial(&ground, &mut a, 5, 1);
    partial(&mut stuck, 1 << 20, 1_000);
    let (mut long, _) = dial(&ground, &mut a, 6, 1);
    partial(&mut long, (1 << 20) + 1, 0);
    // Frames that arrive one by one, each in two halves, complete in time, although at any moment one is incomplete.
    let (mut slow, _) = dial(&ground, &mut a, 7, 1);
    slow.write_all(&[4, 0, 0, 0, 1, 2]).expect("write");
    drive_with([&mut a], "both are cut", |[a]| {
        slow.write_all(&[3, 4, 4, 0, 0, 0, 1, 2]).expect("write");
        is_lost(a, 5) && is_lost(a, 6)
    });
    assert!(a.lost(client(5)).expect("just seen").contains("was incomplete after 200 ms"));
    assert!(a.lost(client(6)).expect("just seen").contains("over the limit of 1048576"));
    assert!(!is_lost(&a, 7));
}

/// The client keeps sending data, which the replica will not read.
fn a_client_with_a_frame_over_the_limit_is_told_why<S: Stack>() {
    const LIMIT: usize = 50_000;
    let mut ground = Ground::new(1);
    let end = replica_end(ground.committee.cluster, 0, 0);
    let mut a = ground.end::<S>(0, end, LinkConfig { client_frame_bytes: LIMIT, ..quick() });
    let mut c = ground.client::<S>(5);
    drive([&mut a, &mut c], "a client connects", |[a, c]| a.link_to(client(5)).is_some() && c.link_to(R0).is_some());
    c.transport.send_to(ReplicaId(0), Bytes::from(vec![1; LIMIT]), Lane::Ordinary);
    c.transport.send_to(ReplicaId(0), Bytes::from(vec![2; LIMIT + 1]), Lane::Ordinary);
    (0..100).for_each(|_| c.transport.send_to(ReplicaId(0), Bytes::from(vec![3; LIMIT]), Lane::Ordinary));
    drive_with([&mut a, &mut c], "both ends see the end", |[a, c]| a.lost(client(5)).is_some() && c.lost(R0).is_some());
    assert!(a.lost(client(5)).is_some_and(|why| why.contains("over the limit of 50000")));
    assert_eq!(a.frames_from(client(5)).len(), 1, "only the frame within the limit arrives");
    let expected = ReplicaReply::FrameTooLong { bytes: LIMIT as u32 + 1, max_bytes: LIMIT as u32 };
    let told: Vec<ReplicaReply> =
        c.frames_from(R0).iter().map(|frame| decode_message(Bytes::copy_from_slice(frame)).expect("a reply")).collect();
    assert_eq!(told, [expected]);
}

#[test]
fn a_client_with_a_frame_over_the_limit_is_told_why_over_plain_and_tls() {
    a_client_with_a_frame_over_the_limit_is_told_why::<TcpPlain>();
    a_client_with_a_frame_over_the_limit_is_told_why::<TcpTls>();
}

#[test]
fn strangers_that_hold_the_most_memory_are_cut_first() {
    const LIMIT: usize = 4 << 20;
    let (ground, mut a) = alone(LinkConfig { client_memory_bytes: LIMIT, ..quick() });
    let (_kept, genuine) = dial(&ground, &mut a, 1, 1);
    a.transport.vouch(genuine, true);
    let frame = Bytes::from(vec![1; 100_000]);
    // More than its socket accepts, so that it holds more memory than any other link.
    (0..30).for_each(|_| a.transport.send(genuine, frame.clone()));
    let (mut modest, _) = dial(&ground, &mut a, 2, 1);
    partial(&mut modest, 1 << 20, 1_000);
    let mut crowd = Vec::new();
    for id in 100..160 {
        let (mut stream, _) = dial(&ground, &mut a, id, 1 + (id % 3) as u8);
        stream.set_nonblocking(true).expect("non-blocking");
        let _ = stream.write(&(8_u32 << 20).to_le_bytes());
        let _ = stream.write(&vec![7; 300_000]);
        (0..20).for_each(|_| a.poll());
        crowd.push(stream);
    }
    let counters = a.transport.counters();
    assert!(counters.clients_cut > 10, "{counters:?}");
    assert!(counters.client_memory_peak_bytes <= LIMIT as u64, "{counters:?}");
    assert!(!is_lost(&a, 1), "a genuine link was cut");
    assert!(!is_lost(&a, 2), "a link that holds next to nothing was cut");
    let why = a.events.iter().find_map(|event| match event {
        Event::Disconnected { why, .. } => Some(why.clone()),
        _ => None,
    });
    assert!(why.expect("some were cut").contains("`client_memory_bytes`"));
}

#[test]
fn a_newcomer_replaces_the_idlest_link_of_the_address_with_the_most() {
    let (ground, mut a) = alone(LinkConfig { max_client_links: 6, ..quick() });
    let (_genuine, link) = dial(&ground, &mut a, 1, 1);
    a.transport.vouch(link, true);
    let _alone = dial(&ground, &mut a, 2, 2);
    let _crowd: Vec<_> = (10..14).map(|id| dial(&ground, &mut a, id, 1)).collect();
    let _newcomer = dial(&ground, &mut a, 3, 3);
    drive([&mut a], "the first of the crowd goes", |[a]| is_lost(a, 10));
    let another: Vec<_> = (20..40).map(|id| dial(&ground, &mut a, id, 1)).collect();
    drive([&mut a], "the crowd loses its own", |[a]| (10..14).all(|id| is_lost(a, id)));
    assert!(a.lost(client(10)).expect("just seen").contains("its place is needed"));
    assert!([1, 2, 3].iter().all(|id| !is_lost(&a, *id)), "a genuine or single link was cut");
    for (_, link) in &another {
        a.transport.vouch(*link, true);
    }
    let mut late = ground.client::<TcpPlain>(4);
    let _fifth = dial(&ground, &mut a, 5, 4);
    drive([&mut a, &mut late], "strangers go, one after the other", |[a, _]| is_lost(a, 2) && is_lost(a, 3));
    for id in [4, 5] {
        a.transport.vouch(a.link_to(client(id)).expect("the client has a place"), true);
    }
    let mut too_late = ground.client::<TcpPlain>(6);
    drive([&mut a, &mut late, &mut too_late], "all are genuine", |[a, ..]| a.refused_with("max_client_links"));
    assert!(!is_lost(&a, 1));
}

#[test]
fn an_address_gets_at_most_its_share_of_the_places() {
    let (ground, mut a) = alone(LinkConfig { max_client_links: 100, max_client_links_per_address: 3, ..quick() });
    let links: Vec<_> = (1..=3).map(|id| dial(&ground, &mut a, id, 1)).collect();
    let _fourth = dial(&ground, &mut a, 4, 1);
    drive([&mut a], "the first goes", |[a]| is_lost(a, 1));
    links.iter().for_each(|(_, link)| a.transport.vouch(*link, true));
    a.transport.vouch(a.link_to(client(4)).expect("connected"), true);
    let mut fifth = ground.client::<TcpPlain>(5);
    drive([&mut a, &mut fifth], "one too many", |[a, _]| a.refused_with("max_client_links_per_address"));
    let _other = dial(&ground, &mut a, 6, 2);
}

#[test]
fn one_address_does_not_crowd_out_the_handshakes_of_others() {
    let config = LinkConfig { max_unauthenticated_links: 20, max_unauthenticated_links_per_address: 5, ..quick() };
    let (ground, mut a) = alone(config);
    let silent = |host: u8| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SockAddr::from(std::net::SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0)))).expect("bind");
        socket.connect(&SockAddr::from(ground.address(0))).expect("connect");
        socket
    };
    let mut honest = TcpStream::from(silent(2));
    a.poll();
    let _crowd: Vec<_> = (0..100).map(|_| silent(1)).collect();
    drive([&mut a], "the crowd is thinned", |[a]| a.refusals.len() >= 95);
    assert!(a.refusals.iter().all(|refusal| refusal.address.is_loopback()));
    let mut hello = Vec::new();
    TcpPlain::client_channel(client_end(ground.committee.cluster, 9), ReplicaId(0)).start(&mut hello);
    honest.write_all(&hello).expect("write");
    drive([&mut a], "the honest one is in", |[a]| a.link_to(client(9)).is_some());
}
