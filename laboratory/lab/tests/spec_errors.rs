//! Error messages of specs: the flag or key, the problem, and the remedy.

use clap::{Args, Command, FromArgMatches};
use quorate_lab::spec::{BenchArgs, BenchSpec, Host, JournalKind, SpecError, TortureArgs};

fn refused<T: Args + FromArgMatches>(words: &[&str]) -> String {
    let command = T::augment_args(Command::new("quorate").no_binary_name(true));
    let parsed = command.try_get_matches_from(words).and_then(|matches| T::from_arg_matches(&matches).map(|_| ()));
    let error = parsed.expect_err("a wrong call");
    assert_eq!(error.exit_code(), 2, "a wrong call exits with 2");
    error.to_string()
}

/// Checks that the error for these arguments contains each part.
fn check(words: &[&str], parts: &[&str]) {
    check_of::<BenchArgs>(words, parts);
}

fn check_of<T: Args + FromArgMatches>(words: &[&str], parts: &[&str]) {
    let message = refused::<T>(words);
    for part in parts {
        assert!(message.contains(part), "{words:?} should contain `{part}`, but is:\n{message}");
    }
}

#[test]
fn a_wrong_name_lists_the_names_and_suggests_one() {
    check(&["--protocol", "jolton"], &["--protocol", "jolton", "chained-hotstuff", "fast-hotstuff", "'jolteon'"]);
    check(&["--leader", "round_robin"], &["--leader", "fixed", "reputation", "'round-robin'"]);
    check(&["--workload", "ycsb-e"], &["--workload", "ycsb-f", "file:PATH", "did you mean"]);
    check(&["--workload", "file:"], &["--workload", "unknown workload `file:`", "file:PATH"]);
}

#[test]
fn numbers_of_threads_are_checked() {
    for wrong in ["0", "65", "-2", "many", "1.5"] {
        check(&["--replica-threads", wrong], &["--replica-threads", "write `auto`", "from 1 to 64"]);
    }
    check_of::<TortureArgs>(&["--replica-threads", "0"], &["--replica-threads", "from 1 to 64"]);
}

#[test]
fn a_wrong_value_shows_the_valid_forms() {
    check(&["--duration", "10"], &["--duration", "the unit is missing", "500ms, 2s or 1m"]);
    check(&["--duration", "s"], &["--duration", "the number is missing"]);
    check(&["--warmup", "2h"], &["--warmup", "500ms, 2s or 1m"]);
    check(&["--warmup", "99999999999999999999s"], &["--warmup", "the longest is a week"]);
    check(&["--fault", "silent"], &["--fault", "which replica?", "silent:3", "crash:2@4s"]);
    check(&["--fault", "crash:2"], &["--fault", "when?", "crash:R@TIME"]);
    check(&["--fault", "crash:2@4"], &["--fault", "the unit is missing"]);
    check(&["--fault", "restart:2"], &["--fault", "when?", "restart:R@TIME+AWAY"]);
    check(&["--fault", "restart:2@4s+1"], &["--fault", "the unit is missing"]);
    check(&["--fault", "crash:2@4s+1s"], &["--fault", "`4s+1s`"]);
    check(&["--fault", "slow:x"], &["--fault", "`x` is not a replica"]);
    check(&["--fault", "slient:3"], &["--fault", "did you mean `silent`?"]);
    check(&["--fault", "slow=x:1"], &["--fault", "`x` is not a whole number"]);
    check(&["--fault", "fork=2:1"], &["--fault", "`fork` takes no parameter"]);
    check(&["--fault", "selective=9:1"], &["--fault", "names replica 9, but the last one is 3"]);
    check(&["--fault", "equivocate:1@10s"], &["--fault, --duration", "after the measured 10s"]);
    check(&["--fault", "silent:0..9"], &["`silent:0..9` names replica 8, but the last one is 3"]);
    check(&["--fault", "silent:2..2"], &["the range `2..2` is empty"]);
    check(&["--fault", "silent:0..300"], &["`300` is not a replica"]);
    check(&["--fault", "silent:1+x"], &["`x` is not a replica"]);
    check(&["--fault", "crash:1..3@1s"], &["`1..3` are several replicas", "each its own crash"]);
    check(&["--fault", "slow:1@1s+0s"], &["`0s` is never on"]);
    check(&["--fault", "slow:1@1s+2s/2s"], &["`2s/2s` is never off", "longer than 2s"]);
    check(&["--fault", "slow:1@1s/2s"], &["`1s/2s` is not a valid duration"]);
    check(&["--fault", "slow:1@1s+2s/"], &["`` is not a valid duration"]);
    check(&["--fault", "slow:0..2", "fork:1+3@1s+1s"], &["cannot both happen to replica 1"]);
    check(&["--faults", "silent:3"], &["did you mean `--fault silent:3`?"]);
    check(&["--max-queue-ms", "250"], &["--max-queue-ms", "no effect", "`client`", "help: leave it out"]);
    check(&["--dissemination", "leader", "--max-queue-ms", "9"], &["--max-queue-ms", "`leader`", "`replicas`"]);
    check(&["--dissemination", "replicas", "--max-queue-ms", "3600001"], &["--max-queue-ms: is 3600001"]);
    check(&["--vote-wait-us", "250001"], &["--vote-wait-us", "too long", "help: set at most 250000"]);
    check(&["--vote-wait-us", "1", "--votes", "all"], &["--vote-wait-us", "votes to `all`", "help: leave it out"]);
    check(&["--vote-wait-us", "1", "--protocol", "pbft"], &["--vote-wait-us", "pbft", "help: leave it out"]);
    check(&["--rate", "18446744073709551615"], &["--rate: is 18446744073709551615", "help: set 1 to"]);
    check(&["--seed", "18446744073709551615"], &["--seed: is 18446744073709551615", "help: set 0 to"]);
}

#[test]
fn a_replica_that_restarts_must_be_a_process() {
    let spec = BenchSpec { fault: vec!["restart:2@4s".parse().expect("a fault")], ..BenchSpec::default() };
    spec.validate().expect("a simulated one comes back");
    let message = spec.validate_real().expect_err("a thread does not").to_string();
    for part in ["--fault, --host", "`restart:2@4s`", "help: set --host processes"] {
        assert!(message.contains(part), "{message}");
    }
    let spec = BenchSpec { host: Host::Processes, ..spec };
    spec.validate_real().expect("a process does");
    let forgetful = BenchSpec { journal: Some(JournalKind::Memory), ..spec };
    let message = forgetful.validate_real().expect_err("it would contradict itself").to_string();
    for part in ["--fault, --journal", "forgets", "help: set --journal file"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn incompatible_values_are_refused_with_help() {
    check(&["--rate", "100", "--outstanding", "5"], &["--rate, --outstanding", "help: omit --outstanding"]);
    check(&["--replicas", "0"], &["--replicas", "not 0", "help: set 4"]);
    check(&["--replicas", "4", "--faults", "2"], &["--faults", "at least 7 are needed", "help: set --faults 1"]);
    check(&["--clients", "0"], &["--clients: is 0", "help: set 1 to"]);
    check(&["--line-rate", "0"], &["--line-rate: is 0; help: set a number of bits per second above 0"]);
    check(&["--line-rate", "-1G"], &["--line-rate: is -1000000000; help:"]);
    check(&["--line-rate", "10GB"], &["`10GB` is not a valid rate", "such as 10G"]);
    check(&["--execution-threads", "0"], &["--execution-threads: is 0; help: set 1 to 64"]);
    check(&["--execution-threads", "65"], &["--execution-threads: is 65; help: set 1 to 64"]);
    check(&["--batch", "0"], &["--batch: is 0; help: set 1 to 65536"]);
    check(&["--payload", "4194305"], &["--payload", "help: set 0 to 4194304"]);
    check(&["--base-port", "65534"], &["--base-port", "beyond 65535", "help: set a lower port"]);
    check(&["--fault", "silent:9"], &["--fault", "the last one is 3", "help: name a replica from 0 to 3"]);
    check(&["--fault", "silent:3", "silent:3"], &["--fault", "cannot both happen to replica 3", "help: keep one"]);
    let twice = &["--fault", "cannot both happen to replica 2", "help: keep one"];
    check(&["--fault", "restart:2@4s+2s", "restart:2@5s"], twice);
    check(&["--fault", "crash:2@1s", "restart:2@5s"], twice);
    check(&["--fault", "silent:2", "restart:2@5s"], twice);
    check(&["--fault", "crash:2@10s"], &["--fault, --duration", "after the measured 10s", "help: start it earlier"]);
    check(&["--fault", "silent:3", "silent:2"], &["--fault", "2 of 4 replicas are live", "help: remove"]);
    check(
        &["--protocol", "chained-hotstuff", "--leader", "round-robin", "--fault", "silent:3"],
        &[
            "--leader",
            "4 live leaders",
            "longest row of 4 is 3",
            "nothing will ever be",
            "votes to `all`",
            "`reputation`",
            "`jolteon`",
        ],
    );
    check(&["--protocol", "pbft", "--votes", "all"], &["--votes", "is `all`", "phases of pbft", "help: leave it out"]);
    let of_slots = |flags: &[&str], parts: &[&str]| check(&[&["--protocol", "pbft"], flags].concat(), parts);
    of_slots(&["--window", "0"], &["--window: is 0", "help: set 1 to 16384"]);
    of_slots(&["--window", "20000"], &["--window: is 20000", "help: set 1 to 16384"]);
    of_slots(&["--window", "250"], &["--window", "every 128 slots", "help: set at least twice"]);
    of_slots(&["--checkpoint-interval", "501"], &["--window", "every 501 slots", "help: set at least twice"]);
    of_slots(&["--pipeline", "1001"], &["--pipeline", "above the window of 1000", "help: set at most window"]);
    check(&["--checkpoint-interval", "18446744073709551615"], &["--checkpoint-interval", "help: set 1 to 8192"]);
    check(&["--pipeline", "18446744073709551615"], &["--pipeline", "help: set 1 to 16384"]);
    check(&["--record", ""], &["--record", "(where?)", "R:FILE"]);
    check(&["--record", "2:"], &["--record", "(where?)", "R:FILE"]);
    check(&["--record-limit-mb", "0"], &["--record-limit-mb: is 0", "help: set 1 to"]);
    check(&["--report", ""], &["--report: the path is empty", "help: name a file"]);
}

#[test]
fn torture_refuses_values_incompatible_with_its_defaults() {
    let of_torture = |flags: &[&str], parts: &[&str]| check_of::<TortureArgs>(flags, parts);
    let pbft = ["--protocol", "pbft"];
    let too_seldom = [&pbft[..], &["--checkpoint-interval", "100"]].concat();
    of_torture(&too_seldom, &["--window: the value is 64", "every 100 slots", "help: set at least twice"]);
    let too_few = [&pbft[..], &["--window", "20"]].concat();
    of_torture(&too_few, &["--window: the value is 20", "every 16 slots", "help: set at least twice"]);
    of_torture(&["--window", "0"], &["--window: is 0; help: set 1 to 16384"]);
    of_torture(&["--window", "16385"], &["--window: is 16385; help: set 1 to 16384"]);
    of_torture(&["--checkpoint-interval", "0"], &["--checkpoint-interval: is 0; help: set 1 to 8192"]);
    of_torture(&["--journal", "memory"], &["--journal", "not a flag of"]);
}

#[test]
fn two_chain_protocols_progress_with_one_silent_replica() {
    for protocol in ["jolteon", "fast-hotstuff"] {
        let text = format!("protocol = \"{protocol}\"\nleader = \"round-robin\"\nfault = [\"silent:3\"]\n");
        BenchSpec::from_toml(&text, "bench.toml").expect("it keeps committing");
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let spec = BenchSpec { clients: 0, records: 0, replicas: 300, ..BenchSpec::default() };
    let Err(SpecError::Impossible(problems)) = spec.validate() else { panic!("three problems") };
    let places: Vec<&str> = problems.iter().map(|problem| problem.place.as_str()).collect();
    assert_eq!(places, ["--clients", "--records", "--replicas"]);
    assert!(problems.iter().all(|problem| !problem.what.is_empty() && !problem.help.is_empty()));
}

/// Checks that the error for a file with this text names the file, the line and each part.
fn check_file(text: &str, line: usize, parts: &[&str]) {
    let message = BenchSpec::from_toml(text, "bench.toml").expect_err("a wrong file").to_string();
    let place = format!("bench.toml, line {line}");
    for part in parts.iter().copied().chain([place.as_str(), "help: "]) {
        assert!(message.contains(part), "should contain `{part}`, but is:\n{message}");
    }
}

#[test]
fn an_error_in_a_file_names_line_and_key() {
    check_file("batch = 400\nprotocl = \"jolteon\"\n", 2, &["key `protocl`", "did you mean `protocol`?"]);
    check_file("batch-bytes = 5000\n", 1, &["key `batch-bytes`", "did you mean `batch_bytes`?"]);
    check_file("zzz = 1\n", 1, &["key `zzz`", "use one of accept_weak_scheme, auth_profile"]);
    check_file("seed = 2\n\nprotocol = \"jolton\"\n", 3, &["key `protocol`", "jolton", "did you mean \"jolteon\"?"]);
    check_file("duration = \"10\"\n", 1, &["key `duration`", "the unit is missing", "500ms, 10s, 1m"]);
    check_file("duration = 10\n", 1, &["key `duration`", "500ms, 10s, 1m"]);
    check_file("replicas = \"four\"\n", 1, &["key `replicas`", "Number of replicas", "the default is 4"]);
    check_file("replicas = -4\n", 1, &["key `replicas`"]);
    check_file("batch = 400\nfault = [\n  \"slow:1\",\n  \"crash:2\",\n]\n", 2, &["key `fault`", "`crash:2`", "when?"]);
    check_file("batch = 400\nreplicas 4\n", 2, &["write `key = value`"]);
    check_file("batch = 1\nbatch = 2\n", 2, &[]);
    check_file("[cluster]\nreplicas = 4\n", 1, &["key `cluster`", "is not a key of a spec"]);
    check_file("rate = 1979-05-27\n", 1, &["key `rate`"]);
    check_file(
        "seed = 2\nbatch_policy = \"full\"\n",
        2,
        &["key `batch_policy`", "move it to the table [reproduction]"],
    );
    check_file("[reproduction]\nbatch_polic = \"full\"\n", 2, &["key `batch_polic`", "did you mean `batch_policy`?"]);
    check_file("[reproduction]\nbatch_policy = \"ful\"\n", 2, &["key `batch_policy`", "did you mean \"full\"?"]);
    check_file("[reproduction]\nphases_only = true\n", 2, &["key `phases_only`", "set `protocol` to `pbft-phases`"]);
    check_file("reproduction = 3\n", 1, &["key `reproduction`", "is not a table"]);
}

#[test]
fn switches_that_reproduce_papers_are_no_flags() {
    check(&["--batch-policy", "full"], &["--batch-policy", "not a flag", "--reproduction batch_policy=VALUE"]);
    check(&["--reproduction", "batch_policy"], &["--reproduction batch_policy", "KEY=VALUE", "payload_path=copied"]);
    check(&["--reproduction", "batch_polic=full"], &["`batch_polic`", "did you mean `batch_policy`?"]);
    check(&["--reproduction", "batch_policy=ful"], &["batch_policy=ful", "did you mean `full`?"]);
    check(&["--reproduction", "repeat=many"], &["repeat=many", "write a whole number from 0 to"]);
    check(&["--reproduction", "count_allocations=yes"], &["`yes`", "neither true nor false"]);
    check(&["--reproduction", "phases_only=true"], &["phases_only", "set `protocol` to `pbft-phases`"]);
    check_of::<TortureArgs>(&["--reproduction", "payload_path=copied"], &["--reproduction payload_path", "omit it"]);
}

#[test]
fn incompatible_values_in_a_file_are_refused() {
    let message = BenchSpec::from_toml("rate = 5\noutstanding = 5\n", "bench.toml").expect_err("both").to_string();
    assert!(message.contains("--rate, --outstanding"), "{message}");
}

#[test]
fn a_missing_file_is_named() {
    check(
        &["--spec", "/nowhere/at/all.toml"],
        &["--spec /nowhere/at/all.toml", "cannot be read", "help: give the path"],
    );
    check(&["--spec", "/"], &["--spec /", "help: "]);
}

#[test]
fn surprising_settings_cause_warnings() {
    let warnings = |text: &str| BenchSpec::of_cell(text, "bench.toml").expect("a valid spec").warnings().join("\n");
    assert_eq!(warnings(""), "");
    assert!(warnings("scheme = \"none\"").contains("baseline only"));
    assert!(
        warnings("batch = 400\noutstanding = 1\n[reproduction]\nbatch_policy = \"full\"")
            .contains("4 outstanding commands never fill")
    );
    assert!(warnings("batch = 400\nbundle = 500").contains("bundles hold 400"));
    let idle = warnings("[reproduction]\nbatch_policy = \"full\"");
    assert!(idle.contains("--reproduction batch_policy: has no effect, because --batch is auto"), "{idle}");
    assert!(warnings("quic_votes = \"datagrams\"").contains("--quic-votes: has no effect"));
    let crash = "protocol = \"simple-hotstuff\"\nleader = \"round-robin\"\nfault = [\"crash:2@4s\"]";
    assert!(warnings(crash).contains("after the crash"));
}

#[test]
fn a_file_is_refused_if_a_key_has_no_effect() {
    let text = "batch = 400\npipeline = 9\n\n[reproduction]\nbatch_wait_ms = 3\n";
    let error = BenchSpec::from_toml(text, "bench.toml").expect_err("it has no effect").to_string();
    let expected = "bench.toml, line 5, key `batch_wait_ms`: has no effect, because `batch_policy` is eager; help: \
                    leave it out, or set `batch_policy` to timed";
    assert_eq!(error, expected);
    let error = BenchSpec::from_toml("batch = 400\npipeline = 9\n", "bench.toml").expect_err("PBFT has it").to_string();
    let expected = "bench.toml, line 2, key `pipeline`: has no effect, because `protocol` is jolteon; help: leave it \
                    out, or set `protocol` to pbft or pbft-mac or pbft-phases";
    assert_eq!(error, expected);
}
