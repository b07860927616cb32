//! Values of keys and axes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Value of a key: the common types of TOML and JSON, without tables.
///
/// Numbers are equal if they denote the same number: `4` equals `4.0`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Value>),
}

impl Value {
    /// Returns the number; `None` for anything else.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Integer(number) => Some(*number as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn to_toml(&self) -> toml::Value {
        match self {
            Value::Flag(flag) => toml::Value::Boolean(*flag),
            Value::Integer(number) => toml::Value::Integer(*number),
            Value::Number(number) => toml::Value::Float(*number),
            Value::Text(text) => toml::Value::String(text.clone()),
            Value::List(values) => toml::Value::Array(values.iter().map(Value::to_toml).collect()),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Flag(a), Value::Flag(b)) => a == b,
            (Value::Integer(a), Value::Integer(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            _ => self.as_number().is_some() && self.as_number() == other.as_number(),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => f.write_str(text),
            Value::List(values) if values.is_empty() => f.write_str("none"),
            Value::List(values) => f.write_str(&values.iter().map(Value::to_string).collect::<Vec<_>>().join("+")),
        }
    }
}
