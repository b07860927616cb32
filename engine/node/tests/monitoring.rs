//! The monitoring listener: pages of metrics, health, and the limits for strangers.

use crate::support::TestClient;
use quorate_node::monitoring::{
    About, Directories, Format, MAX_CONNECTIONS, MAX_HEADERS, MAX_READY_LAG_BLOCKS, MAX_REQUEST_BYTES, NoStatus, Page,
    Phase, Resources, StatusPort, page, parse, unreadiness,
};
use quorate_node::{EmbeddedCluster, NoObserver, NodeConfig, NodeError};
use quorate_types::host_status::{SignerStatus, TransferProgress};
use quorate_types::{Bundle, DurationHistogram, Height, HostStatus, ReplicaId, Status};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout: a test that waits longer for anything has hung.
const HANG: Duration = Duration::from_secs(40);

/// Four replicas in this process, each with a listener.
struct Watched {
    cluster: EmbeddedCluster,
    targets: Vec<SocketAddr>,
}

impl Watched {
    fn start() -> Watched {
        // Held until all are known, so that they differ.
        let free: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let targets: Vec<SocketAddr> = free.iter().map(|it| it.local_addr().expect("it is bound")).collect();
        drop(free);
        let vary = |config: &mut NodeConfig| config.monitoring.address = Some(targets[config.replica.index()].into());
        let places = ["127.0.0.1:0".parse().expect("an address"); 4];
        let template = NodeConfig::template("watched");
        let cluster = EmbeddedCluster::start(&template, &places, vary, || Box::new(NoObserver)).expect("it starts");
        Watched { cluster, targets }
    }

    fn get(&self, replica: usize, path: &str) -> Answer {
        get(self.targets[replica], path, "")
    }

    /// Repeats a request until its status is as expected.
    fn until(&self, replica: usize, path: &str, status: u16) -> Answer {
        let start = Instant::now();
        loop {
            let answer = self.get(replica, path);
            if answer.status == status {
                return answer;
            }
            assert!(start.elapsed() < HANG, "{path}: {answer:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn raw(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    // It may answer and close before it has read everything.
    let _ = stream.write_all(request);
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("it answers and closes");
    let text = String::from_utf8(text).expect("it answers in text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a response has a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    raw(address, format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n").as_bytes())
}

/// Returns the samples of a page, by name and labels.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(of, it)| (of, it.parse().expect("a number")))
        .collect()
}

#[test]
fn replicas_show_their_metrics_health_and_status() {
    let mut watched = Watched::start();
    let mut client = TestClient::new(&watched.cluster, 1);
    client.connect(4);
    let bundles: Vec<Bundle> = (0..20).map(|_| client.bundle(1, b"x")).collect();
    client.submit(&bundles, 2, 4);
    for replica in 0..4 {
        assert_eq!(watched.until(replica, "/readyz", 200).body, "ready\n");
        assert_eq!(watched.get(replica, "/healthz").body, "ok\n");
        let status = watched.get(replica, "/status");
        assert!(status.head.contains("content-type: application/json"), "{status:?}");
        let status: Status = serde_json::from_str(&status.body).expect("a status");
        assert_eq!(status.replica.index(), replica);
        let answer = watched.get(replica, "/metrics?x=1");
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        let found = samples(&answer.body);
        assert_eq!(found["quorate_build_info{version=\"0.1.0\"}"], 1.0);
        assert_eq!((found["quorate_replicas"], found["quorate_quorum_replicas"]), (4.0, 3.0));
        assert!(found["quorate_height"] >= 1.0 && found["quorate_known_height"] >= found["quorate_height"]);
        assert!(found["quorate_commands_executed_total"] >= 20.0, "{}", answer.body);
        assert!(found["quorate_execution_duration_seconds_count"] >= 1.0);
        assert_eq!(found["quorate_ready"], 1.0);
        let (families, series) = (answer.body.matches("# TYPE ").count(), found.len());
        assert!(families >= 60 && series < 400, "{families} families, {series} series");
        let own = format!("quorate_peer_connected{{peer=\"{replica}\"}}");
        assert!(!found.contains_key(own.as_str()), "a replica has no link to itself");
    }
    let sum = |name: &str| (0..4).map(|at| samples(&watched.get(at, "/metrics").body)[name]).sum::<f64>();
    assert!(sum("quorate_commit_duration_seconds_count") >= 1.0, "leaders measure their blocks");
    assert!(sum("quorate_request_duration_seconds_count") >= 1.0, "clients' commands are sampled");

    // Without a quorum the others are not ready, and say why; they are still healthy.
    for stopped in [2, 3] {
        watched.cluster.stop(ReplicaId(stopped)).expect("it ran");
    }
    let answer = watched.until(0, "/readyz", 503);
    assert!(answer.body.starts_with("reaches 1 of 3 other replicas, and needs 2"), "{answer:?}");
    assert_eq!(watched.get(0, "/healthz").status, 200);
    let refused = TcpStream::connect(watched.targets[2]);
    assert!(refused.is_err(), "the listener of a replica ends with it");
}

#[test]
fn strangers_get_clear_answers_and_hold_nothing_up() {
    let watched = Watched::start();
    let address = watched.targets[0];
    for (request, status, words) in [
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 404, "/metrics, /healthz, /readyz and /status"),
        ("POST /metrics HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 405, "only GET and HEAD"),
        ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), 400, "one header `host`"),
        ("GET /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nsomething".to_owned(), 413, "a body"),
        ("GET /metrics HTTP/2.0\r\n\r\n".to_owned(), 505, "HTTP/1.1"),
        ("\x16\x03\x01\x02\x00\x01".to_owned(), 400, "invalid"),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(MAX_REQUEST_BYTES)), 431, "longer than 8192 bytes"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1)), 431, "more than 64 headers"),
    ] {
        let answer = raw(address, request.as_bytes());
        assert!(answer.status == status && answer.body.contains(words), "{request:?}: {answer:?}");
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
    let head = raw(address, b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let old = raw(address, b"GET /healthz HTTP/1.0\r\n\r\n");
    assert_eq!(old.status, 200, "HTTP/1.0 needs no host");

    // Connections that send nothing take all places. They are cut after a time, and then others are served.
    let silent: Vec<TcpStream> =
        (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    assert_eq!(get(address, "/healthz", "").body, "ok\n");
    let mut told = String::new();
    (&silent[0]).read_to_string(&mut told).expect("it was closed in order");
    assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
}

#[test]
fn a_page_has_the_format_that_its_reader_accepts() {
    let of = |format| {
        let mut page = Page::new(format);
        page.gauge("a_bytes", "Size of \"a\\b\",\nin bytes.").add(&[("name", "q\"\\\n"), ("other", "")], 3u64);
        page.counter("b_total", "Number of b.").value(1.5);
        let mut histogram = DurationHistogram::default();
        [100, 101, 11_000_000].into_iter().for_each(|us| histogram.record(Duration::from_micros(us)));
        page.histogram("c_seconds", "Time.", &histogram);
        page.finish()
    };
    let open = of(Format::OpenMetrics);
    let lines: Vec<&str> = open.lines().collect();
    assert_eq!(lines[..2], ["# HELP a_bytes Size of \"a\\\\b\",\\nin bytes.", "# TYPE a_bytes gauge"]);
    assert_eq!(lines[2], "a_bytes{name=\"q\\\"\\\\\\n\",other=\"\"} 3");
    assert_eq!(lines[3..6], ["# HELP b Number of b.", "# TYPE b counter", "b_total 1.5"]);
    assert_eq!(lines[8..10], ["c_seconds_bucket{le=\"0.0001\"} 1", "c_seconds_bucket{le=\"0.00025\"} 2"]);
    assert!(
        open.contains("\nc_seconds_bucket{le=\"10.0\"} 2\nc_seconds_bucket{le=\"+Inf\"} 3\nc_seconds_sum 11.000201\n")
    );
    assert!(open.ends_with("\nc_seconds_count 3\n# EOF\n"));
    let plain = of(Format::Prometheus);
    assert!(plain.contains("# TYPE b_total counter\nb_total 1.5\n") && !plain.contains("EOF"), "{plain}");
    for (accept, format) in [
        ("", Format::Prometheus),
        ("*/*", Format::Prometheus),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75",
            Format::OpenMetrics,
        ),
        ("text/plain;version=0.0.4;q=0.5, Application/OpenMetrics-Text", Format::OpenMetrics),
        ("application/openmetrics-text;q=0, text/plain", Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

#[test]
fn requests_are_read_whole_and_bounded() {
    assert_eq!(parse(b"GET /metr"), Ok(None));
    let whole = parse(b"GET /metrics?a#b HTTP/1.1\r\nHost: x\r\nAccept: a\r\naccept: b\r\n\r\n")
        .expect("valid")
        .expect("whole");
    assert_eq!((whole.path.as_str(), whole.is_head, whole.accept.as_str()), ("/metrics", false, "a,b"));
    let twice = parse(b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n").expect_err("two hosts");
    assert_eq!(twice.status, 400);
    let chunked = parse(b"GET / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").expect_err("a body");
    assert_eq!(chunked.status, 413);
    let nul = parse(b"GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n").expect_err("a control character");
    assert_eq!(nul.status, 400);
}

/// A status of a replica among four that is ready.
fn ready() -> (Status, HostStatus) {
    let watched = Watched::start();
    watched.until(0, "/readyz", 200);
    let status: Status = serde_json::from_str(&watched.get(0, "/status").body).expect("a status");
    let host = status.host.clone().expect("a real host reports it");
    (Status { connected: vec![ReplicaId(1), ReplicaId(2)], ..status }, *host)
}

#[test]
fn a_replica_is_ready_once_it_can_vote_and_serve() {
    let (status, host) = ready();
    assert_eq!(unreadiness(&status, &host), Vec::<String>::new());
    let reason = |status: &Status, host: &HostStatus| {
        let reasons = unreadiness(status, host);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        reasons[0].clone()
    };
    let alone = Status { connected: vec![ReplicaId(1)], ..status.clone() };
    assert_eq!(reason(&alone, &host), "reaches 1 of 3 other replicas, and needs 2");
    let abstains = Status { abstains: true, ..status.clone() };
    assert_eq!(reason(&abstains, &host), "does not vote: its journal was lost");
    let transfer = Some(TransferProgress { height: Height(9), chunks: 4, received: 1 });
    let fetches = HostStatus { transfer, ..host.clone() };
    assert_eq!(reason(&status, &fetches), "fetches the state of height 9: 1 of 4 chunks are here");
    let transfer = Some(TransferProgress { height: Height(9), ..TransferProgress::default() });
    let waits = HostStatus { transfer, ..host.clone() };
    let words = "fetches the state of height 9: no peer has sent the list of its chunks yet";
    assert_eq!(reason(&status, &waits), words);
    let behind = |blocks| HostStatus { known_height: Height(status.height.0 + blocks), ..host.clone() };
    assert!(unreadiness(&status, &behind(MAX_READY_LAG_BLOCKS)).is_empty());
    assert_eq!(reason(&status, &behind(MAX_READY_LAG_BLOCKS + 1)), "is 101 blocks behind");
    let mut writes = status.journal_writes.unwrap_or_default();
    writes.pending_us = 3_500_000;
    let hangs = Status { journal_writes: Some(writes), ..status.clone() };
    assert_eq!(reason(&hangs, &host), "a write of its journal has not ended for 3 s");
    let (why_away, away_ms) = ("no socket".to_owned(), 4_200);
    let signer = SignerStatus { away_ms, why_away, waiting_messages: 5, ..SignerStatus::default() };
    let away = HostStatus { signer: Some(signer.clone()), ..host.clone() };
    let expected = "does not vote: its signer has not answered for 4 s, and 5 messages wait for it: no socket";
    assert_eq!(reason(&status, &away), expected);
    let there = HostStatus { signer: Some(SignerStatus { connected: true, ..signer }), ..host.clone() };
    assert!(unreadiness(&status, &there).is_empty());
}

#[test]
fn the_event_loop_answers_who_waits_and_one_that_is_stuck_is_found() {
    let (status, _) = ready();
    let port = StatusPort::default();
    let reader = port.reader(Arc::new(|| {}));
    assert_eq!(reader.read(), Err(NoStatus::Restoring));
    port.enter(Phase::Running);
    assert_eq!(reader.read(), Err(NoStatus::Stuck), "nobody answers");
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| port.reader(Arc::new(|| {})).read())).collect();
        while !readers.iter().all(|reader| reader.is_finished()) {
            if port.is_asked() {
                port.answer(status.clone());
            }
            std::thread::yield_now();
        }
        for reader in readers {
            assert_eq!(reader.join().expect("it returns").as_deref(), Ok(&status));
        }
    });
    port.enter(Phase::Stopping);
    assert_eq!(reader.read(), Err(NoStatus::Stopping));
}

/// Page of a replica that reports everything.
fn whole_page(format: Format) -> String {
    let (status, host) = ready();
    let host = HostStatus { signer: Some(SignerStatus::default()), ..host };
    let status = Status { host: Some(Box::new(host)), ..status };
    let about = About {
        cluster: "c".to_owned(),
        protocol: "pbft",
        scheme: "ed25519",
        transport: "tcp",
        channel: "tls",
        started: 1.0,
        journal_capacity_bytes: Some(1),
    };
    let directory = std::env::temp_dir();
    let directories = Directories { journal: directory.clone(), snapshots: directory };
    page(format, &about, &status, &Resources::read(Some(&directories)))
}

/// `QUORATE_GOLDEN=write cargo test -p quorate-node --test tests reference` rewrites the table.
#[test]
fn the_reference_lists_every_metric() {
    const HEAD: &str = "| metric | type | meaning |\n|---|---|---|\n";
    let page = whole_page(Format::Prometheus);
    let (mut table, mut help) = (HEAD.to_owned(), "");
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ').expect("a help has a text").1;
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.split_once(' ')) {
            table.push_str(&format!("| `{name}` | {kind} | {help} |\n"));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METRICS.md");
    let text = std::fs::read_to_string(path).expect("the reference exists");
    let (before, found) = text.split_at(text.find(HEAD).expect("it has the table"));
    if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "write") {
        return std::fs::write(path, format!("{before}{table}")).expect("the reference can be written");
    }
    assert_eq!(found, table, "rewrite it with: QUORATE_GOLDEN=write cargo test -p quorate-node --test tests reference");
}

#[test]
fn metrics_follow_the_naming_rules_of_prometheus() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let page = whole_page(format);
        let kinds: BTreeMap<&str, &str> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        assert_eq!(kinds.len(), page.matches("# TYPE ").count(), "a family is listed once");
        for (name, kind) in &kinds {
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, *kind == "counter" && format == Format::Prometheus, "{name} is a {kind}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            for word in name.split('_') {
                let is_other = ["ms", "us", "ns", "kb", "mb", "milliseconds", "minutes", "percent"].contains(&word);
                assert!(!is_other, "{name}: seconds and bytes only");
            }
        }
        for (sample, value) in samples(&page) {
            assert!(value.is_finite() && value >= 0.0, "{sample} is {value}");
        }
    }
}

#[test]
fn an_address_in_use_gets_advice_that_names_another_port() {
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = occupied.local_addr().expect("it is bound");
    let advice = |key| {
        let source = TcpListener::bind(address).expect_err("it is in use");
        NodeError::Listen { key, address: address.into(), source }.to_string()
    };
    let other = format!("127.0.0.1:{}", address.port() + 1);
    let monitoring = advice("monitoring.address");
    assert!(
        monitoring.ends_with(&format!("set `address` in [monitoring] to another port, such as {other}")),
        "{monitoring}"
    );
    for key in ["admin_listen", "client_listen"] {
        let told = advice(key);
        assert!(told.contains(&format!("set `{key}` to another port")) && told.contains(&other), "{told}");
    }
    let peers = advice("listen");
    assert!(
        peers.ends_with("end the process that listens on it, which may be another copy of this replica"),
        "{peers}"
    );
}
