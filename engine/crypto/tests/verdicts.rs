//! Verifiers of one process verify each genuine bundle once in total, and reach the same verdicts on forged ones as
//! alone.

use crate::common::cluster;
use quorate_crypto::{BundleVerifier, ClientAuthentication, ClientIdentity, DEFAULT_CACHE_BUNDLES, SharedVerdicts};
use quorate_types::{Bundle, BundleBuilder, Digest, Height};
use std::collections::BTreeSet;
use std::sync::Arc;

fn bundles(count: u64) -> Vec<Bundle> {
    let identity = ClientIdentity::from_seed(&cluster(), [9; 32]);
    let bundle = |sequence| {
        let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
        builder.push(identity.origin(), sequence, b"payload");
        identity.finish(builder)
    };
    (1..=count).map(bundle).collect()
}

/// Returns the bundle with another signature of the same structure.
fn forged(bundle: &Bundle) -> Bundle {
    let mut body = bundle.body().to_vec();
    let last = body.len() - 40;
    body[last] ^= 1;
    Bundle::from_body(body.into()).expect("the form and the key are unchanged")
}

fn verifier(verdicts: &Arc<SharedVerdicts>) -> BundleVerifier {
    let alone = BundleVerifier::new(ClientAuthentication::Ed25519, cluster(), DEFAULT_CACHE_BUNDLES);
    alone.sharing(verdicts.clone())
}

#[test]
fn each_genuine_bundle_is_verified_once_in_a_process() {
    let verdicts = Arc::new(SharedVerdicts::new(DEFAULT_CACHE_BUNDLES));
    let bundles = bundles(300);
    let [mut one, mut two, mut three] = [(); 3].map(|()| verifier(&verdicts));
    assert!(one.forged(&bundles).is_empty());
    assert!(two.forged(&bundles).is_empty());
    assert!(three.are_genuine(&bundles));
    assert_eq!([&one, &two, &three].map(BundleVerifier::verifications), [300, 0, 0]);
    assert!(bundles.iter().all(|bundle| two.is_verified(&bundle.digest()) && three.is_verified(&bundle.digest())));
}

#[test]
fn a_forged_bundle_is_forged_for_every_verifier() {
    let verdicts = Arc::new(SharedVerdicts::new(DEFAULT_CACHE_BUNDLES));
    let mut bundles = bundles(100);
    let bad = BTreeSet::from([3, 70, 71].map(|at: usize| {
        bundles[at] = forged(&bundles[at]);
        bundles[at].digest()
    }));
    let [mut one, mut two] = [(); 2].map(|()| verifier(&verdicts));
    assert!(!two.are_genuine(&bundles), "the others are not known yet");
    assert_eq!(one.forged(&bundles), bad);
    let before = two.verifications();
    assert_eq!(two.forged(&bundles), bad);
    assert!(two.verifications() - before < 30, "only three bundles are unknown: {}", two.verifications() - before);
    assert!(!two.are_genuine(&bundles));
    assert!(bad.iter().all(|bundle| !one.is_verified(bundle) && !two.is_verified(bundle)));
}

/// A table of capacity 0 caches nothing, and verifiers still finish.
#[test]
fn forgotten_verdicts_are_found_again() {
    let verdicts = Arc::new(SharedVerdicts::new(10));
    let bundles = bundles(200);
    let [mut one, mut two] = [(); 2].map(|()| verifier(&verdicts));
    assert!(one.forged(&bundles).is_empty());
    assert!(two.forged(&bundles).is_empty());
    assert!(two.verifications() >= 190, "{}", two.verifications());
}

#[test]
fn verifiers_at_the_same_time_share_the_work() {
    let verdicts = Arc::new(SharedVerdicts::new(DEFAULT_CACHE_BUNDLES));
    let mut bundles = bundles(2_000);
    let bad: BTreeSet<Digest> = (0..2_000)
        .step_by(400)
        .map(|at| {
            bundles[at] = forged(&bundles[at]);
            bundles[at].digest()
        })
        .collect();
    let verified: u64 = std::thread::scope(|scope| {
        let work = |reversed: bool| {
            let (verdicts, bundles, bad) = (&verdicts, &bundles, &bad);
            scope.spawn(move || {
                let mut verifier = verifier(verdicts);
                let order: Vec<&Bundle> = match reversed {
                    true => bundles.iter().rev().collect(),
                    false => bundles.iter().collect(),
                };
                for part in order.chunks(256) {
                    let expected = part.iter().map(|bundle| bundle.digest()).filter(|digest| bad.contains(digest));
                    assert_eq!(verifier.forged(part.iter().copied()), expected.collect());
                }
                verifier.verifications()
            })
        };
        let threads: Vec<_> = [false, true, false, true].map(work).into_iter().collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    // Genuine bundles are verified again only together with a forged one: in its batch, and in its bisection.
    assert!(verified < 2 * 2_000, "{verified} verifications");
}
