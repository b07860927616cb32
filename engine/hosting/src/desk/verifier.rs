//! Verification of client bundles as used by the desk: real, or a model.

use quorate_crypto::{BundleTask, BundleVerifier, CertificateFault, CheckedBundles, ClientAuthentication};
use quorate_types::{Bundle, Digest};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Verifier of client bundles; [`BundleVerifier`] documents the methods.
pub trait ClientVerifier {
    type Task;
    type Checked;
    fn kind(&self) -> ClientAuthentication;
    fn requires_certificates(&self) -> bool;
    fn lacks_certificate(&mut self, bundle: &Bundle) -> Option<CertificateFault>;
    fn is_verified(&self, bundle: &Digest) -> bool;
    fn begin<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>)
    -> ControlFlow<BTreeSet<Digest>, Self::Task>;
    fn finish(&mut self, checked: Self::Checked) -> BTreeSet<Digest>;
    fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool;
    fn verifications(&self) -> u64;
}

impl ClientVerifier for BundleVerifier {
    type Task = BundleTask;
    type Checked = CheckedBundles;

    fn kind(&self) -> ClientAuthentication {
        self.kind()
    }

    fn requires_certificates(&self) -> bool {
        self.requires_certificates()
    }

    fn lacks_certificate(&mut self, bundle: &Bundle) -> Option<CertificateFault> {
        self.lacks_certificate(bundle)
    }

    fn is_verified(&self, bundle: &Digest) -> bool {
        self.is_verified(bundle)
    }

    fn begin<'a>(
        &mut self,
        bundles: impl IntoIterator<Item = &'a Bundle>,
    ) -> ControlFlow<BTreeSet<Digest>, BundleTask> {
        self.begin(bundles)
    }

    fn finish(&mut self, checked: CheckedBundles) -> BTreeSet<Digest> {
        self.finish(checked)
    }

    fn are_genuine<'a>(&mut self, bundles: impl IntoIterator<Item = &'a Bundle>) -> bool {
        self.are_genuine(bundles)
    }

    fn verifications(&self) -> u64 {
        self.verifications()
    }
}
