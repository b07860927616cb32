//! Reasons to ignore a message.

use std::fmt::{self, Write};

/// Reason for ignoring a message; counted by kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Drop {
    /// The sender is not in the committee.
    Stranger,
    /// The vote or proposal belongs to another replica, but was sent as the sender's own.
    NotTheSender,
    /// Its view or height has passed.
    Stale,
    /// A vote beyond the quorum.
    Late,
    /// Its view is too far in the future.
    TooFarAhead,
    /// It contains no evidence that its view has begun.
    ViewNotJustified,
    /// Its parts are inconsistent.
    Malformed,
    /// Its block exceeds the commands or bytes allowed by `batch` and `batch_bytes`.
    TooLarge,
    /// Its sender does not lead that view.
    NotTheLeader,
    /// It repeats an earlier message.
    Repeated,
    /// It contradicts an earlier statement of the sender.
    Contradiction,
    /// It contains an invalid certificate or signature.
    NotGenuine,
    PoolFull,
    /// It lists bundles that did not arrive in time.
    BundlesMissing,
    /// It has expired, or will before it can be ordered.
    Expired,
    /// It does not answer a request.
    Unasked,
    /// Too much work for its sender is already pending.
    Overload,
    /// It proposes a block with a time further ahead of this replica's clock than `max_clock_skew_ms`.
    TimeAhead,
    /// It proposes a block with a time too far behind this replica's clock.
    TimeBehind,
}

impl Drop {
    pub const ALL: [Drop; 19] = [
        Drop::Stranger,
        Drop::NotTheSender,
        Drop::Stale,
        Drop::Late,
        Drop::TooFarAhead,
        Drop::ViewNotJustified,
        Drop::Malformed,
        Drop::TooLarge,
        Drop::NotTheLeader,
        Drop::Repeated,
        Drop::Contradiction,
        Drop::NotGenuine,
        Drop::PoolFull,
        Drop::BundlesMissing,
        Drop::Expired,
        Drop::Unasked,
        Drop::Overload,
        Drop::TimeAhead,
        Drop::TimeBehind,
    ];
}

/// Formats the key used in statuses and reports: `not-the-leader` for [`Drop::NotTheLeader`].
impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in format!("{self:?}").char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                f.write_char('-')?;
            }
            f.write_char(letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}
