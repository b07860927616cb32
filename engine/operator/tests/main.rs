//! Tests that `quorate-node` has everything needed to run a cluster.

mod backup;
mod foreign_text;
mod genesis;
mod kubernetes;
mod level;
mod level_snapshots;
mod pipes;
mod privacy;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

mod judge;
mod monitoring;
mod releases;
mod reload;
mod rolling;
mod secrets;
mod signer;
mod skew;
mod standstill;
mod switches;
mod terms;
mod watch;

const REPLICAS: u16 = 4;
/// A replica has a port for peers, one for clients, one for operators and one for monitors. The largest cluster has
/// seven replicas.
const PORTS: u16 = 4 * 7;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate-node"));
    // A shell that runs the tests in the background makes them ignore signals, and children inherit that. SAFETY: only
    // resets dispositions, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        })
    };
    command.stdin(Stdio::null()).env_remove("QUORATE_PASSPHRASE");
    command
}

fn call(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the binary runs")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Returns the first of consecutive free ports, below those that the system assigns to connections. Each call starts at
/// another place, so that concurrent tests find different ones.
fn free_ports() -> u16 {
    const PLACES: u16 = (21_000 - 9_000) / PORTS;
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 64) as u16 + 64 * (GIVEN.fetch_add(1, Ordering::Relaxed) % (PLACES / 64));
    let is_free = |base: &u16| (*base..*base + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    let mut bases = (0..PLACES).map(|further| 9_000 + (first + further) % PLACES * PORTS);
    bases.find(is_free).expect("some ports are free")
}

/// Directory of a cluster with running replicas, which are killed with SIGKILL on drop.
struct Net {
    path: PathBuf,
    nodes: Vec<Child>,
}

impl Drop for Net {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_cluster_is_configured_run_queried_inspected_and_stopped() {
    let path = std::env::temp_dir().join(format!("quorate-node-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut net = Net { path, nodes: Vec::new() };
    let dir = net.path.to_str().expect("a test's path is UTF-8").to_owned();
    let ports = free_ports().to_string();
    let shape = ["--protocol", "fast-hotstuff", "--base-port", &ports, "--admitted-clients", "certified"];
    let told = succeeds(&[&["testnet", "--dir", &dir][..], &shape].concat());
    assert!(told.contains(&format!("quorate-node run --dir {dir}/replica-3")), "{told}");
    assert!(told.contains("quorate-node client --dir"), "{told}");
    let passphrase = write_private(&net.path.join("passphrase"), "correct horse\n");
    for file in [format!("{dir}/replica-1/private.key"), format!("{dir}/client.key")] {
        succeeds(&["keys", "encrypt", &file, "--passphrase-file", &passphrase]);
    }
    for replica in 0..REPLICAS {
        let home = Path::new(&dir).join(format!("replica-{replica}"));
        let mut command = program();
        command.args(["run", "--dir"]).arg(home).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("QUORATE_PASSPHRASE", "correct horse");
        net.nodes.push(command.spawn().expect("a replica starts"));
    }
    let locked = call(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    let told = String::from_utf8_lossy(&locked.stderr);
    assert!(!locked.status.success() && told.contains("it is encrypted, and no passphrase is given; help:"), "{told}");
    use_passphrase(&net.path.join("client.toml"));
    succeeds(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    assert_eq!(succeeds(&["client", "--dir", &dir, "get", "greeting"]).trim(), "hello");
    foreign_text::keys_and_values_are_escaped(&dir);
    let other = format!("{dir}/other.key");
    succeeds(&["keys", "generate", "client", "--cluster", "quorate", "--out", &other]);
    let refused = call(&["client", "--dir", &dir, "--key-file", &other, "get", "greeting"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("the client is not certified"), "{told}");
    reads_are_for_admitted_clients(&dir, &other);
    succeeds(&["keys", "certify", "--certifier", &format!("{dir}/certifier.key"), &other]);
    let other = ["client", "--dir", &dir, "--key-file", &other, "get", "greeting"];
    assert_eq!([(); 2].map(|()| succeeds(&other)), ["hello\n"; 2], "a key may be used again");
    let status = call(&["status", "--dir", &dir, "--json", "--timeout-ms", "60000"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("the status is JSON");
    assert_eq!(status["replicas"].as_array().map(Vec::len), Some(REPLICAS.into()), "{status}");
    // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(net.nodes[0].id() as libc::pid_t, libc::SIGTERM) }, 0);
    assert_eq!(net.nodes[0].wait().expect("it ends").code(), Some(0), "a signal stops a replica in order");
    let report = succeeds(&["inspect", "--dir", &format!("{dir}/replica-0"), "--verify"]);
    assert!(report.contains("fast-hotstuff"), "{report}");
}

/// Reading without ordering, and the status over the clients' listener, also require an admitted key. `stranger` is the
/// file of a key without a certificate.
fn reads_are_for_admitted_clients(dir: &str, stranger: &str) {
    let get = ["client", "--dir", dir, "get", "--stale", "greeting"];
    assert_eq!(succeeds(&get).trim(), "hello");
    let refused = call(&["client", "--dir", dir, "--key-file", stranger, "get", "--stale", "greeting"]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("the client is not certified"), "{told}");
    // A directory without the replicas' own directories, whose status is read over the clients' listener.
    let away = Path::new(dir).join("away");
    fs::create_dir(&away).expect("a directory");
    for file in ["client.toml", "client.key", "passphrase"] {
        fs::copy(Path::new(dir).join(file), away.join(file)).expect("the file is there");
    }
    let ask = || call(&["status", "--dir", away.to_str().expect("UTF-8"), "--timeout-ms", "20000"]);
    let known = ask();
    assert!(!String::from_utf8_lossy(&known.stdout).contains("does not answer"), "{known:?}");
    fs::copy(stranger, away.join("client.key")).expect("the file is there");
    let unknown = ask();
    let told = String::from_utf8_lossy(&unknown.stdout);
    assert!(unknown.status.code() == Some(1) && told.contains("the client is not certified"), "{told}");
}

/// Writes a file that only its owner can read, and returns its path.
fn write_private(path: &Path, text: &str) -> String {
    fs::write(path, text).expect("the file can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    path.to_str().expect("a test's path is UTF-8").to_owned()
}

/// Sets the passphrase file in a client's configuration.
fn use_passphrase(config: &Path) {
    let text = fs::read_to_string(config).expect("the configuration can be read");
    let changed = text.replace("# passphrase_file = ", "passphrase_file = ");
    assert_ne!(text, changed, "the key has a comment in its place");
    fs::write(config, changed).expect("the configuration can be written");
}

#[test]
fn keys_are_made_shown_encrypted_and_decrypted() {
    let directory = std::env::temp_dir().join(format!("quorate-keys-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    let path = |name: &str| directory.join(name).to_str().expect("a test's path is UTF-8").to_owned();
    let passphrase = write_private(&directory.join("passphrase"), "correct horse\n");
    let (key, certifier) = (path("client.key"), path("certifier.key"));
    let shown = succeeds(&["keys", "generate", "client", "--cluster", "c", "--out", &key]);
    let text = fs::read_to_string(&key).expect("it is text");
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).expect("the field is there");
    let (public, secret) = (value("public_key = ").to_owned(), value("secret_key = ").to_owned());
    assert!(shown.contains(": key of a client, not encrypted\n") && shown.contains(&public), "{shown}");
    assert!(!shown.contains(&secret), "the private key is shown");
    let arguments = ["keys", "generate", "certifier", "--cluster", "c", "--out", &certifier, "--encrypt"];
    let missing = call(&arguments);
    let told = String::from_utf8_lossy(&missing.stderr);
    assert!(!missing.status.success() && told.contains("no passphrase is given"), "{told}");
    assert!(!Path::new(&certifier).exists(), "a key that was to be encrypted is left as text");
    succeeds(&[&arguments[..], &["--passphrase-file", &passphrase]].concat());
    let by = ["--certifier", &certifier, "--passphrase-file", &passphrase];
    let line = succeeds(&[&["keys", "certify", "--public-key", &public][..], &by].concat());
    succeeds(&[&["keys", "certify", &key][..], &by].concat());
    assert!(fs::read_to_string(&key).expect("it is text").ends_with(&line), "{line}");
    succeeds(&["keys", "encrypt", &key, "--passphrase-file", &passphrase]);
    assert!(fs::read(&key).expect("it is there").starts_with(b"age-encryption.org/v1\n-> scrypt "));
    let shown = succeeds(&["keys", "show", &key, "--passphrase-file", &passphrase]);
    assert!(shown.contains(", encrypted\n") && shown.contains(&line) && !shown.contains(&secret), "{shown}");
    let wrong = write_private(&directory.join("wrong"), "incorrect horse\n");
    for (file, why) in [(&wrong, "the passphrase is wrong; help:"), (&path("none"), "cannot be read")] {
        let output = call(&["keys", "decrypt", &key, "--passphrase-file", file]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(why) && !told.contains("horse"), "{told}");
    }
    succeeds(&["keys", "decrypt", &key, "--passphrase-file", &passphrase]);
    assert!(fs::read_to_string(&key).expect("it is text").contains(&secret), "the file is as before");
    fs::remove_dir_all(&directory).expect("it is ours");
}

#[test]
fn invalid_input_is_refused_as_a_wrong_call() {
    for (arguments, why) in [
        (&["testnet", "--dir", "/nowhere/net", "--replicas", "3", "--hosts", "a,b"][..], "name a host for each"),
        (&["testnet", "--dir", "/nowhere/net", "--protocol", "paxos"], "jolteon"),
        (&["run", "--dir", "/nowhere/replica"], "/nowhere/replica/config.toml"),
        (&["client", "--dir", "/nowhere", "get", "key"], "/nowhere/client.toml"),
        (&["bench"], "unrecognized subcommand"),
    ] {
        let output = call(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{arguments:?}: {told}");
    }
}
