//! A signer signs no two statements that contradict each other, for several clients and across restarts.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_crypto::{KeyPair, SchemeKind, ed25519};
use quorate_node::signer::judge::{Floor, Judge, MAX_SLOT_VOTES, Refusal, Verdict};
use quorate_node::signer::protocol::{
    self, Answer, Attached, FrameFault, MAX_FRAME_BYTES, PROTOCOL_VERSION, Request, Unsigned, frame,
};
use quorate_node::signer::{Entry, MAX_CONNECTIONS, Record, Signer, SignerEvent, connect, listen, serve};
use quorate_storage::Identity;
use quorate_types::{Attachment, Certificate, Digest, Domain, EpochId, Height, ReplicaId, Subject, View};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const EPOCH: EpochId = EpochId(Digest([7; 32]));
const ME: ReplicaId = ReplicaId(2);
/// Timeout: a test that waits longer for an answer has hung.
const HANG: Duration = Duration::from_secs(60);

struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-signer-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn record(&self) -> PathBuf {
        self.0.join("record")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn identity() -> Identity {
    Identity { epoch: EPOCH, replica: ME }
}

fn unsigned(domain: Domain, view: u64, height: u64, digest: u8) -> Unsigned {
    let subject = Subject { domain, view: View(view), height: Height(height), digest: Digest([digest; 32]) };
    Unsigned { subject, attached: Attached::Nothing }
}

fn vote(view: u64, digest: u8) -> Unsigned {
    unsigned(Domain::Vote, view, view, digest)
}

prop_compose! {
    fn any_subject()(
        domain in 0..Domain::ALL.len(), view in any::<u64>(), height in any::<u64>(), digest in any::<[u8; 32]>(),
    ) -> Subject {
        Subject { domain: Domain::ALL[domain], view: View(view), height: Height(height), digest: Digest(digest) }
    }
}

fn any_unsigned() -> impl Strategy<Value = Unsigned> {
    let attached = prop_oneof![
        Just(Attached::Nothing),
        any::<u64>().prop_map(|view| Attached::View(View(view))),
        any_subject().prop_map(Attached::Certificate),
    ];
    (any_subject(), attached).prop_map(|(subject, attached)| Unsigned { subject, attached })
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<[u8; 32]>(), any::<u16>())
            .prop_map(|(epoch, replica)| Request::Hello { epoch: Digest(epoch), replica: ReplicaId(replica) }),
        (any::<u64>(), any_unsigned()).prop_map(|(number, unsigned)| Request::Sign { number, unsigned }),
    ]
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        (any::<[u8; 32]>(), any::<u16>(), vec(any::<u8>(), 0..1024)).prop_map(|(epoch, replica, key)| Answer::Hello {
            epoch: Digest(epoch),
            replica: ReplicaId(replica),
            public_key: key.into()
        }),
        (any::<u64>(), vec(any::<u8>(), 0..4096))
            .prop_map(|(number, signature)| Answer::Signed { number, signature: signature.into() }),
        (any::<u64>(), "\\PC{0,600}").prop_map(|(number, why)| Answer::refused(number, &why)),
    ]
}

proptest! {
    #[test]
    fn messages_survive_their_encoding(request in any_request(), answer in any_answer(), cut in any::<usize>()) {
        let (one, other) = (frame(&request), frame(&answer));
        prop_assert!(one.len() <= 4 + MAX_FRAME_BYTES && other.len() <= 4 + MAX_FRAME_BYTES);
        let both = [&one[..], &other[..]].concat();
        let mut stream = &both[..];
        prop_assert_eq!(protocol::read::<Request>(&mut stream).unwrap(), request);
        prop_assert_eq!(protocol::read::<Answer>(&mut stream).unwrap(), answer);
        prop_assert!(matches!(protocol::read::<Answer>(&mut stream), Err(FrameFault::Closed)));
        let mut cut = &one[..cut % one.len()];
        prop_assert!(matches!(protocol::read::<Request>(&mut cut), Err(FrameFault::Closed)));
    }

    /// Bytes from a faulty end are refused or are a message's only encoding.
    #[test]
    fn foreign_bytes_are_refused_or_canonical(body in vec(any::<u8>(), 0..200), kind in 0u8..4) {
        let mut body = body;
        if body.len() > 2 {
            body[..2].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
            body[2] = kind;
        }
        let bytes = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
        if let Ok(message) = protocol::read::<Request>(&mut &bytes[..]) {
            prop_assert_eq!(&frame(&message)[..], &bytes[..]);
        }
        if let Ok(message) = protocol::read::<Answer>(&mut &bytes[..]) {
            prop_assert_eq!(&frame(&message)[..], &bytes[..]);
        }
    }

    /// The judge's rules against their purpose: every pair of signed statements, in either kind of protocol, and with a
    /// restart from the record's entries in between.
    #[test]
    fn no_two_signed_statements_contradict_each_other(
        by_slot in any::<bool>(),
        asked in vec((0..Domain::ALL.len(), 0u64..6, 0u64..4, 0u8..3, any::<bool>()), 1..120),
    ) {
        let mut judge = Judge::new(by_slot);
        let mut signed: Vec<Unsigned> = Vec::new();
        for (domain, view, height, digest, restarts) in asked {
            let domain = Domain::ALL[domain];
            let view = if domain == Domain::Checkpoint { 0 } else { view };
            let asked = unsigned(domain, view, height, digest);
            if judge.judge(&asked).is_ok() {
                judge.remember(&asked);
                prop_assert_eq!(judge.judge(&asked), Ok(Verdict::Free), "a repetition is free");
                if signed.contains(&asked) {
                    continue;
                }
                for earlier in &signed {
                    prop_assert!(!contradict(by_slot, earlier, &asked), "{:?} after {:?}", asked, earlier);
                }
                signed.push(asked);
            }
            if restarts {
                let entries: Vec<Unsigned> = judge.statements().copied().collect();
                judge = Judge::new(by_slot);
                entries.iter().rev().for_each(|entry| judge.remember(entry));
            }
        }
    }
}

/// Returns whether a replica must not sign both, the second after the first.
fn contradict(by_slot: bool, first: &Unsigned, second: &Unsigned) -> bool {
    use Domain::{Absent, Checkpoint, Commit, OptimisticProposal, PreCommit, Prepare, Proposal, Stored, Timeout, Vote};
    let (one, other) = (first.subject, second.subject);
    if first == second || matches!(one.domain, Stored | Absent) {
        return false;
    }
    let votes = |domain| matches!(domain, Vote | Prepare | PreCommit | Commit);
    let proposes = |domain| matches!(domain, Proposal | OptimisticProposal);
    let same_place = match one.domain {
        Checkpoint => one.height == other.height,
        domain if by_slot && votes(domain) => (one.view, one.height) == (other.view, other.height),
        _ => one.view == other.view,
    };
    let gives_up = match by_slot {
        true => one.domain == Domain::ViewChange && other.view < one.view,
        false => one.domain == Timeout && other.view <= one.view,
    };
    one.domain == other.domain && same_place || gives_up && (votes(other.domain) || proposes(other.domain))
}

#[test]
fn a_frame_of_another_version_or_of_too_many_bytes_is_refused() {
    let mut other = frame(&Request::Sign { number: 1, unsigned: vote(1, 1) }).to_vec();
    other[4] = 9;
    let error = protocol::read::<Request>(&mut &other[..]).unwrap_err().to_string();
    assert!(error.contains("speaks version 9") && error.contains("help: run the same release"), "{error}");
    let long = u32::MAX.to_le_bytes();
    assert!(matches!(protocol::read::<Request>(&mut &long[..]), Err(FrameFault::TooLong(_))));
}

#[test]
fn the_signer_encodes_the_bytes_that_a_vote_signs() {
    let certificate = Certificate { proof: Bytes::from_static(b"proof"), ..Certificate::genesis(&EPOCH) };
    let attachments =
        [Attachment::None, Attachment::HighView(View(3)), Attachment::HighCertificate(Box::new(certificate))];
    for attachment in attachments {
        let vote = quorate_types::Vote {
            subject: unsigned(Domain::Timeout, 4, 0, 0).subject,
            attachment,
            voter: ME,
            signature: Bytes::new(),
        };
        assert_eq!(Unsigned::of_vote(&vote).statement(&EPOCH).as_bytes(), vote.statement(&EPOCH).as_bytes());
    }
}

#[test]
fn rules_name_the_statement_that_forbids_another() {
    let mut judge = Judge::new(false);
    judge.remember(&vote(5, 1));
    assert!(matches!(judge.judge(&vote(5, 2)), Err(Refusal::Contradicts { .. })));
    assert!(matches!(judge.judge(&vote(4, 1)), Err(Refusal::Contradicts { .. })));
    judge.remember(&unsigned(Domain::Timeout, 6, 0, 0));
    assert!(matches!(judge.judge(&vote(6, 1)), Err(Refusal::TimedOut { .. })));
    assert_eq!(judge.judge(&vote(5, 1)), Ok(Verdict::Free), "it may be sent again");
    assert_eq!(judge.judge(&vote(7, 1)), Ok(Verdict::Binds));
    judge.rise(Floor { view: View(7), height: Height(0) });
    assert!(matches!(judge.judge(&vote(7, 1)), Err(Refusal::Forgotten { .. })));
    let mut judge = Judge::new(true);
    judge.remember(&unsigned(Domain::Prepare, 2, 9, 1));
    assert_eq!(judge.judge(&unsigned(Domain::Prepare, 2, 8, 2)), Ok(Verdict::Binds), "slots are independent");
    assert_eq!(
        judge.judge(&unsigned(Domain::Prepare, 3, 9, 2)),
        Ok(Verdict::Binds),
        "another view may decide otherwise"
    );
    assert!(matches!(judge.judge(&unsigned(Domain::Prepare, 2, 9, 2)), Err(Refusal::Contradicts { .. })));
    judge.remember(&unsigned(Domain::ViewChange, 4, 0, 1));
    assert!(matches!(judge.judge(&unsigned(Domain::Prepare, 3, 9, 2)), Err(Refusal::Moved { .. })));
    assert!(matches!(judge.judge(&unsigned(Domain::Proposal, 3, 0, 2)), Err(Refusal::Moved { .. })));
}

#[test]
fn slots_are_forgotten_from_below_and_never_signed_again() {
    let mut judge = Judge::new(true);
    for slot in 1..=MAX_SLOT_VOTES as u64 + 2 {
        judge.remember(&unsigned(Domain::Prepare, 1, slot, 1));
    }
    assert_eq!((judge.statements().count(), judge.floor().height), (MAX_SLOT_VOTES, Height(2)));
    assert!(matches!(judge.judge(&unsigned(Domain::Prepare, 9, 2, 2)), Err(Refusal::Forgotten { .. })));
    assert_eq!(judge.judge(&unsigned(Domain::Prepare, 9, 3, 2)), Ok(Verdict::Binds));
}

fn refuses(record: &mut Record, asked: &Unsigned) -> bool {
    record.judge(asked).expect("the disk works").is_err()
}

#[test]
fn a_record_survives_its_process_also_when_it_was_written_anew() {
    let scratch = Scratch::new("record");
    let many: Vec<Entry> = (1..=9_000).map(|view| Entry::Signed(vote(view, 1))).collect();
    Record::create(&scratch.record(), identity(), &many).unwrap();
    assert!(Record::create(&scratch.record(), identity(), &[]).unwrap_err().to_string().contains("never overwritten"));
    let bytes =
        || -> u64 { fs::read_dir(scratch.record()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum() };
    for round in 0..3 {
        let mut record = Record::open(&scratch.record(), identity(), false).unwrap();
        let view = 9_000 + round;
        assert!(refuses(&mut record, &vote(view, 3)), "round {round}");
        assert!(!refuses(&mut record, &vote(view, 1)), "round {round}: the same again");
        assert!(!refuses(&mut record, &vote(view + 1, 1)), "round {round}");
        assert!(refuses(&mut record, &vote(view + 1, 2)), "round {round}");
        let error = Record::open(&scratch.record(), identity(), false).err().expect("it is locked").to_string();
        assert!(error.contains("is in use by this process; help: stop that signer"), "{error}");
    }
    assert!(bytes() < 8 << 20, "{} bytes", bytes());
}

#[test]
fn a_lost_or_damaged_record_is_one_error_that_says_what_to_do() {
    let scratch = Scratch::new("damage");
    let open = || Record::open(&scratch.record(), identity(), false).err().expect("it is refused");
    let lost = open();
    assert!(lost.to_string().contains("is lost, so nothing is signed; help: stop the replica"), "{lost}");
    assert!(lost.is_wrong_call() && !scratch.record().exists(), "nothing is made in its place");
    Record::create(&scratch.record(), identity(), &[Entry::Signed(vote(5, 1))]).unwrap();
    for round in 0..3 {
        let mut record = Record::open(&scratch.record(), identity(), false).unwrap();
        assert!(!refuses(&mut record, &vote(6 + round, 1)));
    }
    let other = Identity { replica: ReplicaId(3), ..identity() };
    let error = Record::open(&scratch.record(), other, false).err().expect("it is refused").to_string();
    assert!(error.contains("belongs to replica 2, not to replica 3"), "{error}");
    let segments = fs::read_dir(scratch.record()).unwrap().map(|file| file.unwrap().path());
    let is_first =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("000000000000"));
    let segment = segments.filter(is_first).min().expect("a segment");
    let before = fs::read(&segment).unwrap();
    let mut after = before.clone();
    after[512 + 40] ^= 1;
    fs::write(&segment, &after).unwrap();
    let error = open();
    assert!(error.to_string().contains("is damaged, so nothing is signed: "), "{error}");
    assert!(error.to_string().contains("signer rebuild") && error.is_wrong_call(), "{error}");
    fs::write(&segment, &before).unwrap();
    assert!(Record::open(&scratch.record(), identity(), false).is_ok());
    fs::read_dir(scratch.record()).unwrap().for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    assert!(open().to_string().contains("is lost"), "an empty directory is a lost record");
}

/// A signer on a thread of the test.
struct Served {
    end: Sender<Result<(), quorate_node::signer::SignerError>>,
    thread: Option<JoinHandle<Result<(), quorate_node::signer::SignerError>>>,
    events: Arc<Mutex<Vec<SignerEvent>>>,
    socket: PathBuf,
}

fn key() -> KeyPair {
    KeyPair::from_seed(SchemeKind::ED25519, [9; 32])
}

impl Served {
    fn new(home: &Path) -> Served {
        let record = Record::open(&home.join("record"), identity(), false).unwrap();
        let signer = Signer { epoch: EPOCH, replica: ME, key: key(), record };
        let socket = home.join("socket");
        let listener = listen(&socket).unwrap();
        let (end, stop) = mpsc::channel();
        let events: Arc<Mutex<Vec<SignerEvent>>> = Arc::default();
        let told = events.clone();
        let of_thread = end.clone();
        let thread = thread::spawn(move || {
            let tell = move |event| told.lock().unwrap().push(event);
            serve(listener, signer, &(Arc::new(tell) as _), (of_thread, &stop))
        });
        Served { end, thread: Some(thread), events, socket }
    }

    fn connect(&self) -> UnixStream {
        let mut stream = connect(&self.socket, HANG).expect("it listens");
        let hello = Request::Hello { epoch: EPOCH.0, replica: ME };
        let Answer::Hello { public_key, .. } = ask(&mut stream, &hello) else { panic!("no hello") };
        assert_eq!(public_key, key().public_key());
        stream
    }

    fn has_told(&self, is_it: impl Fn(&SignerEvent) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(is_it)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.end.send(Ok(()));
        let ended = self.thread.take().expect("it was started").join();
        assert!(thread::panicking() || ended.expect("it does not panic").is_ok());
    }
}

fn ask(stream: &mut UnixStream, request: &Request) -> Answer {
    protocol::write(stream, request).expect("it is connected");
    protocol::read(stream).expect("it answers")
}

fn sign(stream: &mut UnixStream, unsigned: Unsigned) -> Result<Bytes, String> {
    match ask(stream, &Request::Sign { number: 77, unsigned }) {
        Answer::Signed { number: 77, signature } => Ok(signature),
        Answer::Refused { number: 77, why } => Err(why),
        other => panic!("unexpected {other:?}"),
    }
}

/// The second replica has lost its disk, so it does not know the votes of the first.
#[test]
fn two_replicas_with_one_identity_get_no_contradicting_votes() {
    let scratch = Scratch::new("two");
    Record::create(&scratch.record(), identity(), &[]).unwrap();
    let served = Served::new(&scratch.0);
    assert_eq!(fs::metadata(&served.socket).unwrap().permissions().mode() & 0o777, 0o600);
    let (mut first, mut second) = (served.connect(), served.connect());
    let signature = sign(&mut first, vote(5, 1)).unwrap();
    let public_key: [u8; 32] = key().public_key()[..].try_into().unwrap();
    let public_key = ed25519::PublicKey::decode(&public_key).unwrap();
    assert!(public_key.verify(vote(5, 1).statement(&EPOCH).as_bytes(), &signature));
    let why = sign(&mut second, vote(5, 2)).unwrap_err();
    assert!(why.contains("Vote of view 5, height 5: it has signed a different one of view 5, height 5"), "{why}");
    assert_eq!(sign(&mut second, vote(5, 1)).unwrap(), signature, "the same vote may be sent again");
    assert!(sign(&mut second, vote(4, 1)).is_err());
    assert!(sign(&mut second, vote(6, 2)).is_ok() && sign(&mut first, vote(6, 1)).is_err());
    assert!(served.has_told(|event| matches!(event, SignerEvent::Refused { .. })));
    drop(served);
    // The next process has its record, and a socket of the last one does not disturb it.
    let served = Served::new(&scratch.0);
    assert!(sign(&mut served.connect(), vote(6, 1)).is_err());
}

#[test]
fn faulty_and_surplus_connections_do_not_disturb_others() {
    let scratch = Scratch::new("faulty");
    Record::create(&scratch.record(), identity(), &[]).unwrap();
    let served = Served::new(&scratch.0);
    let mut good = served.connect();
    for garbage in [&[0xff; 64][..], &[2, 0, 0, 0, 1, 0], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut bad = connect(&served.socket, HANG).unwrap();
        bad.write_all(garbage).unwrap();
        let closed = protocol::read::<Answer>(&mut bad);
        assert!(matches!(closed, Err(FrameFault::Closed | FrameFault::Io(_))), "{closed:?}");
    }
    let mut others = Vec::new();
    while !served.has_told(|event| *event == SignerEvent::TooMany) {
        let mut more = connect(&served.socket, HANG).unwrap();
        let _ = protocol::write(&mut more, &Request::Hello { epoch: EPOCH.0, replica: ME });
        let _ = protocol::read::<Answer>(&mut more);
        others.push(more);
        assert!(others.len() <= 2 * MAX_CONNECTIONS, "{} are connected", others.len());
    }
    assert!(sign(&mut good, vote(1, 1)).is_ok());
}

/// Measures the time of a signature, in microseconds.
#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_signature() {
    const SIGNATURES: u64 = 2_000;
    let scratch = Scratch::new("cost");
    Record::create(&scratch.record(), identity(), &[]).unwrap();
    let served = Served::new(&scratch.0);
    let mut stream = served.connect();
    let median = |what: &str, work: &mut dyn FnMut(u64)| {
        let mut times: Vec<u128> = (1..=SIGNATURES)
            .map(|at| {
                let begun = std::time::Instant::now();
                work(at);
                begun.elapsed().as_nanos() / 1_000
            })
            .collect();
        times.sort_unstable();
        println!("{what}: median {} us, 99% {} us", times[times.len() / 2], times[times.len() * 99 / 100]);
    };
    let key = key();
    median("local key", &mut |at| drop(key.sign(vote(at, 1).statement(&EPOCH).as_bytes())));
    median("signer, new statement", &mut |at| drop(sign(&mut stream, vote(at, 1)).unwrap()));
    median("signer, repetition", &mut |_| drop(sign(&mut stream, vote(SIGNATURES, 1)).unwrap()));
}
