//! Safe wrappers of the AWS-LC functions that the schemes need.
//!
//! The crate `aws-lc-rs` signs ECDSA with random nonces only, and generates no RSA key below 2048 bits or from a seed,
//! so the C interface is called directly ([ADR 053](../../../docs/adr/053-voting-schemes.md)).

pub mod mac;
mod p256;
mod rsa;
pub(crate) mod sealing;

pub(crate) use p256::{P256Public, P256Secret};
pub(crate) use rsa::{RsaPublic, RsaSecret};

use aws_lc_sys as ffi;
use sha2::{Digest, Sha256};
use std::ptr::NonNull;
use zeroize::Zeroizing;

/// Length of an Ed25519 seed and of a public key, in bytes.
const ED25519_BYTES: usize = 32;
const ED25519_SIGNATURE_BYTES: usize = 64;

/// An AWS-LC object, freed when dropped.
struct Owned<T> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// Takes ownership of an object; `None` if the pointer is null.
    ///
    /// # Safety
    /// The caller owns the object, and `free` is the function that frees it.
    unsafe fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Owned<T>> {
        Some(Owned { pointer: NonNull::new(pointer)?, free })
    }

    fn get(&self) -> *mut T {
        self.pointer.as_ptr()
    }

    /// Returns the pointer without freeing it, for a function that takes ownership.
    fn release(self) -> *mut T {
        let pointer = self.get();
        std::mem::forget(self);
        pointer
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: this is the owner, and `free` is the object's function.
        unsafe { (self.free)(self.get()) }
    }
}

/// A big number; its memory is wiped when dropped.
struct Number(Owned<ffi::BIGNUM>);

impl Number {
    /// # Panics
    /// If memory is exhausted.
    fn zero() -> Number {
        // SAFETY: the new number is owned here.
        Number(unsafe { Owned::new(ffi::BN_new(), ffi::BN_clear_free) }.expect("memory for a number"))
    }

    /// Decodes a number from big-endian bytes.
    fn read(bytes: &[u8]) -> Number {
        // SAFETY: pointer and length belong to a slice; the new number is owned here.
        let number = unsafe { ffi::BN_bin2bn(bytes.as_ptr(), bytes.len(), std::ptr::null_mut()) };
        // SAFETY: as above.
        Number(unsafe { Owned::new(number, ffi::BN_clear_free) }.expect("memory for a number"))
    }

    fn get(&self) -> *mut ffi::BIGNUM {
        self.0.get()
    }
}

/// Encodes a number as big-endian bytes with leading zeros; false if it is longer than `out`.
///
/// # Safety
/// `number` is a valid number.
unsafe fn write(number: *const ffi::BIGNUM, out: &mut [u8]) -> bool {
    // SAFETY: pointer and length belong to a slice.
    unsafe { ffi::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), number) == 1 }
}

/// Clears this thread's error queue, to which every refused signature adds an entry.
fn forget_errors() {
    // SAFETY: has no preconditions.
    unsafe { ffi::ERR_clear_error() }
}

fn sha256(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

/// An Ed25519 private key: the seed, then the public key.
pub(crate) struct Ed25519Secret(Box<Zeroizing<[u8; 2 * ED25519_BYTES]>>);

impl Ed25519Secret {
    pub(crate) fn new(seed: &[u8; ED25519_BYTES]) -> Ed25519Secret {
        let mut secret = Box::new(Zeroizing::new([0; 2 * ED25519_BYTES]));
        let mut public_key = [0; ED25519_BYTES];
        // SAFETY: the function writes 32 and 64 bytes, and reads 32.
        unsafe { ffi::ED25519_keypair_from_seed(public_key.as_mut_ptr(), secret.as_mut_ptr(), seed.as_ptr()) };
        Ed25519Secret(secret)
    }

    pub(crate) fn seed(&self) -> &[u8] {
        &self.0[..ED25519_BYTES]
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        &self.0[ED25519_BYTES..]
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; ED25519_SIGNATURE_BYTES] {
        let mut signature = [0; ED25519_SIGNATURE_BYTES];
        // SAFETY: the function writes 64 bytes, and reads the message and the 64 bytes of the key.
        let done =
            unsafe { ffi::ED25519_sign(signature.as_mut_ptr(), message.as_ptr(), message.len(), self.0.as_ptr()) };
        assert_eq!(done, 1, "AWS-LC signs every message");
        signature
    }
}
