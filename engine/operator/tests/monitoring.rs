//! Monitors: four real processes are scraped. `quorate-cli` has the tests with a real Prometheus (`alerts`).

use crate::{Net, REPLICAS, succeeds};
use quorate_node::NodeConfig;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for an event has hung.
const HANG: Duration = Duration::from_secs(120);

fn operations(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operations").join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(operations(file)).expect("the file is shipped")
}

/// Returns the status and the body of a page.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    // No chunks in the answer: only HTTP/1.1 has them.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// Waits until `happened` returns something.
fn until<T>(what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = happened() {
            return found;
        }
        assert!(start.elapsed() < HANG, "{what}: still not after {HANG:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A running cluster, and where it is monitored.
struct Monitored {
    net: Net,
    targets: Vec<SocketAddr>,
}

impl Monitored {
    /// Starts a cluster, and waits until all replicas are ready and have executed a command.
    fn start(name: &str) -> Monitored {
        let mut net = Net::written(name, &["--protocol", "pbft"]);
        let target = |replica: u16| {
            let path = net.path.join(format!("replica-{replica}/config.toml"));
            let config = NodeConfig::read(&path).expect("it was written by testnet");
            config.monitoring.address.and_then(|address| address.socket()).expect("testnet sets it")
        };
        let targets: Vec<SocketAddr> = (0..REPLICAS).map(target).collect();
        net.start(0..REPLICAS);
        succeeds(&["client", "--dir", net.dir(), "put", "greeting", "hello"]);
        let monitored = Monitored { net, targets };
        for target in &monitored.targets {
            until("a replica is not ready", || (get(*target, "/readyz").0 == 200).then_some(()));
            let is_executed = |page: &str| value(page, "quorate_commands_executed_total") >= Some(1.0);
            until("it executes nothing", || is_executed(&get(*target, "/metrics").1).then_some(()));
        }
        monitored
    }
}

fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn four_processes_are_scraped_and_stay_healthy_without_a_quorum() {
    let mut monitored = Monitored::start("scrape");
    for (replica, target) in monitored.targets.iter().enumerate() {
        let (status, page) = get(*target, "/metrics");
        assert_eq!(status, 200);
        let named = format!("quorate_replica_info{{cluster=\"quorate\",replica=\"{replica}\",protocol=\"pbft\"");
        assert!(page.contains(&named), "{page}");
        for (name, least) in [
            ("quorate_journal_durable", 1.0),
            ("quorate_journal_bytes", 1.0),
            ("quorate_disk_free_bytes", 1.0),
            ("quorate_journal_write_duration_seconds_count", 1.0),
            ("process_resident_memory_bytes", 1e6),
            ("process_open_fds", 10.0),
            ("process_cpu_seconds_total", 0.0),
            ("process_start_time_seconds", 1.6e9),
            ("quorate_event_loop_iterations_total", 1.0),
        ] {
            assert!(value(&page, name) >= Some(least), "{name}: {:?}", value(&page, name));
        }
        let families: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let distinct: BTreeSet<&str> = families.iter().copied().collect();
        assert!(families.len() >= 60 && distinct.len() == families.len(), "{families:?}");
        let (status, body) = get(*target, "/status");
        let body: Value = serde_json::from_str(&body).expect("it is JSON");
        assert_eq!((status, &body["replica"]), (200, &Value::from(replica)));
    }
    for node in &mut monitored.net.nodes[2..] {
        node.kill().and_then(|()| node.wait()).expect("it runs");
    }
    let reason = until("it counts as ready", || {
        let (status, reason) = get(monitored.targets[0], "/readyz");
        (status == 503).then_some(reason)
    });
    assert!(reason.starts_with("reaches 1 of 3 other replicas, and needs 2"), "{reason}");
    assert_eq!(get(monitored.targets[0], "/healthz"), (200, "ok\n".to_owned()));
}

/// Returns the alerts of the shipped rules, with their expressions.
fn alerts() -> Vec<(String, String)> {
    let text = read("alerts.yml");
    let mut alerts: Vec<(String, String)> = Vec::new();
    let (mut in_expression, mut indent) = (false, 0);
    for line in text.lines() {
        let (depth, content) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(name) = content.strip_prefix("- alert: ") {
            alerts.push((name.to_owned(), String::new()));
        } else if let Some(expression) = content.strip_prefix("expr: ") {
            (in_expression, indent) = (expression == ">-", depth);
            let (_, of) = alerts.last_mut().expect("an expression belongs to an alert");
            of.push_str(expression.trim_start_matches(">-"));
        } else if in_expression && depth > indent {
            let (_, of) = alerts.last_mut().expect("an expression belongs to an alert");
            of.push_str(&format!(" {content}"));
        } else {
            in_expression = false;
        }
    }
    alerts
}

#[test]
fn each_alert_has_a_runbook_and_a_test() {
    let root = operations("..");
    let handbook = fs::read_to_string(root.join("docs/OPERATIONS.md")).expect("the handbook");
    let (tests, rules) = (read("alerts.test.yml"), read("alerts.yml"));
    let alerts = alerts();
    assert!(alerts.len() >= 16, "{alerts:?}");
    for (name, expression) in &alerts {
        assert!(!expression.is_empty(), "{name} has no expression");
        assert!(handbook.contains(&format!("\n### {name}\n")), "{name} has no entry in docs/OPERATIONS.md");
        assert!(tests.contains(&format!("alertname: {name}\n        exp_alerts:\n")), "{name} has no test");
        assert!(rules.contains(&format!("docs/OPERATIONS.md#{}\n", name.to_lowercase())), "{name} links to no runbook");
    }
    let described = handbook.matches("\n### Quorate").count();
    assert_eq!(described, alerts.len(), "the handbook describes each alert once, and no other");
}
