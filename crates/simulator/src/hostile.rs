//! Clients that mean harm: what they send, and how much of it.
//!
//! They hold no replica's key. Each comes over a link of its own to each replica it talks to, sends without regard to answers, and dials
//! again at once when it is cut. How their frames get from them to a replica is not modelled: they are there.

use quorate_types::{Bundle, BundleBuilder, ClientId, Height, choice};
use std::collections::VecDeque;
use std::time::Duration;

/// How often hostile clients send.
pub const TICK: Duration = Duration::from_millis(1);
/// Within so many milliseconds, each bundle of an honest client is executed by f+1 replicas while hostile clients are at work, and
/// after, unless the schedule says otherwise.
pub const SERVED_WITHIN_MS: f64 = 2000.0;
/// A link with so many bytes of answers that its client has not read is not served.
pub const MOST_UNREAD_BYTES: u64 = 1 << 20;
/// The owner of the first hostile client.
const FIRST_OWNER: u128 = 0x4057_1113;
/// Commands of one session, fewer than a session may have.
const SESSION_COMMANDS: u64 = 50_000;
/// Bytes of a command.
const PAYLOAD_BYTES: usize = 64;
/// Bytes of a frame that asks a question.
const QUESTION_BYTES: u32 = 32;
/// Bytes of a value that is asked for: the largest that fits an answer.
const VALUE_BYTES: u64 = 1_000_000;
/// Links that a squatter dials in a tick, to each replica: a hundred milliseconds take all places several times.
const LINKS_PER_TICK: u64 = 20;
/// After so many ticks the honest clients hang up where there are squatters.
const LEASE_TICKS: u64 = 50;
/// Honest bundles that are remembered to be sent again.
const REMEMBERED: usize = 4096;

choice!(
    /// What hostile clients do.
    Hostility, "kind of hostile client",
    /// Genuine bundles of one command, to all replicas.
    Flood = "flood",
    /// Bundles with signatures that are not genuine.
    Forged = "forged",
    /// Questions for the status with its history.
    Status = "status",
    /// Questions for a large value, whose answers are not read.
    NoRead = "no-read",
    /// Genuine bundles of many commands, to one replica that does not lead.
    OneBackupOnly = "one-backup-only",
    /// Bundles that honest clients sent before.
    Replay = "replay",
    /// Commands that it sent before, each time in another bundle.
    Repeat = "repeat",
    /// Links that say nothing, so many that there is no place for others.
    Squat = "squat",
);

impl Hostility {
    /// Frames to each replica in a [`TICK`].
    fn frames(self) -> u64 {
        match self {
            Hostility::Flood | Hostility::Replay => 20,
            Hostility::Forged => 60,
            Hostility::Status | Hostility::NoRead => 100,
            Hostility::OneBackupOnly => 1,
            Hostility::Repeat => 2,
            Hostility::Squat => LINKS_PER_TICK,
        }
    }

    /// Commands in a bundle.
    fn commands(self) -> u64 {
        if self == Hostility::OneBackupOnly { 100 } else { 1 }
    }
}

/// What a client asks of a replica.
#[derive(Clone, Debug)]
pub enum Request {
    /// To order a bundle.
    Bundle(Bundle),
    /// The same, with a signature that is not genuine.
    Forged,
    /// For its counters and history.
    Status,
    /// For a value of so many bytes.
    Query(u64),
    /// For nothing: it dials, and says no more.
    Nothing,
}

/// A hostile client at work.
pub struct Attacker {
    kind: Hostility,
    number: u16,
    /// Commands that it has made.
    commands: u64,
    /// What honest clients sent, and which of it is sent again next.
    seen: VecDeque<Bundle>,
    next: usize,
    ticks: u64,
}

impl Attacker {
    /// One that has done nothing; attackers of one run have different numbers.
    pub fn new(kind: Hostility, number: u16) -> Attacker {
        Attacker { kind, number, commands: 0, seen: VecDeque::new(), next: 0, ticks: 0 }
    }

    /// The one replica that it talks to, if it is one.
    pub fn only_to(&self, replicas: usize) -> Option<usize> {
        (self.kind == Hostility::OneBackupOnly).then_some(replicas - 1)
    }

    /// Whether commands of its come in more than one bundle.
    pub fn repeats(&self) -> bool {
        self.kind == Hostility::Repeat
    }

    /// Whether the honest clients hang up now: they do so now and then beside a squatter, who does no harm to those that have a place.
    pub fn ends_a_lease(&mut self) -> bool {
        self.ticks += 1;
        self.kind == Hostility::Squat && self.ticks.is_multiple_of(LEASE_TICKS)
    }

    /// An honest client sends a bundle, and anybody may have heard it.
    pub fn overhears(&mut self, bundle: &Bundle) {
        if self.kind == Hostility::Replay {
            self.seen.push_back(bundle.clone());
            if self.seen.len() > REMEMBERED {
                self.seen.pop_front();
            }
        }
    }

    /// What it sends to each replica in a [`TICK`], and with how many bytes, while the highest committed height is this one.
    pub fn sends(&mut self, height: Height) -> Vec<(Request, u32)> {
        (0..self.kind.frames()).filter_map(|_| self.send(height)).collect()
    }

    fn send(&mut self, height: Height) -> Option<(Request, u32)> {
        match self.kind {
            Hostility::Flood | Hostility::OneBackupOnly | Hostility::Repeat => {
                let bundle = self.bundle(height);
                let bytes = bundle.body().len() as u32;
                Some((Request::Bundle(bundle), bytes))
            }
            Hostility::Forged => Some((Request::Forged, self.bundle(height).body().len() as u32)),
            Hostility::Status => Some((Request::Status, QUESTION_BYTES)),
            Hostility::NoRead => Some((Request::Query(VALUE_BYTES), QUESTION_BYTES)),
            Hostility::Squat => Some((Request::Nothing, 0)),
            Hostility::Replay => {
                self.next = (self.next + 1) % self.seen.len().max(1);
                let bundle = self.seen.get(self.next)?.clone();
                let bytes = bundle.body().len() as u32;
                Some((Request::Bundle(bundle), bytes))
            }
        }
    }

    fn bundle(&mut self, height: Height) -> Bundle {
        let session = self.commands / SESSION_COMMANDS;
        let client = ClientId((FIRST_OWNER + u128::from(self.number)) << 16 | u128::from(session as u16));
        let mut builder = BundleBuilder::new(client, height.latest_expiry());
        if self.kind == Hostility::Repeat {
            // The last command of the bundle before, and then a new one.
            let last = self.commands.max(1);
            builder.push(client, last, &[0; PAYLOAD_BYTES]);
            builder.push(client, last + 1, &[0; PAYLOAD_BYTES]);
            self.commands = last + 1;
            return builder.finish();
        }
        for _ in 0..self.kind.commands() {
            builder.push(client, 1 + self.commands % SESSION_COMMANDS, &[0; PAYLOAD_BYTES]);
            self.commands += 1;
        }
        builder.finish()
    }
}
