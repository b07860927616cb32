//! Tables as CSV and JSON. Zero has no sign in them.

use super::{Column, Table};
use crate::error::RunnerError;
use serde_json::{Map, Value};

/// Writes a header line, followed by the lines. Missing values are empty.
pub fn csv(table: &Table) -> Result<Vec<u8>, RunnerError> {
    let refused = |error: csv::Error| RunnerError::Table(error.to_string());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(table.columns.iter().map(|(name, _)| name)).map_err(refused)?;
    for line in 0..table.len() {
        writer.write_record(table.columns.iter().map(|(_, column)| field(column, line))).map_err(refused)?;
    }
    writer.into_inner().map_err(|error| RunnerError::Table(error.to_string()))
}

fn field(column: &Column, line: usize) -> String {
    fn shown<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(String::new, ToString::to_string)
    }
    match column {
        Column::Text(values) => shown(values[line].as_ref()),
        Column::Number(values) => shown(values[line].map(|value| value + 0.0).as_ref()),
        Column::Whole(values) => shown(values[line].as_ref()),
        Column::Flag(values) => shown(values[line].as_ref()),
    }
}

/// Writes a list of objects. Missing values are `null`.
pub fn json(table: &Table) -> Vec<u8> {
    let value = |column: &Column, line: usize| match column {
        Column::Text(values) => Value::from(values[line].clone()),
        Column::Number(values) => Value::from(values[line].map(|value| value + 0.0)),
        Column::Whole(values) => Value::from(values[line]),
        Column::Flag(values) => Value::from(values[line]),
    };
    let object = |line: usize| -> Map<String, Value> {
        table.columns.iter().map(|(name, column)| (name.clone(), value(column, line))).collect()
    };
    let lines: Vec<Map<String, Value>> = (0..table.len()).map(object).collect();
    let mut bytes = serde_json::to_vec_pretty(&lines).expect("a table is plain data");
    bytes.push(b'\n');
    bytes
}
