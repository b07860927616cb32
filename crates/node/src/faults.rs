//! Misbehaviour on purpose. A behaviour rewrites what a replica asks for after each step, so honest code is never forked and
//! every behaviour works with every protocol.

use crate::config::ConfigFault;
use crate::config_file::Place;
use quorate_consensus::{Action, Envelope, Message, To};
use quorate_types::{ReplicaId, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A way to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Sends nothing to anybody, but listens, executes, and reports its status.
    Silent,
    /// Holds its proposals back for so long that its views just do not time out.
    Slow,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fault::Silent => "silent",
            Fault::Slow => "slow",
        })
    }
}

/// The table `[laboratory]` of a configuration: for experiments, and told at the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Laboratory {
    /// How this replica misbehaves: `silent` or `slow`.
    pub fault: Fault,
    /// For which part of the base view timeout a `slow` replica holds its proposals back. Default 0.8.
    #[serde(default = "default_slow_fraction")]
    pub slow_fraction: f64,
}

/// The default of [`Laboratory::slow_fraction`].
pub const DEFAULT_SLOW_FRACTION: f64 = 0.8;

fn default_slow_fraction() -> f64 {
    DEFAULT_SLOW_FRACTION
}

impl Laboratory {
    /// That fault with its defaults.
    pub fn of(fault: Fault) -> Laboratory {
        Laboratory { fault, slow_fraction: DEFAULT_SLOW_FRACTION }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigFault> {
        if (0.0..=10.0).contains(&self.slow_fraction) {
            return Ok(());
        }
        Err(ConfigFault {
            place: Place::in_table("laboratory", "slow_fraction"),
            why: format!("is {}", self.slow_fraction),
            mend: "set it between 0 and 10".into(),
        })
    }

    /// The behaviour of replica `me`, whose views may last `view_timeout`.
    pub(crate) fn behaviour<M: Message>(&self, me: ReplicaId, view_timeout: Duration) -> Box<dyn Behaviour<M>> {
        match self.fault {
            Fault::Silent => Box::new(Silent { me }),
            Fault::Slow => Box::new(Slow { delay: view_timeout.mul_f64(self.slow_fraction), held: VecDeque::new() }),
        }
    }
}

/// Rewrites what a replica asks for.
pub(crate) trait Behaviour<M>: Send {
    /// Changes the actions of one step.
    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>);
    /// When there is something to do besides.
    fn next(&self) -> Option<Time>;
    /// Appends what is due.
    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>);
    /// Whether clients get answers to their bundles.
    fn answers_clients(&self) -> bool;
}

struct Silent {
    me: ReplicaId,
}

impl<M: Send> Behaviour<M> for Silent {
    /// What it sends to itself stays: it is part of how a replica works, and nobody else sees it.
    fn rewrite(&mut self, _now: Time, actions: &mut Vec<Action<M>>) {
        actions.retain_mut(|action| match action {
            Action::Send { to, .. } => {
                if *to == To::All {
                    *to = To::One(self.me);
                }
                *to == To::One(self.me)
            }
            _ => true,
        });
    }

    fn next(&self) -> Option<Time> {
        None
    }

    fn ring(&mut self, _now: Time, _actions: &mut Vec<Action<M>>) {}

    fn answers_clients(&self) -> bool {
        false
    }
}

struct Slow<M> {
    delay: Duration,
    held: VecDeque<(Time, Action<M>)>,
}

impl<M: Message> Behaviour<M> for Slow<M> {
    fn rewrite(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        let is_proposal = |action: &mut Action<M>| matches!(action, Action::Send { message: Envelope::Protocol(message), .. } if message.is_proposal());
        let due = now + self.delay;
        self.held.extend(actions.extract_if(.., is_proposal).map(|action| (due, action)));
    }

    fn next(&self) -> Option<Time> {
        self.held.front().map(|(due, _)| *due)
    }

    fn ring(&mut self, now: Time, actions: &mut Vec<Action<M>>) {
        while self.held.front().is_some_and(|(due, _)| *due <= now) {
            actions.extend(self.held.pop_front().map(|(_, action)| action));
        }
    }

    fn answers_clients(&self) -> bool {
        true
    }
}
