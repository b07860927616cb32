//! A Prometheus server that evaluates the shipped rules, and `promtool`.

use crate::common::{text, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Timeout of a request to a monitoring page.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the path of a file in `operations`.
pub fn operations(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../operations").join(file)
}

/// Reads a file in `operations`.
pub fn read(file: &str) -> String {
    fs::read_to_string(operations(file)).expect("the file is shipped")
}

/// Returns the status and the body of a page; `None` if the server does not answer.
pub fn page(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    // No chunks in the answer: only HTTP/1.1 has them.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Runs `promtool` in `operations`.
pub fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(operations("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("promtool is installed");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Returns the rules with the time of each `for` and each range, such as `[5m]`, shortened. Everything else, such as
/// expressions, thresholds and labels, is unchanged.
pub fn shortened(rules: &str, time: &str) -> String {
    let shorten = |line: &str| {
        if let Some((indent, _)) = line.split_once("for: ").filter(|(indent, _)| indent.trim().is_empty()) {
            return format!("{indent}for: {time}");
        }
        let mut parts = line.split('[');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |line, part| match part.split_once(']') {
            Some((range, rest)) if range.starts_with(|first: char| first.is_ascii_digit()) => {
                format!("{line}[{time}]{rest}")
            }
            _ => format!("{line}[{part}"),
        })
    };
    rules.lines().map(|line| shorten(line) + "\n").collect()
}

/// A Prometheus server, which is killed on drop.
pub struct Prometheus {
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
    /// Starts a server that scrapes the targets of each job every second, and evaluates `rules`.
    pub fn start(directory: &Path, jobs: &[(&str, &[SocketAddr])], rules: &str) -> Prometheus {
        let home = directory.join("prometheus");
        fs::create_dir_all(&home).expect("a directory");
        fs::write(home.join("alerts.yml"), rules).expect("a file");
        let mut config =
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yml]\n".to_owned();
        config.push_str("scrape_configs:\n");
        for (job, targets) in jobs {
            let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
            let targets = targets.join(", ");
            config.push_str(&format!("  - job_name: {job}\n    static_configs: [{{targets: [{targets}]}}]\n"));
        }
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
        let prometheus = Prometheus { child, address, log };
        wait_until("Prometheus is ready", || page(address, "/-/ready").is_some_and(|(status, _)| status == 200));
        prometheus
    }

    fn api(&self, path: &str) -> Value {
        let (_, body) = page(self.address, path).unwrap_or_else(|| panic!("{path}: no answer\n{}", self.log()));
        let answer: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        assert_eq!(answer["status"], "success", "{path}: {body}\n{}", self.log());
        answer["data"].clone()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Evaluates a query, and returns its samples.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.api(&format!("/api/v1/query?query={encoded}"));
        data["result"].as_array().expect("a vector").clone()
    }

    /// Returns the names of the loaded alerts, each with its expression.
    pub fn alerts(&self) -> Vec<(String, String)> {
        let loaded = self.api("/api/v1/rules?type=alert");
        let rules = loaded["groups"][0]["rules"].as_array().expect("a group of rules");
        let field = |rule: &Value, name: &str| rule[name].as_str().expect("a text").to_owned();
        rules.iter().map(|rule| (field(rule, "name"), field(rule, "query"))).collect()
    }

    /// Returns the firing alerts: the job, the name and the instance of each. The instance of an alert about a whole
    /// cluster is empty.
    pub fn firing(&self) -> BTreeSet<(String, String, String)> {
        let samples = self.query("ALERTS{alertstate=\"firing\"}");
        let label = |sample: &Value, name: &str| sample["metric"][name].as_str().unwrap_or_default().to_owned();
        let labels = |sample: &Value| (label(sample, "job"), label(sample, "alertname"), label(sample, "instance"));
        samples.iter().map(labels).collect()
    }
}

/// Returns both outputs of a program.
pub fn told(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}
