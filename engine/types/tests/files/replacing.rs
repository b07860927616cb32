//! Replacement of every kind of name.

use quorate_types::files::{DEFAULT_MODE, Replacement, hard_links, replace};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

/// Temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the temporary directory can be written");
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the names in the directory, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a test's path has no zero");
    // SAFETY: the name outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", io::Error::last_os_error());
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn a_regular_file_is_created_and_replaced_and_keeps_its_mode() {
    let scratch = Scratch::new("regular");
    let path = scratch.at("file");
    replace(&path, b"first", 0o600).expect("it can be created");
    assert_eq!((read(&path).as_str(), fs::metadata(&path).unwrap().mode() & 0o777), ("first", 0o600));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let former = fs::metadata(&path).unwrap().ino();
    replace(&path, b"second", DEFAULT_MODE).expect("it can be replaced");
    let about = fs::metadata(&path).unwrap();
    assert_eq!((read(&path).as_str(), about.mode() & 0o777), ("second", 0o640));
    assert_ne!(about.ino(), former, "it is a new file");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let scratch = Scratch::new("links");
    fs::create_dir(scratch.at("there")).unwrap();
    let real = scratch.at("there/real");
    fs::write(&real, "former").unwrap();
    symlink("there/real", scratch.at("link")).unwrap();
    symlink("link", scratch.at("link-of-link")).unwrap();
    symlink(scratch.at("there/absent"), scratch.at("dangling")).unwrap();
    symlink("there", scratch.at("directory")).unwrap();
    for (name, target) in [
        ("link", "there/real"),
        ("link-of-link", "there/real"),
        ("dangling", "there/absent"),
        ("directory/new", "there/new"),
    ] {
        replace(&scratch.at(name), name.as_bytes(), DEFAULT_MODE).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read(&scratch.at(target)), name);
        assert_eq!(read(&scratch.at(name)), name);
        let is_link = |name: &str| fs::symlink_metadata(scratch.at(name)).unwrap().is_symlink();
        assert!(name.contains('/') || is_link(name), "{name} is still a link");
        assert!(!is_link(target), "{target} is a file");
    }
    assert_eq!(scratch.names(), ["dangling", "directory", "link", "link-of-link", "there"]);
}

#[test]
fn a_hard_link_is_counted_and_the_other_name_keeps_its_content() {
    let scratch = Scratch::new("hard");
    fs::write(scratch.at("one"), "former").unwrap();
    assert_eq!(hard_links(&scratch.at("one")).unwrap(), 1);
    fs::hard_link(scratch.at("one"), scratch.at("other")).unwrap();
    symlink("one", scratch.at("link")).unwrap();
    assert_eq!(hard_links(&scratch.at("link")).unwrap(), 2);
    replace(&scratch.at("link"), b"new", DEFAULT_MODE).unwrap();
    assert_eq!((read(&scratch.at("one")).as_str(), read(&scratch.at("other")).as_str()), ("new", "former"));
}

#[test]
fn a_fifo_and_a_device_receive_the_content_and_stay() {
    let scratch = Scratch::new("devices");
    let pipe = scratch.at("pipe");
    fifo(&pipe);
    symlink("pipe", scratch.at("link")).unwrap();
    for name in ["pipe", "link"] {
        let reader = {
            let pipe = pipe.clone();
            thread::spawn(move || fs::read_to_string(pipe))
        };
        // More than a pipe buffers.
        let content = "0123456789".repeat(50_000);
        replace(&scratch.at(name), content.as_bytes(), DEFAULT_MODE).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), content, "{name}");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }
    replace(Path::new("/dev/null"), b"gone", DEFAULT_MODE).unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    #[cfg(target_os = "linux")]
    {
        let full = replace(Path::new("/dev/full"), b"too much", DEFAULT_MODE).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }
    assert_eq!(scratch.names(), ["link", "pipe"]);
}

/// A file behind an open descriptor is not replaced: the holder of the descriptor would continue with the old file.
#[test]
#[cfg(target_os = "linux")]
fn an_open_file_is_written_through() {
    use std::os::fd::AsRawFd;
    let scratch = Scratch::new("open");
    let path = scratch.at("file");
    let file = File::create(&path).unwrap();
    let former = file.metadata().unwrap().ino();
    replace(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"through", DEFAULT_MODE).unwrap();
    assert_eq!((read(&path).as_str(), fs::metadata(&path).unwrap().ino()), ("through", former));
}

#[test]
fn what_cannot_be_replaced_is_refused_and_stays() {
    let scratch = Scratch::new("refused");
    fs::create_dir(scratch.at("directory")).unwrap();
    let _socket = UnixListener::bind(scratch.at("socket")).unwrap();
    symlink("loop", scratch.at("loop")).unwrap();
    symlink("absent/file", scratch.at("nowhere")).unwrap();
    for name in ["directory", "socket", "loop", "nowhere", "absent/file", "directory/.."] {
        assert!(Replacement::begin(&scratch.at(name), DEFAULT_MODE).is_err(), "{name}");
    }
    assert!(Replacement::begin_as(&scratch.at("draft"), Path::new("/dev/null"), DEFAULT_MODE).is_err());
    assert_eq!(scratch.names(), ["directory", "loop", "nowhere", "socket"]);
    assert!(fs::symlink_metadata(scratch.at("socket")).unwrap().file_type().is_socket());
}

#[test]
fn content_that_is_not_committed_leaves_no_trace() {
    let scratch = Scratch::new("dropped");
    let path = scratch.at("file");
    fs::write(&path, "former").unwrap();
    let mut replacement = Replacement::begin(&path, DEFAULT_MODE).unwrap();
    replacement.write_all(b"half").unwrap();
    assert_eq!(scratch.names().len(), 2, "it is written beside the file");
    drop(replacement);
    assert_eq!((read(&path).as_str(), scratch.names().len()), ("former", 1));
}

#[test]
fn a_draft_of_a_crash_is_removed_and_a_link_in_its_place_is_not_followed() {
    let scratch = Scratch::new("stale");
    let (path, draft, victim) = (scratch.at("file"), scratch.at("draft"), scratch.at("victim"));
    fs::write(&victim, "untouched").unwrap();
    symlink("victim", &draft).unwrap();
    let mut replacement = Replacement::begin_as(&draft, &path, 0o600).unwrap();
    replacement.write_all(b"new").unwrap();
    assert_eq!(replacement.commit().unwrap(), 3);
    let mut content = String::new();
    File::open(&path).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), read(&victim).as_str()), ("new", "untouched"));
    assert_eq!(scratch.names(), ["file", "victim"]);
}
