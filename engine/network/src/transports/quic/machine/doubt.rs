//! Doubt about a remote that may have restarted: it cannot read packets of this connection, and says so in packets that
//! nobody can read.

use super::QuicMachine;
use crate::channels::Loss;
use quorate_types::Time;
use std::time::Duration;

/// Questions that a doubtful remote answers with an unreadable packet before it counts as restarted.
const MAX_QUESTIONS: u32 = 4;
/// Time for the answer to a question, beyond a round trip and the longest delay of an acknowledgement.
const ANSWER_SLACK: Duration = Duration::from_millis(20);

/// Doubt whether the remote still knows this connection.
pub(super) struct Doubt {
    /// Questions after which unreadable packets came, and no other.
    questions: u32,
    /// An unreadable packet has come since the last question.
    is_founded: bool,
    /// Time of the next question.
    pub next: Time,
}

impl QuicMachine {
    /// Notes whether a packet was readable. If it was not, the remote may have restarted: then it never answers.
    pub(super) fn judge(&mut self, now: Time, is_short: bool) {
        let Some((_, connection)) = self.connection.as_mut().filter(|_| self.remote.is_some()) else { return };
        let frames = connection.stats().frame_rx;
        let received =
            [frames.acks, frames.stream, frames.datagram, frames.ping, frames.max_data, frames.max_stream_data];
        let received: u64 = received.iter().sum();
        if received != self.received {
            self.received = received;
            self.doubt = None;
        } else if is_short {
            match &mut self.doubt {
                Some(doubt) => doubt.is_founded = true,
                None => {
                    self.doubt = Some(Doubt { questions: 0, is_founded: false, next: now });
                    self.ask(now);
                }
            }
        }
    }

    /// Asks a doubtful remote once more for an acknowledgement.
    fn ask(&mut self, now: Time) {
        if let (Some(doubt), Some((_, connection))) = (&mut self.doubt, &mut self.connection) {
            connection.ping();
            doubt.questions += u32::from(std::mem::take(&mut doubt.is_founded));
            doubt.next = now + connection.rtt() + self.max_ack_delay + ANSWER_SLACK;
        }
    }

    /// Asks again when it is time.
    ///
    /// # Errors
    /// [`Loss::Restarted`] if every answer was unreadable.
    pub(super) fn doubt_further(&mut self, now: Time) -> Result<(), Loss> {
        if let Some(doubt) = self.doubt.as_ref().filter(|doubt| doubt.next <= now) {
            if doubt.questions + u32::from(doubt.is_founded) >= MAX_QUESTIONS {
                return Err(Loss::Restarted);
            }
            self.ask(now);
        }
        Ok(())
    }
}
