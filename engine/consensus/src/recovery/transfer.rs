//! State transfer: fetches the state of a checkpoint from other replicas, chunk by chunk.
//!
//! A quorum certifies the digest of the manifest, and the manifest lists every chunk, so any peer can supply a chunk.
//! Several peers are asked at the same time, each for a few chunks. A slow peer is asked for less, a peer that sends
//! wrong data is not asked again, and a peer that no longer has the state is skipped.

pub use crate::ids::{MANIFEST, Part};

use bytes::Bytes;
use quorate_types::{Certificate, Decoder, Height, Manifest, Quorum, ReplicaId, Time, Wire};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of chunks requested from one peer at a time. It is small because the peer's link also carries votes.
const MAX_CHUNKS_PER_PEER: u32 = 2;
/// Number of request timeouts to wait for the manifest. After that, perhaps no replica has kept this state.
const MANIFEST_PATIENCE: u32 = 16;
/// Maximum number of doublings of the timeout for an unresponsive peer.
const MAX_DOUBLINGS: u32 = 6;

#[derive(Clone, Copy)]
struct Asked {
    of: ReplicaId,
    due: Time,
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// Number of outstanding requests.
    in_flight: u32,
    /// Number of timeouts since the peer's last answer.
    stalled: u32,
    /// Whether the peer sent something other than the requested part.
    lied: bool,
    /// Whether the peer said that it does not have this state.
    lacks: bool,
}

/// Result of a peer's answer.
#[derive(PartialEq, Eq, Debug)]
pub enum Answer {
    /// The answer was not requested.
    Unasked,
    /// The peer does not have this state.
    Lacks,
    /// The part does not match the certificate.
    Forged,
    Manifest(Manifest),
    /// A valid chunk, given by its index.
    Chunk(u32),
}

/// Transfer of the state of one checkpoint to this replica.
pub struct Transfer {
    checkpoint: Certificate,
    manifest: Option<Manifest>,
    /// Whether the host has said which chunks it already has.
    is_prepared: bool,
    /// The parts that are missing, and the outstanding request of each.
    missing: BTreeMap<Part, Option<Asked>>,
    sources: Vec<Source>,
    me: ReplicaId,
    /// Next peer to ask among equally good ones.
    turn: usize,
    /// No request is due before this time.
    due: Time,
    begun: Time,
}

impl Transfer {
    /// Starts to fetch the state of a certified checkpoint.
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

    /// Carries over an abandoned transfer's record of its peers. Otherwise a stalling peer would be asked first every
    /// time.
    pub fn after(mut self, given_up: Option<Transfer>) -> Transfer {
        let before = given_up.iter().flat_map(|transfer| &transfer.sources);
        for (source, before) in self.sources.iter_mut().zip(before) {
            (source.stalled, source.lied) = (before.stalled, before.lied);
        }
        self
    }

    pub fn checkpoint(&self) -> &Certificate {
        &self.checkpoint
    }

    /// Returns the height of the checkpoint.
    pub fn height(&self) -> Height {
        self.checkpoint.subject.height
    }

    /// Returns the earliest time at which a request may be due, or `None` if nothing is missing.
    pub fn next_request(&self) -> Option<Time> {
        (!self.missing.is_empty()).then_some(self.due)
    }

    /// Returns whether to look for another state: f+1 peers, at least one of them honest, do not have this one, or its
    /// manifest is long overdue.
    pub fn is_in_vain(&self, now: Time, patience: Duration, quorum: Quorum) -> bool {
        let lacked = self.sources.iter().filter(|source| source.lacks).count() >= quorum.weak();
        let overdue = self.manifest.is_none() && now >= self.begun + patience * MANIFEST_PATIENCE;
        lacked || overdue
    }

    /// Returns whether the manifest has arrived, which shows that some replica has kept this state.
    pub fn has_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// Returns the requests to send now, each with its recipient.
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
            // No peer is left to ask. Peers that were slow or did not have the state yet get another chance after a
            // while.
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

    /// Chooses the peer with the best record among those that may be sent another request.
    fn choose(&mut self) -> Option<ReplicaId> {
        let (n, turn, me) = (self.sources.len(), self.turn, self.me.index());
        let usable = (0..n).map(|step| (turn + step) % n).filter(|peer| {
            let source = &self.sources[*peer];
            let room = if source.stalled > 0 { 1 } else { MAX_CHUNKS_PER_PEER };
            *peer != me && !source.lied && !source.lacks && source.in_flight < room
        });
        let best = usable.min_by_key(|peer| (self.sources[*peer].stalled, self.sources[*peer].in_flight))?;
        self.turn = best + 1;
        Some(ReplicaId(best as u16))
    }

    /// Returns the parts requested from this peer to the pool, so that others are asked for them.
    fn take_back(&mut self, peer: ReplicaId) {
        for asked in self.missing.values_mut().filter(|asked| asked.is_some_and(|asked| asked.of == peer)) {
            *asked = None;
        }
        self.sources[peer.index()].in_flight = 0;
    }

    /// Processes a part that a peer sent. After a manifest, call [`Transfer::on_ready`].
    pub fn on_answer(&mut self, now: Time, from: ReplicaId, part: Part, bytes: &Bytes) -> Answer {
        let Some(asked) = self.missing.get(&part).copied() else { return Answer::Unasked };
        self.due = now;
        if bytes.is_empty() {
            self.sources[from.index()].lacks = true;
            self.take_back(from);
            return Answer::Lacks;
        }
        let answer = match &self.manifest {
            None => self.read_manifest(bytes),
            Some(manifest) if bug!(LastChunkTrusted) && part == manifest.chunks() => Some(Answer::Chunk(part - 1)),
            Some(manifest) => manifest.fits(part - 1, bytes).then_some(Answer::Chunk(part - 1)),
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
        let certified = manifest.digest() == self.checkpoint.subject.digest || bug!(AnyManifest);
        certified.then_some(Answer::Manifest(manifest))
    }

    /// Records the chunks that the host already has.
    pub fn on_ready(&mut self, now: Time, held: &[u32]) {
        let manifest = self.manifest.as_ref().expect("the host reports chunks only after the manifest has arrived");
        self.is_prepared = true;
        self.missing = (0..manifest.chunks()).map(|chunk| (chunk + 1, None)).collect();
        for chunk in held {
            self.missing.remove(&(chunk + 1));
        }
        self.due = now;
    }

    /// Returns whether the last chunk has arrived since the last call.
    pub fn is_complete(&mut self) -> bool {
        self.missing.is_empty() && std::mem::take(&mut self.is_prepared)
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        let in_flight: usize = self.sources.iter().map(|source| source.in_flight as usize).sum();
        let asked = self.missing.values().flatten().count();
        assert_eq!(in_flight, asked, "every outstanding request is counted at its peer");
        assert!(
            asked <= MAX_CHUNKS_PER_PEER as usize * self.sources.len(),
            "the outstanding requests to each peer are bounded"
        );
    }
}
