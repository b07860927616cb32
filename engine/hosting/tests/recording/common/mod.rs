//! A cluster to record; its devices accept every signature.
#![allow(dead_code, reason = "each test file uses its own part")]

use bytes::Bytes;
use quorate_consensus::config::{LeaderKind, ProtocolKind};
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::{Action, Config, Input, Message, Protocol, Replica, To};
use quorate_hosting::recording::{Entry, Header, Reader, Recorder, Tape, Writer, step};
use quorate_types::{
    Attachment, Bundle, BundleBuilder, Certificate, ClientId, Digest, EpochId, Height, Quorum, ReplicaId, Time,
};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const REPLICAS: usize = 4;
/// Larger than any of these recordings.
pub const NO_LIMIT: u64 = 1 << 40;
/// Simulated duration of a step.
const STEP: Duration = Duration::from_micros(10);

/// Directory removed on drop.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("quorate-recording-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.path("file.recording");
        std::fs::write(&path, content).expect("the directory can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn quorum() -> Quorum {
    Quorum::of(REPLICAS).expect("a committee")
}

pub fn epoch() -> EpochId {
    EpochId::of_name("recorded")
}

pub fn config(protocol: ProtocolKind) -> Config {
    let leader = if protocol.has_slots() { LeaderKind::Fixed } else { LeaderKind::RoundRobin };
    Config { protocol, leader, batch: 3.into(), ..Config::default() }
}

pub fn header(protocol: ProtocolKind) -> Header {
    Header::new(epoch(), quorum(), config(protocol))
}

pub fn bundle(number: u64) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(number.into()), Height(0).latest_expiry());
    builder.push(ClientId(number.into()), 1, b"a command");
    builder.finish()
}

/// A run of all replicas: each round sends a command to all and waits until it is executed.
struct Life {
    protocol: ProtocolKind,
    recorder: Recorder,
    rounds: u64,
}

impl ForProtocol for Life {
    type Output = Recorder;

    fn run<P: Protocol + 'static>(mut self, make: MakeReplica<P>) -> Recorder {
        let mut replicas: Vec<Replica<P>> = Vec::new();
        for me in (0..REPLICAS as u16).map(ReplicaId) {
            let salt = 1000 + u64::from(me.0);
            self.recorder.begin(me, salt);
            replicas.push(make(config(self.protocol), quorum(), epoch(), me, salt));
        }
        let mut inputs: VecDeque<(usize, Input<P::Message>)> = VecDeque::new();
        inputs.extend((0..REPLICAS).map(|me| (me, Input::Start)));
        let mut now = Time(0);
        for round in 0..self.rounds {
            inputs.extend(
                (0..REPLICAS).map(|me| (me, Input::Submit { bundles: vec![bundle(round)], sources: Vec::new() })),
            );
            while let Some((me, input)) = inputs.pop_front() {
                now = now + STEP;
                let mut actions = Vec::new();
                step(Some(&mut self.recorder), &mut replicas[me], now, input, &mut actions);
                actions.into_iter().for_each(|action| answer(me, action, &mut inputs));
            }
        }
        self.recorder
    }
}

fn answer<M: Message>(me: usize, action: Action<M>, inputs: &mut VecDeque<(usize, Input<M>)>) {
    match action {
        Action::Send { to, message, .. } => {
            let from = ReplicaId(me as u16);
            let hears = |other: &usize| match to {
                To::One(one) => one.index() == *other,
                To::All => true,
                To::Others => *other != me,
            };
            let receive = |other| (other, Input::Receive { from, message: message.clone() });
            inputs.extend((0..REPLICAS).filter(hears).map(receive));
        }
        Action::Verify { job, .. } => inputs.push_back((me, Input::Verdict { job, genuine: true })),
        Action::Assemble { job, subject, mut votes } => {
            votes.sort_by_key(|vote| vote.voter);
            let signers = votes.iter().map(|vote| vote.voter).collect();
            let attachments = votes.into_iter().map(|vote| vote.attachment);
            let attachments = attachments.filter(|said| *said != Attachment::None).collect();
            let certificate = Certificate { subject, signers, attachments, proof: Bytes::new() };
            inputs.push_back((me, Input::Assembled { job, result: Ok(certificate) }));
        }
        Action::DigestState { frontier } => {
            let (height, state) = (frontier.height(), Digest::ZERO);
            inputs.push_back((me, Input::Executed { height, state, kept: false }));
        }
        _ => {}
    }
}

/// Runs the cluster for some rounds and records it on this tape.
pub fn live(protocol: ProtocolKind, rounds: u64, tape: impl Tape + Send + 'static) -> Recorder {
    for_protocol(protocol, Life { protocol, recorder: Recorder::new(tape), rounds })
}

/// Records a run of some rounds.
pub fn record(protocol: ProtocolKind, rounds: u64, path: &Path, limit_bytes: u64) {
    let writer = Writer::create(path, &header(protocol), limit_bytes).expect("the directory can be written");
    live(protocol, rounds, writer).finish(Some("a name")).expect("the directory can be written");
}

/// Reads all entries of a recording.
pub fn entries(path: &Path) -> Vec<Entry> {
    let mut reader = Reader::open(path).expect("a recording");
    std::iter::from_fn(|| reader.next_entry().expect("a valid recording")).collect()
}

/// Writes a recording of these entries. Without `ends` it looks as if the recorder was killed.
pub fn rewrite(path: &Path, protocol: ProtocolKind, entries: Vec<Entry>, ends: bool) {
    let mut writer = Writer::create(path, &header(protocol), NO_LIMIT).expect("the directory can be written");
    for entry in entries {
        match entry {
            Entry::Begin(begin) => writer.begin(begin),
            Entry::Step(step) => writer.step(step),
            Entry::End(_) => unreachable!("a reader returns no end"),
        }
    }
    if ends {
        writer.finish(None).expect("the directory can be written");
    }
}
