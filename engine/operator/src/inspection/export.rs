//! Exports the committed chain in a format that third parties can check; `docs/EXPORT.md` describes it.

use super::InspectError;
use super::chain::Committed;
use super::place::Place;
use super::states::{Executed, Opening, States};
use quorate_applications::Reply;
use quorate_consensus::recovery::frontier::Frontier;
use quorate_crypto::SchemeKind;
use quorate_types::digest::encode_hex;
use quorate_types::files::{DEFAULT_MODE, Replacement};
use quorate_types::identity::ProofShape;
use quorate_types::{Block, Certificate, Digest, Height, Member};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Data for the end of an export.
pub(super) struct Ending<'a> {
    pub committed: (Height, Digest),
    pub proven: Height,
    /// Proof that blocks are committed, by the protocol's rule.
    pub certificate: Option<Certificate>,
    /// Blocks above the committed ones on which the proof relies.
    pub beyond: Vec<Arc<Block>>,
    pub states: States<'a>,
}

/// Format of an export.
pub const FORMAT: u32 = 5;

/// Summary of a written export.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Exported {
    pub file: String,
    pub bytes: u64,
    pub blocks: u64,
    /// Height up to which the file proves commits, counted from its last root.
    pub proven_height: u64,
}

#[derive(Serialize)]
#[serde(tag = "line", rename_all = "lowercase")]
enum Line<'a> {
    Cluster {
        format: u32,
        name: &'a str,
        id: Digest,
        protocol: &'static str,
        scheme: &'static str,
        auth_profile: &'static str,
        /// MAC scheme of votes, if there is one.
        vote_macs: Option<&'static str>,
        application: &'static str,
        replicas: usize,
        faults: usize,
        quorum: usize,
        checkpoint_interval: u64,
        members: Vec<MemberForm>,
        replica: u16,
    },
    Root {
        height: u64,
        digest: &'a Digest,
    },
    History {
        height: u64,
        history: Digest,
        /// Time of execution at this height, in milliseconds since the Unix epoch.
        time_ms: u64,
    },
    Block {
        committed: bool,
        height: u64,
        view: u64,
        author: u16,
        /// Time that the proposer gave, in milliseconds since the Unix epoch.
        time_ms: u64,
        digest: Digest,
        justify: Option<CertificateForm>,
        payload: &'a [Digest],
        /// Names of the certificates on which the block relies for its bundles, if replicas certify their storage.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        covers: Vec<Option<&'a Digest>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bundles: Option<Vec<String>>,
        /// Certificates of the absence of bundles, without which the block was executed.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        voids: Vec<CertificateForm>,
        #[serde(skip_serializing_if = "Option::is_none")]
        results: Option<Vec<String>>,
    },
    Certificate {
        certificate: CertificateForm,
    },
    Checkpoint {
        certificate: CertificateForm,
        history: Option<&'a Digest>,
        frontier: Option<Vec<FrontierForm>>,
    },
    End {
        committed_height: u64,
        committed_digest: &'a Digest,
        proven_height: u64,
        blocks: u64,
    },
}

#[derive(Serialize)]
struct MemberForm {
    identity_key: String,
    voting_key: String,
    possession: String,
}

impl MemberForm {
    fn of(member: &Member) -> MemberForm {
        MemberForm {
            identity_key: encode_hex(&member.identity_key),
            voting_key: encode_hex(&member.voting_key),
            possession: encode_hex(&member.possession),
        }
    }
}

#[derive(Serialize)]
struct CertificateForm {
    domain: u8,
    view: u64,
    height: u64,
    digest: Digest,
    signers: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signatures: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unproven: bool,
}

#[derive(Serialize)]
struct FrontierForm {
    digest: Digest,
    candidates: Vec<u16>,
}

/// Writes an export while the journal is read. Writing stops at the first error, which is reported at the end.
pub(super) struct Writer {
    shape: ProofShape,
    /// Whether proofs are lists of signatures rather than aggregates.
    is_listed: bool,
    file: Result<BufWriter<Replacement>, io::Error>,
    blocks: u64,
}

impl Writer {
    /// Begins the file `path`, and writes its first lines.
    pub fn create(path: &Path, place: &Place) -> Writer {
        let scheme = place.config.scheme;
        let file = Replacement::begin(path, DEFAULT_MODE).map(BufWriter::new);
        let (profile, quorum) = (scheme.profile(), place.committee.quorum);
        let shape = profile.shape(quorum.replicas());
        let is_listed = profile.unforgeable && !profile.aggregatable;
        let mut writer = Writer { shape, is_listed, file, blocks: 0 };
        writer.line(&Line::Cluster {
            format: FORMAT,
            name: &place.config.cluster,
            id: place.committee.epoch.0,
            protocol: place.config.consensus.protocol.name(),
            scheme: scheme.name(),
            auth_profile: place.config.auth_profile.name(),
            vote_macs: place.config.vote_macs().map(SchemeKind::name),
            application: place.config.application.name(),
            replicas: quorum.replicas(),
            faults: quorum.faults(),
            quorum: quorum.quorum(),
            checkpoint_interval: place.config.consensus.checkpoint_interval,
            members: place.committee.members.iter().map(MemberForm::of).collect(),
            replica: place.config.replica.0,
        });
        writer
    }

    fn line(&mut self, line: &Line<'_>) {
        let Ok(file) = &mut self.file else { return };
        let written = serde_json::to_writer(&mut *file, line).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| file.write_all(b"\n")) {
            self.file = Err(error);
        }
    }

    /// Writes that the chain begins above this block.
    pub fn root(&mut self, height: Height, digest: &Digest) {
        self.line(&Line::Root { height: height.0, digest });
    }

    /// Writes a committed block with its bundles, and their results if they were executed.
    pub fn committed(&mut self, Committed { block, bundles, voids }: &Committed, executed: Option<Executed<'_>>) {
        self.blocks += 1;
        if let Some((history, time_ms)) = executed.as_ref().and_then(|executed| executed.begins_after) {
            self.line(&Line::History { height: block.height.0 - 1, history, time_ms });
        }
        let bundles = bundles.iter().map(|bundle| encode_hex(bundle.body())).collect();
        let results_of = |reply: &Reply| encode_hex(reply.results.body());
        let results = executed.map(|executed| executed.replies.iter().map(results_of).collect());
        let voids = voids.iter().map(|certificate| self.form(certificate)).collect();
        self.block(block, Some(bundles), voids, results);
    }

    fn block(
        &mut self,
        block: &Block,
        bundles: Option<Vec<String>>,
        voids: Vec<CertificateForm>,
        results: Option<Vec<String>>,
    ) {
        let justify = (!block.is_unlinked()).then(|| self.form(&block.justify));
        self.line(&Line::Block {
            committed: bundles.is_some(),
            height: block.height.0,
            view: block.view.0,
            author: block.author.0,
            time_ms: block.time_ms,
            digest: block.digest(),
            justify,
            payload: &block.payload,
            covers: block.covers().of_bundles().collect(),
            bundles,
            voids,
            results,
        });
    }

    /// Blocks and states never have certificates with attachments.
    fn form(&self, certificate: &Certificate) -> CertificateForm {
        assert!(certificate.attachments.is_empty(), "certificates of blocks and states have no attachments");
        let (listed, width) = (self.is_listed, self.shape.signature_bytes);
        // An optimistic block names its parent without signers. Genesis has none either, but needs no proof.
        let (bare, unproved) = (certificate.signers.is_empty(), width > 0 && certificate.proof.is_empty());
        let unproven = if bare { certificate.view().0 > 0 } else { unproved };
        CertificateForm {
            domain: certificate.subject.domain as u8,
            view: certificate.subject.view.0,
            height: certificate.subject.height.0,
            digest: certificate.subject.digest,
            signers: certificate.signers.iter().map(|replica| replica.0).collect(),
            signatures: (listed && !unproven).then(|| certificate.proof.chunks(width).map(encode_hex).collect()),
            proof: (!listed && !unproven).then(|| encode_hex(&certificate.proof)),
            unproven,
        }
    }

    /// Completes the file and puts it in place.
    pub fn finish(mut self, path: &Path, ending: &Ending<'_>) -> Result<Exported, InspectError> {
        ending.beyond.iter().for_each(|block| self.block(block, None, Vec::new(), None));
        if let Some(certificate) = &ending.certificate {
            self.line(&Line::Certificate { certificate: self.form(certificate) });
        }
        for (certificate, opening) in ending.states.checkpoints() {
            let (history, frontier) = match opening {
                Opening::History { history, frontier } => (Some(history), Some(frontier)),
                Opening::State => (None, None),
            };
            self.line(&Line::Checkpoint {
                certificate: self.form(certificate),
                history,
                frontier: frontier.map(frontier_form),
            });
        }
        let (height, digest) = ending.committed;
        let (blocks, proven) = (self.blocks, ending.proven);
        self.line(&Line::End {
            committed_height: height.0,
            committed_digest: &digest,
            proven_height: proven.0,
            blocks,
        });
        let written = std::mem::replace(&mut self.file, Err(io::ErrorKind::WriteZero.into()));
        let complete = || written?.into_inner().map_err(io::IntoInnerError::into_error)?.commit();
        let bytes = complete().map_err(|source| InspectError::Export { path: path.to_owned(), source })?;
        let file = path.display().to_string();
        Ok(Exported { file, bytes, blocks, proven_height: proven.0 })
    }
}

fn frontier_form(frontier: &Frontier) -> Vec<FrontierForm> {
    let blocks = frontier.clone().into_blocks().into_iter();
    let form = blocks.map(|(block, candidates)| FrontierForm {
        digest: block.digest(),
        candidates: candidates.iter().map(|replica| replica.0).collect(),
    });
    form.collect()
}
