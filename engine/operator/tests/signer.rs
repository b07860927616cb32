//! Clusters whose votes are signed by other processes.

use crate::{Net, REPLICAS, call, program, succeeds};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(120);

/// A cluster, and a signer for each replica. Their processes are killed on drop.
struct Signed {
    net: Net,
    signers: Vec<Child>,
}

impl Drop for Signed {
    fn drop(&mut self) {
        for signer in &mut self.signers {
            let _ = signer.kill();
            let _ = signer.wait();
        }
    }
}

fn home(net: &Net, replica: u16) -> PathBuf {
    net.path.join(format!("replica-{replica}"))
}

fn signer_home(net: &Net, replica: u16) -> PathBuf {
    net.path.join(format!("signer-{replica}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a test's path is UTF-8")
}

/// Moves the voting key of a replica to a signer.
fn init(net: &Net, replica: u16) {
    let (home, signer) = (home(net, replica), signer_home(net, replica));
    let told = succeeds(&["signer", "init", "--dir", text(&signer), "--replica", text(&home)]);
    let socket = format!("socket = \"{}\"", text(&signer.join("socket")));
    assert!(told.contains(&socket), "{told}");
    net.configure(replica, "socket", &format!("\"{}\"", text(&signer.join("socket"))));
}

fn start_signer(net: &Net, replica: u16) -> Child {
    let home = signer_home(net, replica);
    let log = fs::File::options().create(true).append(true).open(home.join("log")).expect("a log");
    let mut command = program();
    command.args(["signer", "run", "--log-level", "trace", "--dir"]).arg(&home).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().expect("a signer starts");
    wait(&format!("signer {replica} listens"), || log_of(&home).contains("listens on"));
    child
}

fn log_of(home: &Path) -> String {
    fs::read_to_string(home.join("log")).unwrap_or_default()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HANG, "{what}: it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Signed {
    fn started(name: &str, flags: &[&str]) -> Signed {
        let net = Net::written(name, flags);
        (0..REPLICAS).for_each(|replica| init(&net, replica));
        let signers = (0..REPLICAS).map(|replica| start_signer(&net, replica)).collect();
        let mut signed = Signed { net, signers };
        signed.net.start(0..REPLICAS);
        signed
    }

    fn kill_signer(&mut self, replica: u16) {
        let signer = &mut self.signers[usize::from(replica)];
        signer.kill().and_then(|()| signer.wait()).expect("it runs");
    }

    fn signal_signer(&self, replica: u16, signal: i32) {
        let process = self.signers[usize::from(replica)].id() as libc::pid_t;
        // SAFETY: signals a child that has not been waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    }

    fn stop_replicas(&mut self) {
        for mut node in self.net.nodes.drain(..) {
            node.kill().and_then(|()| node.wait()).expect("it runs");
        }
    }

    /// Waits until the status of a replica contains a text.
    fn says(&self, replica: u16, what: &str) {
        let home = home(&self.net, replica);
        let asked = || String::from_utf8(call(&["status", "--dir", text(&home), "--json"]).stdout).expect("UTF-8");
        wait(what, || asked().contains(what));
    }
}

#[test]
fn a_cluster_survives_signers_that_are_killed_and_started_again() {
    let mut signed = Signed::started("signers", &[]);
    signed.net.put("before");
    signed.says(0, "\"connected\": true");
    signed.kill_signer(0);
    signed.net.put("with three");
    signed.says(0, "does not vote: its signer has not answered for ");
    signed.kill_signer(1);
    signed.says(1, "does not vote: its signer has not answered for ");
    let stalled = call(&["client", "--dir", signed.net.dir(), "--timeout", "2s", "put", "without", "a quorum"]);
    assert!(!stalled.status.success(), "two of four do not decide: {stalled:?}");
    for replica in [0, 1] {
        signed.signers[usize::from(replica)] = start_signer(&signed.net, replica);
    }
    signed.net.put("after");
    for replica in [0, 1] {
        signed.says(replica, "\"connected\": true");
        let log = log_of(&home(&signed.net, replica));
        assert!(log.contains("does not vote, because its signer does not sign: "), "{log}");
        assert!(log.contains("its signer answers again: votes"), "{log}");
        assert!(!log.contains("refuses to sign"), "{log}");
    }
}

/// A stopped process still has its socket: connections succeed, and nothing answers.
#[test]
fn a_cluster_survives_signers_that_hang() {
    let signed = Signed::started("hanging", &[]);
    signed.net.put("before");
    signed.says(0, "\"connected\": true");
    signed.signal_signer(0, libc::SIGSTOP);
    signed.net.put("with three");
    // The status is the event loop's answer: it waits for the signer for a fifth of its time at most.
    signed.says(0, "has not answered within 500 ms");
    signed.signal_signer(1, libc::SIGSTOP);
    signed.says(1, "has not answered within 500 ms");
    let stalled = call(&["client", "--dir", signed.net.dir(), "--timeout", "2s", "put", "without", "a quorum"]);
    assert!(!stalled.status.success(), "two of four do not decide: {stalled:?}");
    // Requests that nobody answered are in the sockets, and are answered to nobody.
    for replica in [0, 1] {
        signed.signal_signer(replica, libc::SIGCONT);
    }
    signed.net.put("after");
    // A signer that hangs again and again, while votes are on their way.
    for round in 0..6 {
        let replica = round % 2;
        signed.signal_signer(replica, libc::SIGSTOP);
        signed.net.put(&format!("hanging-{round}"));
        signed.signal_signer(replica, libc::SIGCONT);
        signed.net.put(&format!("going-on-{round}"));
        signed.says(replica, "\"connected\": true");
    }
    for replica in 0..REPLICAS {
        signed.says(replica, "\"connected\": true");
        // Two votes of one place would be refused by their signer, and be evidence at the others.
        let home = home(&signed.net, replica);
        let told = call(&["status", "--dir", text(&home), "--json"]).stdout;
        let told: serde_json::Value = serde_json::from_slice(&told).expect("the status is JSON");
        let evidence = &told["replicas"][0]["status"]["evidence"];
        assert_eq!(evidence.as_array().map(Vec::len), Some(0), "{told}");
        assert!(!log_of(&home).contains("refuses to sign"), "{}", log_of(&home));
    }
}

/// All replicas come back from disks on which they have never voted, and only the signers know better.
#[test]
fn a_cluster_that_was_rolled_back_does_not_contradict_itself() {
    let mut signed = Signed::started("rolled-back", &[]);
    ["a", "b", "c", "d", "e"].iter().for_each(|key| signed.net.put(key));
    signed.stop_replicas();
    for replica in 0..REPLICAS {
        let home = home(&signed.net, replica);
        fs::remove_dir_all(home.join("journal")).expect("it has a journal");
        let _ = fs::remove_dir_all(home.join("journal.snapshots"));
        crate::write_private(&home.join("journal.new"), "a lie\n");
        fs::remove_file(home.join("log")).expect("it has a log");
    }
    signed.net.start(0..REPLICAS);
    // It cannot succeed before the views are above the earlier ones.
    let _ = call(&["client", "--dir", signed.net.dir(), "--timeout", "3s", "put", "f", "again"]);
    wait("a refusal", || {
        (0..REPLICAS).any(|at| log_of(&home(&signed.net, at)).contains("its signer refuses to sign "))
    });
    wait("the signers' side", || {
        (0..REPLICAS).any(|at| log_of(&signer_home(&signed.net, at)).contains("it has signed a different one of view"))
    });
}

#[test]
fn a_signer_shows_no_secret_and_leaves_no_core_dumps() {
    let net = Net::written("signer-secrets", &[]);
    let secret_of = |file: PathBuf| {
        let text = fs::read_to_string(file).expect("a key file");
        let value = text.lines().find_map(|line| line.strip_prefix("voting_secret_key = "));
        value.map(str::to_owned)
    };
    let secret = secret_of(home(&net, 0).join("private.key")).expect("testnet wrote it");
    init(&net, 0);
    assert_eq!(secret_of(home(&net, 0).join("private.key")), None, "the replica no longer has it");
    assert_eq!(secret_of(signer_home(&net, 0).join("voting.key")), Some(secret.clone()));
    let mut signed = Signed { signers: vec![start_signer(&net, 0)], net };
    signed.net.start(0..REPLICAS);
    signed.net.put("greeting");
    let process = signed.signers[0].id();
    let (open, all) = crate::privacy::open_to_others(&signer_home(&signed.net, 0));
    let open: Vec<String> = open.into_iter().filter(|file| !file.contains("/log ")).collect();
    assert!(open.is_empty() && all > 4, "{open:?}");
    assert_eq!(crate::privacy::core_limits(process), "0 0");
    let shown = succeeds(&["keys", "show", text(&signer_home(&signed.net, 0).join("voting.key"))]);
    assert!(shown.contains("key of a signer, not encrypted"), "{shown}");
    let seen = [
        fs::read_to_string(format!("/proc/{process}/cmdline")).expect("it runs"),
        log_of(&signer_home(&signed.net, 0)),
        log_of(&home(&signed.net, 0)),
        String::from_utf8_lossy(&call(&["status", "--dir", text(&home(&signed.net, 0)), "--json"]).stdout).into_owned(),
        shown,
    ];
    assert!(seen.iter().all(|text| text.len() > 20 && !text.contains(&secret)), "{seen:?}");
}

/// The identity key is a credential of the replica's service, and the voting key the output of the signer's command:
/// neither is in a directory.
#[test]
fn both_keys_come_from_elsewhere() {
    let net = Net::written("signer-keys", &[]);
    init(&net, 0);
    let (replica, signer, vault) = (home(&net, 0), signer_home(&net, 0), net.path.join("vault"));
    fs::create_dir(&vault).expect("a directory");
    fs::rename(replica.join("private.key"), vault.join("identity")).expect("it is ours");
    net.configure(0, "key_file", "\"credential:identity\"");
    fs::rename(signer.join("voting.key"), vault.join("voting")).expect("it is ours");
    let config = fs::read_to_string(signer.join("config.toml")).expect("init wrote it");
    let command = format!("key_command = [\"cat\", \"{}\"]", text(&vault.join("voting")));
    let lines = config.lines().map(|line| if line.starts_with("key_file = ") { &command } else { line });
    fs::write(signer.join("config.toml"), lines.collect::<Vec<_>>().join("\n")).expect("it is ours");

    let mut signed = Signed { signers: vec![start_signer(&net, 0)], net };
    let log = fs::File::create(replica.join("log")).expect("a log");
    let mut run = program();
    run.args(["run", "--dir"]).arg(&replica).env("CREDENTIALS_DIRECTORY", &vault).stdout(Stdio::null()).stderr(log);
    signed.net.nodes.push(run.spawn().expect("a replica starts"));
    signed.net.start(1..3);
    // Three of four: each has to vote.
    signed.net.put("greeting");
    signed.says(0, "\"connected\": true");
}

#[test]
fn a_replica_and_a_signer_that_do_not_belong_together_say_so() {
    let net = Net::written("strangers", &[]);
    let refused = |arguments: &[&str], why: &str| {
        let output = call(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && told.contains(why), "{arguments:?}: {told}");
    };
    let (home_0, signer_0) = (home(&net, 0), signer_home(&net, 0));
    let runs = ["run", "--dir", text(&home_0)];
    net.configure(0, "socket", "\"/nowhere/socket\"");
    refused(&runs, "it has the voting key, which only the signer should have; help: `signer init` moves it");
    init(&net, 0);
    init(&net, 1);
    refused(&["signer", "init", "--dir", text(&signer_0), "--replica", text(&home_0)], "is not empty");
    net.configure(0, "socket", &format!("\"{}\"", text(&signer_home(&net, 1).join("socket"))));
    let _other = Signed { signers: vec![start_signer(&net, 1)], net: Net { path: PathBuf::new(), nodes: Vec::new() } };
    refused(&runs, "signs for another replica: 1, not 0; help: correct `socket` in [signer]");
    net.configure(0, "socket", "\"\"");
    refused(&runs, "`signer.socket`: is empty");
    net.configure(0, "socket", "\"s\"");
    net.configure(0, "reply_authentication", "\"signature\"");
    refused(&runs, "is set, but the voting key also signs replies");
    let config = home_0.join("config.toml");
    let without = fs::read_to_string(&config).expect("it is there").replace("socket = \"s\"", "");
    fs::write(&config, without).expect("it is ours");
    refused(&runs, "it has no voting key, which a signer may have; help: set `socket` in [signer]");
}

#[test]
fn a_lost_record_is_made_anew_from_the_journal() {
    let mut signed = Signed::started("rebuild", &[]);
    signed.net.put("before");
    signed.kill_signer(0);
    let (replica, signer) = (home(&signed.net, 0), signer_home(&signed.net, 0));
    let rebuild = ["signer", "rebuild", "--dir", text(&signer), "--replica", text(&replica)];
    let running = call(&rebuild);
    let told = String::from_utf8_lossy(&running.stderr);
    assert!(!running.status.success() && told.contains("is in use by process"), "{told}");
    signed.stop_replicas();
    fs::remove_dir_all(signer.join("record")).expect("it has a record");
    let lost = call(&["signer", "run", "--dir", text(&signer)]);
    let told = String::from_utf8_lossy(&lost.stderr);
    assert!(lost.status.code() == Some(2) && told.contains("is lost, so nothing is signed; help:"), "{told}");
    succeeds(&rebuild);
    assert!(succeeds(&rebuild).contains("; the old record is "), "a record is never overwritten");
    signed.signers[0] = start_signer(&signed.net, 0);
    signed.net.start(0..REPLICAS);
    signed.net.put("after");
    assert!(!log_of(&replica).contains("refuses to sign"), "{}", log_of(&replica));
}

/// As systemd starts a service with a socket unit.
#[test]
fn a_signer_takes_the_socket_that_its_supervisor_passes() {
    let net = Net::written("passed", &[]);
    init(&net, 0);
    let signer = signer_home(&net, 0);
    let listener = UnixListener::bind(signer.join("socket")).expect("the directory is ours");
    let log = fs::File::create(signer.join("log")).expect("a log");
    let mut shell = std::process::Command::new("sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" signer run --dir \"$1\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_quorate-node"), text(&signer)]).stdin(Stdio::null()).stderr(log);
    let passed = listener.as_raw_fd();
    // SAFETY: duplicates a descriptor of the child, which is safe between fork and exec.
    unsafe {
        shell.pre_exec(move || match libc::dup2(passed, 3) {
            // It may have been this one already, which would be closed.
            3 if libc::fcntl(3, libc::F_SETFD, 0) == 0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let mut signed = Signed { signers: vec![shell.spawn().expect("a signer starts")], net };
    drop(listener);
    signed.net.start(0..REPLICAS);
    signed.net.put("greeting");
    signed.says(0, "\"connected\": true");
    assert!(log_of(&signer).contains("has connected"), "{}", log_of(&signer));
}
