//! Primitives for encrypting files with a passphrase.

use super::mac::hkdf_sha256;
use super::{Owned, ffi, forget_errors};
use std::ptr;
use zeroize::Zeroizing;

pub(crate) const KEY_BYTES: usize = 32;
pub(crate) const NONCE_BYTES: usize = 12;
/// Overhead of an encrypted message, in bytes.
pub(crate) const TAG_BYTES: usize = 16;
const SCRYPT_BLOCK: u64 = 8;
/// Memory of scrypt beyond its blocks, in bytes.
const SCRYPT_SPARE_BYTES: usize = 1 << 20;

/// Derives a key from a passphrase by scrypt with r = 8 and p = 1, which takes 2^(`log_n` + 10) bytes of memory; `None`
/// if not enough memory is available.
pub(crate) fn scrypt(passphrase: &[u8], salt: &[u8], log_n: u32) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let memory = (128 * SCRYPT_BLOCK as usize).checked_shl(log_n)? + SCRYPT_SPARE_BYTES;
    // SAFETY: all pointers and lengths belong to slices.
    let done = unsafe {
        ffi::EVP_PBE_scrypt(
            passphrase.as_ptr().cast(),
            passphrase.len(),
            salt.as_ptr(),
            salt.len(),
            1u64.checked_shl(log_n)?,
            SCRYPT_BLOCK,
            1,
            memory,
            key.as_mut_ptr(),
            KEY_BYTES,
        )
    };
    forget_errors();
    (done == 1).then_some(key)
}

/// Derives a key by HKDF with SHA-256.
pub(crate) fn sealing_key(secret: &[u8], salt: &[u8], info: &[u8]) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    hkdf_sha256(secret, salt, info, key.as_mut());
    key
}

/// Returns the HMAC-SHA-256 of a message.
pub(crate) fn tag_sha256(key: &[u8; KEY_BYTES], message: &[u8]) -> [u8; 32] {
    let (mut tag, mut length) = ([0; 32], 0);
    // SAFETY: all pointers and lengths belong to slices; HMAC-SHA-256 writes 32 bytes.
    let done = unsafe {
        ffi::HMAC(
            ffi::EVP_sha256(),
            key.as_ptr().cast(),
            KEY_BYTES,
            message.as_ptr(),
            message.len(),
            tag.as_mut_ptr(),
            &mut length,
        )
    };
    assert!(!done.is_null() && length == 32, "HMAC yields 32 bytes");
    tag
}

/// Compares two tags in constant time.
pub(crate) fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    // SAFETY: both have 32 bytes.
    unsafe { ffi::CRYPTO_memcmp(one.as_ptr().cast(), other.as_ptr().cast(), 32) == 0 }
}

/// ChaCha20-Poly1305 with one key, without associated data.
pub(crate) struct Sealer(Owned<ffi::EVP_AEAD_CTX>);

impl Sealer {
    pub fn new(key: &[u8; KEY_BYTES]) -> Sealer {
        // SAFETY: the function copies the key; the new object is owned here.
        let context = unsafe {
            let context = ffi::EVP_AEAD_CTX_new(ffi::EVP_aead_chacha20_poly1305(), key.as_ptr(), KEY_BYTES, TAG_BYTES);
            Owned::new(context, ffi::EVP_AEAD_CTX_free)
        };
        Sealer(context.expect("memory for a cipher"))
    }

    pub fn seal(&self, nonce: &[u8; NONCE_BYTES], message: &[u8]) -> Vec<u8> {
        let (mut sealed, mut length) = (vec![0; message.len() + TAG_BYTES], 0);
        // SAFETY: all pointers and lengths belong to slices.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_seal(
                self.0.get(),
                sealed.as_mut_ptr(),
                &mut length,
                sealed.len(),
                nonce.as_ptr(),
                NONCE_BYTES,
                message.as_ptr(),
                message.len(),
                ptr::null(),
                0,
            )
        };
        assert!(done == 1 && length == sealed.len(), "a message of this length can be encrypted");
        sealed
    }

    /// Returns the message; `None` if the key is wrong or the bytes are damaged.
    pub fn open(&self, nonce: &[u8; NONCE_BYTES], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (mut message, mut length) = (Zeroizing::new(vec![0; sealed.len().checked_sub(TAG_BYTES)?]), 0);
        // SAFETY: all pointers and lengths belong to slices.
        let done = unsafe {
            ffi::EVP_AEAD_CTX_open(
                self.0.get(),
                message.as_mut_ptr(),
                &mut length,
                message.len(),
                nonce.as_ptr(),
                NONCE_BYTES,
                sealed.as_ptr(),
                sealed.len(),
                ptr::null(),
                0,
            )
        };
        forget_errors();
        (done == 1 && length == message.len()).then_some(message)
    }
}
