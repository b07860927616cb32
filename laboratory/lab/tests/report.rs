//! The page is well-formed, makes no requests, and escapes hostile text.

use quorate_lab::result::{Agreement, BenchResult, Bucket, CpuPerCommand, Difference, Event, Latency, Second};
use quorate_lab::spec::{BenchSpec, WorkloadKind};
use quorate_lab::{Verdict, render_html, render_verdict};

/// Parses the page as XML and returns the names of its elements. Skips the raw text of style and script.
fn elements(page: &str) -> Vec<String> {
    let page = page.strip_prefix("<!doctype html>").expect("a doctype");
    let (mut open, mut all, mut rest) = (Vec::<String>::new(), Vec::new(), page);
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at]);
        let end = at + tag_end(&rest[at..]);
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed but not open");
            continue;
        }
        let name: String = tag.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        assert!(!name.is_empty(), "no name in <{tag}>");
        all.push(name.clone());
        if tag.ends_with('/') {
            continue;
        }
        if name == "style" || name == "script" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("raw text ends")..];
        }
        open.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

/// Returns the end of a tag. Attributes are quoted and may contain `>`.
fn tag_end(text: &str) -> usize {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '>' && !quoted
    });
    end.expect("a tag ends").0
}

fn check_text(text: &str) {
    assert!(!text.contains('>'), "a bare > in {text}");
    for (at, _) in text.match_indices('&') {
        let entity = &text[at..];
        assert!(
            ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|known| entity.starts_with(known)),
            "a bare & in {text}"
        );
    }
}

fn empty() -> BenchResult {
    BenchResult {
        throughput_ops: 0.0,
        committed_commands: 0,
        committed_blocks: 0,
        latency_ms: Latency::default(),
        cpu_us_per_command: CpuPerCommand::default(),
        timeline: Vec::new(),
        latency_histogram: Vec::new(),
        ..crate::common::sample()
    }
}

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)> \" ' & \u{0} \u{1b}[31m";

fn hostile() -> BenchResult {
    let sample = crate::common::sample();
    BenchResult {
        spec: BenchSpec {
            workload: WorkloadKind::File(HOSTILE.into()),
            json: Some(HOSTILE.into()),
            ..sample.spec.clone()
        },
        events: vec![Event { time_s: -1e300, text: HOSTILE.into() }, Event { time_s: f64::NAN, text: HOSTILE.into() }],
        evidence: vec![HOSTILE.into()],
        warnings: vec![HOSTILE.into()],
        machine: quorate_lab::result::Machine { cpu: HOSTILE.into(), kernel: HOSTILE.into(), ..sample.machine.clone() },
        command: HOSTILE.into(),
        version: HOSTILE.into(),
        agreement: Agreement::Unknown(HOSTILE.into()),
        ..sample
    }
}

#[test]
fn the_page_is_well_formed() {
    for result in [crate::common::sample(), empty(), hostile()] {
        let names = elements(&render_html(&result));
        for name in ["html", "title", "h1", "svg", "pre"] {
            assert!(names.iter().any(|other| other == name), "no <{name}>");
        }
    }
}

#[test]
fn nothing_is_fetched() {
    for result in [crate::common::sample(), empty()] {
        let page = render_html(&result);
        // A namespace name is the only address in the page, and nothing is fetched from it.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for needle in ["http:", "https:", "src=", "url(", "@import", "://", "fetch("] {
            assert!(!page.contains(needle), "the page holds `{needle}`");
        }
        assert!(page.split("href=\"").skip(1).all(|link| link.starts_with('#')), "links lead to places of the page");
        assert!(page.contains("default-src 'none'"), "the policy forbids requests");
    }
}

#[test]
fn hostile_text_stays_text() {
    let page = render_html(&hostile());
    assert_eq!(page.matches("<script>").count(), 1, "only the page's own script");
    let data = page.matches("<script type=\"application/json\"").count();
    assert_eq!(page.matches("</script>").count(), 1 + data, "and the data of the figures");
    assert!(!page.contains("<img") && !page.contains('\u{0}') && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

#[test]
fn charts_have_only_finite_numbers() {
    let single = BenchResult { timeline: crate::common::sample().timeline[..1].to_vec(), ..crate::common::sample() };
    for result in [crate::common::sample(), empty(), hostile(), single] {
        let page = render_html(&result);
        let charts: String = page.split("<svg").skip(1).filter_map(|part| part.split("</svg>").next()).collect();
        assert!(!charts.contains("NaN") && !charts.contains("inf\""), "a position that is not a number");
    }
}

#[test]
fn the_page_shows_the_measurements() {
    let result = crate::common::sample();
    let page = render_html(&result);
    let shown =
        ["165,480", "1,044", "7.31", "replica 2 was killed", "AMD EPYC", "All replicas agree", "1 view timeout"];
    for text in shown {
        assert!(page.contains(text), "`{text}` is missing");
    }
    let words = format!("<span>{}</span>", result.command.replace(' ', "</span> <span>"));
    assert!(page.contains(&words), "no line breaks within a flag");
    let drop = tooltips(&page, "seconds").into_iter().find(|rows| rows.contains("41,300 commands/s"));
    assert!(drop.is_some_and(|rows| rows.contains("time, interval: 4 to 5")), "the fifth second");
    for text in ["4.0", "replicas", "5.02", "Latency percentiles, ms", "batch_policy", "Marked values differ"] {
        assert!(page.contains(text), "`{text}` is missing");
    }
}

/// Returns the tooltips of a figure, one `name: value` per row.
fn tooltips(page: &str, figure: &str) -> Vec<String> {
    let after = page.split(&format!("id=\"{figure}~data\">")).nth(1).expect("the figure has data");
    let json = after.split("</script>").next().expect("the data ends");
    let data: serde_json::Value = serde_json::from_str(json).expect("data is JSON");
    let text = |index: &serde_json::Value| {
        let index = index.as_u64().expect("an index") as usize;
        data["strings"][index].as_str().expect("a text").to_owned()
    };
    let marks = data["panels"].as_array().expect("panels").iter().flat_map(|marks| marks.as_array().expect("marks"));
    let rows = |mark: &serde_json::Value| {
        let fields = mark.as_array().expect("fields");
        let rows: Vec<String> =
            fields[6..].chunks(2).map(|row| format!("{}: {}", text(&row[0]), text(&row[1]))).collect();
        format!("{}, {}", text(&fields[4]), rows.join(", "))
    };
    marks.map(rows).collect()
}

#[test]
fn problems_come_first() {
    let difference = Difference { height: 812, replicas: [0, 3], blocks: ["aa".into(), "bb".into()] };
    let result =
        BenchResult { agreement: Agreement::Differs(difference), client_bound: true, ..crate::common::sample() };
    let page = render_html(&result);
    let first_chart = page.find("<svg").expect("a chart");
    for text in ["Agreement is violated", "at height 812", "The clients were the bottleneck"] {
        assert!(page.find(text).is_some_and(|at| at < first_chart), "`{text}` is not before the charts");
    }
    assert!(render_html(&empty()).contains("Nothing was committed"));
}

#[test]
fn the_page_of_a_long_run_has_a_bounded_size() {
    let second = |second| Second { second, ops: 1000, p50_ms: Some(1.0), p99_ms: Some(2.0), ..Second::default() };
    let result = BenchResult { timeline: (0..604_800).map(second).collect(), ..crate::common::sample() };
    let page = render_html(&result);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("1,000 commands/s"));
}

#[test]
fn a_short_last_second_is_not_drawn_as_a_drop() {
    let mut result = crate::common::sample();
    result.spec.duration = "1500ms".parse().expect("a duration");
    let second = |second, ops| Second { second, ops, ..Second::default() };
    result.timeline = vec![second(0, 1000), second(1, 500)];
    let all = tooltips(&render_html(&result), "seconds");
    assert!(all[1].contains("time, interval: 1 to 1.5") && all[1].contains("1,000 commands/s"), "{all:?}");
}

#[test]
fn a_verdict_comes_first() {
    let verdict = Verdict {
        passed: true,
        claims: vec!["Linearizable".into()],
        reasons: vec!["4 checked clients recorded every answer.".into()],
    };
    let page = render_verdict(&crate::common::sample(), &verdict);
    elements(&page);
    let first_chart = page.find("<svg").expect("a chart");
    for text in ["✓ Linearizable", "The cluster was safe", "4 checked clients"] {
        assert!(page.find(text).is_some_and(|at| at < first_chart), "`{text}` is not before the charts");
    }
    let broken = render_verdict(&crate::common::sample(), &Verdict { passed: false, ..verdict });
    assert!(broken.contains("✗ Linearizable") && broken.contains("The cluster violated safety"));
}

#[test]
fn evidence_is_folded_and_complete() {
    let evidence = (0..5).map(|at| format!("replica 0 signed two blocks, {at}")).collect();
    let page = render_html(&BenchResult { evidence, ..crate::common::sample() });
    let folded = page.split("<details").find(|part| part.contains("5 proofs")).expect("it is folded");
    assert_eq!(folded.matches("signed two blocks").count(), 5);
}

#[test]
fn simultaneous_events_share_a_label() {
    let event = |time_s: f64, text: &str| Event { time_s, text: text.into() };
    let events = [1.0, 4.0, 4.1, 4.2, 4.4, 8.0].map(|at| event(at, &format!("replica killed at {at}"))).to_vec();
    let page = render_html(&BenchResult { events, ..crate::common::sample() });
    let chart =
        page.split("class=\"plot narrow\"").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a chart");
    for label in ["replica killed at 1<", "replica killed at 4 and 3 more<", "replica killed at 8<"] {
        assert!(chart.contains(label) || chart.contains(&format!(" {label}")), "{label}: {chart}");
    }
    assert!(!chart.contains("killed at 4.1"), "it shares a label");
    assert!(page.contains("<td>replica killed at 4.1</td>"), "the list of events has all");
    let count = |text: &str| chart.matches(text).count();
    assert_eq!(count("class=\"s-event\""), 2 * 3, "a line for each label in both panels");
}

#[test]
fn a_second_without_commands_is_a_gap_and_no_failure() {
    let second = |second, ops, p50_ms| Second { second, ops, p50_ms, p99_ms: p50_ms, ..Second::default() };
    let timeline = vec![second(0, 10, Some(2.0)), second(1, 0, None), second(2, 10, Some(3.0))];
    let page = render_html(&BenchResult { timeline, events: Vec::new(), ..crate::common::sample() });
    let all = tooltips(&page, "seconds");
    assert!(!all.iter().any(|rows| rows.contains("failed")), "{all:?}");
    assert_eq!(all.iter().filter(|rows| rows.starts_with("median latency")).count(), 2);
    assert!(all.iter().any(|rows| rows.starts_with("throughput") && rows.contains("0 commands/s")), "{all:?}");
}

#[test]
fn latency_is_logarithmic_with_units() {
    let second = |second| Second {
        second,
        ops: 1000,
        p50_ms: Some(2.0),
        p99_ms: Some(if second == 4 { 2900.0 } else { 9.0 }),
        ..Second::default()
    };
    let result = BenchResult { timeline: (0..10).map(second).collect(), ..crate::common::sample() };
    let page = render_html(&result);
    let chart = page.split("class=\"plot wide\"").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a chart");
    for tick in [">10<", ">100<", ">1000<"] {
        assert!(chart.contains(tick), "{tick}: {chart}");
    }
    assert!(chart.contains(">latency (ms)<"), "the axis has its unit");
    assert!(chart.contains("completed (commands/s), latency (ms) against time (s)"), "also for screen readers");
    assert!(page.contains("<th scope=\"col\""), "there is a table for readers who cannot see the figure");
}

#[test]
fn the_tail_says_how_many_commands_took_longer() {
    let buckets = [(1.0, 2.0, 900), (2.0, 4.0, 90), (4.0, 8.0, 0), (8.0, 16.0, 10)];
    let buckets = buckets.map(|(from_ms, to_ms, count)| Bucket { from_ms, to_ms, count }).to_vec();
    let latency_ms = Latency { p50: Some(1.5), p99: Some(3.9), max: Some(12.0), ..Latency::default() };
    let page = render_html(&BenchResult { latency_histogram: buckets, latency_ms, ..crate::common::sample() });
    let shown: Vec<String> = tooltips(&page, "tail");
    let has = |at: usize, parts: [&str; 3]| parts.iter().all(|part| shown[at].contains(part));
    assert!(has(0, ["latency: 1 ms", "longer: 100 %", "percentile: 0"]), "{shown:?}");
    assert!(has(1, ["latency: 2 ms", "longer: 10 %", "percentile: 90"]), "{shown:?}");
    assert!(has(2, ["latency: 4 ms", "longer: 1 %", "percentile: 99"]), "{shown:?}");
    assert!(has(4, ["latency: 12 ms", "longer: 0.1 %", "percentile: 99.9"]), "the longest: {shown:?}");
    let columns = tooltips(&page, "histogram");
    assert!(columns[1].contains("latency, interval: 2 to 4") && columns[1].contains("9 %"), "{columns:?}");
    assert!(columns[1].contains("commands: 90"), "{columns:?}");
}

#[test]
fn stages_have_a_section_only_if_they_were_measured() {
    use quorate_types::stages::{MessageKind, Stage, StageCost, StageRole};
    let cost = |message, stage| StageCost {
        message,
        stage,
        role: StageRole::Leader,
        cycles: Some(1234.0),
        nanoseconds: Some(617.0),
        count: 5000,
    };
    let clock = quorate_lab::result::StageClock { counter: "tsc".into(), counter_hz: 2e9, ..Default::default() };
    let stages = vec![cost(MessageKind::PrePrepare, Stage::Marshal), cost(MessageKind::None, Stage::Wait)];
    let page = render_html(&BenchResult { stages, stage_clock: Some(clock), ..empty() });
    elements(&page);
    assert!(page.contains("Where the time goes") && page.contains("pre-prepare") && page.contains("At the leader"));
    assert!(!render_html(&empty()).contains("Where the time goes"));
}
