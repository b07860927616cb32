//! The cache of verified certificates is bounded, covers every byte of a certificate, and contains only successes.

use crate::common::*;
use quorate_crypto::{Crypto, MAX_KEPT_SIGNATURES, SchemeKind, VerifiedCache};
use quorate_types::{Attachment, Certificate, Digest, Domain, ReplicaId, Statement};

const KIND: SchemeKind = SchemeKind::ED25519;

fn fingerprint(number: u64) -> Digest {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Digest(bytes)
}

fn certificate(view: u64) -> Certificate {
    let subject = subject(Domain::Vote, view);
    crypto(KIND, 4, 0).assemble(&subject, votes(KIND, subject, 0..3)).unwrap()
}

fn device(cache_certificates: usize) -> Crypto {
    Crypto::new(KIND, &committee(KIND, 4), ReplicaId(1), key(KIND, 1), cache_certificates).unwrap()
}

#[test]
fn the_oldest_entry_is_evicted_first() {
    let mut cache = VerifiedCache::new(3);
    assert!(cache.is_empty());
    for number in 0..10 {
        cache.insert(fingerprint(number));
        cache.insert(fingerprint(number));
        assert_eq!(cache.len(), 3.min(number as usize + 1));
        for known in 0..10 {
            assert_eq!(cache.contains(&fingerprint(known)), known <= number && known + 3 > number);
        }
    }
}

#[test]
fn a_cache_of_capacity_zero_stays_empty() {
    let mut cache = VerifiedCache::new(0);
    cache.insert(fingerprint(1));
    assert!(cache.is_empty() && !cache.contains(&fingerprint(1)));
    let (mut crypto, certificate) = (device(0), certificate(3));
    for times in 1..=2 {
        crypto.verify_certificate(&certificate).unwrap();
        assert_eq!((crypto.verifications(), crypto.cache_hits()), (3 * times, 0));
    }
}

#[test]
fn an_evicted_certificate_is_verified_again() {
    let mut crypto = device(2);
    let [first, second, third] = [1, 2, 3].map(certificate);
    for certificate in [&first, &second, &first, &second] {
        crypto.verify_certificate(certificate).unwrap();
    }
    assert_eq!((crypto.verifications(), crypto.cache_hits()), (6, 2));
    crypto.verify_certificate(&third).unwrap();
    crypto.verify_certificate(&second).unwrap();
    assert_eq!((crypto.verifications(), crypto.cache_hits()), (9, 3));
    crypto.verify_certificate(&first).unwrap();
    assert_eq!((crypto.verifications(), crypto.cache_hits()), (12, 3));
}

#[test]
fn refused_certificates_are_not_cached_and_evict_nothing() {
    let mut crypto = device(1);
    let good = certificate(3);
    crypto.verify_certificate(&good).unwrap();
    let mut bad = good.clone();
    bad.proof = good.proof.iter().map(|byte| byte ^ 1).collect();
    for times in 1..=2 {
        assert!(crypto.verify_certificate(&bad).is_err());
        crypto.verify_certificate(&good).unwrap();
        assert_eq!(crypto.cache_hits(), times);
    }
}

/// Statements are repeated for replicas that fall behind. Each statement is signed once while it is cached.
#[test]
fn a_repeated_statement_is_signed_once() {
    let mut device = device(1);
    let epoch = committee(KIND, 4).epoch;
    let statement = |view| Statement::new(&epoch, &subject(Domain::Prepare, view), &Attachment::None);
    for _ in 0..3 {
        for view in 1..=100 {
            assert_eq!(device.sign_once(&statement(view)), device.sign(&statement(view)));
        }
    }
    assert_eq!(device.signatures(), 100);
    (0..MAX_KEPT_SIGNATURES as u64).for_each(|view| drop(device.sign_once(&statement(1000 + view))));
    device.sign_once(&statement(1));
    assert_eq!(device.signatures(), 101 + MAX_KEPT_SIGNATURES as u64, "the oldest signatures were not evicted");
}
