//! `quorate model`: evaluates the closed forms, and prints the answer.

use crate::Outcome;
use quorate_lab::model::{self, Answers, ModelArgs};
use quorate_operator::output::Outputs;

/// Answers the question, or a sweep's questions.
pub fn run(arguments: &ModelArgs) -> Outcome {
    let outputs =
        Outputs::open(&[("--json", arguments.json.as_deref()), ("--report", arguments.report.as_deref())], &[])?;
    let answers = model::answer(arguments)?;
    let report = match (&answers, &arguments.report) {
        (Answers::Swept(swept), Some(_)) => {
            let command: Vec<String> = std::env::args().skip(1).collect();
            model::page(swept, arguments.protocol, &command)?
        }
        _ => String::new(),
    };
    outputs.show(&answers, &[("--report", &|| report.clone())])
}
