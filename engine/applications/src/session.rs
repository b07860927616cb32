//! Client sessions: the executed sequence numbers of each client, so that no signed command is executed twice.
//!
//! A client has many outstanding commands, which may be executed in any order. So a session has a *floor*, at and below
//! which nothing new is executed, and a window of [`SESSION_WINDOW`] numbers above it with one bit each. A number
//! beyond the window moves the window: numbers that leave it are void, executed or not. So a lost or abandoned command
//! does not block its client.
//!
//! # Eviction
//!
//! Sessions use at most [`MAX_SESSIONS`] *units*: one each, plus one per [`UNIT_BYTES`] of a window's bits. Beyond
//! that, sessions are evicted in an order that depends only on the executed commands, and so is equal on every replica.
//! The owner with the most units, if these exceed [`FAIR_UNITS`], loses its least recently used session. If there is no
//! such owner, the least recently used session of all is evicted. So an attacker who opens many sessions under one key
//! loses only its own. With many keys, evicting a victim's session takes a command for each younger session, and again
//! after each use of the session by the victim.
//!
//! # At most once
//!
//! The signed part of a bundle contains its *expiry* e, the last height at which it may be executed. A session has a
//! *bound*: the largest expiry of the bundles it admitted. Evicting a session raises its owner's *watermark* to the
//! bound; evicting the owner's last session raises the global watermark instead. Watermarks never fall. A bundle opens
//! a session only if e exceeds both watermarks. The larger watermark at that time is the session's *birth*, and a
//! session admits a bundle only if e exceeds its birth.
//!
//! **No command of a bundle is executed twice**, however often the bundle is ordered. Proof: suppose that a session
//! executed the command. While that session exists, the command's bit is set or the floor is above its number, so it is
//! not executed again. When the session is evicted, its bound is at least e, so from then on the owner's watermark is
//! at least e, or the global one after the owner's entry is gone. So a later session of the client has a birth of at
//! least e and does not admit the bundle, and the bundle does not open a session. ∎
//!
//! It follows that a *number* signed in only one bundle is executed at most once. A client may sign a command again
//! under its number, in a bundle with a later expiry, once the earlier bundle is certainly void and was not executed.
//! This is what [`Memory::Never`] means at a height of at least e: either the session has a birth below e and lacks the
//! bit; or there is no session and e is above the watermarks, so no session that admitted the bundle was evicted. Of
//! f+1 replicas that answer this, one is honest. [`Memory::Unknown`] only means that the bundle is void.
//!
//! No client is locked out, because no bundle is admitted that expires more than [`MAX_BUNDLE_LIFETIME_BLOCKS`] above
//! the height of execution. So the expiry of a bundle signed now with the longest lifetime exceeds all watermarks when
//! it is executed, unless every other session was opened or used in between, which takes at least `MAX_SESSIONS /
//! FAIR_UNITS` = 4096 commands. In that case its client learns that the outcome is unknown.
//!
//! [`MAX_BUNDLE_LIFETIME_BLOCKS`]: quorate_types::limits::MAX_BUNDLE_LIFETIME_BLOCKS

mod owners;
mod window;

pub use owners::FAIR_UNITS;
use owners::Owners;
use quorate_types::{ClientId, DecodeError, Decoder, Encoder, Height, Wire};
use std::collections::HashMap;
use window::{Entry, Window};
pub use window::{MAX_SEQUENCE, SESSION_WINDOW};

/// Maximum number of units, and thus of sessions. Including the tables, a session takes about 300 bytes, so all
/// together 20 MB.
pub const MAX_SESSIONS: usize = 65_536;
/// Bytes of a window's bits per unit.
pub const UNIT_BYTES: usize = 128;
/// Units of the largest session, and thus the minimum limit of a table.
pub const MAX_SESSION_UNITS: usize = 1 + SESSION_WINDOW as usize / 8 / UNIT_BYTES;

/// End of the linked lists of sessions.
const NOBODY: u32 = u32::MAX;
/// Number of recently used sessions that are found without a hash: bundles mix the commands of a few.
const RECENT_SESSIONS: usize = 1024;

/// Decision of a session about a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The command was never executed and now counts as executed.
    Fresh,
    /// The command was executed before.
    Duplicate,
    /// The number is 0 or above [`MAX_SEQUENCE`]; nothing has changed.
    Refused,
    /// The bundle expires below a watermark, or the number is below the window. The command will never be executed from
    /// now on; whether it was executed before is unknown.
    Forgotten,
}

/// Knowledge about a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    Executed,
    /// No command with this number was executed in a bundle with this or a later expiry.
    Never,
    /// Whether the command was executed is unknown. In this bundle it will never be executed from now on.
    Unknown,
}

/// Executed numbers of one client, and links to its neighbours in two orders of use: among all sessions, and among its
/// owner's.
#[derive(Clone)]
struct Session {
    client: ClientId,
    window: Window,
    /// Bundles with an expiry up to this height are not admitted.
    birth: u64,
    /// The largest expiry of the admitted bundles.
    bound: u64,
    owner: u32,
    newer: u32,
    older: u32,
    owners_newer: u32,
    owners_older: u32,
}

impl Session {
    /// Creates a session that is not linked yet.
    fn new(client: ClientId, owner: u32, window: Window, birth: u64, bound: u64) -> Session {
        let [newer, older, owners_newer, owners_older] = [NOBODY; 4];
        Session { client, window, birth, bound, owner, newer, older, owners_newer, owners_older }
    }

    #[inline]
    fn admit(&mut self, expires: u64, sequence: u64) -> Admission {
        if expires <= self.birth {
            return match self.window.entry(sequence) {
                Entry::Executed => Admission::Duplicate,
                Entry::New | Entry::Unknown => Admission::Forgotten,
            };
        }
        self.bound = self.bound.max(expires);
        match self.window.enter(sequence) {
            Entry::New => Admission::Fresh,
            Entry::Executed => Admission::Duplicate,
            Entry::Unknown => Admission::Forgotten,
        }
    }

    fn recall(&self, expires: u64, sequence: u64) -> Memory {
        match self.window.entry(sequence) {
            Entry::Executed => Memory::Executed,
            Entry::New if expires > self.birth => Memory::Never,
            Entry::New | Entry::Unknown => Memory::Unknown,
        }
    }

    fn units(&self) -> u32 {
        units(self.window.bytes())
    }
}

/// Returns the client's place among the recently used sessions. The sessions of an owner have places of their own.
#[inline]
fn place_of(client: ClientId) -> usize {
    (client.0 ^ client.owner()) as usize % RECENT_SESSIONS
}

/// Returns the units of a session with a window of this many bytes.
fn units(bytes: usize) -> u32 {
    1 + bytes.div_ceil(UNIT_BYTES) as u32
}

/// Sessions of all clients.
///
/// The table's hash has random keys per process, because clients choose their ids; nothing depends on the table's
/// order.
pub struct Sessions {
    /// In arbitrary order, which is not observable.
    slots: Vec<Session>,
    free: Vec<u32>,
    by_client: HashMap<ClientId, u32>,
    /// Slots of recently used sessions, by [`place_of`] their clients. Clients who collide on purpose only make each
    /// other's look-ups as slow as they are without this table.
    recent: Box<[u32; RECENT_SESSIONS]>,
    owners: Owners,
    newest: u32,
    oldest: u32,
    /// No bundle with an expiry up to this height opens a session.
    watermark: u64,
    units: usize,
    limit: usize,
}

impl Sessions {
    /// Creates an empty table of at most `limit` units, which must be the same on every replica.
    pub fn with_limit(limit: usize) -> Sessions {
        assert!(
            (MAX_SESSION_UNITS..=MAX_SESSIONS).contains(&limit),
            "limit of {limit} units, must be from {MAX_SESSION_UNITS} to {MAX_SESSIONS}"
        );
        Sessions {
            slots: Vec::new(),
            free: Vec::new(),
            by_client: HashMap::new(),
            recent: Box::new([NOBODY; RECENT_SESSIONS]),
            owners: Owners::new(),
            newest: NOBODY,
            oldest: NOBODY,
            watermark: 0,
            units: 0,
            limit,
        }
    }

    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Returns the units used by all sessions.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Decides whether to execute a command of a bundle that has not expired. From then on, a fresh command counts as
    /// executed.
    #[inline]
    pub fn admit(&mut self, expires: Height, client: ClientId, sequence: u64) -> Admission {
        if sequence == 0 || sequence > MAX_SEQUENCE {
            return Admission::Refused;
        }
        // Consecutive commands often belong to the same client, which then has the newest session, so they need no
        // lookup.
        let slot = match self.slots.get(self.newest as usize) {
            Some(session) if session.client == client => self.newest,
            _ => match self.find(expires.0, client, sequence) {
                Some(slot) => slot,
                None => return Admission::Forgotten,
            },
        };
        let session = &mut self.slots[slot as usize];
        let before = session.window.bytes();
        let admission = session.admit(expires.0, sequence);
        if session.window.bytes() != before {
            self.on_resized(slot, units(before));
        }
        admission
    }

    /// Returns the knowledge about a command in a bundle with this expiry.
    #[inline]
    pub fn recall(&self, expires: Height, client: ClientId, sequence: u64) -> Memory {
        if sequence == 0 || sequence > MAX_SEQUENCE {
            return Memory::Never;
        }
        match self.slot_of(client).map(|slot| &self.slots[slot as usize]) {
            Some(session) => session.recall(expires.0, sequence),
            None if expires.0 > self.watermark_of(client) => Memory::Never,
            None => Memory::Unknown,
        }
    }

    /// Returns the height that the expiry of a bundle must exceed to open a session for the client.
    fn watermark_of(&self, client: ClientId) -> u64 {
        let owner = self.owners.find(client.owner());
        self.watermark.max(owner.map_or(0, |owner| self.owners.get(owner).watermark))
    }

    /// Returns the slot of the client's session.
    #[inline]
    fn slot_of(&self, client: ClientId) -> Option<u32> {
        let recent = self.recent[place_of(client)];
        match self.slots.get(recent as usize) {
            Some(session) if session.client == client => Some(recent),
            _ => self.by_client.get(&client).copied(),
        }
    }

    /// Finds or opens the client's session and makes it the most recently used. Returns `None` if the client has no
    /// session and the bundle expires too early to open one.
    fn find(&mut self, expires: u64, client: ClientId, sequence: u64) -> Option<u32> {
        if let Some(slot) = self.slot_of(client) {
            self.recent[place_of(client)] = slot;
            self.unlink(slot);
            self.link(slot);
            return Some(slot);
        }
        let birth = self.watermark_of(client);
        if expires <= birth {
            return None;
        }
        self.make_room(1, NOBODY);
        Some(self.put(client, Window::opened_by(sequence), birth, expires))
    }

    /// Adds a session as the most recently used.
    fn put(&mut self, client: ClientId, window: Window, birth: u64, bound: u64) -> u32 {
        let owner = self.owners.find(client.owner()).unwrap_or_else(|| self.owners.insert(client.owner()));
        let session = Session::new(client, owner, window, birth, bound);
        let units = session.units();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = session;
                slot
            }
            None => {
                self.slots.push(session);
                self.slots.len() as u32 - 1
            }
        };
        self.by_client.insert(client, slot);
        self.recent[place_of(client)] = slot;
        self.units += units as usize;
        self.owners.adjust_units(owner, units, 0);
        self.link(slot);
        slot
    }

    /// Updates the counts after a session's window has grown or shrunk.
    fn on_resized(&mut self, slot: u32, before: u32) {
        let session = &self.slots[slot as usize];
        let (now, owner) = (session.units(), session.owner);
        self.units = self.units + now as usize - before as usize;
        self.owners.adjust_units(owner, now, before);
        self.make_room(0, slot);
    }

    /// Evicts sessions other than `kept` until `units` more fit.
    fn make_room(&mut self, units: usize, kept: u32) {
        while self.units + units > self.limit {
            let slot = self.owners.eviction_candidates().chain([self.oldest]).find(|slot| *slot != kept);
            self.evict(slot.expect("the limit leaves room for the largest session"));
        }
    }

    fn evict(&mut self, slot: u32) {
        self.unlink(slot);
        let session = &mut self.slots[slot as usize];
        let (units, owner, bound, client) = (session.units(), session.owner, session.bound, session.client);
        session.window = Window::opened_by(1);
        self.by_client.remove(&client);
        let recent = &mut self.recent[place_of(client)];
        if *recent == slot {
            *recent = NOBODY;
        }
        self.free.push(slot);
        self.units -= units as usize;
        self.owners.adjust_units(owner, 0, units);
        let entry = self.owners.get_mut(owner);
        entry.watermark = entry.watermark.max(bound);
        if let Some(watermark) = self.owners.remove_if_empty(owner) {
            self.watermark = self.watermark.max(watermark);
        }
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        match self.slots.get_mut(before as usize) {
            Some(session) => session.newer = slot,
            None => self.oldest = slot,
        }
        let owner = self.owners.get_mut(self.slots[slot as usize].owner);
        let owners_before = std::mem::replace(&mut owner.newest, slot);
        match self.slots.get_mut(owners_before as usize) {
            Some(session) => session.owners_newer = slot,
            None => owner.oldest = slot,
        }
        let session = &mut self.slots[slot as usize];
        (session.older, session.newer) = (before, NOBODY);
        (session.owners_older, session.owners_newer) = (owners_before, NOBODY);
    }

    fn unlink(&mut self, slot: u32) {
        let Session { owner, newer, older, owners_newer, owners_older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(session) => session.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(session) => session.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(owners_newer as usize) {
            Some(session) => session.owners_older = owners_older,
            None => self.owners.get_mut(owner).newest = owners_older,
        }
        match self.slots.get_mut(owners_older as usize) {
            Some(session) => session.owners_newer = owners_newer,
            None => self.owners.get_mut(owner).oldest = owners_newer,
        }
    }

    /// Freezes the sessions. Copies 96 bytes of each, but not their windows.
    pub fn freeze(&self) -> FrozenSessions {
        FrozenSessions {
            slots: self.slots.clone(),
            oldest: self.oldest,
            count: self.len(),
            watermark: self.watermark,
            watermarks: self.owners.watermarks(),
        }
    }

    /// Decodes the output of [`FrozenSessions::encode`]. Never panics on invalid bytes.
    pub fn decode(input: &mut Decoder, limit: usize) -> Result<Sessions, DecodeError> {
        let mut sessions = Sessions::with_limit(limit);
        sessions.watermark = input.get_u64("session watermark")?;
        let count = input.get_count("sessions", limit, 16 + 4 * 8 + 2 * 4)?;
        for _ in 0..count {
            let client = ClientId::decode(input)?;
            let (birth, bound) = (input.get_u64("session birth")?, input.get_u64("session bound")?);
            let window = Window::decode(input)?;
            if sessions.by_client.contains_key(&client) {
                return Err(input.invalid("sessions", "two of one client"));
            }
            sessions.put(client, window, birth, bound);
            if sessions.units > limit {
                return Err(input.invalid("sessions", "too many units"));
            }
        }
        let mut before = None;
        for _ in 0..input.get_count("owners of sessions", count, 16 + 8)? {
            let id = u128::from_le_bytes(input.get_array("owner of sessions")?);
            let watermark = input.get_u64("session watermark")?;
            let Some(owner) = sessions.owners.find(id) else {
                return Err(input.invalid("owner of sessions", "has no session"));
            };
            if before.replace(id) >= Some(id) || watermark == 0 {
                return Err(input.invalid("owner of sessions", "not in canonical form"));
            }
            sessions.owners.get_mut(owner).watermark = watermark;
        }
        if sessions.slots.iter().any(|session| session.birth > sessions.watermark_of(session.client)) {
            return Err(input.invalid("session birth", "above the watermarks"));
        }
        Ok(sessions)
    }
}

/// Frozen sessions of all clients.
pub struct FrozenSessions {
    slots: Vec<Session>,
    oldest: u32,
    count: usize,
    watermark: u64,
    watermarks: Vec<(u128, u64)>,
}

impl FrozenSessions {
    /// Appends the watermark, the sessions from the least to the most recently used, and the owners' watermarks. Equal
    /// sessions give equal bytes.
    pub fn encode(&self, out: &mut Encoder) {
        out.put_u64(self.watermark);
        out.put_count(self.count);
        let mut slot = self.oldest;
        while let Some(session) = self.slots.get(slot as usize) {
            session.client.encode(out);
            out.put_u64(session.birth);
            out.put_u64(session.bound);
            session.window.encode(out);
            slot = session.newer;
        }
        out.put_count(self.watermarks.len());
        for (owner, watermark) in &self.watermarks {
            out.put_slice(&owner.to_le_bytes());
            out.put_u64(*watermark);
        }
    }
}
