//! Subjects, votes and certificates.
//!
//! In every phase of every protocol, votes on a [`Subject`] become a [`Certificate`]. A vote signs a [`Statement`]:
//! fixed fields in a fixed order, beginning with the epoch and the domain, so no signature has two meanings.

mod assembly;

use crate::bitset::Signers;
use crate::codec::{DecodeError, Decoder, Encoder, Wire, decode_list, encode_list};
use crate::digest::{Digest, Hasher};
use crate::identity::ProofShape;
use crate::ids::{EpochId, Height, ReplicaId, View};
use crate::limits::{MAX_PROOF_BYTES, MAX_REPLICAS, MAX_SIGNATURE_BYTES};
use crate::quorum::Quorum;
use crate::tags;
use crate::wire;
use bytes::Bytes;

/// Kind of a signed statement. The signature covers its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Domain {
    /// "I propose this block": the leader's signature, and evidence if it signs two.
    Proposal = 1,
    /// "I vote for this block": n-f of these form a quorum certificate.
    Vote = 2,
    /// "I timed out of this view": n-f of these form a timeout certificate or an aggregate quorum certificate.
    Timeout = 3,
    /// The first phase of a protocol with separate phases: PBFT's PREPARE, basic HotStuff's prepare.
    Prepare = 4,
    /// Basic HotStuff's pre-commit.
    PreCommit = 5,
    /// PBFT's COMMIT, basic HotStuff's commit.
    Commit = 6,
    /// PBFT's CHECKPOINT: "my state after this slot has this digest".
    Checkpoint = 7,
    /// PBFT's VIEW-CHANGE: "I move to this view, with proofs that have this digest".
    ViewChange = 8,
    /// "I have journaled every bundle of this batch": a quorum of these proves that f+1 honest replicas keep it.
    Stored = 9,
    /// "I propose this block for the next view, before its parent is certified": the leader's signature, and evidence
    /// if the leader signs two. It contradicts no proposal of another kind.
    OptimisticProposal = 10,
    /// "I lack this bundle of a final block": a quorum of these makes the bundle void. The view field contains the
    /// bundle's position.
    Absent = 11,
}

impl Domain {
    /// All domains, in the order of their numbers.
    pub const ALL: [Domain; 11] = [
        Domain::Proposal,
        Domain::Vote,
        Domain::Timeout,
        Domain::Prepare,
        Domain::PreCommit,
        Domain::Commit,
        Domain::Checkpoint,
        Domain::ViewChange,
        Domain::Stored,
        Domain::OptimisticProposal,
        Domain::Absent,
    ];

    /// Returns whether statements of this kind are signed by a leader alone, so that no quorum can certify them.
    pub fn is_proposal(self) -> bool {
        matches!(self, Domain::Proposal | Domain::OptimisticProposal)
    }
}

wire! {
    enum Domain as "domain" of ALL
}

/// The content of a vote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject {
    pub domain: Domain,
    /// Covered by the signatures, so that a certificate cannot be replayed in another view.
    pub view: View,
    /// Height of the block, or the slot.
    pub height: Height,
    /// Digest of the block; zero without a block.
    pub digest: Digest,
}

const SUBJECT_BYTES: usize = 1 + 8 + 8 + 32;

wire! { struct Subject { domain, view, height, digest } }

/// An addition to a vote, covered by its signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attachment {
    None,
    /// View of the highest quorum certificate known to the voter (Jolteon's timeout, figure 2 of its paper).
    HighView(View),
    /// The highest quorum certificate known to the voter (Fast-HotStuff's NEW-VIEW).
    HighCertificate(Box<Certificate>),
}

impl Attachment {
    /// Returns the view of the voter's highest certificate, if attached.
    pub fn high_view(&self) -> Option<View> {
        match self {
            Attachment::None => None,
            Attachment::HighView(view) => Some(*view),
            Attachment::HighCertificate(certificate) => Some(certificate.subject.view),
        }
    }
}

wire! {
    enum Attachment as "attachment" {
        0 = None,
        1 = HighView(view),
        2 = HighCertificate(certificate: with[Wire::encode, Certificate::decode_flat]),
    }
}

/// Tag (8), epoch (32), subject, and an attachment's kind (1) and subject.
const MAX_STATEMENT_BYTES: usize = 8 + 32 + SUBJECT_BYTES + 1 + SUBJECT_BYTES;

/// The bytes that a vote signs. They are never sent: receivers reconstruct them.
#[derive(Clone, Copy)]
pub struct Statement {
    domain: Domain,
    bytes: [u8; MAX_STATEMENT_BYTES],
    length: usize,
}

impl Statement {
    /// Encodes the statement of a vote on `subject` with `attachment` in `epoch`.
    pub fn new(epoch: &EpochId, subject: &Subject, attachment: &Attachment) -> Statement {
        let mut statement = Statement { domain: subject.domain, bytes: [0; MAX_STATEMENT_BYTES], length: 0 };
        statement.put(b"quorate1");
        statement.put(&epoch.0.0);
        statement.put_subject(subject);
        match attachment {
            Attachment::None => statement.put(&[0]),
            Attachment::HighView(view) => {
                statement.put(&[1]);
                statement.put(&view.0.to_le_bytes());
            }
            Attachment::HighCertificate(certificate) => {
                statement.put(&[2]);
                statement.put_subject(&certificate.subject);
            }
        }
        statement
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn put_subject(&mut self, subject: &Subject) {
        self.put(&[subject.domain as u8]);
        self.put(&subject.view.0.to_le_bytes());
        self.put(&subject.height.0.to_le_bytes());
        self.put(&subject.digest.0);
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns the domain of its subject.
    pub fn domain(&self) -> Domain {
        self.domain
    }
}

/// One replica's signed statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vote {
    pub subject: Subject,
    pub attachment: Attachment,
    pub voter: ReplicaId,
    /// The scheme's signature of the statement; empty until the host has signed it.
    pub signature: Bytes,
}

impl Vote {
    /// Encodes the statement that the voter signs.
    pub fn statement(&self, epoch: &EpochId) -> Statement {
        Statement::new(epoch, &self.subject, &self.attachment)
    }
}

wire! { struct Vote { subject, attachment, voter, signature: bytes["signature", MAX_SIGNATURE_BYTES] } }

/// Proof that a quorum voted on one subject. Only the signature scheme knows the structure of the proof.
#[derive(Clone, Eq, Debug)]
pub struct Certificate {
    pub subject: Subject,
    pub signers: Signers,
    /// One per signer, in the signers' order; empty if no signer has one.
    pub attachments: Vec<Attachment>,
    /// The scheme's proof: a list of signatures in the signers' order, or an aggregate.
    pub proof: Bytes,
}

impl PartialEq for Certificate {
    /// Avoids comparing empty proofs byte by byte: their dangling address costs some processors a hundred cycles.
    fn eq(&self, other: &Certificate) -> bool {
        let Certificate { subject, signers, attachments, proof } = self;
        *subject == other.subject
            && *signers == other.signers
            && *attachments == other.attachments
            && (proof.is_empty() && other.proof.is_empty() || *proof == other.proof)
    }
}

impl Certificate {
    /// Returns the genesis certificate, which needs no proof because it is derived from the epoch's id.
    pub fn genesis(epoch: &EpochId) -> Certificate {
        Certificate {
            subject: Subject { domain: Domain::Vote, view: View(0), height: Height(0), digest: epoch.genesis() },
            signers: Signers::empty(),
            attachments: Vec::new(),
            proof: Bytes::new(),
        }
    }

    /// Returns the encoded length of a certificate by a quorum of signers without attachments, excluding its subject.
    pub fn bytes_of_quorum(shape: ProofShape, quorum: &Quorum) -> usize {
        let signers: Signers = (quorum.faults()..quorum.replicas()).map(|id| ReplicaId(id as u16)).collect();
        let proof = vec![0; shape.proof_bytes(signers.len())].into();
        let certificate = Certificate { signers, proof, ..Certificate::genesis(&EpochId(Digest::ZERO)) };
        let mut out = Encoder::with_capacity(certificate.proof.len() + 128);
        certificate.encode(&mut out);
        out.finish().len() - SUBJECT_BYTES
    }

    pub fn view(&self) -> View {
        self.subject.view
    }

    /// Returns the attachment of the signer at index `position`.
    pub fn attachment(&self, position: usize) -> &Attachment {
        static NONE: Attachment = Attachment::None;
        self.attachments.get(position).unwrap_or(&NONE)
    }

    /// Returns the highest certificate view in the attachments.
    pub fn highest_attached_view(&self) -> Option<View> {
        self.attachments.iter().filter_map(Attachment::high_view).max()
    }

    /// Returns the highest certificate in the attachments.
    pub fn highest_attached_certificate(&self) -> Option<&Certificate> {
        let certificates = self.attachments.iter().filter_map(|attachment| match attachment {
            Attachment::HighCertificate(certificate) => Some(certificate.as_ref()),
            _ => None,
        });
        certificates.max_by_key(|certificate| certificate.subject.view)
    }

    /// Returns the hash of the whole certificate including the proof, for caches of verified certificates.
    pub fn fingerprint(&self) -> Digest {
        let mut out = Encoder::with_capacity(64 + self.proof.len());
        self.encode(&mut out);
        let mut hasher = Hasher::new(tags::CERTIFICATE);
        hasher.update(&out.finish());
        hasher.finish()
    }

    /// Decodes an attached certificate, which must not have attachments itself.
    fn decode_flat(input: &mut Decoder) -> Result<Box<Self>, DecodeError> {
        let subject = Subject::decode(input)?;
        let signers = Signers::decode(input)?;
        if input.get_u32("attachments")? != 0 {
            return Err(input.invalid("attachments", "an attached certificate carries no attachments"));
        }
        let proof = input.get_bytes("proof", MAX_PROOF_BYTES)?;
        Ok(Box::new(Certificate { subject, signers, attachments: Vec::new(), proof }))
    }
}

/// By hand: the attachments are as many as the signers, which is checked before the proof is decoded.
impl Wire for Certificate {
    fn encode(&self, out: &mut Encoder) {
        self.subject.encode(out);
        self.signers.encode(out);
        encode_list(&self.attachments, out);
        out.put_bytes(&self.proof);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        let subject = Subject::decode(input)?;
        let signers = Signers::decode(input)?;
        let attachments: Vec<Attachment> = decode_list(input, "attachments", MAX_REPLICAS, 1)?;
        if !attachments.is_empty() && attachments.len() != signers.len() {
            return Err(input.invalid("attachments", "their number is neither zero nor that of the signers"));
        }
        if attachments.contains(&Attachment::None) {
            return Err(input.invalid("attachments", "a signer without one makes the list ambiguous"));
        }
        let proof = input.get_bytes("proof", MAX_PROOF_BYTES)?;
        Ok(Certificate { subject, signers, attachments, proof })
    }
}
