//! Printing of the store's results, for a person, a pipe, or a program that reads JSON.

use super::bytes::Form;
use crate::output::Reader;
use crate::{Outcome, output};
use quorate_applications::KeyValueResult;
use quorate_applications::key_value::Page;
use quorate_types::digest::encode_hex;
use serde_json::{Map, Value, json};
use std::error::Error;

/// Bytes returned by the application, printed for a reader or as JSON.
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// Shows the result of a command on one key. Returns an error if the command had no effect or found no value.
    pub fn show(&self, key: &[u8], form: &Form) -> Outcome {
        let (outcome, value, failure) = match KeyValueResult::decode(&self.0)? {
            KeyValueResult::Done => ("done", None, None),
            KeyValueResult::Value(value) => ("value", Some(value), None),
            KeyValueResult::Absent => ("absent", None, Some("there is no such key")),
            KeyValueResult::Conflict(Some(value)) => {
                ("conflict", Some(value), Some("the key has another value, and nothing was written"))
            }
            KeyValueResult::Conflict(None) => {
                ("conflict", None, Some("the key does not exist, and nothing was written"))
            }
            KeyValueResult::Full => {
                ("full", None, Some("the store is full, and nothing was written: delete some keys"))
            }
            other => return Err(not_understood(&other)),
        };
        if form.json {
            let mut object = Map::from_iter([("outcome".to_owned(), json!(outcome))]);
            put(&mut object, "key", key);
            if let Some(value) = value {
                put(&mut object, "value", value);
            }
            output::say(&Value::Object(object).to_string())?;
        } else if failure.is_none() {
            output::say_bytes(&value.map_or_else(|| outcome.into(), |value| form.show(value)))?;
        }
        failure.map_or(Ok(()), |why| Err(why.into()))
    }

    /// Returns the pairs of a scan's result.
    pub fn page(&self) -> Result<Page<'_>, Box<dyn Error>> {
        match KeyValueResult::decode(&self.0)? {
            KeyValueResult::Page(page) => Ok(page),
            other => Err(not_understood(&other)),
        }
    }
}

fn not_understood(answer: &KeyValueResult<'_>) -> Box<dyn Error> {
    format!("the cluster did not understand the command ({answer:?}): its replicas may run an older version").into()
}

/// Inserts bytes under `name` if they are text, otherwise in hexadecimal under `name` with the suffix `_hex`.
fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), json!(text)),
        Err(_) => object.insert(format!("{name}_hex"), json!(encode_hex(bytes))),
    };
}

/// Prints pairs: one line each with key, tab and value, both escaped, or one JSON object.
pub struct Listing<'a> {
    form: &'a Form,
    pairs: u64,
    reader: Reader,
}

impl<'a> Listing<'a> {
    pub fn new(form: &'a Form) -> Self {
        Listing { form, pairs: 0, reader: Reader::Reads }
    }

    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Returns whether further pairs will be read.
    pub fn is_read(&self) -> bool {
        self.reader == Reader::Reads
    }

    /// Prints a page. Returns its last key, or `None` if the page is empty.
    pub fn add<'p>(&mut self, page: &Page<'p>) -> Result<Option<&'p [u8]>, Box<dyn Error>> {
        let mut last = None;
        for (key, value) in page.iter() {
            self.pairs += 1;
            last = Some(key);
            if self.form.json {
                let mut object = Map::new();
                put(&mut object, "key", key);
                put(&mut object, "value", value);
                self.reader = output::say_next(Value::Object(object).to_string().as_bytes())?;
            } else {
                let row = [&self.form.show_field(key)[..], b"\t", &self.form.show_field(value)].concat();
                self.reader = output::say_next(&row)?;
            }
        }
        Ok(last)
    }

    /// Reports on standard error that pairs were omitted.
    pub fn finish(self, has_more: bool) -> Outcome {
        if has_more {
            output::report(&format!("{} pairs; there are more: raise --limit, or continue with --from", self.pairs));
        }
        Ok(())
    }
}
