//! Resumption of TLS sessions when an end reconnects (RFC 8446, section 2.2).
//!
//! **What resumption saves.** The accepting end's signature with its process key, and its verification by the other
//! end. Both still agree on fresh keys (`psk_dhe_ke`, the only mode of the library), so recorded traffic stays secret
//! if a session is stolen later, and nothing is sent before the other end has answered (no 0-RTT).
//!
//! **What it does not save.** The committee's handshake. It runs inside each connection, with fresh nonces, and alone
//! decides who is admitted. It stays bound to the accepting end's key: that end proved the key in the handshake that
//! produced the session's secret, and only the two ends know this secret. So a resumed session proves the key as the
//! first one did, and the dialling end takes the key from the session.
//!
//! **Where sessions are kept.** Only in the memory of the two ends. An accepting end issues one ticket per connection,
//! a random number without content, and accepts it once. If it has restarted, has evicted the session, or has accepted
//! the ticket before, the connection begins with a full handshake.

use crate::channels::ChannelError;
use crate::channels::tls::Shared;
use rustls::client::Resumption;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::{ClientConfig, ServerConfig};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum number of replicas whose sessions a dialling end keeps.
const MAX_DIALLED: usize = 128;
/// Maximum number of sessions that the library keeps for each of these replicas.
const SESSIONS_EACH: usize = 8;
/// Maximum number of sessions that an accepting end keeps. A further session evicts the oldest, which then cannot be
/// resumed. Strangers can cause evictions, and so force full handshakes on others.
pub const MAX_ACCEPTED_SESSIONS: usize = 1_024;
/// Number of tickets that an accepting end issues per connection.
const TICKETS: usize = 1;

/// TLS sessions of one local end. By default none are kept.
#[derive(Clone, Default)]
pub struct Sessions(Option<Arc<Kept>>);

/// Configurations with a session cache, created on first use.
#[derive(Default)]
struct Kept {
    client: OnceLock<Result<Arc<ClientConfig>, ChannelError>>,
    server: OnceLock<Result<Arc<ServerConfig>, ChannelError>>,
    taken: Arc<AtomicU64>,
}

impl Sessions {
    /// Creates session caches for an end that both dials and accepts.
    pub fn kept() -> Sessions {
        Sessions(Some(Arc::default()))
    }

    /// Returns how often a connection has resumed a session that this end issued.
    pub fn resumed(&self) -> u64 {
        self.0.as_ref().map_or(0, |kept| kept.taken.load(Ordering::Relaxed))
    }

    /// Returns the TLS configuration of the dialling end.
    ///
    /// # Errors
    /// The errors of [`Shared::get`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, ChannelError> {
        let shared = || Shared::get().map(|shared| &shared.client);
        match &self.0 {
            None => shared().cloned(),
            Some(kept) => kept.client.get_or_init(|| shared().map(|shared| remember_dialled(shared))).clone(),
        }
    }

    /// Returns the TLS configuration of the accepting end.
    ///
    /// # Errors
    /// The errors of [`Shared::get`].
    pub fn server(&self) -> Result<Arc<ServerConfig>, ChannelError> {
        let shared = || Shared::get().map(|shared| &shared.server);
        match &self.0 {
            None => shared().cloned(),
            Some(kept) => {
                let make = || shared().map(|shared| remember_accepted(shared, kept.taken.clone()));
                kept.server.get_or_init(make).clone()
            }
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "kept" } else { "none" })
    }
}

fn remember_dialled(shared: &ClientConfig) -> Arc<ClientConfig> {
    let mut client = shared.clone();
    client.resumption = Resumption::in_memory_sessions(MAX_DIALLED * SESSIONS_EACH);
    assert!(!client.enable_early_data, "data sent before an answer can be replayed");
    Arc::new(client)
}

fn remember_accepted(shared: &ServerConfig, taken: Arc<AtomicU64>) -> Arc<ServerConfig> {
    let mut server = shared.clone();
    let cache = ServerSessionMemoryCache::new(MAX_ACCEPTED_SESSIONS);
    server.session_storage = Arc::new(Accepted { cache, taken });
    server.send_tls13_tickets = TICKETS;
    assert_eq!(server.max_early_data_size, 0, "data sent before an answer can be replayed");
    Arc::new(server)
}

/// Sessions issued by this end, each for one use.
#[derive(Debug)]
struct Accepted {
    cache: Arc<ServerSessionMemoryCache>,
    taken: Arc<AtomicU64>,
}

impl StoresServerSessions for Accepted {
    fn put(&self, ticket: Vec<u8>, session: Vec<u8>) -> bool {
        self.cache.put(ticket, session)
    }

    fn get(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(ticket)
    }

    fn take(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let session = self.cache.take(ticket);
        self.taken.fetch_add(session.is_some().into(), Ordering::Relaxed);
        session
    }

    fn can_cache(&self) -> bool {
        true
    }
}
