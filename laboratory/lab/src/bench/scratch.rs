//! Processes and directories of a run, which must not outlive it.
//!
//! A directory is locked by its process as long as the process lives. It is removed at the end of the run, even if a
//! second signal aborts the process. After a SIGKILL, the kernel kills the process's children and the next run removes
//! the directory.

use quorate_node::interrupt::{self, Subscription};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Prefix of the name of a run's directory, before the process id and a number.
const PREFIX: &str = "quorate-run-";
/// Number of attempts to remove a directory whose processes were just killed, and the pause between them.
const REMOVALS: u32 = 10;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// Directory of one run, removed on drop.
pub struct Directory {
    path: PathBuf,
    /// Holds the lock while it is open.
    _lock: File,
    _before_abort: Subscription,
}

impl Directory {
    /// Creates an empty private directory. Removes the directories of dead processes.
    ///
    /// # Errors
    /// The path and the I/O error, if it cannot be created.
    pub fn new() -> Result<Directory, (PathBuf, io::Error)> {
        Directory::below(&std::env::temp_dir())
    }

    /// Creates an empty private directory below `place`. Removes the directories of dead processes there.
    ///
    /// # Errors
    /// The path and the I/O error, if it cannot be created.
    pub fn below(place: &Path) -> Result<Directory, (PathBuf, io::Error)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers(place);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match make(&path) {
                Ok(Some(lock)) => {
                    let removed = path.clone();
                    let _before_abort = interrupt::before_abort(move || {
                        kill_children();
                        remove(&removed);
                    });
                    return Ok(Directory { path, _lock: lock, _before_abort });
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err((path, error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the directory to `place`, where it stays, and returns its new path.
    ///
    /// # Errors
    /// The I/O error; the directory is removed then.
    pub fn keep_below(self, place: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(place)?;
        let kept = place.join(self.path.file_name().expect("a run's directory has a name"));
        fs::rename(&self.path, &kept)?;
        Ok(kept)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory if possible; otherwise the next run will.
fn remove(path: &Path) {
    for _ in 0..REMOVALS {
        match fs::remove_dir_all(path) {
            // A process that was just killed may have written one more file.
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(REMOVAL_PAUSE),
            _ => return,
        }
    }
}

/// Creates and locks a directory. Returns `None` if another run mistook it for a leftover and removed it in between.
fn make(path: &Path) -> io::Result<Option<File>> {
    DirBuilder::new().mode(0o700).create(path)?;
    let lock = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // From here on no other run removes the directory, but one may already have done so.
    lock_file(&lock, libc::LOCK_EX)?;
    let locked = lock.metadata()?;
    let is_there =
        fs::symlink_metadata(path).is_ok_and(|there| there.ino() == locked.ino() && there.dev() == locked.dev());
    Ok(is_there.then_some(lock))
}

fn open(directory: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(directory)
}

fn lock_file(file: &File, how: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor stays open during the call, and flock touches no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the directories of this user's dead processes, which are no longer locked. Ignores errors.
fn remove_leftovers(place: &Path) {
    // SAFETY: the call only returns a number.
    let me = unsafe { libc::geteuid() };
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = || entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == me);
        if !name.to_str().is_some_and(|name| name.starts_with(PREFIX)) || !is_ours() {
            continue;
        }
        let path = entry.path();
        if let Ok(lock) = open(&path)
            && lock_file(&lock, libc::LOCK_EX | libc::LOCK_NB).is_ok()
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Running children, to be killed before their directory is removed on abort.
static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill_children() {
    for child in children().iter() {
        // SAFETY: sends a signal to a child that has not been waited for, so its id is not reused.
        unsafe { libc::kill(*child as libc::pid_t, libc::SIGKILL) };
    }
}

/// Child process that is killed when this process ends or this value is dropped.
pub struct Offspring(Child);

impl Offspring {
    /// Starts the child. Linux kills it when the thread that started it ends, so that thread must outlive the child.
    ///
    /// # Errors
    /// The I/O error of the start.
    pub fn spawn(command: &mut Command) -> io::Result<Offspring> {
        let parent = std::process::id();
        // SAFETY: makes only system calls between fork and exec.
        unsafe { command.pre_exec(move || die_with(parent)) };
        // Held, so that a second signal cannot arrive between the start and the insertion.
        let mut children = children();
        let child = command.spawn()?;
        children.insert(child.id());
        Ok(Offspring(child))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Takes the ends of the child's pipes, if it has any.
    pub fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.0.stdin.take(), self.0.stdout.take())
    }

    /// Takes the end of the child's standard error, if it is a pipe.
    pub fn take_errors(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }

    /// Asks the child to end, with SIGTERM.
    pub fn terminate(&self) {
        // SAFETY: sends a signal to a child that has not been waited for, so its id is not reused.
        unsafe { libc::kill(self.id() as libc::pid_t, libc::SIGTERM) };
    }

    /// Returns the child's exit status if it has ended.
    ///
    /// # Errors
    /// The I/O error of the wait.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut children = children();
        let ended = self.0.try_wait()?;
        if ended.is_some() {
            children.remove(&self.0.id());
        }
        Ok(ended)
    }

    /// Kills the child with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// The I/O error; none if it has already ended.
    pub fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        // Locked only here: the child dies at once, and its id is not reused until it is waited for.
        let mut children = children();
        self.0.wait()?;
        children.remove(&self.0.id());
        Ok(())
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.kill();
    }
}

/// Asks the kernel to kill this process when `parent` dies. Fails if `parent` is already dead.
#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: both calls take and return numbers.
    let (is_set, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0, libc::getppid()) };
    if is_set && now as u32 == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Not supported by other kernels.
#[cfg(not(target_os = "linux"))]
fn die_with(_: u32) -> io::Result<()> {
    Ok(())
}
