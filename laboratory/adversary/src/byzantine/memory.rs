//! Messages that a misbehaving replica has received and sent, as material for lies. Everything is bounded, and the
//! oldest entries are evicted.

use crate::byzantine::malleable::Malleable;
use quorate_consensus::{Envelope, Input};
use quorate_types::{Block, Bundle, Certificate, Digest, Domain, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MAX_BLOCKS_KEPT: usize = 512;
/// Maximum number of certificates of each kind.
const MAX_CERTIFICATES_KEPT: usize = 64;
/// Maximum number of bundles: two suffice to replace one with the other.
const MAX_BUNDLES_KEPT: usize = 2;

/// Blocks, certificates and bundles.
#[derive(Default)]
pub struct Memory {
    blocks: VecDeque<Arc<Block>>,
    /// Certificates by kind, in ascending order of view and height.
    certificates: BTreeMap<Domain, VecDeque<Certificate>>,
    bundles: VecDeque<Bundle>,
}

impl Memory {
    /// Records an input of the replica.
    pub fn hear<M: Malleable>(&mut self, input: &Input<M>) {
        match input {
            Input::Receive { message, .. } => self.read(message),
            Input::Submit { bundles, .. } => bundles.iter().for_each(|bundle| self.keep_bundle(bundle)),
            Input::Assembled { result: Ok(certificate), .. } => self.keep_certificate(certificate),
            _ => {}
        }
    }

    pub fn read<M: Malleable>(&mut self, message: &Envelope<M>) {
        match message {
            Envelope::Protocol(message) => {
                if let Some((block, bundles)) = message.proposed() {
                    self.keep_block(block);
                    bundles.iter().for_each(|bundle| self.keep_bundle(bundle));
                }
                message.certificates().into_iter().for_each(|(_, certificate)| self.keep_certificate(certificate));
            }
            Envelope::Blocks(blocks) => blocks.iter().for_each(|block| self.keep_block(block)),
            Envelope::Bundles(bundles) | Envelope::Relay(bundles) | Envelope::Spread(bundles) => {
                bundles.iter().for_each(|bundle| self.keep_bundle(bundle))
            }
            _ => {}
        }
    }

    fn keep_block(&mut self, block: &Arc<Block>) {
        if self.block(&block.digest()).is_some() {
            return;
        }
        if self.blocks.len() == MAX_BLOCKS_KEPT {
            self.blocks.pop_front();
        }
        self.blocks.push_back(block.clone());
    }

    fn keep_certificate(&mut self, certificate: &Certificate) {
        let kept = self.certificates.entry(certificate.subject.domain).or_default();
        let Err(at) = kept.binary_search_by_key(&rank(certificate), rank) else { return };
        kept.insert(at, certificate.clone());
        if kept.len() > MAX_CERTIFICATES_KEPT {
            kept.pop_front();
        }
    }

    fn keep_bundle(&mut self, bundle: &Bundle) {
        if self.bundles.iter().any(|kept| kept.digest() == bundle.digest()) {
            return;
        }
        if self.bundles.len() == MAX_BUNDLES_KEPT {
            self.bundles.pop_front();
        }
        self.bundles.push_back(bundle.clone());
    }

    /// Returns the digest of the latest block.
    pub fn last_block(&self) -> Option<Digest> {
        self.blocks.back().map(|block| block.digest())
    }

    pub fn block(&self, digest: &Digest) -> Option<&Arc<Block>> {
        self.blocks.iter().rev().find(|block| block.digest() == *digest)
    }

    /// Returns a block that competes with the vote's subject: of the same view and, with slots, of the same slot.
    pub fn rival(&self, subject: &Subject) -> Option<&Arc<Block>> {
        let same_place = |block: &&Arc<Block>| {
            block.view == subject.view && (!block.is_unlinked() || block.height == subject.height)
        };
        self.blocks.iter().rev().filter(same_place).find(|block| block.digest() != subject.digest)
    }

    /// Returns a bundle different from `than`.
    pub fn other_bundle(&self, than: Option<&Digest>) -> Option<&Bundle> {
        self.bundles.iter().rev().find(|bundle| Some(&bundle.digest()) != than)
    }

    /// Returns the certificate of the same kind that is `steps` older, or the oldest one kept.
    pub fn older(&self, certificate: &Certificate, steps: usize) -> Option<&Certificate> {
        let kept = self.certificates.get(&certificate.subject.domain)?;
        let below = kept.partition_point(|other| rank(other) < rank(certificate));
        kept.get(below.checked_sub(steps.min(below).max(1))?)
    }

    /// Returns a certificate of the same kind and height from an earlier view.
    pub fn older_of_slot(&self, certificate: &Certificate) -> Option<&Certificate> {
        let Subject { domain, view, height, .. } = certificate.subject;
        let kept = self.certificates.get(&domain)?;
        kept.iter().rev().find(|other| other.subject.height == height && other.view() < view)
    }
}

fn rank(certificate: &Certificate) -> (u64, u64) {
    (certificate.subject.view.0, certificate.subject.height.0)
}
