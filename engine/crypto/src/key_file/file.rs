//! Files that only their owner can read.

use super::access::is_open;
use super::command::SecretCommand;
use super::credential;
use super::fields::Text;
use super::passphrase::Passphrases;
use super::{KeyFileError, KeyFileFault, MAX_KEY_FILE_BYTES, age};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Maximum length of a file, encrypted or not, in bytes.
const MAX_BYTES: usize = MAX_KEY_FILE_BYTES + age::MAX_OVERHEAD_BYTES;
const MODE: u32 = 0o600;

/// Writes a new file with mode 0600, and syncs it. Removes an incomplete file.
pub(super) fn write(path: &Path, text: &Text) -> Result<(), KeyFileError> {
    create(path, text.as_str().as_bytes())
}

pub(super) fn create(path: &Path, contents: &[u8]) -> Result<(), KeyFileError> {
    let fail = |fault| KeyFileError::at(path, fault);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(fail(KeyFileFault::Exists)),
        Err(error) => return Err(fail(KeyFileFault::Io("create", error))),
    };
    let written = file
        .write_all(contents)
        .and_then(|()| file.sync_all())
        .and_then(|()| quorate_types::files::sync_directory(path));
    written.map_err(|error| {
        let _ = fs::remove_file(path);
        fail(KeyFileFault::Io("write", error))
    })
}

/// Reads the bytes of a file to be replaced.
pub(super) fn read_to_replace(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyFileFault> {
    let bytes = read_bytes(path)?;
    match quorate_types::files::hard_links(path).map_err(|error| KeyFileFault::Io("inspect", error))? {
        0 | 1 => Ok(bytes),
        names => Err(KeyFileFault::HardLinks(names)),
    }
}

/// Replaces a file atomically: a crash leaves the old or the new content.
pub(super) fn replace(path: &Path, contents: &[u8]) -> Result<(), KeyFileError> {
    let fail = |error| KeyFileError::at(path, KeyFileFault::Io("replace", error));
    quorate_types::files::replace(path, contents, MODE).map_err(fail)
}

/// Reads the text of a file or credential that only its owner can access, and decrypts it if it is encrypted.
pub(super) fn read(path: &Path, passphrases: &Passphrases) -> Result<Zeroizing<String>, KeyFileFault> {
    text_of(read_bytes(&credential::resolve(path)?)?, path, passphrases)
}

/// Returns the text that a command writes, and decrypts it if it is encrypted.
pub(super) fn read_from(command: &SecretCommand, passphrases: &Passphrases) -> Result<Zeroizing<String>, KeyFileFault> {
    let bytes = check_length(command.output(MAX_BYTES)?)?;
    text_of(bytes, Path::new(command.key), passphrases)
}

/// Reads the bytes of a file that only its owner can access.
pub(super) fn read_bytes(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyFileFault> {
    // Checked first, because opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(|error| KeyFileFault::Io("open", error))?.is_file() {
        return Err(KeyFileFault::NotAFile);
    }
    let file = File::open(path).map_err(|error| KeyFileFault::Io("open", error))?;
    let about = file.metadata().map_err(|error| KeyFileFault::Io("inspect", error))?;
    if is_open(&about) {
        return Err(KeyFileFault::Open { path: path.to_owned(), mode: about.mode() & 0o777 });
    }
    // Never reallocates, so no copy of the secrets stays behind in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 64));
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| KeyFileFault::Io("read", error))?;
    check_length(bytes)
}

fn check_length(bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, KeyFileFault> {
    let most = if age::is_age(&bytes) { MAX_BYTES } else { MAX_KEY_FILE_BYTES };
    if bytes.len() > most { Err(KeyFileFault::TooLong) } else { Ok(bytes) }
}

/// Returns the text in these bytes of a file, decrypted if necessary.
pub(super) fn text_of(
    bytes: Zeroizing<Vec<u8>>,
    path: &Path,
    passphrases: &Passphrases,
) -> Result<Zeroizing<String>, KeyFileFault> {
    match age::is_age(&bytes) {
        true => decrypted(&bytes, &passphrases.of(path)?),
        false => utf8(&bytes),
    }
}

/// Decrypts a file and returns its text.
pub(super) fn decrypted(bytes: &[u8], passphrase: &str) -> Result<Zeroizing<String>, KeyFileFault> {
    utf8(&age::decrypt(bytes, passphrase)?)
}

fn utf8(bytes: &[u8]) -> Result<Zeroizing<String>, KeyFileFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| KeyFileFault::NotText)?;
    Ok(Zeroizing::new(text.to_owned()))
}
