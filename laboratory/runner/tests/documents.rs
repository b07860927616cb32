//! The tables of `docs/RESULTS.md` match the program's declarations.

use quorate_runner::reference::with_tables;
use std::fs;
use std::path::Path;

#[test]
fn the_tables_of_results_are_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RESULTS.md");
    let page = fs::read_to_string(&path).expect("it is there");
    let expected = with_tables(&page).unwrap_or_else(|error| panic!("docs/RESULTS.md: {error}"));
    if std::env::var("QUORATE_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &expected).expect("it can be written");
        return;
    }
    let help = "run QUORATE_GOLDEN=write cargo test -p quorate-runner --test tests documents";
    assert!(page == expected, "docs/RESULTS.md differs from the declarations; {help}");
}

#[test]
fn a_page_without_a_table_or_with_an_unknown_one_is_refused() {
    assert!(with_tables("text\n").expect_err("it has no table").contains("lacks the tables"));
    assert!(
        with_tables("<!-- table nonsense -->\n<!-- end -->\n").expect_err("nobody declares it").contains("nonsense")
    );
    assert!(with_tables("<!-- table line -->\n").expect_err("it has no end").contains("has no <!-- end -->"));
}
