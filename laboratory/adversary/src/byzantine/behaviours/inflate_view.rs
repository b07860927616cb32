//! The fault `inflate-view`.

use crate::byzantine::kind::{Facts, Kind, number};
use crate::byzantine::lie;
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic};

/// `inflate-view`, `inflate-view=VIEWS`: increases the view in every message by this number, by default 1000. Winter et
/// al., "Randomized testing of Byzantine fault tolerant algorithms", OOPSLA 2023 (ByzzFuzz), changes numbers by small
/// amounts; some bugs in the museum need large ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InflateView {
    /// Increment of the view.
    pub by: u64,
}

impl Kind for InflateView {
    const FACTS: Facts = Facts::lies("inflate-view");
    const DEFAULT: InflateView = InflateView { by: 1000 };

    fn parse(parameter: &str) -> Result<InflateView, String> {
        Ok(InflateView { by: number(parameter, 1)? })
    }

    fn parameter(&self) -> String {
        self.by.to_string()
    }

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        self
    }
}

impl<M: Malleable> Tactic<M> for InflateView {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        let lie = sent.said().and_then(|message| lie::inflate(message, self.by));
        step.replace(sent, lie);
    }
}
