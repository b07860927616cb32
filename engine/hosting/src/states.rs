//! The states that a replica keeps for its peers, and the state that it is receiving.

use bytes::Bytes;
use quorate_consensus::recovery::checkpoints::MAX_STATES_KEPT;
use quorate_consensus::recovery::transfer::{MANIFEST, Part};
use quorate_types::state::chunk_of;
use quorate_types::{Certificate, Digest, Encoder, Height, Manifest, Wire};

/// Maximum number of states kept without a certificate; beyond it, the oldest is dropped. Each may take gigabytes of
/// memory. If the certificate of a dropped state arrives later, a peer has to fetch that state from another replica.
pub const MAX_UNCERTIFIED: usize = 4;

/// Storage of a state's bytes: memory, a file, or a simulated disk.
pub trait Chunks {
    /// Returns a chunk of the state described by `manifest`; `None` if it cannot be read or does not exist.
    fn chunk(&mut self, manifest: &Manifest, chunk: u32) -> Option<Bytes>;
}

impl Chunks for Bytes {
    fn chunk(&mut self, _: &Manifest, chunk: u32) -> Option<Bytes> {
        chunk_of(self, chunk)
    }
}

/// State of a checkpoint, kept for replicas that fetch it.
#[derive(Debug)]
pub struct Kept<S> {
    pub height: Height,
    pub manifest: Manifest,
    /// Certificate of the checkpoint, once there is one.
    pub certificate: Option<Certificate>,
    pub state: S,
}

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

/// Performs the state actions of [`quorate_consensus::Action`]: keep, certify, read, receive, adopt. Keeps the last
/// [`MAX_STATES_KEPT`] certified states, and at most [`MAX_UNCERTIFIED`] uncertified ones.
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
    /// Keeps the uncertified state of a checkpoint. Replaces a state of the same height.
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

    /// Keeps a certified state that was restored after a restart or received from peers.
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

    /// Records that a quorum has certified the state of a checkpoint, and returns the state if it is kept. Drops
    /// uncertified states below it, and certified ones except for the last [`MAX_STATES_KEPT`]: a peer may be fetching
    /// the second to last.
    pub fn certify(&mut self, certificate: Certificate) -> Option<&mut Kept<S>> {
        let height = certificate.subject.height;
        if let Some(kept) = self.get_mut(height) {
            kept.certificate = Some(certificate);
        }
        self.kept.retain(|kept| kept.certificate.is_some() || kept.height > height);
        let mut surplus = self.certified().count().saturating_sub(MAX_STATES_KEPT);
        self.kept.retain(|kept| {
            let goes = surplus > 0 && kept.certificate.is_some();
            surplus -= usize::from(goes);
            !goes
        });
        self.get_mut(height)
    }

    /// Returns a part of a kept state. The state need not be certified here: the requester has the certificate, which
    /// covers the part and the manifest.
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

    /// Starts to receive a state, and returns its chunks that are already available: from `find`, which searches
    /// host-specific places, from an interrupted transfer, or from the newest kept state.
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

    /// Keeps a verified chunk of the state being received.
    ///
    /// # Panics
    /// If another state is being received.
    pub fn keep_chunk(&mut self, height: Height, chunk: u32, bytes: Bytes) {
        let receiving = self.receiving.as_mut().filter(|receiving| receiving.height == height);
        receiving.expect("a transfer was started").chunks[chunk as usize] = Some(bytes);
    }

    /// Returns the received state. It is not kept yet: call [`StateKeeper::keep_certified`] once it is durable.
    ///
    /// # Panics
    /// If a chunk is missing, or another state was being received.
    pub fn received(&mut self, height: Height) -> (Manifest, Bytes) {
        let receiving = self.receiving.take().filter(|receiving| receiving.height == height);
        let Receiving { manifest, chunks, .. } = receiving.expect("a state is received before it is adopted");
        let mut state = Vec::with_capacity(manifest.bytes() as usize);
        for chunk in chunks {
            state.extend_from_slice(&chunk.expect("a state is adopted when all its chunks are here"));
        }
        (manifest, state.into())
    }

    /// Drops the state being received, with its chunks.
    pub fn forget_received(&mut self) {
        self.receiving = None;
    }

    /// Returns the chunks received so far of the state being received.
    pub fn received_chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.receiving.iter().flat_map(|receiving| &receiving.chunks).flatten()
    }

    /// Returns the height and the manifest of the state being received.
    pub fn receiving(&self) -> Option<(Height, &Manifest)> {
        self.receiving.as_ref().map(|receiving| (receiving.height, &receiving.manifest))
    }

    pub fn get_mut(&mut self, height: Height) -> Option<&mut Kept<S>> {
        self.kept.iter_mut().find(|kept| kept.height == height)
    }

    /// Returns all states, oldest first.
    pub fn kept(&self) -> &[Kept<S>] {
        &self.kept
    }

    pub fn kept_mut(&mut self) -> &mut [Kept<S>] {
        &mut self.kept
    }

    /// Returns the certified states, oldest first.
    pub fn certified(&self) -> impl DoubleEndedIterator<Item = (&Certificate, &Kept<S>)> {
        self.kept.iter().filter_map(|kept| Some((kept.certificate.as_ref()?, kept)))
    }

    /// Removes the states for which `stays` returns false.
    pub fn retain(&mut self, stays: impl FnMut(&Kept<S>) -> bool) {
        self.kept.retain(stays);
    }
}
