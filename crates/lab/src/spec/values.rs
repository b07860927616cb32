//! Path of recordings, with the replica to record.

use quorate_operator::{BadValue, as_text};
use quorate_types::ReplicaId;
use std::fmt;
use std::str::FromStr;

/// Replicas to record, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The only replica to record; `None` for all.
    pub replica: Option<ReplicaId>,
    /// The file, or the directory of the files.
    pub path: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replica {
            Some(replica) => write!(f, "{replica}:{}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

impl FromStr for Record {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Record, BadValue> {
        let one = text.split_once(':').and_then(|(number, path)| Some((number.parse::<u16>().ok()?, path)));
        let (replica, path) = one.map_or((None, text), |(number, path)| (Some(ReplicaId(number)), path));
        if path.is_empty() {
            let forms = "a directory, or R:FILE where R is a replica from 0, as in 2:replica-2.recording";
            return Err(BadValue {
                kind: "place for recordings",
                given: text.to_owned(),
                why: " (where?)".into(),
                forms,
            });
        }
        Ok(Record { replica, path: path.to_owned() })
    }
}

as_text!(Record);
