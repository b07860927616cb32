//! The files of `operations` in a real Prometheus. It accepts them, their alerts are silent in a healthy cluster, and
//! each alert is raised by its fault, injected into real processes.
#![cfg(target_os = "linux")]

mod clusters;
mod faults;
mod guarded;
mod lost_bundle;
mod prometheus;

use crate::common::{Scratch, wait_until};
use clusters::{Cluster, REPLICAS};
use prometheus::{Prometheus, page, promtool, read, told};
use serde_json::Value;

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
#[ignore = "needs promtool and prometheus (Debian: apt-get install prometheus); .ci/run runs it"]
fn prometheus_accepts_the_metrics_alerts_and_dashboard() {
    let scratch = Scratch::new("healthy");
    let mut cluster = Cluster::written(&scratch.0, "quorate", &["--protocol", "pbft"], |_| ());
    cluster.start(0..REPLICAS);
    cluster.put("greeting");
    cluster.wait_until_ready(0..REPLICAS);
    let (_, metrics) = page(cluster.targets[0], "/metrics").expect("it answers");
    let checked = promtool(&["check", "metrics"], &metrics);
    assert!(checked.status.success() && told(&checked).is_empty(), "{checked:?}");
    for arguments in
        [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"], ["check", "config", "prometheus.yml"]]
    {
        let checked = promtool(&arguments, "");
        assert!(checked.status.success(), "{arguments:?}: {checked:?}");
    }

    let prometheus = Prometheus::start(&scratch.0, &[(cluster.job, &cluster.targets)], &read("alerts.yml"));
    let mut written = 0;
    wait_until("the targets are scraped", || {
        cluster.put(&format!("key-{written}"));
        written += 1;
        written >= 5 && prometheus.query("up{job=\"quorate\"} == 1").len() == REPLICAS
    });
    // It asks for OpenMetrics, and parses it.
    assert_eq!(prometheus.query("quorate_build_info").len(), REPLICAS);
    for (title, query) in queries() {
        let query = query.replace("$job", "quorate").replace("$__rate_interval", "30s");
        wait_until(&format!("the panel {title:?} shows something: {query}"), || !prometheus.query(&query).is_empty());
    }
    let alerts = prometheus.alerts();
    assert_eq!(alerts.len(), read("alerts.yml").matches("- alert: ").count());
    for (name, expression) in alerts {
        // A disk of a test machine may be nearly full.
        let raised = prometheus.query(&expression);
        assert!(raised.is_empty() || name == "QuorateDiskFilling", "{name} is raised in a healthy cluster: {raised:?}");
    }
}
