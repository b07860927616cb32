//! Detection of a remote that may have restarted: it cannot read packets of this connection, and answers with packets
//! that cannot be decrypted.

use super::QuicMachine;
use crate::channels::Loss;
use quorate_types::Time;
use std::time::Duration;

/// Number of acknowledgement requests that a remote answers with an unreadable packet before it is considered
/// restarted.
const MAX_QUESTIONS: u32 = 4;
/// Time allowed for an answer, beyond a round trip and the maximum acknowledgement delay.
const ANSWER_SLACK: Duration = Duration::from_millis(20);

/// Doubt whether the remote still knows this connection.
pub(super) struct Doubt {
    /// Requests that were followed only by unreadable packets.
    questions: u32,
    /// Whether an unreadable packet has arrived since the last request.
    is_founded: bool,
    /// Time of the next request.
    pub next: Time,
}

impl QuicMachine {
    /// Records whether a packet was readable. If not, the remote may have restarted, and then will never acknowledge
    /// anything.
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

    /// Requests one more acknowledgement from a doubtful remote.
    fn ask(&mut self, now: Time) {
        if let (Some(doubt), Some((_, connection))) = (&mut self.doubt, &mut self.connection) {
            connection.ping();
            doubt.questions += u32::from(std::mem::take(&mut doubt.is_founded));
            doubt.next = now + connection.rtt() + self.max_ack_delay + ANSWER_SLACK;
        }
    }

    /// Sends the next request when it is due.
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
