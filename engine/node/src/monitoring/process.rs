//! Resources of the process and its disk, read by the thread that serves a request.

use crate::measure::{Space, space};
use crate::memory;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of a replica that has a journal on disk.
#[derive(Clone, Debug)]
pub struct Directories {
    pub journal: PathBuf,
    pub snapshots: PathBuf,
}

/// A reading. Values that the system does not report are `None`.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    pub cpu_seconds: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub descriptors: Option<u64>,
    pub max_descriptors: Option<u64>,
    pub heap: Option<memory::Held>,
    pub disk: Option<Space>,
    pub journal_bytes: Option<u64>,
    pub snapshot_bytes: Option<u64>,
}

impl Resources {
    /// Reads the resources of this process, and of the disk with these directories.
    pub fn read(directories: Option<&Directories>) -> Resources {
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = pages.split_whitespace().map(|field| field.parse::<u64>().ok());
        // SAFETY: takes an integer and returns one.
        let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok();
        let mut bytes = || Some(pages.next()?? * page_bytes?);
        Resources {
            virtual_bytes: bytes(),
            resident_bytes: bytes(),
            cpu_seconds: cpu_seconds(),
            threads: entries(Path::new("/proc/self/task")),
            descriptors: entries(Path::new("/proc/self/fd")),
            max_descriptors: max_descriptors(),
            heap: memory::held(),
            disk: directories.and_then(|directories| space(&directories.journal)),
            journal_bytes: directories.and_then(|directories| bytes_of_files(&directories.journal)),
            snapshot_bytes: directories.map(|directories| bytes_of_files(&directories.snapshots).unwrap_or(0)),
        }
    }
}

/// Returns the number of entries of a directory.
fn entries(directory: &Path) -> Option<u64> {
    Some(fs::read_dir(directory).ok()?.count() as u64)
}

/// Returns the length of all files directly in a directory.
fn bytes_of_files(directory: &Path) -> Option<u64> {
    let lengths = fs::read_dir(directory).ok()?.filter_map(|entry| entry.ok()?.metadata().ok());
    Some(lengths.filter(|about| about.is_file()).map(|about| about.len()).sum())
}

/// Returns the CPU time of the process, in seconds.
fn cpu_seconds() -> Option<f64> {
    // SAFETY: `rusage` consists of integers, so all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` to a valid location.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (status == 0).then(|| seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// Returns the number of files that the process may open.
fn max_descriptors() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` to a valid location.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    #[allow(clippy::useless_conversion, reason = "a limit is not a u64 on every system")]
    (status == 0).then(|| limit.rlim_cur.into())
}
