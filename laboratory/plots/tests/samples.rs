//! Invented data for each kind of figure, generated deterministically.

use quorate_plots::{
    Axis, Bar, BarSeries, Block, BoxMark, BoxSeries, Cell, Chip, Claim, Column, Event, Fact, Figure, HeatPanel, Hover,
    Note, Page, Panel, Plot, Point, Section, Series, Table, Tile, Tone, Trace, Verdict,
};

/// Returns pseudorandom numbers from 0 to 1.
fn noise(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    })
}

fn hover(command: &str, rows: &[(&str, &str)]) -> Hover {
    let rows = rows.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Hover { rows, command: Some(command.into()) }
}

fn figure(id: &str, title: &str, x: Axis, y: Axis, plot: Plot) -> Figure {
    Figure { id: id.into(), title: title.into(), caption: String::new(), x, y, plot }
}

/// Latency against throughput for three protocols, with a curve from a paper.
pub fn curve() -> Figure {
    let protocol = |name: &str, most: f64, base: f64| {
        let loads = [0.1, 0.3, 0.5, 0.7, 0.82, 0.9, 0.96, 0.99];
        let point = |load: f64| {
            let (rate, ms) = (most * load, base * (1.0 + 0.35 * load / (1.02 - load)));
            let command = format!("quorate bench --protocol {name} --rate {rate:.0} --duration 20s --seed 7");
            let mut point = Point::new(rate, ms).between(ms * 0.94, ms * 1.09);
            point.x_interval = Some((rate * 0.985, rate * 1.01));
            point.hover(hover(
                &command,
                &[("offered load", &format!("{:.0} %", load * 100.0)), ("p99", &format!("{:.1} ms", ms * 2.3))],
            ))
        };
        Series { name: name.into(), points: loads.into_iter().map(point).collect(), ..Series::default() }
    };
    let mut paper = protocol("alpha", 148_000.0, 5.6);
    paper.paper = true;
    for point in &mut paper.points {
        (point.x_interval, point.y_interval, point.hover) = (None, None, Hover::default());
    }
    let series = vec![
        protocol("alpha", 131_000.0, 5.1),
        protocol("beta", 96_000.0, 3.4),
        protocol("gamma", 122_000.0, 7.9),
        paper,
    ];
    let mut figure = figure(
        "curve",
        "Latency against throughput under rising load",
        Axis::new("throughput", "commands/s"),
        Axis::new("median latency", "ms"),
        Plot::Curve(vec![Panel::new("", series)]),
    );
    figure.caption = "Four replicas, blocks of 400 commands. Bars are 95 % intervals of five repetitions.".into();
    figure
}

/// Throughput against replicas in two panels, on logarithmic axes, with one failed cell.
pub fn line() -> Figure {
    let panel = |title: &str, scale: f64| {
        let series = |name: &str, most: f64, slope: f64| {
            let point = |n: f64| {
                let value = most * scale * (n / 4.0f64).powf(slope);
                let command = format!("quorate bench --protocol {name} --replicas {n} --duration 20s");
                Point::new(n, value).between(value * 0.9, value * 1.12).hover(hover(&command, &[("repetitions", "5")]))
            };
            let points = [4.0, 10.0, 31.0, 64.0, 100.0].map(point).into();
            Series { name: name.into(), points, ..Series::default() }
        };
        let mut beta = series("beta", 96_000.0, -1.15);
        beta.points[4] = Point::failed(100.0, "out of memory after 12 s");
        let mut paper = series("alpha", 150_000.0, -0.62);
        paper.paper = true;
        paper.points.iter_mut().for_each(|point| point.y_interval = None);
        Panel::new(title, vec![series("alpha", 131_000.0, -0.66), beta, series("gamma", 122_000.0, -0.6), paper])
    };
    figure(
        "line",
        "Throughput against the number of replicas",
        Axis::log("replicas", ""),
        Axis::log("throughput", "commands/s"),
        Plot::Line(vec![panel("no payload", 1.0), panel("payload of 1 KiB", 0.31)]),
    )
}

/// Latency of each scheme as box plots.
pub fn boxes() -> Figure {
    let series = |name: &str, paper: bool, base: f64| {
        let mark = |(at, category): (usize, &&str)| {
            let middle = base * (1.0 + 0.35 * at as f64);
            let outliers = if paper {
                Vec::new()
            } else {
                noise(at as u64 + 3).take(14).map(|n| middle * (1.75 + 1.4 * n * n)).collect()
            };
            let summary = [0.62, 0.85, 1.0, 1.28, 1.7].map(|part| part * middle);
            let hover = hover(&format!("quorate bench --scheme {category} --n 4"), &[("requests", "48,211")]);
            BoxMark { category: (*category).into(), summary, outliers, hover }
        };
        let categories = ["ed25519", "ed25519 batch", "bls", "mac", "none"];
        Series2 { name, paper, boxes: categories.iter().enumerate().map(mark).collect() }.into()
    };
    figure(
        "boxes",
        "Latency by signature scheme",
        Axis::new("scheme", ""),
        Axis::new("latency", "ms"),
        Plot::Boxes(vec![Panel::new(
            "",
            vec![series("alpha", false, 4.1), series("beta", false, 3.2), series("alpha", true, 3.9)],
        )]),
    )
}

struct Series2<'a> {
    name: &'a str,
    paper: bool,
    boxes: Vec<BoxMark>,
}

impl From<Series2<'_>> for BoxSeries {
    fn from(from: Series2<'_>) -> BoxSeries {
        BoxSeries { name: from.name.into(), paper: from.paper, boxes: from.boxes }
    }
}

fn bar_series(name: &str, paper: bool, values: &[(&str, Option<f64>)]) -> BarSeries {
    let bar = |(category, value): &(&str, Option<f64>)| Bar {
        category: (*category).into(),
        value: *value,
        interval: value.filter(|_| !paper).map(|value| (value * 0.93, value * 1.05)),
        hover: match value {
            Some(_) => hover(&format!("quorate bench --protocol {name} --profile '{category}'"), &[]),
            None => Hover { rows: vec![("failed".into(), "no quorum within 60 s".into())], command: None },
        },
    };
    BarSeries { name: name.into(), paper, bars: values.iter().map(bar).collect() }
}

/// Throughput with faulty replicas as bars, with one failed cell.
pub fn bars() -> Figure {
    let series = vec![
        bar_series(
            "alpha",
            false,
            &[
                ("no fault", Some(131e3)),
                ("one crash", Some(118e3)),
                ("silent leader", Some(74e3)),
                ("slow leader", Some(52e3)),
            ],
        ),
        bar_series(
            "beta",
            false,
            &[
                ("no fault", Some(96e3)),
                ("one crash", Some(93e3)),
                ("silent leader", Some(21e3)),
                ("slow leader", None),
            ],
        ),
        bar_series("beta", true, &[("no fault", Some(101e3)), ("one crash", Some(97e3))]),
    ];
    let (x, y) = (Axis::new("fault", ""), Axis::new("throughput", "commands/s"));
    figure("bars", "Throughput with faulty replicas", x, y, Plot::Bars(vec![Panel::new("", series)]))
}

/// CPU time by part as stacked bars.
pub fn stacked() -> Figure {
    let panel = |title: &str, scale: f64| {
        let parts = [
            ("verify", 9.2, 6.0),
            ("sign", 2.1, 0.9),
            ("hash", 1.4, 1.3),
            ("network", 4.4, 6.9),
            ("journal", 1.9, 1.8),
            ("execute", 0.8, 0.8),
        ];
        let series = parts.map(|(name, one, two)| {
            let bars = vec![
                Bar::new("alpha", one * scale),
                Bar::new("beta", two * scale),
                Bar::new("gamma", one * scale * 1.14),
            ];
            BarSeries { name: name.into(), paper: false, bars }
        });
        let quoted = parts[..2].iter().map(|(name, one, _)| bar_series(name, true, &[("alpha", Some(one * scale))]));
        Panel::new(title, series.into_iter().chain(quoted).collect())
    };
    let (x, y) = (Axis::new("", ""), Axis::new("processor time", "µs/command"));
    let panels = vec![panel("4 replicas", 1.0), panel("10 replicas", 1.9), panel("31 replicas", 3.6)];
    figure("stacked", "Processor time of a command, by part", x, y, Plot::Stacked(panels))
}

/// Throughput by block size and payload as a heat map, with a failed and an absent cell.
pub fn heat() -> Figure {
    let columns: Vec<String> = ["10", "50", "100", "200", "400", "800", "1600"].map(String::from).into();
    let rows: Vec<String> = ["0 B", "128 B", "1 KiB", "4 KiB", "16 KiB"].map(String::from).into();
    let mut cells = Vec::new();
    for (row, payload) in rows.iter().enumerate() {
        for (column, block) in columns.iter().enumerate() {
            let value = 131e3 * (column as f64 + 0.6).powf(0.8) / 5.0 / (1.0 + (row * row) as f64 * 0.9);
            let failed = (row, column) == (4, 6);
            let command = format!("quorate bench --block {block} --payload '{payload}'");
            if (row, column) != (4, 0) {
                cells.push(Cell { column, row, value: (!failed).then_some(value), hover: hover(&command, &[]) });
            }
        }
    }
    let (x, y) = (Axis::new("commands in a block", ""), Axis::new("payload", ""));
    let quoted = cells.iter().filter(|cell| cell.row < 2 && (2..5).contains(&cell.column)).map(|cell| Cell {
        column: cell.column - 2,
        value: cell.value.map(|value| value * 1.2),
        hover: Hover::default(),
        ..*cell
    });
    let paper = HeatPanel {
        title: "paper".into(),
        paper: true,
        cells: quoted.collect(),
        columns: columns[2..5].into(),
        rows: rows[..2].into(),
    };
    let panels = vec![HeatPanel { title: "ours".into(), paper: false, columns, rows, cells }, paper];
    let value = Axis::log("throughput", "commands/s");
    figure("heat", "Throughput by block size and payload", x, y, Plot::Heat { value, panels })
}

/// Latency of `count` sampled requests.
pub fn scatter(count: usize) -> Figure {
    let series = |name: &str, seed: u64, base: f64| {
        let (mut times, mut values) = (noise(seed), noise(seed + 1));
        let points = (0..count / 2).map(|at| {
            let at = (at as f64 + times.next().unwrap_or(0.0)) * 60.0 / (count as f64 / 2.0);
            let noise = values.next().unwrap_or(0.0);
            let slow = if (24.0..31.0).contains(&at) { 6.0 } else { 1.0 };
            Point::new(at, base * slow * (0.7 + 0.5 * noise - (1.0 - noise * 0.999).ln() * 0.35))
        });
        let command = format!("quorate bench --protocol {name} --rate 200 --samples 2000 --seed 7");
        Series { name: name.into(), command: Some(command), points: points.collect(), ..Series::default() }
    };
    let (x, y) = (Axis::new("time sent", "s"), Axis::log("latency", "ms"));
    let panels = vec![Panel::new("", vec![series("alpha", 11, 5.0), series("beta", 23, 2.6)])];
    figure("scatter", "Latency of single requests", x, y, Plot::Scatter(panels))
}

/// Commands and timeouts per second, with a leader that is repeatedly slow.
pub fn time() -> Figure {
    let slow = |second: f64| (15.0..30.0).contains(&second) || (45.0..60.0).contains(&second);
    let series = |name: &str, seed: u64, usual: f64, slowed: f64| {
        let points = noise(seed).take(75).enumerate().map(|(second, noise)| {
            let level = if slow(second as f64) { slowed } else { usual };
            Point::new(second as f64, level * (0.93 + 0.14 * noise))
        });
        let command = format!("quorate bench --protocol {name} --fault slow-leader:15s/15s --duration 75s");
        Series { name: name.into(), command: Some(command), points: points.collect(), ..Series::default() }
    };
    let mut late = series("beta", 3, 95e3, 4e3);
    late.points[66] = Point::failed(66.0, "no report of this second");
    let mut timeouts = Panel::new("timeouts", vec![series("alpha", 7, 0.4, 3.1), series("beta", 8, 0.2, 0.5)]);
    timeouts.y = Some(Axis::new("timeouts", "1/s"));
    let panels = vec![Panel::new("committed commands", vec![series("alpha", 1, 130e3, 61e3), late]), timeouts];
    let span = |from: f64| Event { from, to: Some(from + 15.0), label: "leader slow".into() };
    let moment = |from: f64, label: &str| Event { from, to: None, label: label.into() };
    let events = vec![span(15.0), moment(38.0, "replica 3 restarts"), span(45.0), moment(66.0, "checkpoint")];
    let (x, y) = (Axis::new("time", "s"), Axis::new("commands", "1/s"));
    figure("time", "A leader that is slow again and again", x, y, Plot::Time { panels, events })
}

/// Requests by latency, with two percentiles marked.
pub fn histogram() -> Figure {
    let shares = [1.0, 7.0, 19.0, 28.0, 21.0, 11.0, 6.0, 3.0, 0.0, 0.0, 2.5, 1.5];
    let edge = |at: usize| 2.0 * 10f64.powf(at as f64 / 8.0);
    let point = |(at, share): (usize, &f64)| Point {
        x_interval: Some((edge(at), edge(at + 1))),
        ..Point::new(edge(at), *share).hover(hover("quorate bench --seed 7", &[("commands", "1,000")]))
    };
    let series =
        Series { name: String::new(), points: shares.iter().enumerate().map(point).collect(), ..Series::default() };
    let mark = |at: f64, label: &str| Event { from: at, to: None, label: label.into() };
    let (x, y) = (Axis::log("latency", "ms"), Axis::new("share of the requests", "%"));
    let plot = Plot::Histogram {
        panels: vec![Panel::new("", vec![series])],
        marks: vec![mark(5.5, "p50"), mark(46.0, "p99")],
    };
    figure("histogram", "Requests by latency", x, y, plot)
}

/// Throughput against loss, whose logarithmic axis has a place for no loss, in three series, two without markers.
pub fn broken() -> Figure {
    let series = |name: &str, trace: Trace, slope: f64| {
        let point = |loss: f64| {
            let rate = 9000.0 / (1.0 + slope * loss);
            let point = if trace == Trace::Line {
                Point::new(loss, rate)
            } else {
                Point::new(loss, rate).between(rate * 0.8, rate)
            };
            point.hover(hover(&format!("quorate sim --loss {loss} --protocol {name}"), &[("runs", "5")]))
        };
        let points = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0].map(point).into();
        Series { name: name.into(), trace, points, ..Series::default() }
    };
    let all = vec![
        series("udp", Trace::Joined, 1.0),
        series("tcp", Trace::Line, 6.0),
        series("sctp", Trace::Line, 12.0),
        series("rudp", Trace::Hollow, 3.0),
    ];
    let x = Axis { zero_place: true, ..Axis::log("loss", "%") };
    let (y, plot) = (Axis::new("throughput", "commands/s"), Plot::Line(vec![Panel::new("", all)]));
    Figure {
        caption: "50 % of µs & more_or_less {all} at #1 ~ ≤ 2.".into(),
        ..figure("broken", "Throughput & loss", x, y, plot)
    }
}

/// Returns a figure of each kind.
pub fn all() -> Vec<Figure> {
    vec![curve(), line(), boxes(), bars(), stacked(), heat(), scatter(4000), time(), histogram(), broken()]
}

/// Statements, main figures and facts of an invented run.
fn parts() -> Vec<Block> {
    let chip = |tone, text: &str| Chip { tone, text: text.into() };
    let tile = |name: &str, value: &str, unit: &str| Tile { name: name.into(), value: value.into(), unit: unit.into() };
    let fact =
        |name: &str, value: &str, marked| Fact { name: name.into(), value: value.into(), marked, help: "Help".into() };
    let note = |tone, title: &str, folded| Note {
        tone,
        title: title.into(),
        text: "Why it matters.".into(),
        items: vec!["one reason".into(), "another reason".into()],
        folded,
    };
    vec![
        Block::Chips(vec![
            chip(Tone::Good, "✓ All replicas agree"),
            chip(Tone::Neutral, "Not limited by the clients"),
            chip(Tone::Warning, "2 view timeouts"),
            chip(Tone::Bad, "✗ Agreement is violated"),
        ]),
        Block::Tiles(vec![
            tile("Throughput", "131,204", "commands/s"),
            tile("Median latency", "5.3", "ms"),
            tile("99th percentile", "12.2", "ms"),
            tile("CPU per command", "7.31", "µs"),
            tile("Bytes per command", "2,743", "B"),
            tile("Longest gap", "1,044", "ms"),
        ]),
        Block::Note(note(Tone::Good, "The cluster was safe", false)),
        Block::Note(note(Tone::Warning, "Evidence of misbehaviour", true)),
        Block::Note(note(Tone::Bad, "Nothing was committed", false)),
        Block::Facts(vec![fact("--replicas", "4", false), fact("--batch", "100", true), fact("--seed", "7", true)]),
        Block::Terms(vec![("Throughput".into(), "Commands completed in the measured time, by that time.".into())]),
    ]
}

fn claims() -> Vec<Claim> {
    let claim = |id: &str, text: &str, verdict, measured: &str, paper: Option<&str>, note: Option<&str>| Claim {
        id: id.into(),
        text: text.into(),
        verdict,
        measured: measured.into(),
        paper: paper.map(Into::into),
        note: note.map(Into::into),
    };
    vec![
        claim(
            "more-throughput",
            "alpha reaches more commands per second than beta",
            Verdict::Holds,
            "ratio 1.36 (1.31 to 1.42)",
            Some("1.47"),
            None,
        ),
        claim(
            "less-latency",
            "alpha answers sooner than beta at 10,000 commands/s",
            Verdict::DoesNotHold,
            "5.3 ms against 3.5 ms",
            Some("4.9 ms against 6.2 ms"),
            Some("The paper's beta signs every message; ours authenticates with MACs."),
        ),
        claim(
            "plateau",
            "throughput stays level from 400 commands a block on",
            Verdict::Undecided,
            "slope 0.03 (-0.02 to 0.09)",
            None,
            None,
        ),
        claim(
            "wan",
            "ten regions halve the throughput",
            Verdict::NotMeasurableHere,
            "none",
            Some("0.52"),
            Some("Needs the emulated network."),
        ),
    ]
}

/// Returns a page with a figure of each kind.
pub fn page() -> Page {
    let figures = all().into_iter().map(|figure| Block::Figure(Box::new(figure)));
    let column = |title: &str, numeric| Column { title: title.into(), numeric };
    let table = Table {
        caption: "Cells measured".into(),
        columns: vec![
            column("protocol", false),
            column("replicas", true),
            column("commands/s", true),
            column("machine", false),
        ],
        rows: vec![
            vec!["alpha".into(), "4".into(), "131,204".into(), "steady".into()],
            vec!["beta".into(), "4".into(), "96,020".into(), "2 % stolen".into()],
        ],
    };
    let section = |id: &str, title: &str, blocks| Section { id: id.into(), title: title.into(), blocks };
    Page {
        title: "Gallery of figures".into(),
        lead: vec!["Every kind of figure that a report can have. All values are invented.".into()],
        sections: vec![
            section("summary", "", parts()),
            section("claims", "Claims", vec![Block::Claims(claims()), Block::Table(table)]),
            section("figures", "Figures", figures.collect()),
            section(
                "repeat",
                "Repeat",
                vec![
                    Block::Paragraph("This command draws the page again:".into()),
                    Block::Command("cargo run -p quorate-plots --example gallery -- DIR".into()),
                ],
            ),
        ],
        footer: "Invented data".into(),
    }
}
