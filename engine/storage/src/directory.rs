//! The real medium: a directory in a file system, locked by one process at a time.

use crate::descriptors::{self, with_descriptor};
use crate::error::JournalError;
use crate::medium::{Medium, MediumFile};
use crate::options::{Flush, Fsync};
use crate::private;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lock file of a process that uses the directory. It contains that process's id, and is never removed.
pub(crate) const LOCK_FILE: &str = "lock";
/// Zeros written at a time when a segment is prepared.
const ZEROS_BYTES: usize = 1 << 20;

/// A [`Medium`] in a file system.
#[derive(Clone)]
pub struct Directory {
    path: Arc<PathBuf>,
    fsync: Fsync,
    flush: Flush,
    /// The lock, released with the last clone; `None` if the directory is only inspected.
    lock: Option<Arc<File>>,
}

impl Directory {
    /// Locks the directory, and creates it if it does not exist.
    pub fn open(path: &Path, fsync: Fsync, flush: Flush) -> Result<Directory, JournalError> {
        let what = || path.display().to_string();
        if !path.is_dir() {
            if path.ancestors().any(|at| fs::metadata(at).is_ok_and(|about| !about.is_dir())) {
                return Err(JournalError::NotADirectory { path: what() });
            }
            private::create_directories(path).map_err(|error| JournalError::io("create", what(), error))?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let synced = with_descriptor(|| File::open(parent)).and_then(|parent| parent.sync_all());
                synced.map_err(|error| JournalError::io("create", what(), error))?;
            }
        }
        // If this is not permitted, the directory belongs to another user, who decides who may read it.
        let _ = private::close_to_others(path);
        let lock = lock(path)?;
        descriptors::reserve();
        Ok(Directory { path: Arc::new(path.to_owned()), fsync, flush, lock: Some(Arc::new(lock)) })
    }

    /// Opens the directory for reading only, without locking it.
    pub(crate) fn look(path: &Path) -> Directory {
        Directory { path: Arc::new(path.to_owned()), fsync: Fsync::Always, flush: Flush::Fdatasync, lock: None }
    }

    fn file(&self, file: File) -> DirectoryFile {
        DirectoryFile { file, syncs: self.fsync == Fsync::Always && self.flush == Flush::Fdatasync }
    }

    fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(self.lock.is_some());
        let writes_through = self.fsync == Fsync::Always && self.flush == Flush::WriteThrough;
        // Opening a pipe in place of a segment must not block. Regular files ignore the flag.
        options.custom_flags(libc::O_NONBLOCK | if writes_through { libc::O_DSYNC } else { 0 });
        options
    }
}

fn lock(path: &Path) -> Result<File, JournalError> {
    let at = path.join(LOCK_FILE);
    let fail = |error| JournalError::io("lock", at.display().to_string(), error);
    let mut file = with_descriptor(|| private::options().read(true).write(true).create(true).truncate(false).open(&at))
        .map_err(fail)?;
    // SAFETY: the descriptor is open during the call, and flock does not access our memory.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EWOULDBLOCK) {
            return Err(fail(error));
        }
        let mut process = String::new();
        let _ = file.read_to_string(&mut process);
        let holder = match process.trim().parse::<u32>() {
            Ok(process) if process == std::process::id() => "this process".to_owned(),
            Ok(process) => format!("process {process}"),
            Err(_) => "another process".to_owned(),
        };
        return Err(JournalError::Locked { directory: path.display().to_string(), holder });
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
    Ok(file)
}

impl Medium for Directory {
    type File = DirectoryFile;

    fn name(&self) -> &'static str {
        match self.fsync {
            Fsync::Always => "file",
            Fsync::Never => "file, never synced",
        }
    }

    fn describe(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = with_descriptor(|| fs::read_dir(&*self.path))?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // Names that are not UTF-8 do not belong to the journal.
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<DirectoryFile> {
        let path = self.path.join(name);
        // Sync each chunk: otherwise the disk would write all the zeros before a flush that a replica waits for.
        let fill = || {
            let file = with_descriptor(|| private::options().write(true).create_new(true).open(&path))?;
            let zeros = vec![0; ZEROS_BYTES.min(usize::try_from(bytes).unwrap_or(ZEROS_BYTES))];
            let mut at = 0;
            while at < bytes {
                let now = (bytes - at).min(zeros.len() as u64);
                file.write_all_at(&zeros[..now as usize], at)?;
                if self.fsync == Fsync::Always {
                    file.sync_data()?;
                }
                at += now;
            }
            match self.fsync {
                Fsync::Always => file.sync_all(),
                Fsync::Never => Ok(()),
            }
        };
        fill().inspect_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                // The incomplete file is useless and may be filling the disk; report the first error, not this one.
                let _ = fs::remove_file(&path);
            }
        })?;
        self.open(name)
    }

    fn open(&self, name: &str) -> io::Result<DirectoryFile> {
        let file = with_descriptor(|| self.open_options().open(self.path.join(name)))?;
        private::check_regular(&file)?;
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        match self.fsync {
            Fsync::Always => with_descriptor(|| File::open(&*self.path))?.sync_all(),
            Fsync::Never => Ok(()),
        }
    }
}

/// A file of a [`Directory`].
pub struct DirectoryFile {
    file: File,
    syncs: bool,
}

impl MediumFile for DirectoryFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)?;
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
