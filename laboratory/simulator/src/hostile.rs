//! Hostile clients.
//!
//! A hostile client has no replica's key. It has its own link to each replica that it attacks, sends regardless of
//! answers, and reconnects immediately after a disconnect. The network between it and the replicas is not modelled: its
//! frames arrive without delay.

use bytes::Bytes;
use quorate_adversary::byzantine::client::divided;
use quorate_crypto::ClientIdentity;
use quorate_types::command::macs_in;
use quorate_types::stages::MessageKind;
use quorate_types::{Bundle, BundleBuilder, ClientId, ClientRequest, Height, ReplicaId, choice, encode_message};
use std::collections::VecDeque;
use std::time::Duration;

/// Interval at which hostile clients send.
pub const TICK: Duration = Duration::from_millis(1);
/// Default time, in milliseconds, within which f+1 replicas must execute each bundle of an honest client, during and
/// after the attacks of hostile clients.
pub const SERVED_WITHIN_MS: f64 = 2000.0;
/// Limit of unread answers on a link, in bytes, above which a replica stops serving it.
pub const MAX_UNREAD_BYTES: u64 = 1 << 20;
/// Owner of the first hostile client.
const FIRST_OWNER: u128 = 0x4057_1113;
/// Commands per session, below the limit of a session.
const SESSION_COMMANDS: u64 = 50_000;
const PAYLOAD_BYTES: usize = 64;
/// Size of a query or a status request.
const QUESTION_BYTES: u32 = 32;
/// Size of the values that hostile clients query, in bytes: the largest that fits in an answer.
pub const VALUE_BYTES: u64 = 1_000_000;
/// Links that a squatter opens to each replica per tick. It occupies all places of a replica within 100 ms.
const LINKS_PER_TICK: u64 = 20;
/// Interval at which the honest clients reconnect under a squatter, in ticks.
const LEASE_TICKS: u64 = 50;
/// Number of honest bundles kept for replay.
const MAX_REMEMBERED: usize = 4096;

choice!(
    /// Attack of a hostile client.
    Hostility, "kind of hostile client",
    /// Sends genuine bundles of one command to all replicas.
    Flood = "flood",
    /// Sends bundles with forged signatures.
    Forged = "forged",
    /// Requests the status with its history.
    Status = "status",
    /// Queries a large value and does not read the answers.
    NoRead = "no-read",
    /// Sends genuine bundles of many commands to one replica that does not lead.
    OneBackupOnly = "one-backup-only",
    /// Sends genuine bundles of one command only to the current leader, so that all other replicas have to fetch them,
    /// and successive leaders have different ones.
    LeaderOnly = "leader-only",
    /// Replays bundles of honest clients.
    Replay = "replay",
    /// Sends its commands again in other bundles.
    Repeat = "repeat",
    /// Opens silent links until all places are occupied.
    Squat = "squat",
    /// Sends bundles with MACs that only the leader accepts, so that no other replica votes for its blocks. If clients
    /// sign, the signatures are invalid.
    MacsForLeader = "macs-for-leader",
    /// Sends bundles with MACs that only the leader refuses. The other replicas wait for its proposal, which never
    /// comes.
    MacsForBackups = "macs-for-backups",
);

impl Hostility {
    /// Returns whether it sends bundles that some replicas accept and others refuse.
    pub fn divides(self) -> bool {
        matches!(self, Hostility::MacsForLeader | Hostility::MacsForBackups)
    }

    /// Returns whether it sends genuine bundles to only one replica.
    pub fn favours_one(self) -> bool {
        matches!(self, Hostility::OneBackupOnly | Hostility::LeaderOnly)
    }

    /// Returns the number of frames to each replica per [`TICK`].
    fn frames(self) -> u64 {
        match self {
            Hostility::Flood | Hostility::LeaderOnly | Hostility::Replay => 20,
            Hostility::Forged => 60,
            Hostility::Status | Hostility::NoRead => 100,
            Hostility::OneBackupOnly | Hostility::MacsForLeader | Hostility::MacsForBackups => 1,
            Hostility::Repeat => 2,
            Hostility::Squat => LINKS_PER_TICK,
        }
    }

    /// Returns the number of commands in a bundle.
    fn commands(self) -> u64 {
        if self == Hostility::OneBackupOnly { 100 } else { 1 }
    }
}

/// Request of a client to a replica.
#[derive(Clone, Debug)]
pub enum Request {
    Bundle(Bundle),
    /// A bundle with a forged signature.
    Forged(Bundle),
    /// Any frame of a client that claims this ID.
    Frame(ClientId, Bytes),
    /// A new link without any request.
    Nothing,
}

impl Request {
    /// Returns the kind of message under which its stages are counted.
    pub fn kind(&self) -> MessageKind {
        match self {
            Request::Bundle(_) | Request::Forged(_) => MessageKind::Request,
            Request::Frame(..) | Request::Nothing => MessageKind::Question,
        }
    }
}

fn question(request: &ClientRequest) -> (Request, u32) {
    (Request::Frame(ClientId::default(), encode_message(request)), QUESTION_BYTES)
}

/// State of a hostile client.
pub struct Attacker {
    kind: Hostility,
    identity: ClientIdentity,
    /// Number of commands sent so far.
    commands: u64,
    /// Bundles of honest clients.
    seen: VecDeque<Bundle>,
    /// Index of the next bundle to replay.
    next: usize,
    ticks: u64,
}

impl Attacker {
    /// Returns the owner of an attacker's commands. `number` must be unique within a run.
    pub fn owner(number: u16) -> u128 {
        FIRST_OWNER + u128::from(number)
    }

    /// Returns an attacker that sends commands as the owner of `identity`.
    pub fn new(kind: Hostility, identity: ClientIdentity) -> Attacker {
        Attacker { kind, identity, commands: 0, seen: VecDeque::new(), next: 0, ticks: 0 }
    }

    /// Returns the only replica that it attacks under `leader`; `None` if it attacks all.
    pub fn only_target(&self, replicas: usize, leader: ReplicaId) -> Option<usize> {
        match self.kind {
            Hostility::OneBackupOnly => Some(replicas - 1),
            Hostility::LeaderOnly => Some(leader.index()),
            _ => None,
        }
    }

    /// Returns whether it sends a command in more than one bundle.
    pub fn is_repeating(&self) -> bool {
        self.kind == Hostility::Repeat
    }

    /// Counts a tick, and returns whether the honest clients reconnect now. They reconnect under a squatter, which
    /// cannot harm clients with established connections.
    pub fn on_tick(&mut self) -> bool {
        self.ticks += 1;
        self.kind == Hostility::Squat && self.ticks.is_multiple_of(LEASE_TICKS)
    }

    /// Observes a bundle of an honest client.
    pub fn on_honest_bundle(&mut self, bundle: &Bundle) {
        if self.kind == Hostility::Replay {
            self.seen.push_back(bundle.clone());
            if self.seen.len() > MAX_REMEMBERED {
                self.seen.pop_front();
            }
        }
    }

    /// Returns the requests to each replica in one [`TICK`], and their sizes. `height` is the highest committed height,
    /// and `leader` the current leader.
    pub fn requests(&mut self, height: Height, leader: ReplicaId) -> Vec<(Request, u32)> {
        (0..self.kind.frames()).filter_map(|_| self.next_request(height, leader)).collect()
    }

    fn next_request(&mut self, height: Height, leader: ReplicaId) -> Option<(Request, u32)> {
        match self.kind {
            Hostility::MacsForLeader | Hostility::MacsForBackups => {
                let for_leader = self.kind == Hostility::MacsForLeader;
                let bundle = self.bundle(height);
                let bytes = bundle.body().len() as u32;
                let has_macs = bundle.authenticator().is_some_and(|authenticator| macs_in(authenticator.kind) > 0);
                let request = match has_macs {
                    true => Request::Bundle(divided(&bundle, |replica| (replica == leader) == for_leader)),
                    false => Request::Forged(bundle),
                };
                Some((request, bytes))
            }
            Hostility::Flood | Hostility::OneBackupOnly | Hostility::LeaderOnly | Hostility::Repeat => {
                let bundle = self.bundle(height);
                let bytes = bundle.body().len() as u32;
                Some((Request::Bundle(bundle), bytes))
            }
            Hostility::Forged => {
                let bundle = self.bundle(height);
                let bytes = bundle.body().len() as u32;
                Some((Request::Forged(bundle), bytes))
            }
            Hostility::Status => Some(question(&ClientRequest::Status { id: 0, history: true })),
            Hostility::NoRead => Some(question(&ClientRequest::Query { id: 0, question: Bytes::new() })),
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
        let client = self.identity.session(session as u16);
        let mut builder = BundleBuilder::new(client, height.latest_expiry());
        if self.kind == Hostility::Repeat {
            // The last command of the previous bundle, and a new one.
            let last = self.commands.max(1);
            builder.push(client, last, &[0; PAYLOAD_BYTES]);
            builder.push(client, last + 1, &[0; PAYLOAD_BYTES]);
            self.commands = last + 1;
            return self.identity.finish(builder);
        }
        for _ in 0..self.kind.commands() {
            builder.push(client, 1 + self.commands % SESSION_COMMANDS, &[0; PAYLOAD_BYTES]);
            self.commands += 1;
        }
        self.identity.finish(builder)
    }
}
