//! The page of `quorate status --watch`: a cluster that fits into a terminal, or one line at a time for files and
//! pipes.
//!
//! A table and a list need no terminal library: the page begins at the top left, and each line erases the rest of its
//! own, so nothing flickers.

use crate::replicas::{ClusterStatus, ReplicaStatus};
use quorate_types::Status;
use quorate_types::text::escaped;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Columns and rows of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Size of a terminal that does not tell.
const USUAL: Size = Size { columns: 80, rows: 24 };
/// Columns below which a page is not cut further.
const MIN_COLUMNS: usize = 20;

const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
const TOP_LEFT: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

/// How the status is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A page that replaces the last one.
    Page { colours: bool },
    /// A line each time.
    Lines,
}

impl Style {
    /// Returns the style for standard output, by the environment: `NO_COLOR` forbids colours, and a terminal that is
    /// `dumb` gets lines.
    pub fn of_output() -> Style {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        match io::stdout().is_terminal() && variable("TERM").is_some_and(|term| term != "dumb") {
            true => Style::Page { colours: variable("NO_COLOR").is_none() },
            false => Style::Lines,
        }
    }
}

/// Returns the size of the terminal at standard output.
pub fn size() -> Size {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel writes one `winsize` to a valid location.
    let status = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    match status == 0 && size.ws_col > 0 && size.ws_row > 0 {
        true => Size { columns: size.ws_col.into(), rows: size.ws_row.into() },
        false => USUAL,
    }
}

/// Rates between two readings; absent for a replica that was not read twice in one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rates {
    /// Commands per second, by replica.
    commands: BTreeMap<u16, f64>,
    /// Blocks per second, by replica.
    blocks: BTreeMap<u16, f64>,
}

impl Rates {
    /// Returns the rates from an earlier reading to a later one.
    pub fn between(earlier: &ClusterStatus, later: &ClusterStatus, elapsed: Duration) -> Rates {
        let mut rates = Rates::default();
        for now in &later.replicas {
            let before = earlier.replicas.iter().find(|of| of.replica == now.replica);
            let (Some(now), Some(before)) = (&now.status, before.and_then(|of| of.status.as_ref())) else { continue };
            // The counters of a replica that was restarted in between begin again.
            if now.uptime_ms < before.uptime_ms || elapsed.is_zero() {
                continue;
            }
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            rates.commands.insert(now.replica.0, rate(now.committed_commands, before.committed_commands));
            rates.blocks.insert(now.replica.0, rate(now.committed_blocks, before.committed_blocks));
        }
        rates
    }

    fn greatest(of: &BTreeMap<u16, f64>) -> String {
        of.values().copied().reduce(f64::max).map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}"))
    }
}

/// Successive readings of a cluster.
#[derive(Default)]
pub struct Watch {
    last: Option<(Instant, ClusterStatus)>,
}

impl Watch {
    /// Returns the text for a new reading, made at `now`.
    pub fn show(&mut self, now: Instant, status: ClusterStatus, style: Style) -> String {
        let earlier = self.last.take();
        let rates = earlier.map(|(at, earlier)| Rates::between(&earlier, &status, now - at)).unwrap_or_default();
        let text = match style {
            Style::Page { colours } => page(&status, &rates, size(), colours),
            Style::Lines => format!("{} {}", utc(), line(&status, &rates)),
        };
        self.last = Some((now, status));
        text
    }
}

/// Returns the time in UTC, to the second.
fn utc() -> String {
    let mut text = String::new();
    match SystemTime.format_time(&mut Writer::new(&mut text)) {
        Ok(()) if text.len() > 19 => format!("{}Z", &text[..19]),
        _ => "–".to_owned(),
    }
}

/// Facts about the whole cluster.
struct Summary<'a> {
    answers: usize,
    view: String,
    leader: String,
    height: String,
    lag: u64,
    problems: Vec<(Option<&'a ReplicaStatus>, &'a String)>,
}

fn summary(status: &ClusterStatus) -> Summary<'_> {
    let answers = || status.replicas.iter().filter_map(|of| of.status.as_ref());
    let newest = answers().max_by_key(|status| (status.view, status.height));
    let value = |of: &dyn Fn(&Status) -> String| newest.map_or_else(|| "–".to_owned(), of);
    let of_replicas = status.replicas.iter().flat_map(|of| of.attention.iter().map(move |what| (Some(of), what)));
    Summary {
        answers: answers().count(),
        view: value(&|status| status.view.to_string()),
        leader: value(&|status| status.leader.to_string()),
        height: answers().map(|status| status.height).max().map_or_else(|| "–".to_owned(), |height| height.to_string()),
        lag: status.replicas.iter().filter_map(|of| of.lag).max().unwrap_or(0),
        problems: status.attention.iter().map(|what| (None, what)).chain(of_replicas).collect(),
    }
}

/// Returns one line about a cluster, as pairs of a name and a value.
pub fn line(status: &ClusterStatus, rates: &Rates) -> String {
    let Summary { answers, view, leader, height, lag, problems } = summary(status);
    let timeouts: u64 = status.replicas.iter().filter_map(|of| of.status.as_ref()).map(|of| of.view_timeouts).sum();
    let mut text = format!(
        "answers={answers}/{} view={view} leader={leader} height={height} lag={lag} commands/s={} blocks/s={} \
         timeouts={timeouts} attention={}",
        status.replicas.len(),
        Rates::greatest(&rates.commands),
        Rates::greatest(&rates.blocks),
        problems.len()
    );
    if let Some(first) = problems.first() {
        write!(text, " first=\"{}\"", problem(*first).replace('"', "'")).expect("a string takes all");
    }
    text
}

/// Returns a sentence about a problem.
fn problem((of, what): (Option<&ReplicaStatus>, &String)) -> String {
    match of {
        Some(of) => format!("replica {}: {}", of.replica, escaped(what)),
        None => format!("the cluster {}", escaped(what)),
    }
}

/// Returns a page that fills at most a terminal of this size.
pub fn page(status: &ClusterStatus, rates: &Rates, size: Size, colours: bool) -> String {
    let (columns, rows) = (size.columns.max(MIN_COLUMNS), size.rows.saturating_sub(1).max(4));
    let Summary { answers, view, leader, problems, .. } = summary(status);
    let all = status.replicas.len();
    let title = format!(
        "{answers} of {all} answer · view {view} · leader {leader} · {} commands/s · {} blocks/s",
        Rates::greatest(&rates.commands),
        Rates::greatest(&rates.blocks)
    );
    let mut lines = vec![(BOLD, title), ("", String::new()), (BOLD, headings())];
    // Problems get up to a third of the page, and at least two lines.
    let places = rows - lines.len();
    let for_problems = 1 + problems.len().clamp(1, (places / 3).max(2));
    let for_replicas = places.saturating_sub(for_problems).max(1);
    let shown = if all > for_replicas { for_replicas - 1 } else { all };
    let is_troubled = |of: &&ReplicaStatus| !of.attention.is_empty();
    // If not all fit, those with problems come first.
    let (mut order, calm): (Vec<&ReplicaStatus>, Vec<&ReplicaStatus>) = match shown < all {
        true => status.replicas.iter().partition(is_troubled),
        false => (status.replicas.iter().collect(), Vec::new()),
    };
    order.extend(calm);
    lines.extend(order[..shown].iter().map(|of| (if is_troubled(of) { RED } else { "" }, row(of, rates))));
    if shown < all {
        lines.push(("", format!("   .. and {} more", all - shown)));
    }
    lines.push(("", String::new()));
    match problems.is_empty() {
        true => lines.push(("", "nothing needs attention".to_owned())),
        false => {
            let left = rows.saturating_sub(lines.len()).max(1);
            let shown = if problems.len() > left { left - 1 } else { problems.len() };
            lines.extend(problems[..shown].iter().map(|one| (RED, problem(*one))));
            if shown < problems.len() {
                lines.push((RED, format!(".. and {} more problems", problems.len() - shown)));
            }
        }
    }
    lines.truncate(rows);
    painted(&lines, columns, colours)
}

fn painted(lines: &[(&str, String)], columns: usize, colours: bool) -> String {
    let mut text = TOP_LEFT.to_owned();
    for (at, (colour, line)) in lines.iter().enumerate() {
        let cut: String = match line.chars().count() > columns {
            true => line.chars().take(columns - 1).chain(['…']).collect(),
            false => line.clone(),
        };
        let end = if at + 1 == lines.len() { "" } else { "\n" };
        let (begin, stop) = if colours && !colour.is_empty() { (*colour, PLAIN) } else { ("", "") };
        text.push_str(&format!("{begin}{cut}{stop}{ERASE_LINE}{end}"));
    }
    text + ERASE_BELOW
}

/// Returns the headings of the columns, which fit into 80 characters with usual values.
fn headings() -> String {
    let [id, view, height, lag, peers] = ["id", "view", "height", "lag", "peers"];
    let [timeouts, rate, disk] = ["timeouts", "commands/s", "disk ms"];
    format!("{id:>3}  {view:>10} {height:>11} {lag:>6} {peers:>5} {timeouts:>8} {rate:>10} {disk:>8}  up")
}

fn row(of: &ReplicaStatus, rates: &Rates) -> String {
    let id = of.replica.to_string();
    let Some(status) = &of.status else { return format!("{id:>3}  does not answer") };
    let rate = rates.commands.get(&of.replica.0).map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}"));
    let disk = status.journal_writes.filter(|times| times.writes > 0);
    format!(
        "{id:>3}{} {:>10} {:>11} {:>6} {:>5} {:>8} {rate:>10} {:>8}  {}",
        if status.leader == of.replica { '*' } else { ' ' },
        status.view.to_string(),
        status.height.to_string(),
        of.lag.map_or_else(|| "–".to_owned(), |lag| lag.to_string()),
        format!("{}/{}", status.connected.len(), status.peers),
        status.view_timeouts,
        disk.map_or_else(|| "–".to_owned(), |times| format!("{:.1}", times.p50_us as f64 / 1e3)),
        crate::replicas::spell(Duration::from_millis(status.uptime_ms))
    )
}
