//! A replica's connection to its signer.
//!
//! A request blocks the replica's thread until the answer arrives, at most for the configured time. If it does not
//! arrive, the replica retries after a pause, so that a signer that hangs takes a fifth of the thread's time at most.

use super::protocol::{self, Answer, FrameFault, Request, Unsigned};
use bytes::Bytes;
use quorate_crypto::{MAX_KEPT_SIGNATURES, SignatureCache};
use quorate_types::digest::encode_hex;
use quorate_types::host_status::SignerStatus;
use quorate_types::{EpochId, ReplicaId};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Pause before the next attempt to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Interval at which a signer without requests is greeted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After a request without an answer, the pause is this many times as long as the wait.
const PAUSE_PER_WAIT: u32 = 4;

/// Reason why a signer does not sign.
#[derive(Debug, Error)]
pub enum RemoteFault {
    #[error("cannot connect to {}: {source}", path.display())]
    Unreachable { path: PathBuf, source: io::Error },
    #[error("{} has not answered within {} ms", path.display(), timeout.as_millis())]
    Timeout { path: PathBuf, timeout: Duration },
    #[error("{}: {fault}", path.display())]
    Frame { path: PathBuf, fault: FrameFault },
    #[error("{} has answered something else than it was asked", .0.display())]
    Confused(PathBuf),
    #[error(
        "{} signs for another {what}: {found}, not {expected}; help: correct `socket` in [signer], or start the signer \
         of this replica",
        path.display()
    )]
    Stranger { path: PathBuf, what: &'static str, found: String, expected: String },
}

impl RemoteFault {
    /// Returns whether the signer is another one, so that waiting does not help.
    pub fn is_wrong_call(&self) -> bool {
        matches!(self, RemoteFault::Stranger { .. } | RemoteFault::Frame { fault: FrameFault::Version(_), .. })
    }
}

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Signed(Bytes),
    /// The signer refuses the statement for good.
    Refused(String),
    /// There is no signer now.
    Away,
}

/// Replica for which a signer signs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Principal {
    pub epoch: EpochId,
    pub replica: ReplicaId,
    pub public_key: Bytes,
}

/// The signer of a replica's votes.
pub(crate) struct RemoteSigner {
    path: PathBuf,
    timeout: Duration,
    of: Principal,
    link: Option<UnixStream>,
    /// No attempt to connect before this time.
    retry_at: Instant,
    /// When a connection without requests is checked next.
    check_at: Instant,
    /// Since when, and why it is away.
    away: Option<(Instant, String)>,
    signed: SignatureCache,
    numbers: u64,
    refused: u64,
}

impl RemoteSigner {
    /// Connects to a signer. It may be away.
    ///
    /// # Errors
    /// [`RemoteFault`] if the signer is another replica's or another version's.
    pub fn new(path: PathBuf, timeout: Duration, of: Principal) -> Result<RemoteSigner, RemoteFault> {
        let mut signer = RemoteSigner {
            path,
            timeout,
            of,
            link: None,
            retry_at: Instant::now(),
            check_at: Instant::now(),
            away: None,
            signed: SignatureCache::new(MAX_KEPT_SIGNATURES),
            numbers: 0,
            refused: 0,
        };
        match signer.greet() {
            Err(fault) if fault.is_wrong_call() => Err(fault),
            Err(fault) => {
                signer.lose(&fault, Instant::now());
                Ok(signer)
            }
            Ok(()) => Ok(signer),
        }
    }

    /// Requests the signature of a statement, unless it is cached.
    pub fn sign(&mut self, unsigned: &Unsigned) -> Outcome {
        let statement = unsigned.statement(&self.of.epoch);
        let mut cache = std::mem::replace(&mut self.signed, SignatureCache::new(0));
        let signed = cache.get_or_try_sign(statement.as_bytes(), || match self.request(unsigned) {
            Outcome::Signed(signature) => Ok(signature),
            other => Err(other),
        });
        self.signed = cache;
        signed.map_or_else(|other| other, Outcome::Signed)
    }

    fn request(&mut self, unsigned: &Unsigned) -> Outcome {
        let begun = Instant::now();
        if self.link.is_none() && begun < self.retry_at {
            return Outcome::Away;
        }
        match self.ask(unsigned) {
            Ok(outcome) => {
                self.away = None;
                self.check_at = Instant::now() + CHECK_INTERVAL;
                outcome
            }
            Err(fault) => {
                self.lose(&fault, begun);
                Outcome::Away
            }
        }
    }

    /// Greets a signer that has signed nothing for a while, or connects again if it is away and the pause is over, so
    /// that the status is true without votes.
    pub fn check(&mut self) {
        let begun = Instant::now();
        if begun < self.due() {
            return;
        }
        self.check_at = begun + CHECK_INTERVAL;
        let checked = if self.link.is_none() { self.greet() } else { self.identify() };
        match checked {
            Ok(()) => self.away = None,
            Err(fault) => self.lose(&fault, begun),
        }
    }

    /// Returns when the next [check](RemoteSigner::check) is due.
    pub fn due(&self) -> Instant {
        if self.away.is_some() { self.retry_at } else { self.check_at }
    }

    /// Closes the connection after a fault, and schedules the next attempt.
    fn lose(&mut self, fault: &RemoteFault, begun: Instant) {
        let now = Instant::now();
        self.link = None;
        self.retry_at = now + RETRY_PAUSE.max(now.saturating_duration_since(begun) * PAUSE_PER_WAIT);
        let since = self.away.take().map_or(now, |(since, _)| since);
        self.away = Some((since, fault.to_string()));
    }

    fn ask(&mut self, unsigned: &Unsigned) -> Result<Outcome, RemoteFault> {
        if self.link.is_none() {
            self.greet()?;
        }
        self.numbers += 1;
        let number = self.numbers;
        let answer = self.exchange(&Request::Sign { number, unsigned: *unsigned })?;
        match answer {
            Answer::Signed { number: of, signature } if of == number => Ok(Outcome::Signed(signature)),
            Answer::Refused { number: of, why } if of == number => {
                self.refused += 1;
                Ok(Outcome::Refused(why))
            }
            _ => Err(RemoteFault::Confused(self.path.clone())),
        }
    }

    /// Connects, and checks for which replica the signer signs.
    fn greet(&mut self) -> Result<(), RemoteFault> {
        self.link = Some(connect(&self.path, self.timeout)?);
        self.identify()
    }

    /// Checks for which replica the connected signer signs, and thereby that it answers.
    fn identify(&mut self) -> Result<(), RemoteFault> {
        let Principal { epoch, replica, public_key } = self.of.clone();
        let answer = self.exchange(&Request::Hello { epoch: epoch.0, replica })?;
        let Answer::Hello { epoch: of_epoch, replica: of_replica, public_key: of_key } = answer else {
            return Err(RemoteFault::Confused(self.path.clone()));
        };
        let facts = [
            ("genesis", of_epoch.to_hex(), epoch.0.to_hex()),
            ("replica", of_replica.to_string(), replica.to_string()),
            ("public key", encode_hex(&of_key), encode_hex(&public_key)),
        ];
        match facts.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => {
                Err(RemoteFault::Stranger { path: self.path.clone(), what, found, expected })
            }
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Answer, RemoteFault> {
        let link = self.link.as_mut().expect("it was just connected");
        let answer = protocol::write(link, request).map_err(FrameFault::Io).and_then(|()| protocol::read(link));
        answer.map_err(|fault| match fault.is_timeout() {
            true => RemoteFault::Timeout { path: self.path.clone(), timeout: self.timeout },
            false => RemoteFault::Frame { path: self.path.clone(), fault },
        })
    }

    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Returns why the signer is away, if it is.
    pub fn why_away(&self) -> Option<&str> {
        self.away.as_ref().map(|(_, why)| why.as_str())
    }

    /// Returns the signer's part of the status, with the number of messages that wait for it.
    pub fn status(&self, waiting: usize) -> SignerStatus {
        SignerStatus {
            connected: self.away.is_none(),
            away_ms: self.away.as_ref().map_or(0, |(since, _)| since.elapsed().as_millis() as u64),
            why_away: self.why_away().unwrap_or_default().to_owned(),
            waiting_messages: waiting as u64,
            signed: self.signed.made(),
            refused: self.refused,
        }
    }
}

/// Connects to a Unix socket without waiting: a signer that hangs accepts no connections. Reads and writes of the
/// stream take at most `timeout`.
///
/// # Errors
/// [`RemoteFault::Unreachable`].
pub fn connect(path: &Path, timeout: Duration) -> Result<UnixStream, RemoteFault> {
    let connected = connect_now(path).and_then(|stream| {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(stream)
    });
    connected.map_err(|source| RemoteFault::Unreachable { path: path.to_owned(), source })
}

fn connect_now(path: &Path) -> io::Result<UnixStream> {
    // SAFETY: a structure of integers may be zero.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        let why = format!("the path is longer than {} bytes", address.sun_path.len() - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: it takes no pointer.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is valid for its length, and the descriptor is open.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket.into())
}
