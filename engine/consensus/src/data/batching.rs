//! A leader's decisions on when to propose, immediately or after waiting for a fuller block, and how much.

use crate::config::{BatchPolicy, Config, Dissemination, MAX_WAIT_DIVISOR};
use crate::data::naming::Naming;
use crate::data::pace::Pace;
use crate::data::sizing::Sizing;
use quorate_types::limits::MAX_BLOCK_BUNDLES;
use quorate_types::{Bundle, Time};
use std::time::Duration;

/// A leader's decision whether to propose now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Propose the pending commands.
    Propose,
    /// Propose a block without commands, which commits earlier blocks.
    Confirm,
    /// Wait this long for more commands.
    Wait(Duration),
    /// Nothing to propose and nothing to commit.
    Rest,
}

/// Input of a leader's decision.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Number of pending commands.
    pub pending: usize,
    /// Bytes of the pending bundles.
    pub pending_bytes: usize,
    /// Whether blocks with commands are uncommitted, so that further blocks are needed to commit them.
    pub uncommitted: bool,
    /// Time since which this leader could have proposed.
    pub ready_since: Time,
}

/// Maximum load of a block with several bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    pub commands: usize,
    /// Bytes of the bundles.
    pub bytes: usize,
    pub bundles: usize,
}

impl Room {
    /// Room of a block without commands.
    pub const NONE: Room = Room { commands: 0, bytes: 0, bundles: 0 };
}

/// Batching policy of a leader.
pub struct Batching {
    policy: BatchPolicy,
    room: Room,
    wait: Duration,
    longest: Duration,
    clients_send_to_all: bool,
    waiting_since: Option<Time>,
    /// Distance between blocks, if leaders size their blocks.
    pace: Option<Pace>,
    /// Limit on the commands sent with proposals, if leaders size their blocks and send the commands.
    sizing: Option<Sizing>,
    /// Limit on the bundles that a block names, if leaders size their blocks.
    naming: Option<Naming>,
}

impl Batching {
    pub fn new(config: &Config) -> Self {
        let (policy, wait) = config.batch_policy();
        let sizes_itself = config.batch.is_auto();
        let carries = config.dissemination == Dissemination::Leader;
        Batching {
            policy: if sizes_itself { BatchPolicy::Eager } else { policy },
            room: Room { commands: config.batch.max_commands(), bytes: config.batch_bytes, bundles: MAX_BLOCK_BUNDLES },
            wait,
            longest: config.view_timeout() / MAX_WAIT_DIVISOR,
            clients_send_to_all: config.dissemination == Dissemination::Client,
            waiting_since: None,
            pace: sizes_itself.then(|| Pace::new(config)),
            sizing: (sizes_itself && carries).then(|| Sizing::new(config)),
            naming: sizes_itself.then(|| Naming::new(config)),
        }
    }

    /// Returns the maximum load of the next block.
    pub fn room(&self) -> Room {
        let carried = self.sizing.as_ref().map_or(usize::MAX, Sizing::carried_bytes);
        let named = self.naming.as_ref().map_or(MAX_BLOCK_BUNDLES, Naming::limit);
        Room { bytes: self.room.bytes.min(carried), bundles: self.room.bundles.min(named), ..self.room }
    }

    /// Records the arrival of commands.
    pub fn on_arrival(&mut self, now: Time, commands: usize) {
        self.waiting_since.get_or_insert(now);
        if let Some(pace) = &mut self.pace {
            pace.on_arrival(now, commands);
        }
    }

    /// Records a block with commands from any leader. If commands are held back, returns when to set their alarm again.
    pub fn on_block(&mut self, now: Time) -> Option<Duration> {
        self.pace.as_mut()?.on_block(now)
    }

    /// Records a proposal for a view or slot higher than all earlier ones. It contains `carried`, and leaves `pending`
    /// commands.
    pub fn on_proposal(&mut self, now: Time, number: u64, carried: &[Bundle], pending: usize) {
        self.waiting_since = (pending > 0).then_some(now);
        if let Some(sizing) = &mut self.sizing {
            sizing.on_proposal(now, number, carried.iter().map(|bundle| bundle.body().len()).sum());
        }
    }

    /// Records that all views or slots up to `number` are over, the last one with a certificate of a block that names
    /// this many bundles.
    pub fn on_certificate(&mut self, now: Time, number: u64, named: usize) {
        if let Some(naming) = &mut self.naming {
            naming.on_certificate(named);
        }
        if let Some(sizing) = &mut self.sizing {
            sizing.on_certificate(now, number);
        }
    }

    /// Records that a view timed out while `open` received bundles were not executed.
    pub fn on_timeout(&mut self, open: usize) {
        if let Some(naming) = &mut self.naming {
            naming.on_timeout(open);
        }
        if let Some(sizing) = &mut self.sizing {
            sizing.on_timeout();
        }
    }

    /// Decides whether to propose now.
    pub fn decide(&mut self, now: Time, situation: Situation) -> Decision {
        if situation.pending == 0 {
            return if situation.uncommitted { Decision::Propose } else { Decision::Rest };
        }
        if let Some(pace) = &mut self.pace {
            return match pace.hold(now, situation.pending, situation.pending_bytes) {
                None => Decision::Propose,
                Some(_) if situation.uncommitted => Decision::Confirm,
                Some(time) => Decision::Wait(time),
            };
        }
        // Commands returned from an abandoned block did not arrive just now: they have waited since this leader could
        // propose.
        let waited = now.since(self.waiting_since.unwrap_or(situation.ready_since));
        let (waited, patience) = match self.policy {
            BatchPolicy::Eager => return Decision::Propose,
            BatchPolicy::Full => (now.since(situation.ready_since), self.longest),
            BatchPolicy::Timed => (waited, self.wait),
        };
        match situation.pending >= self.room.commands || waited >= patience {
            true => Decision::Propose,
            false => Decision::Wait(patience - waited),
        }
    }

    /// Returns how long a replica that does not lead may leave clients' frames unread; `None` if it needs them now.
    pub fn patience(&self, now: Time) -> Option<Duration> {
        self.pace.as_ref().filter(|_| self.clients_send_to_all)?.patience(now)
    }

    /// Checks the invariants after a step.
    pub fn invariants(&self) {
        if let Some(sizing) = &self.sizing {
            sizing.invariants();
        }
        if let Some(naming) = &self.naming {
            naming.invariants();
        }
    }
}
