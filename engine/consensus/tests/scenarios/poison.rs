//! A replica assembles timeout certificates from genuine timeouts and a false one of its own, and shows them earlier
//! than anyone else.

use crate::common::config;
use crate::common::keys::Keys;
use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::world::{Act, Tamper, World};
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::views::message::{FromView, Proposal, Timeout, ViewMessage};
use quorate_consensus::recovery::journal::Standing;
use quorate_consensus::seam::Drop;
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Action, Config, Mark, To};
use quorate_types::{Attachment, Block, Certificate, Domain, ReplicaId, Subject, View, Vote};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The Byzantine replica.
const LIAR: ReplicaId = ReplicaId(3);
/// The view of the highest certificate that the liar claims to have.
const CLAIMED: View = View(1 << 63);
const VIEW_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for which the first leader is disconnected, so that the others time out of its view.
const CUT: Duration = Duration::from_millis(150);
/// Number of view timeouts within which a command is ordered while one of four replicas is silent.
const PATIENCE: u32 = 20;

crate::for_every_protocol! {
    /// Such certificates delay no replica, regardless of the message that carries them and of the length of the liar's
    /// links.
    poisoned_timeout_certificates_delay_no_replica,
    /// A genuine timeout certificate moves no replica to the next view without the certificate that its timeouts
    /// report.
    timeouts_without_their_highest_certificate_begin_no_view,
    /// A replica that lost its journal votes again although one of the replicas it asks shows such a certificate.
    poison_does_not_stop_a_replica_without_its_journal,
}

/// Message in which the liar shows a certificate.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Advance,
    Timeout,
    Proposal,
}

/// Replaces all of the liar's messages to the others by such certificates.
fn poisoner<R: Viewed>(way: Way, lies: Rc<Cell<u32>>) -> Tamper<R::Message> {
    let mut known: Option<Certificate> = None;
    Box::new(move |keys, action, out| match action {
        Action::Assemble { subject, ref votes, .. } if subject.domain == Domain::Timeout => {
            let high = known.clone().expect("a replica counts timeouts only after it timed out itself");
            lies.set(lies.get() + 1);
            out.push(lie::<R>(way, keys, high, poisoned(keys, subject, votes)));
            out.push(action);
        }
        Action::Send { message: Letter::Protocol(message), after, sign, .. } => {
            if let Some(ViewMessage::Timeout(timeout)) = message.as_view() {
                known = Some(timeout.high.clone());
            }
            out.push(Action::Send { to: To::One(LIAR), message: Letter::Protocol(message), after, sign });
        }
        action => out.push(action),
    })
}

/// Assembles two genuine timeouts of others and the liar's, which reports a certificate that does not exist.
fn poisoned(keys: &Keys, subject: Subject, votes: &[Vote]) -> Certificate {
    let others = votes.iter().filter(|vote| vote.voter != LIAR).take(2).cloned();
    let mut votes: Vec<Vote> = others.chain([keys.vote(LIAR, subject, Attachment::HighView(CLAIMED))]).collect();
    votes.sort_by_key(|vote| vote.voter);
    keys.put_together(subject, &votes)
}

fn lie<R: Viewed>(way: Way, keys: &Keys, high: Certificate, poison: Certificate) -> Act<R::Message> {
    let next = poison.view().next();
    let message = match way {
        Way::Advance => ViewMessage::Advance { high: Box::new(high), evidence: Some(Box::new(poison)) },
        Way::Timeout => {
            let attachment = match R::FACTS.timeouts_carry_certificates {
                true => Attachment::HighCertificate(Box::new(high.clone())),
                false => Attachment::HighView(high.view()),
            };
            let vote = keys.vote(LIAR, timeout_subject(next), attachment);
            ViewMessage::Timeout(Arc::new(Timeout { vote, high, evidence: Some(poison) }))
        }
        Way::Proposal => {
            let block = Arc::new(Block::new(next, LIAR, high, Vec::new(), 0));
            let endorsement = keys.vote(LIAR, block.subject(Domain::Proposal), Attachment::None);
            ViewMessage::Proposal(Arc::new(Proposal {
                block,
                evidence: Some(poison),
                endorsement,
                bundles: Vec::new(),
            }))
        }
    };
    Action::Send { to: To::Others, message: Letter::Protocol(message.into()), after: None, sign: false }
}

fn settings<R: Viewed>(leader: LeaderKind) -> Config {
    Config { leader, view_timeout_ms: VIEW_TIMEOUT.as_millis() as u64, ..config::<R>() }
}

mod bodies {
    use super::*;

    pub fn poisoned_timeout_certificates_delay_no_replica<R: Viewed>() {
        for leader in LeaderKind::ALL.iter().copied() {
            if settings::<R>(leader)
                .stalls_with_silent(quorate_types::Quorum::of(4).expect("the committee size is valid"), &[LIAR])
                .is_some()
            {
                continue;
            }
            for nearer in [true, false] {
                // Control: the liar is silent and assembles nothing.
                let silent = time_to_order::<R>(leader, nearer, None);
                for way in [Way::Advance, Way::Timeout, Way::Proposal] {
                    let poisoned = time_to_order::<R>(leader, nearer, Some(way));
                    assert!(
                        poisoned <= silent + VIEW_TIMEOUT * PATIENCE,
                        "{leader} leaders, shown in {way:?}, nearer {nearer}: {poisoned:?} instead of {silent:?}"
                    );
                }
            }
        }
    }

    /// Returns the time that some commands take, one after the other, when the first leader is disconnected for a while
    /// at the beginning.
    fn time_to_order<R: Viewed>(leader: LeaderKind, nearer: bool, way: Option<Way>) -> Duration {
        let mut world = World::<R>::started(4, settings::<R>(leader), 1);
        let lies = Rc::new(Cell::new(0));
        match way {
            Some(way) => world.corrupt(LIAR.0, poisoner::<R>(way, lies.clone())),
            None => world.kill(LIAR.0),
        }
        for other in (0..3).map(ReplicaId).filter(|_| nearer) {
            world.network.set_delay(LIAR, other, Duration::from_micros(200));
            world.network.set_delay(other, LIAR, Duration::from_micros(200));
        }
        let first = world
            .replica(0)
            .protocol()
            .leader(world.replica(0).parts())
            .expect("the leader on top of genesis is always known");
        world.network.isolate(first, true);
        let start = world.now;
        let mut command = world.submit(1);
        world.run_for(CUT);
        world.network.isolate(first, false);
        for number in 0..4 {
            let what = format!("command {number} is not ordered with {leader} leaders, {way:?}, nearer {nearer}");
            assert!(world.run_until_done(VIEW_TIMEOUT * 600, &command), "{what}");
            command = world.submit(1);
        }
        assert!(way.is_none() || lies.get() > 0, "the liar sent certificates");
        world.now - start
    }

    pub fn timeouts_without_their_highest_certificate_begin_no_view<R: Viewed>() {
        let mut world = World::<R>::started(4, settings::<R>(LeaderKind::Fixed), 1);
        let command = world.submit(1);
        assert!(world.run_until_done(VIEW_TIMEOUT, &command));
        let (genesis, view) = (Certificate::genesis(&world.keys.epoch), world.replica(1).view());
        let high = world.replica(1).protocol().high().clone();
        let attachment = match R::FACTS.timeouts_carry_certificates {
            true => return, // An aggregate carries the certificates that it reports.
            false => Attachment::HighView(View(high.view().0 + 2)),
        };
        // Only the liar has the certificate that these genuine timeouts report.
        let subject = timeout_subject(View(high.view().0 + 2));
        let votes: Vec<Vote> =
            [0, 2, 3].map(|voter| world.keys.vote(ReplicaId(voter), subject, attachment.clone())).into();
        let evidence = world.keys.assemble(subject, &votes).expect("the votes are genuine");
        for high in [genesis, high] {
            let high = Box::new(high);
            let advance = ViewMessage::Advance { high, evidence: Some(Box::new(evidence.clone())) };
            world.inject(LIAR.0, 1, advance.into());
        }
        world.run_for(Duration::from_millis(10));
        assert_eq!(world.replica(1).view(), view, "R1 does not enter a view without the certificate to extend");
        assert_eq!(world.replica(1).dropped().get(&Drop::ViewNotJustified), Some(&2));
    }

    pub fn poison_does_not_stop_a_replica_without_its_journal<R: Viewed>() {
        let mut world = World::<R>::started(4, settings::<R>(LeaderKind::Reputation), 1);
        let command = world.submit(1);
        assert!(world.run_until_done(VIEW_TIMEOUT * PATIENCE, &command));
        // Sends every replica that asks the liar a timeout certificate that reports a nonexistent certificate, without
        // a highest certificate.
        world.corrupt(
            LIAR.0,
            Box::new(move |keys, action, out| match action {
                Action::Send { to, message: Letter::Standing { nonce, standing }, after, sign } => {
                    let ended = standing.certificates.iter().map(Certificate::view).max().unwrap_or_default();
                    let subject = timeout_subject(ended.next());
                    let votes = [0, 1].map(|voter| keys.vote(ReplicaId(voter), subject, Attachment::HighView(ended)));
                    let mut certificates = standing.certificates;
                    certificates.push(poisoned(keys, subject, &votes));
                    let message = Letter::Standing { nonce, standing: Standing { certificates, votes: Vec::new() } };
                    out.push(Action::Send { to, message, after, sign });
                }
                action => out.push(action),
            }),
        );
        world.kill(2);
        world.restart_without_memory(2);
        let dropped = |world: &World<R>| world.replica(2).dropped().get(&Drop::Malformed).copied();
        let shown = world.run_until(VIEW_TIMEOUT * PATIENCE, |world| dropped(world).is_some());
        assert!(shown, "an inconsistent standing is no answer");
        // Make the liar honest once, because all three other replicas of the four have to answer.
        world.corrupt(LIAR.0, Box::new(|_, action, out| out.push(action)));
        let takes_part = |world: &World<R>| world.marks(2).iter().any(|mark| matches!(mark, Mark::TakesPart { .. }));
        let back = (0..100).any(|_| {
            world.submit(1);
            world.run_until(VIEW_TIMEOUT, takes_part)
        });
        assert!(back, "R2 votes again");
    }
}
