//! Time limits of calls.

use quorate_runner::until::Until;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Hour that a change of daylight saving time may add to a day.
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_limit_is_a_duration_or_the_next_such_time() {
    let now = SystemTime::now();
    for (text, seconds) in [("90s", 90), ("45m", 45 * 60), ("8h", 8 * 3600)] {
        let Until(at) = text.parse().expect(text);
        let late = at.duration_since(now + Duration::from_secs(seconds)).expect("it is not earlier");
        assert!(late < HOUR, "{text}: {late:?}");
    }
    for text in ["00:00", "12:30", "23:59"] {
        let Until(at) = text.parse().expect(text);
        assert!(at > now && at <= SystemTime::now() + DAY + HOUR, "{text}: {at:?}");
    }
    let Until(newer) = "2031-01-02 06:00".parse().expect("a date");
    let Until(older) = "2031-01-01T06:00".parse().expect("a date");
    assert_eq!(newer.duration_since(older).expect("it is later"), DAY);
    for wrong in ["", "soon", "90", "-5m", "25:00", "12:60", "2031-01 06:00", "2031-13-01 06:00", "12:30:10"] {
        let said = wrong.parse::<Until>().expect_err(wrong).to_string();
        assert!(said.contains(&format!("`{wrong}` is neither a duration nor a time")), "{said}");
    }
}
