//! The README shows the same counter that is compiled.

const README: &str = include_str!("../../../README.md");
const COUNTER: &str = include_str!("../../../examples/counter/src/main.rs");

#[test]
fn the_readme_quotes_the_counter() {
    let quoted = README.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("it has Rust code");
    let start = COUNTER.find("#[derive").expect("the example has a state");
    assert_eq!(quoted, &COUNTER[start..], "help: copy the example from its first `#[derive` on");
}
