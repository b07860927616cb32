//! Permissions of files with secrets.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns whether users that should not know a file's secrets can access it, in a process of the user `reader`. Only
/// the owner may, but if that is root and the process is not, its group may read it: systemd's credentials (through
/// their access control list) and Kubernetes' secrets are passed to a process in this way. PostgreSQL has the same
/// rule.
pub fn is_open_to_others(owner: u32, mode: u32, reader: u32) -> bool {
    let forbidden = if owner == 0 && reader != 0 { 0o037 } else { 0o077 };
    mode & forbidden != 0
}

/// Returns whether users that should not know a file's secrets can access it.
pub(super) fn is_open(about: &fs::Metadata) -> bool {
    // SAFETY: it takes no argument and cannot fail.
    is_open_to_others(about.uid(), about.mode(), unsafe { libc::geteuid() })
}
