//! Standard error of a replica's process, kept in memory so that a process can report a full disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

/// Lines of a dead replica's output to show.
const MAX_LINES_SHOWN: usize = 20;
/// Bytes per read.
const READ_BYTES: usize = 64 << 10;

/// Output of all processes of one replica.
pub struct Words(File);

impl Words {
    /// Creates an empty output for the replica with the directory `home`.
    ///
    /// # Errors
    /// The I/O error, if it cannot be created.
    pub fn new(home: &Path) -> io::Result<Words> {
        file(home).map(Words)
    }

    /// Returns a file descriptor for standard error that appends to the output.
    ///
    /// # Errors
    /// The I/O error, if the descriptor cannot be duplicated.
    pub fn stdio(&self) -> io::Result<Stdio> {
        self.0.try_clone().map(Stdio::from)
    }

    pub fn text(&self) -> String {
        let (mut bytes, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
        while let Ok(count @ 1..) = self.0.read_at(&mut piece, bytes.len() as u64) {
            bytes.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn last(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(MAX_LINES_SHOWN)..].join("\n")
    }
}

#[cfg(target_os = "linux")]
fn file(_: &Path) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a C string that outlives the call.
    match unsafe { libc::memfd_create(c"replica".as_ptr(), libc::MFD_CLOEXEC) } {
        descriptor @ 0.. => {
            // SAFETY: the descriptor was just created, and nothing else owns it.
            Ok(unsafe { File::from_raw_fd(descriptor) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Other systems have no in-memory files, so this is a file on disk.
#[cfg(not(target_os = "linux"))]
fn file(home: &Path) -> io::Result<File> {
    File::options().create(true).read(true).append(true).open(home.join("log.txt"))
}
