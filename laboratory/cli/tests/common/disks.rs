//! Faulty disks: file systems visible only to the test and its processes, and system calls that fail.

use super::Scratch;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};

/// Environment variable of a test process that has its own mount namespace.
const HAS_OWN_MOUNTS: &str = "QUORATE_TEST_HAS_OWN_MOUNTS";

/// Runs the calling test in its own directory and mount namespace: the mounts vanish with the test and its processes,
/// however they end. As root, the test's thread gets such a namespace. Otherwise a user namespace is needed, which only
/// a single-threaded process can enter, so the test runs again in a separate process.
pub fn with_own_mounts(name: &str, test: impl FnOnce(&Path) + Send) {
    if std::env::var_os(HAS_OWN_MOUNTS).is_some() {
        return with_mounts_here(name, test);
    }
    // SAFETY: returns an ID, and touches no memory.
    if unsafe { libc::geteuid() } != 0 {
        return run_in_user_namespace();
    }
    let run = || {
        // SAFETY: affects only this thread, and no memory.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            let error = io::Error::last_os_error();
            panic!("cannot create a mount namespace: {error}; in a container, root needs CAP_SYS_ADMIN");
        }
        with_mounts_here(name, test);
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn with_mounts_here(name: &str, test: impl FnOnce(&Path)) {
    let scratch = Scratch::new(name);
    mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE, None, "");
    test(&scratch.0);
}

/// Runs the calling test in a process that is root only in its own user namespace.
fn run_in_user_namespace() {
    let test = std::thread::current().name().expect("a test's thread has the test's name").to_owned();
    let mut command = Command::new(std::env::current_exe().expect("this binary has a file"));
    command.args(["--exact", &test, "--nocapture", "--include-ignored"]).env(HAS_OWN_MOUNTS, "1");
    // SAFETY: returns an ID, and touches no memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {user} 1")),
        (c"/proc/self/gid_map", format!("0 {group} 1")),
    ];
    let enter = move || {
        // SAFETY: affects only this process, which has one thread, and no memory.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        maps.iter().try_for_each(|(file, map)| write_at_once(file, map.as_bytes()))
    };
    // SAFETY: only makes system calls between fork and exec.
    unsafe { command.pre_exec(enter) };
    let ended = command.status().unwrap_or_else(|error| {
        panic!(
            "cannot create a mount namespace: {error}; run the test as root, or allow user namespaces: `sysctl \
             user.max_user_namespaces kernel.unprivileged_userns_clone \
             kernel.apparmor_restrict_unprivileged_userns`"
        )
    });
    assert!(ended.success(), "{test} failed in its user namespace: {ended}; its output is above");
}

/// Writes a file with one call and without allocation.
fn write_at_once(file: &CStr, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the name and the bytes outlive the calls, and only this function uses the descriptor.
    let written = unsafe {
        let descriptor = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        let written = libc::write(descriptor, bytes.as_ptr().cast(), bytes.len());
        libc::close(descriptor);
        written
    };
    if written == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts an in-memory file system of this size.
pub fn mount_memory(at: &Path, bytes: u64) {
    mount(Some(Path::new("tmpfs")), at, 0, Some("tmpfs"), &format!("size={bytes}"));
}

/// Changes the size of an in-memory file system.
pub fn resize_memory(at: &Path, bytes: u64) {
    mount(None, at, libc::MS_REMOUNT, None, &format!("size={bytes}"));
}

/// Makes a directory read-only for subsequently opened files.
pub fn cover_read_only(directory: &Path) {
    mount(Some(directory), directory, libc::MS_BIND, None, "");
    mount(None, directory, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY, None, "");
}

/// Removes the topmost mount.
pub fn uncover(directory: &Path) {
    let at = path(directory);
    // SAFETY: the text outlives the call.
    let done = unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    assert_eq!(done, 0, "{}: {}", directory.display(), io::Error::last_os_error());
}

fn mount(source: Option<&Path>, at: &Path, flags: libc::c_ulong, kind: Option<&str>, options: &str) {
    let (source, target) = (source.map(path), path(at));
    let (kind, options) = (kind.map(text), text(options));
    let pointer = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
    // SAFETY: the texts outlive the call.
    let done =
        unsafe { libc::mount(pointer(&source), target.as_ptr(), pointer(&kind), flags, options.as_ptr().cast()) };
    assert_eq!(done, 0, "cannot mount {}: {}", at.display(), io::Error::last_os_error());
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a test's path has no zero")
}

fn text(text: &str) -> CString {
    CString::new(text).expect("a test's words have no zero")
}

/// Makes writes of the command's process fail with EIO beyond the first `bytes` bytes of any file, as on a broken disk.
/// A seccomp filter in the kernel answers instead of the file system, which needs neither privileges nor modules.
pub fn fails_beyond(command: &mut Command, bytes: u32) {
    let step =
        |code: u32, right: u8, wrong: u8, k: u32| libc::sock_filter { code: code as u16, jt: right, jf: wrong, k };
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    let when = |test: u32, wrong: u8, k: u32| step(libc::BPF_JMP | test | libc::BPF_K, 0, wrong, k);
    let answer = |what: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    // Offsets in small files fit into the lower half.
    let lower_half = if cfg!(target_endian = "little") { 0 } else { 4 };
    let offset = std::mem::offset_of!(libc::seccomp_data, args) + 3 * size_of::<u64>() + lower_half;
    let filter = [
        load(std::mem::offset_of!(libc::seccomp_data, nr)),
        when(libc::BPF_JEQ, 3, libc::SYS_pwrite64 as u32),
        load(offset),
        when(libc::BPF_JGE, 1, bytes),
        answer(libc::SECCOMP_RET_ERRNO | libc::EIO as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let begin = move || {
        let mut filter = filter;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the kernel copies the filter before the call returns.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, null_mut::<u8>(), 0)
                    == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: only makes system calls between fork and exec.
    unsafe { command.pre_exec(begin) };
}
