//! Answers of an accepting end to strangers: no longer than their packets, and without any state kept.

use quorate_network::channels::envelope::{self, DTLS, Head, PLAIN};
use quorate_network::channels::{ChannelError, ChannelKind, Greeter, Welcome};
use quorate_types::Time;
use std::net::SocketAddr;
use std::time::Duration;

const SECRET: [u8; 32] = [9; 32];

fn greeter(kind: ChannelKind) -> Box<dyn Greeter> {
    kind.suite().greeter(SECRET)
}

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

/// Returns the token in an end's answer.
fn asked(greeter: &mut dyn Greeter, now: Time, from: SocketAddr, of: u64, channel: envelope::Named) -> u64 {
    let question = envelope::ask(of, channel);
    let Welcome::Answer(answer) = greeter.greet(now, from, &question) else { panic!("a question is answered") };
    assert!(answer.len() <= question.len());
    match envelope::head(&answer) {
        Some(Head::Answer { to, from, .. }) if to == of => from,
        other => panic!("{other:?} is no answer"),
    }
}

#[test]
fn only_the_owner_of_an_address_begins_a_connection_from_there() {
    for (kind, channel) in [(ChannelKind::PLAIN, PLAIN), (ChannelKind::DTLS, DTLS)] {
        let (mut end, now) = (greeter(kind), Time::from_millis(5_000));
        let token = asked(&mut *end, now, address(1), 7, channel);
        let later = now + Duration::from_secs(10);
        let too_late = now + Duration::from_secs(20);
        for (token, from, of, at, begins) in [
            (token, address(1), 7, now, true),
            (token, address(1), 7, later, true),
            (token, address(1), 7, too_late, false),
            (token, address(2), 7, now, false),
            (token, address(1), 8, now, false),
            (token ^ 1, address(1), 7, now, false),
            (0, address(1), 7, now, false),
        ] {
            let packet = envelope::handshake(token, of, 0).freeze();
            let welcome = end.greet(at, from, &packet);
            assert_eq!(welcome == Welcome::Begin, begins, "{kind}: token {token} of {of} from {from} at {at:?}");
        }
    }
}

#[test]
fn an_end_that_has_restarted_gives_other_tokens_and_tells_so() {
    let mut reborn = ChannelKind::PLAIN.suite().greeter([8; 32]);
    let now = Time::from_millis(1);
    let old = asked(&mut *greeter(ChannelKind::PLAIN), now, address(1), 7, PLAIN);
    let Welcome::Answer(answer) = reborn.greet(now, address(1), &envelope::handshake(old, 7, 0).freeze()) else {
        panic!("an old token is answered with a new one")
    };
    let Some(Head::Answer { to: 7, from: new, .. }) = envelope::head(&answer) else { panic!("that is no answer") };
    assert_eq!(reborn.greet(now, address(1), &envelope::handshake(new, 7, 0).freeze()), Welcome::Begin);
    let data = envelope::data(old, 0).freeze();
    assert_eq!(reborn.greet(now, address(1), &data), Welcome::Answer(envelope::reset(old)));
}

#[test]
fn other_channels_and_other_programs_are_refused_by_name() {
    let now = Time::from_millis(1);
    for (kind, other, name) in [(ChannelKind::PLAIN, DTLS, "dtls"), (ChannelKind::DTLS, PLAIN, "plain")] {
        let question = envelope::ask(7, other);
        let Welcome::Refuse(why, Some(answer)) = greeter(kind).greet(now, address(1), &question) else {
            panic!("another channel is refused")
        };
        assert_eq!((why, answer.len()), (ChannelError::PeerSpeaks(name), question.len()));
        for junk in [&[][..], &[0x40; 41], &[0x15; 15], b"GET / HTTP/1.1"] {
            assert_eq!(greeter(kind).greet(now, address(1), junk), Welcome::Refuse(ChannelError::NotQuorate, None));
        }
    }
}
