//! Replies that complete a bundle, and the times at which it is resent.

use proptest::prelude::*;
use quorate_client::quorum_reply::MAX_REPLIES_PER_REPLICA;
use quorate_client::session::{Accepted, Session, SessionOptions, SubmitError};
use quorate_client::{Destination, Outgoing};
use quorate_client::{MAX_BACKOFF_DOUBLINGS, REFUSED_RETRY_DIVISOR, ReplyQuorum};
use quorate_crypto::ClientIdentity;
use quorate_types::{
    Bundle, BundleBuilder, ClientId, ClientRequest, ClusterId, Dissemination, Height, Outcome, Quorum, ReplicaId,
    ReplicaReply, ReplyMode, Results, Time, decode_message,
};
use std::time::Duration;

const RETRY: Duration = Duration::from_millis(100);
const START: Time = Time(5);

fn options(replicas: usize) -> SessionOptions {
    SessionOptions { retry: RETRY, ..SessionOptions::new(Quorum::of(replicas).unwrap()) }
}

pub fn bundle(sequence: u64, commands: usize) -> Bundle {
    let mut builder = BundleBuilder::new(ClientId(1 << 16), Height(0).latest_expiry());
    (0..commands).for_each(|at| builder.push(ClientId((1 << 16) + at as u128), sequence, b"command"));
    builder.finish()
}

fn results(outcomes: &[Outcome<'_>]) -> Results {
    Results::collect(outcomes.iter().copied())
}

fn executed(bundle: &Bundle, height: u64, results: Results) -> ReplicaReply {
    ReplicaReply::Executed { bundle: bundle.digest(), height: Height(height), results }
}

fn refused(bundle: &Bundle) -> ReplicaReply {
    ReplicaReply::Refused { bundle: bundle.digest(), why: "the pool is full".to_owned(), again: true }
}

/// Session with the frames that it sent last.
struct Bench {
    session: Session<u32>,
    out: Vec<Outgoing>,
}

impl Bench {
    fn new(options: SessionOptions) -> Self {
        Bench { session: Session::new(options), out: Vec::new() }
    }

    fn submit(&mut self, now: Time, bundle: &Bundle) -> Destination {
        self.session.submit(now, bundle, 7, &mut self.out).unwrap();
        let sent = self.out.pop().unwrap();
        assert!(self.out.is_empty());
        assert_eq!(decode_message::<ClientRequest>(sent.frame).unwrap(), ClientRequest::Submit(bundle.clone()));
        sent.to
    }

    fn poll(&mut self, now: Time) -> Vec<Outgoing> {
        self.session.poll(now, &mut self.out);
        std::mem::take(&mut self.out)
    }

    fn reply(&mut self, from: u16, reply: ReplicaReply) -> Option<Accepted<u32>> {
        self.reply_at(START, from, reply)
    }

    fn reply_at(&mut self, now: Time, from: u16, reply: ReplicaReply) -> Option<Accepted<u32>> {
        self.session.receive(now, ReplicaId(from), reply)
    }
}

#[test]
fn the_second_equal_reply_of_four_completes_a_bundle() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 2);
    assert_eq!(bench.submit(START, &bundle), Destination::All);
    let truth = results(&[Outcome::Executed(b"one"), Outcome::Duplicate]);
    assert_eq!(bench.reply(2, executed(&bundle, 9, truth.clone())), None);
    assert_eq!(bench.reply(2, executed(&bundle, 9, truth.clone())), None, "a replica counts once");
    let accepted = bench.reply(0, executed(&bundle, 9, truth.clone())).unwrap();
    let expected = Accepted {
        bundle: bundle.digest(),
        attached: 7,
        commands: 2,
        height: Height(9),
        results: truth.clone(),
        retries: 0,
    };
    assert_eq!(accepted, expected);
    assert_eq!(bench.session.outstanding(), 0);
    assert_eq!(bench.reply(1, executed(&bundle, 9, truth)), None, "a late reply is dropped");
    assert_eq!(bench.session.counters().late, 1);
}

#[test]
fn replies_that_differ_in_height_or_results_do_not_add_up() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    let (one, two) = (results(&[Outcome::Executed(b"1")]), results(&[Outcome::Executed(b"2")]));
    assert_eq!(bench.reply(0, executed(&bundle, 3, one.clone())), None);
    assert_eq!(bench.reply(1, executed(&bundle, 4, one.clone())), None);
    assert_eq!(bench.reply(2, executed(&bundle, 3, two)), None);
    assert_eq!(bench.session.answered(bundle.digest()).1, 3);
    assert!(bench.reply(3, executed(&bundle, 3, one)).is_some());
}

#[test]
fn a_liar_can_neither_forge_nor_block_a_quorum_nor_fill_memory() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    for height in 0..1000 {
        assert_eq!(bench.reply(3, executed(&bundle, height, Results::all_empty(1))), None);
    }
    assert_eq!(bench.session.answered(bundle.digest()).1, MAX_REPLIES_PER_REPLICA);
    for count in [0, 2, 60_000] {
        assert_eq!(bench.reply(3, executed(&bundle, 1, Results::all_empty(count))), None);
    }
    assert_eq!(bench.reply(200, executed(&bundle, 5000, Results::all_empty(1))), None, "a non-member's reply counted");
    assert_eq!(bench.session.counters().invalid, 4);
    assert_eq!(bench.reply(0, executed(&bundle, 5000, Results::all_empty(1))), None);
    assert_eq!(bench.reply(1, executed(&bundle, 5000, Results::all_empty(1))).unwrap().height, Height(5000));
}

#[test]
fn a_bundle_is_sent_again_unchanged_with_exponential_backoff() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 3);
    bench.session.submit(START, &bundle, 7, &mut bench.out).unwrap();
    let first = bench.out.pop().unwrap();
    let mut now = START;
    for retry in 0..MAX_BACKOFF_DOUBLINGS + 3 {
        let due = now + RETRY * (1 << retry.min(MAX_BACKOFF_DOUBLINGS));
        assert_eq!(bench.session.next_deadline(), Some(due));
        assert_eq!(bench.poll(Time(due.0 - 1)), []);
        assert_eq!(bench.poll(due), [Outgoing { to: Destination::All, frame: first.frame.clone() }]);
        now = due;
    }
    bench.reply(0, executed(&bundle, 1, Results::all_empty(3)));
    let accepted = bench.reply(1, executed(&bundle, 1, Results::all_empty(3))).unwrap();
    assert_eq!(accepted.retries, MAX_BACKOFF_DOUBLINGS + 3);
    assert_eq!(bench.session.next_deadline(), None, "nothing is outstanding");
    assert_eq!(bench.poll(Time(u64::MAX)), []);
}

#[test]
fn a_reused_slot_inherits_neither_deadline_nor_replies() {
    let mut bench = Bench::new(options(4));
    let (old, new) = (bundle(1, 1), bundle(2, 1));
    bench.submit(START, &old);
    assert_eq!(bench.reply(2, executed(&old, 2, Results::all_empty(1))), None);
    bench.reply(0, executed(&old, 1, Results::all_empty(1)));
    assert!(bench.reply(1, executed(&old, 1, Results::all_empty(1))).is_some());
    let later = START + RETRY / 2;
    bench.submit(later, &new);
    assert_eq!(bench.poll(START + RETRY), []);
    assert_eq!(bench.session.next_deadline(), Some(later + RETRY));
    assert_eq!(bench.reply(3, executed(&new, 2, Results::all_empty(1))), None, "the old bundle's reply 2 is forgotten");
}

#[test]
fn f_plus_1_refusals_bring_the_retry_forward_once() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    (0..5).for_each(|_| drop(bench.reply(3, refused(&bundle))));
    assert_eq!(bench.session.next_deadline(), Some(START + RETRY), "one liar does not speed anything up");
    bench.reply(1, refused(&bundle));
    let sooner = START + RETRY / REFUSED_RETRY_DIVISOR;
    assert_eq!(bench.session.next_deadline(), Some(sooner));
    assert_eq!(bench.poll(sooner).len(), 1);
    assert_eq!(bench.poll(START + RETRY), [], "the first deadline is void");
    assert_eq!(bench.session.next_deadline(), Some(sooner + RETRY * 2));
    assert_eq!(bench.session.counters().refusals, 6);
    assert_eq!(bench.session.last_refusal(), Some((ReplicaId(1), "the pool is full")));
    bench.reply(0, executed(&bundle, 1, Results::all_empty(1)));
    assert!(
        bench.reply(1, executed(&bundle, 1, Results::all_empty(1))).is_some(),
        "a replica may execute a bundle that it refused"
    );
}

#[test]
fn repeated_refusals_are_retried_sooner_than_silence() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    let mut now = START;
    for attempt in 0..8 {
        (0..4).for_each(|replica| drop(bench.reply_at(now, replica, refused(&bundle))));
        let next = bench.session.next_deadline().expect("the bundle is sent again");
        let wait = RETRY / REFUSED_RETRY_DIVISOR * (1 << attempt.min(3));
        assert!(wait <= RETRY);
        assert_eq!(next, now + wait, "attempt {attempt}");
        now = next;
        assert_eq!(bench.poll(now).len(), 1);
    }
}

#[test]
fn f_plus_1_permanent_refusals_reject_a_bundle() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    let for_good =
        |bundle: &Bundle| ReplicaReply::Refused { bundle: bundle.digest(), why: String::new(), again: false };
    (0..3).for_each(|_| drop(bench.reply(3, for_good(&bundle))));
    bench.reply(2, refused(&bundle));
    assert!(!bench.session.is_rejected(bundle.digest()), "one refusal is temporary");
    bench.reply(2, for_good(&bundle));
    assert!(bench.session.is_rejected(bundle.digest()));
}

#[test]
fn the_first_attempt_goes_to_the_leader_and_the_second_to_all() {
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Leader, ..options(4) });
    let (one, two) = (bundle(1, 1), bundle(2, 1));
    assert_eq!(bench.submit(START, &one), Destination::One(ReplicaId(0)));
    assert_eq!(bench.poll(START + RETRY)[0].to, Destination::All);
    assert_eq!(
        bench.submit(START + RETRY, &two),
        Destination::One(ReplicaId(1)),
        "the silent replica is still the presumed leader"
    );
    bench.session.on_disconnected(ReplicaId(1));
    assert_eq!(bench.submit(START + RETRY, &bundle(3, 1)), Destination::One(ReplicaId(2)));
    bench.session.on_disconnected(ReplicaId(0));
    assert_eq!(bench.submit(START + RETRY, &bundle(4, 1)), Destination::One(ReplicaId(2)), "replica 0 does not lead");
    bench.session.on_disconnected(ReplicaId(2));
    bench.session.on_disconnected(ReplicaId(3));
    assert_eq!(
        bench.submit(START + RETRY, &bundle(5, 1)),
        Destination::One(ReplicaId(0)),
        "the first follows the last"
    );
}

#[test]
fn the_first_signed_bundle_introduces_the_client_to_all_replicas() {
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Leader, ..options(4) });
    let identity = ClientIdentity::from_seed(&ClusterId::from_name("test"), [7; 32]);
    let signed = |sequence| {
        let mut builder = BundleBuilder::new(identity.origin(), Height(0).latest_expiry());
        builder.push(identity.origin(), sequence, b"command");
        identity.finish(builder)
    };
    assert_eq!(bench.submit(START, &signed(1)), Destination::All);
    assert_eq!(bench.submit(START, &signed(2)), Destination::One(ReplicaId(0)));
    bench.session.on_disconnected(ReplicaId(3));
    assert_eq!(bench.submit(START, &signed(3)), Destination::All, "the new link is not introduced");
    assert_eq!(bench.submit(START, &signed(4)), Destination::One(ReplicaId(0)));
}

fn spreading(home: Option<u16>) -> Bench {
    let home = home.map(ReplicaId);
    Bench::new(SessionOptions { dissemination: Dissemination::Replicas, home, ..options(4) })
}

#[test]
fn bundles_go_to_all_replicas_in_turn_if_these_spread_them() {
    let mut bench = spreading(None);
    let homes: Vec<Destination> = (1..=5).map(|sequence| bench.submit(START, &bundle(sequence, 1))).collect();
    assert_eq!(homes, [0, 1, 2, 3, 0].map(|home| Destination::One(ReplicaId(home))));
}

#[test]
fn a_bundle_that_its_home_does_not_serve_goes_to_the_next_replica_and_then_to_all() {
    let mut bench = spreading(Some(3));
    let one = bundle(1, 1);
    assert_eq!(bench.submit(START, &one), Destination::One(ReplicaId(3)));
    let again = bench.poll(START + RETRY);
    assert_eq!(again.iter().map(|sent| sent.to).collect::<Vec<_>>(), [Destination::One(ReplicaId(0))]);
    let two = bundle(2, 1);
    assert_eq!(bench.submit(START + RETRY, &two), Destination::One(ReplicaId(0)), "the home is avoided");
    bench.session.abandon(two.digest());
    assert_eq!(bench.poll(START + 3 * RETRY)[0].to, Destination::All);
    let later = START + 10 * RETRY;
    assert_eq!(bench.submit(later, &bundle(3, 1)), Destination::One(ReplicaId(3)), "the home gets another chance");
}

#[test]
fn a_home_that_serves_again_is_forgiven_and_one_that_does_not_is_avoided_for_longer() {
    let mut bench = spreading(Some(3));
    let mut sequence = 0;
    let mut fail = |bench: &mut Bench, now: Time| {
        sequence += 1;
        let bundle = bundle(sequence, 1);
        assert_eq!(bench.submit(now, &bundle), Destination::One(ReplicaId(3)));
        bench.poll(now + RETRY);
        bench.session.abandon(bundle.digest());
        now + RETRY
    };
    let failed = fail(&mut bench, START);
    let again = fail(&mut bench, failed + RETRY);
    assert_eq!(
        bench.submit(again + RETRY, &bundle(100, 1)),
        Destination::One(ReplicaId(0)),
        "avoided for twice as long"
    );
    let served = bundle(101, 1);
    assert_eq!(bench.submit(again + 2 * RETRY, &served), Destination::One(ReplicaId(3)));
    (0..2).for_each(|from| drop(bench.reply(from, executed(&served, 1, results(&[Outcome::Executed(b"")])))));
    let failed = fail(&mut bench, again + 2 * RETRY);
    assert_eq!(bench.submit(failed + RETRY, &bundle(102, 1)), Destination::One(ReplicaId(3)), "forgiven");
}

#[test]
fn a_refused_bundle_goes_from_replica_to_replica_and_not_to_all_at_once() {
    let mut bench = spreading(None);
    let one = bundle(1, 1);
    assert_eq!(bench.submit(START, &one), Destination::One(ReplicaId(0)));
    let mut now = START;
    for home in [1, 2, 3] {
        bench.reply(home - 1, refused(&one));
        now = bench.session.next_deadline().unwrap();
        assert_eq!(bench.poll(now)[0].to, Destination::One(ReplicaId(home)));
    }
    bench.reply(3, refused(&one));
    now = bench.session.next_deadline().unwrap().max(now);
    assert_eq!(bench.poll(now)[0].to, Destination::All);
}

#[test]
fn a_disconnected_home_is_avoided() {
    let mut bench = spreading(Some(1));
    bench.session.on_disconnected(ReplicaId(1));
    assert_eq!(bench.submit(START, &bundle(1, 1)), Destination::One(ReplicaId(2)));
}

#[test]
fn one_refusal_is_enough_from_the_only_recipient() {
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Leader, ..options(4) });
    let bundle = bundle(1, 1);
    bench.submit(START, &bundle);
    bench.reply(0, refused(&bundle));
    assert_eq!(bench.session.next_deadline(), Some(START + RETRY / REFUSED_RETRY_DIVISOR));
}

#[test]
fn without_replies_the_observer_alone_completes_a_bundle() {
    let observer = ReplicaId(2);
    let mut bench = Bench::new(SessionOptions { reply: ReplyMode::None, observer, ..options(4) });
    let bundle = bundle(1, 5);
    bench.submit(START, &bundle);
    for other in [0, 1, 3] {
        assert_eq!(bench.reply(other, executed(&bundle, 1, Results::all_empty(0))), None);
    }
    assert_eq!(bench.reply(2, executed(&bundle, 8, Results::all_empty(0))).unwrap().height, Height(8));
}

#[test]
fn too_many_or_repeated_bundles_are_errors() {
    let mut bench = Bench::new(SessionOptions { max_outstanding: 2, ..options(4) });
    let (one, two, three) = (bundle(1, 1), bundle(2, 1), bundle(3, 1));
    bench.submit(START, &one);
    let again = bench.session.submit(START, &one, 7, &mut bench.out);
    assert_eq!(again, Err(SubmitError::Repeated(one.digest())));
    bench.submit(START, &two);
    let over = bench.session.submit(START, &three, 7, &mut bench.out);
    assert_eq!(over, Err(SubmitError::TooManyOutstanding(2)));
    assert_eq!(bench.session.abandon(one.digest()), Some(7));
    assert_eq!(bench.session.abandon(one.digest()), None);
    assert_eq!(bench.submit(START, &three), Destination::All);
    bench.reply(0, executed(&one, 1, Results::all_empty(1)));
    assert_eq!(bench.session.counters().late, 1, "a reply to an abandoned bundle is late");
}

/// Reply in a generated run.
#[derive(Clone, Debug)]
struct Said {
    from: u16,
    bundle: usize,
    height: u64,
    result: u8,
}

fn said(replicas: u16) -> impl Strategy<Value = Said> {
    (0..replicas, 0..3usize, 0..2u64, 0..2u8).prop_map(|(from, bundle, height, result)| Said {
        from,
        bundle,
        height,
        result,
    })
}

proptest! {
    /// In any order of replies, a value is accepted exactly when f+1 different replicas gave it. There are four values,
    /// the maximum for one replica.
    #[test]
    fn a_value_is_accepted_exactly_with_f_plus_1_equal_replies(
        (replicas, run) in (1u16..=10).prop_flat_map(|n| (Just(n), proptest::collection::vec(said(n), 0..120)))
    ) {
        let quorum = Quorum::of(usize::from(replicas)).unwrap();
        let mut bench = Bench::new(options(usize::from(replicas)));
        let bundles: Vec<Bundle> = (0..3).map(|at| bundle(at, 1)).collect();
        for bundle in &bundles {
            bench.submit(START, bundle);
        }
        let mut heard: [Vec<Said>; 3] = Default::default();
        let mut done = [false; 3];
        for said in run {
            let bundle = &bundles[said.bundle];
            let reply = executed(bundle, said.height, results(&[Outcome::Executed(&[said.result])]));
            let accepted = bench.session.receive(START, ReplicaId(said.from), reply);
            let at = said.bundle;
            if done[at] {
                prop_assert_eq!(accepted, None);
                continue;
            }
            heard[at].push(said.clone());
            let equal = |other: &&Said| other.height == said.height && other.result == said.result;
            let mut voices: Vec<u16> = heard[at].iter().filter(equal).map(|other| other.from).collect();
            voices.sort_unstable();
            voices.dedup();
            match accepted {
                Some(accepted) => {
                    prop_assert!(voices.len() > quorum.faults());
                    prop_assert_eq!(accepted.height, Height(said.height));
                    prop_assert_eq!(accepted.results, results(&[Outcome::Executed(&[said.result])]));
                    done[at] = true;
                }
                None => prop_assert!(voices.len() <= quorum.faults()),
            }
        }
    }

    /// With f liars, the honest reply is accepted for any lies in any order.
    #[test]
    fn the_honest_reply_is_accepted_whatever_the_liars_reply(
        lies in proptest::collection::vec((0..2u16, 0..6u8), 0..40),
        order in Just(vec![2u16, 3, 4, 5, 6]).prop_shuffle(),
        turns in proptest::collection::vec(any::<bool>(), 45),
    ) {
        // n = 7, f = 2: replicas 0 and 1 lie and may collude.
        let mut quorum = ReplyQuorum::default();
        let (mut lies, mut honest) = (lies.into_iter(), order.into_iter());
        let mut accepted = None;
        for lying in turns.into_iter().chain(std::iter::repeat_n(false, 5)) {
            let next = if lying {
                lies.next().map(|(from, lie)| (from, 100 + lie))
            } else {
                honest.next().map(|from| (from, 1))
            };
            let Some((from, value)) = next else { continue };
            accepted = quorum.add(ReplicaId(from), value, 3);
            if accepted.is_some() {
                break;
            }
        }
        prop_assert_eq!(accepted, Some(1));
    }
}

fn busy(bundle: &Bundle, retry_after_ms: u32) -> ReplicaReply {
    ReplicaReply::Busy { bundle: bundle.digest(), retry_after_ms }
}

#[test]
fn f_plus_1_busy_replicas_are_believed_and_the_bundle_is_sent_again_unchanged() {
    let mut bench = Bench::new(options(4));
    let bundle = bundle(1, 1);
    assert_eq!(bench.submit(START, &bundle), Destination::All);
    (0..3).for_each(|_| drop(bench.reply(3, busy(&bundle, 20))));
    assert_eq!(bench.session.take_turned_away(), [], "one replica may lie");
    bench.reply(2, busy(&bundle, 30));
    let away = bench.session.take_turned_away();
    assert_eq!(away.iter().map(|away| away.bundle).collect::<Vec<_>>(), [bundle.digest()]);
    let wait = Duration::from_millis(20);
    assert!((wait..=wait * 3 / 2).contains(&away[0].wait), "{:?}", away[0].wait);
    assert_eq!(bench.session.next_deadline(), Some(START + away[0].wait));
    let again = bench.poll(START + away[0].wait);
    assert_eq!(again.len(), 1);
    assert_eq!(decode_message::<ClientRequest>(again[0].frame.clone()).unwrap(), ClientRequest::Submit(bundle.clone()));
    (2..4).for_each(|from| drop(bench.reply(from, busy(&bundle, 20))));
    let later = bench.session.take_turned_away()[0].wait;
    assert!(later >= wait * 2, "the wait doubles: {later:?}");
    assert_eq!(bench.session.counters().busy, 2);
}

#[test]
fn a_liar_cannot_make_a_client_wait_long() {
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Replicas, ..options(4) });
    let bundle = bundle(1, 1);
    assert_eq!(bench.submit(START, &bundle), Destination::One(ReplicaId(0)));
    bench.reply(0, busy(&bundle, u32::MAX));
    let wait = bench.session.take_turned_away()[0].wait;
    assert!(wait <= RETRY * 3 / 4, "{wait:?}");
}

#[test]
fn a_client_leaves_a_home_that_is_always_busy() {
    let home = Some(ReplicaId(2));
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Replicas, home, ..options(4) });
    let (mut now, mut sent_to) = (START, Vec::new());
    for sequence in 1..=6 {
        let bundle = bundle(sequence, 1);
        let Destination::One(to) = bench.submit(now, &bundle) else { panic!("replicas spread the bundle") };
        sent_to.push(to.0);
        if to == ReplicaId(2) {
            bench.session.receive(now, to, busy(&bundle, 10));
            bench.session.take_turned_away();
        }
        bench.session.abandon(bundle.digest());
        now = now + Duration::from_millis(20);
    }
    assert_eq!(sent_to, [2, 2, 2, 2, 3, 3]);
}

#[test]
fn a_refused_bundle_is_offered_to_each_replica_in_turn_and_never_to_all_at_once() {
    let mut bench = Bench::new(SessionOptions { dissemination: Dissemination::Replicas, ..options(4) });
    let bundle = bundle(1, 1);
    let (mut to, mut now, mut tried) = (bench.submit(START, &bundle), START, Vec::new());
    for _ in 0..8 {
        let Destination::One(replica) = to else { panic!("sent to all") };
        tried.push(replica.0);
        bench.session.receive(now, replica, busy(&bundle, 1));
        now = now + bench.session.take_turned_away()[0].wait;
        to = bench.poll(now)[0].to;
    }
    assert_eq!(tried, [0, 0, 1, 1, 2, 2, 3, 3]);
}

/// A replica may lie, and its texts are displayed to people.
#[test]
fn the_reasons_of_replicas_are_escaped() {
    let hostile = "a\u{1b}[2J\u{7}\r\nerror: forged";
    let (mut session, mut out) = (Session::<()>::new(SessionOptions::new(Quorum::of(4).unwrap())), Vec::new());
    session.ask_height(&mut out);
    let why = || hostile.to_owned();
    session.receive(Time(0), ReplicaId(0), ReplicaReply::Unanswered { id: 1, why: why(), again: false });
    session.receive(Time(0), ReplicaId(1), ReplicaReply::Unanswered { id: 1, why: why(), again: false });
    let escaped = "a\\u{1b}[2J\\u{7}\\r\\nerror: forged";
    assert_eq!(session.unanswered(), Some(escaped));
    let bundle = bundle(1, 1);
    session.submit(Time(0), &bundle, (), &mut out).unwrap();
    let refused = ReplicaReply::Refused { bundle: bundle.digest(), why: why(), again: true };
    session.receive(Time(0), ReplicaId(1), refused);
    assert_eq!(session.last_refusal(), Some((ReplicaId(1), escaped)));
}
