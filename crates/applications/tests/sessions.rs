//! The session table against a naive model, at the window's edges, and under eviction.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_applications::session::{Admission, SESSION_WINDOW, Sessions};
use quorate_types::{ClientId, Decoder, Encoder, Wire};
use std::collections::BTreeSet;

/// Sessions as sets, the least recently used first.
#[derive(Default)]
struct Model(Vec<(u64, BTreeSet<u64>)>);

impl Model {
    fn admit(&mut self, limit: usize, client: u64, sequence: u64) -> Admission {
        let (_, mut executed) = match self.0.iter().position(|(known, _)| *known == client) {
            Some(at) => self.0.remove(at),
            None => {
                if self.0.len() == limit {
                    self.0.remove(0);
                }
                (client, BTreeSet::new())
            }
        };
        let floor = (1..).take_while(|number| executed.contains(number)).last().unwrap_or(0);
        let admission = if sequence == 0 || sequence > floor + SESSION_WINDOW {
            Admission::Refused
        } else if executed.insert(sequence) {
            Admission::Fresh
        } else {
            Admission::Duplicate
        };
        self.0.push((client, executed));
        admission
    }

    fn has_executed(&self, client: u64, sequence: u64) -> bool {
        self.0.iter().any(|(known, executed)| *known == client && executed.contains(&sequence))
    }
}

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
        1 => SESSION_WINDOW - 3..SESSION_WINDOW + 20,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

proptest! {
    #[test]
    fn sessions_match_the_model(
        limit in 1usize..6,
        steps in prop::collection::vec((0u64..8, sequence()), 1..400),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut sessions, mut model) = (Sessions::with_limit(limit), Model::default());
        let cut = cut.index(steps.len());
        for (at, (client, sequence)) in steps.into_iter().enumerate() {
            if at == cut {
                let bytes = snapshot(&sessions);
                sessions = restored(bytes.clone(), limit);
                prop_assert_eq!(snapshot(&sessions), bytes);
            }
            let has_executed = model.has_executed(client, sequence);
            prop_assert_eq!(sessions.has_executed(ClientId(client.into()), sequence), has_executed);
            let expected = model.admit(limit, client, sequence);
            prop_assert_eq!(sessions.admit(ClientId(client.into()), sequence), expected, "{}:{}", client, sequence);
            prop_assert_eq!(sessions.len(), model.0.len());
        }
    }

    #[test]
    fn a_permuted_window_is_executed_once(order in Just((1u64..=600).collect::<Vec<_>>()).prop_shuffle()) {
        let mut sessions = Sessions::with_limit(1);
        for sequence in &order {
            prop_assert_eq!(sessions.admit(ClientId(7), *sequence), Admission::Fresh);
        }
        for sequence in &order {
            prop_assert_eq!(sessions.admit(ClientId(7), *sequence), Admission::Duplicate);
        }
        let mut ascending = Sessions::with_limit(1);
        (1..=600).for_each(|sequence| assert_eq!(ascending.admit(ClientId(7), sequence), Admission::Fresh));
        prop_assert_eq!(snapshot(&sessions), snapshot(&ascending), "the order of execution leaves no trace");
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
fn the_window_is_filled_in_reverse_and_moves_on() {
    let mut sessions = Sessions::with_limit(2);
    let client = ClientId(1);
    assert_eq!(sessions.admit(client, SESSION_WINDOW + 1), Admission::Refused);
    for sequence in (1..=SESSION_WINDOW).rev() {
        assert_eq!(sessions.admit(client, sequence), Admission::Fresh);
    }
    assert_eq!(sessions.admit(client, 2 * SESSION_WINDOW + 1), Admission::Refused);
    assert_eq!(sessions.admit(client, 2 * SESSION_WINDOW), Admission::Fresh);
    assert_eq!(sessions.admit(client, 2 * SESSION_WINDOW), Admission::Duplicate);
    assert_eq!(sessions.admit(client, SESSION_WINDOW + 1), Admission::Fresh);
    assert_eq!(sessions.admit(client, 2 * SESSION_WINDOW + 1), Admission::Fresh);
    let bytes = snapshot(&sessions);
    assert_eq!(snapshot(&restored(bytes.clone(), 2)), bytes);
}

#[test]
fn the_last_numbers_there_are_do_not_overflow() {
    let mut out = Encoder::default();
    out.put_count(1);
    ClientId(9).encode(&mut out);
    out.put_u64(u64::MAX - 2);
    out.put_count(0);
    let bytes = out.finish();
    let mut sessions = restored(bytes, 1);
    assert_eq!(sessions.admit(ClientId(9), u64::MAX), Admission::Fresh);
    assert_eq!(sessions.admit(ClientId(9), u64::MAX), Admission::Duplicate);
    assert_eq!(sessions.admit(ClientId(9), u64::MAX - 1), Admission::Fresh);
    assert_eq!(sessions.admit(ClientId(9), 0), Admission::Refused);
    assert_eq!(sessions.admit(ClientId(9), 1), Admission::Duplicate);
}

#[test]
fn the_least_recently_used_session_is_evicted() {
    let mut sessions = Sessions::with_limit(3);
    for client in [1, 2, 3, 1] {
        sessions.admit(ClientId(client), 1);
    }
    assert_eq!(sessions.admit(ClientId(4), 1), Admission::Fresh, "evicts client 2");
    assert_eq!(sessions.admit(ClientId(1), 1), Admission::Duplicate);
    assert_eq!(sessions.admit(ClientId(3), 1), Admission::Duplicate);
    assert_eq!(sessions.admit(ClientId(2), 1), Admission::Fresh, "an evicted client is a stranger");
    assert_eq!(sessions.admit(ClientId(4), 1), Admission::Fresh, "and its return evicted client 4");
    assert_eq!(sessions.len(), 3);
}

#[test]
fn snapshots_that_nobody_wrote_are_refused() {
    let session = |client, floor: u64, words: &[u64]| {
        let mut out = Encoder::default();
        ClientId(client).encode(&mut out);
        out.put_u64(floor);
        out.put_count(words.len());
        words.iter().for_each(|word| out.put_u64(*word));
        out.finish()
    };
    let reason = |sessions: &[Bytes]| {
        let mut out = Encoder::default();
        out.put_count(sessions.len());
        sessions.iter().for_each(|session| out.put_slice(session));
        Sessions::decode(&mut Decoder::new(out.finish()), 2).err().expect("it is refused").to_string()
    };
    assert!(reason(&[session(1, 5, &[]), session(1, 6, &[])]).contains("a client has two"));
    assert!(reason(&[session(1, 5, &[1])]).contains("floor is too low"));
    assert!(reason(&[session(1, 5, &[2, 0])]).contains("shortest form"));
    assert!(reason(&[session(1, u64::MAX - 1, &[2])]).contains("beyond the last number"));
    assert!(reason(&[session(1, 0, &[]), session(2, 0, &[]), session(3, 0, &[])]).contains("over the limit of 2"));
    assert!(reason(&[session(1, 0, &vec![2; 1025])]).contains("over the limit of 1024"));
}
