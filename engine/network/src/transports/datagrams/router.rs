//! Assignment of packets to connections.

use crate::channels::{ChannelError, Detour, Greeter, Machine, Welcome};
use crate::transports::LinkId;
use bytes::Bytes;
use quorate_types::Time;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Decision about a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Pass it to the machine of this connection.
    To(LinkId),
    /// It names this connection, but comes from another address.
    Detour(LinkId, Detour),
    /// It begins a connection.
    Begin,
    /// Answer it without keeping state.
    Answer(Bytes),
    /// Reject its sender, with an answer if it understands one.
    Refuse(ChannelError, Option<Bytes>),
    Drop,
}

/// Connections by socket and remote address.
///
/// A packet belongs to the connection whose token or connection ID it carries. One that belongs to none goes to the
/// [`Greeter`], so a sender that has not proved its address owns no entry. An established connection is also found by
/// its connection ID, if its remote may move to another address.
pub struct Router {
    greeter: Box<dyn Greeter>,
    routes: HashMap<(usize, SocketAddr), Vec<LinkId>>,
    /// Established connections by socket and connection ID, with the remote's address.
    names: HashMap<(usize, u64), (LinkId, SocketAddr)>,
}

impl Router {
    pub fn new(greeter: Box<dyn Greeter>) -> Router {
        Router { greeter, routes: HashMap::new(), names: HashMap::new() }
    }

    /// Adds a connection to the `live` ones, and removes the ended ones at its address, or all ended ones once they are
    /// the majority.
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
        if self.names.len() > 2 * live + 1 {
            self.names.retain(|_, (id, _)| is_live(*id));
        }
    }

    /// Records that a connection is established, and the connection ID in its packets.
    pub fn name(&mut self, port: usize, address: SocketAddr, id: LinkId, name: u64) {
        self.names.insert((port, name), (id, address));
    }

    /// Records that the remote of a connection has moved to another address.
    pub fn moved(&mut self, port: usize, from: SocketAddr, to: SocketAddr, id: LinkId, name: Option<u64>) {
        self.remove(port, from, id);
        self.routes.entry((port, to)).or_default().push(id);
        if let Some(name) = name {
            self.name(port, to, id, name);
        }
    }

    pub fn remove(&mut self, port: usize, address: SocketAddr, id: LinkId) {
        if let Some(ids) = self.routes.get_mut(&(port, address)) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.routes.remove(&(port, address));
            }
        }
    }

    /// Decides about a packet received from an address by a socket. `accepts` says whether the socket takes new
    /// connections; `machine` returns the machine of a connection, if it still exists.
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
        let elsewhere = || {
            let name = self.greeter.named(packet)?;
            let (id, home) = *self.names.get(&(port, name))?;
            machine(id).filter(|machine| home != from && machine.name() == Some(name))?;
            Some(Route::Detour(id, Detour { from, home, proofs: self.greeter.proofs(now, from, name) }))
        };
        if let Some(route) = owner.map(Route::To).or_else(elsewhere) {
            return route;
        }
        if !accepts {
            return Route::Drop;
        }
        match self.greeter.greet(now, from, packet) {
            Welcome::Ignore => Route::Drop,
            Welcome::Answer(answer) => Route::Answer(answer),
            Welcome::Refuse(why, answer) => Route::Refuse(why, answer),
            Welcome::Begin => Route::Begin,
        }
    }
}
