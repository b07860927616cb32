//! Monitors: four real processes are scraped, by this test and by a real Prometheus, which evaluates the shipped alerts
//! and each panel of the shipped dashboard.

use crate::{Net, REPLICAS, succeeds};
use quorate_node::NodeConfig;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
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

    fn put(&self, key: &str) {
        succeeds(&["client", "--dir", self.net.dir(), "put", key, "value"]);
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

/// Returns the queries of the dashboard, each with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let of_panel = |panel: &Value| {
        let (title, targets) = (panel["title"].as_str().expect("a title").to_owned(), panel["targets"].as_array());
        let expression = |target: &Value| target["expr"].as_str().expect("a query").to_owned();
        targets.map_or_else(Vec::new, |all| all.iter().map(|it| (title.clone(), expression(it))).collect())
    };
    panels.iter().flat_map(of_panel).collect()
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

fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(operations("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("promtool is installed");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// A Prometheus server, which is killed on drop.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts a server that scrapes `targets` each second, with the shipped alerts.
    fn start(directory: &Path, targets: &[SocketAddr]) -> Prometheus {
        let home = directory.join("prometheus");
        fs::create_dir_all(&home).expect("a directory");
        let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n  - job_name: \
             quorate\n    static_configs:\n      - targets: [{}]\n",
            fs::canonicalize(operations("alerts.yml")).expect("it is shipped").display(),
            targets.join(", ")
        );
        fs::write(home.join("prometheus.yml"), config).expect("a file");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("it is bound");
        drop(free);
        let log = home.join("log");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", home.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", home.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a log"));
        let child = command.spawn().expect("prometheus is installed");
        until("Prometheus does not listen", || TcpStream::connect(address).is_ok().then_some(()));
        Prometheus { child, address, log }
    }

    fn api(&self, path: &str) -> Value {
        let (_, body) = get(self.address, path);
        let answer: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{path}: {body}\n{}", log());
        answer["data"].clone()
    }

    /// Evaluates a query, and returns its samples.
    fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.api(&format!("/api/v1/query?query={encoded}"));
        data["result"].as_array().expect("a vector").clone()
    }
}

#[test]
#[ignore = "needs promtool and prometheus (Debian: apt-get install prometheus); .ci/run runs it"]
fn prometheus_accepts_the_metrics_alerts_and_dashboard() {
    let mut monitored = Monitored::start("prometheus");
    let page = get(monitored.targets[0], "/metrics").1;
    let checked = promtool(&["check", "metrics"], &page);
    assert!(checked.status.success() && checked.stderr.is_empty() && checked.stdout.is_empty(), "{checked:?}");
    for arguments in
        [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"], ["check", "config", "prometheus.yml"]]
    {
        let checked = promtool(&arguments, "");
        assert!(checked.status.success(), "{arguments:?}: {checked:?}");
    }

    let prometheus = Prometheus::start(&monitored.net.path, &monitored.targets);
    let mut written = 0;
    until("the targets are not scraped", || {
        monitored.put(&format!("key-{written}"));
        written += 1;
        (written >= 5 && prometheus.query("up{job=\"quorate\"} == 1").len() == monitored.targets.len()).then_some(())
    });
    // OpenMetrics is what it asks for, and what it parses.
    assert_eq!(prometheus.query("quorate_build_info").len(), 4);
    for (title, query) in queries() {
        let query = query.replace("$job", "quorate").replace("$__rate_interval", "30s");
        until(&format!("the panel {title:?} shows nothing: {query}"), || {
            (!prometheus.query(&query).is_empty()).then_some(())
        });
    }
    let alerts = alerts();
    for (name, expression) in &alerts {
        // A disk of a test machine may be nearly full.
        let raised = prometheus.query(expression);
        assert!(raised.is_empty() || name == "QuorateDiskFilling", "{name} is raised in a healthy cluster: {raised:?}");
    }
    let loaded = prometheus.api("/api/v1/rules?type=alert");
    assert_eq!(loaded["groups"][0]["rules"].as_array().map(Vec::len), Some(alerts.len()), "{loaded}");

    // A fault raises the alerts that it should, and no other.
    let node = &mut monitored.net.nodes[3];
    node.kill().and_then(|()| node.wait()).expect("it runs");
    let is_raised = |wanted: &str| {
        let (_, expression) = alerts.iter().find(|(name, _)| name == wanted).expect("it is shipped");
        !prometheus.query(expression).is_empty()
    };
    until("no alert for a dead replica", || is_raised("QuorateReplicaDown").then_some(()));
    until("no alert for the last quorum", || is_raised("QuorateQuorumAtRisk").then_some(()));
    assert!(!is_raised("QuorateNoQuorum") && !is_raised("QuorateEvidence"));
    let node = &mut monitored.net.nodes[2];
    node.kill().and_then(|()| node.wait()).expect("it runs");
    until("no alert for a lost quorum", || is_raised("QuorateNoQuorum").then_some(()));
}
