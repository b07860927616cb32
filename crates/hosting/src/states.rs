//! The states that a replica keeps for others, and the one that it receives itself.

use bytes::Bytes;
use quorate_consensus::checkpoints::STATES_KEPT;
use quorate_consensus::transfer::{MANIFEST, Part};
use quorate_types::state::chunk_of;
use quorate_types::{Certificate, Digest, Encoder, Height, Manifest, Wire};

/// Most states that are kept before a quorum vouches for them; the oldest gives way. Each may be gigabytes in memory,
/// but a replica offers a state whose certificate comes late, and a peer that fetches it from here has to ask another
/// if it is gone.
pub const MAX_UNCERTIFIED: usize = 4;

/// Where the bytes of a state are: in memory, in a file, on a simulated disk.
pub trait Chunks {
    /// Returns the bytes of a chunk of the state that `manifest` describes; none if they cannot be read or there is
    /// no such chunk.
    fn chunk(&mut self, manifest: &Manifest, chunk: u32) -> Option<Bytes>;
}

impl Chunks for Bytes {
    fn chunk(&mut self, _: &Manifest, chunk: u32) -> Option<Bytes> {
        chunk_of(self, chunk)
    }
}

/// A state that is kept.
#[derive(Debug)]
pub struct Kept<S> {
    pub height: Height,
    pub manifest: Manifest,
    /// That of the checkpoint, as soon as there is one.
    pub certificate: Option<Certificate>,
    pub state: S,
}

/// A state on its way here.
#[derive(Debug)]
struct Receiving {
    height: Height,
    manifest: Manifest,
    chunks: Vec<Option<Bytes>>,
}

impl Receiving {
    fn find(&self, digest: &Digest) -> Option<Bytes> {
        let chunk = self.manifest.digests().iter().position(|known| known == digest)?;
        self.chunks[chunk].clone()
    }
}

/// Performs what [`quorate_consensus::Action`] asks of a host about states: keep, certify, read, receive, adopt. The
/// last [`STATES_KEPT`] certified states stay, and at most [`MAX_UNCERTIFIED`] that wait for a certificate.
#[derive(Debug)]
pub struct StateKeeper<S> {
    /// Ascending by height.
    kept: Vec<Kept<S>>,
    receiving: Option<Receiving>,
}

impl<S> Default for StateKeeper<S> {
    fn default() -> Self {
        StateKeeper { kept: Vec::new(), receiving: None }
    }
}

impl<S: Chunks> StateKeeper<S> {
    /// Keeps the state of a checkpoint, for which nobody vouches yet. A state that is kept of the same height gives
    /// way.
    pub fn keep(&mut self, height: Height, manifest: Manifest, state: S) {
        self.insert(Kept { height, manifest, certificate: None, state });
        let mut surplus =
            self.kept.iter().filter(|kept| kept.certificate.is_none()).count().saturating_sub(MAX_UNCERTIFIED);
        self.kept.retain(|kept| {
            let goes = surplus > 0 && kept.certificate.is_none();
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// Keeps a state for which a quorum vouches: one of an earlier life, or one that was received and adopted.
    pub fn keep_certified(&mut self, certificate: Certificate, manifest: Manifest, state: S) {
        let height = certificate.subject.height;
        self.insert(Kept { height, manifest, certificate: None, state });
        self.certify(certificate);
    }

    fn insert(&mut self, state: Kept<S>) {
        self.kept.retain(|kept| kept.height != state.height);
        let at = self.kept.partition_point(|kept| kept.height < state.height);
        self.kept.insert(at, state);
    }

    /// Notes that a quorum vouches for the state of a checkpoint, and returns it if it is here. Uncertified states
    /// below it go, and certified ones but for the last [`STATES_KEPT`]: somebody may have begun to fetch the last
    /// but one.
    pub fn certify(&mut self, certificate: Certificate) -> Option<&mut Kept<S>> {
        let height = certificate.subject.height;
        if let Some(kept) = self.get_mut(height) {
            kept.certificate = Some(certificate);
        }
        self.kept.retain(|kept| kept.certificate.is_some() || kept.height > height);
        let mut surplus = self.certified().count().saturating_sub(STATES_KEPT);
        self.kept.retain(|kept| {
            let goes = surplus > 0 && kept.certificate.is_some();
            surplus -= usize::from(goes);
            !goes
        });
        self.get_mut(height)
    }

    /// Returns a part of a state that is kept. It need not be certified here: whoever asks has the certificate, and
    /// part and manifest are proven by it.
    pub fn read(&mut self, height: Height, part: Part) -> Option<Bytes> {
        let kept = self.get_mut(height)?;
        match part {
            MANIFEST => {
                let mut out = Encoder::default();
                kept.manifest.encode(&mut out);
                Some(out.finish())
            }
            chunk => kept.state.chunk(&kept.manifest, chunk - 1),
        }
    }

    /// Begins to receive a state, and returns which of its chunks are here. They come from `find`, which looks in
    /// places of the host's, from a transfer that was interrupted, and from the newest state that is kept.
    pub fn receive(
        &mut self,
        height: Height,
        manifest: Manifest,
        mut find: impl FnMut(&Digest) -> Option<Bytes>,
    ) -> Vec<u32> {
        let (before, mut newest) = (self.receiving.take(), self.kept.last_mut());
        let mut find = |digest: &Digest| {
            let received = || before.as_ref()?.find(digest);
            let own = || {
                let kept = newest.as_mut()?;
                let chunk = kept.manifest.digests().iter().position(|known| known == digest)? as u32;
                kept.state.chunk(&kept.manifest, chunk).filter(|bytes| kept.manifest.fits(chunk, bytes))
            };
            find(digest).or_else(received).or_else(own)
        };
        let chunks: Vec<_> = manifest.digests().iter().map(&mut find).collect();
        let held = (0..).zip(&chunks).filter(|(_, chunk)| chunk.is_some()).map(|(index, _)| index).collect();
        self.receiving = Some(Receiving { height, manifest, chunks });
        held
    }

    /// Keeps a chunk of the state that is being received; the replica has found it to be genuine.
    ///
    /// # Panics
    /// If that state is not the one that is being received.
    pub fn keep_chunk(&mut self, height: Height, chunk: u32, bytes: Bytes) {
        let receiving = self.receiving.as_mut().filter(|receiving| receiving.height == height);
        receiving.expect("chunks come after the host has prepared for them").chunks[chunk as usize] = Some(bytes);
    }

    /// Returns the state that was received. It is not kept yet: that is for [`StateKeeper::keep_certified`], when it
    /// is durable.
    ///
    /// # Panics
    /// If a chunk of it is missing, or it is not the one that was being received.
    pub fn received(&mut self, height: Height) -> (Manifest, Bytes) {
        let receiving = self.receiving.take().filter(|receiving| receiving.height == height);
        let Receiving { manifest, chunks, .. } = receiving.expect("a state is received before it is adopted");
        let mut state = Vec::with_capacity(manifest.bytes() as usize);
        for chunk in chunks {
            state.extend_from_slice(&chunk.expect("a state is adopted when all its chunks are here"));
        }
        (manifest, state.into())
    }

    /// Forgets the state that is being received: what had come of it is lost.
    pub fn forget_received(&mut self) {
        self.receiving = None;
    }

    /// Returns the chunks that have come of the state that is being received.
    pub fn received_chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.receiving.iter().flat_map(|receiving| &receiving.chunks).flatten()
    }

    /// Returns the manifest of the state that is being received, and its height.
    pub fn receiving(&self) -> Option<(Height, &Manifest)> {
        self.receiving.as_ref().map(|receiving| (receiving.height, &receiving.manifest))
    }

    /// Returns the state of a height.
    pub fn get_mut(&mut self, height: Height) -> Option<&mut Kept<S>> {
        self.kept.iter_mut().find(|kept| kept.height == height)
    }

    /// Returns all states, oldest first.
    pub fn kept(&self) -> &[Kept<S>] {
        &self.kept
    }

    /// Returns all states, oldest first.
    pub fn kept_mut(&mut self) -> &mut [Kept<S>] {
        &mut self.kept
    }

    /// Returns the states that a quorum vouches for, oldest first.
    pub fn certified(&self) -> impl DoubleEndedIterator<Item = (&Certificate, &Kept<S>)> {
        self.kept.iter().filter_map(|kept| Some((kept.certificate.as_ref()?, kept)))
    }

    /// Removes the states for which `stays` does not hold.
    pub fn retain(&mut self, stays: impl FnMut(&Kept<S>) -> bool) {
        self.kept.retain(stays);
    }
}
