//! Describes a run's cluster, settings and load in sentences.

use super::BenchResult;
use crate::spec::{BatchSize, BenchSpec, ClientAuthentication, JournalKind, Pacing, ReplyAuthentication, WorkloadKind};
use crate::text::optional;
use quorate_types::text::count;

/// Describes the cluster in one line: protocol, size and settings.
pub fn describe_cluster(result: &BenchResult) -> String {
    let spec = &result.spec;
    if result.knows("protocol") {
        format!("{}, {} replicas, {}", spec.node.consensus.protocol, spec.replicas, describe_settings(spec))
    } else {
        format!("{} replicas, {UNKNOWN}", spec.replicas)
    }
}

/// Description of a cluster whose replicas do not report their settings.
pub const UNKNOWN: &str = "of a version that does not report its settings";

/// Describes the settings in one line: blocks, scheme, client signatures, transport, leader.
pub fn describe_settings(spec: &BenchSpec) -> String {
    let transport = format!("{} {}", spec.node.channel, spec.node.transport.name().to_uppercase());
    let blocks = match spec.node.consensus.batch {
        BatchSize::Auto => "blocks of any size".into(),
        BatchSize::Commands(commands) => {
            format!("blocks of {} ({})", count(commands.into()), spec.node.consensus.batch_policy)
        }
    };
    let clients = match spec.node.client_authentication {
        ClientAuthentication::None => "unsigned",
        ClientAuthentication::Ed25519 => "signed",
        ClientAuthentication::Mac => "by MACs",
    };
    let replies = match spec.node.reply_authentication {
        ReplyAuthentication::Channel => "",
        ReplyAuthentication::Signature => ", replies signed",
        ReplyAuthentication::Mac => ", replies by MACs",
    };
    let votes = match spec.node.auth_profile.votes_by_mac() {
        true => format!("{} by {}", spec.node.auth_profile, spec.node.mac_scheme),
        false => spec.node.scheme.to_string(),
    };
    format!("{blocks}, {votes}, clients {clients}{replies}, {transport}, leader {}", spec.node.consensus.leader)
}

/// Describes where replicas keep their journal, and whether it survives a power failure.
pub(crate) fn describe_journal(result: &BenchResult) -> String {
    let spec = &result.spec;
    if !result.knows("journal") {
        return "journal unknown".to_owned();
    }
    match spec.journal() {
        JournalKind::Memory => "journal in memory".to_owned(),
        JournalKind::File => format!("journal in files, fsync {}", spec.node.journal.fsync),
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
    let reply = if spec.node.reply == crate::spec::ReplyMode::None { ", no replies" } else { "" };
    format!("{what}, {clients}, {pace}{reply}")
}

/// Describes the bottleneck of the throughput.
pub fn describe_bottleneck(result: &BenchResult) -> &'static str {
    match (result.client_bound, result.spec.pacing()) {
        (true, _) => "the clients: the cluster could have done more",
        (false, Pacing::Open { .. }) => "the offered rate, or the cluster",
        (false, Pacing::Closed { .. }) => "the cluster",
    }
}

/// Formats the memory, or a dash if it was not measured.
pub fn describe_memory(result: &BenchResult) -> String {
    optional((result.peak_rss_mb > 0.0).then_some(result.peak_rss_mb))
}

/// Maximum number of proofs in the table; the JSON contains all of them.
const MAX_SHOWN_EVIDENCE: usize = 3;

/// Returns the first proofs of misbehaviour, and the number of further ones.
pub fn shown_evidence(result: &BenchResult) -> Vec<String> {
    first_of(&result.evidence)
}

/// Returns the first lines, and the number of further ones.
pub(crate) fn first_of(all: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(MAX_SHOWN_EVIDENCE).cloned().collect();
    let more = all.len() - lines.len();
    lines.extend((more > 0).then(|| format!("and {more} more, in the JSON")));
    lines
}
