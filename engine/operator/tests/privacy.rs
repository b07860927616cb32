//! Other users of a host can read nothing of a replica or a client, regardless of the umask.

use crate::{Net, REPLICAS, free_ports, program};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns a command with a umask of zero.
fn open_handed() -> Command {
    let mut command = program();
    // SAFETY: only sets the mask of the child, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        })
    };
    command
}

fn succeeds(arguments: &[&str]) {
    let output = open_handed().args(arguments).output().expect("the binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn start(home: &Path, flags: &[&str]) -> Child {
    let mut command = open_handed();
    command.args(["run", "--dir"]).arg(home).args(flags).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a replica starts")
}

/// Returns the files and directories below a path that others may access, and the number of all.
pub fn open_to_others(path: &Path) -> (Vec<String>, usize) {
    let (mut open, mut all) = (Vec::new(), 0);
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        // A file may be renamed meanwhile.
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        all += 1;
        if about.permissions().mode() & 0o077 != 0 {
            open.push(format!("{} {:o}", path.display(), about.permissions().mode()));
        }
        if about.is_dir() {
            waiting.extend(fs::read_dir(&path).expect("it is ours").flatten().map(|entry| entry.path()));
        }
    }
    (open, all)
}

pub fn core_limits(process: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).expect("the process is alive");
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("the limit is listed");
    line.split_whitespace().skip(4).take(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn files_are_for_their_owner_and_processes_with_keys_leave_no_core_dumps() {
    let path = std::env::temp_dir().join(format!("quorate-privacy-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut net = Net { path, nodes: Vec::new() };
    let dir = net.path.to_str().expect("a test's path is UTF-8").to_owned();
    succeeds(&["testnet", "--dir", &dir, "--base-port", &free_ports().to_string(), "--admitted-clients", "certified"]);
    let homes: Vec<_> = (0..REPLICAS).map(|replica| net.path.join(format!("replica-{replica}"))).collect();
    for home in &homes {
        let config = home.join("config.toml");
        let text = fs::read_to_string(&config).expect("testnet wrote it");
        // States are written early.
        let early = text.replace("snapshot_bytes = ", "snapshot_bytes = 4096 # ");
        assert_ne!(text, early, "the key has its place");
        fs::write(&config, early).expect("it is ours");
        // As left by an earlier version.
        fs::create_dir(home.join("journal")).expect("it is ours");
        fs::set_permissions(home.join("journal"), fs::Permissions::from_mode(0o755)).expect("it is ours");
        net.nodes.push(start(home, &[]));
    }
    let value = "v".repeat(2_000);
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        succeeds(&["client", "--dir", &dir, "put", key, &value]);
    }
    let (open, all) = open_to_others(&net.path);
    assert!(open.is_empty(), "{open:#?}");
    assert!(all > 4 * usize::from(REPLICAS), "there are journals among {all} files");
    wait_for_answer(&dir);
    assert_eq!(core_limits(net.nodes[1].id()), "0 0");
    let _ = net.nodes[0].kill();
    let _ = net.nodes[0].wait();
    net.nodes[0] = start(&homes[0], &["--allow-core-dumps"]);
    wait_for_answer(&homes[0].display().to_string());
    assert_eq!(core_limits(net.nodes[0].id()), core_limits(std::process::id()), "the flag leaves the limit as it was");
}

/// Waits until the replicas of a directory answer.
fn wait_for_answer(dir: &str) {
    let silent = || {
        let output = program().args(["status", "--dir", dir]).output().expect("the binary runs");
        String::from_utf8_lossy(&output.stdout).contains("does not answer")
    };
    assert!((0..30).any(|_| !silent()), "the replicas of {dir} do not answer");
}

/// Returns the private keys in a key file.
fn secrets_of(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("testnet wrote it");
    let fields = text.lines().filter_map(|line| line.split_once(" = ")).filter(|(name, _)| name.contains("secret"));
    fields.map(|(_, value)| value.trim_matches('"').to_owned()).collect()
}

#[test]
fn no_secret_is_in_arguments_logs_or_answers() {
    const PASSPHRASE: &str = "correct horse battery staple";
    let mut net = Net::written("secrets", &[]);
    let dir = net.dir().to_owned();
    let homes: Vec<_> = (0..REPLICAS).map(|replica| net.path.join(format!("replica-{replica}"))).collect();
    let files = homes.iter().map(|home| home.join("private.key")).chain([net.path.join("client.key")]);
    let mut secrets: Vec<String> = files.flat_map(|file| secrets_of(&file)).collect();
    assert_eq!(secrets.len(), 2 * usize::from(REPLICAS) + 1, "two keys a replica, and the client's");
    secrets.push(PASSPHRASE.to_owned());
    for home in &homes {
        let mut encrypt = program();
        encrypt.args(["keys", "encrypt"]).arg(home.join("private.key")).env("QUORATE_PASSPHRASE", PASSPHRASE);
        assert!(encrypt.output().expect("it runs").status.success());
        let log = fs::File::create(home.join("log")).expect("a log");
        let mut run = program();
        run.args(["run", "--log-level", "trace", "--dir"]).arg(home).stdout(Stdio::null()).stderr(log);
        net.nodes.push(run.env("QUORATE_PASSPHRASE", PASSPHRASE).spawn().expect("a replica starts"));
    }
    succeeds(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    let mut seen = Vec::new();
    for (home, node) in homes.iter().zip(&net.nodes) {
        let home = home.display().to_string();
        // The command needs a quorum only.
        wait_for_answer(&home);
        seen.push(fs::read_to_string(format!("/proc/{}/cmdline", node.id())).expect("it runs"));
        seen.push(fs::read_to_string(format!("{home}/log")).expect("a log"));
        for arguments in [&["status", "--json"][..], &["inspect", "--json", "-"]] {
            let output = program().args(arguments).args(["--dir", &home]).output().expect("it runs");
            seen.push(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned());
        }
    }
    assert!(seen.iter().all(|text| text.len() > 20), "{seen:?}");
    for (at, secret) in secrets.iter().enumerate() {
        assert!(seen.iter().all(|text| !text.to_lowercase().contains(&secret.to_lowercase())), "secret {at} is shown");
    }
}
