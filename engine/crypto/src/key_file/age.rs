//! Files encrypted with a passphrase, in the format age v1 (<https://c2sp.org/age>) with its recipient type `scrypt`,
//! so that `age --decrypt` reads them, and quorate reads files of `age --encrypt --passphrase`.
//!
//! ```text
//! age-encryption.org/v1
//! -> scrypt <salt> <work factor>
//! <the file key, encrypted with a key derived from the passphrase>
//! --- <MAC of the lines above>
//! <16-byte nonce> <payload, encrypted>
//! ```
//!
//! Salt, encrypted file key and MAC are in base64 without padding. A payload of more than 64 KiB would have several
//! chunks; key files are shorter, so only one is supported. Armour is not supported.

use crate::awslc::sealing::{NONCE_BYTES, Sealer, TAG_BYTES, is_equal, scrypt, sealing_key, tag_sha256};
use crate::error::CryptoError;
use thiserror::Error;
use zeroize::Zeroizing;

/// The first line of an encrypted file.
const FIRST_LINE: &[u8] = b"age-encryption.org/v1\n";
/// Binary logarithm of scrypt's cost for new files: 128 MiB of memory, about 0.4 s.
const WORK_FACTOR: u32 = 17;
/// Maximum cost accepted when reading: 1 GiB of memory, some seconds.
const MAX_WORK_FACTOR: u32 = 20;
const SALT_LABEL: &[u8] = b"age-encryption.org/v1/scrypt";
const SALT_BYTES: usize = 16;
const FILE_KEY_BYTES: usize = 16;
const PAYLOAD_NONCE_BYTES: usize = 16;
/// Maximum length of a chunk without its tag, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
/// Nonce of the first chunk, which is also the last.
const ONLY_CHUNK: [u8; NONCE_BYTES] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Maximum overhead of an encrypted file over its contents, in bytes.
pub(super) const MAX_OVERHEAD_BYTES: usize = 256;

/// Reason why an encrypted file cannot be decrypted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AgeFault {
    #[error("it is an age file, but not one for a passphrase; help: encrypt it with `quorate keys encrypt`")]
    NotForAPassphrase,
    #[error("its encryption is damaged ({0}); help: restore it from a backup")]
    Damaged(&'static str),
    #[error(
        "it was encrypted with the work factor {0}, over the limit of {MAX_WORK_FACTOR}; help: encrypt it with \
         `quorate keys encrypt`"
    )]
    TooMuchWork(u32),
    #[error("there is too little memory for its work factor {0}; help: free 1 MiB for each unit of 2^(factor - 10)")]
    Memory(u32),
    #[error("the passphrase is wrong; help: give the one with which it was encrypted")]
    WrongPassphrase,
}

/// Returns whether these bytes begin an encrypted file.
pub(super) fn is_age(bytes: &[u8]) -> bool {
    bytes.starts_with(FIRST_LINE)
}

/// Encrypts the contents of a file.
///
/// # Errors
/// [`CryptoError::Randomness`] if the system provides none.
///
/// # Panics
/// If the contents are longer than a chunk.
pub(super) fn encrypt(contents: &[u8], passphrase: &str) -> Result<Vec<u8>, CryptoError> {
    assert!(contents.len() <= CHUNK_BYTES, "a key file fits one chunk");
    let mut salt = [0; SALT_BYTES];
    let mut file_key = Zeroizing::new([0; FILE_KEY_BYTES]);
    let mut nonce = [0; PAYLOAD_NONCE_BYTES];
    for random in [&mut salt[..], &mut file_key[..], &mut nonce[..]] {
        getrandom::fill(random).map_err(|error| CryptoError::Randomness(error.to_string()))?;
    }
    let wrapping = scrypt(passphrase.as_bytes(), &[SALT_LABEL, &salt].concat(), WORK_FACTOR);
    let wrapping = wrapping.ok_or_else(|| CryptoError::Randomness("too little memory for scrypt".to_owned()))?;
    let wrapped = Sealer::new(&wrapping).seal(&[0; NONCE_BYTES], &file_key[..]);
    let mut file = FIRST_LINE.to_vec();
    file.extend_from_slice(format!("-> scrypt {} {WORK_FACTOR}\n{}\n---", encode(&salt), encode(&wrapped)).as_bytes());
    let tag = tag_sha256(&sealing_key(&file_key[..], b"", b"header"), &file);
    file.extend_from_slice(format!(" {}\n", encode(&tag)).as_bytes());
    file.extend_from_slice(&nonce);
    let payload_key = sealing_key(&file_key[..], &nonce, b"payload");
    file.extend_from_slice(&Sealer::new(&payload_key).seal(&ONLY_CHUNK, contents));
    Ok(file)
}

/// Decrypts a file that begins with [`FIRST_LINE`].
pub(super) fn decrypt(file: &[u8], passphrase: &str) -> Result<Zeroizing<Vec<u8>>, AgeFault> {
    let header = Header::read(file)?;
    let wrapping = scrypt(passphrase.as_bytes(), &[SALT_LABEL, &header.salt].concat(), header.work_factor);
    let wrapping = wrapping.ok_or(AgeFault::Memory(header.work_factor))?;
    let file_key = Sealer::new(&wrapping).open(&[0; NONCE_BYTES], &header.wrapped).ok_or(AgeFault::WrongPassphrase)?;
    let tag = tag_sha256(&sealing_key(&file_key, b"", b"header"), header.tagged);
    if !is_equal(&tag, &header.tag) {
        return Err(AgeFault::Damaged("its header was changed"));
    }
    let (nonce, encrypted) =
        header.payload.split_at_checked(PAYLOAD_NONCE_BYTES).ok_or(AgeFault::Damaged("its payload is too short"))?;
    let payload_key = sealing_key(&file_key, nonce, b"payload");
    if encrypted.len() > CHUNK_BYTES + TAG_BYTES {
        return Err(AgeFault::Damaged("its payload is too long for a key file"));
    }
    Sealer::new(&payload_key).open(&ONLY_CHUNK, encrypted).ok_or(AgeFault::Damaged("its payload was changed"))
}

struct Header<'a> {
    salt: Vec<u8>,
    work_factor: u32,
    wrapped: Vec<u8>,
    tag: [u8; 32],
    /// The bytes covered by the MAC.
    tagged: &'a [u8],
    payload: &'a [u8],
}

impl Header<'_> {
    fn read(file: &[u8]) -> Result<Header<'_>, AgeFault> {
        const SHORT: AgeFault = AgeFault::Damaged("its header is incomplete");
        let mut at = FIRST_LINE.len();
        let mut line = || {
            let length = file.get(at..)?.iter().position(|byte| *byte == b'\n')?;
            let text = std::str::from_utf8(&file[at..at + length]).ok()?;
            at += length + 1;
            Some((text, at))
        };
        let (stanza, _) = line().ok_or(SHORT)?;
        let arguments = stanza.strip_prefix("-> scrypt ").ok_or(AgeFault::NotForAPassphrase)?;
        let (body, _) = line().ok_or(SHORT)?;
        let (last, end) = line().ok_or(SHORT)?;
        let tag = last.strip_prefix("--- ").ok_or(AgeFault::NotForAPassphrase)?;
        let (salt, factor) = arguments.split_once(' ').ok_or(AgeFault::Damaged("its stanza has no work factor"))?;
        let is_number = !factor.starts_with(['0', '+']) && factor.len() <= 2;
        let work_factor = factor.parse().ok().filter(|_| is_number);
        let work_factor = work_factor.ok_or(AgeFault::Damaged("its work factor is not a number"))?;
        if work_factor > MAX_WORK_FACTOR {
            return Err(AgeFault::TooMuchWork(work_factor));
        }
        let read = |text: &str, bytes: usize| {
            let decoded = decode(text).filter(|decoded| decoded.len() == bytes);
            decoded.ok_or(AgeFault::Damaged("its header has bad base64"))
        };
        Ok(Header {
            salt: read(salt, SALT_BYTES)?,
            work_factor,
            wrapped: read(body, FILE_KEY_BYTES + TAG_BYTES)?,
            tag: read(tag, 32)?.try_into().expect("the length was checked"),
            tagged: &file[..end - 1 - (last.len() - "---".len())],
            payload: &file[end..],
        })
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes in base64 without padding.
fn encode(bytes: &[u8]) -> String {
    let digits = |chunk: &[u8]| {
        let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        let count = chunk.len() + 1;
        (0..count).map(move |at| char::from(DIGITS[(word >> (18 - 6 * at)) as usize % 64])).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}

/// Decodes base64 without padding; `None` if it is not valid.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let value = |digit: &u8| DIGITS.iter().position(|known| known == digit);
        let word =
            chunk.iter().try_fold(0usize, |word, digit| Some(word << 6 | value(digit)?))? << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&(word as u32).to_be_bytes()[1..chunk.len()]);
    }
    (encode(&bytes) == text).then_some(bytes)
}
