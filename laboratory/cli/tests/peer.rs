//! `quorate peer`, with quorate itself as the other system.

use crate::common::*;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A recipe whose replicas and clients are processes of quorate. `PROGRAM`, `PORT` and the end of the script are
/// replaced.
const RECIPE: &str = r#"
repository = "https://example.org/peer"
revision = "0000000"
needs = []
build = "true"
keys = ["replicas", "clients", "outstanding"]
run = '''
PROGRAM testnet --dir "$LOGS/net" --replicas $REPLICAS --base-port PORT
for replica in $(seq 0 $((REPLICAS - 1))); do
  PROGRAM node --dir "$LOGS/net/replica-$replica" > "$LOGS/replica$replica.log" 2>&1 &
done
ln -s PROGRAM "$LOGS/load"
END
'''
clients = "load"

[[printed]]
figure = "throughput_per_s"
files = "result"
line = '"throughput_ops": {value},'
"#;

const LOAD: &str = r#""$LOGS/load" client --dir "$LOGS/net" load --clients $CLIENTS --outstanding $OUTSTANDING \
  --warmup 300ms --duration "$((RUN_SECONDS - 1))s" --json "$LOGS/result""#;

struct Peers {
    scratch: Scratch,
    recipe: String,
}

impl Peers {
    /// Writes a recipe with this end of its script, and a checkout.
    fn new(name: &str, end: &str) -> Peers {
        let scratch = Scratch::new(name);
        let program = env!("CARGO_BIN_EXE_quorate");
        let text = RECIPE.replace("END", end).replace("PROGRAM", &format!("'{program}'"));
        let recipe = scratch.path("own.toml");
        fs::write(&recipe, text.replace("PORT", &free_ports().to_string())).expect("the directory is writable");
        let checkout = scratch.path("sources/own");
        fs::create_dir_all(&checkout).expect("the directory is writable");
        for arguments in [
            &["init", "--quiet"][..],
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "--message", "one"],
        ] {
            let done = Command::new("git").arg("-C").arg(&checkout).args(arguments).status().expect("git is there");
            assert!(done.success(), "{arguments:?}");
        }
        Peers { scratch, recipe }
    }

    fn run(&self, more: &[&str]) -> std::process::Output {
        let sources = self.scratch.path("sources");
        let first = ["peer", "run", "--system", &self.recipe, "--sources", &sources, "--warmup", "500ms"];
        quorate(&[&first[..], &["--duration", "1s"], more].concat())
    }
}

const SHAPE: [&str; 6] = ["--replicas", "4", "--clients", "2", "--outstanding", "100"];

#[test]
fn a_peer_is_measured_and_stopped() {
    let peers = Peers::new("peer-measured", LOAD);
    let output = peers.run(&[&SHAPE[..], &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figure = |name: &str| result["figures"][name].as_f64().unwrap_or_else(|| panic!("{name}: {result}"));
    let parts = figure("replica_cpu_us_per_command") + figure("client_cpu_us_per_command");
    assert!((parts / figure("cpu_us_per_command") - 1.0).abs() < 1e-6, "{result}");
    assert!(figure("replica_cpu_us_per_command") > 0.0 && figure("throughput_per_s") > 0.0, "{result}");
    assert!(result["warnings"].to_string().contains("written for revision 0000000"), "{result}");
    // The replicas are no children of the script any more, and have ended nevertheless.
    let own = peers.scratch.path("sources");
    assert_eq!(processes_at(&own), Vec::<PathBuf>::new());
}

/// Returns the processes whose working directory is below a path.
fn processes_at(path: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|entry| fs::read_link(entry.join("cwd")).is_ok_and(|at| at.starts_with(path))).collect()
}

#[test]
fn a_peer_that_does_not_start_is_reported_with_its_words() {
    let peers = Peers::new("peer-broken", "echo 'no such option' >&2; exit 7");
    let output = peers.run(&SHAPE);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("its script ended before a client ran, with exit status: 7"), "{said}");
    assert!(said.contains("no such option"), "{said}");
}

#[test]
fn a_peer_that_fails_under_load_is_reported() {
    let peers = Peers::new("peer-fails", "\"$LOGS/load\" client --dir /nowhere load");
    let said = text(&peers.run(&SHAPE).stderr);
    assert!(said.contains("its script ") && said.contains("/nowhere"), "{said}");
}

#[test]
fn wrong_calls_are_refused() {
    let peers = Peers::new("peer-refused", LOAD);
    let said = |output: std::process::Output| {
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(said(peers.run(&[])).contains("is missing, which"));
    assert!(said(peers.run(&[&SHAPE[..], &["--rate", "5"]].concat())).contains("--rate: has no effect"));
    let absent = ["peer", "run", "--system", "libhotstuff", "--sources", "/nowhere", "--batch", "400"];
    let absent = quorate(&[&absent[..], &SHAPE].concat());
    assert!(said(absent).contains("call the commands of `quorate peer show libhotstuff`"));
    let shown = text(&succeeds(&["peer", "show", "libhotstuff"]).stdout);
    assert!(shown.contains("git clone https://github.com/hot-stuff/libhotstuff libhotstuff"), "{shown}");
}

/// A cell of an experiment names its system; a system without source is not measurable.
#[test]
fn experiments_have_cells_of_peers() {
    let peers = Peers::new("peer-cells", LOAD);
    let (recipe, absent) = (&peers.recipe, peers.scratch.path("absent.toml"));
    fs::copy(recipe, &absent).expect("the directory is writable");
    let experiment = format!(
        "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"real\"]
[base]
replicas = 4
clients = 2
outstanding = 100
warmup = \"500ms\"
duration = \"1s\"
[[axis]]
name = \"row\"
together = [
    {{ at = \"here\", system = \"quorate\", protocol = \"pbft\" }},
    {{ at = \"peer\", system = \"{recipe}\", protocol = \"pbft\" }},
    {{ at = \"absent\", system = \"{absent}\", protocol = \"pbft\" }},
]
[repeat]
min = 2
max = 2
[[plot]]
kind = \"bars\"
title = \"CPU\"
x = \"row\"
y = \"cpu_us_per_command\"
[[claim]]
id = \"completes\"
text = \"Commands complete.\"
kind = \"bound\"
figure = \"throughput_per_s\"
min = 1
",
    );
    let (file, dir) = (peers.scratch.path("mine.toml"), peers.scratch.path("dir"));
    fs::write(&file, experiment).expect("the directory is writable");
    let sources = peers.scratch.path("sources");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["lab", "run", &file, "--dir", &dir, "--json", "-"]).env("QUORATE_PEERS", &sources);
    let output = command.output().expect("the binary runs");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let rows = result["rows"].as_array().expect("there are rows").clone();
    let row = |at: &str| rows.iter().find(|row| row["cell"]["row"] == at).unwrap_or_else(|| panic!("{at}: {result}"));
    for at in ["here", "peer"] {
        let figure = |name: &str| row(at)["figures"][name].as_f64().unwrap_or_default();
        assert!(figure("throughput_per_s") > 0.0 && figure("cpu_us_per_command") > 0.0, "{at}: {}", row(at));
    }
    assert!(row("absent")["not_measurable"].as_str().is_some_and(|why| why.contains("quorate peer show")));
    let origin = &row("peer")["provenance"];
    assert!(origin["command"].as_str().is_some_and(|command| command.starts_with("quorate peer run --system=")));
    assert!(origin["surroundings"]["build"].as_str().is_some_and(|build| build.contains("own")), "{origin}");
}
