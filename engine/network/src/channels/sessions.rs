//! Sessions of TLS that an end resumes when it connects again (RFC 8446, section 2.2).
//!
//! **What is saved.** The accepting end signs nothing with the key of its process, and the other end verifies nothing
//! of that. Fresh keys are agreed on all the same (`psk_dhe_ke`, the only mode of the library), so what was recorded
//! stays secret if a session is stolen later, and nothing is sent before the other end has answered (no 0-RTT).
//!
//! **The committee's handshake is not saved.** It runs inside each connection, with fresh nonces, and alone decides
//! who is admitted. It stays bound to the key of the accepting end. That end proved its key in the handshake that made
//! the session's secret, and only the two ends know the secret. So a resumed session proves the key as the first one
//! did, and the dialling end takes the key from the session.
//!
//! **Where they are.** In the memory of the two ends, nowhere else. An accepting end gives out one ticket with each
//! connection, a random number that says nothing, and takes it once. An end that has restarted knows none, and the
//! connection begins with a full handshake, as with a ticket that is used up, or forgotten for others.

use crate::channels::ChannelError;
use crate::channels::tls::Shared;
use rustls::client::Resumption;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::{ClientConfig, ServerConfig};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Maximum number of replicas whose sessions an end keeps to dial them again.
const MAX_DIALLED: usize = 128;
/// Sessions that the library keeps for each of them, at most.
const SESSIONS_EACH: usize = 8;
/// Maximum number of sessions that an accepting end keeps; a further one replaces the oldest, which is not resumed
/// then. Strangers can cause that, and make others' handshakes full ones.
pub const MAX_ACCEPTED_SESSIONS: usize = 1_024;
/// Tickets that an accepting end gives out with each connection.
const TICKETS: usize = 1;

/// Sessions of one local end. By default none are kept.
#[derive(Clone, Default)]
pub struct Sessions(Option<Arc<Kept>>);

/// Configurations with a memory for sessions, made when they are first used.
#[derive(Default)]
struct Kept {
    client: OnceLock<Result<Arc<ClientConfig>, ChannelError>>,
    server: OnceLock<Result<Arc<ServerConfig>, ChannelError>>,
    taken: Arc<AtomicU64>,
}

impl Sessions {
    /// Returns a memory for the sessions of an end, as the one that dials and as the one that accepts.
    pub fn kept() -> Sessions {
        Sessions(Some(Arc::default()))
    }

    /// Returns the number of times that somebody has come back with a session that this end had given out.
    pub fn resumed(&self) -> u64 {
        self.0.as_ref().map_or(0, |kept| kept.taken.load(Ordering::Relaxed))
    }

    /// Returns the configuration of TLS for the end that dials.
    ///
    /// # Errors
    /// Those of [`Shared::get`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, ChannelError> {
        let shared = || Shared::get().map(|shared| &shared.client);
        match &self.0 {
            None => shared().cloned(),
            Some(kept) => kept.client.get_or_init(|| shared().map(|shared| remember_dialled(shared))).clone(),
        }
    }

    /// Returns the configuration of TLS for the end that accepts.
    ///
    /// # Errors
    /// Those of [`Shared::get`].
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
    assert!(!client.enable_early_data, "what is sent before an answer can be replayed");
    Arc::new(client)
}

fn remember_accepted(shared: &ServerConfig, taken: Arc<AtomicU64>) -> Arc<ServerConfig> {
    let mut server = shared.clone();
    let cache = ServerSessionMemoryCache::new(MAX_ACCEPTED_SESSIONS);
    server.session_storage = Arc::new(Accepted { cache, taken });
    server.send_tls13_tickets = TICKETS;
    assert_eq!(server.max_early_data_size, 0, "what is sent before an answer can be replayed");
    Arc::new(server)
}

/// Sessions that this end has given out, each for one use.
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
