//! Which connection a packet belongs to.

use crate::LinkId;
use bytes::Bytes;
use quorate_channels::{ChannelError, Greeter, Machine, Welcome};
use quorate_types::Time;
use std::collections::HashMap;
use std::net::SocketAddr;

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// It goes to the machine of this connection.
    To(LinkId),
    /// It begins a connection.
    Begin,
    /// It is answered, and nothing is kept of it.
    Answer(Bytes),
    /// Its sender is rejected, with an answer if it can be told.
    Refuse(ChannelError, Option<Bytes>),
    /// It is dropped.
    Drop,
}

/// Connections by socket and remote address.
///
/// A packet belongs to the connection whose token or connection ID it carries. One that belongs to none is judged by
/// the [`Greeter`], so whoever has not proved its address owns no entry.
pub struct Router {
    greeter: Box<dyn Greeter>,
    routes: HashMap<(usize, SocketAddr), Vec<LinkId>>,
}

impl Router {
    pub fn new(greeter: Box<dyn Greeter>) -> Router {
        Router { greeter, routes: HashMap::new() }
    }

    /// Adds a connection to the `live` ones, and removes those at its address that have ended; all of those that have
    /// ended, once they are the majority.
    pub fn add(&mut self, port: usize, address: SocketAddr, id: LinkId, live: usize, is_live: impl Fn(LinkId) -> bool) {
        let ids = self.routes.entry((port, address)).or_default();
        ids.retain(|id| is_live(*id));
        ids.push(id);
        if self.routes.len() > 2 * live + 1 {
            self.routes.retain(|_, ids| {
                ids.retain(|id| is_live(*id));
                !ids.is_empty()
            });
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, port: usize, address: SocketAddr, id: LinkId) {
        if let Some(ids) = self.routes.get_mut(&(port, address)) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.routes.remove(&(port, address));
            }
        }
    }

    /// Returns what becomes of a packet that came from an address to a socket. `accepts` says whether the socket takes
    /// new connections, and `machine` returns the machine of a connection, if it still exists.
    pub fn route<'a>(
        &mut self,
        now: Time,
        (port, from): (usize, SocketAddr),
        packet: &[u8],
        accepts: bool,
        machine: impl Fn(LinkId) -> Option<&'a dyn Machine>,
    ) -> Route {
        let ids = self.routes.get(&(port, from)).map_or(&[][..], Vec::as_slice);
        let newest =
            |fits: &dyn Fn(&dyn Machine) -> bool| ids.iter().rev().copied().find(|id| machine(*id).is_some_and(fits));
        let owner = newest(&|machine| machine.claims(packet)).or_else(|| newest(&|machine| machine.heeds(packet)));
        match owner {
            Some(id) => Route::To(id),
            None if accepts => match self.greeter.greet(now, from, packet) {
                Welcome::Ignore => Route::Drop,
                Welcome::Answer(answer) => Route::Answer(answer),
                Welcome::Refuse(why, answer) => Route::Refuse(why, answer),
                Welcome::Begin => Route::Begin,
            },
            None => Route::Drop,
        }
    }
}
