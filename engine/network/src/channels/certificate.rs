//! Certificate that a process presents in DTLS, because the library supports no raw public keys.
//!
//! Its names and dates are never checked: the inner handshake covers the certificate's bytes (see
//! [`dtls`](crate::channels::dtls)). So everything but the key and the signature is fixed, and it never expires.
//!
//! ```text
//! Certificate  ::= SEQUENCE { tbs, ECDSA_WITH_SHA256, BIT STRING signature }
//! tbs          ::= SEQUENCE { INTEGER 1, ECDSA_WITH_SHA256, NAME, VALIDITY, NAME, EC_KEY point }
//! ```

use crate::channels::ChannelError;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use dimpl::DtlsCertificate;

/// DER tags.
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// Serial number 1. A version 1 certificate omits the version field.
const SERIAL: [u8; 3] = [0x02, 1, 1];
/// The algorithm ecdsa-with-SHA256, 1.2.840.10045.4.3.2 (RFC 5758, section 3.2).
const ECDSA_WITH_SHA256: [u8; 12] = [SEQUENCE, 10, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// The name `CN=quorate`, used as issuer and subject.
const NAME: &[u8] = b"\x30\x12\x31\x10\x30\x0e\x06\x03\x55\x04\x03\x0c\x07quorate";
/// From 1970 to the date that RFC 5280, section 4.1.2.5, defines as "no expiration".
const VALIDITY: &[u8] = b"\x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z";

/// Generates a P-256 key and a certificate signed with it.
///
/// # Errors
/// [`ChannelError::Randomness`] if the library cannot generate a key or sign with it.
pub fn self_signed() -> Result<DtlsCertificate, ChannelError> {
    let failed = |_| ChannelError::Randomness("no P-256 key could be generated".to_owned());
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
    let public_key = key.public_key().as_der().map_err(failed)?;
    let tbs = sequence(&[&SERIAL, &ECDSA_WITH_SHA256, NAME, VALIDITY, NAME, public_key.as_ref()]);
    let signature = key.sign(&SystemRandom::new(), &tbs).map_err(failed)?;
    // The leading 0 means that the bit string has no unused bits.
    let signature = value(BIT_STRING, &[&[0], signature.as_ref()]);
    let private_key = key.to_pkcs8v1().map_err(failed)?;
    Ok(DtlsCertificate {
        certificate: sequence(&[&tbs, &ECDSA_WITH_SHA256, &signature]),
        private_key: private_key.as_ref().to_vec(),
    })
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    value(SEQUENCE, parts)
}

/// Returns the concatenation of `parts` as one DER value.
fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = u16::try_from(content.len()).expect("a P-256 certificate is short").to_be_bytes();
    // Lengths below 128 take one byte; longer ones begin with the number of length bytes.
    let length: &[u8] = match (high, low) {
        (0, 0..0x80) => &[low],
        (0, _) => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, &content].concat()
}
