//! Two machines in virtual time, and a link between them with scripted behaviour.

use bytes::Bytes;
use quorate_network::channels::{Loss, Machine, Output};
use quorate_types::{Lane, Time};
use std::collections::BTreeMap;
use std::time::Duration;

pub const A: usize = 0;
pub const B: usize = 1;
pub const MS: u64 = 1_000_000;
/// Maximum packets to one end in one test; more indicate an endless exchange.
const MAX_PACKETS: usize = 1_000_000;

/// Fate of a packet, by time and sender: the delays of its copies in nanoseconds, empty if it is lost.
pub type Fate = Box<dyn FnMut(Time, usize, &Bytes) -> Vec<u64>>;

/// Two ends and the link between them.
pub struct Net {
    pub now: Time,
    pub ends: [Box<dyn Machine>; 2],
    pub fate: Fate,
    /// Packets in flight, by arrival time and number.
    pub flying: BTreeMap<(Time, u64), (usize, Bytes)>,
    sent: u64,
    pub frames: [Vec<(Time, Bytes)>; 2],
    pub established: [bool; 2],
    pub lost: [Option<Loss>; 2],
    /// Path MTU changes: the time, and the bytes before and after.
    pub paths: [Vec<(Time, usize, usize)>; 2],
    /// Time, sender and length of each packet.
    pub trace: Vec<(Time, usize, usize)>,
}

impl Net {
    pub fn new(ends: [Box<dyn Machine>; 2], fate: Fate) -> Net {
        Net {
            now: Time(0),
            ends,
            fate,
            flying: BTreeMap::new(),
            sent: 0,
            frames: [Vec::new(), Vec::new()],
            established: [false; 2],
            lost: [None, None],
            paths: [Vec::new(), Vec::new()],
            trace: Vec::new(),
        }
    }

    pub fn step(&mut self, at: usize, act: impl FnOnce(&mut dyn Machine, Time, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut *self.ends[at], self.now, &mut out);
        for said in out {
            match said {
                Output::Packet(packet) => {
                    self.trace.push((self.now, at, packet.len()));
                    assert!(self.trace.len() < MAX_PACKETS, "the two talk without end");
                    for delay in (self.fate)(self.now, at, &packet) {
                        self.inject(1 - at, packet.clone(), delay);
                    }
                }
                Output::PathCarries { before, bytes } => self.paths[at].push((self.now, before, bytes)),
                Output::PacketTo(..) | Output::Moved(_) => unreachable!("both ends keep their addresses"),
                Output::Established => self.established[at] = true,
                Output::Frame(frame) => self.frames[at].push((self.now, frame)),
                Output::Lost(why) => self.lost[at] = Some(why),
            }
        }
    }

    pub fn inject(&mut self, to: usize, packet: Bytes, delay: u64) {
        self.sent += 1;
        self.flying.insert((self.now + Duration::from_nanos(delay), self.sent), (to, packet));
    }

    pub fn send(&mut self, from: usize, frame: Bytes) {
        self.step(from, |machine, now, out| {
            machine.send(now, frame, Lane::Ordinary, out);
            machine.flush(now, out);
        });
    }

    /// Runs until `wanted`, or for `limit_ms` from now. Returns whether `wanted` became true.
    pub fn run(&mut self, limit_ms: u64, wanted: impl Fn(&Net) -> bool) -> bool {
        let limit = Time(self.now.0 + limit_ms * MS);
        while !wanted(self) {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let alarm = self.ends.iter().filter_map(|end| end.due()).min();
            let Some(next) = [arrival, alarm].into_iter().flatten().min().filter(|next| *next <= limit) else {
                self.now = limit;
                return false;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, (to, packet)) = self.flying.pop_first().expect("it was just seen");
                self.step(to, |machine, now, out| machine.packet(now, packet, out));
            } else {
                for at in [A, B] {
                    if self.ends[at].due().is_some_and(|due| due <= self.now) {
                        self.step(at, |machine, now, out| machine.timer(now, out));
                    }
                }
            }
        }
        true
    }

    pub fn connect(&mut self) {
        assert!(self.run(60_000, |net| net.established == [true; 2]), "not connected: {:?}", self.lost);
    }

    pub fn got(&self, at: usize) -> Vec<Bytes> {
        self.frames[at].iter().map(|(_, frame)| frame.clone()).collect()
    }
}

/// Delays every packet by 10 ms.
pub fn even() -> Fate {
    Box::new(|_, _, _| vec![10 * MS])
}

/// Pseudorandom choices (xorshift). The seed must not be zero.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Loses, duplicates and delays random packets, each with probability 1/`one_in`.
pub fn rough(seed: u64, one_in: u64) -> Fate {
    let mut random = Random(seed | 1);
    Box::new(move |_, _, _| {
        let lost = random.draw().is_multiple_of(one_in);
        let mut delays = Vec::new();
        if !lost {
            delays.push(5 * MS + random.draw() % (10 * MS));
        }
        if random.draw().is_multiple_of(one_in) {
            delays.push(5 * MS + random.draw() % (30 * MS));
        }
        delays
    })
}
