//! Sections of the page, from top to bottom.

use super::html::{element, escape, text};
use super::svg::Chart;
use super::{Verdict, charts};
use crate::result::{
    Agreement, BenchResult, UNKNOWN, count, describe_bottleneck, describe_load, describe_memory, describe_settings,
    figure, optional,
};
use crate::spec::{CLUSTER, LOAD, OUTPUT, RUN, Setting};

/// Maximum number of proofs on a page.
const MAX_PROOFS: usize = 100;

/// Terms in the order of the page, and their definitions.
const DEFINITIONS: &[(&str, &str)] = &[
    (
        "Throughput",
        "Commands completed in the measured time, divided by that time. A command is complete when its client has f+1 \
         equal replies from different replicas; with --reply none, when it is committed. The warm-up does not count.",
    ),
    (
        "Latency",
        "Time from sending a command to its completion, on the client's clock. At a fixed rate it starts when the \
         command was due to be sent, so a stall is not hidden by commands that were never sent.",
    ),
    ("Percentiles", "99 of 100 commands took at most p99. Each command counts, even if many share a message."),
    (
        "Longest gap",
        "The longest time without a completed command, including the start and the end of the measured time.",
    ),
    (
        "CPU per command",
        "User and system time of all replicas and clients, divided by the commands completed. It includes the kernel's \
         share of sending and receiving.",
    ),
    ("Bytes per command", "Bytes that replicas and clients wrote to their sockets, divided by the commands completed."),
    (
        "Verifications per block",
        "Signatures verified by all replicas together, divided by the blocks committed. In a batch each signature \
         counts.",
    ),
    (
        "Views and view timeouts",
        "Views that one replica entered, and how many of them timed out because nothing was committed.",
    ),
    ("Peak memory", "The peak resident memory of all processes together. 1 MB is 1,000,000 bytes."),
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

/// Returns the title of the page.
pub fn title(result: &BenchResult) -> String {
    let name = if result.knows("protocol") { result.spec.protocol.facts().title } else { "A cluster" };
    format!("{name}, {} replicas: {} commands/s", result.spec.replicas, figure(result.throughput_ops))
}

/// Renders the name of the run, the verdicts and the most important figures.
pub fn headline(result: &BenchResult, verdict: Option<&Verdict>) -> String {
    let is_beyond = result.spec.beyond_faults().is_some();
    let (class, agreement) = match &result.agreement {
        Agreement::Agreed => ("good", "✓ All replicas agree"),
        Agreement::Differs(_) if is_beyond => ("warn", "Agreement is violated, with more than f liars"),
        Agreement::Differs(_) => ("bad", "✗ Agreement is violated"),
        Agreement::Unknown(_) => ("warn", "Agreement not checked"),
    };
    let (judged, sign) = if verdict.is_some_and(|verdict| verdict.passed) { ("good", "✓") } else { ("bad", "✗") };
    let claims = verdict.iter().flat_map(|verdict| &verdict.claims);
    let mut chips: String = claims.map(|claim| text("li", judged, &format!("{sign} {claim}"))).collect();
    chips += &text("li", class, agreement);
    chips += &if result.client_bound {
        text("li", "warn", "Limited by the clients")
    } else {
        text("li", "", "Not limited by the clients")
    };
    chips += &match result.view_timeouts {
        0 => text("li", "good", "✓ No view timeout"),
        1 => text("li", "warn", "1 view timeout"),
        many => text("li", "warn", &format!("{} view timeouts", count(many))),
    };
    chips +=
        &result.partial.as_ref().map_or_else(String::new, |partial| text("li", "warn", &format!("Partial: {partial}")));
    let latency = &result.latency_ms;
    let tiles = [
        tile("Throughput", &figure(result.throughput_ops), "commands/s", "lead"),
        tile("Median latency", &optional(latency.p50), "ms", ""),
        tile("99th percentile", &optional(latency.p99), "ms", ""),
        tile("CPU per command", &optional(result.cpu_us_per_command.total), "µs", ""),
        tile("Bytes per command", &optional(result.bytes_per_command), "B", ""),
        tile("Longest gap", &optional(result.longest_gap_ms), "ms", ""),
    ]
    .concat();
    let replicas = result.spec.replicas;
    let (name, settings) = if result.knows("protocol") {
        (format!("{} on {replicas} replicas", result.spec.protocol.facts().title), describe_settings(&result.spec))
    } else {
        (format!("{replicas} replicas"), UNKNOWN.to_owned())
    };
    let kicker = if result.loaded.is_some() { "quorate client load" } else { "quorate bench" };
    format!(
        "<header>\n{}\n{}\n{}\n{}\n<ul class=\"chips\">{chips}</ul>\n</header>\n\
         <section class=\"tiles\">{tiles}</section>\n",
        text("p", "kicker", kicker),
        text("h1", "", &name),
        text("p", "lead", &describe_load(&result.spec)),
        text("p", "lead", &settings),
    )
}

fn tile(name: &str, value: &str, unit: &str, class: &str) -> String {
    let value = format!("{} {}", text("b", "", value), text("span", "unit", unit));
    element("div", &format!("tile {class}"), &(text("span", "name", name) + &element("span", "value", &value)))
}

/// Renders the caveats that a reader must know before trusting the figures.
pub fn findings(result: &BenchResult) -> String {
    let mut notes = String::new();
    match &result.agreement {
        Agreement::Agreed => {}
        Agreement::Differs(difference) => notes += &note("bad", "Agreement is violated", &difference.to_string()),
        Agreement::Unknown(why) => notes += &note("warn", "Agreement was not checked", why),
    }
    if result.committed_commands == 0 {
        notes += &note(
            "bad",
            "Nothing was committed",
            "No command was completed in the measured time, so most figures are missing.",
        );
    }
    if result.client_bound {
        notes += &note(
            "warn",
            "The clients were the bottleneck",
            "The cluster could have done more: use more clients, or larger bundles.",
        );
    }
    for line in &result.warnings {
        notes += &note("warn", "Warning", line);
    }
    notes + &evidence(result)
}

/// Renders the proofs of misbehaviour, collapsed because their digests would fill a page.
fn evidence(result: &BenchResult) -> String {
    let count = result.evidence.len();
    if count == 0 {
        return String::new();
    }
    let many = if count == 1 { "1 proof".to_owned() } else { format!("{} proofs", crate::result::count(count as u64)) };
    let head = text("b", "", "Evidence of misbehaviour") + &text("span", "", &format!(" {many} that replicas kept"));
    let mut lines: String = result.evidence.iter().take(MAX_PROOFS).map(|line| text("li", "", line)).collect();
    if count > MAX_PROOFS {
        lines += &text("li", "", &format!("and {} more, in the JSON", count - MAX_PROOFS));
    }
    // It is expected that a replica which was told to misbehave gets caught.
    let class = if result.spec.misbehaviour().is_empty() { "bad" } else { "warn" };
    let inner = element("summary", "", &head) + &element("ul", "proofs", &lines);
    element("details", &format!("note {class}"), &inner) + "\n"
}

/// Renders the verdict and its explanations.
pub fn verdict(verdict: &Verdict) -> String {
    let (class, head) =
        if verdict.passed { ("good", "The cluster was safe") } else { ("bad", "The cluster violated safety") };
    let lines: String = verdict.reasons.iter().map(|reason| text("li", "", reason)).collect();
    element("div", &format!("note {class}"), &(text("b", "", head) + &element("ul", "reasons", &lines))) + "\n"
}

fn note(class: &str, head: &str, content: &str) -> String {
    element("div", &format!("note {class}"), &(text("b", "", head) + " " + &text("span", "", content))) + "\n"
}

/// Renders a chart for wide and for narrow pages; the style sheet shows one of them.
fn chart(chart: &Chart, wide: (f64, f64), narrow: (f64, f64)) -> String {
    element("div", "wide", &chart.render(wide.0, wide.1)) + &element("div", "narrow", &chart.render(narrow.0, narrow.1))
}

fn card(head: &str, legend: &str, inner: &str) -> String {
    let head = element("h2", "", &(escape(head) + " " + legend));
    element("section", "card", &format!("{head}\n{inner}")) + "\n"
}

/// Renders throughput and latency over time.
pub fn over_time(result: &BenchResult) -> String {
    let unit = text("small", "", "commands/s");
    let mut inner = chart(&charts::throughput(result), (1000.0, 260.0), (380.0, 230.0));
    if !result.events.is_empty() {
        let event = |event: &crate::result::Event| {
            let time = text("b", "", &format!("{:.1} s", event.time_s));
            element("li", "", &(time + " " + &escape(&event.text)))
        };
        inner += &element("ol", "events", &result.events.iter().map(event).collect::<String>());
    }
    let mut page = card("Throughput over time", &unit, &inner);
    if let Some(latency) = charts::latency_over_time(result) {
        let legend = text("small", "", "logarithmic")
            + &text("small", "key one", "median")
            + &text("small", "key two", "99th percentile");
        page +=
            &card("Latency over time", &legend, &(chart(&latency, (1000.0, 240.0), (380.0, 230.0)) + &seconds(result)));
    }
    page
}

/// Renders a column header.
fn head(name: &str) -> String {
    format!("<th scope=\"col\">{}</th>", escape(name))
}

/// Renders the lines as a table, for readers who want numbers or cannot see the charts.
fn seconds(result: &BenchResult) -> String {
    let heads: String = ["time", "commands/s", "median, ms", "99th percentile, ms"].map(head).concat();
    let row = |span: &charts::Span| {
        let (from, to) = (charts::short(span.from_s), charts::short(span.to_s));
        let time = format!("<th scope=\"row\">{from} to {to} s</th>");
        let values = [figure(span.rate), optional(span.p50_ms), optional(span.p99_ms)];
        let cells = values.map(|value| text("td", "", &value)).concat();
        element("tr", "", &(time + &cells))
    };
    let rows: String = charts::spans(result).iter().map(row).collect();
    let table = format!("<table class=\"seconds\"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>");
    element("details", "", &(text("summary", "", "Second by second, as a table") + &element("div", "scroll", &table)))
}

/// Renders the histogram, the percentile curve and the percentiles as a table.
pub fn latency(result: &BenchResult) -> String {
    let (Some(histogram), Some(curve)) = (charts::histogram(result), charts::percentiles(result)) else {
        return card("Latency", "", &text("p", "", "No command was completed in the measured time."));
    };
    let rows = result.latency_ms.rows();
    let heads: String = rows.iter().map(|(name, _)| head(name)).collect();
    let cells: String = rows.iter().map(|(_, value)| text("td", "", &optional(*value))).collect();
    let table = format!(
        "<div class=\"scroll\"><table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table></div>"
    );
    let size = (490.0, 260.0);
    let left =
        card("Latency histogram", &text("small", "", "share of commands"), &chart(&histogram, size, (380.0, 230.0)));
    let right = card("Latency by percentile", "", &chart(&curve, size, (380.0, 230.0)));
    element("div", "pair", &(left + &right)) + &card("Latency percentiles", &text("small", "", "ms"), &table)
}

/// Renders where CPU time was spent, and the cost of a block.
pub fn processor(result: &BenchResult) -> String {
    let cpu = &result.cpu_us_per_command;
    let mut bar = String::new();
    if let (Some(total), Some(replicas), Some(clients)) = (cpu.total, cpu.replicas, cpu.clients) {
        let parts = [
            ("one", "replicas", replicas),
            ("two", "clients", clients),
            ("three", "shared", total - replicas - clients),
        ];
        let shown = parts.iter().filter(|(_, _, value)| *value > total * 0.005);
        let mut stripes = String::new();
        let mut legend = String::new();
        for (class, name, value) in shown {
            let percent = value / total * 100.0;
            stripes += &format!("<span class=\"{class}\" style=\"width:{percent:.1}%\"></span>");
            legend +=
                &text("small", &format!("key {class}"), &format!("{name} {} µs ({percent:.0} %)", figure(*value)));
        }
        bar = element("div", "stripes", &stripes) + &element("p", "legend", &legend);
    }
    let commands = crate::result::per(result.committed_commands as f64, result.committed_blocks);
    let facts = [
        ("Commands committed", count(result.committed_commands)),
        ("Blocks committed", count(result.committed_blocks)),
        ("Commands per block", optional(commands)),
        ("Messages per block", optional(result.messages_per_block)),
        ("Bytes per block", optional(result.bytes_per_block)),
        ("Verifications per block", optional(result.verifications_per_block)),
        ("Views", count(result.views)),
        ("View timeouts", count(result.view_timeouts)),
        ("Peak memory", format!("{} MB", describe_memory(result))),
        ("Bottleneck", describe_bottleneck(result).to_string()),
    ];
    let facts: String = facts.iter().map(|(name, value)| fact(name, value, "")).collect();
    card("What it cost", &text("small", "", "CPU per command"), &(bar + &element("dl", "facts", &facts)))
}

fn fact(name: &str, value: &str, class: &str) -> String {
    element("div", class, &(text("dt", "", name) + &text("dd", "", value)))
}

/// Renders the command, with a button that copies it.
pub fn command(result: &BenchResult) -> String {
    // Lines break between words, not after the dashes of a flag.
    let word = |word: &str| format!("<span>{}</span>", escape(word));
    let words: Vec<String> = result.command.split(' ').map(word).collect();
    let command = format!("<pre><code id=\"command\">{}</code></pre>", words.join(" "));
    let button = "<button id=\"copy\" type=\"button\" hidden=\"hidden\">Copy</button>";
    card("Reproduce", button, &command)
}

/// Renders every key of the spec and highlights those that were set.
pub fn configuration(result: &BenchResult) -> String {
    let settings = result.spec.settings();
    let mut inner = String::new();
    for heading in [CLUSTER, LOAD, RUN, OUTPUT] {
        let mut facts = String::new();
        let key = |setting: &Setting| setting.flag.trim_start_matches('-').replace('-', "_");
        for setting in settings.iter().filter(|setting| setting.heading == heading && result.knows(&key(setting))) {
            let value = if setting.values.is_empty() { "–".to_string() } else { setting.values.join(", ") };
            let class = if setting.is_default { "" } else { " class=\"set\"" };
            facts += &format!(
                "<div{class} title=\"{}\">{}{}</div>",
                escape(&setting.help),
                text("dt", "", &setting.flag),
                text("dd", "", &value)
            );
        }
        inner += &(text("h3", "", heading) + &element("dl", "facts mono", &facts));
    }
    card("Configuration", &text("small", "key set", "differs from the default"), &inner)
}

pub fn machine(result: &BenchResult) -> String {
    let machine = &result.machine;
    let memory = if machine.memory_mb == 0 {
        "unknown".into()
    } else {
        format!("{} GB", figure(machine.memory_mb as f64 / 1000.0))
    };
    let facts = fact("Processor", &machine.cpu, "")
        + &fact("Cores, shared by replicas and clients", &machine.cores.to_string(), "")
        + &fact("Memory", &memory, "")
        + &fact("Kernel", &machine.kernel, "");
    card("Machine", "", &element("dl", "facts", &facts))
}

pub fn definitions() -> String {
    let entries: String = DEFINITIONS.iter().map(|(name, what)| text("dt", "", name) + &text("dd", "", what)).collect();
    card("How each figure is defined", "", &element("dl", "definitions", &entries))
}
