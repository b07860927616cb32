//! The example as a user runs it.

use std::process::Command;

#[test]
fn the_load_is_measured_and_an_account_is_read() {
    let output = Command::new(env!("CARGO_BIN_EXE_own-workload")).arg("1").output().expect("the program runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let (rate, rest) = printed.split_once(" transfers per second").expect("a rate");
    assert!(rate.parse::<f64>().expect("a number") > 0.0, "{printed}");
    assert!(rest.contains("\naccount-0 has "), "{printed}");
}
