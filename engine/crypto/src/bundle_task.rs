//! Verification of client bundles as a value that any thread can run. [`BundleVerifier`](crate::BundleVerifier) creates
//! it and takes its outcome.

use crate::bisect::find_bad;
use crate::ed25519::{PublicKey, verify_many};
use crate::verdicts::SharedVerdicts;
use quorate_types::command::BundleStatement;
use quorate_types::meter::{Primitive, measured};
use quorate_types::{Bundle, Digest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A bundle's signature to verify.
pub(crate) struct Claim {
    /// A bundle with an authenticator.
    pub bundle: Bundle,
    /// The client's key, decoded already.
    pub key: Arc<PublicKey>,
    pub statement: BundleStatement,
}

impl Claim {
    fn signature(&self) -> &[u8] {
        self.bundle.authenticator().expect("a claim is about an authenticator").signature
    }
}

/// Verification of client signatures, each on one bundle that was not verified before.
pub struct BundleTask {
    pub(crate) claims: Vec<Claim>,
    /// Bundles without a signature to verify.
    pub(crate) unsigned: BTreeSet<Digest>,
    pub(crate) shared: Option<Arc<SharedVerdicts>>,
}

/// Outcome of a [`BundleTask`].
pub struct CheckedBundles {
    pub(crate) forged: BTreeSet<Digest>,
    pub(crate) genuine: Vec<Digest>,
    /// Number of signatures verified: a batch of k counts k, and bisection counts them again.
    pub(crate) signatures: u64,
}

impl BundleTask {
    /// Verifies all signatures in one batch, and bisects it if that fails.
    pub fn run(self) -> CheckedBundles {
        let digest = |claim: &Claim| claim.bundle.digest();
        self.settle(
            |claims, signatures| {
                let bad = find_bad(claims, |claims| is_genuine(claims, signatures));
                bad.into_iter().map(digest).collect()
            },
            |_| true,
        )
    }

    /// Verifies one batch. If that fails, no bundle is reported as genuine, and one or more as forged.
    pub(crate) fn run_without_bisection(self) -> CheckedBundles {
        let suspect = |claims: &[Claim], signatures: &mut u64| match is_genuine(claims, signatures) {
            true => BTreeSet::new(),
            false => claims.iter().map(|claim| claim.bundle.digest()).collect(),
        };
        let checked = self.settle(suspect, BTreeSet::is_empty);
        let genuine = if checked.forged.is_empty() { checked.genuine } else { Vec::new() };
        CheckedBundles { genuine, ..checked }
    }

    /// Verifies while `goes_on` accepts the forged bundles found so far. Passes all claims to `find` at once, or only
    /// the claims that no other replica of this process verifies.
    fn settle(
        self,
        find: impl Fn(&[Claim], &mut u64) -> BTreeSet<Digest>,
        goes_on: impl Fn(&BTreeSet<Digest>) -> bool,
    ) -> CheckedBundles {
        let BundleTask { mut claims, unsigned: mut forged, shared } = self;
        let wanted: Vec<Digest> = claims.iter().map(|claim| claim.bundle.digest()).collect();
        let mut signatures = 0;
        match shared {
            None => forged.extend(find(&claims, &mut signatures)),
            Some(shared) => {
                while !claims.is_empty() && goes_on(&forged) {
                    let wanted: Vec<Digest> = claims.iter().map(|claim| claim.bundle.digest()).collect();
                    let (known, taken) = shared.take(&wanted);
                    let (mut own, mut rest) = (Vec::new(), Vec::new());
                    for (at, claim) in claims.into_iter().enumerate() {
                        if taken.at.binary_search(&at).is_ok() {
                            own.push(claim);
                        } else if known.binary_search(&at).is_err() {
                            rest.push(claim);
                        }
                    }
                    let found = find(&own, &mut signatures);
                    taken.publish(|bundle| !found.contains(bundle));
                    forged.extend(found);
                    claims = rest;
                }
            }
        }
        let genuine = wanted.into_iter().filter(|bundle| !forged.contains(bundle)).collect();
        CheckedBundles { forged, genuine, signatures }
    }
}

/// Verifies claims in one batch.
fn is_genuine(claims: &[Claim], signatures: &mut u64) -> bool {
    *signatures += claims.len() as u64;
    match claims {
        [] => return true,
        [claim] => {
            let verify = || claim.key.verify(&claim.statement, claim.signature());
            return measured(Primitive::VerifySingle, 1, verify);
        }
        _ => {}
    }
    let mut keys: Vec<&PublicKey> = Vec::new();
    let mut positions = BTreeMap::new();
    let mut at = Vec::with_capacity(claims.len());
    for Claim { key, .. } in claims {
        at.push(*positions.entry(Arc::as_ptr(key)).or_insert_with(|| {
            keys.push(key);
            keys.len() - 1
        }));
    }
    let claims = claims.iter().zip(at).map(|(claim, at)| (at, &claim.statement[..], claim.signature()));
    measured(Primitive::VerifyBatch, claims.len(), || verify_many(&keys, claims))
}
