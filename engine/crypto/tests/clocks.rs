//! Runs of a client number their commands by a clock that may never have been set.

use quorate_crypto::{CryptoError, sequence_base};
use quorate_types::limits::SEQUENCE_STRIDE;
use std::time::{Duration, SystemTime};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn a_clock_that_was_never_set_is_refused_in_one_sentence() {
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let far_ahead = [1 << 32, 1 << 34, 1 << 40, i64::MAX as u64];
    let ahead = far_ahead.into_iter().filter_map(|s| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(s)));
    for time in [before_1970, at(0), at(1_577_836_799)].into_iter().chain(ahead) {
        let error = sequence_base(time).expect_err("the clock was never set");
        let text = error.to_string();
        assert!(matches!(error, CryptoError::Clock(_)) && text.contains("help: set the clock"), "{text}");
    }
    assert!(CryptoError::Clock(None).to_string().contains("a time before 1970"));
}

#[test]
fn later_runs_have_higher_numbers_that_fit() {
    let times = [1_577_836_800, 1_800_000_000, (1 << 32) - 1].map(at);
    let bases = times.map(|time| sequence_base(time).expect("such a clock was set"));
    assert!(bases.is_sorted() && bases[2] < 1 << 62, "{bases:?}");
    assert!(bases.iter().all(|base| base % SEQUENCE_STRIDE == 0));
    let tick = sequence_base(times[1] + Duration::from_micros(16)).expect("such a clock was set");
    assert_eq!(tick - bases[1], SEQUENCE_STRIDE, "a tick is 2^-16 s");
}
