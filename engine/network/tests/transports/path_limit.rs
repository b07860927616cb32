//! A path that suddenly carries only short packets, without reporting it, for every packet transport and channel, in
//! virtual time: links stay up, report the limit, and carry frames of any length.

use crate::datagrams::PAIRS;
use crate::paths::connected;
use bytes::Bytes;
use quorate_network::transports::WireSettings;
use quorate_testkit::pair::{A, B, MS, Net, even, rough};
use quorate_types::Time;

/// Length of the longest packets that arrive, in bytes, excluding headers.
const SHORT_BYTES: usize = 1_200;
/// Time within which an end detects that its long packets vanish, in milliseconds.
const NOTICED_MS: u64 = 3_000;
/// Time within which it detects that they pass again, in milliseconds.
const RAISED_MS: u64 = 130_000;
/// Time between two frames, in milliseconds.
const PERIOD_MS: u64 = 100;

/// Sends a frame in each direction per period. Returns the frames.
fn exchange(net: &mut Net, from: u64, periods: u64) -> Vec<Bytes> {
    let frames: Vec<Bytes> = (from..from + periods).map(|at| at.to_le_bytes().repeat(1_500).into()).collect();
    for frame in &frames {
        net.send(A, frame.clone());
        net.send(B, frame.clone());
        net.run(PERIOD_MS, |_| false);
    }
    frames
}

fn all_came(net: &Net, frames: &[Bytes]) -> bool {
    [A, B].into_iter().all(|at| {
        let got = net.got(at);
        frames.iter().all(|frame| got.contains(frame))
    })
}

/// Loses long packets of some senders.
fn narrow(net: &mut Net, senders: &'static [usize]) {
    net.fate = Box::new(
        move |_, from, packet| {
            if senders.contains(&from) && packet.len() > SHORT_BYTES { Vec::new() } else { vec![10 * MS] }
        },
    );
}

#[test]
fn links_fall_back_to_short_packets_where_long_ones_vanish_and_return_when_they_pass() {
    for (pair, senders) in PAIRS.into_iter().flat_map(|pair| [(pair, &[A, B][..]), (pair, &[A])]) {
        let mut net = connected(pair, WireSettings::default());
        let before = exchange(&mut net, 0, 10);
        assert!(all_came(&net, &before), "{pair:?}");
        assert!(net.trace.iter().any(|(_, _, bytes)| *bytes > SHORT_BYTES), "{pair:?}: long packets pass");
        narrow(&mut net, senders);
        let cut = net.now;
        let meanwhile = exchange(&mut net, 100, NOTICED_MS / PERIOD_MS);
        for at in [A, B] {
            let changes: Vec<usize> = net.paths[at].iter().map(|(_, _, bytes)| *bytes).collect();
            let expected: &[usize] = if senders.contains(&at) { &[SHORT_BYTES] } else { &[] };
            assert_eq!(changes, expected, "{pair:?}, end {at}, from {cut:?}: {:?}", net.lost);
        }
        let after = exchange(&mut net, 200, 20);
        let repairs = pair.0.profile().repairs_losses;
        let done = net.run(10_000, |net| all_came(net, &after) && (!repairs || all_came(net, &meanwhile)));
        assert!(done, "{pair:?}: {:?}", net.lost);
        net.fate = even();
        let again = exchange(&mut net, 300, RAISED_MS / PERIOD_MS);
        for at in senders {
            let last = net.paths[*at].last().map(|(_, before, bytes)| before < bytes);
            assert_eq!(last, Some(true), "{pair:?}, end {at}: {:?}", net.paths);
        }
        net.run(1_000, |_| false);
        assert!(all_came(&net, &again) && net.lost == [None, None], "{pair:?}");
    }
}

/// Losses independent of the length, and a temporary cut of the path, cause no fallback.
#[test]
fn losses_of_any_length_change_nothing() {
    for pair in PAIRS {
        let mut net = connected(pair, WireSettings::default());
        net.fate = rough(5, 20);
        exchange(&mut net, 0, 300);
        let (from, until) = (net.now, Time(net.now.0 + 1_000 * MS));
        net.fate = Box::new(move |now, _, _| if now >= from && now < until { Vec::new() } else { vec![10 * MS] });
        exchange(&mut net, 1_000, 100);
        assert_eq!(net.paths, [vec![], vec![]], "{pair:?}");
        assert_eq!(net.lost, [None, None], "{pair:?}");
    }
}
