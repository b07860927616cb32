//! The DTLS certificate, decoded by a strict X.509 parser.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use quorate_network::channels::certificate::self_signed;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

#[test]
fn a_certificate_is_well_formed_and_signed_by_its_own_key() {
    let made = self_signed().expect("a certificate");
    let read = Certificate::from_der(&made.certificate).expect("well-formed DER");
    let tbs = read.tbs_certificate();
    assert_eq!((tbs.issuer().to_string(), tbs.subject().to_string()), ("CN=quorate".into(), "CN=quorate".into()));
    assert_eq!(tbs.validity().not_before.to_date_time().year(), 1970);
    assert_eq!(tbs.validity().not_after.to_date_time().year(), 9999);

    let key = tbs.subject_public_key_info().subject_public_key.as_bytes().expect("whole bytes");
    let signed = tbs.to_der().expect("what was read can be written");
    let signature = read.signature().as_bytes().expect("whole bytes");
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key);
    key.verify(&signed, signature).expect("a signature by the key inside");
    let mut changed = signed.clone();
    *changed.last_mut().expect("not empty") ^= 1;
    key.verify(&changed, signature).expect_err("a signature over other bytes");
}

#[test]
fn lengths_are_right_whatever_the_length_of_the_signature() {
    // An ECDSA signature takes 70 to 72 bytes, rarely fewer.
    let sizes: std::collections::BTreeSet<usize> = (0..64)
        .map(|_| self_signed().expect("a certificate").certificate)
        .inspect(|der| drop(Certificate::from_der(der).expect("well-formed DER")))
        .map(|der| der.len())
        .collect();
    assert!(sizes.len() > 1, "signatures of one length only: {sizes:?}");
}

#[test]
fn every_certificate_has_a_key_of_its_own() {
    let (one, other) = (self_signed().expect("a certificate"), self_signed().expect("a certificate"));
    assert_ne!(one.private_key, other.private_key);
    assert_ne!(one.certificate, other.certificate);
}
