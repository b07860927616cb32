//! Configuration of the copies of messages.

use quorate_consensus::config::ProtocolKind;
use quorate_types::settings::{Flag, REPRODUCTION};
use quorate_types::{Fault, choice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of copies of one message, besides the first.
pub const MAX_REPETITIONS: usize = 16;

choice!(
    /// Remedy for links that lose messages.
    #[derive(Default)]
    Remedy, "remedy",
    /// Only the configured copies.
    #[default]
    None = "none",
    /// PBFT: estimates the loss from the votes that arrive, and sends as many copies as the three phases then need.
    Adaptive = "adaptive",
);

/// Number of copies of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopyRules {
    /// PBFT: number of copies that a primary sends of each PRE-PREPARE, besides the first, for links that lose
    /// messages; `repeat` if that is more.
    #[schemars(range(max = MAX_REPETITIONS))]
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION).value("COPIES").rare()))]
    #[serde(alias = "repeat_pre_prepare")]
    pub pre_prepare_repeat: usize,
    /// Number of copies that a replica sends of each message of the protocol and of each reply, besides the first, for
    /// links that lose messages. Answers to requests are not copied, because the requests are repeated.
    #[schemars(range(max = MAX_REPETITIONS))]
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION).value("COPIES").rare()))]
    pub repeat: usize,
    /// PBFT: remedy for links that lose messages. `adaptive`: a replica estimates the loss from the votes that arrive,
    /// and sends enough copies, of PRE-PREPARE, of all its messages or of replies, for 99 of 100 slots to succeed at
    /// once: never fewer than `pre_prepare_repeat` and `repeat` set, and at most 4, 2 and 2.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION).rare()))]
    pub remedy: Remedy,
}

impl CopyRules {
    /// Returns whether there may be copies at any time.
    pub fn any(&self) -> bool {
        *self != CopyRules::default()
    }

    /// Checks the rules against the protocol of the replica.
    ///
    /// # Errors
    /// The key without effect.
    pub fn validate(&self, protocol: ProtocolKind) -> Result<(), Fault<&'static str>> {
        let error = |place, what: String| Err(Fault { place, what, help: "leave it out, or use `pbft`".to_owned() });
        if protocol.has_slots() {
            return Ok(());
        }
        if self.pre_prepare_repeat > 0 {
            let what = format!("is {}, but {protocol} has no PRE-PREPARE", self.pre_prepare_repeat);
            return error("pre_prepare_repeat", what);
        }
        if self.remedy != Remedy::None {
            return error("remedy", format!("is `{}`, but {protocol} has no PREPAREs to count", self.remedy));
        }
        Ok(())
    }
}
