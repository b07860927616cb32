//! Time limit of a call: `--until 45m`, `--until 18:30`, `--until "2026-12-24 06:00"`.

use quorate_operator::Interval;
use quorate_types::Fault;
use std::mem::MaybeUninit;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

const SECONDS_PER_HOUR: u64 = 3600;
/// Year from which the system counts.
const FIRST_YEAR: i32 = 1900;
const MAX_YEAR: i32 = 9999;

/// Time after which no run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Until(pub SystemTime);

impl FromStr for Until {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Until, Fault> {
        let wrong = || {
            let what = format!("`{text}` is neither a duration nor a time");
            Fault::new("--until", what, "write 45m, 8h, 18:30 or \"2026-12-24 06:00\"")
        };
        let hours = text.strip_suffix('h').and_then(|hours| hours.parse::<u64>().ok()?.checked_mul(SECONDS_PER_HOUR));
        let duration = hours.map(Duration::from_secs).or_else(|| text.parse::<Interval>().ok().map(Duration::from));
        if let Some(duration) = duration {
            return SystemTime::now().checked_add(duration).map(Until).ok_or_else(wrong);
        }
        at(text).map(Until).ok_or_else(wrong)
    }
}

/// Parses a local time, with or without a date. A time of day is the next such time.
fn at(text: &str) -> Option<SystemTime> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (Some(date), time),
        None => (None, text),
    };
    let (hour, minute) = time.split_once(':')?;
    let number = |text: &str, most: i32| text.parse::<i32>().ok().filter(|number| (0..=most).contains(number));
    let now = SystemTime::now();
    let mut when = local(now)?;
    (when.tm_hour, when.tm_min, when.tm_sec, when.tm_isdst) = (number(hour, 23)?, number(minute, 59)?, 0, -1);
    if let Some(date) = date {
        let parts: Vec<&str> = date.split('-').collect();
        let [year, month, day] = parts[..] else { return None };
        when.tm_year = number(year, MAX_YEAR)? - FIRST_YEAR;
        when.tm_mon = number(month, 12)? - 1;
        when.tm_mday = number(day, 31)?;
        return of_local(when);
    }
    match of_local(when)? {
        today if today > now => Some(today),
        _ => {
            when.tm_mday += 1;
            of_local(when)
        }
    }
}

fn local(time: SystemTime) -> Option<libc::tm> {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() as libc::time_t;
    let mut parts = MaybeUninit::uninit();
    // SAFETY: both pointers are valid during the call, which fills in the second one unless it returns null.
    unsafe { (!libc::localtime_r(&raw const seconds, parts.as_mut_ptr()).is_null()).then(|| parts.assume_init()) }
}

fn of_local(mut parts: libc::tm) -> Option<SystemTime> {
    // SAFETY: the pointer is valid during the call.
    let seconds = unsafe { libc::mktime(&raw mut parts) };
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}
