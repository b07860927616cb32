//! Certificates of every scheme, checked according to `docs/EXPORT.md`. Curves and RSA use a different library than
//! quorate where possible: ring supports neither secp256k1 nor BLS12-381, so these two use the same libraries as
//! quorate, but none of quorate's code.

use super::bytes;
use blst::BLST_ERROR;
use blst::min_sig::{AggregatePublicKey, PublicKey, Signature};
use num_bigint::BigUint;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

const RSA_EXPONENT: [u8; 3] = [1, 0, 1];
/// Orders of the two ECDSA curves.
const P256_ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
const SECP256K1_ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
/// P-256: the prime, and the constant term of its equation.
const P256_PRIME: &str = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
const P256_B: &str = "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b";

/// Checks a member's key, and its proof of possession if the scheme requires one.
pub fn check_member(scheme: &str, key: &[u8], possession: &[u8]) -> Result<(), String> {
    let length = match scheme {
        "ed25519" => 32,
        "ecdsa-p256" | "secp256k1" => 33,
        "bls12-381" => 96,
        "rsa-1024" => 128,
        "rsa-2048" => 256,
        other => return Err(format!("the scheme {other} is not described")),
    };
    if key.len() != length {
        return Err(format!("a key of {} bytes", key.len()));
    }
    if scheme != "bls12-381" {
        return if possession.is_empty() { Ok(()) } else { Err("a proof of possession that nothing needs".into()) };
    }
    let tag = b"BLS_POP_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
    let signature = Signature::uncompress(possession).map_err(|fault| format!("possession: {fault:?}"))?;
    let owner = PublicKey::key_validate(key).map_err(|fault| format!("a key: {fault:?}"))?;
    match signature.verify(true, key, tag, &[], &owner, false) {
        BLST_ERROR::BLST_SUCCESS => Ok(()),
        fault => Err(format!("possession: {fault:?}")),
    }
}

/// Checks the signatures of a certificate by the signers with these keys, in the same order.
pub fn check_certificate(scheme: &str, keys: &[&[u8]], statement: &[u8], line: &Value) -> Result<(), String> {
    if scheme == "bls12-381" {
        return match line["signatures"] {
            Value::Null => aggregate(keys, statement, &bytes(&line["proof"])?),
            _ => Err("an aggregate is no list".into()),
        };
    }
    let signatures = line["signatures"].as_array().filter(|_| line["proof"].is_null());
    let signatures = signatures.ok_or("a certificate is a list of signatures")?;
    if signatures.len() != keys.len() {
        return Err("a certificate's numbers of signatures and signers differ".into());
    }
    keys.iter().zip(signatures).try_for_each(|(key, signature)| single(scheme, key, statement, &bytes(signature)?))
}

fn aggregate(keys: &[&[u8]], statement: &[u8], proof: &[u8]) -> Result<(), String> {
    let tag = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
    let keys: Vec<PublicKey> =
        keys.iter().map(|key| PublicKey::key_validate(key)).collect::<Result<_, _>>().map_err(of)?;
    let sum = AggregatePublicKey::aggregate(&keys.iter().collect::<Vec<_>>(), false).map_err(of)?.to_public_key();
    match Signature::uncompress(proof).map_err(of)?.verify(true, statement, tag, &[], &sum, true) {
        BLST_ERROR::BLST_SUCCESS => Ok(()),
        fault => Err(of(fault)),
    }
}

fn of(fault: BLST_ERROR) -> String {
    format!("a certificate's signature is invalid: {fault:?}")
}

fn single(scheme: &str, key: &[u8], statement: &[u8], signature: &[u8]) -> Result<(), String> {
    let rsa = |parameters: &RsaParameters| {
        let key = RsaPublicKeyComponents { n: key, e: &RSA_EXPONENT };
        signature.len() == key.n.len() && key.verify(parameters, statement, signature).is_ok()
    };
    let is_valid = match scheme {
        "ed25519" => UnparsedPublicKey::new(&ED25519, key).verify(statement, signature).is_ok(),
        "ecdsa-p256" => {
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, uncompressed(key)?);
            has_low_s(signature, P256_ORDER) && key.verify(statement, signature).is_ok()
        }
        "secp256k1" => has_low_s(signature, SECP256K1_ORDER) && secp256k1(key, statement, signature).is_some(),
        "rsa-2048" => rsa(&RSA_PKCS1_2048_8192_SHA256),
        "rsa-1024" => rsa(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        other => return Err(format!("the scheme {other} is not described")),
    };
    if is_valid { Ok(()) } else { Err(format!("a signature of {scheme} is invalid")) }
}

fn secp256k1(key: &[u8], statement: &[u8], signature: &[u8]) -> Option<()> {
    let key = secp256k1::PublicKey::from_byte_array_compressed(key.try_into().ok()?).ok()?;
    let hash: [u8; 32] = digest(&SHA256, statement).as_ref().try_into().ok()?;
    let signature = secp256k1::ecdsa::Signature::from_compact(signature).ok()?;
    key.verify(secp256k1::Message::from_digest(hash), &signature).ok()
}

fn large(hexadecimal: &str) -> BigUint {
    BigUint::parse_bytes(hexadecimal.as_bytes(), 16).expect("hexadecimal")
}

fn has_low_s(signature: &[u8], order: &str) -> bool {
    signature.len() == 64 && BigUint::from_bytes_be(&signature[32..]) * 2u8 <= large(order)
}

/// Returns the uncompressed encoding of a P-256 point, the only one that ring reads.
fn uncompressed(key: &[u8]) -> Result<Vec<u8>, String> {
    let (prime, x) = (large(P256_PRIME), BigUint::from_bytes_be(&key[1..]));
    let right = (&x * &x * &x + (&prime - 3u8) * &x + large(P256_B)) % &prime;
    // The prime is 3 modulo 4.
    let mut y = right.modpow(&((&prime + 1u8) / 4u8), &prime);
    if &y * &y % &prime != right || x >= prime || !(2..=3).contains(&key[0]) {
        return Err("a key is no point".into());
    }
    if y.bit(0) != (key[0] == 3) {
        y = prime - y;
    }
    let y = y.to_bytes_be();
    Ok([&[4], &key[1..], &vec![0; 32 - y.len()], &y].concat())
}
