//! Work of a poll before and after its wait: timers, dialling, accepting, reading, writing, and ending links.

use super::link::Reading;
use super::*;
use crate::transports::framing::FrameTooLong;
use crate::transports::links::Linked;
use crate::transports::links::index;
use quorate_types::stages::{MessageKind, Stage};
use quorate_types::{Lane, ReplicaReply, encode_message};

/// Maximum number of streams accepted per poll; the rest is left to the next.
const MAX_ACCEPTED: usize = 64;
/// Pause before accepting resumes after the process ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Readiness of a link.
#[derive(Clone, Copy)]
struct Readiness {
    readable: bool,
    writable: bool,
    /// The remote has closed its side, so no separate event reports the end of the stream.
    closing: bool,
}

impl TcpTransport {
    /// Writes frames queued since the last poll.
    pub(super) fn flush_dirty(&mut self, events: &mut Vec<Event>) {
        for at in 0..self.links.dirty.len() {
            let id = self.links.dirty[at];
            let Links { table, memory, counters, .. } = &mut self.links;
            let Some(link) = table.get_mut(id) else { continue };
            link.dirty = false;
            let flushed = flush(link, &self.poll, counters);
            memory.note(link);
            if let Err(why) = flushed {
                let mut link = table.take(index(id)).expect("the link was just there");
                self.read_rest(&mut link, events);
                self.links.end(&link, why, events);
            }
        }
        self.links.dirty.clear();
    }

    /// Writes the queue of a replica's link. Returns false if the link is not a replica's, or failed: the next poll
    /// writes or ends it.
    pub(super) fn is_written(&mut self, id: LinkId) -> bool {
        let Links { table, memory, counters, .. } = &mut self.links;
        let Some(link) = table.get_mut(id).filter(|link| matches!(link.remote(), Some(Remote::Replica(_)))) else {
            return false;
        };
        if flush(link, &self.poll, counters).is_err() {
            return false;
        }
        memory.note(link);
        link.dirty = false;
        true
    }

    /// Handles the events of the wait.
    pub(super) fn serve(&mut self, events: &mut Vec<Event>) {
        for id in std::mem::take(&mut self.links.unread) {
            if let Some(link) = self.links.table.get_mut(id) {
                link.unread = false;
                // It is not recorded whether the remote has closed, so read to the end.
                let readiness = Readiness { readable: true, writable: false, closing: true };
                self.serve_link(index(id), readiness, events);
            }
        }
        self.serve_ready(events);
        if self.listeners.accepts_more() && self.accept_at.is_none() {
            self.accept();
        }
    }

    /// Handles the events in `ready`.
    pub(super) fn serve_ready(&mut self, events: &mut Vec<Event>) {
        let ready = std::mem::replace(&mut self.ready, mio::Events::with_capacity(0));
        for event in &ready {
            match event.token() {
                WAKER => {}
                CLIENTS => self.poll.on_clients(),
                Token(token) if token < MAX_LISTENERS => self.listeners.on_connection(token),
                Token(token) => {
                    let closing = event.is_read_closed() || event.is_error();
                    if closing && let Some(link) = self.links.table.at_mut(token - FIRST_LINK) {
                        link.has_closed = true;
                    }
                    let readable = event.is_readable() || closing;
                    self.serve_link(
                        token - FIRST_LINK,
                        Readiness { readable, writable: event.is_writable(), closing },
                        events,
                    );
                }
            }
        }
        self.ready = ready;
    }

    fn serve_link(&mut self, index: usize, readiness: Readiness, events: &mut Vec<Event>) {
        let Some(mut link) = self.links.table.take(index) else { return };
        match self.advance(&mut link, readiness, events) {
            Ok(()) => self.links.table.put(link.id, link),
            Err(why) => {
                match &why {
                    LinkError::FrameTooLong(long) => self.say_why(&mut link, long),
                    // The remote's last frames may contain the reason why it ended the link.
                    LinkError::Io(_) => self.read_rest(&mut link, events),
                    _ => {}
                }
                self.links.end(&link, why, events);
            }
        }
    }

    /// Sends a client whose frame is too long the reason before its link ends, as far as its socket accepts it.
    fn say_why(&mut self, link: &mut Link, long: &FrameTooLong) {
        if let Some(Remote::Client(_)) = link.remote() {
            let [bytes, max_bytes] = [long.bytes, long.limit].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
            let why = encode_message(&ReplicaReply::FrameTooLong { bytes, max_bytes });
            link.push(why, Lane::Ordinary, self.links.config.client_queue_bytes);
            // The link ends in any case.
            let _ = self.flush(link);
        }
    }

    fn advance(&mut self, link: &mut Link, ready: Readiness, events: &mut Vec<Event>) -> Result<(), LinkError> {
        if link.phase == Phase::Dialling {
            if !(ready.writable || ready.closing) || !link.finish_dialling()? {
                return Ok(());
            }
            link.deadline = Instant::now() + self.links.config.handshake_timeout();
            self.flush(link)?;
        } else if ready.writable && link.blocked {
            link.blocked = false;
            self.flush(link)?;
        }
        if !ready.readable || link.unread {
            return Ok(());
        }
        if link.phase == Phase::Handshake {
            let authenticated = link.read_handshake(&mut self.links.counters);
            if link.has_outgoing() {
                // After a refusal, this sends the remote the reason; a failed write does not matter.
                let flushed = self.flush(link);
                if authenticated.is_ok() {
                    flushed?;
                }
            }
            let Some(remote) = authenticated? else { return Ok(()) };
            let remote = link.audience.admits(remote)?;
            self.links.admit(link, remote, events)?;
            if let Remote::Client(_) = remote {
                let token = Token(FIRST_LINK + index(link.id));
                self.poll.set_apart(&mut link.socket, token).map_err(LinkError::Io)?;
                (link.is_apart, link.watches_writable) = (true, false);
            }
        }
        if let Phase::Established(remote) = link.phase {
            self.read(link, remote, ready.closing, events)?;
        }
        Ok(())
    }

    fn flush(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let flushed = flush(link, &self.poll, &mut self.links.counters);
        self.links.memory.note(link);
        flushed
    }

    fn read(
        &mut self,
        link: &mut Link,
        remote: Remote,
        closing: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), LinkError> {
        let budget = self.links.config.read_budget_bytes;
        let (budget, into) = match remote {
            Remote::Replica(_) | Remote::Operator(_) => (budget, events),
            Remote::Client(_) => match budget.min(self.links.memory.room(link)) {
                // The remote has disconnected before its frames were served: nobody would read the answers.
                0 if link.has_closed => return Err(LinkError::Abandoned),
                0 => {
                    self.links.pause(link);
                    return Ok(());
                }
                budget => (budget, &mut self.links.client_events),
            },
        };
        let reading = {
            let _stage = stages::moving(Stage::Receive, kind_of(Some(remote), MessageKind::Request));
            let before = self.links.counters.frames_received;
            let reading = link.read_frames(remote, budget, closing, &mut self.links.counters, into);
            stages::count(self.links.counters.frames_received - before);
            reading
        };
        if let Remote::Client(_) = remote {
            self.links.account(link)?;
        }
        if reading? == Reading::More {
            link.unread = true;
            self.links.unread.push(link.id);
        }
        if link.has_outgoing() && !link.blocked {
            self.flush(link)?;
        }
        Ok(())
    }

    /// Reads data that a remote sent before its stream failed, within one read budget.
    fn read_rest(&mut self, link: &mut Link, events: &mut Vec<Event>) {
        if let Phase::Established(remote) = link.phase {
            let budget = self.links.config.read_budget_bytes;
            let into = match remote {
                Remote::Replica(_) | Remote::Operator(_) => events,
                Remote::Client(_) => &mut self.links.client_events,
            };
            // The link already ends with its write error; a read error adds nothing.
            let _ = link.read_frames(remote, budget, true, &mut self.links.counters, into);
        }
    }

    /// Fires the due timers: resumes accepting, times out handshakes and dials.
    pub(super) fn run_timers(&mut self, now: Instant, events: &mut Vec<Event>) {
        if !self.links.is_due(now) {
            return;
        }
        self.accept_at = self.accept_at.filter(|at| *at > now);
        for (replica, socket) in self.links.run_timers(now, events) {
            self.dial_at(replica, socket, now);
        }
        self.links.due(self.accept_at);
    }

    /// Dials replicas after their names were resolved.
    pub(super) fn dial_resolved(&mut self) {
        let now = Instant::now();
        for (replica, socket) in self.links.resolved(now) {
            self.dial_at(replica, socket, now);
        }
    }

    fn dial_at(&mut self, replica: ReplicaId, address: SocketAddr, now: Instant) {
        let side = Side::Initiator { expects: replica };
        let opened = sockets::dial(address, &self.tcp, &self.protocol)
            .map_err(LinkError::Dial)
            .and_then(|socket| self.open(socket, address, side, Audience::Anybody, now));
        if let Err(why) = opened {
            self.links.dial_failed(replica, why, now);
        }
    }

    /// Creates the channel and the link of a new stream.
    fn open(
        &mut self,
        mut socket: mio::net::TcpStream,
        address: SocketAddr,
        side: Side,
        audience: Audience,
        now: Instant,
    ) -> Result<(), LinkError> {
        let (dialled, interest) = match side {
            Side::Initiator { expects } => (Some(expects), Interest::READABLE | Interest::WRITABLE),
            Side::Responder => (None, Interest::READABLE),
        };
        let channel = self.channels.open(side)?;
        let id = self.links.table.reserve();
        if let Err(error) = self.poll.registry().register(&mut socket, Token(FIRST_LINK + index(id)), interest) {
            self.links.table.release(id);
            return Err(LinkError::Io(error));
        }
        let limit = match side {
            Side::Initiator { .. } => Duration::from_millis(self.links.config.dial_timeout_ms),
            Side::Responder => self.links.config.handshake_timeout(),
        };
        let deadline = now + limit;
        let state = LinkState::new(id, address, dialled, audience, now, deadline);
        let mut link = Link::new(state, socket, self.protocol, channel, self.tcp.unacknowledged_ms);
        if dialled.is_none() {
            link.start();
            link.dirty = link.has_outgoing();
        }
        if link.dirty {
            self.links.dirty.push(id);
        }
        self.links.table.put(id, Box::new(link));
        self.links.due(Some(deadline));
        Ok(())
    }

    fn accept(&mut self) {
        let now = Instant::now();
        for _ in 0..MAX_ACCEPTED {
            let Some((audience, accepted)) = self.listeners.accept() else { return };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    let address = self.listeners.address(&[audience]).unwrap_or(([0, 0, 0, 0], 0).into());
                    self.links.refuse(address.into(), None, LinkError::Io(error));
                    // Free the descriptor of a remote that has sent nothing genuine, for the disk or for a genuine
                    // client.
                    let _ = self.links.evict_oldest(|_| true) || self.links.cut_idle(LinkError::Descriptors);
                    self.accept_at = Some(now + ACCEPT_PAUSE);
                    self.links.due(self.accept_at);
                    return;
                }
            };
            self.links.on_unauthenticated(address, audience);
            let opened = sockets::set_stream(&socket, &self.tcp, &self.protocol)
                .map_err(LinkError::Io)
                .and_then(|()| self.open(socket, address, Side::Responder, audience, now));
            if let Err(why) = opened {
                self.links.turned_away(address, why);
            }
        }
    }
}

/// Writes a link's queue, and registers for writability if the socket is full.
fn flush(link: &mut Link, poll: &Waiting, counters: &mut Counters) -> Result<(), LinkError> {
    {
        let _stage = stages::moving(Stage::Send, kind_of(link.remote(), MessageKind::Reply));
        let before = counters.frames_sent;
        let flushed = link.flush(counters);
        stages::count(counters.frames_sent - before);
        flushed?;
    }
    if link.blocked && !link.watches_writable {
        // The link stays registered: the kernel reports free space only after the socket was full, so an idle link
        // costs nothing.
        let token = Token(FIRST_LINK + index(link.id));
        let registry = poll.registry_of(link.is_apart);
        registry.reregister(&mut link.socket, token, Interest::READABLE | Interest::WRITABLE).map_err(LinkError::Io)?;
        link.watches_writable = true;
    }
    Ok(())
}

/// Returns the message kind to which I/O on a link is attributed: `of_client` for clients. One read or write of a
/// replica's link moves messages of several kinds.
fn kind_of(remote: Option<Remote>, of_client: MessageKind) -> MessageKind {
    match remote {
        Some(Remote::Client(_)) => of_client,
        _ => MessageKind::None,
    }
}
