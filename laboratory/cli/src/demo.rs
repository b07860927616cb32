//! `quorate demo`: runs a cluster through faults and narrates them.

use crate::live::Live;
use clap::Args;
use quorate_lab::Event;
use quorate_lab::bench::{Progress, Watcher};
use quorate_lab::demo::{self, SCENES, Scene};
use quorate_lab::spec::{ChannelKind, TransportKind, choice};
use quorate_operator::output::{self, Outputs};
use std::error::Error;

/// Flags of `quorate demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// Transport of messages.
    #[arg(long, default_value = "tcp", value_parser = choice::<TransportKind>())]
    transport: TransportKind,
    /// Channel that protects messages in transit.
    #[arg(long, default_value = "plain", value_parser = choice::<ChannelKind>())]
    channel: ChannelKind,
    /// Write the report, an HTML page, to this file; - is standard output.
    #[arg(long, value_name = "PATH.html", default_value = "quorate-demo.html")]
    report: String,
    /// Write the result as JSON to this file; - is standard output.
    #[arg(long, value_name = "PATH")]
    json: Option<String>,
}

/// Maximum width of a sentence, in columns.
const WIDTH: usize = 100;
/// Indentation of the lines of a sentence.
const INDENT: &str = "           ";

/// Runs the demonstration. Returns an error if a check fails.
pub fn run(arguments: &DemoArgs) -> Result<(), Box<dyn Error>> {
    let mut spec = demo::spec();
    (spec.node.transport, spec.node.channel) = (arguments.transport, arguments.channel);
    spec.validate()?;
    spec.json.clone_from(&arguments.json);
    spec.report = Some(arguments.report.clone());
    let outputs = Outputs::open(&[("--json", spec.json.as_deref()), ("--report", spec.report.as_deref())], &[])?;
    let mut narrator = Narrator { live: Live::new(), told: 0 };
    narrator.say(&format!(
        "{} replicas, each a process with its journal on disk, order commands with {} over {} ({}). Of {0}, {} may be \
         Byzantine.",
        spec.replicas,
        spec.node.consensus.protocol.name(),
        spec.node.transport,
        spec.node.channel,
        spec.quorum().faults(),
    ));
    let outcome = demo::run(&spec, &mut narrator);
    narrator.live.clear();
    let outcome = outcome?;
    outputs.show(&outcome, &[])
}

/// Prints scenes above the live view as they begin.
struct Narrator {
    live: Live,
    told: usize,
}

impl Narrator {
    fn say(&self, sentence: &str) {
        self.live.clear();
        let (mut line, mut lines) = (String::from(INDENT), Vec::new());
        for word in sentence.split_whitespace() {
            if line.len() + word.len() > WIDTH {
                lines.push(std::mem::replace(&mut line, INDENT.into()));
            }
            line = line + " " + word;
        }
        lines.push(line);
        output::report(&lines.join("\n"));
    }
}

impl Watcher for Narrator {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.live.progress(progress);
    }

    fn event(&mut self, event: &Event) {
        // The misbehaviour's clock is ahead of the measured time, so the first proof may precede its scene.
        let is_on = |scene: &&Scene| event.time_s >= f64::from(scene.at_s) || self.told == 0;
        if let Some(scene) = SCENES.get(self.told).filter(is_on) {
            self.told += 1;
            self.say(scene.text);
        }
        self.live.event(event);
    }

    fn warn(&mut self, text: &str) {
        self.live.warn(text);
    }
}
