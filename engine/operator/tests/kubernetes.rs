//! Tests of manifests for Kubernetes, and of the first start of a replica on an empty disk.
//!
//! `QUORATE_GOLDEN=write cargo test -p quorate-operator --test tests kubernetes` rewrites the expected manifests in
//! `testdata/kubernetes`. `packaging/check kubernetes` validates them against the schemas of several versions.

use super::{Net, REPLICAS, call, free_ports, program, succeeds};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

const MANIFESTS: [&str; 7] = [
    "cluster/kustomization.yaml",
    "cluster/statefulset.yaml",
    "cluster/service.yaml",
    "cluster/disruption-budget.yaml",
    "cluster/network-policy.yaml",
    "cluster/service-monitor.yaml",
    "first-start/kustomization.yaml",
];

#[test]
fn manifests_for_kubernetes_are_as_expected() {
    let path = std::env::temp_dir().join(format!("quorate-kubernetes-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let dir = path.to_str().expect("a test's path is UTF-8");
    let told = succeeds(&["testnet", "--kubernetes", dir, "--replicas", "7", "--base-port", "7100"]);
    assert!(told.contains(&format!("kubectl apply --kustomize {dir}/first-start")), "{told}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/kubernetes");
    for name in MANIFESTS {
        let written = fs::read_to_string(path.join(name)).expect("the manifest was written");
        let expected = golden.join(name);
        if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "write") {
            fs::create_dir_all(expected.parent().expect("it has one")).expect("the directory can be created");
            fs::write(&expected, &written).expect("the file can be written");
        }
        let expected = fs::read_to_string(&expected).expect("the expected manifest is there");
        assert!(written == expected, "{name} differs from testdata/kubernetes; it is now\n{written}");
    }
    for replica in 0..7 {
        let home = path.join(format!("cluster/replica-{replica}"));
        let config = fs::read_to_string(home.join("config.toml")).expect("the configuration was written");
        for line in [
            format!("replica = {replica}"),
            format!("address = \"quorate-{replica}.quorate-replicas:7100\""),
            "listen = \"0.0.0.0:7100\"".to_owned(),
            "client_listen = \"0.0.0.0:7101\"".to_owned(),
            "admin_listen = \"127.0.0.1:7102\"".to_owned(),
            "address = \"0.0.0.0:7103\"".to_owned(),
            "beyond_loopback = true".to_owned(),
            "directory = \"/var/lib/quorate/journal\"".to_owned(),
        ] {
            assert!(config.lines().any(|found| found == line), "{line} is missing in\n{config}");
        }
        assert!(home.join("private.key").exists());
    }
    let client = fs::read_to_string(path.join("cluster/client.toml")).expect("the client's configuration was written");
    assert!(client.contains("address = \"quorate-6.quorate-replicas:7101\""), "{client}");
    let both = call(&["testnet", "--kubernetes", dir, "--dir", dir]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let none = call(&["testnet"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    fs::remove_dir_all(&path).expect("it is ours");
}

/// As in Kubernetes, where the journals are on volumes that are empty at first.
#[test]
fn replicas_on_empty_disks_start_once_they_are_declared_new() {
    let path = std::env::temp_dir().join(format!("quorate-first-start-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let mut net = Net { path, nodes: Vec::new() };
    let dir = net.path.to_str().expect("a test's path is UTF-8").to_owned();
    succeeds(&["testnet", "--dir", &dir, "--base-port", &free_ports().to_string()]);
    let start = |replica: u16| {
        let home = Path::new(&dir).join(format!("replica-{replica}"));
        let mut command = program();
        command.args(["run", "--first-start", "--dir"]).arg(home).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("a replica starts")
    };
    for replica in 0..REPLICAS {
        let mark = Path::new(&dir).join(format!("replica-{replica}/journal.new"));
        fs::remove_file(mark).expect("testnet marks a journal as new");
        net.nodes.push(start(replica));
    }
    succeeds(&["client", "--dir", &dir, "put", "greeting", "hello"]);
    let home = format!("{dir}/replica-0");
    assert_eq!(succeeds(&["health", "--dir", &home]), "ok\n");
    let ready = || call(&["health", "--ready", "--dir", &home]);
    let is_ready = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        ready().status.success()
    });
    assert!(is_ready, "{:?}", ready());
    // A replica that has a journal resumes from it, with the flag too.
    for node in &mut net.nodes {
        node.kill().expect("it runs");
        node.wait().expect("it ends");
    }
    let dead = call(&["health", "--dir", &home]);
    let told = String::from_utf8_lossy(&dead.stderr);
    assert!(dead.status.code() == Some(1) && told.contains("/healthz does not answer: "), "{dead:?}");
    net.nodes = (0..REPLICAS).map(start).collect();
    assert_eq!(succeeds(&["client", "--dir", &dir, "get", "greeting"]), "hello\n");
}
