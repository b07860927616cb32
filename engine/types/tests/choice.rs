//! A choice parses its own output, and an unknown name gets an error that lists the known ones.

use quorate_types::{Choice, Dissemination, Fault, ReplyMode, UnknownName};
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};
use std::fmt::{Debug, Display};

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Result<T, Error> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    T::deserialize(name)
}

fn reads_back<T>(all: &[T])
where
    T: Choice + Display + Debug + PartialEq + Serialize + for<'de> Deserialize<'de>,
{
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(names, T::names());
    for choice in all {
        assert_eq!(choice.to_string().parse(), Ok(*choice));
        assert_eq!(read(&choice.to_string()), Ok(*choice));
    }
    let unknown = "no such".parse::<T>().expect_err("no such name");
    assert_eq!(unknown, T::unknown("no such"));
    assert_eq!(read::<T>("no such").expect_err("no such name").to_string(), unknown.to_string());
}

#[test]
fn every_name_parses_to_its_value() {
    reads_back(Dissemination::ALL);
    reads_back(ReplyMode::ALL);
}

#[test]
fn the_error_for_an_unknown_name_lists_the_known_names_and_the_nearest() {
    let message = |name: &str| name.parse::<Dissemination>().expect_err("no such name").to_string();
    assert_eq!(
        message("leaders"),
        "unknown dissemination `leaders`: one of client, leader, replicas, replicas-certified (did you mean `leader`?)"
    );
    assert_eq!(message("zzz"), "unknown dissemination `zzz`: one of client, leader, replicas, replicas-certified");
    assert_eq!(message(""), "unknown dissemination ``: one of client, leader, replicas, replicas-certified");
    let known = vec!["no-read", "flood"];
    let unknown = UnknownName { what: "kind", given: "No_Reads".into(), known };
    assert_eq!(unknown.to_string(), "unknown kind `No_Reads`: one of no-read, flood (did you mean `no-read`?)");
}

#[test]
fn a_fault_says_where_what_and_what_to_do() {
    let fault: Fault<&str> = Fault::new("batch", "is 0", "set at least 1");
    assert_eq!(fault.to_string(), "batch: is 0; help: set at least 1");
    let moved = fault.at(|key| format!("`consensus.{key}`"));
    assert_eq!(moved.to_string(), "`consensus.batch`: is 0; help: set at least 1");
}
