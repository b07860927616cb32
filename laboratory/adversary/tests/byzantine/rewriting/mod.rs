//! Rewriting of a replica's messages by each behaviour, in every message set.

mod assembled;
mod collected;
mod samples;
mod states;

use quorate_adversary::byzantine::behaviours::{
    Busy, CorruptShare, Delay, DoubleVote, Equivocate, ForgeCertificate, Fork, InflateView, Replay, Selective, Silent,
    Slow, StaleCertificate, WithholdCertificates, WithholdVotes,
};
use quorate_adversary::byzantine::{Fault, Misbehaviour, Times};
use quorate_consensus::protocols::basic::message::BasicMessage;
use quorate_consensus::protocols::pbft::message::PbftMessage;
use quorate_consensus::protocols::views::message::ViewMessage;
use quorate_consensus::seam::RecordId;
use quorate_consensus::seam::{Purpose, Role};
use quorate_consensus::{Action, Envelope, Timer, To};
use quorate_types::{Block, Quorum, ReplicaId, Signers, Time, View};
use samples::{ME, Mouth, Sample, assert_fits, genesis, main_certificate, signed};
use std::sync::Arc;
use std::time::Duration;

macro_rules! in_every_message_set {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $(mod $name {
            use super::*;
            $(#[$doc])* #[test] fn views() { bodies::$name::<ViewMessage>(); }
            $(#[$doc])* #[test] fn basic() { bodies::$name::<BasicMessage>(); }
            $(#[$doc])* #[test] fn pbft() { bodies::$name::<PbftMessage>(); }
        })+
    };
}

in_every_message_set! {
    silent, slow, fork, equivocate, equivocate_with_few_bundles, double_vote, withhold_votes, withhold_certificates,
    stale_certificate, forge_certificate, corrupt_share, inflate_view, replay, delay, selective, honest_until_then,
    honest_between,
}

/// Returns a behaviour that has observed a chain.
fn taught<M: Sample>(fault: impl Into<Fault>, chain: &[Arc<Block>]) -> Mouth<M> {
    let mut mouth = Mouth::new(fault);
    chain.iter().for_each(|block| mouth.hear(M::proposal(block.clone())));
    chain.iter().for_each(|block| mouth.hear(M::timeout(block.view.0 + 1, &M::certificate(block))));
    mouth
}

fn everything<M: Sample>() -> [M; 4] {
    let chain = M::chain(4);
    let known = M::certificate(&chain[3]);
    [M::proposal(chain[3].clone()), M::vote(&chain[3]), M::timeout(5, &known), M::shown(known)]
}

mod bodies {
    use super::*;

    pub fn silent<M: Sample>() {
        let mut mouth = Mouth::<M>::new(Silent);
        for message in everything() {
            assert_eq!(mouth.say(&message), [], "{message:?} is not sent");
        }
        let others = vec![
            Action::AcceptRepair { after: RecordId(1) },
            Action::Arm { timer: Timer::Fetch, after: Duration::ZERO },
        ];
        assert_eq!(mouth.rewrite(0, others).len(), 2, "other actions are executed");
        assert!(!mouth.answers_clients(0));
    }

    pub fn slow<M: Sample>() {
        let mut mouth = Mouth::<M>::new(Slow { percent: 50 });
        let [proposal, rest @ ..] = everything();
        assert_eq!(mouth.say(&proposal), []);
        assert_eq!(mouth.next(), Some(Time::from_millis(500)), "half a view timeout");
        assert_eq!(mouth.ring(499), []);
        assert_eq!(mouth.ring(500), [(To::Others, proposal, true)]);
        assert_eq!(mouth.next(), None);
        for message in rest {
            assert_eq!(mouth.say(&message), [(To::Others, message, true)]);
        }
    }

    pub fn fork<M: Sample>() {
        let chain = M::chain(4);
        let mut mouth = taught::<M>(Fork, &chain[..3]);
        let heard = mouth.say(&M::proposal(chain[3].clone()));
        let [(To::Others, forked, true)] = &heard[..] else { panic!("{heard:?}") };
        assert_fits(forked);
        let block = forked.proposed().expect("it proposes").0;
        assert_eq!((block.view, block.author, &block.payload), (chain[3].view, ME, &chain[3].payload));
        if chain[3].is_unlinked() {
            assert_eq!(block.height, chain[2].height, "the previous slot");
        } else {
            assert_eq!(block.justify, chain[2].justify, "the grandparent");
            let evidence = forked.certificates().into_iter().find(|(role, _)| *role == Role::Evidence);
            assert_eq!(
                evidence.map(|(_, shown)| shown),
                Some(&chain[3].justify),
                "the skipped certificate proves that the view began"
            );
        }
        let votes = mouth.say_to(To::One(ReplicaId(2)), &M::vote(&chain[3]));
        assert_eq!(votes.len(), 1);
        assert_eq!(signed(&votes[0].1).subject.digest, block.digest(), "it votes for its own proposal");
    }

    pub fn equivocate<M: Sample>() {
        let chain = M::chain(2);
        let mut mouth = taught::<M>(Equivocate, &chain[..1]);
        let honest = M::proposal(chain[1].clone());
        let heard = mouth.say(&honest);
        let to: Vec<To> = heard.iter().map(|(to, ..)| *to).collect();
        assert_eq!(
            to,
            [1, 2, 2, 3].map(|replica| To::One(ReplicaId(replica))),
            "each block reaches two of three replicas, so one receives both"
        );
        assert!(heard.iter().all(|(.., sign)| *sign), "each copy is signed");
        assert_eq!((&heard[0].1, &heard[1].1), (&honest, &honest));
        let rival = &heard[3].1;
        assert_eq!(&heard[2].1, rival);
        assert_fits(rival);
        let (one, other) = (&chain[1], rival.proposed().expect("it proposes").0);
        assert_ne!(one.digest(), other.digest());
        assert_eq!((one.view, one.height, one.parent()), (other.view, other.height, other.parent()));
        assert_eq!(mouth.say(&honest), heard, "a repeated request gets the same answer");
        let votes = mouth.say_to(To::One(ReplicaId(2)), &M::vote(&chain[1]));
        let digests: Vec<_> = votes.iter().map(|(_, vote, _)| signed(vote).subject.digest).collect();
        assert_eq!(digests, [one.digest(), other.digest()], "it votes for both");
        let asks = Envelope::FetchBlocks { digest: other.digest(), above: one.height, most: 1 };
        let asks = Action::Send { to: To::One(ReplicaId(3)), message: asks, after: None, sign: false };
        match &mouth.rewrite(0, vec![asks])[..] {
            [Action::Send { to: To::One(ME), message: Envelope::Blocks(blocks), .. }] => {
                assert_eq!(&blocks[..], std::slice::from_ref(other))
            }
            other => panic!("the replica gets the invented block, not {other:?}"),
        }
    }

    pub fn equivocate_with_few_bundles<M: Sample>() {
        let mut mouth = Mouth::<M>::new(Equivocate);
        let bundles = mouth.submit(&[b"one", b"other"]);
        let proposal = |payload: &[_]| M::proposal(M::block(1, &genesis(), payload.to_vec()));
        let heard = mouth.say(&proposal(&bundles[..1]));
        let payload = |at: usize| heard[at].1.proposed().expect("it proposes").0.payload.clone();
        assert_eq!((payload(0), payload(3)), (bundles[..1].to_vec(), bundles[1..].to_vec()), "another known bundle");
        let mut mouth = Mouth::<M>::of(Misbehaviour::always(Equivocate), Quorum::of(1).expect("a sound size"));
        assert_eq!(mouth.say(&M::proposal(M::chain(1)[0].clone())), [], "there are no other replicas");
    }

    pub fn double_vote<M: Sample>() {
        let chain = M::chain(2);
        let rival = M::block(2, &chain[1].justify, Vec::new());
        let mut mouth = taught::<M>(DoubleVote, &chain);
        let one = To::One(ReplicaId(2));
        let vote = M::vote(&chain[1]);
        let heard = mouth.say_to(one, &vote);
        assert_eq!((heard.len(), &heard[0]), (2, &(one, vote.clone(), true)));
        let (first, second) = (signed(&vote).subject, signed(&heard[1].1).subject);
        assert_eq!((second.domain, second.view, second.height), (first.domain, first.view, first.height));
        assert!(
            second.digest != first.digest && chain.iter().all(|block| block.digest() != second.digest),
            "it is invented"
        );
        mouth.hear(M::proposal(rival.clone()));
        let heard = mouth.say_to(one, &vote);
        assert_eq!(signed(&heard[1].1).subject, rival.subject(first.domain), "now another block is known");
        let proposal = M::proposal(chain[1].clone());
        assert_eq!(mouth.say(&proposal), [(To::Others, proposal, true)]);
    }

    pub fn withhold_votes<M: Sample>() {
        withhold::<M>(WithholdVotes.into(), Purpose::Vote);
    }

    pub fn withhold_certificates<M: Sample>() {
        withhold::<M>(WithholdCertificates.into(), Purpose::Certificate);
    }

    fn withhold<M: Sample>(fault: Fault, what: Purpose) {
        let mut mouth = Mouth::<M>::new(fault);
        for message in everything::<M>() {
            let heard = mouth.say(&message);
            let prepared = message.certificates().iter().any(|(role, _)| *role == Role::Prepared);
            if message.purpose() == what {
                assert_eq!(heard, []);
            } else if fault == WithholdCertificates.into() && prepared {
                assert_fits(&heard[0].1);
                assert!(
                    heard[0].1.certificates().iter().all(|(role, _)| *role == Role::Checkpoint),
                    "nothing is prepared"
                );
            } else {
                assert_eq!(heard, [(To::Others, message, true)]);
            }
        }
    }

    pub fn stale_certificate<M: Sample>() {
        let chain = M::chain(12);
        let known: Vec<_> = chain.iter().map(|block| M::certificate(block)).collect();
        let mut mouth = taught::<M>(StaleCertificate, &chain);
        let timeout = M::timeout(13, &known[11]);
        let mut seen = Vec::new();
        for _ in 0..7 {
            let heard = mouth.say(&timeout);
            assert_fits(&heard[0].1);
            let shown = main_certificate(&heard[0].1);
            assert!(known.contains(&shown), "the certificate is genuine");
            seen.push(12 - shown.view().0);
        }
        seen.sort_unstable();
        if chain[0].is_unlinked() {
            assert_eq!(seen, [0; 7], "there is one certificate of that slot");
            let again = Block::of_slot(View(20), ME, chain[11].height, vec![chain[0].digest()], 0);
            let heard = mouth.say(&M::timeout(21, &M::certificate(&again)));
            assert_eq!(main_certificate(&heard[0].1), known[11], "the slot's certificate of an earlier view");
        } else {
            assert_eq!(seen, [2, 3, 4, 5, 6, 7, 8], "the ages of the certificates");
            let on = known[10].clone();
            let heard = mouth.say(&M::proposal(M::block(12, &on, Vec::new())));
            let block = heard[0].1.proposed().expect("it proposes").0;
            assert!(block.justify.view() < on.view() && known.contains(&block.justify));
            assert_fits(&heard[0].1);
        }
    }

    pub fn forge_certificate<M: Sample>() {
        let chain = M::chain(4);
        let mut mouth = taught::<M>(ForgeCertificate, &chain);
        for honest in everything::<M>().iter().filter(|message| !message.certificates().is_empty()) {
            let heard = mouth.say(honest);
            let [(To::Others, lie, true)] = &heard[..] else { panic!("{heard:?}") };
            let (true_one, forged) = (main_certificate(honest), main_certificate(lie));
            assert!(chain.iter().all(|block| block.digest() != forged.subject.digest), "the block does not exist");
            assert_eq!((forged.signers, forged.subject.domain), (true_one.signers, true_one.subject.domain));
            assert_eq!(forged.proof.len(), true_one.proof.len(), "it has the length of a genuine proof");
            assert_ne!(forged.proof, true_one.proof);
            if honest.purpose() != Purpose::Certificate {
                assert_fits(lie);
            }
        }
        let vote = M::vote(&chain[0]);
        assert_eq!(mouth.say(&vote), [(To::Others, vote, true)]);
    }

    pub fn corrupt_share<M: Sample>() {
        let mut mouth = Mouth::<M>::new(CorruptShare);
        for message in everything::<M>() {
            let heard = mouth.say(&message);
            let [(To::Others, said, sign)] = &heard[..] else { panic!("{heard:?}") };
            if !matches!(message.purpose(), Purpose::Vote | Purpose::Timeout) {
                assert_eq!((said, *sign), (&message, true));
                continue;
            }
            assert!(!*sign, "the host must not replace the signature");
            let (vote, honest) = (signed(said), signed(&message));
            assert_eq!((vote.subject, vote.voter, vote.signature.len()), (honest.subject, ME, 64));
        }
    }

    pub fn inflate_view<M: Sample>() {
        let mut mouth = Mouth::<M>::new(InflateView { by: 7 });
        for message in everything::<M>() {
            let heard = mouth.say(&message);
            let [(To::Others, said, true)] = &heard[..] else { panic!("{heard:?}") };
            let Some(view) = message.view().filter(|_| message.clone().vote_to_sign().is_some()) else { continue };
            assert_eq!(said.view(), Some(View(view.0 + 7)));
            assert_fits(said);
        }
    }

    pub fn replay<M: Sample>() {
        let chain = M::chain(3);
        let mut mouth = Mouth::<M>::new(Replay);
        let (first, second) = (M::vote(&chain[0]), M::vote(&chain[1]));
        assert_eq!(mouth.say(&first), [(To::Others, first.clone(), true)], "there is no old message yet");
        let again = (To::Others, first.clone(), true);
        assert_eq!(mouth.say(&second), [(To::Others, second, true), again], "its own messages are signed again");
        let peers = M::proposal(chain[2].clone());
        mouth.hear(peers.clone());
        let said: Vec<_> = (0..3).flat_map(|_| mouth.say(&first)).collect();
        assert!(said.contains(&(To::Others, peers, false)), "messages of others are repeated unchanged: {said:?}");
    }

    pub fn delay<M: Sample>() {
        let mut mouth = Mouth::<M>::new(Delay { ms: 20 });
        for message in everything::<M>() {
            assert_eq!(mouth.say(&message), []);
        }
        assert_eq!((mouth.next(), mouth.ring(19)), (Some(Time::from_millis(20)), Vec::new()));
        let heard = mouth.ring(20);
        let all: Vec<_> = everything::<M>().into_iter().map(|message| (To::Others, message, true)).collect();
        assert_eq!(heard, all, "in their order");
    }

    pub fn selective<M: Sample>() {
        let [message, ..] = everything::<M>();
        let heard = |deaf: Signers, to| {
            let said = Mouth::<M>::new(Selective { deaf }).say_to(to, &message);
            said.into_iter().map(|(to, ..)| to).collect::<Vec<_>>()
        };
        let one = |replica| To::One(ReplicaId(replica));
        assert_eq!(heard(Signers::empty(), To::All), [one(2), one(3)], "the next f replicas");
        let deaf: Signers = [2, 3].map(ReplicaId).into_iter().collect();
        assert_eq!(heard(deaf, To::Others), [one(1)]);
        assert_eq!(heard(deaf, one(3)), []);
        assert_eq!(heard(deaf, one(1)), [one(1)]);
    }

    pub fn honest_until_then<M: Sample>() {
        let times = Times::from(Duration::from_millis(100));
        let mut mouth = Mouth::<M>::of(Misbehaviour { fault: Silent.into(), times }, samples::quorum());
        let [message, ..] = everything::<M>();
        let send = |message: &M| {
            vec![Action::Send { to: To::All, message: Envelope::Protocol(message.clone()), after: None, sign: true }]
        };
        assert_eq!(samples::sends(mouth.rewrite(99, send(&message))), [(To::All, message.clone(), true)]);
        assert!(mouth.answers_clients(99));
        assert_eq!(samples::sends(mouth.rewrite(100, send(&message))), [(To::One(ME), message, true)]);
        assert!(!mouth.answers_clients(100));
    }

    pub fn honest_between<M: Sample>() {
        let [start, lasts, every] = [100, 10, 50].map(Duration::from_millis);
        let times = Times { start, lasts: Some(lasts), every: Some(every) };
        let [message, ..] = everything::<M>();
        for fault in [Fault::from(Silent), Slow { percent: 80 }.into()] {
            let mut mouth = Mouth::<M>::of(Misbehaviour { fault, times }, samples::quorum());
            for (at_ms, is_active) in [(99, false), (100, true), (109, true), (110, false), (150, true), (160, false)] {
                let message = Envelope::Protocol(message.clone());
                let send = vec![Action::Send { to: To::Others, message, after: None, sign: true }];
                let heard = samples::sends(mouth.rewrite(at_ms, send)).len();
                assert_eq!(heard, usize::from(!is_active), "a proposal under {fault} at {at_ms} ms");
                assert_eq!(mouth.answers_clients(at_ms), fault != Silent.into() || !is_active);
                let busy = Mouth::<M>::of(Misbehaviour { fault: Busy.into(), times }, samples::quorum());
                assert_eq!(busy.refuses_clients(at_ms), is_active);
            }
        }
    }
}
