//! Message authentication codes and key agreement: HMAC-SHA-256 (RFC 2104), AES-256-CMAC (NIST SP 800-38B), X25519 (RFC
//! 7748) and HKDF-SHA-256 (RFC 5869).

use super::forget_errors;
use aws_lc_sys as ffi;
use zeroize::Zeroizing;

/// Length of X25519's private keys, public keys and shared secrets, in bytes.
pub const X25519_BYTES: usize = 32;
/// Length of the keys that members share, in bytes.
pub const MAC_KEY_BYTES: usize = 32;
/// Length of an HMAC-SHA-256 output, in bytes.
pub const HMAC_BYTES: usize = 32;
/// Length of a CMAC output, one AES block, in bytes.
pub const CMAC_BYTES: usize = 16;

/// A key of HMAC-SHA-256 or AES-256-CMAC; wiped when dropped.
pub type MacKey = Zeroizing<[u8; MAC_KEY_BYTES]>;

/// Returns the HMAC-SHA-256 of a message; keys may have any length.
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; HMAC_BYTES] {
    let (mut tag, mut length) = ([0; HMAC_BYTES], 0);
    // SAFETY: pointers and lengths belong to slices, and the function writes 32 bytes.
    let done = unsafe {
        ffi::HMAC(
            ffi::EVP_sha256(),
            key.as_ptr().cast(),
            key.len(),
            message.as_ptr(),
            message.len(),
            tag.as_mut_ptr(),
            &mut length,
        )
    };
    assert!(!done.is_null() && length as usize == HMAC_BYTES, "HMAC-SHA-256 takes every key and every message");
    tag
}

/// Computes the CMAC with AES-128 or AES-256, depending on the length of the key.
///
/// # Panics
/// If the key has neither 16 nor 32 bytes.
pub fn aes_cmac(key: &[u8], message: &[u8]) -> [u8; CMAC_BYTES] {
    assert!(matches!(key.len(), 16 | 32), "an AES-128 or AES-256 key has 16 or 32 bytes, not {}", key.len());
    let mut tag = [0; CMAC_BYTES];
    // SAFETY: pointers and lengths belong to slices, and the function writes 16 bytes.
    let done = unsafe { ffi::AES_CMAC(tag.as_mut_ptr(), key.as_ptr(), key.len(), message.as_ptr(), message.len()) };
    assert_eq!(done, 1, "CMAC takes every message");
    tag
}

/// Compares two tags of equal length in constant time.
pub fn equal_tags(one: &[u8], other: &[u8]) -> bool {
    assert_eq!(one.len(), other.len(), "tags of equal length are compared");
    // SAFETY: both pointers are valid for the common length.
    unsafe { ffi::CRYPTO_memcmp(one.as_ptr().cast(), other.as_ptr().cast(), one.len()) == 0 }
}

/// Returns the public key of a private key. Any 32 bytes are a private key.
pub fn x25519_public_key(secret: &[u8; X25519_BYTES]) -> [u8; X25519_BYTES] {
    let mut public_key = [0; X25519_BYTES];
    // SAFETY: the function reads and writes 32 bytes.
    unsafe { ffi::X25519_public_from_private(public_key.as_mut_ptr(), secret.as_ptr()) };
    public_key
}

/// Returns the secret shared with the owner of a public key; `None` if the key is a small-order point, with which
/// everybody shares the same secret.
pub fn x25519(secret: &[u8; X25519_BYTES], public_key: &[u8; X25519_BYTES]) -> Option<Zeroizing<[u8; X25519_BYTES]>> {
    let mut shared = Zeroizing::new([0; X25519_BYTES]);
    // SAFETY: the function reads 32 bytes of each, and writes 32.
    let sound = unsafe { ffi::X25519(shared.as_mut_ptr(), secret.as_ptr(), public_key.as_ptr()) == 1 };
    if !sound {
        forget_errors();
    }
    sound.then_some(shared)
}

/// Derives a key from a secret.
///
/// # Panics
/// If the key is longer than 255 outputs of SHA-256.
pub fn hkdf_sha256(secret: &[u8], salt: &[u8], info: &[u8], key: &mut [u8]) {
    // SAFETY: pointers and lengths belong to slices.
    let done = unsafe {
        ffi::HKDF(
            key.as_mut_ptr(),
            key.len(),
            ffi::EVP_sha256(),
            secret.as_ptr(),
            secret.len(),
            salt.as_ptr(),
            salt.len(),
            info.as_ptr(),
            info.len(),
        )
    };
    assert_eq!(done, 1, "a key of {} bytes is too long for HKDF", key.len());
}
