//! Injected misbehaviour, for experiments; see [`quorate_adversary::byzantine`].

use crate::allocations::{self, Allocations};
use crate::config_file::{ConfigFault, Place};
use crate::reproduction::Reproduction;
pub use quorate_adversary::byzantine::Fault;
pub(crate) use quorate_adversary::byzantine::malleable::{
    ForMalleable as ForReplica, Malleable, for_malleable as for_replica,
};
use quorate_adversary::byzantine::{Behaviour, Context, Misbehaviour, Times};
use quorate_types::Quorum;
use quorate_types::ReplicaId;
use quorate_types::identity::ProofShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Stands between a replica and its host, and rewrites its actions.
pub(crate) type Wrapper<M> = Box<dyn Behaviour<M>>;

/// Returns the wrapper of a replica that misbehaves, or sends copies of its messages.
pub(crate) fn wrapper<M: Malleable>(
    laboratory: Option<&Laboratory>,
    switches: &Reproduction,
    me: ReplicaId,
    quorum: Quorum,
    shape: ProofShape,
    view_timeout: Duration,
) -> Option<Wrapper<M>> {
    let context = Context { me, quorum, shape, view_timeout };
    let behaviour = laboratory.map(|laboratory| laboratory.misbehaviour().behaviour(context));
    switches.copies.wrap(me, quorum, behaviour)
}

/// The table `[laboratory]` of a configuration: misbehaviour for experiments, reported at startup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Laboratory {
    /// Kind of misbehaviour, possibly with a parameter: `silent`, `slow`, `slow=50`, `equivocate`; [`Fault`] lists all.
    #[schemars(with = "String")]
    pub fault: Fault,
    /// Time after the start at which the misbehaviour begins, in milliseconds.
    #[serde(default)]
    pub start_ms: u64,
    /// Duration of the misbehaviour, in milliseconds. Absent: to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Time from one start of a recurring misbehaviour to the next, in milliseconds; needs a shorter `for_ms`.
    /// Absent: it does not recur.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
}

/// Starts counting heap allocations, if the switch is on.
pub(crate) fn count_allocations(switches: &Reproduction) {
    if switches.count_allocations {
        allocations::count();
    }
}

/// Returns the calling thread's heap allocations and their bytes; zeros if they are not counted.
pub(crate) fn allocated() -> (u64, u64) {
    let Allocations { count, bytes } = allocations::of_this_thread();
    (count, bytes)
}

impl Laboratory {
    /// Returns a configuration with this fault from the start.
    pub fn of(fault: impl Into<Fault>) -> Laboratory {
        Laboratory { fault: fault.into(), start_ms: 0, for_ms: None, every_ms: None }
    }

    /// Returns the fault and its times.
    pub fn misbehaviour(&self) -> Misbehaviour {
        let [lasts, every] = [self.for_ms, self.every_ms].map(|ms| ms.map(Duration::from_millis));
        let times = Times { start: Duration::from_millis(self.start_ms), lasts, every };
        Misbehaviour { fault: self.fault, times }
    }

    pub(crate) fn fault(&self) -> Fault {
        self.fault
    }

    pub(crate) fn validate(&self, me: ReplicaId, replicas: usize) -> Result<(), ConfigFault> {
        let never_off = self.every_ms.is_some_and(|every| self.for_ms.is_none_or(|lasts| every <= lasts));
        if never_off || self.for_ms == Some(0) {
            return Err(ConfigFault {
                place: Place::in_table("laboratory", if never_off { "every_ms" } else { "for_ms" }),
                what: "leaves the fault always on or always off".into(),
                help: "set 0 < for_ms < every_ms, or omit both keys".into(),
            });
        }
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
