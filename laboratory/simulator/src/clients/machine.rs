//! One client machine: the client library's load in virtual time.

use crate::charges::{Charges, nanos};
use crate::clock::NEVER;
use crate::ledger::Ledger;
use crate::oracle::Oracle;
use crate::work::Work;
use quorate_client::load::{LoadCore, LoadOptions, LoadReport, Pause, Stage, Usage};
use quorate_client::workload::Workload;
use quorate_client::{Destination, Outgoing, SessionCounters, SessionOptions};
use quorate_crypto::ClientIdentity;
use quorate_types::{Bundle, ClientRequest, ReplicaId, ReplicaReply, Time, decode_message};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// State of a machine between two iterations, if the cost table includes the wake-up delay of a sleeping thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// It has not waited since its last iteration, at this time.
    None(Time),
    /// It polls its links until this time, or until a reply arrives.
    Polls(Time),
    /// It sleeps until this time. It sees replies only in the poll after the next step.
    Sleeps(Time),
}

/// Machine that runs some or all of the clients.
pub struct Machine {
    core: LoadCore,
    replicas: u32,
    replies: VecDeque<(u16, u32, Vec<Arc<ReplicaReply>>)>,
    out: Vec<Outgoing>,
    /// Requests an iteration even if no reply or wake-up is due.
    is_called: bool,
    /// Time of the earliest scheduled wake-up.
    pub wake_known: Time,
    /// Wake-up delay. If positive, the machine waits like the load generator's thread, in polls and short sleeps. If 0,
    /// its wake-ups are precise.
    late: Duration,
    rest: Rest,
    busy_ns: u64,
    /// Everything charged so far.
    ledger: Ledger,
    /// Counters and busy time at the start and the end of the measured time.
    measured: [Option<(SessionCounters, u64)>; 2],
}

impl Machine {
    /// Returns a machine that starts its load on its own, or together with others.
    pub fn new(
        options: LoadOptions,
        session: SessionOptions,
        workload: Box<dyn Workload>,
        identity: ClientIdentity,
        is_alone: bool,
        late: Duration,
    ) -> Machine {
        let core = LoadCore::new(options, session, workload, identity);
        let mut core = core.expect("the laboratory validates a load before it is simulated");
        core.record_commits();
        if !is_alone {
            core.join_others();
        }
        Machine {
            core,
            replicas: session.quorum.replicas() as u32,
            replies: VecDeque::new(),
            out: Vec::new(),
            is_called: true,
            wake_known: NEVER,
            late,
            rest: Rest::None(Time(0)),
            busy_ns: 0,
            ledger: Ledger::default(),
            measured: [None, None],
        }
    }

    pub fn take_in(&mut self, from: usize, bytes: u32, replies: Vec<Arc<ReplicaReply>>) {
        self.replies.push_back((from as u16, bytes, replies));
    }

    /// Returns the time of the next iteration if no reply arrives.
    pub fn next_wake(&mut self) -> Time {
        match self.rest {
            Rest::Polls(until) | Rest::Sleeps(until) => until,
            Rest::None(_) if self.late.is_zero() => self.core.next_wake().unwrap_or(NEVER),
            Rest::None(_) => NEVER,
        }
    }

    /// Returns whether an iteration would have work.
    pub fn has_work(&mut self, now: Time) -> bool {
        let hears = !matches!(self.rest, Rest::Sleeps(_)) && !self.replies.is_empty();
        self.is_called || hears || self.next_wake() <= now
    }

    /// Begins to wait at the end of an iteration, unless replies have arrived. Returns whether it waits.
    pub fn rest(&mut self, now: Time) -> bool {
        let Rest::None(turn) = self.rest else { return false };
        if self.late.is_zero() || !self.replies.is_empty() {
            return false;
        }
        self.rest = match self.core.pause(turn) {
            Pause::Poll(Duration::ZERO) => Rest::Polls(now),
            Pause::Poll(timeout) => Rest::Polls(now + timeout + self.late),
            Pause::Sleep(time) => Rest::Sleeps(now + time + self.late),
        };
        true
    }

    /// Handles all replies and appends the bundles to send. Returns the duration of the iteration in nanoseconds.
    pub fn turn(
        &mut self,
        now: Time,
        charges: &Charges,
        oracle: &mut Oracle,
        sends: &mut Vec<(Option<ReplicaId>, Bundle, usize)>,
    ) -> u64 {
        self.is_called = false;
        let slept = matches!(std::mem::replace(&mut self.rest, Rest::None(now)), Rest::Sleeps(_));
        let before = self.ledger.total();
        charges.begin_turn(&mut self.ledger);
        let mut read = 0;
        while let Some((from, bytes, replies)) = if slept { None } else { self.replies.pop_front() } {
            self.ledger.charge(Work::Replies, replies.len() as u64, charges.client_reply);
            self.ledger.charge(Work::ReceivedBytes, u64::from(bytes), charges.receive_byte);
            charges.receive_frame(&mut self.ledger, u64::from(bytes));
            read |= 1u128 << (from % 128);
            if let Some(seals) = &charges.seals {
                charges.hash(&mut self.ledger, 1, u64::from(bytes));
                // As in the client library, replies that nobody awaits are not verified.
                if replies.iter().any(|reply| self.core.awaits(reply)) {
                    seals.verify(1).charge(&mut self.ledger);
                }
            }
            for reply in replies {
                self.core.receive(now, ReplicaId(from), Arc::unwrap_or_clone(reply));
            }
        }
        self.core.step(now, &mut self.out);
        let mut written = 0u128;
        for Outgoing { to, frame } in self.out.drain(..) {
            let bytes = frame.len();
            let bundle = match decode_message(frame) {
                Ok(ClientRequest::Submit(bundle)) => bundle,
                // The simulated load learns the height from replies to its bundles, so it needs no height queries.
                Ok(ClientRequest::Height { .. }) => continue,
                _ => panic!("a load sends only bundles and questions for the height"),
            };
            oracle.submitted(&bundle);
            oracle.awaits(now, &bundle);
            self.ledger.charge(Work::Commands, bundle.len() as u64, charges.client_command);
            charges.hash(&mut self.ledger, 1, bytes as u64);
            let one = match to {
                Destination::All => None,
                Destination::One(one) => Some(one),
            };
            written |= one.map_or(u128::MAX, |one| 1 << (one.0 % 128));
            let copies = if one.is_some() { 1 } else { u64::from(self.replicas) };
            self.ledger.charge(Work::Bundles, 1, charges.client_bundle);
            if bundle.authenticator().is_some() {
                charges.clients.sign(&mut self.ledger);
            }
            self.ledger.charge(Work::SentBytes, copies * bytes as u64, charges.client_send_byte);
            charges.send_frames(&mut self.ledger, copies, copies * bytes as u64);
            sends.push((one, bundle, bytes));
        }
        self.ledger.charge(Work::Reads, u64::from(u128::count_ones(read)), charges.read_call);
        let writes = u64::from(u128::count_ones(written).min(self.replicas));
        self.ledger.charge(Work::Writes, writes.min(1), charges.write_call);
        self.ledger.charge(Work::Writes, writes.saturating_sub(1), charges.client_further_write);
        let elapsed = nanos(self.ledger.total() - before);
        self.busy_ns += elapsed;
        self.observe();
        elapsed
    }

    fn observe(&mut self) {
        let (stage, [start, end]) = (self.core.stage(), &mut self.measured);
        if stage == Stage::Measure {
            start.get_or_insert_with(|| (self.core.bundles(), self.busy_ns));
        } else if stage > Stage::Measure && start.is_some() {
            end.get_or_insert_with(|| (self.core.bundles(), self.busy_ns));
        }
    }

    pub fn core(&mut self) -> &mut LoadCore {
        &mut self.core
    }

    pub fn stage(&self) -> Stage {
        self.core.stage()
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Starts the load of a machine that waits for others.
    pub fn begin(&mut self, at: Time, offset: Duration) {
        self.is_called = true;
        self.core.begin(at, offset);
    }

    pub fn stop(&mut self, now: Time) {
        self.is_called = true;
        self.core.stop(now);
    }

    /// Returns the report of the load, which must be done.
    pub fn finish(self, now: Time) -> LoadReport {
        let (bundles, busy) = match self.measured {
            [Some((first, busy_before)), Some((last, busy_after))] => {
                (last.since(&first), Duration::from_nanos(busy_after - busy_before))
            }
            _ => (SessionCounters::default(), Duration::ZERO),
        };
        let usage = Usage { cpu: busy, busy: Some(busy), ..Usage::default() };
        self.core.finish(now, usage, bundles)
    }
}
