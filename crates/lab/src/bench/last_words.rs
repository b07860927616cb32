//! What a replica's process writes to standard error. It is kept in memory: a process whose disk is full still says so.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

/// Lines of a dead replica's output that are shown.
const LINES_SHOWN: usize = 20;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// All that the processes of one replica have written.
pub struct Words(File);

impl Words {
    /// Nothing yet. The replica lives in `home`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(home: &Path) -> io::Result<Words> {
        file(home).map(Words)
    }

    /// A standard error that adds to it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn stdio(&self) -> io::Result<Stdio> {
        self.0.try_clone().map(Stdio::from)
    }

    /// All of it.
    pub fn text(&self) -> String {
        let (mut bytes, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
        while let Ok(count @ 1..) = self.0.read_at(&mut piece, bytes.len() as u64) {
            bytes.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The end of it.
    pub fn last(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }
}

#[cfg(target_os = "linux")]
fn file(_: &Path) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a text that outlives the call.
    match unsafe { libc::memfd_create(c"replica".as_ptr(), libc::MFD_CLOEXEC) } {
        descriptor @ 0.. => {
            // SAFETY: the descriptor was just made, and nobody else has it.
            Ok(unsafe { File::from_raw_fd(descriptor) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Other systems have no files in memory.
#[cfg(not(target_os = "linux"))]
fn file(home: &Path) -> io::Result<File> {
    File::options().create(true).read(true).append(true).open(home.join("log.txt"))
}
