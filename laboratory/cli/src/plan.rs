//! `quorate plan`: computes the hardware that a load needs, and prints the answer.

use crate::Outcome;
use quorate_lab::plan::{self, PlanCommand};
use quorate_operator::output::Outputs;

/// Answers the question.
pub fn run(command: &PlanCommand) -> Outcome {
    let (json, report) = (command.outputs().json.as_deref(), command.outputs().report.as_deref());
    let outputs = Outputs::open(&[("--json", json), ("--report", report)], &[])?;
    let plan = command.plan()?;
    let page = match report {
        None => String::new(),
        Some(_) => plan::page(&plan, &std::env::args().skip(1).collect::<Vec<String>>())?,
    };
    outputs.show(&plan, &[("--report", &|| page.clone())])
}
