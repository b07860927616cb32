//! Blocks, which leaders propose.

use crate::bitset::Signers;
use crate::certificate::{Certificate, Domain, Subject};
use crate::codec::{DecodeError, Decoder, Encoder, Wire};
use crate::covers::CoverNames;
use crate::digest::{Digest, Hasher};
use crate::ids::{Height, ReplicaId, View};
use crate::limits::MAX_BLOCK_BUNDLES;
use crate::tags;
use std::fmt;

/// An immutable proposal of commands at one height, linked to its parent by hash and by certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    digest: Digest,
    pub view: View,
    /// The parent's height plus 1.
    pub height: Height,
    /// Leader that proposed it.
    pub author: ReplicaId,
    /// Wall clock of the proposer, in milliseconds since the Unix epoch. 0 in a block that only fills a slot, which
    /// every replica makes by itself.
    pub time_ms: u64,
    /// Certificate of the parent; without signers in an optimistic block.
    pub justify: Certificate,
    /// Digests of the bundles to execute, in order.
    pub payload: Vec<Digest>,
    /// Certificates that prove the storage of the bundles, if leaders propose only stored bundles.
    covers: CoverNames,
}

/// Flag in the encoded payload count: the names of certificates follow.
const COVERED: u32 = 1 << 31;

impl Block {
    /// Creates a block whose parent is the block certified by `justify`.
    ///
    /// # Panics
    /// If the certificate has attachments: the digest would not cover them.
    pub fn new(view: View, author: ReplicaId, justify: Certificate, payload: Vec<Digest>, time_ms: u64) -> Block {
        assert!(justify.attachments.is_empty(), "a certificate of votes has no attachments");
        let (height, covers) = (justify.subject.height.next(), CoverNames::default());
        Block { digest: Digest::ZERO, view, height, author, time_ms, justify, payload, covers }.hashed()
    }

    /// Computes the digest from the other fields.
    fn hashed(self) -> Block {
        Block { digest: digest(&self), ..self }
    }

    /// Returns the block with the names of certificates that prove the storage of its bundles. Its digest covers the
    /// names, so that all voters rely on the same certificates.
    ///
    /// # Panics
    /// If the names are for a different number of bundles.
    pub fn with_covers(mut self, covers: CoverNames) -> Block {
        assert!(covers.fit(self.payload.len()), "a block names the certificate of each of its bundles");
        self.covers = covers;
        self.hashed()
    }

    /// Returns the certificates that prove the storage of the bundles.
    pub fn covers(&self) -> &CoverNames {
        &self.covers
    }

    /// Creates the block of a slot, for protocols that agree on each slot separately, so that no block extends another.
    /// Its height is the slot, and its parent's certificate is blank.
    ///
    /// # Panics
    /// If the slot is 0, which is genesis.
    pub fn of_slot(view: View, author: ReplicaId, slot: Height, payload: Vec<Digest>, time_ms: u64) -> Block {
        let before = Height(slot.0.checked_sub(1).expect("slots count from 1"));
        let subject = Subject { domain: Domain::Vote, view: View(0), height: before, digest: Digest::ZERO };
        let blank =
            Certificate { subject, signers: Signers::empty(), attachments: Vec::new(), proof: bytes::Bytes::new() };
        Block::new(view, author, blank, payload, time_ms)
    }

    /// Creates the block of an optimistic proposal, which names its parent before the parent is certified. `parent` is
    /// the subject of the votes for it; the certificate has no signers and no proof.
    pub fn optimistic(view: View, author: ReplicaId, parent: Subject, payload: Vec<Digest>, time_ms: u64) -> Block {
        let uncertified = Certificate {
            subject: parent,
            signers: Signers::empty(),
            attachments: Vec::new(),
            proof: bytes::Bytes::new(),
        };
        Block::new(view, author, uncertified, payload, time_ms)
    }

    /// Returns whether it names its parent without a certificate; see [`Block::optimistic`]. False for genesis, which
    /// needs none.
    pub fn is_optimistic(&self) -> bool {
        self.justify.signers.is_empty() && self.justify.view() > View(0)
    }

    /// Returns whether it extends no other block; see [`Block::of_slot`].
    pub fn is_unlinked(&self) -> bool {
        self.parent() == Digest::ZERO
    }

    /// Returns the hash of everything except the proof in its certificate, which may differ between honest replicas.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns a copy without the proof in its certificate.
    pub fn without_proof(&self) -> Block {
        let justify = Certificate { proof: bytes::Bytes::new(), ..self.justify.clone() };
        Block { justify, ..self.clone() }
    }

    /// Returns the digest of the parent block.
    pub fn parent(&self) -> Digest {
        self.justify.subject.digest
    }

    /// Returns the subject of votes on this block in `domain`.
    pub fn subject(&self, domain: Domain) -> Subject {
        Subject { domain, view: self.view, height: self.height, digest: self.digest }
    }
}

fn digest(block: &Block) -> Digest {
    let Block { digest: _, view, height, author, time_ms, justify, payload, covers } = block;
    let mut header = Encoder::with_capacity(168);
    view.encode(&mut header);
    height.encode(&mut header);
    author.encode(&mut header);
    header.put_u64(*time_ms);
    justify.subject.encode(&mut header);
    justify.signers.encode(&mut header);
    header.put_count(payload.len());
    let mut hasher = Hasher::new(tags::BLOCK);
    hasher.update(&header.finish());
    for bundle in payload {
        hasher.update(&bundle.0);
    }
    if !covers.is_empty() {
        let mut names = Encoder::with_capacity(covers.wire_bytes());
        covers.encode(&mut names);
        hasher.update(&names.finish());
    }
    hasher.finish()
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block { view, height, author, justify, payload, .. } = self;
        write!(
            f,
            "block {:?} {view:?} {height:?} by {author:?} on QC({:?}) with {}",
            self.digest,
            justify.view(),
            payload.len()
        )
    }
}

/// By hand: the covers have no number of their own, and the digest, which is not encoded, is computed anew.
impl Wire for Block {
    fn encode(&self, out: &mut Encoder) {
        self.view.encode(out);
        self.author.encode(out);
        out.put_u64(self.time_ms);
        self.justify.encode(out);
        let count = u32::try_from(self.payload.len()).expect("the wire format limits the bundles of a block");
        out.put_u32(if self.covers.is_empty() { count } else { count | COVERED });
        self.payload.iter().for_each(|bundle| bundle.encode(out));
        if !self.covers.is_empty() {
            self.covers.encode(out);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let view = View::decode(input)?;
        let author = ReplicaId::decode(input)?;
        let time_ms = input.get_u64("time of a block")?;
        let justify = Certificate::decode(input)?;
        if !justify.attachments.is_empty() {
            return Err(input
                .invalid("block", "the certificate of its parent has attachments, which its digest does not cover"));
        }
        if justify.subject.height.0 == u64::MAX {
            return Err(input.invalid("block", "its parent already has the maximum height"));
        }
        let (covered, count) = input.get_flagged_count("block payload", COVERED, MAX_BLOCK_BUNDLES, 32)?;
        let payload = (0..count).map(|_| Digest::decode(input)).collect::<Result<Vec<_>, _>>()?;
        let covers = if covered { CoverNames::decode(input, count)? } else { CoverNames::default() };
        let block = Block::new(view, author, justify, payload, time_ms);
        Ok(if covered { block.with_covers(covers) } else { block })
    }
}
