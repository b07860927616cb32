//! The wait for kernel events. Client links have a separate poll, so that only the other links end the wait while
//! clients are deferred.

use super::{CLIENTS, MAX_READY};
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Waits shorter than this end on time. The kernel rounds longer ones up to whole milliseconds.
const PRECISE_BELOW: Duration = Duration::from_millis(10);

/// Two polls: one for client links, and one for everything else. Unless clients are deferred, the second watches the
/// first, so that a client link also ends its wait.
pub struct Waiting {
    others: Poll,
    clients: Poll,
    /// Whether `others` watches `clients`.
    is_watching: bool,
    /// Time for which clients' frames may stay unread.
    patience: Option<Duration>,
    /// Whether clients' links may be ready.
    has_clients: bool,
}

impl Waiting {
    pub fn new() -> io::Result<Waiting> {
        let (others, clients) = (Poll::new()?, Poll::new()?);
        let mut waiting = Waiting { others, clients, is_watching: false, patience: None, has_clients: false };
        waiting.watch_clients(true)?;
        Ok(waiting)
    }

    /// Returns the registry of everything except client links.
    pub fn registry(&self) -> &Registry {
        self.others.registry()
    }

    pub fn registry_of(&self, is_apart: bool) -> &Registry {
        if is_apart { self.clients.registry() } else { self.others.registry() }
    }

    /// Moves a stream that turned out to be a client's to the separate poll. It is watched for readability only.
    pub fn set_apart(&mut self, socket: &mut TcpStream, token: Token) -> io::Result<()> {
        self.others.registry().deregister(socket)?;
        self.clients.registry().register(socket, token, Interest::READABLE)
    }

    pub fn defer_clients(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// Notes that a client link is ready.
    pub fn on_clients(&mut self) {
        self.has_clients = true;
    }

    /// Waits for events. A signal ends the wait without any.
    pub fn wait(&mut self, ready: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        if self.patience.is_some() == self.is_watching {
            self.watch_clients(!self.is_watching)?;
        }
        let mut timeout = [timeout, self.patience].into_iter().flatten().min();
        if self.has_clients {
            timeout = Some(Duration::ZERO);
        }
        if let Some(time) = timeout.filter(|time| *time < PRECISE_BELOW && time.subsec_nanos() % 1_000_000 != 0) {
            self.wait_precisely(time)?;
            timeout = Some(Duration::ZERO);
        }
        poll(&mut self.others, ready, timeout)
    }

    /// Takes the events of client links, and returns whether there were any.
    pub fn take_clients(&mut self, ready: &mut Events) -> io::Result<bool> {
        if self.is_watching && !std::mem::take(&mut self.has_clients) {
            return Ok(false);
        }
        poll(&mut self.clients, ready, Some(Duration::ZERO))?;
        let count = ready.iter().count();
        self.has_clients = count == MAX_READY;
        Ok(count > 0)
    }

    fn watch_clients(&mut self, watch: bool) -> io::Result<()> {
        let descriptor = self.clients.as_raw_fd();
        let mut source = SourceFd(&descriptor);
        match watch {
            true => self.others.registry().register(&mut source, CLIENTS, Interest::READABLE)?,
            false => self.others.registry().deregister(&mut source)?,
        }
        self.is_watching = watch;
        Ok(())
    }

    /// Waits for events, at most for this time. The kernel's timer slack adds about 50 microseconds.
    fn wait_precisely(&self, time: Duration) -> io::Result<()> {
        let mut descriptor = libc::pollfd { fd: self.others.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: both pointers are to values that outlive the call, and there is one descriptor.
        let answer = unsafe { libc::ppoll(&raw mut descriptor, 1, &raw const time, std::ptr::null()) };
        if answer >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
    }
}

fn poll(poll: &mut Poll, ready: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    match poll.poll(ready, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            ready.clear();
            Ok(())
        }
        polled => polled,
    }
}
