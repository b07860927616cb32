//! Recipes of other systems, and the figures that are read from their output.

use quorate_lab::figures::vocabulary;
use quorate_lab::peers::{Line, Member, PeerLoad, Recipe, figures_of};
use quorate_lab::spec::Interval;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A recipe whose replicas and clients print nothing by themselves.
const RECIPE: &str = r#"
repository = "https://example.org/peer"
revision = "0123abc"
needs = ["make"]
build = "make"
keys = ["replicas", "clients"]
run = "true"
clients = "client"

[completed]
files = "client"
line = "{time} [info] {latency_s}"

[[printed]]
figure = "view_timeouts"
files = "replica"
line = "timeouts: {value}"
added = true

[[printed]]
figure = "bytes_per_command"
files = "replica"
line = "sent {value} kB"
factor = 1000
"#;

fn parse(text: &str) -> Result<Recipe, String> {
    Recipe::parse(text, "peer.toml", &vocabulary()).map_err(|fault| fault.to_string())
}

fn load() -> PeerLoad {
    PeerLoad {
        system: "peers/own.toml".to_owned(),
        replicas: Some(4),
        payload: None,
        batch: None,
        clients: Some(2),
        outstanding: None,
        rate: None,
        warmup: Interval::from_millis(1000),
        duration: Interval::from_millis(2000),
    }
}

#[test]
fn shipped_recipes_are_valid_and_show_how_to_build() {
    let names: Vec<&str> = Recipe::names().collect();
    assert!(names.len() >= 2, "{names:?}");
    for name in names {
        let recipe = Recipe::named(name, &vocabulary()).expect("it is valid");
        let shown = recipe.commands(name);
        assert!(shown.contains(&format!("git checkout {}", recipe.revision)), "{shown}");
    }
    let error = Recipe::named("hotstuf", &vocabulary()).expect_err("there is none").to_string();
    assert!(error.contains("libhotstuff"), "{error}");
}

#[test]
fn wrong_recipes_are_refused_with_the_key() {
    for (from, to, expected) in [
        ("0123abc", "main", "revision: is `main`, not the digits of a commit"),
        ("\"clients\"]", "\"cliens\"]", "keys: `cliens` is no key of a load"),
        ("{time} ", "", "completed.line: lacks {time} or a latency"),
        ("{latency_s}", "{latency}", "completed.line: lacks {time} or a latency"),
        ("\"view_timeouts\"", "\"timeouts\"", "printed.figure: `timeouts` is no figure"),
        ("{value} kB", "{number} kB", "printed.line: lacks {value}"),
        ("factor = 1000", "factor = -1", "printed.line: lacks {value}, or its factor is not above 0"),
        ("{value} kB", "{value kB", "a brace is not closed"),
        ("needs", "need", "unknown field `need`"),
    ] {
        assert!(RECIPE.contains(from), "{from}");
        let error = parse(&RECIPE.replacen(from, to, 1)).expect_err("it is wrong");
        assert!(error.starts_with("peer.toml") && error.contains(expected), "{error}, expected {expected}");
    }
}

#[test]
fn a_load_sets_exactly_the_keys_of_the_recipe() {
    let recipe = parse(RECIPE).expect("it is valid");
    load().fit(&recipe).expect("it fits");
    let refused = |load: PeerLoad| load.fit(&recipe).expect_err("it does not fit").to_string();
    assert!(refused(PeerLoad { rate: Some(5), ..load() }).starts_with("--rate: has no effect"));
    assert!(refused(PeerLoad { clients: None, ..load() }).starts_with("--clients: is missing"));
    assert!(refused(PeerLoad { clients: Some(0), ..load() }).contains("is 0"));
    assert_eq!(load().name(), "own");
    assert_eq!(load().source(Some(PathBuf::from("all"))), PathBuf::from("all/own"));
}

#[test]
fn a_line_yields_its_fields() {
    let line = Line::parse("{time} [hotstuff info] {latency_s}").expect("it is valid");
    let text = "2026-11-27 10:59:58.250000 [hotstuff info] 0.012500";
    assert_eq!(line.number("latency_s", text), Some(0.0125));
    assert_eq!(line.time_of_day(text), Some(10.0 * 3600.0 + 59.0 * 60.0 + 58.25));
    assert_eq!(line.number("latency_s", "2026-11-27 10:59:58 [hotstuff proto] 0.01"), None);
    let json = Line::parse(r#""At":{time}}{rest}"Latency":{latency_ms},{more}"Count":{count}}"#).expect("it is valid");
    let text =
        r#"{"Event":  {"ID": 1,"At":  "2026-11-27T11:02:09.5Z"}, "Latency":  551.5, "Variance": 3,"Count": "1602"}"#;
    assert_eq!(json.number("latency_ms", text), Some(551.5));
    assert_eq!(json.number("count", text), Some(1602.0));
    assert_eq!(json.time_of_day(text), Some(11.0 * 3600.0 + 2.0 * 60.0 + 9.5));
    let grouped = Line::parse("TPS: {value} tx/s").expect("it is valid");
    assert_eq!(grouped.number("value", " Consensus TPS: 520,600 tx/s"), Some(520_600.0));
    for wrong in ["{a}{b}", "{}", "plain", "{a"] {
        assert!(Line::parse(wrong).is_err(), "{wrong}");
    }
}

/// Writes the files below a directory of this test, and returns them by name.
fn files(dir: &str, texts: &[(&str, Vec<u8>)]) -> BTreeMap<String, PathBuf> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(dir);
    std::fs::create_dir_all(&dir).expect("the directory is writable");
    let write = |(name, text): &(&str, Vec<u8>)| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("the file is writable");
        ((*name).to_owned(), path)
    };
    texts.iter().map(write).collect()
}

#[test]
fn only_commands_of_the_window_count() {
    // Two clients around midnight: a command each 100 ms for 5 s. Latency is 10 ms in the window, otherwise 50 ms.
    let clock =
        |ms: u64| format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    let start = 24 * 3_600_000 - 1500;
    let of_client = |offset: u64| -> String {
        let line = |at: u64| {
            let latency = if (1000..3000).contains(&at) { 0.01 } else { 0.05 };
            format!("2026-11-27 {} [info] {latency}\n", clock(start + at))
        };
        (0..50).map(|index| line(index * 100 + offset)).collect()
    };
    let texts = [
        ("client0.log", of_client(0).into_bytes()),
        ("client1.log", of_client(50).into_bytes()),
        ("replica0.log", b"timeouts: 2\nsent 1 kB\n".to_vec()),
        ("replica1.log", b"timeouts: 3\n\xff\xfe\nsent 3 kB\n".to_vec()),
    ];
    let recipe = parse(RECIPE).expect("it is valid");
    let second = Duration::from_secs(1);
    let figures = figures_of(&recipe, &files("peers-window", &texts), second, second * 2);
    let expected = [
        ("bytes_per_command", 2000.0),
        ("completed_commands", 40.0),
        ("mean_ms", 10.0),
        ("p50_ms", 10.0),
        ("p99_ms", 10.0),
        ("throughput_per_s", 20.0),
        ("view_timeouts", 5.0),
    ];
    let names: Vec<&str> = figures.keys().map(String::as_str).collect();
    assert_eq!(names, expected.map(|(name, _)| name));
    for (name, value) in expected {
        assert!((figures[name] - value).abs() < 1e-6, "{name}: {} instead of {value}", figures[name]);
    }
}

#[test]
fn means_of_several_commands_are_weighted() {
    let recipe = parse(&RECIPE.replacen("{latency_s}", "{latency_s} of {count}", 1)).expect("it is valid");
    let text = "10:00:00 [info] 0.5 of 9\n10:00:01 [info] 0.010 of 100\n10:00:02 [info] 0.040 of 200\n\
        10:00:02.5 [info] 0 of 0\n";
    let second = Duration::from_secs(1);
    let figures =
        figures_of(&recipe, &files("peers-means", &[("client", text.as_bytes().to_vec())]), second, second * 2);
    assert_eq!((figures["completed_commands"], figures["throughput_per_s"]), (300.0, 150.0));
    assert!((figures["mean_ms"] - 30.0).abs() < 1e-6, "{figures:?}");
    assert!(!figures.contains_key("p50_ms"), "a mean has no percentiles");
}

#[test]
fn processes_are_read_from_the_kernels_text() {
    let stat = "4711 (a (b) c) S 12 4711 4711 0 -1 4194304 100 0 0 0 250 50 7 7 20 0 1 0 100 1000 10";
    let member = Member::parse(stat, 100.0).expect("it is valid");
    assert_eq!((member.id, member.name.as_str(), member.cpu), (4711, "a (b) c", Duration::from_secs(3)));
    assert!(member.runs("a (b) c") && !member.runs("a"));
    let long = Member::parse("1 (hotstuff-client) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0", 100.0).expect("it is valid");
    assert!(long.runs("hotstuff-client-of-a-peer"), "Linux keeps 15 bytes of a name");
    assert_eq!(Member::parse("nonsense", 100.0), None);
}
