//! Plays a scenario: each of its rounds is a view, and then the network heals.

use crate::hostile::BATCH;
use crate::judge::{Complaint, Law};
use crate::scenario::Scenario;
use crate::stage::{Stage, stage_config};
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::protocols::{ForProtocol, MakeReplica, for_protocol};
use quorate_types::ReplicaId;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No invariant was violated.
    Safe,
    /// A safety invariant was violated.
    Unsafe(Complaint),
    /// Safe, but too little was executed after the network healed.
    Stalled(Complaint),
}

impl Verdict {
    /// Returns the violation, if any.
    pub fn complaint(&self) -> Option<&Complaint> {
        match self {
            Verdict::Safe => None,
            Verdict::Unsafe(complaint) | Verdict::Stalled(complaint) => Some(complaint),
        }
    }
}

/// Plays scenarios one after another on one stage, whose memory it reuses.
pub struct Player<P: Protocol> {
    protocol: ProtocolKind,
    make: MakeReplica<P>,
    #[cfg(feature = "museum")]
    mutant: Option<crate::museum::Mutant>,
    stage: Option<Stage<P>>,
}

impl<P: Protocol> Player<P> {
    /// Returns a player for a protocol.
    pub fn new(protocol: ProtocolKind, make: MakeReplica<P>) -> Player<P> {
        Player {
            protocol,
            make,
            #[cfg(feature = "museum")]
            mutant: None,
            stage: None,
        }
    }

    /// Injects a bug into all replicas.
    #[cfg(feature = "museum")]
    pub fn mutate(mut self, mutant: Option<crate::museum::Mutant>) -> Player<P> {
        (self.mutant, self.stage) = (mutant, None);
        self
    }

    /// Plays a scenario from its beginning.
    pub fn play(&mut self, scenario: &Scenario) -> Verdict {
        self.play_on_stage(scenario, false).0
    }

    /// Plays a scenario and records what happens.
    pub fn replay(&mut self, scenario: &Scenario) -> (Verdict, String) {
        self.play_on_stage(scenario, true)
    }

    fn play_on_stage(&mut self, scenario: &Scenario, recorded: bool) -> (Verdict, String) {
        let mut stage = match self.stage.take() {
            Some(mut stage) if *stage.cast() == scenario.cast => {
                stage.reset();
                stage
            }
            _ => {
                let mut config = stage_config(self.protocol);
                if scenario.cast.hostile().is_some() {
                    config.batch = BATCH;
                }
                let mut stage = Stage::new(config, scenario.cast.clone(), self.make);
                #[cfg(feature = "museum")]
                stage.mutate(self.mutant);
                // A scenario crashes no replica.
                stage.keep_journals(false);
                stage
            }
        };
        if recorded {
            stage.record();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| perform(&mut stage, scenario)));
        let transcript = stage.transcript();
        match outcome {
            Ok(verdict) => {
                self.stage = Some(stage);
                (verdict, transcript)
            }
            // The panic may have left the stage inconsistent.
            Err(panic) => (Verdict::Unsafe(Complaint { law: Law::Panic, what: panic_text(&*panic) }), transcript),
        }
    }
}

/// Follows the script and heals the network. If twins leave no honest replica to lead, they lead then too.
fn perform<P: Protocol>(stage: &mut Stage<P>, scenario: &Scenario) -> Verdict {
    for (round, view) in scenario.rounds.iter().zip(1..) {
        stage.leader(view, round.leader);
        stage.links().partition(view, round.groups.iter().copied());
        for (from, to) in &round.passes {
            stage.links().pass(view, round.groups[usize::from(*from)], round.groups[usize::from(*to)]);
        }
    }
    for view in 1..=scenario.rounds.len() as u64 {
        stage.run_view(view);
        if stage.complaint().is_some() {
            return verdict(stage);
        }
    }
    let cast = stage.cast();
    let (honest, everybody) = (cast.honest(), (0..cast.replicas() as u16).map(ReplicaId));
    match cast.twins() < cast.replicas() {
        true => stage.heal(honest),
        false => stage.heal(everybody),
    };
    verdict(stage)
}

fn verdict<P: Protocol>(stage: &Stage<P>) -> Verdict {
    match stage.complaint().cloned() {
        None => Verdict::Safe,
        Some(complaint) if complaint.law == Law::Liveness => Verdict::Stalled(complaint),
        Some(complaint) => Verdict::Unsafe(complaint),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".into())
}

/// Returns a function that plays scenarios of the protocol with this name. It can be called repeatedly, and reuses its
/// stage.
pub fn player(protocol: ProtocolKind) -> Box<dyn FnMut(&Scenario) -> Verdict + Send> {
    struct Make(ProtocolKind);
    impl ForProtocol for Make {
        type Output = Box<dyn FnMut(&Scenario) -> Verdict + Send>;
        fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
            let mut player = Player::new(self.0, make);
            Box::new(move |scenario| player.play(scenario))
        }
    }
    for_protocol(protocol, Make(protocol))
}

/// Plays a scenario of the protocol with this name, and records what happens.
pub fn replay(protocol: ProtocolKind, scenario: &Scenario) -> (Verdict, String) {
    struct Once<'a>(ProtocolKind, &'a Scenario);
    impl ForProtocol for Once<'_> {
        type Output = (Verdict, String);
        fn run<P: Protocol + 'static>(self, make: MakeReplica<P>) -> Self::Output {
            Player::new(self.0, make).replay(self.1)
        }
    }
    for_protocol(protocol, Once(protocol, scenario))
}
