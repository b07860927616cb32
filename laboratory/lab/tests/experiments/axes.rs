//! Expansion of axes into cells.

use crate::common::{experiment, plan, read};
use quorate_lab::experiments::axes::MAX_CELLS;
use quorate_lab::experiments::{Experiment, Instrument, Profile, Value};

const HEAD: &str = "title = \"t\"\npaper = \"mine\"\nabout = \"a\"\ninstruments = [\"real\", \"simulated\"]\n";

fn sound(rest: &str) -> Experiment {
    read(&format!("{HEAD}{rest}"), "f.toml").unwrap_or_else(|fault| panic!("{fault}"))
}

fn refusal(rest: &str) -> String {
    read(&format!("{HEAD}{rest}"), "f.toml").expect_err("it is refused").to_string()
}

/// Returns the values of an axis over the cells of the first instrument.
fn values(rest: &str, axis: &str) -> Vec<String> {
    let experiment = sound(rest);
    let plan = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has cells");
    plan.cells.iter().filter_map(|cell| cell.get(axis)).map(Value::to_string).collect()
}

#[test]
fn ranges() {
    assert_eq!(values("[[axis]]\nkey = \"n\"\nfrom = 4\nto = 16\nstep = 3", "n"), ["4", "7", "10", "13", "16"]);
    assert_eq!(values("[[axis]]\nkey = \"n\"\nfrom = 100\nto = 900\nfactor = 2", "n"), ["100", "200", "400", "800"]);
    assert_eq!(values("[[axis]]\nkey = \"p\"\nfrom = 0.1\nto = 0.4\nstep = 0.1", "p"), ["0.1", "0.2", "0.3", "0.4"]);
    assert_eq!(
        values("[[axis]]\nkey = \"p\"\nfrom = 0.0025\nto = 0.02\nfactor = 2", "p"),
        ["0.0025", "0.005", "0.01", "0.02"]
    );
    assert_eq!(values("[[axis]]\nkey = \"n\"\nfrom = 4\nto = 4\nstep = 1", "n"), ["4"]);
}

#[test]
fn impossible_ranges_are_refused() {
    let range = |text: &str| refusal(&format!("[[axis]]\nkey = \"n\"\n{text}"));
    assert!(range("from = 4\nto = 3\nstep = 1").contains("3 is below `from`"));
    assert!(range("from = 4\nto = 9\nstep = 0").contains("a step of 0 reaches nothing"));
    assert!(range("from = 0\nto = 9\nfactor = 2").contains("reaches nothing"));
    assert!(range("from = 1\nto = 9\nfactor = 1").contains("reaches nothing"));
    assert!(range("from = 1\nto = 9\nfactor = 2\nstep = 1").contains("either `step` or `factor`"));
    assert!(range("from = 1\nto = 9").contains("either `step` or `factor`"));
    assert!(range("").contains("the axis has no values"));
    assert!(range("values = []").contains("there are no values"));
    assert!(range("values = [1, 1.0]").contains("stands there twice"));
    assert!(range("from = 0\nto = 1e9\nstep = 1e-9").contains("more than 1000"));
    assert!(range("from = 1e300\nto = 2e300\nstep = 1e-300").contains("more than 1000"));
    assert!(range("values = [[1]]").contains("give each list a name"));
}

#[test]
fn keys_go_together() {
    let experiment = sound(
        "[[axis]]\ntogether = [{ protocol = \"pbft\", votes = \"all\" },\
         { protocol = \"jolteon\", votes = \"collector\", label = \"J\" }]",
    );
    let plan = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has cells");
    let labels: Vec<String> = plan.cells.iter().map(|cell| cell.label()).collect();
    assert_eq!(labels, ["protocol pbft, votes all", "protocol J, votes J"]);
    assert_eq!(plan.cells[1].specification["votes"].as_str(), Some("collector"));
    let unequal = refusal("[[axis]]\ntogether = [{ a = 1, b = 2 }, { a = 1 }]");
    assert!(unequal.contains("set a, b"), "{unequal}");
}

#[test]
fn a_named_axis_has_places_of_its_own() {
    let rest = "[[axis]]\nname = \"silent\"\ntogether = [\
                { at = 0, fault = [] }, { at = 2, fault = [\"silent:0\", \"silent:1\"], label = \"two\" }]\n\
                [profile.quick.axes]\nsilent = [2]";
    let experiment = sound(rest);
    let full = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has cells");
    assert_eq!(full.cells.iter().map(|cell| cell.label()).collect::<Vec<_>>(), ["silent 0", "silent two"]);
    assert_eq!(full.cells[1].values().into_iter().collect::<Vec<_>>(), [("silent".to_owned(), Value::Integer(2))]);
    assert_eq!(full.cells[1].specification["fault"].as_array().map(Vec::len), Some(2));
    let quick = experiment.plan(Profile::Quick, Some(&[Instrument::Real])).expect("it has cells");
    assert_eq!(quick.cells.iter().map(|cell| cell.label()).collect::<Vec<_>>(), ["silent two"]);
    assert!(
        refusal(&rest.replace("silent = [2]", "silent = [3]")).contains("3 is no value of the axis; help: use 0, two")
    );
}

#[test]
fn values_multiply_another_key() {
    let rest = "[[axis]]\nkey = \"batch\"\nvalues = [100, 400]\n\
                [[axis]]\nkey = \"outstanding\"\nname = \"load\"\ntimes = \"batch\"\nvalues = [20, 0.5]";
    let experiment = sound(rest);
    let plan = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has cells");
    let own: Vec<(String, i64)> = plan
        .cells
        .iter()
        .map(|cell| (cell.label(), cell.specification["outstanding"].as_integer().expect("a whole number")))
        .collect();
    let expected = [
        ("batch 100, load 20", 2000),
        ("batch 100, load 0.5", 50),
        ("batch 400, load 20", 8000),
        ("batch 400, load 0.5", 200),
    ];
    assert_eq!(own, expected.map(|(label, value)| (label.to_owned(), value)));
    assert!(refusal(&rest.replace("name = \"load\"\n", "")).contains("`name` of its own"));
    assert!(refusal(&rest.replace("times = \"batch\"", "times = \"bundle\"")).contains("set `bundle` in [base]"));
    assert!(refusal(&rest.replace("[20, 0.5]", "[\"a\"]")).contains("write numbers"));
    let chain = format!("{rest}\n[[axis]]\nkey = \"window\"\nname = \"w\"\ntimes = \"outstanding\"\nvalues = [1]");
    assert!(refusal(&chain).contains("is itself a multiple"), "{}", refusal(&chain));
}

#[test]
fn bases_are_merged_from_the_general_to_the_particular() {
    let experiment = sound(
        "[base]\na = 1\nb = 1\nc = 1\nd = 1\n[base.simulated]\nb = 2\nc = 2\nd = 2\n\
         [profile.quick.base]\nc = 3\na = 3\n[profile.quick.base.simulated]\nd = 4",
    );
    let own = |profile, instrument| {
        let plan = experiment.plan(profile, Some(&[instrument])).expect("it has cells");
        assert_eq!((plan.cells.len(), plan.cells[0].label()), (1, "the only cell".to_owned()));
        ["a", "b", "c", "d"].map(|key| plan.cells[0].specification[key].as_integer().expect("a number"))
    };
    assert_eq!(own(Profile::Full, Instrument::Real), [1, 1, 1, 1]);
    assert_eq!(own(Profile::Full, Instrument::Simulated), [1, 2, 2, 2]);
    assert_eq!(own(Profile::Quick, Instrument::Real), [3, 1, 3, 1]);
    // A key for one instrument takes precedence over a key for one profile.
    assert_eq!(own(Profile::Quick, Instrument::Simulated), [3, 2, 2, 4]);
}

#[test]
fn exclusions_leave_cells_out() {
    let axes =
        "[[axis]]\nkey = \"n\"\nvalues = [4, 7, 16]\n[[axis]]\nkey = \"leader\"\nvalues = [\"fixed\", \"rotating\"]\n";
    let experiment = sound(&format!(
        "{axes}[[exclude]]\nn = [7, 16]\nleader = \"fixed\"\n\
         [[exclude]]\ninstrument = \"real\"\nn = 16\nwhy = \"two cores\""
    ));
    let labels = |instrument| {
        let plan = experiment.plan(Profile::Full, Some(&[instrument])).expect("it has cells");
        plan.cells.iter().map(|cell| cell.label()).collect::<Vec<_>>()
    };
    assert_eq!(labels(Instrument::Real), ["n 4, leader fixed", "n 4, leader rotating", "n 7, leader rotating"]);
    assert_eq!(labels(Instrument::Simulated).len(), 4);
    assert!(refusal(&format!("{axes}[[exclude]]\nn = 8")).contains("`8` is no value of the axis `n`"));
    assert!(refusal(&format!("{axes}[[exclude]]\nm = 8")).contains("`m` is no axis"));
    assert!(refusal(&format!("{axes}[[exclude]]\nwhy = \"x\"")).contains("excludes every cell"));
    assert!(refusal(&format!("{axes}[[exclude]]\nn = [4, 7, 16]")).contains("has no cells"));
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let axis = |name: &str| format!("[[axis]]\nkey = \"{name}\"\nfrom = 1\nto = 999\nstep = 1\n");
    let axes: String = ["a", "b", "c", "d", "e", "f", "g"].map(axis).concat();
    let fault = refusal(&axes);
    assert!(fault.contains(&format!("more than {MAX_CELLS}")) && fault.contains("a has 999 values"), "{fault}");
}

#[test]
fn series_alternate_and_every_other_repetition_goes_backwards() {
    let more = "[[plot]]\nkind = \"line\"\ntitle = \"t\"\nx = \"leader\"\ny = \"throughput_per_s\"\nseries = \"batch\"";
    let experiment = experiment(more);
    let plan = plan(&experiment);
    let labels: Vec<String> = plan.cells.iter().map(|cell| cell.label()).collect();
    // The series is the first axis, yet varies fastest.
    assert_eq!(labels[..3], ["batch 100, leader fixed", "batch 200, leader fixed", "batch 400, leader fixed"]);
    let turns = plan.turns();
    assert_eq!(turns.len(), 16);
    assert_eq!(turns[..8].iter().map(|(_, cell)| *cell).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(turns[8..].iter().map(|(_, cell)| *cell).collect::<Vec<_>>(), (0..8).rev().collect::<Vec<_>>());
    assert!(turns[8..].iter().all(|(repetition, _)| *repetition == 1));
}

#[test]
fn a_cell_is_found_by_its_coordinates() {
    let experiment = experiment("");
    let plan = plan(&experiment);
    for (at, cell) in plan.cells.iter().enumerate() {
        assert_eq!(plan.find(Instrument::Simulated, &cell.values()), Some(at));
        assert_eq!(plan.find(Instrument::Real, &cell.values()), None);
    }
}

#[test]
fn one_key_may_have_two_places() {
    let rest = "[[axis]]\ntogether = [{ at = { kind = \"silent\", count = 1 }, fault = [\"silent:0\"] },\
                { at = { count = 1, kind = \"fork\" }, fault = [\"fork:0\"], label = \"one\" }]\n";
    let experiment = sound(rest);
    assert_eq!(experiment.coordinates(), ["kind", "count"]);
    let plan = experiment.plan(Profile::Full, Some(&[Instrument::Real])).expect("it has cells");
    let labels: Vec<String> = plan.cells.iter().map(|cell| cell.label()).collect();
    assert_eq!(labels, ["kind silent, count 1", "kind fork, count one"]);
    assert!(refusal(&rest.replace("count = 1, kind = \"fork\"", "kind = \"fork\"")).contains("`count` is missing"));
    assert!(refusal(&rest.replace("{ count = 1, ", "{ many = 1, ")).contains("`many` is no key here"));
    assert!(refusal(&rest.replace("[[axis]]\n", "[[axis]]\nname = \"n\"\n")).contains("leave `name` of the axis out"));
    let picked = format!("{rest}[profile.quick.axes]\n\"kind+count\" = [1]");
    assert!(refusal(&picked).contains("write the tables of the values to keep"), "{}", refusal(&picked));
    let ranged = format!("{rest}[profile.quick.axes]\n\"kind+count\" = {{ from = 1, to = 2, step = 1 }}");
    assert!(refusal(&ranged).contains("write a list of their places"), "{}", refusal(&ranged));
}

#[test]
fn a_claim_may_name_a_value_that_is_still_to_come() {
    let rest = "[[axis]]\nkey = \"scheme\"\nvalues = [\"ed25519\"]\nnot_yet = [\"bls\"]\n[[claim]]\nid = \"c\"\n\
                text = \"t\"\nkind = \"order\"\nfigure = \"p50_ms\"\nby = \"scheme\"\nvalues = [\"ed25519\", \"bls\"]";
    let experiment = sound(rest);
    let plan = experiment.plan(Profile::Full, None).expect("it has cells");
    assert_eq!(plan.cells.len(), 2);
    let judgement = quorate_lab::experiments::judge(&plan, &[]).remove(0);
    assert_eq!(judgement.verdict, quorate_lab::experiments::Verdict::NotMeasurable);
    assert!(judgement.measured.contains("scheme bls is not there yet"), "{}", judgement.measured);
    assert!(refusal(&rest.replace("not_yet = [\"bls\"]\n", "")).contains("`bls` is no value of the axis `scheme`"));
    assert!(refusal(&rest.replace("not_yet = [\"bls\"]", "not_yet = [\"ed25519\"]")).contains("is there already"));
}

/// Returns the value of a key in the cells of an instrument.
fn settings(experiment: &Experiment, instrument: Instrument, key: &str) -> Vec<Option<String>> {
    let plan = experiment.plan(Profile::Full, Some(&[instrument])).expect("it has cells");
    plan.cells.iter().map(|cell| cell.specification.get(key).map(ToString::to_string)).collect()
}

#[test]
fn values_that_go_together_may_have_keys_for_one_instrument() {
    let axis = "[[axis]]\nname = \"silent\"\ntogether = [\n\
                { at = 0, replicas = 4, real = { silent = 0 }, simulated = { fault = \"none\" } },\n\
                { at = 1, replicas = 6, real = { silent = 1 }, simulated = { fault = \"silent:3\" } },\n]";
    let experiment = sound(axis);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(settings(&experiment, Instrument::Real, "silent"), [text("0"), text("1")]);
    assert_eq!(settings(&experiment, Instrument::Real, "fault"), [None, None]);
    assert_eq!(settings(&experiment, Instrument::Simulated, "fault"), [text("\"none\""), text("\"silent:3\"")]);
    assert_eq!(settings(&experiment, Instrument::Simulated, "replicas"), [text("4"), text("6")]);
    let lacking = refusal(&axis.replace(", simulated = { fault = \"silent:3\" }", ""));
    assert!(lacking.contains("does not set the same keys") && lacking.contains("silent, fault"), "{lacking}");
    let twice = refusal(&axis.replace("real = { silent = 0 }", "real = { silent = 0, replicas = 5 }"));
    assert!(twice.contains("`replicas` stands there for all instruments, and for one"), "{twice}");
    let based = refusal(&format!("[base.real]\nsilent = 3\n{axis}"));
    assert!(based.contains("is set by an axis, too"), "{based}");
}

#[test]
fn values_that_go_together_take_the_rest_for_keys_that_they_leave_out() {
    let axis = "[[axis]]\nname = \"row\"\nrest = { replicas = 4, payload = 0 }\ntogether = [\n\
                { at = \"plain\" },\n{ at = \"large\", payload = 512 },\n]";
    let experiment = sound(axis);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(settings(&experiment, Instrument::Real, "replicas"), [text("4"), text("4")]);
    assert_eq!(settings(&experiment, Instrument::Real, "payload"), [text("0"), text("512")]);
    let other = refusal(&axis.replace("payload = 512", "bundle = 1"));
    assert!(other.contains("does not set the same keys") && other.contains("replicas, payload"), "{other}");
}

#[test]
fn an_exclusion_keeps_what_it_names_after_unless() {
    let text = "[[axis]]\nkey = \"n\"\nvalues = [4, 7, 10]\n[[axis]]\nkey = \"loss\"\nvalues = [0, 0.1]\n\
                [[exclude]]\ninstrument = \"simulated\"\nunless = { n = [4, 7], loss = 0.1 }";
    let experiment = sound(text);
    let plan = |instrument| experiment.plan(Profile::Full, Some(&[instrument])).expect("it has cells").cells;
    let kept: Vec<String> = plan(Instrument::Simulated).iter().map(|cell| cell.label()).collect();
    assert_eq!(kept, ["n 4, loss 0.1", "n 7, loss 0.1"]);
    assert_eq!(plan(Instrument::Real).len(), 6);
    let unknown = refusal(&text.replace("loss = 0.1 }", "lost = 0.1 }"));
    assert!(unknown.contains("did you mean `loss`?"), "{unknown}");
    let other = refusal(&text.replace("loss = 0.1 }", "loss = 0.3 }"));
    assert!(other.contains("0.3"), "{other}");
}
