//! Instruction counts held against earlier ones.

use crate::common::{Scratch, row};
use quorate_operator::report::Report;
use quorate_runner::instructions::{Counts, FIGURE};

fn counts(build: &str, values: &[(i64, f64)]) -> Counts {
    let rows: Vec<_> = values.iter().map(|(batch, value)| row(*batch, 0, &[(FIGURE, *value)])).collect();
    Counts::of(&rows, build.to_owned())
}

#[test]
fn repetitions_are_averaged_and_rows_without_the_figure_count_nothing() {
    let rows = [row(1, 0, &[(FIGURE, 100.0)]), row(1, 1, &[(FIGURE, 104.0)]), row(2, 0, &[("p50_ms", 1.0)])];
    let counts = Counts::of(&rows, "b".to_owned());
    assert_eq!(counts.instructions_per_command.into_iter().collect::<Vec<_>>(), [("1, fixed".to_owned(), 102.0)]);
}

#[test]
fn a_path_above_the_limit_fails_and_one_below_does_not() {
    let before = counts("b", &[(1, 1000.0), (2, 1000.0), (3, 1000.0)]);
    let risen = counts("b", &[(1, 1019.0), (2, 1021.0), (3, 500.0)]).since(Some(&before));
    let failure = risen.failure().expect("one path has risen");
    assert!(failure.starts_with("2, fixed takes more instructions (limit 2 %)"), "{failure}");
    assert!(counts("b", &[(1, 1019.0), (2, 980.0), (3, 1.0)]).since(Some(&before)).failure().is_none());
    let lost = counts("b", &[(1, 1000.0), (2, 1000.0)]).since(Some(&before));
    assert!(lost.failure().expect("a path is gone").starts_with("3, fixed was not counted"));
}

#[test]
fn counts_of_unlike_builds_are_not_compared() {
    let before = counts("rustc 1", &[(1, 1000.0)]);
    let now = counts("rustc 2", &[(1, 2000.0), (2, 1.0)]).since(Some(&before));
    assert!(now.failure().is_none());
    assert!(now.to_table().contains("not compared: this build is rustc 2, the earlier counts are of rustc 1"));
}

#[test]
fn a_file_is_read_as_it_was_written_and_another_is_refused() {
    let scratch = Scratch::new("instructions");
    let path = scratch.0.join("counts.json");
    let written = counts("b", &[(1, 1000.0)]);
    written.write(&path).expect("written");
    assert_eq!(Counts::read(&path).expect("read"), written);
    std::fs::write(&path, "{}").expect("written");
    let error = Counts::read(&path).expect_err("it holds no counts").to_string();
    assert!(error.contains("holds no counts") && error.contains("lab instructions --write"), "{error}");
}
