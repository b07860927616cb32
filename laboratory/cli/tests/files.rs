//! Commands that write a file, with different kinds of existing files at the path: a file, links, a FIFO, a device.

use crate::common::*;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::thread;

/// Kind of file at the path of an output, or at the end of its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Nothing,
    Regular,
    Symlink,
    Dangling,
    HardLink,
    Fifo,
    Null,
    Full,
}

const KINDS: [Kind; 8] =
    [Kind::Nothing, Kind::Regular, Kind::Symlink, Kind::Dangling, Kind::HardLink, Kind::Fifo, Kind::Null, Kind::Full];

const FORMER: &str = "former content";

/// A place of one kind, in its own directory.
struct Place {
    kind: Kind,
    scratch: Scratch,
    /// The path passed to the command.
    path: String,
}

impl Place {
    fn new(name: &str, kind: Kind) -> Place {
        let scratch = Scratch::new(&format!("files-{name}-{kind:?}"));
        let (path, real) = (scratch.path("out"), scratch.path("real"));
        let path = match kind {
            Kind::Null => "/dev/null".to_owned(),
            Kind::Full => "/dev/full".to_owned(),
            _ => path,
        };
        match kind {
            Kind::Regular => fs::write(&path, FORMER).expect("it can be written"),
            Kind::HardLink => {
                fs::write(&path, FORMER).expect("it can be written");
                fs::hard_link(&path, &real).expect("it can be linked");
            }
            Kind::Symlink => fs::write(&real, FORMER).expect("it can be written"),
            Kind::Fifo => {
                let made = Command::new("mkfifo").arg(&path).status().expect("coreutils are there");
                assert!(made.success());
            }
            Kind::Nothing | Kind::Dangling | Kind::Null | Kind::Full => {}
        }
        if matches!(kind, Kind::Symlink | Kind::Dangling) {
            symlink("real", &path).expect("it can be linked");
        }
        Place { kind, scratch, path }
    }

    /// Runs the command, and returns its status, its messages and the written content.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, Vec<u8>) {
        let reader = (self.kind == Kind::Fifo).then(|| {
            // Opened for reading and writing, so that neither side blocks; the content fits into the pipe.
            let mut pipe = File::options().read(true).write(true).open(&self.path).expect("it is there");
            thread::spawn(move || {
                let (mut content, mut piece) = (Vec::new(), [0; 4096]);
                while !content.ends_with(END) {
                    let count = pipe.read(&mut piece).expect("a pipe can be read");
                    content.extend_from_slice(&piece[..count]);
                }
                content.truncate(content.len() - END.len());
                content
            })
        });
        let output = quorate(arguments);
        let arrived = match reader {
            Some(reader) => {
                let end = File::options().write(true).open(&self.path);
                std::io::Write::write_all(&mut end.expect("it is there"), END).expect("the reader reads");
                reader.join().expect("the reader does not panic")
            }
            None if matches!(self.kind, Kind::Null | Kind::Full) => Vec::new(),
            None => fs::read(&self.path).unwrap_or_default(),
        };
        (output.status.code(), text(&output.stderr), arrived)
    }

    /// Asserts that the path still has the same kind, and that only results were written.
    fn stays(&self, what: &str) {
        let named = fs::symlink_metadata(&self.path).map(|about| about.file_type());
        let is = |expected: bool| assert!(expected, "{what}: {} is no longer a {:?}", self.path, self.kind);
        match self.kind {
            Kind::Nothing | Kind::Regular | Kind::HardLink => is(named.is_ok_and(|it| it.is_file())),
            Kind::Symlink | Kind::Dangling => is(named.is_ok_and(|it| it.is_symlink())),
            Kind::Fifo => is(named.is_ok_and(|it| it.is_fifo())),
            Kind::Null | Kind::Full => is(named.is_ok_and(|it| it.is_char_device())),
        }
        let names = fs::read_dir(&self.scratch.0).expect("it is there").count();
        let own = match self.kind {
            Kind::Null | Kind::Full => 0,
            Kind::Nothing | Kind::Regular | Kind::Fifo => 1,
            Kind::Symlink | Kind::Dangling | Kind::HardLink => 2,
        };
        assert_eq!(names, own, "{what}: nothing else stays behind beside {}", self.path);
    }
}

/// Marks the end of a test's data in a FIFO.
const END: &[u8] = b"\0end of the test\0";

/// Runs a command on each kind of file, and expects the same content each time.
fn writes_to_every_kind(name: &str, call: &[&str]) {
    let mut expected: Option<Vec<u8>> = None;
    for kind in KINDS {
        let place = Place::new(name, kind);
        let arguments: Vec<&str> = call.iter().map(|word| if *word == "OUT" { &*place.path } else { word }).collect();
        let (status, said, arrived) = place.run(&arguments);
        let what = format!("{arguments:?}");
        if kind == Kind::Full {
            assert_eq!(status, Some(1), "{what}: {said}");
            assert!(said.contains("/dev/full") && said.contains("No space left"), "{what}: {said}");
        } else {
            assert_eq!(status, Some(0), "{what}: {said}");
        }
        place.stays(&what);
        if matches!(kind, Kind::Null | Kind::Full) {
            continue;
        }
        assert!(!arrived.is_empty() && arrived != FORMER.as_bytes(), "{what}: the result arrived");
        let length = expected.get_or_insert_with(|| arrived.clone()).len();
        // Times in results differ by a few digits.
        assert!(arrived.len().abs_diff(length) < length / 10 + 64, "{what}: {} bytes, not {length}", arrived.len());
    }
}

#[test]
fn results_are_written_to_every_kind_of_file() {
    let scratch = Scratch::new("files-lab");
    let (lab, other) = (scratch.path("lab"), scratch.path("other"));
    let experiment = scratch.path("one.toml");
    fs::write(&experiment, EXPERIMENT).expect("it can be written");
    succeeds(&["lab", "run", &experiment, "--dir", &lab]);
    let sim = ["sim", "--warmup", "100ms", "--duration", "100ms", "--outstanding", "1"];
    writes_to_every_kind("sim-json", &[&sim[..], &["--json", "OUT"]].concat());
    writes_to_every_kind("sim-report", &[&sim[..], &["--report", "OUT"]].concat());
    writes_to_every_kind("model", &["model", "pbft", "--json", "OUT"]);
    writes_to_every_kind("plan", &["plan", "fpga", "--json", "OUT"]);
    writes_to_every_kind("generate", &["twins", "generate", "--first", "5", "--out", "OUT"]);
    writes_to_every_kind("twins", &["twins", "run", "--first", "5", "--save", "/dev/null", "--json", "OUT"]);
    writes_to_every_kind("list", &["lab", "list", "--json", "OUT"]);
    writes_to_every_kind("export", &["lab", "export", &lab, "--out", "OUT"]);
    writes_to_every_kind("html", &["lab", "report", &lab, "--html", "OUT"]);
    writes_to_every_kind("compare", &["lab", "compare", &lab, &lab, "--json", "OUT"]);
    writes_to_every_kind("lab-json", &["lab", "run", &experiment, "--dir", &lab, "--json", "OUT"]);
    // Rows are replaced at the target of a directory's links.
    let row = fs::read_dir(format!("{lab}/cells")).expect("there are rows").next().expect("a row").expect("it").path();
    fs::rename(&row, &other).expect("it can be moved");
    symlink(&other, &row).expect("it can be linked");
    fs::write(&other, "").expect("it can be written");
    fs::remove_file(&other).expect("the link now dangles");
    succeeds(&["lab", "run", &experiment, "--dir", &lab]);
    assert!(fs::symlink_metadata(&row).expect("it is there").is_symlink() && fs::metadata(&other).is_ok());
}

/// An experiment of one short simulated cell.
const EXPERIMENT: &str = r#"
title = "One cell"
paper = "none"
about = "A cell that is there to be written."
instruments = ["simulated"]

[base]
outstanding = 1
warmup = "100ms"
duration = "100ms"

[repeat]
min = 1
max = 1

[[plot]]
kind = "bars"
title = "Throughput"
x = "batch"
y = "throughput_per_s"

[[axis]]
key = "batch"
values = [10]
"#;

#[test]
fn an_export_is_written_to_every_kind_of_file() {
    let scratch = Scratch::new("files-net");
    let net = scratch.path("net");
    succeeds(&["testnet", "--dir", &net, "--base-port", &free_ports().to_string()]);
    let nodes = Nodes::start(&net);
    succeeds(&["client", "--dir", &net, "put", "greeting", "hello"]);
    drop(nodes);
    let home = format!("{net}/replica-0");
    writes_to_every_kind("inspect-json", &["inspect", "--dir", &home, "--json", "OUT"]);
    writes_to_every_kind("inspect-export", &["inspect", "--dir", &home, "--export", "OUT"]);
    let output = quorate(&["inspect", "--dir", &home, "--export", "/nonexistent/file"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    // The export goes to standard output, followed by the table.
    let output = succeeds(&["inspect", "--dir", &home, "--export", "/dev/stdout"]);
    let said = text(&output.stdout);
    assert!(said.starts_with('{') && said.contains("\"line\":\"end\"") && said.trim_end().ends_with(|c| c != '}'));
}

/// Key files of every kind: some are replaced by the command, others are refused and left unchanged.
#[test]
fn a_key_file_is_replaced_where_it_is_or_refused() {
    let scratch = Scratch::new("files-keys");
    let pass = scratch.path("pass");
    fs::write(&pass, "a passphrase\n").expect("it can be written");
    fs::set_permissions(&pass, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let certifier = scratch.path("certifier");
    succeeds(&["keys", "generate", "certifier", "--cluster", "one", "--out", &certifier]);
    for action in ["encrypt", "decrypt", "certify"] {
        for is_linked in [false, true] {
            for is_hard in [false, true] {
                let (key, other, link) = (scratch.path("key"), scratch.path("other"), scratch.path("link"));
                for path in [&key, &other, &link] {
                    let _ = fs::remove_file(path);
                }
                succeeds(&["keys", "generate", "client", "--cluster", "one", "--out", &key]);
                if action == "decrypt" {
                    succeeds(&["keys", "encrypt", &key, "--passphrase-file", &pass]);
                }
                symlink("key", &link).expect("it can be linked");
                if is_hard {
                    fs::hard_link(&key, &other).expect("it can be linked");
                }
                let former = fs::read(&key).expect("it is there");
                let named = if is_linked { &link } else { &key };
                let mut call = vec!["keys", action, named, "--passphrase-file", &pass];
                if action == "certify" {
                    call.extend(["--certifier", &certifier]);
                }
                let output = quorate(&call);
                let (said, now) = (text(&output.stderr), fs::read(&key).expect("it is there"));
                let expected = if is_hard { 2 } else { 0 };
                assert_eq!(output.status.code(), Some(expected), "{call:?}, hard link {is_hard}: {said}");
                assert_eq!(now == former, is_hard, "{call:?}: the key file itself changes, or nothing does");
                let is_plain = |content: &[u8]| content.starts_with(b"quorate");
                assert_eq!(is_plain(&now), if is_hard { action != "decrypt" } else { action != "encrypt" });
                if is_hard {
                    assert!(said.contains("2 names"), "{said}");
                    assert_eq!(fs::read(&other).expect("it is there"), former);
                }
                assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink(), "{call:?}");
                assert_eq!(fs::metadata(&key).expect("it is there").mode() & 0o777, 0o600);
                let show = succeeds(&["keys", "show", &link, "--passphrase-file", &pass]);
                assert!(text(&show.stdout).contains("key of a client"));
            }
        }
    }
    for kind in [Kind::Dangling, Kind::Fifo, Kind::Null] {
        let place = Place::new("keys", kind);
        if kind != Kind::Dangling {
            for action in ["encrypt", "decrypt"] {
                let output = quorate(&["keys", action, &place.path, "--passphrase-file", &pass]);
                assert_eq!(output.status.code(), Some(2), "{kind:?}: {}", text(&output.stderr));
                place.stays(action);
            }
        }
        let output = quorate(&["keys", "generate", "client", "--cluster", "one", "--out", &place.path]);
        assert_eq!(output.status.code(), Some(2), "{kind:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("exists already"), "{}", text(&output.stderr));
    }
}
