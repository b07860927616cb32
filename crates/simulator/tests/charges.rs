//! Costs of wake-ups, cold caches and steps by their input.

use crate::common::{commands, spec};
use quorate_client::load::LoadMode;
use quorate_consensus::config::ProtocolKind;
use quorate_simulator::costs::{MemoryCosts, SHIPPED};
use quorate_simulator::steps::StepKind;
use quorate_simulator::{CostTable, SimReport, SimSpec, run};

/// Runs a seed, and returns the report with the processor time of all replicas and the clients, in nanoseconds per
/// completed command.
fn charged(spec: &SimSpec) -> (SimReport, f64) {
    let report = run(spec, 1, &commands);
    assert_eq!(report.violation, None);
    let load = report.load.as_ref().expect("the load is over");
    let replicas: u64 = report.lives.iter().map(|life| life.last.cpu_ns - life.first.cpu_ns).sum();
    let cpu = (replicas as f64 + load.usage.cpu.as_nanos() as f64) / load.completed as f64;
    (report, cpu)
}

fn completed(report: &SimReport) -> u64 {
    report.load.as_ref().expect("the load is over").completed
}

#[test]
fn a_file_without_the_newer_costs_charges_what_it_did() {
    let shipped = CostTable::shipped();
    for absent in ["wake_us", "pool_us", "command_byte_ns", "further_write_us", "late_us", "[steps]", "[memory]"] {
        assert!(!SHIPPED.contains(absent), "{absent}");
    }
    assert_eq!((shipped.core.wake_us, shipped.core.pool_us, shipped.client.late_us), (0.0, 0.0, 0.0));
    assert_eq!(shipped.memory.cold_factor, 1.0);
    assert!(StepKind::ALL.iter().all(|kind| shipped.steps.of(*kind).is_none()));
    let written = CostTable::parse(&shipped.to_toml(), "written").expect("a table that was written");
    assert_eq!(written, shipped);
    // A step that costs the same for each kind is the same as one cost for all.
    let (plain, mut by_kind) = (spec(ProtocolKind::Jolteon), spec(ProtocolKind::Jolteon));
    for kind in StepKind::ALL {
        *by_kind.costs.steps.entry(kind) = Some(shipped.core.step_us);
    }
    assert_eq!(run(&plain, 1, &commands).trace_hash, run(&by_kind, 1, &commands).trace_hash);
}

#[test]
fn each_kind_of_step_is_charged() {
    let plain = spec(ProtocolKind::Jolteon);
    let (_, before) = charged(&plain);
    for kind in [StepKind::Proposal, StepKind::Statement, StepKind::Submit, StepKind::Verdict] {
        let mut dearer = plain.clone();
        *dearer.costs.steps.entry(kind) = Some(plain.costs.core.step_us + 20.0);
        let (_, after) = charged(&dearer);
        assert!(after > before * 1.02, "{kind:?}: {after} ns, {before} ns before");
    }
}

#[test]
fn a_wake_up_costs_most_at_low_load() {
    let at = |rate: f64, wake_us: f64| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.load.mode = LoadMode::Open { rate, max_outstanding: 10_000 };
        spec.costs.core.wake_us = wake_us;
        charged(&spec).1
    };
    let added = |rate: f64| at(rate, 20.0) - at(rate, 0.0);
    let (low, high) = (added(500.0), added(50_000.0));
    // At 500 commands a second, five threads wake for each command, most of them several times.
    assert!(low > 5.0 * 20_000.0, "{low} ns");
    assert!(high < low / 4.0, "{high} ns at the high rate, {low} ns at the low one");
}

#[test]
fn caches_are_cold_only_where_threads_share_a_core() {
    let at = |cores: usize, cold_factor: f64| {
        let mut spec = SimSpec { cores, ..spec(ProtocolKind::Jolteon) };
        spec.costs.memory = MemoryCosts { cold_factor };
        charged(&spec)
    };
    let ((own, _), (own_cold, _)) = (at(0, 1.0), at(0, 3.0));
    assert_eq!(own.trace_hash, own_cold.trace_hash, "each thread has a core of its own");
    let ((_, warm), (_, cold)) = (at(1, 1.0), at(1, 3.0));
    assert!(cold > warm * 1.1, "{cold} ns with cold caches, {warm} ns with warm ones");
}

#[test]
fn threads_queue_for_cores() {
    let on = |cores: usize| {
        let (report, cpu_ns) = charged(&SimSpec { cores, ..spec(ProtocolKind::Jolteon) });
        let window = report.load.as_ref().expect("the load is over").window;
        (completed(&report), cpu_ns * completed(&report) as f64 / window.as_nanos() as f64)
    };
    let ((one, used), (two, _), (own, used_alone)) = (on(1), on(2), on(0));
    assert!(one < two && two < own, "1 core: {one} commands, 2 cores: {two}, one for each thread: {own}");
    // A turn may begin before the measured time or end after it.
    assert!((0.9..1.01).contains(&used), "{used} cores used of 1");
    assert!(used_alone > used, "{used_alone} cores used with one for each thread");
}

#[test]
fn a_sleeping_client_sends_more_commands_at_once() {
    let bundles = |late_us: f64| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.load.mode = LoadMode::Open { rate: 20_000.0, max_outstanding: 10_000 };
        spec.costs.client.late_us = late_us;
        let load = run(&spec, 1, &commands).load.expect("the load is over");
        load.completed as f64 / load.bundles.submitted as f64
    };
    let (at_once, late) = (bundles(0.0), bundles(150.0));
    assert!(late > at_once * 1.5, "{late} commands in a bundle, {at_once} without delay");
}

#[test]
fn a_factor_below_one_is_refused() {
    let text = format!("{SHIPPED}\n[memory]\ncold_factor = 0.5\n");
    let refused = CostTable::parse(&text, "costs.toml").expect_err("caches cannot save time").to_string();
    assert!(refused.contains("memory.cold_factor") && refused.contains("between 1 and"), "{refused}");
    let unknown = CostTable::parse(&format!("{SHIPPED}\n[steps]\nvote_us = 0.5\n"), "costs.toml");
    assert!(unknown.expect_err("no such kind").to_string().contains("vote_us"));
}
