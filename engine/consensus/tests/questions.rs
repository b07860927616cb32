//! Cost of one faulty replica's requests for an honest replica: a small message repeated a thousand times per second
//! gets bounded answers.

use crate::common::config;
use crate::common::play::Viewed;
use crate::common::told_pbft::Pbft;
use crate::common::world::World;
use quorate_consensus::config::Dissemination;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::views::message::{Timeout, ViewMessage};
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Config, Envelope};
use quorate_types::{Attachment, Bundle, BundleBuilder, Certificate, ClientId, Digest, Height, ReplicaId, View};
use std::time::Duration;

/// Requests per second.
const FLOOD: u64 = 800;
/// Maximum number of answers to one request in that second: two per 25 ms, which is half of the shortest honest retry
/// period, plus a few.
const MAX_ANSWERS: u64 = 2 * 1000 / 25 + 5;

crate::for_every_protocol! {
    /// Repeated requests for the same block with its ancestors.
    repeated_requests_for_one_block_get_bounded_answers,
    /// Repeated timeouts of a view that ended long ago.
    a_repeated_old_timeout_gets_bounded_answers,
    /// Requests for bundles that are always different, within the budget of one peer for a second.
    requests_for_bundles_stay_within_the_budget,
}

/// Makes R3 send something to R1 a few hundred times within a second. Returns the number of messages and bytes that R1
/// sends to R3 in that time.
fn flood<P: crate::common::play::Play>(
    world: &mut World<P>,
    mut say: impl FnMut(u64) -> Envelope<P::Message>,
) -> (u64, u64) {
    let said = |world: &World<P>| world.said.get(&(1, 3)).copied().unwrap_or_default();
    let before = said(world);
    for number in 0..FLOOD {
        world.inject_letter(3, 1, say(number));
        world.run_for(Duration::from_micros(1_000_000 / FLOOD));
    }
    let after = said(world);
    (after.0 - before.0, after.1 - before.1)
}

/// Orders this number of commands, one after the other.
fn load<P: crate::common::play::Play>(world: &mut World<P>, commands: u64) {
    for _ in 0..commands {
        let command = world.submit(1);
        assert!(world.run_until_done(Duration::from_secs(1), &command));
    }
    world.run_for(Duration::from_millis(100));
}

/// STATUS is unsigned and takes 18 bytes. A replica that has executed a hundred slots, none of them stable, answers the
/// first STATUS with its messages for 64 slots.
#[test]
fn a_repeated_status_gets_bounded_answers() {
    let config = Config { dissemination: Dissemination::Leader, ..config::<Pbft>() };
    let mut world = World::<Pbft>::started(4, config, 1);
    load(&mut world, 100);
    let status = PbftMessage::Status { view: View(1), committed: Height(0) };
    let (messages, bytes) = flood(&mut world, |_| Envelope::Protocol(status.clone()));
    assert!(messages >= 129, "the first request is answered: {messages} messages");
    assert!(messages <= MAX_ANSWERS * 129, "{FLOOD} requests are answered by {messages} messages of {bytes} bytes");
}

/// A replica that makes progress always gets an answer.
#[test]
fn a_status_with_progress_is_always_answered() {
    let mut world = World::<Pbft>::started(4, config::<Pbft>(), 1);
    load(&mut world, 100);
    let mut told = 0;
    for slot in 0..100 {
        let before = world.said.get(&(1, 3)).copied().unwrap_or_default().0;
        world.inject(3, 1, PbftMessage::Status { view: View(1), committed: Height(slot) });
        world.run_for(Duration::from_millis(2));
        told += u64::from(world.said[&(1, 3)].0 > before);
    }
    assert_eq!(told, 100);
}

mod bodies {
    use super::*;

    pub fn repeated_requests_for_one_block_get_bounded_answers<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        load(&mut world, 80);
        let digest = world.commits(1).last().expect("the chain is not empty").block.digest();
        let (messages, bytes) = flood(&mut world, |_| Envelope::FetchBlocks { digest, above: Height(0), most: 64 });
        assert!((1..=2 * MAX_ANSWERS).contains(&messages), "{messages} answers of {bytes} bytes");
    }

    pub fn a_repeated_old_timeout_gets_bounded_answers<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        load(&mut world, 10);
        let high = Certificate::genesis(&world.keys.epoch);
        let attachment = match R::FACTS.timeouts_carry_certificates {
            true => Attachment::HighCertificate(Box::new(high.clone())),
            false => Attachment::HighView(high.view()),
        };
        world.oracle.distrust(ReplicaId(3));
        let vote = world.keys.vote(ReplicaId(3), timeout_subject(View(1)), attachment);
        let timeout = Timeout { vote, high, evidence: None };
        let message: R::Message = ViewMessage::Timeout(timeout.into()).into();
        let (messages, bytes) = flood(&mut world, |_| Envelope::Protocol(message.clone()));
        assert!((1..=MAX_ANSWERS).contains(&messages), "{messages} answers of {bytes} bytes");
    }

    pub fn requests_for_bundles_stay_within_the_budget<R: Viewed>() {
        const MAX_BYTES: u64 = 4 << 20;
        let config = Config { answer_bytes_per_second: MAX_BYTES as usize, ..config::<R>() };
        let mut world = World::<R>::started(4, config, 1);
        let bundles: Vec<Bundle> = (1..=8).map(large).collect();
        bundles.iter().for_each(|bundle| world.oracle.submitted(bundle));
        world.inject_letter(0, 1, Envelope::Relay(bundles.clone()));
        world.run_for(Duration::from_millis(500));
        let digests: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        let (messages, bytes) = flood(&mut world, |number| {
            let mut digests = digests.clone();
            digests.rotate_left(number as usize % 8);
            digests.truncate(1 + number as usize / 8);
            Envelope::FetchBundles { digests, above: Height(0) }
        });
        assert!(messages > 0, "some requests are answered");
        assert!(bytes < 2 * MAX_BYTES + (2 << 20), "{messages} answers of {bytes} bytes in a second");
    }

    fn large(number: u64) -> Bundle {
        let mut builder = BundleBuilder::new(ClientId(number.into()), Height(0).latest_expiry());
        builder.push(ClientId(number.into()), 1, &[7; 128 << 10]);
        builder.finish()
    }
}
