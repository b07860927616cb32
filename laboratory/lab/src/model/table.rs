//! Formats answers for the terminal.

use super::Swept;
use comfy_table::{CellAlignment, Table, presets};
use quorate_simulator::models::Answer;
use quorate_simulator::models::remedies::{Kind, Remedy};

/// Formats a time in ms, `-` if it is infinite.
fn ms(time: Option<f64>) -> String {
    time.map_or("-".to_owned(), |time| format!("{time:.1}"))
}

/// Formats a probability with enough digits near both 0 and 1.
fn chance(probability: f64) -> String {
    match probability {
        whole if whole == 0.0 || whole == 1.0 => format!("{whole}"),
        small if small < 1e-4 => format!("{small:.2e}"),
        large if large > 1.0 - 1e-4 => format!("1 - {:.2e}", 1.0 - large),
        other => format!("{other:.4}"),
    }
}

fn count(number: Option<u32>) -> String {
    number.map_or("no number suffices".to_owned(), |number| number.to_string())
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

pub fn one(answer: &Answer) -> String {
    let mut table = plain();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let counting = answer.counting.map_or(String::new(), |counting| format!(", counted as in the {counting}"));
    let silent = if answer.silent > 0 { format!(", {} silent", answer.silent) } else { String::new() };
    let committee = format!("{} replicas, {} faults, quorum {}{silent}", answer.replicas, answer.faults, answer.quorum);
    row("model", format!("{}{counting}: {committee}", answer.protocol));
    let losses = format!("packet {}, vote {}", chance(answer.loss), chance(answer.message_loss));
    row("loss", format!("{losses}, proposal {}", chance(answer.pre_prepare_loss)));
    row("success", format!("{} ({} replies)", chance(answer.success_probability), answer.replies_needed));
    if let Some(agreement) = answer.agreement_probability {
        row("agreement", format!("{} (a quorum commits)", chance(agreement)));
    }
    let bound = answer.expected_replies_lower_bound.map_or(String::new(), |bound| format!(", at least {bound:.3}"));
    let verdict = if answer.remedy_needed { "too few" } else { "enough" };
    let replies =
        format!("{:.3}{bound}; {verdict}: the criterion is {}", answer.expected_replies, answer.switching_threshold);
    row("expected replies", replies);
    row("copies needed", count(answer.repetitions_needed));
    if answer.counting.is_some() {
        row("by equation 7", count(answer.retransmissions_needed));
    }
    let messages = &answer.messages;
    let counts = format!("{:.0} without loss, {:.1} expected", messages.without_loss, messages.expected);
    row("messages", format!("{counts}, {:.1} packets", messages.packets));
    for (name, of) in [
        ("reply ms", &answer.latency_ms),
        ("commit ms", &answer.commit_latency_ms),
        ("quorum ms", &answer.quorum_latency_ms),
    ] {
        row(name, format!("mean {}, p50 {}, p90 {}, p99 {}", ms(of.mean), ms(of.p50), ms(of.p90), ms(of.p99)));
    }
    if let Some(timeout) = answer.first_timeout_ms {
        row("TCP's timeout ms", format!("{timeout:.1}, doubled with each attempt"));
    }
    if let Some(own) = answer.view_change {
        let cost = format!("{} at a timeout of {:.0} ms", chance(own.probability), own.timeout_ms);
        let best = answer.best_timeout_ms.map_or(String::new(), |best| format!("; best timeout {best:.0} ms"));
        row("view change", format!("{cost}, {:.2} requests/s one at a time{best}", own.throughput_per_s));
    }
    let mut text = table.trim_fmt();
    if !answer.remedies.is_empty() {
        text += "\n\nremedies, each at the least amount with which the criterion is met\n";
        text += &remedies(&answer.remedies);
    }
    text
}

fn remedies(all: &[Remedy]) -> String {
    let mut table = plain();
    table.set_header(["remedy", "success", "replies", "messages", "packets", "mean ms", "p99 ms", ""]);
    for own in all {
        let verdict = match (own.suffices, own.cheapest) {
            (true, true) => "suffices, the fewest packets",
            (true, false) => "suffices",
            _ => "does not suffice",
        };
        table.add_row([
            name(own),
            chance(own.success_probability),
            format!("{:.3}", own.expected_replies),
            format!("{:.0}", own.messages),
            format!("{:.1}", own.packets),
            ms(own.latency_ms.mean),
            ms(own.latency_ms.p99),
            verdict.to_owned(),
        ]);
    }
    table.column_iter_mut().skip(1).take(6).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

fn name(own: &Remedy) -> String {
    let times = if own.amount == 1 { "once".to_owned() } else { format!("{} times", own.amount) };
    match own.remedy {
        Kind::RepeatPrePrepare => format!("repeat the proposal {times}"),
        Kind::RepeatAll => format!("repeat all messages {times}"),
        Kind::AddTwoReplicas => format!("add {} replicas", 2 * own.amount),
        Kind::ReliableTransport => "switch to TCP".to_owned(),
    }
}

/// Describes the answers of a sweep, a row for each value.
pub fn swept(swept: &Swept) -> String {
    let mut table = plain();
    table.set_header([
        swept.flag.as_str(),
        "success",
        "replies",
        "bound",
        "packets",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "view change",
        "cheapest remedy",
    ]);
    for (value, answer) in swept.values.iter().zip(&swept.answers) {
        let cheapest = answer.remedies.iter().find(|own| own.cheapest).map(name);
        let remedy = match answer.remedy_needed {
            false => String::new(),
            true => cheapest.unwrap_or_else(|| "none suffices".to_owned()),
        };
        table.add_row([
            value.to_string(),
            chance(answer.success_probability),
            format!("{:.3}", answer.expected_replies),
            answer.expected_replies_lower_bound.map_or("-".to_owned(), |bound| format!("{bound:.3}")),
            format!("{:.1}", answer.messages.packets),
            ms(answer.latency_ms.mean),
            ms(answer.latency_ms.p50),
            ms(answer.latency_ms.p99),
            answer.view_change.map_or("-".to_owned(), |own| chance(own.probability)),
            remedy,
        ]);
    }
    table.column_iter_mut().take(9).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}
