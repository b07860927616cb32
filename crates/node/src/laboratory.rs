//! Injected misbehaviour, for experiments; see [`quorate_byzantine`].

use crate::config_file::{ConfigFault, Place};
pub use quorate_byzantine::Fault;
pub(crate) use quorate_byzantine::malleable::{ForMalleable as ForReplica, Malleable, for_malleable as for_replica};
use quorate_byzantine::{Behaviour, Context, Misbehaviour};
use quorate_types::Quorum;
use quorate_types::ReplicaId;
use quorate_types::identity::ProofShape;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wrapper between a misbehaving replica and its host.
pub(crate) type Liar<M> = Box<dyn Behaviour<M>>;

/// The table `[laboratory]` of a configuration: misbehaviour for experiments, reported at startup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Laboratory {
    /// Kind of misbehaviour, possibly with a parameter: `silent`, `slow`, `slow=50`, `equivocate`; [`Fault`] lists all.
    pub fault: Fault,
    /// Time after the start at which the misbehaviour begins, in milliseconds. Default 0.
    #[serde(default)]
    pub start_ms: u64,
}

impl Laboratory {
    /// Returns a configuration with this fault from the start.
    pub fn of(fault: Fault) -> Laboratory {
        Laboratory { fault, start_ms: 0 }
    }

    /// Returns the fault and its start time.
    pub fn misbehaviour(&self) -> Misbehaviour {
        Misbehaviour { fault: self.fault, start: Duration::from_millis(self.start_ms) }
    }

    pub(crate) fn fault(&self) -> Fault {
        self.fault
    }

    pub(crate) fn liar<M: Malleable>(
        &self,
        me: ReplicaId,
        quorum: Quorum,
        shape: ProofShape,
        view_timeout: Duration,
    ) -> Liar<M> {
        self.misbehaviour().behaviour(Context { me, quorum, shape, view_timeout })
    }

    pub(crate) fn validate(&self, me: ReplicaId, replicas: usize) -> Result<(), ConfigFault> {
        match self.fault.misfit(me, replicas) {
            None => Ok(()),
            Some(what) => Err(ConfigFault {
                place: Place::in_table("laboratory", "fault"),
                what,
                help: "name other members, or none to choose those that follow this replica".into(),
            }),
        }
    }
}
