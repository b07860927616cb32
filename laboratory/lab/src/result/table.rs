//! Table that `quorate bench` prints at the end.

use super::{Agreement, BenchResult, StageThreads, ThreadLoads};
use crate::experiments::figures::label;
use crate::record::Record;
use crate::spec::{BatchSize, BenchSpec, ClientAuthentication, JournalKind, Pacing, ReplyAuthentication, WorkloadKind};
use comfy_table::{CellAlignment, Table, presets};
use quorate_types::text::{count, group};

/// Formats a measured value: digits grouped by thousands, and fewer decimals for larger values.
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", group(digits))
}

/// Formats a figure, or a dash for `None`.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), figure)
}

/// Describes the cluster in one line: protocol, size and settings.
pub fn describe_cluster(result: &BenchResult) -> String {
    let spec = &result.spec;
    if result.knows("protocol") {
        format!("{}, {} replicas, {}", spec.protocol, spec.replicas, describe_settings(spec))
    } else {
        format!("{} replicas, {UNKNOWN}", spec.replicas)
    }
}

/// Description of a cluster whose replicas do not report their settings.
pub const UNKNOWN: &str = "of a version that does not report its settings";

/// Describes the settings in one line: blocks, scheme, client signatures, transport, leader.
pub fn describe_settings(spec: &BenchSpec) -> String {
    let transport = format!("{} {}", spec.channel, spec.transport.name().to_uppercase());
    let blocks = match spec.batch {
        BatchSize::Auto => "blocks of any size".into(),
        BatchSize::Commands(commands) => {
            format!("blocks of {} ({})", count(commands.into()), spec.reproduction.batch_policy)
        }
    };
    let clients = match spec.client_authentication {
        ClientAuthentication::None => "unsigned",
        ClientAuthentication::Ed25519 => "signed",
        ClientAuthentication::Mac => "by codes",
    };
    let replies = match spec.reply_authentication {
        ReplyAuthentication::Channel => "",
        ReplyAuthentication::Signature => ", replies signed",
        ReplyAuthentication::Mac => ", replies by codes",
    };
    let votes = match spec.auth_profile.votes_by_mac() {
        true => format!("{} by {}", spec.auth_profile, spec.mac_scheme),
        false => spec.scheme.to_string(),
    };
    format!("{blocks}, {votes}, clients {clients}{replies}, {transport}, leader {}", spec.leader)
}

/// Describes where replicas keep their journal, and whether it survives a power loss.
pub(super) fn describe_journal(result: &BenchResult) -> String {
    let spec = &result.spec;
    if !result.knows("journal") {
        return "journal unknown".to_owned();
    }
    match spec.journal() {
        JournalKind::Memory => "journal in memory".to_owned(),
        JournalKind::File => format!("journal in files, fsync {}", spec.fsync),
    }
}

/// Describes the load in one line: workload, clients, rate.
pub fn describe_load(spec: &BenchSpec) -> String {
    let clients = if spec.clients == 1 { "1 client".into() } else { format!("{} clients", spec.clients) };
    let what = match &spec.workload {
        WorkloadKind::Fixed => format!("{} B commands", count(spec.payload.into())),
        other => other.to_string(),
    };
    let pace = match (&spec.load_profile, spec.pacing()) {
        (Some(profile), _) => format!("load profile {profile}"),
        (None, Pacing::Closed { outstanding }) => format!("{} outstanding each", count(outstanding.into())),
        (None, Pacing::Open { rate }) => format!("{} commands/s offered", count(rate)),
    };
    let reply = if spec.reply == crate::spec::ReplyMode::None { ", no replies" } else { "" };
    format!("{what}, {clients}, {pace}{reply}")
}

/// Describes what limited the throughput.
pub fn describe_bottleneck(result: &BenchResult) -> &'static str {
    match (result.client_bound, result.spec.pacing()) {
        (true, _) => "the clients: the cluster could have done more",
        (false, Pacing::Open { .. }) => "the offered rate, or the cluster",
        (false, Pacing::Closed { .. }) => "the cluster",
    }
}

/// Number of proofs in the table; the JSON contains all of them.
const MAX_SHOWN_EVIDENCE: usize = 3;

/// Returns the first proofs of misbehaviour, and how many more there are.
pub fn shown_evidence(result: &BenchResult) -> Vec<String> {
    first_of(&result.evidence)
}

fn first_of(all: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(MAX_SHOWN_EVIDENCE).cloned().collect();
    let more = all.len() - lines.len();
    lines.extend((more > 0).then(|| format!("and {more} more, in the JSON")));
    lines
}

/// Returns the note of a partial result as a line of a table.
pub(crate) fn partial_line(partial: Option<&String>) -> String {
    partial.map_or_else(String::new, |text| line("PARTIAL", text))
}

/// Returns a line of a table below the figures.
pub(crate) fn line(name: &str, text: impl std::fmt::Display) -> String {
    format!(" {name:<10}  {text}\n")
}

pub(super) fn render(result: &BenchResult, journal: String) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for [name, value, unit, note] in rows(result) {
        table.add_row([name, value, unit, note]);
    }
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    let spec = &result.spec;
    let mut text = format!("\n {}\n {}\n {}\n\n", describe_cluster(result), describe_load(spec), journal);
    text.push_str(&partial_line(result.partial.as_ref()));
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    result.steps.iter().for_each(|step| text.push_str(&line("step", step)));
    if let Some(search) = &result.search {
        search.probes.iter().for_each(|probe| text.push_str(&line("probe", probe)));
        text.push_str(&line("saturation", search));
    }
    for (name, told) in result.emulation.iter().flat_map(super::EmulationResult::lines) {
        text.push_str(&line(name, told));
    }
    if let Some(told) = result.threads.as_ref().and_then(describe_threads) {
        text.push_str(&line("threads", told));
    }
    if let Some(clock) = &result.stage_clock {
        text.push_str(&super::stages::tables(&result.stages));
        text.push_str(&line("cycles", clock.describe()));
    }
    text.push_str(&format!("\n{}", line("bottleneck", describe_bottleneck(result))));
    text.push_str(&line("agreement", &result.agreement));
    for event in &result.events {
        text.push_str(&line("event", format!("{:.1} s: {}", event.time_s, event.text)));
    }
    shown_evidence(result).iter().for_each(|proof| text.push_str(&line("evidence", proof)));
    first_of(&result.hearsay).iter().for_each(|rumour| text.push_str(&line("hearsay", rumour)));
    result.warnings.iter().for_each(|warning| text.push_str(&line("warning", warning)));
    let is_violated = matches!(result.agreement, Agreement::Differs(_));
    if is_violated && result.spec.beyond_faults().is_some() {
        text.push_str("\n Safety is violated. With more than f liars this is expected, not a bug.\n");
    } else if is_violated {
        text.push_str("\n SAFETY IS VIOLATED: please keep the command and the seed, and report it.\n");
    }
    text + &line("reproduce", &result.command)
}

/// Describes the load of a replica's stages, if there is more than one.
fn describe_threads(loads: &ThreadLoads) -> Option<String> {
    let told = |stage: &StageThreads| match stage.threads {
        1 => format!("{} {} %", stage.stage, figure(stage.busy_percent)),
        threads => format!("{threads} {} {} % each", stage.stage, figure(stage.busy_percent)),
    };
    let all: Vec<String> = loads.stages.iter().map(told).collect();
    let (replica, limit) = (loads.replica, &loads.limiting_stage);
    (all.len() > 1).then(|| format!("{}; {limit} busiest, at replica {replica}", all.join(", ")))
}

/// Formats the memory, or a dash if it was not measured.
pub fn describe_memory(result: &BenchResult) -> String {
    optional((result.peak_rss_mb > 0.0).then_some(result.peak_rss_mb))
}

fn rows(result: &BenchResult) -> Vec<[String; 4]> {
    let row = |name: &str, value: String, unit: &str, note: String| [name.into(), value, unit.into(), note];
    let latency = &result.latency_ms;
    let cpu = &result.cpu_us_per_command;
    let mut rows = vec![
        row(
            "throughput",
            figure(result.throughput_ops),
            "commands/s",
            match &result.partial {
                Some(_) => format!("{} so far", count(result.committed_commands)),
                None => format!("{} in {}", count(result.committed_commands), result.spec.duration),
            },
        ),
        row("latency", optional(latency.p50), "ms median", format!("mean {}", optional(latency.mean))),
        row(
            "",
            optional(latency.p99),
            "ms p99",
            format!("p90 {}, p99.9 {}, max {}", optional(latency.p90), optional(latency.p999), optional(latency.max)),
        ),
    ];
    for field in BenchResult::FIELDS.iter().filter(|field| !field.note.is_empty()) {
        let Some((own, of)) = field.figure() else { continue };
        rows.push(row(&label(own.name), optional(of(result)), own.unit, field.note.to_owned()));
    }
    rows.extend([
        row(
            "cpu",
            optional(cpu.total),
            "us/command",
            format!("replicas {}, clients {}{}", optional(cpu.replicas), optional(cpu.clients), channel(result)),
        ),
        row("network", optional(result.bytes_per_command), "B/command", network(result)),
        row(
            "blocks",
            count(result.committed_blocks),
            "committed",
            format!(
                "{} commands each",
                optional(super::per(result.committed_commands as f64, result.committed_blocks))
            ),
        ),
        row(
            "",
            optional(result.messages_per_block),
            "messages/block",
            format!("{} verifications", optional(result.verifications_per_block)),
        ),
        row("views", count(result.views), "entered", format!("{} timed out", count(result.view_timeouts))),
        row("memory", describe_memory(result), "MB", "peak, all processes".into()),
    ]);
    if let Some(line) = &result.line {
        let at = rows.iter().position(|row| row[0] == "network").expect("it was just added") + 1;
        rows.insert(at, row("leader", figure(line.bytes_per_command), "B/command", line.to_string()));
    }
    if result.refused_commands > 0 {
        let offered = result.refused_commands + result.committed_commands;
        let percent = result.refused_commands as f64 / offered as f64 * 100.0;
        let share = format!("{} % of those offered, for load", figure(percent));
        rows.insert(1, row("refused", count(result.refused_commands), "commands", share));
    }
    rows
}

/// Returns the part of the channel in the processor time of a command, unless it takes none.
fn channel(result: &BenchResult) -> String {
    let spent = result.channel_us_per_command.and_then(|spent| Some(spent.replicas? + spent.clients?));
    spent.filter(|us| *us > 0.0).map_or_else(String::new, |us| format!(", channel {}", figure(us)))
}

/// Returns what belongs to the bytes of a command: who sent them, and what a transport over packets had to repeat.
fn network(result: &BenchResult) -> String {
    match &result.packets {
        None => "all replicas and clients".to_owned(),
        Some(packets) => {
            let timeouts = packets.rto_events.map(|timeouts| format!(", {} timeouts", count(timeouts)));
            let again = count(packets.retransmissions);
            format!("{} packets, {again} again{}", count(packets.sent), timeouts.unwrap_or_default())
        }
    }
}
