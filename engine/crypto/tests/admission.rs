//! A certificate admits one key to one cluster.

use crate::common::cluster;
use quorate_crypto::key_file::client::ClientKeys;
use quorate_crypto::{
    BundleVerifier, CERTIFIED_AUTHENTICATOR, CertificateFault, Certifier, ClientAuthentication, DEFAULT_CACHE_BUNDLES,
    KeyPair, SchemeKind, certify,
};
use quorate_types::{Bundle, BundleBuilder, ClusterId, Height};

fn key(seed: u8) -> KeyPair {
    KeyPair::from_seed(SchemeKind::ED25519, [seed; 32])
}

fn keys(seed: u8) -> ClientKeys {
    ClientKeys { cluster: cluster(), key: key(seed), certificate: None }
}

fn bundle(keys: ClientKeys, sequence: u64) -> Bundle {
    let identity = keys.identity().unwrap();
    let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
    builder.push(identity.origin(), sequence, b"payload");
    identity.finish(builder)
}

fn certified(seed: u8, certifier: &KeyPair) -> ClientKeys {
    let mut keys = keys(seed);
    keys.certify(certifier);
    keys
}

fn verifier() -> BundleVerifier {
    BundleVerifier::new(ClientAuthentication::Ed25519, cluster(), DEFAULT_CACHE_BUNDLES)
}

fn strict(certifier: &KeyPair) -> BundleVerifier {
    verifier().certified_by(Certifier::new(cluster(), &certifier.public_key()).unwrap())
}

#[test]
fn only_bundles_with_a_certificate_of_the_certifier_are_genuine() {
    let (certifier, other) = (key(1), key(2));
    let good = bundle(certified(7, &certifier), 1);
    assert_eq!(good.authenticator().unwrap().kind, CERTIFIED_AUTHENTICATOR);
    assert!(strict(&certifier).forged([&good]).is_empty());
    assert!(strict(&certifier).are_genuine([&good]));
    assert_eq!(Bundle::from_body(good.body().clone()).unwrap(), good);
    let bare = bundle(keys(7), 1);
    let elsewhere = certify(&certifier, &ClusterId::from_name("another"), &key(7).public_key());
    let elsewhere = ClientKeys { certificate: Some(elsewhere[..].try_into().unwrap()), ..keys(7) };
    let anothers = ClientKeys { certificate: certified(8, &certifier).certificate, ..keys(7) };
    let by_another = certified(7, &other);
    let cases = [(bare, CertificateFault::Missing)]
        .into_iter()
        .chain([elsewhere, anothers, by_another].map(|keys| (bundle(keys, 1), CertificateFault::Invalid)));
    for (bad, fault) in cases {
        let mut strict = strict(&certifier);
        assert_eq!(strict.lacks_certificate(&bad), Some(fault));
        assert_eq!(strict.forged([&bad, &good]).into_iter().collect::<Vec<_>>(), [bad.digest()]);
        assert!(!strict.are_genuine([&bad]));
        assert!(verifier().forged([&bad]).is_empty(), "other clusters do not look at certificates");
    }
    assert!(Certifier::new(cluster(), &[1; 31]).is_none());
    assert!(Certifier::new(cluster(), &[[1].as_slice(), &[0; 31]].concat()).is_none(), "a key of small order");
}

#[test]
fn a_certified_bundle_still_needs_its_clients_signature() {
    let certifier = key(1);
    let good = bundle(certified(7, &certifier), 1);
    for at in [1, 64, 161] {
        let mut body = good.body().to_vec();
        let at = body.len() - at;
        body[at] ^= 1;
        let bad = Bundle::from_body(body.into()).unwrap();
        assert_eq!(strict(&certifier).forged([&bad]).len(), 1);
    }
}

#[test]
fn a_certificate_is_verified_once() {
    let certifier = key(1);
    let mut strict = strict(&certifier);
    let bundles: Vec<Bundle> = (1..=10).map(|sequence| bundle(certified(7, &certifier), sequence)).collect();
    assert!(strict.forged(&bundles).is_empty());
    assert_eq!(strict.verifications(), 11);
}
