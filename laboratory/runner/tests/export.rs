//! Exported tables parse back to the original values.

use crate::common::row;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use quorate_lab::experiments::row::{Provenance, Sample};
use quorate_lab::experiments::{Row, Surroundings};
use quorate_runner::export::{Column, Format, Lines, Table};

fn rows() -> Vec<Row> {
    let mut rows = vec![row(10, 0, &[("throughput_per_s", 0.1 + 0.2), ("p50_ms", 4.0)]), row(400, 1, &[])];
    rows[1].failure = Some("line one\nline two".into());
    rows[1].noise = None;
    rows
}

fn table(lines: Lines) -> Table {
    Table::of(&rows().iter().collect::<Vec<_>>(), lines)
}

/// Returns the values as text, by line and column; empty where a row has no value.
fn shown(table: &Table) -> Vec<Vec<String>> {
    fn cell<T: ToString>(value: &Option<T>) -> String {
        value.as_ref().map_or_else(String::new, T::to_string)
    }
    let value = |column: &Column, line: usize| match column {
        Column::Text(values) => cell(&values[line]),
        Column::Number(values) => cell(&values[line]),
        Column::Whole(values) => cell(&values[line]),
        Column::Flag(values) => cell(&values[line]),
    };
    (0..table.len()).map(|line| table.columns.iter().map(|(_, column)| value(column, line)).collect()).collect()
}

#[test]
fn a_table_has_a_line_for_each_run() {
    let table = table(Lines::Runs);
    let column = |name: &str| {
        let found = table.columns.iter().find(|(own, _)| own == name).map(|(_, column)| column.clone());
        found.unwrap_or_else(|| panic!("no column {name}"))
    };
    assert_eq!(table.len(), 2);
    assert_eq!(column("axis_batch"), Column::Number(vec![Some(10.0), Some(400.0)]));
    assert_eq!(column("axis_leader"), Column::Text(vec![Some("fixed".into()), Some("fixed".into())]));
    assert_eq!(column("p50_ms"), Column::Number(vec![Some(4.0), None]));
    assert_eq!(column("is_steady"), Column::Flag(vec![Some(false), None]));
    assert_eq!(column("seed"), Column::Whole(vec![Some(7), Some(8)]));
    assert!(table.columns.iter().all(|(name, _)| name != "p99_ms"), "no row has it");
    assert!(table.columns.iter().all(|(_, column)| column.len() == table.len()));
}

#[test]
fn seconds_have_lines_of_their_own() {
    let table = table(Lines::Seconds);
    let seconds = table.columns.iter().find(|(name, _)| name == "second").map(|(_, column)| column.clone());
    assert_eq!(seconds, Some(Column::Whole([0, 1, 0, 1].map(Some).to_vec())));
    let completed = table.columns.iter().find(|(name, _)| name == "completed_per_s").map(|(_, column)| column.clone());
    assert_eq!(completed, Some(Column::Number([10.0, 30.0, 10.0, 30.0].map(Some).to_vec())));
}

#[test]
fn requests_have_lines_of_their_own() {
    let mut rows = rows();
    rows[1].samples = [(0.5, 3.0), (0.75, 4.5)].map(|(at_s, latency_ms)| Sample { at_s, latency_ms }).to_vec();
    let table = Table::of(&rows.iter().collect::<Vec<_>>(), Lines::Samples);
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["experiment", "profile", "instrument", "repetition", "axis_batch", "axis_leader", "at_s", "latency_ms"]
    );
    let lines = shown(&table);
    assert_eq!(
        lines.iter().map(|line| &line[3..]).collect::<Vec<_>>(),
        [["1", "400", "fixed", "0.5", "3"], ["1", "400", "fixed", "0.75", "4.5"]]
    );
}

#[test]
fn tables_without_lines_have_the_axes_too() {
    let mut rows = rows();
    rows.iter_mut().for_each(|row| row.series.clear());
    for lines in [Lines::Seconds, Lines::Samples] {
        let table = Table::of(&rows.iter().collect::<Vec<_>>(), lines);
        assert!(table.is_empty() && table.columns.iter().any(|(name, _)| name == "axis_batch"), "{lines}");
    }
}

/// Origin of a row in each export format.
#[test]
fn every_format_says_where_a_row_comes_from() {
    let mut row = row(10, 0, &[("throughput_per_s", 1.0)]);
    row.provenance = Provenance {
        surroundings: Surroundings {
            build: "0.1.0 commit 123abc".into(),
            machine: "a processor, 2 cores".into(),
            costs: "measured here".into(),
            inputs: "aa11".into(),
        },
        kernel: "linux 6.1".into(),
        seed: 42,
        command: "quorate sim --seed 42".into(),
        host: Some("berta".into()),
    };
    let origin = [
        ("build", "0.1.0 commit 123abc"),
        ("machine", "a processor, 2 cores"),
        ("kernel", "linux 6.1"),
        ("host", "berta"),
        ("costs", "measured here"),
        ("inputs", "aa11"),
        ("seed", "42"),
        ("command", "quorate sim --seed 42"),
    ];
    let table = Table::of(&[&row], Lines::Runs);
    let csv = table.to_bytes(Format::Csv).expect("it is written");
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let names: Vec<String> = reader.headers().expect("a first line").iter().map(str::to_owned).collect();
    let line = reader.records().next().expect("a line").expect("it parses");
    let json: serde_json::Value =
        serde_json::from_slice(&table.to_bytes(Format::Json).expect("it is written")).expect("JSON");
    let parquet = bytes::Bytes::from(table.to_bytes(Format::Parquet).expect("it is written"));
    let parquet = SerializedFileReader::new(parquet).expect("it is Parquet");
    let parquet = parquet.get_row_iter(None).expect("it has rows").next().expect("one").expect("it parses");
    for (name, expected) in origin {
        let at = names.iter().position(|own| own == name).unwrap_or_else(|| panic!("CSV has no {name}"));
        assert_eq!(line.get(at), Some(expected), "{name} in CSV");
        let value = &json[0][name];
        assert_eq!(value.as_str().map_or_else(|| value.to_string(), str::to_owned), expected, "{name} in JSON");
        let field = parquet.get_column_iter().find(|(own, _)| *own == name).map(|(_, field)| field.clone());
        let field = match field {
            Some(Field::Str(text)) => text,
            Some(Field::Long(number)) => number.to_string(),
            other => panic!("{name} in Parquet: {other:?}"),
        };
        assert_eq!(field, expected, "{name} in Parquet");
    }
}

#[test]
fn csv_parses_back() {
    let table = table(Lines::Runs);
    let bytes = table.to_bytes(Format::Csv).expect("it is written");
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let names: Vec<String> = reader.headers().expect("a first line").iter().map(str::to_owned).collect();
    assert_eq!(names, table.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let lines: Vec<Vec<String>> =
        reader.records().map(|line| line.expect("a line").iter().map(str::to_owned).collect()).collect();
    assert_eq!(lines, shown(&table));
}

#[test]
fn json_parses_back() {
    let bytes = table(Lines::Runs).to_bytes(Format::Json).expect("it is written");
    let lines: Vec<serde_json::Value> = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(lines[0]["throughput_per_s"].as_f64(), Some(0.1 + 0.2));
    assert_eq!(lines[1]["throughput_per_s"], serde_json::Value::Null);
    assert_eq!(lines[1]["failure"], "line one\nline two");
}

#[test]
fn parquet_parses_back() {
    let table = table(Lines::Runs);
    let bytes = table.to_bytes(Format::Parquet).expect("it is written");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("it is Parquet");
    let mut lines = Vec::new();
    for line in reader.get_row_iter(None).expect("it has rows") {
        let line = line.expect("a row");
        let values = line.get_column_iter().map(|(_, field)| match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Double(number) => number.to_string(),
            Field::Long(number) => number.to_string(),
            Field::Bool(flag) => flag.to_string(),
            other => panic!("{other:?}"),
        });
        lines.push(values.collect::<Vec<_>>());
    }
    assert_eq!(lines, shown(&table));
}

#[test]
fn no_rows_are_a_table_without_lines() {
    for format in Format::ALL {
        assert!(Table::of(&[], Lines::Runs).to_bytes(*format).is_ok(), "{format}");
    }
}
