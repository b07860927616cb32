//! The session table compared with a simple model, at the edges of the window, and under eviction.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::session::{
    Admission, FAIR_UNITS, MAX_SEQUENCE, MAX_SESSION_UNITS, MAX_SESSIONS, Memory, SESSION_WINDOW, Sessions, UNIT_BYTES,
};
use quorate_types::limits::SEQUENCE_STRIDE;
use quorate_types::{ClientId, Decoder, Encoder, Height, Wire};
use std::collections::{BTreeMap, BTreeSet};

/// One session as a set.
#[derive(Clone, Default)]
struct ModelSession {
    executed: BTreeSet<u64>,
    floor: u64,
    unknown: u64,
    birth: u64,
    bound: u64,
    /// Words of the real window's ring.
    words: u64,
}

impl ModelSession {
    fn units(&self) -> usize {
        1 + (8 * self.words as usize).div_ceil(UNIT_BYTES)
    }

    fn above(&self) -> usize {
        self.executed.range(self.floor + 1..).count()
    }

    fn rise(&mut self) {
        while self.executed.contains(&(self.floor + 1)) {
            self.floor += 1;
        }
    }

    fn admit(&mut self, expires: u64, sequence: u64) -> Admission {
        let is_open = expires > self.birth;
        if is_open {
            self.bound = self.bound.max(expires);
        }
        match () {
            _ if sequence <= self.unknown => return Admission::Forgotten,
            _ if self.executed.contains(&sequence) => return Admission::Duplicate,
            _ if !is_open => return Admission::Forgotten,
            _ => {}
        }
        if sequence > self.floor + SESSION_WINDOW {
            let floor = match beginning(sequence) {
                Some(start) if sequence > self.floor + 2 * SESSION_WINDOW => start,
                _ => sequence - SESSION_WINDOW,
            };
            // A jump beyond the width of the ring clears it.
            if floor - self.floor >= self.words * 64 || self.executed.range(floor + 1..).next().is_none() {
                self.words = 0;
            }
            (self.floor, self.unknown) = (floor, floor);
            self.rise();
        }
        if self.above() == 0 {
            self.words = 0;
        }
        if sequence > self.floor + 1 {
            self.words = self.words.max((sequence - self.floor).div_ceil(64).next_power_of_two());
        }
        self.executed.insert(sequence);
        self.rise();
        if self.above() == 0 {
            self.words = 0;
        }
        Admission::Fresh
    }
}

/// Returns the multiple of the stride that is at most 1024 below a number.
fn beginning(sequence: u64) -> Option<u64> {
    let above = (sequence - 1) % SEQUENCE_STRIDE + 1;
    (above <= 1024).then(|| sequence - above)
}

/// Sessions as sets, the least recently used first, and the watermarks.
#[derive(Default)]
struct Model {
    sessions: Vec<(ClientId, ModelSession)>,
    owners: BTreeMap<u128, u64>,
    watermark: u64,
}

impl Model {
    fn units(&self) -> usize {
        self.sessions.iter().map(|(_, session)| session.units()).sum()
    }

    fn watermark_of(&self, client: ClientId) -> u64 {
        self.watermark.max(self.owners.get(&client.owner()).copied().unwrap_or(0))
    }

    fn admit(&mut self, limit: usize, expires: u64, client: ClientId, sequence: u64) -> Admission {
        if sequence == 0 || sequence > MAX_SEQUENCE {
            return Admission::Refused;
        }
        let mut session = match self.sessions.iter().position(|(known, _)| *known == client) {
            Some(at) => self.sessions.remove(at).1,
            None if expires <= self.watermark_of(client) => return Admission::Forgotten,
            None => {
                let birth = self.watermark_of(client);
                self.make_room(limit - 1, None);
                let floor = match beginning(sequence) {
                    _ if sequence <= SESSION_WINDOW => 0,
                    Some(start) => start,
                    None => sequence - SESSION_WINDOW / 2,
                };
                ModelSession { floor, unknown: floor, birth, ..ModelSession::default() }
            }
        };
        let admission = session.admit(expires, sequence);
        self.sessions.push((client, session));
        self.make_room(limit, Some(client));
        admission
    }

    fn make_room(&mut self, limit: usize, kept: Option<ClientId>) {
        while self.units() > limit {
            let mut heavy: BTreeMap<u128, usize> = BTreeMap::new();
            for (client, session) in &self.sessions {
                *heavy.entry(client.owner()).or_default() += session.units();
            }
            let mut heavy: Vec<(usize, u128)> = heavy.into_iter().map(|(owner, units)| (units, owner)).collect();
            heavy.sort_unstable();
            let heavy = heavy.into_iter().rev().filter(|(units, _)| *units > FAIR_UNITS).map(|(_, owner)| owner);
            let of_owner = |owner| self.sessions.iter().position(|(client, _)| client.owner() == owner);
            let candidates = heavy.filter_map(of_owner).chain([0]);
            let victim = candidates
                .into_iter()
                .find(|at| Some(self.sessions[*at].0) != kept)
                .expect("there is a session to evict");
            let (client, session) = self.sessions.remove(victim);
            let watermark = self.owners.entry(client.owner()).or_default();
            *watermark = (*watermark).max(session.bound);
            if !self.sessions.iter().any(|(other, _)| other.owner() == client.owner()) {
                self.watermark =
                    self.watermark.max(self.owners.remove(&client.owner()).expect("the watermark was just set"));
            }
        }
    }

    fn recall(&self, expires: u64, client: ClientId, sequence: u64) -> Memory {
        match self.sessions.iter().find(|(known, _)| *known == client) {
            _ if sequence == 0 || sequence > MAX_SEQUENCE => Memory::Never,
            Some((_, session)) if sequence <= session.unknown => Memory::Unknown,
            Some((_, session)) if session.executed.contains(&sequence) => Memory::Executed,
            Some((_, session)) if expires > session.birth => Memory::Never,
            None if expires > self.watermark_of(client) => Memory::Never,
            _ => Memory::Unknown,
        }
    }
}

/// Above every watermark.
const FOREVER: Height = Height(u64::MAX);

fn snapshot(sessions: &Sessions) -> Bytes {
    let mut out = Encoder::default();
    sessions.freeze().encode(&mut out);
    out.finish()
}

fn restored(bytes: Bytes, limit: usize) -> Sessions {
    let mut input = Decoder::new(bytes);
    let sessions = Sessions::decode(&mut input, limit).expect("a snapshot decodes");
    input.finish("test").expect("nothing is left");
    sessions
}

fn sequence() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0u64..40,
        4 => 0u64..400,
        2 => 0u64..10_000,
        1 => SESSION_WINDOW - 3..SESSION_WINDOW + 20,
        1 => 3 * SESSION_WINDOW..3 * SESSION_WINDOW + 200,
        1 => 1000 * SEQUENCE_STRIDE..1000 * SEQUENCE_STRIDE + 1100,
        1 => any::<u64>(),
        1 => MAX_SEQUENCE - 2..MAX_SEQUENCE + 2,
        1 => Just(u64::MAX),
    ]
}

/// A few owners with many sessions and many owners with few.
fn client() -> impl Strategy<Value = ClientId> {
    let owners = prop_oneof![2 => 1u128..3, 1 => 3u128..60];
    (owners, prop_oneof![2 => 0u16..3, 1 => 0u16..60])
        .prop_map(|(owner, session)| ClientId(owner << ClientId::SESSION_BITS).with_session(session))
}

proptest! {
    #[test]
    fn sessions_match_the_model(
        limit in MAX_SESSION_UNITS..MAX_SESSION_UNITS + 20,
        steps in prop::collection::vec((client(), 1u64..100, sequence()), 1..400),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut sessions, mut model) = (Sessions::with_limit(limit), Model::default());
        let cut = cut.index(steps.len());
        for (at, (client, ahead, sequence)) in steps.into_iter().enumerate() {
            if at == cut {
                let bytes = snapshot(&sessions);
                sessions = restored(bytes.clone(), limit);
                prop_assert_eq!(snapshot(&sessions), bytes);
            }
            let expires = at as u64 / 4 + ahead;
            let recalled = sessions.recall(Height(expires), client, sequence);
            prop_assert_eq!(recalled, model.recall(expires, client, sequence));
            let expected = model.admit(limit, expires, client, sequence);
            prop_assert_eq!(sessions.admit(Height(expires), client, sequence), expected, "{}:{}", client, sequence);
            prop_assert_eq!((sessions.len(), sessions.units()), (model.sessions.len(), model.units()));
            prop_assert!(sessions.units() <= limit);
        }
    }

    #[test]
    fn a_permuted_window_is_executed_once(order in Just((1u64..=600).collect::<Vec<_>>()).prop_shuffle()) {
        let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
        for sequence in &order {
            prop_assert_eq!(sessions.admit(FOREVER, ClientId(7), *sequence), Admission::Fresh);
        }
        for sequence in &order {
            prop_assert_eq!(sessions.admit(FOREVER, ClientId(7), *sequence), Admission::Duplicate);
        }
        let mut ascending = Sessions::with_limit(MAX_SESSION_UNITS);
        (1..=600).for_each(|sequence| assert_eq!(ascending.admit(FOREVER, ClientId(7), sequence), Admission::Fresh));
        prop_assert_eq!(snapshot(&sessions), snapshot(&ascending), "the snapshot depends on the order of execution");
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_have_one_form(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut input = Decoder::new(bytes.clone().into());
        if let Ok(sessions) = Sessions::decode(&mut input, 100) {
            prop_assert_eq!(&snapshot(&sessions)[..], &bytes[..input.position()]);
        }
    }
}

#[test]
fn the_window_can_be_filled_in_reverse_and_moves_on() {
    let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
    let client = ClientId(1);
    for sequence in (1..=SESSION_WINDOW).rev() {
        assert_eq!(sessions.admit(FOREVER, client, sequence), Admission::Fresh);
    }
    assert_eq!(sessions.units(), 1, "a session without gaps needs no ring");
    assert_eq!(sessions.admit(FOREVER, client, 2 * SESSION_WINDOW), Admission::Fresh);
    assert_eq!(sessions.admit(FOREVER, client, 2 * SESSION_WINDOW), Admission::Duplicate);
    assert_eq!(sessions.units(), MAX_SESSION_UNITS);
    assert_eq!(sessions.admit(FOREVER, client, SESSION_WINDOW + 1), Admission::Fresh);
    assert_eq!(sessions.admit(FOREVER, client, 2 * SESSION_WINDOW + 1), Admission::Fresh);
    let bytes = snapshot(&sessions);
    assert_eq!(snapshot(&restored(bytes.clone(), MAX_SESSION_UNITS)), bytes);
}

#[test]
fn a_lost_number_does_not_block_its_client() {
    let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
    let client = ClientId(1);
    for sequence in (1..=3 * SESSION_WINDOW).filter(|sequence| *sequence != 10) {
        assert_eq!(sessions.admit(FOREVER, client, sequence), Admission::Fresh, "{sequence}");
    }
    assert_eq!(sessions.admit(FOREVER, client, 10), Admission::Forgotten, "the number is below the window");
    assert_eq!(sessions.admit(FOREVER, client, 11), Admission::Duplicate);
    assert_eq!(sessions.units(), 1, "the gap is below the floor");
}

#[test]
fn a_session_may_begin_with_a_high_number() {
    let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
    let (client, first) = (ClientId(1), 10 * SESSION_WINDOW);
    assert_eq!(sessions.admit(FOREVER, client, first), Admission::Fresh);
    assert_eq!(
        sessions.admit(FOREVER, client, first - 1),
        Admission::Fresh,
        "commands in flight may overtake each other"
    );
    assert_eq!(sessions.admit(FOREVER, client, first - SESSION_WINDOW), Admission::Forgotten);
    for sequence in first + 1..first + 2 * SESSION_WINDOW {
        assert_eq!(sessions.admit(FOREVER, client, sequence), Admission::Fresh);
    }
}

/// Runs of a client that keeps its key begin with high numbers. Their sessions must not be larger than others, or they
/// would be evicted first.
#[test]
fn a_run_that_begins_above_a_stride_takes_one_unit_and_a_later_one_moves_it_on() {
    let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
    let client = ClientId(1);
    for base in [100_000 * SEQUENCE_STRIDE, 100_009 * SEQUENCE_STRIDE] {
        for sequence in [7, 1, 2, 3, 4, 5, 6] {
            assert_eq!(sessions.admit(FOREVER, client, base + sequence), Admission::Fresh, "{sequence}");
        }
        assert_eq!(sessions.units(), 1, "the numbers are without a gap");
        assert_eq!(sessions.admit(FOREVER, client, base + 5), Admission::Duplicate);
        assert_eq!(sessions.admit(FOREVER, client, base), Admission::Forgotten, "an earlier run's number");
    }
}

#[test]
fn the_maximum_numbers_do_not_overflow() {
    let mut sessions = Sessions::with_limit(MAX_SESSION_UNITS);
    let client = ClientId(9);
    assert_eq!(sessions.admit(FOREVER, client, MAX_SEQUENCE + 1), Admission::Refused);
    assert_eq!(sessions.admit(FOREVER, client, 0), Admission::Refused);
    assert!(sessions.is_empty(), "an invalid number opens no session");
    for (sequence, expected) in [
        (MAX_SEQUENCE, Admission::Fresh),
        (MAX_SEQUENCE, Admission::Duplicate),
        (MAX_SEQUENCE - 1, Admission::Fresh),
        (u64::MAX, Admission::Refused),
        (1, Admission::Forgotten),
    ] {
        assert_eq!(sessions.admit(FOREVER, client, sequence), expected, "{sequence}");
    }
}

fn first_of(owner: u64) -> ClientId {
    ClientId(u128::from(owner) << ClientId::SESSION_BITS)
}

#[test]
fn an_owner_that_floods_loses_only_its_own_sessions() {
    let mut sessions = Sessions::with_limit(100);
    let (flooder, others) = (first_of(1), 2..52);
    for owner in others.clone() {
        assert_eq!(sessions.admit(Height(50), first_of(owner), 1), Admission::Fresh);
    }
    for session in 0..u16::MAX {
        let expires = Height(100 + u64::from(session));
        assert_eq!(sessions.admit(expires, flooder.with_session(session), 1), Admission::Fresh);
    }
    for owner in others {
        assert_eq!(
            sessions.admit(Height(50), first_of(owner), 1),
            Admission::Duplicate,
            "owner {owner} lost its session"
        );
    }
    assert_eq!(sessions.admit(Height(51), first_of(99), 1), Admission::Fresh, "others need not sign again");
    assert_eq!(sessions.admit(Height(1000), flooder, 1), Admission::Forgotten, "its own evicted commands are void");
}

#[test]
fn evicted_commands_are_void_and_their_client_can_continue() {
    let mut sessions = Sessions::with_limit(100);
    let victim = first_of(1);
    assert_eq!(sessions.admit(Height(500), victim, 1), Admission::Fresh);
    for owner in 2..102 {
        assert_eq!(sessions.admit(Height(400), first_of(owner), 1), Admission::Fresh);
    }
    for (expires, sequence) in [(500, 1), (500, 2), (499, 1), (1, 7)] {
        assert_eq!(sessions.recall(Height(expires), victim, sequence), Memory::Unknown);
        assert_eq!(sessions.admit(Height(expires), victim, sequence), Admission::Forgotten);
    }
    assert_eq!(sessions.admit(Height(500), first_of(7777), 1), Admission::Forgotten, "new clients need a later expiry");
    assert_eq!(sessions.admit(Height(501), victim, 2), Admission::Fresh);
    assert_eq!(sessions.admit(Height(500), victim, 1), Admission::Forgotten, "the new session does not admit it");
    assert_eq!(sessions.recall(Height(500), victim, 3), Memory::Unknown);
    assert_eq!(sessions.recall(Height(501), victim, 3), Memory::Never);
    assert_eq!(sessions.admit(Height(501), victim, 2), Admission::Duplicate);
}

#[test]
fn without_heavy_owners_the_least_recently_used_session_is_evicted() {
    let mut sessions = Sessions::with_limit(100);
    for owner in (1..101).chain([1]) {
        sessions.admit(Height(5), first_of(owner), 1);
    }
    assert_eq!(sessions.admit(Height(6), first_of(200), 1), Admission::Fresh, "evicts owner 2");
    assert_eq!(sessions.recall(Height(6), first_of(1), 1), Memory::Executed);
    assert_eq!(sessions.recall(Height(6), first_of(2), 1), Memory::Never);
    assert_eq!(sessions.recall(Height(5), first_of(2), 1), Memory::Unknown);
    assert_eq!(sessions.len(), 100);
}

#[test]
fn wide_windows_stay_within_the_limit() {
    let mut sessions = Sessions::with_limit(MAX_SESSIONS);
    for owner in 1..20_000 {
        assert_eq!(sessions.admit(Height(owner), first_of(owner), SESSION_WINDOW), Admission::Fresh);
        assert!(sessions.units() <= MAX_SESSIONS);
    }
    assert!(sessions.len() <= MAX_SESSIONS / (MAX_SESSION_UNITS - 1));
}

#[test]
fn forged_snapshots_are_refused() {
    let session = |client: u64, birth: u64, floor: u64, unknown: u64, width: usize, words: &[u64]| {
        let mut out = Encoder::default();
        first_of(client).encode(&mut out);
        [birth, 9, floor, unknown].into_iter().for_each(|number| out.put_u64(number));
        out.put_count(width);
        out.put_count(words.len());
        words.iter().for_each(|word| out.put_u64(*word));
        out.finish()
    };
    let full_reason = |watermark: u64, sessions: &[Bytes], owners: &[(u128, u64)]| {
        let mut out = Encoder::default();
        out.put_u64(watermark);
        out.put_count(sessions.len());
        sessions.iter().for_each(|session| out.put_slice(session));
        out.put_count(owners.len());
        for (owner, watermark) in owners {
            out.put_slice(&owner.to_le_bytes());
            out.put_u64(*watermark);
        }
        Sessions::decode(&mut Decoder::new(out.finish()), 66).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let reason = |sessions: &[Bytes]| full_reason(9, sessions, &[]);
    assert_eq!(full_reason(9, &[session(1, 9, 5, 5, 1, &[2]), session(2, 0, 5, 0, 0, &[])], &[(1, 3)]), "");
    assert!(reason(&[session(1, 0, 5, 0, 0, &[]), session(1, 0, 6, 0, 0, &[])]).contains("two of one client"));
    assert!(reason(&[session(1, 0, 5, 0, 1, &[1])]).contains("floor is too low"));
    assert!(reason(&[session(1, 0, 5, 0, 2, &[2, 0])]).contains("canonical form"));
    assert!(reason(&[session(1, 0, 5, 6, 0, &[])]).contains("out of range"));
    assert!(reason(&[session(1, 0, u64::MAX, 6, 0, &[])]).contains("out of range"));
    assert!(reason(&[session(1, 0, MAX_SEQUENCE - 1, 0, 1, &[2])]).contains("beyond the maximum number"));
    assert!(reason(&[session(1, 0, 5, 0, 3, &[2])]).contains("not a power of two"));
    assert!(reason(&[session(1, 0, 5, 0, 1, &[])]).contains("wide but empty"));
    assert!(reason(&[session(1, 0, 5, 0, 2048, &[2])]).contains("over the limit of 1024"));
    assert!(reason(&[session(1, 0, 5, 0, 1, &[2, 2])]).contains("over the limit of 1"));
    assert!(reason(&[session(1, 10, 5, 0, 0, &[])]).contains("above the watermarks"));
    let many: Vec<Bytes> = (1..3).map(|client| session(client, 0, 0, 0, 1024, &[2])).collect();
    assert!(reason(&many).contains("too many units"));
    let one = [session(1, 0, 5, 0, 0, &[])];
    assert!(full_reason(9, &one, &[(2, 5)]).contains("has no session"));
    assert!(full_reason(9, &one, &[(1, 0)]).contains("canonical form"));
}
