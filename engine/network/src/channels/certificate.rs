//! Certificate that a process shows in DTLS, because the library shows no raw public key.
//!
//! Nobody reads its names or its dates: the handshake inside covers its bytes (see [`dtls`](crate::channels::dtls)). So all of it
//! is fixed but the key and the signature, and it never expires.
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

/// Tags of values in DER, the encoding of certificates.
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// The serial number 1 of a certificate of version 1, which names no version.
const SERIAL: [u8; 3] = [0x02, 1, 1];
/// The algorithm ecdsa-with-SHA256, 1.2.840.10045.4.3.2 (RFC 5758, section 3.2).
const ECDSA_WITH_SHA256: [u8; 12] = [SEQUENCE, 10, 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// The name `CN=quorate`, of issuer and subject.
const NAME: &[u8] = b"\x30\x12\x31\x10\x30\x0e\x06\x03\x55\x04\x03\x0c\x07quorate";
/// From 1970 to the date that means that there is no end (RFC 5280, section 4.1.2.5).
const VALIDITY: &[u8] = b"\x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z";

/// Makes a new key of P-256 and a certificate for it, signed with it.
///
/// # Errors
/// [`ChannelError::Randomness`] if the library cannot draw a key or sign with it.
pub fn self_signed() -> Result<DtlsCertificate, ChannelError> {
    let failed = |_| ChannelError::Randomness("no key of P-256 could be made".to_owned());
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
    let public_key = key.public_key().as_der().map_err(failed)?;
    let tbs = sequence(&[&SERIAL, &ECDSA_WITH_SHA256, NAME, VALIDITY, NAME, public_key.as_ref()]);
    let signature = key.sign(&SystemRandom::new(), &tbs).map_err(failed)?;
    // A string of whole bytes: no bit of the last one is unused.
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

/// Returns `parts`, one after the other, as one value of DER.
fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let [high, low] = u16::try_from(content.len()).expect("a certificate of P-256 has few bytes").to_be_bytes();
    // Below 128 a length is one byte; otherwise its first byte tells how many follow.
    let length: &[u8] = match (high, low) {
        (0, 0..0x80) => &[low],
        (0, _) => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, &content].concat()
}
