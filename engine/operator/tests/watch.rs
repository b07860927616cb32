//! The page of `quorate status --watch`, and its lines.

use crate::judge::at;
use quorate_operator::replicas::{ClusterStatus, ReplicaStatus};
use quorate_operator::watch::{Rates, Size, Style, Watch, line, page};
use quorate_types::ReplicaId;
use std::time::{Duration, Instant};

/// A cluster whose replicas have executed these numbers of commands; `None` for one that does not answer.
fn cluster(commands: &[Option<u64>]) -> ClusterStatus {
    let replica = |(replica, commands): (usize, &Option<u64>)| {
        let status = commands.map(|commands| {
            let mut status = at(replica as u16, 7);
            (status.committed_commands, status.uptime_ms) = (commands, 1_000);
            status
        });
        let attention = match status {
            Some(_) => Vec::new(),
            None => vec![format!("does not answer: \x1b[31m{}", "for a long reason ".repeat(9))],
        };
        let address = "127.0.0.1:1".parse().expect("an address");
        ReplicaStatus {
            replica: ReplicaId(replica as u16),
            address,
            lag: status.as_ref().map(|_| 0),
            status,
            attention,
        }
    };
    ClusterStatus {
        attention: Vec::new(),
        version_skew: Vec::new(),
        replicas: commands.iter().enumerate().map(replica).collect(),
    }
}

/// Returns the lines of a page without control sequences for the cursor.
fn lines(page: &str) -> Vec<String> {
    let text = page.replace("\x1b[H", "").replace("\x1b[K", "").replace("\x1b[J", "");
    text.lines().map(str::to_owned).collect()
}

const USUAL: Size = Size { columns: 80, rows: 24 };

#[test]
fn a_page_fits_into_its_terminal_with_and_without_colours() {
    let status = cluster(&[Some(5), Some(6), Some(7), None]);
    let shown = lines(&page(&status, &Rates::default(), USUAL, false));
    assert_eq!(shown[0], "3 of 4 answer · view 9 · leader 0 · – commands/s · – blocks/s");
    assert_eq!(shown[2], " id        view      height    lag peers timeouts commands/s  disk ms  up");
    assert_eq!(shown[3], "  0*          9           7      0   3/3        0          –        –  1 s");
    assert!(shown[6].starts_with("  3  does not answer"), "{shown:#?}");
    assert!(shown[8].starts_with("replica 3: does not answer: \\u{1b}[31mfor a long"), "{shown:#?}");
    assert!(shown[8].ends_with('…') && shown[8].chars().count() == 80, "{shown:#?}");
    let coloured = page(&status, &Rates::default(), USUAL, true);
    assert!(coloured.contains("\x1b[31mreplica 3: ") && coloured.contains("\x1b[1m3 of 4 answer"), "{coloured:?}");
    let plain = coloured.replace("\x1b[31m", "").replace("\x1b[1m", "").replace("\x1b[0m", "");
    assert_eq!(lines(&plain), shown, "colours change nothing else");
}

#[test]
fn pages_of_all_sizes_have_at_most_their_rows_and_columns_and_show_what_is_wrong() {
    let mut commands = vec![Some(1); 31];
    (commands[17], commands[30]) = (None, None);
    for (columns, rows) in [(80, 24), (80, 6), (40, 10), (20, 5), (1, 1), (200, 60)] {
        let shown = lines(&page(&cluster(&commands), &Rates::default(), Size { columns, rows }, false));
        assert!(shown.len() < rows.max(6), "{columns} x {rows}: {shown:#?}");
        assert!(shown.iter().all(|line| line.chars().count() <= columns.max(20)), "{columns} x {rows}: {shown:#?}");
        if rows >= 10 {
            assert!(shown.iter().any(|line| line.starts_with(" 17  does not")), "{columns} x {rows}: {shown:#?}");
            assert!(shown.iter().any(|line| line.starts_with("replica 17: ")), "{columns} x {rows}: {shown:#?}");
        }
    }
    let shown = lines(&page(&cluster(&commands), &Rates::default(), USUAL, false));
    assert!(shown.iter().any(|line| line == "   .. and 15 more"), "{shown:#?}");
}

#[test]
fn rates_are_those_between_two_readings_in_one_run() {
    let (first, second) = (cluster(&[Some(100), Some(100), None]), cluster(&[Some(300), Some(250), Some(9)]));
    let rates = Rates::between(&first, &second, Duration::from_secs(2));
    let told = line(&second, &rates);
    assert_eq!(told, "answers=3/3 view=9 leader=0 height=7 lag=0 commands/s=100 blocks/s=0 timeouts=0 attention=0");
    let told = line(&first, &Rates::default());
    assert!(
        told.contains("commands/s=– ") && told.contains("attention=1 first=\"replica 2: does not answer"),
        "{told}"
    );
    let mut restarted = second.clone();
    restarted.replicas[0].status.as_mut().expect("it answers").uptime_ms = 10;
    let rates = Rates::between(&first, &restarted, Duration::from_secs(1));
    assert!(line(&restarted, &rates).contains("commands/s=150 "), "counters of a restarted replica begin again");
}

#[test]
fn lines_have_the_time_and_nothing_for_a_terminal() {
    let mut watch = Watch::default();
    let now = Instant::now();
    watch.show(now, cluster(&[Some(1)]), Style::Lines);
    let told = watch.show(now + Duration::from_secs(1), cluster(&[Some(11)]), Style::Lines);
    let (time, rest) = told.split_once(' ').expect("a time");
    assert!(time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{told}");
    assert!(rest.starts_with("answers=1/1 ") && rest.contains("commands/s=10 ") && !told.contains('\x1b'), "{told}");
}
