//! What a run must not leave behind: its processes and its directory.
//!
//! A directory is locked by the process that it belongs to, for as long as that lives. It goes with the run, also when a second signal
//! ends the process at once; what a process left that was killed with -9, the next run removes.
//! The children of such a process are killed by the kernel.

use quorate_node::interrupt::{self, Subscription};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How the name of a run's directory begins; the process and a number follow.
const PREFIX: &str = "quorate-run-";
/// How often a directory is tried to be removed whose processes have just been killed, and the pause between.
const REMOVALS: u32 = 10;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A directory for one run, which ends with this.
pub struct Directory {
    path: PathBuf,
    /// The lock is held as long as this is open.
    _lock: File,
    _before_abort: Subscription,
}

impl Directory {
    /// One that nobody else uses, empty and for this user only. Removes what dead processes have left.
    ///
    /// # Errors
    /// The path and what the operating system says, if it cannot be made.
    pub fn new() -> Result<Directory, (PathBuf, io::Error)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = std::env::temp_dir();
        remove_leftovers(&place);
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// What cannot be removed stays for the next run.
fn remove(path: &Path) {
    for _ in 0..REMOVALS {
        match fs::remove_dir_all(path) {
            // A process that has just been killed may have written one more file.
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(REMOVAL_PAUSE),
            _ => return,
        }
    }
}

/// Makes a directory and locks it; none if another run took it for a leftover in between and removed it.
fn make(path: &Path) -> io::Result<Option<File>> {
    DirBuilder::new().mode(0o700).create(path)?;
    let lock = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // Whoever holds the lock now removes the directory.
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
    // SAFETY: the descriptor is open for as long as the call lasts, and flock touches no memory of ours.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the directories of processes that are gone: those of this user that nobody has locked. What is in the way is left alone.
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

/// The children that live, to be killed before a directory of theirs is removed in haste.
static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill_children() {
    for child in children().iter() {
        // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
        unsafe { libc::kill(*child as libc::pid_t, libc::SIGKILL) };
    }
}

/// A child process that does not outlive this one, nor this value.
pub struct Offspring(Child);

impl Offspring {
    /// Starts it. On Linux the kernel kills it when the thread ends that started it: that has to be one that lives as long as it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn spawn(command: &mut Command) -> io::Result<Offspring> {
        let parent = std::process::id();
        // SAFETY: system calls alone, between fork and exec.
        unsafe { command.pre_exec(move || die_with(parent)) };
        // Locked, so that a second signal does not come between the start and the note.
        let mut children = children();
        let child = command.spawn()?;
        children.insert(child.id());
        Ok(Offspring(child))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut children = children();
        let ended = self.0.try_wait()?;
        if ended.is_some() {
            children.remove(&self.0.id());
        }
        Ok(ended)
    }

    /// Kills it with SIGKILL and waits for its end.
    ///
    /// # Errors
    /// What the operating system says; none if it has ended already.
    pub fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        // It dies at once, and until then its id is nobody else's.
        let mut children = children();
        self.0.wait()?;
        children.remove(&self.0.id());
        Ok(())
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        // An error means that it is gone already.
        let _ = self.kill();
    }
}

/// Has the kernel kill this process when `parent` dies, which may have happened already.
#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: both calls take and return numbers.
    let (is_set, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0, libc::getppid()) };
    match is_set && now as u32 == parent {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Other kernels cannot.
#[cfg(not(target_os = "linux"))]
fn die_with(_: u32) -> io::Result<()> {
    Ok(())
}
