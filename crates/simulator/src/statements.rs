//! What a replica has signed, as far back as it is remembered.

use crate::trace::mix;
use quorate_types::{Attachment, Domain, Subject};

/// Views of each replica that are remembered, or slots of a view where votes go by slot; each takes the place of the one this many
/// before.
const REMEMBERED: u64 = 8192;
/// Slots by which the places of one view are moved against those of the view before, so that an earlier view's vote on a slot is not
/// forgotten for a later one's.
const SLOTS_APART: u64 = 1009;
const KINDS: usize = Domain::ALL.len();

/// The statements of one replica.
pub struct Statements {
    /// The name of a view (and slot) and kind, and a sum over what was said there. Neither is ever 0 where something was said.
    said: Vec<[u64; 2]>,
}

impl Default for Statements {
    fn default() -> Statements {
        Statements { said: vec![[0; 2]; REMEMBERED as usize * KINDS] }
    }
}

impl Statements {
    /// The replica signs; false if it has signed something else in the same view (and slot) under the same kind.
    pub fn enter(&mut self, subject: &Subject, attachment: &Attachment, by_slot: bool) -> bool {
        let Subject { domain, view, height, digest } = subject;
        let slot = if by_slot { height.0 } else { 0 };
        let number = if by_slot { slot.wrapping_add(view.0.wrapping_mul(SLOTS_APART)) } else { view.0 };
        let attached = match attachment {
            Attachment::None => 0,
            Attachment::HighView(view) => view.0 + 1,
            Attachment::HighCertificate(certificate) => mix(certificate.subject.digest.prefix(), certificate.view().0),
        };
        let place = mix(mix(1, view.0), slot) | 1;
        let said = mix(mix(digest.prefix(), height.0), attached) | 1;
        let at = (number % REMEMBERED) as usize * KINDS + *domain as usize - 1;
        let [earlier_place, earlier] = std::mem::replace(&mut self.said[at], [place, said]);
        earlier_place != place || earlier == said
    }
}
