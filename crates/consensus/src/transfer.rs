//! Fetching the state of a checkpoint from others, chunk by chunk.
//!
//! A quorum vouches for the digest of the manifest, and the manifest names every chunk: so it does not matter who sends one. Several
//! peers are asked at a time, each for a few chunks; who is slow is asked for less, who lies for nothing more, who no longer has that
//! state is left out.

use bytes::Bytes;
use quorate_types::{Certificate, Decoder, Height, Manifest, Quorum, ReplicaId, Time, Wire};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most chunks that one peer is asked for at a time: its links carry votes too.
const CHUNKS_PER_PEER: u32 = 2;
/// How many times as long as for a peer one waits for the manifest: after that perhaps nobody has kept that state.
const MANIFEST_PATIENCE: u32 = 16;
/// How many times the patience with a peer that does not answer may be doubled.
const MAX_DOUBLINGS: u32 = 6;

/// What is asked for: the manifest is 0, chunk i is i + 1.
pub type Part = u32;
/// The manifest.
pub const MANIFEST: Part = 0;

#[derive(Clone, Copy)]
struct Asked {
    of: ReplicaId,
    due: Time,
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// How many answers are due.
    in_flight: u32,
    /// How many did not come in time since the last one that did.
    stalled: u32,
    /// It sent something that is not what was asked for.
    lied: bool,
    /// It said that it has not got this state.
    lacks: bool,
}

/// What has become of an answer.
#[derive(PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nobody waits for it.
    Unasked,
    /// The peer has not got this state.
    Lacks,
    /// It is not what the quorum vouches for.
    Forged,
    /// The manifest.
    Manifest(Manifest),
    /// A chunk, by its index.
    Chunk(u32),
}

/// The state of one checkpoint on its way here.
pub struct Transfer {
    checkpoint: Certificate,
    manifest: Option<Manifest>,
    /// Whether the host has said which chunks it has.
    is_prepared: bool,
    /// What is not here yet.
    missing: BTreeMap<Part, Option<Asked>>,
    sources: Vec<Source>,
    me: ReplicaId,
    /// Whom to ask next, among equals.
    turn: usize,
    /// Nothing is asked again before.
    due: Time,
    begun: Time,
}

impl Transfer {
    /// Begins to fetch the state of a checkpoint that a quorum vouches for.
    pub fn new(checkpoint: Certificate, quorum: Quorum, me: ReplicaId, now: Time) -> Transfer {
        Transfer {
            checkpoint,
            manifest: None,
            is_prepared: false,
            missing: BTreeMap::from([(MANIFEST, None)]),
            sources: vec![Source::default(); quorum.replicas()],
            me,
            turn: me.index() + 1,
            due: now,
            begun: now,
        }
    }

    /// Trusts each peer no more than one that was given up has taught: or else who stalls would be asked first every time.
    pub fn after(mut self, given_up: Option<Transfer>) -> Transfer {
        let before = given_up.iter().flat_map(|transfer| &transfer.sources);
        for (source, before) in self.sources.iter_mut().zip(before) {
            (source.stalled, source.lied) = (before.stalled, before.lied);
        }
        self
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &Certificate {
        &self.checkpoint
    }

    /// Its height.
    pub fn height(&self) -> Height {
        self.checkpoint.subject.height
    }

    /// When there may be something to ask.
    pub fn next_request(&self) -> Option<Time> {
        (!self.missing.is_empty()).then_some(self.due)
    }

    /// Whether it is time to look for another state: so many say that they have not got this one that somebody honest does, or its
    /// manifest has not come for long.
    pub fn is_in_vain(&self, now: Time, patience: Duration, quorum: Quorum) -> bool {
        let lacked = self.sources.iter().filter(|source| source.lacks).count() >= quorum.weak();
        let overdue = self.manifest.is_none() && now >= self.begun + patience * MANIFEST_PATIENCE;
        lacked || overdue
    }

    /// Whether the manifest is here: somebody has kept this state.
    pub fn has_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// Whom to ask for what now.
    pub fn requests(&mut self, now: Time, patience: Duration) -> Vec<(ReplicaId, Part)> {
        self.give_up_on_late(now);
        let mut requests = Vec::new();
        let open: Vec<Part> = self.missing.iter().filter(|(_, asked)| asked.is_none()).map(|(part, _)| *part).collect();
        for part in open {
            let Some(of) = self.choose() else { break };
            let source = &mut self.sources[of.index()];
            source.in_flight += 1;
            let due = now + patience * (1 << source.stalled.min(MAX_DOUBLINGS));
            self.missing.insert(part, Some(Asked { of, due }));
            requests.push((of, part));
        }
        let dues = self.missing.values().flatten().map(|asked| asked.due);
        self.due = dues.min().unwrap_or(now + patience);
        if requests.is_empty() && self.missing.values().all(Option::is_none) {
            // Nobody is left to ask: those who were slow, or had it not yet, are given another chance after a while.
            self.sources.iter_mut().for_each(|source| (source.lacks, source.stalled) = (false, 0));
        }
        requests
    }

    fn give_up_on_late(&mut self, now: Time) {
        for asked in self.missing.values_mut() {
            let Some(late) = asked.filter(|asked| asked.due <= now) else { continue };
            let source = &mut self.sources[late.of.index()];
            source.in_flight -= 1;
            source.stalled += 1;
            *asked = None;
        }
    }

    /// The peer with the best record that has room for another question.
    fn choose(&mut self) -> Option<ReplicaId> {
        let (n, turn, me) = (self.sources.len(), self.turn, self.me.index());
        let usable = (0..n).map(|step| (turn + step) % n).filter(|peer| {
            let source = &self.sources[*peer];
            let room = if source.stalled > 0 { 1 } else { CHUNKS_PER_PEER };
            *peer != me && !source.lied && !source.lacks && source.in_flight < room
        });
        let best = usable.min_by_key(|peer| (self.sources[*peer].stalled, self.sources[*peer].in_flight))?;
        self.turn = best + 1;
        Some(ReplicaId(best as u16))
    }

    /// Asks others for what this peer was asked for.
    fn take_back(&mut self, peer: ReplicaId) {
        for asked in self.missing.values_mut().filter(|asked| asked.is_some_and(|asked| asked.of == peer)) {
            *asked = None;
        }
        self.sources[peer.index()].in_flight = 0;
    }

    /// Looks at what a peer has sent. A manifest is to be followed by [`Transfer::prepared`].
    pub fn answered(&mut self, now: Time, from: ReplicaId, part: Part, bytes: &Bytes) -> Answer {
        let Some(asked) = self.missing.get(&part).copied() else { return Answer::Unasked };
        self.due = now;
        if bytes.is_empty() {
            self.sources[from.index()].lacks = true;
            self.take_back(from);
            return Answer::Lacks;
        }
        let answer = match &self.manifest {
            None => self.read_manifest(bytes),
            Some(manifest) => {
                let trusted = bug!(StateTrusted);
                (trusted || manifest.fits(part - 1, bytes)).then_some(Answer::Chunk(part - 1))
            }
        };
        let Some(answer) = answer else {
            self.sources[from.index()].lied = true;
            self.take_back(from);
            return Answer::Forged;
        };
        if let Some(asked) = asked {
            self.sources[asked.of.index()].in_flight -= 1;
        }
        self.sources[from.index()].stalled = 0;
        self.missing.remove(&part);
        if let Answer::Manifest(manifest) = &answer {
            self.manifest = Some(manifest.clone());
        }
        answer
    }

    fn read_manifest(&self, bytes: &Bytes) -> Option<Answer> {
        let mut input = Decoder::new(bytes.clone());
        let manifest = Manifest::decode(&mut input).ok()?;
        input.finish("end of a manifest").ok()?;
        (manifest.digest() == self.checkpoint.subject.digest).then_some(Answer::Manifest(manifest))
    }

    /// The host has these chunks already.
    pub fn prepared(&mut self, now: Time, held: &[u32]) {
        let manifest = self.manifest.as_ref().expect("the host prepares for a manifest");
        self.is_prepared = true;
        self.missing = (0..manifest.chunks()).map(|chunk| (chunk + 1, None)).collect();
        for chunk in held {
            self.missing.remove(&(chunk + 1));
        }
        self.due = now;
    }

    /// Whether the last chunk has come since this was asked last.
    pub fn is_complete(&mut self) -> bool {
        self.missing.is_empty() && std::mem::take(&mut self.is_prepared)
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        let in_flight: usize = self.sources.iter().map(|source| source.in_flight as usize).sum();
        let asked = self.missing.values().flatten().count();
        assert_eq!(in_flight, asked, "every question is out with one peer");
        assert!(asked <= CHUNKS_PER_PEER as usize * self.sources.len(), "a peer is asked for a few chunks at a time");
    }
}
