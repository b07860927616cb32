//! Client sessions: which sequence numbers of which client were executed, so that no signed command is ever executed twice.
//!
//! A client keeps many commands outstanding, and they may be ordered otherwise than it numbered them. A session therefore has a
//! *floor*, up to which nothing is executed any more, and a window of [`SESSION_WINDOW`] numbers above it with a bit for each. A number
//! beyond the window moves it: numbers that fall out of it are void, whether they were executed or not. So a client has no last command,
//! and one that it lost or gave up does not hold it up.
//!
//! # Eviction
//!
//! Sessions take [`MAX_SESSIONS`] *units* at most: one each, and one for each [`UNIT_BYTES`] of a window's bits. Where that is not
//! enough others give way, by the order of execution, which is the same on every replica. The owner with the most units, if that is more
//! than [`FAIR_UNITS`], loses the session that it used least recently; if nobody has more, the session goes that was used least recently
//! of all. So whoever opens sessions without end under one key loses its own. With keys without end it costs a command for each session
//! that is younger than the victim's, and again whenever the victim uses it.
//!
//! # At most once
//!
//! A bundle tells up to which height it may be executed, its *expiry* e, in what is signed, and is not executed above. A session has a
//! *bound*: the largest expiry of the bundles that were let into it. Evicting it raises the *watermark* of its owner to the bound; with
//! the owner's last session that becomes everybody's. Watermarks never fall. A bundle opens a session only if e is above both
//! watermarks, and what they were is the session's *birth*: a bundle is let into a session only if e is above that.
//!
//! **No command of a bundle is executed twice**, whoever orders the bundle how often, and whatever others do. For say that it was
//! executed, and by which session. As long as the session is there its bit is set, or the floor is above it: it is not executed again.
//! When the session is evicted, its bound is at least e, so a watermark of its owner is from then on, and everybody's when the owner's
//! entry goes. A later session of the client has its birth at or above e, so it does not let the bundle in; nor does the bundle open one. ∎
//!
//! So is no *number* that a client signs in one bundle only. It may sign a command again, under its number, in a bundle that expires
//! later, once it is certain that the earlier one is void and was not executed. That is what [`Memory::Never`] says at a height at or above e:
//! the session is there and older than e without the bit; or there is none, and e is above the watermarks, so none that let the bundle
//! in was evicted. With f+1 replicas one honest one says so. [`Memory::Unknown`] tells it nothing but that the bundle is void.
//!
//! Nobody is shut out: no bundle is let in that expires more than [`MAX_BUNDLE_LIFETIME_BLOCKS`] above the height of execution. So one
//! that is signed now with the longest life is above all watermarks when it is executed, unless between the two every other session was
//! opened or used, which takes `MAX_SESSIONS / FAIR_UNITS` = 4096 commands at the least. Then its client hears that the outcome is unknown.
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

/// Most units that the sessions take, and so most sessions. With the tables around it a session takes about 300 bytes: 20 MB in all.
pub const MAX_SESSIONS: usize = 65_536;
/// Bytes of a window's bits that take as much room in the table as a session.
pub const UNIT_BYTES: usize = 128;
/// Units of the largest session: a table needs as many.
pub const MAX_SESSION_UNITS: usize = 1 + SESSION_WINDOW as usize / 8 / UNIT_BYTES;

const NOBODY: u32 = u32::MAX;

/// What a session says of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It was never executed and now counts as executed.
    Fresh,
    /// It was executed before.
    Duplicate,
    /// Its number is 0 or above [`MAX_SEQUENCE`]; nothing has changed.
    Refused,
    /// Its bundle expires too early for what was evicted, or its number lies behind the window: it never will be executed, and whether it
    /// was is not known.
    Forgotten,
}

/// What is remembered of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// It was executed.
    Executed,
    /// No command with its number was executed in a bundle that expires as this one does, or later.
    Never,
    /// Nothing; in this bundle it never will be executed.
    Unknown,
}

/// One client's executed numbers, and its neighbours in the order of use: among all sessions, and among those of its owner.
#[derive(Clone)]
struct Session {
    client: ClientId,
    window: Window,
    /// Bundles that expire up to here are not let in.
    birth: u64,
    /// The largest expiry of those that were.
    bound: u64,
    owner: u32,
    newer: u32,
    older: u32,
    owners_newer: u32,
    owners_older: u32,
}

impl Session {
    /// A session that nothing is linked to.
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

/// Units of a session whose window has so many bytes of bits.
fn units(bytes: usize) -> u32 {
    1 + bytes.div_ceil(UNIT_BYTES) as u32
}

/// The sessions of all clients.
///
/// The table's hash has keys of the process's own, as clients choose their ids; nothing depends on the table's order.
pub struct Sessions {
    /// In no particular order: where a session stands never shows.
    slots: Vec<Session>,
    free: Vec<u32>,
    by_client: HashMap<ClientId, u32>,
    owners: Owners,
    newest: u32,
    oldest: u32,
    /// No bundle that expires up to here opens a session.
    watermark: u64,
    units: usize,
    limit: usize,
}

impl Sessions {
    /// No sessions yet, and never more units than `limit`, which must be the same on every replica.
    pub fn with_limit(limit: usize) -> Sessions {
        assert!(
            (MAX_SESSION_UNITS..=MAX_SESSIONS).contains(&limit),
            "between {MAX_SESSION_UNITS} and {MAX_SESSIONS} units, not {limit}"
        );
        Sessions {
            slots: Vec::new(),
            free: Vec::new(),
            by_client: HashMap::new(),
            owners: Owners::new(),
            newest: NOBODY,
            oldest: NOBODY,
            watermark: 0,
            units: 0,
            limit,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Units that they take.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Whether a command is to be executed, whose bundle has not expired; if so, it counts as executed from now on.
    #[inline]
    pub fn admit(&mut self, expires: Height, client: ClientId, sequence: u64) -> Admission {
        if sequence == 0 || sequence > MAX_SEQUENCE {
            return Admission::Refused;
        }
        // Commands come in runs of one client, which is then the most recently used: no lookup within a run.
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
            self.weigh(slot, units(before));
        }
        admission
    }

    /// What is remembered of a command in a bundle that expires then.
    #[inline]
    pub fn recall(&self, expires: Height, client: ClientId, sequence: u64) -> Memory {
        if sequence == 0 || sequence > MAX_SEQUENCE {
            return Memory::Never;
        }
        let session = match self.slots.get(self.newest as usize) {
            Some(session) if session.client == client => Some(session),
            _ => self.by_client.get(&client).map(|slot| &self.slots[*slot as usize]),
        };
        match session {
            Some(session) => session.recall(expires.0, sequence),
            None if expires.0 > self.watermark_of(client) => Memory::Never,
            None => Memory::Unknown,
        }
    }

    /// Up to where a bundle may expire without opening a session for the client.
    fn watermark_of(&self, client: ClientId) -> u64 {
        let owner = self.owners.find(client.owner());
        self.watermark.max(owner.map_or(0, |owner| self.owners.get(owner).watermark))
    }

    /// The client's session as the most recently used, begun if there is none, unless the bundle expires too early for that.
    fn find(&mut self, expires: u64, client: ClientId, sequence: u64) -> Option<u32> {
        if let Some(slot) = self.by_client.get(&client).copied() {
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
        self.units += units as usize;
        self.owners.weigh(owner, units, 0);
        self.link(slot);
        slot
    }

    /// The bits of a session take other room than before.
    fn weigh(&mut self, slot: u32, before: u32) {
        let session = &self.slots[slot as usize];
        let (now, owner) = (session.units(), session.owner);
        self.units = self.units + now as usize - before as usize;
        self.owners.weigh(owner, now, before);
        self.make_room(0, slot);
    }

    /// Evicts sessions, but not `kept`, until there is room for so many units more.
    fn make_room(&mut self, units: usize, kept: u32) {
        while self.units + units > self.limit {
            let slot = self.owners.first_to_give_way().chain([self.oldest]).find(|slot| *slot != kept);
            self.evict(slot.expect("the limit leaves room for the largest session"));
        }
    }

    fn evict(&mut self, slot: u32) {
        self.unlink(slot);
        let session = &mut self.slots[slot as usize];
        let (units, owner, bound, client) = (session.units(), session.owner, session.bound, session.client);
        session.window = Window::opened_by(1);
        self.by_client.remove(&client);
        self.free.push(slot);
        self.units -= units as usize;
        self.owners.weigh(owner, 0, units);
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

    /// The sessions as they are now. This copies all of them but their windows: 96 bytes each.
    pub fn freeze(&self) -> FrozenSessions {
        FrozenSessions {
            slots: self.slots.clone(),
            oldest: self.oldest,
            count: self.len(),
            watermark: self.watermark,
            watermarks: self.owners.watermarks(),
        }
    }

    /// Reads what [`FrozenSessions::encode`] wrote; never panics, whatever the bytes.
    pub fn decode(input: &mut Decoder, limit: usize) -> Result<Sessions, DecodeError> {
        let mut sessions = Sessions::with_limit(limit);
        sessions.watermark = input.get_u64("session watermark")?;
        let count = input.get_count("sessions", limit, 16 + 4 * 8 + 2 * 4)?;
        for _ in 0..count {
            let client = ClientId::decode(input)?;
            let (birth, bound) = (input.get_u64("session birth")?, input.get_u64("session bound")?);
            let window = Window::decode(input)?;
            if sessions.by_client.contains_key(&client) {
                return Err(input.invalid("sessions", "a client has two"));
            }
            sessions.put(client, window, birth, bound);
            if sessions.units > limit {
                return Err(input.invalid("sessions", "they take more room than there is"));
            }
        }
        let mut before = None;
        for _ in 0..input.get_count("owners of sessions", count, 16 + 8)? {
            let id = u128::from_le_bytes(input.get_array("owner of sessions")?);
            let watermark = input.get_u64("session watermark")?;
            let Some(owner) = sessions.owners.find(id) else {
                return Err(input.invalid("owner of sessions", "it has none"));
            };
            if before.replace(id) >= Some(id) || watermark == 0 {
                return Err(input.invalid("owner of sessions", "they are not in their shortest form"));
            }
            sessions.owners.get_mut(owner).watermark = watermark;
        }
        if sessions.slots.iter().any(|session| session.birth > sessions.watermark_of(session.client)) {
            return Err(input.invalid("session birth", "it is above the watermarks"));
        }
        Ok(sessions)
    }
}

/// The sessions of all clients at some moment.
pub struct FrozenSessions {
    slots: Vec<Session>,
    oldest: u32,
    count: usize,
    watermark: u64,
    watermarks: Vec<(u128, u64)>,
}

impl FrozenSessions {
    /// Appends the watermark, the sessions from the least to the most recently used, and the owners' watermarks: equal sessions give
    /// equal bytes.
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
