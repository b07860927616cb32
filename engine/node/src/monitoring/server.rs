//! The listener: accepts connections on one thread, and serves each on a thread of its own.

use super::families::{About, page};
use super::health::unreadiness;
use super::http::{self, Request, Response, TEXT};
use super::page::Format;
use super::port::{NoStatus, StatusReader};
use super::process::{Directories, Resources};
use quorate_types::HostStatus;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Maximum number of connections that are served at the same time. Others wait in the listener's queue, for at most the
/// time of two transfers, because no connection takes longer.
pub const MAX_CONNECTIONS: usize = 16;
/// Pause after an error of `accept`, such as no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time to wake the listener's thread for its end.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);
/// Stack of a thread that serves a connection, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// What the listener serves.
pub struct Pages {
    pub about: About,
    /// Directories on disk; `None` if the journal is in memory.
    pub directories: Option<Directories>,
    pub status: StatusReader,
}

impl Pages {
    /// Returns the page of a path, or 404 with the list of paths.
    pub fn respond(&self, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => self.metrics(Format::accepted(&request.accept)),
            "/healthz" => self.health(),
            "/readyz" => self.readiness(),
            "/status" => self.status(),
            _ => Response::line(404, "no such page; there are /metrics, /healthz, /readyz and /status"),
        }
    }

    fn metrics(&self, format: Format) -> Response {
        let status = match self.status.read() {
            Ok(status) => status,
            Err(why) => return unavailable(why),
        };
        let body = page(format, &self.about, &status, &Resources::read(self.directories.as_ref())).into_bytes();
        Response { status: 200, content_type: format.content_type(), body }
    }

    /// A replica that restores its state or stops is healthy: restarting it would not help.
    fn health(&self) -> Response {
        match self.status.read() {
            Ok(_) => Response::line(200, "ok"),
            Err(why @ (NoStatus::Restoring | NoStatus::Stopping)) => Response::line(200, &format!("ok: {why}")),
            Err(why @ NoStatus::Stuck) => unavailable(why),
        }
    }

    fn readiness(&self) -> Response {
        let status = match self.status.read() {
            Ok(status) => status,
            Err(why) => return unavailable(why),
        };
        let reasons = unreadiness(&status, status.host.as_deref().unwrap_or(&HostStatus::default()));
        match reasons.is_empty() {
            true => Response::line(200, "ready"),
            false => Response::line(503, &reasons.join("\n")),
        }
    }

    fn status(&self) -> Response {
        match self.status.read() {
            Ok(status) => {
                let body = serde_json::to_vec(&*status).expect("a status has a form in JSON");
                Response { status: 200, content_type: "application/json", body }
            }
            Err(why) => unavailable(why),
        }
    }
}

fn unavailable(why: NoStatus) -> Response {
    Response { status: 503, content_type: TEXT, body: format!("{why}\n").into_bytes() }
}

/// A running listener. Dropping it closes the socket; requests in progress are still answered.
pub struct MonitoringServer {
    address: SocketAddr,
    places: Arc<Places>,
    thread: Option<JoinHandle<()>>,
}

impl MonitoringServer {
    /// Serves `pages` on a listener.
    ///
    /// # Errors
    /// If the thread cannot be started, or the listener's address is unknown.
    pub fn start(listener: TcpListener, pages: Pages) -> io::Result<MonitoringServer> {
        let (address, places) = (listener.local_addr()?, Arc::new(Places::default()));
        let of_thread = places.clone();
        let accept = move || accept_all(&listener, &Arc::new(pages), &of_thread);
        let thread = thread::Builder::new().name("monitoring".into()).spawn(accept)?;
        Ok(MonitoringServer { address, places, thread: Some(thread) })
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MonitoringServer {
    fn drop(&mut self) {
        self.places.stop();
        let mut own = self.address;
        match own {
            SocketAddr::V4(address) if address.ip().is_unspecified() => own.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(address) if address.ip().is_unspecified() => own.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        // A connection ends the wait of `accept`. Without one, for example behind a firewall, the thread stays until
        // the process ends.
        if TcpStream::connect_timeout(&own, WAKE_TIMEOUT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Places of connections, which are free again when a [`Place`] is dropped.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    changed: Condvar,
    stops: AtomicBool,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free place; `None` if the listener stops.
    fn take(self: &Arc<Places>) -> Option<Place> {
        let is_full = |taken: &mut usize| *taken >= MAX_CONNECTIONS && !self.stops.load(Ordering::SeqCst);
        let mut taken = self.changed.wait_while(self.taken(), is_full).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        let place = Place(self.clone());
        drop(taken);
        (!self.stops.load(Ordering::SeqCst)).then_some(place)
    }

    fn stop(&self) {
        let _taken = self.taken();
        self.stops.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.changed.notify_all();
    }
}

fn accept_all(listener: &TcpListener, pages: &Arc<Pages>, places: &Arc<Places>) {
    while let Some(place) = places.take() {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let pages = pages.clone();
        let serve = move || {
            let _place = place;
            // Nobody is left to hear of a connection that failed.
            let _ = http::serve(stream, |request| pages.respond(request));
        };
        // Without a thread the connection is closed, and the next one may succeed.
        let _ = thread::Builder::new().name("monitor-request".into()).stack_size(STACK_BYTES).spawn(serve);
    }
}
