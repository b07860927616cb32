//! Files and directories accessible only to their owner, regardless of the umask: they contain keys, or the commands
//! and the state of all clients.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode of a private directory.
const DIRECTORY_MODE: u32 = 0o700;
/// Mode of a private file.
const FILE_MODE: u32 = 0o600;
/// Permission bits of others.
const OTHERS: u32 = 0o077;

/// Creates a directory and its missing parents with mode 0700. An existing one keeps its mode.
///
/// # Errors
/// If a system call fails.
pub fn create_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Returns options that create files with mode 0600.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Opens a regular file for reading. Does not wait for the other end of a pipe.
///
/// # Errors
/// If a system call fails, or the file is a pipe, a device or a directory.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check_regular(&file).map(|()| file)
}

/// Checks that an open file is a regular file.
///
/// # Errors
/// If it is not.
pub fn check_regular(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Writes a file, creating it with mode 0600 if it does not exist.
///
/// # Errors
/// If a system call fails.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    options().write(true).create(true).truncate(true).open(path)?.write_all(contents)
}

/// Removes others' permissions from a directory, which earlier versions granted. Returns whether there were any.
///
/// # Errors
/// If a system call fails, for example because the directory belongs to another user.
pub fn close_to_others(directory: &Path) -> io::Result<bool> {
    let mode = fs::metadata(directory)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    fs::set_permissions(directory, Permissions::from_mode(mode & 0o7777 & !OTHERS)).map(|()| true)
}
