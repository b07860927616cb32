//! Costs of frames in packet transports and in channels, in addition to plain TCP's.

use super::{CalibrateError, LARGE_BYTES, ROUNDS, SMALL_BYTES, US_PER_NS};
use crate::partial;
use bytes::{Bytes, BytesMut};
use quorate_client::load::thread_cpu_time;
use quorate_network::channels::{
    Channel, ChannelConfig, ChannelFactory, ChannelKind, KEY_UPDATE_RECORDS, LocalEnd, Machine, Output, Sessions, Side,
    Versions,
};
use quorate_network::transports::{TransportKind, Wire};
use quorate_simulator::CostTable;
use quorate_simulator::costs::FrameCosts;
use quorate_types::identity::{Signer, Verifier};
use quorate_types::{ClusterId, EpochId, Lane, Parameters, ReplicaId, Time};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Frames sent at once, as in one event-loop iteration of a replica.
const FRAMES: usize = 8;
/// Bytes sent in one round.
const ROUND_BYTES: usize = 8 << 20;
/// Maximum number of small frames sent in one round.
const MAX_ROUND_FRAMES: usize = 16 << 10;
/// Pause between two groups of frames; the machines' only clock.
const PAUSE: Duration = Duration::from_micros(200);
/// Maximum number of pauses during a handshake or the frames of one round.
const MAX_PAUSES: usize = 10_000;

/// Measures every combination except plain TCP (the baseline) and the kernel's SCTP (not simulated).
pub(super) fn frames(table: &mut CostTable) -> Result<(), CalibrateError> {
    for transport in TransportKind::ALL.iter().filter(|kind| **kind != TransportKind::SCTP_KERNEL) {
        for channel in ChannelKind::ALL {
            if !partial::goes_on() {
                return Ok(());
            }
            let wire = Wire { transport: *transport, channel: *channel, ..Wire::default() };
            if wire.fits().is_ok() && wire != Wire::default() {
                let name = FrameCosts::name(*transport, *channel);
                let costs = costs_of(&wire).map_err(|source| CalibrateError::Frames { wire: name.clone(), source })?;
                table.frames.insert(name, costs);
            }
        }
    }
    Ok(())
}

/// Derives the costs of a frame and of a byte from frames of two sizes.
fn costs_of(wire: &Wire) -> io::Result<FrameCosts> {
    let measure = |bytes: usize| -> io::Result<[f64; 2]> {
        let rounds = (0..ROUNDS).map(|_| Pair::open(wire)?.round(bytes));
        let rounds = rounds.collect::<io::Result<Vec<_>>>()?;
        Ok([0, 1].map(|end| rounds.iter().map(|round| round[end]).fold(f64::MAX, f64::min)))
    };
    let (small, large) = (measure(SMALL_BYTES)?, measure(LARGE_BYTES)?);
    let [send_byte_ns, receive_byte_ns] =
        [0, 1].map(|end| (large[end] - small[end]).max(0.0) / (LARGE_BYTES - SMALL_BYTES) as f64);
    let each = |end: usize, byte_ns: f64| US_PER_NS * (small[end] - SMALL_BYTES as f64 * byte_ns).max(0.0);
    let (send_us, receive_us) = (each(0, send_byte_ns), each(1, receive_byte_ns));
    Ok(FrameCosts { send_us, receive_us, send_byte_ns, receive_byte_ns })
}

/// Signer whose proofs anyone can forge: handshakes are not measured.
struct Anyone(ReplicaId);

impl Signer for Anyone {
    fn replica(&self) -> ReplicaId {
        self.0
    }

    fn sign(&self, _: &[u8]) -> Bytes {
        Bytes::from_static(b"anyone")
    }
}

impl Verifier for Anyone {
    fn verify(&self, _: ReplicaId, _: &[u8], proof: &[u8]) -> bool {
        proof == b"anyone"
    }
}

/// Two endpoints connected without a network.
enum Pair {
    Streams(Streams),
    Machines(Machines),
}

/// Channels over a stream, with buffers that are reused as on a link.
struct Streams {
    ends: [Box<dyn Channel>; 2],
    encrypted: Vec<u8>,
    wire: BytesMut,
    opened: BytesMut,
}

impl Pair {
    fn open(wire: &Wire) -> io::Result<Pair> {
        let end = |replica: u16| ChannelConfig {
            kind: wire.channel,
            cluster: ClusterId::from_name("calibrate"),
            epoch: EpochId::of_name("calibrate"),
            me: LocalEnd::Replica(Arc::new(Anyone(ReplicaId(replica)))),
            verifier: Arc::new(Anyone(ReplicaId(replica))),
            parameters: Parameters::default(),
            versions: Versions::ALL,
            key_update_records: KEY_UPDATE_RECORDS,
            sessions: Sessions::default(),
        };
        let sides = [(end(0), Side::Initiator { expects: ReplicaId(1) }), (end(1), Side::Responder)];
        match wire.transport.carrier().association() {
            None => {
                let [first, second] = sides.map(|(end, side)| end.open(side).map_err(io::Error::other));
                let mut ends = [first?, second?];
                shake_hands(&mut ends)?;
                let (wire, opened) = (BytesMut::new(), BytesMut::new());
                Ok(Pair::Streams(Streams { ends, encrypted: Vec::new(), wire, opened }))
            }
            Some(association) => {
                let open = |(end, side): (ChannelConfig, Side)| {
                    let nonce = end.nonce().map_err(io::Error::other)?;
                    association.open(&end, side, &wire.settings, nonce).map_err(io::Error::other)
                };
                let [first, second] = sides.map(open);
                Machines::connected([first?, second?]).map(Pair::Machines)
            }
        }
    }

    /// Sends frames of this size, and returns the sender's and the receiver's cost per frame, in nanoseconds.
    fn round(&mut self, bytes: usize) -> io::Result<[f64; 2]> {
        let frames = (ROUND_BYTES / bytes).min(MAX_ROUND_FRAMES) / FRAMES * FRAMES;
        let mut took = [Duration::ZERO; 2];
        for _ in 0..frames / FRAMES {
            match self {
                Pair::Streams(streams) => streams.send(bytes, &mut took)?,
                Pair::Machines(machines) => machines.send(bytes, &mut took)?,
            }
        }
        Ok(took.map(|time| time.as_nanos() as f64 / frames as f64))
    }
}

/// Adds the processor time of `work` to `took`.
fn timed<T>(took: &mut Duration, work: impl FnOnce() -> T) -> T {
    let before = thread_cpu_time();
    let result = work();
    *took += thread_cpu_time() - before;
    result
}

fn shake_hands(ends: &mut [Box<dyn Channel>; 2]) -> io::Result<()> {
    let mut wires = [BytesMut::new(), BytesMut::new()];
    for at in [0, 1] {
        let mut outgoing = Vec::new();
        ends[at].start(&mut outgoing);
        wires[1 - at].extend_from_slice(&outgoing);
    }
    while wires.iter().any(|wire| !wire.is_empty()) {
        for at in [0, 1] {
            let (mut plain, mut outgoing) = (BytesMut::new(), Vec::new());
            ends[at].receive(&mut wires[at], &mut plain, &mut outgoing).map_err(io::Error::other)?;
            wires[1 - at].extend_from_slice(&outgoing);
        }
    }
    match ends.iter().all(|end| end.remote().is_some()) {
        true => Ok(()),
        false => Err(io::Error::other("a handshake in memory did not end")),
    }
}

impl Streams {
    fn send(&mut self, bytes: usize, took: &mut [Duration; 2]) -> io::Result<()> {
        let Streams { ends, encrypted, wire, opened } = self;
        let (plain, mut answer) = (vec![7; bytes * FRAMES], Vec::new());
        encrypted.clear();
        opened.clear();
        timed(&mut took[0], || ends[0].encrypt(&plain, encrypted));
        wire.extend_from_slice(encrypted);
        timed(&mut took[1], || ends[1].receive(wire, opened, &mut answer)).map_err(io::Error::other)?;
        match opened.len() == plain.len() {
            true => Ok(()),
            false => Err(io::Error::other("a channel in memory lost bytes")),
        }
    }
}

/// Machines of a transport over packets.
struct Machines {
    ends: [Box<dyn Machine>; 2],
    now: Time,
    /// Packets to each end.
    packets: [VecDeque<Bytes>; 2],
    established: [bool; 2],
    received: usize,
}

impl Machines {
    fn connected(ends: [Box<dyn Machine>; 2]) -> io::Result<Machines> {
        let packets = [VecDeque::new(), VecDeque::new()];
        let mut machines = Machines { ends, now: Time(1), packets, established: [false; 2], received: 0 };
        let mut untimed = [Duration::ZERO; 2];
        machines.act(0, &mut untimed[0], |machine, now, out| machine.start(now, out))?;
        for _ in 0..MAX_PAUSES {
            if machines.established == [true; 2] {
                return Ok(machines);
            }
            machines.exchange(&mut untimed)?;
        }
        Err(io::Error::other("a handshake in memory did not end"))
    }

    fn act(
        &mut self,
        end: usize,
        took: &mut Duration,
        act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>),
    ) -> io::Result<()> {
        let mut out = Vec::new();
        timed(took, || act(&mut *self.ends[end], self.now, &mut out));
        for said in out {
            match said {
                Output::Packet(packet) => self.packets[1 - end].push_back(packet),
                Output::PathCarries { .. } => {}
                Output::PacketTo(..) | Output::Moved(_) => unreachable!("both ends keep their addresses"),
                Output::Frame(_) => self.received += 1,
                Output::Established => self.established[end] = true,
                Output::Lost(why) => return Err(io::Error::other(why)),
            }
        }
        Ok(())
    }

    /// Delivers packets until both ends are silent, then advances the time.
    fn exchange(&mut self, took: &mut [Duration; 2]) -> io::Result<()> {
        while self.packets.iter().any(|packets| !packets.is_empty()) {
            for end in [0, 1] {
                let packets = std::mem::take(&mut self.packets[end]);
                self.act(end, &mut took[end], |machine, now, out| {
                    packets.into_iter().for_each(|packet| machine.packet(now, packet, out));
                    machine.flush(now, out);
                })?;
            }
        }
        self.now = self.now + PAUSE;
        for end in [0, 1] {
            if self.ends[end].due().is_some_and(|due| due <= self.now) {
                self.act(end, &mut took[end], |machine, now, out| machine.timer(now, out))?;
            }
        }
        Ok(())
    }

    /// Sends a group of frames and waits for their arrival.
    fn send(&mut self, bytes: usize, took: &mut [Duration; 2]) -> io::Result<()> {
        let (frame, expected) = (Bytes::from(vec![7; bytes]), self.received + FRAMES);
        self.act(0, &mut took[0], |machine, now, out| {
            for _ in 0..FRAMES {
                machine.send(now, frame.clone(), Lane::Ordinary, out);
            }
            machine.flush(now, out);
        })?;
        for _ in 0..MAX_PAUSES {
            self.exchange(took)?;
            if self.received >= expected {
                return Ok(());
            }
        }
        Err(io::Error::other("a transport in memory lost frames"))
    }
}
