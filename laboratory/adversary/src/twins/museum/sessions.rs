//! Exhibit about clients' executed commands. Replicas execute nothing in a world, so here one of them executes with
//! session tables.

use super::scene::{Ending, Play, play_jolteon_with, run, short_memory};
use crate::twins::checker::Property;
use crate::twins::participants::InstanceId;
use crate::twins::world::Rewrite;
use quorate_applications::session::{Admission, MAX_SESSION_UNITS, Sessions};
use quorate_consensus::seam::Action;
use quorate_types::{Bundle, BundleBuilder, ClientId, Height, ReplicaId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// Maximum number of sessions.
const LIMIT: usize = MAX_SESSION_UNITS;

/// The sessions of a replica.
enum Table {
    Sound(Box<Sessions>),
    /// The bug: the least recently used session is evicted without a trace.
    Forgetful(VecDeque<(ClientId, BTreeSet<u64>)>),
}

impl Table {
    fn admits(&mut self, height: Height, bundle: &Bundle, client: ClientId, sequence: u64) -> bool {
        match self {
            Table::Sound(sessions) => {
                let expires = bundle.expires();
                height <= expires
                    && expires <= height.latest_expiry()
                    && sessions.admit(expires, client, sequence) == Admission::Fresh
            }
            Table::Forgetful(sessions) => {
                let at = sessions.iter().position(|(known, _)| *known == client);
                let (_, mut executed) = at.and_then(|at| sessions.remove(at)).unwrap_or((client, BTreeSet::new()));
                let fresh = executed.insert(sequence);
                sessions.push_back((client, executed));
                if sessions.len() > LIMIT {
                    sessions.pop_front();
                }
                fresh
            }
        }
    }
}

/// A replica's execution, with the number of times that it executed each command.
struct Executed {
    table: Table,
    times: BTreeMap<(ClientId, u64), u32>,
}

fn executes<M>(executed: &Arc<Mutex<Executed>>) -> Rewrite<M> {
    let executed = executed.clone();
    Box::new(move |_, actions| {
        let Executed { table, times } = &mut *executed.lock().expect("nothing panics while it holds this lock");
        for action in actions {
            let Action::Commit { block, bundles } = action else { continue };
            for (bundle, command) in
                bundles.iter().flat_map(|bundle| bundle.commands().map(move |command| (bundle, command)))
            {
                let is_executed = table.admits(block.height, bundle, command.client, command.sequence);
                *times.entry((command.client, command.sequence)).or_default() += u32::from(is_executed);
            }
        }
    })
}

fn bundle(owner: u128, sessions: u16) -> Bundle {
    let origin = ClientId(owner << ClientId::SESSION_BITS);
    let mut builder = BundleBuilder::new(origin, Height(0).latest_expiry());
    (0..sessions).for_each(|session| builder.push(origin.with_session(session), 1, b"once"));
    builder.finish()
}

/// 30: a client's command is executed, another client opens the maximum number of sessions, and the first client's
/// bundle is ordered again.
pub fn old_command_again(how: &Play) -> Ending {
    // Replicas forget old bundles, as they do under load, so that only the sessions remember them.
    play_jolteon_with(how, short_memory, |world| {
        let table = match how.broken {
            true => Table::Forgetful(VecDeque::new()),
            false => Table::Sound(Box::new(Sessions::with_limit(LIMIT))),
        };
        let executed = Arc::new(Mutex::new(Executed { table, times: BTreeMap::new() }));
        world.misbehave(InstanceId(0), executes(&executed));
        world.run_view(1);
        let (victim, flood) = (bundle(77, 1), bundle(78, LIMIT as u16));
        for (views, sent) in [(2..=30, &victim), (31..=60, &flood), (61..=90, &victim)] {
            world.participants().instances().for_each(|instance| world.submit(instance, vec![sent.clone()]));
            run(world, views);
        }
        world.heal((0..4).map(ReplicaId));
        let executed = executed.lock().expect("nothing panics while it holds this lock");
        let times = |bundle: &Bundle| bundle.commands().next().map(|command| (command.client, command.sequence));
        let victims = times(&victim).and_then(|command| executed.times.get(&command));
        assert!(victims.is_some(), "the victim's command is executed");
        for ((client, sequence), times) in executed.times.iter().filter(|(_, times)| **times > 1) {
            let what = format!("command {sequence} of client {client} is executed {times} times");
            world.checker().report(Property::Validity, what);
        }
    })
}
