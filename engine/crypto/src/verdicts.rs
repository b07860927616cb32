//! Verdicts on client bundles that the replicas of one process share.
//!
//! A bundle's digest covers its bytes and its signature, and ZIP-215 gives each signature one verdict, so a verdict of
//! one replica holds for all. Each bundle is verified by the first replica that needs it; the others skip it, or wait
//! if they have nothing else to verify. A replica never waits while others wait for it: it verifies the bundles that it
//! has claimed and publishes the verdicts before it claims more.
//!
//! Only genuine bundles are cached, as in [`VerifiedCache`]: every replica verifies a forged one itself.

use crate::cache::VerifiedCache;
use quorate_types::Digest;
use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard};

quorate_types::choice!(
    /// Whether the replicas of one process share their verdicts on client bundles.
    #[derive(Default)]
    ClientVerdicts, "client verdicts",
    /// Each bundle is verified once per process.
    #[default]
    Shared = "shared",
    /// Each replica verifies each bundle itself, like replicas in separate processes. For comparison only.
    Own = "own",
);

/// Maximum number of bundles that a replica claims at a time. Larger batches save little, and others may have to wait
/// for them.
pub(crate) const BUNDLES_TAKEN: usize = 64;

/// Verdicts on bundles, shared by the replicas of one process. Beyond the capacity, the oldest are evicted.
pub struct SharedVerdicts {
    state: Mutex<State>,
    published: Condvar,
}

struct State {
    genuine: VerifiedCache,
    /// Bundles that a replica is verifying, at most [`BUNDLES_TAKEN`] per replica.
    taken: HashSet<Digest>,
}

impl SharedVerdicts {
    /// Creates an empty table that caches the last `bundles` genuine bundles.
    pub fn new(bundles: usize) -> SharedVerdicts {
        let state = State { genuine: VerifiedCache::new(bundles), taken: HashSet::new() };
        SharedVerdicts { state: Mutex::new(state), published: Condvar::new() }
    }

    /// Claims up to [`BUNDLES_TAKEN`] of the wanted bundles, so that no other replica verifies them at the same time.
    /// Waits while others are verifying all the wanted bundles without a verdict. Returns the indices of bundles known
    /// to be genuine, and of the claimed bundles; both are empty only if none is wanted.
    pub(crate) fn take(&self, wanted: &[Digest]) -> (Vec<usize>, Taken<'_>) {
        let mut state = self.lock();
        loop {
            let State { genuine, taken } = &mut *state;
            let known: Vec<usize> = (0..wanted.len()).filter(|at| genuine.contains(&wanted[*at])).collect();
            let is_free = |at: &usize| !taken.contains(&wanted[*at]) && known.binary_search(at).is_err();
            let at: Vec<usize> = (0..wanted.len()).filter(is_free).take(BUNDLES_TAKEN).collect();
            if wanted.is_empty() || !at.is_empty() || !known.is_empty() {
                let bundles: Vec<Digest> = at.iter().map(|at| wanted[*at]).collect();
                taken.extend(&bundles);
                return (known, Taken { verdicts: self, at, bundles });
            }
            state = self.published.wait(state).expect("nothing panics while it holds this lock");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// Bundles that one replica is verifying. Dropping it without a verdict lets others verify them.
pub(crate) struct Taken<'a> {
    verdicts: &'a SharedVerdicts,
    /// Their indices among the wanted bundles, ascending.
    pub at: Vec<usize>,
    bundles: Vec<Digest>,
}

impl Taken<'_> {
    /// Publishes the verdicts, and releases all claimed bundles.
    pub fn publish(self, is_genuine: impl Fn(&Digest) -> bool) {
        let mut state = self.verdicts.lock();
        self.bundles.iter().filter(|bundle| is_genuine(bundle)).for_each(|bundle| state.genuine.insert(*bundle));
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.bundles.is_empty() {
            return;
        }
        let mut state = self.verdicts.lock();
        for bundle in &self.bundles {
            state.taken.remove(bundle);
        }
        self.verdicts.published.notify_all();
    }
}
