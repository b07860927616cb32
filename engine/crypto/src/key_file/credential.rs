//! Files that systemd passes to a service as credentials.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Prefix of a file's name that makes it the name of a credential.
pub const CREDENTIAL_PREFIX: &str = "credential:";
/// Environment variable with the directory of this service's credentials.
const DIRECTORY_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Reason why a credential cannot be found.
#[derive(Debug, Error)]
pub enum CredentialFault {
    #[error("credential:{0} is not the name of a credential; help: write `credential:NAME`, with a name without `/`")]
    Name(String),
    #[error(
        "there are no credentials, because {DIRECTORY_VARIABLE} is not set; help: start this program as a systemd \
         service with `LoadCredential={0}:FILE`, or name a file"
    )]
    NoDirectory(String),
    #[error(
        "{} has no such credential; help: add `LoadCredential={name}:FILE` or `LoadCredentialEncrypted={name}:FILE` to \
         the systemd unit",
        directory.display()
    )]
    Missing { name: String, directory: PathBuf },
}

/// Returns the path of a file that a configuration in `home` names. The name of a credential stays as it is.
pub fn located(home: &Path, file: &Path) -> PathBuf {
    match name_of(file) {
        Some(_) => file.to_owned(),
        None => home.join(file),
    }
}

fn name_of(file: &Path) -> Option<&str> {
    file.to_str()?.strip_prefix(CREDENTIAL_PREFIX)
}

/// Returns the path of a file or credential.
pub(super) fn resolve(file: &Path) -> Result<Cow<'_, Path>, CredentialFault> {
    let Some(name) = name_of(file) else { return Ok(Cow::Borrowed(file)) };
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(CredentialFault::Name(name.to_owned()));
    }
    let directory = std::env::var_os(DIRECTORY_VARIABLE).filter(|directory| !directory.is_empty());
    let directory = PathBuf::from(directory.ok_or_else(|| CredentialFault::NoDirectory(name.to_owned()))?);
    let path = directory.join(name);
    match path.exists() {
        true => Ok(Cow::Owned(path)),
        false => Err(CredentialFault::Missing { name: name.to_owned(), directory }),
    }
}
