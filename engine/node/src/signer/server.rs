//! The signer's process: accepts the replica's connections, and answers their requests.

use super::fault::SignerError;
use super::protocol::{self, Answer, FrameFault, Request};
use super::record::Record;
use bytes::Bytes;
use quorate_crypto::KeyPair;
use quorate_types::{EpochId, ReplicaId};
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of connections at the same time: the replica's, and those that it has just given up.
pub const MAX_CONNECTIONS: usize = 8;
/// Maximum time for the first message of a connection, and for writing an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Minimum time between two log messages about refused statements.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(10);
/// First descriptor that systemd passes.
const FIRST_PASSED: i32 = 3;

/// The private key of a replica's votes, and the record of its signatures.
pub struct Signer {
    pub epoch: EpochId,
    pub replica: ReplicaId,
    pub key: KeyPair,
    pub record: Record,
}

impl Signer {
    /// Answers a request of the replica.
    ///
    /// # Errors
    /// [`SignerError`] if the record cannot be written; the signer must not sign any more.
    pub fn answer(&mut self, request: &Request) -> Result<Answer, SignerError> {
        match request {
            Request::Hello { .. } => {
                let Signer { epoch, replica, key, .. } = self;
                Ok(Answer::Hello { epoch: epoch.0, replica: *replica, public_key: key.public_key() })
            }
            Request::Sign { number, unsigned } => Ok(match self.record.judge(unsigned)? {
                Ok(()) => {
                    let signature: Bytes = self.key.sign(unsigned.statement(&self.epoch).as_bytes());
                    Answer::Signed { number: *number, signature }
                }
                Err(refusal) => Answer::refused(*number, &refusal.to_string()),
            }),
        }
    }
}

/// Event of interest to an operator of a signer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignerEvent {
    Listening(PathBuf),
    /// A process of the replica's user has connected.
    Connected {
        process: i32,
    },
    Disconnected {
        process: i32,
        why: String,
    },
    /// A process of another user was turned away.
    Stranger {
        process: i32,
        user: u32,
        owner: u32,
    },
    /// There are [`MAX_CONNECTIONS`] already.
    TooMany,
    /// A statement was refused, and this many before it since the last message.
    Refused {
        why: String,
        left_out: u64,
    },
}

impl fmt::Display for SignerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignerEvent::Listening(path) => write!(f, "listens on {}", path.display()),
            SignerEvent::Connected { process } => write!(f, "process {process} has connected"),
            SignerEvent::Disconnected { process, why } => write!(f, "the connection of process {process} ended: {why}"),
            SignerEvent::Stranger { process, user, owner } => {
                write!(f, "turned away process {process} of user {user}, because the socket belongs to user {owner}")
            }
            SignerEvent::TooMany => write!(f, "turned away a process, because {MAX_CONNECTIONS} are connected"),
            SignerEvent::Refused { why, left_out } => {
                write!(f, "refused to sign {why}")?;
                match left_out {
                    0 => f.write_str("; has the replica lost its journal, or is there a second one?"),
                    more => write!(f, ", and {more} other statements since the last such message"),
                }
            }
        }
    }
}

/// Receiver of a signer's events, on any thread.
pub type Tell = Arc<dyn Fn(SignerEvent) + Send + Sync>;

/// How a signer ends: it was stopped, or failed.
pub type Ending = Result<(), SignerError>;

/// Listens on the socket that systemd passes, or else on `path`, which only the owner may use.
///
/// # Errors
/// [`SignerError`] if it cannot.
pub fn listen(path: &Path) -> Result<UnixListener, SignerError> {
    if let Some(passed) = passed()? {
        return Ok(passed);
    }
    let fail = |help| move |source| SignerError::Listen { path: path.to_owned(), source, help };
    let at_fault = "correct `socket` in [signer], and let this user write in its directory";
    if fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
        // An earlier signer left it. One that runs has the record, which is locked.
        fs::remove_file(path).map_err(fail(at_fault))?;
    }
    // SAFETY: it takes no pointer. No other thread of this process creates files with default modes.
    let umask = unsafe { libc::umask(0o177) };
    let listener = UnixListener::bind(path);
    // SAFETY: as above.
    unsafe { libc::umask(umask) };
    let listener = listener.map_err(fail(at_fault))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(fail(at_fault))?;
    Ok(listener)
}

/// Returns the socket that systemd passes to this process, if any.
fn passed() -> Result<Option<UnixListener>, SignerError> {
    let is = |name: &str, value: String| std::env::var(name).is_ok_and(|found| found == value);
    if !is("LISTEN_PID", std::process::id().to_string()) {
        return Ok(None);
    }
    let invalid = |why| SignerError::Passed(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !is("LISTEN_FDS", "1".to_owned()) {
        return Err(invalid("it is not exactly one"));
    }
    // SAFETY: takes no pointer; an unopened descriptor is an error.
    if unsafe { libc::fcntl(FIRST_PASSED, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(SignerError::Passed(io::Error::last_os_error()));
    }
    // SAFETY: systemd passes this descriptor to this process, and nothing else owns it.
    let listener = unsafe { UnixListener::from_raw_fd(FIRST_PASSED) };
    listener.set_nonblocking(false).map_err(SignerError::Passed)?;
    match listener.local_addr().map_err(SignerError::Passed)?.as_pathname() {
        Some(_) => Ok(Some(listener)),
        None => Err(invalid("it has no path")),
    }
}

/// Answers requests until `stop` receives something, or the record fails.
///
/// # Errors
/// The error that `stop` receives, or [`SignerError`] if the record or a thread fails.
pub fn serve(
    listener: UnixListener,
    signer: Signer,
    tell: &Tell,
    (end, stop): (Sender<Ending>, &Receiver<Ending>),
) -> Result<(), SignerError> {
    let path = listener.local_addr().ok().and_then(|address| address.as_pathname().map(Path::to_owned));
    let path = path.expect("it listens on a path");
    tell(SignerEvent::Listening(path.clone()));
    let shared = Arc::new(Shared {
        signer: Mutex::new(Some(signer)),
        tell: tell.clone(),
        connections: AtomicUsize::new(0),
        refusals: Mutex::default(),
        end,
        path,
    });
    let accepting = thread::Builder::new().name("accept".to_owned());
    let of_thread = shared.clone();
    accepting.spawn(move || of_thread.accept(&listener)).map_err(SignerError::Thread)?;
    let ending = stop.recv().expect("the accepting thread keeps a sender");
    // Nothing is signed from now on, and the record is released.
    drop(shared.signer.lock().map(|mut signer| signer.take()));
    ending
}

/// State of all connections.
struct Shared {
    /// `None` once it has ended.
    signer: Mutex<Option<Signer>>,
    tell: Tell,
    connections: AtomicUsize,
    refusals: Mutex<Refusals>,
    end: Sender<Ending>,
    path: PathBuf,
}

/// When a refusal was logged last, and how many were not.
#[derive(Default)]
struct Refusals {
    last: Option<Instant>,
    left_out: u64,
}

impl Shared {
    fn accept(self: Arc<Shared>, listener: &UnixListener) {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // No descriptor is left, or the peer has closed the connection.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Ok(peer) = peer_of(&stream) else { continue };
            let owner = fs::metadata(&self.path).map(|about| about.uid());
            if owner.as_ref().ok() != Some(&peer.uid) {
                let (process, user, owner) = (peer.pid, peer.uid, owner.unwrap_or(u32::MAX));
                (self.tell)(SignerEvent::Stranger { process, user, owner });
                continue;
            }
            if self.connections.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                (self.tell)(SignerEvent::TooMany);
                continue;
            }
            let shared = self.clone();
            let connected = thread::Builder::new().name("connection".to_owned()).spawn(move || {
                let process = peer.pid;
                (shared.tell)(SignerEvent::Connected { process });
                let fault = shared.attend(stream);
                shared.connections.fetch_sub(1, Ordering::SeqCst);
                (shared.tell)(SignerEvent::Disconnected { process, why: fault.to_string() });
            });
            if let Err(error) = connected {
                let _ = self.end.send(Err(SignerError::Thread(error)));
                return;
            }
        }
    }

    /// Answers the requests of a connection, and returns why it ended.
    fn attend(&self, mut stream: UnixStream) -> FrameFault {
        match self.converse(&mut stream) {
            Ok(never) => match never {},
            Err(fault) => fault,
        }
    }

    fn converse(&self, stream: &mut UnixStream) -> Result<std::convert::Infallible, FrameFault> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        loop {
            let request: Request = protocol::read(stream)?;
            let answer = {
                let mut signer = self.signer.lock().expect("a request does not panic");
                signer.as_mut().ok_or(FrameFault::Closed)?.answer(&request)
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    let _ = self.end.send(Err(error));
                    return Err(FrameFault::Closed);
                }
            };
            if let Answer::Refused { why, .. } = &answer {
                self.report(why);
            }
            protocol::write(stream, &answer)?;
            // A replica may have nothing to sign for long.
            stream.set_read_timeout(None)?;
        }
    }

    fn report(&self, why: &str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if refusals.last.is_some_and(|last| now.saturating_duration_since(last) < REFUSALS_INTERVAL) {
            refusals.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut refusals.left_out);
        refusals.last = Some(now);
        (self.tell)(SignerEvent::Refused { why: why.to_owned(), left_out });
    }
}

/// Returns the process at the other end of a connection, and its user.
fn peer_of(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of_val(&peer) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `length` bytes to a valid place, and the descriptor is open.
    match unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut peer).cast(), &raw mut length) } {
        0 => Ok(peer),
        _ => Err(io::Error::last_os_error()),
    }
}
