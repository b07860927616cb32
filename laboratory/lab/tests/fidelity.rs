//! The grid of specifications, the ratios of their figures, and the calibration behind them.

use quorate_lab::calibrate::fit::{Row, Wanted, fit, residual};
use quorate_lab::calibrate::{self, Extent};
use quorate_lab::experiments::{Instrument, Profile};
use quorate_lab::fidelity::{self, Cell, Entry, Fidelity, Figures, GRID, Grid, Observer, Setting};
use quorate_lab::spec::{BenchSpec, Pacing};
use quorate_operator::report::Report;
use quorate_simulator::CostTable;
use quorate_simulator::steps::StepKind;
use std::collections::BTreeSet;

/// Maximum number of cells in the profile `quick`.
const MAX_QUICK_CELLS: usize = 12;

fn entries(profile: Profile) -> Vec<Entry> {
    Grid::parse(GRID, "the grid").expect("it is sound").entries(profile).expect("its cells are possible")
}

#[test]
fn the_grid_covers_what_decides_the_figures() {
    let (quick, full) = (entries(Profile::Quick), entries(Profile::Full));
    assert!(quick.len() <= MAX_QUICK_CELLS, "{} cells", quick.len());
    for all in [&quick, &full] {
        let values = |of: fn(&Entry) -> String| all.iter().map(of).collect::<BTreeSet<_>>();
        assert!(values(|entry| entry.spec.node.consensus.protocol.to_string()).len() >= 2);
        assert_eq!(values(|entry| entry.spec.replicas.to_string()), BTreeSet::from(["4".into(), "7".into()]));
        assert_eq!(values(|entry| entry.spec.payload.to_string()).len(), 3);
        assert_eq!(values(|entry| entry.spec.node.consensus.batch.to_string()).len(), 3);
        assert_eq!(values(|entry| entry.spec.node.scheme.to_string()).len(), 2);
        assert_eq!(values(|entry| entry.spec.node.client_authentication.to_string()).len(), 2);
        assert!(all.iter().any(|entry| matches!(entry.spec.pacing(), Pacing::Open { .. })));
        let labels: BTreeSet<String> = all.iter().map(Entry::label).collect();
        assert_eq!(labels.len(), all.len(), "each cell has a label of its own");
    }
}

#[test]
fn an_unsound_grid_is_refused() {
    let refused = |text: &str| Grid::parse(text, "mine.toml").expect_err("unsound").to_string();
    assert!(refused("[quick]\ncells = []\n").contains("mine.toml"));
    let text = GRID.replace("[full.axes]", "[full.axis]");
    assert!(refused(&text).contains("axis"));
    let text = GRID.replace("replicas = 4", "replicas = 3\nfaults = 1");
    let error = Grid::parse(&text, "mine.toml").expect("sound").entries(Profile::Quick).expect_err("too few replicas");
    assert!(error.to_string().contains("replicas"), "{error}");
}

fn figures(throughput_ops: f64, cpu: f64, p50: f64, p99: f64) -> Figures {
    Figures { throughput_ops, cpu_us_per_command: Some(cpu), p50_ms: Some(p50), p99_ms: Some(p99) }
}

#[test]
fn ratios_are_simulated_over_measured_and_the_worst_come_first() {
    let all = entries(Profile::Quick);
    let measured = || Ok(figures(1000.0, 10.0, 4.0, 8.0));
    let near = Cell::of(&all[0], measured(), Ok(figures(1090.0, 9.5, 4.0, 8.0)));
    let fast = Cell::of(&all[1], measured(), Ok(figures(2000.0, 5.0, 2.0, 8.0)));
    let slow = Cell::of(&all[2], measured(), Ok(figures(1000.0, 10.0, 4.0, 2.0)));
    let broken = Cell::of(&all[3], Err("node: no ports".into()), Err("not simulated".into()));
    assert_eq!(fast.ratios(), [Some(2.0), Some(0.5), Some(0.5), Some(1.0)]);
    assert_eq!(slow.p99_ratio, Some(0.25));
    assert_eq!((broken.ratios(), broken.failure.as_deref()), ([None; 4], Some("node: no ports")));
    let cells = vec![near.clone(), fast.clone(), slow.clone(), broken.clone()];
    let result = Fidelity::new(cells, "a table".into(), 2, None);
    assert_eq!(result.cells, [broken.clone(), slow, fast, near.clone()]);
    let table = result.to_table();
    assert!(table.contains("throughput: 2 of 4 cells within 10 %"), "{table}");
    assert!(table.contains("CPU: 2 of 4 cells within 10 %") && table.contains("no ports"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&result.to_json()).expect("JSON");
    let first = &json["cells"][2];
    assert_eq!((&first["throughput_ratio"], &first["p50_ratio"]), (&2.0.into(), &0.5.into()));
    assert_eq!(first["spec"]["bundle"], 10);
    assert!(json["cells"][0]["cpu_ratio"].is_null());
    assert_eq!(result.failure(), None);
    let cells = [Instrument::Real, Instrument::Deployed].map(|own| near.clone().on(own, Some("there".to_owned())));
    let table = Fidelity::new(cells.to_vec(), "a table".into(), 2, None).to_table();
    assert!(table.contains("real, p50: 1 of 1 cells") && table.contains("deployed, p50: 1 of 1 cells"), "{table}");
    assert_eq!((&*cells[0].command, &*cells[1].command), (&*near.command, "there"));
    let none = Fidelity::new(vec![broken], "a table".into(), 2, None);
    assert!(none.failure().expect("nothing was compared").contains("no ports"));
}

#[test]
fn a_figure_of_zero_has_no_ratio() {
    let all = entries(Profile::Quick);
    let cell = Cell::of(&all[0], Ok(figures(0.0, 10.0, 4.0, 8.0)), Ok(figures(10.0, 0.0, 4.0, 8.0)));
    assert_eq!(cell.ratios(), [None, None, Some(1.0), Some(1.0)]);
}

struct Counted(Vec<String>);

impl Observer for Counted {
    fn on_cell(&mut self, number: usize, of: usize, label: &str) {
        self.0.push(format!("{number}/{of} {label}"));
    }
    fn on_end(&mut self, _: &Cell) {}
}

#[test]
fn a_cell_runs_on_the_node_and_in_the_simulator() {
    let text = GRID.replace("1500ms", "300ms").replace("500ms", "100ms");
    let entries = Grid::parse(&text, "short").expect("sound").entries(Profile::Quick).expect("possible");
    let mut observer = Counted(Vec::new());
    let result = fidelity::run(&entries[..1], &Setting::default(), &CostTable::shipped(), &mut observer);
    assert_eq!(observer.0.len(), 1);
    let cell = &result.cells[0];
    assert_eq!(cell.failure, None);
    assert!(cell.ratios().iter().all(|ratio| ratio.is_some_and(|ratio| ratio > 0.0)), "{cell:?}");
}

/// The grid tests the calibration, so the calibration must not use any of its cells.
#[test]
fn no_cell_of_the_grid_is_used_to_calibrate() {
    let plain = |spec: &BenchSpec| {
        let own = BenchSpec::default();
        BenchSpec { warmup: own.warmup, duration: own.duration, ..spec.clone() }
    };
    let specifications = calibrate::specifications();
    assert!(specifications.len() >= 10);
    for entry in entries(Profile::Quick).iter().chain(&entries(Profile::Full)) {
        let used = specifications.iter().any(|spec| plain(spec) == plain(&entry.spec));
        assert!(!used, "{}", entry.label());
    }
    assert!(specifications.iter().all(|spec| spec.validate().is_ok() && spec.validate_real().is_ok()));
}

#[test]
fn factors_are_found_from_sums() {
    let wanted = [Wanted { so_far: 1.0, preference: 1e-6 }; 2];
    let row = |first: f64, second: f64| Row {
        measured: 5.0 + 3.0 * first + 0.5 * second,
        parts: vec![first, second],
        known: 5.0,
    };
    let rows = [row(1.0, 10.0), row(4.0, 2.0), row(0.5, 30.0)];
    let factors = fit(&rows, &wanted);
    assert!((factors[0] - 3.0).abs() < 0.01 && (factors[1] - 0.5).abs() < 0.01, "{factors:?}");
    assert!(residual(&rows, &factors) < 0.001 && residual(&rows, &[1.0, 1.0]) > 0.1);
    // A part that only raises the charges too much gets a factor of zero; no factor is negative.
    let dear = [Row { measured: 5.0, parts: vec![1.0, 0.0], known: 6.0 }];
    assert_eq!(fit(&dear, &wanted), [0.0, 1.0], "nothing is known of the second part");
    // A strong preference keeps a value against a single row, and accounts for earlier factors.
    let firm = [Wanted { so_far: 2.0, preference: 1e6 }];
    let half = fit(&[Row { measured: 9.0, parts: vec![1.0], known: 0.0 }], &firm);
    assert!((half[0] - 0.5).abs() < 0.001, "{half:?}");
}

/// Every cost is measured and positive, and the table can be read back. The values depend on the machine.
#[test]
fn a_calibration_measures_every_cost() {
    let directory = std::env::temp_dir().join(format!("quorate-calibration-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the test may create it");
    let measured = calibrate::measure(Extent::Sample, Some(&directory)).expect("loopback works");
    assert!(measured.journal.flush_us > 0.0, "a group takes time until it is durable");
    let left = std::fs::read_dir(&directory).expect("the directory is still there").count();
    std::fs::remove_dir_all(&directory).expect("the test may remove it");
    assert_eq!(left, 0, "the journal that was measured is removed");
    let shipped = CostTable::shipped();
    assert!(measured.hash.each_us > 0.0 && measured.hash.byte_ns > 0.0);
    assert!(measured.gateway.status_us > 0.0 && measured.gateway != shipped.gateway);
    assert!((10_000..1_000_000).contains(&measured.gateway.status_bytes), "{}", measured.gateway.status_bytes);
    assert_ne!(measured.core.step_us, shipped.core.step_us);
    assert_ne!(measured.core.bundle_us, shipped.core.bundle_us);
    assert_ne!(measured.client.command_us, shipped.client.command_us);
    assert_ne!(measured.client.reply_us, shipped.client.reply_us);
    println!("{}", measured.to_toml());
    assert!(measured.core.wake_us > 0.0 && measured.client.further_write_us > 0.0);
    assert!(measured.memory.cold_factor >= 1.0);
    assert!(measured.scheduler.slice_us > 0.0 && measured.scheduler.idle_delay_us > 0.0);
    assert!(measured.residual_percent.is_some_and(|percent| percent.is_finite()));
    for kind in [StepKind::Proposal, StepKind::Statement, StepKind::Submit, StepKind::Verdict, StepKind::Assembled] {
        assert!(measured.steps.of(kind).is_some_and(|us| us >= 0.0), "{kind:?}");
    }
    assert_eq!(CostTable::parse(&measured.to_toml(), "measured").expect("a sound table"), measured);
}
