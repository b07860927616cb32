//! What a poll does around its wait: timers, dialling, accepting, reading, writing, and the end of links.

use super::link::Reading;
use super::links::index;
use super::*;

/// Streams accepted in one poll; the rest comes with the next.
const MOST_ACCEPTED: usize = 64;
/// How long to leave the listener alone when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What readiness says of a link.
#[derive(Clone, Copy)]
struct Readiness {
    readable: bool,
    writable: bool,
    /// The remote has closed its side, so the end of the stream has no event of its own.
    closing: bool,
}

impl TcpTransport {
    /// Writes what was queued since the last poll.
    pub(super) fn flush_dirty(&mut self, events: &mut Vec<Event>) {
        for at in 0..self.dirty.len() {
            let id = self.dirty[at];
            let Some(link) = self.links.get_mut(id) else { continue };
            link.dirty = false;
            let flushed = flush(link, self.poll.registry(), &mut self.counters);
            self.memory.note(link);
            if let Err(why) = flushed {
                let mut link = self.links.take(index(id)).expect("the link was just there");
                self.read_rest(&mut link, events);
                self.end(link, why, events);
            }
        }
        self.dirty.clear();
    }

    /// Handles what the wait brought.
    pub(super) fn serve(&mut self, events: &mut Vec<Event>) {
        for id in std::mem::take(&mut self.unread) {
            if let Some(link) = self.links.get_mut(id) {
                link.unread = false;
                // Whether the remote closed meanwhile is not known any more: read on to the end to find out.
                let readiness = Readiness { readable: true, writable: false, closing: true };
                self.serve_link(index(id), readiness, events);
            }
        }
        let ready = std::mem::replace(&mut self.ready, mio::Events::with_capacity(0));
        for event in &ready {
            match event.token() {
                WAKER => {}
                Token(token) if token < MOST_DOORS => self.doors.knocked(token),
                Token(token) => {
                    let closing = event.is_read_closed() || event.is_error();
                    if closing && let Some(link) = self.links.at_mut(token - FIRST_LINK) {
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
        if self.doors.accepts_more() && self.accept_at.is_none() {
            self.accept();
        }
    }

    fn serve_link(&mut self, index: usize, readiness: Readiness, events: &mut Vec<Event>) {
        let Some(mut link) = self.links.take(index) else { return };
        match self.advance(&mut link, readiness, events) {
            Ok(()) => self.links.put(link),
            Err(why) => self.end(link, why, events),
        }
    }

    fn advance(&mut self, link: &mut Link, ready: Readiness, events: &mut Vec<Event>) -> Result<(), LinkError> {
        if link.phase == Phase::Dialling {
            if !(ready.writable || ready.closing) || !link.finish_dialling()? {
                return Ok(());
            }
            link.deadline = Instant::now() + self.config.handshake_timeout();
            self.flush(link)?;
        } else if ready.writable && link.blocked {
            link.blocked = false;
            self.flush(link)?;
        }
        if !ready.readable || link.unread {
            return Ok(());
        }
        if link.phase == Phase::Handshake {
            let authenticated = link.read_handshake(&mut self.counters);
            if link.has_outgoing() {
                // After a refusal this tells the remote why; that it may fail too changes nothing.
                let flushed = self.flush(link);
                if authenticated.is_ok() {
                    flushed?;
                }
            }
            let Some(remote) = authenticated? else { return Ok(()) };
            let remote = link.door.admits(remote)?;
            self.admit(link, remote, events)?;
        }
        if let Phase::Established(remote) = link.phase {
            self.read(link, remote, ready.closing, events)?;
        }
        Ok(())
    }

    fn flush(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let flushed = flush(link, self.poll.registry(), &mut self.counters);
        self.memory.note(link);
        flushed
    }

    fn read(
        &mut self,
        link: &mut Link,
        remote: Remote,
        closing: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), LinkError> {
        let budget = self.config.read_budget_bytes;
        let (budget, into) = match remote {
            Remote::Replica(_) | Remote::Operator(_) => (budget, events),
            Remote::Client(_) => match budget.min(self.memory.room(link)) {
                // It has left, and its frames wait in turn: nobody would read the answers.
                0 if link.has_closed => return Err(LinkError::Abandoned),
                0 => {
                    self.pause(link);
                    return Ok(());
                }
                budget => (budget, &mut self.client_events),
            },
        };
        let reading = link.read_frames(remote, budget, closing, &mut self.counters, into);
        if let Remote::Client(_) = remote {
            self.account(link)?;
        }
        if reading? == Reading::More {
            link.unread = true;
            self.unread.push(link.id);
        }
        if link.has_outgoing() && !link.blocked {
            self.flush(link)?;
        }
        Ok(())
    }

    /// Reads what a remote sent before its stream failed, within one budget.
    fn read_rest(&mut self, link: &mut Link, events: &mut Vec<Event>) {
        if let Phase::Established(remote) = link.phase {
            let budget = self.config.read_budget_bytes;
            let into = match remote {
                Remote::Replica(_) | Remote::Operator(_) => events,
                Remote::Client(_) => &mut self.client_events,
            };
            // The link ends for the error that its write met; a second one adds nothing.
            let _ = link.read_frames(remote, budget, true, &mut self.counters, into);
        }
    }

    /// Makes an authenticated link an established one, if it may be.
    fn admit(&mut self, link: &mut Link, remote: Remote, events: &mut Vec<Event>) -> Result<(), LinkError> {
        match remote {
            Remote::Client(_) => {
                self.make_place(link)?;
                link.set_frame_limit(self.config.client_frame_limit());
                self.clients += 1;
                self.client_events.push(Event::Connected { link: link.id, remote });
            }
            Remote::Operator(_) => {
                if self.operators >= MOST_OPERATORS {
                    return Err(LinkError::TooManyOperators(self.operators));
                }
                self.operators += 1;
                link.set_frame_limit(self.config.client_frame_limit());
                events.push(Event::Connected { link: link.id, remote });
            }
            Remote::Replica(replica) => {
                let Some(peer) = self.peers.get(replica.index()) else {
                    return Err(LinkError::NotMember(replica));
                };
                if link.dialled.is_none() && peer.dials {
                    return Err(LinkError::WrongDirection(replica));
                }
                if let Some(older) = peer.link {
                    let older = self.links.take(index(older)).expect("a peer's link lives");
                    self.end(older, LinkError::Replaced, events);
                }
                self.peers[replica.index()].link = Some(link.id);
                events.push(Event::Connected { link: link.id, remote });
            }
        }
        self.unauthenticated -= usize::from(link.dialled.is_none());
        link.phase = Phase::Established(remote);
        link.since = Instant::now();
        link.share.active = link.since;
        if self.sweep_at.is_none() {
            self.sweep_at = Some(link.since + self.sweep_period());
            self.due(self.sweep_at);
        }
        if let Remote::Replica(replica) = remote {
            self.send_parked(link, replica);
        }
        Ok(())
    }

    /// Queues on a new link what waited for it.
    fn send_parked(&mut self, link: &mut Link, replica: ReplicaId) {
        for frame in self.peers[replica.index()].unpark() {
            push(link, frame, self.config.link_queue_bytes, &mut self.counters, &mut self.dirty);
        }
    }

    /// Ends a link that was taken out of the table.
    pub(super) fn end(&mut self, mut link: Box<Link>, why: LinkError, events: &mut Vec<Event>) {
        // It fails only if the stream is not registered; dropping it deregisters it all the same.
        let _ = self.poll.registry().deregister(&mut link.socket);
        let now = Instant::now();
        match link.phase {
            Phase::Established(remote) => {
                let gone = Event::Disconnected { link: link.id, remote, why: why.to_string() };
                match remote {
                    Remote::Replica(replica) => {
                        let peer = &mut self.peers[replica.index()];
                        peer.link = None;
                        let proved = Duration::from_millis(self.config.reconnect_max_ms);
                        if link.frames_received > 0 || now.duration_since(link.since) > proved {
                            peer.worked();
                        }
                        events.push(gone);
                    }
                    Remote::Operator(_) => {
                        self.operators -= 1;
                        events.push(gone);
                    }
                    Remote::Client(_) => {
                        self.clients -= 1;
                        self.memory.settle(&link);
                        self.counters.clients_cut += u64::from(why.is_cut());
                        self.client_events.push(gone);
                    }
                }
            }
            Phase::Dialling | Phase::Handshake => {
                self.unauthenticated -= usize::from(link.dialled.is_none());
                let address = link.dialled.map_or(link.address.into(), |peer| self.peers[peer.index()].address.clone());
                self.refuse(address, link.dialled, why);
            }
        }
        if let Some(replica) = link.dialled {
            self.dial_later(replica, now);
        }
        self.links.release(link.id);
    }

    fn refuse(&mut self, address: Address, dialled: Option<ReplicaId>, why: LinkError) {
        if self.refusals.len() == MOST_REFUSALS {
            self.refusals.pop_front();
        }
        self.refusals.push_back(Refusal { address, dialled, why });
    }

    fn dial_later(&mut self, replica: ReplicaId, now: Instant) {
        let peer = &mut self.peers[replica.index()];
        peer.dial_later(now, &self.config);
        let due = peer.dial_at;
        self.due(due);
    }

    /// Makes sure that timers run no later than `at`.
    pub(super) fn due(&mut self, at: Option<Instant>) {
        self.next_timer = [self.next_timer, at].into_iter().flatten().min();
    }

    /// If something is due: dials, gives up handshakes, and finds the next time something is due.
    pub(super) fn run_timers(&mut self, now: Instant, events: &mut Vec<Event>) {
        if self.next_timer.is_some_and(|due| due > now) {
            return;
        }
        self.next_timer = None;
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
        }
        let late: Vec<usize> = self
            .links
            .iter()
            .filter(|link| link.remote().is_none() && link.deadline <= now)
            .map(|link| index(link.id))
            .collect();
        for index in late {
            let link = self.links.take(index).expect("the link was just there");
            let why = match link.phase {
                Phase::Dialling => LinkError::DialTimeout(self.config.dial_timeout_ms),
                _ => LinkError::HandshakeTimeout(self.config.handshake_timeout_ms),
            };
            self.end(link, why, events);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep(now, events);
            let has_links = self.links.iter().any(|link| link.remote().is_some());
            self.sweep_at = has_links.then(|| now + self.sweep_period());
        }
        for at in 0..self.peers.len() {
            if self.peers[at].dial_at.is_some_and(|due| due <= now) {
                self.peers[at].dial_at = None;
                self.dial(ReplicaId(at as u16), now);
            }
        }
        let deadlines = self.links.iter().filter(|link| link.remote().is_none()).map(|link| link.deadline);
        let dials = self.peers.iter().filter_map(|peer| peer.dial_at);
        let next = deadlines.chain(dials).chain(self.accept_at).chain(self.sweep_at).min();
        self.due(next);
    }

    /// Dials a replica: at once, or when its host's name is resolved.
    fn dial(&mut self, replica: ReplicaId, now: Instant) {
        let address = &self.peers[replica.index()].address;
        match address.socket() {
            Some(socket) => self.dial_at(replica, socket, now),
            None => {
                let (address, waker) = (address.clone(), self.waker.clone());
                // Waking fails only when the descriptor is gone, and then there is no one to wake.
                self.names.ask(replica, address, move || drop(waker.wake()));
            }
        }
    }

    /// Dials those whose names are resolved. Where name servers fail, what a name led to before still serves.
    pub(super) fn dial_resolved(&mut self) {
        let now = Instant::now();
        for (replica, answer) in self.names.take() {
            let peer = &mut self.peers[replica.index()];
            let failure = answer.map(|found| peer.known = found).err();
            match (peer.next_known(), failure) {
                (Some(socket), _) => self.dial_at(replica, socket, now),
                (None, failure) => {
                    let why = failure.unwrap_or_else(|| io::ErrorKind::NotFound.into());
                    self.dial_failed(replica, LinkError::Name(why), now);
                }
            }
        }
    }

    fn dial_at(&mut self, replica: ReplicaId, address: SocketAddr, now: Instant) {
        let side = Side::Initiator { expects: replica };
        let opened = sockets::dial(address, &self.config)
            .map_err(LinkError::Dial)
            .and_then(|socket| self.open(socket, address, side, now));
        if let Err(why) = opened {
            self.dial_failed(replica, why, now);
        }
    }

    fn dial_failed(&mut self, replica: ReplicaId, why: LinkError, now: Instant) {
        self.refuse(self.peers[replica.index()].address.clone(), Some(replica), why);
        self.dial_later(replica, now);
    }

    /// Gives a new stream its channel and its place.
    fn open(
        &mut self,
        mut socket: mio::net::TcpStream,
        address: SocketAddr,
        side: Side,
        now: Instant,
    ) -> Result<LinkId, LinkError> {
        let (dialled, interest) = match side {
            Side::Initiator { expects } => (Some(expects), Interest::READABLE | Interest::WRITABLE),
            Side::Responder => (None, Interest::READABLE),
        };
        let channel = self.channels.open(side)?;
        let id = self.links.reserve();
        if let Err(error) = self.poll.registry().register(&mut socket, Token(FIRST_LINK + index(id)), interest) {
            self.links.release(id);
            return Err(LinkError::Io(error));
        }
        let limit = match side {
            Side::Initiator { .. } => Duration::from_millis(self.config.dial_timeout_ms),
            Side::Responder => self.config.handshake_timeout(),
        };
        let deadline = now + limit;
        let mut link = Link::new(id, socket, address, dialled, channel, (now, deadline));
        if dialled.is_none() {
            link.start();
            link.dirty = link.has_outgoing();
        }
        if link.dirty {
            self.dirty.push(id);
        }
        self.links.put(Box::new(link));
        self.due(Some(deadline));
        Ok(id)
    }

    fn accept(&mut self) {
        let now = Instant::now();
        for _ in 0..MOST_ACCEPTED {
            let Some((door, accepted)) = self.doors.accept() else { return };
            let (socket, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    let address = self.doors.address(&[door]).unwrap_or(([0, 0, 0, 0], 0).into());
                    self.refuse(address.into(), None, LinkError::Io(error));
                    // The descriptor of somebody who has shown nothing serves the disk, or the next one who has.
                    let _ = self.evict_oldest(|_| true) || self.cut_idle(LinkError::Descriptors);
                    self.accept_at = Some(now + ACCEPT_PAUSE);
                    self.due(self.accept_at);
                    return;
                }
            };
            self.make_entrance(address, door);
            self.unauthenticated += 1;
            let opened = sockets::set_stream(&socket, &self.config)
                .map_err(LinkError::Io)
                .and_then(|()| self.open(socket, address, Side::Responder, now));
            match opened {
                Ok(id) => self.links.get_mut(id).expect("it was just opened").door = door,
                Err(why) => {
                    self.unauthenticated -= 1;
                    self.refuse(address.into(), None, why);
                }
            }
        }
    }
}

/// Writes what a link has, and has the socket watched if it takes no more.
fn flush(link: &mut Link, registry: &mio::Registry, counters: &mut Counters) -> Result<(), LinkError> {
    link.flush(counters)?;
    if link.blocked && !link.watches_writable {
        // It stays watched: the kernel tells of room only after it had none, so that an idle link costs nothing.
        let token = Token(FIRST_LINK + index(link.id));
        registry.reregister(&mut link.socket, token, Interest::READABLE | Interest::WRITABLE).map_err(LinkError::Io)?;
        link.watches_writable = true;
    }
    Ok(())
}
