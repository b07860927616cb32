//! Costs of wake-ups, cold caches and steps by their input.

use crate::common::{PLAIN, commands, plain_costs, spec};
use quorate_client::load::{LoadMode, LoadOptions};
use quorate_consensus::config::ProtocolKind;
use quorate_crypto::ClientAuthentication;
use quorate_simulator::costs::MemoryCosts;
use quorate_simulator::ledger::Charged;
use quorate_simulator::steps::StepKind;
use quorate_simulator::work::Work;
use quorate_simulator::{CostTable, NetworkSpec, SimReport, SimSpec, run};
use std::time::Duration;

/// Runs a seed. Returns the report, and the CPU time of all replicas and clients in nanoseconds per completed command.
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
    let plain = plain_costs();
    for absent in
        ["wake_us", "pool_us", "command_byte_ns", "further_write_us", "late_us", "[steps]", "[memory]", "[scheduler]"]
    {
        assert!(!PLAIN.contains(absent), "{absent}");
    }
    assert_eq!((plain.core.wake_us, plain.core.pool_us, plain.client.late_us), (0.0, 0.0, 0.0));
    assert_eq!(plain.memory.cold_factor, 1.0);
    assert!(StepKind::ALL.iter().all(|kind| plain.steps.of(*kind).is_none()));
    let written = CostTable::parse(&plain.to_toml(), "written").expect("a table that was written");
    assert_eq!(written, plain);
    // Equal costs for all kinds of steps are equivalent to a single cost.
    let (for_all, mut by_kind) = (spec(ProtocolKind::Jolteon), spec(ProtocolKind::Jolteon));
    for kind in StepKind::ALL {
        *by_kind.costs.steps.entry(kind) = Some(plain.core.step_us);
    }
    assert_eq!(run(&for_all, 1, &commands).trace_hash, run(&by_kind, 1, &commands).trace_hash);
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
    // At 500 commands per second, five threads wake for each command, most of them several times.
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
    // An iteration may begin before the measured time or end after it.
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
fn a_client_that_sleeps_sends_all_that_has_become_due_also_at_a_rate_without_pauses() {
    let commands_in_a_bundle = |rate: f64| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.load.mode = LoadMode::Open { rate, max_outstanding: 100_000 };
        spec.load.bundle = 1_000;
        spec.costs.client.late_us = 50.0;
        let load = run(&spec, 1, &commands).load.expect("the load is over");
        load.completed as f64 / load.bundles.submitted as f64
    };
    // The interval of 2.5 microseconds between commands is shorter than an iteration, but the thread sleeps after each
    // iteration without replies, during which 20 commands become due.
    let bundle = commands_in_a_bundle(400_000.0);
    assert!((15.0..100.0).contains(&bundle), "{bundle} commands in a bundle");
}

#[test]
fn a_reply_does_not_end_a_sleep() {
    let p50_ms = |late_us: f64| {
        let mut spec = spec(ProtocolKind::Jolteon);
        // One command per 150 microseconds: the client sleeps at most 100 at a time, and a reply waits for the end of
        // the sleep.
        spec.load.mode = LoadMode::Open { rate: 6_600.0, max_outstanding: 10_000 };
        spec.costs.client.late_us = late_us;
        let report = run(&spec, 1, &commands);
        report.load.as_ref().and_then(|load| load.latency_ms(0.5)).expect("answers")
    };
    let (precise, late) = (p50_ms(0.0), p50_ms(400.0));
    assert!(late > precise + 0.2, "{late} ms, {precise} ms with precise sleeps");
}

/// Returns a spec on two cores with zero message delay.
fn on_two_cores() -> SimSpec {
    let network = NetworkSpec::preset("loopback").expect("a preset");
    SimSpec { cores: 2, network, ..spec(ProtocolKind::Jolteon) }
}

/// Returns the same spec with a queue per core.
fn with_queues() -> SimSpec {
    let mut spec = on_two_cores();
    spec.costs.scheduler.slice_us = 4_000.0;
    spec
}

#[test]
fn a_core_with_a_queue_of_its_own_may_be_idle_while_others_wait() {
    let (shared, own, mut balanced) = (on_two_cores(), with_queues(), with_queues());
    balanced.costs.scheduler.balance_us = 1.0;
    let used = |spec: &SimSpec| {
        let mode = LoadMode::Closed { outstanding: 1000 };
        let spec = SimSpec { load: LoadOptions { mode, ..spec.load.clone() }, ..spec.clone() };
        let (report, cpu_ns) = charged(&spec);
        let window = report.load.as_ref().expect("the load is over").window;
        cpu_ns * completed(&report) as f64 / window.as_nanos() as f64
    };
    let (shared, own, balanced) = (used(&shared), used(&own), used(&balanced));
    assert!(own < shared * 0.97 && own < balanced, "{own} cores used, {shared} with one queue, {balanced} balanced");
}

#[test]
fn an_idle_core_begins_late() {
    let p50_ms = |idle_delay_us: f64| {
        let mut spec = with_queues();
        spec.load.mode = LoadMode::Open { rate: 500.0, max_outstanding: 10_000 };
        spec.costs.scheduler.idle_delay_us = idle_delay_us;
        let (report, cpu_ns) = charged(&spec);
        (report.load.as_ref().and_then(|load| load.latency_ms(0.5)).expect("answers"), cpu_ns)
    };
    let ((at_once, cpu), (late, cpu_late)) = (p50_ms(0.0), p50_ms(100.0));
    // A command takes at least four consecutive messages.
    assert!(late > at_once + 0.3, "{late} ms, {at_once} ms without delay");
    assert!((0.9..1.1).contains(&(cpu_late / cpu)), "waiting is free: {cpu_late} ns, {cpu} ns without delay");
}

/// An emulated network's router runs ahead of all threads. Its time is not charged to them, and on idle cores it delays
/// nobody.
#[test]
fn a_router_takes_its_time_from_the_shared_cores() {
    let at = |router_us: u64, mode: LoadMode| {
        let mut spec = SimSpec { router: Duration::from_micros(router_us), ..on_two_cores() };
        spec.load.mode = mode;
        let (report, cpu_ns) = charged(&spec);
        let window = report.load.as_ref().expect("the load is over").window.as_nanos() as f64;
        (completed(&report) as f64, cpu_ns, completed(&report) as f64 * cpu_ns / window)
    };
    let saturated = LoadMode::Closed { outstanding: 1_000 };
    let ((without, cpu, used), (with, cpu_with, used_with)) = (at(0, saturated), at(20, saturated));
    assert!(with < 0.9 * without && used_with < 0.9 * used, "{with} commands with a router, {without} without");
    assert!((0.8..1.25).contains(&(cpu_with / cpu)), "{cpu_with} ns a command with a router, {cpu} ns without");
    let seldom = LoadMode::Open { rate: 100.0, max_outstanding: 100 };
    assert!(at(20, seldom).0 >= 0.99 * at(0, seldom).0, "there is room for both");
}

#[test]
fn interruptions_take_time_but_no_processor_time() {
    let at = |interruptions: Vec<(f64, f64)>| {
        let mut spec = with_queues();
        spec.costs.scheduler.interruptions = interruptions;
        let (report, cpu_ns) = charged(&spec);
        let p99 = report.load.as_ref().and_then(|load| load.latency_ms(0.99)).expect("answers");
        (report.trace_hash, p99, cpu_ns)
    };
    let (hash, p99, cpu) = at(Vec::new());
    let interrupted = at(vec![(20.0, 5_000.0), (100.0, 50.0)]);
    assert_eq!(interrupted, at(vec![(20.0, 5_000.0), (100.0, 50.0)]), "the seed decides when");
    assert_ne!(interrupted.0, hash);
    assert!(interrupted.1 > p99 + 3.0, "{} ms, {p99} ms undisturbed", interrupted.1);
    assert!((0.8..1.2).contains(&(interrupted.2 / cpu)), "{} ns, {cpu} ns undisturbed", interrupted.2);
}

#[test]
fn a_thread_that_wakes_up_takes_the_core_from_one_that_has_had_more() {
    let at = |preempts: bool| {
        let mut spec = with_queues();
        spec.consensus.protocol = ProtocolKind::Jolteon;
        spec.load.mode = LoadMode::Closed { outstanding: 1000 };
        spec.load.bundle = 100;
        spec.costs.scheduler.preempts = preempts;
        // An iteration that writes is longer than one that reads, so others wake up in between.
        (spec.costs.wire.write_call_us, spec.costs.core.wake_us) = (20.0, 0.0);
        charged(&spec).0
    };
    let (without, with) = (at(false), at(true));
    assert_eq!(with.trace_hash, at(true).trace_hash, "the seed decides when");
    // The first message of an iteration is handled before the last one is written, so there are more and shorter
    // iterations.
    let turns = |report: &SimReport| {
        let charged = report.charged.as_ref().expect("the measured time is over");
        charged.replicas.count(Work::Turns) as f64 / charged.replicas.count(Work::Commands) as f64
    };
    let (before, after) = (turns(&without), turns(&with));
    assert!(after > before * 1.05, "{after} turns per command, {before} without preemption");
}

#[test]
fn each_hash_has_a_cost_of_its_own() {
    let us = |each_us: f64, bundle: usize| {
        let mut spec = spec(ProtocolKind::Jolteon);
        spec.load.bundle = bundle;
        spec.costs.hash.each_us = each_us;
        let charged = charged(&spec).0.charged.expect("the measured time is over");
        // Four replicas execute each command.
        4.0 * charged.replicas.us(Work::Hashes) / charged.replicas.count(Work::Commands) as f64
    };
    let added = |bundle: usize| us(1.0, bundle) - us(0.0, bundle);
    let (single, ten) = (added(1), added(10));
    // Four replicas hash each bundle.
    assert!((4.0..6.0).contains(&single), "{single} us for a bundle of one command");
    assert!(ten < single / 4.0, "{ten} us in bundles of ten, {single} alone");
}

#[test]
fn clients_sign_each_bundle_and_replicas_verify_it_once() {
    let plain = charged(&spec(ProtocolKind::Jolteon)).0;
    let signing = SimSpec { client_authentication: ClientAuthentication::Ed25519, ..spec(ProtocolKind::Jolteon) };
    let signed = charged(&signing).0;
    let of = |report: &SimReport| report.charged.clone().expect("the measured time is over");
    let (plain, charges) = (of(&plain), of(&signed));
    let bundles = charges.clients.count(Work::Bundles);
    assert_eq!(plain.clients.count(Work::Signatures), 0);
    assert_eq!(charges.clients.count(Work::Signatures), bundles);
    let per_block = |charges: &Charged| {
        let replicas = &charges.replicas;
        (replicas.count(Work::Verifications) as f64, replicas.count(Work::Signatures) as f64)
    };
    let ((checks, statements), (checks_before, statements_before)) = (per_block(&charges), per_block(&plain));
    // Four replicas verify each bundle; the verifications per vote statement are unchanged.
    let of_clients = checks - checks_before / statements_before * statements;
    let each = of_clients / bundles as f64;
    assert!((3.6..4.4).contains(&each), "{each} verifications of each bundle");
}

#[test]
fn a_factor_below_one_is_refused() {
    let text = format!("{PLAIN}\n[memory]\ncold_factor = 0.5\n");
    let refused = CostTable::parse(&text, "costs.toml").expect_err("caches cannot save time").to_string();
    assert!(refused.contains("memory.cold_factor") && refused.contains("between 1 and"), "{refused}");
    let text = format!("{PLAIN}\n[scheduler]\ninterruptions = [[10.0, 50.0], [2.0, -1.0]]\n");
    let refused = CostTable::parse(&text, "costs.toml").expect_err("no time runs backwards").to_string();
    assert!(refused.contains("scheduler.interruptions") && refused.contains("per second"), "{refused}");
    let unknown = CostTable::parse(&format!("{PLAIN}\n[steps]\nvote_us = 0.5\n"), "costs.toml");
    assert!(unknown.expect_err("no such kind").to_string().contains("vote_us"));
}

/// A slower CPU takes longer for all work, and changes nothing else.
#[test]
fn a_slowed_table_has_other_processor_times_only() {
    let table = CostTable::shipped();
    let slowed = table.slowed(2.0);
    assert_eq!(slowed.core.step_us, 2.0 * table.core.step_us);
    assert_eq!(slowed.wire.send_byte_ns, 2.0 * table.wire.send_byte_ns);
    let ladder = |table: &CostTable| table.signatures["secp256k1"].verify_us.clone();
    let twice: Vec<_> = ladder(&table).into_iter().map(|(count, us)| (count, 2.0 * us)).collect();
    assert_eq!(ladder(&slowed), twice);
    let kept = |table: &CostTable| {
        (table.scheduler.clone(), table.memory.clone(), table.client.late_us, table.journal.clone())
    };
    assert_eq!(kept(&slowed), kept(&table));
}

#[test]
fn threads_wait_for_cores_only_if_they_share_them() {
    let shares = |cores: usize| {
        let mut spec = SimSpec { cores, ..on_two_cores() };
        spec.load.mode = LoadMode::Closed { outstanding: 1_000 };
        let (report, _) = charged(&spec);
        (report.shares.clone(), report.load.expect("the load is over").window)
    };
    let (two, window) = shares(2);
    let ran: Duration = two.iter().map(|share| share.ran).sum();
    assert_eq!(two.len(), 5, "four replicas and a machine of clients");
    assert!(ran <= window * 2 + Duration::from_millis(10), "{ran:?} on two cores in {window:?}");
    assert!(two.iter().all(|share| !share.waited.is_zero() && share.turns > 0), "{two:?}");
    let (own, _) = shares(0);
    assert!(own.iter().all(|share| share.waited.is_zero() && !share.ran.is_zero()), "{own:?}");
}
