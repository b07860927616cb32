//! Texts from files, clients and replicas are escaped on a terminal.

use crate::{call, program, succeeds};
use quorate_operator::replicas::{ClusterStatus, ReplicaStatus};
use quorate_operator::report::Report;
use quorate_types::ReplicaId;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

/// Clears the screen, renames the window, rings the bell, and forges a line.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\tb";
const ESCAPED: &str = "a\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\r\\n\\tb";

/// Returns what a command writes to a terminal on standard output and standard error.
fn on_terminal(arguments: &[&str]) -> String {
    let mut terminal = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx").unwrap();
    let (mut number, unlocked): (libc::c_uint, libc::c_int) = (0, 0);
    // SAFETY: the descriptor is open, and the kernel reads or writes the one integer to which each call points.
    let status = unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked)
            | libc::ioctl(terminal.as_raw_fd(), libc::TIOCGPTN, &raw mut number)
    };
    assert_eq!(status, 0, "a new terminal can be unlocked");
    let path = format!("/dev/pts/{number}");
    let open = || File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path).expect("a terminal");
    let mut child = {
        let mut command = program();
        command.args(arguments).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        command.spawn().expect("the binary runs")
    };
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // Once the child has ended, reading fails.
    while let Ok(bytes @ 1..) = terminal.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..bytes]);
    }
    child.wait().expect("it ends");
    // The terminal's own line ends.
    String::from_utf8(shown).expect("the text is UTF-8").replace("\r\n", "\n")
}

/// Asserts that a text is safe to show on a terminal.
fn is_only_shown(text: &str) {
    let acts = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
    assert_eq!(text.chars().find(acts), None, "{text:?}");
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Puts a hostile key and value into a running store, and displays them in every way.
pub fn keys_and_values_are_escaped(dir: &str) {
    let client = |request: &[&'static str]| [&["client", "--dir", dir], request].concat();
    let scan = |more: &[&'static str]| client(&[&["scan", "--prefix", "a\u{1b}"], more].concat());
    succeeds(&client(&["put", HOSTILE, HOSTILE]));
    let shown = on_terminal(&client(&["get", HOSTILE]));
    assert_eq!(shown, format!("{ESCAPED}\n"));
    assert_eq!(succeeds(&client(&["get", HOSTILE])), format!("{HOSTILE}\n"), "a program gets the bytes");
    assert_eq!(on_terminal(&scan(&[])), format!("{ESCAPED}\t{ESCAPED}\n"));
    assert_eq!(succeeds(&scan(&[])), format!("{ESCAPED}\t{ESCAPED}\n"), "a row is a line for a program too");
    assert_eq!(succeeds(&scan(&["--raw"])), format!("{HOSTILE}\t{HOSTILE}\n"));
    is_only_shown(&on_terminal(&scan(&["--json"])));
    succeeds(&client(&["delete", HOSTILE]));
    is_only_shown(&on_terminal(&client(&["get", HOSTILE])));
}

#[test]
fn a_hostile_export_and_its_directory_are_escaped() {
    let directory = std::env::temp_dir().join(format!("quorate-foreign-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    let dir = directory.to_str().expect("a test's path is UTF-8");
    succeeds(&["testnet", "--dir", dir]);
    let home = format!("{dir}/replica-0");
    let config = format!("{home}/config.toml");
    let text = fs::read_to_string(&config).expect("testnet wrote it");
    let name = "cluster = \"a\\u001b[2J\\u001b]0;owned\\u0007\\r\\n\\tb\"";
    let named = text.replace("cluster = \"quorate\"", name);
    assert_ne!(text, named, "the cluster has the default name");
    fs::write(&config, &named).expect("it is ours");
    let export = format!("{dir}/export.jsonl");
    let shown = both(&call(&["inspect", "--dir", &home, "--export", &export]));
    assert!(shown.contains(ESCAPED), "{shown}");
    is_only_shown(&shown);
    begin_with_genesis(&export);
    let shown = succeeds(&["inspect", "--check", &export]);
    assert!(shown.contains(&format!("cluster       {ESCAPED}, jolteon")), "{shown}");
    is_only_shown(&shown);
    let sound = fs::read_to_string(&export).expect("it was written");
    let kinds =
        [("\"protocol\":\"jolteon\"", "protocol"), ("\"line\":\"root\"", "line"), ("\"scheme\":\"ed25519\"", "scheme")];
    for (member, key) in kinds {
        let value = serde_json::to_string(HOSTILE).expect("it is text");
        let changed = sound.replacen(member, &format!("\"{key}\":{value}"), 1);
        assert_ne!(sound, changed, "{key}");
        fs::write(&export, changed).expect("it is ours");
        let shown = both(&call(&["inspect", "--check", &export]));
        // Another protocol or scheme has another id, so an export is refused before its text is displayed.
        let refused = if ["protocol", "scheme"].contains(&key) { "the cluster's id is not" } else { "owned" };
        assert!(shown.contains(refused), "{key}: {shown}");
        is_only_shown(&shown);
    }
    hostile_files_are_escaped(&directory, &config, &text);
    fs::remove_dir_all(&directory).expect("it is ours");
}

/// Adds the first block to an export without any, which its reader needs.
fn begin_with_genesis(export: &str) {
    let text = fs::read_to_string(export).expect("it was written");
    let (cluster, end) = text.split_once('\n').expect("an export has two lines");
    let ending: serde_json::Value = serde_json::from_str(end).expect("a line is JSON");
    let root = format!("{{\"line\":\"root\",\"height\":0,\"digest\":{}}}", ending["committed_digest"]);
    fs::write(export, format!("{cluster}\n{root}\n{end}")).expect("it is ours");
}

/// Every command that reads a file displays the error in it.
fn hostile_files_are_escaped(directory: &Path, config: &str, sound: &str) {
    let dir = directory.to_str().expect("a test's path is UTF-8");
    let home = format!("{dir}/replica-0");
    for hostile in [
        sound.replace("protocol = \"jolteon\"", "protocol = \"a\\u001b[2J\\nowned\""),
        format!("{HOSTILE} = 1\n{sound}"),
        sound.replace("[journal]", "[\"\\u001b[2J owned\"]\n[journal]"),
    ] {
        fs::write(config, hostile).expect("it is ours");
        for arguments in [["run", "--dir", &home], ["status", "--dir", &home], ["inspect", "--dir", &home]] {
            let shown = both(&call(&arguments));
            // For a line that is not TOML, only its number is displayed.
            assert!(shown.contains("owned") || shown.contains("line 1"), "{arguments:?}: {shown}");
            is_only_shown(&shown);
        }
    }
    let client = format!("{dir}/client.toml");
    let text = fs::read_to_string(&client).expect("testnet wrote it");
    fs::write(&client, text.replace("channel = \"tls\"", "channel = \"a\\u001b[2J\\nowned\"")).expect("it is ours");
    let shown = both(&call(&["client", "--dir", dir, "get", "key"]));
    assert!(shown.contains("owned"), "{shown}");
    is_only_shown(&shown);
    let key = format!("{dir}/client.key");
    let text = fs::read_to_string(&key).expect("testnet wrote it");
    fs::write(&key, text.replace("public_key = ", &format!("{HOSTILE} = "))).expect("it is ours");
    is_only_shown(&both(&call(&["keys", "show", &key])));
}

#[test]
fn the_status_of_a_hostile_replica_is_escaped() {
    let attention = vec![HOSTILE.to_owned()];
    let address = "127.0.0.1:7000".parse().expect("an address");
    let replica = ReplicaStatus { replica: ReplicaId(0), address, status: None, lag: None, attention };
    let shown =
        ClusterStatus { attention: vec![HOSTILE.to_owned()], version_skew: Vec::new(), replicas: vec![replica] }
            .to_table();
    assert!(shown.contains(ESCAPED), "{shown}");
    is_only_shown(&shown);
}
