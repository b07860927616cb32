//! Calls for cells: keys and values are checked before anything runs, and errors name the place.

use crate::common::experiment;
use quorate_lab::experiments::{Experiment, Instrument, Profile};
use quorate_lab::figures::vocabulary;
use quorate_runner::call::{Call, Files, known};

fn calls(experiment: &Experiment, instrument: Instrument) -> Result<Vec<Call>, String> {
    experiment.check_keys(known).map_err(|fault| fault.to_string())?;
    let plan = experiment.plan(Profile::Full, Some(&[instrument])).map_err(|fault| fault.to_string())?;
    plan.cells.iter().map(|cell| Call::of(&plan, cell, Files::default()).map_err(|fault| fault.to_string())).collect()
}

fn refused(base: &str, more: &str, instrument: Instrument) -> String {
    calls(&experiment(base, more), instrument).expect_err("it cannot work")
}

#[test]
fn a_cell_becomes_the_command_that_repeats_it() {
    let axis = "[[axis]]\nkey = \"batch\"\nvalues = [10, 400]\n[base.simulated]\nnetwork = \"us4\"\nclients_at = \"replicas\"\ncores = 2\n";
    let experiment = experiment("payload = 64\nwarmup = \"1s\"", axis);
    let real = calls(&experiment, Instrument::Real).expect("it is sound");
    assert_eq!(real[0].command_line(), "quorate bench --batch 10 --payload 64 --warmup 1s");
    assert_eq!(real[0].repetition(2).command_line(), "quorate bench --batch 10 --payload 64 --seed 3 --warmup 1s");
    let simulated = calls(&experiment, Instrument::Simulated).expect("it is sound");
    assert_eq!(
        simulated[1].command_line(),
        "quorate sim --batch 400 --payload 64 --warmup 1s --cores 2 --network us4 --clients-at replicas"
    );
}

#[test]
fn cores_that_the_machine_lacks_are_an_obstacle_and_no_error() {
    let axis = "[[axis]]\nkey = \"cores\"\nvalues = [0, 1, 1024]\n";
    let experiment = experiment("payload = 0", axis);
    let obstacles = |instrument| -> Vec<bool> {
        let calls = calls(&experiment, instrument).expect("it is sound");
        calls.iter().map(|call| call.obstacle().is_some_and(|why| why.contains("1024 are more than the"))).collect()
    };
    assert_eq!(obstacles(Instrument::Real), [false, false, true]);
    assert_eq!(obstacles(Instrument::Simulated), [false; 3]);
}

#[test]
fn a_deployed_cell_is_a_benchmark_on_the_hosts_of_a_file() {
    let text = |base: &str| {
        format!("title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"deployed\"]\n[base]\n{base}")
    };
    let one = |base: &str, hosts: Option<&str>| {
        let experiment = quorate_lab::experiments::read(&text(base), "mine.toml", vocabulary()).expect("it is sound");
        experiment.check_keys(known).map_err(|fault| fault.to_string())?;
        let plan = experiment.plan(Profile::Full, None).map_err(|fault| fault.to_string())?;
        let files = Files { hosts, ..Files::default() };
        Call::of(&plan, &plan.cells[0], files).map_err(|fault| fault.to_string())
    };
    let call = one("replicas = 7\nrate = 100", Some("no-such.toml")).expect("it is sound");
    let expected = "quorate bench --replicas 7 --rate 100 --host deployed --hosts no-such.toml";
    assert_eq!(call.command_line(), expected);
    let why = call.obstacle().expect("the file is missing");
    assert!(why.starts_with("--hosts no-such.toml: cannot be read: "), "{why}");
    let why = one("rate = 100", None).expect("it is sound").obstacle();
    assert_eq!(why.as_deref(), Some("there are no hosts; name them with --hosts"));
    for (base, expected) in [
        ("host = \"deployed\"", "`host` is no key of a specification"),
        ("cores = 2", "mine.toml, line 6, key `base.cores`: the only cell: --cores: hosts do not share cores"),
        ("fault = [\"slow:1@1s\"]", "has times of the load, which replicas on hosts do not know"),
    ] {
        let said = one(base, None).expect_err("hosts cannot run it");
        assert!(said.contains(expected), "{base}: {said}");
    }
}

#[test]
fn an_emulated_cell_is_a_benchmark_on_an_emulated_network() {
    let one = |base: &str| {
        let text = format!(
            "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"emulated\", \"simulated\"]\n[base]\n{base}"
        );
        let experiment =
            quorate_lab::experiments::read(&text, "mine.toml", vocabulary()).unwrap_or_else(|fault| panic!("{fault}"));
        calls(&experiment, Instrument::Emulated).map(|mut calls| calls.remove(0))
    };
    let call = one("transport = \"rudp\"\nnetwork = \"wan4\"\nloss = 0.01\ndelay_ms = 2.5").expect("it is sound");
    let expected = "quorate bench --transport rudp --seed 2 --host emulated --network wan4 --loss 0.01 --delay-ms 2.5";
    assert_eq!(call.repetition(1).command_line(), expected);
    // The test cannot know whether this process may create namespaces.
    assert!(call.obstacle().is_none_or(|why| why.starts_with("emulated networks: ")));
    for (base, expected) in [
        ("host = \"threads\"", "has no key `host`"),
        ("loss = 2", "line 6, key `base.loss`: write a fraction from 0 to 1"),
        ("delay_ms = -1", "line 6, key `base.delay_ms`: write milliseconds from 0"),
        ("network = \"world12\"\nclients_at = \"one\"", "has no key `clients_at`"),
        ("network = \"nowhere\"", "line 6, key `base.network`: cannot read nowhere"),
        ("fault = [\"hostile:flood\"]", "needs the simulator"),
    ] {
        let error = one(base).expect_err("it cannot work");
        assert!(error.contains(expected) && error.contains("help: "), "{base}: {error}");
    }
}

#[test]
fn scenarios_are_calls_of_twins_and_of_the_museum() {
    let text = |base: &str| {
        let text =
            format!("title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"scenarios\"]\n[base]\n{base}");
        quorate_lab::experiments::read(&text, "mine.toml", vocabulary()).unwrap_or_else(|fault| panic!("{fault}"))
    };
    let one = |base: &str| calls(&text(base), Instrument::Scenarios).map(|mut calls| calls.remove(0));
    let run = one("protocol = \"pbft\"\none_way = true\nsample = 50\nseed = 7").expect("it is sound");
    let expected = "quorate twins run --save=/dev/null --one-way --protocol=pbft --sample=50 --seed=9";
    assert_eq!((run.repetition(2).command_line().as_str(), run.obstacle()), (expected, None));
    let museum = one("exhibit = \"3\"\nmax_scenarios = 10\nseed = 7").expect("it is sound");
    assert_eq!(museum.command_line(), "quorate museum --exhibit=3 --max-scenarios=10");
    assert_eq!(museum.obstacle().is_some(), !quorate_lab::twins::museum::IS_BUILT);
    for (base, expected) in [
        ("sample = 0", "line 6, key `base.sample`"),
        ("replicas = 4\nrounds = 9", "draw some with --sample"),
        ("replicas = 3\nfaults = 1\nsample = 5", "mine.toml"),
        ("exhibit = \"1\"\nsample = 5", "line 7, key `base.sample`"),
        ("save = \"x\"", "`save` is no key of a specification"),
    ] {
        let error = one(base).expect_err("it cannot work");
        assert!(error.contains(expected) && error.contains("help: "), "{base}: {error}");
    }
}

#[test]
fn keys_belong_to_instruments() {
    let error = refused("batc = 10", "", Instrument::Real);
    assert!(
        error.starts_with("mine.toml, line 6, key `base.batc`") && error.contains("did you mean `batch`?"),
        "{error}"
    );
    let error = refused("network = \"us4\"", "", Instrument::Simulated);
    assert!(error.contains("line 6") && error.contains("[base.simulated]"), "{error}");
    let error = refused("clients_at = \"replicas\"", "", Instrument::Real);
    let (what, help) =
        ("the instrument real has no key `clients_at`", "write it in [base.simulated], or leave real out");
    assert!(error.contains(what) && error.contains(help), "{error}");
    for key in ["json", "report", "record", "seeds"] {
        let error = refused(&format!("{key} = \"x\""), "", Instrument::Real);
        assert!(error.contains(&format!("`{key}` is no key of a specification")), "{error}");
    }
}

#[test]
fn a_wrong_value_is_refused_where_it_stands() {
    let cases = [
        ("payload = 0\nbatch = \"many\"", "", "mine.toml, line 7, key `base.batch`"),
        ("protocol = \"joltean\"", "", "did you mean \"jolteon\"?"),
        ("replicas = 3\nfaults = 1", "", "mine.toml, line 6, key `base.replicas`"),
        ("", "[[axis]]\nkey = \"batch\"\nvalues = [0, 400]", "mine.toml, line 7, key `axis[1]`"),
        ("", "[base.simulated]\nloss = 1.5", "line 8, key `base.simulated.loss`: write a fraction from 0 to 1"),
        ("", "[base.simulated]\nnetwork = \"nowhere\"", "line 8, key `base.simulated.network`: cannot read nowhere"),
        (
            "",
            "[base.simulated]\nclients_at = \"nowhere.toml\"",
            "key `base.simulated.clients_at`: cannot read nowhere.toml",
        ),
        (
            "",
            "[base.simulated]\nclients_at = \"ohio\"",
            "line 8, key `base.simulated.clients_at`: --clients-at: names the",
        ),
        ("", "[base.simulated]\nsignatures = \"true\"", "line 8, key `base.simulated.signatures`"),
    ];
    for (base, more, expected) in cases {
        let error = refused(base, more, Instrument::Simulated);
        assert!(error.contains(expected), "{base} {more}\n{error}");
        assert!(error.contains("; help: "), "{error}");
    }
}

#[test]
fn faults_that_only_the_simulator_knows_are_refused_for_real_replicas() {
    let faults = experiment("payload = 0\nfault = [\"hostile:flood\"]", "");
    assert_eq!(calls(&faults, Instrument::Simulated).expect("it is sound").len(), 1);
    let error = calls(&faults, Instrument::Real).expect_err("it cannot work");
    assert!(error.contains("mine.toml, line 7, key `base.fault`") && error.contains("needs the simulator"), "{error}");
}
