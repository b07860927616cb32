//! A bundle is genuine exactly if its owner signed it, regardless of the rest of the batch. Each bundle is verified
//! once.

use crate::common::cluster;
use proptest::prelude::*;
use quorate_crypto::{
    BundleVerifier, ClientAuthentication, ClientIdentity, DEFAULT_CACHE_BUNDLES, ED25519_AUTHENTICATOR,
};
use quorate_types::{Bundle, BundleBuilder, ClientId, ClusterId, Digest, Height};
use std::collections::BTreeSet;

/// Bytes of a public key and a signature, at the end of a bundle.
const AUTHENTICATOR_BYTES: usize = 32 + 64;

fn identity(number: u8) -> ClientIdentity {
    ClientIdentity::from_seed(&cluster(), [number + 1; 32])
}

fn bundle(identity: &ClientIdentity, sequence: u64) -> Bundle {
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    builder.push(identity.origin().with_session(3), sequence, b"payload");
    identity.finish(builder)
}

fn verifier() -> BundleVerifier {
    BundleVerifier::new(ClientAuthentication::Ed25519, cluster(), DEFAULT_CACHE_BUNDLES)
}

/// Returns the bundle with one bit flipped, counted from its end.
fn flipped(bundle: &Bundle, bits_from_end: usize) -> Bundle {
    let mut body = bundle.body().to_vec();
    let at = body.len() - 1 - bits_from_end / 8;
    body[at] ^= 1 << (bits_from_end % 8);
    Bundle::from_body(body.into()).expect("the form and the key are unchanged")
}

/// Returns a bundle of the same structure with another bundle's signature.
fn with_signature_of(bundle: &Bundle, other: &Bundle) -> Bundle {
    let (kept, taken) = (bundle.body().len() - 64, other.body().len() - 64);
    Bundle::from_body([&bundle.body()[..kept], &other.body()[taken..]].concat().into()).expect("the form is the same")
}

#[track_caller]
fn assert_forged(bundle: &Bundle) {
    let mut verifier = verifier();
    for _ in 0..2 {
        assert_eq!(verifier.forged([bundle]), BTreeSet::from([bundle.digest()]), "{bundle:?}");
    }
    assert!(!verifier.are_genuine([bundle]), "{bundle:?}");
    assert!(!verifier.is_verified(&bundle.digest()), "a forged bundle is in the cache");
}

#[test]
fn only_bundles_that_their_owner_signed_are_genuine() {
    let (mine, anothers) = (identity(1), identity(2));
    let good = bundle(&mine, 7);
    assert!(verifier().forged([&good]).is_empty());
    assert_forged(&with_signature_of(&good, &bundle(&mine, 8)));
    assert_forged(&with_signature_of(&good, &bundle(&anothers, 7)));
    let elsewhere = ClientIdentity::from_seed(&ClusterId::from_name("another"), [2; 32]);
    assert_eq!(elsewhere.origin(), mine.origin(), "a client has the same id in every cluster");
    assert_forged(&bundle(&elsewhere, 7));
    let all_zero = [&good.body()[..good.body().len() - 64], &[0; 64]].concat();
    assert_forged(&Bundle::from_body(all_zero.into()).unwrap());
}

#[test]
fn a_bundle_without_a_required_authenticator_is_forged() {
    let bare = bundle(&ClientIdentity::claimed(identity(1).origin()), 7);
    assert_forged(&bare);
    let mut indifferent = BundleVerifier::new(ClientAuthentication::None, cluster(), DEFAULT_CACHE_BUNDLES);
    assert!(indifferent.forged([&bare]).is_empty());
    assert_eq!(indifferent.verifications(), 0);
}

#[test]
fn a_key_that_is_not_a_point_verifies_nothing() {
    let key = (0..=255).map(|low| [&[low], &[0; 31][..]].concat().try_into().unwrap());
    let key: [u8; 32] = key.into_iter().find(|key| quorate_crypto::ed25519::PublicKey::decode(key).is_none()).unwrap();
    let origin = ClientId::of_key(&key);
    let mut builder = BundleBuilder::new(origin, Height(0).latest_expiry());
    builder.push(origin, 1, b"");
    assert_forged(&builder.finish_signed(&cluster(), ED25519_AUTHENTICATOR, &key, |_| vec![1; 64].into()));
}

#[test]
fn generated_identities_differ_and_sign_if_authentication_requires_it() {
    for kind in ClientAuthentication::ALL.iter().copied() {
        let [one, two] = [(); 2].map(|()| ClientIdentity::generate(kind, &cluster()).unwrap());
        assert_ne!(one.origin().owner(), two.origin().owner());
        let (one, two) = (bundle(&one, 1), bundle(&two, 1));
        assert_eq!(one.authenticator().is_some(), kind != ClientAuthentication::None);
        // MACs need the keys of a committee: see `client_macs`.
        let forged = BundleVerifier::new(kind, cluster(), 4).forged([&one, &two]);
        assert_eq!(forged.is_empty(), kind != ClientAuthentication::Mac);
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    let error = "rsa".parse::<ClientAuthentication>().unwrap_err();
    assert_eq!(error.to_string(), "unknown client authentication `rsa`: one of none, ed25519, mac");
}

#[test]
fn each_bundle_is_checked_once() {
    let bundles: Vec<Bundle> = (1..=20).map(|sequence| bundle(&identity(sequence as u8 % 3), sequence)).collect();
    let mut verifier = verifier();
    let twice = || bundles.iter().chain(&bundles);
    assert!(verifier.forged(twice()).is_empty());
    assert!(verifier.forged(twice()).is_empty());
    assert!(verifier.forged([&bundles[4]]).is_empty());
    assert!(verifier.are_genuine(twice()));
    assert_eq!(verifier.verifications(), 20);
    assert!(bundles.iter().all(|bundle| verifier.is_verified(&bundle.digest())));
}

#[test]
fn bundles_are_verified_with_more_clients_than_the_key_table_holds() {
    let mut verifier = BundleVerifier::new(ClientAuthentication::Ed25519, cluster(), 0);
    let of = |number: u16| {
        let seed = [&number.to_le_bytes()[..], &[7; 30]].concat().try_into().unwrap();
        bundle(&ClientIdentity::from_seed(&cluster(), seed), 1)
    };
    let first = of(0);
    for round in 0..10 {
        let bundles: Vec<Bundle> = (0..500).map(|at| of(round * 500 + at)).collect();
        assert!(verifier.forged(bundles.iter().chain([&first])).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn forged_bundles_are_found_among_genuine_ones(
        made in proptest::collection::vec((0u8..4, proptest::option::weighted(0.2, 0usize..512)), 1..40),
        parts in 1usize..5,
    ) {
        let bundles: Vec<(Bundle, bool)> = (1u64..).zip(&made).map(|(sequence, (client, change))| {
            let genuine = bundle(&identity(*client), sequence);
            match change {
                Some(bit) => (flipped(&genuine, *bit), true),
                None => (genuine, false),
            }
        }).collect();
        let expected: BTreeSet<Digest> =
            bundles.iter().filter(|(_, forged)| *forged).map(|(bundle, _)| bundle.digest()).collect();
        prop_assert_eq!(verifier().forged(bundles.iter().map(|(bundle, _)| bundle)), expected.clone());
        let mut briefly = verifier();
        prop_assert_eq!(briefly.are_genuine(bundles.iter().map(|(bundle, _)| bundle)), expected.is_empty());
        prop_assert!(briefly.verifications() <= bundles.len() as u64, "a bundle was checked twice");
        let mut verifier = verifier();
        let found = bundles.chunks(parts).flat_map(|part| verifier.forged(part.iter().map(|(bundle, _)| bundle)));
        prop_assert_eq!(found.collect::<BTreeSet<_>>(), expected, "wrong set of forged bundles");
    }

    #[test]
    fn a_bundle_with_a_flipped_bit_is_not_genuine(bit in any::<prop::sample::Index>()) {
        let good = bundle(&identity(1), 7);
        let mut body = good.body().to_vec();
        let bit = bit.index(body.len() * 8);
        body[bit / 8] ^= 1 << (bit % 8);
        match Bundle::from_body(body.into()) {
            Ok(changed) => prop_assert_eq!(verifier().forged([&changed]).len(), 1),
            Err(error) => prop_assert!(bit / 8 < good.body().len() - AUTHENTICATOR_BYTES + 32, "{}", error),
        }
    }
}
