//! Sections of the page, from top to bottom.

use super::{Verdict, figures};
use crate::experiments::figures::label;
use crate::experiments::{Figure, Outliers};
use crate::figures::{Outcome, Run};
use crate::result::{
    Agreement, BenchResult, UNKNOWN, count, describe_bottleneck, describe_load, describe_memory, describe_settings,
    figure, optional, per,
};
use crate::spec::{CLUSTER, LOAD, OUTPUT, REPRODUCTION, RUN, Setting};
use quorate_plots::{Block, Chip, Column, Fact, Note, Section, Table, Tile, Tone};

/// Maximum number of proofs on a page.
const MAX_PROOFS: usize = 100;
/// Minimum share of the CPU time at which a part is listed.
const MIN_SHARE: f64 = 0.005;

/// Terms, and details beyond the figures' own descriptions.
const DEFINITIONS: &[(&str, &str)] = &[
    (
        "Latency",
        "Time from sending a command to its completion, on the client's clock. At a fixed rate it starts when the \
         command was due to be sent, so a stall is not hidden by commands that were never sent.",
    ),
    ("Percentiles", "99 of 100 commands took at most p99. Each command counts, even if many share a message."),
    (
        "Agreement",
        "At the end the histories of all replicas are compared block by block: each must be a prefix of the longest.",
    ),
    (
        "Bottleneck",
        "Whether the clients could have sent more. If they are the bottleneck, the throughput says little about the \
         cluster.",
    ),
];

fn section(id: &str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title: title.to_owned(), blocks }
}

fn column(title: &str, numeric: bool) -> Column {
    Column { title: title.to_owned(), numeric }
}

fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact { name: name.to_owned(), value: value.into(), marked: false, help: String::new() }
}

/// Returns the title of the page.
pub fn title(result: &BenchResult) -> String {
    let name = if result.knows("protocol") { result.spec.node.consensus.protocol.facts().title } else { "A cluster" };
    format!("{name}, {} replicas: {} commands/s", result.spec.replicas, figure(result.throughput_ops))
}

/// Describes the load and the settings in words.
pub fn lead(result: &BenchResult) -> Vec<String> {
    let command = if result.loaded.is_some() { "quorate client load" } else { "quorate bench" };
    let settings = if result.knows("protocol") { describe_settings(&result.spec) } else { UNKNOWN.to_owned() };
    vec![format!("{command}: {}", describe_load(&result.spec)), settings]
}

/// Returns the verdicts, the main figures, and the caveats that a reader must know before trusting them.
pub fn summary(result: &BenchResult, verdict: Option<&Verdict>) -> Section {
    let mut blocks = vec![Block::Chips(chips(result, verdict)), Block::Tiles(tiles(result))];
    blocks.extend(verdict.map(|verdict| Block::Note(judged(verdict))));
    blocks.extend(caveats(result).into_iter().map(Block::Note));
    section("summary", "", blocks)
}

fn chips(result: &BenchResult, verdict: Option<&Verdict>) -> Vec<Chip> {
    let (judged, sign) = if verdict.is_some_and(|own| own.passed) { (Tone::Good, "✓") } else { (Tone::Bad, "✗") };
    let claims = verdict.iter().flat_map(|verdict| &verdict.claims);
    let mut chips: Vec<(Tone, String)> = claims.map(|claim| (judged, format!("{sign} {claim}"))).collect();
    chips.push(match &result.agreement {
        Agreement::Agreed => (Tone::Good, "✓ All replicas agree".to_owned()),
        Agreement::Differs(_) if result.spec.beyond_faults().is_some() => {
            (Tone::Warning, "Agreement is violated, with more than f liars".to_owned())
        }
        Agreement::Differs(_) => (Tone::Bad, "✗ Agreement is violated".to_owned()),
        Agreement::Unknown(_) => (Tone::Warning, "Agreement not checked".to_owned()),
    });
    chips.push(match result.client_bound {
        true => (Tone::Warning, "Limited by the clients".to_owned()),
        false => (Tone::Neutral, "Not limited by the clients".to_owned()),
    });
    chips.push(match result.view_timeouts {
        0 => (Tone::Good, "✓ No view timeout".to_owned()),
        1 => (Tone::Warning, "1 view timeout".to_owned()),
        many => (Tone::Warning, format!("{} view timeouts", count(many))),
    });
    chips.extend(result.partial.iter().map(|partial| (Tone::Warning, format!("Partial: {partial}"))));
    chips.into_iter().map(|(tone, text)| Chip { tone, text }).collect()
}

fn tiles(result: &BenchResult) -> Vec<Tile> {
    let latency = &result.latency_ms;
    let tiles = [
        ("Throughput", figure(result.throughput_ops), "commands/s"),
        ("Median latency", optional(latency.p50), "ms"),
        ("99th percentile", optional(latency.p99), "ms"),
        ("CPU per command", optional(result.cpu_us_per_command.total), "µs"),
        ("Bytes per command", optional(result.bytes_per_command), "B"),
        ("Longest gap", optional(result.longest_gap_ms), "ms"),
    ];
    tiles.into_iter().map(|(name, value, unit)| Tile { name: name.to_owned(), value, unit: unit.to_owned() }).collect()
}

fn note(tone: Tone, title: &str, text: &str) -> Note {
    Note { tone, title: title.to_owned(), text: text.to_owned(), items: Vec::new(), folded: false }
}

/// Formats the verdict with its explanations.
fn judged(verdict: &Verdict) -> Note {
    let (tone, title) = match verdict.passed {
        true => (Tone::Good, "The cluster was safe"),
        false => (Tone::Bad, "The cluster violated safety"),
    };
    Note { items: verdict.reasons.clone(), ..note(tone, title, "") }
}

fn caveats(result: &BenchResult) -> Vec<Note> {
    let mut notes = Vec::new();
    match &result.agreement {
        Agreement::Agreed => {}
        Agreement::Differs(difference) => {
            notes.push(note(Tone::Bad, "Agreement is violated", &difference.to_string()));
        }
        Agreement::Unknown(why) => notes.push(note(Tone::Warning, "Agreement was not checked", why)),
    }
    if result.committed_commands == 0 {
        let text = "No command was completed in the measured time, so most figures are missing.";
        notes.push(note(Tone::Bad, "Nothing was committed", text));
    }
    if result.client_bound {
        let text = "The cluster could have done more: use more clients, or larger bundles.";
        notes.push(note(Tone::Warning, "The clients were the bottleneck", text));
    }
    notes.extend(result.warnings.iter().map(|line| note(Tone::Warning, "Warning", line)));
    notes.extend(evidence(result));
    notes.extend(hearsay(result));
    notes
}

/// Returns the proofs of misbehaviour, collapsed because their digests would fill a page.
fn evidence(result: &BenchResult) -> Option<Note> {
    let proofs = result.evidence.len();
    let many = if proofs == 1 { "1 proof".to_owned() } else { format!("{} proofs", count(proofs as u64)) };
    let mut items: Vec<String> = result.evidence.iter().take(MAX_PROOFS).cloned().collect();
    if proofs > MAX_PROOFS {
        items.push(format!("and {} more, in the JSON", proofs - MAX_PROOFS));
    }
    // A replica that is configured to misbehave is expected to be caught.
    let tone = if result.spec.misbehaviour().is_empty() { Tone::Bad } else { Tone::Warning };
    let head = note(tone, "Evidence of misbehaviour", &format!("{many} that replicas kept"));
    (proofs > 0).then_some(Note { items, folded: true, ..head })
}

/// Returns the contradictions that are no proof to third parties.
fn hearsay(result: &BenchResult) -> Option<Note> {
    let items: Vec<String> = result.hearsay.iter().take(MAX_PROOFS).cloned().collect();
    let text = "Votes that carry MACs convince only their receivers, which could have made them.";
    let head = note(Tone::Warning, "Hearsay of misbehaviour", text);
    (!items.is_empty()).then_some(Note { items, folded: true, ..head })
}

/// Returns throughput and latency over time, and the events.
pub fn over_time(result: &BenchResult) -> Section {
    let mut blocks = vec![figures::over_time(result)];
    if !result.events.is_empty() {
        let row = |event: &crate::result::Event| vec![format!("{:.1}", event.time_s), event.text.clone()];
        let rows = result.events.iter().map(row).collect();
        let columns = vec![column("time, s", true), column("event", false)];
        blocks.push(Block::Table(Table { caption: String::new(), columns, rows }));
    }
    section("over-time", "Over time", blocks)
}

/// Returns the histogram, the tail and the percentiles.
pub fn latency(result: &BenchResult) -> Section {
    let (Some(histogram), Some(tail)) = (figures::histogram(result), figures::tail(result)) else {
        let text = "No command was completed in the measured time.".to_owned();
        return section("latency", "Latency", vec![Block::Paragraph(text)]);
    };
    let rows = result.latency_ms.rows();
    let columns = rows.iter().map(|(name, _)| column(name, true)).collect();
    let values = rows.iter().map(|(_, value)| optional(*value)).collect();
    let table = Table { caption: "Latency percentiles, ms".to_owned(), columns, rows: vec![values] };
    section("latency", "Latency", vec![histogram, tail, Block::Table(table)])
}

/// Returns the breakdown of CPU time, and the cost of a block.
pub fn cost(result: &BenchResult) -> Section {
    let mut blocks = Vec::new();
    let cpu = &result.cpu_us_per_command;
    if let (Some(total), Some(replicas), Some(clients)) = (cpu.total, cpu.replicas, cpu.clients) {
        let parts = [("replicas", replicas), ("clients", clients), ("shared", total - replicas - clients)];
        let shown = parts.into_iter().filter(|(_, value)| *value > total * MIN_SHARE);
        let row =
            |(name, value): (&str, f64)| vec![name.to_owned(), figure(value), format!("{:.0}", value / total * 100.0)];
        let columns = vec![column("CPU per command", false), column("µs", true), column("%", true)];
        blocks.push(Block::Table(Table { caption: String::new(), columns, rows: shown.map(row).collect() }));
    }
    blocks.push(Block::Facts(vec![
        fact("Commands per block", optional(per(result.committed_commands as f64, result.committed_blocks))),
        fact("Peak memory", format!("{} MB", describe_memory(result))),
        fact("Bottleneck", describe_bottleneck(result).to_string()),
    ]));
    section("cost", "What it cost", blocks)
}

pub fn command(result: &BenchResult) -> Section {
    section("reproduce", "Reproduce", vec![Block::Command(result.command.clone())])
}

/// Returns every key of the spec, with the explicitly set ones marked.
pub fn configuration(result: &BenchResult) -> Section {
    let mut blocks = vec![Block::Paragraph("Marked values differ from the default.".to_owned())];
    let settings = result.spec.settings();
    for heading in [CLUSTER, LOAD, RUN, OUTPUT, REPRODUCTION] {
        let own = settings.iter().filter(|setting| setting.heading == heading && result.knows(&setting.key));
        let fact = |setting: &Setting| Fact {
            name: setting.name(),
            value: if setting.values.is_empty() { "–".to_owned() } else { setting.values.join(", ") },
            marked: !setting.is_default,
            help: setting.help.clone(),
        };
        let facts: Vec<Fact> = own.map(fact).collect();
        if !facts.is_empty() {
            blocks.extend([Block::Paragraph(heading.to_owned()), Block::Facts(facts)]);
        }
    }
    section("configuration", "Configuration", blocks)
}

pub fn machine(result: &BenchResult) -> Section {
    let machine = &result.machine;
    let memory = match machine.memory_mb {
        0 => "unknown".to_owned(),
        megabytes => format!("{} GB", figure(megabytes as f64 / 1000.0)),
    };
    let facts = vec![
        fact("Processor", machine.cpu.as_str()),
        fact("Cores, shared by replicas and clients", machine.cores.to_string()),
        fact("Memory", memory),
        fact("Kernel", machine.kernel.as_str()),
    ];
    section("machine", "Machine", vec![Block::Facts(facts)])
}

/// Returns all figures with their units and meanings, and the terms used in them.
pub fn definitions(result: &BenchResult) -> Section {
    let run = Run { outcome: Outcome::Bench(Box::new(result.clone())), outliers: Outliers::None, instructions: None };
    let row =
        |(own, value): (Figure, f64)| vec![label(own.name), figure(value), own.unit.to_owned(), own.about.to_owned()];
    let rows = run.figures().map(row).collect();
    let columns = vec![column("figure", false), column("value", true), column("unit", false), column("meaning", false)];
    let terms = DEFINITIONS.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect();
    let table = Table { caption: String::new(), columns, rows };
    section("definitions", "All figures", vec![Block::Table(table), Block::Terms(terms)])
}
