//! No command is executed twice. Honest clients run among floods of sessions, evictions and snapshots, while every
//! signed bundle may be ordered again at any time.
//!
//! Without watermarks (`Sessions::watermark_of` returning 0), the property test and the test of an evicted session
//! fail, as an experiment confirmed.

use crate::common::executor;
use proptest::prelude::*;
use quorate_applications::session::SESSION_WINDOW;
use quorate_applications::{ApplicationKind, BlockContext, Executor};
use quorate_types::limits::MAX_BUNDLE_LIFETIME_BLOCKS;
use quorate_types::{Bundle, BundleBuilder, ClientId, Height, Outcome};
use std::collections::BTreeMap;

/// Limit of units, so low that small floods evict sessions.
const LIMIT: usize = 100;
const HONEST: usize = 4;

fn first_of(owner: u64) -> ClientId {
    ClientId(u128::from(owner) << ClientId::SESSION_BITS)
}

fn signed(expires: Height, commands: &[(ClientId, u64)]) -> Bundle {
    let mut builder = BundleBuilder::new(commands[0].0, expires);
    commands.iter().for_each(|(client, sequence)| builder.push(*client, *sequence, b""));
    builder.finish()
}

#[derive(Clone, Debug)]
enum Step {
    /// A client that does not wait for an answer signs its next command, which expires `ahead` heights from now.
    Sign { who: usize, ahead: u64, skip: u64 },
    /// A block of arbitrary earlier bundles is executed.
    Order(Vec<prop::sample::Index>),
    /// One owner opens many sessions.
    FloodByOne { owner: u64, sessions: u16, ahead: u64 },
    /// Many owners open one session each.
    FloodByMany { owners: u64, ahead: u64 },
    /// Empty blocks are executed.
    Wait(u64),
    /// The state is replaced by its snapshot.
    Restore,
}

fn step() -> impl Strategy<Value = Step> {
    let ahead = || prop_oneof![3 => 0u64..12, 1 => Just(MAX_BUNDLE_LIFETIME_BLOCKS), 1 => Just(u64::MAX / 2)];
    let skip = prop_oneof![4 => Just(0), 1 => 0u64..100, 1 => Just(SESSION_WINDOW + 5)];
    prop_oneof![
        4 => (0..HONEST, ahead(), skip).prop_map(|(who, ahead, skip)| Step::Sign { who, ahead, skip }),
        4 => prop::collection::vec(any::<prop::sample::Index>(), 1..6).prop_map(Step::Order),
        1 => (100u64..103, 1u16..200, ahead())
            .prop_map(|(owner, sessions, ahead)| Step::FloodByOne { owner, sessions, ahead }),
        1 => (1u64..150, ahead()).prop_map(|(owners, ahead)| Step::FloodByMany { owners, ahead }),
        1 => (1u64..12).prop_map(Step::Wait),
        1 => Just(Step::Restore),
    ]
}

struct Honest {
    client: ClientId,
    sequence: u64,
    waits: Option<Bundle>,
}

struct World {
    executor: Executor,
    honest: Vec<Honest>,
    /// All signed bundles.
    bundles: Vec<Bundle>,
    executed: BTreeMap<(ClientId, u64), u64>,
    floods: u64,
}

fn fresh() -> Executor {
    executor(ApplicationKind::LOG).with_session_limit(LIMIT)
}

impl World {
    fn new() -> World {
        let honest = |owner: usize| Honest { client: first_of(1 + owner as u64), sequence: 0, waits: None };
        let honest = (0..HONEST).map(honest).collect();
        World { executor: fresh(), honest, bundles: Vec::new(), executed: BTreeMap::new(), floods: 0 }
    }

    fn height(&self) -> Height {
        self.executor.height()
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Sign { who, ahead, skip } => {
                let expires = Height(self.height().0 + ahead);
                let Honest { sequence, waits, .. } = &mut self.honest[*who];
                if waits.is_none() {
                    *sequence += 1 + skip;
                    self.sign_for(*who, expires);
                }
            }
            Step::Order(_) if self.bundles.is_empty() => {}
            Step::Order(chosen) => {
                let block = chosen.iter().map(|index| self.bundles[index.index(self.bundles.len())].clone()).collect();
                self.execute(block);
            }
            Step::FloodByOne { owner, sessions, ahead } => {
                self.floods += 1;
                let sessions: Vec<_> =
                    (0..*sessions).map(|session| (first_of(*owner).with_session(session), self.floods)).collect();
                let bundle = signed(Height(self.height().0 + ahead), &sessions);
                self.bundles.push(bundle.clone());
                self.execute(vec![bundle]);
            }
            Step::FloodByMany { owners, ahead } => {
                self.floods += 1;
                let expires = Height(self.height().0 + ahead);
                let first = 1000 + 1000 * self.floods;
                let block: Vec<Bundle> =
                    (first..first + owners).map(|owner| signed(expires, &[(first_of(owner), 1)])).collect();
                self.bundles.extend(block.iter().take(10).cloned());
                self.execute(block);
            }
            Step::Wait(blocks) => (0..*blocks).for_each(|_| self.execute(Vec::new())),
            Step::Restore => {
                let snapshot = self.executor.snapshot();
                let mut restored = fresh();
                restored.restore(snapshot.clone()).expect("a snapshot can be restored");
                assert_eq!(restored.snapshot(), snapshot);
                self.executor = restored;
            }
        }
        self.ask();
    }

    fn sign_for(&mut self, who: usize, expires: Height) {
        let Honest { client, sequence, waits } = &mut self.honest[who];
        let bundle = signed(expires, &[(*client, *sequence)]);
        *waits = Some(bundle.clone());
        self.bundles.push(bundle);
    }

    fn execute(&mut self, block: Vec<Bundle>) {
        let mut replies = Vec::new();
        self.executor.execute(BlockContext::untimed(self.height().next()), &block, &mut replies);
        for (bundle, reply) in block.iter().zip(&replies) {
            for (command, outcome) in bundle.commands().zip(reply.results.outcomes()) {
                let executed = self.executed.entry((command.client, command.sequence)).or_default();
                match outcome {
                    Outcome::Executed(_) => *executed += 1,
                    Outcome::Duplicate => assert_eq!(*executed, 1, "a duplicate was not executed exactly once"),
                    Outcome::Expired => assert_eq!(*executed, 0, "an expired command was executed"),
                    Outcome::Refused | Outcome::Forgotten => {}
                }
                assert!(*executed <= 1, "number {} of {} is executed twice", command.sequence, command.client);
            }
            for honest in self.honest.iter_mut().filter(|honest| honest.waits.as_ref() == Some(bundle)) {
                if reply.results.outcomes().any(|outcome| matches!(outcome, Outcome::Executed(_))) {
                    honest.waits = None;
                }
            }
        }
        assert_eq!(self.executor.commands(), self.executed.values().sum::<u64>());
    }

    /// Lets clients ask for the outcome of their commands, and sign void commands again with a later expiry.
    fn ask(&mut self) {
        for who in 0..HONEST {
            let Some(bundle) = self.honest[who].waits.clone() else { continue };
            let Some(reply) = self.executor.settled(&bundle) else { continue };
            let key = (self.honest[who].client, self.honest[who].sequence);
            let executed = self.executed.get(&key).copied().unwrap_or(0);
            match reply.results.outcomes().next().expect("the bundle has one command") {
                Outcome::Expired => {
                    assert_eq!(executed, 0, "an expired command was executed");
                    let expires = Height(self.height().0 + 1 + key.1 % 7);
                    self.sign_for(who, expires);
                }
                Outcome::Duplicate => {
                    assert_eq!(executed, 1, "a duplicate was not executed exactly once");
                    self.honest[who].waits = None;
                }
                Outcome::Forgotten => self.honest[who].waits = None,
                other => panic!("{other:?} is not a settled outcome"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_is_executed_twice_and_new_commands_are_served(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.act(step));
        for who in 0..HONEST {
            let Honest { client, sequence, .. } = world.honest[who];
            let bundle = signed(world.height().latest_expiry(), &[(client, sequence + 1)]);
            world.execute(vec![bundle]);
            prop_assert_eq!(world.executed[&(client, sequence + 1)], 1);
        }
    }
}

#[test]
fn the_commands_of_an_evicted_session_stay_void() {
    let mut world = World::new();
    let victim = first_of(1);
    let old = signed(Height(0).latest_expiry(), &[(victim, 1)]);
    world.execute(vec![old.clone()]);
    world.act(&Step::FloodByMany { owners: 150, ahead: MAX_BUNDLE_LIFETIME_BLOCKS });
    assert_eq!(
        world.executor.settled(&old).expect("the bundle is void").results.outcomes().next(),
        Some(Outcome::Forgotten)
    );
    world.execute(vec![old.clone()]);
    world.execute(vec![signed(world.height().latest_expiry(), &[(victim, 2)])]);
    assert_eq!(world.executed[&(victim, 2)], 1, "the victim can continue");
    world.execute(vec![old]);
    world.act(&Step::Restore);
    world.execute(vec![world.bundles[0].clone()]);
    assert_eq!(world.executed[&(victim, 1)], 1);
}

#[test]
fn a_bundle_is_void_above_its_expiry() {
    let mut world = World::new();
    let client = first_of(1);
    let outcome = |world: &World, bundle: &Bundle| {
        let reply = world.executor.settled(bundle)?;
        Some(format!("{:?}", reply.results.outcomes().next().expect("the bundle has one command")))
    };
    let [in_time, late] = [1, 2].map(|sequence| signed(Height(3), &[(client, sequence)]));
    world.act(&Step::Wait(2));
    world.execute(vec![in_time.clone()]);
    assert_eq!(outcome(&world, &late).as_deref(), Some("Expired"), "the next height is above its expiry");
    world.execute(vec![late.clone(), in_time.clone()]);
    assert_eq!((world.executed[&(client, 1)], world.executed[&(client, 2)]), (1, 0));
    assert_eq!(outcome(&world, &in_time).as_deref(), Some("Duplicate"));
    let again = signed(Height(9), &[(client, 2)]);
    assert_eq!(outcome(&world, &again), None, "a command that was signed again may be executed");
    world.execute(vec![again]);
    assert_eq!(world.executed[&(client, 2)], 1);
    assert_eq!(outcome(&world, &late).as_deref(), Some("Duplicate"), "the command was executed in another bundle");
}

#[test]
fn a_bundle_that_expires_too_late_is_not_executed() {
    let mut world = World::new();
    let latest = world.height().next().latest_expiry();
    let [good, bad] = [latest, latest.next()].map(|expires| signed(expires, &[(first_of(1), expires.0)]));
    world.execute(vec![bad, good]);
    assert_eq!((world.executed[&(first_of(1), latest.0)], world.executed[&(first_of(1), latest.0 + 1)]), (1, 0));
}

#[test]
fn a_client_continues_after_lost_commands_and_evictions() {
    let mut executor = fresh();
    let client = first_of(1);
    let mut replies = Vec::new();
    let mut sequence = 0;
    for round in 0..5 {
        for _ in 0..SESSION_WINDOW / 512 {
            let commands: Vec<_> = (1..=512).map(|number| (client, sequence + number)).collect();
            sequence += 512;
            let bundle = signed(executor.height().latest_expiry(), &commands);
            executor.execute(BlockContext::untimed(executor.height().next()), &[bundle], &mut replies);
            assert!(replies.drain(..).all(|reply| reply.results.is_all_empty()), "round {round}");
        }
        // Skip a number, as if its command were lost.
        sequence += 1;
        let crowd: Vec<Bundle> = (0..2 * LIMIT as u64)
            .map(|owner| signed(executor.height().latest_expiry(), &[(first_of(1000 * (round + 1) + owner), 1)]))
            .collect();
        if round % 2 == 0 {
            executor.execute(BlockContext::untimed(executor.height().next()), &crowd, &mut replies);
            replies.clear();
        }
    }
    assert!(sequence > 4 * SESSION_WINDOW);
}
