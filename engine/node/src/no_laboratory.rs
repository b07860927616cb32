//! Replacement for the misbehaviour code if the feature `laboratory` is off: uninhabited types, so that none of it is
//! compiled.

use crate::config_file::ConfigFault;
use crate::reproduction::Reproduction;
pub(crate) use quorate_consensus::replica::{ForProtocol as ForReplica, for_protocol as for_replica};
pub(crate) use quorate_consensus::seam::Message as Malleable;
use quorate_consensus::{Action, Input};
use quorate_types::identity::ProofShape;
use quorate_types::{Quorum, ReplicaId, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Uninhabited: no way to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// The table `[laboratory]` of a configuration, which this build rejects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Laboratory {}

pub(crate) fn count_allocations(_: &Reproduction) {}

/// No allocator counts.
pub(crate) fn allocated() -> (u64, u64) {
    (0, 0)
}

impl JsonSchema for Laboratory {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Laboratory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        false.into()
    }
}

impl Laboratory {
    pub(crate) fn fault(&self) -> Fault {
        match *self {}
    }

    pub(crate) fn validate(&self, _: ReplicaId, _: usize) -> Result<(), ConfigFault> {
        match *self {}
    }
}

impl Serialize for Laboratory {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for Laboratory {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Laboratory, D::Error> {
        Err(serde::de::Error::custom(
            "this program has no misbehaviour built in; help: remove the table, or run the replica with `quorate node`",
        ))
    }
}

/// Uninhabited: no replica whose actions are rewritten.
pub(crate) struct Wrapper<M>(Infallible, PhantomData<M>);

/// No replica has a wrapper.
pub(crate) fn wrapper<M>(
    _: Option<&Laboratory>,
    _: &Reproduction,
    _: ReplicaId,
    _: Quorum,
    _: ProofShape,
    _: Duration,
) -> Option<Wrapper<M>> {
    None
}

impl<M> Wrapper<M> {
    pub fn observe(&mut self, _: &Input<M>) {
        match self.0 {}
    }

    pub fn rewrite(&mut self, _: Time, _: &mut Vec<Action<M>>) {
        match self.0 {}
    }

    pub fn next(&self) -> Option<Time> {
        match self.0 {}
    }

    pub fn ring(&mut self, _: Time, _: &mut Vec<Action<M>>) {
        match self.0 {}
    }

    pub fn answers_clients(&self, _: Time) -> bool {
        match self.0 {}
    }

    pub fn refuses_clients(&self, _: Time) -> bool {
        match self.0 {}
    }

    pub fn reply_copies(&self) -> usize {
        match self.0 {}
    }
}
