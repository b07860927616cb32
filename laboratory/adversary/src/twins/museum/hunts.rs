//! Hunts that do not know the bug: numbered scenarios, each drawn from its number alone.
//!
//! Twins draws leaders and partitions. Mutation also draws changes to a replica's messages in a few rounds. Random also
//! draws network faults and crashes.

use super::Hunt;
use super::ambush::lie_in_ambush;
use super::certificates::checker_view_gap;
use super::clients::divided_at_random;
use super::dice::{Dice, REPLICAS, context_of, honest_lead};
use super::scene::{Keeper, Play, Scenes, Setting, go_on, let_go, play, run};
use crate::byzantine::behaviour::{Behaviour, Context};
use crate::byzantine::malleable::{ForMalleable, Malleable};
use crate::byzantine::memory::Memory;
use crate::byzantine::wrapper::Wrapper;
use crate::byzantine::{Fault, Misbehaviour, Needs, lie};
use crate::twins::bugs::for_all_rules;
use crate::twins::hostile::HostileClient;
use crate::twins::participants::{InstanceId, InstanceSet, Participants};
use crate::twins::play::Player;
use crate::twins::run::draw;
use crate::twins::space::{Shape, Space};
use crate::twins::world::{Rewrite, World};
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::replica::MakeReplica;
use quorate_consensus::seam::{Action, Envelope, Timer, To};
use quorate_types::{Quorum, ReplicaId, View};
use std::collections::BTreeMap;

/// Rounds of a Twins scenario.
const TWINS_ROUNDS: usize = 7;
/// Rounds of a scenario with one-way links between honest replicas, the same number as in the longest directed
/// scenario.
const LINKS_ROUNDS: usize = 12;
/// Rounds of a scenario with a hostile client. Some of a script's rounds must leave bundles waiting.
const CONTEST_ROUNDS: usize = 10;
/// Rounds of a scenario with mutated messages.
const MUTATED_ROUNDS: u64 = 8;
/// Maximum number of rounds with mutated messages, and maximum number of rounds with a partition.
const MAX_FAULTY_ROUNDS: u64 = 3;
/// Views of a random simulation.
const RANDOM_VIEWS: u64 = 12;
/// Maximum delay of a message in a random simulation, in views.
const MAX_LATE: u64 = 4;
/// Maximum number of actions of an instance before its random crash.
const MAX_ACTIONS: u64 = 24;

impl Hunt {
    /// Returns the scenarios of this hunt for replicas of a protocol.
    pub fn scenes(self, protocol: ProtocolKind, how: Play) -> Scenes {
        struct Make(Hunt, ProtocolKind, Play);
        impl ForMalleable for Make {
            type Output = Scenes;
            fn run<P: Protocol<Message: Malleable> + 'static>(self, make: MakeReplica<P>) -> Scenes {
                let Make(hunt, protocol, how) = self;
                match hunt {
                    Hunt::Twins => twins(protocol, make, how),
                    Hunt::Mutation => drawn(protocol, make, how, mutate_rounds::<P>),
                    Hunt::Random => drawn(protocol, make, how, make_trouble::<P>),
                    Hunt::Contest => contest(protocol, make, how),
                    Hunt::Clients => divided_at_random(protocol, make, how),
                    Hunt::Ambush => drawn(protocol, make, how, lie_in_ambush::<P>),
                    Hunt::CrashSweep(scene) | Hunt::Lasso(scene) => {
                        Box::new(move |number| scene(&how, number as usize).violation)
                    }
                }
            }
        }
        for_all_rules(protocol, how.mutant, Make(self, protocol, how))
    }
}

fn twins<P: Protocol + 'static>(protocol: ProtocolKind, make: MakeReplica<P>, how: Play) -> Scenes {
    let kinds = [(committee(1), TWINS_ROUNDS, false), (committee(0), LINKS_ROUNDS, true)];
    scripted(protocol, make, how, kinds)
}

fn contest<P: Protocol + 'static>(protocol: ProtocolKind, make: MakeReplica<P>, how: Play) -> Scenes {
    let beside = |hostile| (committee(1).with_hostile(Some(hostile)), CONTEST_ROUNDS, false);
    scripted(protocol, make, how, [beside(HostileClient::LeaderOnly), beside(HostileClient::OneBackupOnly)])
}

/// Returns a committee of four replicas, some with a second instance.
fn committee(twins: usize) -> Participants {
    Participants::new(Quorum::of(REPLICAS).expect("four replicas tolerate one fault"), twins)
}

/// Returns scripts that alternate between partitions and one-way links: the participants, the rounds, and whether there
/// are one-way links.
fn scripted<P: Protocol + 'static>(
    protocol: ProtocolKind,
    make: MakeReplica<P>,
    how: Play,
    kinds: [(Participants, usize, bool); 2],
) -> Scenes {
    let mut kinds = kinds.map(|(participants, rounds, one_way)| {
        let shape = Shape { participants, partitions: 2, rounds, one_way, pruned: true };
        let space = Space::new(shape).expect("spaces of four replicas can be counted");
        (space, Player::new(protocol, make).mutate(how.mutant))
    });
    Box::new(move |number| {
        let (space, player) = &mut kinds[(number % 2) as usize];
        let scenario = space.scenario(draw(1, number, space.count()));
        player.play(&scenario).violation().cloned()
    })
}

fn drawn<P: Protocol + 'static>(
    protocol: ProtocolKind,
    make: MakeReplica<P>,
    how: Play,
    script: fn(&mut World<P>, &mut Dice),
) -> Scenes {
    Box::new(move |number| {
        let mut dice = Dice::new(number);
        play(&how, Setting::new(protocol, REPLICAS), make, |world| script(world, &mut dice)).violation
    })
}

/// A mutation of a message.
#[derive(Clone, Copy)]
enum Change {
    Omitted,
    /// A different block, or a vote for a different one.
    OtherBlock,
    /// The same block on its grandparent.
    OldParent,
    /// Certificates one step older.
    OlderCertificates,
    ForgedCertificates,
    NothingPrepared,
    NextView,
    LastView,
    BadSignature,
}

impl Change {
    const ALL: [Change; 9] = [
        Change::Omitted,
        Change::OtherBlock,
        Change::OldParent,
        Change::OlderCertificates,
        Change::ForgedCertificates,
        Change::NothingPrepared,
        Change::NextView,
        Change::LastView,
        Change::BadSignature,
    ];

    /// Returns the mutated message, or the original if the change does not apply to it.
    fn of<M: Malleable>(self, message: &M, memory: &Memory, context: &Context) -> Option<M> {
        let changed = match self {
            Change::Omitted => return None,
            Change::OtherBlock => lie::rival(message, memory).or_else(|| lie::contradict(message, memory)),
            Change::OldParent => lie::fork(message, memory),
            Change::OlderCertificates => lie::show_stale(message, memory, 1),
            Change::ForgedCertificates => lie::forge(message, memory, context),
            Change::NothingPrepared => lie::hide_prepared(message),
            Change::NextView => lie::inflate(message, 1),
            Change::LastView => message.view().and_then(|view| view.0.checked_sub(1)).map(|view| {
                let mut changed = message.clone();
                changed.claim_view(View(view));
                changed
            }),
            Change::BadSignature => lie::corrupt(message, context.shape),
        };
        Some(changed.unwrap_or_else(|| message.clone()))
    }
}

/// Returns a rewriting that mutates messages of one replica to some others in some views.
fn changes<M: Malleable>(context: Context, rounds: BTreeMap<View, (Change, InstanceSet)>) -> Rewrite<M> {
    let (liar, mut memory) = (context.me, Memory::default());
    Box::new(move |_, actions| {
        for action in std::mem::take(actions) {
            let Action::Send { to, message, after, sign } = action else {
                actions.push(action);
                continue;
            };
            memory.read(&message);
            let round = match &message {
                Envelope::Protocol(said) => said.view().and_then(|view| rounds.get(&view)).map(|round| (said, round)),
                _ => None,
            };
            let Some((said, (change, hearing))) = round else {
                actions.push(Action::Send { to, message, after, sign });
                continue;
            };
            let hears = |one: &ReplicaId| match to {
                To::All => true,
                To::Others => *one != liar,
                To::One(other) => *one == other,
            };
            for one in (0..REPLICAS as u16).map(ReplicaId).filter(hears) {
                let changed = one != liar && hearing >> one.index() & 1 == 1;
                let said = if changed { change.of(said, &memory, &context) } else { Some(said.clone()) };
                let sign = sign && !(changed && matches!(change, Change::BadSignature));
                actions.extend(said.map(|said| {
                    let message = Envelope::Protocol(said);
                    Action::Send { to: To::One(one), message, after, sign }
                }));
            }
        }
    })
}

fn mutate_rounds<P: Protocol<Message: Malleable>>(world: &mut World<P>, dice: &mut Dice) {
    let (liar, everybody) = (dice.instance(), world.participants().everybody());
    let mut rounds = BTreeMap::new();
    for _ in 0..=dice.below(MAX_FAULTY_ROUNDS) {
        let (view, change) = (View(1 + dice.below(MUTATED_ROUNDS)), dice.pick(&Change::ALL));
        rounds.insert(view, (change, dice.some_of(everybody)));
    }
    world.misbehave(liar, changes(context_of(world.participants(), ReplicaId(liar.0 as u16)), rounds));
    for view in 1..=MUTATED_ROUNDS {
        world.leader(view, ReplicaId(dice.instance().0 as u16));
    }
    for _ in 0..=dice.below(MAX_FAULTY_ROUNDS) {
        let (view, group) = (1 + dice.below(MUTATED_ROUNDS), dice.some_of(everybody));
        world.links().partition(view, [group, everybody & !group]);
    }
    run(world, 1..=MUTATED_ROUNDS);
    checker_view_gap(world, MUTATED_ROUNDS);
    honest_lead(world);
}

fn make_trouble<P: Protocol<Message: Malleable>>(world: &mut World<P>, dice: &mut Dice) {
    let liar = dice.one_in(2).then(|| misbehaves(world, dice));
    let (lost, late) = (dice.pick(&[0, 5, 20]), dice.pick(&[0, 5, 20]));
    let (impatient, unstable) = (dice.pick(&[1, 2, 8]), dice.pick(&[4, 12]));
    let (mut of_links, keeper) = (dice.others(), Keeper::default());
    let mut delays = dice.others();
    let mut keep = keeper.keep(|_, _, _, _| true);
    world.lose(Some(Box::new(move |from, to, view, message| {
        of_links.below(100) < lost || of_links.below(100) < late && keep(from, to, view, message)
    })));
    let mut on_the_way = Vec::new();
    for view in 1..=RANDOM_VIEWS {
        on_the_way.extend(keeper.take().into_iter().map(|kept| (view + delays.below(MAX_LATE), kept)));
        let due = on_the_way.extract_if(.., |(due, _)| *due <= view).map(|(_, kept)| kept).collect();
        for instance in world.participants().instances() {
            if !world.is_up(instance) && dice.one_in(2) {
                world.restart(instance);
            } else if world.is_up(instance) && Some(instance) != liar && dice.one_in(unstable) {
                world.crash_after(instance, dice.below(MAX_ACTIONS) as usize);
            }
        }
        go_on(world, view);
        let_go(world, due);
        for instance in world.participants().instances() {
            if dice.one_in(impatient) {
                world.ring(instance, Timer::View);
            }
        }
        world.settle();
        checker_view_gap(world, view);
    }
    for instance in world.participants().instances() {
        match world.is_up(instance) {
            true => world.keep_up(instance),
            false => world.restart(instance),
        }
    }
    honest_lead(world);
}

/// Makes one of the replicas misbehave, with a fault that needs only its own messages. Faults that need other replicas'
/// messages belong to the hunt `ambush`.
fn misbehaves<P: Protocol<Message: Malleable>>(world: &mut World<P>, dice: &mut Dice) -> InstanceId {
    let liar = dice.instance();
    let passes_time = |fault: &Fault| fault.facts().needs == Needs::Time;
    let may = |fault: &Fault| passes_time(fault) || fault.facts().needs == Needs::Nothing;
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(may).collect();
    let fault = loop {
        let fault = dice.pick(&faults);
        if !passes_time(&fault) {
            break fault;
        }
    };
    let context = context_of(world.participants(), ReplicaId(liar.0 as u16));
    let mut wrapper = Wrapper::<P::Message>::new(Misbehaviour::always(fault), context);
    world.misbehave(liar, Box::new(move |now, actions| wrapper.rewrite(now, actions)));
    liar
}
