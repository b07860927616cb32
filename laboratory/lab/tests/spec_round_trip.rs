//! Conversions between a spec, its file and its command, in both directions.

use clap::{Args, Command, FromArgMatches};
use proptest::prelude::*;
use quorate_adversary::byzantine::behaviours::Slow;
use quorate_adversary::copies::CopyRules;
use quorate_lab::spec::{
    AuthProfile, BatchPolicy, BatchSize, BenchArgs, BenchSpec, BlsVerification, CertificateCache, ClientAuthentication,
    ClientVerdicts, ClusterArgs, DEFAULT_OUTSTANDING, DEFAULT_TESTNET_CHANNEL, DEFAULT_TESTNET_CLIENT_AUTHENTICATION,
    DEFAULT_TESTNET_PORT, Dissemination, Fault, Fsync, Host, Interval, JournalKind, LoadArgs, MAX_INTERVAL_MS, Pacing,
    PayloadPath, ProtocolKind, Rate, Record, ReplyAuthentication, ReplyMode, Reproduction, Retention, SchemeKind,
    TortureArgs, ViewDuration, VotesTo, When, WorkloadKind, keys_of_reproduction,
};
use quorate_types::{MAX_REPLICA_THREADS, ReplicaId, ReplicaThreads};
use std::path::Path;

fn parse<T: Args + FromArgMatches>(words: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(Command::new("quorate").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(words)?)
}

fn bench(words: &[&str]) -> BenchSpec {
    parse::<BenchArgs>(words).unwrap_or_else(|e| panic!("{words:?}: {e}")).0
}

/// Temporary file, removed on drop.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> TempFile {
        let path = std::env::temp_dir().join(format!("quorate-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("the temporary directory is writable");
        TempFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of ASCII")
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Splits a line like a POSIX shell, for words quoted with `'` and `\`.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut inside, mut quoted) = (Vec::new(), String::new(), false, false);
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            '\'' => (inside, quoted) = (!inside, true),
            '\\' if !inside => word.push(characters.next().expect("a backslash escapes a character")),
            ' ' if !inside => {
                if quoted || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                quoted = false;
            }
            c => word.push(c),
        }
    }
    assert!(!inside, "an open quote in {line}");
    if quoted || !word.is_empty() {
        words.push(word);
    }
    words
}

fn any_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

/// Records one of the first four replicas, or all.
fn record() -> impl Strategy<Value = Option<Record>> {
    let place = (prop::option::of(0..4u16), "[a-z]{1,5}:?[^\u{0}\\p{Cc}]{0,12}");
    prop::option::of(place.prop_map(|(replica, path)| Record { replica: replica.map(ReplicaId), path }))
}

/// Rates with and without a unit.
fn line_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![(1u32..5000).prop_map(|tenths| Rate(f64::from(tenths) * 1e8)), (1e-3..1e14).prop_map(Rate)]
}

fn workload() -> impl Strategy<Value = WorkloadKind> {
    let file = "[^\u{0}\\p{Cc}]{1,20}".prop_map(|path| WorkloadKind::File(path.into()));
    prop_oneof![
        Just(WorkloadKind::Fixed),
        Just(WorkloadKind::YcsbA),
        Just(WorkloadKind::YcsbB),
        Just(WorkloadKind::YcsbC),
        Just(WorkloadKind::YcsbF),
        file,
    ]
}

fn slow(when: When) -> Fault {
    Fault::Misbehave([ReplicaId(1)].into_iter().collect(), Slow { percent: 80 }.into(), when)
}

/// At most one fault of each kind, each on a different replica, none of which stops the cluster: all valid.
fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let interval = |ms| Interval::from_millis(ms);
    let when = prop::option::of((0u64..900, prop::option::of((1u64..900, prop::option::of(1u64..900)))));
    let when = when.prop_map(move |when| match when {
        None => When::ALWAYS,
        Some((at, rest)) => When {
            at: Some(interval(at)),
            lasts: rest.map(|(lasts, _)| interval(lasts)),
            every: rest.and_then(|(lasts, off)| Some(interval(lasts + off?))),
        },
    });
    let slow = prop::option::of(when.prop_map(slow));
    let crash = prop::option::of((0u64..900).prop_map(|ms| Fault::Crash(ReplicaId(2), Interval::from_millis(ms))));
    let back =
        (0u64..900, 0u64..5000).prop_map(move |(at, away)| Fault::Restart(ReplicaId(3), interval(at), interval(away)));
    (slow, crash, prop::option::of(back))
        .prop_map(|(slow, crash, back)| slow.into_iter().chain(crash).chain(back).collect())
}

fn transferable() -> Vec<SchemeKind> {
    SchemeKind::ALL.iter().copied().filter(|kind| kind.profile().transferable).collect()
}

prop_compose! {
    fn cluster()(
        protocol in any_of(ProtocolKind::ALL), replicas in 4u32..50,
        scheme in prop::sample::select(transferable()), auth_profile in any_of(AuthProfile::ALL),
        mac_scheme in any_of(&[SchemeKind::HMAC_SHA256, SchemeKind::AES_256_CMAC]),
        leader in any::<prop::sample::Index>(), batch in proptest::option::of(1u32..60_000),
        vote_wait_us in 0u64..5000, dissemination in any_of(Dissemination::ALL), view_timeout_ms in 200u64..100_000,
        view_duration in any_of(ViewDuration::ALL), base_port in 0u16..60_000, some_faults in any::<bool>(),
        client_authentication in any_of(ClientAuthentication::ALL),
        reply_authentication in any_of(ReplyAuthentication::ALL), checkpoint_interval in 1u64..8000,
        more_slots in 0u64..300, pipeline in any::<prop::sample::Index>(), to_all in any::<bool>(),
    ) -> BenchSpec {
        let window = 2 * checkpoint_interval + more_slots;
        let pipeline = 1 + pipeline.index(window as usize) as u64;
        let faults = some_faults.then_some((replicas as usize - 1) / 3);
        let leader = *leader.get(protocol.leaders());
        let votes = if to_all && protocol.is_chained() { VotesTo::All } else { VotesTo::Collector };
        let collects = votes == VotesTo::Collector && !protocol.has_slots() && !protocol.facts().optimistic_proposals;
        let vote_wait_us = if collects { vote_wait_us } else { 0 };
        // MACs on votes exist in one protocol only.
        let auth_profile = if protocol.facts().shows_votes { AuthProfile::Pk } else { auth_profile };
        let client_authentication = match (auth_profile, client_authentication) {
            (AuthProfile::Pk | AuthProfile::Domain, ClientAuthentication::Mac) => ClientAuthentication::Ed25519,
            (_, fits) => fits,
        };
        let reply_authentication = match (client_authentication, scheme.profile().unforgeable) {
            (ClientAuthentication::None, _) if reply_authentication == ReplyAuthentication::Mac => {
                ReplyAuthentication::Channel
            }
            (_, false) if reply_authentication == ReplyAuthentication::Signature => ReplyAuthentication::Channel,
            _ => reply_authentication,
        };
        let by_macs = auth_profile.votes_by_mac() || reply_authentication == ReplyAuthentication::Mac;
        let mac_scheme = if by_macs { mac_scheme } else { SchemeKind::HMAC_SHA256 };
        let mut spec = BenchSpec { replicas, base_port, ..BenchSpec::default() };
        let node = &mut spec.node;
        node.auth_profile = auth_profile;
        node.mac_scheme = mac_scheme;
        node.accept_weak_scheme = scheme.profile().weakness.is_some();
        node.faults = faults;
        node.scheme = scheme;
        node.client_authentication = client_authentication;
        node.reply_authentication = reply_authentication;
        let consensus = &mut node.consensus;
        consensus.protocol = protocol;
        consensus.leader = leader;
        consensus.votes = votes;
        consensus.batch = batch.map_or(BatchSize::Auto, BatchSize::Commands);
        consensus.vote_wait_us = vote_wait_us;
        consensus.dissemination = dissemination;
        consensus.view_timeout_ms = view_timeout_ms;
        consensus.view_duration = view_duration;
        consensus.checkpoint_interval = checkpoint_interval;
        consensus.window = window;
        consensus.pipeline = pipeline;
        spec
    }
}

prop_compose! {
    fn reproduction()(
        certificate_cache in any_of(CertificateCache::ALL), bls_verification in any_of(BlsVerification::ALL),
        client_verdicts in any_of(ClientVerdicts::ALL),
        payload_path in any_of(PayloadPath::ALL), count_allocations in any::<bool>(), repeat in 0usize..3,
    ) -> Reproduction {
        let copies = CopyRules { repeat, ..CopyRules::default() };
        Reproduction { certificate_cache, bls_verification, client_verdicts, payload_path, count_allocations, copies }
    }
}

prop_compose! {
    fn spec()(
        base in cluster(), workload in workload(), payload in 0u32..1_000_000, records in 1u64..1_000_000,
        clients in 1u32..1000,
        open in any::<bool>(), outstanding in 1u32..10_000, rate in 1u64..1_000_000, bundle in 1u32..60_000,
        reply in any_of(ReplyMode::ALL), warmup in 0..=MAX_INTERVAL_MS, duration in 1000..=MAX_INTERVAL_MS,
        seed in 0..=i64::MAX as u64, host in any_of(Host::ALL), journal in prop::option::of(any_of(JournalKind::ALL)),
        fsync in any_of(Fsync::ALL), fault in faults(),
        reproduction in reproduction(), batch_policy in any_of(BatchPolicy::ALL),
        batch_wait_ms in 0u64..50, stages in any::<bool>(), line_rate in line_rate(),
        execution_threads in 1u16..=64,
        replica_threads in proptest::option::of(1..=MAX_REPLICA_THREADS),
        samples in 0u32..=100_000, json in prop::option::of("[^\u{0}]{1,12}"), record in record(),
        record_limit_mb in 1u64..1000, report in prop::option::of("[^\u{0}]{1,12}"),
    ) -> BenchSpec {
        // The bytes in flight are limited, too.
        let most = ((256 << 20) / (payload + 64) / clients).max(1);
        let (warmup, duration) = (Interval::from_millis(warmup), Interval::from_millis(duration));
        let (outstanding, rate) = ((!open).then_some(outstanding.min(most)), open.then_some(rate));
        let mut spec = BenchSpec {
            workload, payload, records, clients, bundle, samples, seed, host, journal, fault, json, report, record,
            record_limit_mb, line_rate, outstanding, rate, warmup, duration, ..base
        };
        let node = &mut spec.node;
        node.reply = reply;
        node.journal.fsync = fsync;
        node.reproduction = reproduction;
        (node.consensus.batch_policy, node.consensus.batch_wait_ms) = (batch_policy, batch_wait_ms);
        node.stages = stages;
        node.execution_threads = execution_threads;
        node.replica_threads = replica_threads.map_or(ReplicaThreads::Auto, ReplicaThreads::Count);
        spec
    }
}

proptest! {
    #[test]
    fn the_command_reproduces_the_spec(spec in spec()) {
        let line = spec.command_line();
        let words = shell_words(&line);
        prop_assert_eq!(&words[..2], &["quorate", "bench"]);
        let flags: Vec<&str> = words[2..].iter().map(String::as_str).collect();
        prop_assert_eq!(bench(&flags), spec, "{}", line);
    }

    #[test]
    fn the_file_of_a_cell_reproduces_the_spec(spec in spec()) {
        let text = spec.to_toml();
        let read = BenchSpec::of_cell(&text, "bench.toml");
        prop_assert_eq!(read.map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?, spec);
    }

    #[test]
    fn json_reproduces_the_spec(spec in spec()) {
        let text = serde_json::to_string(&spec).expect("a spec is plain data");
        prop_assert_eq!(serde_json::from_str::<BenchSpec>(&text).expect("what was written"), spec);
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC{0,60}") {
        let _ = BenchSpec::from_toml(&text, "bench.toml");
        let _ = BenchSpec::from_toml(&format!("fault = [\"{text}\"]"), "bench.toml");
        let _ = (text.parse::<Interval>(), text.parse::<Fault>(), text.parse::<WorkloadKind>());
        let _ = parse::<BenchArgs>(&[&text]);
        let _ = parse::<BenchArgs>(&["--fault", &text]);
    }

    #[test]
    fn intervals_are_written_as_they_are_read(ms in 0..=MAX_INTERVAL_MS) {
        let interval = Interval::from_millis(ms);
        prop_assert_eq!(interval.to_string().parse::<Interval>(), Ok(interval));
    }
}

#[test]
fn a_shell_parses_the_command_as_intended() {
    let spec = BenchSpec {
        report: Some("it's $HOME; \"a\" `b` \\ *\n-".into()),
        json: Some("-".into()),
        ..Default::default()
    };
    let script = spec.command_line().replacen("quorate bench", "printf '%s\\n--\\n'", 1);
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a POSIX shell");
    let words = String::from_utf8(output.stdout).expect("UTF-8");
    let words: Vec<&str> = words.split_terminator("\n--\n").collect();
    assert_eq!(bench(&words), spec);
}

#[test]
fn without_flags_the_spec_is_the_default() {
    let spec = bench(&[]);
    assert_eq!(spec, BenchSpec::default());
    assert_eq!(spec.command_line(), "quorate bench");
    assert_eq!(BenchSpec::from_toml("", "empty.toml").expect("an empty file is the default"), spec);
    assert_eq!(spec.pacing(), Pacing::Closed { outstanding: DEFAULT_OUTSTANDING });
    assert_eq!((spec.quorum().replicas(), spec.quorum().faults()), (4, 1));
    assert_eq!(spec.bundle_commands(), 100);
}

#[test]
fn defaults_are_those_of_the_core() {
    assert_eq!(BenchSpec::default().consensus(), quorate_consensus::config::Config::default());
}

#[test]
fn the_window_reaches_the_core_up_to_its_maximum() {
    let flags = ["--protocol", "pbft", "--window", "16384", "--checkpoint-interval", "100", "--pipeline", "9"];
    let of_the_cluster = parse::<ClusterArgs>(&flags).expect("flags of the cluster").0;
    for spec in [bench(&flags), of_the_cluster] {
        let core = spec.consensus();
        assert_eq!((core.window, core.checkpoint_interval, core.pipeline), (16_384, 100, 9));
        assert!(spec.warnings().is_empty(), "{:?}", spec.warnings());
    }
    let in_vain = {
        let mut spec = BenchSpec::default();
        spec.node.consensus.window = 2000;
        spec.node.consensus.pipeline = 9;
        spec
    }
    .warnings();
    assert_eq!(in_vain, ["--pipeline: has no effect, because --protocol is jolteon"]);
    let checkpoints = {
        let mut spec = BenchSpec::default();
        spec.node.consensus.checkpoint_interval = 64;
        spec
    }
    .warnings();
    assert!(checkpoints.is_empty(), "every protocol has checkpoints: {checkpoints:?}");
}

#[test]
fn flags_that_take_the_effect_of_a_key_in_a_file_warn() {
    let file = TempFile::new("idle", "pipeline = 9\n");
    let alone = BenchSpec::from_file(Path::new(file.path())).expect_err("it has no effect").to_string();
    assert!(alone.contains("line 1, key `pipeline`: has no effect, because `protocol` is jolteon"), "{alone}");
    let varied = ["--protocol", "jolteon", "--spec", file.path()];
    let warnings = bench(&varied).warnings();
    assert_eq!(warnings, ["--pipeline: has no effect, because --protocol is jolteon"], "flags vary it");
    assert!(bench(&["--spec", file.path(), "--protocol", "pbft"]).warnings().is_empty());
}

#[test]
fn flags_override_the_file_and_the_file_overrides_the_defaults() {
    let file = TempFile::new("overlay", "batch = 800\npayload = 512\nfault = [\"slow:1\"]\n");
    let spec = bench(&["--payload", "16", "--spec", file.path()]);
    assert_eq!((spec.node.consensus.batch, spec.payload, spec.replicas), (800.into(), 16, 4));
    assert_eq!(spec.fault, [slow(When::ALWAYS)]);
    // A flag overrides the file even with the default value.
    assert_eq!(bench(&["--spec", file.path(), "--batch", "400"]).node.consensus.batch, 400.into());
}

#[test]
fn switches_are_keys_of_a_table_or_words_of_one_flag() {
    let file =
        TempFile::new("switches", "batch = 9\n[reproduction]\nbatch_policy = \"full\"\ncount_allocations = false\n");
    let switches = |arguments: &[&str]| {
        let node = bench(&[&["--spec", file.path()], arguments].concat()).node;
        (node.consensus.batch_policy, node.reproduction)
    };
    assert_eq!(switches(&[]), (BatchPolicy::Full, Reproduction::default()));
    let words =
        ["--reproduction", "payload_path=copied,count_allocations=true", "--reproduction", "batch_policy=timed"];
    let expected =
        Reproduction { payload_path: PayloadPath::Copied, count_allocations: true, ..Reproduction::default() };
    assert_eq!(switches(&words), (BatchPolicy::Timed, expected));
}

#[test]
fn a_result_with_the_former_switch_of_pbft_is_one_of_the_protocol_for_the_phases() {
    let read = |switch: bool| {
        let mut spec = serde_json::to_value(bench(&["--protocol", "pbft"])).expect("a spec is plain data");
        spec["reproduction"]["phases_only"] = switch.into();
        serde_json::from_value::<BenchSpec>(spec).expect("earlier results are read").node.consensus.protocol
    };
    assert_eq!((read(false), read(true)), (ProtocolKind::Pbft, ProtocolKind::PbftPhases));
}

#[test]
fn the_documentation_lists_the_switches() {
    let page = include_str!("../../../docs/EXPERIMENTS.md");
    let section = page.split("## Switches").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<&str> = rows.map(|(key, _)| key).collect();
    let mut listed = listed;
    listed.sort_unstable();
    assert_eq!(listed, keys_of_reproduction());
}

#[test]
fn a_flag_replaces_the_pacing_of_the_file() {
    let open = TempFile::new("open", "rate = 20000\n");
    assert_eq!(bench(&["--spec", open.path()]).pacing(), Pacing::Open { rate: 20_000 });
    assert_eq!(bench(&["--spec", open.path()]).outstanding, None);
    assert_eq!(bench(&["--spec", open.path(), "--outstanding", "7"]).pacing(), Pacing::Closed { outstanding: 7 });
    let closed = TempFile::new("closed", "outstanding = 5\n");
    assert_eq!(bench(&["--spec", closed.path(), "--rate", "9"]).pacing(), Pacing::Open { rate: 9 });
}

#[test]
fn faults_may_be_repeated_listed_or_joined() {
    let all = [Fault::Crash(ReplicaId(2), Interval::from_millis(4000)), slow(When::ALWAYS)];
    assert_eq!(bench(&["--fault", "crash:2@4s", "--fault", "slow:1"]).fault, all);
    assert_eq!(bench(&["--fault", "crash:2@4s", "slow:1"]).fault, all);
    let back = |away| [Fault::Restart(ReplicaId(2), Interval::from_millis(4000), Interval::from_millis(away))];
    assert_eq!(bench(&["--fault", "restart:2@4s"]).fault, back(1000));
    assert_eq!(bench(&["--fault", "restart:2@4s+500ms"]).fault, back(500));
    assert_eq!(bench(&["--fault", "crash:2@4s,slow:1"]).fault, all);
}

#[test]
fn faults_of_several_replicas_recur() {
    let seconds = |s: u64| Interval::from_millis(1000 * s);
    let when = When { at: Some(seconds(0)), lasts: Some(seconds(15)), every: Some(seconds(30)) };
    let replicas = [0, 1, 2, 3, 7, 9, 10].into_iter().map(ReplicaId).collect();
    let fault = Fault::Misbehave(replicas, Slow { percent: 200 }.into(), when);
    let text = "slow=200:0..4+7+9+10@0s+15s/30s";
    assert_eq!((text.parse(), fault.to_string().as_str()), (Ok(fault), text));
    let others =
        [("silent:0+1+2", "silent:0..3"), ("silent:3+1", "silent:1+3"), ("fork:0..2@1m+500ms", "fork:0+1@1m+500ms")];
    for (given, shown) in others {
        assert_eq!(given.parse::<Fault>().expect("a fault").to_string(), shown);
    }
    // Only an always silent replica counts as lost.
    let spec = |fault| bench(&["--replicas", "13", "--leader", "round-robin", "--fault", fault]);
    assert_eq!(spec("silent:0..4").silent().len(), 4);
    assert_eq!(spec("silent:0..4@0s+1s/2s").silent(), []);
}

#[test]
fn other_commands_accept_a_subset_of_the_flags() {
    let load = parse::<LoadArgs>(&["--payload", "16", "--rate", "100"]).expect("flags of the load").0;
    assert_eq!((load.payload, load.rate), (16, Some(100)));
    let refused = parse::<LoadArgs>(&["--replicas", "7"]).expect_err("a flag of the cluster").to_string();
    assert!(refused.contains("--replicas") && refused.contains("not a flag of the load"), "{refused}");
    let cluster = parse::<ClusterArgs>(&["--replicas", "7"]).expect("flags of the cluster").0;
    assert_eq!((cluster.replicas, cluster.base_port), (7, DEFAULT_TESTNET_PORT));
    assert_eq!(cluster.node.client_authentication, DEFAULT_TESTNET_CLIENT_AUTHENTICATION);
    assert_eq!(cluster.node.channel, DEFAULT_TESTNET_CHANNEL);
    assert_eq!(parse::<ClusterArgs>(&["--base-port", "9000"]).expect("a flag of the cluster").0.base_port, 9000);
}

#[test]
fn torture_keeps_given_values_and_has_its_own_defaults() {
    let kept = |flags: &[&str]| {
        let spec = parse::<TortureArgs>(flags).unwrap_or_else(|e| panic!("{flags:?}: {e}")).0;
        let Retention { window, checkpoint_interval, retained_blocks, retained_bytes } = Retention::of(&spec);
        (window, checkpoint_interval, retained_blocks, retained_bytes)
    };
    assert_eq!(kept(&[]), (64, 16, 64, 64 << 10));
    assert_eq!(kept(&["--checkpoint-interval", "8"]), (64, 8, 64, 64 << 10));
    assert_eq!(kept(&["--window", "32"]), (32, 16, 64, 64 << 10), "at least the default of torture");
    assert_eq!(kept(&["--checkpoint-interval", "100"]), (64, 100, 200, 200 << 10), "two checkpoints");
    assert_eq!(kept(&["--window", "1000", "--checkpoint-interval", "128"]), (1000, 128, 1000, 1000 << 10));
    // The defaults of bench and torture differ, so the values must be given.
    let file = TempFile::new("torture", "window = 1000\n");
    assert_eq!(kept(&["--spec", file.path()]), (1000, 16, 1000, 1000 << 10));
    assert_eq!(kept(&["--spec", file.path(), "--window", "64"]), (64, 16, 64, 64 << 10));
}

/// Returns a help text as one line.
fn help<T: Args>(command: Command) -> String {
    let text = T::augment_args(command).render_long_help().to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_help_of_a_command_shows_its_own_name_and_flags() {
    let load = help::<LoadArgs>(Command::new("load").about("Load a running cluster"));
    assert!(load.starts_with("Load a running cluster") && load.contains("--outstanding"), "{load}");
    assert!(!load.contains("--replicas"), "{load}");
    let torture = help::<TortureArgs>(Command::new("torture"));
    for words in
        ["at least 64 and those of 2 checkpoints, with 1 KiB", "fetches a state [default: 64]", "[default: 16]"]
    {
        assert!(torture.contains(words), "{words} is in {torture}");
    }
    let testnet = help::<ClusterArgs>(Command::new("testnet"));
    assert!(testnet.contains("replicas listen on [default: 7000]"), "{testnet}");
    assert!(
        testnet.contains("[default: 1000]") && testnet.contains("[default: 128]"),
        "as the bench has it: {testnet}"
    );
}

#[test]
fn bundles_fit_blocks_and_windows() {
    assert_eq!(bench(&["--batch", "50"]).bundle_commands(), 50);
    assert_eq!(bench(&["--clients", "1", "--outstanding", "1"]).bundle_commands(), 1);
    let large = bench(&["--payload", "1000000"]);
    assert!(large.bundle_commands() * 1_000_000 <= large.consensus().batch_bytes);
}
