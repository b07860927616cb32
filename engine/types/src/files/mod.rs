//! quorate: atomic replacement of files.
//!
//! A file is written under a temporary name in the same directory, synced and renamed, so that a crash leaves the old
//! or the new content. The given name need not denote a regular file:
//!
//! | the name is | a [`Replacement`] |
//! |---|---|
//! | a regular file, or nothing yet | replaces it; the new file keeps the owner and the mode of the old one |
//! | a symbolic link | replaces its target, which need not exist; the link stays |
//! | one of several hard links | replaces this name; the others keep the old content ([`hard_links`] counts them) |
//! | a FIFO or a device, including `/dev/stdout` | writes the complete content to it; the name stays |
//! | a directory or a socket | fails |

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of links followed from a name to its target, as in Linux.
const MAX_LINKS: usize = 40;
/// Mode of a new file, before the process's umask.
pub const DEFAULT_MODE: u32 = 0o666;
/// Directory whose links are not names but open files of a process, such as those behind `/dev/stdout`.
const OPEN_FILES: &str = "/proc";

/// Destination of the complete content.
#[derive(Debug)]
enum Target {
    /// The draft is renamed to this file, and the directory is synced. The directory is kept open, so that committing
    /// needs no new descriptor.
    File { path: PathBuf, draft: PathBuf, directory: File },
    /// The content is copied to the device or FIFO with this name.
    Through(PathBuf),
}

/// Content being written. Dropping it without [`commit`](Replacement::commit) leaves the target unchanged.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    target: Target,
}

impl Replacement {
    /// Begins to replace the target of `path`. A new file gets `mode`, less the umask.
    ///
    /// # Errors
    /// If `path` is a directory or socket, its links cannot be resolved, the temporary file cannot be created, or the
    /// old file belongs to another user.
    pub fn begin(path: &Path, mode: u32) -> io::Result<Replacement> {
        match resolve(path)? {
            Name::File(path) => Replacement::beside(draft_of(&path)?, path, mode),
            Name::Through(path) => {
                // Not in the device's directory, because /dev is often not writable. The open file needs no name.
                let draft = draft_of(&std::env::temp_dir().join("quorate"))?;
                let file = create(&draft, 0o600)?;
                fs::remove_file(&draft)?;
                Ok(Replacement { file, target: Target::Through(path) })
            }
        }
    }

    /// Begins to replace a regular file, with a draft name in the same directory chosen by the caller, so that the
    /// caller can find drafts left behind by a crash.
    ///
    /// # Errors
    /// The errors of [`begin`](Replacement::begin), and an error if `path` is a device or FIFO.
    pub fn begin_as(draft: &Path, path: &Path, mode: u32) -> io::Result<Replacement> {
        match resolve(path)? {
            Name::File(path) => Replacement::beside(draft.to_owned(), path, mode),
            Name::Through(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    fn beside(draft: PathBuf, path: PathBuf, mode: u32) -> io::Result<Replacement> {
        let directory = File::open(directory_of(&path))?;
        let file = create(&draft, mode)?;
        let former = fs::metadata(&path);
        let replacement = Replacement { file, target: Target::File { path, draft, directory } };
        former.map_or(Ok(()), |former| replacement.take_over(&former))?;
        Ok(replacement)
    }

    /// Gives the draft the owner and mode of the old file. The group is kept if this user may assign it.
    fn take_over(&self, former: &fs::Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if own.uid() != former.uid() {
            let refused = |_| {
                let why = format!("it belongs to user {}; help: replace it as that user or as root", former.uid());
                io::Error::new(io::ErrorKind::PermissionDenied, why)
            };
            fchown(&self.file, Some(former.uid()), None).map_err(refused)?;
        }
        if own.gid() != former.gid() {
            let _ = fchown(&self.file, None, Some(former.gid()));
        }
        self.file.set_permissions(fs::Permissions::from_mode(former.mode() & 0o7777))
    }

    /// Durably replaces the target by the content, and returns its length in bytes.
    ///
    /// # Errors
    /// If the content cannot be synced, or the target cannot be replaced or written. A file then keeps its old content;
    /// a device or FIFO may have received a part.
    pub fn commit(mut self) -> io::Result<u64> {
        let bytes = self.file.metadata()?.len();
        match &self.target {
            Target::File { path, draft, directory } => {
                self.file.sync_all()?;
                fs::rename(draft, path)?;
                directory.sync_all()?;
            }
            Target::Through(path) => {
                self.file.rewind()?;
                let mut device = open_through(path)?;
                io::copy(&mut self.file, &mut device)?;
                device.flush()?;
            }
        }
        Ok(bytes)
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Target::File { draft, .. } = &self.target {
            // A committed draft has already been renamed. One that cannot be removed does no harm.
            let _ = fs::remove_file(draft);
        }
    }
}

/// Durably replaces the target of `path` by `content`. A new file gets `mode`, less the umask.
///
/// # Errors
/// The errors of [`Replacement::begin`] and [`Replacement::commit`], and an error if the content cannot be written.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut replacement = Replacement::begin(path, mode)?;
    replacement.write_all(content)?;
    replacement.commit().map(drop)
}

/// Returns whether an operation failed because of the given path, rather than because a disk is full or broken, or the
/// system has run out of resources.
pub fn is_named_wrongly(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
        PermissionDenied, ReadOnlyFilesystem, Unsupported,
    };
    let kinds = [
        AlreadyExists,
        DirectoryNotEmpty,
        InvalidFilename,
        InvalidInput,
        IsADirectory,
        NotADirectory,
        NotFound,
        PermissionDenied,
        ReadOnlyFilesystem,
        Unsupported,
    ];
    // ELOOP and ENXIO.
    kinds.contains(&error.kind()) || [40, 6].contains(&error.raw_os_error().unwrap_or(0))
}

/// Returns the number of hard links of a file, after resolving its symbolic links.
///
/// # Errors
/// If the file cannot be looked up.
pub fn hard_links(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|about| about.nlink())
}

/// Syncs the directory of a file, so that a power loss cannot undo a rename in it.
///
/// # Errors
/// If the directory cannot be opened or synced.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Target of a path, after resolving its links.
enum Name {
    /// A regular file, or nothing yet.
    File(PathBuf),
    /// A device or FIFO.
    Through(PathBuf),
}

fn resolve(path: &Path) -> io::Result<Name> {
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(about) if about.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a socket"));
        }
        Ok(about) if !about.is_file() => return Ok(Name::Through(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = path.to_owned();
    for _ in 0..MAX_LINKS {
        let next = match fs::read_link(&file) {
            Ok(next) => next,
            // It is not a link, or does not exist.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(Name::File(file));
            }
            Err(error) => return Err(error),
        };
        if fs::canonicalize(directory_of(&file))?.starts_with(OPEN_FILES) {
            return Ok(Name::Through(path.to_owned()));
        }
        file = directory_of(&file).join(next);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Opens a device or FIFO. Opening a FIFO waits for a reader.
fn open_through(path: &Path) -> io::Result<File> {
    // Reopening a descriptor of this process would start at offset 0 of its file.
    let own = |descriptor: &dyn AsFd| descriptor.as_fd().try_clone_to_owned().map(File::from);
    match path.to_str() {
        Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => own(&io::stdout()),
        Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => own(&io::stderr()),
        _ => OpenOptions::new().write(true).open(path),
    }
}

/// Creates a draft. Never follows a link that somebody else put there.
fn create(draft: &Path, mode: u32) -> io::Result<File> {
    let create = || OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(draft);
    match create() {
        // A crashed process with the same number left it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(draft)?;
            create()
        }
        created => created,
    }
}

/// Returns a temporary name in the directory of a file, which no other thread or process on this host uses.
fn draft_of(file: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = file.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it names no file"));
    };
    let mut draft = name.to_owned();
    draft.push(format!(".draft-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    Ok(file.with_file_name(draft))
}
