//! Exported tables parse back to what was exported.

use crate::common::row;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use quorate_experiments::Row;
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
