//! What a misbehaving replica has heard and said, as far as lies are made of it. All of it is bounded; the oldest gives way.

use crate::malleable::Malleable;
use quorate_consensus::{Envelope, Input};
use quorate_types::{Block, Bundle, Certificate, Digest, Domain, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Blocks that are remembered.
const BLOCKS_KEPT: usize = 512;
/// Certificates of each kind that are remembered.
const CERTIFICATES_KEPT: usize = 64;
/// Bundles that are remembered: to replace one, another is enough.
const BUNDLES_KEPT: usize = 2;

/// Blocks, certificates and bundles.
#[derive(Default)]
pub struct Memory {
    blocks: VecDeque<Arc<Block>>,
    /// By kind, in ascending order of view and height.
    certificates: BTreeMap<Domain, VecDeque<Certificate>>,
    bundles: VecDeque<Bundle>,
}

impl Memory {
    /// Takes note of what the replica hears.
    pub fn hear<M: Malleable>(&mut self, input: &Input<M>) {
        match input {
            Input::Receive { message, .. } => self.read(message),
            Input::Submit { bundles, .. } => bundles.iter().for_each(|bundle| self.keep_bundle(bundle)),
            Input::Assembled { result: Ok(certificate), .. } => self.keep_certificate(certificate),
            _ => {}
        }
    }

    /// Takes note of a message.
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
            Envelope::Bundles(bundles) | Envelope::Relay(bundles) => {
                bundles.iter().for_each(|bundle| self.keep_bundle(bundle))
            }
            _ => {}
        }
    }

    fn keep_block(&mut self, block: &Arc<Block>) {
        if self.block(&block.digest()).is_some() {
            return;
        }
        if self.blocks.len() == BLOCKS_KEPT {
            self.blocks.pop_front();
        }
        self.blocks.push_back(block.clone());
    }

    fn keep_certificate(&mut self, certificate: &Certificate) {
        let kept = self.certificates.entry(certificate.subject.domain).or_default();
        let Err(at) = kept.binary_search_by_key(&rank(certificate), rank) else { return };
        kept.insert(at, certificate.clone());
        if kept.len() > CERTIFICATES_KEPT {
            kept.pop_front();
        }
    }

    fn keep_bundle(&mut self, bundle: &Bundle) {
        if self.bundles.iter().any(|kept| kept.digest() == bundle.digest()) {
            return;
        }
        if self.bundles.len() == BUNDLES_KEPT {
            self.bundles.pop_front();
        }
        self.bundles.push_back(bundle.clone());
    }

    /// The name of the last block that it heard of.
    pub fn last_block(&self) -> Option<Digest> {
        self.blocks.back().map(|block| block.digest())
    }

    /// A block by its name.
    pub fn block(&self, digest: &Digest) -> Option<&Arc<Block>> {
        self.blocks.iter().rev().find(|block| block.digest() == *digest)
    }

    /// A block that stands where the one that a vote is for stands: in its view, and where there are slots in its slot.
    pub fn rival(&self, subject: &Subject) -> Option<&Arc<Block>> {
        let same_place = |block: &&Arc<Block>| {
            block.view == subject.view && (!block.is_unlinked() || block.height == subject.height)
        };
        self.blocks.iter().rev().filter(same_place).find(|block| block.digest() != subject.digest)
    }

    /// A bundle that is not this one.
    pub fn other_bundle(&self, than: Option<&Digest>) -> Option<&Bundle> {
        self.bundles.iter().rev().find(|bundle| Some(&bundle.digest()) != than)
    }

    /// The certificate that many steps older than this one, of its kind; the oldest, if fewer are remembered.
    pub fn older(&self, certificate: &Certificate, steps: usize) -> Option<&Certificate> {
        let kept = self.certificates.get(&certificate.subject.domain)?;
        let below = kept.partition_point(|other| rank(other) < rank(certificate));
        kept.get(below.checked_sub(steps.min(below).max(1))?)
    }

    /// A certificate of the same kind and height, of an earlier view.
    pub fn older_of_slot(&self, certificate: &Certificate) -> Option<&Certificate> {
        let Subject { domain, view, height, .. } = certificate.subject;
        let kept = self.certificates.get(&domain)?;
        kept.iter().rev().find(|other| other.subject.height == height && other.view() < view)
    }
}

fn rank(certificate: &Certificate) -> (u64, u64) {
    (certificate.subject.view.0, certificate.subject.height.0)
}
