//! Check of packet transports: on any input, an end neither panics nor exceeds its memory limit.
//!
//! A target is a file of one line in `fuzz_targets/`, `quorate_fuzz::packets!(UDP, PLAIN);`, and a `[[bin]]` in
//! `Cargo.toml`. The data consists of steps, each of which is a byte for the action followed by one or two for its
//! details.

use bytes::Bytes;
use quorate_network::channels::{
    ChannelConfig, ChannelKind, Detour, KEY_UPDATE_RECORDS, LocalEnd, Machine, Output, Sessions, Side, Versions,
};
use quorate_network::transports::{QuicVotes, TransportKind, WireSettings};
use quorate_types::identity::{Signer, Verifier};
use quorate_types::limits::MAX_FRAME_BYTES;
use quorate_types::{ClusterId, EpochId, Parameters, ReplicaId, Time, Lane};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Replica 0, which dials, and replica 1, which is attacked.
const A: usize = 0;
const B: usize = 1;
/// Maximum packets of genuine ends in one run: steps send few frames, and each is retransmitted a few times.
const MAX_PACKETS: usize = 50_000;
/// Address of A; the next constant is another party's.
const HOME: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4_000);
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 9);
/// Maximum size of a frame sent by a step, in bytes.
const STEP_FRAME_BYTES: usize = 200_000;

/// A signature that anyone can forge: the handshake's proof is not under test.
struct Anyone(ReplicaId);

impl Signer for Anyone {
    fn replica(&self) -> ReplicaId {
        self.0
    }
    fn sign(&self, _: &[u8]) -> Bytes {
        Bytes::from_static(&[7; 32])
    }
}

impl Verifier for Anyone {
    fn verify(&self, _: ReplicaId, _: &[u8], signature: &[u8]) -> bool {
        signature == [7; 32]
    }
}

/// Two ends, and the packets in flight between them.
struct Ground {
    now: Time,
    ends: [Box<dyn Machine>; 2],
    on_the_way: VecDeque<(usize, Bytes)>,
    established: [bool; 2],
    packets: usize,
    /// The latest packet from A, for forgeries.
    latest: Bytes,
}

impl Ground {
    fn new(transport: TransportKind, channel: ChannelKind) -> Ground {
        let mut settings = WireSettings::default();
        settings.quic.votes = QuicVotes::Datagrams;
        let open = |replica: u16, side: Side| {
            let me = ReplicaId(replica);
            let end = ChannelConfig {
                kind: channel,
                cluster: ClusterId::from_name("fuzz"),
                epoch: EpochId::of_name("fuzz"),
                me: LocalEnd::Replica(Arc::new(Anyone(me))),
                verifier: Arc::new(Anyone(me)),
                parameters: Parameters::default(),
                versions: Versions::ALL,
                key_update_records: KEY_UPDATE_RECORDS,
                sessions: Sessions::default(),
            };
            let association = transport.carrier().association().expect("it runs over packets");
            association.open(&end, side, &settings, [replica as u8 + 1; 32]).expect("the two work together")
        };
        let ends = [open(0, Side::Initiator { expects: ReplicaId(1) }), open(1, Side::Responder)];
        let (on_the_way, latest) = (VecDeque::new(), Bytes::new());
        let mut ground = Ground { now: Time(1), ends, on_the_way, established: [false; 2], packets: 0, latest };
        ground.step(A, |machine, now, out| machine.start(now, out));
        ground
    }

    fn step(&mut self, at: usize, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut *self.ends[at], self.now, &mut out);
        for said in out {
            match said {
                Output::Packet(packet) => {
                    self.packets += 1;
                    assert!(self.packets < MAX_PACKETS, "the two talk without end");
                    if at == A {
                        self.latest = packet.clone();
                    }
                    self.on_the_way.push_back((1 - at, packet));
                }
                // A copy of a QUIC packet may move its connection although the other end has not moved.
                Output::PacketTo(..) | Output::Moved(_) | Output::PathCarries { .. } => {}
                Output::Frame(frame) => assert!(frame.len() <= MAX_FRAME_BYTES, "a frame over the limit"),
                Output::Established => self.established[at] = true,
                Output::Lost(_) => {}
            }
        }
    }

    fn deliver(&mut self, packet: Bytes, to: usize) {
        self.step(to, |machine, now, out| machine.packet(now, packet, out));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for at in [A, B] {
            if self.ends[at].due().is_some_and(|due| due <= self.now) {
                self.step(at, |machine, now, out| machine.timer(now, out));
            }
        }
    }

    fn connect(&mut self) {
        for _ in 0..1_000 {
            if self.established == [true; 2] {
                return;
            }
            match self.on_the_way.pop_front() {
                Some((to, packet)) => self.deliver(packet, to),
                None => self.pass(Duration::from_millis(10)),
            }
        }
        panic!("nobody disturbs them, and they do not connect");
    }
}

/// Lets the data attack an end: before the handshake if its first byte is odd, otherwise after it.
pub fn check(transport: TransportKind, channel: ChannelKind, mut data: &[u8]) {
    let mut ground = Ground::new(transport, channel);
    if take(&mut data, 1).first().is_some_and(|first| first % 2 == 0) {
        ground.connect();
    }
    // A transport may hold its window plus two frames, and one more while it decides to drop one.
    let bound = WireSettings::default().retransmission.window_bytes + 3 * MAX_FRAME_BYTES;
    while let [kind, rest @ ..] = data {
        data = rest;
        let detail = take(&mut data, 2).iter().fold(0, |detail, byte| detail << 8 | usize::from(*byte));
        match kind % 8 {
            0 => ground.deliver(Bytes::copy_from_slice(take(&mut data, detail)), B),
            // The start of a genuine packet, such as its token, followed by other bytes.
            1 => {
                let genuine = ground.latest.slice(..ground.latest.len().min(detail % 64));
                let forged = [&genuine[..], take(&mut data, detail / 64)].concat();
                ground.deliver(forged.into(), B);
            }
            2 => {
                if let Some((to, packet)) = ground.on_the_way.pop_front() {
                    ground.deliver(packet, to);
                }
            }
            3 => drop(ground.on_the_way.pop_front()),
            4 => ground.on_the_way.rotate_left(detail.min(ground.on_the_way.len())),
            5 => ground.pass(Duration::from_micros(detail as u64 * 100)),
            // The same from another address.
            6 => {
                let genuine = ground.latest.slice(..ground.latest.len().min(detail % 64));
                let forged = Bytes::from([&genuine[..], take(&mut data, detail / 64)].concat());
                let detour = Detour { from: ELSEWHERE, home: HOME, proofs: [detail as u64, 0] };
                ground.step(B, |machine, now, out| machine.packet_from(now, detour, forged, out));
            }
            _ if ground.established[A] => {
                let frame = Bytes::from(vec![*kind; detail * 7 % STEP_FRAME_BYTES]);
                ground.step(A, |machine, now, out| {
                    match detail % 2 {
                        0 => machine.send(now, frame, Lane::Ordinary, out),
                        _ => machine.send(now, frame, Lane::Vote, out),
                    }
                    machine.flush(now, out);
                });
            }
            _ => {}
        }
        assert!(ground.ends[B].partial_bytes() <= bound, "it holds {} bytes", ground.ends[B].partial_bytes());
    }
}

fn take<'a>(data: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = data.split_at(bytes.min(data.len()));
    *data = rest;
    taken
}

/// Body of a fuzz target for a packet transport and a channel.
#[macro_export]
macro_rules! packets {
    ($transport:ident, $channel:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::packets::check(
            $crate::TransportKind::$transport,
            $crate::ChannelKind::$channel,
            data
        ));
    };
}
