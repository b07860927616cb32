//! SIGTERM, SIGINT and SIGHUP: the first signal requests a graceful stop, the second ends the process at once. In a
//! program that [reloads](when_reload), SIGHUP makes it read its configuration again.
//!
//! A program calls [`install`] once, then checks [`requested`] or subscribes with [`when_requested`]. A process without
//! a handler keeps the system's defaults; as process 1 of a container it would ignore SIGTERM. A signal that is ignored
//! when the process starts (SIGHUP under `nohup`, SIGINT in the background of a script) stays ignored.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// Base of the status that a shell reports for a process ended by a signal; the signal's number is added.
const SIGNAL_STATUS: i32 = 128;
/// Signals that request a stop.
const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// Signal that requested the stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal(i32);

impl Signal {
    /// Returns the exit status of a process ended by this signal: 143 for SIGTERM, 130 for SIGINT.
    pub fn exit_status(self) -> u8 {
        (SIGNAL_STATUS + self.0) as u8
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SIGTERM => f.write_str("SIGTERM"),
            SIGINT => f.write_str("SIGINT"),
            SIGHUP => f.write_str("SIGHUP"),
            other => write!(f, "signal {other}"),
        }
    }
}

type Callback = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Callbacks {
    next: u64,
    of_request: BTreeMap<u64, Callback>,
    of_abort: BTreeMap<u64, Callback>,
    of_reload: BTreeMap<u64, Callback>,
}

/// First signal received; 0 if none.
static REQUESTED: AtomicI32 = AtomicI32::new(0);
static CALLBACKS: Mutex<Callbacks> = Mutex::new(Callbacks {
    next: 0,
    of_request: BTreeMap::new(),
    of_abort: BTreeMap::new(),
    of_reload: BTreeMap::new(),
});

fn callbacks() -> MutexGuard<'static, Callbacks> {
    CALLBACKS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Guard that ends a subscription when dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription(u64);

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut callbacks = callbacks();
        callbacks.of_request.remove(&self.0);
        callbacks.of_abort.remove(&self.0);
        callbacks.of_reload.remove(&self.0);
    }
}

/// Installs the signal handlers for the rest of the process. A second call has no effect.
///
/// # Errors
/// If a handler or a thread cannot be installed.
pub fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    let handled: Vec<i32> = SIGNALS.into_iter().filter(|signal| *signal == SIGTERM || !is_ignored(*signal)).collect();
    let aborts = Arc::new(AtomicBool::new(false));
    for signal in handled.iter().copied() {
        // A third signal ends the process without waiting for the callbacks of the second.
        register_conditional_shutdown(signal, SIGNAL_STATUS + signal, aborts.clone())?;
    }
    let mut signals = Signals::new(handled)?;
    thread::Builder::new().name("signals".into()).spawn(move || signals.forever().for_each(|it| on(it, &aborts)))?;
    *installed = true;
    Ok(())
}

/// Handles a signal, on the thread that waits for signals.
fn on(signal: i32, aborts: &AtomicBool) {
    if signal == SIGHUP && requested().is_none() {
        let reload: Vec<Callback> = callbacks().of_reload.values().cloned().collect();
        if !reload.is_empty() {
            return reload.iter().for_each(|callback| callback());
        }
    }
    let is_first = REQUESTED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    let run: Vec<Callback> = match is_first {
        true => callbacks().of_request.values().cloned().collect(),
        false => {
            aborts.store(true, Ordering::SeqCst);
            callbacks().of_abort.values().cloned().collect()
        }
    };
    run.iter().for_each(|callback| callback());
    if !is_first {
        low_level::exit(SIGNAL_STATUS + signal);
    }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value, and the call only fills it in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Returns the signal that requested this process to stop, if any.
pub fn requested() -> Option<Signal> {
    match REQUESTED.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(Signal(signal)),
    }
}

/// Calls `callback` when the process is requested to stop, on the thread that waits for signals; immediately if that
/// has already happened. The callback must return quickly and must not subscribe.
pub fn when_requested(callback: impl Fn() + Send + Sync + 'static) -> Subscription {
    let callback: Callback = Arc::new(callback);
    let subscription = {
        let mut callbacks = callbacks();
        callbacks.next += 1;
        let id = callbacks.next;
        callbacks.of_request.insert(id, callback.clone());
        Subscription(id)
    };
    if requested().is_some() {
        callback();
    }
    subscription
}

/// Calls `callback` on each SIGHUP before a stop is requested, on the thread that waits for signals. The callback must
/// not subscribe. While there is such a subscription, SIGHUP does not request a stop.
pub fn when_reload(callback: impl Fn() + Send + Sync + 'static) -> Subscription {
    let mut callbacks = callbacks();
    callbacks.next += 1;
    let id = callbacks.next;
    callbacks.of_reload.insert(id, Arc::new(callback));
    Subscription(id)
}

/// Calls `callback` before a second signal ends the process: the last chance to clean up.
pub fn before_abort(callback: impl Fn() + Send + Sync + 'static) -> Subscription {
    let mut callbacks = callbacks();
    callbacks.next += 1;
    let id = callbacks.next;
    callbacks.of_abort.insert(id, Arc::new(callback));
    Subscription(id)
}
