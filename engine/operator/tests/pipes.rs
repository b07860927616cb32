//! A pipe in place of a regular file is refused, and does not block.

use crate::{program, succeeds};
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Timeout: a command that waits longer has hung.
const HANG: Duration = Duration::from_secs(60);

fn make_pipe(path: &Path) {
    let name = CString::new(path.to_str().expect("a test's path is UTF-8")).expect("it has no zero");
    // SAFETY: the kernel reads a string that ends with zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0, "{}", std::io::Error::last_os_error());
}

/// Returns a command's text on standard error. It must fail, and not hang.
fn refusal(arguments: &[&str]) -> String {
    let mut command = program();
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("it is a child") {
            Some(status) => break status,
            None if begun.elapsed() > HANG => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{arguments:?} waits for a pipe");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut said = String::new();
    child.stderr.take().expect("it is a pipe").read_to_string(&mut said).expect("errors are UTF-8");
    assert!(!status.success(), "{arguments:?}: {said}");
    said
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused() {
    let directory = std::env::temp_dir().join(format!("quorate-pipes-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let dir = directory.to_str().expect("a test's path is UTF-8");
    succeeds(&["testnet", "--dir", dir]);
    let home = format!("{dir}/replica-0");
    let journal = directory.join("replica-0/journal");
    fs::create_dir(&journal).expect("it is ours");
    make_pipe(&journal.join("000000000000.segment"));
    for arguments in
        [&["inspect", "--dir", &home][..], &["inspect", "--dir", &home, "--verify"], &["run", "--dir", &home]]
    {
        let said = refusal(arguments);
        assert!(said.contains("000000000000.segment") && said.contains("not a regular file"), "{arguments:?}: {said}");
    }
    fs::remove_dir_all(&journal).expect("it is ours");
    for file in ["config.toml", "private.key"] {
        let path = directory.join("replica-0").join(file);
        let sound = directory.join(file);
        fs::rename(&path, &sound).expect("it is ours");
        make_pipe(&path);
        let said = refusal(&["run", "--dir", &home]);
        assert!(said.contains(file) && said.contains("regular file"), "{said}");
        fs::rename(&sound, &path).expect("it is ours");
    }
    for file in ["client.toml", "client.key"] {
        let path = directory.join(file);
        let sound = directory.join("sound");
        fs::rename(&path, &sound).expect("it is ours");
        make_pipe(&path);
        let said = refusal(&["client", "--dir", dir, "get", "key"]);
        assert!(said.contains(file) && said.contains("regular file"), "{said}");
        fs::rename(&sound, &path).expect("it is ours");
    }
    fs::remove_dir_all(&directory).expect("it is ours");
}
