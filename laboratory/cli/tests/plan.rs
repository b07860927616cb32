//! Tests `quorate plan`: plans, pages, and invalid input.

use crate::common::*;
use serde_json::Value;
use std::fs;

fn points(plan: &Value) -> &Vec<Value> {
    plan["points"].as_array().expect("points")
}

#[test]
fn a_plan_for_an_fpga_has_every_key() {
    let plan = json(&["plan", "fpga", "--replicas", "4,15", "--value", "512,4096", "--json", "-"]);
    assert_eq!(points(&plan).len(), 4, "{plan}");
    for point in points(&plan) {
        let sum: f64 =
            point["stages"].as_array().expect("stages").iter().filter_map(|stage| stage["slices"].as_f64()).sum();
        assert_eq!(point["total"]["slices"].as_f64(), Some(sum), "{point}");
        let remaining = point["remaining"]["slices"].as_f64().expect("a number");
        assert_eq!(Some(sum + remaining), plan["device"]["slices"].as_f64(), "{point}");
        assert_eq!(point["fits"].as_bool(), Some(remaining >= 0.0), "{point}");
    }
    assert_eq!(plan["least_replicas"][0]["replicas"], 12);
    assert_eq!(plan["other_devices"].as_array().map(Vec::len), Some(3));
    let sources = plan["sources"].as_array().expect("sources");
    assert!(sources.iter().all(|source| source["source"].as_str().is_some_and(|text| text.len() > 20)), "{plan}");
    // Each of these flags changes the plan.
    let slices = |more: &[&str]| {
        let plan = json(&[&["plan", "fpga", "--json", "-"], more].concat());
        plan["points"][0]["total"]["slices"].as_f64().expect("a number")
    };
    let plain = slices(&[]);
    for more in [
        &["--line-rate", "20G"][..],
        &["--profile", "mac"],
        &["--scheme", "ed25519"],
        &["--value", "64"],
        &["--clock-mhz", "100"],
        &["--allowance-percent", "200"],
        &["--mac", "hmac-sha256"],
        &["--checkpoint-interval", "500"],
        &["--header-bytes", "50"],
    ] {
        assert!(slices(more) > plain, "{more:?}");
    }
    for more in [&["--device", "u250"][..], &["--replicas", "31"], &["--framing", "ethernet", "--value", "600"]] {
        assert!(slices(more) < plain, "{more:?}");
    }
}

#[test]
fn a_plan_for_a_processor_has_every_key() {
    let plan = json(&["plan", "cpu", "--replicas", "4,15", "--rate", "10k", "--cores", "1..3", "--json", "-"]);
    for point in points(&plan) {
        assert_eq!(point["operations_per_s"], 10_000.0);
        assert_eq!(point["roles"].as_array().map(Vec::len), Some(2), "{point}");
        assert_eq!(point["on_cores"].as_array().map(Vec::len), Some(3), "{point}");
        assert_eq!(point["roles"][0]["saturates_first"], "verify", "{point}");
    }
    let (four, fifteen) = (&points(&plan)[0], &points(&plan)[1]);
    assert!(four["roles"][0]["cores"].as_f64() < fifteen["roles"][0]["cores"].as_f64());
    // The paper's own saturation, on its six cores.
    let paper = json(&["plan", "cpu", "--costs", "paper", "--cores", "6", "--json", "-"]);
    let rate = paper["points"][0]["on_cores"][0]["operations_per_s"].as_f64().expect("a rate");
    assert!((rate - 20_000.0).abs() < 1.0, "{paper}");
    // A custom table.
    let scratch = Scratch::new("plan-costs");
    let path = scratch.path("costs.toml");
    let shipped = include_str!("../../simulator/costs.toml");
    fs::write(&path, shipped.replacen("proposal_us = 1.44", "proposal_us = 101.44", 1)).expect("it can be written");
    let total = |more: &[&str]| {
        let plan = json(&[&["plan", "cpu", "--json", "-"], more].concat());
        plan["points"][0]["roles"][0]["us_per_operation"].as_f64().expect("a number")
    };
    assert!((total(&["--costs", &path]) - total(&[]) - 100.0).abs() < 1e-6);
}

#[test]
fn plans_are_tables_and_pages() {
    let scratch = Scratch::new("plan-pages");
    let report = scratch.path("plan.html");
    let fpga = ["plan", "fpga", "--replicas", "4..31/3", "--value", "512,4096", "--report", &report];
    let table = text(&succeeds(&fpga).stdout);
    assert!(table.contains("xc7vx690t") && table.contains("does not fit") && table.contains("4,096 B: 4 replicas"));
    let page = fs::read_to_string(&report).expect("it is there");
    assert!(page.contains("Logic of a replica at line rate") && page.contains("signatures alone"), "{table}");
    let table = text(&succeeds(&["plan", "fpga"]).stdout);
    assert!(table.contains("rsa2048-vitis") && table.contains("assumed") && table.contains("remaining"), "{table}");
    let report = scratch.path("cpu.html");
    let table = text(&succeeds(&["plan", "cpu", "--value", "0..4096/1024", "--report", &report]).stdout);
    assert!(table.contains("of the leader"), "{table}");
    assert!(fs::read_to_string(&report).expect("it is there").contains("Throughput by the number of cores"));
    let table = text(&succeeds(&["plan", "cpu", "--profile", "pk"]).stdout);
    assert!(table.contains("saturates one core first") && table.contains("on 1 core:"), "{table}");
}

/// Invalid input causes one error that names the flag, and exit status 2.
#[test]
fn nonsense_is_refused_with_status_2() {
    for (arguments, words) in [
        (&["fpga", "--line-rate", "0"][..], &["--line-rate", "above 0"][..]),
        (&["fpga", "--line-rate", "-1G"], &["--line-rate", "above 0"]),
        (&["fpga", "--line-rate", "NaN"], &["--line-rate", "10G"]),
        (&["fpga", "--line-rate", "fast"], &["--line-rate", "10G"]),
        (&["fpga", "--line-rate", "2000T"], &["--line-rate", "1000T"]),
        (&["fpga", "--device", "xc7vx69"], &["--device", "xc7vx690t, vu9p, u250, u55c", "did you mean"]),
        (&["fpga", "--replicas", "31..3"], &["--replicas", "no numbers"]),
        (&["fpga", "--replicas", ""], &["--replicas"]),
        (&["fpga", "--replicas", "1"], &["--replicas", "2 to 1000"]),
        (&["fpga", "--replicas", "2..4000"], &["--replicas", "1000 numbers"]),
        (&["fpga", "--value", "2097152"], &["--value", "1048576"]),
        (&["fpga", "--value", "-1"], &["--value"]),
        (&["fpga", "--batch", "0"], &["--batch"]),
        (&["fpga", "--scheme", "dsa"], &["--scheme", "rsa-2048, ed25519, bls"]),
        (&["fpga", "--profile", "pk", "--scheme", "bls"], &["`sign` with bls"]),
        (&["fpga", "--hash-core", "md5"], &["--hash-core", "sha256-secworks"]),
        (&["fpga", "--fill-percent", "NaN"], &["--fill-percent"]),
        (&["fpga", "--clock-mhz", "0"], &["--clock-mhz"]),
        (&["cpu", "--rate", "0"], &["--rate"]),
        (&["cpu", "--costs", "paper", "--scheme", "ed25519"], &["--scheme", "rsa-1024"]),
        (&["cpu", "--costs", "/nowhere/costs.toml"], &["--costs", "calibrate"]),
        (&["cpu", "--mac-scheme", "ed25519"], &["--mac-scheme", "no MACs"]),
        (&["cpu", "--scheme", "hmac-sha256"], &["--scheme", "no signatures"]),
        (&["cpu", "--cores", "0"], &["--cores"]),
        (&["cpu", "--messages-per-call", "NaN"], &["--messages-per-call"]),
        (&["gpu"], &["gpu"]),
    ] {
        let output = quorate(&[&["plan"], arguments].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty() && !error.contains("panicked"), "{arguments:?}: {error}");
        let errors = error.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{arguments:?}: {error}");
    }
}
