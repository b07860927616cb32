//! Tests that every pair of transport and channel must pass. A new pair is one more line at the end.

use crate::relay::Relay;
use bytes::Bytes;
use quorate_network::transports::{Event, LinkConfig, PathChange};
use quorate_testkit::ends::*;
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{ClusterId, Lane, ReplicaId};
use std::io::{Read, Write};
use std::net::TcpStream;

fn pair<S: Stack>() -> (Ground, End, End) {
    let mut ground = Ground::new(2);
    let (mut a, mut b) = (ground.replica::<S>(0), ground.replica::<S>(1));
    drive([&mut a, &mut b], "two replicas connect", |[a, b]| connected(a, b));
    (ground, a, b)
}

fn numbered(count: u32) -> Vec<Bytes> {
    (0..count).map(|number| Bytes::copy_from_slice(&number.to_le_bytes().repeat(number as usize % 9 + 1))).collect()
}

/// Returns the frames, sorted unless the transport keeps their order.
fn ordered<S: Stack>(mut frames: Vec<Bytes>) -> Vec<Bytes> {
    if !S::keeps_order() {
        frames.sort();
    }
    frames
}

fn replicas_and_a_client_exchange_frames_in_order<S: Stack>() {
    let (ground, mut a, mut b) = pair::<S>();
    let mut c = ground.client::<S>(77);
    drive([&mut a, &mut b, &mut c], "a client connects", |[a, b, c]| {
        let links = [a.link_to(client(77)), b.link_to(client(77)), c.link_to(R0), c.link_to(R1)];
        links.iter().all(Option::is_some)
    });
    let frames = numbered(100);
    for frame in &frames {
        a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary);
        b.transport.send_to(ReplicaId(0), frame.clone(), Lane::Ordinary);
        c.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary);
        let link = b.link_to(client(77)).expect("connected above");
        b.transport.send(link, frame.clone());
    }
    drive([&mut a, &mut b, &mut c], "100 frames each way", |[a, b, c]| {
        a.received() >= 100 && b.received() >= 200 && c.received() >= 100
    });
    let frames = ordered::<S>(frames);
    assert_eq!(ordered::<S>(a.frames_from(R1)), frames);
    assert_eq!(ordered::<S>(b.frames_from(R0)), frames);
    assert_eq!(ordered::<S>(b.frames_from(client(77))), frames);
    assert_eq!(ordered::<S>(c.frames_from(R1)), frames);
    assert_eq!(c.transport.counters().frames_sent, 100);
    assert_eq!(a.transport.counters().frames_dropped + b.transport.counters().frames_dropped, 0);
}

fn replicas_frames_come_before_clients<S: Stack>() {
    let (ground, mut a, mut b) = pair::<S>();
    let mut c = ground.client::<S>(5);
    drive([&mut a, &mut b, &mut c], "a client connects", |[a, _, c]| {
        a.link_to(client(5)).is_some() && c.link_to(R0).is_some()
    });
    // Both are written before `a` polls, the client's first.
    c.transport.send_to(ReplicaId(0), Bytes::from_static(b"client"), Lane::Ordinary);
    c.poll();
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"replica"), Lane::Ordinary);
    b.poll();
    drive([&mut a], "both frames", |[a]| a.received() == 2);
    let order = a.events.iter().filter_map(|event| match event {
        Event::Received { remote, .. } => Some(*remote),
        _ => None,
    });
    assert_eq!(order.collect::<Vec<_>>(), [R1, client(5)]);
}

fn many_small_frames_arrive_whole_and_in_order<S: Stack>() {
    let (_ground, mut a, mut b) = pair::<S>();
    let frames = numbered(10_000);
    frames.iter().for_each(|frame| a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary));
    drive([&mut a, &mut b], "10,000 frames", |[_, b]| b.received() >= 10_000);
    assert!(ordered::<S>(b.frames_from(R0)) == ordered::<S>(frames));
    let sent = a.transport.counters();
    assert_eq!((sent.frames_sent, sent.frames_dropped), (10_000, 0));
    assert!(sent.write_calls < 200, "{} calls instead of many frames in one", sent.write_calls);
    let (full, packets) = (sent.bytes_sent.div_ceil(1448), sent.stream_packets);
    assert!(
        if S::OVER_PACKETS { packets == 0 } else { (full..full + sent.write_calls).contains(&packets) },
        "{packets}"
    );
}

fn large_and_empty_frames_arrive_among_small_ones<S: Stack>() {
    let (_ground, mut a, mut b) = pair::<S>();
    let large: Bytes = (0..8 << 20).map(|at: u32| ((at * 31) >> 7) as u8).collect::<Vec<u8>>().into();
    let sizes = [0, 1, 8 << 20, 3, 2_048, 2_049, 65_532, 65_533, 65_536, 100_000, 0, 1 << 20, 7];
    let frames: Vec<Bytes> = sizes.iter().map(|&size| large.slice(..size)).collect();
    frames.iter().for_each(|frame| a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary));
    drive([&mut a, &mut b], "an 8 MiB frame", |[_, b]| b.received() >= frames.len());
    assert_eq!(a.transport.counters().frames_sent, frames.len() as u64);
    assert!(ordered::<S>(b.frames_from(R0)) == ordered::<S>(frames));
    let (sent, received) = (a.transport.counters().bytes_sent, b.transport.counters().bytes_received);
    // Packets may have been lost, or be in flight.
    assert!(sent == received || S::OVER_PACKETS);
}

/// All votes arrive once and in order, unless the wire loses votes; then further votes make up for the lost ones.
fn votes_arrive_as_the_wire_promises<S: Stack>() {
    let (_ground, mut a, mut b) = pair::<S>();
    let votes: Vec<Bytes> = (0..100_u8).map(|number| Bytes::from(vec![number; 100])).collect();
    for vote in &votes {
        a.transport.send_to(ReplicaId(1), vote.clone(), Lane::Vote);
    }
    if S::loses_votes() {
        drive_with([&mut a, &mut b], "votes", |[a, b]| {
            a.transport.send_to(ReplicaId(1), Bytes::from_static(b"the last vote"), Lane::Vote);
            b.frames_from(R0).last().is_some_and(|vote| vote == "the last vote")
        });
        assert!(b.frames_from(R0).iter().all(|vote| votes.contains(vote) || vote == "the last vote"));
        assert!(b.lost(R0).is_none());
        return;
    }
    drive([&mut a, &mut b], "100 votes", |[_, b]| b.received() == 100);
    assert_eq!(ordered::<S>(b.frames_from(R0)), ordered::<S>(votes));
}

fn keys_are_replaced_on_the_way<S: Stack>() {
    let mut ground = Ground::new(2);
    let mut end = |replica: u16| {
        let end = replica_end(ground.committee.cluster, replica, replica as u8);
        ground.end::<S>(replica, end, LinkConfig { key_update_records: 1_024, ..quick() })
    };
    let (mut a, mut b) = (end(0), end(1));
    drive([&mut a, &mut b], "the replicas connect", |[a, b]| connected(a, b));
    for round in 1..=700 {
        a.transport.send_to(ReplicaId(1), Bytes::from(vec![round as u8; 32 << 10]), Lane::Ordinary);
        b.transport.send_to(ReplicaId(0), Bytes::from_static(b"back"), Lane::Ordinary);
        drive([&mut a, &mut b], "a frame each way", |[a, b]| a.received() == round && b.received() == round);
    }
    assert!(a.lost(R1).is_none() && b.lost(R0).is_none(), "the link stands");
}

fn a_rebuilt_transport_is_found_again<S: Stack>() {
    let (mut ground, mut a, b) = pair::<S>();
    drop(b);
    drive([&mut a], "the loss is noticed", |[a]| a.lost(R1).is_some() && !a.transport.is_connected(ReplicaId(1)));
    a.transport.send_to(ReplicaId(1), Bytes::from(vec![0; quick().unconnected_queue_bytes]), Lane::Ordinary);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"waits"), Lane::Ordinary);
    assert_eq!(a.transport.counters().frames_dropped, 1, "the older frame was not dropped");
    let mut b = ground.replica::<S>(1);
    drive([&mut a, &mut b], "the dialling end finds it", |[a, b]| connected(a, b));
    drive([&mut a, &mut b], "what waited", |[_, b]| b.frames_from(R0).last().is_some_and(|last| last == "waits"));
    drop(a);
    let mut a = ground.replica::<S>(0);
    drive([&mut a, &mut b], "the dialling end is rebuilt", |[a, b]| b.lost(R0).is_some() && connected(a, b));
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"again"), Lane::Ordinary);
    drive([&mut a, &mut b], "a frame", |[_, b]| b.received() == 2);
}

fn what_is_sent_before_the_link_is_up_arrives<S: Stack>() {
    let mut ground = Ground::new(2);
    let (mut a, mut b) = (ground.replica::<S>(0), ground.replica::<S>(1));
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"to the one dialled"), Lane::Ordinary);
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"to the one who dials"), Lane::Ordinary);
    drive([&mut a, &mut b], "both", |[a, b]| a.received() == 1 && b.received() == 1);
}

fn a_newer_link_replaces_an_older_one<S: Stack>() {
    let (ground, mut a, mut b) = pair::<S>();
    let first = b.link_to(R0).expect("connected");
    // The same identity again, as after a crash that the kernel has not reported: it listens elsewhere, but dials.
    let elsewhere = S::bind((None, None), "127.0.0.1:0".parse().expect("an address"));
    let end = replica_end(ground.committee.cluster, 0, 0);
    let mut twin = End::new(S::replica(&ground.committee, elsewhere, end, quick().into()));
    drive([&mut b, &mut twin], "the newer link", |[b, _]| b.link_to(R0) != Some(first));
    assert!(b.lost(R0).expect("the older link is reported").contains("newer link"));
    b.transport.send(first, Bytes::from_static(b"to a link that is gone"));
    assert_eq!(b.transport.counters().frames_dropped, 1);
    drive([&mut a], "the older end notices", |[a]| a.lost(R1).is_some());
}

fn a_full_queue_drops_and_counts<S: Stack>() {
    let mut ground = Ground::new(2);
    let config = LinkConfig { link_queue_bytes: 10 * (1_000 + 4), ..quick() };
    let end = replica_end(ground.committee.cluster, 0, 0);
    let (mut a, mut b) = (ground.end::<S>(0, end, config), ground.replica::<S>(1));
    drive([&mut a, &mut b], "connect", |[a, b]| connected(a, b));
    drive([&mut a, &mut b], "nothing is unacknowledged", |[a, _]| !a.transport.has_unsent());
    (0..25).for_each(|number| a.transport.send_to(ReplicaId(1), Bytes::from(vec![number; 1_000]), Lane::Ordinary));
    assert_eq!(a.transport.counters().frames_dropped, 15);
    drive([&mut a, &mut b], "the ten that fitted", |[_, b]| b.received() == 10);
    let first: Vec<u8> = b.frames_from(R0).iter().map(|frame| frame[0]).collect();
    assert_eq!(first, (0..10).collect::<Vec<u8>>());
    drive([&mut a, &mut b], "nothing is unacknowledged", |[a, _]| !a.transport.has_unsent());
    a.transport.send_to(ReplicaId(1), Bytes::from(vec![99; 50_000]), Lane::Ordinary);
    drive([&mut a, &mut b], "an empty queue takes one of any size", |[_, b]| b.received() == 11);
}

fn bulk_fills_no_room_of_others_and_is_overtaken<S: Stack>() {
    const BULK_BYTES: usize = 100_000;
    const FITTING: usize = 400;
    let mut ground = Ground::new(2);
    let config = LinkConfig { link_queue_bytes: FITTING * (BULK_BYTES + 4), ..quick() };
    let end = replica_end(ground.committee.cluster, 0, 0);
    let (mut a, mut b) = (ground.end::<S>(0, end, config), ground.replica::<S>(1));
    drive([&mut a, &mut b], "connect", |[a, b]| connected(a, b));
    drive([&mut a, &mut b], "nothing is unacknowledged", |[a, _]| !a.transport.has_unsent());
    let bulk = Bytes::from(vec![1; BULK_BYTES]);
    (0..FITTING + 5).for_each(|_| a.transport.send_to(ReplicaId(1), bulk.clone(), Lane::Bulk));
    assert_eq!(a.transport.counters().frames_dropped, 5, "the queue of bulk is full");
    // As much as the kernel accepts while nobody reads.
    a.poll();
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"vote"), Lane::Ordinary);
    assert_eq!(a.transport.counters().frames_dropped, 5);
    drive([&mut a, &mut b], "all of it", |[_, b]| b.received() == FITTING + 1);
    let at = b.frames_from(R0).iter().position(|frame| frame == "vote").expect("it arrived");
    assert!(at < FITTING / 2, "only {} of {FITTING} bulk frames were overtaken", FITTING - at);
}

fn a_flush_keeps_the_order_and_writes_to_replicas_only<S: Stack>() {
    let (ground, mut a, mut b) = pair::<S>();
    let mut c = ground.client::<S>(5);
    drive([&mut a, &mut b, &mut c], "a client connects", |[a, _, c]| {
        a.link_to(client(5)).is_some() && c.link_to(R0).is_some()
    });
    let link = a.link_to(client(5)).expect("connected above");
    let before = a.transport.counters().bytes_sent;
    a.transport.send(link, Bytes::from_static(b"reply"));
    a.transport.flush_replicas();
    assert_eq!(a.transport.counters().bytes_sent, before, "a client's frame waits for the poll");
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"first"), Lane::Ordinary);
    a.transport.flush_replicas();
    drive([&mut b], "the frame, without a poll of its sender", |[b]| b.received() == 1);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"second"), Lane::Ordinary);
    drive([&mut a, &mut b, &mut c], "all frames", |[_, b, c]| b.received() == 2 && c.received() == 1);
    assert_eq!(b.frames_from(R0), ["first", "second"]);
}

fn a_slow_reader_gets_everything_later<S: Stack>() {
    let (_ground, mut a, mut b) = pair::<S>();
    let frame = Bytes::from(vec![1; 100_000]);
    let mut before = u64::MAX;
    // Until the socket is full, while `b` does not read.
    while a.transport.counters().bytes_sent != before {
        before = a.transport.counters().bytes_sent;
        (0..20).for_each(|_| a.transport.send_to(ReplicaId(1), frame.clone(), Lane::Ordinary));
        a.poll();
    }
    let queued = a.transport.counters();
    assert_eq!(queued.frames_dropped, 0);
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"end"), Lane::Ordinary);
    drive([&mut a, &mut b], "all of it", |[_, b]| b.frames_from(R0).last().is_some_and(|last| last == "end"));
    let received = b.frames_from(R0);
    assert_eq!(received.len() as u64, a.transport.counters().frames_sent);
    assert!(received[..received.len() - 1].iter().all(|got| *got == frame));
}

fn another_cluster_is_refused<S: Stack>() {
    let mut ground = Ground::new(2);
    let mut a = ground.replica::<S>(0);
    let stranger = replica_end(ClusterId::from_name("another"), 1, 1);
    let mut b = ground.end::<S>(1, stranger, quick());
    drive([&mut a, &mut b], "both ends say why", |[a, b]| a.refused_with("cluster") && b.refused_with("cluster"));
    assert!(a.events.is_empty() && b.events.is_empty());
}

fn another_key_is_refused<S: Stack>() {
    let mut ground = Ground::new(2);
    let mut a = ground.replica::<S>(0);
    let impostor = replica_end(ground.committee.cluster, 1, 66);
    let mut b = ground.end::<S>(1, impostor, quick());
    drive([&mut a, &mut b], "an impostor answers", |[a, _]| a.refused_with("signature is not replica 1's"));
    assert!(a.events.is_empty() && b.events.is_empty());
    // The same with an impostor that dials.
    let mut ground = Ground::new(2);
    let impostor = replica_end(ground.committee.cluster, 0, 66);
    let (mut a, mut b) = (ground.end::<S>(0, impostor, quick()), ground.replica::<S>(1));
    drive([&mut a, &mut b], "an impostor dials", |[_, b]| b.refused_with("signature is not replica 0's"));
    assert!(b.events.is_empty());
}

fn another_replica_is_refused<S: Stack>() {
    let mut ground = Ground::new(3);
    let mut a = ground.replica::<S>(0);
    // Replica 2 listens on the address that the committee lists for replica 1.
    let wrong = replica_end(ground.committee.cluster, 2, 2);
    let mut b = ground.end::<S>(1, wrong, quick());
    drive([&mut a, &mut b], "the wrong replica", |[a, b]| {
        a.refused_with("replica 1 was dialled and replica 2 answered") && b.refused_with("meant to reach replica 1")
    });
    assert!(!a.transport.is_connected(ReplicaId(1)) && !a.transport.is_connected(ReplicaId(2)));
}

fn strangers_do_not_disturb<S: Stack>() {
    let mut ground = Ground::new(2);
    let config = LinkConfig { handshake_timeout_ms: 300, ..quick() };
    let end = replica_end(ground.committee.cluster, 1, 1);
    let (mut a, mut b) = (ground.replica::<S>(0), ground.end::<S>(1, end, config));
    let mut silent = TcpStream::connect(ground.address(1)).expect("connect");
    let mut garbage = TcpStream::connect(ground.address(1)).expect("connect");
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("write");
    let mut crowd = Vec::new();
    while crowd.len() < 300 {
        crowd.push(TcpStream::connect(ground.address(1)).expect("connect"));
        if crowd.len() % 20 == 0 {
            b.poll();
        }
    }
    drive([&mut a, &mut b], "honest replicas connect", |[a, b]| connected(a, b));
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"through"), Lane::Ordinary);
    drive([&mut a, &mut b], "a frame between strangers", |[_, b]| b.received() == 1);
    drive([&mut a, &mut b], "strangers are shown out", |[_, b]| {
        b.refused_with("not quorate") && b.refused_with("evicted") && b.refused_with("no handshake within 300 ms")
    });
    assert_eq!(silent.read(&mut [0]).expect("closed, not reset"), 0);
    drop(crowd);
    assert!(b.lost(R0).is_none());
}

fn an_over_long_frame_ends_only_its_link<S: Stack>() {
    let (ground, mut a, mut b) = pair::<S>();
    // A client with a real channel and broken framing: it sends a header without a body.
    let mut stream = TcpStream::connect(ground.address(1)).expect("connect");
    let mut channel = S::client_channel(client_end(ground.committee.cluster, 9), ReplicaId(1));
    let mut hello = Vec::new();
    channel.start(&mut hello);
    stream.write_all(&hello).expect("write");
    stream.set_nonblocking(true).expect("non-blocking");
    let (mut wire, mut plain, mut out) = Default::default();
    let stream = std::cell::RefCell::new(stream);
    let channel = std::cell::RefCell::new((channel, &mut wire, &mut plain, &mut out));
    drive([&mut a, &mut b], "the handshake", |_| {
        let (channel, wire, plain, out) = &mut *channel.borrow_mut();
        let mut buffer = [0; 4_096];
        let read = stream.borrow_mut().read(&mut buffer);
        if let Ok(count) = read {
            bytes::BytesMut::extend_from_slice(wire, &buffer[..count]);
            channel.receive(wire, plain, out).expect("an honest replica");
            stream.borrow_mut().write_all(out).expect("write");
            out.clear();
        }
        channel.remote().is_some()
    });
    let mut encrypted = Vec::new();
    channel.borrow_mut().0.encrypt(&(MAX_FRAME_BYTES as u32 + 1).to_le_bytes(), &mut encrypted);
    stream.borrow_mut().write_all(&encrypted).expect("write");
    drive([&mut a, &mut b], "the client is shown out", |[_, b]| b.lost(client(9)).is_some());
    assert!(b.lost(client(9)).expect("just seen").contains("over the limit"));
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"still here"), Lane::Ordinary);
    drive([&mut a, &mut b], "a frame", |[_, b]| b.received() == 1);
}

fn clients_are_bounded<S: Stack>() {
    let mut ground = Ground::new(1);
    let end = replica_end(ground.committee.cluster, 0, 0);
    let mut a = ground.end::<S>(0, end, LinkConfig { max_client_links: 1, ..quick() });
    let mut first = ground.client::<S>(1);
    drive([&mut a, &mut first], "the first client", |[a, _]| a.link_to(client(1)).is_some());
    let link = a.link_to(client(1)).expect("connected above");
    a.transport.vouch(link, true);
    let mut second = ground.client::<S>(2);
    drive([&mut a, &mut first, &mut second], "one too many", |[a, ..]| a.refused_with("max_client_links"));
    drop(first);
    drive([&mut a, &mut second], "its turn", |[a, _]| a.link_to(client(2)).is_some());
}

fn round_trips_are_known_where_they_are_measured<S: Stack>() {
    let (_ground, mut a, mut b) = pair::<S>();
    a.transport.send_to(ReplicaId(1), Bytes::from_static(b"there"), Lane::Ordinary);
    b.transport.send_to(ReplicaId(0), Bytes::from_static(b"and back"), Lane::Ordinary);
    drive([&mut a, &mut b], "the round trips", |[a, b]| [a, b].map(|end| end.transport.round_trips().len()) == [1, 1]);
    let [(replica, trip)] = a.transport.round_trips()[..] else { unreachable!("just seen") };
    assert_eq!(replica, ReplicaId(1));
    assert!(!trip.is_zero());
}

fn the_waker_ends_a_wait<S: Stack>() {
    let mut ground = Ground::new(1);
    let mut a = ground.replica::<S>(0);
    let waker = a.transport.waker();
    let other = std::thread::spawn(move || waker());
    // Without the waker this would wait for ever: nothing else happens.
    a.transport.poll(None, &mut a.events).expect("poll");
    other.join().expect("the waker does not panic");
    assert!(a.events.is_empty());
}

fn version_six_addresses_work<S: Stack>() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("not run: this host has no IPv6 loopback");
        return;
    }
    let mut ground = Ground::on("[::1]:0", 2);
    let (mut a, mut b) = (ground.replica::<S>(0), ground.replica::<S>(1));
    drive([&mut a, &mut b], "two replicas connect", |[a, b]| connected(a, b));
}

/// Replica 0 reaches replica 1 through a relay whose address changes, as if a NAT assigned a new port.
fn a_changed_address_keeps_the_link<S: Stack>() {
    let mut ground = Ground::new(2);
    let mut relay = Relay::new(ground.address(1));
    let mut b = ground.replica::<S>(1);
    ground.committee.members[1].address = relay.address().into();
    let mut a = ground.replica::<S>(0);
    drive_with([&mut a, &mut b], "two replicas connect", |[a, b]| {
        relay.run();
        connected(a, b)
    });
    let (from, link) = (relay.source(), b.link_to(R0).expect("they are connected"));
    relay.change_address();
    let to = relay.source();
    drive_with([&mut a, &mut b], "frames in both directions", |[a, b]| {
        relay.run();
        a.transport.send_to(ReplicaId(1), Bytes::from_static(b"from another port"), Lane::Ordinary);
        b.transport.send_to(ReplicaId(0), Bytes::from_static(b"to another port"), Lane::Ordinary);
        !b.frames_from(R0).is_empty() && !a.frames_from(R1).is_empty()
    });
    let changes = b.events.iter().filter_map(|event| match event {
        Event::Path { link, remote, change } => Some((*link, *remote, *change)),
        _ => None,
    });
    assert_eq!(changes.collect::<Vec<_>>(), [(link, R0, PathChange::Moved { from, to })]);
    assert!(a.lost(R1).is_none() && b.lost(R0).is_none() && b.link_to(R0) == Some(link));
}

/// A pair over a stream; one over the kernel's SCTP, which not every kernel supports; one over packets with
/// retransmission; and one without. Over SCTP the kernel reports round trips in whole milliseconds, and nothing
/// overtakes data that it has accepted.
macro_rules! conformance {
    (stream $name:ident, $stack:ty) => {
        conformance!(reliable always $name, $stack: strangers_do_not_disturb an_over_long_frame_ends_only_its_link
            bulk_fills_no_room_of_others_and_is_overtaken round_trips_are_known_where_they_are_measured);
    };
    (kernel $name:ident, $stack:ty) => {
        conformance!(reliable if_supported $name, $stack:);
    };
    (packets $name:ident, $stack:ty) => {
        conformance!(reliable always $name, $stack: a_changed_address_keeps_the_link
            bulk_fills_no_room_of_others_and_is_overtaken round_trips_are_known_where_they_are_measured);
    };
    (lossy $name:ident, $stack:ty) => {
        conformance!(all always $name, $stack: a_changed_address_keeps_the_link);
    };
    (reliable $when:ident $name:ident, $stack:ty: $($more:ident)*) => {
        conformance!(all $when $name, $stack: $($more)*
            many_small_frames_arrive_whole_and_in_order large_and_empty_frames_arrive_among_small_ones
            a_full_queue_drops_and_counts a_slow_reader_gets_everything_later);
    };
    (all $when:ident $name:ident, $stack:ty: $($more:ident)*) => {
        conformance!(@$when $name, $stack: $($more)*
            replicas_and_a_client_exchange_frames_in_order replicas_frames_come_before_clients
            what_is_sent_before_the_link_is_up_arrives votes_arrive_as_the_wire_promises keys_are_replaced_on_the_way
            a_rebuilt_transport_is_found_again a_newer_link_replaces_an_older_one
            a_flush_keeps_the_order_and_writes_to_replicas_only
            another_cluster_is_refused another_key_is_refused another_replica_is_refused
            clients_are_bounded the_waker_ends_a_wait version_six_addresses_work);
    };
    (@if_supported $name:ident, $stack:ty: $($test:ident)*) => {
        mod $name {
            $(#[test] fn $test() {
                match quorate_testkit::ends::sctp_obstacle() {
                    Some(why) => eprintln!("not run: {why}"),
                    None => super::$test::<$stack>(),
                }
            })*
        }
    };
    (@always $name:ident, $stack:ty: $($test:ident)*) => {
        mod $name {
            $(#[test] fn $test() { super::$test::<$stack>(); })*
        }
    };
}

conformance!(stream tcp_plain, super::TcpPlain);
conformance!(stream tcp_tls, super::TcpTls);
conformance!(stream tcp_masked, super::TcpMasked);
conformance!(packets quic_tls, super::QuicTls);
conformance!(packets quic_datagrams, super::QuicDatagrams);
conformance!(packets rudp_plain, super::RudpPlain);
conformance!(packets rudp_dtls, super::RudpDtls);
conformance!(packets sctp_plain, super::SctpPlain);
conformance!(packets sctp_dtls, super::SctpDtls);
conformance!(kernel sctp_kernel_plain, super::KernelSctpPlain);
conformance!(kernel sctp_kernel_tls, super::KernelSctpTls);
conformance!(lossy udp_plain, super::UdpPlain);
conformance!(lossy udp_dtls, super::UdpDtls);
