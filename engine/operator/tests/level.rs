//! Operators raise the feature level of real processes whose application is not in their own program.
//!
//! A replica's process is this test binary, told to run only the test [`run_as_replica`].

use crate::{Net, call, succeeds};
use quorate_applications::{ApplicationKind, Factory};
use quorate_client::{Client, ClientConfig};
use quorate_node::{StderrObserver, run_directory};
use quorate_testkit::levelled::{LEVELLED, Levelled};
use quorate_types::FeatureLevel;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "QUORATE_TEST_LEVEL_DIRECTORY";
pub const SUPPORTED: &str = "QUORATE_TEST_LEVEL_SUPPORTED";
const REPLICAS: u16 = 4;
const HANG: Duration = Duration::from_secs(60);

pub static FACTORY: Factory = Factory {
    name: LEVELLED,
    make: || {
        let supported = std::env::var(SUPPORTED).ok().and_then(|level| level.parse().ok());
        Box::new(Levelled(FeatureLevel(supported.unwrap_or(0))))
    },
};

/// Not a test: the main function of a replica's process.
#[test]
fn run_as_replica() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    ApplicationKind::register(&FACTORY).expect("the name is free");
    let ended = run_directory(Path::new(&directory), Box::new(StderrObserver));
    eprintln!("the replica has ended: {}", ended.err().map(|error| error.to_string()).unwrap_or_default());
    std::process::exit(1);
}

/// Starts a replica whose program supports a level.
pub fn start(dir: &str, replica: u16, supported: u16) -> Child {
    let home = Path::new(dir).join(format!("replica-{replica}"));
    let log = File::options().create(true).append(true).open(home.join("log")).expect("a log");
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test has a file"));
    command.args(["--exact", "level::run_as_replica", "--nocapture"]).env(DIRECTORY, home);
    command.env(SUPPORTED, supported.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("a process starts")
}

/// Lets a file of the testnet name the application.
fn rename_application(file: &Path) {
    let text = fs::read_to_string(file).expect("the file is there");
    let others = text.lines().filter(|line| !line.starts_with("application = "));
    let lines = [format!("application = {:?}", FACTORY.name)].into_iter().chain(others.map(str::to_owned));
    fs::write(file, lines.collect::<Vec<_>>().join("\n")).expect("it can be written");
}

/// Writes a cluster with the application.
pub fn written(name: &str) -> Net {
    let net = Net::written(name, &[]);
    let files = (0..REPLICAS).map(|replica| format!("replica-{replica}/config.toml"));
    files.chain(["client.toml".to_owned()]).for_each(|file| rename_application(&net.path.join(file)));
    net
}

/// Returns a client of a cluster with the application.
pub fn client(net: &Net) -> Client {
    ApplicationKind::register(&FACTORY).expect("the name is free");
    let config = ClientConfig::load(&net.path.join("client.toml")).expect("the configuration is valid");
    Client::connect(&config).expect("the replicas run")
}

/// Returns the standard error of a call once it fails in this way, or succeeds if `why` is empty: replicas take a
/// moment to start.
pub fn eventually(arguments: &[&str], why: &str) -> String {
    let begun = Instant::now();
    loop {
        let output = call(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() == why.is_empty() && told.contains(why) {
            return told;
        }
        assert!(begun.elapsed() < HANG, "{arguments:?}: {told}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_level_is_raised_once_all_replicas_sign() {
    let mut net = written("level");
    let dir = net.dir().to_owned();
    net.nodes = (0..REPLICAS).map(|replica| start(&dir, replica, u16::from(replica < 3))).collect();
    let raise = ["level", "raise", "--dir", &dir, "--to", "1"];
    let check = [&raise[..], &["--check"]].concat();
    eventually(&check, "not all replicas support feature level 1: replica 3 supports levels up to 0");
    eventually(&raise, "replica 3 supports levels up to 0");
    net.nodes[3].kill().expect("it runs");
    net.nodes[3].wait().expect("it has ended");
    net.nodes[3] = start(&dir, 3, 1);
    eventually(&check, "");

    let mut client = client(&net);
    assert_eq!(client.execute(b"level?").expect("a result"), [0, 0]);
    let own = format!("{} level sign --to {{level}} --dir", env!("CARGO_BIN_EXE_quorate-node"));
    let with = |home: &str| [&raise[..], &["--sign-command", &format!("{own} {home}")]].concat().join("\n");
    let of_one = with(&format!("{dir}/replica-0"));
    eventually(&of_one.split('\n').collect::<Vec<_>>(), "replica 1's signature is not valid in the cluster of");
    assert_eq!(client.execute(b"level?").expect("a result"), [0, 0]);
    succeeds(&with("{dir}").split('\n').collect::<Vec<_>>());
    assert_eq!(client.execute(b"level?").expect("a result"), [1, 0]);
    assert!(succeeds(&raise).contains("feature level 1 is active on all replicas"));
    eventually(&["level", "raise", "--dir", &dir, "--to", "2"], "replica 0 supports levels up to 1");
    let status = call(&["status", "--dir", &dir]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("feature level\n  1 is active on replicas 0 1 2 3"), "{status}");
}
