//! Byzantine replicas.

use crate::common::keys::{Keys, forged_certificate};
use crate::common::network::Letter;
use crate::common::play::Viewed;
use crate::common::world::{Act, World};
use crate::common::{config, random::Random};
use quorate_consensus::config::LeaderKind;
use quorate_consensus::protocols::views::message::{FromView, Proposal, ViewMessage};
use quorate_consensus::seam::Drop;
use quorate_consensus::voting::safety::timeout_subject;
use quorate_consensus::{Action, Config};
use quorate_types::{
    Attachment, Block, Bundle, Certificate, Digest, Domain, Height, Quorum, ReplicaId, Subject, View, Vote,
};
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(2);

crate::for_every_protocol! {
    /// A leader proposes nothing and claims, in each timeout, a certificate that no replica signed.
    forged_certificates_in_timeouts_are_refused,
    /// A replica's votes have invalid signatures and arrive first, and the certificate forms without them.
    forged_votes_are_left_out_of_certificates,
    /// A proposal a thousand views ahead is followed only if it proves that its view has begun.
    a_proposal_far_ahead_needs_proof_of_its_view,
    /// A certificate names a block that no replica has.
    a_certified_block_that_no_replica_has_is_requested_rarely,
    /// A certificate has too few or unknown signers, or is for another cluster's genesis.
    certificates_with_wrong_signers_are_refused,
    /// A replica proposes in views that it does not lead.
    a_replica_that_does_not_lead_gets_no_votes,
    /// Votes and proposals in another replica's name are dropped.
    messages_in_another_replicas_name_are_dropped,
    /// A leader's block exceeds the configured limits, or comes with bundles that it does not name.
    oversized_proposals_are_dropped,
}

/// Returns the subject of a certificate that ends a view.
fn block_vote<R: Viewed>(view: u64, height: u64, digest: u8) -> Subject {
    Subject { domain: R::ENDS_VIEW, view: View(view), height: Height(height), digest: Digest([digest; 32]) }
}

fn attach<R: Viewed>(high: &Certificate) -> Attachment {
    match R::FACTS.timeouts_carry_certificates {
        true => Attachment::HighCertificate(Box::new(high.clone())),
        false => Attachment::HighView(high.view()),
    }
}

fn dropped<R: Viewed>(world: &World<R>, replica: u16, why: Drop) -> u64 {
    world.replica(replica).dropped().get(&why).copied().unwrap_or(0)
}

fn proposal<R: Viewed>(
    keys: &Keys,
    author: u16,
    view: u64,
    justify: Certificate,
    evidence: Option<Certificate>,
) -> R::Message {
    let block = Arc::new(Block::new(View(view), ReplicaId(author), justify, Vec::new(), 0));
    let endorsement = keys.vote(ReplicaId(author), block.subject(Domain::Proposal), Attachment::None);
    ViewMessage::Proposal(Arc::new(Proposal { block, evidence, endorsement, bundles: Vec::new() })).into()
}

/// Returns a genuine certificate of timeouts by replicas that knew only genesis.
fn timeouts<R: Viewed>(keys: &Keys, view: u64) -> Certificate {
    let attachment = attach::<R>(&Certificate::genesis(&keys.epoch));
    let subject = timeout_subject(View(view));
    let votes: Vec<Vote> = (0..3).map(|voter| keys.vote(ReplicaId(voter), subject, attachment.clone())).collect();
    keys.assemble(subject, &votes).expect("the votes are genuine")
}

mod bodies {
    use super::*;

    pub fn forged_certificates_in_timeouts_are_refused<R: Viewed>() {
        for leader in LeaderKind::ALL {
            let mut world =
                World::<R>::started(4, Config { leader: *leader, view_timeout_ms: 100, ..config::<R>() }, 1);
            let liar = if *leader == LeaderKind::Fixed { 0 } else { 1 };
            if world.replica(0).parts().config.stalls_with_silent(world.keys.quorum, &[ReplicaId(liar)]).is_some() {
                continue;
            }
            world.corrupt(liar, Box::new(|_, action, out| lie_in_timeouts::<R>(action, out)));
            for _ in 0..5 {
                let command = world.submit(1);
                assert!(world.run_until_done(SOON, &command), "the command is not ordered with {leader} leaders");
            }
            for replica in world.honest() {
                let high = world.replica(replica).protocol().high();
                assert!(
                    high.view() == View(0) || world.keys.is_certificate_genuine(high),
                    "a forged certificate is accepted"
                );
                assert!(dropped(&world, replica, Drop::NotGenuine) > 0, "R{replica} detects the forged certificate");
            }
        }
    }

    fn lie_in_timeouts<R: Viewed>(action: Act<R::Message>, out: &mut Vec<Act<R::Message>>) {
        let Action::Send { to, message: Letter::Protocol(message), sign, after } = action else {
            return out.push(action);
        };
        let message = match message.into_view() {
            Ok(ViewMessage::Timeout(timeout)) => {
                let mut timeout = Arc::unwrap_or_clone(timeout);
                let view = timeout.vote.subject.view.0;
                timeout.high = forged_certificate(block_vote::<R>(view - 1, view, 9), 0..3);
                timeout.evidence = None;
                timeout.vote.attachment = attach::<R>(&timeout.high);
                let message = Letter::Protocol(ViewMessage::Timeout(Arc::new(timeout)).into());
                return out.push(Action::Send { to, message, after: None, sign });
            }
            Ok(ViewMessage::Proposal(_)) => return,
            Ok(message) => message.into(),
            Err(message) => message,
        };
        out.push(Action::Send { to, message: Letter::Protocol(message), after, sign });
    }

    pub fn forged_votes_are_left_out_of_certificates<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        world.network.set_delay(ReplicaId(1), ReplicaId(0), Duration::from_micros(100));
        let mut random = Random::new(7);
        world.corrupt(1, Box::new(move |_, action, out| spoil_vote::<R>(&mut random, action, out)));
        for _ in 0..5 {
            let command = world.submit(1);
            assert!(world.run_until_done(Duration::from_millis(20), &command), "an invalid vote delays the others");
        }
        assert!(dropped(&world, 0, Drop::NotGenuine) > 0, "R0 finds the invalid votes");
        assert_eq!(world.view_timeouts(), 0);
    }

    fn spoil_vote<R: Viewed>(random: &mut Random, action: Act<R::Message>, out: &mut Vec<Act<R::Message>>) {
        match action {
            Action::Send { to, message: Letter::Protocol(message), .. }
                if matches!(message.as_view(), Some(ViewMessage::Vote(_))) =>
            {
                let Ok(ViewMessage::Vote(mut vote)) = message.into_view() else { return };
                vote.signature = random.next().to_le_bytes().repeat(4).into();
                let message = Letter::Protocol(ViewMessage::Vote(vote).into());
                out.push(Action::Send { to, message, after: None, sign: false });
            }
            action => out.push(action),
        }
    }

    pub fn a_proposal_far_ahead_needs_proof_of_its_view<R: Viewed>() {
        let mut world = World::<R>::started(4, Config { leader: LeaderKind::RoundRobin, ..config::<R>() }, 1);
        let genesis = Certificate::genesis(&world.keys.epoch);
        let forged = Certificate { proof: vec![1; 96].into(), ..timeouts::<R>(&world.keys, 1000) };
        for evidence in [None, Some(timeouts::<R>(&world.keys, 900)), Some(forged)] {
            world.inject(1, 2, proposal::<R>(&world.keys, 1, 1001, genesis.clone(), evidence));
        }
        world.run_for(Duration::from_millis(10));
        assert_eq!(world.replica(2).view(), View(1), "nothing shows that view 1001 has begun");
        assert_eq!(dropped(&world, 2, Drop::ViewNotJustified), 2);
        assert_eq!(dropped(&world, 2, Drop::NotGenuine), 1);
        let shown = timeouts::<R>(&world.keys, 1000);
        // R1 does not know the statements made in its name, and may contradict them.
        world.oracle.distrust(ReplicaId(1));
        for replica in [0, 2, 3] {
            world.inject(1, replica, proposal::<R>(&world.keys, 1, 1001, genesis.clone(), Some(shown.clone())));
        }
        world.run_for(Duration::from_millis(10));
        assert!(world.replica(2).view() >= View(1001), "the certificate of view 1000 begins view 1001");
        let command = world.submit(1);
        assert!(world.run_until_done(SOON, &command), "commands are ordered in view 1001");
    }

    pub fn a_certified_block_that_no_replica_has_is_requested_rarely<R: Viewed>() {
        let mut world = World::<R>::started(4, Config { view_timeout_ms: 100, ..config::<R>() }, 1);
        let high = Box::new(world.keys.certificate(block_vote::<R>(9, 5, 9), 0..3));
        world.inject(1, 3, ViewMessage::Advance { high, evidence: None }.into());
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.replica(3).view(), View(10), "the certificate is genuine");
        assert!((5..50).contains(&world.messages), "R3 requests the block at intervals: {} messages", world.messages);
    }

    pub fn certificates_with_wrong_signers_are_refused<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        let subject = block_vote::<R>(9, 5, 9);
        let few = world.keys.certificate(subject, 0..2);
        let larger = Keys { quorum: Quorum::of(10).expect("the committee size is valid"), ..world.keys };
        let strangers = larger.certificate(subject, [0, 1, 7]);
        let foreign = Certificate { subject: block_vote::<R>(0, 0, 9), ..Certificate::genesis(&world.keys.epoch) };
        for high in [few, strangers, foreign, forged_certificate(subject, 0..4)] {
            world.inject(1, 3, ViewMessage::Advance { high: Box::new(high), evidence: None }.into());
        }
        world.run_for(Duration::from_millis(10));
        assert_eq!(world.replica(3).view(), View(1));
        assert_eq!(dropped(&world, 3, Drop::NotGenuine), 4);
    }

    pub fn a_replica_that_does_not_lead_gets_no_votes<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        let genesis = Certificate::genesis(&world.keys.epoch);
        for replica in [0, 1, 3] {
            world.inject(2, replica, proposal::<R>(&world.keys, 2, 1, genesis.clone(), None));
        }
        world.run_for(Duration::from_millis(10));
        assert!([0, 1, 3].iter().all(|replica| dropped(&world, *replica, Drop::NotTheLeader) == 1));
        assert_eq!(world.replica(1).parts().safety.voted(), View(0), "no replica votes for the impostor's block");
        let command = world.submit(1);
        assert!(
            world.run_until_done(Duration::from_millis(20), &command),
            "replicas vote for the leader's own proposal"
        );
    }

    pub fn messages_in_another_replicas_name_are_dropped<R: Viewed>() {
        let mut world = World::<R>::started(4, config::<R>(), 1);
        let genesis = Certificate::genesis(&world.keys.epoch);
        world.inject(2, 1, proposal::<R>(&world.keys, 0, 1, genesis, None));
        let vote = world.keys.vote(ReplicaId(3), block_vote::<R>(1, 1, 9), Attachment::None);
        world.inject(2, 1, ViewMessage::Vote(vote).into());
        world.run_for(Duration::from_millis(10));
        assert_eq!(dropped(&world, 1, Drop::NotTheSender), 2);
    }

    pub fn oversized_proposals_are_dropped<R: Viewed>() {
        let mut world = World::<R>::started(4, Config { batch: 4.into(), ..config::<R>() }, 1);
        let genesis = Certificate::genesis(&world.keys.epoch);
        let bundles: Vec<Bundle> = (0..3).map(|_| world.bundle(3)).collect();
        let payload: Vec<Digest> = bundles.iter().map(Bundle::digest).collect();
        let propose = |keys: &Keys, payload: &[Digest], bundles: &[Bundle]| -> R::Message {
            let block = Arc::new(Block::new(View(1), ReplicaId(0), genesis.clone(), payload.to_vec(), 0));
            let endorsement = keys.vote(ReplicaId(0), block.subject(Domain::Proposal), Attachment::None);
            ViewMessage::Proposal(Arc::new(Proposal { block, evidence: None, endorsement, bundles: bundles.to_vec() }))
                .into()
        };
        world.inject(0, 1, propose(&world.keys, &payload[..1], &bundles[..2]));
        world.inject(0, 1, propose(&world.keys, &payload[..2], &[bundles[1].clone(), bundles[0].clone()]));
        world.run_for(Duration::from_millis(5));
        assert_eq!(
            dropped(&world, 1, Drop::Malformed),
            2,
            "a proposal carries exactly the bundles that it names, in order"
        );
        assert!(bundles.iter().all(|bundle| !world.replica(1).is_known(&bundle.digest())));
        world.inject(0, 1, propose(&world.keys, &payload, &bundles));
        world.run_for(Duration::from_millis(5));
        assert_eq!(dropped(&world, 1, Drop::TooLarge), 1, "a block of nine commands exceeds the limit of four");
        assert_eq!(world.replica(1).parts().safety.voted(), View(0));
    }
}
