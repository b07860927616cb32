//! Derives entries of the cost table from the stages of running replicas.

use quorate_lab::calibrate::running::{Run, agree};
use quorate_lab::sim::{self, SimOptions};
use quorate_lab::spec::{BenchSpec, Interval};
use quorate_simulator::CostTable;
use quorate_simulator::costs::CostSource;
use quorate_types::stages::Stage;

/// Reads an entry of the table.
type Reading = fn(&CostTable) -> f64;

/// Specifications with varied bundles, bytes and iterations, like those of `quorate calibrate`.
fn specs() -> Vec<BenchSpec> {
    let base = {
        let mut spec = BenchSpec {
            clients: 4,
            warmup: Interval::from_millis(50),
            duration: Interval::from_millis(150),
            ..BenchSpec::default()
        };
        spec.node.stages = true;
        spec
    };
    vec![
        BenchSpec { payload: 0, bundle: 20, outstanding: Some(100), ..base.clone() },
        BenchSpec { payload: 1024, bundle: 5, outstanding: Some(40), ..base.clone() },
        BenchSpec { payload: 256, bundle: 1, outstanding: Some(10), ..base.clone() },
        BenchSpec { payload: 64, bundle: 10, outstanding: Some(10), ..base },
    ]
}

/// Returns the measurements that replicas with these costs would report of themselves.
fn measured_with(spec: &BenchSpec, table: &CostTable) -> Run {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let options = SimOptions { network: "loopback".into(), ..SimOptions::default() };
    let spec = BenchSpec { cores, ..spec.clone() };
    let result = sim::run_with(&spec, &options, table, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let charged = result.charged.expect("the run is whole");
    let us = |picoseconds: u64| picoseconds as f64 / 1e6 / result.bench.executed_commands as f64;
    Run {
        spec: BenchSpec { cores: 0, ..spec },
        replicas_us: us(charged.replicas.total()),
        clients_us: us(charged.clients.total()),
        stages: result.bench.stages,
    }
}

/// If the stages take exactly as long as a table predicts, the fit recovers this table from a distant start.
#[test]
fn entries_are_those_of_the_replicas_whose_stages_were_measured() {
    let shipped = CostTable::shipped();
    let mut real = shipped.clone();
    (real.core.round_us, real.core.handle_us, real.journal.record_us) = (1.1, 0.8, 0.9);
    (real.core.bundle_us, real.core.command_us, real.core.wake_us) = (1.6, 0.12, 9.0);
    (real.wire.receive_us, real.wire.send_us, real.wire.read_call_us) = (0.3, 0.2, 2.6);
    (real.wire.receive_byte_ns, real.wire.write_call_us) = (0.14, 7.0);
    (real.hash.byte_ns, real.hash.each_us) = (0.9, 0.3);
    (real.client.command_us, real.client.reply_us) = (shipped.client.command_us * 1.5, shipped.client.reply_us * 1.5);
    real.client.bundle_us = shipped.client.bundle_us * 1.5;
    real.signatures.values_mut().for_each(|costs| costs.sign_us *= 1.4);
    let runs: Vec<Run> = specs().iter().map(|spec| measured_with(spec, &real)).collect();
    let mut found = shipped.clone();
    agree(&mut found, &runs, 6).unwrap_or_else(|error| panic!("{error}"));
    let residual = found.residual_percent.expect("runs were compared");
    assert!(residual < 5.0, "residual {residual} %: {}", found.to_toml());
    let entries: [(&str, Reading); 12] = [
        ("core.round_us", |table| table.core.round_us),
        ("core.handle_us", |table| table.core.handle_us),
        ("journal.record_us", |table| table.journal.record_us),
        ("core.bundle_us", |table| table.core.bundle_us),
        ("core.command_us", |table| table.core.command_us),
        ("wire.receive_us", |table| table.wire.receive_us),
        ("wire.send_us", |table| table.wire.send_us),
        ("wire.write_call_us", |table| table.wire.write_call_us),
        ("hash.byte_ns", |table| table.hash.byte_ns),
        ("hash.each_us", |table| table.hash.each_us),
        ("signatures.ed25519.sign_us", |table| table.signatures["ed25519"].sign_us),
        ("core.wake_us", |table| table.core.wake_us),
    ];
    for (path, of) in entries {
        let (found_us, real_us) = (of(&found), of(&real));
        assert!((found_us / real_us - 1.0).abs() < 0.2, "{path}: {found_us}, the replicas' is {real_us}");
        assert_eq!(found.source_of(path), Some(CostSource::Probe), "{path}");
    }
    assert_eq!(found.source_of("client.reply_us"), Some(CostSource::Fitted));
    assert_eq!(found.source_of("signatures.bls12-381.verify_us[0][1]"), Some(CostSource::Fitted));
    assert_eq!((found.core.turn_us, found.source_of("core.turn_us")), (shipped.core.turn_us, None), "measured alone");
}

/// A longer stage changes its own entries and no others.
#[test]
fn a_dearer_stage_changes_its_own_entries() {
    let table = CostTable::shipped();
    let mut runs: Vec<Run> = specs().iter().map(|spec| measured_with(spec, &table)).collect();
    for run in &mut runs {
        let ns = |run: &Run| -> f64 { run.stages.iter().map(|c| c.nanoseconds.unwrap_or(0.0) * c.count as f64).sum() };
        let before = ns(run);
        for cost in run.stages.iter_mut().filter(|cost| cost.stage == Stage::Unmarshal) {
            cost.nanoseconds = cost.nanoseconds.map(|ns| 4.0 * ns);
        }
        run.replicas_us *= ns(run) / before;
    }
    let mut found = table.clone();
    agree(&mut found, &runs, 4).unwrap_or_else(|error| panic!("{error}"));
    assert!((found.wire.receive_us / table.wire.receive_us / 4.0 - 1.0).abs() < 0.15, "{}", found.wire.receive_us);
    for (name, found, before) in [
        ("sign", found.signatures["ed25519"].sign_us, table.signatures["ed25519"].sign_us),
        ("hash", found.hash.byte_ns, table.hash.byte_ns),
        ("send", found.wire.send_us, table.wire.send_us),
        ("command", found.core.command_us, table.core.command_us),
    ] {
        assert!((found / before - 1.0).abs() < 0.15, "{name}: {found}, before {before}");
    }
}
