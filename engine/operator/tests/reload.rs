//! SIGHUP: a running replica reads its configuration again.

use crate::{Net, REPLICAS, call, succeeds};
use quorate_node::NodeConfig;
use std::fs;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(120);

fn signal(net: &Net, replica: u16, signal: i32) {
    let process = net.nodes[usize::from(replica)].id() as libc::pid_t;
    // SAFETY: sends a signal to a child that has not been waited for, so its id is still its own.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn log_of(net: &Net, replica: u16) -> String {
    fs::read_to_string(net.path.join(format!("replica-{replica}/log"))).unwrap_or_default()
}

fn until(net: &Net, replica: u16, happens: impl Fn() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < HANG, "replica {replica}: {}", log_of(net, replica));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_for_log(net: &Net, replica: u16, words: &str) {
    until(net, replica, || log_of(net, replica).contains(words));
}

#[test]
fn a_running_replica_takes_over_keys_and_quotas_of_clients_and_refuses_the_rest() {
    let mut net = Net::written("reload", &["--admitted-clients", "listed"]);
    net.start(0..REPLICAS);
    let dir = net.dir().to_owned();
    succeeds(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    let other = format!("{dir}/other.key");
    succeeds(&["keys", "generate", "client", "--cluster", "quorate", "--out", &other]);
    let put = ["client", "--dir", &dir, "--key-file", &other, "put", "greeting", "salve"];
    let refused = call(&put);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("is not admitted"), "{told}");

    let text = fs::read_to_string(&other).expect("it is text");
    let public = text.lines().find_map(|line| line.strip_prefix("public_key = ")).expect("a public key");
    for replica in 0..REPLICAS {
        let path = net.path.join(format!("replica-{replica}/config.toml"));
        let mut keys = NodeConfig::read(&path).expect("it was written by testnet").clients.keys;
        keys.push(public.trim_matches('"').to_owned());
        net.configure(replica, "keys", &format!("{keys:?}"));
        signal(&net, replica, libc::SIGHUP);
        wait_for_log(&net, replica, "took over `clients.keys`");
    }
    succeeds(&put);
    assert_eq!(
        succeeds(&["client", "--dir", &dir, "get", "--stale", "greeting"]).trim(),
        "salve",
        "the first key stays"
    );

    net.configure(0, "view_timeout_ms", "1234");
    net.configure(0, "max_commands_per_s", "100000");
    signal(&net, 0, libc::SIGHUP);
    wait_for_log(
        &net,
        0,
        "took over `clients.max_commands_per_s`; a restart is needed for `consensus.view_timeout_ms`",
    );
    net.configure(0, "log_level", "\"warn,quorate::network=debug\"");
    signal(&net, 0, libc::SIGHUP);
    wait_for_log(&net, 0, "took over `log_level`; a restart is needed for");
    let connects = || log_of(&net, 0).matches(" DEBUG quorate::network:").count();
    assert_eq!(connects(), 0, "info was the level");
    until(&net, 0, || {
        succeeds(&["client", "--dir", &dir, "get", "--stale", "greeting"]);
        connects() > 0
    });
    net.configure(0, "log_level", "\"info\"");
    signal(&net, 0, libc::SIGHUP);
    wait_for_log(&net, 0, "logs info from now on, as its configuration says");
    net.configure(0, "log_level", "\"loud\"");
    signal(&net, 0, libc::SIGHUP);
    wait_for_log(&net, 0, "`loud` is not a level");
    net.configure(0, "log_level", "\"info\"");
    net.configure(0, "max_commands_per_s", "\"many\"");
    signal(&net, 0, libc::SIGHUP);
    wait_for_log(&net, 0, "keeps its configuration, because the file is wrong");
    succeeds(&put);
    signal(&net, 0, libc::SIGTERM);
    assert_eq!(net.nodes[0].wait().expect("it ends").code(), Some(0), "SIGTERM still stops it in order");
}

#[test]
fn a_replica_stops_in_order_before_its_disk_is_full() {
    let mut net = Net::written("free-space", &[]);
    net.configure(0, "min_free_bytes", &(i64::MAX as u64).to_string());
    net.start(0..REPLICAS);
    assert_eq!(net.nodes[0].wait().expect("it ends").code(), Some(3), "{}", log_of(&net, 0));
    succeeds(&["client", "--dir", net.dir(), "put", "greeting", "hello"]);
    let shown = call(&["run", "--dir", &format!("{}/replica-0", net.dir())]);
    let text = String::from_utf8_lossy(&shown.stderr);
    assert!(text.contains("and `journal.min_free_bytes` is 9223372036854775807: it has stopped in order"), "{text}");
    net.configure(0, "min_free_bytes", "1");
    net.start([0]);
    let home = format!("{}/replica-0", net.dir());
    until(&net, 0, || call(&["health", "--dir", &home, "--ready"]).status.success());
}
