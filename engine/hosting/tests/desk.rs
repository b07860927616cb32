//! The clients' desk over test links. The simulator's tests check that all hosts drive it in the same way.

use quorate_applications::Reply;
use quorate_consensus::data::pool::Source;
use quorate_crypto::{BundleVerifier, ClientAuthentication};
use quorate_hosting::desk::{
    AdmissionPolicy, AnswerQuotas, BundleLimits, ClientLinks, ClientTerms, Desk, DeskParts, QuestionPolicy,
};
use quorate_hosting::{Answers, EventLoop, ReplyCache};
use quorate_network::gateway::admission::Admission;
use quorate_types::{ClientId, ClusterId, Digest, Height, ReplicaReply, Results};
use std::convert::Infallible;
use std::time::Duration;

/// Size reported by these links for each reply, in bytes.
const REPLY_BYTES: usize = 30_000;

/// Message to a client: link, replies and number of copies.
type Sent = (u8, Vec<ReplicaReply>, usize);

#[derive(Default)]
struct Links {
    authenticates: bool,
    sent: Vec<Sent>,
}

impl ClientLinks for Links {
    type Link = u8;
    type Reply = ReplicaReply;

    fn source(&self, link: u8) -> Source {
        Source::Client { source_group: 0, link: link.into() }
    }

    fn is_congested(&self, _: u8) -> bool {
        false
    }

    fn release(&mut self, _: u8, _: usize) {}

    fn vouch(&mut self, _: u8, _: bool) {}

    fn close(&mut self, _: u8, _: String) {}

    fn encode(&mut self, reply: ReplicaReply) -> ReplicaReply {
        reply
    }

    fn bytes(&self, _: &ReplicaReply) -> usize {
        REPLY_BYTES
    }

    fn tell(&mut self, link: u8, reply: ReplicaReply) -> u64 {
        self.repeat(link, reply)
    }

    fn repeat(&mut self, link: u8, reply: ReplicaReply) -> u64 {
        self.sent.push((link, vec![reply], 1));
        0
    }

    fn authenticates(&self) -> bool {
        self.authenticates
    }

    fn deliver(&mut self, link: u8, reply: ReplicaReply, times: usize) {
        self.sent.push((link, vec![reply], times));
    }

    fn deliver_together(&mut self, link: u8, replies: Vec<ReplicaReply>, times: usize) {
        self.sent.push((link, replies, times));
    }
}

/// Returns a desk for clients 0 to 3 on links with the same numbers.
fn desk() -> Desk<u8, (), ReplicaReply, BundleVerifier> {
    let mut desk = Desk::new(DeskParts {
        answers: Answers::Outcomes,
        limits: BundleLimits { commands: 10, bytes: 1000 },
        terms: ClientTerms::default(),
        verifier: BundleVerifier::new(ClientAuthentication::None, ClusterId::from_name("desk"), 16),
        cache: ReplyCache::new(1 << 20, 1),
        admission: Admission::new(Duration::ZERO, 4),
        policy: AdmissionPolicy::default(),
        questions: QuestionPolicy::open(AnswerQuotas::default()),
    });
    (0..4).for_each(|link| desk.connected(ClientId(link.into()), link));
    desk
}

/// Returns the reply to bundle `number` of a client.
fn reply(client: u128, number: u8) -> Reply {
    let (origin, bundle) = (ClientId(client), Digest([number; 32]));
    Reply { origin, bundle, height: Height(1), results: Results::bare(), is_new: true }
}

fn numbers(sent: &[Sent]) -> Vec<(u8, Vec<u8>, usize)> {
    let number = |reply: &ReplicaReply| match reply {
        ReplicaReply::Executed { bundle, .. } => bundle.0[0],
        other => panic!("an unexpected reply: {other:?}"),
    };
    sent.iter().map(|(link, replies, times)| (*link, replies.iter().map(number).collect(), *times)).collect()
}

#[test]
fn authenticated_replies_of_a_block_leave_together_by_link() {
    let (mut desk, mut links) = (desk(), Links { authenticates: true, ..Links::default() });
    desk.set_copies(1);
    let mut replies = vec![reply(2, 1), reply(0, 2), reply(2, 3), reply(2, 4), reply(2, 5), reply(9, 6)];
    desk.deliver(&mut links, &mut replies);
    // Three replies fill a message; nobody has connected as client 9.
    assert_eq!(numbers(&links.sent), [(2, vec![1, 3, 4], 2), (2, vec![5], 2), (0, vec![2], 2)]);
    links.sent.clear();
    desk.deliver(&mut links, &mut vec![reply(2, 7)]);
    assert_eq!(numbers(&links.sent), [(2, vec![7], 2)], "nothing is left from the last block");
}

#[test]
fn replies_without_authentication_leave_one_by_one() {
    let (mut desk, mut links) = (desk(), Links::default());
    desk.deliver(&mut links, &mut vec![reply(2, 1), reply(0, 2), reply(2, 3)]);
    assert_eq!(numbers(&links.sent), [(2, vec![1], 1), (0, vec![2], 1), (2, vec![3], 1)]);
}

#[test]
fn a_muted_desk_says_nothing_about_bundles_and_answers_questions() {
    let (mut desk, mut links) = (desk(), Links::default());
    desk.mute(true);
    desk.deliver(&mut links, &mut vec![reply(2, 1)]);
    desk.refuse_for_good(&mut links, 2, Digest::ZERO, "no".to_owned());
    assert_eq!(links.sent, []);
    let height = ReplicaReply::Height { id: 1, height: Height(1) };
    desk.tell(&mut links, 2, height.clone());
    assert_eq!(links.sent, [(2, vec![height], 1)]);
}

#[test]
fn only_the_latest_link_of_a_client_gets_its_replies() {
    let (mut desk, mut links) = (desk(), Links::default());
    desk.connected(ClientId(2), 7);
    desk.disconnected(ClientId(2), 2);
    desk.deliver(&mut links, &mut vec![reply(2, 1)]);
    assert_eq!(numbers(&links.sent), [(7, vec![1], 1)]);
    desk.disconnected(ClientId(2), 7);
    desk.deliver(&mut links, &mut vec![reply(2, 2)]);
    assert_eq!(links.sent.len(), 1);
}

/// Records the steps of an iteration.
#[derive(Default)]
struct Steps(Vec<&'static str>);

impl Steps {
    fn note(&mut self, step: &'static str) -> Result<(), Infallible> {
        self.0.push(step);
        Ok(())
    }
}

impl EventLoop for Steps {
    type Error = Infallible;

    fn hear_peers(&mut self) -> Result<(), Infallible> {
        self.note("peers")
    }

    fn take_answers(&mut self) -> Result<(), Infallible> {
        self.note("answers")
    }

    fn feed_local(&mut self) -> Result<(), Infallible> {
        self.note("local")
    }

    fn ring_alarms(&mut self) -> Result<(), Infallible> {
        self.note("alarms")
    }

    fn serve_clients(&mut self) -> Result<(), Infallible> {
        self.note("clients")
    }

    fn settle_journal(&mut self) -> Result<(), Infallible> {
        self.note("journal")
    }
}

#[test]
fn peers_come_before_timeouts_and_these_before_clients() {
    let mut steps = Steps::default();
    let Ok(()) = steps.iterate();
    assert_eq!(steps.0, ["peers", "answers", "local", "alarms", "clients", "local", "journal", "local"]);
}
