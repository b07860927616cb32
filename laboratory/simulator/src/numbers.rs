//! Numbers in a settings file, for range checks.

use serde::Serialize;
use toml::Value;

/// Returns all numbers of a table with their paths, such as `faults[0].at_ms`.
pub fn numbers(table: &impl Serialize) -> Vec<(String, f64)> {
    let mut numbers = Vec::new();
    let table = Value::try_from(table).expect("settings can be written as TOML");
    collect(String::new(), &table, &mut numbers);
    numbers
}

fn collect(path: String, value: &Value, numbers: &mut Vec<(String, f64)>) {
    match value {
        Value::Float(number) => numbers.push((path, *number)),
        Value::Integer(number) => numbers.push((path, *number as f64)),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| collect(format!("{path}[{at}]"), value, numbers));
        }
        Value::Table(table) => {
            let dot = if path.is_empty() { "" } else { "." };
            table.iter().for_each(|(key, value)| collect(format!("{path}{dot}{key}"), value, numbers));
        }
        _ => {}
    }
}

/// Multiplies the fractional numbers of a table whose paths satisfy `are_chosen`.
pub fn multiply(table: &mut Value, factor: f64, are_chosen: &dyn Fn(&str) -> bool) {
    multiply_below(String::new(), table, factor, are_chosen);
}

fn multiply_below(path: String, value: &mut Value, factor: f64, are_chosen: &dyn Fn(&str) -> bool) {
    match value {
        Value::Float(number) if are_chosen(&path) => *number *= factor,
        Value::Array(values) => {
            let each = |(at, value)| multiply_below(format!("{path}[{at}]"), value, factor, are_chosen);
            values.iter_mut().enumerate().for_each(each);
        }
        Value::Table(table) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (key, value) in table.iter_mut() {
                multiply_below(format!("{path}{dot}{key}"), value, factor, are_chosen);
            }
        }
        _ => {}
    }
}

/// Returns the key of a number: the path without tables and indices.
pub fn key(path: &str) -> &str {
    let entry = path.rsplit('.').next().unwrap_or(path);
    entry.split('[').next().unwrap_or(entry)
}
