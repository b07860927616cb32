//! Errors in a file name the file, the line, the key and the remedy.

use crate::common::{read, text};
use quorate_lab::experiments::{Instrument, Profile};

fn refusal(text: &str) -> String {
    read(text, "experiments/mine/x.toml").expect_err("it is refused").to_string()
}

/// Replaces or appends a part of a valid file, and expects an error that contains `parts`.
fn check(from: &str, to: &str, parts: &[&str]) {
    let sound = text("");
    assert!(from.is_empty() || sound.contains(from), "{from} is not in the file");
    let changed = if from.is_empty() { format!("{sound}\n{to}") } else { sound.replacen(from, to, 1) };
    let fault = refusal(&changed);
    assert!(fault.starts_with("experiments/mine/x.toml"), "{fault}");
    assert!(fault.contains("; help: "), "{fault}");
    for part in parts {
        assert!(fault.contains(part), "`{part}` is not in: {fault}");
    }
}

#[test]
fn unknown_keys_and_names_are_refused_with_the_nearest() {
    check("title =", "tittle =", &["line 2, key `tittle`", "did you mean `title`?"]);
    check("key = \"leader\"", "kee = \"leader\"", &["key `axis[2].kee`", "did you mean `key`?"]);
    check("\"simulated\", ", "\"simulate\", ", &["line 5, key `instruments[1]`", "did you mean `simulated`?"]);
    check("", "[profile.quik]", &["key `profile.quik`", "did you mean `quick`?"]);
    check("", "[profile.quick.axes]\nbatches = [1]", &["did you mean `batch`?"]);
    check("", "[profile.quick.repeat]\nmaximum = 1", &["did you mean `max`?"]);
    check(
        "",
        "[base.simulatd]\ncores = 1",
        &["is a table", "real, emulated, deployed, simulated, scenarios, analytical"],
    );
    check("", "outliers = \"iqr\"", &["key `repeat.outliers`"]);
}

#[test]
fn types_and_ranges_are_checked() {
    check("title = \"Batches\"", "title = 3", &["is of the type integer", "write text in \"quotes\""]);
    check("title = \"Batches\"", "title = \" \"", &["is empty"]);
    check("title = \"Batches\"\n", "", &["`title` is missing"]);
    check("instruments = [\"simulated\", \"real\"]", "instruments = []", &["is empty"]);
    check("instruments = [\"simulated\", \"real\"]", "instruments = [\"real\", \"real\"]", &["stands there twice"]);
    check("min = 2", "min = 0", &["line 21, key `repeat.min`", "0 is out of range", "from 1 to 1000"]);
    check("min = 2", "min = 9", &["max 5 is below min 9"]);
    check("min = 2", "min = 2\nuntil_interval_percent = 0", &["cannot be reached"]);
    check("replicas = 4", "replicas = nan", &["key `base.replicas`", "finite number"]);
    check("replicas = 4", "replicas = 99999999999999999999", &["key `base.replicas`", "out of range"]);
    check("replicas = 4", "replicas = 4\nbatch = 1", &["key `base.batch`", "is set by an axis, too"]);
    check("replicas = 4", "replicas = 4\n[base.real]\nbatch = 1", &["key `base.real.batch`", "is set by an axis, too"]);
    check("replicas = 4", "replicas = ", &["line 8"]);
    check("replicas = 4", "replicas = 4\nreplicas = 5", &["line 9", "duplicate key"]);
    check("key = \"leader\"", "key = \"batch\"", &["belongs to another axis"]);
    check("key = \"leader\"", "key = \"leader\"\nname = \"instrument\"", &["cannot be called `instrument`"]);
}

#[test]
fn profiles_are_checked() {
    check("", "[profile.quick]\ninstruments = [\"emulated\"]", &["does not run on the instrument `emulated`"]);
    check("", "[profile.quick.axes]\nbatch = []", &["there are no values"]);
    check("", "[profile.quick.axes]\nbatch = { from = 1 }", &["the axis has no values"]);
    check("", "[profile.quick.base]\nleader = \"fixed\"", &["is set by an axis, too"]);
}

/// Expects an error for a claim with these keys.
fn claim(keys: &str, parts: &[&str]) {
    let claim = format!("[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput_per_s\"\n{keys}");
    check("", &claim, parts);
}

#[test]
fn claims_that_cannot_fail_or_hold_are_refused() {
    claim("kind = \"bound\"", &["a bound without limits cannot fail", "key `claim[1]`"]);
    claim("kind = \"bound\"\nmin = 0", &["cannot fail"]);
    claim("kind = \"bound\"\nmax = -1", &["cannot hold"]);
    claim("kind = \"bound\"\nmin = 2\nmax = 1", &["min 2 is above max 1"]);
    let points = "numerator = { batch = 100 }\ndenominator = { batch = 200 }";
    claim(&format!("kind = \"ratio\"\n{points}"), &["a ratio without limits cannot fail"]);
    claim("kind = \"ratio\"\nmin = 1\nnumerator = { batch = 100 }\ndenominator = { batch = 100 }", &["are the same"]);
    claim(
        "kind = \"ratio\"\nmin = 1\nnumerator = { batch = 100 }\ndenominator = { leader = \"fixed\" }",
        &["different axes"],
    );
    claim(
        "kind = \"ratio\"\nmin = 1\nnumerator = { batch = 300 }\ndenominator = { batch = 100 }",
        &["`300` is no value"],
    );
    claim(
        "kind = \"ratio\"\nmin = 1\nnumerator = { batch = [100, 200] }\ndenominator = { batch = 400 }",
        &["several values"],
    );
    claim("kind = \"order\"\nby = \"leader\"\nvalues = [\"fixed\"]", &["one value has no order"]);
    claim("kind = \"order\"\nby = \"leader\"\nvalues = [\"fixed\", \"fixed\"]", &["cannot hold"]);
    claim("kind = \"order\"\nby = \"leader\"\nvalues = [\"fixed\", \"rotatin\"]", &["did you mean `rotating`?"]);
    let trend = "kind = \"trend\"\nalong = \"batch\"\ndirection = \"rises\"";
    claim(
        &format!("{trend}\nwhere = {{ batch = 100 }}"),
        &["no profile can judge it", "fewer than two values of batch"],
    );
    claim("kind = \"trend\"\nalong = \"batch\"\ndirection = \"flat\"", &["`tolerance_percent` is missing"]);
    claim("kind = \"trend\"\nalong = \"leader\"\ndirection = \"rises\"", &["`fixed`, which is no number"]);
    claim("kind = \"plateau\"\nalong = \"batch\"\nfrom = 100\nto = 100\nwithin_percent = 1", &["nothing lies between"]);
    claim(
        "kind = \"plateau\"\nalong = \"batch\"\nfrom = 100\nto = 150\nwithin_percent = 1",
        &["no profile can judge it"],
    );
    let saturation = "kind = \"saturation\"\nalong = \"batch\"\nrise_percent = 5";
    claim(saturation, &["a saturation point without limits cannot fail"]);
    claim(&format!("{saturation}\nmin = 100"), &["starts at 100, so the claim cannot fail"]);
    claim(&format!("{saturation}\nmin = 250\nmax = 350"), &["so the claim cannot hold"]);
    let crossing =
        "kind = \"crossing\"\nalong = \"batch\"\nfirst = { leader = \"fixed\" }\nsecond = { leader = \"rotating\" }";
    claim(&format!("{crossing}\nmin = 200"), &["needs either `above` or `below`"]);
    claim(&format!("{crossing}\nabove = 1"), &["a crossing without limits cannot fail"]);
    claim(&format!("{crossing}\nabove = 1\nmin = 1"), &["cannot fail"]);
}

#[test]
fn claims_name_what_there_is() {
    let bound = "kind = \"bound\"\nmin = 1";
    claim(&format!("{bound}\nwhere = {{ bach = 100 }}"), &["`bach` is no axis", "did you mean `batch`?"]);
    claim(&format!("{bound}\nwhere = {{ batch = 150 }}"), &["`150` is no value of the axis `batch`"]);
    claim(&format!("{bound}\nwhere = {{ leader = \"largest\" }}"), &["which is no number"]);
    claim(&format!("{bound}\nover = [\"batch\"]"), &["`over` and `take` go together"]);
    claim(&format!("{bound}\ninstrument = \"emulated\""), &["does not run on the instrument `emulated`"]);
    claim(&format!("{bound}\nalong = \"batch\""), &["`along` is no key here"]);
    claim("kind = \"bond\"\nmin = 1", &["did you mean `bound`?"]);
    let trend = "kind = \"trend\"\nalong = \"batch\"\ndirection = \"rises\"\nover = [\"batch\"]\ntake = \"max\"";
    claim(trend, &["reduced by `over` and named by the relation"]);
    let wrong = "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"throughput\"\nkind = \"bound\"\nmin = 1";
    check("", wrong, &["`throughput` is no figure", "did you mean `throughput_per_s`?"]);
    let one = "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"p50_ms\"\nkind = \"bound\"\nmin = 1\n";
    check("", &one.repeat(2), &["the id `c` stands there twice"]);
    check(
        "min = 2\nmax = 5",
        &format!("min = 1\nmax = 1\n{one}"),
        &["one repetition in the profile quick cannot decide it"],
    );
}

#[test]
fn plots_name_what_there_is() {
    let plot = |keys: &str, parts: &[&str]| check("", &format!("[[plot]]\ntitle = \"t\"\n{keys}"), parts);
    plot("kind = \"line\"\nx = \"batch\"\ny = \"p5_ms\"", &["key `plot[1].y`", "did you mean `p50_ms`?"]);
    plot("kind = \"line\"\nx = \"batches\"\ny = \"p50_ms\"", &["did you mean `batch`?"]);
    plot("kind = \"line\"\nx = \"batch\"\ny = [\"p50_ms\", \"p99_ms\"]", &["has several figures"]);
    plot("kind = \"seconds\"\nx = \"batch\"\ny = \"completed_per_s\"", &["means nothing in a seconds plot"]);
    plot("kind = \"heat\"\nx = \"batch\"\ny = \"leader\"", &["`value` is missing"]);
    plot("kind = \"line\"\ny = \"p50_ms\"", &["`x` is missing"]);
    plot("kind = \"line\"\nx = \"batch\"\ny = \"p50_ms\"\nwhere = { batch = 1 }", &["`1` is no value"]);
    let paper = |keys: &str, parts: &[&str]| check("", &format!("[[paper_value]]\n{keys}"), parts);
    paper("at = { bach = 1 }\nfigure = \"p50_ms\"\nvalue = 1\nsource = \"s\"", &["did you mean `batch`?"]);
    paper("at = { batch = 1 }\nfigure = \"p50_ms\"\nvalue = 1", &["`source` is missing"]);
}

#[test]
fn keys_of_specifications_are_checked_by_instrument() {
    let known = |instrument: Instrument| match instrument {
        Instrument::Real => vec!["replicas".to_owned(), "batch".into(), "leader".into()],
        Instrument::Simulated => vec!["replicas".to_owned(), "batch".into(), "leader".into(), "cores".into()],
        _ => Vec::new(),
    };
    let checked =
        |text: &str| read(text, "x.toml").expect("it is sound").check_keys(known).map_err(|fault| fault.to_string());
    assert_eq!(checked(&text("")), Ok(()));
    assert_eq!(checked(&text("[base.simulated]\ncores = 1")), Ok(()));
    let fault = checked(&text("").replace("replicas = 4", "replicas = 4\ncores = 1")).expect_err("real has no cores");
    assert!(fault.contains("line 9, key `base.cores`") && fault.contains("write it in [base.simulated]"), "{fault}");
    let fault = checked(&text("").replace("key = \"leader\"", "key = \"leadr\"")).expect_err("no such key");
    assert!(fault.contains("key `axis[2]`") && fault.contains("did you mean `leader`?"), "{fault}");
    let fault = checked(&text("[profile.quick.base.real]\nreplica = 1")).expect_err("no such key");
    assert!(
        fault.contains("key `profile.quick.base.real.replica`") && fault.contains("did you mean `replicas`?"),
        "{fault}"
    );
}

#[test]
fn places_are_known_to_the_runner() {
    let experiment = read(&text("[profile.quick.base]\nreplicas = 7"), "x.toml").expect("it is sound");
    let place = |profile, key| experiment.place_of(profile, Instrument::Real, key);
    assert_eq!(place(Profile::Full, "replicas"), "x.toml, line 8, key `base.replicas`");
    assert_eq!(place(Profile::Quick, "replicas"), "x.toml, line 24, key `profile.quick.base.replicas`");
    assert!(place(Profile::Full, "batch").contains("key `axis[1]`"));
    assert_eq!(place(Profile::Full, "payload"), "x.toml");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let sound = text(
        "[[claim]]\nid = \"c\"\ntext = \"t\"\nfigure = \"p50_ms\"\nkind = \"trend\"\n\
         along = \"batch\"\ndirection = \"rises\"",
    );
    // Every prefix, and every file with one line left out.
    for end in (0..sound.len()).filter(|end| sound.is_char_boundary(*end)) {
        let _ = read(&sound[..end], "x.toml");
    }
    let lines: Vec<&str> = sound.lines().collect();
    for left_out in 0..lines.len() {
        let text: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        let _ = read(&text.join("\n"), "x.toml");
    }
    let long = format!("title = \"{}\"", "x".repeat(1 << 20));
    assert!(refusal(&long).contains("bytes long, more than 1048576"));
    assert!(read(&"[".repeat(100_000), "x.toml").is_err());
}

#[test]
fn agreements_need_another_instrument_and_a_tolerance() {
    let claim = |keys: &str, parts: &[&str]| {
        let head = "[[claim]]\nid = \"c\"\ntext = \"t\"\nkind = \"agreement\"\nfigure = \"mean_ms\"";
        check("", &format!("{head}\n{keys}"), parts);
    };
    claim("within = 1", &["`with` is missing"]);
    claim("with = \"real\"", &["needs either `within` or `within_percent`"]);
    claim("with = \"real\"\nwithin = 1\nwithin_percent = 1", &["needs either `within` or `within_percent`"]);
    claim("with = \"real\"\nwithin = 0", &["set one of them above 0"]);
    claim("with = \"simulated\"\nwithin = 1", &["an instrument always agrees with itself"]);
    claim("with = \"emulated\"\nwithin = 1", &["does not run on the instrument `emulated`"]);
    claim("with = \"rael\"\nwithin = 1", &["did you mean `real`?"]);
    claim("with = \"real\"\nwithin = 1\nover = [\"batch\"]\ntake = \"max\"", &["means nothing in an agreement"]);
}

#[test]
fn plots_select_instruments_of_the_experiment() {
    let plot = "[[plot]]\nkind = \"line\"\ntitle = \"t\"\nx = \"batch\"\ny = \"mean_ms\"\n";
    let select = |what: &str| format!("{}{plot}where = {{ {what} }}\n", text(""));
    assert!(read(&select("instrument = \"real\""), "f.toml").is_ok());
    assert!(read(&select("instrument = [\"real\", \"simulated\"], batch = 100"), "f.toml").is_ok());
    let other = refusal(&select("instrument = \"emulated\""));
    assert!(other.contains("`emulated` is no instrument of the experiment") && other.contains("simulated"), "{other}");
    check("", &format!("{plot}where = {{ instruments = \"real\" }}"), &["batch, leader"]);
}
