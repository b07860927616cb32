//! Plays a scenario: each of its rounds is a view, and then the network heals.

use crate::twins::checker::{Property, Violation};
use crate::twins::scenario::Scenario;
use crate::twins::world::{World, contested_config, world_config};
use quorate_consensus::config::{Dissemination, ProtocolKind};
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::{Config, Protocol};
use quorate_crypto::SchemeKind;
use quorate_types::ReplicaId;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No invariant was violated.
    Safe,
    /// A safety invariant was violated.
    Unsafe(Violation),
    /// Safe, but too little was executed after the network healed.
    Stalled(Violation),
}

impl Verdict {
    /// Returns the violation, if any.
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            Verdict::Safe => None,
            Verdict::Unsafe(violation) | Verdict::Stalled(violation) => Some(violation),
        }
    }
}

/// Plays scenarios one after another in one world, whose memory it reuses.
pub struct Player<P: Protocol> {
    protocol: ProtocolKind,
    make: MakeReplica<P>,
    dissemination: Dissemination,
    macs: Option<SchemeKind>,
    healed_views: u64,
    #[cfg(feature = "museum")]
    mutant: Option<crate::twins::bugs::Mutant>,
    world: Option<World<P>>,
}

impl<P: Protocol> Player<P> {
    /// Returns a player for a protocol.
    pub fn new(protocol: ProtocolKind, make: MakeReplica<P>) -> Player<P> {
        Player {
            protocol,
            make,
            dissemination: Dissemination::Client,
            macs: None,
            healed_views: 0,
            #[cfg(feature = "museum")]
            mutant: None,
            world: None,
        }
    }

    /// Sets the dissemination of commands, `client` by default. A scenario's clients send to all replicas in any case.
    pub fn disseminate(mut self, dissemination: Dissemination) -> Player<P> {
        (self.dissemination, self.world) = (dissemination, None);
        self
    }

    /// Uses real signatures, and MACs of this scheme on the votes that may have them, instead of free signatures. The
    /// protocol must support MACs. Verdicts and transcripts are the same, but take longer.
    pub fn authenticate(mut self, macs: Option<SchemeKind>) -> Player<P> {
        (self.macs, self.world) = (macs, None);
        self
    }

    /// Checks the honest clients' share next to a hostile one for at least this many views after the network heals.
    /// Default: as many as their bundles may take.
    pub fn heal_for(mut self, views: u64) -> Player<P> {
        self.healed_views = views;
        self
    }

    /// Injects a bug into all replicas.
    #[cfg(feature = "museum")]
    pub fn mutate(mut self, mutant: Option<crate::twins::bugs::Mutant>) -> Player<P> {
        (self.mutant, self.world) = (mutant, None);
        self
    }

    /// Plays a scenario from its beginning.
    pub fn play(&mut self, scenario: &Scenario) -> Verdict {
        self.play_on_world(scenario, false).0
    }

    /// Plays a scenario with a transcript.
    pub fn replay(&mut self, scenario: &Scenario) -> (Verdict, String) {
        self.play_on_world(scenario, true)
    }

    fn play_on_world(&mut self, scenario: &Scenario, recorded: bool) -> (Verdict, String) {
        let mut world = match self.world.take() {
            Some(mut world) if *world.participants() == scenario.participants => {
                world.reset();
                world
            }
            _ => {
                let of_protocol = match scenario.participants.hostile() {
                    Some(_) => contested_config(self.protocol),
                    None => world_config(self.protocol),
                };
                let config = Config { dissemination: self.dissemination, ..of_protocol };
                let mut world = World::new(config, scenario.participants.clone(), self.make);
                if let Some(macs) = self.macs {
                    world.authenticate(macs);
                }
                #[cfg(feature = "museum")]
                world.mutate(self.mutant);
                world
            }
        };
        world.keep_journals(scenario.restarts());
        if recorded {
            world.record();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| perform(&mut world, scenario, self.healed_views)));
        let transcript = world.transcript();
        match outcome {
            Ok(verdict) => {
                self.world = Some(world);
                (verdict, transcript)
            }
            // The panic may have left the world inconsistent.
            Err(panic) => {
                (Verdict::Unsafe(Violation { property: Property::Panic, what: panic_text(&*panic) }), transcript)
            }
        }
    }
}

/// Follows the script and heals the network. If all replicas are twins, they lead after healing as well.
fn perform<P: Protocol>(world: &mut World<P>, scenario: &Scenario, healed_views: u64) -> Verdict {
    for (round, view) in scenario.rounds.iter().zip(1..) {
        world.leader(view, round.leader);
        world.links().partition(view, round.groups.iter().copied());
        for (from, to) in &round.passes {
            world.links().pass(view, round.groups[usize::from(*from)], round.groups[usize::from(*to)]);
        }
    }
    for (round, view) in scenario.rounds.iter().zip(1..) {
        world.open_view(view);
        world.restart_all(round.restarts, round.lost_disks);
        world.run_open_view(view);
        if world.violation().is_some() {
            return verdict(world);
        }
    }
    let participants = world.participants();
    let (honest, everybody) = (participants.honest(), (0..participants.replicas() as u16).map(ReplicaId));
    match participants.twins() < participants.replicas() {
        true => world.heal_for(honest, healed_views),
        false => world.heal_for(everybody, healed_views),
    };
    verdict(world)
}

fn verdict<P: Protocol>(world: &World<P>) -> Verdict {
    match world.violation().cloned() {
        None => Verdict::Safe,
        Some(violation) if matches!(violation.property, Property::Liveness | Property::Served) => {
            Verdict::Stalled(violation)
        }
        Some(violation) => Verdict::Unsafe(violation),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".into())
}

/// Returns a function that plays scenarios of the protocol with this name. It can be called repeatedly, and reuses its
/// world.
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

/// Plays a scenario of the protocol with this name, with a transcript.
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
